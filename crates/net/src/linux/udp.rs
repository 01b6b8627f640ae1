//! The UDP socket of Linux.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use socket2::{Domain, Protocol, Socket, Type};

use super::options::{Common, with_flow_label};
use super::send_batch::segment_control;
use super::{address::RawAddress, error_queue, icmp, sockopt};
use crate::error::{Context, Error, Result};
use crate::udp::{
    IcmpSocket, Membership, QueuedError, RecvMode, SendFault, SocketMemory, UdpOptions,
};

/// A UDP socket, opened with all its settings by [`UdpSocket::open`].
#[derive(Debug)]
pub struct UdpSocket {
    socket: Socket,
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl From<OwnedFd> for UdpSocket {
    /// Wraps any datagram socket: functions that do not concern addresses work on it.
    fn from(fd: OwnedFd) -> Self {
        UdpSocket { socket: fd.into() }
    }
}

impl From<UdpSocket> for OwnedFd {
    fn from(socket: UdpSocket) -> OwnedFd {
        socket.socket.into()
    }
}

impl From<UdpSocket> for std::net::UdpSocket {
    fn from(socket: UdpSocket) -> Self {
        socket.socket.into()
    }
}

impl From<std::net::UdpSocket> for UdpSocket {
    fn from(socket: std::net::UdpSocket) -> Self {
        UdpSocket { socket: socket.into() }
    }
}

impl UdpSocket {
    /// Opens, sets, binds and connects a socket. Fails at the first setting that the system refuses, and names it.
    pub fn open(options: &UdpOptions) -> Result<UdpSocket> {
        let object = options.bind.to_string();
        if let Some(to) = options.connect
            && to.is_ipv4() != options.bind.is_ipv4()
        {
            let object = format!("{to} from {object}");
            return Err(Error::Refused {
                operation: "connect",
                object,
                reason: "both must be of one family",
            });
        }
        let v6 = options.bind.is_ipv6();
        let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
        let (kind, protocol) = match (options.icmp, options.lite_coverage) {
            (Some(IcmpSocket::Ping), _) => (Type::DGRAM, icmp_protocol(v6)),
            (Some(_), _) => (Type::RAW, icmp_protocol(v6)),
            (None, Some(_)) => (Type::DGRAM, Protocol::from(libc::IPPROTO_UDPLITE)),
            (None, None) => (Type::DGRAM, Protocol::UDP),
        };
        let operation =
            if options.icmp.is_some() { "open ICMP socket for" } else { "open UDP socket for" };
        let socket = Socket::new(domain, kind, Some(protocol)).context(operation, &object)?;
        if let Some(filter) = options.icmp.and_then(|icmp| icmp::filter(v6, icmp)) {
            socket.attach_filter(&filter).context("set SO_ATTACH_FILTER on", &object)?;
        }
        if let Some(coverage) = options.lite_coverage {
            for name in [UDPLITE_SEND_CSCOV, UDPLITE_RECV_CSCOV] {
                sockopt::set(socket.as_fd(), libc::IPPROTO_UDPLITE, name, i32::from(coverage))
                    .context("set the checksum coverage of", &object)?;
            }
        }
        let common = Common {
            v6,
            datagram: true,
            v6_only: Some(options.v6_only),
            raw: options.icmp.is_some_and(|icmp| icmp != IcmpSocket::Ping),
            reuse_port: options.reuse_port,
            send_buffer: options.send_buffer,
            receive_buffer: options.receive_buffer,
            priority: options.priority,
            tos: options.tos,
            ttl: options.ttl,
            flow_label: options.flow_label,
            device: options.device.as_deref(),
            pacing_bytes_per_second: options.pacing_bytes_per_second,
        };
        common.apply(&socket, &object)?;
        set_group_options(&socket, options, &object)?;
        let fd = socket.as_fd();
        if let Some(dont) = options.dont_fragment {
            set_dont_fragment(fd, v6, dont).context("set IP_MTU_DISCOVER on", &object)?;
        }
        if options.gro {
            sockopt::set(fd, libc::SOL_UDP, libc::UDP_GRO, 1).context("set UDP_GRO on", &object)?;
        }
        if options.timestamps {
            let wanted = libc::SOF_TIMESTAMPING_RX_SOFTWARE
                | libc::SOF_TIMESTAMPING_SOFTWARE
                | libc::SOF_TIMESTAMPING_RX_HARDWARE
                | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
            sockopt::set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, wanted)
                .context("set SO_TIMESTAMPING on", &object)?;
        }
        if options.rxq_overflow {
            sockopt::set(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)
                .context("set SO_RXQ_OVFL on", &object)?;
        }
        if options.receive_tos_ttl {
            set_receive_tos_ttl(fd, v6).context("set IP_RECVTOS and IP_RECVTTL on", &object)?;
        }
        if options.receive_errors {
            if v6 {
                sockopt::set(fd, libc::SOL_IPV6, libc::IPV6_RECVERR, 1)
                    .context("set IPV6_RECVERR on", &object)?;
            } else {
                sockopt::set(fd, libc::SOL_IP, libc::IP_RECVERR, 1)
                    .context("set IP_RECVERR on", &object)?;
            }
        }
        socket.set_nonblocking(options.nonblocking).context("set non-blocking", &object)?;
        socket.bind(&options.bind.into()).context("bind UDP socket to", &object)?;
        let socket = UdpSocket { socket };
        if let Some(to) = options.connect {
            let to = with_flow_label(to, options.flow_label);
            socket.connect(to).context("connect UDP socket to", to.to_string())?;
        }
        if let Some(IcmpSocket::Messages(_) | IcmpSocket::Sender) = options.icmp {
            // What arrived before filter and peer were set may be anyone's.
            for _ in 0..MAX_STRAYS {
                if socket.recv(&mut [], RecvMode::DontWait).is_err() {
                    break;
                }
            }
        }
        Ok(socket)
    }

