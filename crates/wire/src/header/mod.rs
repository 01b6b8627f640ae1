//! The data header of a flow's datagrams, in the format that its plan names.
//!
//! A format is one file here: a [`Codec`]. It declares the contents of its header ([`Carries`]); accounting
//! uses that and [`Decoded`], and never a layout. A new format needs its file, its `mod` line and its line
//! in `formats!` here, and its name in [`weir_model::plan::HeaderFormat`].

pub mod ditg;
pub mod iperf2;
mod iperf3;
pub mod mgen;
mod microseconds;
pub mod native;
mod none;
pub mod nuttcp;
mod rtp;
pub mod stamp;

use weir_model::plan::HeaderFormat;

use crate::hmac::HmacKey;
use crate::sip::{SipKey, SipState, sip};

/// The sender's information about a datagram. A narrow header carries less of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderFields {
    /// Number of the datagram in its flow, from 0. Stays below 2⁶³.
    pub sequence: u64,
    /// Actual send time: the sender's monotonic clock, in ns.
    pub send_time_ns: u64,
    /// Actual minus intended send time in ns, clamped by the sender to the range of the type (±2.1 s).
    pub lateness_ns: i32,
    /// Number of the flow in its session.
    pub flow: u32,
    /// Bits such as [`native::FLAG_VERIFY`]; unknown bits are forwarded and ignored.
    pub flags: u32,
}

/// The send time in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendTime {
    /// The whole time, ns.
    Full(u64),
    /// The time in ns mod 2³² (wraps every 4.3 s); the clock fit unwraps it.
    Low32(u32),
    /// The time of the UTC day in ns, below [`ditg::DAY_NS`]: it starts again at midnight.
    OfDay(u64),
}

/// A decoded header. A field that the header does not carry is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The sequence number from 0, [`Carries::sequence_bits`] wide; 0 if there is none.
    pub sequence: u64,
    /// The send time.
    pub send_time: Option<SendTime>,
    /// Actual minus intended send time in ns.
    pub lateness_ns: Option<i32>,
    /// Number of the flow.
    pub flow: Option<u32>,
    /// Bits such as [`native::FLAG_VERIFY`].
    pub flags: Option<u32>,
}

impl Decoded {
    /// A header without any field.
    pub(crate) const EMPTY: Self =
        Decoded { sequence: 0, send_time: None, lateness_ns: None, flow: None, flags: None };
}

/// Why a header was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The payload is shorter than the header of its flow.
    #[error("data header truncated: {have} of {need} bytes arrived")]
    Truncated {
        /// Bytes that arrived.
        have: usize,
        /// Bytes of the header.
        need: usize,
    },
    /// The keyed tag does not match: the header was corrupted or belongs to another session or flow.
    #[error("data header corrupted: its tag does not match")]
    BadTag,
    /// The header has a value that no sender of its format writes.
    #[error("data header malformed")]
    Malformed,
}

/// Contents of a flow's header. A figure that needs more is absent from the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carries {
    /// Header size in bytes.
    pub bytes: usize,
    /// Width of the sequence number in bits, 0 (none) to 64. It wraps at that width.
    pub sequence_bits: u32,
    /// The number of the first datagram.
    pub first_sequence: u64,
    /// The send time; `None` if it is not carried.
    pub time: Option<TimeField>,
    /// Whether a keyed tag protects the header, so that corruption is detected.
    pub tag: bool,
    /// Bytes at the start that the tag does not cover: a foreign header, which middleboxes rewrite.
    pub untagged_bytes: usize,
}

/// A send time in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeField {
    /// Width in bits of the time in ns: 32 (wraps every 4.3 s) or 64.
    pub bits: u32,
    /// Resolution in ns.
    pub resolution_ns: u32,
    /// Its epoch.
    pub epoch: Epoch,
}

/// Epoch of a header's send times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epoch {
    /// The sender's monotonic clock, which the session relates to the receiver's: one-way delay is defined.
    Monotonic,
    /// The sender's realtime clock, whose relation to the receiver's is unknown: only differences have a meaning.
    Realtime,
    /// Midnight (UTC) by the sender's realtime clock, likewise.
    Midnight,
    /// The format does not define it: only differences have a meaning, such as jitter's.
    Undefined,
}

/// A header format: one layout for each payload size that it distinguishes.
pub trait Codec: Copy {
    /// The header for datagrams with a payload of at least `payload` bytes.
    fn for_payload(payload: usize) -> Self;

    /// What the header carries.
    fn carries(self) -> Carries;

    /// Bytes at the end of the datagram that the format has as well: a checksum.
    fn trailer_bytes(self) -> usize {
        0
    }

    /// Writes the header into the first [`Carries::bytes`] bytes of `out`, which is the whole datagram, and the trailer into its
    /// last bytes; the rest is unchanged. Narrow fields carry the low bits of the wide ones.
    ///
    /// # Panics
    /// If `out` is shorter than the header.
    fn encode(self, tags: &mut Tags, fields: &HeaderFields, out: &mut [u8]);

