//! The header of Ethernet frames that carry the datagrams of a flow without IP.
//!
//! The EtherType is 0x88B5, the first of the two that IEEE 802 reserves for local experiments (RFC 9542 section 3).
//! Protocols that share it are distinguished by a subtype behind it, as IEEE Std 802 recommends.
//! `docs/formats.md` has the layout. A frame may be padded to the minimum of Ethernet, so its header states how long the
//! payload is.

/// The EtherType: Local Experimental EtherType 1.
pub const ETHERTYPE: u16 = 0x88b5;
/// Protocol and version of the header: "W", version 1.
pub const SUBTYPE: u16 = 0x5701;
/// Bytes in front of the payload: Ethernet's header and the one behind it.
pub const HEADER_BYTES: usize = 22;
/// Bytes of the header behind Ethernet's.
pub const OWN_BYTES: usize = HEADER_BYTES - 14;
/// Bytes that identify the flow: all but the length of the payload.
pub const FLOW_BYTES: usize = 20;

/// One end of a flow: the address of its interface, and the number of the flow there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// MAC address.
    pub mac: [u8; 6],
    /// Number of the flow at this end, like a port of UDP.
    pub port: u16,
}

impl Endpoint {
    /// Whether frames may be sent to it: not a group of hosts, nor all of them.
    #[must_use]
    pub fn is_unicast(&self) -> bool {
        self.mac[0] & 1 == 0
    }
}

impl core::fmt::Display for Endpoint {
    /// Its MAC address.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&mac_text(self.mac))
    }
}

/// A MAC address as it is written: `02:00:00:00:00:01`.
#[must_use]
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// The MAC address of a text such as `02:00:00:00:00:01`; `None` if it is not one.
#[must_use]
pub fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut bytes = text.split(':').map(|part| match part.len() {
        2 if part.bytes().all(|b| b.is_ascii_hexdigit()) => u8::from_str_radix(part, 16).ok(),
        _ => None,
    });
    let mut mac = [0; 6];
    for byte in &mut mac {
        *byte = bytes.next()??;
    }
    bytes.next().is_none().then_some(mac)
}

/// The bytes of a frame that identify the flow.
#[must_use]
pub fn flow_bytes(source: Endpoint, destination: Endpoint) -> [u8; FLOW_BYTES] {
    let mut bytes = [0; FLOW_BYTES];
    bytes[..6].copy_from_slice(&destination.mac);
    bytes[6..12].copy_from_slice(&source.mac);
    bytes[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    bytes[14..16].copy_from_slice(&SUBTYPE.to_be_bytes());
    bytes[16..18].copy_from_slice(&destination.port.to_be_bytes());
    bytes[18..20].copy_from_slice(&source.port.to_be_bytes());
    bytes
}

/// Which of these bytes are those of a frame from `source` whose port is not known yet.
#[must_use]
pub fn mask_without_source_port() -> [u8; FLOW_BYTES] {
    let mut mask = [0xff; FLOW_BYTES];
    mask[18..20].fill(0);
    mask
}

/// A received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetFrame<'a> {
    /// Its sender.
    pub source: Endpoint,
    /// Its receiver.
    pub destination: Endpoint,
    /// Its payload, without padding.
    pub payload: &'a [u8],
}

/// Why bytes are not a frame of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EthernetError {
    /// Shorter than its headers, or of another protocol.
    #[error("not a frame of this protocol")]
    Other,
    /// Shorter than the payload that its header states.
    #[error("a truncated frame")]
    Truncated,
}

impl<'a> EthernetFrame<'a> {
    /// Reads a frame from Ethernet's header on.
    ///
    /// # Errors
    /// [`EthernetError`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, EthernetError> {
        let (header, rest) =
            bytes.split_first_chunk::<HEADER_BYTES>().ok_or(EthernetError::Other)?;
        let be16 = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        if (be16(12), be16(14)) != (ETHERTYPE, SUBTYPE) {
            return Err(EthernetError::Other);
        }
        let mac = |at: usize| core::array::from_fn(|i| header[at + i]);
        let payload = rest.get(..usize::from(be16(20))).ok_or(EthernetError::Truncated)?;
        Ok(EthernetFrame {
            source: Endpoint { mac: mac(6), port: be16(18) },
            destination: Endpoint { mac: mac(0), port: be16(16) },
            payload,
        })
    }

    /// Writes a frame without padding.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = flow_bytes(self.source, self.destination).to_vec();
        // No interface has an MTU for more.
        let length = self.payload.len().min(u16::MAX.into());
        bytes.extend((length as u16).to_be_bytes());
        bytes.extend(&self.payload[..length]);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_layout_is_that_of_the_documentation() {
        let source = Endpoint { mac: [2, 0, 0, 0, 0, 1], port: 0x1234 };
        let destination = Endpoint { mac: [2, 0, 0, 0, 0, 2], port: 0xabcd };
        let bytes = EthernetFrame { source, destination, payload: b"xyz" }.encode();
        let expected = [
            &[2, 0, 0, 0, 0, 2][..],
            &[2, 0, 0, 0, 0, 1],
            &[0x88, 0xb5, 0x57, 0x01, 0xab, 0xcd, 0x12, 0x34, 0, 3],
            b"xyz",
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(crate::packet::Ethernet::new(&bytes).map(|e| e.ethertype()), Ok(ETHERTYPE));
    }

    #[test]
    fn other_frames_and_truncated_ones_are_distinguished() {
        let end = Endpoint { mac: [2; 6], port: 1 };
        let good = EthernetFrame { source: end, destination: end, payload: &[7; 10] }.encode();
        assert_eq!(EthernetFrame::decode(&good[..21]), Err(EthernetError::Other));
        assert_eq!(EthernetFrame::decode(&good[..31]), Err(EthernetError::Truncated));
        for at in [12, 13, 14, 15] {
            let mut other = good.clone();
            other[at] ^= 1;
            assert_eq!(EthernetFrame::decode(&other), Err(EthernetError::Other));
        }
        assert!(end.is_unicast());
        assert!(!Endpoint { mac: [0xff; 6], port: 1 }.is_unicast());
        assert!(!Endpoint { mac: [1, 0, 0x5e, 0, 0, 1], port: 1 }.is_unicast());
    }

    #[test]
    fn texts_of_addresses_are_read_strictly() {
        assert_eq!(parse_mac("02:00:5E:10:00:ff"), Some([2, 0, 0x5e, 0x10, 0, 0xff]));
        for bad in [
            "",
            "02",
            "02:00:5e:10:00",
            "02:00:5e:10:00:ff:01",
            "2:0:5e:10:0:ff",
            "02:00:5e:10:00:+f",
        ] {
            assert_eq!(parse_mac(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn frames_round_trip_whatever_the_padding(
            macs: [[u8; 6]; 2], ports: [u16; 2], padding in 0usize..64,
            payload in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let [source, destination] = [0, 1].map(|i| Endpoint { mac: macs[i], port: ports[i] });
            let frame = EthernetFrame { source, destination, payload: &payload };
            let mut bytes = frame.encode();
            bytes.resize(bytes.len() + padding, 0xee);
            prop_assert_eq!(EthernetFrame::decode(&bytes), Ok(frame));
            prop_assert_eq!(&bytes[..FLOW_BYTES], flow_bytes(source, destination));
            prop_assert_eq!(parse_mac(&mac_text(macs[0])), Some(macs[0]));
        }
    }
}