    /// Joins a multicast group: the system reports the membership to the routers (IGMP, MLD).
    pub fn join(&self, membership: &Membership) -> io::Result<()> {
        self.set_membership(membership, [MCAST_JOIN_GROUP, MCAST_JOIN_SOURCE_GROUP])
    }

    /// Leaves a group that this socket has joined.
    pub fn leave(&self, membership: &Membership) -> io::Result<()> {
        self.set_membership(membership, [MCAST_LEAVE_GROUP, MCAST_LEAVE_SOURCE_GROUP])
    }

    /// `names`: the option without and with a source. Its value is `struct group_req` or `struct group_source_req`.
    fn set_membership(&self, membership: &Membership, names: [i32; 2]) -> io::Result<()> {
        const ADDRESS: usize = size_of::<libc::sockaddr_storage>();
        let at = align_of::<libc::sockaddr_storage>();
        let mut bytes = [0; 8 + 2 * ADDRESS];
        bytes[..4].copy_from_slice(&membership.interface.to_ne_bytes());
        put_address(&mut bytes[at..], membership.group);
        let level = if membership.group.is_ipv4() { libc::SOL_IP } else { libc::SOL_IPV6 };
        let (name, len) = match membership.source {
            None => (names[0], at + ADDRESS),
            Some(source) => {
                put_address(&mut bytes[at + ADDRESS..], source);
                (names[1], at + 2 * ADDRESS)
            }
        };
        sockopt::set_slice(self.as_fd(), level, name, &bytes[..len])
    }

    /// Fixes the peer: from now on only its datagrams are received.
    pub fn connect(&self, to: SocketAddr) -> io::Result<()> {
        self.socket.connect(&to.into())
    }

    /// The local address; after `connect` with the source address the system chose.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The same socket once more, for another worker.
    pub fn try_clone(&self) -> io::Result<UdpSocket> {
        Ok(UdpSocket { socket: self.socket.try_clone()? })
    }

