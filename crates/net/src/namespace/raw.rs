//! System calls without allocation, locks or panics: everything here may run between `fork` and
//! `exec` in a process that had threads, and so is limited to async-signal-safe functions
//! (signal-safety(7)) and plain system calls. Errors are bare errno values.

use std::ffi::{CStr, c_int, c_void};
use std::os::fd::RawFd;

/// NS_GET_NSTYPE of ioctl_nsfs(2).
const NS_GET_NSTYPE: libc::c_ulong = 0xb703;
/// Maximum number of descriptors in one message.
pub(crate) const MAX_DESCRIPTORS: usize = 4;

pub(crate) fn errno() -> c_int {
    // SAFETY: the location returned is the calling thread's own errno, always valid.
    unsafe { *libc::__errno_location() }
}

fn check(result: c_int) -> Result<c_int, c_int> {
    if result < 0 { Err(errno()) } else { Ok(result) }
}

pub(crate) fn unshare(flags: c_int) -> Result<(), c_int> {
    // SAFETY: unshare takes no pointers; it changes the calling thread's namespaces only.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

pub(crate) fn set_namespace(fd: RawFd, kind: c_int) -> Result<(), c_int> {
    // SAFETY: setns takes no pointers; a wrong descriptor gives EBADF or EINVAL.
    check(unsafe { libc::setns(fd, kind) }).map(drop)
}

pub(crate) fn namespace_kind(fd: RawFd) -> Result<c_int, c_int> {
    // SAFETY: NS_GET_NSTYPE has no argument; on a descriptor that is not nsfs it gives ENOTTY.
    check(unsafe { libc::ioctl(fd, NS_GET_NSTYPE as _) })
}

pub(crate) fn open(path: &CStr, flags: c_int) -> Result<RawFd, c_int> {
    // SAFETY: the path is NUL-terminated and lives through the call.
    check(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) })
}

pub(crate) fn close(fd: RawFd) {
    // SAFETY: callers own the descriptor and do not use it again.
    unsafe { libc::close(fd) };
}

pub(crate) fn write_file(path: &CStr, bytes: &[u8]) -> Result<(), c_int> {
    let fd = open(path, libc::O_WRONLY)?;
    // SAFETY: pointer and length describe `bytes`.
    let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
    let result = if written < 0 { Err(errno()) } else { Ok(()) };
    close(fd);
    result
}

/// Maps the caller to root of the user namespace just entered (user_namespaces(7)).
pub(crate) fn map_to_root(uid_map: &[u8], gid_map: &[u8]) -> Result<(), c_int> {
    // Kernels before 3.19 lack the file and need no denial.
    match write_file(c"/proc/self/setgroups", b"deny") {
        Ok(()) | Err(libc::ENOENT) => {}
        Err(errno) => return Err(errno),
    }
    write_file(c"/proc/self/uid_map", uid_map)?;
    write_file(c"/proc/self/gid_map", gid_map)
}

/// Descriptors of one new network namespace: itself, a route socket, a control socket.
pub(crate) struct RawParts {
    pub(crate) net: RawFd,
    pub(crate) route: RawFd,
    pub(crate) control: RawFd,
}

/// Moves the calling thread into a new network namespace and opens the descriptors that its creator needs.
pub(crate) fn new_net_namespace(ipv6: bool) -> Result<RawParts, c_int> {
    unshare(libc::CLONE_NEWNET)?;
    // Best effort: a kernel without IPv6 has none of these files, and a read-only /proc leaves the
    // defaults. Interfaces made later, or moved in, take their settings from `default`.
    let disable: &[u8] = if ipv6 { b"0" } else { b"1" };
    let _ = write_file(c"/proc/sys/net/ipv6/conf/all/disable_ipv6", disable);
    let _ = write_file(c"/proc/sys/net/ipv6/conf/default/disable_ipv6", disable);
    // No duplicate address detection and no router discovery: addresses are usable immediately, and no unrequested
    // packet is sent.
    let _ = write_file(c"/proc/sys/net/ipv6/conf/default/accept_dad", b"0");
    let _ = write_file(c"/proc/sys/net/ipv6/conf/default/dad_transmits", b"0");
    let _ = write_file(c"/proc/sys/net/ipv6/conf/default/accept_ra", b"0");
    let _ = write_file(c"/proc/sys/net/ipv6/conf/default/router_solicitations", b"0");
    let net = open(c"/proc/thread-self/ns/net", libc::O_RDONLY)?;
    let route = route_socket()?;
    let control = control_socket()?;
    Ok(RawParts { net, route, control })
}

