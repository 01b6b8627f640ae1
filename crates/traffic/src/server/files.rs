//! Files of what sessions receive, in a directory of the operator's choice.
//!
//! Names are the server's. Each session, and all files of this server together, have a limit of bytes; what arrives above it, or
//! when the disk is full, is received but not stored, and the file's error says so. A file is removed with its session unless
//! the server is to keep it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};
use weir_model::record::ReceivedFile;

use crate::TrafficError;

/// Maximum number of files of a session: each takes a descriptor.
pub(crate) const MAX_FILES: usize = 64;
/// Names that are tried for a file, where older ones exist.
const NAME_CHOICES: u32 = 1000;

/// Where a server stores what its clients ask it to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileConfig {
    /// The directory, which must exist.
    pub directory: PathBuf,
    /// Files stay when their session ends.
    pub keeps: bool,
    /// Maximum bytes of the files of a session.
    pub session_bytes: u64,
    /// Maximum bytes of all files of this server that have not been removed.
    pub bytes: u64,
}

/// The files of a server.
#[derive(Debug)]
pub(crate) struct Files {
    config: FileConfig,
    used: Arc<AtomicU64>,
}

/// A file that is written by a worker and read by the session.
pub(crate) type SharedFile = Arc<Mutex<StoredFile>>;

impl Files {
    /// Checks the directory.
    pub(crate) fn open(config: &FileConfig) -> Result<Files, TrafficError> {
        let failed = |source| TrafficError::File {
            field: "file_dir",
            path: config.directory.clone(),
            source,
        };
        let found = std::fs::metadata(&config.directory).map_err(failed)?;
        if !found.is_dir() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
        Ok(Files { config: config.clone(), used: Arc::default() })
    }

    /// Creates a file for each of the flows of a session.
    pub(crate) fn of_session(
        &self,
        session: u64,
        flows: &[u32],
    ) -> io::Result<Vec<(u32, SharedFile)>> {
        let used_by_session = Arc::new(AtomicU64::new(0));
        let create = |flow: &u32| {
            let (file, path, name) = create(&self.config.directory, session, *flow)?;
            let stored = StoredFile {
                file,
                path,
                name,
                hasher: Sha256::new(),
                bytes: 0,
                keeps: self.config.keeps,
                quotas: [
                    Quota {
                        used: used_by_session.clone(),
                        most: self.config.session_bytes,
                        limit: "of a session (--max-session-file)",
                    },
                    Quota {
                        used: self.used.clone(),
                        most: self.config.bytes,
                        limit: "of all files (--max-files)",
                    },
                ],
                error: None,
            };
            Ok((*flow, Arc::new(Mutex::new(stored))))
        };
        flows.iter().map(create).collect()
    }
}

/// Creates a new file, which only its owner can read, and never opens an existing one.
fn create(directory: &Path, session: u64, flow: u32) -> io::Result<(File, PathBuf, String)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut choice = 0;
    loop {
        let name = match choice {
            0 => format!("weir-{session:08x}-{flow}"),
            _ => format!("weir-{session:08x}-{flow}.{choice}"),
        };
        let path = directory.join(&name);
        match options.open(&path) {
            Ok(file) => return Ok((file, path, name)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && choice < NAME_CHOICES => {
                choice += 1;
            }
            Err(e) => return Err(e),
        }
    }
}

/// Bytes that may be stored.
#[derive(Debug)]
struct Quota {
    used: Arc<AtomicU64>,
    most: u64,
    /// Which limit it is.
    limit: &'static str,
}

impl Quota {
    /// Reserves up to `bytes`; returns how many.
    fn take(&self, bytes: u64) -> u64 {
        let mut taken = 0;
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            taken = bytes.min(self.most.saturating_sub(used));
            Some(used + taken)
        });
        taken
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// One file. Removed when dropped, unless it is to be kept.
#[derive(Debug)]
pub(crate) struct StoredFile {
    file: File,
    path: PathBuf,
    name: String,
    hasher: Sha256,
    bytes: u64,
    keeps: bool,
    quotas: [Quota; 2],
    error: Option<String>,
}

