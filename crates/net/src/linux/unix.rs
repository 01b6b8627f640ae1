//! Unix datagram sockets in pairs: one stays, the other is passed to another process over a Unix stream, so that no file
//! names either.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketType, recvmsg, sendmsg, sockopt as of_socket,
};

use super::options::set_buffer;
use super::sockopt;
use crate::udp::UdpSocket;

/// Two connected, non-blocking datagram sockets.
pub fn datagram_pair() -> io::Result<(UdpSocket, UdpSocket)> {
    let (near, far) = UnixDatagram::pair()?;
    Ok((UdpSocket::from(OwnedFd::from(near)), UdpSocket::from(OwnedFd::from(far))))
}

/// Passes a socket over a connected Unix stream, with one byte.
pub fn pass(stream: impl AsFd, socket: impl AsFd) -> io::Result<()> {
    let descriptors = [socket.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(stream, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives the socket that the peer of a Unix stream passes: `WouldBlock` until it has arrived, `InvalidData` if it
/// is not a Unix datagram socket.
pub fn take(stream: impl AsFd) -> io::Result<UdpSocket> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let passed = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let is_ours = |fd: &OwnedFd| {
        of_socket::socket_type(fd).is_ok_and(|kind| kind == SocketType::DGRAM)
            && of_socket::socket_domain(fd).is_ok_and(|family| family == AddressFamily::UNIX)
    };
    passed.filter(is_ours).map(UdpSocket::from).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Prepares a socket of a pair for a flow: non-blocking, with buffers of `buffer_bytes` if given, and with receive
/// stamps if `stamps`.
pub fn prepare(socket: &UdpSocket, buffer_bytes: Option<usize>, stamps: bool) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let fd = socket.as_fd();
    if let Some(bytes) = buffer_bytes {
        set_buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes)?;
        set_buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes)?;
    }
    if stamps {
        // The second generates the stamps, the first reports them in the form that is parsed.
        let wanted = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        sockopt::set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, wanted)?;
        sockopt::set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    }
    Ok(())
}
