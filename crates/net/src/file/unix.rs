//! Files of Unix: modes, owners, inodes.

use std::ffi::CString;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

/// Standard input (0), output (1) or error (2) as a file.
pub(crate) fn standard_stream(number: u32) -> io::Result<File> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let stream = match number {
        0 => stdin.as_fd(),
        1 => stdout.as_fd(),
        _ => stderr.as_fd(),
    };
    stream.try_clone_to_owned().map(File::from)
}

/// Mode, owner and group of a file.
pub(crate) fn mode_owner_group(file: &Metadata) -> Option<(u32, u32, u32)> {
    Some((file.mode(), file.uid(), file.gid()))
}

/// Device and inode of a file.
pub(super) fn inode(file: &Metadata) -> Option<(u64, u64)> {
    Some((file.dev(), file.ino()))
}

/// Makes files that these options create readable and writable by their owner alone (mode 0600).
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Gives a file the permission bits of `like`, and its owner and group where that is permitted: under sudo a user's file
/// stays the user's.
///
/// # Errors
/// Those of setting the bits.
pub fn keep_access(file: &File, like: &Metadata) -> io::Result<()> {
    // Not permitted to other users than root: the file is this user's then.
    let _ = fchown(file, Some(like.uid()), Some(like.gid()));
    file.set_permissions(Permissions::from_mode(like.mode() & 0o777))
}

/// Checks that this process may write to a path, by its effective ids, without opening it.
///
/// # Errors
/// The system's answer.
pub fn check_writable(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `path` is NUL-terminated and lives through the call.
    let result =
        unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK, libc::AT_EACCESS) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Opens a regular file to read it. Other files, such as a pipe without a writer, could block the reader forever.
///
/// # Errors
/// Those of the system; `InvalidInput` for anything but a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Opening must not wait either.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// Keeps other users out of a directory (mode 0700).
///
/// # Errors
/// Those of the system.
pub fn make_private(directory: &Path) -> io::Result<()> {
    std::fs::set_permissions(directory, Permissions::from_mode(0o700))
}

/// Creates a symbolic link at `link`.
///
/// # Errors
/// Those of the system.
pub fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}
