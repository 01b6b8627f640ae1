//! How a path is written, told from what is there before anything is opened.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use weir_net::namespace::effective_user_id;

/// A link may lead to another; so many the kernel follows, too.
const MOST_LINKS: usize = 40;

/// How a path is written.
#[derive(Debug)]
pub(super) enum Way {
    /// A new file beside it takes its name; what has it now (a plain file, or another user's link).
    Replaced(Option<Metadata>),
    /// It is written to as it is: a device, a pipe.
    Through(Metadata),
    /// What a link leads to is written.
    Followed,
    /// It names a descriptor of this process, whatever that is: what is in it is not this program's to remove.
    Descriptor(u32),
}

/// How a path is written. A link is followed where root or this user put it: as root under sudo, none of the user's is.
pub(super) fn way(path: &Path) -> io::Result<Way> {
    let found = match path.symlink_metadata() {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Way::Replaced(None)),
        found => found?,
    };
    if found.is_symlink() {
        let is_ours = found.uid() == 0 || found.uid() == effective_user_id();
        return Ok(match (is_ours, descriptor_of(path)) {
            (false, _) => Way::Replaced(Some(found)),
            (true, Some(number)) => Way::Descriptor(number),
            (true, None) => Way::Followed,
        });
    }
    Ok(if found.is_file() { Way::Replaced(Some(found)) } else { Way::Through(found) })
}

/// The directory that a path is in.
pub(super) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The descriptor of this process that a path names: `/dev/stdout`, `/dev/fd/3`, or a link to such.
fn descriptor_of(path: &Path) -> Option<u32> {
    let own = ["/proc/self/fd", "/proc/thread-self/fd"].map(|p| Path::new(p).canonicalize().ok());
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let directory = directory_of(&path).canonicalize().ok()?;
        if own.iter().flatten().any(|own| *own == directory) {
            return path.file_name()?.to_str()?.parse().ok();
        }
        path = directory.join(path.read_link().ok()?);
    }
    None
}

/// Opens what was found at a path to write to it, as it is: no link, and no other file that has taken the name since.
pub(super) fn open_there(path: &Path, there: &Metadata) -> io::Result<File> {
    if there.is_symlink() {
        return Err(ErrorKind::PermissionDenied.into());
    }
    // A pipe's reader is waited for, but not that of one in the place of a file.
    let patience = if there.is_file() { libc::O_NONBLOCK } else { 0 };
    let file = File::options().write(true).custom_flags(libc::O_NOFOLLOW | patience).open(path)?;
    is_one(&file, there)?;
    Ok(file)
}

/// Refuses a file that is not the one that was found.
pub(super) fn is_one(file: &File, there: &Metadata) -> io::Result<()> {
    let its = file.metadata()?;
    match (its.dev(), its.ino()) == (there.dev(), there.ino()) {
        true => Ok(()),
        false => Err(io::Error::other("another file has taken its name meanwhile")),
    }
}

/// Whether a file has to be written where it is after this failure to make one beside it, or to give it its name.
pub(super) fn must_stay(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::ResourceBusy
            | ErrorKind::CrossesDevices
            | ErrorKind::InvalidFilename
    )
}

/// Whether no other file can take this one's name, although one can be made beside it: it is mounted there, or another's in a
/// directory where each may move only what is his (`/tmp`).
pub(super) fn is_fixed(path: &Path, there: &Metadata) -> bool {
    let own = effective_user_id();
    let is_anothers = directory_of(path).metadata().is_ok_and(|directory| {
        directory.mode() & 0o1000 != 0 && ![there.uid(), directory.uid()].contains(&own)
    });
    own != 0 && is_anothers || is_mounted(path)
}

fn is_mounted(path: &Path) -> bool {
    let Ok(directory) = directory_of(path).canonicalize() else { return false };
    let (Some(name), Ok(table)) = (path.file_name(), std::fs::read("/proc/self/mountinfo")) else {
        return false;
    };
    let place = escaped(&directory.join(name));
    table.split(|b| *b == b'\n').any(|line| line.split(|b| *b == b' ').nth(4) == Some(&place[..]))
}

/// A path as the system's table of mounts has it: with some characters in octal (proc_pid_mountinfo(5)).
fn escaped(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_bytes().iter();
    bytes.fold(Vec::new(), |mut text, byte| {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => text.extend(format!("\\{byte:03o}").bytes()),
            _ => text.push(*byte),
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_descriptors_are_told_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/dev/stderr", &link).unwrap();
        for (path, number) in [
            (Path::new("/dev/stdin"), Some(0)),
            (Path::new("/dev/stdout"), Some(1)),
            (Path::new("/dev/fd/2"), Some(2)),
            (Path::new("/proc/self/fd/1"), Some(1)),
            (Path::new("/proc/thread-self/fd/1"), Some(1)),
            (&link, Some(2)),
            (Path::new("/proc/1/fd/1"), None),
            (Path::new("/proc/self/exe"), None),
            (Path::new("/dev/null"), None),
        ] {
            assert_eq!(descriptor_of(path), number, "{}", path.display());
        }
    }

    #[test]
    fn a_path_is_looked_for_as_the_table_of_mounts_has_it() {
        assert_eq!(escaped(Path::new("/a b\\c\td/e#")), b"/a\\040b\\134c\\011d/e#");
        assert!(is_mounted(Path::new("/proc")) && !is_mounted(Path::new("/proc/self")));
    }
}
