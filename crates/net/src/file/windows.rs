//! Files of Windows, whose lists of access are neither read nor written here.

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

/// Leaves access to that of the directory.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Leaves access to that of the directory.
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
