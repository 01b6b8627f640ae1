//! Files that give rights: who may change one of them, or put another in its place, has these rights too.
//!
//! The rule is that of OpenSSH for its own files (`StrictModes`): nobody but root and the effective user may write the file, or a
//! directory on the way to it ([`Origin::Found`]). In a directory with the sticky bit (`/tmp`) nobody can take another's file away, so that it may be
//! written by all.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::namespace::effective_user_id;
use crate::plain_file;

mod directory;

pub use directory::Directory;

/// Permission bits: writable by the group, by all others, and the sticky bit.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Why a file is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum Distrust {
    /// Somebody else may change it.
    #[error("{} {why}", path.display())]
    Writable {
        /// The file, or the directory on the way to it.
        path: PathBuf,
        /// Who, in words.
        why: String,
    },
    /// It can't be looked at.
    #[error("look at {}: {source}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// Most links that one path leads through, as the kernel has it.
pub const MOST_LINKS: u32 = 40;

/// How a path came to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The program looked for it by itself: the rule of ssh for the file, every directory on the way to it, and every link there
    /// and where it leads.
    Found,
    /// Whoever started the program named it by a flag, and so decided whose it may be: under sudo one's own, or a group's. Refused is
    /// what everybody may change: the file, a directory or a link on the way to it that all may write, or that somebody else has put
    /// into a directory where all may (`/tmp`).
    Named,
}

/// The variable of the environment by which programs are told that files of keys were found, and not named by whoever started them.
pub const KEYS_AS_FOUND: &str = "WEIR_KEYS_AS_FOUND";

/// Looks at a file or directory.
///
/// # Errors
/// [`Distrust`], which names what may be changed by whom.
pub fn trusted(path: &Path, origin: Origin) -> Result<(), Distrust> {
    let io = |source| Distrust::Io { path: path.into(), source };
    let absolute = std::path::absolute(path).map_err(io)?;
    walk(&absolute, origin, effective_user_id(), MOST_LINKS).map(drop)
}

/// Opens a plain file to be read. A link is followed only where nobody else can have put it there, by the rule of what was found:
/// root would read for others what they may not. Of what was named, the directory is what its own name leads to.
///
/// # Errors
/// As [`plain_file::read`] and [`plain_file::read_within`].
pub fn read(path: &Path, origin: Origin) -> io::Result<File> {
    if trusted(path, Origin::Found).is_ok() {
        return plain_file::read(&std::fs::canonicalize(path)?);
    }
    let (sure, rest) = match origin {
        Origin::Found => parted(path)?,
        Origin::Named => {
            let given = std::path::absolute(path)?;
            let (Some(beside), Some(name)) = (given.parent(), given.file_name()) else {
                return Err(ErrorKind::InvalidInput.into());
            };
            (std::fs::canonicalize(beside)?, name.into())
        }
    };
    plain_file::read_within(&sure, &rest)
}

/// Whether somebody else can have made this path lead where it does: a part of it is a link that stands where others may write, or
/// that can't be looked at.
#[must_use]
pub fn leads_astray(path: &Path) -> bool {
    let Ok((mut at, rest)) = parted(path) else { return true };
    rest.components().any(|part| {
        at.push(part);
        at.symlink_metadata().map_or(true, |found| found.is_symlink())
    })
}

/// A path as far as it is trusted, with its links followed, and what comes after. A link that nobody else can have put there is
/// followed also where what it leads to is another's.
fn parted(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let mut path = std::path::absolute(path)?;
    for _ in 0..MOST_LINKS {
        let sure = path.ancestors().find(|part| trusted(part, Origin::Found).is_ok());
        let sure = sure.unwrap_or(Path::new("/"));
        let rest = path.strip_prefix(sure).map_err(io::Error::other)?.to_owned();
        let sure = std::fs::canonicalize(sure)?;
        let mut parts = rest.components();
        let next = parts.next().map(|part| sure.join(part)).unwrap_or_default();
        let is_ours = next.symlink_metadata().is_ok_and(|found| {
            let user = effective_user_id();
            found.is_symlink() && changed_by(found.uid(), found.mode(), Kind::Link, user).is_none()
        });
        if !is_ours || trusted(&sure, Origin::Found).is_err() {
            return Ok((sure, rest));
        }
        path = sure.join(std::fs::read_link(&next)?).join(parts);
    }
    Err(ErrorKind::InvalidInput.into())
}

