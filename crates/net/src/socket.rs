//! A borrowed socket under one name on every system: a descriptor, or a handle of Windows.

#[cfg(unix)]
pub use std::os::fd::{AsFd as AsSocket, BorrowedFd as BorrowedSocket};
#[cfg(windows)]
pub use std::os::windows::io::{AsSocket, BorrowedSocket};

/// Borrows the socket behind a value.
#[cfg(unix)]
pub fn borrow(socket: &(impl AsSocket + ?Sized)) -> BorrowedSocket<'_> {
    socket.as_fd()
}

/// Borrows the socket behind a value.
#[cfg(windows)]
pub fn borrow(socket: &(impl AsSocket + ?Sized)) -> BorrowedSocket<'_> {
    socket.as_socket()
}

/// Lets the kernel hold at most `bytes` of a TCP stream that it has not sent (TCP_NOTSENT_LOWAT); without effect where the
/// system has no such limit.
pub fn limit_unsent(socket: &(impl AsSocket + ?Sized), bytes: u32) {
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(&borrow(socket)).set_tcp_notsent_lowat(bytes);
    #[cfg(not(target_os = "linux"))]
    let _ = (socket, bytes);
}

/// Whether both ends of a connection have the same address, so that its peer is on this host. A peer at another of its
/// addresses, or in another network namespace, is not found.
pub fn is_within_host(socket: &(impl AsSocket + ?Sized)) -> bool {
    let socket = borrow(socket);
    let socket = socket2::SockRef::from(&socket);
    let ends = [socket.local_addr(), socket.peer_addr()];
    let [local, peer] = ends.map(|end| Some(end.ok()?.as_socket()?.ip()));
    local.is_some() && local == peer
}

/// Lets the kernel close a TCP connection whose data stays unacknowledged for `timeout` (TCP_USER_TIMEOUT); without effect
/// where the system has no such limit.
pub fn limit_unacknowledged(socket: &impl AsSocket, timeout: std::time::Duration) {
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(socket).set_tcp_user_timeout(Some(timeout));
    #[cfg(not(target_os = "linux"))]
    let _ = (socket, timeout);
}

/// Has sends and receives wait up to `limit` before they return `WouldBlock`; `None`: they never wait. Calls that ask not to
/// wait, as those for batches of datagrams do, are unaffected.
///
/// # Errors
/// Of the system; `Unsupported` on systems other than Linux.
pub fn set_waiting(
    socket: &(impl AsSocket + ?Sized),
    limit: Option<std::time::Duration>,
) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let socket = borrow(socket);
        let socket = socket2::SockRef::from(&socket);
        if limit.is_some() {
            socket.set_read_timeout(limit)?;
            socket.set_write_timeout(limit)?;
        }
        socket.set_nonblocking(limit.is_none())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (socket, limit);
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

/// Sets SO_DEBUG. Linux requires CAP_NET_ADMIN.
///
/// # Errors
/// No permission, or a system without it.
pub fn set_debug(socket: &impl AsSocket) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    return crate::linux::sockopt::set(borrow(socket), libc::SOL_SOCKET, libc::SO_DEBUG, 1);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = socket;
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

/// Implements [`AsSocket`] for a type by one of its fields.
#[cfg(unix)]
#[macro_export]
macro_rules! as_socket {
    ($name:ty, $field:tt) => {
        impl std::os::fd::AsFd for $name {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                std::os::fd::AsFd::as_fd(&self.$field)
            }
        }
    };
}

/// Implements [`AsSocket`] for a type by one of its fields.
#[cfg(windows)]
#[macro_export]
macro_rules! as_socket {
    ($name:ty, $field:tt) => {
        impl std::os::windows::io::AsSocket for $name {
            fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
                std::os::windows::io::AsSocket::as_socket(&self.$field)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::is_within_host;

    #[test]
    fn a_connection_within_this_host_is_known_by_its_addresses() {
        for host in ["127.0.0.1", "[::1]"] {
            let listener = TcpListener::bind(format!("{host}:0")).unwrap();
            assert!(!is_within_host(&listener), "{host}");
            let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            assert!(is_within_host(&socket), "{host}");
        }
    }
}
