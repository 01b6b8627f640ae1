//! Plans as the parameters of a test, and parameters as plans.

use weir_model::content::Content;
use weir_model::plan::{
    Connection, ConnectionFields, Direction, FlowSpec, HeaderFormat, PeerName, Plan, Switch,
    Transport,
};
use weir_model::units::{BitRate, ByteSize, RateLimit, SendRate, Span};
use weir_traffic::{ClientConfig, TrafficError};

use super::codec::{
    self, COUNTED_DATAGRAM, FORMAT_PARSE, FORMAT_USUAL, MAX_STREAMS, MIN_DATAGRAM, NO_AMOUNT,
    Parameters, UNLIMITED,
};
use crate::carried::{self, Side};

const PEER: PeerName = PeerName::Nuttcp;
/// Default buffer of a stream, bytes.
const STREAM_BUFFER: u64 = 64 << 10;
/// Shortest interval that a server is asked to report, s.
const MIN_INTERVAL: f64 = 0.1;
/// The interval of a test without reports of the server: datagrams then have a count.
const COUNTED: f64 = 1.0;
/// kbit/s in units of bit/s.
const KILO: u64 = 1000;

/// The options of a connection that a test has, by their fields, before those of this end alone. All others are refused.
const ACCEPTED: &[(&str, Side)] = &[
    ("name", Side::Both),
    ("transport", Side::Both),
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
    ("no_delay", Side::Both),
    ("port", Side::Both),
    ("client_port", Side::Both),
    ("align", Side::Both),
];

/// Checks what the protocol carries of a test, and completes its plan.
///
/// # Errors
/// [`TrafficError::Input`], [`TrafficError::Plan`].
pub(super) fn prepared(config: &ClientConfig) -> Result<Plan, TrafficError> {
    carried::check_sides(config, &[ACCEPTED, carried::LOCAL])?;
    let of_test = |field, given: &dyn std::fmt::Display, accepted: &str| {
        Err(carried::of_test(PEER, field, given, accepted))
    };
    if config.has_start() {
        return of_test("start_at_ns", &"given", "a start as soon as the server is ready");
    }
    let mut plan = config.plan.clone();
    if plan.omit.0 > 0 {
        return of_test("omit", &plan.omit, "0: nuttcp's server counts the whole test");
    }
    // There is no channel for round trips alongside the data.
    plan.latency = false;
    let [connection] = &mut plan.connections[..] else {
        let given = format!("{} connections", plan.connections.len());
        return of_test("connection", &given, "one connection, of any number of flows");
    };
    if connection.transport.datagrams() {
        complete_datagrams(connection)?;
    } else {
        connection.payload.get_or_insert(ByteSize(STREAM_BUFFER).into());
    }
    check_connection(connection)?;
    plan.check()?;
    Ok(plan)
}

fn refused<T>(
    field: &str,
    given: impl std::fmt::Display,
    accepted: &str,
) -> Result<T, TrafficError> {
    Err(carried::of_connection(PEER, 0, field, given, accepted))
}

fn complete_datagrams(connection: &mut Connection) -> Result<(), TrafficError> {
    let smallest = connection.payload.as_ref().map(|size| size.moments().min_bytes);
    let is_countable =
        connection.count == 1 && smallest.is_none_or(|bytes| bytes >= COUNTED_DATAGRAM);
    connection.header = match connection.header {
        HeaderFormat::Native if is_countable => HeaderFormat::Nuttcp,
        HeaderFormat::Nuttcp if is_countable => HeaderFormat::Nuttcp,
        HeaderFormat::Native | HeaderFormat::None => HeaderFormat::None,
        other @ HeaderFormat::Nuttcp => {
            return refused(
                "header",
                other,
                "none where datagrams are shorter than 32 bytes or have several flows",
            );
        }
        other => return refused("header", other, "nuttcp or none"),
    };
    // Markers among the datagrams must arrive by themselves.
    let fields = ConnectionFields { gro: Some(Switch::Off), ..connection.clone().into() };
    *connection = fields.into();
    Ok(())
}

