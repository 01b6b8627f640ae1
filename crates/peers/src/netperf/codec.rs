//! Messages of the control connection. Each has 656 bytes: a type, a number, and 648 bytes of content. The content begins
//! with integers in network order; texts follow as bytes. A message has no version and no length.
//!
//! The format is that of netperf 2.7; it has no specification besides the program.

mod replies;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use replies::Cpu;
pub(super) use replies::{Form, Response, Results, calibration};

/// Length of a message, bytes.
pub(super) const MESSAGE_BYTES: usize = 656;
/// Length of its content, bytes.
const CONTENT_BYTES: usize = MESSAGE_BYTES - 8;
/// Most bytes of a passphrase: a NUL follows.
const MAX_PASSPHRASE: usize = CONTENT_BYTES - 1;
/// Integers at the start of a request.
const REQUEST_INTS: usize = 38;
/// Length of the name of a congestion control with the NUL at its end, bytes.
const CONGESTION_BYTES: usize = 16;
/// Types of messages.
pub(super) mod kind {
    /// Requests to write more or less into the server's log, and the answer to both.
    pub(in super::super) const DEBUG_ON: i32 = 1;
    pub(in super::super) const DEBUG_OFF: i32 = 2;
    pub(in super::super) const DEBUG_OK: i32 = 3;
    /// A request for the rate of the server's idle counter, and the answer.
    pub(in super::super) const CPU_CALIBRATE: i32 = 5;
    /// A passphrase. It has no answer.
    pub(in super::super) const PASSPHRASE: i32 = 6;
    /// A request for a test, and the answer to it.
    pub(in super::super) const OMNI: i32 = 97;
    pub(in super::super) const OMNI_RESPONSE: i32 = 98;
    /// A request for connections without data in the form before that of [`OMNI`], and the answer to it.
    pub(in super::super) const TCP_CC: i32 = 300;
    pub(in super::super) const TCP_CC_RESPONSE: i32 = 301;
}

/// Bits of [`Request::flags`] and [`Response::flags`].
pub(super) mod flag {
    /// `TCP_NODELAY` at the server.
    pub(in super::super) const NO_DELAY: u32 = 1;
    /// Each transaction has a connection.
    pub(in super::super) const CONNECT: u32 = 1 << 2;
    /// The server's processor time is measured.
    pub(in super::super) const MEASURE_CPU: u32 = 1 << 3;
    /// The server's congestion control is reported.
    pub(in super::super) const CONGESTION: u32 = 1 << 5;
}

/// Error numbers of Linux, which netperf prints as texts.
pub(super) mod errno {
    pub(in super::super) const INVALID: i32 = 22;
    pub(in super::super) const AGAIN: i32 = 11;
    pub(in super::super) const TIME: i32 = 62;
    pub(in super::super) const MESSAGE_SIZE: i32 = 90;
    pub(in super::super) const PROTOCOL: i32 = 93;
    pub(in super::super) const FAMILY: i32 = 97;
    pub(in super::super) const ADDRESS: i32 = 99;
    /// netserver's number for an unknown request.
    pub(in super::super) const UNKNOWN: i32 = 998;
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: i32,
    /// The server's error number, 0 without one. In requests the processor that the server is to use, -1 for any.
    pub(super) number: i32,
    content: [u8; CONTENT_BYTES],
}

impl Message {
    /// A message without content.
    #[must_use]
    pub(super) fn new(kind: i32, number: i32) -> Self {
        Message { kind, number, content: [0; CONTENT_BYTES] }
    }