/// A NETLINK_ROUTE socket of the calling thread's namespace whose reads give up after 5 s.
pub(crate) fn route_socket() -> Result<RawFd, c_int> {
    // SAFETY: socket takes no pointers.
    let fd = check(unsafe {
        libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE)
    })?;
    let timeout = libc::timeval { tv_sec: 5, tv_usec: 0 };
    // SAFETY: pointer and length describe `timeout`, which lives through the call.
    unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const timeout).cast(),
            size_of::<libc::timeval>() as libc::socklen_t,
        )
    };
    Ok(fd)
}

/// A socket of the calling thread's namespace for interface ioctls.
pub(crate) fn control_socket() -> Result<RawFd, c_int> {
    // SAFETY: socket takes no pointers.
    check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })
}

/// A pair of connected sockets that keep message boundaries.
pub(crate) fn message_pair() -> Result<[RawFd; 2], c_int> {
    let mut pair = [-1; 2];
    // SAFETY: `pair` has room for the two descriptors written.
    check(unsafe {
        libc::socketpair(
            libc::AF_UNIX,
            libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC,
            0,
            pair.as_mut_ptr(),
        )
    })?;
    Ok(pair)
}

/// Room for one SCM_RIGHTS message of [`MAX_DESCRIPTORS`], aligned for `cmsghdr`.
type Control = [u64; 8];

/// Sends `bytes` with `descriptors` over a socket of [`message_pair`].
pub(crate) fn send_message(
    socket: RawFd,
    bytes: &[u8],
    descriptors: &[RawFd],
) -> Result<(), c_int> {
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(libc::EINVAL);
    }
    let mut control: Control = [0; 8];
    let mut part =
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast::<c_void>(), iov_len: bytes.len() };
    // SAFETY: msghdr is plain data for which all zeros is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if !descriptors.is_empty() {
        let payload = size_of_val(descriptors) as u32;
        message.msg_control = control.as_mut_ptr().cast();
        // SAFETY: `control` is aligned and large enough for MAX_DESCRIPTORS (16 + 16 bytes), so
        // the first header exists and its data holds `payload` bytes.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(payload) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(payload) as _;
            std::ptr::copy_nonoverlapping(
                descriptors.as_ptr().cast::<u8>(),
                libc::CMSG_DATA(header),
                payload as usize,
            );
        }
    }
    loop {
        // SAFETY: `message` points at buffers that live through the call.
        let sent = unsafe { libc::sendmsg(socket, &raw const message, libc::MSG_NOSIGNAL) };
        if sent >= 0 {
            return Ok(());
        }
        if errno() != libc::EINTR {
            return Err(errno());
        }
    }
}

