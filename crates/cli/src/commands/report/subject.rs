//! The subject of a page: the runs, or the experiment, that the arguments select.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use weir_model::experiment::{EXPERIMENT_SCHEMA, Experiment};
use weir_model::record::{RUN_SCHEMA, Record};
use weir_model::{counted, document};
use weir_report::page::{Document, headings, of_experiments, of_runs};
use weir_runs::{DataDirectory, Experiments, MAX_RECORD_BYTES, Store, StoreError};

use crate::commands::experiment::is_running;
use crate::commands::runs::RunsError;
use crate::error::CliError;

/// Maximum number of runs on one page: more can't be read side by side.
const MAX_RUNS: usize = 50;
/// The same of experiments.
const MAX_EXPERIMENTS: usize = 10;
/// Maximum length of an id in a file's name, characters.
const MAX_ID: usize = 64;
/// Selects the newest experiment, as `last` selects the newest run.
const LAST_EXPERIMENT: &str = "last-experiment";

/// The subject of a page.
pub(super) enum Subject {
    /// Runs side by side, in the order of the arguments.
    Runs(Vec<Record>),
    /// Experiments side by side, each with its heading.
    Experiments(Vec<(String, Experiment)>),
}

/// What one argument selects.
enum Found {
    Runs(Vec<Record>),
    Experiment(Box<Experiment>),
}

impl Subject {
    /// Reads everything that the arguments select, before anything is written. `labels` are headings of experiments in the order
    /// of the arguments.
    pub(super) fn read(arguments: &[OsString], labels: &[String]) -> Result<Subject, CliError> {
        let mut runs: Vec<Record> = vec![];
        let mut experiments: Vec<Experiment> = vec![];
        let mut stored = None;
        for word in arguments {
            let path = Path::new(word);
            let found = if word == "-" {
                of_file("stdin", io::stdin().lock())?
            } else if is_file(path) {
                let file = File::open(path).map_err(CliError::io("read", path))?;
                of_file(&path.display().to_string(), file)?
            } else {
                if stored.is_none() {
                    stored = Some(UserData::open()?);
                }
                match &stored {
                    Some(stored) => stored.find(&word.to_string_lossy())?,
                    None => continue,
                }
            };
            match found {
                Found::Runs(mut found) => runs.append(&mut found),
                Found::Experiment(found) => experiments.push(*found),
            }
            for (count, most, what) in [
                (runs.len(), MAX_RUNS, "runs"),
                (experiments.len(), MAX_EXPERIMENTS, "experiments"),
            ] {
                if count > most {
                    let accepted = format!("fewer {what}, which are compared on one page");
                    return Err(CliError::flag(
                        "RUN",
                        format!("more than {most} {what}"),
                        &accepted,
                    ));
                }
            }
        }
        if !experiments.is_empty() && !runs.is_empty() {
            return Err(CliError::flag("RUN", "experiments and runs", "either of them"));
        }
        if let Some(id) = twice(experiments.iter().map(|e| e.id.as_str())) {
            let given = format!("experiment {id} twice");
            return Err(CliError::flag("RUN", given, "each experiment once"));
        }
        if let Some(id) = twice(runs.iter().map(|run| run.id.as_str())) {
            return Err(CliError::flag(
                "RUN",
                format!("run {id} twice"),
                "each run once; last~1 is the one before last",
            ));
        }
        let is_right = labels.len() == experiments.len() && labels.len() > 1;
        if !labels.is_empty() && !is_right {
            let labels = counted(labels.len(), "label");
            return Err(CliError::flag(
                "--label",
                format!("{labels} for {}", counted(experiments.len(), "experiment")),
                "one for each of several experiments, in their order",
            ));
        }
        if let Some(label) = twice(labels.iter().map(String::as_str)) {
            return Err(CliError::flag("--label", format!("{label} twice"), "different labels"));
        }
        if experiments.is_empty() {
            return Ok(Subject::Runs(runs));
        }
        let labels = if labels.is_empty() { headings(&experiments) } else { labels.to_vec() };
        Ok(Subject::Experiments(labels.into_iter().zip(experiments).collect()))
    }

