//! Running labs by name: one file each, held locked by the lab's holder, and one lock for changes.
//!
//! The directory itself is what is locked for changes, and it is removed with the last lab: a program that waited for
//! the lock of a removed directory creates it again.
//!
//! A lab is up while its file is locked: the kernel releases the lock with the holder's death,
//! however it died. An unlocked file is stale, and the next program that sees it removes it.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use weir_net::namespace::{NetNamespace, Process, boot_id};

use super::directory::{make, runtime_directory};
use super::entry::{Entry, MAX_ENTRY_BYTES};
use super::lab::{command_inside, limits};
use crate::error::Error;
use crate::host::Host;
use crate::spec::LabName;

const SUFFIX: &str = ".json";
const LOCK_PATIENCE: Duration = Duration::from_secs(15);
/// Time for a holder to end by itself.
const DOWN_PATIENCE: Duration = Duration::from_secs(10);

/// The running labs of this user.
#[derive(Debug)]
pub struct Registry {
    directory: PathBuf,
}

/// Held while entries change.
pub(crate) struct ChangeLock {
    file: File,
}

impl Drop for ChangeLock {
    fn drop(&mut self) {
        // Closing alone would not release it while a child forked meanwhile has a copy.
        let _ = self.file.unlock();
    }
}

impl Registry {
    /// The registry in [`runtime_directory`].
    pub fn open() -> Result<Self, Error> {
        Ok(Self::at(&runtime_directory()?))
    }

    /// The registry in `labs` below `runtime`; both are made with mode 0700 when they are first needed.
    #[must_use]
    pub(crate) fn at(runtime: &Path) -> Self {
        Self { directory: runtime.join("labs") }
    }

    /// Removes the directory if no lab is left in it, and its parent if that has our name and is empty. Requires the
    /// change lock.
    fn tidy(&self) {
        // A directory that holds something stays: the kernel sees to that.
        if fs::remove_dir(&self.directory).is_ok()
            && let Some(name) = self.runtime().file_name().and_then(OsStr::to_str)
            && (name == "weir" || name.starts_with("weir-"))
        {
            let _ = fs::remove_dir(self.runtime());
        }
    }

    /// The runtime directory that this registry is in.
    pub(crate) fn runtime(&self) -> &Path {
        self.directory.parent().unwrap_or(&self.directory)
    }

    /// The running labs, by name. Removes stale entries.
    pub fn list(&self) -> Result<Vec<JoinedLab>, Error> {
        let _lock = self.lock()?;
        let mut labs = Vec::new();
        let read = fs::read_dir(&self.directory);
        for file in read.map_err(|e| self.failed("read", &self.directory, e))? {
            let file = file.map_err(|e| self.failed("read", &self.directory, e))?;
            let path = file.path();
            match lab_name_of(&file.file_name()) {
                Some(name) => labs.extend(self.read(&name)?),
                // Writers hold the lock, so a temporary file seen under it has no writer.
                None if path.extension() == Some(OsStr::new("tmp")) => self.remove(&path)?,
                None => {}
            }
        }
        labs.sort_by(|one, other| one.entry.name.cmp(&other.entry.name));
        self.tidy();
        Ok(labs)
    }

    /// A running lab.
    pub fn join(&self, name: &LabName) -> Result<JoinedLab, Error> {
        let found = {
            let _lock = self.lock()?;
            self.read(name)?
        };
        match found {
            Some(lab) => Ok(lab),
            None => Err(self.no_such(name)),
        }
    }

    /// Stops a lab and the processes inside, and waits until its holder has ended.
    pub fn down(&self, name: &LabName) -> Result<(), Error> {
        let lab = self.join(name)?;
        if let Some(process) = lab.holder()? {
            process.signal(libc::SIGTERM)?;
            if !process.wait(DOWN_PATIENCE)? {
                process.signal(libc::SIGKILL)?;
                process.wait(DOWN_PATIENCE)?;
            }
        }
        // The holder removes its entry, or else this does.
        let _lock = self.lock()?;
        match self.read(name)? {
            Some(still) if still.entry.holder == lab.entry.holder => Err(Error::Holder {
                class: crate::ErrorClass::Internal,
                text: format!(
                    "the holder of lab {name}, process {}, does not end",
                    lab.holder_pid()
                ),
            }),
            _ => {
                self.tidy();
                Ok(())
            }
        }
    }

