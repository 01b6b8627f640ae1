//! Ethernet II with stacked VLAN tags (IEEE 802.1Q, 802.1ad).

use super::{Layer, PacketError, be16, need};

/// Supported EtherTypes.
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// Customer VLAN tag (802.1Q).
    pub const VLAN: u16 = 0x8100;
    /// Service VLAN tag (802.1ad).
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// The service tag of equipment older than 802.1ad.
    pub const OLD_SERVICE_VLAN: u16 = 0x9100;
}

/// Maximum number of VLAN tags in a frame.
pub const MAX_VLAN_TAGS: usize = 8;

const ADDRESSES_LEN: usize = 12;
const TAG_LEN: usize = 4;

/// One VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VlanTag {
    /// The tag's own EtherType: [`ethertype::VLAN`] or a service tag's.
    pub ethertype: u16,
    /// Priority code point, 0 to 7.
    pub priority: u8,
    /// Drop eligible indicator.
    pub drop_eligible: bool,
    /// VLAN identifier, 0 to 4095.
    pub id: u16,
}

/// An Ethernet II frame, without preamble and check sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet<'a> {
    bytes: &'a [u8],
    tags: usize,
}

impl<'a> Ethernet<'a> {
    /// Checks a frame's header and its tags.
    ///
    /// # Errors
    /// [`PacketError::Truncated`]; [`PacketError::TooDeep`] for more than [`MAX_VLAN_TAGS`] tags.
    pub fn new(bytes: &'a [u8]) -> Result<Self, PacketError> {
        for tags in 0..=MAX_VLAN_TAGS {
            let at = ADDRESSES_LEN + tags * TAG_LEN;
            need(Layer::Ethernet, bytes, at + 2)?;
            if !matches!(
                be16(bytes, at),
                ethertype::VLAN | ethertype::SERVICE_VLAN | ethertype::OLD_SERVICE_VLAN
            ) {
                return Ok(Self { bytes, tags });
            }
        }
        Err(PacketError::TooDeep { layer: Layer::Ethernet, limit: MAX_VLAN_TAGS })
    }

    /// Destination MAC address.
    #[must_use]
    pub fn destination(&self) -> [u8; 6] {
        core::array::from_fn(|i| self.bytes[i])
    }

    /// Source MAC address.
    #[must_use]
    pub fn source(&self) -> [u8; 6] {
        core::array::from_fn(|i| self.bytes[6 + i])
    }

    /// VLAN tags, outermost first.
    pub fn vlan_tags(&self) -> impl Iterator<Item = VlanTag> + use<'a> {
        let bytes = self.bytes;
        (0..self.tags).map(move |i| {
            let at = ADDRESSES_LEN + i * TAG_LEN;
            let control = be16(bytes, at + 2);
            VlanTag {
                ethertype: be16(bytes, at),
                priority: (control >> 13) as u8,
                drop_eligible: control & 0x1000 != 0,
                id: control & 0x0fff,
            }
        })
    }

    /// Bytes of addresses, tags and EtherType: 14 without tags.
    #[must_use]
    pub fn header_len(&self) -> usize {
        ADDRESSES_LEN + self.tags * TAG_LEN + 2
    }

    /// EtherType after the tags; a value below 1536 is an IEEE 802.3 length.
    #[must_use]
    pub fn ethertype(&self) -> u16 {
        be16(self.bytes, self.header_len() - 2)
    }

    /// Bytes after the header, padding included.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len()..]
    }
}
