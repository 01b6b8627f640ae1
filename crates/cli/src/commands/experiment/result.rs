//! Writes the results of an experiment at its end.

use std::path::{Path, PathBuf};

use weir_model::experiment::Experiment;
use weir_model::json::to_line;
use weir_report::experiment_csv;
use weir_report::page::{html, of_experiment};
use weir_runs::Experiments;

use super::ResultArgs;
use crate::commands::runs::RunsError;
use crate::error::CliError;
use crate::files::{check, check_directory, write};
use crate::job::{is_job, notice};
use crate::named::{NamedFile, apart};
use crate::output::{print, print_object};

/// The files to write at the end, by their flags.
fn outputs(args: &ResultArgs) -> Vec<NamedFile<'_>> {
    let files = [("--junit", &args.junit), ("--csv", &args.csv), ("--html", &args.html)];
    let named = files.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?)));
    named.map(|(flag, path)| NamedFile { flag, path, is_written: true }).collect()
}

/// Whether a path means standard output.
fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Whether standard output is reserved for a result: messages then go to standard error.
pub(super) fn has_stdout(args: &ResultArgs) -> bool {
    args.json || outputs(args).iter().any(|named| is_stdout(named.path))
}

/// Refuses two results on standard output, and standard output as a directory.
fn check_streams(args: &ResultArgs) -> Result<(), CliError> {
    let given = outputs(args);
    let json = args.json.then_some("--json");
    let mut flags =
        json.into_iter().chain(given.iter().filter(|n| is_stdout(n.path)).map(|n| n.flag));
    if let (Some(first), Some(second)) = (flags.next(), flags.next()) {
        let why = format!("standard output, which {first} uses");
        return Err(CliError::flag(second, why, "a file, or one of them alone"));
    }
    match args.svg.as_deref().is_some_and(is_stdout) {
        true => Err(CliError::flag("--svg", "-", "a directory: there may be several figures")),
        false => Ok(()),
    }
}

/// Whether a path is that of a figure that may be written into `directory`.
fn is_figure_of(path: &Path, directory: &Path) -> bool {
    let resolved = |path: &Path| {
        std::path::absolute(path).ok().and_then(|p| p.canonicalize().ok().or(Some(p)))
    };
    let parent = path.parent().map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p });
    path.extension().is_some_and(|e| e == "svg") && parent.and_then(resolved) == resolved(directory)
}

/// Refuses outputs that would overwrite a file from which the experiment is read.
pub(super) fn check_inputs(
    args: &ResultArgs,
    inputs: &[(&'static str, PathBuf)],
) -> Result<(), CliError> {
    let read = inputs.iter().map(|(flag, path)| NamedFile { flag, path, is_written: false });
    // The figures' names are not known yet: no existing figure in the directory may be an input.
    let entries = args.svg.iter().filter_map(|directory| std::fs::read_dir(directory).ok());
    let figures: Vec<PathBuf> = entries
        .flat_map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())))
        .filter(|path| path.extension().is_some_and(|e| e == "svg"))
        .collect();
    let figures = figures.iter().map(|path| NamedFile { flag: "--svg", path, is_written: true });
    let svg = args.svg.iter().map(|path| NamedFile { flag: "--svg", path, is_written: true });
    let read: Vec<_> = read.collect();
    let is_svg_read = |figure: &NamedFile<'_>| apart(&[&read[..], &[*figure]].concat());
    figures.chain(svg).try_for_each(|figure| is_svg_read(&figure))?;
    apart(&[read, outputs(args)].concat())
}

/// Refuses, before anything is measured, outputs that could not be written at the end.
pub(super) fn check_outputs(args: &ResultArgs) -> Result<(), CliError> {
    // Several outputs may share a device or a pipe, but not standard output.
    check_streams(args)?;
    let given = outputs(args);
    let svg = args.svg.as_deref().map(|path| NamedFile { flag: "--svg", path, is_written: true });
    apart(&outputs(args).into_iter().chain(svg).collect::<Vec<_>>())?;
    let files = given.iter().filter(|named| !is_stdout(named.path));
    files.clone().try_for_each(|named| check(named.flag, named.path))?;
    if let Some(directory) = &args.svg
        && let Some(inside) = files.clone().find(|named| is_figure_of(named.path, directory))
    {
        return Err(CliError::flag(
            inside.flag,
            format!("{}, where --svg writes its figures", inside.path.display()),
            "a file in another directory, or with another extension",
        ));
    }
    args.svg.as_ref().map_or(Ok(()), |directory| check_directory("--svg", directory))
}

/// Prints JSON if requested, stores the result next to its checkpoint, and writes the requested files. A failure does not
/// prevent the other outputs; the first failure is returned.
pub(super) fn finish(
    experiment: &Experiment,
    args: &ResultArgs,
    stored: Option<&Experiments>,
) -> Result<(), CliError> {
    let line = to_line(experiment).map_err(|e| CliError::Internal(e.to_string()))? + "\n";
    let mut first = Ok(());
    let mut done = |outcome: Result<(), CliError>| {
        if first.is_ok() {
            first = outcome;
        }
    };
    if args.json {
        let printed = match is_job() {
            true => print_object(experiment),
            false => print(&line),
        };
        done(printed.map(drop));
    }
    if let Some(stored) = stored {
        done(stored.keep(&experiment.id, &line).map_err(|e| RunsError::from(e).into()));
    }
    let is_stored = stored.is_some() && first.is_ok();
    let mut done = |outcome: Result<(), CliError>, again: &str| {
        if outcome.is_err() && is_stored {
            // The file failed, but the result is not lost.
            notice("stored", &format!("the result is stored: {again}"));
        }
        if first.is_ok() {
            first = outcome;
        }
    };
    let put = |operation, path: &Path, text: &str| match is_stdout(path) {
        true => print(text).map(drop),
        false => write(operation, path, text),
    };
    let report = format!("weir report {}", experiment.id);
    if let Some(path) = &args.junit {
        let text = weir_experiment::scenario::junit::junit(experiment);
        done(put("--junit: write", path, &text), &format!("{report} shows its verdict"));
    }
    if let Some(path) = &args.csv {
        let again = format!("{report} --format csv --figure points -o FILE writes it again");
        done(put("--csv: write", path, &experiment_csv(experiment)), &again);
    }
    if args.html.is_some() || args.svg.is_some() {
        let page = of_experiment(experiment);
        if let Some(path) = &args.html {
            let again = format!("{report} -o FILE writes it again");
            done(put("--html: write", path, &html(&page)), &again);
        }
        if let Some(directory) = &args.svg {
            let made = std::fs::create_dir_all(directory)
                .map_err(CliError::io("--svg: make directory", directory));
            let mut drawn = page.figures().map(|figure| {
                let path = directory.join(format!("{}.svg", figure.id));
                write("--svg: write", &path, &figure.svg())
            });
            let again = format!("{report} --format svg -o DIR writes them again");
            done(made.and_then(|()| drawn.try_for_each(|written| written)), &again);
        }
    }
    first
}
