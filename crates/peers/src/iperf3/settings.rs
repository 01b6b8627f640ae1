//! Plans as iperf3's parameters, and parameters as plans.

use weir_model::content::Content;
use weir_model::plan::{
    Connection, ConnectionFields, Direction, FlowSpec, HeaderFormat, PeerName, Plan, Transport,
    TransportName,
};
use weir_model::units::{BitRate, ByteSize, RateLimit, SendRate, Span};
use weir_traffic::{ClientConfig, TrafficError};

use super::codec::{self, Parameters, Protocol, number};
use crate::carried::{self, Side};

const PEER: PeerName = PeerName::Iperf3;
/// Largest socket buffer that a client may ask a server for, bytes.
const MAX_WINDOW: u64 = 64 << 20;

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
    ("no_delay", Side::Both),
    ("congestion", Side::Both),
    ("tos", Side::Both),
    ("flow_label", Side::Both),
    ("kernel_pacing", Side::Both),
    ("zero_copy", Side::Both),
    ("discard", Side::Both),
    ("dont_fragment", Side::Both),
    ("no_half_close", Side::Both),
    ("client_port", Side::Both),
    ("supply", Side::Sender),
    ("gro", Side::Receiver),
    ("align", Side::Both),
];

fn refused<T>(
    field: &'static str,
    given: impl std::fmt::Display,
    accepted: &str,
) -> Result<T, TrafficError> {
    Err(carried::of_test(PEER, field, given, accepted))
}

/// Checks what the protocol carries of a test, and completes its plan: the header of datagrams, and streams that stay open.
///
/// # Errors
/// [`TrafficError::Input`], [`TrafficError::Plan`].
pub(super) fn prepared(config: &ClientConfig) -> Result<Plan, TrafficError> {
    carried::check_sides(config, &[ACCEPTED, carried::LOCAL])?;
    let plan = &config.plan;
    if config.supply.as_ref().is_some_and(|supply| supply.packets().is_some()) {
        return refused("content", "a capture", "generated content, or that of a file");
    }
    if config.has_start() {
        return refused("start_at_ns", "given", "a start as soon as the server is ready");
    }
    if !plan.omit.0.is_multiple_of(1_000_000_000) {
        return refused("omit", plan.omit, "whole seconds");
    }
    let mut plan = plan.clone();
    // There is no channel for round trips alongside the data.
    plan.latency = false;
    for connection in &mut plan.connections {
        if connection.transport.datagrams() {
            connection.header = match connection.header {
                HeaderFormat::Iperf3Wide => HeaderFormat::Iperf3Wide,
                HeaderFormat::Native | HeaderFormat::Iperf3 => HeaderFormat::Iperf3,
                other => {
                    return refused("header", other, "iperf3 or iperf3-64bit");
                }
            };
        } else {
            let block = ByteSize(codec::STREAM_BLOCK).into();
            *connection = ConnectionFields {
                // The end of a stream is announced over the control connection.
                no_half_close: Some(true),
                payload: connection.payload.clone().or(Some(block)),
                ..connection.clone().into()
            }
            .into();
        }
    }
    check_connections(&plan)?;
    plan.check()?;
    Ok(plan)
}

/// One connection, or two that differ in their direction alone.
fn check_connections(plan: &Plan) -> Result<(), TrafficError> {
    let like = |c: &Connection| Connection {
        name: String::new(),
        direction: Direction::Forward,
        ..c.clone().with_ip(|ip| ip.client_port = None)
    };
    let accepted = "one connection, or a forward and a reverse one that are otherwise alike";
    match &plan.connections[..] {
        [_] => {}
        [a, b] if like(a) == like(b) && a.direction != b.direction => {}
        all => {
            return refused("connection", format!("{} connections", all.len()), accepted);
        }
    }
    let count = u64::from(plan.connections[0].count);
    if count > codec::MAX_STREAMS {
        return refused("count", count, "1 to 128");
    }
    let largest = plan.connections[0].payload.as_ref().map_or(0, |size| size.moments().max_bytes);
    if largest > codec::MAX_BLOCK {
        return refused("payload", largest, "1 to 1M");
    }
    Ok(())
}

