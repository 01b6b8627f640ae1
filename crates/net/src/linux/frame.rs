//! Packet sockets that send whole frames (packet(7)).

use std::os::fd::{AsFd, AsRawFd};

use socket2::{Domain, Socket, Type};

use super::options::set_buffer;
use super::sockopt;
use crate::error::{Context, Result};
use crate::interface::Interface;
use crate::udp::UdpSocket;

/// Opens a non-blocking socket that sends each datagram as a frame on `interface`, from the destination address on, and
/// receives nothing. It needs `CAP_NET_RAW`. `send_buffer`: requested bytes.
pub fn open_sender(interface: &Interface, send_buffer: usize) -> Result<UdpSocket> {
    let name = &interface.name;
    // Protocol 0: nothing is received.
    let socket =
        Socket::new(Domain::PACKET, Type::RAW, None).context("open a packet socket on", name)?;
    set_buffer(socket.as_fd(), libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, send_buffer)
        .context("set SO_SNDBUF on a packet socket on", name)?;
    socket.set_nonblocking(true).context("set non-blocking", name)?;
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: 0,
        sll_ifindex: interface.index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    sockopt::retry(|| {
        // SAFETY: `address` is a whole sockaddr_ll that lives until the call returns, and its size is passed.
        unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            ) as isize
        }
    })
    .context("bind a packet socket to", name)?;
    Ok(std::os::fd::OwnedFd::from(socket).into())
}
