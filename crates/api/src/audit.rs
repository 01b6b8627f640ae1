//! Who changed what: every request that is no reading, in memory and in a file.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Mutex;

use crate::app::lock;
use crate::types::AuditEntry;

/// Entries that are told.
const MOST: usize = 1000;
/// The file is put aside beyond this size; the one put aside before is lost.
const MOST_BYTES: u64 = 16 << 20;

/// The log.
#[derive(Debug)]
pub(crate) struct Audit {
    path: Option<PathBuf>,
    latest: Mutex<VecDeque<AuditEntry>>,
}

impl Audit {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Audit { path, latest: Mutex::default() }
    }

    pub(crate) fn path(&self) -> Option<String> {
        self.path.as_ref().map(|p| p.display().to_string())
    }

    /// Newest first.
    pub(crate) fn latest(&self) -> Vec<AuditEntry> {
        lock(&self.latest).iter().rev().cloned().collect()
    }

    /// Writes an entry. A file that can't be written does not keep the server from answering; memory still has it.
    pub(crate) fn write(&self, entry: AuditEntry) {
        let mut latest = lock(&self.latest);
        if let Some(path) = &self.path
            && let Ok(line) = serde_json::to_string(&entry)
        {
            if path.metadata().is_ok_and(|m| m.len() > MOST_BYTES) {
                let _ = std::fs::rename(path, path.with_extension("jsonl.1"));
            }
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
            let _ = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        }
        if latest.len() >= MOST {
            latest.pop_front();
        }
        latest.push_back(entry);
    }
}
