//! D-ITG's packet log: one entry of 144 bytes for each packet that was sent or arrived, without a header, as ITGDec reads it.
//! Integers and floating-point numbers are little-endian, as D-ITG writes them on common hosts.
//!
//! Times are of the UTC day, hours and minutes as integers, seconds with their fraction. Entries that are sent to a log server
//! are big-endian, and a time is the second of the day and microseconds.

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
/// Places of the integers of an entry. In a file, those of times are hours and minutes; to a log server, seconds and microseconds.
const FLOW: usize = 0;
const NUMBER: usize = 1;
const PORTS: usize = 2;
const SENT: usize = 4;
const RECEIVED: usize = 6;
const SIZE: usize = 8;

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

/// A field of an entry that no program of D-ITG writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid {field} {given}: expected {accepted}")]
pub struct EntryError {
    /// The field.
    pub field: &'static str,
    /// What the entry has.
    pub given: String,
    /// What is accepted.
    pub accepted: &'static str,
}

fn refused<T>(
    field: &'static str,
    given: impl ToString,
    accepted: &'static str,
) -> Result<T, EntryError> {
    Err(EntryError { field, given: given.to_string(), accepted })
}

impl Entry {
    /// Reads an entry of a file.
    ///
    /// # Errors
    /// [`EntryError`]: an address that is not one, a port above 65535, or a time that is not one of a day.
    pub fn parse(bytes: &[u8; ENTRY_BYTES]) -> Result<Entry, EntryError> {
        let words: [u32; 9] = std::array::from_fn(|n| u32::from_le_bytes(chunk(bytes, 4 * n)));
        let time = |at: usize, seconds_at: usize, field| {
            let (hour, minute) = (words[at], words[at + 1]);
            let seconds = f64::from_le_bytes(chunk(bytes, seconds_at));
            if hour > 23 || minute > 59 {
                return refused(field, format_args!("{hour}:{minute}"), "00:00 to 23:59");
            }
            // D-ITG writes 60 where a second was rounded up.
            if !(0.0..=60.0).contains(&seconds) {
                return refused(field, format_args!("{seconds} s"), "0 to 60 s");
            }
            let whole = u64::from(hour) * HOUR_NS + u64::from(minute) * MINUTE_NS;
            Ok((whole + (seconds * SECOND_NS as f64).round() as u64) % DAY_NS)
        };
        let sent_ns = time(SENT, SECONDS, "send_time")?;
        let received_ns = time(RECEIVED, SECONDS + 8, "arrival_time")?;
        Entry::of(&words, bytes, sent_ns, received_ns)
    }

    /// Reads an entry that is sent to a log server.
    ///
    /// # Errors
    /// As [`Entry::parse`].
    pub fn parse_sent(bytes: &[u8; ENTRY_BYTES]) -> Result<Entry, EntryError> {
        let words: [u32; 9] = std::array::from_fn(|n| u32::from_be_bytes(chunk(bytes, 4 * n)));
        let time = |at: usize, field| {
            let (second, micros) = (u64::from(words[at]), u64::from(words[at + 1]));
            if second >= DAY_NS / SECOND_NS || micros >= 1_000_000 {
                return refused(field, format_args!("{second} s, {micros} us"), "a time of a day");
            }
            Ok(second * SECOND_NS + micros * 1000)
        };
        let (sent_ns, received_ns) = (time(SENT, "send_time")?, time(RECEIVED, "arrival_time")?);
        Entry::of(&words, bytes, sent_ns, received_ns)
    }

    fn of(
        words: &[u32; 9],
        bytes: &[u8; ENTRY_BYTES],
        sent_ns: u64,
        received_ns: u64,
    ) -> Result<Entry, EntryError> {
        let end = |at: usize, port: u32, field: &'static str| {
            let text = &bytes[at..at + ADDRESS_BYTES];
            let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
            let address = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            let Some(address) = address else {
                return refused(field, text.escape_ascii(), "an address of IP as text");
            };
            match u16::try_from(port) {
                Ok(port) => Ok((address, port)),
                Err(_) => refused(field, format_args!("port {port}"), "a port up to 65535"),
            }
        };
        Ok(Entry {
            flow: words[FLOW],
            number: words[NUMBER],
            source: end(SOURCE, words[PORTS], "source")?,
            destination: end(DESTINATION, words[PORTS + 1], "destination")?,
            sent_ns,
            received_ns,
            size_bytes: words[SIZE],
        })
    }

    /// The bytes of the entry in a file.
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

