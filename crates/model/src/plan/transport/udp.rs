//! UDP (RFC 768): datagrams over IP.

use super::{Description, Headers};
use crate::plan::{Family, MAX_UDP_PAYLOAD_V4, MAX_UDP_PAYLOAD_V6};
use crate::units::{BitRate, ByteSize, RateLimit, SendRate};

/// UDP.
pub(super) struct Udp;

impl UdpHeader for Udp {
    fn label(&self) -> &'static str {
        "udp"
    }

    fn title(&self) -> &'static str {
        "UDP"
    }

    fn coalesces(&self) -> bool {
        true
    }

    fn bypasses(&self) -> bool {
        true
    }
}

/// A transport whose datagrams have a header of UDP or one like it: what differs from UDP.
pub(super) trait UdpHeader: Sync {
    /// As [`Description::label`].
    fn label(&self) -> &'static str;

    /// As [`Description::title`].
    fn title(&self) -> &'static str;

    /// As [`Description::multicast`]: its datagrams then arrive at the port of the group, and have the same size whatever
    /// the paths to the receivers' servers are.
    fn multicast(&self) -> bool {
        false
    }

    /// As [`Description::coalesces`].
    fn coalesces(&self) -> bool {
        false
    }

    /// As [`Description::bypasses`].
    fn bypasses(&self) -> bool {
        false
    }

    /// Whether its port is one of UDP, and the system counts its datagrams as UDP.
    fn is_udp(&self) -> bool {
        true
    }
}

impl<T: UdpHeader> Description for T {
    fn label(&self) -> &'static str {
        UdpHeader::label(self)
    }

    fn title(&self) -> &'static str {
        UdpHeader::title(self)
    }

    fn datagrams(&self) -> bool {
        true
    }

    fn ordered(&self) -> bool {
        false
    }

    fn multicast(&self) -> bool {
        UdpHeader::multicast(self)
    }

    fn coalesces(&self) -> bool {
        UdpHeader::coalesces(self)
    }

    fn bypasses(&self) -> bool {
        UdpHeader::bypasses(self)
    }

    /// The server's port is one of UDP and TCP.
    fn shares_port(&self) -> bool {
        self.is_udp() && !UdpHeader::multicast(self)
    }

    fn headers(&self) -> Option<Headers> {
        Some(Headers { bytes: 8, timestamp_bytes: 0 })
    }

    fn datagram_counters(&self) -> bool {
        self.is_udp()
    }

    fn pacing_needs_fq(&self) -> bool {
        true
    }

    fn payload_bytes(&self, family: Option<Family>) -> (u64, u64) {
        match family {
            Some(Family::Ipv6) => (0, MAX_UDP_PAYLOAD_V6),
            _ => (0, MAX_UDP_PAYLOAD_V4),
        }
    }

    fn default_rate(&self, payload: Option<ByteSize>) -> SendRate {
        default_rate(payload)
    }

    fn default_payload(&self, _: Option<SendRate>, family: Family, path_mtu_bytes: u32) -> u64 {
        let most = if UdpHeader::multicast(self) { 1500 } else { u32::MAX };
        largest_unfragmented(family, path_mtu_bytes.min(most))
    }
}

/// The rate of datagrams for which none is stated.
pub(super) fn default_rate(payload: Option<ByteSize>) -> SendRate {
    let limit = match payload {
        // No bit rate can pace empty datagrams.
        Some(ByteSize(0)) => RateLimit::Packets(1000.0),
        _ => RateLimit::Bits(BitRate(1_000_000)),
    };
    SendRate { limit, burst: 1 }
}

/// The largest datagram that a path carries without fragmentation.
fn largest_unfragmented(family: Family, path_mtu_bytes: u32) -> u64 {
    let headers = match family {
        Family::Ipv4 => 28,
        Family::Ipv6 => 48,
    };
    // Loopback's MTU of 65 536 would give datagrams that no other path carries; keep to Ethernet's.
    u64::from(path_mtu_bytes.clamp(576, 9000)) - headers
}
