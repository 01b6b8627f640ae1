//! ICMP (RFC 792) and ICMPv6 (RFC 4443).

use super::{Layer, PacketError, be16, be32, need};

const HEADER_LEN: usize = 8;

/// An ICMP or ICMPv6 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmp<'a> {
    bytes: &'a [u8],
}

impl<'a> Icmp<'a> {
    /// Checks for the eight bytes with which all messages start.
    ///
    /// # Errors
    /// [`PacketError::Truncated`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, PacketError> {
        need(Layer::Icmp, bytes, HEADER_LEN)?;
        Ok(Self { bytes })
    }

    /// The whole message.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Type.
    #[must_use]
    pub fn message_type(&self) -> u8 {
        self.bytes[0]
    }

    /// Code.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.bytes[1]
    }

    /// Bytes 4 to 7, whose meaning depends on the type (an MTU, a pointer, identifier and sequence).
    #[must_use]
    pub fn rest_of_header(&self) -> u32 {
        be32(self.bytes, 4)
    }

    /// Identifier of an echo message.
    #[must_use]
    pub fn echo_id(&self) -> u16 {
        be16(self.bytes, 4)
    }

    /// Sequence number of an echo message.
    #[must_use]
    pub fn echo_sequence(&self) -> u16 {
        be16(self.bytes, 6)
    }

    /// Bytes after the first eight.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..]
    }
}
