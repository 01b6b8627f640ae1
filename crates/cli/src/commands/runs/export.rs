//! `weir runs export`: records, or tables of them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValue;
use weir_exchange::{Format, NoForm};
use weir_model::ModelError;
use weir_report::CsvWriter;
use weir_runs::{DataDirectory, Store, StoreError, TABLE_FILES, Tables};

use super::ditg;
use super::parquet;
use super::search::SearchArgs;
use super::{RunsError, existing};
use crate::files;
use crate::named::{NamedFile, apart};

/// Weir's own formats, by name.
const JSON: &str = "json";
const CSV: &str = "csv";
/// That of packets, by D-ITG.
const DITG: &str = "ditg";

/// The names of the formats that are written, with their descriptions.
fn formats() -> Vec<PossibleValue> {
    let own = [(JSON, "Records (weir.run/1), one a line"), (CSV, "One table of all")];
    let own = own.map(|(name, about)| PossibleValue::new(name).help(about));
    let others = Format::written_ones().map(|f| PossibleValue::new(f.name).help(f.about));
    let about =
        "The packets of one run as D-ITG's receiver logs them, of its --packet-log, for ITGDec";
    let packets = PossibleValue::new(DITG).help(about);
    own.into_iter().chain(others).chain([packets]).collect()
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The runs: ids, unique prefixes of them, "last" or "last~N".
    #[arg(required_unless_present = "all", required_unless_present_any = SearchArgs::FLAGS,
          conflicts_with_all = SearchArgs::FLAGS, value_name = "RUN")]
    runs: Vec<String>,
    /// All stored runs, oldest first.
    #[arg(long, conflicts_with = "runs")]
    all: bool,
    #[command(flatten)]
    search: SearchArgs,
    /// The format.
    #[arg(long, value_name = "NAME", default_value = JSON, value_parser = formats())]
    format: String,
    /// The packet log of the run, for --format ditg: the file that the receiving end wrote (weir test -R --packet-log, weir serve
    /// --packet-log).
    #[arg(long, value_name = "FILE", conflicts_with = "tables")]
    packet_log: Option<PathBuf>,
    /// Write to this file instead of stdout; an existing file is replaced when all is written.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write long, tidy CSV tables into this directory (created if missing): runs.csv, flows.csv, intervals.csv and
    /// histograms.csv, joined by run_id and flow_id.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["format", "output"])]
    tables: Option<PathBuf>,
    /// Write Parquet files into this directory (created if missing), for DuckDB, Spark and pandas: group=GROUP/day=YYYY-MM-DD/weir.parquet,
    /// where GROUP is runs, flows, histograms or a group of metrics of intervals. The files of the days on which the runs started
    /// are replaced, so select whole days; other days stay.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["format", "output", "tables", "packet_log"])]
    parquet: Option<PathBuf>,
}

pub(super) fn run(
    args: &ExportArgs,
    data: &DataDirectory,
    now_unix_ms: i64,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), RunsError> {
    let store = existing(data, args.runs.first())?;
    let ids: Vec<String> = if args.runs.is_empty() {
        let found = store.list(&args.search.filter(now_unix_ms)?)?;
        found.into_iter().rev().map(|r| r.id).collect()
    } else {
        // Resolve every argument before a file is touched.
        args.runs.iter().map(|r| store.resolve(r)).collect::<Result<_, _>>()?
    };
    let log = packet_log(args, &ids)?;
    if let Some(path) = &args.output {
        let kept = data.file();
        let kept = NamedFile { flag: "the stored runs", path: &kept, is_written: false };
        let apart = apart(&[kept, NamedFile { flag: "--output", path, is_written: true }]);
        let why = "the runs are stored in it; accepted: another file";
        let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
        let operation = "--output: write";
        apart.map_err(|_| RunsError::File { operation, path: path.into(), source })?;
    }
    if let Some(directory) = &args.tables {
        let left_out = write_tables(&store, &ids, directory)?;
        writeln!(err, "{} runs in {}", ids.len(), directory.display())?;
        if left_out > 0 {
            writeln!(err, "{left_out} unreadable histograms are omitted")?;
        }
        return Ok(());
    }
    if let Some(directory) = &args.parquet {
        return parquet::write(&store, &ids, directory, err);
    }
    match &args.output {
        None => write_runs(&store, &ids, &args.format, log, out),
        Some(path) => {
            files::replace(path, |file| write_runs(&store, &ids, &args.format, log, file))
                .map_err(|error| of_file(path, error))
        }
    }
}

