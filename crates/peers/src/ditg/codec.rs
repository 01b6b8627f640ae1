//! Messages of the signalling connection, as D-ITG 2.8.1 sends them: a type of one byte, then fields without padding. Numbers
//! are big-endian, except the port of a request: D-ITG swaps its bytes twice, so that it is little-endian.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_traffic::session::Framing;
use weir_wire::header::ditg::{BYTES, SHORT_BYTES};

/// Bytes of the header of each message of a stream: that of datagrams, and the length.
pub(super) const FRAME_BYTES: usize = BYTES + 4;
/// Most bytes of a message: that with the name of a log.
pub(super) const MAX_MESSAGE: usize = 201;
/// Bytes of the name of a log.
const NAME_BYTES: usize = 200;
/// The serial interface that a receiver without one is asked to signal on.
const NO_SERIAL: [u8; 10] = *b"noSerial\0\0";
/// Bytes of the body of an announcement before its address.
const HEAD_BYTES: usize = 22;

/// Types of messages.
mod kind {
    pub(super) const CONNECT: u8 = 1;
    pub(super) const CONNECTED: u8 = 2;
    pub(super) const FLOW: u8 = 3;
    pub(super) const CLOSE_FLOW: u8 = 4;
    pub(super) const ACCEPTED: u8 = 5;
    pub(super) const FLOW_CLOSED: u8 = 6;
    pub(super) const CLOSED: u8 = 7;
    pub(super) const CLOSE: u8 = 11;
    pub(super) const REMOTE_LOG: u8 = 12;
    pub(super) const NO_PORT: u8 = 15;
    pub(super) const NO_ICMP: u8 = 16;
    pub(super) const LOG: u8 = 19;
    pub(super) const LOGGED: u8 = 18;
    pub(super) const GONE: u8 = 22;
}

/// A message that this end does not know, by its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unknown(pub(super) u8);

/// What is read of the beginning of some bytes: a message and its length; `None`: more is needed.
pub(super) type Read<T> = Result<Option<(T, usize)>, Unknown>;

/// The protocol of a flow's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer4 {
    Tcp,
    Udp,
    Icmp,
    /// Another one, by D-ITG's number: 4 is SCTP, 5 is DCCP.
    Other(u8),
}

impl Layer4 {
    fn of(byte: u8) -> Self {
        match byte {
            1 => Layer4::Tcp,
            2 => Layer4::Udp,
            3 => Layer4::Icmp,
            other => Layer4::Other(other),
        }
    }

    fn byte(self) -> u8 {
        match self {
            Layer4::Tcp => 1,
            Layer4::Udp => 2,
            Layer4::Icmp => 3,
            Layer4::Other(other) => other,
        }
    }
}

/// What each packet of a flow states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Metadata {
    /// Flow, number and send time.
    Whole,
    /// Flow and number.
    Short,
    Nothing,
}

impl Metadata {
    fn of(byte: u8) -> Self {
        match byte {
            1 => Metadata::Short,
            2 => Metadata::Nothing,
            _ => Metadata::Whole,
        }
    }

    fn byte(self) -> u8 {
        match self {
            Metadata::Whole => 0,
            Metadata::Short => 1,
            Metadata::Nothing => 2,
        }
    }
}

/// The announcement of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FlowRequest {
    /// Its number, chosen by the sender.
    pub(super) flow: u32,
    pub(super) layer4: Layer4,
    /// The receiver sends back each packet (round-trip meter).
    pub(super) echoes: bool,
    /// The byte of DSCP and ECN.
    pub(super) tos: u8,
    pub(super) metadata: Metadata,
    /// Port of the data at the receiver; 0: it chooses.
    pub(super) port: u16,
    /// Address of the data at the receiver.
    pub(super) address: IpAddr,
}

/// A message of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    Connect,
    Flow(FlowRequest),
    /// The sender has finished a flow.
    CloseFlow(u32),
    /// It has finished all.
    Close,
    /// The receiver is to write a log of this name.
    Log,
}

