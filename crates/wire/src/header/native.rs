//! The native UDP data header, which grows with the payload.
//!
//! A datagram carries as much of the header as fits its payload: a two-byte datagram can still be counted,
//! and a full one has a time, a flow and a tag. All fields are big-endian.
//!
//! | payload bytes | layout | header |
//! | --- | --- | --- |
//! | 0 | [`HeaderLayout::Empty`] | none: counted by number only |
//! | 1 | [`HeaderLayout::Seq8`] | u8 sequence |
//! | 2–3 | [`HeaderLayout::Seq16`] | u16 sequence |
//! | 4–7 | [`HeaderLayout::Seq32`] | u32 sequence |
//! | 8–15 | [`HeaderLayout::Seq32Time32`] | u32 sequence, u32 send time (ns mod 2³²) |
//! | 16–31 | [`HeaderLayout::Tagged16`] | u32 sequence, u64 send time, u32 tag |
//! | 32 and more | [`HeaderLayout::Full32`] | u64 sequence, u64 send time, i32 lateness, u32 flow, u32 flags, u32 tag |
//!
//! The tag is the low 32 bits of SipHash-1-3 over all header bytes before it, under a key derived from the
//! session's key and the flow's number ([`TagKey::for_flow`]). The sequence number comes last, so that the datagrams of one
//! message, which share their other fields, share all but the end of the computation ([`Tags`]):
//!
//! - [`HeaderLayout::Tagged16`]: bytes 4–11, 0–3
//! - [`HeaderLayout::Full32`]: bytes 8–27, byte 0, three zero bytes, bytes 1–7
//!
//! A header whose tag does not match counts as corrupted, and its sequence number is not used.

use super::{
    Carries, Codec, DecodeError, Decoded, Epoch, HeaderFields, SendTime, TagKey, Tags, TimeField,
};
use crate::sip::sip;

/// Flag: the bytes after the header are seeded content that the receiver may verify.
pub const FLAG_VERIFY: u32 = 1;

/// Layout of the header, which depends on the size of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HeaderLayout {
    /// No header: the payload is empty.
    Empty,
    /// A u8 sequence number.
    Seq8,
    /// A u16 sequence number.
    Seq16,
    /// A u32 sequence number.
    Seq32,
    /// A u32 sequence number and the low 32 bits of the send time.
    Seq32Time32,
    /// A u32 sequence number, the send time and the tag.
    Tagged16,
    /// Everything in [`HeaderFields`], and the tag.
    Full32,
}

impl HeaderLayout {
    /// All layouts, narrowest first.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 7] = [
        Self::Empty,
        Self::Seq8,
        Self::Seq16,
        Self::Seq32,
        Self::Seq32Time32,
        Self::Tagged16,
        Self::Full32,
    ];

    /// The widest layout that fits a payload of `len` bytes.
    #[inline]
    #[must_use]
    pub const fn for_payload(len: usize) -> Self {
        match len {
            0 => Self::Empty,
            1 => Self::Seq8,
            2..=3 => Self::Seq16,
            4..=7 => Self::Seq32,
            8..=15 => Self::Seq32Time32,
            16..=31 => Self::Tagged16,
            _ => Self::Full32,
        }
    }

    /// Header size in bytes, 0 to 32.
    #[inline]
    #[must_use]
    pub(crate) const fn len(self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Seq8 => 1,
            Self::Seq16 => 2,
            Self::Seq32 => 4,
            Self::Seq32Time32 => 8,
            Self::Tagged16 => 16,
            Self::Full32 => 32,
        }
    }

    /// Width of the sequence number in bits: 0, 8, 16, 32 or 64. It wraps at that width.
    #[inline]
    #[must_use]
    pub(crate) const fn sequence_bits(self) -> u32 {
        match self {
            Self::Empty => 0,
            Self::Seq8 => 8,
            Self::Seq16 => 16,
            Self::Seq32 | Self::Seq32Time32 | Self::Tagged16 => 32,
            Self::Full32 => 64,
        }
    }

    /// Width of the send time in bits: 0, 32 or 64.
    #[inline]
    #[must_use]
    pub(crate) const fn time_bits(self) -> u32 {
        match self {
            Self::Empty | Self::Seq8 | Self::Seq16 | Self::Seq32 => 0,
            Self::Seq32Time32 => 32,
            Self::Tagged16 | Self::Full32 => 64,
        }
    }

    /// Whether the header ends with a keyed tag, so that its corruption is detected.
    #[inline]
    #[must_use]
    pub(crate) const fn has_tag(self) -> bool {
        matches!(self, Self::Tagged16 | Self::Full32)
    }
}

