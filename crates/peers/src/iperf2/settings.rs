//! Plans as iperf2's headers, and headers as plans.

use weir_model::content::Content;
use weir_model::plan::{
    Connection, ConnectionFields, Direction, FlowSpec, HeaderFormat, PeerName, Plan, Shape, Switch,
    Transport,
};
use weir_model::units::{BitRate, ByteSize, RateLimit, SendRate, Span};
use weir_traffic::{ClientConfig, TrafficError};

use super::bounce::{self, Bounce};
use super::client::Extras;
use super::codec::{self, Amount, Header, Mode};
use super::isochronous::Isochronous;
use crate::carried::{self, Side};

const PEER: PeerName = PeerName::Iperf2;
/// Default block of a stream, bytes.
pub(super) const STREAM_BLOCK: u64 = 128 << 10;
/// Default datagram: iperf2's over IPv6. Its server reads no more than 1470 bytes of each unless it was started with `-l`.
const DATAGRAM: u64 = 1450;
/// The same of a server over IPv4.
const DATAGRAM_IPV4: u64 = 1470;
/// Smallest datagram that a client may ask for.
const LEAST_BACK: u32 = 16;
/// Largest block that a client may ask a server for, bytes.
const MAX_BLOCK: u64 = 1 << 20;
/// Largest number of bytes that a header states.
const MAX_AMOUNT: u64 = i32::MAX as u64;
/// Units of a header's time, ns.
const TIME_UNIT_NS: u64 = 10_000_000;
/// Rate at which a server sends datagrams where the client states none, bit/s.
const DATAGRAM_RATE: u64 = 1 << 20;
/// Rates have 56 bits.
const MAX_RATE: u64 = (1 << 56) - 1;

/// The options of a connection that a test has, by their fields, before those of this end alone. All others are refused.
const ACCEPTED: &[(&str, Side)] = &[
    ("name", Side::Both),
    ("transport", Side::Both),
    ("shape", Side::Both),
    ("request", Side::Both),
    ("response", Side::Both),
    ("direction", Side::Both),
    ("count", Side::Both),
    ("payload", Side::Both),
    ("header", Side::Both),
    ("rate", Side::Both),
    ("duration", Side::Both),
    ("bytes", Side::Both),
    ("packets", Side::Both),
    ("window", Side::Both),
    ("mss", Side::Both),
    ("tos", Side::Both),
    ("client_port", Side::Both),
    ("align", Side::Both),
    ("no_delay", Side::Sender),
];

pub(super) fn refused<T>(
    field: &'static str,
    given: impl std::fmt::Display,
    accepted: &str,
) -> Result<T, TrafficError> {
    Err(carried::of_test(PEER, field, given, accepted))
}

/// Checks what the protocol carries of a test, and completes its plan.
///
/// # Errors
/// [`TrafficError::Input`], [`TrafficError::Plan`].
pub(super) fn prepared(config: &ClientConfig) -> Result<Plan, TrafficError> {
    carried::check_sides(config, &[ACCEPTED, carried::LOCAL])?;
    if config.has_start() {
        return refused("start_at_ns", "given", "a start as soon as the server is ready");
    }
    let mut plan = config.plan.clone();
    if plan.omit.0 > 0 {
        return refused("omit", plan.omit, "0: iperf2's server counts the whole test");
    }
    // There is no channel for round trips alongside the data.
    plan.latency = false;
    for connection in &mut plan.connections {
        if connection.shape != Shape::Stream {
            check_bounce(connection)?;
        } else if connection.transport.datagrams() {
            connection.header = match connection.header {
                HeaderFormat::Native | HeaderFormat::Iperf2 => HeaderFormat::Iperf2,
                HeaderFormat::Iperf2Narrow => HeaderFormat::Iperf2Narrow,
                other => return refused("header", other, "iperf2 or iperf2-32bit"),
            };
            // The last datagram must reach its receiver by itself.
            let fields = ConnectionFields { gro: Some(Switch::Off), ..connection.clone().into() };
            *connection = fields.into();
            connection.payload.get_or_insert(ByteSize(DATAGRAM).into());
        } else if connection.payload.is_none() {
            connection.payload = Some(ByteSize(STREAM_BLOCK).into());
        }
    }
    check_connections(&plan)?;
    plan.check()?;
    Ok(plan)
}