fn check_connection(connection: &Connection) -> Result<(), TrafficError> {
    let is_datagrams = connection.transport.datagrams();
    let is_received = connection.direction == Direction::Reverse;
    if connection.count > u32::from(MAX_STREAMS) {
        return refused("count", connection.count, "at most 128 flows");
    }
    if is_datagrams && is_received && connection.count > 1 {
        return refused("count", connection.count, "1 where the server sends datagrams");
    }
    if let Some(port) = connection.client_port().filter(|_| is_datagrams && is_received) {
        return refused(
            "client_port",
            port,
            "absent where the server sends datagrams: they arrive at `port`",
        );
    }
    let first = connection.port.unwrap_or(codec::DATA_PORT);
    if first < 1024 || u32::from(first) + connection.count > 65_536 {
        return refused(
            "port",
            first,
            "1024 to 65535, also for the last flow: each has the next port",
        );
    }
    let sizes = connection.payload.as_ref().map(|size| size.moments());
    if let Some(sizes) = sizes {
        if sizes.min_bytes != sizes.max_bytes {
            return refused("payload", "varying sizes", "one size");
        }
        if is_datagrams && sizes.min_bytes < MIN_DATAGRAM {
            return refused(
                "payload",
                sizes.min_bytes,
                "at least 5 bytes: shorter datagrams are markers",
            );
        }
        if !is_datagrams && sizes.max_bytes > codec::MAX_BUFFER {
            return refused("payload", sizes.max_bytes, "at most 16M");
        }
    }
    if !is_received {
        return Ok(());
    }
    let has_amount = connection.bytes.is_some() || connection.packets.is_some();
    if connection.time_limit().is_none() && !has_amount {
        return refused("duration", "0", "a limit where the server sends");
    }
    match connection.rate.map(|rate| (rate.limit, rate.burst)) {
        Some((_, burst)) if burst > 1 => {
            refused("rate", format!("a burst of {burst}"), "even spacing where the server sends")
        }
        Some((RateLimit::Bits(BitRate(bits)), _))
            if bits.saturating_mul(connection.count.into()) % KILO != 0 =>
        {
            refused("rate", bits, "a multiple of 1000 bit/s where the server sends")
        }
        _ => Ok(()),
    }
}

/// The parameters of a plan from [`prepared`]. `spec`: one of its flows.
pub(super) fn parameters(plan: &Plan, spec: &FlowSpec) -> Parameters {
    let connection = &spec.connection;
    let size = spec.max_payload().max(1);
    // Each flow has a connection of its own.
    let count = plan.connections.first().map_or(1, |connection| connection.count);
    let streams = u64::from(count);
    let buffers = connection.packets.or(connection.bytes.map(|bytes| bytes.0.div_ceil(size)));
    let client_sends = connection.direction == Direction::Forward;
    let is_udp = connection.transport.datagrams();
    let (rate, rate_is_packets) = match spec.rate.limit {
        RateLimit::Unlimited => (UNLIMITED, false),
        RateLimit::Bits(bits) => (bits.0.saturating_mul(streams).div_ceil(KILO), false),
        // Also stated in kbit/s.
        RateLimit::Packets(packets) => {
            ((packets * (streams * size * 8) as f64 / KILO as f64).ceil() as u64, true)
        }
    };
    let seconds = connection.time_limit().map_or(0.0, |limit| limit.seconds());
    let own = plan.interval.seconds();
    let is_counted = connection.header == HeaderFormat::Nuttcp;
    let interval = match client_sends {
        true if own >= MIN_INTERVAL && (is_counted || !is_udp) => own,
        false if is_counted => COUNTED,
        _ => 0.0,
    };
    Parameters {
        buffer_bytes: size,
        buffers: buffers.map_or(NO_AMOUNT, |buffers| buffers.saturating_mul(streams).max(1)),
        window: connection.window.map_or(0, |window| window.0),
        streams: u16::try_from(count).unwrap_or(MAX_STREAMS),
        rate: rate.clamp(1, UNLIMITED),
        rate_is_packets,
        port: connection.port.unwrap_or(codec::DATA_PORT),
        client_sends,
        both_windows: false,
        seconds,
        is_udp,
        interval,
        // So that this end connects, also from behind an address translator.
        is_flipped: !is_udp && !client_sends,
        format: FORMAT_USUAL | FORMAT_PARSE,
        traces_route: false,
        has_third_party: false,
        multicast: 0,
        mss: connection.transport.tcp_options().and_then(|tcp| tcp.mss).unwrap_or(0),
        tos: connection.tos().unwrap_or(0),
        no_delay: connection.no_delay(),
    }
}

