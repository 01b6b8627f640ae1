//! UDP over the standard library, with what socket2 adds everywhere.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{Context, Error, Result};
use crate::udp::{
    IcmpSocket, Membership, QueuedError, RecvMode, SendFault, SocketMemory, UdpOptions,
};

/// A UDP socket, opened with all its settings by [`UdpSocket::open`].
#[derive(Debug)]
pub struct UdpSocket {
    socket: std::net::UdpSocket,
}

fn unsupported<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

crate::as_socket!(UdpSocket, socket);

impl From<UdpSocket> for std::net::UdpSocket {
    fn from(socket: UdpSocket) -> Self {
        socket.socket
    }
}

impl From<std::net::UdpSocket> for UdpSocket {
    fn from(socket: std::net::UdpSocket) -> Self {
        UdpSocket { socket }
    }
}

impl UdpSocket {
    /// Opens, sets, binds and connects a socket; refuses by name options that this system lacks. Coalescing, stamps,
    /// counts of overflow, TOS, TTL and queued errors are ignored: received messages have none of these.
    pub fn open(options: &UdpOptions) -> Result<UdpSocket> {
        let object = options.bind.to_string();
        let missing = [
            (options.lite_coverage.is_some(), "use UDP-Lite on"),
            (options.icmp.is_some(), "use ICMP on"),
            (options.reuse_port || options.reuse_address, "share the port of"),
            (options.broadcast, "broadcast from"),
            (options.multicast_interface.is_some(), "choose the interface of multicast on"),
            (options.own_groups_only, "limit the groups of"),
            (options.device.is_some(), "bind to a device"),
            (options.pacing_bytes_per_second.is_some(), "pace"),
            (options.dont_fragment.is_some(), "set \"don't fragment\" on"),
            (options.flow_label.is_some(), "set a flow label on"),
            (options.priority.is_some(), "set a priority on"),
            (options.tos.is_some(), "set TOS on"),
        ];
        if let Some((_, operation)) = missing.into_iter().find(|(asked, _)| *asked) {
            return Err(Error::Unsupported { operation, object });
        }
        let socket =
            Socket::new(Domain::for_address(options.bind), Type::DGRAM, Some(Protocol::UDP))
                .context("open UDP socket for", &object)?;
        if let Some(bytes) = options.send_buffer {
            socket.set_send_buffer_size(bytes).context("set SO_SNDBUF on", &object)?;
        }
        if let Some(bytes) = options.receive_buffer {
            socket.set_recv_buffer_size(bytes).context("set SO_RCVBUF on", &object)?;
        }
        if options.bind.is_ipv6() {
            socket.set_only_v6(options.v6_only).context("set IPV6_V6ONLY on", &object)?;
        }
        socket.set_nonblocking(options.nonblocking).context("set non-blocking", &object)?;
        socket.bind(&options.bind.into()).context("bind UDP socket to", &object)?;
        let socket: std::net::UdpSocket = socket.into();
        if let Some(ttl) = options.ttl {
            socket.set_ttl(u32::from(ttl)).context("set TTL on", &object)?;
        }
        if let Some(to) = options.connect {
            socket.connect(to).context("connect UDP socket to", to.to_string())?;
        }
        Ok(UdpSocket { socket })
    }

    /// Not available.
    pub fn join(&self, _: &Membership) -> io::Result<()> {
        unsupported()
    }

    /// Not available.
    pub fn leave(&self, _: &Membership) -> io::Result<()> {
        unsupported()
    }

    /// Fixes the peer.
    pub fn connect(&self, to: SocketAddr) -> io::Result<()> {
        self.socket.connect(to)
    }

    /// The local address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The same socket once more, for another worker.
    pub fn try_clone(&self) -> io::Result<UdpSocket> {
        Ok(UdpSocket { socket: self.socket.try_clone()? })
    }

    /// The connected peer.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    /// Bytes of send buffer in effect.
    pub fn send_buffer(&self) -> io::Result<usize> {
        socket2::SockRef::from(&self.socket).send_buffer_size()
    }

    /// Bytes of receive buffer in effect.
    pub fn receive_buffer(&self) -> io::Result<usize> {
        socket2::SockRef::from(&self.socket).recv_buffer_size()
    }

    /// Sends one datagram to the connected peer.
    pub fn send(&self, buffer: &[u8]) -> io::Result<usize> {
        self.socket.send(buffer)
    }

    /// Sends one datagram to `to`.
    pub fn send_to(&self, buffer: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.socket.send_to(buffer, to)
    }

    /// Sends `buffer` as one datagram; `Unsupported` if it would have to be segmented.
    pub fn send_segmented(
        &self,
        buffer: &[u8],
        segment_size: Option<u16>,
        to: Option<SocketAddr>,
    ) -> io::Result<usize> {
        if segment_size.is_some_and(|size| usize::from(size) < buffer.len()) {
            return unsupported();
        }
        match to {
            Some(to) => self.socket.send_to(buffer, to),
            None => self.socket.send(buffer),
        }
    }

    /// Receives one message of the connected peer. `DontWait` needs a non-blocking socket here.
    pub fn recv(&self, buffer: &mut [u8], _mode: RecvMode) -> io::Result<usize> {
        self.socket.recv(buffer)
    }

    /// Receives one message.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.recv_from(buffer)
    }

    /// Never.
    pub fn segmentation_available(&self) -> bool {
        false
    }

    /// Not available.
    pub fn lite_coverage(&self, _: bool) -> io::Result<u16> {
        unsupported()
    }

    /// Not available.
    pub fn set_gro(&self, on: bool) -> io::Result<()> {
        if on { unsupported() } else { Ok(()) }
    }

    /// Not available.
    pub fn socket_memory(&self) -> io::Result<SocketMemory> {
        unsupported()
    }

    /// Not available.
    pub fn path_mtu(&self) -> io::Result<u32> {
        unsupported()
    }

    /// Takes the pending error of the socket, if any.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.take_error()
    }

    /// Not available: nothing is ever queued.
    pub fn read_error_queue(&self) -> io::Result<Option<QueuedError>> {
        Ok(None)
    }
}

pub(crate) fn send_fault(error: &io::Error) -> SendFault {
    match error.kind() {
        io::ErrorKind::WouldBlock => SendFault::WouldBlock,
        io::ErrorKind::OutOfMemory => SendFault::NoBuffers,
        io::ErrorKind::InvalidInput => SendFault::Invalid,
        io::ErrorKind::Unsupported => SendFault::SegmentationUnsupported,
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => SendFault::Refused,
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::AddrNotAvailable => SendFault::Unreachable,
        io::ErrorKind::PermissionDenied => SendFault::NotPermitted,
        _ => SendFault::Other,
    }
}

/// Whether this process may open an ICMP socket; never here.
pub fn try_icmp(_: bool) -> io::Result<IcmpSocket> {
    unsupported()
}

/// Not available.
pub fn try_lite() -> io::Result<()> {
    unsupported()
}

/// No segmentation: 1.
pub fn gso_max_segments() -> u16 {
    1
}