/// Goes an absolute path from the root, and returns where it ends.
fn walk(path: &Path, origin: Origin, user: u32, links: u32) -> Result<PathBuf, Distrust> {
    let mut at = PathBuf::new();
    for part in path.components() {
        match part {
            // What was gone through is no link any more.
            Component::ParentDir => drop(at.pop()),
            part => at.push(part),
        }
        let io = |source| Distrust::Io { path: at.clone(), source };
        let found = at.symlink_metadata().map_err(io)?;
        let kind = Kind::of(&found);
        let who = match origin {
            Origin::Found => changed_by(found.uid(), found.mode(), kind, user),
            Origin::Named => {
                let beside = at.parent().map(Path::symlink_metadata).transpose().map_err(io)?;
                let is_shared = beside.is_some_and(|beside| beside.mode() & OTHERS_WRITE != 0);
                changed_by_anybody(found.uid(), found.mode(), kind, is_shared, user)
            }
        };
        if let Some(who) = who {
            return Err(Distrust::Writable { path: at, why: who.words(found.uid()) });
        }
        if found.is_symlink() {
            let target = std::fs::read_link(&at).map_err(io)?;
            let left = links.checked_sub(1).ok_or_else(|| io(ErrorKind::InvalidInput.into()))?;
            at.pop();
            at = walk(&at.join(target), origin, user, left)?;
        }
    }
    Ok(at)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Link,
    Directory,
    Other,
}

