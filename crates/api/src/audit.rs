//! The audit log: every request that changes something, in memory and in a file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use weir_net::file::private;

use crate::app::lock;
use crate::types::AuditEntry;

/// Number of entries returned.
const MAX: usize = 1000;
/// Size from which the file is renamed; the previously renamed one is deleted.
const MAX_BYTES: u64 = 16 << 20;

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

    /// Writes an entry. If the file can't be written the server still answers; the entry is in memory.
    pub(crate) fn write(&self, entry: AuditEntry) {
        let mut latest = lock(&self.latest);
        if let Some(path) = &self.path
            && let Ok(line) = serde_json::to_string(&entry)
        {
            if path.metadata().is_ok_and(|m| m.len() > MAX_BYTES) {
                let _ = std::fs::rename(path, path.with_extension("jsonl.1"));
            }
            let _ = open(path).and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        }
        if latest.len() >= MAX {
            latest.pop_front();
        }
        latest.push_back(entry);
    }
}

fn open(path: &Path) -> io::Result<File> {
    private(File::options().append(true).create(true)).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_appended() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let write = |name: &str| {
            Audit::new(Some(at(name))).write(AuditEntry {
                at: "T".into(),
                address: "192.0.2.1:7".into(),
                user: None,
                method: "PUT".into(),
                path: "/x".into(),
                status: 200,
            });
        };
        let text = |name: &str| std::fs::read_to_string(at(name)).unwrap();
        write("audit.jsonl");
        write("audit.jsonl");
        assert_eq!(text("audit.jsonl").lines().count(), 2);
    }
}
