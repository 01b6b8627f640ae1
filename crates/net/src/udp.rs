//! UDP sockets with all settings explicit, and batches that send and receive many datagrams by one call.
//!
//! A *message* is one system-level send or receive. With segmentation offload (`UDP_SEGMENT`) a sent message is
//! segmented into datagrams of equal size, the last perhaps shorter; with `UDP_GRO` a received message may hold
//! several, of the size in [`RecvMessage::segment_size`].

use std::io;
use std::net::{IpAddr, SocketAddr};

pub use crate::sys::recv_batch::{RecvBatch, RecvMessages};
pub use crate::sys::send_batch::{Filling, SendBatch};
pub use crate::sys::udp::{UdpSocket, gso_max_segments, try_icmp, try_lite};
pub use crate::sys::watch::{WATCHED_BYTES, watch_group, watched_payload};

/// Largest UDP payload over IPv4: 65 535 less the IP (20) and UDP (8) headers.
pub const MAX_PAYLOAD_IPV4: usize = 65_507;
/// Largest UDP payload over IPv6 without jumbograms: the IP payload length of 65 535 less the UDP header.
pub const MAX_PAYLOAD_IPV6: usize = 65_527;

/// Bytes of an ICMP header with the two words that most types have after the checksum.
pub const ICMP_HEADER_BYTES: usize = 8;

/// Options of a UDP socket. Settings left at `None` or `false` are the system's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// Local address; its family is the socket's. Port 0 lets the system choose.
    pub bind: SocketAddr,
    /// Remote address, of the same family; then only its datagrams are received, and its refusals are reported.
    pub connect: Option<SocketAddr>,
    /// UDP-Lite (RFC 3828) instead of UDP: how many bytes of each datagram the checksum covers, from its header on;
    /// 0: all. Received datagrams with a smaller coverage are dropped.
    pub lite_coverage: Option<u16>,
    /// A socket of ICMP or ICMPv6 instead of UDP: its messages start with their ICMP header.
    pub icmp: Option<IcmpSocket>,
    /// Lets several sockets of this user share the local address (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// Lets sockets of any user share the local address, if all of them request it (`SO_REUSEADDR`): each receives a copy
    /// of multicast and broadcast datagrams.
    pub reuse_address: bool,
    /// May send to broadcast addresses (`SO_BROADCAST`).
    pub broadcast: bool,
    /// Index of the interface through which multicast datagrams are sent (`IP_MULTICAST_IF`).
    pub multicast_interface: Option<u32>,
    /// Receives multicast datagrams only of groups that this socket has joined (`IP_MULTICAST_ALL` off).
    pub own_groups_only: bool,
    /// Keeps an IPv6 socket bound to `::` from also accepting IPv4 (`IPV6_V6ONLY`).
    pub v6_only: bool,
    /// Requested bytes of send buffer, beyond `wmem_max` if the process may.
    pub send_buffer: Option<usize>,
    /// Requested bytes of receive buffer, beyond `rmem_max` if the process may.
    pub receive_buffer: Option<usize>,
    /// Priority of sent packets in the queueing discipline (`SO_PRIORITY`), 0–15; above 6 with `CAP_NET_ADMIN`.
    pub priority: Option<u8>,
    /// TOS byte (IPv4) or traffic class (IPv6) of sent packets.
    pub tos: Option<u8>,
    /// TTL or hop limit of sent packets, 1–255.
    pub ttl: Option<u8>,
    /// IPv6 flow label of packets sent by a connected socket, 20 bits.
    pub flow_label: Option<u32>,
    /// Sets the "don't fragment" bit and refuses datagrams over the path MTU (`true`), or fragments them (`false`).
    pub dont_fragment: Option<bool>,
    /// Name of the interface to bind to (`SO_BINDTODEVICE`).
    pub device: Option<String>,
    /// Receives coalesced datagrams (`UDP_GRO`).
    pub gro: bool,
    /// Requests the kernel's receive stamps (`SO_TIMESTAMPING`, software and raw hardware). If no socket of the
    /// system had requested them before, the kernel starts a little later (milliseconds on a busy machine): the first
    /// messages have no stamp.
    pub timestamps: bool,
    /// Requests the count of datagrams dropped because the receive buffer was full (`SO_RXQ_OVFL`).
    pub rxq_overflow: bool,
    /// Requests TOS and TTL of each received datagram.
    pub receive_tos_ttl: bool,
    /// Puts ICMP errors in the socket's error queue (`IP_RECVERR`), to be read by [`UdpSocket::read_error_queue`].
    pub receive_errors: bool,
    /// Pacing rate for the fq queueing discipline, bytes per second (`SO_MAX_PACING_RATE`). Has no effect on UDP under
    /// any other discipline, without an error.
    pub pacing_bytes_per_second: Option<u64>,
    /// Calls return `WouldBlock` where they would wait.
    pub nonblocking: bool,
}