// The tags are computed from the fields in registers. SipHash reads bytes as little-endian words and the
// wire is big-endian, hence the swaps.

#[inline(always)]
fn tag16(tags: &Tags, sequence: u32, time: u64) -> u32 {
    let last = u64::from(sequence.swap_bytes()) | 12 << 56;
    sip::<1, 3, 2>(tags.key, [time.swap_bytes(), last]) as u32
}

#[inline(always)]
fn tag32(tags: &mut Tags, sequence: u64, time: u64, lateness_and_flow: u64, flags: u32) -> u32 {
    let shared = [
        time.swap_bytes(),
        lateness_and_flow.swap_bytes(),
        u64::from(flags.swap_bytes()) | (sequence >> 56) << 32,
    ];
    let last = sequence.swap_bytes() >> 8 | 31 << 56;
    tags.after(shared).after::<1, 1>([last]).finish::<3>() as u32
}

impl Codec for HeaderLayout {
    fn for_payload(payload: usize) -> Self {
        HeaderLayout::for_payload(payload)
    }

    fn carries(self) -> Carries {
        Carries {
            bytes: self.len(),
            sequence_bits: self.sequence_bits(),
            first_sequence: 0,
            time: (self.time_bits() > 0).then_some(TimeField {
                bits: self.time_bits(),
                resolution_ns: 1,
                epoch: Epoch::Monotonic,
            }),
            tag: self.has_tag(),
            untagged_bytes: 0,
        }
    }

    #[inline(always)]
    fn encode(self, tags: &mut Tags, fields: &HeaderFields, out: &mut [u8]) {
        write(self, tags, fields, out);
    }

    #[inline(always)]
    fn decode(self, tags: &mut Tags, payload: &[u8]) -> Result<Decoded, DecodeError> {
        read(self, tags, payload)
    }
}

/// Sequence and flow of a [`HeaderLayout::Full32`] header without a check of its tag, for observers without
/// the key.
#[must_use]
pub fn peek(payload: &[u8]) -> Option<(u64, u32)> {
    let head = payload.first_chunk::<32>()?;
    let sequence = u64::from_be_bytes(*head.first_chunk()?);
    Some((sequence, u32::from_be_bytes(*head[20..].first_chunk()?)))
}

/// Writes the header of `layout` to the start of `out`; the rest is unchanged. Narrow fields carry the low
/// bits of the wide ones.
///
/// # Panics
/// If `out` is shorter than the header: the caller chose the layout by the payload's size
/// ([`HeaderLayout::for_payload`]).
pub fn encode(layout: HeaderLayout, key: &TagKey, fields: &HeaderFields, out: &mut [u8]) {
    write(layout, &mut Tags::new(key), fields, out);
}

