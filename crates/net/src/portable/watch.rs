//! Not available: packets that the system does not deliver.

use std::io;
use std::net::SocketAddr;

use super::udp::UdpSocket;

/// Bytes of each packet that are copied.
pub const WATCHED_BYTES: usize = 256;

/// Not available.
pub fn watch_group(_: u32, _: SocketAddr, _: SocketAddr) -> io::Result<UdpSocket> {
    Err(io::ErrorKind::Unsupported.into())
}

/// No message is ever received.
pub fn watched_payload(_: &[u8]) -> Option<&[u8]> {
    None
}
