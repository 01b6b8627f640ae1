//! TCP (RFC 9293): a byte stream in segments.

use super::{Description, Headers};
use crate::plan::Family;
use crate::units::{ByteSize, RateLimit, SendRate};

/// TCP.
pub(super) struct Tcp;

impl Description for Tcp {
    fn label(&self) -> &'static str {
        "tcp"
    }

    fn title(&self) -> &'static str {
        "TCP"
    }

    fn datagrams(&self) -> bool {
        false
    }

    fn ordered(&self) -> bool {
        true
    }

    fn segments(&self) -> bool {
        true
    }

    fn headers(&self) -> Option<Headers> {
        Some(Headers { bytes: 20, timestamp_bytes: 12 })
    }

    fn tcp_info(&self) -> bool {
        true
    }

    fn payload_bytes(&self, _: Option<Family>) -> (u64, u64) {
        WRITE_BYTES
    }

    fn default_rate(&self, _: Option<ByteSize>) -> SendRate {
        SendRate::UNLIMITED
    }

    fn default_payload(&self, rate: Option<SendRate>, _: Family, _: u32) -> u64 {
        default_write(rate)
    }
}

/// Minimum and maximum size of a write to a stream, bytes.
pub(super) const WRITE_BYTES: (u64, u64) = (1, 16 << 20);

/// Default size of a write to a stream, bytes.
pub(super) fn default_write(rate: Option<SendRate>) -> u64 {
    match rate.map(|r| r.limit) {
        // A paced stream writes a thousand times a second, so that its rate is even within an interval.
        Some(RateLimit::Bits(b)) => (b.0 / 8 / 1000).clamp(1448, 128 << 10),
        Some(RateLimit::Packets(_)) => 128 << 10,
        // Large writes need fewer calls. Chosen from a few runs on a busy machine; larger sizes were not
        // tried.
        Some(RateLimit::Unlimited) | None => 512 << 10,
    }
}
