//! Where running labs are registered: a directory that no other user can write, read or replace.

use std::ffi::OsString;
use std::fs::{DirBuilder, symlink_metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use weir_net::namespace::effective_user_id;

use crate::error::Error;

/// Environment variable that names the runtime directory.
pub(crate) const OVERRIDE: &str = "WEIR_RUNTIME_DIR";

/// The runtime directory of this user, made and checked: `$WEIR_RUNTIME_DIR`, else for root
/// `/run/weir`, else `$XDG_RUNTIME_DIR/weir`, else `weir-<uid>` under the temporary directory. It is the same inside a
/// user namespace as outside.
///
/// # Errors
/// A directory that belongs to someone else, that others may enter, or that is a symbolic link.
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
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(path) = absolute(OVERRIDE) {
        return secure(&path, user).map(|()| path);
    }
    // Root of a user namespace may not write to /run: then as any other user.
    if user == 0 && secure(system, user).is_ok() {
        return Ok(system.to_owned());
    }
    if let Some(parent) = absolute("XDG_RUNTIME_DIR").filter(|path| is_own(path, user)) {
        let path = parent.join("weir");
        return secure(&path, user).map(|()| path);
    }
    let path = std::env::temp_dir().join(format!("weir-{outside}"));
    secure(&path, user).map(|()| path)
}

fn is_own(path: &Path, user: u32) -> bool {
    symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == user)
}

/// Makes the directory with mode 0700 where it is missing, then checks what is there without
/// following a link. A directory of ours that only we may write cannot be swapped afterwards, given
/// a parent that is ours, the system's, or sticky as the temporary directory is.
pub(crate) fn secure(path: &Path, user: u32) -> Result<(), Error> {
    let failed = |operation, source| Error::Registry { operation, path: path.to_owned(), source };
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed("make directory", error)),
    }
    let metadata = symlink_metadata(path).map_err(|error| failed("look at", error))?;
    let unsafe_because = |why: String| Err(Error::Unsafe { path: path.to_owned(), why });
    if !metadata.is_dir() {
        return unsafe_because("it is not a directory".to_owned());
    }
    if metadata.uid() != user {
        return unsafe_because(format!("it belongs to user {}", metadata.uid()));
    }
    if metadata.mode() & 0o077 != 0 {
        let mode = metadata.mode() & 0o777;
        return unsafe_because(format!("its mode is {mode:03o}, expected 700 (chmod 700)"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn links_open_modes_and_files_are_refused() {
        let user = effective_user_id();
        let temporary = tempfile::tempdir().unwrap();
        let good = temporary.path().join("good");
        secure(&good, user).unwrap();
        secure(&good, user).unwrap();
        assert_eq!(symlink_metadata(&good).unwrap().mode() & 0o777, 0o700);
        let link = temporary.path().join("link");
        symlink(&good, &link).unwrap();
        assert!(matches!(secure(&link, user), Err(Error::Unsafe { .. })));
        let file = temporary.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(matches!(secure(&file, user), Err(Error::Unsafe { .. })));
        assert!(matches!(secure(&good, user + 1), Err(Error::Unsafe { .. })));
        std::fs::set_permissions(&good, PermissionsExt::from_mode(0o750)).unwrap();
        assert!(matches!(secure(&good, user), Err(Error::Unsafe { .. })));
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
        let chosen = choose(user, 7, only("XDG_RUNTIME_DIR", &session), &system).unwrap();
        let expected = if user == 0 { system.clone() } else { session.join("weir") };
        assert_eq!(chosen, expected);
        // Where the system's directory is unavailable, the session's is used.
        let refused = temporary.path().join("missing/system");
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