// Inlined, because it is called for each segment of a super-packet: a call and its spills cost as much as
// the tag.
#[inline(always)]
fn write(layout: HeaderLayout, tags: &mut Tags, fields: &HeaderFields, out: &mut [u8]) {
    let out = &mut out[..layout.len()];
    match layout {
        HeaderLayout::Empty => {}
        HeaderLayout::Seq8 => out[0] = fields.sequence as u8,
        HeaderLayout::Seq16 => out.copy_from_slice(&(fields.sequence as u16).to_be_bytes()),
        HeaderLayout::Seq32 => out.copy_from_slice(&(fields.sequence as u32).to_be_bytes()),
        HeaderLayout::Seq32Time32 => {
            out[..4].copy_from_slice(&(fields.sequence as u32).to_be_bytes());
            out[4..].copy_from_slice(&(fields.send_time_ns as u32).to_be_bytes());
        }
        HeaderLayout::Tagged16 => {
            let sequence = fields.sequence as u32;
            let tag = tag16(tags, sequence, fields.send_time_ns);
            out[..4].copy_from_slice(&sequence.to_be_bytes());
            out[4..12].copy_from_slice(&fields.send_time_ns.to_be_bytes());
            out[12..].copy_from_slice(&tag.to_be_bytes());
        }
        HeaderLayout::Full32 => {
            let mixed = u64::from(fields.lateness_ns as u32) << 32 | u64::from(fields.flow);
            let tag = tag32(tags, fields.sequence, fields.send_time_ns, mixed, fields.flags);
            out[..8].copy_from_slice(&fields.sequence.to_be_bytes());
            out[8..16].copy_from_slice(&fields.send_time_ns.to_be_bytes());
            out[16..24].copy_from_slice(&mixed.to_be_bytes());
            out[24..28].copy_from_slice(&fields.flags.to_be_bytes());
            out[28..].copy_from_slice(&tag.to_be_bytes());
        }
    }
}

/// Reads the header of `layout` from the start of `payload`; the rest is ignored.
///
/// The layout is that of the flow (by the agreed payload size), not of the arrived packet, so that a truncated packet is
/// detected.
///
/// # Errors
/// [`DecodeError::Truncated`] if `payload` is shorter than the header, [`DecodeError::BadTag`] if the
/// layout has a tag and it does not match.
pub fn decode(layout: HeaderLayout, key: &TagKey, payload: &[u8]) -> Result<Decoded, DecodeError> {
    read(layout, &mut Tags::new(key), payload)
}

