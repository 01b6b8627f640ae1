//! Messages of iperf3: the cookie, the states, the parameters and results as JSON, and the hello of UDP streams.
//!
//! The format is that of iperf3 3.1 to 3.21; it has no specification besides the program.

use serde_json::{Map, Number, Value};

/// Length of a cookie, bytes, with the NUL at its end.
pub(super) const COOKIE_BYTES: usize = 37;
/// Characters of a cookie.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Maximum length of the parameters, bytes, that iperf3's server accepts.
pub(super) const MAX_PARAMETERS: u32 = 8 << 10;
/// Maximum length of a client's results, bytes: 512 streams.
pub(super) const MAX_CLIENT_RESULTS: u32 = 256 << 10;
/// Maximum length of a server's results, bytes, which may have its output in them.
pub(super) const MAX_SERVER_RESULTS: u32 = 16 << 20;
/// Most streams in a direction.
pub(super) const MAX_STREAMS: u64 = 128;
/// Largest block of a stream, bytes.
pub(super) const MAX_BLOCK: u64 = 1 << 20;
/// Default block of a stream, bytes.
pub(super) const STREAM_BLOCK: u64 = 128 << 10;
/// Smallest datagram, bytes: the header.
pub(super) const MIN_DATAGRAM: u64 = 16;
/// Default datagram where the client states none, bytes.
pub(super) const DATAGRAM: u64 = 1460;

/// The name of a session: 36 random characters. Each data connection begins with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Cookie([u8; COOKIE_BYTES]);

impl Cookie {
    /// A cookie of random bytes.
    #[must_use]
    pub(super) fn of(random: &[u8; COOKIE_BYTES - 1]) -> Self {
        let mut bytes = [0; COOKIE_BYTES];
        for (byte, random) in bytes.iter_mut().zip(random) {
            *byte = ALPHABET[usize::from(random & 31)];
        }
        Cookie(bytes)
    }

    /// Reads a cookie; `None` for other characters, or without the NUL at the end.
    #[must_use]
    pub(super) fn parse(bytes: &[u8; COOKIE_BYTES]) -> Option<Self> {
        let (text, end) = bytes.split_at(COOKIE_BYTES - 1);
        (end == [0] && Self::may_begin(text)).then_some(Cookie(*bytes))
    }

    /// Whether a cookie may begin with these bytes.
    #[must_use]
    pub(super) fn may_begin(bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| ALPHABET.contains(byte))
    }

    /// Its bytes on the wire.
    #[must_use]
    pub(super) fn as_bytes(&self) -> &[u8; COOKIE_BYTES] {
        &self.0
    }
}

