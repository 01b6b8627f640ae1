//! Why a simulation can't be run.

use weir_impair::ImpairError;
use weir_model::ModelError;

/// An error of a simulation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The plan does not hold.
    #[error("plan: {0}")]
    Plan(#[from] ModelError),
    /// The impairment can't be run.
    #[error(transparent)]
    Impair(#[from] ImpairError),
    /// A flow that a virtual clock can't drive.
    #[error("simulation: flow {flow:?} {given}; accepted: {accepted}")]
    Flow {
        /// Its name.
        flow: String,
        /// What it has.
        given: &'static str,
        /// What it would need.
        accepted: &'static str,
    },
    /// A flow of the impairment whose dispositions do not depend on its own packets alone, or that does not exist.
    #[error("prediction: flow {flow:?} {given}; accepted: {accepted}")]
    Predict {
        /// Its name.
        flow: String,
        /// What is wrong with it.
        given: &'static str,
        /// What can be predicted.
        accepted: &'static str,
    },
}
