//! TCP (RFC 9293) and its options.

use super::{Layer, PacketError, be16, be32, need};

const MIN_LEN: usize = 20;

/// A TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp<'a> {
    bytes: &'a [u8],
}

impl<'a> Tcp<'a> {
    /// Checks the header's length.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, PacketError> {
        need(Layer::Tcp, bytes, MIN_LEN)?;
        let header_len = usize::from(bytes[12] >> 4) * 4;
        if header_len < MIN_LEN {
            return Err(PacketError::BadField {
                layer: Layer::Tcp,
                field: "data offset",
                value: header_len as u32,
            });
        }
        need(Layer::Tcp, bytes, header_len)?;
        Ok(Self { bytes })
    }

    /// The whole segment.
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

    /// Sequence number.
    #[must_use]
    pub fn sequence(&self) -> u32 {
        be32(self.bytes, 4)
    }

    /// Acknowledgement number.
    #[must_use]
    pub fn acknowledgement(&self) -> u32 {
        be32(self.bytes, 8)
    }

    /// Bytes of the header with its options, 20 to 60.
    #[must_use]
    pub fn header_len(&self) -> usize {
        usize::from(self.bytes[12] >> 4) * 4
    }

    /// The nine flag bits: AE (RFC 9768), CWR, ECE, URG, ACK, PSH, RST, SYN, FIN from the highest.
    #[must_use]
    pub fn flags(&self) -> u16 {
        be16(self.bytes, 12) & 0x1ff
    }

    /// Window as sent, not scaled.
    #[must_use]
    pub fn window(&self) -> u16 {
        be16(self.bytes, 14)
    }

    /// Urgent pointer.
    #[must_use]
    pub fn urgent_pointer(&self) -> u16 {
        be16(self.bytes, 18)
    }

    /// The options, up to the end of the list or the first malformed one.
    #[must_use]
    pub fn options(&self) -> TcpOptions<'a> {
        TcpOptions { rest: &self.bytes[MIN_LEN..self.header_len()] }
    }

    /// Bytes after the header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len()..]
    }
}

/// One TCP option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Maximum segment size in bytes.
    MaximumSegmentSize(u16),
    /// Window scale as a shift (RFC 7323).
    WindowScale(u8),
    /// Selective acknowledgement permitted (RFC 2018).
    SackPermitted,
    /// Timestamps (RFC 7323).
    Timestamps {
        /// The sender's value.
        value: u32,
        /// The echoed value.
        echo: u32,
    },
    /// Kind and data of another option, or of one of these with an invalid length.
    Other(u8, &'a [u8]),
}

/// Iterator over the options of a segment without no-operations; at most 20.
#[derive(Clone, Debug)]
pub struct TcpOptions<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = TcpOption<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        while let [1, rest @ ..] = self.rest {
            self.rest = rest;
        }
        let &[kind, len, ..] = self.rest else { return None };
        if kind == 0 || len < 2 || usize::from(len) > self.rest.len() {
            self.rest = &[];
            return None;
        }
        let (option, rest) = self.rest.split_at(len.into());
        self.rest = rest;
        Some(match (kind, &option[2..]) {
            (2, &[a, b]) => TcpOption::MaximumSegmentSize(u16::from_be_bytes([a, b])),
            (3, &[shift]) => TcpOption::WindowScale(shift),
            (4, &[]) => TcpOption::SackPermitted,
            (8, data) if data.len() == 8 => {
                TcpOption::Timestamps { value: be32(data, 0), echo: be32(data, 4) }
            }
            (_, data) => TcpOption::Other(kind, data),
        })
    }
}