/// Transactions are tests of round trips (`--bounceback`), whose responses are the requests.
fn check_bounce(connection: &Connection) -> Result<(), TrafficError> {
    let transport = connection.transport.name();
    if connection.shape != Shape::Rr || transport != Transport::tcp().name() {
        let given = format!("{} with transport {transport}", connection.shape);
        return refused("shape", given, "stream, or rr with transport tcp");
    }
    let [request, response] = [connection.request_bytes(), connection.response_bytes()];
    if !(bounce::BYTES as u64..=bounce::MAX_BYTES).contains(&request) {
        return refused("request", request, "60 to 65536 bytes: requests have iperf2's header");
    }
    if response != request {
        return refused("response", response, "the size of a request: the server sends it back");
    }
    if connection.outstanding() != 1 {
        return refused("outstanding", connection.outstanding(), "1");
    }
    Ok(())
}

/// One connection, or two that differ in their direction alone.
pub(super) fn check_connections(plan: &Plan) -> Result<(), TrafficError> {
    let like = |c: &Connection| Connection {
        name: String::new(),
        direction: Direction::Forward,
        ..c.clone().with_ip(|ip| ip.client_port = None)
    };
    let (streams, bounces): (Vec<&Connection>, Vec<&Connection>) =
        plan.connections.iter().partition(|c| c.shape == Shape::Stream);
    match &streams[..] {
        [] | [_] if bounces.len() <= 1 => {}
        [a, b] if bounces.len() <= 1 && like(a) == like(b) && a.direction != b.direction => {}
        _ => {
            let accepted =
                "one connection, or a forward and a reverse one that are otherwise alike";
            let all = plan.connections.len();
            return refused("connection", format!("{all} connections"), accepted);
        }
    }
    let mode = mode(plan);
    for connection in streams {
        check_amount(connection, mode)?;
        if connection.transport.datagrams() {
            check_datagrams(connection)?;
        }
    }
    Ok(())
}

/// Checks what the protocol carries beyond a plan.
///
/// # Errors
/// [`TrafficError::Input`].
pub(super) fn check_extras(plan: &Plan, extras: &Extras) -> Result<(), TrafficError> {
    if extras.hold_us > bounce::MAX_HOLD_US {
        return refused("hold", format!("{} us", extras.hold_us), "up to 10 s");
    }
    if let Some(isochronous) = &extras.isochronous {
        isochronous.check(plan)?;
    }
    if extras.call_back.is_none() {
        return Ok(());
    }
    if extras.isochronous.is_some() {
        return refused("isochronous", "given", "none where the server connects back");
    }
    if mode(plan) != Mode::FullDuplex {
        return refused("direction", "one", "both, where the server connects back");
    }
    let (count, header) = (plan.connections[0].count, plan.connections[0].header);
    if header == HeaderFormat::Iperf2Narrow {
        return refused("header", header, "iperf2 where the server connects back");
    }
    if plan.connections[0].transport.datagrams() && count > 1 {
        return refused("count", count, "1 over UDP where the server connects back");
    }
    Ok(())
}

/// Who sends in a plan.
pub(super) fn mode(plan: &Plan) -> Mode {
    // Round trips have no direction.
    let streams = || plan.connections.iter().filter(|c| c.shape == Shape::Stream);
    let is = |direction| streams().any(|c| c.direction == direction);
    match (is(Direction::Forward), is(Direction::Reverse)) {
        (true, true) => Mode::FullDuplex,
        (false, true) => Mode::Reverse,
        _ => Mode::Forward,
    }
}