impl Message {
    /// Reads a message.
    pub(super) fn parse(bytes: &[u8]) -> Read<Message> {
        let Some((&kind, body)) = bytes.split_first() else { return Ok(None) };
        let number = || body.first_chunk().map(|n| u32::from_be_bytes(*n));
        let (message, length) = match kind {
            kind::CONNECT => (Some(Message::Connect), 0),
            kind::CLOSE => (Some(Message::Close), 0),
            kind::CLOSE_FLOW => (number().map(Message::CloseFlow), 4),
            kind::LOG => (body.get(..NAME_BYTES).map(|_| Message::Log), NAME_BYTES),
            kind::FLOW => match FlowRequest::parse(body) {
                Some((request, length)) => (Some(Message::Flow(request)), length),
                None => (None, 0),
            },
            other => return Err(Unknown(other)),
        };
        Ok(message.map(|message| (message, 1 + length)))
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        match self {
            Message::Connect => vec![kind::CONNECT],
            Message::Close => vec![kind::CLOSE],
            Message::CloseFlow(flow) => numbered(kind::CLOSE_FLOW, flow),
            Message::Log => [&[kind::LOG][..], &[0; NAME_BYTES]].concat(),
            Message::Flow(request) => request.to_bytes(),
        }
    }
}

fn numbered(kind: u8, flow: u32) -> Vec<u8> {
    [&[kind][..], &flow.to_be_bytes()].concat()
}

impl FlowRequest {
    /// Reads the body of an announcement.
    fn parse(body: &[u8]) -> Option<(FlowRequest, usize)> {
        let head: &[u8; HEAD_BYTES] = body.first_chunk()?;
        let [layer4, _layer7, meter, tos, layer3, f1, f2, f3, f4, metadata, _serial @ .., p1, p2] =
            *head;
        let rest = &body[head.len()..];
        let (address, length) = match layer3 {
            6 => (IpAddr::from(Ipv6Addr::from(*rest.first_chunk()?)), 16),
            _ => (IpAddr::from(Ipv4Addr::from(*rest.first_chunk::<4>()?)), 4),
        };
        let request = FlowRequest {
            flow: u32::from_be_bytes([f1, f2, f3, f4]),
            layer4: Layer4::of(layer4),
            echoes: meter == 2,
            tos,
            metadata: Metadata::of(metadata),
            port: u16::from_le_bytes([p1, p2]),
            address,
        };
        Some((request, head.len() + length))
    }

    fn to_bytes(self) -> Vec<u8> {
        let (version, address) = match self.address {
            IpAddr::V4(address) => (4, address.octets().to_vec()),
            IpAddr::V6(address) => (6, address.octets().to_vec()),
        };
        let meter = if self.echoes { 2 } else { 1 };
        let mut bytes = vec![kind::FLOW, self.layer4.byte(), 0, meter, self.tos, version];
        bytes.extend(self.flow.to_be_bytes());
        bytes.push(self.metadata.byte());
        bytes.extend(NO_SERIAL);
        bytes.extend(self.port.to_le_bytes());
        bytes.extend(address);
        bytes
    }
}

/// A message of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Connected,
    /// A flow is accepted: its data goes to this port.
    Accepted {
        flow: u32,
        port: u16,
    },
    FlowClosed(u32),
    Closed,
    Logged,
    /// The data of a flow can't be received: its port, or its protocol.
    NoPort(u32),
    /// The receiver may not use ICMP.
    NoIcmp(u32),
    /// The receiver has failed.
    Gone(u32),
}

impl Reply {
    /// Reads a message.
    pub(super) fn parse(bytes: &[u8]) -> Read<Reply> {
        let Some((&kind, body)) = bytes.split_first() else { return Ok(None) };
        let flow = || body.first_chunk().map(|n| u32::from_be_bytes(*n));
        let (reply, length) = match kind {
            kind::CONNECTED => (Some(Reply::Connected), 0),
            kind::CLOSED => (Some(Reply::Closed), 0),
            kind::LOGGED => (Some(Reply::Logged), 0),
            kind::FLOW_CLOSED => (flow().map(Reply::FlowClosed), 4),
            kind::NO_PORT => (flow().map(Reply::NoPort), 4),
            kind::NO_ICMP => (flow().map(Reply::NoIcmp), 4),
            kind::GONE => (flow().map(Reply::Gone), 4),
            kind::ACCEPTED => {
                let accepted = body.first_chunk().map(|bytes: &[u8; 6]| {
                    let [f1, f2, f3, f4, p1, p2] = *bytes;
                    let flow = u32::from_be_bytes([f1, f2, f3, f4]);
                    Reply::Accepted { flow, port: u16::from_be_bytes([p1, p2]) }
                });
                (accepted, 6)
            }
            other => return Err(Unknown(other)),
        };
        Ok(reply.map(|reply| (reply, 1 + length)))
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        match self {
            Reply::Connected => vec![kind::CONNECTED],
            Reply::Closed => vec![kind::CLOSED],
            Reply::Logged => vec![kind::LOGGED],
            Reply::FlowClosed(flow) => numbered(kind::FLOW_CLOSED, flow),
            Reply::NoPort(flow) => numbered(kind::NO_PORT, flow),
            Reply::NoIcmp(flow) => numbered(kind::NO_ICMP, flow),
            Reply::Gone(flow) => numbered(kind::GONE, flow),
            Reply::Accepted { flow, port } => {
                [&numbered(kind::ACCEPTED, flow)[..], &port.to_be_bytes()].concat()
            }
        }
    }
}

