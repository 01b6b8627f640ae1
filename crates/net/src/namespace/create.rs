//! Creation of namespaces: on a thread with CAP_SYS_ADMIN, else in a forked child inside a new user namespace.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use super::{Error, LinkControl, NetNamespace, raw};

/// Initial settings of a new network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceOptions {
    /// Whether its interfaces use IPv6, whatever the machine's default is. Off for a namespace that only forwards
    /// frames.
    pub ipv6: bool,
}

impl Default for NamespaceOptions {
    fn default() -> Self {
        Self { ipv6: true }
    }
}

/// A new network namespace and the means to configure it without entering it.
#[derive(Debug)]
pub struct NamespaceParts {
    /// The namespace; it ends when the last clone is dropped and no process is inside.
    pub namespace: NetNamespace,
    /// A blocking NETLINK_ROUTE socket that lives in the namespace; reads give up after 5 s.
    pub route: OwnedFd,
    /// Interface settings of the namespace.
    pub control: LinkControl,
}

/// Creates one network namespace for each of `options`, in order.
///
/// If the caller may not (EPERM), a user namespace is created first, with the caller as its root, and owns them all;
/// [`NetNamespace::user_fd`] is then present.
///
/// # Errors
/// The step that was refused; [`Error::is_not_permitted`] tells whether the system forbids it.
pub fn create(options: &[NamespaceOptions]) -> Result<Vec<NamespaceParts>, Error> {
    match create_on_thread(options) {
        Err(error) if error.source.raw_os_error() == Some(libc::EPERM) => create_as_user(options),
        other => other,
    }
}

/// A blocking NETLINK_ROUTE socket of the calling thread's namespace; reads give up after 5 s.
///
/// # Errors
/// The kernel refused.
pub fn route_socket() -> Result<OwnedFd, Error> {
    let fd = raw::route_socket().map_err(|errno| {
        Error::new("open", "routing socket", io::Error::from_raw_os_error(errno))
    })?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Moves the calling process into a new user namespace as its root, so that an ordinary user may then create and
/// enter network namespaces with threads.
///
/// # Errors
/// EINVAL when the process has more than one thread: call it first thing in `main`.
pub fn enter_user_namespace() -> Result<(), Error> {
    let (uid_map, gid_map) = identity_maps();
    raw::unshare(libc::CLONE_NEWUSER)
        .and_then(|()| raw::map_to_root(uid_map.as_bytes(), gid_map.as_bytes()))
        .map_err(|errno| {
            Error::new("create", "user namespace", io::Error::from_raw_os_error(errno))
        })
}

/// One-line maps of the caller's user and group to 0 (user_namespaces(7)).
fn identity_maps() -> (String, String) {
    // SAFETY: neither call can fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    (format!("0 {uid} 1"), format!("0 {gid} 1"))
}

fn create_on_thread(options: &[NamespaceOptions]) -> Result<Vec<NamespaceParts>, Error> {
    let failed = |source| Error::new("create", "network namespace", source);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("weir-netns".into())
            .spawn_scoped(scope, || {
                options
                    .iter()
                    .map(|options| {
                        let parts = raw::new_net_namespace(options.ipv6)
                            .map_err(|errno| failed(io::Error::from_raw_os_error(errno)))?;
                        Ok(adopt([parts.net, parts.route, parts.control], None))
                    })
                    .collect()
            })
            .map_err(failed)?;
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Takes ownership of descriptors just made or received.
fn adopt(fds: [RawFd; 3], user: Option<Arc<OwnedFd>>) -> NamespaceParts {
    // SAFETY: the three descriptors are open, were made for this caller, and are owned by no one else.
    let [net, route, control] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    NamespaceParts {
        namespace: NetNamespace::from_parts(net, user),
        route,
        control: LinkControl::from_socket(control),
    }
}

/// What the child reports: which step, and its errno (0: done).
#[derive(Clone, Copy)]
#[repr(u8)]
enum Step {
    UserNamespace,
    Mapping,
    NetNamespace,
}

impl Step {
    fn object(step: u8) -> &'static str {
        match step {
            s if s == Step::UserNamespace as u8 => {
                "user namespace (see /proc/sys/user/max_user_namespaces, kernel.unprivileged_userns_clone, \
                 kernel.apparmor_restrict_unprivileged_userns)"
            }
            s if s == Step::Mapping as u8 => "user namespace's identity mapping",
            _ => "network namespace inside a user namespace",
        }
    }
}

/// Only a process with one thread may create a user namespace, so a forked child does, and sends the descriptors
/// back. They keep the namespaces alive; the child has ended when this returns.
fn create_as_user(options: &[NamespaceOptions]) -> Result<Vec<NamespaceParts>, Error> {
    let (uid_map, gid_map) = identity_maps();
    let failed =
        |errno| Error::new("create", "user namespace", io::Error::from_raw_os_error(errno));
    let [ours, theirs] = raw::message_pair().map_err(failed)?;
    // SAFETY: both descriptors were just made and are owned by no one else.
    let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    let theirs_raw = std::os::fd::AsRawFd::as_raw_fd(&theirs);
    // Blocked so that no handler of this program runs in the child.
    let mask = raw::block_signals();
    // SAFETY: the child runs only `child`, which keeps to async-signal-safe calls, touches no lock
    // and no allocator, and ends in _exit.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = match child(theirs_raw, options, uid_map.as_bytes(), gid_map.as_bytes()) {
            Ok(()) => 0,
            Err((step, errno)) => {
                let [a, b, c, d] = errno.to_ne_bytes();
                let _ = raw::send_message(theirs_raw, &[step as u8, a, b, c, d], &[]);
                1
            }
        };
        raw::exit_now(code);
    }
    let fork_error = io::Error::last_os_error();
    raw::restore_signals(&mask);
    drop(theirs);
    if pid < 0 {
        return Err(Error::new("fork for", "user namespace", fork_error));
    }
    let result = collect(&ours, options.len());
    drop(ours);
    raw::wait_for_child(pid);
    result
}

