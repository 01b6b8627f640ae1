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
    /// A flow of the plan can't be simulated.
    #[error("simulation: flow {flow:?} {given}; accepted: {accepted}")]
    Flow {
        /// Its name.
        flow: String,
        /// Why it can't be simulated, as a predicate: "is TCP".
        given: &'static str,
        /// What is accepted.
        accepted: &'static str,
    },
    /// The flow of the impairment does not exist, or its dispositions also depend on other flows.
    #[error("prediction: flow {flow:?} {given}; accepted: {accepted}")]
    Predict {
        /// Its name.
        flow: String,
        /// Why it can't be predicted, as a predicate: "shares a link".
        given: &'static str,
        /// What can be predicted.
        accepted: &'static str,
    },
}
