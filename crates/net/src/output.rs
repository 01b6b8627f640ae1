//! Output files that grow during a run, opened by the names that a user gave.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::file::standard_stream;

/// Maximum number of symbolic links that one path leads through, as in the kernel (`path_resolution(7)`).
pub(crate) const MAX_LINKS: u32 = 40;

/// Opens a file to overwrite it. A device or a pipe is written to; for a descriptor of this process (`-`,
/// `/dev/stdout`), writing continues after the content of its file.
///
/// # Errors
/// Those of the file system.
pub fn begin(path: &Path) -> io::Result<File> {
    begin_unless(path, true)
}

/// The same for an existing file, without removing its content yet; also returns whether the first write has to
/// remove it.
///
/// # Errors
/// Those of the file system.
pub fn look(path: &Path) -> io::Result<(File, bool)> {
    let file = begin_unless(path, false)?;
    let is_own = is_own_file(path, &file);
    Ok((file, is_own))
}

/// Whether a file opened by [`begin`] is a regular file that nothing else writes to: no device, pipe or descriptor.
pub fn is_own_file(path: &Path, file: &File) -> bool {
    descriptor_of(path).is_none() && file.metadata().is_ok_and(|found| found.is_file())
}

fn begin_unless(path: &Path, is_emptied: bool) -> io::Result<File> {
    if let Some(number) = descriptor_of(path) {
        return descriptor(number, path);
    }
    let file = OpenOptions::new().write(true).create(is_emptied).truncate(false).open(path)?;
    if is_emptied && file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// A descriptor of this process to write to, by its number and a path that names it. Writing continues at the
/// position of standard output and error, and at the end of other descriptors.
///
/// # Errors
/// Those of the file system.
pub fn descriptor(number: u32, path: &Path) -> io::Result<File> {
    match number {
        1 => {
            io::stdout().flush()?;
            standard_stream(1)
        }
        2 => standard_stream(2),
        _ => File::options().append(true).open(path),
    }
}

/// The descriptor of this process that a path names: `-`, `/dev/stdout`, `/dev/fd/3`, or a link to one of them.
#[must_use]
pub fn descriptor_of(path: &Path) -> Option<u32> {
    if path.as_os_str() == "-" {
        return Some(1);
    }
    let own = ["/proc/self/fd", "/proc/thread-self/fd"].map(|p| Path::new(p).canonicalize().ok());
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let directory = path.parent().filter(|p| !p.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new(".")).canonicalize().ok()?;
        if own.iter().flatten().any(|own| *own == directory) {
            return path.file_name()?.to_str()?.parse().ok();
        }
        path = directory.join(path.read_link().ok()?);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_descriptors_are_distinguished() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/dev/stderr", &link).unwrap();
        for (path, number) in [
            (Path::new("-"), Some(1)),
            (Path::new("./-"), None),
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
    fn a_file_is_overwritten_and_a_descriptor_continued() {
        use std::os::fd::AsRawFd;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let text = || std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, "before").unwrap();
        let (file, is_emptied) = look(&path).unwrap();
        assert!(is_emptied && text() == "before");
        let descriptor = format!("/dev/fd/{}", file.as_raw_fd());
        assert!(!look(Path::new(&descriptor)).unwrap().1);
        begin(Path::new(&descriptor)).unwrap().write_all(b", after").unwrap();
        assert_eq!(text(), "before, after");
        begin(&path).unwrap().write_all(b"new").unwrap();
        assert_eq!(text(), "new");
        begin(&dir.path().join("y")).unwrap();
        assert!(look(&dir.path().join("z")).is_err() && !dir.path().join("z").exists());
        begin(Path::new("/dev/null")).unwrap();
        assert!(!look(Path::new("/dev/null")).unwrap().1);
    }
}