impl UdpOptions {
    /// A socket bound to `address`, unconnected.
    pub fn bind(address: SocketAddr) -> Self {
        UdpOptions {
            bind: address,
            connect: None,
            lite_coverage: None,
            icmp: None,
            reuse_port: false,
            reuse_address: false,
            broadcast: false,
            multicast_interface: None,
            own_groups_only: false,
            v6_only: false,
            send_buffer: None,
            receive_buffer: None,
            priority: None,
            tos: None,
            ttl: None,
            flow_label: None,
            dont_fragment: None,
            device: None,
            gro: false,
            timestamps: false,
            rxq_overflow: false,
            receive_tos_ttl: false,
            receive_errors: false,
            pacing_bytes_per_second: None,
            nonblocking: false,
        }
    }

    /// A socket connected to `remote` from an address and port the system chooses.
    pub fn connect(remote: SocketAddr) -> Self {
        let any: std::net::IpAddr = match remote {
            SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        UdpOptions { connect: Some(remote), ..UdpOptions::bind(SocketAddr::new(any, 0)) }
    }
}

/// How a socket sends ICMP echo requests and receives the replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpSocket {
    /// A ping socket, for groups of `net.ipv4.ping_group_range`: the kernel chooses the identifier, which is the port of
    /// [`UdpSocket::local_addr`].
    Ping,
    /// A raw socket, which needs `CAP_NET_RAW`: only replies with this identifier are received. Those of IPv4 have their IP
    /// header in front.
    Raw {
        /// The identifier.
        identifier: u16,
    },
    /// A raw socket that receives the messages that other hosts send, which needs `CAP_NET_RAW`.
    Messages(IcmpFilter),
    /// A raw socket that only sends, which needs `CAP_NET_RAW`: whatever arrives is dropped.
    Sender,
}

/// The messages that a raw socket of ICMP or ICMPv6 receives. All of them have code 0 and no options of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpFilter {
    /// Their types, at least one.
    pub types: &'static [u8],
    /// The words of 32 bits that follow type, code and checksum; `None`: any.
    pub words: [Option<u32>; 2],
}

/// A membership of a multicast group on one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The group.
    pub group: IpAddr,
    /// The only sender to receive from (source-specific multicast, RFC 4607); `None`: any.
    pub source: Option<IpAddr>,
    /// Index of the interface.
    pub interface: u32,
}

/// Result of one send call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Messages accepted by the system, from the front of the batch.
    pub messages: usize,
}

/// How a receive waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvMode {
    /// Receives available messages, or fails with `WouldBlock`.
    DontWait,
    /// Waits for one message (on a blocking socket), then receives what else is available.
    WaitForOne,
}

/// How a send waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// Fails with `WouldBlock` if the socket's buffer is full. The mode of a socket that another process passed may be changed by
    /// that process at any time, so it does not suffice.
    DontWait,
    /// As the socket's own mode says.
    AsSocket,
}

/// One received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvMessage<'a> {
    /// The bytes that fitted into the buffer.
    pub data: &'a [u8],
    /// The sender's address.
    pub from: SocketAddr,
    /// When several datagrams were coalesced: the size of each but the last, bytes. `None`: one datagram.
    pub segment_size: Option<u16>,
    /// When the kernel received it, by `CLOCK_REALTIME`, ns. Of coalesced datagrams: when the first arrived.
    pub kernel_realtime_ns: Option<u64>,
    /// When the card received it, by the card's own clock, ns.
    pub hardware_ns: Option<u64>,
    /// Messages dropped on this socket so far because its buffer was full, modulo 2^32. The kernel reports it with the
    /// first message after a drop and all later ones; a coalesced message counts once.
    pub overflow_total: Option<u32>,
    /// TOS byte or traffic class.
    pub tos: Option<u8>,
    /// TTL or hop limit.
    pub ttl: Option<u8>,
    /// The message was longer than the buffer; its end is lost.
    pub truncated: bool,
}

