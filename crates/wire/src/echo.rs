//! Echo requests of ICMP and ICMPv6 and the replies to them (RFC 792, RFC 4443 section 4).
//!
//! The payload starts with the request's number (8 bytes) and a tag of number and length (8 bytes, SipHash-2-4); the
//! sequence number is the low half of the number's last 32 bits. A reply that was forged, truncated or damaged has
//! the wrong tag.

use crate::checksum::Sum;
use crate::packet::Icmp;
use crate::sip::{SipKey, sip};

/// Bytes of the ICMP header.
pub const HEADER_BYTES: usize = 8;
/// Bytes of a payload at least: number and tag.
pub const MIN_PAYLOAD_BYTES: usize = 16;
/// Bytes in front of a payload at most, as a raw socket delivers it: an IPv4 header with options, and the ICMP header.
pub const MAX_HEADERS_BYTES: usize = 60 + HEADER_BYTES;

/// Why a message is not a reply to a request of this flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EchoError {
    /// Another message, or a reply to another program's request.
    #[error("not a reply to this flow")]
    Other,
    /// A reply with this flow's identifier that answers none of its requests.
    #[error("a forged, truncated or damaged reply")]
    Invalid,
}

/// The echo messages of one flow.
#[derive(Clone, Copy)]
pub struct Echo {
    is_v6: bool,
    identifier: u16,
    has_ip_header: bool,
    key: SipKey,
}

impl core::fmt::Debug for Echo {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // A key must not reach a log.
        write!(f, "Echo({})", self.identifier)
    }
}

impl Echo {
    /// Messages with this identifier. `has_ip_header`: received ones start with their IPv4 header, as raw sockets
    /// deliver them. The key is this test's own secret.
    #[must_use]
    pub fn new(is_v6: bool, identifier: u16, has_ip_header: bool, key: &[u8; 16]) -> Echo {
        Echo { is_v6, identifier, has_ip_header, key: SipKey::from_bytes(key) }
    }

    fn tag(&self, number: u64, payload_bytes: usize) -> [u8; 8] {
        sip::<2, 4, 3>(self.key, [number, payload_bytes as u64, 16 << 56]).to_be_bytes()
    }

    /// Writes the request whose payload, of at least [`MIN_PAYLOAD_BYTES`], starts with its number.
    pub fn encode(&self, payload: &[u8], message: &mut Vec<u8>) {
        message.clear();
        message.extend_from_slice(&[if self.is_v6 { 128 } else { 8 }, 0, 0, 0]);
        message.extend_from_slice(&self.identifier.to_be_bytes());
        let number = payload.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        message.extend_from_slice(&(number as u16).to_be_bytes());
        message.extend_from_slice(payload);
        if let Some(place) = message.get_mut(HEADER_BYTES + 8..HEADER_BYTES + MIN_PAYLOAD_BYTES) {
            place.copy_from_slice(&self.tag(number, payload.len()));
        }
        // The kernel fills in that of ICMPv6, which covers addresses.
        if !self.is_v6 {
            let checksum = Sum::new().add_bytes(message).checksum();
            message[2..4].copy_from_slice(&checksum.to_be_bytes());
        }
    }

