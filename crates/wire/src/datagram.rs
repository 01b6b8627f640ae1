//! Fixed 64-byte UDP control datagrams: hello, feedback, clock probes, transfers.
//!
//! A request and its reply have the same size, so that a responder is never an amplifier. All fields are
//! big-endian:
//!
//! | bytes | field |
//! | --- | --- |
//! | 0–7 | magic [`MAGIC`] |
//! | 8 | version [`VERSION`] |
//! | 9 | kind ([`DatagramKind`]) |
//! | 10–11 | reserved, sent as 0, ignored |
//! | 12–15 | flow |
//! | 16–23 | session |
//! | 24–31 | sequence |
//! | 32–55 | t1, t2, t3: ns; of transfers counts |
//! | 56–63 | tag: SipHash-2-4 of bytes 0–55 under the session's 128-bit key |
//!
//! **Distinguished from data.** Data and control share one UDP port, and the 5-tuple of a connected socket names the
//! flow, whatever header its data has. A control datagram has 64 bytes, starts with [`MAGIC`] and has a
//! matching tag; data that starts with the magic number by chance (2⁻⁶⁴) or by intent lacks the tag. Native
//! data never starts with it: its u64 sequence number stays below 2⁶³ (292 years at 10⁹ packets/s), and the
//! top bit of [`MAGIC`] is set.

use crate::sip::{SipKey, sip};

/// Size of every control datagram, in bytes.
pub const LEN: usize = 64;
/// The first eight bytes, big-endian: 0xF7 (top bit set, never text), "WEIRUDP".
pub const MAGIC: u64 = 0xf757_4549_5255_4450;
/// The version this code writes and reads.
pub const VERSION: u8 = 1;

/// The key of a session's control datagrams.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DatagramKey(SipKey);

impl core::fmt::Debug for DatagramKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // A key must not reach a log.
        f.write_str("DatagramKey(..)")
    }
}

impl DatagramKey {
    /// A key from its 16 bytes (little endian, as SipHash reads them).
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 16]) -> Self {
        Self(SipKey::from_bytes(bytes))
    }

    /// Derives the key of a session's control datagrams from the session's key: its two halves are
    /// SipHash-2-4(session key, "weir.udp" ‖ half as u32 LE), half = 0 and 1. It differs from every
    /// [`crate::header::TagKey`], so a data tag says nothing about a control tag.
    #[must_use]
    pub fn for_session(session_key: &[u8; 16]) -> Self {
        let session = SipKey::from_bytes(session_key);
        let label = u64::from_le_bytes(*b"weir.udp");
        let half = |n: u64| sip::<2, 4, 2>(session, [label, n | 12 << 56]);
        Self(SipKey { k0: half(0), k1: half(1) })
    }
}

/// Purpose of a control datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DatagramKind {
    /// A client opens a flow's UDP path and verifies its address on that 5-tuple.
    Hello = 1,
    /// The answer to [`DatagramKind::Hello`], echoing its sequence.
    HelloAck = 2,
    /// A receiver confirms that it still wants packets (every 500 ms; 2 s of silence stop the sender).
    Feedback = 3,
    /// A clock probe: t1 is its send time.
    Probe = 4,
    /// The answer to [`DatagramKind::Probe`]: t1 echoed, t2 its arrival, t3 the departure of the answer.
    ProbeReply = 5,
    /// The flow or session is unknown or no longer served.
    Refused = 6,
    /// A client opens the path of a transfer from a port of its own: the sequence is the transfer's number, t1 the sequence
    /// number of the flow's next datagram.
    Open = 7,
    /// The answer to [`DatagramKind::Open`], echoing its sequence.
    Opened = 8,
    /// The client has sent the transfer: t1 is the number of datagrams.
    End = 9,
    /// The answer to [`DatagramKind::End`]: t1 is the time since the last datagram arrived, t2 the number of datagrams that have
    /// arrived so far, t3 their payload bytes.
    Count = 10,
}

impl DatagramKind {
    fn from_u8(value: u8) -> Option<Self> {
        Some(match value {
            1 => Self::Hello,
            2 => Self::HelloAck,
            3 => Self::Feedback,
            4 => Self::Probe,
            5 => Self::ProbeReply,
            6 => Self::Refused,
            7 => Self::Open,
            8 => Self::Opened,
            9 => Self::End,
            10 => Self::Count,
            _ => return None,
        })
    }
}

