//! The permission check for files of keys and tokens.

use std::fs::Metadata;

use crate::file::{mode_owner_group, standard_stream};

/// Permission bits to read and to write, of the group and of others, for [`exposed`].
pub const READ: u32 = 0o044;
/// The same, to write only.
pub const WRITE: u32 = 0o022;

/// The permission bits of a regular file if they grant one of `access` ([`READ`], [`WRITE`]) to users other than its
/// owner.
///
/// Bits of the group don't count if the group is the owner's private one (its number is that of the owner), as with
/// umask 002. The bits of a pipe or a device do not state who reads the secret in it; a file on Windows has no bits.
#[must_use]
pub fn exposed(file: &Metadata, access: u32) -> Option<u32> {
    let (mode, owner, group) = mode_owner_group(file)?;
    let mode = mode & 0o777;
    file.is_file().then_some(mode).filter(|_| is_exposed(mode, owner, group, access))
}

/// The permission bits of the regular file behind standard output if they grant anything to users other than its
/// owner.
#[must_use]
pub fn exposed_stdout() -> Option<u32> {
    let found =
        standard_stream(1).and_then(|file| file.metadata()).ok().filter(Metadata::is_file)?;
    mode_owner_group(&found).map(|(mode, ..)| mode & 0o777).filter(|mode| mode & 0o077 != 0)
}

fn is_exposed(mode: u32, owner: u32, group: u32, access: u32) -> bool {
    let counted = if owner == group { 0o007 } else { 0o077 };
    mode & access & counted != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_a_private_group_expose_nothing() {
        for (mode, group, access, expected) in [
            (0o600, 100, READ | WRITE, false),
            (0o640, 100, READ, true),
            (0o640, 100, WRITE, false),
            (0o660, 100, WRITE, true),
            (0o660, 1000, READ | WRITE, false),
            (0o664, 1000, WRITE, false),
            (0o664, 1000, READ, true),
            (0o602, 1000, WRITE, true),
            (0o711, 100, READ | WRITE, false),
        ] {
            assert_eq!(is_exposed(mode, 1000, group, access), expected, "{mode:o} {group}");
        }
    }

    #[test]
    fn a_pipe_exposes_nothing() {
        let device = std::fs::metadata("/dev/null").unwrap();
        assert_eq!(exposed(&device, READ | WRITE), None);
    }
}
