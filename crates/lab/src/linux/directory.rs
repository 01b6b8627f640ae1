//! The runtime directory of a user: registry of labs, locks and control sockets.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use weir_net::namespace::effective_user_id;

use crate::error::Error;

/// Environment variable that names the runtime directory.
pub(crate) const OVERRIDE: &str = "WEIR_RUNTIME_DIR";

/// The runtime directory of this user, made with mode 0700 if it is missing: `$WEIR_RUNTIME_DIR`, else for root
/// `/run/weir`, else `$XDG_RUNTIME_DIR/weir`, else `weir-<uid>` under the temporary directory. It is the same inside a
/// user namespace as outside.
///
/// # Errors
/// It can't be made.
pub fn runtime_directory() -> Result<PathBuf, Error> {
    let user = effective_user_id();
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let outside = outside(&map, user).unwrap_or(user);
    choose(user, outside, |name| std::env::var_os(name), Path::new("/run/weir"))
}

/// Who `user` is outside this user namespace, by its map (user_namespaces(7)): a line for each range, its first user
/// inside, its first outside, its length. Root inside is an ordinary user outside.
fn outside(map: &str, user: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut fields = line.split_whitespace().map(str::parse::<u32>);
        let (inside, outside, length) =
            (fields.next()?.ok()?, fields.next()?.ok()?, fields.next()?.ok()?);
        let at = user.checked_sub(inside).filter(|at| *at < length)?;
        outside.checked_add(at)
    })
}

fn choose(
    user: u32,
    outside: u32,
    variable: impl Fn(&str) -> Option<OsString>,
    system: &Path,
) -> Result<PathBuf, Error> {
    let set = |name: &str| variable(name).map(PathBuf::from).filter(|p| !p.as_os_str().is_empty());
    let made = |path: PathBuf| match make(&path) {
        Ok(()) => Ok(path),
        Err(source) => Err(Error::Registry { operation: "make directory", path, source }),
    };
    if let Some(path) = set(OVERRIDE) {
        if path.is_relative() {
            // Another command, in another directory, would not find the labs.
            return Err(Error::Invalid {
                field: OVERRIDE,
                given: path.display().to_string(),
                accepted: "an absolute path".into(),
            });
        }
        return made(path);
    }
    // Root of a user namespace may not write to /run: then as any other user.
    if user == 0 && make(system).is_ok() && is_writable(system) {
        return Ok(system.to_owned());
    }
    // After `su`, the variable may still name another user's directory.
    let session = set("XDG_RUNTIME_DIR").filter(|path| path.is_absolute() && is_writable(path));
    if let Some(parent) = session {
        return made(parent.join("weir"));
    }
    made(std::env::temp_dir().join(format!("weir-{outside}")))
}

fn is_writable(path: &Path) -> bool {
    access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Makes the directory, and its missing parents, with mode 0700. What exists stays as it is.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    // Not by `recursive`, which fails where another program removes a directory that was just found.
    let create = || match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    };
    match (create(), path.parent()) {
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
            make(parent)?;
            create()
        }
        (made, _) => made,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_directory_of_the_user_is_used_as_it_is() {
        let temporary = tempfile::tempdir().unwrap();
        let there = temporary.path().join("there");
        make(&there).unwrap();
        let mode = || there.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o700);
        std::fs::set_permissions(&there, PermissionsExt::from_mode(0o775)).unwrap();
        let link = temporary.path().join("link");
        symlink(&there, &link).unwrap();
        let variable = |name: &str| (name == OVERRIDE).then(|| link.clone().into_os_string());
        assert_eq!(choose(0, 0, variable, temporary.path()).unwrap(), link);
        assert_eq!(mode(), 0o775);
    }

    #[test]
    fn order_of_places() {
        let user = effective_user_id();
        let temporary = tempfile::tempdir().unwrap();
        let system = temporary.path().join("system");
        let session = temporary.path().join("session");
        std::fs::create_dir(&session).unwrap();
        let only = |wanted: &'static str, path: &Path| {
            let path = path.to_owned();
            move |name: &str| (name == wanted).then(|| path.clone().into_os_string())
        };
        let own = temporary.path().join("own");
        assert_eq!(choose(user, 7, only("WEIR_RUNTIME_DIR", &own), &system).unwrap(), own);
        let relative = only("WEIR_RUNTIME_DIR", Path::new("own"));
        let refused = choose(user, 7, relative, &system).unwrap_err();
        assert!(
            matches!(&refused, Error::Invalid { field: "WEIR_RUNTIME_DIR", given, .. } if given == "own"),
            "{refused}"
        );
        let chosen = choose(user, 7, only("XDG_RUNTIME_DIR", &session), &system).unwrap();
        let expected = if user == 0 { system.clone() } else { session.join("weir") };
        assert_eq!(chosen, expected);
        // Where the system's directory is unavailable, the session's is used.
        let file = temporary.path().join("file");
        std::fs::write(&file, "").unwrap();
        let refused = file.join("system");
        let chosen = choose(user, 7, only("XDG_RUNTIME_DIR", &session), &refused).unwrap();
        assert_eq!(chosen, session.join("weir"));
        // Without any of them, by the user's own number, as it is outside a user namespace: root in one is not the
        // owner of what another user's root makes in the place that all share.
        let number = 1_000_000_000 + std::process::id();
        let chosen = choose(user, number, |_| None, &refused).unwrap();
        std::fs::remove_dir(&chosen).unwrap();
        assert_eq!(chosen, std::env::temp_dir().join(format!("weir-{number}")));
    }

    #[test]
    fn root_of_a_user_namespace_is_the_user_outside() {
        assert_eq!(outside("         0       1000          1\n", 0), Some(1000));
        assert_eq!(outside("0 0 4294967295\n", 1000), Some(1000));
        assert_eq!(outside("0 1000 1\n1 100000 65536\n", 2), Some(100_001));
        for (map, user) in
            [("", 0), ("0 1000 1", 1), ("0 1000", 0), ("x 1 1", 0), ("0 4294967295 2", 1)]
        {
            assert_eq!(outside(map, user), None, "{map}");
        }
    }
}