    /// The payload of a reply, which starts with the number of its request.
    ///
    /// # Errors
    /// [`EchoError`].
    pub fn decode<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], EchoError> {
        let start = match (self.has_ip_header, bytes.first()) {
            (false, _) => 0,
            (true, Some(first)) => usize::from(first & 15) * 4,
            (true, None) => return Err(EchoError::Other),
        };
        let message = bytes.get(start..).and_then(|bytes| Icmp::new(bytes).ok());
        let message = message.ok_or(EchoError::Other)?;
        let reply = if self.is_v6 { 129 } else { 0 };
        if message.message_type() != reply || message.echo_id() != self.identifier {
            return Err(EchoError::Other);
        }
        let payload = message.payload();
        let number = payload.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let number = number.ok_or(EchoError::Invalid)?;
        let is_own = message.code() == 0
            && payload.get(8..16) == Some(&self.tag(number, payload.len())[..])
            && message.echo_sequence() == number as u16;
        if is_own { Ok(payload) } else { Err(EchoError::Invalid) }
    }

    /// The sequence number of the request that an ICMP error quotes, from the quoted ICMP header on; `None`: another's.
    #[must_use]
    pub fn quoted_sequence(&self, quoted: &[u8]) -> Option<u16> {
        let message = Icmp::new(quoted).ok()?;
        let request = if self.is_v6 { 128 } else { 8 };
        let is_own = message.message_type() == request && message.echo_id() == self.identifier;
        is_own.then(|| message.echo_sequence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 16] = [7; 16];

    /// A request with this number, turned into its reply.
    fn reply(echo: &Echo, number: u64, payload_bytes: usize) -> Vec<u8> {
        let mut payload = vec![1; payload_bytes];
        payload[..8].copy_from_slice(&number.to_be_bytes());
        let mut message = vec![];
        echo.encode(&payload, &mut message);
        assert_eq!(message[0], if echo.is_v6 { 128 } else { 8 });
        message[0] = if echo.is_v6 { 129 } else { 0 };
        message
    }

    #[test]
    fn a_reply_names_its_request() {
        for is_v6 in [false, true] {
            let echo = Echo::new(is_v6, 0x1234, false, &KEY);
            let bytes = reply(&echo, 0x1_0005, 56);
            let payload = echo.decode(&bytes).unwrap();
            assert_eq!((payload.len(), &payload[..8]), (56, &0x1_0005_u64.to_be_bytes()[..]));
            assert_eq!(bytes[4..8], [0x12, 0x34, 0, 5]);
        }
    }

    #[test]
    fn a_raw_socket_delivers_the_ip_header_too() {
        let echo = Echo::new(false, 9, true, &KEY);
        let mut bytes = vec![0x46; 24];
        bytes.extend(reply(&echo, 3, 16));
        assert_eq!(echo.decode(&bytes).map(<[u8]>::len), Ok(16));
        assert_eq!(echo.decode(&bytes[..25]), Err(EchoError::Other));
        assert_eq!(echo.decode(&[]), Err(EchoError::Other));
    }

    #[test]
    fn forged_truncated_and_foreign_replies_are_distinguished() {
        let echo = Echo::new(false, 9, false, &KEY);
        let good = reply(&echo, 3, 32);
        assert!(echo.decode(&good).is_ok());
        // Code, sequence, number, tag.
        for at in [1, 7, 15, 16] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(echo.decode(&bad), Err(EchoError::Invalid), "byte {at}");
        }
        assert_eq!(echo.decode(&good[..39]), Err(EchoError::Invalid));
        assert_eq!(echo.decode(&good[..10]), Err(EchoError::Invalid));
        // Type and identifier.
        for at in [0, 5] {
            let mut other = good.clone();
            other[at] ^= 1;
            assert_eq!(echo.decode(&other), Err(EchoError::Other), "byte {at}");
        }
    }

    #[test]
    fn an_error_quotes_its_request() {
        let echo = Echo::new(false, 9, false, &KEY);
        let mut request = vec![];
        echo.encode(&[0; 16], &mut request);
        assert_eq!(echo.quoted_sequence(&request[..8]), Some(0));
        assert_eq!(echo.quoted_sequence(&request[..7]), None);
        // Of another program, and of another kind.
        for (at, byte) in [(5, 8), (0, 13)] {
            let mut other = request.clone();
            other[at] = byte;
            assert_eq!(echo.quoted_sequence(&other), None, "byte {at}");
        }
        // The checksum is that of RFC 1071.
        assert_eq!(Sum::new().add_bytes(&request).checksum(), 0);
    }
}