    /// The connected peer; `NotConnected` when there is none.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()?.as_socket().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Whether calls return `WouldBlock` where they would wait.
    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.socket.set_nonblocking(nonblocking)
    }

    /// Bytes of send buffer in effect: twice the requested size, within limits, since the kernel counts overhead in.
    pub fn send_buffer(&self) -> io::Result<usize> {
        self.socket.send_buffer_size()
    }

    /// Bytes of receive buffer in effect: twice the requested size, within limits, since the kernel counts overhead
    /// in.
    pub fn receive_buffer(&self) -> io::Result<usize> {
        self.socket.recv_buffer_size()
    }

    /// Sends one datagram to the connected peer.
    #[inline]
    pub fn send(&self, buffer: &[u8]) -> io::Result<usize> {
        // SAFETY: `buffer` is readable for its length through the call.
        retry(|| unsafe {
            libc::send(self.as_raw_fd(), buffer.as_ptr().cast(), buffer.len(), libc::MSG_NOSIGNAL)
        })
    }

    /// Sends one datagram to `to`.
    #[inline]
    pub fn send_to(&self, buffer: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.send_segmented(buffer, None, Some(to))
    }

    /// Sends `buffer` by one call, segmented by the kernel or card into datagrams of `segment_size` bytes (the last
    /// may be shorter). At most [`gso_max_segments`] of them, and [`crate::udp::MAX_PAYLOAD_IPV4`] bytes.
    #[inline]
    pub fn send_segmented(
        &self,
        buffer: &[u8],
        segment_size: Option<u16>,
        to: Option<SocketAddr>,
    ) -> io::Result<usize> {
        if segment_size == Some(0) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut vector =
            libc::iovec { iov_base: buffer.as_ptr().cast_mut().cast(), iov_len: buffer.len() };
        let mut control = [0_u64; 4];
        let mut address = RawAddress::zeroed();
        // SAFETY: msghdr is integers and raw pointers, for which zero (null) is a value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        if let Some(to) = to {
            message.msg_namelen = address.set(to);
            message.msg_name = (&raw mut address).cast();
        }
        if let Some(size) = segment_size.filter(|&size| usize::from(size) < buffer.len()) {
            message.msg_controllen = segment_control(&mut control, size) as _;
            message.msg_control = control.as_mut_ptr().cast();
        }
        // SAFETY: the message points to `buffer` and to locals, which live through the call; the kernel only reads.
        retry(|| unsafe { libc::sendmsg(self.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) })
    }

    /// Receives one message of the connected peer; returns its length, at most that of `buffer` (the rest is lost).
    #[inline]
    pub fn recv(&self, buffer: &mut [u8], mode: RecvMode) -> io::Result<usize> {
        let flags = match mode {
            RecvMode::DontWait => libc::MSG_DONTWAIT,
            RecvMode::WaitForOne => 0,
        };
        // SAFETY: `buffer` is writable for its length through the call.
        retry(|| unsafe {
            libc::recv(self.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags)
        })
    }

    /// Receives one message; returns its length (at most that of `buffer`; the rest is lost) and its sender.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let mut address = RawAddress::zeroed();
        let mut len = super::address::RAW_ADDRESS_LEN;
        // SAFETY: `buffer` and the locals are writable for the given lengths.
        let n = retry(|| unsafe {
            libc::recvfrom(
                self.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                0,
                (&raw mut address).cast(),
                &raw mut len,
            )
        })?;
        let from = address.get(len).ok_or(io::ErrorKind::InvalidData)?;
        Ok((n, from))
    }

    /// Whether this kernel can segment datagrams for this socket (`UDP_SEGMENT`). A route may still refuse: then the
    /// send fails with [`SendFault::SegmentationUnsupported`] or [`SendFault::Invalid`].
    pub fn segmentation_available(&self) -> bool {
        sockopt::get_i32(self.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT).is_ok()
    }

    /// The checksum coverage in effect for sent (`true`) or received datagrams of UDP-Lite, bytes; 0: all.
    pub fn lite_coverage(&self, send: bool) -> io::Result<u16> {
        let name = if send { UDPLITE_SEND_CSCOV } else { UDPLITE_RECV_CSCOV };
        let bytes = sockopt::get_i32(self.as_fd(), libc::IPPROTO_UDPLITE, name)?;
        u16::try_from(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Turns `UDP_GRO` on or off.
    pub fn set_gro(&self, on: bool) -> io::Result<()> {
        sockopt::set(self.as_fd(), libc::SOL_UDP, libc::UDP_GRO, i32::from(on))
    }

    /// The socket's memory accounts and drop counter (`SO_MEMINFO`).
    pub fn socket_memory(&self) -> io::Result<SocketMemory> {
        socket_memory(self.as_fd())
    }

    /// Path MTU the kernel knows for the connected peer, bytes of IP packet.
    pub fn path_mtu(&self) -> io::Result<u32> {
        let v6 = self.local_addr()?.is_ipv6();
        let (level, name) =
            if v6 { (libc::SOL_IPV6, libc::IPV6_MTU) } else { (libc::SOL_IP, libc::IP_MTU) };
        sockopt::get_i32(self.as_fd(), level, name).map(|mtu| u32::try_from(mtu).unwrap_or(0))
    }

    /// Takes the pending error of the socket, if any (`SO_ERROR`): a refusal by the peer of a connected socket.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.take_error()
    }

    /// Takes one entry of the error queue; `None` when it is empty. Needs [`UdpOptions::receive_errors`].
    pub fn read_error_queue(&self) -> io::Result<Option<QueuedError>> {
        error_queue::read(self.as_fd())
    }
}

