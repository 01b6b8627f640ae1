//! The data directory and its owner: under sudo it belongs to the calling user.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::StoreError;

/// Name of the file in the data directory.
const FILE: &str = "runs.db";

/// The data directory, and the owner of new files in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDirectory {
    directory: PathBuf,
    /// User and group of new files; absent: those of this process.
    owner: Option<(u32, u32)>,
}

impl DataDirectory {
    /// The directory for this process: `WEIR_DATA_DIR`, else under sudo the calling user's `~/.local/share/weir`,
    /// else `$XDG_DATA_HOME/weir`, else `~/.local/share/weir`.
    ///
    /// # Errors
    /// [`StoreError::NoDirectory`] if none of these is known.
    pub fn of_this_user() -> Result<DataDirectory, StoreError> {
        DataDirectory::resolve(&|name| std::env::var_os(name), effective_user() == Some(0), &|| {
            std::fs::read_to_string("/etc/passwd").unwrap_or_default()
        })
    }

    /// [`DataDirectory::of_this_user`] with the environment, the privilege and the list of users as arguments.
    fn resolve(
        variable: &dyn Fn(&str) -> Option<OsString>,
        root: bool,
        passwd: &dyn Fn() -> String,
    ) -> Result<DataDirectory, StoreError> {
        // The XDG specification ignores a relative path.
        let path = |name: &str| variable(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let number = |name: &str| variable(name)?.to_str()?.parse::<u32>().ok();
        let caller = number("SUDO_UID")
            .filter(|uid| root && *uid != 0)
            .map(|uid| (uid, number("SUDO_GID").unwrap_or(uid)));
        if let Some(own) = variable("WEIR_DATA_DIR").filter(|v| !v.is_empty()) {
            return Ok(DataDirectory { directory: own.into(), owner: caller });
        }
        if let Some((uid, gid)) = caller
            && let Some(home) = home_of(uid, &passwd())
        {
            return Ok(DataDirectory {
                directory: home.join(".local/share/weir"),
                owner: Some((uid, gid)),
            });
        }
        let base = path("XDG_DATA_HOME").or_else(|| path("HOME").map(|h| h.join(".local/share")));
        match base {
            Some(base) => Ok(DataDirectory { directory: base.join("weir"), owner: None }),
            None => Err(StoreError::NoDirectory),
        }
    }

    /// A given directory.
    pub fn in_directory(directory: impl Into<PathBuf>) -> DataDirectory {
        DataDirectory { directory: directory.into(), owner: None }
    }

    /// The directory; it may not exist yet.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file; it may not exist yet.
    pub fn file(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// A subdirectory, created if missing, private to the owner.
    ///
    /// # Errors
    /// As [`DataDirectory::prepare`].
    pub fn prepare_directory(&self, name: &str) -> Result<PathBuf, StoreError> {
        self.prepare()?;
        let path = self.directory.join(name);
        let io = |operation| {
            let path = path.clone();
            move |source| StoreError::Io { operation, path, source }
        };
        match make_directory(&path) {
            Ok(()) => self.hand_over(&path).map_err(io("give to its user:"))?,
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && path.is_dir() => {}
            Err(e) => return Err(io("create directory")(e)),
        }
        Ok(path)
    }

    /// Changes the owner of an open file in the directory to the calling user (under sudo).
    ///
    /// # Errors
    /// As [`DataDirectory::prepare`].
    pub fn give(&self, file: &std::fs::File, path: &Path) -> Result<(), StoreError> {
        let fail =
            |source| StoreError::Io { operation: "give to its user:", path: path.into(), source };
        #[cfg(unix)]
        if let Some((uid, gid)) = self.owner {
            std::os::unix::fs::fchown(file, Some(uid), Some(gid)).map_err(fail)?;
        }
        #[cfg(not(unix))]
        let _ = (file, fail);
        Ok(())
    }

    /// Creates the directory and an empty file if missing, private to the owner.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn prepare(&self) -> Result<PathBuf, StoreError> {
        self.prepare_file(FILE)
    }

    /// The same of another file in the directory.
    pub(crate) fn prepare_file(&self, name: &str) -> Result<PathBuf, StoreError> {
        let io = |operation, path: &Path| {
            let path = path.to_path_buf();
            move |source| StoreError::Io { operation, path, source }
        };
        let mut missing: Vec<&Path> = self
            .directory
            .ancestors()
            .take_while(|p| !p.as_os_str().is_empty() && !p.exists())
            .collect();
        while let Some(directory) = missing.pop() {
            match make_directory(directory) {
                Ok(()) => self.hand_over(directory).map_err(io("give to its user:", directory))?,
                // Another process created it meanwhile.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && directory.is_dir() => {}
                Err(e) => return Err(io("create directory", directory)(e)),
            }
        }
        let file = self.directory.join(name);
        match make_file(&file) {
            Ok(()) => self.hand_over(&file).map_err(io("give to its user:", &file))?,
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(io("create", &file)(e)),
        }
        Ok(file)
    }

    #[cfg(unix)]
    fn hand_over(&self, path: &Path) -> std::io::Result<()> {
        match self.owner {
            Some((uid, gid)) => std::os::unix::fs::lchown(path, Some(uid), Some(gid)),
            None => Ok(()),
        }
    }

    #[cfg(not(unix))]
    fn hand_over(&self, _: &Path) -> std::io::Result<()> {
        Ok(())
    }
}

/// Results contain names and addresses of hosts: directory and file are private to the user.
fn make_directory(path: &Path) -> std::io::Result<()> {
    #[cfg_attr(not(unix), expect(unused_mut))]
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn make_file(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

/// The home directory of a user in the text of `/etc/passwd`.
fn home_of(uid: u32, passwd: &str) -> Option<PathBuf> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        let found = fields.next()?.parse::<u32>().ok()? == uid;
        let home = PathBuf::from(fields.nth(2)?);
        (found && home.is_absolute()).then_some(home)
    })
}

