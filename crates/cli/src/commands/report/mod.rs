//! `weir report`: renders runs or experiments as a page, as Markdown, as text, or as charts in SVG and CSV.

mod subject;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use weir_experiment::scenario::text::whole as steps_text;
use weir_model::counted;
use weir_model::experiment::Experiment;
use weir_report::page::{Document, html, markdown};
use weir_report::plot::Figure;
use weir_report::{
    clean, experiment_csv, experiments_csv, experiments_text, merged_tables, summary, table_csv,
    table_names, tables_text,
};

use crate::commands::experiment::cleaned;
use crate::error::CliError;
use crate::files;
use crate::job::notice;
use crate::named::{NamedFile, apart};
use crate::output::print;
use crate::terminal;
use subject::Subject;

/// Name of the table of all points of an experiment, written with the data of its charts.
const POINTS: &str = "points";

/// `weir report …`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The runs, one or several to compare: ids, unique prefixes of them, "last", files of weir.run/1 JSON (as weir test --json
    /// and weir runs export write them), or - for stdin. Or experiments: ids, "last-experiment", or files of weir.experiment/1 JSON (as
    /// weir run, sweep and compare --json write them). Tables of several experiments are merged, with columns for each and the differences from the first.
    #[arg(value_name = "RUN|EXPERIMENT", default_value = "last")]
    runs: Vec<OsString>,
    /// The format: one HTML page, Markdown for a ticket, text for a terminal, the data of each chart as CSV (of experiments also
    /// points.csv with all points and metrics, and table-NAME.csv), or each chart as SVG.
    #[arg(long, value_enum, default_value_t = Format::Html)]
    format: Format,
    /// A file (html, md, text), a directory (csv, svg), or - for stdout [default: weir-report-ID.html or the directory
    /// weir-report-ID here; Markdown and text to stdout]. Existing files are replaced when all is written; those with default names
    /// only with --force.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Only this chart (csv, svg), to stdout or the file --output; an unknown name prints the list.
    #[arg(long, value_name = "NAME")]
    figure: Option<String>,
    /// Start the vertical axes of all charts at zero [default: charts of experiments are scaled to the data].
    #[arg(long)]
    from_zero: bool,
    /// Heading of an experiment's columns and series; once for each experiment, in their order [default: operating system and
    /// kernel of its hosts; title or name with the time of the start where those are the same].
    #[arg(long, value_name = "TEXT")]
    label: Vec<String>,
    /// Replace existing files with default names.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Html,
    Md,
    Text,
    Csv,
    Svg,
}

/// Runs the command.
///
/// # Errors
/// [`CliError`] with the program's exit code: 2 for an invalid run or file and for a file that exists already, 4 for a file
/// that can't be read or written.
pub(crate) fn run(args: &ReportArgs) -> Result<i32, CliError> {
    if let (Some(_), Format::Html | Format::Md | Format::Text) = (&args.figure, args.format) {
        return Err(CliError::flag("--figure", "with a page", "--format svg or csv"));
    }
    // Before standard input is read; the files of stored runs are added later.
    let mut read: Vec<PathBuf> = subject::files(&args.runs).map(Into::into).collect();
    apart_from(&read, args.output.as_deref())?;
    let subject = Subject::read(&args.runs, &args.label)?;
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
        (Format::Html | Format::Md | Format::Text, _) => {
            let text = match args.format {
                Format::Html => html(&document),
                Format::Text => text(&subject),
                _ => markdown(&document),
            };
            match &args.output {
                _ if to_stdout => print(&text),
                None if args.format != Format::Html => print(&text),
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
            let table = if format == Format::Csv { tables(&subject) } else { vec![] };
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
            let tables = if format == Format::Csv { tables(&subject) } else { vec![] };
            charts(&document, format, tables, &directory, may_replace, &read)
        }
    }
}

/// The tables of experiments, with their names: the points, and the scenarios' own.
fn tables(subject: &Subject) -> Vec<(String, String)> {
    let (points, tables) = match subject.experiments() {
        [] => return vec![],
        [(_, one)] => (experiment_csv(one), one.tables.clone()),
        several => (experiments_csv(several), merged_tables(several)),
    };
    let own = table_names(&tables)
        .into_iter()
        .map(|name| (format!("table-{name}"), table_csv(&tables, name)));
    [(POINTS.to_owned(), points)].into_iter().chain(own).collect()
}

/// Runs as weir test prints them. Of an experiment the steps and the tables; of several the merged tables, after the merged
/// steps of those without any.
fn text(subject: &Subject) -> String {
    let options = terminal::text_options();
    let steps = |experiment: &Experiment| -> String {
        experiment.steps.iter().map(|step| cleaned(&steps_text(step, 0, false))).collect()
    };
    let width = options.width;
    match subject {
        Subject::Runs(runs) => runs.iter().map(|run| summary(run, &options)).collect(),
        Subject::Experiments(all) => match &all[..] {
            [(_, one)] => steps(one) + &tables_text(&one.tables, width),
            several => {
                let without = several.iter().filter(|(_, e)| e.tables.is_empty()).cloned();
                let own = match &without.collect::<Vec<_>>()[..] {
                    [] => String::new(),
                    [(name, one)] => format!("{}\n{}", clean(name), steps(one)),
                    more => experiments_text(more, width),
                };
                own + &tables_text(&merged_tables(several), width)
            }
        },
    }
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