use sockopt::retry;

/// Messages that a raw socket drops before its first own one.
const MAX_STRAYS: usize = 4096;

/// Options of linux/udp.h at the level of UDP-Lite: the coverage of sent datagrams, and the least of received ones.
const UDPLITE_SEND_CSCOV: i32 = 10;
const UDPLITE_RECV_CSCOV: i32 = 11;

fn icmp_protocol(v6: bool) -> Protocol {
    if v6 { Protocol::ICMPV6 } else { Protocol::ICMPV4 }
}

/// Whether this process may open an ICMP socket: a ping socket, else a raw one.
pub fn try_icmp(v6: bool) -> io::Result<IcmpSocket> {
    let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
    let open = |kind| Socket::new(domain, kind, Some(icmp_protocol(v6))).map(drop);
    match open(Type::DGRAM) {
        Ok(()) => Ok(IcmpSocket::Ping),
        Err(_) => open(Type::RAW).map(|()| IcmpSocket::Raw { identifier: 0 }),
    }
}

/// Whether the kernel opens UDP-Lite sockets.
pub fn try_lite() -> io::Result<()> {
    let protocol = Protocol::from(libc::IPPROTO_UDPLITE);
    Socket::new(Domain::IPV4, Type::DGRAM, Some(protocol)).map(drop)
}

/// Options of RFC 3678 by linux/in.h: their values are the same for both families.
const MCAST_JOIN_GROUP: i32 = 42;
const MCAST_LEAVE_GROUP: i32 = 45;
const MCAST_JOIN_SOURCE_GROUP: i32 = 46;
const MCAST_LEAVE_SOURCE_GROUP: i32 = 47;
/// `IPV6_MULTICAST_ALL` of linux/in6.h.
const IPV6_MULTICAST_ALL: i32 = 29;

/// Writes an address without a port as `struct sockaddr_in` or `struct sockaddr_in6`.
fn put_address(to: &mut [u8], address: IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            to[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            to[4..8].copy_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            to[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            to[8..24].copy_from_slice(&v6.octets());
        }
    }
}

