//! Sockets that are passed to another process: not available.

use std::io;

use super::udp::UdpSocket;
use crate::socket::AsSocket;

fn unsupported<T>() -> io::Result<T> {
    let reason = "Unix datagram sockets are not available on this system";
    Err(io::Error::new(io::ErrorKind::Unsupported, reason))
}

/// Not available.
pub fn datagram_pair() -> io::Result<(UdpSocket, UdpSocket)> {
    unsupported()
}

/// Not available.
pub fn pass(_stream: impl AsSocket, _socket: impl AsSocket) -> io::Result<()> {
    unsupported()
}

/// Not available.
pub fn take(_stream: impl AsSocket) -> io::Result<UdpSocket> {
    unsupported()
}

/// Not available.
pub fn prepare(_socket: &UdpSocket, _buffer_bytes: Option<usize>, _stamps: bool) -> io::Result<()> {
    unsupported()
}
