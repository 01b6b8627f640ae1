//! What `weir run` and `weir sweep` have in common: running an experiment, telling of it, keeping its journal and result.

pub(crate) mod compare;
pub(crate) mod run;
pub(crate) mod sweep;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use clap::Parser;
use weir_experiment::scenario::journal::{Head, JOURNAL_SCHEMA, Journal};
use weir_experiment::scenario::{self, Files, Happening, Options, ScenarioError, junit, text};
use weir_model::experiment::{Experiment, HostSpec, Outcome, Scenario, Variables};
use weir_model::json::to_line;
use weir_model::plan::Plan;
use weir_model::record::Status;
use weir_model::units::Seed;
use weir_runs::Place;

use crate::app::note;
use crate::commands::runs::RunsError;
use crate::commands::test::{TestArgs, plan as test_plan};
use crate::engine::{Stop, StopReason};
use crate::error::CliError;
use crate::output::print;
use crate::stamp::{Identity, VERSION};
use crate::time::since_epoch;
use crate::{random, signals};

/// Flags that both commands have.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Result")]
pub(crate) struct ResultArgs {
    /// Print the result as one JSON object (weir.experiment/1) instead of text
    #[arg(short = 'J', long)]
    pub(crate) json: bool,
    /// Also write the result as JUnit XML: a test case for each expectation
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
    /// Don't keep the runs, nor a journal to go on from
    #[arg(long)]
    pub(crate) no_store: bool,
}

/// What is to be done.
pub(crate) struct Job {
    pub(crate) scenario: Scenario,
    /// Its text, for the journal.
    pub(crate) text: String,
    pub(crate) directory: PathBuf,
    pub(crate) quick: bool,
    pub(crate) simulate: bool,
    pub(crate) set: Variables,
    pub(crate) hosts: BTreeMap<String, HostSpec>,
    pub(crate) seed: Option<Seed>,
    /// The journal of an earlier session.
    pub(crate) earlier: Option<(Journal, Head)>,
}

/// Where journals and results are kept.
pub(crate) fn directory() -> Result<(Place, PathBuf), CliError> {
    let place = Place::of_this_user().map_err(RunsError::from)?;
    let path = place.prepare_directory("experiments").map_err(RunsError::from)?;
    Ok((place, path))
}

/// Reads flags of `weir test`, as a scenario's `args` hold them.
pub(crate) fn words(words: &[String]) -> Result<Plan, String> {
    #[derive(Debug, Parser)]
    #[command(name = "weir test", no_binary_name = true, disable_help_flag = true)]
    struct Line {
        #[command(flatten)]
        args: TestArgs,
    }
    const HOST: &str = "host.invalid";
    // The host is the step's own; what is behind it are flags.
    let line = std::iter::once(HOST).chain(words.iter().map(String::as_str));
    let line = Line::try_parse_from(line).map_err(|e| {
        let text = e.to_string();
        let first = text.lines().next().unwrap_or_default();
        first.trim_start_matches("error: ").to_owned()
    })?;
    let output = &line.args.output;
    let refused = [
        (output.json || output.json_stream, "--json"),
        (output.csv.is_some(), "--csv"),
        (output.logfile.is_some(), "--logfile"),
        (output.packet_log.is_some(), "--packet-log"),
        (line.args.general.plan.is_some(), "--plan"),
        (line.args.general.save_plan.is_some(), "--save-plan"),
        (line.args.general.control_socket.is_some(), "--control-socket"),
    ];
    if let Some((_, flag)) = refused.iter().find(|(given, _)| *given) {
        return Err(format!("{flag}: not in a scenario, which has words of its own for it"));
    }
    let planned = test_plan::plan(&line.args, None, Seed(0)).map_err(|e| e.chain())?;
    Ok(Plan { host: None, ..planned.plan })
}

