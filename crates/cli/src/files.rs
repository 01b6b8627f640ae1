//! Files that a flag names for output: refused before anything is measured where they can't be written, and replaced whole.
//!
//! One rule for all: what the user names is the user's to replace. A plain file is replaced by a new one once that is whole, so
//! that a full disk leaves what was there; where no other can take its name (one that is mounted there, another's in `/tmp`, in
//! a directory that may not be written) it is written anew where it is. What is none (a device, a pipe) is written to, and a
//! descriptor (`/dev/stdout`) goes on behind what is in it. Names that Weir makes up replace nothing without `--force`
//! (`weir report`), and a key is never replaced (`weir keygen`).

mod way;

use std::fs::{File, Metadata, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use weir_net::output::descriptor;
use weir_runs::new_beside;

use crate::error::CliError;
use way::{Way, directory_of, is_fixed, is_one, is_trusted, may_write, must_stay, open_there, way};

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
    let directory = directory_of(path);
    if !directory.is_dir() {
        return refuse(format!("{}: {} is no directory", path.display(), directory.display()));
    }
    let fail = |e| CliError::io(flag, path)(e);
    let checked = match way(path).map_err(fail)? {
        // Opening a pipe would wait for its reader, or tell it of an end.
        Way::Descriptor(1 | 2) => Ok(()),
        Way::Through(_) => may_write(path),
        Way::Followed => match path.metadata().map_err(fail)?.is_file() {
            true => File::options().write(true).open(path).map(drop),
            false => may_write(path),
        },
        Way::Descriptor(_) => match path.metadata().map_err(fail)?.is_file() {
            true => File::options().append(true).open(path).map(drop),
            false => may_write(path),
        },
        Way::Replaced(None) => probe(path),
        Way::Replaced(Some(there)) => match probe(path) {
            Ok(()) if is_fixed(path, &there) => open_there(path, &there).map(drop),
            // What nobody may replace, nor write (chattr +i, +a), is not told by its bits; a file for reading can be replaced.
            Ok(()) => match open_there(path, &there) {
                Err(e) if e.raw_os_error() == Some(libc::EPERM) => Err(e),
                _ => Ok(()),
            },
            Err(e) if must_stay(&e) => open_there(path, &there).map(drop).map_err(|_| e),
            probed => probed,
        },
    };
    checked.map_err(fail)
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

/// Writes a file by the rule of this module; `write` gives it what is in it. After a failure what was there is there, unless
/// it had to be written where it is.
///
/// # Errors
/// Those of `write`, and of the file system.
pub(crate) fn replace<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let there = match way(path)? {
        Way::Descriptor(number) => return filled(&descriptor(number, path)?, write),
        Way::Through(there) => return filled(&open_there(path, &there)?, write),
        Way::Followed => {
            let file = File::options().write(true).open(path)?;
            if file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            return filled(&file, write);
        }
        Way::Replaced(there) => there.filter(Metadata::is_file),
    };
    let (file, beside) = match (new_beside(path, there.is_some()), &there) {
        (Err(e), Some(there)) if must_stay(&e) => {
            let file = open_there(path, there).map_err(|_| e)?;
            file.set_len(0)?;
            return filled(&file, write);
        }
        (made, _) => made?,
    };
    let done = filled(&file, write)
        .and_then(|()| {
            Ok(there.as_ref().map_or(Ok(()), |there| keep_access(&file, path, there))?)
        })
        .and_then(|()| Ok(file.sync_all()?))
        .and_then(|()| Ok(rename(&file, &beside, path, there.as_ref())?));
    // After a rename there is nothing left; the first error is the one to tell.
    let _ = std::fs::remove_file(&beside);
    done
}