    /// Reads the header from the start of `payload`.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if `payload` is shorter than the header, [`DecodeError::BadTag`] if the header has a tag
    /// and it does not match.
    fn decode(self, tags: &mut Tags, payload: &[u8]) -> Result<Decoded, DecodeError>;
}

/// Work on datagrams of one flow, compiled for each codec so that their headers need no branch and no call.
pub trait WithCodec {
    /// Result of the work.
    type Output;

    /// Does the work.
    fn with<C: Codec>(self, codec: C) -> Self::Output;
}

/// Registers the codecs under the names of [`HeaderFormat`].
macro_rules! formats {
    ($($variant:ident: $codec:ty,)*) => {
        /// The header of one flow. Each call selects the codec; [`Header::dispatch`] does so once for a batch.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "named by HeaderFormat")]
        pub enum Header {
            $($variant($codec),)*
        }

        impl Header {
            /// The header for a flow with payloads of at least `payload` bytes.
            #[must_use]
            pub fn new(format: HeaderFormat, payload: usize) -> Self {
                match format {
                    $(HeaderFormat::$variant => Self::$variant(Codec::for_payload(payload)),)*
                }
            }

            /// The contents of the header.
            #[inline]
            #[must_use]
            pub fn carries(self) -> Carries {
                match self {
                    $(Self::$variant(codec) => codec.carries(),)*
                }
            }

            /// See [`Codec::trailer_bytes`].
            #[must_use]
            pub fn trailer_bytes(self) -> usize {
                match self {
                    $(Self::$variant(codec) => codec.trailer_bytes(),)*
                }
            }

            /// Does work with the codec of this header.
            #[inline]
            pub fn dispatch<W: WithCodec>(self, work: W) -> W::Output {
                match self {
                    $(Self::$variant(codec) => work.with(codec),)*
                }
            }

            /// See [`Codec::encode`].
            ///
            /// # Panics
            /// If `out` is shorter than the header.
            pub fn encode(self, key: &TagKey, fields: &HeaderFields, out: &mut [u8]) {
                match self {
                    $(Self::$variant(codec) => codec.encode(&mut Tags::new(key), fields, out),)*
                }
            }

            /// See [`Codec::decode`].
            ///
            /// # Errors
            /// [`DecodeError`], as there.
            pub fn decode(self, key: &TagKey, payload: &[u8]) -> Result<Decoded, DecodeError> {
                match self {
                    $(Self::$variant(codec) => codec.decode(&mut Tags::new(key), payload),)*
                }
            }
        }
    };
}

formats! {
    Native: native::HeaderLayout,
    None: none::NoHeader,
    Ditg: ditg::Ditg,
    DitgShort: ditg::DitgShort,
    Iperf2: iperf2::Iperf2,
    Iperf2Narrow: iperf2::Iperf2Narrow,
    Iperf3: iperf3::Iperf3,
    Iperf3Wide: iperf3::Iperf3Wide,
    Mgen: mgen::Mgen,
    MgenChecked: mgen::MgenChecked,
    Nuttcp: nuttcp::Nuttcp,
    Rtp: rtp::Rtp,
    Stamp: stamp::Stamp<false>,
    StampHmac: stamp::Stamp<true>,
}

/// The 128-bit key of one flow's tags, and the key of its HMACs.
#[derive(Clone)]
pub struct TagKey {
    sip: SipKey,
    hmac: Option<HmacKey>,
}

impl core::fmt::Debug for TagKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // A key must not reach a log.
        f.write_str("TagKey(..)")
    }
}

impl TagKey {
    /// A key from its 16 bytes (little endian, as SipHash reads them).
    #[cfg(test)]
    pub(crate) fn from_bytes(bytes: &[u8; 16]) -> Self {
        Self::of(SipKey::from_bytes(bytes))
    }

    fn of(sip: SipKey) -> Self {
        Self { sip, hmac: None }
    }

    /// With a key of its own for headers with an HMAC; without one, they are made with this key's 16 bytes.
    #[must_use]
    pub fn with_hmac(self, hmac: HmacKey) -> Self {
        Self { hmac: Some(hmac), ..self }
    }

    /// The two words of the key, for a program that computes tags itself.
    #[must_use]
    pub fn words(&self) -> [u64; 2] {
        [self.sip.k0, self.sip.k1]
    }

