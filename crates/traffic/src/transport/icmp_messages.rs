//! Data in messages of ICMP and ICMPv6 to a receiver that counts them, as some tools send it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use weir_model::plan::{FlowSpec, Plan};
use weir_net::udp::{
    Filling, ICMP_HEADER_BYTES, IcmpFilter, IcmpSocket, RecvBatch, Sent, UdpOptions, UdpSocket,
};
use weir_wire::checksum::Sum;

use super::icmp::addresses;
use super::{DatagramSocket, udp};
use crate::TrafficError;

/// Bytes of the header of IPv4 without options.
const IPV4_BYTES: usize = 20;

/// How messages of one family begin. Code, and what follows the checksum, are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpHeader {
    /// The type of the messages that are sent.
    pub message_type: u8,
    /// Bytes in front of the data, 4 or 8.
    pub bytes: usize,
}

/// A socket to one host. Receiving, each message counts without its headers.
#[derive(Debug)]
pub struct IcmpMessages {
    socket: UdpSocket,
    peer: IpAddr,
    header: IcmpHeader,
    is_v6: bool,
}

impl IcmpMessages {
    /// Opens a socket for the messages of a flow, from `local` or as the plan states, to or from `peer`. `receives`: those that
    /// are received; `None`: this end sends.
    ///
    /// # Errors
    /// [`TrafficError::Unavailable`] without `CAP_NET_RAW`, [`TrafficError::Net`].
    pub(crate) fn open(
        plan: &Plan,
        spec: &FlowSpec,
        header: IcmpHeader,
        receives: Option<IcmpFilter>,
        bind: SocketAddr,
        peer: SocketAddr,
    ) -> Result<IcmpMessages, TrafficError> {
        let icmp = receives.map_or(IcmpSocket::Sender, IcmpSocket::Messages);
        let options = UdpOptions {
            icmp: Some(icmp),
            connect: Some(peer),
            device: plan.device.clone(),
            v6_only: bind.is_ipv6(),
            ..udp::options(spec, bind, receives.is_some(), 1)
        };
        let socket = UdpSocket::open(&options).map_err(|error| match &error {
            weir_net::Error::System { source, .. } if is_denied(source) => TrafficError::Unavailable {
                field: "transport",
                given: spec.connection.transport.name().to_string(),
                reason: format!(
                    "no permission for raw ICMP sockets ({error}): grant CAP_NET_RAW (sudo setcap cap_net_raw+p weir)"
                ),
            },
            _ => error.into(),
        })?;
        Ok(IcmpMessages { socket, peer: peer.ip(), header, is_v6: peer.is_ipv6() })
    }
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

impl IcmpMessages {
    /// Whether messages have arrived that were not read.
    #[must_use]
    pub fn has_arrived(&self) -> bool {
        self.socket.socket_memory().is_ok_and(|memory| memory.receive_allocated_bytes > 0)
    }
}

weir_net::as_socket!(IcmpMessages, socket);

impl DatagramSocket for IcmpMessages {
    fn send_batch(&self, batch: &mut Filling<'_, '_>) -> io::Result<Sent> {
        let IcmpHeader { message_type, bytes } = self.header;
        batch.send_headed(&self.socket, bytes, |payload| {
            let mut header = [0; ICMP_HEADER_BYTES];
            header[0] = message_type;
            // The kernel fills in that of ICMPv6, which covers addresses.
            if !self.is_v6 {
                let checksum = Sum::new().add_bytes(&header).add_bytes(payload).checksum();
                header[2..4].copy_from_slice(&checksum.to_be_bytes());
            }
            header
        })
    }

    fn recv_batch(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let ip = if self.is_v6 { 0 } else { IPV4_BYTES };
        batch.recv_headed(&self.socket, ip + self.header.bytes)
    }

    fn send_control(&self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn max_segments(&self) -> usize {
        1
    }

    fn overflow(&self) -> Option<u32> {
        self.socket.overflow()
    }

    /// It has no ports.
    fn addresses(&self) -> [String; 2] {
        addresses(&self.socket, self.peer)
    }

    fn buffer_bytes(&self, send: bool) -> Option<u64> {
        self.socket.buffer_bytes(send)
    }
}