/// The plan of this end for a client's parameters: what the client sends is received, `reverse` at this end. `longest`: maximum
/// duration of a session, s.
///
/// # Errors
/// The reason for which it is not served.
pub(super) fn plan(parameters: &Parameters, longest: u64) -> Result<Plan, String> {
    let p = parameters;
    if p.has_third_party {
        return Err("doesn't allow 3rd party nuttcp".into());
    }
    if p.traces_route {
        return Err("doesn't trace routes".into());
    }
    if p.multicast > 0 {
        return Err("doesn't send to or receive from groups".into());
    }
    if p.is_udp && p.is_flipped {
        return Err("flip option not supported for UDP".into());
    }
    if p.seconds > longest as f64 {
        return Err(format!("a time of {} s, above the limit of {longest} s", p.seconds));
    }
    let sends = !p.client_sends;
    let streams = u32::from(p.streams);
    let has_amount = p.buffers != NO_AMOUNT && sends;
    if has_amount && p.buffers < streams.into() {
        return Err(format!("invalid nbuf\nnbuf = {} for {streams} streams", p.buffers));
    }
    let rate = match (p.rate, p.rate_is_packets) {
        _ if !sends => SendRate::UNLIMITED,
        (UNLIMITED, _) => SendRate::UNLIMITED,
        (rate, true) => {
            // The client has rounded it down to whole kbit/s.
            let unit = KILO as f64 / 8.0 / p.buffer_bytes as f64;
            let least = rate as f64 * unit;
            let packets = if least.ceil() < least + unit { least.ceil() } else { least };
            let limit = RateLimit::Packets(packets / f64::from(streams));
            SendRate { limit, burst: 1 }
        }
        (rate, false) => {
            let bits = (rate * KILO / u64::from(streams)).max(1);
            SendRate { limit: RateLimit::Bits(BitRate(bits)), burst: 1 }
        }
    };
    let time = match p.seconds {
        seconds if seconds > 0.0 => Some(Span((seconds * 1e9) as u64)),
        _ if has_amount => None,
        _ => Some(Span::from_seconds(longest)),
    };
    let fields = |count: u32, buffers: u64| ConnectionFields {
        direction: if sends { Direction::Forward } else { Direction::Reverse },
        transport: if p.is_udp { Transport::udp() } else { Transport::tcp() }.name(),
        header: match (p.is_udp, p.is_counted()) {
            (false, _) => HeaderFormat::default(),
            (true, true) => HeaderFormat::Nuttcp,
            (true, false) => HeaderFormat::None,
        },
        count,
        payload: Some(ByteSize(p.buffer_bytes).into()),
        rate: Some(rate),
        // The client ends what it sends.
        duration: if sends { time } else { Some(Span(0)) },
        packets: has_amount.then_some(buffers),
        window: Some(ByteSize(p.window)).filter(|window| window.0 > 0),
        mss: Some(p.mss).filter(|mss| *mss > 0 && !p.is_udp),
        tos: Some(p.tos).filter(|tos| *tos > 0),
        no_delay: (p.no_delay && sends && !p.is_udp).then_some(true),
        content: Content::Ascii,
        gso: p.is_udp.then_some(Switch::Off),
        gro: p.is_udp.then_some(Switch::Off),
        ..ConnectionFields::default()
    };
    // The first streams send the buffers that do not divide.
    let (each, rest) = (p.buffers / u64::from(streams), (p.buffers % u64::from(streams)) as u32);
    let parts = match has_amount && rest > 0 {
        true => vec![fields(rest, each + 1), fields(streams - rest, each)],
        false => vec![fields(streams, each)],
    };
    let connections = parts.into_iter().map(Into::into).collect();
    let plan = Plan { peer: PEER, latency: false, connections, ..Plan::default() };
    plan.check().map(|()| plan).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::plan::Family;

    fn config(text: &str) -> ClientConfig {
        let plan = Plan::parse(&format!("schema = \"weir.plan/1\"\npeer = \"nuttcp\"\n{text}"));
        ClientConfig::new(plan.unwrap(), "h")
    }

    fn stated(text: &str) -> Parameters {
        let plan = prepared(&config(&format!("[[connection]]\n{text}"))).unwrap();
        let spec = plan.flows(Family::Ipv4, 1500).swap_remove(0);
        parameters(&plan, &spec)
    }

    #[test]
    fn each_option_becomes_its_parameter() {
        let p = stated(
            "count = 4\nduration = \"2s\"\nrate = \"10M\"\ntos = 104\nwindow = \"64K\"\nmss = 1000\nno_delay = true",
        );
        assert_eq!((p.streams, p.seconds, p.rate, p.tos), (4, 2.0, 40_000, 104));
        assert_eq!((p.window, p.mss, p.no_delay, p.port), (65_536, 1000, true, 5001));
        assert_eq!((p.buffer_bytes, p.buffers, p.client_sends), (65_536, NO_AMOUNT, true));
        let p = stated(
            "direction = \"reverse\"\nbytes = \"1001\"\npayload = 100\ncount = 2\nport = 6000",
        );
        assert_eq!((p.buffers, p.seconds, p.is_flipped, p.port), (22, 0.0, true, 6000));
        let p = stated("transport = \"udp\"\nrate = \"1000pps\"\npayload = 500\npackets = 7");
        assert_eq!((p.rate, p.rate_is_packets, p.buffers), (4000, true, 7));
        assert!(p.is_udp && p.is_counted() && !p.is_flipped);
        assert!(!stated("transport = \"udp\"\ncount = 2").is_counted());
    }

    #[test]
    fn what_the_protocol_does_not_carry_is_refused_by_its_field() {
        for (text, refused) in [
            ("[[connection]]\nshape = \"rr\"", "connection[0].shape"),
            ("[[connection]]\nverify = true\ntransport = \"udp\"", "connection[0].verify"),
            ("[[connection]]\npayload = \"64..100\"", "connection[0].payload"),
            ("[[connection]]\ntransport = \"udp\"\npayload = 4", "connection[0].payload"),
            ("[[connection]]\ntransport = \"udp\"\nheader = \"rtp\"", "connection[0].header"),
            ("[[connection]]\ncount = 129", "connection[0].count"),
            ("[[connection]]\nport = 80", "connection[0].port"),
            ("[[connection]]\nport = 65535\ncount = 2", "connection[0].port"),
            ("[[connection]]\ndirection = \"reverse\"\nrate = \"1500\"", "connection[0].rate"),
            (
                "[[connection]]\ndirection = \"reverse\"\nduration = \"0s\"",
                "connection[0].duration",
            ),
            (
                "[[connection]]\ndirection = \"reverse\"\ncongestion = \"reno\"",
                "connection[0].congestion",
            ),
            (
                "[[connection]]\ndirection = \"reverse\"\ntransport = \"udp\"\ncount = 2",
                "connection[0].count",
            ),
            ("[[connection]]\n[[connection]]", "connection"),
            ("omit = \"1s\"\n[[connection]]", "omit"),
        ] {
            let field = match prepared(&config(text)).unwrap_err() {
                TrafficError::Input { field, .. } => field.to_owned(),
                TrafficError::Plan(weir_model::ModelError::Field { field, .. }) => field,
                other => panic!("{other}"),
            };
            assert_eq!(field, refused, "{text}");
        }
    }

    #[test]
    fn a_server_sends_what_its_client_asks_for() {
        let asked = Parameters {
            client_sends: false,
            is_udp: true,
            buffer_bytes: 8192,
            ..Parameters::default()
        };
        let of = |p: &Parameters| plan(p, 60).unwrap();
        // `-Ri50p`.
        let paced = of(&Parameters { rate: 3276, rate_is_packets: true, ..asked.clone() });
        assert_eq!(paced.connections[0].rate.unwrap().limit, RateLimit::Packets(50.0));
        let amount = of(&Parameters { buffers: 7, streams: 3, ..asked.clone() });
        let packets: Vec<_> = amount.connections.iter().map(|c| (c.count, c.packets)).collect();
        assert_eq!(packets, [(1, Some(3)), (2, Some(2))]);
        assert_eq!(of(&asked).connections[0].time_limit(), Some(Span::from_seconds(60)));
        for refused in [
            Parameters { has_third_party: true, ..asked.clone() },
            Parameters { traces_route: true, ..asked.clone() },
            Parameters { multicast: 1, ..asked.clone() },
            Parameters { is_flipped: true, ..asked.clone() },
            Parameters { seconds: 61.0, ..asked.clone() },
            Parameters { buffers: 2, streams: 3, ..asked },
        ] {
            plan(&refused, 60).unwrap_err();
        }
    }
}
