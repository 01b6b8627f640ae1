//! Experiments: metrics of a record, expectations, scenarios and their results.
//!
//! - [`Metric`]: one figure of a record by its name, such as `p99 one_way_delay of voice`.
//! - [`Rule`]: an expectation of a metric, such as `loss <= 0.1 %`, judged over one run or over repetitions.
//! - [`Scenario`]: `weir.scenario/1`, hosts, steps and expectations.
//! - [`Experiment`]: `weir.experiment/1`, the result of a scenario or a sweep.

mod metric;
mod outcome;
mod rule;
mod scenario;
mod table;
mod variables;

pub use crate::metric::Unit;
pub use metric::Metric;
pub use outcome::{
    Bounds, Confidence, EXPERIMENT_SCHEMA, Experiment, FirstPacket, Found, HostUse, Judged,
    LeftOut, LeftOutReason, Outcome, Point, Precision, RunRef, StepOutcome, Summary, Together,
    ToolVersion,
};
pub use rule::{Comparison, Rule};
pub use scenario::{
    Action, CollectStep, CommandFigure, CommandRule, CommandStep, CompareStep, EmulatorSpec,
    HostSpec, ImpairStep, Impairing, LabSetup, LineTest, Readiness, RepeatStep, SCENARIO_SCHEMA,
    Scenario, SearchKind, SearchStep, Step, StopStep, SweepStep, TestStep, Topology, Values,
    WaitStep, check_axes, nearest, parameter_of, set_parameters, test_plan,
};
pub use scenario::{
    CellUnit, ChartSpec, Piece, PublishedColumns, RowFigure, STEP_AXIS, TableFigure, TableSpec,
    alternatives, cell_pieces,
};
pub use table::{
    ResultTable, TableAxis, TableCell, TableChart, TableColumn, TableReference, TableRow,
};
use variables::expand_words;
pub(crate) use variables::ranges;
pub use variables::{Variables, expand};