    fn no_such(&self, name: &LabName) -> Error {
        let known = self.list().unwrap_or_default();
        let known: Vec<_> = known.iter().map(|lab| lab.name().as_str()).collect();
        let known = (!known.is_empty()).then(|| known.join(", "));
        Error::NoSuchLab { name: name.to_string(), known }
    }

    pub(crate) fn lock(&self) -> Result<ChangeLock, Error> {
        let path = &self.directory;
        let deadline = Instant::now() + LOCK_PATIENCE;
        loop {
            let opened = make(path).and_then(|()| File::open(path));
            match opened.map_err(TryLockError::Error).and_then(|file| self.take(file)) {
                Ok(Some(lock)) => return Ok(lock),
                // Removed, and perhaps created again, before it was locked.
                Ok(None) if Instant::now() < deadline => {}
                Err(TryLockError::Error(error))
                    if error.kind() == io::ErrorKind::NotFound && Instant::now() < deadline => {}
                Ok(None) => return Err(self.failed("lock", path, io::ErrorKind::NotFound.into())),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return Err(self.failed("lock", path, error.into())),
            }
        }
    }

    /// Locks the opened directory; `None` if it was removed meanwhile.
    fn take(&self, file: File) -> Result<Option<ChangeLock>, TryLockError> {
        file.try_lock()?;
        Ok(is_at(&file, &self.directory).then_some(ChangeLock { file }))
    }

    /// Reads an entry; requires the change lock. A stale or damaged one is removed: `None`.
    pub(crate) fn read(&self, name: &LabName) -> Result<Option<JoinedLab>, Error> {
        let path = self.path(name);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed("open", &path, error)),
        };
        let held = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        let mut bytes = Vec::new();
        if held {
            (&mut file)
                .take(MAX_ENTRY_BYTES as u64 + 1)
                .read_to_end(&mut bytes)
                .map_err(|error| self.failed("read", &path, error))?;
            // A locked file that can't be parsed has an owner: leave it.
            let entry = Entry::parse(&bytes, Some(name))?;
            if Some(&entry.boot_id) == boot_id().as_ref() {
                return Ok(Some(JoinedLab { entry }));
            }
        }
        self.remove(&path)?;
        Ok(None)
    }

    /// Writes the entry of a new lab; requires the change lock. The lab counts as running while the returned file is
    /// open.
    pub(crate) fn write(&self, entry: &Entry) -> Result<File, Error> {
        let temporary = self.directory.join(format!(".{}.tmp", entry.name));
        self.remove(&temporary)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
            .map_err(|error| self.failed("make", &temporary, error))?;
        file.try_lock().map_err(|error| self.failed("lock", &temporary, error.into()))?;
        let path = self.path(&entry.name);
        file.write_all(&entry.to_bytes()?).and_then(|()| fs::rename(&temporary, &path)).map_err(
            |error| {
                let _ = fs::remove_file(&temporary);
                self.failed("write", &path, error)
            },
        )?;
        Ok(file)
    }

    /// Removes the entry of a lab that its own holder stops.
    pub(crate) fn unregister(&self, name: &LabName) -> Result<(), Error> {
        let _lock = self.lock()?;
        self.remove(&self.path(name))?;
        self.tidy();
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), Error> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.failed("remove", path, error))
            }
            _ => Ok(()),
        }
    }

    fn path(&self, name: &LabName) -> PathBuf {
        self.directory.join(format!("{name}{SUFFIX}"))
    }

    fn failed(&self, operation: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Registry { operation, path: path.to_owned(), source }
    }
}

fn lab_name_of(file: &OsStr) -> Option<LabName> {
    file.to_str()?.strip_suffix(SUFFIX)?.parse().ok()
}

/// A lab held by another process.
#[derive(Debug, Clone)]
pub struct JoinedLab {
    entry: Entry,
}

impl JoinedLab {
    pub(crate) fn from_entry(entry: Entry) -> Self {
        Self { entry }
    }