    /// Derives the key of flow number `flow` from the session's key: its two halves are
    /// SipHash-2-4(session key, "weir.tag" ‖ flow as u32 LE ‖ half as u32 LE), half = 0 and 1.
    ///
    /// Flows have keys of their own, so that a packet of one flow can't be mistaken for another's.
    #[must_use]
    pub fn for_flow(session_key: &[u8; 16], flow: u32) -> Self {
        let session = SipKey::from_bytes(session_key);
        let label = u64::from_le_bytes(*b"weir.tag");
        let half = |n: u64| sip::<2, 4, 3>(session, [label, u64::from(flow) | n << 32, 16 << 56]);
        Self::of(SipKey { k0: half(0), k1: half(1) })
    }
}

/// Computes the tags of one flow's datagrams. It remembers the part of the computation that datagrams of one message share.
pub struct Tags<'k> {
    key: SipKey,
    hmac: Option<&'k HmacKey>,
    shared: Option<[u64; 3]>,
    state: SipState,
}

impl<'k> Tags<'k> {
    /// For the datagrams of the flow with this key.
    #[inline]
    #[must_use]
    pub fn new(key: &'k TagKey) -> Self {
        let TagKey { sip, hmac } = key;
        Self { key: *sip, hmac: hmac.as_ref(), shared: None, state: SipState::new(*sip) }
    }

    /// The key of HMACs: the one that was given, else that of the tags.
    fn hmac(&self) -> HmacKey {
        let SipKey { k0, k1 } = self.key;
        let own = || HmacKey::new([k0, k1].map(u64::to_le_bytes).as_flattened());
        self.hmac.cloned().unwrap_or_else(own)
    }

    /// The state after the words that datagrams share.
    #[inline(always)]
    fn after(&mut self, shared: [u64; 3]) -> SipState {
        if self.shared != Some(shared) {
            self.shared = Some(shared);
            self.state = SipState::new(self.key).after::<1, 3>(shared);
        }
        self.state
    }
}

/// Tags of some key, for headers without tags.
#[cfg(test)]
fn tags() -> Tags<'static> {
    static KEY: std::sync::LazyLock<TagKey> =
        std::sync::LazyLock::new(|| TagKey::from_bytes(&[0; 16]));
    Tags::new(&KEY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn formats() -> impl Strategy<Value = HeaderFormat> {
        proptest::sample::select(HeaderFormat::ALL)
    }

    fn fields() -> impl Strategy<Value = HeaderFields> {
        any::<(u64, u64, i32, u32, u32)>().prop_map(|(sequence, time, lateness_ns, flow, flags)| {
            HeaderFields {
                sequence: sequence >> 1,
                // 136 years, the range of 32-bit seconds.
                send_time_ns: time % (u64::from(u32::MAX) * 1_000_000_000),
                lateness_ns,
                flow,
                flags,
            }
        })
    }

    #[test]
    fn every_format_fits_its_minimum_payload() {
        for format in HeaderFormat::ALL {
            let least = usize::try_from(format.min_payload_bytes()).unwrap();
            for payload in [least, least + 1, least.max(64), 1472, 65_507] {
                let carries = Header::new(*format, payload).carries();
                let header = Header::new(*format, payload);
                assert!(carries.bytes + header.trailer_bytes() <= payload, "{format} {payload}");
                let numbered = format.numbered() && payload > 0;
                assert_eq!(carries.sequence_bits > 0, numbered, "{format} {payload}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_format_decodes_its_encoding(
            format in formats(),
            fields in fields(),
            extra in 0usize..100,
            fill: u8,
        ) {
            let payload = format.min_payload_bytes() as usize + extra;
            let header = Header::new(format, payload);
            let carries = header.carries();
            let key = TagKey::for_flow(&[7; 16], 1);
            let mut out = vec![fill; payload];
            header.encode(&key, &fields, &mut out);
            let content = &out[carries.bytes..payload - header.trailer_bytes()];
            prop_assert!(content.iter().all(|b| *b == fill), "beyond the header");
            let got = header.decode(&key, &out).unwrap();
            let mask = |bits: u32| if bits == 0 { 0 } else { u64::MAX >> (64 - bits) };
            prop_assert_eq!(got.sequence, fields.sequence & mask(carries.sequence_bits));
            let read = got.send_time.map(|time| match time {
                SendTime::Full(ns) | SendTime::OfDay(ns) => ns,
                SendTime::Low32(ns) => ns.into(),
            });
            let sent = carries.time.map(|time| {
                let resolution = u64::from(time.resolution_ns);
                let whole = match time.epoch {
                    Epoch::Midnight => fields.send_time_ns % ditg::DAY_NS,
                    _ => fields.send_time_ns,
                };
                (whole / resolution * resolution) & mask(time.bits)
            });
            prop_assert_eq!(read, sent);
            // A format without a flow field has no flow.
            prop_assert!(got.flow.is_none_or(|flow| flow == fields.flow));
            for have in 0..carries.bytes {
                let need = carries.bytes;
                prop_assert_eq!(
                    header.decode(&key, &out[..have]),
                    Err(DecodeError::Truncated { have, need })
                );
            }
        }
    }
}
