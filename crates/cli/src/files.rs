//! Output files that flags name: checked before anything is measured, and replaced atomically.
//!
//! A regular file is replaced by a complete new one, so that a full disk leaves the earlier file intact. If that is impossible
//! (a mounted file, a directory without write permission), it is written in place. A device or a pipe is written to, `-` is
//! standard output, and a descriptor (`/dev/stdout`) is appended to. With a name that Weir chose, an existing file is replaced
//! only with `--force` (`weir report`), and a key never (`weir keygen`).

use std::fs::{File, Metadata};
use std::io::{self, BufWriter, ErrorKind, Seek, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use weir_net::file::{check_writable, keep_access};
use weir_net::output::{descriptor, descriptor_of};

use crate::error::CliError;

/// How a path is written.
#[derive(Debug)]
enum Target {
    /// A regular file: its path with links resolved, and the metadata of the file that it replaces.
    File(PathBuf, Option<Metadata>),
    /// A device, a pipe, or a dangling link.
    Direct,
    /// A descriptor of this process.
    Descriptor(u32),
}

fn target(path: &Path) -> io::Result<Target> {
    if let Some(number) = descriptor_of(path) {
        return Ok(Target::Descriptor(number));
    }
    match path.metadata() {
        Ok(found) if found.is_file() => Ok(Target::File(path.canonicalize()?, Some(found))),
        Err(e) if e.kind() == ErrorKind::NotFound && !path.is_symlink() => {
            Ok(Target::File(path.into(), None))
        }
        Ok(_) | Err(_) => Ok(Target::Direct),
    }
}

/// The directory of a path.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Refuses a file that could not be written, with the flag that names it. It neither changes nor creates the file.
///
/// # Errors
/// [`CliError::Flag`] for a directory and for a file in a missing directory; [`CliError::Io`] if the system refuses it.
pub(crate) fn check(flag: &'static str, path: &Path) -> Result<(), CliError> {
    let fail = |e| CliError::io(flag, path)(e);
    if descriptor_of(path).is_some_and(|number| number <= 2) {
        return Ok(());
    }
    let refuse = |why: String| {
        Err(CliError::flag(flag, why, "a file in an existing directory, or - for stdout"))
    };
    if path.is_dir() {
        return refuse(format!("{} is a directory", path.display()));
    }
    if path.file_name().is_none() {
        return refuse(format!("'{}' names no file", path.display()));
    }
    let directory = directory_of(path);
    if !directory.is_dir() {
        return refuse(format!("{}: {} is no directory", path.display(), directory.display()));
    }
    let checked = match target(path).map_err(fail)? {
        Target::File(path, None) => part_of(&path).map(drop),
        Target::File(path, Some(_)) => File::options().write(true).open(path).map(drop),
        // Opening a pipe would block until it has a reader, or signal the end to the reader.
        Target::Direct | Target::Descriptor(_) => check_writable(path),
    };
    checked.map_err(fail)
}

/// Refuses a directory that could not be written; a missing one would be created with its parents.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_directory(flag: &'static str, path: &Path) -> Result<(), CliError> {
    let given = |p: &Path| if p.as_os_str().is_empty() { PathBuf::from(".") } else { p.into() };
    // The missing directories would be created in the nearest existing ancestor; a dangling link counts as existing.
    let nearest = path.ancestors().map(given).find(|p| p.symlink_metadata().is_ok());
    let nearest = nearest.unwrap_or_else(|| ".".into());
    if !nearest.is_dir() {
        let why = match nearest == path {
            true => format!("{} is no directory", path.display()),
            false => format!("{}: {} is no directory", path.display(), nearest.display()),
        };
        return Err(CliError::flag(flag, why, "a directory; it is created if missing"));
    }
    part_of(&nearest.join("weir")).map(drop).map_err(CliError::io(flag, path))
}

/// A temporary file in the directory of `path`, with the permissions of any new file; removed unless it is persisted.
fn part_of(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".weir-").suffix(".part");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(directory_of(path))
}

