//! Packet sockets that send whole frames (packet(7)).

use std::os::fd::AsFd;

use super::ethernet::{bind, packet_socket};
use super::options::set_buffer;
use crate::error::{Context, Result};
use crate::interface::Interface;
use crate::udp::UdpSocket;

/// Opens a non-blocking socket that sends each datagram as a frame on `interface`, from the destination address on, and
/// receives nothing. It needs `CAP_NET_RAW`. `send_buffer`: requested bytes.
pub fn open_sender(interface: &Interface, send_buffer: usize) -> Result<UdpSocket> {
    let name = &interface.name;
    let fd = packet_socket(libc::SOCK_RAW).context("open a packet socket on", name)?;
    set_buffer(fd.as_fd(), libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, send_buffer)
        .context("set SO_SNDBUF on a packet socket on", name)?;
    // Protocol 0: nothing is received.
    bind(fd.as_fd(), interface.index, 0).context("bind a packet socket to", name)?;
    Ok(fd.into())
}