/// One control datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlDatagram {
    /// Its purpose.
    pub kind: DatagramKind,
    /// Number of the flow in its session; 0 if the datagram concerns the session.
    pub flow: u32,
    /// The session's number.
    pub session: u64,
    /// Number of the request; a reply echoes it.
    pub sequence: u64,
    /// Departure of the request, ns of the requester's monotonic clock; 0 if the kind does not use it.
    pub t1_ns: u64,
    /// Arrival of the request, ns of the responder's monotonic clock; 0 if the kind does not use it.
    pub t2_ns: u64,
    /// Departure of the reply, ns of the responder's monotonic clock; 0 if the kind does not use it.
    pub t3_ns: u64,
}

/// Why bytes are not a valid control datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// The size is not [`LEN`].
    #[error("control datagram: {have} bytes, not {LEN}")]
    Size {
        /// Bytes that arrived.
        have: usize,
    },
    /// It does not begin with [`MAGIC`].
    #[error("control datagram: it does not begin with the magic number")]
    Magic,
    /// The version is not supported.
    #[error("control datagram: unsupported version {0}, expected {VERSION}")]
    Version(u8),
    /// The kind is unknown in this version.
    #[error("control datagram: unknown kind {0}")]
    Kind(u8),
    /// The tag does not match the session's key.
    #[error("control datagram: its tag does not match the session's key")]
    BadTag,
}

/// Whether bytes have the size and the magic number of a control datagram: a cheap first test for the
/// receive path.
#[inline]
#[must_use]
pub fn looks_like_control(bytes: &[u8]) -> bool {
    bytes.len() == LEN && bytes.first_chunk().is_some_and(|head| u64::from_be_bytes(*head) == MAGIC)
}

/// The session that a datagram claims to belong to, without verification, to look up the key for
/// [`ControlDatagram::decode`]; `None` unless it [`looks_like_control`].
#[inline]
#[must_use]
pub fn claimed_session(bytes: &[u8]) -> Option<u64> {
    if !looks_like_control(bytes) {
        return None;
    }
    let session = bytes.get(16..24)?;
    Some(u64::from_be_bytes(session.try_into().ok()?))
}

fn tag(key: DatagramKey, bytes: &[u8; LEN]) -> u64 {
    let mut words = [0; 8];
    for (word, chunk) in words.iter_mut().zip(bytes[..LEN - 8].as_chunks().0) {
        *word = u64::from_le_bytes(*chunk);
    }
    words[7] = 56 << 56;
    sip::<2, 4, 8>(key.0, words)
}

impl ControlDatagram {
    /// A datagram of `flow` without times or counts.
    #[must_use]
    pub fn new(kind: DatagramKind, session: u64, flow: u32, sequence: u64) -> Self {
        ControlDatagram { kind, flow, session, sequence, t1_ns: 0, t2_ns: 0, t3_ns: 0 }
    }

