//! What `weir run`, `weir sweep` and `weir compare` have in common: the flags of their result, how their errors are printed, and
//! how flags of `weir test` in a scenario are read. `job` runs an experiment, `progress` prints its progress, `result` stores it.

mod axes;
mod changes;
pub(crate) mod compare;
mod flags;
mod job;
mod progress;
mod result;
pub(crate) mod run;
pub(crate) mod sweep;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;
use weir_experiment::scenario::{self, ScenarioError};
use weir_model::Refusal;
use weir_model::plan::Plan;
use weir_model::units::Seed;

use crate::commands::test::{TestArgs, plan as test_plan};
use crate::commands::values::Nominal;
use crate::engine;
use crate::error::CliError;
use crate::parsed;

pub(crate) use job::FindAgents;
use job::{Job, execute, execute_at};
pub(crate) use progress::cleaned;

/// Flags of the result, the same for all three commands.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Result")]
pub(crate) struct ResultArgs {
    /// Print the result as one JSON object (weir.experiment/1) instead of text
    #[arg(short = 'J', long)]
    pub(crate) json: bool,
    /// Also write the result as JUnit XML: a test case per expectation; - is stdout, for this and the next two
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Also write every point and metric as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Also write the result as one HTML page: tables, curves, expectations
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Also write each figure as SVG into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) svg: Option<PathBuf>,
    /// Store neither the runs nor a checkpoint
    #[arg(long)]
    pub(crate) no_store: bool,
    /// Print the whole output of commands (`weir run -V`).
    #[arg(skip)]
    pub(crate) verbose: bool,
    /// The experiment's id, given by the process that started it; set only for jobs.
    #[arg(skip)]
    pub(crate) id: Option<String>,
}

/// Whether a text is a valid id. An id becomes the name of a file.
fn is_id(text: &str) -> bool {
    let right = |c: char| c.is_ascii_alphanumeric() || c == '-';
    !text.is_empty() && text.len() <= 64 && text.chars().all(right)
}

/// Parses flags of `weir test` from the `args` of a scenario.
pub(crate) fn plan_from_flags(words: &[String]) -> Result<Plan, Box<Refusal>> {
    #[derive(Debug, Parser)]
    #[command(name = "weir test", no_binary_name = true, disable_help_flag = true)]
    struct Line {
        #[command(flatten)]
        args: TestArgs,
    }
    const HOST: &str = "host.invalid";
    // The step itself names the host, so everything after this placeholder is a flag.
    let typed = ["weir", "test", HOST].into_iter().chain(words.iter().map(String::as_str));
    let typed: Vec<OsString> = typed.map(Into::into).collect();
    let line = parsed::read(&typed, |words| Line::try_parse_from(&words[2..]))
        .map_err(|e| Box::new(parsed::refusal(&e, &typed)))?;
    let output = &line.args.output;
    let refused = [
        (output.json || output.json_stream, "--json"),
        (output.csv.is_some(), "--csv"),
        (output.logfile.is_some(), "--logfile"),
        (output.packet_log.is_some(), "--packet-log"),
        (output.prometheus.is_some(), "--prometheus"),
        (output.otlp.is_some(), "--otlp"),
        (output.live, "--live"),
        (output.before.is_some(), "--before"),
        (output.after.is_some(), "--after"),
        (line.args.replay.replay.is_some(), "--replay"),
        (line.args.later.file.is_some(), "--file"),
        (line.args.general.plan.is_some(), "--plan"),
        (line.args.general.has_script(), "--mgen-script, --rude-script and --ditg-script"),
        (line.args.general.save_plan.is_some(), "--save-plan"),
        (line.args.general.control_socket.is_some(), "--control-socket"),
        (line.args.general.start_at.is_some(), "--start-at"),
    ];
    let connect_timeout = line.args.general.connect_timeout;
    let without_effect = [
        (line.args.later.is_repeated(), "--runs, --precision, --confidence and --compare-content"),
        (!output.label.is_empty(), "--label"),
        (output.no_store, "--no-store"),
        (line.args.measure.nominal == Some(Nominal::Auto), "--nominal auto"),
        (connect_timeout != sweep::CONNECT_TIMEOUT, "--connect-timeout"),
    ];
    if let Some((_, flag)) = refused.iter().chain(&without_effect).find(|(given, _)| *given) {
        return Err(Box::new(Refusal::of_field("usage", *flag, "given in a scenario", OWN_FIELD)));
    }
    let threads = [
        (line.args.general.affinity.is_some(), "affinity"),
        (line.args.general.scheduling.is_some(), "scheduling"),
        (line.args.general.spin.is_some(), "spin"),
    ];
    if let Some((_, field)) = threads.iter().find(|(given, _)| *given) {
        return Err(Box::new(Refusal::of_field(
            "usage",
            format!("--{field}"),
            "given in a scenario's args",
            format!("threads.{field} of the test"),
        )));
    }
    let planned = test_plan::plan(&line.args, None, Seed(0)).map_err(|e| Box::new(e.refusal()))?;
    let plan = Plan { host: None, ..planned.plan };
    let config = engine::ClientConfig::new(plan.clone(), HOST);
    engine::check(&config)
        .map_err(|error| Box::new(test_plan::of_engine(error, &plan).refusal()))?;
    Ok(plan)
}