impl Kind {
    fn of(found: &Metadata) -> Kind {
        match (found.is_symlink(), found.is_dir()) {
            (true, _) => Kind::Link,
            (false, true) => Kind::Directory,
            (false, false) => Kind::Other,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Who {
    Owner,
    Group,
    All,
}

impl Who {
    /// In words, of what has this owner.
    fn words(&self, owner: u32) -> String {
        match self {
            Who::Owner => format!("belongs to {}, who may change it", name_of(owner)),
            Who::Group => "may be written by its group (chmod g-w)".into(),
            Who::All => "may be written by everybody (chmod o-w)".into(),
        }
    }
}

/// Whether everybody may write what has these permissions: of a directory, take away what is in it too.
fn is_written_by_all(mode: u32, kind: Kind) -> bool {
    mode & OTHERS_WRITE != 0 && kind != Kind::Link && !is_sticky(mode, kind)
}

/// Whether nobody can take another's file away here.
fn is_sticky(mode: u32, kind: Kind) -> bool {
    kind == Kind::Directory && mode & STICKY != 0
}

/// Who but root and `user` may change what has this owner and these permissions. Those of a link say nothing.
fn changed_by(owner: u32, mode: u32, kind: Kind, user: u32) -> Option<Who> {
    if owner != 0 && owner != user {
        return Some(Who::Owner);
    }
    if kind == Kind::Link || is_sticky(mode, kind) {
        return None;
    }
    match (is_written_by_all(mode, kind), mode & GROUP_WRITES != 0) {
        (true, _) => Some(Who::All),
        (false, true) => Some(Who::Group),
        (false, false) => None,
    }
}

/// Who may change what was named, whoever the named user's friends are: everybody, or, in a directory that all may write
/// (`is_shared`), whoever has put it there.
fn changed_by_anybody(
    owner: u32,
    mode: u32,
    kind: Kind,
    is_shared: bool,
    user: u32,
) -> Option<Who> {
    let is_others = owner != 0 && owner != user;
    match (is_written_by_all(mode, kind), is_shared && is_others) {
        (true, _) => Some(Who::All),
        (false, true) => Some(Who::Owner),
        (false, false) => None,
    }
}

/// A user's name and number, the number alone where no name is known.
fn name_of(user: u32) -> String {
    let all = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    match name_in(&all, user) {
        Some(name) => format!("{name} (user {user})"),
        None => format!("user {user}"),
    }
}

fn name_in(passwd: &str, user: u32) -> Option<&str> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(user)).then_some(name)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn nobody_but_root_and_the_user_may_write() {
        use Kind::{Directory, Link, Other};
        for (owner, mode, kind, expected) in [
            (0, 0o644, Other, None),
            (1000, 0o600, Other, None),
            (1001, 0o600, Other, Some(Who::Owner)),
            (1000, 0o664, Other, Some(Who::Group)),
            (0, 0o666, Other, Some(Who::All)),
            (0, 0o777, Directory, Some(Who::All)),
            (0, 0o1777, Directory, None),
            // The sticky bit of a file protects nothing, and a directory's owner is not bound by it.
            (0, 0o1777, Other, Some(Who::All)),
            (1001, 0o1777, Directory, Some(Who::Owner)),
            (1000, 0o777, Link, None),
            (1001, 0o777, Link, Some(Who::Owner)),
        ] {
            let found = changed_by(owner, mode, kind, 1000);
            assert_eq!(found, expected, "{owner} {mode:o} {kind:?}");
        }
        // As root the calling user's files are somebody else's.
        assert_eq!(changed_by(1000, 0o600, Other, 0), Some(Who::Owner));
    }

    #[test]
    fn of_what_was_named_only_what_anybody_may_change_is_refused() {
        use Kind::{Directory, Link, Other};
        for (owner, mode, kind, is_shared, expected) in [
            (1001, 0o664, Other, false, None),
            (1001, 0o775, Directory, false, None),
            (1001, 0o777, Link, false, None),
            (0, 0o666, Other, false, Some(Who::All)),
            (0, 0o777, Directory, false, Some(Who::All)),
            (0, 0o1777, Directory, false, None),
            // In /tmp: one's own, root's, and whatever somebody has put there.
            (1000, 0o600, Other, true, None),
            (0, 0o777, Link, true, None),
            (1001, 0o600, Other, true, Some(Who::Owner)),
            (1001, 0o777, Link, true, Some(Who::Owner)),
            (1001, 0o700, Directory, true, Some(Who::Owner)),
        ] {
            let found = changed_by_anybody(owner, mode, kind, is_shared, 1000);
            assert_eq!(found, expected, "{owner} {mode:o} {kind:?} {is_shared}");
        }
    }

    #[test]
    fn names_of_users() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\nbroken\nanna:x:1000:1000::/home/anna:/bin/sh\n";
        assert_eq!(name_in(passwd, 1000), Some("anna"));
        assert_eq!(name_in(passwd, 7), None);
    }

