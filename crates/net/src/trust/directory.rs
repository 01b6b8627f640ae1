//! A directory in which documents are read, looked at and written as one change: by its descriptor, so that nobody leads the writing
//! elsewhere by another directory or a link of its name, and under a lock that every program of this kind takes.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::parted;

/// The file that is locked.
const LOCK: &str = ".lock";
/// Between two tries to have the lock.
const TRY: Duration = Duration::from_millis(10);
/// Names of new files that are tried before one that is not there yet is given up.
const MOST_NAMES: u32 = 16;

/// Numbers of the new files of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A directory, which stays the same whatever comes to stand at its name.
#[derive(Debug)]
pub struct Directory(OwnedFd, OnceLock<OwnedFd>);

impl Directory {
    /// Opens a directory that the program looked for by itself ([`Origin::Found`](super::Origin::Found)): a link on the way to it is
    /// followed only where nobody else can have put it there.
    ///
    /// # Errors
    /// `NotFound`; `InvalidData` for a link of others and for what is no directory; otherwise the system's.
    pub fn open(path: &Path) -> io::Result<Directory> {
        walk(path, false)
    }

    /// The same; what is missing of it, and of the way to it, is made.
    ///
    /// # Errors
    /// Those of [`Directory::open`].
    pub fn open_or_make(path: &Path) -> io::Result<Directory> {
        walk(path, true)
    }

