//! Scenarios and sweeps: runs steps in sequence, concurrently or repeatedly, summarises runs and judges expectations.
//!
//! The file format is `weir_model::experiment`. Modules: `grid` (points and their order), [`estimate`] (size before
//! the start), `judge` (summaries and expectations), `search` (RFC 2544 and others), [`checkpoint`] (resuming),
//! `environment` (lab, servers, emulators and tests as processes), `steps` (execution), [`text`] and [`junit`]
//! (output).
//!
//! Commands of a scenario run on this machine and in its lab only; no message from the network can start one.

pub mod checkpoint;
mod environment;
pub mod estimate;
mod grid;
mod judge;
pub mod junit;
pub mod pair;
mod plans;
mod published;
mod repetition;
mod search;
mod steps;
mod table;
pub mod text;
pub mod tools;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use weir_jobs::RemoteHosts;
use weir_model::experiment::{
    EXPERIMENT_SCHEMA, Experiment, Impairing, Outcome, RunRef, Scenario, StepOutcome, Variables,
};
use weir_model::hex;
use weir_model::impairment::Impairment;
use weir_model::plan::Plan;
use weir_model::record::Status;
use weir_model::units::Seed;
use weir_model::{ModelError, Refusal};
use weir_net::file::open_regular;

pub use steps::is_installed;

use checkpoint::Checkpoint;
use estimate::Estimate;

/// Why an experiment could not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The scenario is invalid.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A file of the scenario.
    #[error("{operation} {}: {source}", path.display())]
    File {
        /// The operation that failed.
        operation: &'static str,
        /// Which.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The lab could not be made.
    #[error("lab: {0}")]
    Lab(#[from] weir_lab::Error),
    /// A part of the scenario is invalid in its context: flags, search settings, or the load of a comparison.
    #[error("{field}: {}{reason}", given_before(given.as_deref()))]
    Refused {
        /// Which field of which step.
        field: String,
        /// What was given; absent: what is there in the scenario.
        given: Option<String>,
        /// What is wrong with it, or what is accepted.
        reason: String,
    },
    /// The `args` of a test: flags that the command line refuses.
    #[error("{field}: {refusal}")]
    Flags {
        /// Which step's `args`.
        field: String,
        /// What is wrong with which flag.
        refusal: Box<Refusal>,
    },
    /// A program did not do what it is for, while the scenario ran.
    #[error("{what}: {reason}")]
    Program {
        /// Which.
        what: String,
        /// How it failed: its own words where it had some.
        reason: String,
        /// This system does not have it, or does not permit what it does.
        is_unavailable: bool,
    },
    /// It was stopped before the start.
    #[error("stopped before the start")]
    Stopped,
    /// A fault of this program's.
    #[error("{0}")]
    Internal(String),
}

impl ScenarioError {
    fn program(what: &str, reason: &str) -> Self {
        ScenarioError::Program { what: what.into(), reason: reason.into(), is_unavailable: false }
    }

    fn refused(field: &str, reason: &str) -> Self {
        ScenarioError::Refused { field: field.into(), given: None, reason: reason.into() }
    }
}

fn given_before(given: Option<&str>) -> String {
    given.map_or_else(String::new, |given| format!("{given}; accepted: "))
}

/// A scenario's files are read up to this many bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The files that a scenario names. Each is read once: later changes have no effect.
#[derive(Debug, Clone, Default)]
pub struct Files {
    directory: PathBuf,
    read: Arc<Mutex<BTreeMap<String, Arc<str>>>>,
}

impl Files {
    /// Those beside a scenario in this directory.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Files {
        Files { directory: directory.into(), read: Arc::default() }
    }

    /// The files that were read so far.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        let known = self.read.lock().unwrap_or_else(|e| e.into_inner());
        known.keys().map(|name| self.path(name)).collect()
    }

    /// A path beside the scenario.
    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The text of a file beside the scenario.
    ///
    /// # Errors
    /// [`ScenarioError::File`].
    pub fn read(&self, name: &str) -> Result<String, ScenarioError> {
        let mut known = self.read.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(text) = known.get(name) {
            return Ok(text.as_ref().to_owned());
        }
        let path = self.path(name);
        let text = text_of(open_regular(&path), &path)?;
        known.insert(name.to_owned(), text.as_str().into());
        Ok(text)
    }

    /// An impairment in any of its forms.
    ///
    /// # Errors
    /// [`ScenarioError`] naming the field, or the file.
    pub(crate) fn impairment(
        &self,
        form: &Impairing,
        at: &str,
    ) -> Result<Impairment, ScenarioError> {
        let file = form.config_file.as_ref().map(|name| self.read(name)).transpose()?;
        let impairment = form.impairment(at, file.as_deref().unwrap_or_default())?;
        weir_emulator::compile_filters(&impairment).map_err(|error| match error {
            ModelError::Field { field, given, accepted } => {
                let part = match (&form.config_file, &form.config) {
                    (Some(_), _) => ".config_file",
                    (_, Some(_)) => ".config",
                    _ => "",
                };
                ModelError::Field { field: format!("{at}{part}: {field}"), given, accepted }
            }
            other => other,
        })?;
        Ok(impairment)
    }
}