/// Declares the states.
macro_rules! states {
    ($($(#[$meta:meta])* $name:ident = $value:literal,)*) => {
        /// A message of the control connection: one signed byte.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum State {
            $($(#[$meta])* $name,)*
        }

        impl State {
            /// The state of a byte.
            #[must_use]
            pub(super) fn parse(byte: u8) -> Option<Self> {
                match i8::from_ne_bytes([byte]) {
                    $($value => Some(State::$name),)*
                    _ => None,
                }
            }

            /// Its byte.
            #[must_use]
            pub(super) fn byte(self) -> u8 {
                match self {
                    $(State::$name => i8::to_ne_bytes($value)[0],)*
                }
            }
        }
    };
}

states! {
    /// From the server: the test is about to start.
    TestStart = 1,
    /// From the server: data flows.
    TestRunning = 2,
    /// From the client: the test is over.
    TestEnd = 4,
    /// From the server: the client may send its parameters.
    ParamExchange = 9,
    /// From the server: the client may open its streams.
    CreateStreams = 10,
    /// From the server: it ends the test.
    ServerTerminate = 11,
    /// From the client: it ends the test.
    ClientTerminate = 12,
    /// From the server: results, the client's first.
    ExchangeResults = 13,
    /// From the server: both have the results.
    DisplayResults = 14,
    /// Reserved by iperf3.
    Start = 15,
    /// From the client: the session is over.
    Done = 16,
    /// From the server: it is busy, or denies access.
    AccessDenied = -1,
    /// From the server: an error; two numbers of 32 bits follow.
    ServerError = -2,
}

/// Transport of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// TCP that may use several paths.
    Mptcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// The parameters of a test, which the client states. Numbers are 0, and texts absent, where iperf3's are not set.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Parameters {
    /// Transport.
    pub(super) protocol: Protocol,
    /// Time at the start that is not counted, s.
    pub(super) omit: u64,
    /// Duration without it, s; 0: until another limit.
    pub(super) time: u64,
    /// Bytes of all streams; 0: no limit.
    pub(super) bytes: u64,
    /// Blocks of all streams; 0: no limit.
    pub(super) blocks: u64,
    /// Streams in each direction.
    pub(super) parallel: u64,
    /// The server sends.
    pub(super) reverse: bool,
    /// Both send.
    pub(super) bidirectional: bool,
    /// Bytes of a block or datagram; 0: the default.
    pub(super) block_bytes: u64,
    /// Rate of each stream, bit/s; 0: unlimited.
    pub(super) rate: u64,
    /// Rate of the kernel's pacing, bit/s; 0: none.
    pub(super) kernel_pacing: u64,
    /// Blocks that are sent in a row.
    pub(super) burst: u64,
    /// TCP maximum segment size, bytes.
    pub(super) mss: u64,
    /// Socket buffer, bytes.
    pub(super) window: u64,
    /// Nagle's algorithm is off.
    pub(super) no_delay: bool,
    /// TOS byte.
    pub(super) tos: u64,
    /// IPv6 flow label.
    pub(super) flow_label: u64,
    /// Congestion control.
    pub(super) congestion: Option<String>,
    /// Title.
    pub(super) title: Option<String>,
    /// Text that the client wants in the results.
    pub(super) extra_data: Option<String>,
    /// The client wants the server's output.
    pub(super) wants_output: bool,
    /// Datagrams have 64-bit sequence numbers.
    pub(super) wide_counters: bool,
    /// The payload repeats.
    pub(super) repeats_payload: bool,
    /// Streams are sent without a copy.
    pub(super) zero_copy: bool,
    /// Datagrams are not fragmented.
    pub(super) dont_fragment: bool,
    /// The receiver discards in the kernel.
    pub(super) discard: bool,
    /// Credentials, encrypted.
    pub(super) token: Option<String>,
    /// Version of the client.
    pub(super) version: Option<String>,
}

/// A JSON object with iperf3's numbers, which other JSON libraries write in several forms.
struct Object<'a>(&'a Map<String, Value>);

impl Object<'_> {
    /// A number; absent, negative or no number: `None`.
    fn number(&self, name: &str) -> Option<u64> {
        let value = self.0.get(name)?;
        // A double, as iperf3 keeps it: 1e9 is a valid form, and 2^64 − 1 is −1 in 3.12.
        match (value.as_u64(), value.as_f64()) {
            (Some(u64::MAX), _) => None,
            (Some(n), _) => Some(n),
            (None, real) => real.filter(|n| *n >= 0.0).map(|n| n as u64),
        }
    }

    fn or_zero(&self, name: &str) -> u64 {
        self.number(name).unwrap_or(0)
    }

    fn real(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.as_f64().filter(|n| n.is_finite() && *n >= 0.0)
    }

    fn is_set(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Value::Bool(is_set)) => *is_set,
            _ => self.or_zero(name) > 0,
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        self.0.get(name)?.as_str().map(Into::into)
    }
}

/// What is wrong with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum MessageError {
    /// It is not a JSON object.
    #[error("not a JSON object")]
    NotAnObject,
    /// A field is missing or has an impossible value.
    #[error("{0} is missing or impossible")]
    Field(&'static str),
}

fn object(json: &[u8]) -> Result<Value, MessageError> {
    let value: Value = serde_json::from_slice(json).map_err(|_| MessageError::NotAnObject)?;
    if value.is_object() { Ok(value) } else { Err(MessageError::NotAnObject) }
}

