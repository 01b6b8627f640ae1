//! WebSocket frames (RFC 6455) of a server, streaming: data is counted as it arrives and not stored. No sockets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// Maximum payload of a control frame (section 5.5).
const MAX_CONTROL: usize = 125;

/// Status codes of a close frame (section 7.4.1).
pub(super) mod close {
    pub(in super::super) const NORMAL: u16 = 1000;
    pub(in super::super) const GOING: u16 = 1001;
    pub(in super::super) const PROTOCOL: u16 = 1002;
    pub(in super::super) const UNSUPPORTED: u16 = 1003;
    pub(in super::super) const NOT_UTF8: u16 = 1007;
    pub(in super::super) const POLICY: u16 = 1008;
    pub(in super::super) const TOO_BIG: u16 = 1009;
    /// "Try again later", from the registry of RFC 6455, section 11.7.
    pub(in super::super) const BUSY: u16 = 1013;
}

/// `Sec-WebSocket-Accept` for a key (section 4.2.2).
pub(super) fn accept(key: &str) -> String {
    let hash = Sha1::new()
        .chain_update(key.as_bytes())
        .chain_update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
        .finalize();
    STANDARD.encode(hash)
}

/// Whether a key is 16 bytes in base64, as required.
pub(super) fn is_key(key: &str) -> bool {
    key.len() == 24 && STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageKind {
    Text,
    Binary,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// Payload bytes `from..to` of the input, unmasked if requested.
    Data {
        kind: MessageKind,
        from: usize,
        to: usize,
        ends: bool,
    },
    Ping(Vec<u8>),
    Pong,
    /// The peer closes, with its code.
    Close(Option<u16>),
}

/// A protocol violation that ends the connection, and the close code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) code: u16,
    pub(super) reason: &'static str,
}

const fn violation(reason: &'static str) -> Violation {
    Violation { code: close::PROTOCOL, reason }
}

/// Parses the frames of a client.
#[derive(Debug)]
pub(super) struct Frames {
    /// Whether to unmask data; else it is only counted.
    unmask: bool,
    /// Longest message.
    most: u64,
    head: [u8; 14],
    have: usize,
    /// The frame whose payload is being read.
    frame: Option<Frame>,
    /// The message that further frames continue, and its length so far.
    message: Option<(MessageKind, u64)>,
    control: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    last: bool,
    opcode: u8,
    mask: [u8; 4],
    at: u64,
    left: u64,
}

impl Frames {
    pub(super) fn new(unmask: bool, most: u64) -> Frames {
        let control = Vec::with_capacity(MAX_CONTROL);
        Frames { unmask, most, head: [0; 14], have: 0, frame: None, message: None, control }
    }

    /// Parses from the front of `input`; returns the number of bytes used, and the event. Call it again with the
    /// rest.
    pub(super) fn take(&mut self, input: &mut [u8]) -> Result<(usize, Option<Event>), Violation> {
        let mut used = 0;
        let mut frame = match self.frame {
            Some(frame) => frame,
            None => loop {
                if let Some(frame) = self.begin()? {
                    break frame;
                }
                let Some(byte) = input.get(used) else { return Ok((used, None)) };
                self.head[self.have] = *byte;
                self.have += 1;
                used += 1;
            },
        };
        let there = (input.len() - used) as u64;
        let now = frame.left.min(there) as usize;
        let payload = &mut input[used..used + now];
        if self.unmask || frame.opcode >= 8 {
            for (n, byte) in payload.iter_mut().enumerate() {
                *byte ^= frame.mask[((frame.at + n as u64) % 4) as usize];
            }
        }
        frame.at += now as u64;
        frame.left -= now as u64;
        let done = frame.left == 0;
        self.frame = (!done).then_some(frame);
        if frame.opcode >= 8 {
            // At most 125 bytes, checked with its header.
            self.control.extend_from_slice(payload);
            let event = if done { Some(self.control_frame(frame.opcode)?) } else { None };
            return Ok((used + now, event));
        }
        let Some((kind, _)) = self.message else { return Err(violation("data without a message")) };
        let ends = done && frame.last;
        if ends {
            self.message = None;
        }
        if now == 0 && !ends {
            return Ok((used, None));
        }
        Ok((used + now, Some(Event::Data { kind, from: used, to: used + now, ends })))
    }