/// Writes a text into a new file, whole or not at all, and never over another: by a name that Weir made up.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] where something has the name, and those of the file system.
pub(crate) fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let (file, beside) = new_beside(path, false)?;
    let done = filled(&file, |file| file.write_all(text.as_bytes()))
        .and_then(|()| file.sync_all())
        .and_then(|()| match std::fs::hard_link(&beside, path) {
            // Some file systems have no links. There the name is taken by an empty file, which nothing else can have then.
            Err(e) if e.kind() != ErrorKind::AlreadyExists => {
                File::create_new(path).and_then(|_| {
                    std::fs::rename(&beside, path).inspect_err(|_| {
                        // Empty, and of a name that nobody asked for.
                        let _ = std::fs::remove_file(path);
                    })
                })
            }
            linked => linked,
        });
    let _ = std::fs::remove_file(&beside);
    done
}

/// Gives an open file what is in it.
fn filled<E: From<io::Error>>(
    file: &File,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let mut file = BufWriter::new(file);
    let done = write(&mut file).and_then(|()| Ok(file.flush()?));
    // What is left in the buffer after a failure is not tried again.
    drop(file.into_parts());
    done
}

/// Gives a new file the owner, the group and the permission bits of the one that it replaces, as far as is permitted. Nobody
/// may do with it what he could not before: without its group, the group may what all others may. What anybody may have left in
/// a directory of everybody's (see [`is_trusted`]) becomes this user's, and nobody else's to write.
fn keep_access(file: &File, path: &Path, there: &Metadata) -> io::Result<()> {
    let made = file.metadata()?;
    let mut mode = there.mode() & 0o777;
    if !is_trusted(path, there) {
        mode = (mode & 0o707 | (mode & 0o007) << 3) & 0o755 | 0o600;
        return file.set_permissions(Permissions::from_mode(mode));
    }
    if (made.uid(), made.gid()) != (there.uid(), there.gid()) {
        let kept = fchown(file, Some(there.uid()), Some(there.gid()));
        if kept.or_else(|_| fchown(file, None, Some(there.gid()))).is_err() {
            mode &= 0o707 | (mode & 0o007) << 3;
        }
    }
    file.set_permissions(Permissions::from_mode(mode))
}

