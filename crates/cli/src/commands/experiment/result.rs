//! What is written of an experiment at its end.

use std::io::Write;
use std::path::Path;

use weir_model::experiment::Experiment;
use weir_model::json::to_line;
use weir_report::experiment_csv;
use weir_report::page::{html, of_experiment};
use weir_runs::{Experiments, new_beside};

use super::ResultArgs;
use crate::commands::runs::RunsError;
use crate::error::CliError;
use crate::output::print;

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
        done(write(path, &weir_experiment::scenario::junit::junit(experiment)));
    }
    if let Some(path) = &args.csv {
        done(write(path, &experiment_csv(experiment)));
    }
    if args.html.is_some() || args.svg.is_some() {
        let page = of_experiment(experiment);
        if let Some(path) = &args.html {
            done(write(path, &html(&page)));
        }
        if let Some(directory) = &args.svg {
            done(
                std::fs::create_dir_all(directory)
                    .map_err(CliError::io("make directory", directory)),
            );
            for figure in page.figures() {
                done(write(&directory.join(format!("{}.svg", figure.id)), &figure.svg()));
            }
        }
    }
    first
}

/// By a new file and its name: a full disk leaves what was there, and no link of a guessed name is followed.
fn write(path: &Path, text: &str) -> Result<(), CliError> {
    let fail = CliError::io("write", path);
    let (mut file, beside) = match new_beside(path, false) {
        Ok(made) => made,
        Err(e) => return Err(fail(e)),
    };
    let written = file.write_all(text.as_bytes()).and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|e| {
        let _ = std::fs::remove_file(&beside);
        fail(e)
    })
}