    /// The experiments, each with its heading; none of runs.
    pub(super) fn experiments(&self) -> &[(String, Experiment)] {
        match self {
            Subject::Runs(_) => &[],
            Subject::Experiments(experiments) => experiments,
        }
    }

    /// This user's data files that an output must not overwrite: the database of runs, an experiment's result and checkpoint.
    pub(super) fn stored(&self) -> Vec<PathBuf> {
        let Ok(data) = DataDirectory::of_this_user() else { return vec![] };
        let mut files = vec![data.file()];
        let stored = Experiments::of(&data);
        for (_, experiment) in self.experiments() {
            files.extend([stored.result(&experiment.id), stored.checkpoint(&experiment.id)]);
        }
        files
    }

    pub(super) fn document(&self) -> Document {
        match self {
            Subject::Runs(runs) => of_runs(runs),
            Subject::Experiments(experiments) => of_experiments(experiments),
        }
    }

    /// `weir-report-ID`, with the number of further runs.
    pub(super) fn file_name(&self) -> String {
        let (id, count) = match self {
            Subject::Runs(runs) => (runs.first().map_or("", |r| &r.id), runs.len()),
            Subject::Experiments(all) => (all.first().map_or("", |(_, e)| &e.id), all.len()),
        };
        let safe = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let id: String = id.chars().filter(safe).take(MAX_ID).collect();
        let id = if id.is_empty() { "run".into() } else { id };
        match count {
            0 | 1 => format!("weir-report-{id}"),
            n => format!("weir-report-{id}-and-{}-more", n - 1),
        }
    }

    /// The experiment that the last run belongs to, if `last` is the only argument.
    pub(super) fn experiment_of_last(&self, arguments: &[OsString]) -> Option<&str> {
        match (self, arguments) {
            (Subject::Runs(runs), [word]) if word == "last" => {
                runs.first()?.labels.get("experiment").map(String::as_str)
            }
            _ => None,
        }
    }
}

/// The id or label that is listed more than once; empty ones are ignored.
fn twice<'a>(ids: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = std::collections::BTreeSet::new();
    ids.filter(|id| !id.is_empty()).find(|id| !seen.insert(*id))
}

/// The data of this user.
struct UserData {
    data: DataDirectory,
    store: Option<Store>,
    experiments: Experiments,
}

impl UserData {
    fn open() -> Result<UserData, CliError> {
        let data = DataDirectory::of_this_user().map_err(RunsError::from)?;
        let store = Store::open_existing(&data).map_err(RunsError::from)?;
        let experiments = Experiments::of(&data);
        Ok(UserData { data, store, experiments })
    }

    /// The run or experiment that an argument selects; a prefix that matches both is ambiguous.
    fn find(&self, word: &str) -> Result<Found, CliError> {
        if let Some(back) = word.strip_prefix(LAST_EXPERIMENT)
            && (back.is_empty() || back.starts_with('~'))
        {
            let id = self.experiments.resolve(&format!("last{back}")).map_err(RunsError::from)?;
            return self.experiment(&id);
        }
        let run = match &self.store {
            Some(store) => store.resolve(word),
            None => Err(StoreError::NotFound { selector: word.into(), path: self.data.file() }),
        };
        // `last` and `last~N` select runs only.
        let named = match word.starts_with("last") {
            true => vec![],
            false => self.experiments.matching(word).map_err(RunsError::from)?,
        };
        match (run, named.as_slice()) {
            (Ok(run), []) => self.run(&run),
            (Ok(run), _) if run == word => self.run(&run),
            (Err(StoreError::NotFound { .. }), [id]) => self.experiment(id),
            (_, [id]) if id == word => self.experiment(id),
            (Err(StoreError::NotFound { .. }), []) if self.store.is_none() => {
                Err(RunsError::Nothing { selector: word.into(), path: self.data.file() }.into())
            }
            (Err(error), []) => Err(RunsError::from(error).into()),
            (Err(StoreError::NotFound { .. }), _) => {
                Err(RunsError::from(StoreError::SeveralExperiments {
                    selector: word.into(),
                    matches: named,
                })
                .into())
            }
            (_, ids) => Err(CliError::flag(
                "RUN",
                format!("'{word}' matches runs and experiments"),
                &format!("a whole id; experiments are {}", ids.join(", ")),
            )),
        }
    }