/// What the server is to send must fit the header.
fn check_amount(connection: &Connection, mode: Mode) -> Result<(), TrafficError> {
    let is_datagrams = connection.transport.datagrams();
    if let Some(packets) = connection.packets.filter(|packets| is_datagrams && *packets < 2) {
        return refused("packets", packets, "at least 2: the last one announces the end");
    }
    if mode == Mode::Forward {
        return Ok(());
    }
    let largest = connection.payload.as_ref().map_or(0, |size| size.moments().max_bytes);
    // iperf 2.1.8 writes beyond its own buffer of this size, and crashes.
    let (most, accepted) = match is_datagrams {
        true => (DATAGRAM, "at most 1450 where the server sends, which has no larger buffer"),
        false => (STREAM_BLOCK, "at most 128K where the server sends, which has no larger buffer"),
    };
    if largest > most {
        return refused("payload", largest, accepted);
    }
    let packets = connection.packets.map(|packets| packets.saturating_mul(largest));
    if let Some(bytes) = connection.bytes.map(|bytes| bytes.0).or(packets)
        && bytes > MAX_AMOUNT
    {
        let field = if connection.bytes.is_some() { "bytes" } else { "packets" };
        return refused(field, bytes, "at most 2147483647 bytes where the server sends");
    }
    if connection.bytes.is_none() && connection.packets.is_none() {
        let most = u64::from(i32::MAX as u32);
        let units = connection.time_limit().map(|limit| limit.0.div_ceil(TIME_UNIT_NS));
        if units.is_none_or(|units| units > most) {
            let given = connection.duration.map_or("0".into(), |limit| limit.to_string());
            return refused("duration", given, "up to 248d where the server sends");
        }
    }
    let is_unlimited = connection.rate.is_some_and(|rate| rate.limit == RateLimit::Unlimited);
    if is_datagrams && is_unlimited {
        return refused("rate", "0", "a rate where the server sends datagrams");
    }
    Ok(())
}

/// Each datagram has room for the client's header: the server reads that of the first one to arrive.
fn check_datagrams(connection: &Connection) -> Result<(), TrafficError> {
    let least = (codec::NUMBER_BYTES + codec::HEADER_BYTES) as u64;
    let smallest = connection.payload.as_ref().map(|size| size.moments().min_bytes);
    if let Some(smallest) = smallest.filter(|smallest| *smallest < least) {
        return refused("payload", smallest, "at least 76 bytes, the length of iperf2's header");
    }
    Ok(())
}

/// The header of a plan from [`prepared`]. `spec`: one of its flows; `port`: the server's.
pub(super) fn header(plan: &Plan, spec: &FlowSpec, port: u16) -> Header {
    let connection = &spec.connection;
    let mode = mode(plan);
    let size = spec.payload_bytes();
    let bytes = match (connection.bytes, connection.packets) {
        (Some(bytes), _) => Some(bytes.0),
        (None, Some(packets)) => Some(packets.saturating_mul(size)),
        (None, None) => None,
    };
    // A server sends one more datagram after the amount.
    let is_datagrams = connection.transport.datagrams();
    let bytes = match bytes {
        Some(bytes) if is_datagrams => {
            Some(bytes.div_ceil(size.max(1)).saturating_sub(1).max(1).saturating_mul(size))
        }
        bytes => bytes,
    };
    let time = connection.time_limit().map_or(0, |limit| limit.0.div_ceil(TIME_UNIT_NS));
    let rate = match spec.rate.limit {
        RateLimit::Unlimited => 0,
        RateLimit::Bits(bits) => bits.0,
        RateLimit::Packets(packets) => (packets * 8.0 * size as f64) as u64,
    };
    Header {
        mode,
        is_wide: is_datagrams && connection.header == HeaderFormat::Iperf2,
        has_key: false,
        has_bursts: false,
        is_isochronous: false,
        frames: None,
        awaits_ack: mode == Mode::Forward && !is_datagrams,
        has_trip_times: false,
        // A report would arrive among the data.
        wants_no_report: is_datagrams && mode == Mode::FullDuplex,
        streams: plan.connections[0].count,
        port: port.into(),
        block_bytes: u32::try_from(spec.max_payload()).unwrap_or(0),
        amount: match bytes {
            Some(bytes) => Amount::Bytes(bytes.min(MAX_AMOUNT) as u32),
            None => Amount::Time(time.min(MAX_AMOUNT) as u32),
        },
        tos: connection.tos().unwrap_or(0),
        rate: rate.min(MAX_RATE),
        start: [0; 2],
    }
}

/// How a flow of a plan from [`prepared`] is sent here: the last datagram announces the end, so the worker sends one less.
pub(super) fn sent(spec: &FlowSpec) -> FlowSpec {
    let connection = &spec.connection;
    let size = spec.payload_bytes().max(1);
    let packets = connection.packets.or(connection.bytes.map(|bytes| bytes.0.div_ceil(size)));
    let Some(packets) = packets else { return spec.clone() };
    let less = Some(packets.saturating_sub(1).max(1));
    let connection = Connection { packets: less, bytes: None, ..connection.clone() };
    FlowSpec { connection, ..spec.clone() }
}