/// Whether a message asks for a log at another host.
pub(super) fn is_remote_log(unknown: Unknown) -> bool {
    unknown.0 == kind::REMOTE_LOG
}

/// Bytes of the announcement of a log at a log server, and of the message that ends it.
pub(super) const LOG_REQUEST_BYTES: usize = 4 + NAME_BYTES;
/// Maximum number of characters of a log's name that are shown.
const MAX_SHOWN: usize = 60;

/// The announcement of a log at a log server: the protocol of the entries as a little-endian integer, and a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogRequest {
    /// Entries arrive as datagrams, otherwise as a stream.
    pub(super) is_udp: bool,
    /// The name of the log, shortened and without control characters.
    pub(super) name: String,
}

impl LogRequest {
    /// Reads an announcement.
    ///
    /// # Errors
    /// The number of another protocol.
    pub(super) fn parse(bytes: &[u8; LOG_REQUEST_BYTES]) -> Result<LogRequest, u32> {
        let [p1, p2, p3, p4, name @ ..] = bytes;
        let is_udp = match u32::from_le_bytes([*p1, *p2, *p3, *p4]) {
            1 => false,
            2 => true,
            other => return Err(other),
        };
        // What follows the zero was never written by ITGSend.
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name);
        let name = name.chars().filter(|c| !c.is_control()).take(MAX_SHOWN).collect();
        Ok(LogRequest { is_udp, name })
    }
}

/// The headers of a stream of a flow: as of datagrams, and the length of the message with the header.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) flow: u32,
}

impl Framing for Frames {
    fn header_bytes(&self) -> usize {
        FRAME_BYTES
    }

    fn write(&mut self, number: u64, length: usize, realtime_ns: u64, header: &mut [u8]) {
        let seconds = (realtime_ns / 1_000_000_000) % 86_400;
        let micros = realtime_ns % 1_000_000_000 / 1000;
        let words = [
            self.flow,
            number.wrapping_add(1) as u32,
            seconds as u32,
            micros as u32,
            u32::try_from(length).unwrap_or(u32::MAX),
        ];
        for (bytes, word) in header.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
    }
}

/// Bytes at the beginning of a flow's data that identify it.
pub(super) const IDENTITY_BYTES: usize = SHORT_BYTES;

