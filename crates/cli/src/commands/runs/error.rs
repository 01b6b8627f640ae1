//! Errors of `weir runs` and their exit codes.

use std::io;
use std::path::{Path, PathBuf};

use weir_exchange::{NoForm, ReadError};
use weir_model::{ModelError, Refusal};
use weir_runs::StoreError;

use super::ditg::NoPackets;
use crate::engine::file_exit_code;

/// An error of `weir runs`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunsError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A value of a flag.
    #[error("{flag}: {error}")]
    Flag {
        /// Which one.
        flag: &'static str,
        /// What is accepted.
        error: ModelError,
    },
    /// A file that was named.
    #[error("{operation} {}: {source}", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file or directory of `--parquet`.
    #[error("--parquet: {operation} {}: {source}", path.display())]
    #[cfg(feature = "parquet")]
    Parquet {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// `--parquet` in a build that can't write it.
    #[error(
        "--parquet: {}: not available in this build; accepted: a released build, or one by cargo build -p weir --features parquet",
        directory.display()
    )]
    #[cfg(not(feature = "parquet"))]
    NoParquet {
        /// The directory that was given.
        directory: PathBuf,
    },
    /// Nothing is stored yet.
    #[error("no run '{selector}': no run is stored in {} yet", path.display())]
    Nothing {
        /// What was asked for.
        selector: String,
        /// Where.
        path: PathBuf,
    },
    /// The id of an experiment in place of a run's.
    #[error(
        "{id} is an experiment, not a run: weir report {id} shows it, weir runs list --label experiment={id} its runs"
    )]
    Experiment {
        /// Its id.
        id: String,
    },
    /// A side of a comparison without runs.
    #[error("{side}: no run has {given}; 'weir runs list --label' shows those that do")]
    NoRuns {
        /// The flag.
        side: &'static str,
        /// The labels.
        given: String,
    },
    /// A run that is on both sides of a comparison.
    #[error("run {id} is on both sides: a comparison needs runs that differ")]
    BothSides {
        /// The run.
        id: String,
    },
    /// A run that another tool's format can't state.
    #[error("run {run}: {reason}")]
    NoForm {
        /// The run.
        run: String,
        /// Why not.
        reason: NoForm,
    },
    /// A file of another tool that can't be read.
    #[error("import {}: {error}", path.display())]
    Result {
        /// Which one.
        path: PathBuf,
        /// Where and why.
        error: ReadError,
    },
    /// A run whose packets D-ITG's log can't have.
    #[error("run {run}: {reason}")]
    NoPackets {
        /// The run.
        run: String,
        /// Why not.
        reason: NoPackets,
    },
    /// Stdout.
    #[error("write to stdout: {0}")]
    Output(#[from] io::Error),
}

impl RunsError {
    /// Code, field and values as data; [`crate::error::CliError`] adds the message and the exit code.
    pub(crate) fn refusal(&self) -> Refusal {
        let of = |code: &str, field: Option<&str>, given: Option<String>| Refusal {
            code: code.into(),
            field: field.map(Into::into),
            given,
            ..Refusal::default()
        };
        let path = |path: &Path| Some(path.display().to_string());
        match self {
            RunsError::Flag { flag, error } => Refusal {
                code: "usage".into(),
                field: Some((*flag).into()),
                ..Refusal::from(error)
            },
            RunsError::File { path: file, .. } => of("file", None, path(file)),
            #[cfg(feature = "parquet")]
            RunsError::Parquet { path: file, .. } => of("file", Some("--parquet"), path(file)),
            #[cfg(not(feature = "parquet"))]
            RunsError::NoParquet { directory } => {
                of("not-available", Some("--parquet"), path(directory))
            }
            RunsError::Nothing { selector, .. } => {
                of("not-found", Some("RUN"), Some(selector.clone()))
            }
            RunsError::Experiment { id } => of("not-a-run", Some("RUN"), Some(id.clone())),
            RunsError::NoRuns { side, given } => of("not-found", Some(side), Some(given.clone())),
            RunsError::BothSides { id } => of("same-run", Some("RUN"), Some(id.clone())),
            RunsError::NoForm { run, .. } | RunsError::NoPackets { run, .. } => {
                of("no-form", Some("--format"), Some(run.clone()))
            }
            RunsError::Result { error, .. } => Refusal {
                code: "result".into(),
                field: error.field.clone(),
                given: Some(error.given.clone()),
                accepted: Some(error.accepted.clone()),
                line: error.line,
                ..Refusal::default()
            },
            RunsError::Output(_) => of("file", None, Some("stdout".into())),
            RunsError::Store(error) => match error {
                StoreError::Io { path: file, .. } => of("file", None, path(file)),
                StoreError::NotFound { selector, .. }
                | StoreError::NoExperiment { selector, .. } => {
                    of("not-found", Some("RUN"), Some(selector.clone()))
                }
                StoreError::NoUnfinished { selector, .. } => {
                    of("not-found", Some("--resume"), Some(selector.clone()))
                }
                StoreError::Ambiguous { selector, .. }
                | StoreError::SeveralExperiments { selector, .. } => {
                    of("ambiguous", Some("RUN"), Some(selector.clone()))
                }
                StoreError::Exists { id, .. } => of("exists", Some("RUN"), Some(id.clone())),
                StoreError::Label { label, .. } => of("label", Some("LABEL"), Some(label.clone())),
                StoreError::NoLabel { key, .. } => of("label", Some("LABEL"), Some(key.clone())),
                _ => of("runs", None, None),
            },
        }
    }

    /// The exit code for the error.
    pub(crate) fn exit_code(&self) -> i32 {
        match self {
            // A reader that closes the pipe early (`| head`) is no failure.
            RunsError::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => 0,
            RunsError::Output(e) => file_exit_code(e.kind()),
            RunsError::Nothing { .. }
            | RunsError::Experiment { .. }
            | RunsError::Flag { .. }
            | RunsError::NoRuns { .. }
            | RunsError::NoForm { .. }
            | RunsError::Result { .. }
            | RunsError::NoPackets { .. }
            | RunsError::BothSides { .. } => 2,
            RunsError::File { source, .. } => file_exit_code(source.kind()),
            #[cfg(feature = "parquet")]
            RunsError::Parquet { source, .. } => file_exit_code(source.kind()),
            #[cfg(not(feature = "parquet"))]
            RunsError::NoParquet { .. } => 4,
            RunsError::Store(e) => match e {
                StoreError::NotFound { .. }
                | StoreError::Ambiguous { .. }
                | StoreError::Refused { .. }
                | StoreError::Exists { .. }
                | StoreError::Label { .. }
                | StoreError::NoLabel { .. }
                | StoreError::Import { .. }
                | StoreError::NoExperiment { .. }
                | StoreError::NoUnfinished { .. }
                | StoreError::SeveralExperiments { .. } => 2,
                StoreError::Export { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => {
                    0
                }
                _ => 4,
            },
        }
    }
}