/// The parameters of a plan from [`prepared`]. `spec`: one of its flows.
pub(super) fn parameters(plan: &Plan, spec: &FlowSpec) -> Parameters {
    let connection = &spec.connection;
    let count = u64::from(plan.connections[0].count);
    let is = |direction| plan.connections.iter().any(|c| c.direction == direction);
    let (forward, reverse) = (is(Direction::Forward), is(Direction::Reverse));
    let transport = &connection.transport;
    let (tcp, udp, ip) = (transport.tcp_options(), transport.udp_options(), transport.ip());
    let stream = transport.stream().cloned().unwrap_or_default();
    let bits = match spec.rate.limit {
        RateLimit::Unlimited => 0,
        RateLimit::Bits(bits) => bits.0,
        RateLimit::Packets(packets) => (packets * 8.0 * spec.payload_bytes() as f64) as u64,
    };
    Parameters {
        protocol: match transport.name() {
            TransportName::Udp => Protocol::Udp,
            TransportName::Mptcp => Protocol::Mptcp,
            _ => Protocol::Tcp,
        },
        omit: plan.omit.0 / 1_000_000_000,
        // A server ends the test by itself only long after this.
        time: connection.time_limit().map_or(0, |limit| limit.0.div_ceil(1_000_000_000)),
        bytes: connection.bytes.map_or(0, |bytes| bytes.0.saturating_mul(count)),
        blocks: connection.packets.map_or(0, |packets| packets.saturating_mul(count)),
        parallel: count,
        reverse: reverse && !forward,
        bidirectional: reverse && forward,
        block_bytes: spec.max_payload(),
        rate: bits,
        kernel_pacing: ip.and_then(|ip| ip.kernel_pacing).map_or(0, |rate| rate.0),
        burst: if spec.rate.burst > 1 { spec.rate.burst.into() } else { 0 },
        mss: tcp.and_then(|tcp| tcp.mss).unwrap_or(0).into(),
        window: connection.window.map_or(0, |window| window.0),
        no_delay: tcp.is_some_and(|tcp| tcp.no_delay),
        tos: connection.tos().unwrap_or(0).into(),
        flow_label: ip.and_then(|ip| ip.flow_label).unwrap_or(0).into(),
        congestion: tcp.and_then(|tcp| tcp.congestion.clone()),
        title: plan.title.clone(),
        extra_data: None,
        wants_output: false,
        wide_counters: connection.header == HeaderFormat::Iperf3Wide,
        repeats_payload: false,
        zero_copy: stream.zero_copy,
        dont_fragment: udp.is_some_and(|udp| udp.dont_fragment),
        discard: stream.discard,
        token: None,
        version: Some(concat!("weir ", env!("CARGO_PKG_VERSION")).into()),
    }
}

/// The refusal of parameters: the text for this end, and iperf3's number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) text: String,
    pub(super) number: i32,
}

fn refuse<T>(number: i32, text: impl Into<String>) -> Result<T, Refused> {
    Err(Refused { text: text.into(), number })
}

/// The plan of this end for a client's parameters: what the client sends is received, `reverse` at this end. `longest`:
/// maximum duration of a session, s.
pub(super) fn plan(parameters: &Parameters, longest: u64) -> Result<Plan, Refused> {
    let p = parameters;
    let udp = p.protocol == Protocol::Udp;
    if p.protocol == Protocol::Sctp {
        return refuse(number::NO_SCTP, "SCTP");
    }
    if !(1..=codec::MAX_STREAMS).contains(&p.parallel) {
        return refuse(number::STREAMS, format!("{} streams", p.parallel));
    }
    let (least, most, default) = match udp {
        true => (codec::MIN_DATAGRAM, 65_507, codec::DATAGRAM),
        false => (1, codec::MAX_BLOCK, codec::STREAM_BLOCK),
    };
    let block_bytes = if p.block_bytes == 0 { default } else { p.block_bytes };
    if !(least..=most).contains(&block_bytes) {
        return refuse(number::BLOCK, format!("blocks of {block_bytes} bytes"));
    }
    if p.time.saturating_add(p.omit) > longest {
        return refuse(number::DURATION, format!("{} s", p.time.saturating_add(p.omit)));
    }
    let small = |value: u64| u16::try_from(value).ok().filter(|value| *value > 0);
    let fields = |direction| ConnectionFields {
        direction,
        transport: match p.protocol {
            Protocol::Udp => Transport::udp(),
            Protocol::Mptcp => Transport::mptcp(),
            _ => Transport::tcp(),
        }
        .name(),
        header: match (udp, p.wide_counters) {
            (false, _) => HeaderFormat::default(),
            (true, false) => HeaderFormat::Iperf3,
            (true, true) => HeaderFormat::Iperf3Wide,
        },
        count: p.parallel as u32,
        payload: Some(ByteSize(block_bytes).into()),
        rate: Some(match p.rate {
            0 => SendRate::UNLIMITED,
            bits => SendRate {
                limit: RateLimit::Bits(BitRate(bits)),
                burst: u32::try_from(p.burst.clamp(1, 1000)).unwrap_or(1),
            },
        }),
        // The client ends the test; what this end sends is limited by its share of the amount.
        duration: (p.bytes == 0 && p.blocks == 0).then_some(Span(0)),
        bytes: (p.bytes > 0).then(|| ByteSize(p.bytes.div_ceil(p.parallel))),
        packets: (p.bytes == 0 && p.blocks > 0).then(|| p.blocks.div_ceil(p.parallel)),
        content: Content::Random,
        window: (p.window > 0).then(|| ByteSize(p.window.min(MAX_WINDOW))),
        mss: small(p.mss).filter(|mss| !udp && (88..=32_767).contains(mss)).map(Into::into),
        no_delay: (!udp && p.no_delay).then_some(true),
        congestion: p.congestion.clone().filter(|_| !udp),
        tos: u8::try_from(p.tos).ok().filter(|tos| *tos > 0),
        kernel_pacing: (p.kernel_pacing > 0).then_some(BitRate(p.kernel_pacing)),
        zero_copy: (!udp && p.zero_copy).then_some(true),
        discard: (!udp && p.discard).then_some(true),
        no_half_close: (!udp).then_some(true),
        dont_fragment: (udp && p.dont_fragment).then_some(true),
        ..ConnectionFields::default()
    };
    // In the order in which the client opens its streams.
    let directions: &[Direction] = match (p.bidirectional, p.reverse) {
        (true, _) => &[Direction::Reverse, Direction::Forward],
        (false, true) => &[Direction::Forward],
        (false, false) => &[Direction::Reverse],
    };
    let plan = Plan {
        title: p.title.as_deref().map(|title| title.chars().take(256).collect()),
        peer: PEER,
        latency: false,
        omit: Span::from_seconds(p.omit),
        connections: directions.iter().map(|direction| fields(*direction).into()).collect(),
        ..Plan::default()
    };
    match plan.check() {
        Ok(()) => Ok(plan),
        Err(error) => refuse(number::PARAMETERS, error.to_string()),
    }
}