/// The plan of this end for a test of round trips. Transactions are `forward`, since they have no other direction.
///
/// # Errors
/// The reason for which it is not served.
pub(super) fn bounce(bounce: &Bounce) -> Result<Plan, String> {
    let size = Some(ByteSize(bounce.size.into()));
    let connection = ConnectionFields {
        shape: Shape::Rr,
        request: size,
        response: size,
        // The client ends it.
        duration: Some(Span(0)),
        tos: Some(bounce.tos).filter(|tos| *tos > 0),
        ..ConnectionFields::default()
    };
    let plan = Plan {
        peer: PEER,
        latency: false,
        connections: vec![connection.into()],
        ..Plan::default()
    };
    plan.check().map(|()| plan).map_err(|error| error.to_string())
}

/// The plan of this end for a client's stream or datagrams: what the client sends is received, `reverse` at this end. `header`:
/// that of the client, if it has one; `block_bytes`: the datagram's size, or the default block of a stream; `longest`: maximum duration of a session, s.
///
/// # Errors
/// The reason for which it is not served.
pub(super) fn plan(
    header: Option<&Header>,
    is_datagrams: bool,
    block_bytes: u64,
    longest: u64,
) -> Result<Plan, String> {
    let mode = header.map_or(Mode::Forward, |header| header.mode);
    if is_datagrams && matches!(mode, Mode::Reverse | Mode::FullDuplex) {
        return Err("datagrams to a source that may be forged".into());
    }
    plan_of(header, is_datagrams, block_bytes, longest)
}

/// The plan of this end for what it sends to a client that has asked to be called back.
///
/// # Errors
/// The reason for which it is not served.
pub(super) fn back(
    header: &Header,
    is_datagrams: bool,
    is_ipv6: bool,
    longest: u64,
) -> Result<Plan, String> {
    let block = match (is_datagrams, header.block_bytes) {
        (true, 0) if is_ipv6 => DATAGRAM,
        (true, 0) => DATAGRAM_IPV4,
        (true, stated) if !(LEAST_BACK..=65_507).contains(&stated) => {
            return Err(format!("datagrams of {stated} bytes"));
        }
        (true, stated) => stated.into(),
        (false, _) => STREAM_BLOCK,
    };
    let header = Header { mode: Mode::Reverse, ..*header };
    plan_of(Some(&header), is_datagrams, block, longest)
}

