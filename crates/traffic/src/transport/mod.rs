//! The transports at run time: one file each, with how its sockets are opened and what they support.
//!
//! Engine, server and client work through the traits here. [`StreamSocket`] and [`DatagramSocket`] are what workers use:
//! one call for a write, a read or a batch, so that the dispatch costs nothing that can be measured. [`StreamTransport`]
//! and [`DatagramTransport`] are how client and server open them. No method assumes that a socket has one peer, or that
//! a flow was greeted on the socket that carries it.

mod broadcast;
mod bypass;
mod ethernet;
mod frames;
mod group;
mod icmp;
mod icmp_messages;
mod mptcp;
mod multicast;
mod tcp;
mod udp;
mod udp_lite;
mod unix;
mod unix_datagram;
pub(crate) mod xdp;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use weir_model::plan::{FlowSpec, TransportName};
use weir_net::interface::Interface;
use weir_net::socket::{AsSocket, BorrowedSocket};
use weir_net::tcp::{MemFile, TcpInfo, TcpOptions, TcpStream};
use weir_net::udp::{Filling, Membership, RecvBatch, RecvMode, Sent, UdpOptions};

use crate::Address;

pub(crate) use bypass::FlowCounts;
pub(crate) use ethernet::{AwaitedFrames, FrameSocket, LinkEnd};
pub(crate) use frames::ReplaySocket;
pub(crate) use group::{at, destination, group_options};
pub(crate) use icmp::EchoSocket;
pub use icmp_messages::{IcmpHeader, IcmpMessages};
pub(crate) use udp::{wants_coalescing, wants_segmentation};

/// A non-blocking byte stream.
pub(crate) trait StreamSocket: AsSocket + Send + Sync + std::fmt::Debug {
    /// Writes bytes; returns how many were accepted.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Writes bytes of a file without copying them through this process.
    fn send_file(&self, file: &MemFile, offset: u64, length: usize) -> io::Result<usize>;
    /// Reads bytes; 0 is the end of the stream.
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize>;
    /// Drops up to `most` received bytes in the kernel; 0 is the end.
    fn recv_discard(&self, most: usize) -> io::Result<usize>;
    /// Closes the sending direction.
    fn half_close(&self) -> io::Result<()>;
    /// Has the connection reset when it is closed, so that its port is free immediately.
    fn reset_on_close(&self) {}
    /// Takes the pending error, if any.
    fn take_error(&self) -> io::Result<Option<io::Error>>;
    /// The kernel's information about the connection; `None` where it has none.
    fn info(&self) -> Option<TcpInfo>;
    /// Name of the congestion control; `None` where there is none.
    fn congestion_control(&self) -> Option<String>;
    /// The transport that carries the stream, if it differs from the requested one.
    fn fallback(&self) -> Option<TransportName>;
    /// Addresses of this end and of the peer, as they are shown.
    fn addresses(&self) -> [String; 2];
    /// Bytes of send (`true`) or receive buffer in effect.
    fn buffer_bytes(&self, send: bool) -> Option<u64>;
}

