//! `weir report`: renders runs or an experiment as a page, as Markdown, or as charts in SVG and CSV.

mod subject;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use weir_model::counted;
use weir_model::experiment::Experiment;
use weir_report::page::{Document, html, markdown};
use weir_report::plot::Figure;
use weir_report::{experiment_csv, table_csv, table_names};

use crate::error::CliError;
use crate::files;
use crate::job::notice;
use crate::named::{NamedFile, apart};
use crate::output::print;
use subject::Subject;

/// Name of the table of all points of an experiment, written with the data of its charts.
const POINTS: &str = "points";

/// `weir report …`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The runs, one or several to compare: ids, unique prefixes of them, "last", files of weir.run/1 JSON (as weir test --json
    /// and weir runs export write them), or - for stdin. Or one experiment: its id, "last-experiment", or a file of
    /// weir.experiment/1 JSON (as weir run, sweep and compare --json write it).
    #[arg(value_name = "RUN|EXPERIMENT", default_value = "last")]
    runs: Vec<OsString>,
    /// The format: one HTML page, Markdown for a ticket, the data of each chart as CSV (of an experiment also points.csv with
    /// all points and metrics), or each chart as SVG.
    #[arg(long, value_enum, default_value_t = Format::Html)]
    format: Format,
    /// A file (html, md), a directory (csv, svg), or - for stdout [default: weir-report-ID.html or the directory
    /// weir-report-ID here; Markdown to stdout]. Existing files are replaced when all is written; those with default names
    /// only with --force.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Only this chart (csv, svg), to stdout or the file --output; an unknown name prints the list.
    #[arg(long, value_name = "NAME")]
    figure: Option<String>,
    /// Start the vertical axes of all charts at zero [default: charts of experiments are scaled to the data].
    #[arg(long)]
    from_zero: bool,
    /// Replace existing files with default names.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Html,
    Md,
    Csv,
    Svg,
}

/// Runs the command.
///
/// # Errors
/// [`CliError`] with the program's exit code: 2 for an invalid run or file and for a file that exists already, 4 for a file
/// that can't be read or written.
pub(crate) fn run(args: &ReportArgs) -> Result<i32, CliError> {
    if let (Some(_), Format::Html | Format::Md) = (&args.figure, args.format) {
        return Err(CliError::flag("--figure", "with a page", "--format svg or csv"));
    }
    // Before standard input is read; the files of stored runs are added later.
    let mut read: Vec<PathBuf> = subject::files(&args.runs).map(Into::into).collect();
    apart_from(&read, args.output.as_deref())?;
    let subject = Subject::read(&args.runs)?;
    read.extend(subject.stored());
    apart_from(&read, args.output.as_deref())?;
    if let Some(id) = subject.experiment_of_last(&args.runs) {
        notice(
            "part-of-experiment",
            &format!("this run is part of an experiment: see weir report {id}"),
        );
    }
    let mut document = subject.document();
    if args.from_zero {
        document.start_at_zero();
    }
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    // A file that the user named may be replaced.
    let may_replace = args.force || args.output.is_some();
    match (args.format, &args.figure) {
        (Format::Html | Format::Md, _) => {
            let text =
                if args.format == Format::Html { html(&document) } else { markdown(&document) };
            match &args.output {
                _ if to_stdout => print(&text),
                None if args.format == Format::Md => print(&text),
                output => {
                    let named = || PathBuf::from(format!("{}.html", subject.file_name()));
                    let path = output.clone().unwrap_or_else(named);
                    write(&path, &text, may_replace)?;
                    notice("wrote", &format!("wrote {} ({})", path.display(), size(text.len())));
                    Ok(0)
                }
            }
        }
        (format, Some(wanted)) => {
            let table = match (&subject, format) {
                (Subject::Experiment(experiment), Format::Csv) => tables(experiment),
                _ => vec![],
            };
            let text = match table.into_iter().find(|(name, _)| name == wanted) {
                Some((_, text)) => text,
                None => drawn(find(&document, wanted)?, format),
            };
            match &args.output {
                Some(path) if !to_stdout => {
                    write(path, &text, may_replace)?;
                    Ok(0)
                }
                _ => print(&text),
            }
        }
        (format, None) => {
            if to_stdout {
                return Err(CliError::flag(
                    "--output",
                    "-",
                    "a directory, or one chart by --figure",
                ));
            }
            let directory = args.output.clone().unwrap_or_else(|| subject.file_name().into());
            let tables = match (&subject, format) {
                (Subject::Experiment(experiment), Format::Csv) => tables(experiment),
                _ => vec![],
            };
            charts(&document, format, tables, &directory, may_replace, &read)
        }
    }
}