    /// Reads a message.
    #[must_use]
    pub(super) fn parse(bytes: &[u8; MESSAGE_BYTES]) -> Self {
        let mut content = [0; CONTENT_BYTES];
        content.copy_from_slice(&bytes[8..]);
        let int = |at: usize| {
            i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Message { kind: int(0), number: int(4), content }
    }

    /// Its bytes on the wire.
    #[must_use]
    pub(super) fn to_bytes(&self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(&self.kind.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.number.to_be_bytes());
        bytes[8..].copy_from_slice(&self.content);
        bytes
    }

    fn bytes_of(&self, index: usize) -> [u8; 4] {
        let at = 4 * index;
        [self.content[at], self.content[at + 1], self.content[at + 2], self.content[at + 3]]
    }

    fn int(&self, index: usize) -> i32 {
        i32::from_be_bytes(self.bytes_of(index))
    }

    fn unsigned(&self, index: usize) -> u32 {
        u32::from_be_bytes(self.bytes_of(index))
    }

    /// A size: `None` if it is negative, which stands for the default.
    fn size(&self, index: usize) -> Option<u32> {
        u32::try_from(self.int(index)).ok()
    }

    /// A finite figure that is not negative; others are 0.
    fn float(&self, index: usize) -> f32 {
        let value = f32::from_bits(self.unsigned(index));
        if value.is_finite() && value >= 0.0 { value } else { 0.0 }
    }

    /// A number of 64 bits, of which the high half is first.
    fn long(&self, index: usize) -> u64 {
        u64::from(self.unsigned(index)) << 32 | u64::from(self.unsigned(index + 1))
    }

    /// The name of a congestion control at `at`: printable characters up to a NUL. `None` if there are none.
    fn name(&self, at: usize) -> Option<String> {
        let bytes = self.content.get(at..at + CONGESTION_BYTES)?;
        let end = bytes.iter().position(|byte| !byte.is_ascii_graphic()).unwrap_or(bytes.len());
        (end > 0).then(|| String::from_utf8_lossy(&bytes[..end.min(CONGESTION_BYTES - 1)]).into())
    }

    /// A message with a passphrase. Its content is a text up to a NUL.
    #[must_use]
    pub(super) fn passphrase(text: &str) -> Self {
        let mut message = Message::new(kind::PASSPHRASE, -1);
        let text = &text.as_bytes()[..text.len().min(MAX_PASSPHRASE)];
        message.content[..text.len()].copy_from_slice(text);
        message
    }

    /// Whether it has this passphrase. The time does not depend on where two differ.
    #[must_use]
    pub(super) fn has_passphrase(&self, text: &str) -> bool {
        let expected = Message::passphrase(text);
        // What follows the NUL is left from an earlier message.
        let end = text.len().min(MAX_PASSPHRASE) + 1;
        let pairs = self.content[..end].iter().zip(&expected.content[..end]);
        let differences = pairs.fold(0, |all, (given, expected)| all | (given ^ expected));
        self.kind == kind::PASSPHRASE && differences == 0
    }

    fn set(&mut self, index: usize, value: i32) {
        self.content[4 * index..4 * index + 4].copy_from_slice(&value.to_be_bytes());
    }

    fn set_unsigned(&mut self, index: usize, value: u32) {
        self.content[4 * index..4 * index + 4].copy_from_slice(&value.to_be_bytes());
    }

    fn set_size(&mut self, index: usize, value: Option<u32>) {
        self.set(index, value.map_or(-1, |value| i32::try_from(value).unwrap_or(i32::MAX)));
    }

    fn set_long(&mut self, index: usize, value: u64) {
        self.set_unsigned(index, (value >> 32) as u32);
        self.set_unsigned(index + 1, value as u32);
    }

    fn set_name(&mut self, at: usize, name: Option<&str>) {
        let name = name.unwrap_or_default().as_bytes();
        let length = name.len().min(CONGESTION_BYTES - 1);
        self.content[at..at + length].copy_from_slice(&name[..length]);
    }
}

/// What is exchanged, as the server sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// The server sends.
    Send,
    /// The server receives.
    Receive,
    /// The server receives requests and sends responses.
    Exchange,
    /// Connections without data.
    Connect,
}

/// Bits of a direction: the server sends, it receives.
const SENDS: u32 = 2;
const RECEIVES: u32 = 4;

/// The transport of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// Kind of socket, and number of the protocol.
    fn numbers(self) -> [u32; 2] {
        match self {
            Protocol::Tcp => [1, 6],
            Protocol::Udp => [2, 17],
        }
    }
}

/// How long a test is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// Seconds; 0: until the client ends it.
    Seconds(u32),
    /// Bytes of a stream, or transactions.
    Units(u32),
}

