//! D-ITG's packet log: one entry of 144 bytes for each packet that arrived, without a header, as ITGDec reads it. Integers and
//! floating-point numbers are little-endian, as D-ITG writes them on common hosts.
//!
//! Times are of the UTC day, hours and minutes as integers, seconds with their fraction.

use std::net::IpAddr;

use crate::header::ditg::DAY_NS;

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 144;
/// Bytes of an address, as text.
const ADDRESS_BYTES: usize = 46;
/// Places of its fields.
const SOURCE: usize = 36;
const DESTINATION: usize = SOURCE + ADDRESS_BYTES;
const SECONDS: usize = DESTINATION + ADDRESS_BYTES;
const SECOND_NS: u64 = 1_000_000_000;
const MINUTE_NS: u64 = 60 * SECOND_NS;
const HOUR_NS: u64 = 60 * MINUTE_NS;

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the flow.
    pub flow: u32,
    /// Number of the packet, from 1.
    pub number: u32,
    /// Address and port of the sender.
    pub source: (IpAddr, u16),
    /// Those of the receiver.
    pub destination: (IpAddr, u16),
    /// Send time of the UTC day, ns.
    pub sent_ns: u64,
    /// Time of arrival, likewise.
    pub received_ns: u64,
    /// Payload, bytes.
    pub size_bytes: u32,
}

impl Entry {
    /// The bytes of the entry.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ENTRY_BYTES] {
        let mut out = [0; ENTRY_BYTES];
        let [sent, received] = [self.sent_ns, self.received_ns].map(|ns| ns % DAY_NS);
        let hours_minutes = |ns: u64| [ns / HOUR_NS, ns % HOUR_NS / MINUTE_NS].map(|n| n as u32);
        let ([h1, m1], [h2, m2]) = (hours_minutes(sent), hours_minutes(received));
        let ports = [self.source.1, self.destination.1].map(u32::from);
        let words = [self.flow, self.number, ports[0], ports[1], h1, m1, h2, m2, self.size_bytes];
        for (bytes, word) in out.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        for (at, (address, _)) in [(SOURCE, self.source), (DESTINATION, self.destination)] {
            let text = address.to_string();
            // The longest text of an address has 45 bytes.
            out[at..at + text.len()].copy_from_slice(text.as_bytes());
        }
        for (bytes, ns) in out[SECONDS..].chunks_exact_mut(8).zip([sent, received]) {
            let seconds = (ns % MINUTE_NS) as f64 / SECOND_NS as f64;
            bytes.copy_from_slice(&seconds.to_le_bytes());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The first entry of the log of `ITGRecv -l` (2.8.1) for `ITGSend -a 127.0.0.1 -C 10 -c 100 -t 500`.
    fn captured() -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        let words = [1_u32, 1, 0xe24c, 0x2327, 16, 19, 16, 19, 100];
        for (bytes, word) in bytes.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes[36..45].copy_from_slice(b"127.0.0.1");
        bytes[82..91].copy_from_slice(b"127.0.0.1");
        bytes[128..136].copy_from_slice(b"\x76\x32\x38\x4a\x5e\x95\x2c\x40");
        bytes[136..].copy_from_slice(b"\x3b\x1d\xc8\x7a\x6a\x95\x2c\x40");
        bytes
    }

    #[test]
    fn an_entry_is_as_itgrecv_writes_it() {
        let at = (16 * 60 + 19) * MINUTE_NS;
        let entry = Entry {
            flow: 1,
            number: 1,
            source: ("127.0.0.1".parse().unwrap(), 57_932),
            destination: ("127.0.0.1".parse().unwrap(), 8999),
            // As ITGDec -l prints it: 16:19:14.291735 and 16:19:14.291828.
            sent_ns: at + 14_291_735_000,
            received_ns: at + 14_291_828_000,
            size_bytes: 100,
        };
        assert_eq!(entry.to_bytes(), captured());
    }

    proptest! {
        #[test]
        fn the_parts_of_a_time_add_up(us in 0..DAY_NS / 1000, days in 0..3_u64, address: [u8; 16]) {
            let ns = us * 1000;
            let entry = Entry {
                flow: 7,
                number: 9,
                source: (address.into(), 1),
                destination: (IpAddr::from([255; 4]), 2),
                sent_ns: ns + days * DAY_NS,
                received_ns: ns,
                size_bytes: 20,
            };
            let bytes = entry.to_bytes();
            let word = |at: usize| u64::from(u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()));
            let seconds = |at: usize| f64::from_le_bytes(*bytes[at..].first_chunk().unwrap());
            for (hour, second) in [(16, SECONDS), (24, SECONDS + 8)] {
                prop_assert!(word(hour) < 24 && word(hour + 4) < 60 && seconds(second) < 60.0);
                let whole = word(hour) * HOUR_NS + word(hour + 4) * MINUTE_NS;
                prop_assert_eq!(whole + (seconds(second) * SECOND_NS as f64).round() as u64, ns);
            }
            // The text ends with a zero.
            prop_assert_eq!(bytes[DESTINATION - 1], 0);
            prop_assert_eq!(&bytes[DESTINATION..DESTINATION + 16], b"255.255.255.255\0");
        }
    }
}
