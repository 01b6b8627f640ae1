//! Errors of the store: the operation, the file, the reason and a remedy.

use std::path::PathBuf;

use rusqlite::ErrorCode;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or directory could not be created or read.
    #[error("{operation} {}: {source}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// An error of SQLite: the file is full, locked, read-only, damaged or no database.
    #[error("{operation} in {}: {}", path.display(), explain(source))]
    Database {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// SQLite's reason.
        source: rusqlite::Error,
    },
    /// The file has the layout of another version of Weir.
    #[error(
        "{} has layout {found} of another version of Weir; this version reads layout {known}: use the other version, or set WEIR_DATA_DIR to another directory",
        path.display()
    )]
    Layout {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The layout of this version.
        known: i64,
    },
    /// Another program's database.
    #[error("{}: {reason}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Why it is not used.
        reason: String,
    },
    /// No data directory is known.
    #[error("no directory for runs: set WEIR_DATA_DIR, XDG_DATA_HOME or HOME")]
    NoDirectory,
    /// No run has this id or prefix.
    #[error("no run '{selector}' in {}; 'weir runs list' shows the stored ones", path.display())]
    NotFound {
        /// The selector.
        selector: String,
        /// The file.
        path: PathBuf,
    },
    /// Several runs have this prefix.
    #[error("'{selector}' matches more than one run: {}", matches.join(", "))]
    Ambiguous {
        /// The selector.
        selector: String,
        /// Some of the ids.
        matches: Vec<String>,
    },
    /// All experiments are complete.
    #[error("no experiment '{selector}' to resume in {}: all stored ones are complete", path.display())]
    NoUnfinished {
        /// The selector.
        selector: String,
        /// The directory.
        path: PathBuf,
    },
    /// No experiment has this id or prefix.
    #[error(
        "no experiment '{selector}' in {}; {}",
        path.display(),
        if newest.is_empty() { "none is stored yet".into() } else { format!("the newest are {}", newest.join(", ")) }
    )]
    NoExperiment {
        /// The selector.
        selector: String,
        /// The directory.
        path: PathBuf,
        /// Some existing ids.
        newest: Vec<String>,
    },
    /// Several experiments have this prefix.
    #[error("'{selector}' matches more than one experiment: {}", matches.join(", "))]
    SeveralExperiments {
        /// The selector.
        selector: String,
        /// Their ids.
        matches: Vec<String>,
    },
    /// A run with this id exists.
    #[error("run {id} exists in {}", path.display())]
    Exists {
        /// The id.
        id: String,
        /// The file.
        path: PathBuf,
    },
    /// A record that can't be stored.
    #[error("record {id:?}: {reason}")]
    Refused {
        /// Its id.
        id: String,
        /// Why.
        reason: String,
    },
    /// A label that can't be stored.
    #[error("label '{}': {reason}", label.escape_debug())]
    Label {
        /// As it was given.
        label: String,
        /// What is accepted.
        reason: &'static str,
    },
    /// A label that a run does not have.
    #[error("run {id} has no label '{key}'; its labels: {}", if present.is_empty() { "none".into() } else { present.join(", ") })]
    NoLabel {
        /// The run.
        id: String,
        /// The requested key.
        key: String,
        /// The keys that it has.
        present: Vec<String>,
    },
    /// A stored record or calibration that is unreadable.
    #[error("{what} in {} is unreadable: {reason}", path.display())]
    Unreadable {
        /// Which one.
        what: String,
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// An import stopped.
    #[error("import, record {number}: {reason} ({kept} records before it were stored)")]
    Import {
        /// Number of the record in the input, from 1.
        number: u64,
        /// Why.
        reason: String,
        /// Number of records of the input that are in the store now, including those that existed.
        kept: u64,
    },
    /// The export could not be written.
    #[error("export of run {id}: {source}")]
    Export {
        /// The run.
        id: String,
        /// The writer's reason.
        source: std::io::Error,
    },
}

/// SQLite's error as text with a remedy.
fn explain(error: &rusqlite::Error) -> String {
    let help = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full",
        Some(ErrorCode::ReadOnly) => "the file or its directory is read-only",
        Some(ErrorCode::NotADatabase) => {
            "not a database: move it, or set WEIR_DATA_DIR to another directory"
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            "the file is damaged: move it, and import what 'weir runs export' still reads from it"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program has locked the file for too long"
        }
        Some(ErrorCode::CannotOpen) => {
            "the file can't be opened: permissions or a missing directory"
        }
        Some(ErrorCode::PermissionDenied) => "not permitted",
        _ => return error.to_string(),
    };
    format!("{help} ({error})")
}