/// Why a request is refused: the error number for the client, and the text for this end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(super) struct Refused {
    pub(super) number: i32,
    pub(super) text: String,
}

/// The refusal of a request.
pub(super) fn refuse<T>(number: i32, text: impl Into<String>) -> Result<T, Refused> {
    Err(Refused { number, text: text.into() })
}

/// A request for a test. Absent sizes are the server's choice.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    /// The server's socket buffers, bytes.
    pub(super) send_buffer: Option<u32>,
    pub(super) receive_buffer: Option<u32>,
    /// Bytes of each send and receive of a stream.
    pub(super) send_size: Option<u32>,
    pub(super) receive_size: Option<u32>,
    /// Bytes of a request and of a response; absent for streams.
    pub(super) request: Option<u32>,
    pub(super) response: Option<u32>,
    /// Bits of [`flag`].
    pub(super) flags: u32,
    pub(super) length: Length,
    /// The port of the data at the server; 0: its choice.
    pub(super) data_port: u16,
    /// The address of the data at the server, if the user stated one.
    pub(super) server_address: Option<IpAddr>,
    /// The client's port of datagrams, if it is known.
    pub(super) client_port: u16,
    /// The client's address of datagrams, if it is known.
    pub(super) client_address: Option<IpAddr>,
    pub(super) is_ipv6: bool,
    pub(super) protocol: Protocol,
    pub(super) direction: Direction,
    /// `SO_PRIORITY` and TOS of the server's socket.
    pub(super) priority: Option<u32>,
    pub(super) tos: Option<u32>,
    /// Congestion control of the server's socket.
    pub(super) congestion: Option<String>,
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// [`Refused`] for other transports, families and directions than those of this module, and ports above 65 535.
    pub(super) fn parse(message: &Message) -> Result<Self, Refused> {
        let m = message;
        let is_ipv6 = match m.unsigned(21) {
            4 => false,
            6 => true,
            other => return refuse(errno::FAMILY, format!("address family {other}")),
        };
        let protocol = match [m.unsigned(22), m.unsigned(23)] {
            numbers if numbers == Protocol::Tcp.numbers() => Protocol::Tcp,
            numbers if numbers == Protocol::Udp.numbers() => Protocol::Udp,
            [socket, protocol] => {
                let text = format!("protocol {protocol} on sockets of type {socket}");
                return refuse(errno::PROTOCOL, text);
            }
        };
        let direction = match m.unsigned(24) {
            0 => Direction::Connect,
            SENDS => Direction::Send,
            RECEIVES => Direction::Receive,
            both if both == SENDS | RECEIVES => Direction::Exchange,
            other => return refuse(errno::INVALID, format!("direction {other}")),
        };
        let port = |index, what: &str| {
            let port = m.unsigned(index);
            match u16::try_from(port) {
                Ok(port) => Ok(port),
                Err(_) => refuse(errno::INVALID, format!("{what} {port}")),
            }
        };
        let length = m.int(14);
        Ok(Request {
            send_buffer: m.size(0),
            send_size: m.size(1),
            request: m.size(5),
            receive_buffer: m.size(6),
            receive_size: m.size(7),
            response: m.size(11),
            flags: m.unsigned(12),
            length: match u32::try_from(length) {
                Ok(seconds) => Length::Seconds(seconds),
                Err(_) => Length::Units(length.unsigned_abs()),
            },
            data_port: port(20, "data port")?,
            client_port: port(25, "client port")?,
            client_address: address(m, 28, is_ipv6),
            server_address: address(m, 32, is_ipv6),
            is_ipv6,
            protocol,
            direction,
            priority: m.size(36),
            tos: m.size(37),
            congestion: m.name(4 * REQUEST_INTS),
        })
    }

    /// Reads a request for connections without data in the older form, which the program still sends for `TCP_CC`.
    ///
    /// # Errors
    /// [`Refused`], likewise.
    pub(super) fn parse_tcp_cc(message: &Message) -> Result<Self, Refused> {
        let m = message;
        let mut flags = flag::CONNECT;
        flags |= if m.int(8) != 0 { flag::NO_DELAY } else { 0 };
        flags |= if m.int(9) != 0 { flag::MEASURE_CPU } else { 0 };
        // The same with the integers of the present form in their places.
        let mut omni = Message::new(kind::OMNI, m.number);
        for index in [1, 5, 7, 11, 36, 37] {
            omni.set(index, -1);
        }
        for (to, from) in [(0, 1), (6, 0), (14, 11), (20, 14), (21, 15)] {
            omni.set(to, m.int(from));
        }
        let [socket, protocol] = Protocol::Tcp.numbers();
        omni.set_unsigned(12, flags);
        omni.set_unsigned(22, socket);
        omni.set_unsigned(23, protocol);
        Request::parse(&omni)
    }

    /// Its message.
    #[must_use]
    pub(super) fn to_message(&self) -> Message {
        let mut m = Message::new(kind::OMNI, -1);
        m.set_size(0, self.send_buffer);
        m.set_size(1, self.send_size);
        m.set_size(5, self.request);
        m.set_size(6, self.receive_buffer);
        m.set_size(7, self.receive_size);
        m.set_size(11, self.response);
        // Alignments of buffers, and how many the server uses in turn.
        for (index, value) in [(2, 8), (8, 8), (4, 1), (10, 1)] {
            m.set(index, value);
        }
        m.set_unsigned(12, self.flags);
        m.set(
            14,
            match self.length {
                Length::Seconds(seconds) => i32::try_from(seconds).unwrap_or(i32::MAX),
                Length::Units(units) => 0i32.saturating_sub_unsigned(units),
            },
        );
        // Bytes to touch before each call: as the server likes.
        (17..=19).for_each(|index| m.set(index, -1));
        m.set_unsigned(20, self.data_port.into());
        m.set_unsigned(21, if self.is_ipv6 { 6 } else { 4 });
        let [socket, protocol] = self.protocol.numbers();
        m.set_unsigned(22, socket);
        m.set_unsigned(23, protocol);
        m.set_unsigned(
            24,
            match self.direction {
                Direction::Connect => 0,
                Direction::Send => SENDS,
                Direction::Receive => RECEIVES,
                Direction::Exchange => SENDS | RECEIVES,
            },
        );
        m.set_unsigned(25, self.client_port.into());
        set_address(&mut m, 28, self.client_address);
        set_address(&mut m, 32, self.server_address);
        m.set_size(36, self.priority);
        m.set_size(37, self.tos);
        m.set_name(4 * REQUEST_INTS, self.congestion.as_deref());
        m
    }
}

