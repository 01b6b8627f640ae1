//! Stores what a watch measures.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weir_jobs::Notice;
use weir_model::watch::{Line, Minute};
use weir_runs::{DataDirectory, LatestPair, StoreError, Watches};

use crate::commands::runs::RunsError;
use crate::error::CliError;
use crate::job::warn;

/// Rows that wait while the file can't be written.
const MAX_WAITING: usize = 100_000;
/// Writing takes at most a tenth of the time: a slow disk gets fewer writes.
const WRITING_PART: u32 = 10;

/// The file, and the rows that are not in it yet.
pub(super) struct Store {
    file: Option<Watches>,
    mesh: String,
    minutes: Vec<Minute>,
    events: Vec<Line>,
    /// The latest figures of pairs, by the pair.
    latest: BTreeMap<(String, String), LatestPair>,
    /// Nothing is written before.
    next: Instant,
    /// The last attempt failed.
    is_failing: bool,
}

impl Store {
    /// Opens the file of this user, unless nothing `is_stored`.
    pub(super) fn open(mesh: &str, is_stored: bool) -> Result<Store, CliError> {
        let open =
            || -> Result<Watches, StoreError> { Watches::open_at(&DataDirectory::of_this_user()?) };
        Ok(Store {
            file: is_stored.then(open).transpose().map_err(RunsError::from)?,
            mesh: mesh.to_owned(),
            minutes: vec![],
            events: vec![],
            latest: BTreeMap::new(),
            next: Instant::now(),
            is_failing: false,
        })
    }

    pub(super) fn minute(&mut self, minute: Minute) {
        self.minutes.push(minute);
    }

    /// Adds a second, a burst, a change or the state of an agent.
    pub(super) fn event(&mut self, line: &Line) {
        match line {
            Line::Start(_) => {}
            Line::Second(second) => {
                let pair = (second.from.clone(), second.to.clone());
                self.latest.insert(pair, LatestPair::of(second));
            }
            _ => self.events.push(line.clone()),
        }
    }

    /// Writes what waits, unless the last write was too short a time ago.
    pub(super) fn flush(&mut self, now_unix_seconds: u64) {
        if Instant::now() >= self.next {
            self.flush_all(now_unix_seconds);
        }
    }

    /// Writes what waits.
    pub(super) fn flush_all(&mut self, now_unix_seconds: u64) {
        let Some(file) = &mut self.file else {
            self.minutes.clear();
            self.events.clear();
            self.latest.clear();
            return;
        };
        if self.minutes.is_empty() && self.events.is_empty() && self.latest.is_empty() {
            return;
        }
        let start = Instant::now();
        let (latest, now) = (self.latest.values(), now_unix_seconds);
        match file.add(&self.mesh, &self.minutes, &self.events, latest, now) {
            Ok(()) => {
                self.is_failing = false;
                self.minutes.clear();
                self.events.clear();
                self.latest.clear();
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
        let took: Duration = start.elapsed();
        self.next = Instant::now() + took * (WRITING_PART - 1);
    }
}