impl Parameters {
    /// Reads parameters. Unknown fields are ignored, as in iperf3.
    ///
    /// # Errors
    /// [`MessageError`] for what is not a JSON object, or names no transport.
    pub(super) fn parse(json: &[u8]) -> Result<Self, MessageError> {
        let value = object(json)?;
        let fields = Object(value.as_object().ok_or(MessageError::NotAnObject)?);
        let protocol = match () {
            () if fields.is_set("udp") => Protocol::Udp,
            () if fields.is_set("sctp") => Protocol::Sctp,
            () if fields.is_set("tcp") && fields.is_set("mptcp") => Protocol::Mptcp,
            () if fields.is_set("tcp") => Protocol::Tcp,
            () => return Err(MessageError::Field("the transport")),
        };
        Ok(Parameters {
            protocol,
            omit: fields.or_zero("omit"),
            time: fields.or_zero("time"),
            bytes: fields.or_zero("num"),
            blocks: fields.or_zero("blockcount"),
            parallel: fields.number("parallel").unwrap_or(1),
            reverse: fields.is_set("reverse"),
            bidirectional: fields.is_set("bidirectional"),
            block_bytes: fields.or_zero("len"),
            rate: fields.or_zero("bandwidth"),
            kernel_pacing: fields.or_zero("fqrate"),
            burst: fields.or_zero("burst"),
            mss: fields.or_zero("MSS"),
            window: fields.or_zero("window"),
            no_delay: fields.is_set("nodelay"),
            tos: fields.or_zero("TOS"),
            flow_label: fields.or_zero("flowlabel"),
            congestion: fields.text("congestion"),
            title: fields.text("title"),
            extra_data: fields.text("extra_data"),
            wants_output: fields.is_set("get_server_output"),
            wide_counters: fields.is_set("udp_counters_64bit"),
            repeats_payload: fields.is_set("repeating_payload"),
            zero_copy: fields.is_set("zerocopy"),
            dont_fragment: fields.is_set("dont_fragment"),
            discard: fields.is_set("skip_rx_copy"),
            token: fields.text("authtoken"),
            version: fields.text("client_version"),
        })
    }

    /// Writes the parameters.
    #[must_use]
    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut out = Map::new();
        let mut put = |name: &str, value: Value| drop(out.insert(name.into(), value));
        match self.protocol {
            Protocol::Tcp => put("tcp", true.into()),
            Protocol::Mptcp => ["tcp", "mptcp"].into_iter().for_each(|name| put(name, true.into())),
            Protocol::Udp => put("udp", true.into()),
            Protocol::Sctp => put("sctp", true.into()),
        }
        for (name, value) in [
            ("omit", self.omit),
            ("time", self.time),
            ("num", self.bytes),
            ("blockcount", self.blocks),
            ("parallel", self.parallel),
            ("len", self.block_bytes),
            // Of the server's timer, in iperf3's default.
            ("pacing_timer", 1000),
        ] {
            put(name, value.into());
        }
        for (name, value) in [
            ("bandwidth", self.rate),
            ("fqrate", self.kernel_pacing),
            ("burst", self.burst),
            ("MSS", self.mss),
            ("window", self.window),
            ("TOS", self.tos),
            ("flowlabel", self.flow_label),
            ("get_server_output", self.wants_output.into()),
            ("udp_counters_64bit", self.wide_counters.into()),
            ("repeating_payload", self.repeats_payload.into()),
            ("zerocopy", self.zero_copy.into()),
            ("dont_fragment", self.dont_fragment.into()),
            ("skip_rx_copy", self.discard.into()),
        ] {
            if value > 0 {
                put(name, value.into());
            }
        }
        for (name, is_set) in [
            ("nodelay", self.no_delay),
            ("reverse", self.reverse),
            ("bidirectional", self.bidirectional),
        ] {
            if is_set {
                put(name, true.into());
            }
        }
        for (name, text) in [
            ("congestion", &self.congestion),
            ("title", &self.title),
            ("extra_data", &self.extra_data),
            ("authtoken", &self.token),
            ("client_version", &self.version),
        ] {
            if let Some(text) = text {
                put(name, text.clone().into());
            }
        }
        Value::Object(out).to_string().into_bytes()
    }
}

/// Results of one stream at one end.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct StreamResult {
    /// Number of the stream: 1, 3, 4, 5, …
    pub(super) id: u64,
    /// Payload bytes without the omitted time.
    pub(super) bytes: u64,
    /// Retransmitted segments of a sender; `None`: not counted.
    pub(super) retransmits: Option<u64>,
    /// Jitter, s (RFC 3550).
    pub(super) jitter_seconds: f64,
    /// Lost datagrams, the omitted time included.
    pub(super) lost: u64,
    /// Those of the omitted time; `None`: an old iperf3.
    pub(super) omitted_lost: Option<u64>,
    /// Datagrams up to the highest sequence number, or sent ones, the omitted time included.
    pub(super) packets: u64,
    /// Those of the omitted time.
    pub(super) omitted_packets: Option<u64>,
    /// Duration, s; `None`: an old iperf3.
    pub(super) seconds: Option<f64>,
}