    /// Checks the frame whose header is complete.
    fn begin(&mut self) -> Result<Option<Frame>, Violation> {
        if self.have < 2 {
            return Ok(None);
        }
        let (first, second) = (self.head[0], self.head[1]);
        let (last, opcode) = (first & 0x80 != 0, first & 0x0f);
        if first & 0x70 != 0 {
            return Err(violation("a reserved bit is set"));
        }
        if second & 0x80 == 0 {
            return Err(violation("a frame is not masked"));
        }
        let short = u64::from(second & 0x7f);
        if opcode >= 8 && (short > MAX_CONTROL as u64 || !last) {
            return Err(violation("a control frame is too long, or fragmented"));
        }
        let extra = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        if self.have < 2 + extra + 4 {
            return Ok(None);
        }
        let length = match extra {
            0 => short,
            2 => u64::from(u16::from_be_bytes([self.head[2], self.head[3]])),
            _ => self.head[2..10].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        };
        let least = match extra {
            0 => 0,
            2 => 126,
            _ => 1 << 16,
        };
        if length < least || length > i64::MAX as u64 {
            return Err(violation("a length is not in its shortest form"));
        }
        let before = match (opcode, self.message) {
            (0, Some((kind, before))) => Some((kind, before)),
            (1, None) => Some((MessageKind::Text, 0)),
            (2, None) => Some((MessageKind::Binary, 0)),
            (8..=10, _) => None,
            (0, None) => return Err(violation("a continuation frame without a message")),
            (1 | 2, Some(_)) => return Err(violation("a message starts within another")),
            _ => return Err(violation("an unknown opcode")),
        };
        if let Some((kind, before)) = before {
            let total = before.saturating_add(length);
            if total > self.most {
                return Err(Violation { code: close::TOO_BIG, reason: "a message is too long" });
            }
            self.message = Some((kind, total));
        }
        let at = 2 + extra;
        let mask = [self.head[at], self.head[at + 1], self.head[at + 2], self.head[at + 3]];
        self.have = 0;
        self.control.clear();
        Ok(Some(Frame { last, opcode, mask, at: 0, left: length }))
    }

    fn control_frame(&mut self, opcode: u8) -> Result<Event, Violation> {
        let payload = std::mem::take(&mut self.control);
        Ok(match opcode {
            8 => match payload.as_slice() {
                [] => Event::Close(None),
                [_] => return Err(violation("a close frame of one byte")),
                [a, b, text @ ..] => {
                    if std::str::from_utf8(text).is_err() {
                        return Err(Violation {
                            code: close::NOT_UTF8,
                            reason: "a reason is not UTF-8",
                        });
                    }
                    Event::Close(Some(u16::from_be_bytes([*a, *b])))
                }
            },
            9 => Event::Ping(payload),
            _ => Event::Pong,
        })
    }
}

