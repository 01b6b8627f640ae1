//! What the two ends of a transfer over a stream say to each other, after the preface of its connection.
//!
//! The client begins with a request: [`MAGIC`], the direction (0: the client sends, 1: the server sends), and the volume in
//! bytes, u64. Then the sender of the data writes it. A server that has received the whole volume answers with the number of
//! bytes that it counted, u64. All fields are big-endian.

/// The first bytes of a request.
pub const MAGIC: [u8; 4] = *b"xfer";
/// Bytes of a request.
pub const REQUEST_LEN: usize = 13;
/// Bytes of a receiver's count.
pub const COUNT_LEN: usize = 8;

/// The request of one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferRequest {
    /// Whether the server sends.
    pub is_reverse: bool,
    /// Bytes to send.
    pub volume: u64,
}

impl TransferRequest {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; REQUEST_LEN] {
        let mut out = [0; REQUEST_LEN];
        out[..4].copy_from_slice(&MAGIC);
        out[4] = u8::from(self.is_reverse);
        out[5..].copy_from_slice(&self.volume.to_be_bytes());
        out
    }

    /// Reads a request; `None` if these bytes are none. The volume is what the client states: compare it with the plan.
    #[must_use]
    pub fn decode(bytes: &[u8; REQUEST_LEN]) -> Option<Self> {
        let (head, volume) = bytes.split_at(5);
        let is_reverse = match head.strip_prefix(&MAGIC)? {
            [0] => false,
            [1] => true,
            _ => return None,
        };
        let volume = u64::from_be_bytes(volume.try_into().ok()?);
        Some(TransferRequest { is_reverse, volume })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        for (is_reverse, volume) in [(false, 1), (true, 1 << 40), (false, u64::MAX), (true, 0)] {
            let request = TransferRequest { is_reverse, volume };
            assert_eq!(TransferRequest::decode(&request.encode()), Some(request));
        }
    }

    #[test]
    fn other_bytes_are_no_request() {
        let good = TransferRequest { is_reverse: true, volume: 7 }.encode();
        for (at, value) in [(0, b'X'), (3, 0), (4, 2), (4, 0xff)] {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(TransferRequest::decode(&bad), None);
        }
    }
}