/// Receives one message: bytes filled, and descriptors (−1 where there was none).
/// Zero bytes mean that the other end was closed.
pub(crate) fn receive_message(
    socket: RawFd,
    bytes: &mut [u8],
) -> Result<(usize, [RawFd; MAX_DESCRIPTORS]), c_int> {
    let mut control: Control = [0; 8];
    let mut part =
        libc::iovec { iov_base: bytes.as_mut_ptr().cast::<c_void>(), iov_len: bytes.len() };
    // SAFETY: msghdr is plain data for which all zeros is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Control>() as _;
    let received = loop {
        // SAFETY: `message` points at buffers that live through the call, with their true lengths.
        let received = unsafe { libc::recvmsg(socket, &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        if received >= 0 {
            break received as usize;
        }
        if errno() != libc::EINTR {
            return Err(errno());
        }
    };
    let mut descriptors = [-1; MAX_DESCRIPTORS];
    // SAFETY: the kernel wrote msg_controllen bytes of well-formed headers into `control`; at most
    // MAX_DESCRIPTORS integers are copied out of the first one, bounded by its own length.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if !header.is_null()
            && (*header).cmsg_level == libc::SOL_SOCKET
            && (*header).cmsg_type == libc::SCM_RIGHTS
        {
            let payload = ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            let count = (payload / size_of::<RawFd>()).min(MAX_DESCRIPTORS);
            std::ptr::copy_nonoverlapping(
                libc::CMSG_DATA(header),
                descriptors.as_mut_ptr().cast::<u8>(),
                count * size_of::<RawFd>(),
            );
        }
    }
    Ok((received, descriptors))
}

/// Blocks every signal in the calling thread and returns the previous mask.
pub(crate) fn block_signals() -> libc::sigset_t {
    // SAFETY: both sets are plain memory initialised by sigfillset and pthread_sigmask.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

pub(crate) fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: `before` was filled by pthread_sigmask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}

pub(crate) fn wait_for_child(pid: libc::pid_t) {
    loop {
        // SAFETY: a null status pointer is allowed.
        let result = unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
        if result >= 0 || errno() != libc::EINTR {
            return;
        }
    }
}

pub(crate) fn exit_now(code: c_int) -> ! {
    // SAFETY: _exit never returns and runs no handlers.
    unsafe { libc::_exit(code) }
}

/// Sends `signal` to every process but the caller whose main thread is in one of the network
/// namespaces `(device, inode)`; returns how many were found. Processes whose name is `spared` are
/// counted, but get none. The namespaces must be held open by the caller, so that their inode
/// numbers cannot have been reused.
pub(crate) fn signal_processes_in(
    namespaces: &[(u64, u64)],
    signal: c_int,
    spared: Option<&CStr>,
) -> usize {
    let Ok(directory) = open(c"/proc", libc::O_RDONLY | libc::O_DIRECTORY) else { return 0 };
    // SAFETY: getpid cannot fail.
    let own = unsafe { libc::getpid() };
    let mut found = 0;
    // u64s, since linux_dirent64 starts with two of them.
    let mut buffer = [0_u64; 512];
    loop {
        // SAFETY: pointer and length describe `buffer`.
        let filled = unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                directory,
                buffer.as_mut_ptr(),
                size_of_val(&buffer),
            )
        };
        if filled <= 0 {
            break;
        }
        // SAFETY: the kernel initialised `filled` bytes, at most the buffer's size.
        let bytes =
            unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), filled as usize) };
        let mut rest = bytes;
        // linux_dirent64: u64 inode, i64 offset, u16 record length, u8 type, name.
        while let Some(&[low, high]) = rest.get(16..18) {
            let length = usize::from(u16::from_ne_bytes([low, high]));
            let Some(record) = rest.get(..length) else { break };
            if length < 19 {
                break;
            }
            rest = &rest[length..];
            if let Some(pid) = decimal(record.get(19..).unwrap_or_default())
                && pid != own
                && is_in(pid, namespaces)
                && (spared.is_some_and(|name| is_called(pid, name))
                    || signal_if_still_in(pid, namespaces, signal))
            {
                found += 1;
            }
        }
    }
    close(directory);
    found
}

/// A positive decimal number up to the first NUL.
fn decimal(name: &[u8]) -> Option<libc::pid_t> {
    let mut value: libc::pid_t = 0;
    for &byte in name {
        match byte {
            0 => break,
            b'0'..=b'9' => {
                value = value.checked_mul(10)?.checked_add(libc::pid_t::from(byte - b'0'))?;
            }
            _ => return None,
        }
    }
    (value > 0).then_some(value)
}

