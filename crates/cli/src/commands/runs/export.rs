//! `weir runs export`: records, or tables of them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use weir_report::{CsvWriter, NoIperf3Form, iperf3_json, iperf3_json_lines};
use weir_runs::{DataDirectory, Store, StoreError, TABLE_FILES, Tables};

use super::search::SearchArgs;
use super::{RunsError, existing};
use crate::files;
use crate::named::{NamedFile, apart};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Records (weir.run/1), an array
    Json,
    /// One table of all
    Csv,
    /// As `iperf3 -J` prints: one object for each run, a line each
    Iperf3,
    /// As `iperf3 --json-stream` prints
    Iperf3Stream,
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
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
    /// Write to this file instead of stdout; an existing file is replaced when all is written.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write long, tidy CSV tables into this directory (created if missing): runs.csv, flows.csv, intervals.csv and
    /// histograms.csv, joined by run_id and flow_id.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["format", "output"])]
    tables: Option<PathBuf>,
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
    match &args.output {
        None => write_runs(&store, &ids, args.format, out),
        Some(path) => files::replace(path, |file| write_runs(&store, &ids, args.format, file))
            .map_err(|error| of_file(path, error)),
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
    format: Format,
    out: &mut dyn Write,
) -> Result<(), RunsError> {
    let mut out = BufWriter::new(out);
    match format {
        Format::Json => store.export(ids, &mut out)?,
        Format::Csv => {
            let mut csv = CsvWriter::new(&mut out)?;
            for id in ids {
                csv.record(&store.get(id)?)?;
            }
        }
        Format::Iperf3 | Format::Iperf3Stream => {
            for id in ids {
                let record = store.get(id)?;
                let text = match format {
                    Format::Iperf3Stream => iperf3_json_lines(&record),
                    _ => iperf3_json(&record).map(|object| format!("{object}\n")),
                };
                let refused = |reason: NoIperf3Form| RunsError::NoForm { run: id.clone(), reason };
                out.write_all(text.map_err(refused)?.as_bytes())?;
            }
        }
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