    #[test]
    fn what_stands_on_the_way_counts_and_is_named() {
        let dir = std::env::temp_dir().join(format!("weir-trust-{}", std::process::id()));
        if let Err(why) = trusted(&std::env::temp_dir(), Origin::Found) {
            println!("SKIPPED what_stands_on_the_way_counts_and_is_named: {why}");
            return;
        }
        let within = dir.join("a/b");
        std::fs::create_dir_all(&within).unwrap();
        std::fs::write(within.join("file"), "").unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        for path in [&dir, &dir.join("a"), &within] {
            mode(path, 0o755);
        }
        mode(&within.join("file"), 0o644);
        std::fs::create_dir(dir.join("links")).unwrap();
        mode(&dir.join("links"), 0o755);
        let link = dir.join("links/link");
        std::os::unix::fs::symlink("../a/b/../b/file", &link).unwrap();
        std::os::unix::fs::symlink("round", dir.join("round")).unwrap();
        let all = [
            trusted(&within.join("file"), Origin::Found).is_ok(),
            trusted(&link, Origin::Found).is_ok(),
        ];
        mode(&dir.join("a"), 0o777);
        let file = [within.join("file"), link.clone()].map(|path| trusted(&path, Origin::Found));
        mode(&dir.join("a"), 0o755);
        // Who may put another link there may have another file taken.
        let followed = read(&link, Origin::Found).is_ok();
        mode(&dir.join("links"), 0o775);
        // Neither is a link on the way: by the way to itself it leads to the same file.
        std::os::unix::fs::symlink("../a", dir.join("links/way")).unwrap();
        std::os::unix::fs::symlink("links", dir.join("ours")).unwrap();
        std::fs::create_dir(dir.join("links/plain")).unwrap();
        std::fs::write(dir.join("links/plain/file"), "").unwrap();
        let on_the_way = read(&dir.join("links/way/b/file"), Origin::Found);
        let plain = ["links/plain/file", "ours/plain/file"]
            .map(|name| read(&dir.join(name), Origin::Found).is_ok());
        let astray = ["links", "links/plain", "ours/plain", "a/b", "links/way", "links/way/b"]
            .map(|name| leads_astray(&dir.join(name)));
        let by_link = trusted(&link, Origin::Found);
        let not_followed = read(&link, Origin::Found);
        // What was named may be a group's, and stand in what is; but not everybody's. What it leads to is not read for others.
        let named = trusted(&link, Origin::Named).is_ok();
        let plain_named = read(&dir.join("links/plain/file"), Origin::Named).is_ok();
        let link_named = read(&link, Origin::Named);
        mode(&within, 0o777);
        let in_everybodys = trusted(&link, Origin::Named);
        mode(&within, 0o1777);
        let in_sticky = trusted(&link, Origin::Named).is_ok();
        // Whoever can put another link there chooses what it leads to.
        mode(&dir.join("links"), 0o777);
        let by_everybodys_link = trusted(&link, Origin::Named);
        mode(&dir.join("links"), 0o755);
        mode(&within.join("file"), 0o646);
        let everybodys = trusted(&link, Origin::Named);
        mode(&within.join("file"), 0o644);
        // Whoever may write further up can put a directory of their own in the place of this one.
        mode(&dir, 0o777);
        let further_up = [link.clone(), within.clone()].map(|at| trusted(&at, Origin::Named));
        mode(&dir, 0o755);
        let others =
            [trusted(&dir.join("none"), Origin::Found), trusted(&dir.join("round"), Origin::Found)];
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(all, [true, true]);
        assert_eq!(on_the_way.unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(plain, [true, true], "a link of one's own is followed");
        assert_eq!(astray, [false, false, false, false, true, true]);
        assert!(followed && named && plain_named && in_sticky);
        assert!(link_named.is_err(), "a link that others may have put there was followed");
        for refused in further_up {
            let words = refused.unwrap_err().to_string();
            let at = dir.display();
            assert_eq!(words, format!("{at} may be written by everybody (chmod o-w)"));
        }
        for (refused, at) in
            [(in_everybodys, "/a/b"), (everybodys, "/a/b/file"), (by_everybodys_link, "/links")]
        {
            let words = refused.unwrap_err().to_string();
            assert!(
                words.ends_with(&format!("{at} may be written by everybody (chmod o-w)")),
                "{words}"
            );
        }
        assert_eq!(not_followed.unwrap_err().kind(), ErrorKind::InvalidData);
        for error in file {
            let words = error.unwrap_err().to_string();
            assert!(words.ends_with("/a may be written by everybody (chmod o-w)"), "{words}");
        }
        let words = by_link.unwrap_err().to_string();
        assert!(words.ends_with("/links may be written by its group (chmod g-w)"), "{words}");
        for gone in others {
            assert!(matches!(gone, Err(Distrust::Io { .. })), "{gone:?}");
        }
    }
}