/// A non-blocking datagram socket.
pub trait DatagramSocket: AsSocket + Send + Sync + std::fmt::Debug {
    /// Sends a batch.
    fn send_batch(&self, batch: &mut Filling<'_, '_>) -> io::Result<Sent>;
    /// Receives into a batch; returns the number of messages.
    fn recv_batch(&self, batch: &mut RecvBatch) -> io::Result<usize>;
    /// Whether it has [`DatagramSocket::recv_one`].
    fn can_wait(&self) -> bool {
        false
    }
    /// Receives one datagram into `buffer`; returns its length. It waits for one if the mode says so and the socket is set
    /// to (`weir_net::socket::set_waiting`).
    fn recv_one(&self, _buffer: &mut [u8], _mode: RecvMode) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Sends one control datagram to the peer.
    fn send_control(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Largest number of datagrams in one super-packet; 1 without segmentation.
    fn max_segments(&self) -> usize;
    /// Datagrams dropped because its receive buffer was full, modulo 2^32.
    fn overflow(&self) -> Option<u32>;
    /// Addresses of this end and of the peer, as they are shown.
    fn addresses(&self) -> [String; 2];
    /// Bytes that the checksum covers of sent datagrams (`true`), or must cover of received ones; 0: all. `None`: it
    /// always covers all.
    fn checksum_coverage(&self, _send: bool) -> Option<u16> {
        None
    }
    /// Bytes of send (`true`) or receive buffer in effect.
    fn buffer_bytes(&self, send: bool) -> Option<u64>;
    /// Sends up to `count` datagrams as frames whose headers are written elsewhere, and returns how many were sent. `None`:
    /// datagrams are sent by [`DatagramSocket::send_batch`].
    #[doc(hidden)]
    fn send_frames(&self, _count: u32) -> Option<io::Result<u32>> {
        None
    }
    /// The counter of its data, if that ends in a program instead of this socket.
    #[doc(hidden)]
    fn counter(&self) -> Option<&dyn FlowCounts> {
        None
    }
    /// The socket as one of ICMP echo, if it is one: received messages are to be decoded.
    #[doc(hidden)]
    fn echo(&self) -> Option<&EchoSocket> {
        None
    }
}

/// How the streams of a transport are opened. Addresses and handshakes are those of TCP; only differences are here.
pub(crate) trait StreamTransport: Sync {
    /// Why this host can't open one: what is missing, and where to look.
    fn unavailable(&self) -> Option<String> {
        None
    }
    /// The options of a flow's socket.
    fn options(&self, spec: &FlowSpec, sends: bool) -> TcpOptions;
    /// Starts to connect a stream to the server.
    fn start_connect(&self, to: Address, options: &TcpOptions) -> weir_net::Result<TcpStream> {
        TcpStream::start_connect(to.ip_or_none(), options)
    }
    /// The connected socket of a flow, as workers use it.
    fn socket(&self, spec: &FlowSpec, connected: TcpStream) -> Arc<dyn StreamSocket>;
}

/// How the datagram sockets of a transport are opened.
pub(crate) trait DatagramTransport: Sync {
    /// Why this host can't open one: what is missing, and where to look.
    fn unavailable(&self) -> Option<String> {
        None
    }
    /// The options of a flow's socket. `receives`: data arrives on it; `flows`: how many the session has.
    fn options(
        &self,
        spec: &FlowSpec,
        bind: SocketAddr,
        receives: bool,
        flows: usize,
    ) -> UdpOptions;
}

/// How datagrams that may reach several receivers are sent and received. Nothing is ever sent back to the sender.
pub(crate) trait GroupTransport: Sync {
    /// The addresses that are accepted on this interface, if the flow's is not one of them.
    fn refused(&self, _spec: &FlowSpec, _interface: &Interface) -> Option<String> {
        None
    }
    /// The options of the sender's socket, which sends through `interface`.
    fn sender(&self, spec: &FlowSpec, bind: SocketAddr, interface: &Interface) -> UdpOptions;
    /// The options of a receiver's socket, which accepts only the sender's datagrams. `receivers`: how many
    /// such sockets this host has at most, which share its memory for buffers.
    fn receiver(
        &self,
        spec: &FlowSpec,
        source: SocketAddr,
        interface: &Interface,
        receivers: usize,
    ) -> UdpOptions;
    /// The membership that a receiver needs; `None`: it receives without one.
    fn membership(
        &self,
        _spec: &FlowSpec,
        _source: SocketAddr,
        _interface: &Interface,
    ) -> Option<Membership> {
        None
    }
}

/// How the datagram sockets of a transport without ports reach both ends: the client creates them, and passes the
/// server's over a stream to the server after the flow's preface.
pub(crate) trait PassedTransport: Sync {
    /// Creates both sockets, passes one, and returns the other. `receives`: data arrives on the returned one.
    fn pass(
        &self,
        spec: &FlowSpec,
        stream: BorrowedSocket<'_>,
        receives: bool,
    ) -> io::Result<Arc<dyn DatagramSocket>>;
    /// Receives a passed socket; `WouldBlock` until it has arrived.
    fn take(
        &self,
        spec: &FlowSpec,
        stream: BorrowedSocket<'_>,
        receives: bool,
    ) -> io::Result<Arc<dyn DatagramSocket>>;
}

/// The transports of this program, by the plan's names.
enum Implementation {
    Stream(&'static dyn StreamTransport),
    Datagrams(&'static dyn DatagramTransport),
    Passed(&'static dyn PassedTransport),
    Group(&'static dyn GroupTransport),
    /// Frames of a link ([`LinkEnd`]).
    Frames,
    /// Echo requests, which need no server ([`EchoSocket`]).
    Echo,
    /// Frames of a capture, which have no known receiver ([`ReplaySocket`]).
    Replay,
}

/// The registration: a transport's line here and its `mod` line above.
fn implementation(name: TransportName) -> Implementation {
    match name {
        TransportName::Tcp => Implementation::Stream(&tcp::Tcp),
        TransportName::Udp => Implementation::Datagrams(&udp::Udp),
        TransportName::Mptcp => Implementation::Stream(&mptcp::Mptcp),
        TransportName::Unix => Implementation::Stream(&unix::Unix),
        TransportName::UnixDatagram => Implementation::Passed(&unix_datagram::UnixDatagram),
        TransportName::Multicast => Implementation::Group(&multicast::Multicast),
        TransportName::Ethernet => Implementation::Frames,
        TransportName::Icmp => Implementation::Echo,
        TransportName::Frames => Implementation::Replay,
        TransportName::Broadcast => Implementation::Group(&broadcast::Broadcast),
        TransportName::UdpLite => Implementation::Datagrams(&udp_lite::UdpLite),
    }
}

/// How a flow's stream is opened; `None`: it has datagrams.
pub(crate) fn stream(spec: &FlowSpec) -> Option<&'static dyn StreamTransport> {
    match implementation(spec.connection.transport.name()) {
        Implementation::Stream(transport) => Some(transport),
        _ => None,
    }
}

/// How a flow's datagram socket is opened on a port; `None`: it has none.
pub(crate) fn datagrams(spec: &FlowSpec) -> Option<&'static dyn DatagramTransport> {
    match implementation(spec.connection.transport.name()) {
        Implementation::Datagrams(transport) => Some(transport),
        _ => None,
    }
}

/// How a flow's datagram socket is passed over a stream; `None`: it is not.
pub(crate) fn passed(spec: &FlowSpec) -> Option<&'static dyn PassedTransport> {
    match implementation(spec.connection.transport.name()) {
        Implementation::Passed(transport) => Some(transport),
        _ => None,
    }
}

/// How a flow's datagrams are sent to a group; `None`: they are not.
pub(crate) fn group(spec: &FlowSpec) -> Option<&'static dyn GroupTransport> {
    match implementation(spec.connection.transport.name()) {
        Implementation::Group(transport) => Some(transport),
        _ => None,
    }
}

/// The flows of a session that are sent as frames of a link.
pub(crate) fn frames(specs: &[FlowSpec]) -> impl Iterator<Item = &FlowSpec> + Clone {
    let is_frames = |spec: &&FlowSpec| {
        matches!(implementation(spec.connection.transport.name()), Implementation::Frames)
    };
    specs.iter().filter(is_frames)
}

/// Why this host lacks a transport: what is missing, and where to look.
pub(crate) fn unavailable(name: TransportName) -> Option<String> {
    match implementation(name) {
        Implementation::Stream(transport) => transport.unavailable(),
        Implementation::Datagrams(transport) => transport.unavailable(),
        Implementation::Frames | Implementation::Replay => ethernet::unavailable(),
        Implementation::Echo => icmp::unavailable(),
        Implementation::Passed(_) | Implementation::Group(_) => None,
    }
}

/// Connects to a Unix socket, which needs no waiting; the result does not block.
pub(crate) fn connect_unix(to: Address) -> io::Result<std::net::TcpStream> {
    let stream = weir_net::local::connect(to.path().ok_or(io::ErrorKind::InvalidInput)?)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// The options of a plan's byte stream, or their defaults.
pub(crate) fn byte_stream(spec: &FlowSpec) -> weir_model::plan::StreamOptions {
    spec.connection.transport.stream().cloned().unwrap_or_default()
}

/// An address as it is shown; empty where it is not known.
fn shown(address: io::Result<std::net::SocketAddr>) -> String {
    address.map_or_else(|_| String::new(), |a| a.to_string())
}