/// Fuzz body: any parameters make a plan that is valid, or are refused; any results are read as they are written again.
pub fn fuzz_iperf3(data: &[u8]) {
    if let Ok(parameters) = Parameters::parse(data) {
        assert_eq!(Parameters::parse(&parameters.to_json()).as_ref(), Ok(&parameters));
        if let Ok(plan) = plan(&parameters, 3600) {
            assert!(plan.check().is_ok());
            let flows = plan.flows(weir_model::plan::Family::Ipv4, 1500);
            assert!((1..=2 * codec::MAX_STREAMS as usize).contains(&flows.len()));
        }
    }
    if let Ok(results) = codec::Results::parse(data) {
        let again = codec::Results::parse(&results.to_json());
        assert!(again.is_ok_and(|again| again.streams.len() == results.streams.len()));
    }
    if let Some(reply) = codec::reply_to(data) {
        assert!(reply.len() == data.len() && codec::is_reply(&reply));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> ClientConfig {
        let plan = Plan::parse(&format!("schema = \"weir.plan/1\"\npeer = \"iperf3\"\n{text}"));
        ClientConfig::new(plan.unwrap(), "h")
    }

    fn sent(text: &str) -> Parameters {
        let plan = prepared(&config(text)).unwrap();
        let spec = plan.flows(weir_model::plan::Family::Ipv4, 1500).swap_remove(0);
        parameters(&plan, &spec)
    }

    fn field(text: &str) -> String {
        match prepared(&config(text)).unwrap_err() {
            TrafficError::Input { field, .. } => field.into(),
            TrafficError::Plan(weir_model::ModelError::Field { field, .. }) => field,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn each_option_becomes_its_parameter() {
        let p = sent(
            "omit = \"2s\"\n[[connection]]\ncount = 4\nduration = \"1500ms\"\nrate = \"10M\"\nmss = 1400\nno_delay = true\ncongestion = \"reno\"\ntos = 8\nwindow = \"64K\"\nzero_copy = true\ndiscard = true\nkernel_pacing = \"20M\"",
        );
        let expected = Parameters {
            omit: 2,
            time: 2,
            parallel: 4,
            block_bytes: 131_072,
            rate: 10_000_000,
            kernel_pacing: 20_000_000,
            mss: 1400,
            window: 65_536,
            no_delay: true,
            tos: 8,
            congestion: Some("reno".into()),
            zero_copy: true,
            discard: true,
            version: p.version.clone(),
            ..Parameters::default()
        };
        assert_eq!(p, expected);
        let p = sent(
            "[[connection]]\ntransport = \"udp\"\ndirection = \"reverse\"\npackets = 5\ncount = 2\nheader = \"iperf3-64bit\"\nrate = \"1000pps\"\npayload = 100\ndont_fragment = true",
        );
        assert_eq!((p.protocol, p.reverse, p.blocks), (Protocol::Udp, true, 10));
        assert_eq!((p.rate, p.block_bytes, p.time), (800_000, 100, 0));
        assert!(p.wide_counters && p.dont_fragment && !p.bidirectional);
        let p = sent(
            "[[connection]]\nbytes = \"1M\"\n[[connection]]\ndirection = \"reverse\"\nbytes = \"1M\"",
        );
        assert!(p.bidirectional && !p.reverse && p.bytes == 1 << 20);
    }

    #[test]
    fn what_the_protocol_does_not_carry_is_refused_by_its_field() {
        for (text, refused) in [
            ("[[connection]]\nverify = true\ntransport = \"udp\"", "connection[0].verify"),
            ("[[connection]]\nshape = \"rr\"", "connection[0].shape"),
            ("[[connection]]\nstart_after = \"1s\"", "connection[0].start_after"),
            (
                "[[connection]]\ntransport = \"udp\"\ndirection = \"reverse\"\nspacing = \"exponential\"",
                "connection[0].spacing",
            ),
            ("[[connection]]\ntransport = \"udp\"\nheader = \"none\"", "header"),
            ("[[connection]]\ncount = 129", "count"),
            ("[[connection]]\npayload = \"2M\"", "payload"),
            ("[[connection]]\n[[connection]]", "connection"),
            ("[[connection]]\n[[connection]]\ndirection = \"reverse\"\nmss = 1000", "connection"),
            ("omit = \"500ms\"\n[[connection]]", "omit"),
        ] {
            assert_eq!(field(text), refused, "{text}");
        }
        sent("[[connection]]\ntransport = \"udp\"\nspacing = \"exponential\"");
        assert!(
            Plan::parse(
                "schema = \"weir.plan/1\"\npeer = \"iperf3\"\n[[connection]]\ntransport = \"unix\""
            )
            .is_err()
        );
    }

    #[test]
    fn a_plan_and_its_parameters_mean_the_same() {
        for text in [
            "[[connection]]\ncount = 3\nduration = \"5s\"\nmss = 1400\nrate = \"3M\"",
            "[[connection]]\ntransport = \"udp\"\nbytes = \"1M\"\ndirection = \"reverse\"",
            "[[connection]]\n[[connection]]\ndirection = \"reverse\"",
        ] {
            let p = sent(text);
            let far = plan(&p, 3600).unwrap();
            let near = prepared(&config(text)).unwrap();
            for (near, far) in near.connections.iter().zip(&far.connections) {
                assert_ne!(near.direction, far.direction);
                assert_eq!(near.transport.name(), far.transport.name());
                assert_eq!((near.count, near.bytes), (far.count, far.bytes));
                assert_eq!(near.header, far.header);
            }
        }
    }

    #[test]
    fn mutated_messages_are_read_or_refused() {
        let parameters = Parameters { parallel: 3, time: 5, rate: 1000, ..Parameters::default() };
        let stream = codec::StreamResult { id: 1, bytes: 5, ..codec::StreamResult::default() };
        let results = codec::Results { streams: vec![stream], ..codec::Results::default() };
        let corpus = [parameters.to_json(), results.to_json(), codec::HELLO.to_vec()];
        weir_laws::mutation::replay(&corpus.each_ref().map(Vec::as_slice), 20_000, fuzz_iperf3);
    }

    #[test]
    fn hostile_parameters_are_refused() {
        let ok = Parameters { parallel: 1, ..Parameters::default() };
        plan(&ok, 3600).unwrap();
        let udp = Parameters { protocol: Protocol::Udp, ..ok.clone() };
        for wrong in [
            Parameters { parallel: 0, ..ok.clone() },
            Parameters { parallel: 129, ..ok.clone() },
            Parameters { block_bytes: 1 << 40, ..ok.clone() },
            Parameters { time: u64::MAX, omit: 5, ..ok.clone() },
            Parameters { congestion: Some("a b".into()), ..ok.clone() },
            Parameters { omit: 1 << 60, ..ok.clone() },
            Parameters { protocol: Protocol::Sctp, ..ok.clone() },
            Parameters { block_bytes: 15, ..udp.clone() },
            Parameters { block_bytes: 65_508, ..udp },
        ] {
            assert!(plan(&wrong, 3600).is_err(), "{wrong:?}");
        }
        let odd = Parameters { mss: 7, tos: 300, window: u64::MAX, burst: u64::MAX, ..ok };
        let connection = &plan(&odd, 3600).unwrap().connections[0];
        assert_eq!(connection.window, Some(ByteSize(MAX_WINDOW)));
        assert_eq!(connection.transport.tcp_options().unwrap().mss, None);
    }
}