/// Accepted in place of a flag that concerns the whole run.
const OWN_FIELD: &str = "the scenario's own field for it";

/// The error of an experiment that did not run: what is wrong with the scenario, or what a program that it started reported.
pub(crate) fn refused(error: ScenarioError) -> CliError {
    let message = error.to_string();
    match error {
        ScenarioError::Model(error) => CliError::Model(error),
        ScenarioError::File { operation, path, source } => CliError::io(operation, path)(source),
        ScenarioError::Lab(error) => CliError::Lab(error),
        ScenarioError::Refused { field, .. } => CliError::Refused(Box::new(Refusal {
            field: Some(field),
            ..Refusal::new("usage", message, 2)
        })),
        ScenarioError::Flags { field, refusal } => {
            CliError::Refused(Box::new(Refusal { field: Some(field), message, ..*refusal }))
        }
        ScenarioError::Program { is_unavailable, .. } => CliError::Experiment {
            reason: progress::cleaned(&message),
            exit_code: if is_unavailable { 4 } else { 3 },
        },
        other => CliError::Internal(progress::cleaned(&other.to_string())),
    }
}

/// Whether a process is running the experiment of a checkpoint.
pub(crate) fn is_running(checkpoint: &Path) -> bool {
    scenario::checkpoint::read_header(checkpoint).is_ok_and(|(_, is_running)| is_running)
}

/// The text of a file that a flag names.
pub(crate) fn read_text(path: &Path) -> Result<String, CliError> {
    scenario::read(path).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_not_an_id() {
        assert!(is_id("20261122-203009-ab12cd"));
        for text in ["", "../x", "a/b", ".", "a b", &"x".repeat(65)] {
            assert!(!is_id(text), "{text}");
        }
    }

    #[test]
    fn flags_that_a_scenario_has_fields_for_are_refused() {
        let of = |line: &str| {
            plan_from_flags(&line.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>())
        };
        assert!(of("-u -b 1M").is_ok());
        for (line, field, accepted) in [
            ("--start-at monotonic:9", "--start-at", OWN_FIELD),
            ("--json", "--json", OWN_FIELD),
            ("--runs 3", "--runs, --precision, --confidence and --compare-content", OWN_FIELD),
            ("--label a=b", "--label", OWN_FIELD),
            ("--no-store", "--no-store", OWN_FIELD),
            ("--connect-timeout 1s", "--connect-timeout", OWN_FIELD),
            ("--nominal auto", "--nominal auto", OWN_FIELD),
            ("--control-socket /x", "--control-socket", OWN_FIELD),
            ("--affinity 0", "--affinity", "threads.affinity of the test"),
            ("--scheduling normal", "--scheduling", "threads.scheduling of the test"),
            ("--spin 60us", "--spin", "threads.spin of the test"),
            ("-S 256", "--tos", "the whole byte, 0 to 255: decimal, 0x hexadecimal or 0 octal"),
        ] {
            let refused = of(line).unwrap_err();
            assert_eq!(refused.field.as_deref(), Some(field), "{line}");
            assert_eq!(refused.accepted.as_deref(), Some(accepted), "{line}");
        }
    }
}
