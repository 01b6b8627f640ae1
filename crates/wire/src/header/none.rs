//! No header: the payload is content from its first byte. Only the numbers of received and lost datagrams
//! are known.

use super::{Carries, Codec, DecodeError, Decoded, HeaderFields, Tags};

/// A format without a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NoHeader;

impl Codec for NoHeader {
    fn for_payload(_: usize) -> Self {
        NoHeader
    }

    fn carries(self) -> Carries {
        Carries {
            bytes: 0,
            sequence_bits: 0,
            first_sequence: 0,
            time: None,
            tag: false,
            untagged_bytes: 0,
        }
    }

    #[inline(always)]
    fn encode(self, _: &mut Tags, _: &HeaderFields, _: &mut [u8]) {}

    #[inline(always)]
    fn decode(self, _: &mut Tags, _: &[u8]) -> Result<Decoded, DecodeError> {
        Ok(Decoded::EMPTY)
    }
}
