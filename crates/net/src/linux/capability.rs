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

fn to_set(capabilities: &Capabilities) -> u64 {
    let Capabilities {
        root: _,
        net_admin,
        net_raw,
        net_bind_service,
        bpf,
        sys_nice,
        sys_admin,
        sys_resource,
        ipc_lock,
    } = *capabilities;
    [
        (net_bind_service, 10),
        (net_admin, 12),
        (net_raw, 13),
        (ipc_lock, 14),
        (sys_admin, 21),
        (sys_nice, 23),
        (sys_resource, 24),
        (bpf, 39),
    ]
    .iter()
    .fold(0, |set, &(has, bit)| set | u64::from(has) << bit)
}

/// `struct __user_cap_header_struct`; process 0 is the calling thread.
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// `struct __user_cap_data_struct`, of 32 capabilities.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// `_LINUX_CAPABILITY_VERSION_3`: two [`Sets`], the lower 32 capabilities first.
const VERSION: u32 = 0x2008_0522;

/// Drops every capability of the calling thread except those set in `kept`. Threads and processes that it creates
/// later have no more; a program that root starts would get them back.
///
/// # Errors
/// The kernel refused.
pub fn keep(kept: &Capabilities) -> Result<()> {
    let mut header = Header { version: VERSION, pid: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: both are exclusively borrowed, laid out as the kernel's, and of the size that this version has.
    if unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) } != 0 {
        return Err(Error::last("read", "capabilities"));
    }
    let set = to_set(kept);
    for (sets, kept) in sets.iter_mut().zip([set as u32, (set >> 32) as u32]) {
        let kept = sets.permitted & kept;
        *sets = Sets { effective: kept, permitted: kept, inheritable: 0 };
    }
    // SAFETY: as above; the kernel only reads.
    if unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) } == 0 {
        Ok(())
    } else {
        Err(Error::last("give up", "capabilities"))
    }
}

fn parse_effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Creates a network namespace and removes it again; returns whether that required a new user namespace.
///
/// # Errors
/// The system's answer.
pub fn try_namespace() -> Result<bool> {
    let made = crate::namespace::create(&[Default::default()])
        .map_err(|e| Error::system(e.operation, e.object, e.source))?;
    Ok(made.iter().any(|parts| parts.namespace.user_fd().is_some()))
}

/// Whether an ordinary user may create user namespaces, by the known settings. A container's filter of system calls
/// may still refuse.
pub fn user_namespaces() -> UserNamespaces {
    // Setting, and the value that forbids. Settings that this kernel lacks forbid nothing.
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
    fn kept_capabilities_are_those_that_the_thread_had() {
        let all = from_set(u64::MAX, false);
        assert_eq!(from_set(to_set(&all), false), all);
        // Capabilities are a thread's own.
        std::thread::spawn(move || {
            let had = capabilities().unwrap();
            let wanted =
                Capabilities { net_admin: true, sys_nice: true, ..Capabilities::default() };
            keep(&wanted).unwrap();
            let kept = Capabilities {
                root: had.root,
                net_admin: had.net_admin,
                sys_nice: had.sys_nice,
                ..Capabilities::default()
            };
            assert_eq!(capabilities().unwrap(), kept);
            keep(&all).unwrap();
            assert_eq!(capabilities().unwrap(), kept, "what was given up does not come back");
            std::thread::spawn(move || assert_eq!(capabilities().unwrap(), kept)).join().unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn root_is_reported_as_by_the_system() {
        let got = capabilities().unwrap();
        // SAFETY: takes nothing.
        assert_eq!(got.root, unsafe { libc::geteuid() } == 0);
        let _ = user_namespaces();
    }
}