impl StoredFile {
    /// Stores bytes that arrived next. After the first failure nothing more is stored: the file has the beginning of the
    /// stream.
    pub(crate) fn write(&mut self, data: &[u8]) {
        if self.error.is_some() {
            return;
        }
        let [session, all] = &self.quotas;
        let wanted = data.len() as u64;
        let by_session = session.take(wanted);
        let granted = all.take(by_session);
        session.give_back(by_session - granted);
        if granted < wanted {
            let Quota { most, limit, .. } = if by_session < wanted { session } else { all };
            self.error = Some(format!("the server's limit {limit} of {most} bytes was reached"));
        }
        let mut left = &data[..granted as usize];
        while !left.is_empty() {
            match self.file.write(left) {
                Ok(written) if written > 0 => {
                    self.hasher.update(&left[..written]);
                    self.bytes += written as u64;
                    left = &left[written..];
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                outcome => {
                    let error = outcome.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into());
                    self.error = Some(format!("writing the file: {error}"));
                    self.quotas.iter().for_each(|quota| quota.give_back(left.len() as u64));
                    return;
                }
            }
        }
    }

    /// Up to `most` bytes from `offset` on; none at the end.
    pub(crate) fn read(&mut self, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let left = self.bytes.saturating_sub(offset).min(most as u64);
        self.file.seek(SeekFrom::Start(offset.min(self.bytes)))?;
        let mut part = vec![0; left as usize];
        self.file.read_exact(&mut part)?;
        Ok(part)
    }

    /// Its part of the record.
    pub(crate) fn report(&self) -> ReceivedFile {
        ReceivedFile {
            name: self.name.clone(),
            bytes: self.bytes,
            sha256: crate::key::to_hex(&self.hasher.clone().finalize()),
            is_kept: self.keeps,
            error: self.error.clone(),
            is_whole: None,
            fetched_bytes: None,
        }
    }
}

impl Drop for StoredFile {
    fn drop(&mut self) {
        if !self.keeps {
            let _ = std::fs::remove_file(&self.path);
            self.quotas.iter().for_each(|quota| quota.give_back(self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_net::thread::lock;

    fn files(directory: &Path, keeps: bool) -> Files {
        let config =
            FileConfig { directory: directory.into(), keeps, session_bytes: 10, bytes: 25 };
        Files::open(&config).unwrap()
    }

    #[test]
    fn limits_cut_files_and_are_free_again_with_their_session() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(directory.path(), false);
        let session = |number, bytes: &[u8]| {
            let stored = files.of_session(number, &[1]).unwrap().remove(0).1;
            lock(&stored).write(bytes);
            stored
        };
        let first = session(1, b"0123456789abc");
        let report = lock(&first).report();
        assert_eq!((report.bytes, report.error.is_some()), (10, true));
        assert_eq!(lock(&first).read(8, 100).unwrap(), b"89");
        assert_eq!(lock(&first).read(10, 100).unwrap(), b"");
        assert_eq!(lock(&first).read(u64::MAX, 100).unwrap(), b"");
        // What follows a gap is not stored.
        lock(&first).write(b"more");
        assert_eq!(lock(&first).report().bytes, 10);
        let others = [session(2, b"0123456789"), session(3, b"0123456789")];
        let bytes = others.each_ref().map(|stored| lock(stored).report().bytes);
        assert_eq!(bytes, [10, 5]);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3);
        drop((first, others));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        assert_eq!(lock(&session(4, b"0123456789")).report().error, None);
    }

    #[test]
    fn kept_files_stay_and_are_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        for content in [b"one", b"two"] {
            let files = files(directory.path(), true);
            let stored = files.of_session(7, &[1]).unwrap().remove(0).1;
            lock(&stored).write(content);
        }
        let mut contents: Vec<_> = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
            .collect();
        contents.sort();
        assert_eq!(contents, [b"one", b"two"]);
    }

    #[test]
    fn a_link_of_another_user_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        std::fs::write(&target, "before").unwrap();
        std::os::unix::fs::symlink(&target, directory.path().join("weir-00000007-1")).unwrap();
        let stored = files(directory.path(), true).of_session(7, &[1]).unwrap().remove(0).1;
        lock(&stored).write(b"data");
        assert_eq!(std::fs::read(&target).unwrap(), b"before");
        assert_ne!(lock(&stored).report().name, "weir-00000007-1");
    }

    #[test]
    fn a_directory_that_is_none_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let config =
            FileConfig { directory: file.path().into(), keeps: false, session_bytes: 1, bytes: 1 };
        assert!(matches!(Files::open(&config), Err(TrafficError::File { field: "file_dir", .. })));
    }
}
