//! Files on Windows; access control lists are neither read nor written.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::windows::io::AsHandle;
use std::path::Path;

/// Standard input (0), output (1) or error (2) as a file.
pub(crate) fn standard_stream(number: u32) -> io::Result<File> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let stream = match number {
        0 => stdin.as_handle(),
        1 => stdout.as_handle(),
        _ => stderr.as_handle(),
    };
    stream.try_clone_to_owned().map(File::from)
}

/// Not available.
pub(crate) fn mode_owner_group(_: &Metadata) -> Option<(u32, u32, u32)> {
    None
}

/// Not available.
pub(super) fn inode(_: &Metadata) -> Option<(u64, u64)> {
    None
}

/// Has no effect: access follows that of the directory.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Has no effect: access follows that of the directory.
pub fn keep_access(_file: &File, _like: &Metadata) -> io::Result<()> {
    Ok(())
}

/// Checks that a path is not read-only.
///
/// # Errors
/// The system's answer.
pub fn check_writable(path: &Path) -> io::Result<()> {
    match path.metadata()?.permissions().readonly() {
        true => Err(io::ErrorKind::PermissionDenied.into()),
        false => Ok(()),
    }
}

/// Opens a regular file to read it.
///
/// # Errors
/// Those of the system; `InvalidInput` for anything but a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    match path.metadata()?.is_file() {
        true => File::open(path),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// Has no effect: access follows that of the directory above.
pub fn make_private(_directory: &Path) -> io::Result<()> {
    Ok(())
}

/// Creates a symbolic link at `link`, which Windows permits to administrators and in developer mode.
///
/// # Errors
/// Those of the system.
pub fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    match target.is_dir() {
        true => std::os::windows::fs::symlink_dir(target, link),
        false => std::os::windows::fs::symlink_file(target, link),
    }
}
