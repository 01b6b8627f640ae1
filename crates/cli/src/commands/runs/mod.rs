//! `weir runs`: stored results, listed, shown, labelled, compared, exported, imported and removed.

mod diff;
mod ditg;
mod error;
mod export;
mod import;
mod list;
#[cfg_attr(not(feature = "parquet"), path = "parquet_absent.rs")]
mod parquet;
mod search;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::{Args, Subcommand};
use weir_report::{IntervalTable, Start, TextOptions, Units, header, json_pretty, summary};
use weir_runs::{DataDirectory, Experiments, Store};

use super::values::Label;
pub(crate) use error::RunsError;

/// `weir runs …`.
#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// What to do; `list` when not given.
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List stored runs, newest first.
    List(list::ListArgs),
    /// Print a run as `weir test` printed it at its end.
    Show(ShowArgs),
    /// Set labels of a run; those with the same keys are replaced. `list --label` finds them.
    #[command(visible_alias = "label")]
    Tag(TagArgs),
    /// Remove labels from a run, by their keys.
    #[command(visible_alias = "unlabel")]
    Untag(UntagArgs),
    /// Compare two runs, or two sets of runs: which figures differ, and whether chance explains it.
    Diff(diff::DiffArgs),
    /// Write runs as JSON (one record a line) or CSV.
    Export(export::ExportArgs),
    /// Import records from a file written by export, or results that another tool wrote. Runs that are already stored are
    /// not changed.
    Import(import::ImportArgs),
    /// Remove runs: all of those named, or none.
    Rm(RmArgs),
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The run: its id or a unique prefix of it, "last", or "last~1" for the one before.
    #[arg(default_value = "last")]
    run: String,
    /// Print the whole record as JSON.
    #[arg(short = 'J', long)]
    json: bool,
    /// Print only its plan, as input for weir test --plan.
    #[arg(long, conflicts_with_all = ["json", "verbose", "format"])]
    plan: bool,
    /// Unit of rates: k, m, g, t (bits, powers of ten) or K, M, G, T (bytes, powers of 1024).
    #[arg(short = 'f', long, value_name = "UNIT")]
    format: Option<Units>,
    /// Print every flow and every figure, and the intervals.
    #[arg(short = 'V', long)]
    verbose: bool,
}

#[derive(Debug, Args)]
struct TagArgs {
    /// The run, as for show.
    run: String,
    /// The labels.
    #[arg(required = true, value_name = "KEY=VALUE")]
    labels: Vec<Label>,
}

#[derive(Debug, Args)]
struct UntagArgs {
    /// The run, as for show.
    run: String,
    /// The keys of the labels.
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
}

#[derive(Debug, Args)]
struct RmArgs {
    /// The runs: ids, unique prefixes of them, "last" or "last~N".
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
}

/// Runs the command on the store at `data`, with results to `out` and notes to `err`; returns the exit code.
///
/// # Errors
/// [`RunsError`]; its [`RunsError::exit_code`] is the program's.
pub(crate) fn run(
    args: &RunsArgs,
    data: &DataDirectory,
    now_unix_ms: i64,
    options: &TextOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<i32, RunsError> {
    match &args.action {
        None => list::run(&list::ListArgs::default(), data, now_unix_ms, options, out, err)?,
        Some(Action::List(a)) => list::run(a, data, now_unix_ms, options, out, err)?,
        Some(Action::Show(a)) => show(a, data, options, out)?,
        Some(Action::Tag(a)) => tag(a, data, err)?,
        Some(Action::Untag(a)) => untag(a, data, err)?,
        Some(Action::Diff(a)) => diff::run(a, data, options, out)?,
        Some(Action::Export(a)) => export::run(a, data, now_unix_ms, out, err)?,
        Some(Action::Import(a)) => import::run(a, data, now_unix_ms, err)?,
        Some(Action::Rm(a)) => {
            for id in existing(data, a.runs.first())?.remove(&a.runs)? {
                writeln!(err, "removed {id}")?;
            }
        }
    }
    Ok(0)
}

/// Opens the store for a command that needs a stored run.
fn existing(data: &DataDirectory, selector: Option<&String>) -> Result<Store, RunsError> {
    Store::open_existing(data)?.ok_or_else(|| RunsError::Nothing {
        selector: selector.cloned().unwrap_or_default(),
        path: data.file(),
    })
}

fn show(
    args: &ShowArgs,
    data: &DataDirectory,
    options: &TextOptions,
    out: &mut dyn Write,
) -> Result<(), RunsError> {
    let record = existing(data, Some(&args.run))
        .and_then(|store| Ok(store.get(&args.run)?))
        .map_err(|error| of_experiment(error, data, &args.run))?;
    if args.json {
        out.write_all(json_pretty(&record).as_bytes())?;
        return Ok(());
    }
    if args.plan {
        let text = weir_model::json::to_pretty(&record.plan).map_err(io::Error::from)?;
        writeln!(out, "{text}")?;
        return Ok(());
    }
    let options = TextOptions {
        units: args.format.unwrap_or(options.units),
        verbose: args.verbose || options.verbose,
        stored: true,
        ..*options
    };
    let start = Start::from(&record);
    out.write_all(header(&start, &options).as_bytes())?;
    if options.verbose {
        let table = IntervalTable::new(&start.flows, &options);
        out.write_all(table.heading().as_bytes())?;
        for interval in &record.intervals {
            out.write_all(table.rows(interval).as_bytes())?;
        }
    }
    out.write_all(summary(&record, &options).as_bytes())?;
    if !record.labels.is_empty() {
        writeln!(out, "labels: {}", labels(&record.labels))?;
    }
    Ok(())
}

/// If an unknown run is the id of an experiment, returns an error that says so and names the commands that accept it.
fn of_experiment(error: RunsError, data: &DataDirectory, word: &str) -> RunsError {
    let is_unknown = matches!(
        error,
        RunsError::Nothing { .. } | RunsError::Store(weir_runs::StoreError::NotFound { .. })
    );
    if !is_unknown || word.starts_with("last") {
        return error;
    }
    match Experiments::of(data).matching(word).unwrap_or_default().as_slice() {
        [id] => RunsError::Experiment { id: id.clone() },
        _ => error,
    }
}

/// Labels on a line, safe for a terminal.
fn labels(labels: &BTreeMap<String, String>) -> String {
    let words: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    weir_report::clean(&words.join(", ")).into_owned()
}

fn tag(args: &TagArgs, data: &DataDirectory, err: &mut dyn Write) -> Result<(), RunsError> {
    let mut store = existing(data, Some(&args.run))?;
    let labels: Vec<(&str, &str)> =
        args.labels.iter().map(|l| (l.key.as_str(), l.value.as_str())).collect();
    let id = store.tag(&args.run, &labels)?;
    print_labels(&store, &id, err)
}

fn untag(args: &UntagArgs, data: &DataDirectory, err: &mut dyn Write) -> Result<(), RunsError> {
    let mut store = existing(data, Some(&args.run))?;
    let id = store.untag(&args.run, &args.keys)?;
    print_labels(&store, &id, err)
}

/// Prints the present labels of a run.
fn print_labels(store: &Store, id: &str, err: &mut dyn Write) -> Result<(), RunsError> {
    let left = store.labels(id)?;
    let words = if left.is_empty() { "no labels".into() } else { labels(&left) };
    writeln!(err, "{id}: {words}")?;
    Ok(())
}
