//! Capabilities of this process.

pub use crate::sys::capability::{capabilities, keep, try_namespace, user_namespaces};

/// The capabilities in effect for the calling thread, as far as Weir uses them (`capabilities(7)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Runs with effective user id 0 (which inside a user namespace does not mean much).
    pub root: bool,
    /// `CAP_NET_ADMIN`: interfaces, queueing disciplines, buffer sizes past the limits.
    pub net_admin: bool,
    /// `CAP_NET_RAW`: packet sockets.
    pub net_raw: bool,
    /// `CAP_NET_BIND_SERVICE`: ports below 1024.
    pub net_bind_service: bool,
    /// `CAP_BPF` (or `CAP_SYS_ADMIN`, which included it before Linux 5.8).
    pub bpf: bool,
    /// `CAP_SYS_NICE`: real-time scheduling.
    pub sys_nice: bool,
    /// `CAP_SYS_ADMIN`: namespaces, mounts.
    pub sys_admin: bool,
    /// `CAP_SYS_RESOURCE`: limits past the hard ones.
    pub sys_resource: bool,
    /// `CAP_IPC_LOCK`: locked memory past the limit.
    pub ipc_lock: bool,
}

/// Whether an ordinary user may create user namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserNamespaces {
    /// Nothing known forbids it.
    Allowed,
    /// Forbidden by this setting, given as `name = value`.
    Forbidden(String),
}