/// Results of one end.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Results {
    /// Processor time of the program over the duration, in percent of one processor: all, in user and in kernel mode.
    pub(super) cpu_percent: [f64; 3],
    /// Whether the sender counts retransmissions; `None`: this end does not send.
    pub(super) has_retransmits: Option<bool>,
    /// Congestion control in use.
    pub(super) congestion: Option<String>,
    /// The server's output, if it was asked for.
    pub(super) output: Option<String>,
    /// Its streams.
    pub(super) streams: Vec<StreamResult>,
}

impl StreamResult {
    fn parse(value: &Value) -> Result<Self, MessageError> {
        let fields = Object(value.as_object().ok_or(MessageError::Field("streams"))?);
        let number = |name| fields.number(name).ok_or(MessageError::Field(name));
        let seconds =
            fields.real("end_time").map(|end| end - fields.real("start_time").unwrap_or(0.0));
        Ok(StreamResult {
            id: number("id")?,
            bytes: number("bytes")?,
            retransmits: fields.number("retransmits"),
            jitter_seconds: fields.real("jitter").ok_or(MessageError::Field("jitter"))?,
            // Duplicates make it negative.
            lost: fields.or_zero("errors"),
            omitted_lost: fields.number("omitted_errors"),
            packets: number("packets")?,
            omitted_packets: fields.number("omitted_packets"),
            seconds: seconds.filter(|seconds| *seconds >= 0.0),
        })
    }

    fn to_value(self) -> Value {
        let real = |n: f64| Number::from_f64(n).map_or(Value::from(0), Value::Number);
        serde_json::json!({
            "id": self.id,
            "bytes": self.bytes,
            "retransmits": self.retransmits.map_or(Value::from(-1), Value::from),
            "jitter": real(self.jitter_seconds),
            "errors": self.lost,
            "omitted_errors": self.omitted_lost.unwrap_or(0),
            "packets": self.packets,
            "omitted_packets": self.omitted_packets.unwrap_or(0),
            "start_time": 0,
            "end_time": real(self.seconds.unwrap_or(0.0)),
        })
    }
}

