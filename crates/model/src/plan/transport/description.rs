//! What is asked of a transport: what it carries, what the path may do to it, what the system can say of it.

use crate::plan::Family;
use crate::units::{ByteSize, SendRate};

/// What a transport is and can do. Every question about a transport is a method here.
pub trait Description: Sync {
    /// Its name in documents and on the command line: `udp`.
    fn label(&self) -> &'static str;

    /// Its name as RFCs and manuals write it: `UDP`.
    fn title(&self) -> &'static str;

    /// It keeps the bounds of messages: each is a packet that may be lost, duplicated or reordered, and has a delay. What
    /// does not is a stream of bytes.
    fn datagrams(&self) -> bool;

    /// What its payload is the size of, as a plural: `datagrams`, `writes`.
    fn unit_of_payload(&self) -> &'static str {
        if self.datagrams() { "datagrams" } else { "writes" }
    }

    /// Everything arrives, in order and once; figures of loss and order do not apply.
    fn ordered(&self) -> bool;

    /// A sender waits while the receiver's queue is full, instead of losing datagrams.
    fn backpressure(&self) -> bool {
        false
    }

    /// A socket has one peer, and each end knows the other's address.
    fn connected(&self) -> bool {
        true
    }

    /// One packet may reach many receivers.
    fn multicast(&self) -> bool {
        false
    }

    /// It cuts a stream into segments of its own size (TCP's MSS) and retransmits them.
    fn segments(&self) -> bool {
        false
    }

    /// It runs over IP: addresses and ports, TOS, TTL, a path MTU.
    fn ip(&self) -> bool {
        self.headers().is_some()
    }

    /// Headers in each packet, without those of IP; `None`: nothing of it is seen on a link.
    fn headers(&self) -> Option<Headers>;

    /// The system reports on a connection (`TCP_INFO`): retransmissions, congestion window, round trip.
    fn tcp_info(&self) -> bool {
        false
    }

    /// The system counts datagrams with a wrong checksum, and what its sockets had no room for (`Udp: InCsumErrors`,
    /// `RcvbufErrors`).
    fn datagram_counters(&self) -> bool {
        false
    }

    /// The kernel paces it only under the qdisc fq.
    fn pacing_needs_fq(&self) -> bool {
        false
    }

    /// Payload bytes of a datagram or of a write: smallest and largest.
    fn payload_bytes(&self, family: Option<Family>) -> (u64, u64);

    /// The rate where a plan names none.
    fn default_rate(&self, payload: Option<ByteSize>) -> SendRate;

    /// The payload where a plan names none, bytes.
    fn default_payload(&self, rate: Option<SendRate>, family: Family, path_mtu_bytes: u32) -> u64;
}

/// What a transport adds to each packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// Bytes of the fixed header.
    pub bytes: u8,
    /// Bytes of options that most segments carry when timestamps are on.
    pub timestamp_bytes: u8,
}
