//! `weir report`: runs as a page, as Markdown for a ticket, or their charts as SVG and CSV.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use weir_model::record::{RUN_SCHEMA, Record};
use weir_report::page::{Document, html, markdown, of_runs};
use weir_report::plot::Figure;
use weir_runs::{MAX_RECORD_BYTES, Place, Store};

use crate::app::note;
use crate::commands::runs::RunsError;
use crate::error::CliError;
use crate::output::print;

/// Most runs on one page: what is more can't be read side by side.
const MOST_RUNS: usize = 50;
/// Most characters of a run's id in a file's name.
const NAME: usize = 64;

/// `weir report …`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The runs, one or several to compare: ids, beginnings of them, "last", files of weir.run/1 JSON (as weir test --json
    /// and weir runs export write them), or - for stdin.
    #[arg(value_name = "RUN", default_value = "last")]
    runs: Vec<OsString>,
    /// What to write: one HTML page, Markdown for a ticket, the data of each chart as CSV, or each chart as SVG.
    #[arg(long, value_enum, default_value_t = Format::Html)]
    format: Format,
    /// Where to write: a file (html, md), a directory (csv, svg), or - for stdout. Without it: weir-report-ID.html or the
    /// directory weir-report-ID here; Markdown goes to stdout.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Only this chart (csv, svg), to stdout or to the file --output; an unknown name is answered with the list.
    #[arg(long, value_name = "NAME")]
    figure: Option<String>,
    /// Replace files that are there.
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
/// [`CliError`], whose exit code is the program's: 2 for a run or a file that is none and for a file that is there already,
/// 4 for what may not be read or written.
pub(crate) fn run(args: &ReportArgs) -> Result<i32, CliError> {
    if let (Some(_), Format::Html | Format::Md) = (&args.figure, args.format) {
        return Err(CliError::flag("--figure", "with a page", "--format svg or csv"));
    }
    let records = records(&args.runs)?;
    let document = of_runs(&records);
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    match (args.format, &args.figure) {
        (Format::Html | Format::Md, _) => {
            let text =
                if args.format == Format::Html { html(&document) } else { markdown(&document) };
            match &args.output {
                _ if to_stdout => print(&text),
                None if args.format == Format::Md => print(&text),
                output => {
                    let named = || PathBuf::from(format!("{}.html", name(&records)));
                    let path = output.clone().unwrap_or_else(named);
                    write(&path, &text, args.force)?;
                    note(&format!("wrote {} ({})", path.display(), size(text.len())));
                    Ok(0)
                }
            }
        }
        (format, Some(wanted)) => {
            let figure = find(&document, wanted)?;
            let text = drawn(figure, format);
            match &args.output {
                Some(path) if !to_stdout => {
                    write(path, &text, args.force)?;
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
            let directory = args.output.clone().unwrap_or_else(|| name(&records).into());
            charts(&document, format, &directory, args.force)
        }
    }
}

/// Writes each chart into a directory, which is made where it is missing.
fn charts(
    document: &Document,
    format: Format,
    directory: &Path,
    force: bool,
) -> Result<i32, CliError> {
    let end = if format == Format::Svg { "svg" } else { "csv" };
    let files: Vec<(PathBuf, &Figure)> =
        document.figures().map(|f| (directory.join(format!("{}.{end}", f.id)), f)).collect();
    if files.is_empty() {
        return Err(CliError::flag(
            "RUN",
            "nothing in it can be drawn",
            "a run with intervals or distributions",
        ));
    }
    // All or nothing, as far as can be told before.
    if let Some((path, _)) =
        files.iter().find(|(path, _)| !force && path.symlink_metadata().is_ok())
    {
        return Err(exists(path));
    }
    std::fs::create_dir_all(directory).map_err(CliError::io("make directory", directory))?;
    for (path, figure) in &files {
        write(path, &drawn(figure, format), force)?;
    }
    note(&format!("wrote {} files into {}", files.len(), directory.display()));
    Ok(0)
}

fn drawn(figure: &Figure, format: Format) -> String {
    if format == Format::Svg { figure.svg() } else { figure.csv() }
}

fn find<'a>(document: &'a Document, wanted: &str) -> Result<&'a Figure, CliError> {
    document.figures().find(|f| f.id == wanted).ok_or_else(|| {
        let names: Vec<&str> = document.figures().map(|f| f.id.as_str()).collect();
        let names = if names.is_empty() {
            "none: nothing in this run can be drawn".into()
        } else {
            names.join(", ")
        };
        CliError::flag("--figure", wanted, &names)
    })
}