/// The header of a frame of a server, which does not mask: the bytes and their number.
pub(super) fn head(opcode: u8, length: usize) -> ([u8; 10], usize) {
    let mut bytes = [0; 10];
    bytes[0] = 0x80 | opcode;
    let used = match length {
        0..=125 => {
            bytes[1] = length as u8;
            2
        }
        126..=0xffff => {
            bytes[1] = 126;
            bytes[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            4
        }
        _ => {
            bytes[1] = 127;
            bytes[2..10].copy_from_slice(&(length as u64).to_be_bytes());
            10
        }
    };
    (bytes, used)
}

fn whole(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let (head, used) = head(opcode, payload.len());
    [&head[..used], payload].concat()
}

/// A text frame.
pub(super) fn text(text: &str) -> Vec<u8> {
    whole(1, text.as_bytes())
}

/// A close frame; the reason is truncated to its maximum.
pub(super) fn close_frame(code: u16, reason: &str) -> Vec<u8> {
    let mut payload = code.to_be_bytes().to_vec();
    let cut = reason.floor_char_boundary(MAX_CONTROL - 2);
    payload.extend_from_slice(&reason.as_bytes()[..cut]);
    whole(8, &payload)
}

/// The answer to a ping.
pub(super) fn pong(payload: &[u8]) -> Vec<u8> {
    whole(10, &payload[..payload.len().min(MAX_CONTROL)])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A client's frame.
    pub(in super::super) fn client(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [0x37, 0xfa, 0x21, 0x3d];
        let (head, used) = head(0, payload.len());
        let mut bytes = head[..used].to_vec();
        bytes[0] = first;
        bytes[1] |= 0x80;
        bytes.extend(mask);
        bytes.extend(payload.iter().enumerate().map(|(n, b)| b ^ mask[n % 4]));
        bytes
    }

    type ReadFrames = (Vec<(MessageKind, Vec<u8>)>, Vec<Event>);

    /// All events of a stream that arrives in pieces of `step`, with the data of a message joined.
    fn read(bytes: &[u8], step: usize, most: u64) -> Result<ReadFrames, Violation> {
        let mut frames = Frames::new(true, most);
        let (mut messages, mut others, mut message) = (vec![], vec![], vec![]);
        for piece in bytes.chunks(step.max(1)) {
            let mut piece = piece.to_vec();
            let mut rest = piece.as_mut_slice();
            while !rest.is_empty() {
                let (used, event) = frames.take(rest)?;
                match event {
                    Some(Event::Data { kind, from, to, ends }) => {
                        message.extend_from_slice(&rest[from..to]);
                        if ends {
                            messages.push((kind, std::mem::take(&mut message)));
                        }
                    }
                    Some(other) => others.push(other),
                    None => {}
                }
                rest = &mut rest[used..];
            }
        }
        Ok((messages, others))
    }

    #[test]
    fn the_example_of_the_rfc() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(is_key("dGhlIHNhbXBsZSBub25jZQ=="));
        assert!(!is_key("dGhlIHNhbXBsZQ==") && !is_key("not base64, but 24 long!"));
        // Section 5.7: "Hello", masked, and in two frames with a ping between them.
        let hello = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        assert_eq!(hello.to_vec(), client(0x81, b"Hello"));
        assert_eq!(read(&hello, 3, 5).unwrap().0, [(MessageKind::Text, b"Hello".to_vec())]);
        let parts = [client(0x01, b"Hel"), client(0x89, b"?"), client(0x80, b"lo")].concat();
        let (messages, others) = read(&parts, 4, 5).unwrap();
        assert_eq!(messages, [(MessageKind::Text, b"Hello".to_vec())]);
        assert_eq!(others, [Event::Ping(b"?".to_vec())]);
    }

    #[test]
    fn what_is_written_is_as_the_rfc_has_it() {
        assert_eq!(text("Hello"), b"\x81\x05Hello");
        assert_eq!(pong(b"Hello"), b"\x8a\x05Hello");
        assert_eq!(head(2, 256), ([0x82, 126, 1, 0, 0, 0, 0, 0, 0, 0], 4));
        assert_eq!(head(2, 65_536), ([0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0], 10));
        assert_eq!(close_frame(1013, "later"), b"\x88\x07\x03\xf5later");
        assert_eq!(close_frame(1000, &"é".repeat(200)).len(), 2 + 2 + 122);
    }

    #[test]
    fn violations_have_their_codes() {
        let code = |bytes: &[u8]| read(bytes, 1, 1000).unwrap_err().code;
        assert_eq!(code(b"\x81\x05Hello"), close::PROTOCOL, "not masked");
        assert_eq!(code(&client(0xc1, b"x")), close::PROTOCOL, "reserved bit");
        assert_eq!(code(&client(0x83, b"x")), close::PROTOCOL, "opcode");
        assert_eq!(code(&client(0x80, b"x")), close::PROTOCOL, "nothing to continue");
        assert_eq!(code(&[client(1, b"x"), client(0x81, b"y")].concat()), close::PROTOCOL);
        assert_eq!(code(&client(0x09, b"x")), close::PROTOCOL, "ping in pieces");
        assert_eq!(code(&client(0x89, &[0; 126])), close::PROTOCOL, "long ping");
        assert_eq!(code(&client(0x88, b"x")), close::PROTOCOL, "close of one byte");
        assert_eq!(code(&client(0x88, b"\x03\xe8\xff")), close::NOT_UTF8);
        assert_eq!(code(&client(0x82, &[0; 1001])), close::TOO_BIG);
        assert_eq!(code(&[client(2, &[0; 600]), client(0x80, &[0; 600])].concat()), close::TOO_BIG);
        assert_eq!(code(b"\x81\xfe\x00\x01aaaa"), close::PROTOCOL, "length not minimal");
        assert_eq!(code(b"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xffaaaa"), close::PROTOCOL);
    }

    #[test]
    fn a_close_reports_its_code_and_an_empty_message_is_one() {
        assert_eq!(read(&client(0x88, b""), 9, 9).unwrap().1, [Event::Close(None)]);
        assert_eq!(read(&client(0x88, b"\x03\xe8ok"), 9, 9).unwrap().1, [Event::Close(Some(1000))]);
        assert_eq!(read(&client(0x81, b""), 9, 9).unwrap().0, [(MessageKind::Text, vec![])]);
    }

    #[test]
    fn data_that_is_only_measured_stays_masked() {
        let mut bytes = client(0x82, &[0; 300]);
        let (used, event) = Frames::new(false, 1000).take(&mut bytes).unwrap();
        assert_eq!(used, 308);
        assert_eq!(
            event,
            Some(Event::Data { kind: MessageKind::Binary, from: 8, to: 308, ends: true })
        );
        assert_eq!(bytes[8], 0x37);
    }

    proptest! {
        #[test]
        fn any_pieces_give_the_same(parts in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..300)), 0..8), step in 1usize..400) {
            let bytes: Vec<u8> = parts.iter().flat_map(|(text, p)| client(if *text { 0x81 } else { 0x82 }, p)).collect();
            let expected: Vec<_> = parts.into_iter().map(|(text, p)| (if text { MessageKind::Text } else { MessageKind::Binary }, p)).collect();
            prop_assert_eq!(read(&bytes, step, 300).unwrap().0, expected);
        }
    }
}