fn plan_of(
    header: Option<&Header>,
    is_datagrams: bool,
    block_bytes: u64,
    longest: u64,
) -> Result<Plan, String> {
    let mode = header.map_or(Mode::Forward, |header| header.mode);
    if matches!(mode, Mode::Dual | Mode::TradeOff) {
        return Err("a test that connects back to the client (-d or -r)".into());
    }
    if header.is_some_and(|header| header.has_key) {
        return Err("a permit key, which this server does not check".into());
    }
    let sends = matches!(mode, Mode::Reverse | Mode::FullDuplex);
    if sends && header.is_some_and(|header| header.has_bursts) {
        return Err("periodic bursts of the server".into());
    }
    let frames = header.filter(|header| sends && header.is_isochronous);
    let frames = frames.map(Isochronous::asked).transpose()?;
    let amount = header.map(|header| header.amount);
    if let (true, Some(Amount::Time(units))) = (sends, amount) {
        let seconds = u64::from(units).saturating_mul(TIME_UNIT_NS) / 1_000_000_000;
        if seconds > longest {
            return Err(format!("{seconds} s, above the limit of {longest} s"));
        }
    }
    let stated = header.map_or(0, |header| u64::from(header.block_bytes));
    let block = match (is_datagrams, stated) {
        (true, _) | (false, 0) => block_bytes,
        (false, stated) => stated.min(MAX_BLOCK),
    };
    let rate = header.map_or(0, |header| header.rate);
    let is_wide = header.is_some_and(|header| header.is_wide);
    let fields = |direction| {
        let sends = direction == Direction::Forward;
        let alone = is_datagrams.then_some(Switch::Off);
        ConnectionFields {
            direction,
            transport: if is_datagrams { Transport::udp() } else { Transport::tcp() }.name(),
            header: match (is_datagrams, is_wide) {
                (false, _) => HeaderFormat::default(),
                (true, true) => HeaderFormat::Iperf2,
                (true, false) => HeaderFormat::Iperf2Narrow,
            },
            payload: Some(ByteSize(block.max(1)).into()),
            rate: Some(match rate {
                0 if is_datagrams => bits(DATAGRAM_RATE),
                0 => SendRate::UNLIMITED,
                rate => bits(rate),
            }),
            duration: match amount.filter(|_| sends) {
                Some(Amount::Time(units)) => {
                    Some(Span(u64::from(units).saturating_mul(TIME_UNIT_NS)))
                }
                Some(Amount::Bytes(_)) => None,
                // The client ends it.
                None => Some(Span(0)),
            },
            bytes: match amount.filter(|_| sends) {
                Some(Amount::Bytes(bytes)) => Some(ByteSize(u64::from(bytes.max(1)))),
                _ => None,
            },
            content: Content::Ascii,
            tos: header.map(|header| header.tos).filter(|tos| *tos > 0),
            gso: alone,
            gro: alone,
            ..ConnectionFields::default()
        }
    };
    let directions: &[Direction] = match mode {
        Mode::Reverse => &[Direction::Forward],
        Mode::FullDuplex => &[Direction::Reverse, Direction::Forward],
        _ => &[Direction::Reverse],
    };
    let mut plan = Plan {
        peer: PEER,
        latency: false,
        connections: directions.iter().map(|direction| fields(*direction).into()).collect(),
        ..Plan::default()
    };
    if let Some(frames) = frames {
        frames.stream(&mut plan).map_err(|error| error.to_string())?;
    }
    plan.check().map(|()| plan).map_err(|error| error.to_string())
}

fn bits(rate: u64) -> SendRate {
    SendRate { limit: RateLimit::Bits(BitRate(rate)), burst: 1 }
}

