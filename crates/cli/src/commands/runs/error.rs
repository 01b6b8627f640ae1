//! What can go wrong with `weir runs`, with the exit code of the contract.

use std::io;
use std::path::PathBuf;

use weir_model::ModelError;
use weir_runs::StoreError;

use crate::engine::file_exit_code;

/// What can go wrong with `weir runs`.
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
    /// Nothing is stored yet.
    #[error("no run '{selector}': no run is stored in {} yet", path.display())]
    Nothing {
        /// What was asked for.
        selector: String,
        /// Where.
        path: PathBuf,
    },
    /// A word that means an experiment, where a run is meant.
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
    /// A run that would be compared with itself.
    #[error("run {id} is on both sides: a comparison needs runs that differ")]
    BothSides {
        /// The run.
        id: String,
    },
    /// Stdout.
    #[error("write to stdout: {0}")]
    Output(#[from] io::Error),
}

impl RunsError {
    /// The exit code of the contract.
    pub(crate) fn exit_code(&self) -> i32 {
        match self {
            // A reader that had enough (`| head`) is no failure of ours.
            RunsError::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => 0,
            RunsError::Output(e) => file_exit_code(e.kind()),
            RunsError::Nothing { .. }
            | RunsError::Experiment { .. }
            | RunsError::Flag { .. }
            | RunsError::NoRuns { .. }
            | RunsError::BothSides { .. } => 2,
            RunsError::File { source, .. } => file_exit_code(source.kind()),
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
