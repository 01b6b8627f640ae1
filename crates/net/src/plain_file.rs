//! Files that another user could have put where they are: opened without following a link, and without waiting for anybody.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens the plain file of this name with these options (which may not create it). What it is, is asked of the open file: between a
/// look at a name and its opening a link or a pipe can come there.
///
/// # Errors
/// `InvalidData` for a link and for what is no plain file: a directory, a device, or a pipe, whose opening would wait for its other
/// end. Otherwise the system's.
pub fn open(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = how.custom_flags(flags).open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::new(ErrorKind::InvalidData, "it is a link"),
        // A socket, or a pipe that is to be written to and that nobody reads.
        Some(libc::ENXIO) => not_plain(),
        _ => error,
    })?;
    if !file.metadata()?.is_file() {
        return Err(not_plain());
    }
    Ok(file)
}

/// The same, to be read.
///
/// # Errors
/// Those of [`open`].
pub fn read(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true))
}

fn not_plain() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "it is no plain file")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_plain_file_is_opened_and_nothing_else_is_waited_for_or_followed() {
        let name = format!("weir-plain-file-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir(&dir).unwrap();
        let at = |name: &str| dir.join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("nothing"), at("to-nothing")).unwrap();
        let pipe = std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap();
        assert!(pipe.success());
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let mut text = String::new();
        read(&at("file")).unwrap().read_to_string(&mut text).unwrap();
        let kinds: Vec<_> = ["link", "to-nothing", "pipe", "socket", ".", "none"]
            .iter()
            .map(|name| read(&at(name)).map(drop).map_err(|e| e.kind()))
            .collect();
        let to_write = open(&at("pipe"), OpenOptions::new().read(true).append(true));
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(text, "text");
        let wrong = Err(ErrorKind::InvalidData);
        assert_eq!(kinds, [wrong, wrong, wrong, wrong, wrong, Err(ErrorKind::NotFound)]);
        assert_eq!(to_write.unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