/// The address in four integers; `None` if it is unspecified. IPv4's is in network order. Of IPv6, each integer is in the
/// client's order before it is converted: this is what clients with little-endian processors send.
fn address(m: &Message, index: usize, is_ipv6: bool) -> Option<IpAddr> {
    let address: IpAddr = match is_ipv6 {
        false => Ipv4Addr::from(m.unsigned(index)).into(),
        true => {
            let mut bytes = [0; 16];
            for (part, bytes) in bytes.chunks_exact_mut(4).enumerate() {
                bytes.copy_from_slice(&m.unsigned(index + part).to_le_bytes());
            }
            Ipv6Addr::from(bytes).into()
        }
    };
    (!address.is_unspecified()).then_some(address)
}

fn set_address(m: &mut Message, index: usize, address: Option<IpAddr>) {
    match address {
        None => {}
        Some(IpAddr::V4(v4)) => m.set_unsigned(index, v4.to_bits()),
        Some(IpAddr::V6(v6)) => {
            for (part, bytes) in v6.octets().chunks_exact(4).enumerate() {
                m.set_unsigned(
                    index + part,
                    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
                );
            }
        }
    }
}

/// A request for a stream of one second to the server.
#[cfg(test)]
pub(super) fn example() -> Request {
    Request {
        send_buffer: None,
        receive_buffer: None,
        send_size: None,
        receive_size: None,
        request: None,
        response: None,
        flags: 0,
        length: Length::Seconds(1),
        data_port: 0,
        server_address: None,
        client_port: 0,
        client_address: None,
        is_ipv6: false,
        protocol: Protocol::Tcp,
        direction: Direction::Receive,
        priority: None,
        tos: None,
        congestion: None,
    }
}

#[cfg(test)]
mod tests;