/// The child: async-signal-safe throughout.
fn child(
    socket: RawFd,
    options: &[NamespaceOptions],
    uid_map: &[u8],
    gid_map: &[u8],
) -> Result<(), (Step, i32)> {
    const DONE: [u8; 5] = [Step::NetNamespace as u8, 0, 0, 0, 0];
    raw::unshare(libc::CLONE_NEWUSER).map_err(|errno| (Step::UserNamespace, errno))?;
    raw::map_to_root(uid_map, gid_map).map_err(|errno| (Step::Mapping, errno))?;
    let user = raw::open(c"/proc/self/ns/user", libc::O_RDONLY)
        .map_err(|errno| (Step::UserNamespace, errno))?;
    for options in options {
        let parts =
            raw::new_net_namespace(options.ipv6).map_err(|errno| (Step::NetNamespace, errno))?;
        let fds = [parts.net, parts.route, parts.control, user];
        raw::send_message(socket, &DONE, &fds).map_err(|errno| (Step::NetNamespace, errno))?;
        for fd in [parts.net, parts.route, parts.control] {
            raw::close(fd);
        }
    }
    Ok(())
}

fn collect(socket: &OwnedFd, count: usize) -> Result<Vec<NamespaceParts>, Error> {
    let mut made: Vec<NamespaceParts> = Vec::with_capacity(count);
    let mut shared: Option<Arc<OwnedFd>> = None;
    while made.len() < count {
        let mut bytes = [0_u8; 5];
        let (length, fds) =
            raw::receive_message(std::os::fd::AsRawFd::as_raw_fd(socket), &mut bytes).map_err(
                |errno| Error::new("create", "user namespace", io::Error::from_raw_os_error(errno)),
            )?;
        let [step, a, b, c, d] = bytes;
        let errno = i32::from_ne_bytes([a, b, c, d]);
        if length != bytes.len() || errno != 0 || fds.contains(&-1) {
            let source = if errno == 0 {
                io::Error::other("the child that makes it ended early")
            } else {
                io::Error::from_raw_os_error(errno)
            };
            return Err(Error::new("create", Step::object(step), source));
        }
        let [net, route, control, user] = fds;
        // SAFETY: received just now and owned by no one else. Each message carries the same user
        // namespace; the first descriptor is kept for all.
        let user = unsafe { OwnedFd::from_raw_fd(user) };
        let user = shared.get_or_insert_with(|| Arc::new(user)).clone();
        made.push(adopt([net, route, control], Some(user)));
    }
    Ok(made)
}
