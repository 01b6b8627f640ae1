//! `weir.scenario/1`: an experiment as a file.
//!
//! Strings may contain `{name}` (see [`expand`]). A sweep's test and impairment may contain the names of its
//! axes, which are replaced at each point. Everything is checked before anything starts.
//!
//! The modules: `types` (a scenario and its hosts), `steps` and `command` (its steps), `parse` and `check` (from text to a
//! valid scenario), `parameter` (a sweep's values in a plan), `table` (the layout of its results).

mod check;
mod command;
mod parameter;
mod parse;
mod steps;
mod table;
mod types;

use crate::ModelError;

pub use crate::nearest;
pub use check::check_axes;
pub use command::{CommandFigure, CommandRule, CommandStep, LineTest, Readiness};
pub use parameter::{parameter_of, set_parameters, test_plan};
pub use steps::{
    Action, CollectStep, CompareStep, ImpairStep, RepeatStep, SearchKind, SearchStep, Step,
    StopStep, SweepStep, TestStep, Topology, WaitStep,
};
pub use table::{
    CellUnit, ChartSpec, Piece, PublishedColumns, RowFigure, STEP_AXIS, TableFigure, TableSpec,
    alternatives, cell_pieces,
};
pub use types::{EmulatorSpec, HostSpec, Impairing, LabSetup, Scenario};

/// The schema name.
pub const SCENARIO_SCHEMA: &str = "weir.scenario/1";

/// The values of the axes of a sweep.
pub type Values = Vec<(String, Vec<String>)>;

fn refuse(field: &str, given: &str, accepted: &str) -> Result<(), ModelError> {
    Err(ModelError::Field { field: field.into(), given: given.into(), accepted: accepted.into() })
}

/// An error inside a document, with its path.
fn inside(at: &str, error: ModelError) -> ModelError {
    match error {
        ModelError::Field { field, given, accepted } => {
            ModelError::Field { field: format!("{at}: {field}"), given, accepted }
        }
        ModelError::Value { given, accepted, .. } => ModelError::Field {
            field: at.into(),
            given: format!("'{given}'"),
            accepted: accepted.into(),
        },
        ModelError::Document(error) => error.inside(at).into(),
    }
}