/// The text of a file of at most 16 MiB.
///
/// # Errors
/// [`ScenarioError::File`].
pub fn read(path: &Path) -> Result<String, ScenarioError> {
    text_of(std::fs::File::open(path), path)
}

fn text_of(file: io::Result<std::fs::File>, path: &Path) -> Result<String, ScenarioError> {
    use io::Read;
    let mut text = String::new();
    let fail = |source| ScenarioError::File { operation: "read", path: path.into(), source };
    let file = file.map_err(fail)?;
    let length = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(fail)?;
    if length as u64 > MAX_FILE_BYTES {
        return Err(fail(io::Error::new(io::ErrorKind::InvalidData, "it is longer than 16 MiB")));
    }
    Ok(text)
}

/// SHA-256 in hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    hex::encode(&Sha256::digest(bytes))
}

/// Reads flags of `weir test`, whose meaning is the command line's, into a plan.
pub type ParseTestFlags<'a> = &'a (dyn Fn(&[String]) -> Result<Plan, Box<Refusal>> + Sync);

/// Progress of an experiment.
#[derive(Debug)]
pub enum ScenarioEvent<'a> {
    /// A step started.
    Began {
        /// Its name.
        name: &'a str,
        /// Its action.
        action: &'static str,
        /// Nesting depth.
        depth: usize,
    },
    /// A run finished.
    Ran {
        /// Its step.
        step: &'a str,
        /// What it measured.
        run: &'a RunRef,
        /// It ran in an earlier session.
        is_old: bool,
        /// Finished runs of the step, including this one.
        done: u64,
        /// Runs of the step, as far as known; of a search 0.
        of: u64,
        /// Place of the search among those of the step's points, from 1, and their number.
        point: Option<(u64, u64)>,
        /// Values of the enclosing axes.
        around: &'a [(String, String)],
        /// Metrics of the sent and the received rate, in the step's unit.
        rates: (&'static str, &'static str),
        /// Estimated time for the rest of the step.
        left: Option<Duration>,
    },
    /// The first stage of a point decided how many runs its precision needs; or a point ran once more to probe its peer.
    Planned {
        /// Its step.
        step: &'a str,
        /// The point.
        at: &'a BTreeMap<String, String>,
        /// The message.
        text: &'a str,
    },
    /// A step finished.
    Ended {
        /// Its outcome.
        step: &'a StepOutcome,
        /// Nesting depth.
        depth: usize,
    },
}

/// How to run an experiment.
pub struct Options<'a> {
    /// This program, which tests, serves and impairs.
    pub program: PathBuf,
    /// The experiment's id.
    pub id: String,
    /// Its start, RFC 3339.
    pub started_at: String,
    /// Version of this program.
    pub version: String,
    /// The command line.
    pub command: Vec<String>,
    /// Seed of the order of points and of plans without a seed.
    pub seed: Seed,
    /// `--quick`.
    pub quick: bool,
    /// Simulate instead of running processes.
    pub simulate: bool,
    /// Do not store runs.
    pub no_store: bool,
    /// The scenario's files.
    pub files: Files,
    /// Parses `args` of a test step.
    pub parse_flags: ParseTestFlags<'a>,
    /// Polled; true stops the experiment.
    pub is_stopped: &'a (dyn Fn() -> bool + Sync),
    /// Receives all events.
    pub tell: &'a (dyn Fn(&ScenarioEvent<'_>) + Sync),
    /// This machine's CLOCK_MONOTONIC, ns.
    pub monotonic_ns: &'a (dyn Fn() -> u64 + Sync),
    /// The fleet with the scenario's agents; absent: it names none.
    pub remote: Option<&'a dyn RemoteHosts>,
    /// Warnings about the result that are known before anything is measured.
    pub warnings: Vec<String>,
}

/// Checks all plans and files of a scenario without running it; returns the minimum estimate.
///
/// # Errors
/// [`ScenarioError`] with the step, and what is wrong with it.
pub fn check(
    scenario: &Scenario,
    files: &Files,
    parse_flags: ParseTestFlags<'_>,
) -> Result<Estimate, ScenarioError> {
    check_unless(&|| false, scenario, files, parse_flags)
}

/// As [`check`], until `is_stopped`: many points take seconds.
///
/// # Errors
/// Those of [`check`], and [`ScenarioError::Stopped`].
pub fn check_unless(
    is_stopped: &dyn Fn() -> bool,
    scenario: &Scenario,
    files: &Files,
    parse_flags: ParseTestFlags<'_>,
) -> Result<Estimate, ScenarioError> {
    let agents = plans::Agents { named: &scenario.agents, remote: None };
    plans::check(scenario, &plans::CheckContext { files, parse_flags, agents, is_stopped })
}