    /// Waits for the lock of changes, which is held until this value goes. It is one between programs and between values of one, and
    /// a file of this user's: a lock on the directory itself anybody could hold who may read there.
    ///
    /// # Errors
    /// `WouldBlock` when somebody else has it for longer than that; otherwise the system's.
    pub fn lock(&self, patience: Duration) -> io::Result<()> {
        let how = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.0, LOCK, how, Mode::RUSR | Mode::WUSR)?;
        let end = Instant::now() + patience;
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < end => {
                    std::thread::sleep(TRY);
                }
                done => break done?,
            }
        }
        let _ = self.1.set(file);
        Ok(())
    }

    /// Writes a file whole, for this user alone: under a name of its own first, so that a full disk leaves what was there. A new one
    /// takes nobody's place.
    ///
    /// # Errors
    /// `AlreadyExists` for a new file whose name is taken; otherwise the system's.
    pub fn put(&self, name: &str, bytes: &[u8], is_new: bool) -> io::Result<()> {
        let name = one_name(name)?;
        let (mut file, part) = self.beside(name)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| {
            if is_new {
                rustix::fs::linkat(&self.0, &part, &self.0, name, AtFlags::empty())
                    .map_err(Into::into)
            } else {
                rustix::fs::renameat(&self.0, &part, &self.0, name).map_err(Into::into)
            }
        });
        if is_new || written.is_err() {
            let _ = rustix::fs::unlinkat(&self.0, &part, AtFlags::empty());
        }
        written
    }

    /// Removes a file.
    ///
    /// # Errors
    /// `NotFound`; otherwise the system's.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        rustix::fs::unlinkat(&self.0, one_name(name)?, AtFlags::empty()).map_err(Into::into)
    }

    /// A new file in it, hidden, and its name.
    fn beside(&self, name: &str) -> io::Result<(File, String)> {
        let how =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..MOST_NAMES {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let part = format!(".{name}.{}-{number}", std::process::id());
            match rustix::fs::openat(&self.0, &part, how, Mode::RUSR | Mode::WUSR) {
                Err(Errno::EXIST) => {}
                made => return Ok((File::from(made?), part)),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }
}

/// A name, which is no path.
fn one_name(name: &str) -> io::Result<&str> {
    match Path::new(name).components().collect::<Vec<_>>()[..] {
        [Component::Normal(only)] if *only == *name => Ok(name),
        _ => Err(ErrorKind::InvalidInput.into()),
    }
}

fn walk(path: &Path, make: bool) -> io::Result<Directory> {
    let (sure, rest) = parted(path)?;
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(&sure, how, Mode::empty())?;
    for part in rest.components().filter(|part| *part != Component::CurDir) {
        let Component::Normal(name) = part else { return Err(ErrorKind::InvalidInput.into()) };
        let open = || rustix::fs::openat(&at, name, how | OFlags::NOFOLLOW, Mode::empty());
        let mut opened = open();
        if make && matches!(opened, Err(Errno::NOENT)) {
            match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
                // Somebody else has made it meanwhile.
                Ok(()) | Err(Errno::EXIST) => opened = open(),
                Err(error) => return Err(error.into()),
            }
        }
        at = opened.map_err(|error| match error {
            Errno::NOTDIR | Errno::LOOP => {
                let words = format!("{} is a link, or no directory", name.display());
                io::Error::new(ErrorKind::InvalidData, words)
            }
            other => other.into(),
        })?;
    }
    Ok(Directory(at, OnceLock::new()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A directory of this test's own, which goes with it.
    struct Own(std::path::PathBuf);

    impl Own {
        fn new(name: &str) -> Own {
            let path = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Own(path)
        }

        fn mode(&self, name: &str, mode: u32) {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(self.0.join(name), mode).unwrap();
        }
    }

    impl Drop for Own {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_is_written_whole_and_a_new_one_takes_no_place() {
        let own = Own::new("directory-put");
        let directory = Directory::open_or_make(&own.0.join("a/b")).unwrap();
        let text = |name: &str| std::fs::read_to_string(own.0.join("a/b").join(name)).unwrap();
        directory.put("x", b"one", true).unwrap();
        let taken = directory.put("x", b"two", true).unwrap_err();
        assert_eq!((taken.kind(), text("x").as_str()), (ErrorKind::AlreadyExists, "one"));
        directory.put("x", b"two", false).unwrap();
        assert_eq!(text("x"), "two");
        // A link of that name goes, not what it leads to.
        std::fs::write(own.0.join("other"), "theirs").unwrap();
        symlink(own.0.join("other"), own.0.join("a/b/link")).unwrap();
        directory.put("link", b"ours", false).unwrap();
        assert_eq!(text("link"), "ours");
        assert_eq!(std::fs::read_to_string(own.0.join("other")).unwrap(), "theirs");
        for name in ["", ".", "..", "../x", "a/b", "/x"] {
            assert!(directory.put(name, b"", false).is_err(), "{name}");
        }
        directory.remove("x").unwrap();
        directory.remove("link").unwrap();
        assert_eq!(directory.remove("x").unwrap_err().kind(), ErrorKind::NotFound);
        let left = std::fs::read_dir(own.0.join("a/b")).unwrap().count();
        assert_eq!(left, 0, "nothing of the parts is left");
        let missing = Directory::open(&own.0.join("none")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(!own.0.join("none").exists());
    }

    #[test]
    fn what_comes_to_stand_at_its_name_is_another_one() {
        let own = Own::new("directory-name");
        let at = |name: &str| own.0.join(name);
        std::fs::create_dir(at("theirs")).unwrap();
        let directory = Directory::open_or_make(&at("ours")).unwrap();
        std::fs::rename(at("ours"), at("moved")).unwrap();
        symlink(at("theirs"), at("ours")).unwrap();
        directory.put("x", b"", true).unwrap();
        assert!(at("moved/x").exists() && !at("theirs/x").exists());
        // Nor is a link followed that others may have put there.
        std::fs::create_dir(at("everybodys")).unwrap();
        own.mode("everybodys", 0o777);
        symlink(at("theirs"), at("everybodys/link")).unwrap();
        for make in [Directory::open, Directory::open_or_make] {
            for way in ["everybodys/link", "everybodys/link/deeper"] {
                let refused = make(&at(way)).map(drop).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::InvalidData, "{way}");
            }
        }
        assert!(!at("theirs/deeper").exists());
    }

    #[test]
    fn one_changes_it_at_a_time() {
        let own = Own::new("directory-lock");
        let first = Directory::open(&own.0).unwrap();
        first.lock(Duration::ZERO).unwrap();
        let second = Directory::open(&own.0).unwrap();
        assert_eq!(second.lock(Duration::ZERO).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(first);
        // Who may only read there does not keep others out.
        let reader = std::fs::File::open(&own.0).unwrap();
        rustix::fs::flock(&reader, FlockOperation::NonBlockingLockExclusive).unwrap();
        second.lock(Duration::ZERO).unwrap();
        let mode = own.0.join(LOCK).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }
}
