//! Files that grow while something runs, opened by the names that a user gave.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::namespace::effective_user_id;
use crate::trust::MOST_LINKS;

/// Opens a file to begin it anew. What is no plain file (a device, a pipe) is written to. A descriptor of this process
/// (`/dev/stdout`) goes on behind what is in its file: that is not this program's to remove. A link that neither root nor this
/// user put there is not followed.
///
/// # Errors
/// Those of the file system.
pub fn begin(path: &Path) -> io::Result<File> {
    begin_unless(path, true)
}

/// The same, but nothing is removed yet of what is in the file; whether there is something to be removed at the first write.
///
/// # Errors
/// Those of the file system.
pub fn look(path: &Path) -> io::Result<(File, bool)> {
    let file = begin_unless(path, false)?;
    let is_own = is_own_file(path, &file);
    Ok((file, is_own))
}

/// Whether a file opened by [`begin`] is a plain file that nothing else writes to: no device, pipe or descriptor.
pub fn is_own_file(path: &Path, file: &File) -> bool {
    descriptor_of(path).is_none() && file.metadata().is_ok_and(|found| found.is_file())
}

fn begin_unless(path: &Path, is_emptied: bool) -> io::Result<File> {
    if let Some(number) = descriptor_of(path) {
        return descriptor(number, path);
    }
    let mut options = OpenOptions::new();
    options.write(true).create(is_emptied).truncate(false);
    let own = effective_user_id();
    let link = path.symlink_metadata().ok().filter(|found| found.is_symlink());
    if link.is_some_and(|link| link.uid() != 0 && link.uid() != own) {
        options.custom_flags(libc::O_NOFOLLOW);
    }
    let file = options.open(path)?;
    if is_emptied && file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// A descriptor of this process to write to, by its number and a path that names it. Standard output and error go on where
/// they are, those of others at the end: what was written before is not touched.
///
/// # Errors
/// Those of the file system.
pub fn descriptor(number: u32, path: &Path) -> io::Result<File> {
    match number {
        1 => {
            let mut stdout = io::stdout();
            stdout.flush()?;
            stdout.as_fd().try_clone_to_owned().map(File::from)
        }
        2 => io::stderr().as_fd().try_clone_to_owned().map(File::from),
        _ => File::options().append(true).open(path),
    }
}

/// The descriptor of this process that a path names: `/dev/stdout`, `/dev/fd/3`, or a link to such.
#[must_use]
pub fn descriptor_of(path: &Path) -> Option<u32> {
    let own = ["/proc/self/fd", "/proc/thread-self/fd"].map(|p| Path::new(p).canonicalize().ok());
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
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

    /// A file is begun anew, at its first write at the earliest where that is asked for; a descriptor's is written on.
    #[test]
    fn a_file_is_begun_anew_and_a_descriptors_goes_on() {
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
