//! Length-prefixed frames of the control connection.
//!
//! | bytes | field |
//! | --- | --- |
//! | 0–3 | length *n* of the payload, u32 |
//! | 4–7 | CRC-32 of these four bytes ([`crate::crc32`]) |
//! | 8–(7 + *n*) | payload |
//! | (8 + *n*)–(11 + *n*) | CRC-32 of the payload |
//!
//! All fields are big-endian. TCP's checksum does not detect every change, and a path may repair it after a
//! change. The CRCs make a damaged frame a distinct error. The length has its own, so that no peer waits
//! for bytes that were never sent. They do not protect from an attacker; Noise does.
//!
//! The decoder buffers only bytes that have arrived: a length is checked against the limit, but memory is
//! never allocated for it. The limit is small until a peer has sent a valid hello, and is raised
//! afterwards.

use crate::crc32::crc32;

/// Bytes of the length and its CRC.
pub const PREFIX_LEN: usize = 8;
/// Bytes of the payload's CRC.
pub const TRAILER_LEN: usize = 4;

/// Why a stream is not a sequence of frames within the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame is longer than the limit.
    #[error("{}", too_long(*len, *limit))]
    TooLong {
        /// Bytes announced.
        len: usize,
        /// Bytes accepted.
        limit: usize,
    },
    /// A frame was changed on the path.
    #[error("a message does not match its checksum: it was changed on the path")]
    Damaged,
}

fn is_text(bytes: [u8; 4]) -> bool {
    bytes.iter().all(|b| b.is_ascii_graphic() || *b == b' ')
}

/// A length whose four bytes are text is the start of another protocol.
fn too_long(len: usize, limit: usize) -> String {
    let text = u32::try_from(len).map(u32::to_be_bytes).unwrap_or_default();
    if is_text(text) {
        let begins: String = text.iter().copied().map(char::from).collect();
        let protocol = match begins.as_str() {
            "HTTP" => "HTTP".to_owned(),
            "SSH-" => "SSH".to_owned(),
            _ => format!("something that begins with '{begins}'"),
        };
        return format!(
            "is that a Weir server? it answers {protocol}, which is not Weir's protocol"
        );
    }
    format!("frame too long: {len} bytes, the maximum is {limit}")
}

/// Splits a byte stream, pushed in pieces of any size, into frames.
///
/// ```
/// use weir_wire::frame::{FrameDecoder, encode_frame};
/// let mut decoder = FrameDecoder::new(1024);
/// decoder.push(&encode_frame(b"hello")?);
/// assert_eq!(decoder.next()?.as_deref(), Some(&b"hello"[..]));
/// assert_eq!(decoder.next()?, None);
/// # Ok::<(), weir_wire::frame::FrameError>(())
/// ```
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: Vec<u8>,
    /// Start of the bytes not yet returned in frames.
    start: usize,
    limit: usize,
}