    fn run(&self, id: &str) -> Result<Found, CliError> {
        let nothing = || RunsError::Nothing { selector: id.into(), path: self.data.file() };
        let store = self.store.as_ref().ok_or_else(nothing)?;
        Ok(Found::Runs(vec![store.get(id).map_err(RunsError::from)?]))
    }

    fn experiment(&self, id: &str) -> Result<Found, CliError> {
        match self.experiments.read(id).map_err(RunsError::from)? {
            Some(text) => experiment(&self.experiments.result(id).display().to_string(), &text),
            None => Err(match is_running(&self.experiments.checkpoint(id)) {
                true => CliError::flag(
                    "RUN",
                    format!("experiment {id} is running: it has no result yet"),
                    &format!(
                        "its id when it has ended; weir runs list --label experiment={id} shows the runs that it has made"
                    ),
                ),
                false => CliError::flag(
                    "RUN",
                    format!("experiment {id} is incomplete: it has a checkpoint but no result"),
                    &format!("weir run --resume {id} resumes it"),
                ),
            }),
        }
    }
}

/// The arguments that name files.
pub(super) fn files(arguments: &[OsString]) -> impl Iterator<Item = &Path> {
    arguments.iter().map(Path::new).filter(|path| path.as_os_str() != "-" && is_file(path))
}

/// Whether an argument names a file and not a run: it has a directory or a file's extension, or it exists. Ids have neither.
fn is_file(path: &Path) -> bool {
    let json = path.extension().is_some_and(|e| e == "json" || e == "jsonl");
    json || path.components().count() > 1 || path.is_absolute() || path.is_file()
}

/// An experiment's result in JSON.
fn experiment(name: &str, text: &str) -> Result<Found, CliError> {
    let read: Experiment = document::parse_json(text.as_bytes())
        .map_err(|e| CliError::flag("RUN", format!("{name}: {e}"), EXPERIMENT_SCHEMA))?;
    Ok(Found::Experiment(Box::new(read)))
}

/// Reads a file: an experiment, or records (one, one a line, or an array of them).
fn of_file(name: &str, input: impl Read) -> Result<Found, CliError> {
    let fail = |number: usize, reason: String| {
        CliError::flag(
            "RUN",
            format!("{name}, record {number}: {reason}"),
            "weir.run/1 or weir.experiment/1 as JSON",
        )
    };
    let mut input = BufReader::new(input.take(MAX_RECORD_BYTES));
    let mut text = String::new();
    input.read_to_string(&mut text).map_err(|e| match e.kind() {
        io::ErrorKind::InvalidData => fail(1, "not UTF-8".into()),
        _ => CliError::io("read", name)(e),
    })?;
    if text.len() as u64 == MAX_RECORD_BYTES {
        return Err(fail(1, format!("longer than {MAX_RECORD_BYTES} bytes")));
    }
    if schema(&text).as_deref() == Some(EXPERIMENT_SCHEMA) {
        return experiment(name, &text);
    }
    let mut out: Vec<Record> = vec![];
    if text.trim_start().starts_with('[') {
        out = document::parse_json(text.as_bytes()).map_err(|e| fail(1, e.to_string()))?;
    } else {
        for tree in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
            let number = out.len() + 1;
            let tree = tree.map_err(|e| fail(number, e.to_string()))?;
            out.push(document::read(&tree).map_err(|e| fail(number, e.to_string()))?);
            if out.len() > MAX_RUNS {
                break;
            }
        }
    }
    if out.is_empty() {
        return Err(fail(1, "nothing in it".into()));
    }
    for (i, record) in out.iter().enumerate() {
        if record.schema != RUN_SCHEMA {
            let found = if record.schema.is_empty() {
                "no schema".into()
            } else {
                format!("schema {:?}", record.schema)
            };
            return Err(fail(i + 1, found));
        }
    }
    Ok(Found::Runs(out))
}

/// The schema that the first object of a text names.
fn schema(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        schema: String,
    }
    let first = serde_json::Deserializer::from_str(text).into_iter::<Named>().next()?;
    first.ok().map(|named| named.schema)
}