#[inline(always)]
fn read(layout: HeaderLayout, tags: &mut Tags, payload: &[u8]) -> Result<Decoded, DecodeError> {
    let truncated = || DecodeError::Truncated { have: payload.len(), need: layout.len() };
    let none = Decoded::EMPTY;
    match layout {
        HeaderLayout::Empty => Ok(none),
        HeaderLayout::Seq8 => {
            let head = payload.first_chunk::<1>().ok_or_else(truncated)?;
            Ok(Decoded { sequence: head[0].into(), ..none })
        }
        HeaderLayout::Seq16 => {
            let head = payload.first_chunk::<2>().ok_or_else(truncated)?;
            Ok(Decoded { sequence: u16::from_be_bytes(*head).into(), ..none })
        }
        HeaderLayout::Seq32 => {
            let head = payload.first_chunk::<4>().ok_or_else(truncated)?;
            Ok(Decoded { sequence: u32::from_be_bytes(*head).into(), ..none })
        }
        HeaderLayout::Seq32Time32 => {
            let head = u64::from_be_bytes(*payload.first_chunk::<8>().ok_or_else(truncated)?);
            Ok(Decoded {
                sequence: head >> 32,
                send_time: Some(SendTime::Low32(head as u32)),
                ..none
            })
        }
        HeaderLayout::Tagged16 => {
            let head = u128::from_be_bytes(*payload.first_chunk::<16>().ok_or_else(truncated)?);
            let (sequence, time, tag) = ((head >> 96) as u32, (head >> 32) as u64, head as u32);
            if tag16(tags, sequence, time) != tag {
                return Err(DecodeError::BadTag);
            }
            Ok(Decoded { sequence: sequence.into(), send_time: Some(SendTime::Full(time)), ..none })
        }
        HeaderLayout::Full32 => {
            let head = payload.first_chunk::<32>().ok_or_else(truncated)?;
            let word = |at: usize| {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&head[at..at + 8]);
                u64::from_be_bytes(bytes)
            };
            let (sequence, time, mixed, last) = (word(0), word(8), word(16), word(24));
            let flags = (last >> 32) as u32;
            if tag32(tags, sequence, time, mixed, flags) != last as u32 {
                return Err(DecodeError::BadTag);
            }
            Ok(Decoded {
                sequence,
                send_time: Some(SendTime::Full(time)),
                lateness_ns: Some((mixed >> 32) as u32 as i32),
                flow: Some(mixed as u32),
                flags: Some(flags),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> TagKey {
        TagKey::for_flow(b"0123456789abcdef", 3)
    }

    #[test]
    fn the_layout_is_the_widest_that_fits() {
        for len in 0..70_000 {
            let layout = HeaderLayout::for_payload(len);
            let widest = HeaderLayout::ALL.into_iter().rfind(|l| l.len() <= len).unwrap();
            assert_eq!(layout, widest, "payload {len}");
        }
    }

    #[test]
    fn bytes_on_the_wire() {
        let fields = HeaderFields {
            sequence: 0x0102_0304_0506_0708,
            send_time_ns: 0x1112_1314_1516_1718,
            lateness_ns: -2,
            flow: 0x2122_2324,
            flags: FLAG_VERIFY,
        };
        let mut out = [0xee; 40];
        encode(HeaderLayout::Full32, &key(), &fields, &mut out);
        let mut want = vec![1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];
        want.extend([0xff, 0xff, 0xff, 0xfe, 0x21, 0x22, 0x23, 0x24, 0, 0, 0, 1]);
        assert_eq!(out[..28], want);
        assert_eq!(out[32..], [0xee; 8], "bytes after the header are unchanged");
        // The tag is SipHash-1-3 of the bytes on the wire, the number last.
        let tagged = [&out[8..28], &[1, 0, 0, 0], &out[1..8]].concat();
        assert_eq!(out[28..32], reference_tag(&tagged));

        encode(HeaderLayout::Tagged16, &key(), &fields, &mut out);
        assert_eq!(out[..4], [5, 6, 7, 8]);
        assert_eq!(out[4..12], want[8..16]);
        assert_eq!(out[12..16], reference_tag(&[&out[4..12], &out[..4]].concat()));

        encode(HeaderLayout::Seq32Time32, &key(), &fields, &mut out);
        assert_eq!(out[..8], [5, 6, 7, 8, 0x15, 0x16, 0x17, 0x18]);
        encode(HeaderLayout::Seq16, &key(), &fields, &mut out);
        assert_eq!(out[..2], [7, 8]);
        encode(HeaderLayout::Seq8, &key(), &fields, &mut out);
        assert_eq!(out[..2], [8, 8]);
    }

    fn reference_tag(bytes: &[u8]) -> [u8; 4] {
        use std::hash::Hasher;
        let [k0, k1] = key().words();
        let mut hasher = siphasher::sip::SipHasher13::new_with_keys(k0, k1);
        hasher.write(bytes);
        (hasher.finish() as u32).to_be_bytes()
    }

    #[test]
    fn the_key_derivation_as_documented() {
        use std::hash::Hasher;
        let half = |n: u32| {
            let mut hasher = siphasher::sip::SipHasher24::new_with_key(b"0123456789abcdef");
            let mut message = b"weir.tag".to_vec();
            message.extend(3u32.to_le_bytes());
            message.extend(n.to_le_bytes());
            hasher.write(&message);
            hasher.finish()
        };
        let [k0, k1] = key().words();
        assert_eq!((k0, k1), (half(0), half(1)));
        assert_eq!(format!("{:?}", key()), "TagKey(..)");
    }

    #[test]
    fn a_header_of_another_flow_or_session_is_corrupted() {
        for layout in [HeaderLayout::Tagged16, HeaderLayout::Full32] {
            let mut out = [0; 32];
            encode(layout, &key(), &HeaderFields::default(), &mut out);
            for other in [TagKey::for_flow(b"0123456789abcdef", 4), TagKey::for_flow(&[0; 16], 3)] {
                assert_eq!(decode(layout, &other, &out), Err(DecodeError::BadTag));
            }
        }
    }

    fn fields() -> impl Strategy<Value = HeaderFields> {
        any::<(u64, u64, i32, u32, u32)>().prop_map(
            |(sequence, send_time_ns, lateness_ns, flow, flags)| HeaderFields {
                sequence,
                send_time_ns,
                lateness_ns,
                flow,
                flags,
            },
        )
    }

    proptest! {
        #[test]
        fn what_was_sent_is_read(fields in fields(), session: [u8; 16], len in 0usize..80) {
            let layout = HeaderLayout::for_payload(len);
            let key = TagKey::for_flow(&session, fields.flow);
            let mut out = vec![0; len];
            encode(layout, &key, &fields, &mut out);
            let got = decode(layout, &key, &out).unwrap();
            let bits = layout.sequence_bits();
            let mask = if bits == 0 { 0 } else { u64::MAX >> (64 - bits) };
            prop_assert_eq!(got.sequence, fields.sequence & mask);
            let time = match layout.time_bits() {
                0 => None,
                32 => Some(SendTime::Low32(fields.send_time_ns as u32)),
                _ => Some(SendTime::Full(fields.send_time_ns)),
            };
            prop_assert_eq!(got.send_time, time);
            let full = layout == HeaderLayout::Full32;
            prop_assert_eq!(got.lateness_ns, full.then_some(fields.lateness_ns));
            prop_assert_eq!(got.flow, full.then_some(fields.flow));
            prop_assert_eq!(got.flags, full.then_some(fields.flags));
        }

        #[test]
        fn a_message_s_headers_are_those_of_its_datagrams_alone(
            all in prop::collection::vec((0u64..3, 0u64..2, 0u64..2, 0u32..2), 1..20),
        ) {
            let key = key();
            let (mut tags, mut reader) = (Tags::new(&key), Tags::new(&key));
            for (top, sequence, send_time_ns, flags) in all {
                let sequence = top << 55 | sequence;
                let fields = HeaderFields { sequence, send_time_ns, flags, ..HeaderFields::default() };
                for layout in [HeaderLayout::Tagged16, HeaderLayout::Full32] {
                    let (mut alone, mut together) = ([0; 32], [0; 32]);
                    encode(layout, &key, &fields, &mut alone);
                    layout.encode(&mut tags, &fields, &mut together);
                    prop_assert_eq!(alone, together);
                    prop_assert_eq!(layout.decode(&mut reader, &alone), decode(layout, &key, &alone));
                    alone[1] ^= 1;
                    prop_assert_eq!(layout.decode(&mut reader, &alone), Err(DecodeError::BadTag));
                }
            }
        }

        #[test]
        fn any_flipped_bit_is_detected(fields in fields(), bit in 0usize..256) {
            for layout in [HeaderLayout::Tagged16, HeaderLayout::Full32] {
                let bit = bit % (layout.len() * 8);
                let mut out = [0; 32];
                encode(layout, &key(), &fields, &mut out);
                out[bit / 8] ^= 1 << (bit % 8);
                prop_assert_eq!(decode(layout, &key(), &out), Err(DecodeError::BadTag));
            }
        }

        #[test]
        fn a_short_payload_is_truncated(len in 0usize..32) {
            for layout in HeaderLayout::ALL {
                let got = decode(layout, &key(), &vec![0; len]);
                if len < layout.len() {
                    prop_assert_eq!(got, Err(DecodeError::Truncated { have: len, need: layout.len() }));
                } else {
                    let cut = matches!(got, Err(DecodeError::Truncated { .. }));
                    prop_assert!(!cut);
                }
            }
        }
    }
}
