//! UDP (RFC 768): datagrams over IP.

use super::{Description, Headers};
use crate::plan::{Family, MAX_UDP_PAYLOAD_V4, MAX_UDP_PAYLOAD_V6};
use crate::units::{BitRate, ByteSize, RateLimit, SendRate};

/// UDP.
pub(super) struct Udp;

impl Description for Udp {
    fn label(&self) -> &'static str {
        "udp"
    }

    fn title(&self) -> &'static str {
        "UDP"
    }

    fn datagrams(&self) -> bool {
        true
    }

    fn ordered(&self) -> bool {
        false
    }

    fn headers(&self) -> Option<Headers> {
        Some(Headers { bytes: 8, timestamp_bytes: 0 })
    }

    fn coalesces(&self) -> bool {
        true
    }

    fn datagram_counters(&self) -> bool {
        true
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
        default_datagram_rate(payload)
    }

    fn default_payload(&self, _: Option<SendRate>, family: Family, path_mtu_bytes: u32) -> u64 {
        largest_unfragmented(family, path_mtu_bytes)
    }
}

/// The largest datagram that a path carries without fragmentation.
pub(super) fn largest_unfragmented(family: Family, path_mtu_bytes: u32) -> u64 {
    let headers = match family {
        Family::Ipv4 => 28,
        Family::Ipv6 => 48,
    };
    // Loopback's MTU of 65 536 would give datagrams that no other path carries; keep to Ethernet's.
    u64::from(path_mtu_bytes.clamp(576, 9000)) - headers
}

/// The default rate of datagrams.
pub(super) fn default_datagram_rate(payload: Option<ByteSize>) -> SendRate {
    let limit = match payload {
        // No bit rate can pace empty datagrams.
        Some(ByteSize(0)) => RateLimit::Packets(1000.0),
        _ => RateLimit::Bits(BitRate(1_000_000)),
    };
    SendRate { limit, burst: 1 }
}
