//! IPv6 and its extension headers (RFC 8200).

use super::{Fragment, Layer, PacketError, be16, be32, need};
use core::net::Ipv6Addr;

const HEADER_LEN: usize = 40;
const DESTINATION_AT: usize = 24;
const ADDRESS_LEN: usize = 16;
/// Maximum number of extension headers in a packet.
pub const MAX_EXTENSION_HEADERS: usize = 16;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const HIP: u8 = 139;
const SHIM6: u8 = 140;

/// An IPv6 packet, truncated to its payload length (an Ethernet frame may be padded).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6<'a> {
    bytes: &'a [u8],
    protocol: u8,
    payload_at: usize,
    final_destination_at: usize,
    fragment: Option<Fragment>,
}

impl<'a> Ipv6<'a> {
    /// Checks version and lengths, and parses the extension headers up to the transport, an unknown header
    /// (such as ESP), or the data of a later fragment.
    ///
    /// A payload length of 0 means all available bytes if there are more than 65 535: a jumbogram (RFC
    /// 2675) or a super-packet of the host's segmentation offload.
    ///
    /// # Errors
    /// [`PacketError`]; [`PacketError::TooDeep`] for more than [`MAX_EXTENSION_HEADERS`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let layer = Layer::Ipv6;
        need(layer, bytes, HEADER_LEN)?;
        let version = bytes[0] >> 4;
        if version != 6 {
            return Err(PacketError::BadField { layer, field: "version", value: version.into() });
        }
        let stated = usize::from(be16(bytes, 4));
        let available = bytes.len() - HEADER_LEN;
        let len = if stated == 0 && available > usize::from(u16::MAX) { available } else { stated };
        need(layer, bytes, HEADER_LEN + len)?;
        let bytes = &bytes[..HEADER_LEN + len];
        let mut view = Self {
            bytes,
            protocol: bytes[6],
            payload_at: HEADER_LEN,
            final_destination_at: DESTINATION_AT,
            fragment: None,
        };
        for _ in 0..=MAX_EXTENSION_HEADERS {
            if !view.step()? {
                return Ok(view);
            }
        }
        Err(PacketError::TooDeep { layer, limit: MAX_EXTENSION_HEADERS })
    }

    /// Skips one extension header; `false` if there is none.
    fn step(&mut self) -> Result<bool, PacketError> {
        let at = self.payload_at;
        let unit = match self.protocol {
            HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY | HIP | SHIM6 | FRAGMENT => 8,
            AUTHENTICATION => 4, // RFC 4302 §2.2: 32-bit words minus 2.
            _ => return Ok(false),
        };
        need(Layer::Ipv6, self.bytes, at + 8)?;
        let len = match self.protocol {
            FRAGMENT => 8,
            AUTHENTICATION => (usize::from(self.bytes[at + 1]) + 2) * unit,
            _ => (usize::from(self.bytes[at + 1]) + 1) * unit,
        };
        // The minimum authentication header has the eight bytes checked above.
        need(Layer::Ipv6, self.bytes, at + len)?;
        if self.protocol == ROUTING {
            self.route(at, len);
        }
        let is_fragment = self.protocol == FRAGMENT;
        self.protocol = self.bytes[at];
        self.payload_at = at + len;
        if is_fragment {
            let field = be16(self.bytes, at + 2);
            let (offset, more) = (u32::from(field & 0xfff8), field & 1 != 0);
            // RFC 6946: an atomic fragment (offset 0, no more) is a whole packet.
            if offset != 0 || more {
                self.fragment = Some(Fragment { id: be32(self.bytes, at + 4), offset, more });
            }
            return Ok(offset == 0);
        }
        Ok(true)
    }

    /// Finds the final destination in the routing header of `len` bytes at `at`.
    fn route(&mut self, at: usize, len: usize) {
        let (kind, segments_left) = (self.bytes[at + 2], self.bytes[at + 3]);
        if segments_left == 0 || len < 8 + ADDRESS_LEN {
            return;
        }
        match kind {
            // RFC 5095, RFC 6275 section 6.4: in the order of the path.
            0 | 2 => self.final_destination_at = at + len - ADDRESS_LEN,
            // RFC 8754 section 2: in reverse order, options behind them.
            4 => self.final_destination_at = at + 8,
            _ => {}
        }
    }

    /// The packet, without padding.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Differentiated services code point, 0 to 63.
    #[must_use]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// ECN field, 0 to 3 (RFC 3168).
    #[must_use]
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    fn traffic_class(&self) -> u8 {
        self.bytes[0] << 4 | self.bytes[1] >> 4
    }

    /// Flow label, 20 bits.
    #[must_use]
    pub fn flow_label(&self) -> u32 {
        be32(self.bytes, 0) & 0x000f_ffff
    }

    /// Hop limit.
    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        self.bytes[7]
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> Ipv6Addr {
        self.address(8)
    }

    /// Destination address of the fixed header; with a routing header the final destination may differ.
    #[must_use]
    pub fn destination(&self) -> Ipv6Addr {
        self.address(DESTINATION_AT)
    }

    /// The final destination, which checksums cover (RFC 8200 section 8.1): the last address of a routing header with
    /// segments left (types 0, 2 and 4), else the destination of the fixed header.
    #[must_use]
    pub fn final_destination(&self) -> Ipv6Addr {
        self.address(self.final_destination_at)
    }

    /// Offset of the final destination in the packet, bytes.
    #[must_use]
    pub fn final_destination_at(&self) -> usize {
        self.final_destination_at
    }

    fn address(&self, at: usize) -> Ipv6Addr {
        Ipv6Addr::from_octets(core::array::from_fn(|i| self.bytes[at + i]))
    }

    /// Protocol number of the first header that is not a supported extension header.
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// The position of this fragment; `None` for a whole packet.
    #[must_use]
    pub fn fragment(&self) -> Option<Fragment> {
        self.fragment
    }

    /// Bytes of the fixed header and the extension headers.
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.payload_at
    }

    /// Bytes after the extension headers, without padding.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.payload_at..]
    }
}