/// The tables of an experiment, with their names: the points, and the scenario's own.
fn tables(experiment: &Experiment) -> Vec<(String, String)> {
    let own = table_names(experiment)
        .into_iter()
        .map(|name| (format!("table-{name}"), table_csv(experiment, name)));
    [(POINTS.to_owned(), experiment_csv(experiment))].into_iter().chain(own).collect()
}

/// Refuses an output that is one of the files that were read.
fn apart_from(read: &[PathBuf], output: Option<&Path>) -> Result<(), CliError> {
    let read = read.iter().map(|path| NamedFile { flag: "RUN", path, is_written: false });
    let written = output.map(|path| NamedFile { flag: "--output", path, is_written: true });
    apart(&read.chain(written).collect::<Vec<_>>())
}

/// Writes each chart and each table into a directory, which is created if missing.
fn charts(
    document: &Document,
    format: Format,
    tables: Vec<(String, String)>,
    directory: &Path,
    may_replace: bool,
    read: &[PathBuf],
) -> Result<i32, CliError> {
    let end = if format == Format::Svg { "svg" } else { "csv" };
    let mut files: Vec<(PathBuf, String)> = document
        .figures()
        .map(|f| (directory.join(format!("{}.{end}", f.id)), drawn(f, format)))
        .collect();
    files.extend(
        tables.into_iter().map(|(name, text)| (directory.join(format!("{name}.{end}")), text)),
    );
    if files.is_empty() {
        return Err(CliError::flag(
            "RUN",
            "it has no charts",
            "a run with intervals or distributions, an experiment with a sweep",
        ));
    }
    // Check every file before the first one is written.
    files.iter().try_for_each(|(path, _)| apart_from(read, Some(path)))?;
    if let Some((path, _)) =
        files.iter().find(|(path, _)| !may_replace && path.symlink_metadata().is_ok())
    {
        return Err(exists(path));
    }
    files::check_directory("--output", directory)?;
    std::fs::create_dir_all(directory).map_err(CliError::io("make directory", directory))?;
    for (path, text) in &files {
        write(path, text, may_replace)?;
    }
    notice(
        "wrote",
        &format!("wrote {} into {}", counted(files.len(), "file"), directory.display()),
    );
    Ok(0)
}

fn drawn(figure: &Figure, format: Format) -> String {
    if format == Format::Svg { figure.svg() } else { figure.csv() }
}

fn find<'a>(document: &'a Document, wanted: &str) -> Result<&'a Figure, CliError> {
    document.figures().find(|f| f.id == wanted).ok_or_else(|| {
        let names: Vec<&str> = document.figures().map(|f| f.id.as_str()).collect();
        let names =
            if names.is_empty() { "none: this run has no charts".into() } else { names.join(", ") };
        CliError::flag("--figure", wanted, &names)
    })
}

fn size(bytes: usize) -> String {
    weir_report::volume(bytes as u64)
}

fn exists(path: &Path) -> CliError {
    CliError::flag(
        "--output",
        format!("{} is there already", path.display()),
        "--force to replace it, or another path",
    )
}

/// Writes a file by the rules of [`files`]; an existing file only if `may_replace`.
fn write(path: &Path, text: &str, may_replace: bool) -> Result<(), CliError> {
    if !may_replace && path.symlink_metadata().is_ok() {
        return Err(exists(path));
    }
    files::check("--output", path)?;
    if may_replace {
        return files::write("--output: write", path, text);
    }
    // A file of this name may have been created since the check.
    files::write_new(path, text).map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => exists(path),
        _ => CliError::io("--output: write", path)(e),
    })
}