/// Gives a file that is whole its name. Where that is refused, what is in it is written into the file that has the name.
fn rename(file: &File, beside: &Path, path: &Path, there: Option<&Metadata>) -> io::Result<()> {
    let (refusal, there) = match (std::fs::rename(beside, path), there) {
        (Err(e), Some(there)) if must_stay(&e) => (e, there),
        (done, _) => return done,
    };
    let Ok(to) = open_there(path, there) else { return Err(refusal) };
    // The bits of the other may forbid to read it.
    file.set_permissions(Permissions::from_mode(0o600))?;
    let mut from = File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(beside)?;
    is_one(&from, &file.metadata()?)?;
    to.set_len(0)?;
    io::copy(&mut from, &mut &to)?;
    to.sync_all()
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
    use std::os::unix::fs::symlink;

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
        as_nobody("what_is_not_permitted_is_4", |dir| {
            std::fs::set_permissions(dir, Permissions::from_mode(0o500)).unwrap();
            assert_eq!(check("--csv", &dir.join("x")).unwrap_err().exit_code(), 4);
            assert_eq!(check_directory("--svg", &dir.join("x")).unwrap_err().exit_code(), 4);
        });
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

    /// A file that was for its user's eyes stays so; one that is new is as the user's others.
    #[test]
    fn a_replaced_file_keeps_who_may_read_it() {
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

    /// Does something in a directory of one's own as a user who is not root: this one, or, of root, another in a thread of its
    /// own, as the kernel has users by the thread.
    fn as_nobody(name: &str, act: impl FnOnce(&Path) + Send) {
        let dir = tempfile::tempdir().unwrap();
        let is_root = weir_net::namespace::effective_user_id() == 0;
        let in_thread = || {
            if is_root {
                let nobody = rustix::thread::Uid::from_raw(65_534);
                std::os::unix::fs::chown(dir.path(), Some(65_534), None).unwrap();
                if let Err(e) = rustix::thread::set_thread_res_uid(nobody, nobody, nobody) {
                    println!("SKIPPED {name}: another user can't be taken: {e}");
                    return;
                }
            }
            act(dir.path());
        };
        std::thread::scope(|scope| scope.spawn(in_thread).join()).unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
    }

    /// Who may write a file, but not beside it, writes it where it is; who may do neither is told so before anything is measured.
    /// Root may do both everywhere.
    #[test]
    fn a_file_in_a_closed_directory_is_written_where_it_is() {
        as_nobody("a_file_in_a_closed_directory_is_written_where_it_is", |dir| {
            let (path, closed) = (dir.join("x"), dir.join("y"));
            std::fs::write(&path, "something longer").unwrap();
            std::fs::write(&closed, "old").unwrap();
            // One that is for reading only can be replaced where another can take its name.
            std::fs::set_permissions(&closed, Permissions::from_mode(0o400)).unwrap();
            check("--csv", &closed).unwrap();
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

    /// A pipe or a device that is another's is not opened to see whether it may be written.
    #[test]
    fn what_is_written_to_as_it_is_has_to_be_permitted() {
        as_nobody("what_is_written_to_as_it_is_has_to_be_permitted", |dir| {
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

    /// Attributes keep root, too, from replacing a file and from writing it.
    #[test]
    fn a_file_that_nobody_may_change_is_refused_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        for attribute in ["i", "a"] {
            std::fs::write(&path, "old").unwrap();
            let set = |how: &str| {
                let mut chattr = std::process::Command::new("chattr");
                let done = chattr.arg(format!("{how}{attribute}")).arg(&path).output();
                done.is_ok_and(|done| done.status.success())
            };
            if !set("+") {
                println!(
                    "SKIPPED a_file_that_nobody_may_change_is_refused_before: no attributes to be had here"
                );
                return;
            }
            let refused = check("--csv", &path);
            let kept = std::fs::read_to_string(&path).unwrap();
            assert!(set("-"));
            assert_eq!((refused.unwrap_err().exit_code(), kept.as_str()), (4, "old"));
            assert_eq!(names(dir.path()), ["x"]);
        }
    }

    /// In a directory like `/tmp` anybody may leave a file by the name of a result: it is not his for that.
    #[test]
    fn a_file_that_another_left_for_everybody_is_taken_from_him() {
        let name = "a_file_that_another_left_for_everybody_is_taken_from_him";
        if weir_net::namespace::effective_user_id() != 0 {
            println!("SKIPPED {name}: needs root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        // A directory's bits, the file's, and the owner and bits of what replaces it.
        for (directory, mode, wanted) in [
            (0o1777, 0o666, (0, 0o644)),
            (0o1777, 0o600, (0, 0o600)),
            (0o1777, 0o060, (0, 0o600)),
            (0o0777, 0o666, (1234, 0o666)),
            (0o1755, 0o640, (1234, 0o640)),
        ] {
            std::fs::set_permissions(dir.path(), Permissions::from_mode(directory)).unwrap();
            std::fs::write(&path, "old").unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            std::os::unix::fs::chown(&path, Some(1234), Some(2345)).unwrap();
            write("--csv: write", &path, "new").unwrap();
            let found = path.metadata().unwrap();
            assert_eq!((found.uid(), found.mode() & 0o777), wanted, "{directory:o} {mode:o}");
            std::fs::remove_file(&path).unwrap();
        }
    }

    /// A name may be as long as names can be: what is written beside it has one of its own.
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

    /// What is written into the file that has the name, when no other can take it, is what was written beside it.
    #[test]
    fn a_refused_rename_is_made_up_for_by_the_one_file_that_was_found() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("x"), dir.path().join("other"));
        std::fs::write(&path, "something longer").unwrap();
        std::fs::write(&other, "other").unwrap();
        let there = path.metadata().unwrap();
        open_there(&path, &there).unwrap();
        std::fs::rename(&other, &path).unwrap();
        let refused = open_there(&path, &there).unwrap_err();
        assert!(refused.to_string().contains("meanwhile"), "{refused}");
        symlink(&path, &other).unwrap();
        let link = other.symlink_metadata().unwrap();
        assert_eq!(open_there(&other, &link).unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert!(open_there(&other, &path.metadata().unwrap()).is_err(), "a link has the name");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "other");
    }

    #[test]
    fn a_name_that_is_made_up_is_never_taken_from_another() {
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

    /// A device stays a device, and what a link leads to is written.
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