/// The effective user, if known.
#[cfg(unix)]
fn effective_user() -> Option<u32> {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").ok()?).into()
}

#[cfg(not(unix))]
fn effective_user() -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000::/home/ann:/bin/sh\nbad\n";

    fn data(variables: &[(&str, &str)], root: bool) -> Result<DataDirectory, StoreError> {
        let get = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into());
        DataDirectory::resolve(&get, root, &|| PASSWD.into())
    }

    #[test]
    fn the_most_specific_variable_is_used() {
        let at = |v: &[(&str, &str)]| data(v, false).unwrap().file();
        assert_eq!(at(&[("HOME", "/h")]), Path::new("/h/.local/share/weir/runs.db"));
        assert_eq!(at(&[("HOME", "/h"), ("XDG_DATA_HOME", "/x")]), Path::new("/x/weir/runs.db"));
        assert_eq!(
            at(&[("HOME", "/h"), ("XDG_DATA_HOME", "x")]),
            Path::new("/h/.local/share/weir/runs.db")
        );
        assert_eq!(at(&[("HOME", "/h"), ("WEIR_DATA_DIR", "/w")]), Path::new("/w/runs.db"));
        assert!(matches!(data(&[], false), Err(StoreError::NoDirectory)));
    }

    #[test]
    fn under_sudo_runs_belong_to_the_caller() {
        let sudo = [("HOME", "/root"), ("SUDO_UID", "1000"), ("SUDO_GID", "100")];
        let ann = data(&sudo, true).unwrap();
        assert_eq!(
            (ann.directory(), ann.owner),
            (Path::new("/home/ann/.local/share/weir"), Some((1000, 100)))
        );
        // `sudo -u other`: not root, so it can't write to the caller's home.
        assert_eq!(data(&sudo, false).unwrap().directory(), Path::new("/root/.local/share/weir"));
        let unknown = [("HOME", "/root"), ("SUDO_UID", "4242")];
        assert_eq!(data(&unknown, true).unwrap().owner, None);
    }

    #[test]
    fn directories_are_made_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDirectory::in_directory(dir.path().join("a/b"));
        let file = data.prepare().unwrap();
        assert_eq!(data.prepare().unwrap(), file);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |p: &Path| p.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&file), mode(data.directory())), (0o600, 0o700));
        }
    }

    #[test]
    fn a_file_in_place_of_the_directory_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "x").unwrap();
        let error =
            DataDirectory::in_directory(dir.path().join("a/b")).prepare().unwrap_err().to_string();
        assert!(error.contains("/a/b"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_linked_directory_works_and_new_files_belong_to_the_caller_of_sudo() {
        let dir = tempfile::tempdir().unwrap();
        let (disk, home) = (dir.path().join("disk"), dir.path().join("home"));
        std::fs::create_dir_all(disk.join("experiments")).unwrap();
        std::fs::create_dir(&home).unwrap();
        std::os::unix::fs::symlink(&disk, home.join("weir")).unwrap();
        let caller = (effective_user() == Some(0)).then_some((1000, 1000));
        let data = DataDirectory { directory: home.join("weir"), owner: caller };
        data.prepare().unwrap();
        let experiments = data.prepare_directory("experiments").unwrap();
        let path = experiments.join("x");
        data.give(&std::fs::File::create(&path).unwrap(), &path).unwrap();
        if caller.is_none() {
            eprintln!("SKIPPED new files belong to the caller of sudo: needs root");
            return;
        }
        let uid = |p: &Path| std::os::unix::fs::MetadataExt::uid(&p.metadata().unwrap());
        assert_eq!((uid(&disk.join("runs.db")), uid(&disk.join("experiments/x"))), (1000, 1000));
    }
}