/// Checks a scenario as [`check`] does; returns the SHA-256 of every file that it names: plans, laws, published
/// figures and keys.
///
/// # Errors
/// Those of [`check`], and [`ScenarioError::File`] for an unreadable key.
pub fn files(
    scenario: &Scenario,
    files: &Files,
    parse_flags: ParseTestFlags<'_>,
) -> Result<BTreeMap<String, String>, ScenarioError> {
    check(scenario, files, parse_flags)?;
    digests(scenario, files)
}

/// The SHA-256 of every file of a scenario that was checked with `files`.
///
/// # Errors
/// [`ScenarioError::File`] for an unreadable key.
pub fn digests(
    scenario: &Scenario,
    files: &Files,
) -> Result<BTreeMap<String, String>, ScenarioError> {
    let known = files.read.lock().unwrap_or_else(|e| e.into_inner());
    let mut out: BTreeMap<String, String> =
        known.iter().map(|(name, text)| (name.clone(), sha256(text.as_bytes()))).collect();
    drop(known);
    for name in scenario.hosts.values().filter_map(|host| host.key_file.as_ref()) {
        let path = files.path(name);
        let key = open_regular(&path).and_then(|file| {
            let mut key = vec![];
            io::Read::read_to_end(&mut io::Read::take(file, MAX_FILE_BYTES), &mut key)?;
            Ok(key)
        });
        let key = key.map_err(|source| ScenarioError::File { operation: "read", path, source })?;
        out.insert(name.clone(), sha256(&key));
    }
    Ok(out)
}

/// A finished experiment, complete or not.
#[derive(Debug)]
pub struct Ended {
    /// What was measured and judged.
    pub experiment: Experiment,
    /// What ended it early, or failed during clean-up.
    pub error: Option<ScenarioError>,
}

/// Runs an experiment. All completed runs are in the result, the checkpoint and the store, however it ends.
///
/// # Errors
/// [`ScenarioError`] when it could not start.
pub fn run(
    scenario: &Scenario,
    options: &Options<'_>,
    checkpoint: Checkpoint,
) -> Result<Ended, ScenarioError> {
    let looked = plans::CheckContext {
        files: &options.files,
        parse_flags: options.parse_flags,
        agents: plans::Agents { named: &scenario.agents, remote: options.remote },
        is_stopped: options.is_stopped,
    };
    plans::check(scenario, &looked)?;
    let begun = Instant::now();
    let earlier = checkpoint.seconds();
    let sessions = checkpoint.sessions().to_vec();
    let execution = steps::Execution::new(scenario, options, Mutex::new(checkpoint))?;
    let steps = execution.all();
    let hosts = execution.hosts();
    let error = execution.end();
    let stopped = (options.is_stopped)();
    let mut outcome = steps.iter().fold(Outcome::Done, |all, step| all.and(step.outcome));
    if stopped {
        // The steps that did not run might have failed.
        outcome = outcome.and(Outcome::Inconclusive);
    }
    if error.is_some() {
        outcome = outcome.and(Outcome::Error);
    }
    let is_whole =
        error.is_none() && steps.iter().all(|s| s.outcome != Outcome::Skipped || options.simulate);
    // The files were read before the start; whatever happens to them, the figures are kept.
    let (tables, error) = match table::tables(&scenario.tables, &steps, &options.files) {
        Ok(tables) => (tables, error),
        Err(e) => (vec![], error.or(Some(e))),
    };
    let experiment = Experiment {
        schema: EXPERIMENT_SCHEMA.into(),
        id: options.id.clone(),
        version: checkpoint::versions(&sessions).unwrap_or_else(|| options.version.clone()),
        warnings: [options.warnings.clone(), checkpoint::differences(&sessions)].concat(),
        name: scenario.name.clone(),
        title: scenario.title.clone(),
        method: scenario.method.clone(),
        tags: scenario.tags.clone(),
        started_at: options.started_at.clone(),
        seconds: earlier + begun.elapsed().as_secs_f64(),
        status: match (stopped, is_whole && outcome != Outcome::Error) {
            (true, _) => Status::Interrupted,
            (_, true) => Status::Complete,
            (_, false) => Status::Partial,
        },
        command: options.command.clone(),
        seed: options.seed,
        quick: options.quick,
        simulated: options.simulate,
        variables: scenario.variables.clone() as Variables,
        sysctls: match &scenario.lab {
            Some(lab) if !options.simulate => lab.sysctls.clone(),
            _ => BTreeMap::new(),
        },
        tables,
        steps,
        outcome,
        hosts,
    };
    Ok(Ended { experiment, error })
}
