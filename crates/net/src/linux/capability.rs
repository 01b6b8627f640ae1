//! Capabilities from `/proc/thread-self/status`, and the settings that govern user namespaces.

use std::fs;

use crate::capability::{Capabilities, UserNamespaces};
use crate::error::{Context, Error, Result};

/// The capabilities in effect for the calling thread.
pub fn capabilities() -> Result<Capabilities> {
    let path = "/proc/thread-self/status";
    let text = fs::read_to_string(path).context("read", path)?;
    let reason = "no line CapEff with a hexadecimal number";
    let set = parse_effective(&text).ok_or_else(|| Error::Malformed {
        operation: "read",
        object: path.to_owned(),
        reason,
    })?;
    // SAFETY: takes nothing, cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    Ok(from_set(set, root))
}

fn from_set(set: u64, root: bool) -> Capabilities {
    // Numbers of linux/capability.h.
    let has = |bit: u32| set >> bit & 1 == 1;
    let sys_admin = has(21);
    Capabilities {
        root,
        net_bind_service: has(10),
        net_admin: has(12),
        net_raw: has(13),
        ipc_lock: has(14),
        sys_admin,
        sys_nice: has(23),
        sys_resource: has(24),
        bpf: has(39) || sys_admin,
    }
}

fn parse_effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Whether an ordinary user may make user namespaces, as the known settings have it. A container's filter of system
/// calls may still refuse.
pub fn user_namespaces() -> UserNamespaces {
    // Setting, and the value that forbids. Those this kernel does not have forbid nothing.
    let settings = [
        ("user/max_user_namespaces", "0"),
        ("kernel/unprivileged_userns_clone", "0"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1"),
    ];
    for (name, forbids) in settings {
        if let Ok(text) = fs::read_to_string(format!("/proc/sys/{name}"))
            && text.trim() == forbids
        {
            return UserNamespaces::Forbidden(format!("{} = {forbids}", name.replace('/', ".")));
        }
    }
    UserNamespaces::Allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_set_is_read() {
        let text = "Name:\tx\nCapPrm:\t000001fffeffffff\nCapEff:\t0000000000003000\n";
        let set = parse_effective(text).unwrap();
        let got = from_set(set, false);
        assert_eq!(got, Capabilities { net_admin: true, net_raw: true, ..Capabilities::default() });
        assert!(from_set(1 << 21, false).bpf);
        assert_eq!(parse_effective("CapEff: xyz"), None);
        assert_eq!(parse_effective(""), None);
    }

    #[test]
    fn root_is_told_as_the_system_has_it() {
        let got = capabilities().unwrap();
        // SAFETY: takes nothing.
        assert_eq!(got.root, unsafe { libc::geteuid() } == 0);
        let _ = user_namespaces();
    }
}
