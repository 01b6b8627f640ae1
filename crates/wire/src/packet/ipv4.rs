//! IPv4 (RFC 791).

use super::{Fragment, Layer, PacketError, be16, need};
use crate::checksum::Sum;
use core::net::Ipv4Addr;

const MIN_LEN: usize = 20;

/// An IPv4 packet, truncated to its total length (an Ethernet frame may be padded).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4<'a> {
    bytes: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// Checks version and lengths; [`Self::header_checksum_ok`] checks the header checksum.
    ///
    /// A total length of 0 means all available bytes if there are more than 65 535: a super-packet of the
    /// host's segmentation offload, whose length does not fit the field.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let layer = Layer::Ipv4;
        let bad = |field, value| Err(PacketError::BadField { layer, field, value });
        need(layer, bytes, MIN_LEN)?;
        let version = bytes[0] >> 4;
        if version != 4 {
            return bad("version", version.into());
        }
        let header_len = usize::from(bytes[0] & 15) * 4;
        if header_len < MIN_LEN {
            return bad("header length", header_len as u32);
        }
        need(layer, bytes, header_len)?;
        let stated = usize::from(be16(bytes, 2));
        let total =
            if stated == 0 && bytes.len() > usize::from(u16::MAX) { bytes.len() } else { stated };
        if total < header_len {
            return bad("total length", total as u32);
        }
        need(layer, bytes, total)?;
        Ok(Self { bytes: &bytes[..total] })
    }

    /// The packet, without padding.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes of the header with its options, 20 to 60.
    #[must_use]
    pub fn header_len(&self) -> usize {
        usize::from(self.bytes[0] & 15) * 4
    }

    /// The options' bytes, not parsed.
    #[must_use]
    pub fn options(&self) -> &'a [u8] {
        &self.bytes[MIN_LEN..self.header_len()]
    }

    /// Differentiated services code point, 0 to 63.
    #[must_use]
    pub fn dscp(&self) -> u8 {
        self.bytes[1] >> 2
    }

    /// ECN field, 0 to 3 (RFC 3168).
    #[must_use]
    pub fn ecn(&self) -> u8 {
        self.bytes[1] & 3
    }

    /// Identification.
    #[must_use]
    pub fn id(&self) -> u16 {
        be16(self.bytes, 4)
    }

    /// The don't-fragment bit.
    #[must_use]
    pub fn dont_fragment(&self) -> bool {
        self.bytes[6] & 0x40 != 0
    }

    /// The position of this fragment; `None` for a whole datagram.
    #[must_use]
    pub fn fragment(&self) -> Option<Fragment> {
        let field = be16(self.bytes, 6);
        let (offset, more) = (u32::from(field & 0x1fff) * 8, field & 0x2000 != 0);
        (offset != 0 || more).then(|| Fragment { id: self.id().into(), offset, more })
    }

    /// Time to live.
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.bytes[8]
    }

    /// Protocol number of the payload.
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.bytes[9]
    }

    /// Whether the header's checksum is correct.
    #[must_use]
    pub fn header_checksum_ok(&self) -> bool {
        Sum::new().add_bytes(&self.bytes[..self.header_len()]).folded() == 0xffff
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from(super::be32(self.bytes, 12))
    }

    /// Destination address.
    #[must_use]
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from(super::be32(self.bytes, 16))
    }

    /// Bytes after the header, without padding.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len()..]
    }
}
