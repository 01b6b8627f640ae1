//! The description of a transport: what it carries, what the path may do to it, and what the system reports
//! about it.

use crate::names::HostKind;
use crate::plan::Family;
use crate::units::{ByteSize, SendRate};

/// Properties of a transport.
pub trait Description: Sync {
    /// Its name in documents and on the command line: `udp`.
    fn label(&self) -> &'static str;

    /// Its name as RFCs and manuals write it: `UDP`.
    fn title(&self) -> &'static str;

    /// Whether it preserves message boundaries: each message is a packet that may be lost, duplicated,
    /// reordered or delayed. Otherwise it is a stream of bytes.
    fn datagrams(&self) -> bool;

    /// Plural noun for the units whose size is the payload: `datagrams`, `writes`.
    fn unit_of_payload(&self) -> &'static str {
        if self.datagrams() { "datagrams" } else { "writes" }
    }

    /// Whether all data arrive once and in order; figures of loss and order then do not apply.
    fn ordered(&self) -> bool;

    /// Whether a sender waits while the receiver's queue is full, instead of losing datagrams.
    fn backpressure(&self) -> bool {
        false
    }

    /// Whether a socket has one peer, and each end knows the other's address.
    fn connected(&self) -> bool {
        true
    }

    /// Whether one packet may reach many receivers.
    fn multicast(&self) -> bool {
        false
    }

    /// Whether the system segments and coalesces its datagrams (UDP_SEGMENT, UDP_GRO).
    fn coalesces(&self) -> bool {
        false
    }

    /// Whether its datagrams can be sent and accounted for below the socket layer.
    fn bypasses(&self) -> bool {
        false
    }

    /// Whether its flows can use the one port of the server; otherwise each gets a port of its own.
    fn shares_port(&self) -> bool {
        true
    }

    /// Whether a server can answer each request of a client on its socket.
    fn transactions(&self) -> bool {
        self.connected() && !self.multicast() && !self.replays_frames()
    }

    /// Whether the system of any host answers each request, with the request's own bytes: a test needs no server, and
    /// has the figures of this end alone.
    fn echoes(&self) -> bool {
        false
    }

    /// Whether it splits a stream into segments of its own size (TCP's MSS) and retransmits them.
    fn segments(&self) -> bool {
        false
    }

    /// Whether its packets are frames of a link, without IP: both ends must be on that link.
    fn frames(&self) -> bool {
        false
    }

    /// What the host of a connection names.
    fn host_kind(&self) -> HostKind {
        if self.headers().is_some() { HostKind::Network } else { HostKind::Path }
    }

    /// Whether a server of Weir is at the other end; otherwise a test has the figures of this end alone.
    fn has_server(&self) -> bool {
        !self.echoes()
    }

    /// Whether its payloads are whole frames of a capture, sent as they are.
    fn replays_frames(&self) -> bool {
        false
    }

    /// Whether it runs over IP, with addresses, ports, TOS, TTL and a path MTU.
    fn ip(&self) -> bool {
        self.headers().is_some() && !self.frames()
    }

    /// Headers in each packet, without those of IP and Ethernet; `None` if its packets are not seen on a link.
    fn headers(&self) -> Option<Headers>;

    /// Whether the system reports on its connections (`TCP_INFO`): retransmissions, congestion window, round
    /// trip.
    fn tcp_info(&self) -> bool {
        false
    }

    /// Whether the system counts datagrams with a wrong checksum and those that its sockets had no room for
    /// (`Udp: InCsumErrors`, `RcvbufErrors`).
    fn datagram_counters(&self) -> bool {
        false
    }

    /// Whether the kernel paces it only with the qdisc fq.
    fn pacing_needs_fq(&self) -> bool {
        false
    }

    /// Minimum and maximum payload of a datagram or a write, bytes.
    fn payload_bytes(&self, family: Option<Family>) -> (u64, u64);

    /// The default rate.
    fn default_rate(&self, payload: Option<ByteSize>) -> SendRate;

    /// The default payload, bytes.
    fn default_payload(&self, rate: Option<SendRate>, family: Family, path_mtu_bytes: u32) -> u64;
}

/// Headers that a transport adds to each packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// Bytes of the fixed header.
    pub bytes: u8,
    /// Bytes of options that most segments carry when timestamps are on.
    pub timestamp_bytes: u8,
}