/// Fuzz body: any message is read, refused or incomplete, and is read as it is written again.
pub fn fuzz_ditg(data: &[u8]) {
    match Message::parse(data) {
        Ok(Some((message, length))) => {
            assert!((1..=MAX_MESSAGE).contains(&length) && length <= data.len());
            let again = message.to_bytes();
            assert_eq!(Message::parse(&again), Ok(Some((message, again.len()))));
            if let Message::Flow(request) = message
                && let Ok(plan) = super::settings::plan(&request)
            {
                assert_eq!(plan.flows(weir_model::plan::Family::Ipv4, 1500).len(), 1);
            }
        }
        Ok(None) => assert!(data.len() < MAX_MESSAGE),
        Err(_) => {}
    }
    if let Ok(Some((reply, length))) = Reply::parse(data) {
        assert_eq!(reply.to_bytes(), data[..length]);
    }
    if let Some(Ok(request)) = data.first_chunk().map(LogRequest::parse) {
        assert!(request.name.chars().count() <= MAX_SHOWN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Messages of ITGSend 2.8.1: `-a 127.0.0.1 -T UDP`, `-a ::1 -T TCP -m rttm -p 1 -rp 9010`.
    const CAPTURED: [&[u8]; 2] = [
        b"\x03\x02\x00\x01\x00\x04\x00\x00\x00\x01\x00noSerial\0\0\x27\x23\x7f\x00\x00\x01",
        b"\x03\x01\x00\x02\x00\x06\x00\x00\x00\x02\x01noSerial\0\0\x32\x23\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01",
    ];

    #[test]
    fn captured_announcements_are_read_and_written() {
        let udp = FlowRequest {
            flow: 1,
            layer4: Layer4::Udp,
            echoes: false,
            tos: 0,
            metadata: Metadata::Whole,
            port: 8999,
            address: "127.0.0.1".parse().unwrap(),
        };
        let tcp = FlowRequest {
            flow: 2,
            layer4: Layer4::Tcp,
            echoes: true,
            metadata: Metadata::Short,
            port: 9010,
            address: "::1".parse().unwrap(),
            ..udp
        };
        for (bytes, request) in CAPTURED.into_iter().zip([udp, tcp]) {
            let message = Message::Flow(request);
            assert_eq!(Message::parse(bytes), Ok(Some((message, bytes.len()))));
            assert_eq!(message.to_bytes(), bytes);
        }
    }

    #[test]
    fn captured_replies_are_read_and_written() {
        for (bytes, reply) in [
            (&b"\x02"[..], Reply::Connected),
            (b"\x05\x00\x00\x00\x01\x23\x27", Reply::Accepted { flow: 1, port: 8999 }),
            (b"\x06\x00\x00\x00\x01", Reply::FlowClosed(1)),
            (b"\x07", Reply::Closed),
            (b"\x12", Reply::Logged),
            (b"\x0f\x00\x00\x00\x01", Reply::NoPort(1)),
        ] {
            assert_eq!(Reply::parse(bytes), Ok(Some((reply, bytes.len()))));
            assert_eq!(reply.to_bytes(), bytes);
        }
        assert_eq!(Reply::parse(&[14]), Err(Unknown(14)));
        assert!(is_remote_log(Message::parse(&[12, 0]).unwrap_err()));
    }

    #[test]
    fn a_captured_announcement_of_a_log_is_read() {
        // ITGSend -l s1.log -L 127.0.0.1 UDP: bytes after the name are whatever was in its memory.
        let mut bytes = [0x41; LOG_REQUEST_BYTES];
        bytes[..11].copy_from_slice(b"\x02\0\0\0s1.log\0");
        let request = LogRequest { is_udp: true, name: "s1.log".into() };
        assert_eq!(LogRequest::parse(&bytes), Ok(request.clone()));
        bytes[0] = 1;
        assert_eq!(LogRequest::parse(&bytes), Ok(LogRequest { is_udp: false, ..request }));
        // The message that ends a log.
        bytes[..4].copy_from_slice(&[0, 1, 0, 0]);
        assert_eq!(LogRequest::parse(&bytes), Err(256));
        bytes[0..8].copy_from_slice(b"\x01\0\0\0\x1b[1m");
        assert!(!LogRequest::parse(&bytes).unwrap().name.contains('\x1b'));
    }

    #[test]
    fn a_frame_of_a_stream_states_its_length_and_the_time_of_day() {
        let mut header = [0; FRAME_BYTES];
        // 16:19:39.328775 UTC of some day.
        let realtime_ns = (20_000 * 86_400 + 58_779) * 1_000_000_000 + 328_775_999;
        Frames { flow: 1 }.write(0, 60, realtime_ns, &mut header);
        // As ITGSend -T TCP -c 60 sends it.
        let captured = b"\0\0\0\x01\0\0\0\x01\0\0\xe5\x9b\0\x05\x04\x47\0\0\0\x3c";
        assert_eq!(header, *captured);
    }

    fn requests() -> impl Strategy<Value = FlowRequest> {
        let address = prop_oneof![
            any::<[u8; 4]>().prop_map(IpAddr::from),
            any::<[u8; 16]>().prop_map(IpAddr::from),
        ];
        let fields = (any::<(u32, u8, bool, u8, u16)>(), 0..3_u8, address);
        fields.prop_map(|((flow, layer4, echoes, tos, port), metadata, address)| FlowRequest {
            flow,
            layer4: Layer4::of(layer4),
            echoes,
            tos,
            metadata: Metadata::of(metadata),
            port,
            address,
        })
    }

    proptest! {
        #[test]
        fn an_announcement_is_read_as_it_was_written(request in requests(), more in any::<[u8; 3]>()) {
            let mut bytes = Message::Flow(request).to_bytes();
            let length = bytes.len();
            for cut in 0..length {
                prop_assert_eq!(Message::parse(&bytes[..cut]), Ok(None));
            }
            bytes.extend(more);
            prop_assert_eq!(Message::parse(&bytes), Ok(Some((Message::Flow(request), length))));
        }
    }

    #[test]
    fn mutated_messages_are_read_or_refused() {
        let log = Message::Log.to_bytes();
        let accepted = Reply::Accepted { flow: 7, port: 9 }.to_bytes();
        let close = Message::CloseFlow(3).to_bytes();
        let corpus = [CAPTURED[0], CAPTURED[1], &log, &accepted, &close];
        weir_laws::mutation::replay(&corpus, 20_000, fuzz_ditg);
    }
}