/// Runs it and tells of it; the exit code by contract.
pub(crate) fn execute(job: Job, args: &ResultArgs, command: &[OsString]) -> Result<i32, CliError> {
    let stop = Stop::new();
    signals::listen(&stop)?;
    let now = since_epoch(SystemTime::now());
    let identity = Identity::new(command, Default::default(), now, random::u64());
    // A seed that people can type, and that JSON keeps.
    let drawn = Seed(random::u64() >> 32);
    let (id, started_at, seed) = match &job.earlier {
        Some((_, head)) => (head.id.clone(), head.started_at.clone(), head.seed),
        None => (
            identity.id.clone(),
            identity.started_at.clone(),
            job.seed.or(job.scenario.seed).unwrap_or(drawn),
        ),
    };
    let mut kept_in = None;
    let journal = match job.earlier {
        Some((journal, _)) => {
            kept_in = Some(directory()?);
            journal
        }
        None if args.no_store || job.simulate => Journal::default(),
        None => {
            let head = Head {
                schema: JOURNAL_SCHEMA.into(),
                id: id.clone(),
                started_at: started_at.clone(),
                scenario: job.text.clone(),
                quick: job.quick,
                set: job.set.clone(),
                hosts: job.hosts.clone(),
                seed,
                directory: job.directory.clone(),
                command: identity.command.clone(),
            };
            let (place, directory) = directory()?;
            let path = directory.join(format!("{id}.journal"));
            let journal =
                Journal::create(&path, &head).map_err(CliError::io("write journal", &path))?;
            place.give(&path).map_err(RunsError::from)?;
            kept_in = Some((place, directory));
            journal
        }
    };
    let program = std::env::current_exe().map_err(CliError::io("find", "this program"))?;
    let is_stopped = || stop.reason().is_some();
    let telling = Mutex::new(());
    let tell = |happening: &Happening<'_>| {
        let _one = telling.lock().unwrap_or_else(|e| e.into_inner());
        told(happening, args.json);
    };
    let monotonic_ns = || weir_net::clock::Clock::System.monotonic_ns();
    let options = Options {
        program,
        id: id.clone(),
        started_at,
        version: VERSION.into(),
        command: identity.command.clone(),
        seed,
        quick: job.quick,
        simulate: job.simulate,
        no_store: args.no_store,
        files: Files { directory: job.directory },
        words: &words,
        is_stopped: &is_stopped,
        tell: &tell,
        monotonic_ns: &monotonic_ns,
    };
    if !args.json {
        print(&head(&job.scenario, &options))?;
    }
    let experiment = scenario::run(&job.scenario, &options, journal).map_err(refused)?;
    finish(&experiment, args, kept_in.as_ref())?;
    if !args.json {
        let resumable = kept_in.is_some() && experiment.status != Status::Complete;
        let mut closing = text::closing(&experiment);
        if resumable {
            closing += &format!("to go on: weir run --resume {id}\n");
        }
        print(&closing)?;
    }
    Ok(exit_code(&experiment, &stop))
}

fn head(scenario: &Scenario, options: &Options<'_>) -> String {
    let mut out = format!("{}\n", scenario.title.as_ref().unwrap_or(&scenario.name));
    if let Some(method) = &scenario.method {
        out += &format!("{}\n", method.trim());
    }
    if options.quick {
        out += "quick: fewer and shorter runs than the method asks for; not for publication\n";
    }
    out.push('\n');
    out
}

/// Writes what was asked for, and the result beside its journal.
fn finish(
    experiment: &Experiment,
    args: &ResultArgs,
    kept_in: Option<&(Place, PathBuf)>,
) -> Result<(), CliError> {
    let line = to_line(experiment).map_err(|e| CliError::Internal(e.to_string()))?;
    if let Some((place, directory)) = kept_in {
        let path = directory.join(format!("{}.json", experiment.id));
        write(&path, &format!("{line}\n"))?;
        place.give(&path).map_err(RunsError::from)?;
    }
    if let Some(path) = &args.junit {
        write(path, &junit::junit(experiment))?;
    }
    if let Some(path) = &args.csv {
        write(path, &csv(experiment))?;
    }
    let page = weir_report::page::of_experiment(experiment);
    if let Some(path) = &args.html {
        write(path, &weir_report::page::html(&page))?;
    }
    if let Some(directory) = &args.svg {
        std::fs::create_dir_all(directory).map_err(CliError::io("make directory", directory))?;
        for figure in page.figures() {
            write(&directory.join(format!("{}.svg", figure.id)), &figure.svg())?;
        }
    }
    if args.json {
        print(&format!("{line}\n"))?;
    }
    Ok(())
}

/// By a new file and its name: a full disk leaves what was there.
fn write(path: &Path, text: &str) -> Result<(), CliError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let beside = PathBuf::from(name);
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|e| {
        let _ = std::fs::remove_file(&beside);
        CliError::io("write", path)(e)
    })
}

