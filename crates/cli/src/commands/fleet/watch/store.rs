//! Stores what a watch measures.

use weir_jobs::Notice;
use weir_model::watch::{Line, Minute};
use weir_runs::{DataDirectory, StoreError, Watches};

use crate::commands::runs::RunsError;
use crate::error::CliError;
use crate::job::warn;

/// Rows that wait while the file can't be written.
const MAX_WAITING: usize = 100_000;

/// The file, and the rows that are not in it yet.
pub(super) struct Store {
    file: Option<Watches>,
    mesh: String,
    minutes: Vec<Minute>,
    events: Vec<Line>,
    /// The last attempt failed.
    is_failing: bool,
}

impl Store {
    /// Opens the file of this user, unless nothing `is_stored`.
    pub(super) fn open(mesh: &str, is_stored: bool) -> Result<Store, CliError> {
        let open =
            || -> Result<Watches, StoreError> { Watches::open_at(&DataDirectory::of_this_user()?) };
        let file = is_stored.then(open).transpose().map_err(RunsError::from)?;
        let mesh = mesh.to_owned();
        Ok(Store { file, mesh, minutes: vec![], events: vec![], is_failing: false })
    }

    pub(super) fn minute(&mut self, minute: Minute) {
        self.minutes.push(minute);
    }

    /// Adds a burst, a change or the state of an agent.
    pub(super) fn event(&mut self, line: &Line) {
        if !matches!(line, Line::Start(_) | Line::Second(_)) {
            self.events.push(line.clone());
        }
    }

    /// Writes what waits.
    pub(super) fn flush(&mut self, now_unix_seconds: u64) {
        let Some(file) = &mut self.file else {
            self.minutes.clear();
            self.events.clear();
            return;
        };
        if self.minutes.is_empty() && self.events.is_empty() {
            return;
        }
        match file.add(&self.mesh, &self.minutes, &self.events, now_unix_seconds) {
            Ok(()) => {
                self.is_failing = false;
                self.minutes.clear();
                self.events.clear();
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    warn(Notice::NOT_STORED, &format!("{error}; it is tried again"));
                }
                let more = self.minutes.len().saturating_sub(MAX_WAITING);
                self.minutes.drain(..more);
                let more = self.events.len().saturating_sub(MAX_WAITING);
                self.events.drain(..more);
            }
        }
    }
}
