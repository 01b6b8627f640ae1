//! UDP (RFC 768) and UDP-Lite (RFC 3828).

use super::{Layer, PacketError, be16, need};

const HEADER_LEN: usize = 8;

/// A UDP datagram, truncated to its length field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp<'a> {
    bytes: &'a [u8],
}

impl<'a> Udp<'a> {
    /// Checks the length field. A length of 0 means all available bytes (jumbograms, RFC 2675 §4).
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, PacketError> {
        need(Layer::Udp, bytes, HEADER_LEN)?;
        let len = match usize::from(be16(bytes, 4)) {
            0 => bytes.len(),
            len => len,
        };
        if len < HEADER_LEN {
            return Err(PacketError::BadField {
                layer: Layer::Udp,
                field: "length",
                value: len as u32,
            });
        }
        need(Layer::Udp, bytes, len)?;
        Ok(Self { bytes: &bytes[..len] })
    }

    /// The start of a datagram in a first fragment, whose length field includes later fragments.
    ///
    /// # Errors
    /// [`PacketError::Truncated`] below 8 bytes.
    pub fn first_fragment(bytes: &'a [u8]) -> Result<Self, PacketError> {
        need(Layer::Udp, bytes, HEADER_LEN)?;
        Ok(Self { bytes })
    }

    /// The datagram with its header.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Source port.
    #[must_use]
    pub fn source_port(&self) -> u16 {
        be16(self.bytes, 0)
    }

    /// Destination port.
    #[must_use]
    pub fn destination_port(&self) -> u16 {
        be16(self.bytes, 2)
    }

    /// The length field: bytes of header and payload.
    #[must_use]
    pub fn length_field(&self) -> u16 {
        be16(self.bytes, 4)
    }

    /// Checksum as sent; 0 means none.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        be16(self.bytes, 6)
    }

    /// What follows the header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..]
    }
}

/// A UDP-Lite datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpLite<'a> {
    bytes: &'a [u8],
}

impl<'a> UdpLite<'a> {
    /// Checks the coverage field: 0 (all), or 8 to the datagram's length (RFC 3828 §3.1).
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let view = Self::first_fragment(bytes)?;
        let coverage = view.coverage_field();
        if usize::from(coverage) > bytes.len() {
            return Err(PacketError::BadField {
                layer: Layer::UdpLite,
                field: "checksum coverage",
                value: coverage.into(),
            });
        }
        Ok(view)
    }

    /// The start of a datagram in a first fragment, whose coverage may include later fragments.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn first_fragment(bytes: &'a [u8]) -> Result<Self, PacketError> {
        need(Layer::UdpLite, bytes, HEADER_LEN)?;
        let view = Self { bytes };
        match view.coverage_field() {
            coverage @ 1..8 => Err(PacketError::BadField {
                layer: Layer::UdpLite,
                field: "checksum coverage",
                value: coverage.into(),
            }),
            _ => Ok(view),
        }
    }

    /// The datagram with its header.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Source port.
    #[must_use]
    pub fn source_port(&self) -> u16 {
        be16(self.bytes, 0)
    }

    /// Destination port.
    #[must_use]
    pub fn destination_port(&self) -> u16 {
        be16(self.bytes, 2)
    }

    /// The coverage field; 0 is the whole datagram.
    #[must_use]
    pub fn coverage_field(&self) -> u16 {
        be16(self.bytes, 4)
    }

    /// The available bytes that the checksum covers, from the header on.
    #[must_use]
    pub fn covered(&self) -> &'a [u8] {
        match usize::from(self.coverage_field()) {
            0 => self.bytes,
            coverage => &self.bytes[..coverage.min(self.bytes.len())],
        }
    }
}