impl FrameDecoder {
    /// A decoder that refuses frames of more than `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, limit }
    }

    /// Changes the limit for frames not yet returned, as after a valid hello.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Appends arrived bytes. Memory in use is that of bytes not yet returned: call [`next`](Self::next)
    /// until it returns `None` before pushing more.
    pub fn push(&mut self, bytes: &[u8]) {
        // Returned bytes are removed once per push, so that the cost of many frames stays linear.
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The payload of the next frame; `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] as soon as the prefix has arrived, and [`FrameError::Damaged`] as soon as a
    /// CRC has; also on every later call, because the stream can't be resumed after either.
    #[expect(clippy::should_implement_trait, reason = "not an iterator: None means not yet")]
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let pending = &self.buffer[self.start..];
        let Some((length, rest)) = pending.split_first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_be_bytes(*length) as usize;
        let too_long = Err(FrameError::TooLong { len, limit: self.limit });
        if len > self.limit && is_text(*length) {
            // Another protocol has no CRC.
            return too_long;
        }
        let Some((check, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        if crc32(length) != u32::from_be_bytes(*check) {
            return Err(FrameError::Damaged);
        }
        if len > self.limit {
            return too_long;
        }
        let Some((frame, rest)) = rest.split_at_checked(len) else { return Ok(None) };
        let Some(check) = rest.first_chunk::<TRAILER_LEN>() else { return Ok(None) };
        if crc32(frame) != u32::from_be_bytes(*check) {
            return Err(FrameError::Damaged);
        }
        let frame = frame.to_vec();
        self.start += PREFIX_LEN + len + TRAILER_LEN;
        Ok(Some(frame))
    }

    /// Number of buffered bytes not yet returned. At the end of a stream, a value above 0 means that it was
    /// truncated.
    #[must_use]
    pub(crate) fn pending(&self) -> usize {
        self.buffer.len() - self.start
    }
}

/// `payload` as a frame.
///
/// # Errors
/// [`FrameError::TooLong`] if its length does not fit the prefix.
pub fn encode_frame(payload: &[u8]) -> Result<Vec<u8>, FrameError> {
    let len = u32::try_from(payload.len())
        .map_err(|_| FrameError::TooLong { len: payload.len(), limit: u32::MAX as usize })?;
    let mut out = Vec::with_capacity(PREFIX_LEN + payload.len() + TRAILER_LEN);
    let length = len.to_be_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&crc32(&length).to_be_bytes());
    out.extend_from_slice(payload);
    out.extend_from_slice(&crc32(payload).to_be_bytes());
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_frame_is_refused_at_its_prefix_and_nothing_is_allocated_for_it() {
        let mut decoder = FrameDecoder::new(1000);
        decoder.push(&[0xff, 0xff, 0xff]);
        assert_eq!(decoder.next(), Ok(None));
        decoder.push(&[0xff]);
        assert_eq!(decoder.next(), Ok(None), "its CRC has not arrived");
        decoder.push(&crc32(&[0xff; 4]).to_be_bytes());
        let error = Err(FrameError::TooLong { len: u32::MAX as usize, limit: 1000 });
        assert_eq!(decoder.next(), error);
        assert_eq!(decoder.next(), error);

        let mut decoder = FrameDecoder::new(usize::MAX);
        decoder.push(&[0x7f, 0xff, 0xff, 0xff]);
        decoder.push(&crc32(&[0x7f, 0xff, 0xff, 0xff]).to_be_bytes());
        decoder.push(&[1]);
        assert_eq!(decoder.next(), Ok(None));
        assert!(decoder.buffer.capacity() < 100);
    }

    #[test]
    fn another_protocol_is_reported_by_its_first_words() {
        for (answer, expected) in [
            (&b"HTTP/1.1 400 Bad Request"[..], " HTTP,"),
            (b"SSH-2.0-x", " SSH,"),
            (b"+OK ready", "'+OK '"),
            (b"220-mail", "'220-'"),
            (&[0x7f, 0, 0, 0, 0x12, 0x18, 0x6f, 0xd6], " 2130706432 bytes"),
        ] {
            let mut decoder = FrameDecoder::new(1000);
            decoder.push(answer);
            let error = decoder.next().unwrap_err();
            assert!(matches!(error, FrameError::TooLong { limit: 1000, .. }), "{error:?}");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn the_limit_is_inclusive_and_can_be_raised() {
        let mut decoder = FrameDecoder::new(4);
        decoder.push(&encode_frame(&[1; 4]).unwrap());
        decoder.push(&encode_frame(&[2; 5]).unwrap());
        assert_eq!(decoder.next(), Ok(Some(vec![1; 4])));
        assert_eq!(decoder.next(), Err(FrameError::TooLong { len: 5, limit: 4 }));
        decoder.set_limit(5);
        assert_eq!(decoder.next(), Ok(Some(vec![2; 5])));
    }

    #[test]
    fn bytes_after_a_frame_are_pending() {
        let mut decoder = FrameDecoder::new(10);
        let mut stream = encode_frame(b"go").unwrap();
        stream.extend(b"raw bytes");
        decoder.push(&stream);
        assert_eq!(decoder.next(), Ok(Some(b"go".to_vec())));
        assert_eq!(decoder.pending(), 9);
    }

    #[test]
    fn a_partial_frame_is_waited_for() {
        let frame = encode_frame(b"hello").unwrap();
        for cut in 0..frame.len() {
            let mut decoder = FrameDecoder::new(10);
            decoder.push(&frame[..cut]);
            assert_eq!((decoder.next(), decoder.pending()), (Ok(None), cut));
        }
    }

    proptest! {
        #[test]
        fn no_change_of_a_few_bits_is_taken_for_a_message(
            payload in prop::collection::vec(any::<u8>(), 0..200),
            bits in prop::collection::hash_set(0usize..1 << 20, 1..4),
        ) {
            let mut stream = encode_frame(&payload).unwrap();
            // Another frame follows, which a longer length would include in the payload.
            let whole = stream.len();
            for bit in bits.iter().map(|bit| bit % (8 * whole)).collect::<std::collections::HashSet<_>>() {
                stream[bit / 8] ^= 1 << (bit % 8);
            }
            stream.extend(encode_frame(&[7; 300]).unwrap());
            let mut decoder = FrameDecoder::new(1 << 24);
            decoder.push(&stream);
            // A changed length is detected at the length: the decoder neither waits for more bytes nor
            // returns another frame.
            prop_assert_eq!(decoder.next(), Err(FrameError::Damaged));
            prop_assert_eq!(decoder.next(), Err(FrameError::Damaged));
        }

        #[test]
        fn frames_do_not_depend_on_the_pieces(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..10),
            piece in 1usize..50,
        ) {
            let stream: Vec<u8> = frames.iter().flat_map(|f| encode_frame(f).unwrap()).collect();
            let mut decoder = FrameDecoder::new(40);
            let mut got = Vec::new();
            for part in stream.chunks(piece) {
                decoder.push(part);
                while let Some(frame) = decoder.next().unwrap() {
                    got.push(frame);
                }
            }
            prop_assert_eq!(got, frames);
            prop_assert_eq!(decoder.pending(), 0);
        }
    }
}