/// `weir-report-ID`, with how many more there are.
fn name(records: &[Record]) -> String {
    let safe = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let id: String =
        records.first().map_or("", |r| &r.id).chars().filter(safe).take(NAME).collect();
    let id = if id.is_empty() { "run".into() } else { id };
    match records.len() {
        0 | 1 => format!("weir-report-{id}"),
        n => format!("weir-report-{id}-and-{}-more", n - 1),
    }
}

fn size(bytes: usize) -> String {
    weir_report::volume(bytes as u64)
}

/// The records of all words, in their order; everything is read before anything is written.
fn records(words: &[OsString]) -> Result<Vec<Record>, CliError> {
    let mut out = vec![];
    let mut store = None;
    for word in words {
        let path = Path::new(word);
        if word == "-" {
            out.extend(read("stdin", io::stdin().lock())?);
        } else if is_file(path) {
            let file = File::open(path).map_err(CliError::io("read", path))?;
            out.extend(read(&path.display().to_string(), file)?);
        } else {
            let selector = word.to_string_lossy();
            if store.is_none() {
                let place = Place::of_this_user().map_err(RunsError::from)?;
                let opened = Store::open_existing(&place).map_err(RunsError::from)?;
                store = Some(opened.ok_or_else(|| RunsError::Nothing {
                    selector: selector.to_string(),
                    path: place.file(),
                })?);
            }
            if let Some(store) = &store {
                out.push(store.get(&selector).map_err(RunsError::from)?);
            }
        }
        if out.len() > MOST_RUNS {
            return Err(CliError::flag(
                "RUN",
                format!("more than {MOST_RUNS} runs"),
                "fewer: they stand side by side",
            ));
        }
    }
    Ok(out)
}

/// Whether a word names a file and not a run: it says where, or looks like one, or is there. Ids have no such form.
fn is_file(path: &Path) -> bool {
    let json = path.extension().is_some_and(|e| e == "json" || e == "jsonl");
    json || path.components().count() > 1 || path.is_absolute() || path.is_file()
}

/// The records of a file: one, one a line, or an array of them.
fn read(name: &str, input: impl Read) -> Result<Vec<Record>, CliError> {
    let fail = |number: usize, reason: String| {
        CliError::flag("RUN", format!("{name}, record {number}: {reason}"), "weir.run/1 as JSON")
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
    let mut out: Vec<Record> = vec![];
    if text.trim_start().starts_with('[') {
        out = serde_json::from_str(&text).map_err(|e| fail(1, e.to_string()))?;
    } else {
        for record in serde_json::Deserializer::from_str(&text).into_iter::<Record>() {
            out.push(record.map_err(|e| fail(out.len() + 1, e.to_string()))?);
            if out.len() > MOST_RUNS {
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
    Ok(out)
}

fn exists(path: &Path) -> CliError {
    CliError::flag(
        "--output",
        format!("{} is there already", path.display()),
        "another path, or --force to replace it",
    )
}

/// Writes a file; one that is there is replaced only by `force`, once all is written. What is no plain file (a device, a
/// pipe) is written to.
fn write(path: &Path, text: &str, force: bool) -> Result<(), CliError> {
    if path.metadata().is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        let mut file =
            File::options().write(true).open(path).map_err(CliError::io("write", path))?;
        return match file.write_all(text.as_bytes()) {
            // A reader that has enough is no failure.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            done => done.map_err(CliError::io("write", path)),
        };
    }
    if !force && path.symlink_metadata().is_ok() {
        return Err(exists(path));
    }
    let mut part = path.file_name().map(OsString::from).unwrap_or_default();
    part.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(part);
    let done = File::options()
        .write(true)
        .create_new(true)
        .open(&part)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| match force {
            true => std::fs::rename(&part, path),
            // A link is refused where a name was taken meanwhile, which a rename would replace; some file systems have none.
            false => std::fs::hard_link(&part, path).or_else(|e| match e.kind() {
                io::ErrorKind::AlreadyExists => Err(e),
                _ => std::fs::rename(&part, path),
            }),
        });
    // After a rename there is nothing left; the first error is the one to tell.
    let _ = std::fs::remove_file(&part);
    match done {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(exists(path)),
        done => done.map_err(CliError::io("write", path)),
    }
}