/// The options of sockets that send to several receivers, or are one of them.
fn set_group_options(socket: &Socket, options: &UdpOptions, object: &str) -> Result<()> {
    let (fd, v6) = (socket.as_fd(), options.bind.is_ipv6());
    if options.reuse_address {
        socket.set_reuse_address(true).context("set SO_REUSEADDR on", object)?;
    }
    if options.broadcast {
        socket.set_broadcast(true).context("set SO_BROADCAST on", object)?;
    }
    if let Some(index) = options.multicast_interface {
        if v6 {
            socket.set_multicast_if_v6(index).context("set IPV6_MULTICAST_IF on", object)?;
        } else {
            // struct ip_mreqn: no group, no address, the index.
            sockopt::set(fd, libc::SOL_IP, libc::IP_MULTICAST_IF, [0, 0, index])
                .context("set IP_MULTICAST_IF on", object)?;
        }
    }
    if options.own_groups_only {
        if v6 {
            sockopt::set(fd, libc::SOL_IPV6, IPV6_MULTICAST_ALL, 0)
                .context("set IPV6_MULTICAST_ALL on", object)?;
        } else {
            sockopt::set(fd, libc::SOL_IP, libc::IP_MULTICAST_ALL, 0)
                .context("set IP_MULTICAST_ALL on", object)?;
        }
    }
    Ok(())
}

fn set_dont_fragment(fd: BorrowedFd<'_>, v6: bool, dont: bool) -> io::Result<()> {
    if v6 {
        let mode = if dont { libc::IPV6_PMTUDISC_DO } else { libc::IPV6_PMTUDISC_DONT };
        sockopt::set(fd, libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, mode)?;
        sockopt::set(fd, libc::SOL_IPV6, libc::IPV6_DONTFRAG, i32::from(dont))
    } else {
        let mode = if dont { libc::IP_PMTUDISC_DO } else { libc::IP_PMTUDISC_DONT };
        sockopt::set(fd, libc::SOL_IP, libc::IP_MTU_DISCOVER, mode)
    }
}

fn set_receive_tos_ttl(fd: BorrowedFd<'_>, v6: bool) -> io::Result<()> {
    if v6 {
        sockopt::set(fd, libc::SOL_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        sockopt::set(fd, libc::SOL_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
    }
    sockopt::set(fd, libc::SOL_IP, libc::IP_RECVTOS, 1)?;
    sockopt::set(fd, libc::SOL_IP, libc::IP_RECVTTL, 1)
}

pub(crate) fn socket_memory(fd: BorrowedFd<'_>) -> io::Result<SocketMemory> {
    // struct sk_meminfo order (linux/sock_diag.h): rmem, rcvbuf, wmem, sndbuf, fwd, wmem_queued, optmem, backlog, drops.
    let mut words = [0_u32; 9];
    sockopt::get_into(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut words)?;
    Ok(SocketMemory {
        receive_allocated_bytes: words[0],
        receive_buffer_bytes: words[1],
        send_allocated_bytes: words[2],
        send_buffer_bytes: words[3],
        drops: words[8],
    })
}

pub(crate) fn send_fault(error: &io::Error) -> SendFault {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => SendFault::WouldBlock,
        Some(libc::ENOBUFS | libc::ENOMEM) => SendFault::NoBuffers,
        Some(libc::EMSGSIZE) => SendFault::MessageTooLong,
        Some(libc::EINVAL) => SendFault::Invalid,
        Some(libc::EIO | libc::EOPNOTSUPP) => SendFault::SegmentationUnsupported,
        Some(libc::ECONNREFUSED) => SendFault::Refused,
        Some(
            libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::ENETDOWN
            | libc::EHOSTDOWN
            | libc::EADDRNOTAVAIL
            | libc::ENODEV
            | libc::ENXIO,
        ) => SendFault::Unreachable,
        Some(libc::EPERM | libc::EACCES) => SendFault::NotPermitted,
        _ => SendFault::Other,
    }
}

/// Maximum number of segments of one send: 128 from Linux 6.9, 64 before; 1 where segmentation does not exist.
/// Determined once, on the loopback interface.
pub fn gso_max_segments() -> u16 {
    static FOUND: OnceLock<u16> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let probe = |segments: usize| -> bool {
            let Ok(sink) = UdpSocket::open(&UdpOptions::bind(local)) else { return false };
            let Ok(to) = sink.local_addr() else { return false };
            let Ok(source) = UdpSocket::open(&UdpOptions::bind(local)) else { return false };
            source.send_segmented(&[0; 128][..segments], Some(1), Some(to)).is_ok()
        };
        [128, 64].into_iter().find(|&n| probe(usize::from(n))).unwrap_or(1)
    })
}
