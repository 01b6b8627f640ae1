//! Files that another user could have put where they are: opened without following a link, and without waiting for anybody.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags};

/// Opens the plain file of this name with these options (which may not create it). What it is, is asked of the open file: between a
/// look at a name and its opening a link or a pipe can come there.
///
/// # Errors
/// `InvalidData` for a link and for what is no plain file: a directory, a device, or a pipe, whose opening would wait for its other
/// end. Otherwise the system's.
pub fn open(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    checked(how.custom_flags(flags).open(path))
}

/// What was opened, or was not, without following a link at its end.
fn checked(opened: io::Result<File>) -> io::Result<File> {
    let file = opened.map_err(|error| match error.raw_os_error() {
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

/// Opens the plain file that is at `rest` within a directory, to be read. No part of `rest` may be a link: each is opened in the
/// directory before it, which stays the same whatever comes to stand at its name. Links on the way to `directory` are followed.
///
/// # Errors
/// Those of [`open`], and `InvalidData` where a part on the way is a link or no directory.
pub fn read_within(directory: &Path, rest: &Path) -> io::Result<File> {
    // Not to be read: a directory that one may only go through will do.
    #[cfg(target_os = "linux")]
    let only_through = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    let only_through = OFlags::empty();
    let through = OFlags::DIRECTORY | OFlags::CLOEXEC | only_through;
    let mut at = rustix::fs::open(directory, through, Mode::empty())?;
    let mut parts = rest.components().filter(|part| *part != Component::CurDir).peekable();
    while let Some(part) = parts.next() {
        let name = part.as_os_str();
        if parts.peek().is_none() {
            let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(&at, name, how, Mode::empty());
            return checked(opened.map(File::from).map_err(io::Error::from));
        }
        at = rustix::fs::openat(&at, name, through | OFlags::NOFOLLOW, Mode::empty()).map_err(
            |error| match error {
                rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP => {
                    let words = format!("{} is a link, or no directory", name.display());
                    io::Error::new(ErrorKind::InvalidData, words)
                }
                other => other.into(),
            },
        )?;
    }
    Err(not_plain())
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

    #[test]
    fn no_part_within_a_directory_is_a_link() {
        let name = format!("weir-plain-file-within-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(dir.join("a/b")).unwrap();
        std::fs::write(dir.join("a/b/file"), "text").unwrap();
        let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, dir.join(at)).unwrap();
        link("b", "a/link");
        link("file", "a/b/link");
        link("a", "way");
        let kind = |from: &str, rest: &str| {
            read_within(&dir.join(from), Path::new(rest)).map(drop).map_err(|e| e.kind())
        };
        let found = [
            kind("", "a/b/file"),
            kind("", "a/b/../b/file"),
            // The way to the directory is its caller's.
            kind("way", "b/file"),
            kind("", "way/b/file"),
            kind("", "a/link/file"),
            kind("", "a/b/link"),
            kind("", "a/b/file/x"),
            kind("", "a/b"),
            kind("", ""),
            kind("", "a/none/file"),
        ];
        std::fs::remove_dir_all(&dir).unwrap();
        let wrong = Err(ErrorKind::InvalidData);
        assert_eq!(found[..3], [Ok(()); 3]);
        assert_eq!(found[3..9], [wrong; 6]);
        assert_eq!(found[9], Err(ErrorKind::NotFound));
    }
}