/// Fuzz body: any header makes a plan that is valid, or is refused, and is read as it is written again; so is any report.
pub fn fuzz_iperf2(data: &[u8]) {
    if let Some(first) = data.first_chunk::<4>()
        && let codec::Beginning::Header(length) = codec::Beginning::of(*first)
    {
        assert!((24..=256).contains(&length));
    }
    for end in 0..data.len().min(16) {
        // More bytes change no decision.
        let early = super::recognition::begins_stream(&data[..end]);
        assert!(early.is_none() || early == super::recognition::begins_stream(data));
    }
    assert!(super::recognition::is_datagram(data).is_some());
    for (header, is_datagrams) in
        [(Header::of_stream(data), false), (Header::of_datagram(data), true)]
    {
        let Some(header) = header else { continue };
        let size = if is_datagrams { data.len().min(65_507) as u64 } else { STREAM_BLOCK };
        if let Ok(plan) = plan(Some(&header), is_datagrams, size, 3600) {
            assert!(plan.check().is_ok());
            let flows = plan.flows(weir_model::plan::Family::Ipv4, 1500);
            assert!((1..=2).contains(&flows.len()));
        }
        let again = Header::of_stream(&header.opening_bytes());
        assert!(
            again.is_some_and(|again| {
                (again.mode, again.frames) == (header.mode, header.frames)
            })
        );
    }
    if let Some(bounce) = Bounce::parse(data) {
        assert!(self::bounce(&bounce).is_ok_and(|plan| plan.check().is_ok()));
    }
    if let Some(report) = codec::Report::parse(data)
        && report.time_us.max(report.jitter_us) < 1 << 51
    {
        assert_eq!(codec::Report::parse(&report.to_bytes()), Some(report));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iperf2::codec::AskedFrames;

    fn config(text: &str) -> ClientConfig {
        let plan = Plan::parse(&format!("schema = \"weir.plan/1\"\npeer = \"iperf2\"\n{text}"));
        ClientConfig::new(plan.unwrap(), "h")
    }

    fn headed(text: &str) -> Header {
        let plan = prepared(&config(text)).unwrap();
        let spec = plan.flows(weir_model::plan::Family::Ipv4, 1500).swap_remove(0);
        header(&plan, &spec, 5001)
    }

    fn field(text: &str) -> String {
        match prepared(&config(text)).unwrap_err() {
            TrafficError::Input { field, .. } => field.into(),
            TrafficError::Plan(weir_model::ModelError::Field { field, .. }) => field,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn each_option_becomes_its_field_of_the_header() {
        let h = headed("[[connection]]\ncount = 4\nduration = \"1505ms\"\nrate = \"10M\"\ntos = 8");
        assert_eq!((h.mode, h.streams, h.port), (Mode::Forward, 4, 5001));
        assert_eq!((h.amount, h.rate, h.tos), (Amount::Time(151), 10_000_000, 8));
        assert_eq!((h.block_bytes, h.awaits_ack, h.is_wide), (131_072, true, false));
        let h = headed("[[connection]]\ndirection = \"reverse\"\nbytes = \"1M\"\npayload = \"8K\"");
        assert_eq!(
            (h.mode, h.amount, h.block_bytes),
            (Mode::Reverse, Amount::Bytes(1 << 20), 8192)
        );
        let h = headed(
            "[[connection]]\ntransport = \"udp\"\ndirection = \"reverse\"\npackets = 5\npayload = 100\nrate = \"1000pps\"",
        );
        // The server sends the fifth to announce the end.
        assert_eq!((h.amount, h.rate, h.is_wide), (Amount::Bytes(400), 800_000, true));
        let both = "[[connection]]\ntransport = \"udp\"\n[[connection]]\ntransport = \"udp\"\ndirection = \"reverse\"";
        let h = headed(both);
        assert!(h.mode == Mode::FullDuplex && h.wants_no_report);
    }

    #[test]
    fn the_last_datagram_is_the_protocols() {
        for (text, left) in [
            ("packets = 500", Some(499)),
            ("bytes = \"1000\"\npayload = 100", Some(9)),
            ("bytes = \"1001\"\npayload = 100", Some(10)),
            ("duration = \"1s\"", None),
        ] {
            let text = format!("[[connection]]\ntransport = \"udp\"\n{text}");
            let plan = prepared(&config(&text)).unwrap();
            let spec = plan.flows(weir_model::plan::Family::Ipv4, 1500).swap_remove(0);
            let sent = sent(&spec).connection;
            assert_eq!(
                (sent.packets, sent.bytes.filter(|_| left.is_some())),
                (left, None),
                "{text}"
            );
        }
    }

    #[test]
    fn what_the_protocol_does_not_carry_is_refused_by_its_field() {
        for (text, refused) in [
            ("[[connection]]\nverify = true\ntransport = \"udp\"", "connection[0].verify"),
            ("[[connection]]\nshape = \"crr\"", "shape"),
            ("[[connection]]\nshape = \"rr\"\ntransport = \"udp\"", "shape"),
            ("[[connection]]\nshape = \"rr\"\nrequest = 59\nresponse = 59", "request"),
            ("[[connection]]\nshape = \"rr\"\nrequest = 60\nresponse = 61", "response"),
            ("[[connection]]\nstart_after = \"1s\"", "connection[0].start_after"),
            ("[[connection]]\ndirection = \"reverse\"\nno_delay = true", "connection[0].no_delay"),
            ("[[connection]]\ntransport = \"udp\"\nheader = \"none\"", "header"),
            ("[[connection]]\ntransport = \"udp\"\npayload = 75", "payload"),
            ("[[connection]]\ntransport = \"udp\"\npackets = 1", "packets"),
            ("[[connection]]\ndirection = \"reverse\"\nbytes = \"2G\"", "bytes"),
            ("[[connection]]\ndirection = \"reverse\"\nduration = \"0s\"", "duration"),
            ("[[connection]]\ndirection = \"reverse\"\npayload = 131073", "payload"),
            (
                "[[connection]]\ntransport = \"udp\"\ndirection = \"reverse\"\npayload = 1451",
                "payload",
            ),
            ("[[connection]]\ntransport = \"udp\"\ndirection = \"reverse\"\nrate = \"0\"", "rate"),
            ("[[connection]]\n[[connection]]", "connection"),
            ("[[connection]]\n[[connection]]\ndirection = \"reverse\"\nmss = 1000", "connection"),
            ("omit = \"1s\"\n[[connection]]", "omit"),
        ] {
            assert_eq!(field(text), refused, "{text}");
        }
        headed("[[connection]]\ntransport = \"udp\"\nspacing = \"exponential\"\npayload = 76");
        headed("[[connection]]\nbytes = \"3G\"");
    }

    #[test]
    fn a_plan_and_its_header_mean_the_same() {
        for text in [
            "[[connection]]\nduration = \"5s\"\nrate = \"3M\"",
            "[[connection]]\nbytes = \"1M\"\ndirection = \"reverse\"",
            "[[connection]]\nduration = \"2s\"\n[[connection]]\nduration = \"2s\"\ndirection = \"reverse\"",
            "[[connection]]\ntransport = \"udp\"\nbytes = \"1M\"",
        ] {
            let near = prepared(&config(text)).unwrap();
            let h = headed(text);
            let is_datagrams = near.connections[0].transport.datagrams();
            let far = plan(Some(&h), is_datagrams, 1470, 3600).unwrap();
            assert_eq!(near.connections.len(), far.connections.len());
            for (near, far) in near.connections.iter().zip(&far.connections) {
                assert_ne!(near.direction, far.direction);
                assert_eq!(near.transport.name(), far.transport.name());
                assert_eq!(near.header, far.header);
                if far.direction == Direction::Forward {
                    assert_eq!((near.time_limit(), near.bytes), (far.time_limit(), far.bytes));
                }
            }
        }
    }

    #[test]
    fn what_the_server_does_not_serve_is_refused() {
        let stream = headed("[[connection]]");
        plan(Some(&stream), false, STREAM_BLOCK, 3600).unwrap();
        plan(None, false, STREAM_BLOCK, 3600).unwrap();
        let reverse = Header { mode: Mode::Reverse, ..stream };
        plan(Some(&reverse), false, STREAM_BLOCK, 3600).unwrap();
        let asked = |per_second, mean| AskedFrames { per_second, mean, deviation: 1000 };
        let frames = Some(asked([60, 0], 20_000_000));
        let video = Header { is_isochronous: true, frames, ..reverse };
        plan(Some(&video), false, STREAM_BLOCK, 3600).unwrap();
        for (header, is_datagrams) in [
            (reverse, true),
            (Header { mode: Mode::FullDuplex, ..stream }, true),
            (Header { mode: Mode::Dual, ..stream }, false),
            (Header { mode: Mode::TradeOff, ..stream }, true),
            (Header { has_key: true, ..stream }, false),
            (Header { has_bursts: true, ..reverse }, false),
            (Header { is_isochronous: true, ..reverse }, false),
            (Header { frames: Some(asked([60, 0], 0)), ..video }, false),
            (Header { frames: Some(asked([0, 1], 1_000_000)), ..video }, false),
            (Header { frames: Some(asked([10, u32::MAX], 1_000_000)), ..video }, false),
            (Header { frames: Some(asked([1, 0], u32::MAX)), ..video }, false),
            // A source of datagrams may be forged.
            (Header { frames: Some(asked([60, 0], 1_000_000)), ..video }, true),
            (Header { amount: Amount::Time(360_100), ..reverse }, false),
        ] {
            assert!(plan(Some(&header), is_datagrams, 1470, 3600).is_err(), "{header:?}");
        }
    }

    #[test]
    fn mutated_messages_are_read_or_refused() {
        let report = codec::Report { bytes: 5, datagrams: 2, ..codec::Report::default() };
        let header = headed("[[connection]]");
        let datagram = [&[0; codec::NUMBER_BYTES][..], &header.datagram_bytes()].concat();
        let asked = AskedFrames { per_second: [60, 0], mean: 20_000_000, deviation: 1000 };
        let video =
            Header { mode: Mode::Reverse, is_isochronous: true, frames: Some(asked), ..header };
        let corpus = [
            header.stream_bytes().to_vec(),
            datagram,
            report.to_bytes().to_vec(),
            video.opening_bytes(),
        ];
        weir_laws::mutation::replay(&corpus.each_ref().map(Vec::as_slice), 20_000, fuzz_iperf2);
    }
}