/// The packet log, which D-ITG's format needs and no other one takes.
fn packet_log<'a>(args: &'a ExportArgs, ids: &[String]) -> Result<Option<&'a Path>, RunsError> {
    let refused = |flag, what, given: &str, accepted| {
        let given = given.into();
        Err(RunsError::Flag { flag, error: ModelError::Value { what, given, accepted } })
    };
    match (args.format.as_str(), args.packet_log.as_deref()) {
        (DITG, Some(log)) if ids.len() == 1 => Ok(Some(log)),
        (DITG, Some(_)) => refused(
            "--format",
            "format",
            "ditg with several runs",
            "one run, which the packet log is of",
        ),
        (DITG, None) => refused(
            "--packet-log",
            "packet log",
            "none with --format ditg",
            "the file that the receiving end of the run wrote",
        ),
        (_, Some(_)) => refused("--packet-log", "packet log", "a file", "--format ditg"),
        (_, None) => Ok(None),
    }
}

/// An error while writing, with the file's name.
fn of_file(path: &Path, error: RunsError) -> RunsError {
    let fail = |source| RunsError::File { operation: "write", path: path.into(), source };
    match error {
        RunsError::Output(source) => fail(source),
        RunsError::Store(StoreError::Export { source, .. }) => fail(source),
        other => other,
    }
}

fn write_runs(
    store: &Store,
    ids: &[String],
    format: &str,
    log: Option<&Path>,
    out: &mut dyn Write,
) -> Result<(), RunsError> {
    let mut out = BufWriter::new(out);
    match (format, Format::find(format)) {
        (CSV, _) => {
            let mut csv = CsvWriter::new(&mut out)?;
            for id in ids {
                csv.record(&store.get(id)?)?;
            }
        }
        (DITG, _) => {
            for (id, log) in ids.iter().zip(log) {
                let written = ditg::write(&store.get(id)?, log, &mut out);
                written.map_err(|reason| RunsError::NoPackets { run: id.clone(), reason })?;
            }
        }
        (_, Some(format)) => {
            let refused = |run: &String, reason| RunsError::NoForm { run: run.clone(), reason };
            if let [_, second, ..] = ids
                && !format.is_repeated()
            {
                return Err(refused(second, NoForm::SeveralRuns));
            }
            for id in ids {
                let record = store.get(id)?;
                let bytes = format.write(&[record]).map_err(|reason| refused(id, reason))?;
                out.write_all(&bytes)?;
            }
        }
        _ => store.export(ids, &mut out)?,
    }
    out.flush()?;
    Ok(())
}

/// Writes the tables under temporary names and renames them when all are complete; returns the number of omitted histograms.
fn write_tables(store: &Store, ids: &[String], directory: &Path) -> Result<u64, RunsError> {
    let fail = |operation, path: &Path| {
        let path = path.to_path_buf();
        move |source| RunsError::File { operation, path, source }
    };
    std::fs::create_dir_all(directory).map_err(fail("create directory", directory))?;
    let paths = TABLE_FILES.map(|name| directory.join(name));
    let parts = paths.each_ref().map(|path| part_of(path));
    let write = || {
        let mut outs = Vec::with_capacity(parts.len());
        for part in &parts {
            let file = File::options().write(true).create_new(true).open(part);
            outs.push(BufWriter::new(file.map_err(fail("create", part))?));
        }
        let Ok(outs) = <[_; TABLE_FILES.len()]>::try_from(outs) else {
            // One writer exists for each part.
            return Err(fail("create", directory)(std::io::Error::other("a table is missing")));
        };
        let written = fail("write", directory);
        let mut tables =
            Tables::new(outs, &store.label_keys(ids)?).map_err(fail("write", directory))?;
        for id in ids {
            tables.record(&store.get(id)?).map_err(fail("write", directory))?;
        }
        let left_out = tables.unreadable_histograms();
        for file in tables.into_inner().map_err(written)? {
            file.get_ref().sync_all().map_err(fail("write", directory))?;
        }
        for (part, path) in parts.iter().zip(&paths) {
            std::fs::rename(part, path).map_err(fail("write", path))?;
        }
        Ok(left_out)
    };
    let done = write();
    if done.is_err() {
        // Report the first error, not one of removing the parts.
        parts.iter().for_each(|part| drop(std::fs::remove_file(part)));
    }
    done
}

/// The temporary name of a file while it is written.
fn part_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or(OsStr::new("")).to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}
