//! What is written of an experiment at its end.

use std::path::{Path, PathBuf};

use weir_model::experiment::Experiment;
use weir_model::json::to_line;
use weir_report::experiment_csv;
use weir_report::page::{html, of_experiment};
use weir_runs::Experiments;

use super::ResultArgs;
use crate::commands::impair::files::{Named, apart};
use crate::commands::runs::RunsError;
use crate::error::CliError;
use crate::files::{check, check_directory, write};
use crate::output::print;

/// The files that are written at the end, by their flags.
fn outputs(args: &ResultArgs) -> Vec<Named<'_>> {
    let files = [("--junit", &args.junit), ("--csv", &args.csv), ("--html", &args.html)];
    let named = files.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?)));
    named
        .map(|(flag, path)| Named {
            flag,
            // A file of this name is no stream here.
            path: if path.as_os_str() == "-" { Path::new("./-") } else { path },
            is_written: true,
        })
        .collect()
}

/// Refuses what would be written over a file that the experiment is read from.
pub(super) fn check_inputs(
    args: &ResultArgs,
    inputs: &[(&'static str, PathBuf)],
) -> Result<(), CliError> {
    let read = inputs.iter().map(|(flag, path)| Named { flag, path, is_written: false });
    apart(&read.chain(outputs(args)).collect::<Vec<_>>())
}

/// Refuses what could not be written at the end, before anything is measured.
pub(super) fn check_outputs(args: &ResultArgs) -> Result<(), CliError> {
    // Devices and pipes take what several write.
    let given = outputs(args);
    apart(&given)?;
    given.iter().try_for_each(|named| check(named.flag, named.path))?;
    args.svg.as_ref().map_or(Ok(()), |directory| check_directory("--svg", directory))
}

/// Prints JSON where it was asked for, keeps the result beside its journal, and writes the files that were asked for. What
/// can be written is, whatever becomes of the rest; the first failure is returned.
pub(super) fn finish(
    experiment: &Experiment,
    args: &ResultArgs,
    kept: Option<&Experiments>,
) -> Result<(), CliError> {
    let line = to_line(experiment).map_err(|e| CliError::Internal(e.to_string()))? + "\n";
    let mut first = Ok(());
    let mut done = |outcome: Result<(), CliError>| {
        if first.is_ok() {
            first = outcome;
        }
    };
    if args.json {
        done(print(&line).map(drop));
    }
    if let Some(kept) = kept {
        done(kept.keep(&experiment.id, &line).map_err(|e| RunsError::from(e).into()));
    }
    if let Some(path) = &args.junit {
        done(write("--junit: write", path, &weir_experiment::scenario::junit::junit(experiment)));
    }
    if let Some(path) = &args.csv {
        done(write("--csv: write", path, &experiment_csv(experiment)));
    }
    if args.html.is_some() || args.svg.is_some() {
        let page = of_experiment(experiment);
        if let Some(path) = &args.html {
            done(write("--html: write", path, &html(&page)));
        }
        if let Some(directory) = &args.svg {
            done(
                std::fs::create_dir_all(directory)
                    .map_err(CliError::io("--svg: make directory", directory)),
            );
            for figure in page.figures() {
                let path = directory.join(format!("{}.svg", figure.id));
                done(write("--svg: write", &path, &figure.svg()));
            }
        }
    }
    first
}
