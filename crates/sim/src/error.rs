//! Errors of simulations.

use weir_impair::ImpairError;
use weir_model::ModelError;

/// An error of a simulation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The plan is invalid.
    #[error("plan: {0}")]
    Plan(#[from] ModelError),
    /// The impairment is invalid.
    #[error(transparent)]
    Impair(#[from] ImpairError),
    /// A flow that can't be simulated.
    #[error("simulation: flow {flow:?} {given}; accepted: {accepted}")]
    Flow {
        /// Its name.
        flow: String,
        /// What it has.
        given: &'static str,
        /// What is accepted.
        accepted: &'static str,
    },
    /// A flow of the impairment whose dispositions depend on other packets too, or that does not exist.
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
