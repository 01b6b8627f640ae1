//! File functions that differ between systems: permissions, owners, standard streams, and whether names lead to one
//! file.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::output::MAX_LINKS;
#[cfg(unix)]
use unix as sys;
#[cfg(windows)]
use windows as sys;

pub use sys::{check_writable, keep_access, make_private, open_regular, private, symlink};
pub(crate) use sys::{mode_owner_group, standard_stream};

/// What the names of one regular file have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// Device and inode.
    Inode(u64, u64),
    /// Path without links: of a file that does not exist yet, and where there are no inodes.
    Path(PathBuf),
}

impl Identity {
    /// The identity of the file at a path. Devices and pipes have none: they hold nothing that could be lost.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Identity> {
        if let Ok(found) = path.metadata() {
            let inode = sys::inode(&found).map(|(device, inode)| Identity::Inode(device, inode));
            let identity = inode.or_else(|| path.canonicalize().ok().map(Identity::Path));
            return identity.filter(|_| found.is_file());
        }
        // Where it would be created: at the end of links that lead nowhere yet.
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let Ok(target) = path.read_link() else { break };
            path = path.parent().unwrap_or(Path::new("")).join(target);
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(Identity::Path(directory.join(path.file_name()?)))
    }

    /// The identity of the file behind standard input (0), output (1) or error (2); `None` if it is not a file or has
    /// no inode.
    #[must_use]
    pub fn of_stream(number: u32) -> Option<Identity> {
        let found = standard_stream(number).and_then(|file: File| file.metadata()).ok()?;
        let (device, inode) = sys::inode(&found).filter(|_| found.is_file())?;
        Some(Identity::Inode(device, inode))
    }
}