/// Writes a file by the rules of this module; `write` writes the content.
///
/// # Errors
/// Errors of `write` and of the file system.
pub(crate) fn replace<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let (path, there) = match target(path)? {
        Target::Descriptor(number) => return filled(&descriptor(number, path)?, write),
        Target::Direct => return filled(&File::options().write(true).open(path)?, write),
        Target::File(path, there) => (path, there),
    };
    let part = match (part_of(&path), &there) {
        (Err(_), Some(_)) => {
            let file = File::options().write(true).truncate(true).open(&path)?;
            return filled(&file, write);
        }
        (made, _) => made?,
    };
    if let Some(there) = &there {
        keep_access(part.as_file(), there)?;
    }
    filled(part.as_file(), write)?;
    part.as_file().sync_all()?;
    match part.persist(&path) {
        Err(refused) if there.is_some() => Ok(copy(refused.file, &path)?),
        done => Ok(done.map(drop).map_err(|refused| refused.error)?),
    }
}

/// Writes a new file with a name that Weir chose: completely or not at all, and never over an existing file.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] for an existing file, and those of the file system.
pub(crate) fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut part = part_of(path)?;
    part.write_all(text.as_bytes())?;
    part.as_file().sync_all()?;
    part.persist_noclobber(path).map(drop).map_err(|refused| refused.error)
}

/// Writes the content of an open file.
fn filled<E: From<io::Error>>(
    file: &File,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let mut file = BufWriter::new(file);
    let done = write(&mut file).and_then(|()| Ok(file.flush()?));
    // After a failure, don't try to write the rest of the buffer.
    drop(file.into_parts());
    done
}

/// Copies a complete temporary file over a file that can't be replaced by renaming: a mounted one, or one in a sticky
/// directory like `/tmp`.
fn copy(mut part: NamedTempFile, path: &Path) -> io::Result<()> {
    let mut to = File::options().write(true).truncate(true).open(path)?;
    part.rewind()?;
    io::copy(part.as_file_mut(), &mut to)?;
    to.sync_all()
}