/// A row for each point and metric; names of columns as in `weir.experiment/1`.
fn csv(experiment: &Experiment) -> String {
    use weir_model::experiment::StepOutcome;
    fn axes<'a>(steps: &'a [StepOutcome], out: &mut Vec<&'a str>) {
        for step in steps {
            for axis in &step.axes {
                if !out.contains(&axis.as_str()) {
                    out.push(axis);
                }
            }
            axes(&step.steps, out);
        }
    }
    fn rows(steps: &[StepOutcome], axes: &[&str], out: &mut String) {
        for step in steps {
            for point in &step.points {
                for (metric, s) in &point.metrics {
                    let number = |v: Option<f64>| v.map_or(String::new(), |v| v.to_string());
                    let mut cells = vec![step.name.clone()];
                    cells
                        .extend(axes.iter().map(|a| point.at.get(*a).cloned().unwrap_or_default()));
                    cells.push(metric.clone());
                    cells.push(s.count.to_string());
                    cells.push(s.mean.to_string());
                    cells.push(number(s.variance));
                    cells.push(number(s.deviation));
                    cells.push(number(s.interval.map(|i| i.low)));
                    cells.push(number(s.interval.map(|i| i.high)));
                    cells.push(number(s.interval.map(|i| i.confidence_ratio)));
                    cells.extend([s.min.to_string(), s.max.to_string()]);
                    cells.extend([point.disturbed.to_string(), point.failed.to_string()]);
                    let quoted = cells.iter().map(|c| match c.contains([',', '"', '\n', '\r']) {
                        true => format!("\"{}\"", c.replace('"', "\"\"")),
                        false => c.clone(),
                    });
                    *out += &quoted.collect::<Vec<_>>().join(",");
                    out.push('\n');
                }
            }
            rows(&step.steps, axes, out);
        }
    }
    let mut names = vec![];
    axes(&experiment.steps, &mut names);
    let mut head = vec!["step"];
    head.extend(&names);
    head.extend([
        "metric",
        "count",
        "mean",
        "variance",
        "deviation",
        "interval_low",
        "interval_high",
        "interval_confidence_ratio",
        "min",
        "max",
        "disturbed",
        "failed",
    ]);
    let mut out = head.join(",") + "\n";
    rows(&experiment.steps, &names, &mut out);
    out
}

fn told(happening: &Happening<'_>, json: bool) {
    match happening {
        Happening::Began { name, action, depth } => {
            if *action != "wait" {
                note(&format!("{}{name} …", "  ".repeat(*depth)));
            }
        }
        Happening::Ran { run, is_old, done, of, left, .. } => {
            let at: Vec<String> = run.at.iter().map(|(n, v)| format!("{n}={v}")).collect();
            let figure = match &run.error {
                Some(error) => error.clone(),
                None => ["throughput", "loss"]
                    .iter()
                    .filter_map(|n| {
                        Some(format!("{n} {}", text::unit_of(n).show(*run.metrics.get(*n)?)))
                    })
                    .collect::<Vec<_>>()
                    .join(", "),
            };
            let mut line = match of {
                0 => format!("  {done}"),
                of => format!("  {done}/{of}"),
            };
            for part in [at.join(" "), figure] {
                if !part.is_empty() {
                    line += &format!("  {part}");
                }
            }
            if *is_old {
                line += "  (done before)";
            }
            if run.disturbed {
                line += if run.superseded { "  disturbed, again" } else { "  disturbed" };
            }
            if let Some(left) = left.filter(|l| *l >= Duration::from_secs(1)) {
                line += &format!("  {} left", minutes(left));
            }
            note(&line);
        }
        Happening::Ended { step, depth } => {
            if *depth == 0 && !json {
                let mut all = text::step(step, 0);
                fn inner(
                    steps: &[weir_model::experiment::StepOutcome],
                    depth: usize,
                    out: &mut String,
                ) {
                    for step in steps {
                        *out += &text::step(step, depth);
                        inner(&step.steps, depth + 1, out);
                    }
                }
                inner(&step.steps, 1, &mut all);
                // A reader that is gone is told at the end.
                let _ = print(&all);
            }
        }
    }
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// The exit code of the contract.
fn exit_code(experiment: &Experiment, stop: &Stop) -> i32 {
    if experiment.status == Status::Interrupted {
        return stop.reason().unwrap_or(StopReason::Interrupted).exit_code();
    }
    match experiment.outcome {
        Outcome::Passed | Outcome::Skipped => 0,
        Outcome::Failed => 1,
        Outcome::Inconclusive => 5,
        Outcome::Error => 3,
    }
}

/// What kept it from running, as the command line tells errors.
pub(crate) fn refused(error: ScenarioError) -> CliError {
    match error {
        ScenarioError::Model(error) => CliError::Model(error),
        ScenarioError::File { operation, path, source } => CliError::io(operation, path)(source),
        ScenarioError::Lab(error) => CliError::Lab(error),
        ScenarioError::Program { what, reason } => CliError::flag(&what, reason, "see the reason"),
        other => CliError::Internal(other.to_string()),
    }
}

/// The text of a file that a flag names.
pub(crate) fn read_text(path: &Path) -> Result<String, CliError> {
    scenario::read(path).map_err(refused)
}