/// `/proc/PID` and `behind`, of which at most 14 bytes are used.
fn in_proc(pid: libc::pid_t, behind: &[u8]) -> [u8; 32] {
    let mut path = [0_u8; 32];
    let mut at = 0;
    let mut digits = [0_u8; 12];
    let mut count = 0;
    let mut rest = pid.unsigned_abs();
    while rest > 0 && count < digits.len() {
        digits[count] = b'0' + (rest % 10) as u8;
        rest /= 10;
        count += 1;
    }
    for &byte in b"/proc/" {
        path[at] = byte;
        at += 1;
    }
    for index in (0..count).rev() {
        path[at] = digits[index];
        at += 1;
    }
    // At most 6 + 10 + 14 bytes are written, so that the path ends in NUL.
    for &byte in behind.iter().take(14) {
        path[at] = byte;
        at += 1;
    }
    path
}

/// Whether a process has this name (`comm`). False if it may not be inspected.
fn is_called(pid: libc::pid_t, name: &CStr) -> bool {
    let path = in_proc(pid, b"/comm");
    let Ok(path) = CStr::from_bytes_until_nul(&path) else { return false };
    let Ok(fd) = open(path, libc::O_RDONLY) else { return false };
    // A name has at most 15 bytes, and a line feed behind it.
    let mut found = [0_u8; 16];
    // SAFETY: pointer and length describe `found`.
    let length = unsafe { libc::read(fd, found.as_mut_ptr().cast(), found.len()) };
    close(fd);
    let found = found.get(..usize::try_from(length).unwrap_or(0)).unwrap_or_default();
    found.strip_suffix(b"\n") == Some(name.to_bytes())
}

/// Whether a process's main thread is in one of the namespaces. False if it may not be inspected.
fn is_in(pid: libc::pid_t, namespaces: &[(u64, u64)]) -> bool {
    let path = in_proc(pid, b"/ns/net");
    // SAFETY: `path` is NUL-terminated, `status` is written by the call before it is read.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        libc::stat(path.as_ptr().cast(), &raw mut status) == 0
            && namespaces.contains(&(status.st_dev, status.st_ino))
    }
}

fn signal_if_still_in(pid: libc::pid_t, namespaces: &[(u64, u64)], signal: c_int) -> bool {
    // SAFETY: pidfd_open and pidfd_send_signal take no pointers here (a null siginfo is allowed).
    // The process is checked again once the descriptor pins it, so a reused pid is never hit.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as RawFd;
        if fd < 0 {
            return false;
        }
        let inside = is_in(pid, namespaces);
        if inside {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                fd,
                signal,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            );
        }
        close(fd);
        inside
    }
}

/// Device and inode of a file in a directory; of a link itself.
pub(crate) fn file_identity(directory: RawFd, name: &CStr) -> Result<(u64, u64), c_int> {
    // SAFETY: `name` is NUL-terminated, `status` is written by the call before it is read.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        check(libc::fstatat(directory, name.as_ptr(), &raw mut status, flags))?;
        Ok((status.st_dev, status.st_ino))
    }
}

pub(crate) fn remove_file(directory: RawFd, name: &CStr) -> Result<(), c_int> {
    // SAFETY: `name` is NUL-terminated and lives through the call.
    check(unsafe { libc::unlinkat(directory, name.as_ptr(), 0) }).map(drop)
}

pub(crate) fn sleep_milliseconds(milliseconds: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
    // SAFETY: `time` lives through the call; a null remainder is allowed.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}

/// Closes every descriptor except `keep` (ascending).
pub(crate) fn close_all_except(keep: RawFd) {
    // SAFETY: close_range takes no pointers. Used only in a forked child that touches nothing else.
    let closed = unsafe {
        let below =
            keep == 0 || libc::syscall(libc::SYS_close_range, 0_u32, keep as u32 - 1, 0_u32) == 0;
        let above = libc::syscall(libc::SYS_close_range, keep as u32 + 1, u32::MAX, 0_u32) == 0;
        below && above
    };
    if !closed {
        // Before Linux 5.9: as many as the usual limit, one by one.
        for fd in (0..4096).filter(|&fd| fd != keep) {
            close(fd);
        }
    }
}