/// Writes a text by the rules of this module. A closed pipe is no error.
///
/// # Errors
/// [`CliError::Io`], with the operation (`--csv: write`) and the path.
pub(crate) fn write(operation: &'static str, path: &Path, text: &str) -> Result<(), CliError> {
    match replace(path, |file| file.write_all(text.as_bytes())) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(CliError::io(operation, path)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown, symlink};

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn unwritable_files_are_refused_by_flag_and_nothing_is_created() {
        let dir = tempfile::tempdir().unwrap();
        let of = |name: &str| dir.path().join(name);
        std::fs::write(of("file"), "old").unwrap();
        std::fs::create_dir(of("sub")).unwrap();
        symlink(of("nowhere"), of("dangling")).unwrap();
        for name in ["sub", "none/x.csv", "file/x.csv", "sub/..", "dangling"] {
            let refused = check("--csv", &of(name)).unwrap_err();
            assert_eq!(refused.exit_code(), 2, "{name}");
            let parts = refused.refusal();
            assert_eq!(parts.field.as_deref(), Some("--csv"), "{name}");
            assert!(parts.given.unwrap().contains(name), "{name}");
        }
        for name in ["file", "file/a/b"] {
            let refused = check_directory("--svg", &of(name)).unwrap_err();
            assert_eq!(refused.exit_code(), 2, "{name}");
            let parts = refused.refusal();
            assert_eq!(parts.field.as_deref(), Some("--svg"), "{name}");
        }
        for name in ["new", "file"] {
            check("--csv", &of(name)).unwrap();
        }
        for name in ["sub", "a/b/c"] {
            check_directory("--svg", &of(name)).unwrap();
        }
        assert_eq!(names(dir.path()), ["dangling", "file", "sub"]);
        assert_eq!(std::fs::read_to_string(of("file")).unwrap(), "old");
        assert!(names(&of("sub")).is_empty());
        for device in ["/dev/null", "/dev/full"] {
            check("--csv", Path::new(device)).unwrap();
        }
    }

    /// A file that must not be written is refused with exit code 4.
    #[test]
    fn missing_permissions_are_exit_code_4() {
        let refused = check("--csv", Path::new("/proc/self/x.csv")).unwrap_err();
        assert_eq!(refused.refusal().field.as_deref(), Some("--csv"));
        as_nobody("missing_permissions_are_exit_code_4", |dir| {
            std::fs::set_permissions(dir, Permissions::from_mode(0o500)).unwrap();
            assert_eq!(check("--csv", &dir.join("x")).unwrap_err().exit_code(), 4);
            assert_eq!(check_directory("--svg", &dir.join("x")).unwrap_err().exit_code(), 4);
        });
    }

    #[test]
    fn a_file_is_replaced_completely_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        write("--csv: write", &path, "one").unwrap();
        write("--csv: write", &path, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        let failed: io::Result<()> = replace(&path, |file| {
            file.write_all(b"half")?;
            Err(ErrorKind::StorageFull.into())
        });
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(names(dir.path()), ["x"]);
    }

    /// A file that only its owner could read keeps its permissions.
    #[test]
    fn a_replaced_file_keeps_its_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let of = || {
            let found = path.metadata().unwrap();
            (found.ino(), found.mode() & 0o7777, found.uid(), found.gid())
        };
        for mode in [0o600, 0o640, 0o755, 0o444] {
            std::fs::write(&path, "old").unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            if weir_net::namespace::effective_user_id() == 0 {
                fchown(File::open(&path).unwrap(), Some(1234), Some(2345)).unwrap();
            }
            let before = of();
            write("--csv: write", &path, "new").unwrap();
            let after = of();
            assert_ne!(before.0, after.0, "another file");
            assert_eq!((before.1, before.2, before.3), (after.1, after.2, after.3), "{mode:o}");
            std::fs::remove_file(&path).unwrap();
        }
        assert_eq!(names(dir.path()).len(), 0);
    }

    /// Runs a closure as a user other than root, in a new directory; root switches to another user on a separate thread.
    fn as_nobody(name: &str, act: impl FnOnce(&Path) + Send) {
        let dir = tempfile::tempdir().unwrap();
        let is_root = weir_net::namespace::effective_user_id() == 0;
        let in_thread = || {
            if is_root {
                let nobody = rustix::thread::Uid::from_raw(65_534);
                std::os::unix::fs::chown(dir.path(), Some(65_534), None).unwrap();
                if let Err(e) = rustix::thread::set_thread_res_uid(nobody, nobody, nobody) {
                    println!("SKIPPED {name}: can't change the user: {e}");
                    return;
                }
            }
            act(dir.path());
        };
        std::thread::scope(|scope| scope.spawn(in_thread).join()).unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
    }

    /// A file that can be written but not replaced is written in place. Root can do both everywhere.
    #[test]
    fn a_file_in_a_read_only_directory_is_written_in_place() {
        as_nobody("a_file_in_a_read_only_directory_is_written_in_place", |dir| {
            let (path, closed) = (dir.join("x"), dir.join("y"));
            std::fs::write(&path, "something longer").unwrap();
            std::fs::write(&closed, "old").unwrap();
            std::fs::set_permissions(&closed, Permissions::from_mode(0o400)).unwrap();
            assert_eq!(check("--csv", &closed).unwrap_err().exit_code(), 4);
            std::fs::set_permissions(dir, Permissions::from_mode(0o500)).unwrap();
            check("--csv", &path).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "something longer");
            write("--csv: write", &path, "new").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
            assert_eq!(check("--csv", &closed).unwrap_err().exit_code(), 4);
            assert_eq!(write("--csv: write", &closed, "new").unwrap_err().exit_code(), 4);
            assert_eq!(std::fs::read_to_string(&closed).unwrap(), "old");
            assert_eq!(names(dir), ["x", "y"]);
        });
    }

    /// A pipe is checked without opening it.
    #[test]
    fn devices_and_pipes_need_write_permission() {
        as_nobody("devices_and_pipes_need_write_permission", |dir| {
            let (pipe, link) = (dir.join("pipe"), dir.join("link"));
            assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
            symlink(&pipe, &link).unwrap();
            for path in [&pipe, &link] {
                std::fs::set_permissions(&pipe, Permissions::from_mode(0o600)).unwrap();
                check("--csv", path).unwrap();
                std::fs::set_permissions(&pipe, Permissions::from_mode(0o400)).unwrap();
                assert_eq!(check("--csv", path).unwrap_err().exit_code(), 4);
            }
        });
    }

    /// The length of the temporary name does not depend on that of the file's name.
    #[test]
    fn a_long_name_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x".repeat(255));
        for text in ["one", "two"] {
            check("--csv", &path).unwrap();
            write("--csv: write", &path, text).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        write_new(&dir.path().join("y".repeat(255)), "new").unwrap();
        assert_eq!(names(dir.path()).len(), 2);
    }

    #[test]
    fn a_generated_name_never_replaces_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let of = |name: &str| dir.path().join(name);
        std::fs::write(of("file"), "old").unwrap();
        symlink(of("nowhere"), of("dangling")).unwrap();
        for name in ["file", "dangling"] {
            let refused = write_new(&of(name), "new").unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::AlreadyExists, "{name}");
        }
        write_new(&of("new"), "new").unwrap();
        assert_eq!(std::fs::read_to_string(of("file")).unwrap(), "old");
        assert_eq!(std::fs::read_to_string(of("new")).unwrap(), "new");
        assert_eq!(names(dir.path()), ["dangling", "file", "new"]);
    }

    /// A device is written to, and so is the target of a link.
    #[test]
    fn devices_pipes_and_link_targets_are_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (link, file) = (dir.path().join("link"), dir.path().join("file"));
        std::fs::write(&file, "something longer").unwrap();
        symlink(&file, &link).unwrap();
        write("--csv: write", &link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        check("--csv", &pipe).unwrap();
        let reader = {
            let pipe = pipe.clone();
            std::thread::spawn(move || std::fs::read_to_string(pipe).unwrap())
        };
        write("--csv: write", &pipe, "through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        let full = write("--csv: write", Path::new("/dev/full"), "x").unwrap_err();
        assert_eq!((full.exit_code(), names(dir.path()).len()), (4, 3));
    }

    /// Directories that the group can write (umask 002) and linked directories on another disk are accepted.
    #[test]
    fn a_group_writable_and_linked_directory_works() {
        let dir = tempfile::tempdir().unwrap();
        let of = |name: &str| dir.path().join(name);
        std::fs::create_dir(of("disk")).unwrap();
        for directory in [dir.path(), &of("disk")] {
            std::fs::set_permissions(directory, Permissions::from_mode(0o775)).unwrap();
        }
        symlink(of("disk"), of("results")).unwrap();
        let path = of("results").join("x");
        for text in ["one", "two"] {
            check("--csv", &path).unwrap();
            write("--csv: write", &path, text).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        }
        check_directory("--svg", &of("results/svg")).unwrap();
        assert_eq!(std::fs::read_to_string(of("disk/x")).unwrap(), "two");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o664);
    }

    #[test]
    fn a_dash_and_the_standard_streams_are_outputs() {
        for path in ["-", "/dev/stdout", "/dev/fd/1", "/dev/stderr"] {
            check("--save-plan", Path::new(path)).unwrap();
            assert!(matches!(target(Path::new(path)), Ok(Target::Descriptor(1 | 2))), "{path}");
        }
        assert!(!Path::new("-").exists());
    }
}