    /// Its name.
    pub fn name(&self) -> &LabName {
        &self.entry.name
    }

    /// Process id of its holder.
    pub fn holder_pid(&self) -> u32 {
        self.entry.holder.pid
    }

    /// The hosts, `a` first.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.entry.hosts()
    }

    /// Names of all namespaces: hosts, and `m` (the middle) or `switch` where there is one.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.entry.nodes.iter().map(|node| node.name.as_str())
    }

    /// What programs inside cannot do, one sentence each for the user.
    pub fn limits(&self) -> Vec<String> {
        limits(self.entry.user_descriptor.is_some())
    }

    /// Network namespace of a host, the middle or the switch, opened through the holder.
    pub(crate) fn namespace(&self, node: &str) -> Result<NetNamespace, Error> {
        let wanted = self.entry.nodes.iter().find(|n| n.name == node);
        let wanted = wanted.ok_or_else(|| self.no_such(node))?;
        // Kept open while /proc is read, so that the pid stays this process's.
        let Some(_holder) = self.holder()? else { return Err(self.gone()) };
        let descriptor =
            |number: u32| PathBuf::from(format!("/proc/{}/fd/{number}", self.entry.holder.pid));
        let user = self.entry.user_descriptor.map(descriptor);
        let namespace = NetNamespace::open(descriptor(wanted.net_descriptor), user.as_deref())?;
        if namespace.id()?.inode != wanted.inode {
            return Err(self.gone());
        }
        Ok(namespace)
    }

    /// A command to run inside `node`, by `spawn` or by `exec`.
    pub fn command(&self, node: &str, program: impl AsRef<OsStr>) -> Result<Command, Error> {
        let place = format!("{}/{node}", self.entry.name);
        command_inside(&self.namespace(node)?, Some(&place), program.as_ref())
    }

    fn holder(&self) -> Result<Option<Process>, Error> {
        Ok(Process::open(self.entry.holder.pid, self.entry.holder.start_time)?)
    }

    fn gone(&self) -> Error {
        Error::NoSuchLab { name: self.entry.name.to_string(), known: None }
    }

    fn no_such(&self, name: &str) -> Error {
        let known: Vec<_> = self.node_names().collect();
        Error::NoSuchHost { host: name.to_owned(), known: known.join(", ") }
    }
}

/// Whether `path` still names the open file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_when_no_lab_is() {
        let top = tempfile::tempdir().unwrap();
        let runtime = top.path().join("weir-1");
        let registry = Registry::at(&runtime);
        drop(registry.lock().unwrap());
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&runtime), mode(&runtime.join("labs"))), (0o700, 0o700));
        assert!(registry.list().unwrap().is_empty());
        assert!(!runtime.exists(), "the directory stays");
        // What is not ours stays, and so does the directory around it.
        drop(registry.lock().unwrap());
        fs::write(runtime.join("other"), "").unwrap();
        registry.list().unwrap();
        assert!(runtime.join("other").exists() && !runtime.join("labs").exists());
        // A directory of the user's own choice is the user's.
        let named = top.path().join("mine");
        Registry::at(&named).list().unwrap();
        assert!(named.is_dir());
    }

    #[test]
    fn a_lock_is_never_that_of_a_directory_that_is_gone() {
        let top = tempfile::tempdir().unwrap();
        let runtime = top.path().join("weir-1");
        let registry = Registry::at(&runtime);
        make(&registry.directory).unwrap();
        // Opened, then removed by another and created again by a third before it is locked.
        let opened = File::open(&registry.directory).unwrap();
        registry.tidy();
        assert!(registry.take(opened).unwrap().is_none(), "the lock of a directory that is gone");
        make(&registry.directory).unwrap();
        let opened = File::open(&registry.directory).unwrap();
        registry.tidy();
        make(&registry.directory).unwrap();
        assert!(registry.take(opened).unwrap().is_none(), "the lock of another directory");
        // Many concurrently: none fails, and no two hold it together.
        let inside = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let registry = Registry::at(&runtime);
                        let _lock = registry.lock().unwrap();
                        let before = inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        assert_eq!(before, 0, "two hold the lock");
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        registry.tidy();
                    }
                });
            }
        });
    }
}