    /// The datagram's bytes under `key`.
    #[must_use]
    pub fn encode(&self, key: &DatagramKey) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[..8].copy_from_slice(&MAGIC.to_be_bytes());
        out[8] = VERSION;
        out[9] = self.kind as u8;
        out[12..16].copy_from_slice(&self.flow.to_be_bytes());
        let words = [self.session, self.sequence, self.t1_ns, self.t2_ns, self.t3_ns];
        for (chunk, word) in out[16..56].as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *chunk = word.to_be_bytes();
        }
        let tag = tag(*key, &out);
        out[56..].copy_from_slice(&tag.to_be_bytes());
        out
    }

    /// Reads and verifies a datagram.
    ///
    /// # Errors
    /// See [`DatagramError`]. The tag is checked before the kind, so that an unknown kind was sent by a
    /// holder of the key.
    pub fn decode(bytes: &[u8], key: &DatagramKey) -> Result<Self, DatagramError> {
        let bytes: &[u8; LEN] =
            bytes.try_into().map_err(|_| DatagramError::Size { have: bytes.len() })?;
        let (words, _) = bytes.as_chunks::<8>();
        let word = |i: usize| u64::from_be_bytes(words[i]);
        if word(0) != MAGIC {
            return Err(DatagramError::Magic);
        }
        if bytes[8] != VERSION {
            return Err(DatagramError::Version(bytes[8]));
        }
        if tag(*key, bytes) != word(7) {
            return Err(DatagramError::BadTag);
        }
        Ok(Self {
            kind: DatagramKind::from_u8(bytes[9]).ok_or(DatagramError::Kind(bytes[9]))?,
            flow: word(1) as u32,
            session: word(2),
            sequence: word(3),
            t1_ns: word(4),
            t2_ns: word(5),
            t3_ns: word(6),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::native::{self, HeaderLayout};
    use crate::header::{HeaderFields, TagKey};
    use proptest::prelude::*;

    fn key() -> DatagramKey {
        DatagramKey::for_session(b"0123456789abcdef")
    }

    fn sample(kind: DatagramKind) -> ControlDatagram {
        ControlDatagram { kind, flow: 1, session: 2, sequence: 3, t1_ns: 4, t2_ns: 5, t3_ns: 6 }
    }

    const KINDS: [DatagramKind; 10] = [
        DatagramKind::Hello,
        DatagramKind::HelloAck,
        DatagramKind::Feedback,
        DatagramKind::Probe,
        DatagramKind::ProbeReply,
        DatagramKind::Refused,
        DatagramKind::Open,
        DatagramKind::Opened,
        DatagramKind::End,
        DatagramKind::Count,
    ];

    #[test]
    fn bytes_on_the_wire() {
        use std::hash::Hasher;
        let bytes = sample(DatagramKind::Probe).encode(&key());
        assert_eq!(bytes[..16], *b"\xf7WEIRUDP\x01\x04\0\0\0\0\0\x01");
        for (i, at) in (16..56).step_by(8).enumerate() {
            assert_eq!(bytes[at..at + 8], (i as u64 + 2).to_be_bytes());
        }
        let mut hasher = siphasher::sip::SipHasher24::new_with_keys(key().0.k0, key().0.k1);
        hasher.write(&bytes[..56]);
        assert_eq!(bytes[56..], hasher.finish().to_be_bytes());
    }

    #[test]
    fn each_fault_has_its_error() {
        let good = sample(DatagramKind::Hello).encode(&key());
        assert_eq!(
            ControlDatagram::decode(&good[..63], &key()),
            Err(DatagramError::Size { have: 63 })
        );
        assert_eq!(ControlDatagram::decode(&[0; 64], &key()), Err(DatagramError::Magic));
        let mut bytes = good;
        bytes[8] = 9;
        assert_eq!(ControlDatagram::decode(&bytes, &key()), Err(DatagramError::Version(9)));
        let other = DatagramKey::for_session(&[0; 16]);
        assert_eq!(ControlDatagram::decode(&good, &other), Err(DatagramError::BadTag));
        let mut bytes = good;
        bytes[9] = 200;
        assert_eq!(ControlDatagram::decode(&bytes, &key()), Err(DatagramError::BadTag));
        let tag = tag(key(), &bytes);
        bytes[56..].copy_from_slice(&tag.to_be_bytes());
        assert_eq!(ControlDatagram::decode(&bytes, &key()), Err(DatagramError::Kind(200)));
    }

    #[test]
    fn data_is_never_taken_for_control() {
        let tag_key = TagKey::for_flow(&[1; 16], 0);
        for sequence in [0, 1, u64::from(u32::MAX), MAGIC >> 1, (1 << 63) - 1] {
            let mut packet = [0xf7; LEN];
            let fields = HeaderFields { sequence, ..HeaderFields::default() };
            native::encode(HeaderLayout::Full32, &tag_key, &fields, &mut packet);
            assert!(!looks_like_control(&packet), "sequence {sequence}");
        }
        const { assert!(MAGIC >> 63 == 1) };
    }

    proptest! {
        #[test]
        fn what_was_sent_is_read(flow: u32, words: [u64; 5], kind in 0usize..10, session_key: [u8; 16]) {
            let [session, sequence, t1_ns, t2_ns, t3_ns] = words;
            let sent = ControlDatagram { kind: KINDS[kind], flow, session, sequence, t1_ns, t2_ns, t3_ns };
            let key = DatagramKey::for_session(&session_key);
            let bytes = sent.encode(&key);
            prop_assert!(looks_like_control(&bytes));
            prop_assert_eq!(claimed_session(&bytes), Some(session));
            prop_assert_eq!(ControlDatagram::decode(&bytes, &key), Ok(sent));
        }

        #[test]
        fn any_flipped_bit_is_refused(bit in 0usize..512, kind in 0usize..10) {
            let mut bytes = sample(KINDS[kind]).encode(&key());
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(ControlDatagram::decode(&bytes, &key()).is_err());
        }
    }
}