impl<'a> RecvMessage<'a> {
    /// The datagrams in this message, in the order of arrival.
    #[inline]
    pub fn datagrams(&self) -> Datagrams<'a> {
        let size = match self.segment_size {
            Some(size) => usize::from(size),
            None => self.data.len(),
        };
        Datagrams { rest: Some(self.data), size: size.max(1) }
    }
}

/// The datagrams of one received message; an empty datagram is one.
#[derive(Clone, Debug)]
pub struct Datagrams<'a> {
    rest: Option<&'a [u8]>,
    size: usize,
}

impl<'a> Iterator for Datagrams<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        if rest.len() <= self.size {
            self.rest = None;
            return Some(rest);
        }
        let (first, rest) = rest.split_at(self.size);
        self.rest = Some(rest);
        Some(first)
    }
}

/// Memory accounts of a socket (`SO_MEMINFO`, `struct sk_meminfo`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketMemory {
    /// Bytes held by received data not yet read, overhead included.
    pub receive_allocated_bytes: u32,
    /// Limit of the above.
    pub receive_buffer_bytes: u32,
    /// Bytes held by sent data still in queues.
    pub send_allocated_bytes: u32,
    /// Limit of the above.
    pub send_buffer_bytes: u32,
    /// Messages dropped at this socket, for whatever reason, modulo 2^32; exact in datagrams only when none are coalesced.
    pub drops: u32,
}

/// Origin of a queued error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorOrigin {
    /// This host's own stack.
    Local,
    /// An ICMP message.
    Icmp,
    /// An ICMPv6 message.
    Icmp6,
    /// Not an error: a zero-copy send is done with its buffer.
    ZeroCopy,
    /// Anything else, by the kernel's number.
    Other(u8),
}

/// One entry of a socket's error queue (`struct sock_extended_err`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedError {
    /// The system's error number; 0 for completions.
    pub errno: i32,
    /// Its origin.
    pub origin: ErrorOrigin,
    /// ICMP type.
    pub icmp_type: u8,
    /// ICMP code. For zero-copy completions, 1 when the kernel copied after all.
    pub icmp_code: u8,
    /// Extra: the MTU for "message too long"; for zero-copy the first send completed.
    pub info: u32,
    /// Extra: for zero-copy the last send completed.
    pub data: u32,
    /// The host that sent the ICMP message.
    pub offender: Option<IpAddr>,
    /// The first bytes of the refused message as it was passed to the socket, if there are as many: of an echo request its
    /// ICMP header.
    pub quoted: Option<[u8; 8]>,
}

impl QueuedError {
    /// The error as a send or receive would have reported it.
    pub fn to_io_error(&self) -> io::Error {
        io::Error::from_raw_os_error(self.errno)
    }
}

/// Why a send failed: the cases that a sender handles differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFault {
    /// `EAGAIN`: the socket's buffer is full; wait until it is writable.
    WouldBlock,
    /// `ENOBUFS`, `ENOMEM`: the device queue or the kernel is out of room; try again soon.
    NoBuffers,
    /// `EMSGSIZE`: larger than the protocol, the path MTU with "don't fragment", or the segment size allow.
    MessageTooLong,
    /// `EINVAL`: with segmentation: too many segments, or a segment size that does not fit.
    Invalid,
    /// `EIO`, `EOPNOTSUPP`: segmentation is not possible on this route.
    SegmentationUnsupported,
    /// `ECONNREFUSED`: the peer reported that nothing listens on the port. The datagram in hand was not sent.
    Refused,
    /// `ENETUNREACH`, `EHOSTUNREACH`, `ENETDOWN`, `EHOSTDOWN`, `EADDRNOTAVAIL`, `ENODEV`: no route to the peer.
    Unreachable,
    /// `EPERM`, `EACCES`: refused by a firewall rule or a missing permission.
    NotPermitted,
    /// Anything else.
    Other,
}

impl SendFault {
    /// Classifies the error of a send.
    pub fn of(error: &io::Error) -> SendFault {
        crate::sys::udp::send_fault(error)
    }
}