impl Results {
    /// Reads results.
    ///
    /// # Errors
    /// [`MessageError`] for what is not a JSON object, or lacks a field that iperf3 requires.
    pub(super) fn parse(json: &[u8]) -> Result<Self, MessageError> {
        let value = object(json)?;
        let map = value.as_object().ok_or(MessageError::NotAnObject)?;
        let fields = Object(map);
        let percent = |name| fields.real(name).ok_or(MessageError::Field(name));
        let streams = map.get("streams").and_then(Value::as_array);
        let output = || Some(map.get("server_output_json")?.to_string());
        Ok(Results {
            cpu_percent: [
                percent("cpu_util_total")?,
                percent("cpu_util_user")?,
                percent("cpu_util_system")?,
            ],
            has_retransmits: fields.number("sender_has_retransmits").map(|n| n > 0),
            congestion: fields.text("congestion_used"),
            output: fields.text("server_output_text").or_else(output),
            streams: streams
                .ok_or(MessageError::Field("streams"))?
                .iter()
                .map(StreamResult::parse)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Writes the results.
    #[must_use]
    pub(super) fn to_json(&self) -> Vec<u8> {
        let [total, user, system] = self.cpu_percent;
        let mut value = serde_json::json!({
            "cpu_util_total": total,
            "cpu_util_user": user,
            "cpu_util_system": system,
            "sender_has_retransmits": self.has_retransmits.map_or(-1, i32::from),
            "streams": self.streams.iter().map(|s| s.to_value()).collect::<Vec<_>>(),
        });
        let texts = [("congestion_used", &self.congestion), ("server_output_text", &self.output)];
        for (name, text) in texts {
            if let Some(text) = text {
                value[name] = text.clone().into();
            }
        }
        value.to_string().into_bytes()
    }
}

/// The number that iperf3 gives the stream at `index`, from 0.
#[must_use]
pub(super) fn stream_id(index: usize) -> u64 {
    if index == 0 { 1 } else { index as u64 + 2 }
}

/// The message by which a UDP stream begins, since 3.0.12 and before it: a number in the client's order of bytes.
const HELLOS: [u32; 2] = [0x3637_3839, 123_456_789];
/// The server's replies to them, in the same order.
const REPLIES: [u32; 2] = [0x3938_3736, 987_654_321];
/// Length of these messages, bytes. Every datagram of data is longer.
pub(super) const HELLO_BYTES: usize = 4;
/// The hello of this client.
pub(super) const HELLO: [u8; HELLO_BYTES] = HELLOS[0].to_le_bytes();

/// The reply to a hello, which has its length; `None` if it is none.
#[must_use]
pub(super) fn reply_to(hello: &[u8]) -> Option<[u8; HELLO_BYTES]> {
    let bytes: [u8; HELLO_BYTES] = hello.try_into().ok()?;
    let of = |number| HELLOS.iter().position(|hello| *hello == number).map(|i| REPLIES[i]);
    let little = || of(u32::from_le_bytes(bytes)).map(u32::to_le_bytes);
    little().or_else(|| of(u32::from_be_bytes(bytes)).map(u32::to_be_bytes))
}

/// Whether a server replies to a hello by these bytes.
#[must_use]
pub(super) fn is_reply(bytes: &[u8]) -> bool {
    let read = |bytes: [u8; HELLO_BYTES]| [u32::from_le_bytes(bytes), u32::from_be_bytes(bytes)];
    bytes.try_into().is_ok_and(|bytes| read(bytes).iter().any(|number| REPLIES.contains(number)))
}

/// Numbers of iperf3's errors.
pub(super) mod number {
    /// Too many streams.
    pub(in super::super) const STREAMS: i32 = 6;
    /// A block that is too large.
    pub(in super::super) const BLOCK: i32 = 7;
    /// No SCTP.
    pub(in super::super) const NO_SCTP: i32 = 18;
    /// A total rate above the server's limit.
    pub(in super::super) const TOTAL_RATE: i32 = 27;
    /// A duration above the server's limit.
    pub(in super::super) const DURATION: i32 = 37;
    /// Parameters that can't be read.
    pub(in super::super) const PARAMETERS: i32 = 114;
    /// Wrong credentials.
    pub(in super::super) const ACCESS: i32 = 142;
    /// A session at the limit of its time.
    pub(in super::super) const EXPIRED: i32 = 160;
}

/// A sentence for an error that a server reports by number; `None` for one without a sentence here.
#[must_use]
pub(super) fn error_text(number: i32) -> Option<&'static str> {
    Some(match number {
        number::TOTAL_RATE => "the total rate is above the server's limit",
        number::DURATION => "the duration is above the server's limit",
        number::ACCESS => "access is denied: user, password or time of the credentials",
        number::EXPIRED => "the session reached the server's limit of its time",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cookie_is_36_characters_and_a_nul() {
        let cookie = Cookie::of(&[0xff; 36]);
        assert_eq!(cookie.as_bytes()[..3], *b"777");
        assert_eq!(Cookie::parse(cookie.as_bytes()), Some(cookie));
        let mut bytes = *cookie.as_bytes();
        bytes[36] = b'a';
        assert_eq!(Cookie::parse(&bytes), None);
        bytes = *cookie.as_bytes();
        bytes[0] = b'1';
        assert_eq!(Cookie::parse(&bytes), None);
        assert!(!Cookie::may_begin(b"WEIR"));
    }

    #[test]
    fn states_are_signed_bytes() {
        assert_eq!(State::parse(0xff), Some(State::AccessDenied));
        assert_eq!(State::ServerError.byte(), 0xfe);
        for byte in 0..=255_u8 {
            assert!(State::parse(byte).is_none_or(|state| state.byte() == byte));
        }
    }

    #[test]
    fn hellos_are_answered_in_their_order_of_bytes() {
        let old = (123_456_789_u32, 987_654_321_u32);
        for (hello, reply) in [
            (*b"9876", *b"6789"),
            // Of a big-endian client.
            (*b"6789", *b"9876"),
            (old.0.to_le_bytes(), old.1.to_le_bytes()),
            (old.0.to_be_bytes(), old.1.to_be_bytes()),
        ] {
            assert_eq!(reply_to(&hello), Some(reply));
            assert!(is_reply(&reply));
        }
        assert_eq!((HELLO, reply_to(b"98765"), reply_to(&[0; 4])), (*b"9876", None, None));
        assert!(!is_reply(&old.0.to_le_bytes()) && !is_reply(b"67891"));
    }

    #[test]
    fn stream_numbers_leave_out_2() {
        assert_eq!([0, 1, 2, 3].map(stream_id), [1, 3, 4, 5]);
    }

    /// What iperf3 3.12 sends.
    const OF_CLIENT: &str = r#"{"tcp":true,"omit":0,"time":10,"num":0,"blockcount":0,"parallel":2,"reverse":true,
        "len":131072,"pacing_timer":1000,"client_version":"3.12","MSS":1400,"bandwidth":1e7,"nodelay":true,
        "udp_counters_64bit":1,"congestion":"reno","later":[1]}"#;

    #[test]
    fn parameters_of_iperf3_are_read() {
        let read = Parameters::parse(OF_CLIENT.as_bytes()).unwrap();
        let expected = Parameters {
            time: 10,
            parallel: 2,
            reverse: true,
            block_bytes: 131_072,
            version: Some("3.12".into()),
            mss: 1400,
            rate: 10_000_000,
            no_delay: true,
            wide_counters: true,
            congestion: Some("reno".into()),
            ..Parameters::default()
        };
        assert_eq!(read, expected);
        assert_eq!(Parameters::parse(&read.to_json()), Ok(read));
        for (json, error) in [
            ("[]", MessageError::NotAnObject),
            ("{", MessageError::NotAnObject),
            ("{}", MessageError::Field("the transport")),
        ] {
            assert_eq!(Parameters::parse(json.as_bytes()), Err(error));
        }
        let deep = format!("{{\"tcp\":{}", "[".repeat(8000));
        assert!(Parameters::parse(deep.as_bytes()).is_err());
    }

    #[test]
    fn results_of_iperf3_are_read() {
        let json = r#"{"cpu_util_total":1.5,"cpu_util_user":0.5,"cpu_util_system":1,"sender_has_retransmits":-1,
            "congestion_used":"cubic","streams":[{"id":1,"bytes":1000,"retransmits":18446744073709551615,"jitter":0.001,
            "errors":3,"packets":10,"start_time":0,"end_time":2.5}]}"#;
        let read = Results::parse(json.as_bytes()).unwrap();
        let stream = read.streams[0];
        assert_eq!((read.has_retransmits, read.cpu_percent[0]), (None, 1.5));
        assert_eq!((stream.retransmits, stream.lost, stream.packets), (None, 3, 10));
        assert_eq!((stream.seconds, stream.omitted_packets), (Some(2.5), None));
        for field in ["cpu_util_user", "streams", "jitter", "id"] {
            let without = json.replace(field, "other");
            assert_eq!(Results::parse(without.as_bytes()), Err(MessageError::Field(field)));
        }
    }

    proptest! {
        #[test]
        fn results_are_read_as_written(
            numbers in proptest::collection::vec((0..1_u64 << 62, 0..1_u64 << 40, 0.0..1e6_f64), 0..4),
            retransmits in proptest::option::of(0..1_u64 << 40),
            text in proptest::option::of(".{0,20}"),
        ) {
            let stream = |(index, (bytes, packets, jitter)): (usize, (u64, u64, f64))| StreamResult {
                id: stream_id(index),
                bytes,
                retransmits,
                jitter_seconds: jitter,
                lost: packets / 2,
                omitted_lost: Some(1),
                packets,
                omitted_packets: Some(2),
                seconds: Some(jitter),
            };
            let results = Results {
                cpu_percent: [1.0, 0.25, 0.75],
                has_retransmits: retransmits.map(|_| true),
                congestion: text.clone(),
                output: text,
                streams: numbers.into_iter().enumerate().map(stream).collect(),
            };
            prop_assert_eq!(Results::parse(&results.to_json()), Ok(results));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Parameters::parse(&bytes);
            let _ = Results::parse(&bytes);
            let _ = reply_to(&bytes);
        }
    }
}