/// The bytes of a number. `at` is one of the places above, and so within an entry.
fn chunk<const N: usize>(bytes: &[u8; ENTRY_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|n| bytes[at + n])
}

/// Fuzz body: any entry is read or refused, and one that is read is written and read as the same.
pub(crate) fn fuzz(data: &[u8]) {
    for bytes in data.chunks_exact(ENTRY_BYTES) {
        let Some(bytes) = bytes.first_chunk() else { continue };
        for entry in [Entry::parse(bytes), Entry::parse_sent(bytes)].into_iter().flatten() {
            assert!(entry.sent_ns < DAY_NS && entry.received_ns < DAY_NS);
            let again = Entry::parse(&entry.to_bytes());
            // Seconds are floating-point numbers: a nanosecond may be rounded.
            let is_near = |a: u64, b: u64| a.abs_diff(b) <= 1;
            assert!(again.is_ok_and(|again| {
                is_near(again.sent_ns, entry.sent_ns)
                    && is_near(again.received_ns, entry.received_ns)
                    && Entry { sent_ns: entry.sent_ns, received_ns: entry.received_ns, ..again }
                        == entry
            }));
        }
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
        assert_eq!(Entry::parse(&captured()), Ok(entry));
    }

    #[test]
    fn an_entry_is_read_as_itgsend_sends_it() {
        // The first entry that `ITGSend -L 127.0.0.1 UDP` (2.8.1) sends to ITGLog for a packet of 100 bytes at 20:11:32.190147.
        let mut bytes = [0; ENTRY_BYTES];
        let words = [1_u32, 1, 0xbd96, 0x2327, 0x11bf4, 0x2e6c3, 0x11bf4, 0x2e6c3, 100];
        for (bytes, word) in bytes.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        bytes[36..45].copy_from_slice(b"127.0.0.1");
        bytes[82..91].copy_from_slice(b"127.0.0.1");
        let at = (20 * 60 + 11) * MINUTE_NS + 32_190_147_000;
        let host = "127.0.0.1".parse().unwrap();
        let entry = Entry {
            flow: 1,
            number: 1,
            source: (host, 48_534),
            destination: (host, 8999),
            sent_ns: at,
            received_ns: at,
            size_bytes: 100,
        };
        assert_eq!(Entry::parse_sent(&bytes), Ok(entry));
        // As a file, its addresses are right, and its hour is not one.
        assert_eq!(Entry::parse(&bytes).unwrap_err().field, "send_time");
    }

    #[test]
    fn fields_that_are_none_are_refused() {
        let with = |at: usize, value: &[u8]| {
            let mut bytes = captured();
            bytes[at..at + value.len()].copy_from_slice(value);
            Entry::parse(&bytes).unwrap_err().field
        };
        assert_eq!(with(16, &24_u32.to_le_bytes()), "send_time");
        assert_eq!(with(28, &60_u32.to_le_bytes()), "arrival_time");
        assert_eq!(with(SECONDS, &60.5_f64.to_le_bytes()), "send_time");
        assert_eq!(with(SECONDS + 8, &f64::NAN.to_le_bytes()), "arrival_time");
        assert_eq!(with(SOURCE, b"127.0.0.1 "), "source");
        assert_eq!(with(DESTINATION, b"h"), "destination");
        assert_eq!(with(8, &65_536_u32.to_le_bytes()), "source");
    }

    #[test]
    fn mutated_entries_are_read_or_refused() {
        let two = [captured(), captured()].concat();
        weir_laws::mutation::replay(&[&captured()[..], &two], 5000, fuzz);
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
            prop_assert_eq!(Entry::parse(&bytes), Ok(Entry { sent_ns: ns, ..entry }));
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
