//! Files that a flag names for output: refused before anything is measured where they can't be written, and replaced whole.
//!
//! One rule for all: what the user names is the user's to replace. A plain file is replaced by a new one once that is whole, so
//! that a full disk leaves what was there; what is none (a device, a pipe) is written to. Names that Weir makes up replace
//! nothing without `--force` (`weir report`), and a key is never replaced (`weir keygen`).

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use weir_runs::new_beside;

use crate::error::CliError;

/// How a path is written.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// A new file beside it takes its name.
    Replaced,
    /// It is written to as it is: a device, a pipe, or what a link leads to.
    Through,
}

/// How a path is written. A link is followed where root or this user put it: as root under sudo, none of the user's is.
fn way(path: &Path) -> io::Result<Way> {
    let found = match path.symlink_metadata() {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Way::Replaced),
        found => found?,
    };
    if found.is_symlink() {
        let own = weir_net::namespace::effective_user_id();
        let is_ours = found.uid() == 0 || found.uid() == own;
        return Ok(if is_ours { Way::Through } else { Way::Replaced });
    }
    Ok(if found.is_file() { Way::Replaced } else { Way::Through })
}

/// Refuses a file that could not be written, by the flag that names it. Nothing of it is left, nor changed.
///
/// # Errors
/// [`CliError::Flag`] for a directory and for a file in none; [`CliError::Io`] for what the system refuses.
pub(crate) fn check(flag: &'static str, path: &Path) -> Result<(), CliError> {
    let refuse =
        |why: String| Err(CliError::flag(flag, why, "a file in a directory that is there"));
    if path.is_dir() {
        return refuse(format!("{} is a directory", path.display()));
    }
    if path.file_name().is_none() {
        return refuse(format!("'{}' names no file", path.display()));
    }
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !directory.is_dir() {
        return refuse(format!("{}: {} is no directory", path.display(), directory.display()));
    }
    let fail = |e| CliError::io(flag, path)(e);
    if way(path).map_err(fail)? == Way::Through {
        // Opening a pipe would wait for its reader, or tell it of an end.
        return match path.metadata().map_err(fail)?.is_file() {
            true => File::options().append(true).open(path).map(drop).map_err(fail),
            false => Ok(()),
        };
    }
    probe(path).map_err(fail)
}

/// The same of a directory, which is made with those around it where it is missing.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_directory(flag: &'static str, path: &Path) -> Result<(), CliError> {
    let given = |p: &Path| if p.as_os_str().is_empty() { PathBuf::from(".") } else { p.into() };
    // The nearest that is there, a link that leads nowhere included, is what the rest is made in.
    let nearest = path.ancestors().map(given).find(|p| p.symlink_metadata().is_ok());
    let nearest = nearest.unwrap_or_else(|| ".".into());
    if !nearest.is_dir() {
        let why = match nearest == path {
            true => format!("{} is no directory", path.display()),
            false => format!("{}: {} is no directory", path.display(), nearest.display()),
        };
        return Err(CliError::flag(flag, why, "a directory; it is made where it is missing"));
    }
    probe(&nearest.join("weir")).map_err(CliError::io(flag, path))
}

/// Whether a file can be made beside this one: no permission tells it as surely.
fn probe(path: &Path) -> io::Result<()> {
    let (_, beside) = new_beside(path, true)?;
    std::fs::remove_file(beside)
}

/// Writes a file by the rule of this module; `write` gives it what is in it. After a failure what was there is there.
///
/// # Errors
/// Those of `write`, and of the file system.
pub(crate) fn replace<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    if way(path)? == Way::Through {
        let mut file = BufWriter::new(File::options().write(true).truncate(true).open(path)?);
        let done = write(&mut file).and_then(|()| Ok(file.flush()?));
        // What is left in the buffer after a failure is not tried again.
        drop(file.into_parts());
        return done;
    }
    let (file, beside) = new_beside(path, false)?;
    let mut file = BufWriter::new(file);
    let done = write(&mut file)
        .and_then(|()| Ok(file.flush()?))
        .and_then(|()| Ok(std::fs::rename(&beside, path)?));
    if done.is_err() {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(&beside);
    }
    drop(file.into_parts());
    done
}

/// Writes a text by the rule of this module. A reader of a pipe that has enough is no failure.
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
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_can_not_be_written_is_refused_by_its_flag_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let of = |name: &str| dir.path().join(name);
        std::fs::write(of("file"), "old").unwrap();
        std::fs::create_dir(of("sub")).unwrap();
        symlink(of("nowhere"), of("dangling")).unwrap();
        for (name, why) in [
            ("sub", "is a directory"),
            ("none/x.csv", "is no directory"),
            ("file/x.csv", "is no directory"),
            ("sub/..", "is a directory"),
            ("dangling", "o such file"),
        ] {
            let refused = check("--csv", &of(name)).unwrap_err();
            assert_eq!(refused.exit_code(), 2, "{name}");
            let text = refused.chain();
            assert!(text.starts_with("--csv") && text.contains(why), "{name}: {text}");
        }
        for (name, why) in [("file", "file is no directory"), ("file/a/b", "file is no directory")]
        {
            let refused = check_directory("--svg", &of(name)).unwrap_err();
            assert_eq!(refused.exit_code(), 2, "{name}");
            let text = refused.to_string();
            assert!(text.starts_with("--svg: ") && text.contains(why), "{name}: {text}");
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

    /// Where a file must not be written, it is refused with 4. Root may write everywhere but where nobody may.
    #[test]
    fn what_is_not_permitted_is_4() {
        let refused = check("--csv", Path::new("/proc/self/x.csv")).unwrap_err();
        let text = refused.chain();
        assert!(text.starts_with("--csv /proc/self/x.csv: "), "{text}");
        if weir_net::namespace::effective_user_id() != 0 {
            let dir = tempfile::tempdir().unwrap();
            let closed = std::fs::Permissions::from_mode(0o500);
            std::fs::set_permissions(dir.path(), closed).unwrap();
            assert_eq!(check("--csv", &dir.path().join("x")).unwrap_err().exit_code(), 4);
            assert_eq!(check_directory("--svg", &dir.path().join("x")).unwrap_err().exit_code(), 4);
        }
    }

    #[test]
    fn a_file_is_replaced_whole_or_left() {
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

    /// A device stays a device, and what a link leads to is written: `/dev/stdout` is such a link.
    #[test]
    fn what_is_no_plain_file_is_written_to() {
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
}
