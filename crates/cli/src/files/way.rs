//! How a path is written, told from what is there before anything is opened.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use weir_net::namespace::effective_user_id;
use weir_net::output::descriptor_of;

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

/// Whether this user may write to what a path leads to, without opening it: a pipe's reader would be told of an end.
pub(super) fn may_write(path: &Path) -> io::Result<()> {
    Ok(accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)?)
}

/// Whether a directory is one in which anybody may leave a file, and each may move only what is his (`/tmp`).
fn is_everybodys(directory: &Metadata) -> bool {
    directory.mode() & 0o1002 == 0o1002
}

/// Whether the owner of a file is to have the one that replaces it, too. In a directory of everybody's a file may have been left
/// by anybody for somebody to write into it.
pub(super) fn is_trusted(path: &Path, there: &Metadata) -> bool {
    let own = effective_user_id();
    // Who called sudo is whom root writes for.
    let caller = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    let known = [Some(0), Some(own), caller.filter(|_| own == 0)];
    known.contains(&Some(there.uid()))
        || directory_of(path).metadata().is_ok_and(|directory| !is_everybodys(&directory))
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
    fn a_path_is_looked_for_as_the_table_of_mounts_has_it() {
        assert_eq!(escaped(Path::new("/a b\\c\td/e#")), b"/a\\040b\\134c\\011d/e#");
        assert!(is_mounted(Path::new("/proc")) && !is_mounted(Path::new("/proc/self")));
    }
}
