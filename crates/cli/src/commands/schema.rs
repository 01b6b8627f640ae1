//! `weir schema`: prints the published JSON Schemas, which are compiled into this program.

use clap::{Args, ValueEnum};
use weir_model::schema::{
    experiment_schema, impair_schema, mesh_schema, plan_schema, run_schema, scenario_schema,
    watch_schema,
};

use crate::error::CliError;
use crate::output::print;

/// Print the JSON Schema of a file format
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The file format
    #[arg(value_enum)]
    which: Which,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// weir.run/1, what --json prints
    Run,
    /// weir.plan/1, what --plan reads
    Plan,
    /// weir.impair/1, what `weir impair --config` reads
    Impair,
    /// weir.scenario/1, what `weir run` reads
    Scenario,
    /// weir.experiment/1, what `weir run --json` and `weir sweep --json` print
    Experiment,
    /// weir.mesh/1, what `weir fleet watch` reads
    Mesh,
    /// weir.watch/1, a line of what `weir fleet watch --json` prints
    Watch,
    /// weir.runs-diff/1, what `weir runs diff --json` prints
    RunsDiff,
}

/// Prints the schema.
pub(crate) fn run(args: &SchemaArgs) -> Result<i32, CliError> {
    let schema = match args.which {
        Which::Run => run_schema(),
        Which::Plan => plan_schema(),
        Which::Impair => impair_schema(),
        Which::Scenario => scenario_schema(),
        Which::Experiment => experiment_schema(),
        Which::Mesh => mesh_schema(),
        Which::Watch => watch_schema(),
        Which::RunsDiff => weir_runs::diff_schema(),
    };
    print(&format!("{schema:#}\n"))
}
