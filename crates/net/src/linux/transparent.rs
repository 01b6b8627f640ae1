//! Sockets that receive and send packets of addresses that are not this host's (`IP_TRANSPARENT`), for a relay to
//! which a rule (nftables' `tproxy`) passes packets. IPv4.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::address::{RAW_ADDRESS_LEN, RawAddress};
use super::control_message::ControlMessages;
use super::sockopt;

fn socket(kind: Type, protocol: Protocol, local: SocketAddrV4) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, kind, Some(protocol))?;
    sockopt::set(socket.as_fd(), libc::IPPROTO_IP, libc::IP_TRANSPARENT, 1_i32)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::V4(local).into())?;
    Ok(socket)
}

/// A listener whose connections keep the address that they were made to, which [`TcpStream::local_addr`] returns.
///
/// # Errors
/// `PermissionDenied` without `CAP_NET_ADMIN` or `CAP_NET_RAW` over the network namespace; those of binding.
pub fn listen(local: SocketAddrV4) -> io::Result<TcpListener> {
    let socket = socket(Type::STREAM, Protocol::TCP, local)?;
    socket.listen(1024)?;
    Ok(socket.into())
}

/// A UDP socket that reports the destination address of each datagram.
#[derive(Debug)]
pub struct TransparentUdp(UdpSocket);

impl TransparentUdp {
    /// Opens it.
    ///
    /// # Errors
    /// As [`listen`].
    pub fn bind(local: SocketAddrV4) -> io::Result<Self> {
        let socket = socket(Type::DGRAM, Protocol::UDP, local)?;
        sockopt::set(socket.as_fd(), libc::IPPROTO_IP, libc::IP_RECVORIGDSTADDR, 1_i32)?;
        socket.set_nonblocking(true)?;
        Ok(Self(socket.into()))
    }

    /// The next datagram, without waiting: its length, source and destination.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; `InvalidData` if the kernel does not report the destination.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr, SocketAddr)> {
        let mut from = RawAddress::zeroed();
        // Aligned as control messages are.
        let mut control = [0_u64; 16];
        let mut vector =
            libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: msghdr is integers and raw pointers, for which zero (null) is a value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = RAW_ADDRESS_LEN;
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: every pointer leads to memory that lives through the call and may be written for the length given.
        let n = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0) };
        let len = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        let written = (message.msg_controllen as usize).min(size_of_val(&control));
        // SAFETY: the array's bytes are initialised, and `written` is at most its size.
        let control = unsafe { std::slice::from_raw_parts(control.as_ptr().cast::<u8>(), written) };
        let destination = ControlMessages::new(control)
            .find(|m| m.level == libc::IPPROTO_IP && m.kind == libc::IP_ORIGDSTADDR)
            .and_then(|m| destination(m.data));
        match (from.get(message.msg_namelen), destination) {
            (Some(source), Some(destination)) => Ok((len, source, destination)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

impl AsFd for TransparentUdp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The address in a `struct sockaddr_in`.
fn destination(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let ip: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
    Some((ip, port).into())
}

/// A UDP socket that sends from `local`, an address that may belong to another host.
///
/// # Errors
/// As [`listen`].
pub fn udp_from(local: SocketAddrV4) -> io::Result<UdpSocket> {
    Ok(socket(Type::DGRAM, Protocol::UDP, local)?.into())
}

/// Resets a connection, as for a destination that refused it.
pub fn reset(stream: TcpStream) {
    // Fails only on a descriptor that is not a socket.
    let _ = Socket::from(stream).set_linger(Some(Duration::ZERO));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_within_what_the_kernel_wrote() {
        let bytes = [2, 0, 0x1f, 0x90, 192, 0, 2, 7, 0, 0];
        assert_eq!(destination(&bytes), "192.0.2.7:8080".parse().ok());
        for len in 0..8 {
            assert_eq!(destination(&bytes[..len]), None);
        }
    }
}
