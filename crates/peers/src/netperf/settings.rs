//! Plans as netperf's requests, and requests as plans.

use weir_model::content::Content;
use weir_model::plan::{
    Connection, ConnectionFields, Direction, FlowSpec, HeaderFormat, PeerName, Plan, Shape,
    Transport,
};
use weir_model::units::{ByteSize, SendRate, Span};
use weir_traffic::{ClientConfig, TrafficError};

use super::codec::{self, Length, Protocol, Request, Response, Results, errno, flag, refuse};
use crate::carried::{self, Side};

const PEER: PeerName = PeerName::Netperf;
/// Largest socket buffer that a client may ask a server for, bytes.
const MAX_WINDOW: u32 = 64 << 20;
/// Largest write to a stream, bytes.
const MAX_BLOCK: u32 = 1 << 20;
/// Largest datagram, bytes.
const MAX_DATAGRAM: u32 = 65_507;
/// Writes of a server whose client states none, bytes: the usual send buffer of a new connection, as netserver does.
const STREAM_BLOCK: u32 = 16 << 10;
/// Bytes per read of a stream whose client states none.
const READ_BYTES: u32 = 64 << 10;
/// Receive buffer of datagrams whose client states none, bytes: those of data, and of requests. The usual 64 sessions have 2 GiB.
const DATA_BUFFER: u32 = 32 << 20;
const REQUEST_BUFFER: u32 = 1 << 20;
/// Most bytes or transactions that a request can state.
const MAX_UNITS: u64 = i32::MAX as u64;
/// Time that the server of a stream is given beyond the test, so that it ends even if this host is gone.
const SPARE_SECONDS: u64 = 30;
/// Seconds in nanoseconds.
const SECOND_NS: u64 = 1_000_000_000;

/// The options of a connection that a test has, by their fields, before those of this end alone. All others are refused.
const ACCEPTED: &[(&str, Side)] = &[
    ("name", Side::Both),
    ("transport", Side::Both),
    ("direction", Side::Both),
    ("shape", Side::Both),
    ("request", Side::Both),
    ("response", Side::Both),
    ("payload", Side::Both),
    ("duration", Side::Both),
    ("bytes", Side::Both),
    ("packets", Side::Both),
    ("window", Side::Both),
    ("no_delay", Side::Both),
    ("congestion", Side::Both),
    ("tos", Side::Both),
    ("priority", Side::Both),
    ("header", Side::Both),
    ("client_port", Side::Both),
    ("align", Side::Both),
    ("rate", Side::Sender),
    ("mss", Side::Sender),
    ("outstanding", Side::Sender),
    ("gro", Side::Receiver),
];

fn refused<T>(
    field: &'static str,
    given: impl std::fmt::Display,
    accepted: &str,
) -> Result<T, TrafficError> {
    Err(carried::of_test(PEER, field, given, accepted))
}

/// Checks what the protocol carries of a test, and completes its plan: datagrams without a header.
///
/// # Errors
/// [`TrafficError::Input`], [`TrafficError::Plan`].
pub(super) fn prepared(config: &ClientConfig) -> Result<Plan, TrafficError> {
    carried::check_sides(config, &[ACCEPTED, carried::LOCAL])?;
    let mut plan = config.plan.clone();
    if config.has_start() {
        return refused("start_at_ns", "given", "a start as soon as the server is ready");
    }
    // There is no channel for round trips alongside the data.
    plan.latency = false;
    let [connection] = &mut plan.connections[..] else {
        let given = format!("{} connections", plan.connections.len());
        return refused("connection", given, "one connection");
    };
    let is_datagrams = connection.transport.datagrams();
    if is_datagrams && connection.shape == Shape::Stream {
        if !matches!(connection.header, HeaderFormat::Native | HeaderFormat::None) {
            return refused("header", connection.header, "none");
        }
        connection.header = HeaderFormat::None;
    }
    check_connection(connection)?;
    if connection.direction == Direction::Reverse {
        check_reverse(&plan)?;
    }
    if plan.omit.0 > 0 && plan.connections[0].shape == Shape::Stream {
        return refused("omit", plan.omit, "0: the server counts the whole test");
    }
    plan.check()?;
    Ok(plan)
}

/// Checks what the protocol has of a connection by itself.
fn check_connection(connection: &Connection) -> Result<(), TrafficError> {
    let is_datagrams = connection.transport.datagrams();
    match connection.shape {
        Shape::Stream | Shape::Rr | Shape::Crr => {}
        shape @ (Shape::Cc | Shape::Transfers) => {
            return refused("shape", shape, "stream, rr or crr");
        }
    }
    if is_datagrams && connection.direction == Direction::Reverse {
        let accepted = "forward: the server would have to send to an unverified port";
        return refused("direction", "reverse over UDP", accepted);
    }
    if is_datagrams && connection.shape == Shape::Rr {
        let is_paced = connection.rate.is_some_and(|rate| rate != SendRate::UNLIMITED);
        if is_paced || connection.outstanding() > 1 {
            let accepted = "one request at a time over UDP: responses have no numbers";
            let field = if is_paced { "rate" } else { "outstanding" };
            return Err(carried::of_connection(PEER, 0, field, "given", accepted));
        }
    }
    if connection.shape == Shape::Crr && connection.packets.is_some_and(|n| n > MAX_UNITS) {
        return refused("packets", "the number", "1 to 2147483647");
    }
    Ok(())
}

/// Checks what a server is asked to send.
fn check_reverse(plan: &Plan) -> Result<(), TrafficError> {
    let connection = &plan.connections[0];
    if let Some(packets) = connection.packets {
        return refused("packets", packets, "`bytes` or `duration` where the server sends");
    }
    if let Some(bytes) = connection.bytes.filter(|bytes| bytes.0 > MAX_UNITS) {
        return refused("bytes", bytes, "1 to 2147483647 where the server sends");
    }
    let limit = connection.time_limit().map_or(0, |limit| limit.0);
    if connection.bytes.is_none() && (limit == 0 || !limit.is_multiple_of(SECOND_NS)) {
        return refused("duration", Span(limit), "whole seconds where the server sends");
    }
    let sizes = connection.payload.as_ref().map(|size| size.moments());
    if sizes.is_some_and(|sizes| sizes.min_bytes != sizes.max_bytes) {
        return refused("payload", "a law of sizes", "one size where the server sends");
    }
    Ok(())
}

/// The request of a plan from [`prepared`]. `spec`: its flow; `client`: this end's address of datagrams.
pub(super) fn request(plan: &Plan, spec: &FlowSpec, is_ipv6: bool) -> Request {
    let connection = &spec.connection;
    let is_reverse = connection.direction == Direction::Reverse;
    let has_data = connection.shape.has_data();
    let transport = &connection.transport;
    let (tcp, ip) = (transport.tcp_options(), transport.ip());
    let window = connection.window.map(|window| u32::try_from(window.0).unwrap_or(u32::MAX));
    let size = |bytes: u64| Some(u32::try_from(bytes).unwrap_or(u32::MAX));
    let connects = connection.shape.connects();
    let direction = match (connection.shape, is_reverse) {
        (Shape::Stream, true) => codec::Direction::Send,
        (Shape::Stream, false) => codec::Direction::Receive,
        _ => codec::Direction::Exchange,
    };
    // The record has no place for the server's processor time: it does not state that of its own process.
    let mut flags = flag::CONGESTION;
    for (is_set, bit) in [
        (tcp.is_some_and(|tcp| tcp.no_delay) || has_data, flag::NO_DELAY),
        (connects, flag::CONNECT),
    ] {
        flags |= if is_set { bit } else { 0 };
    }
    Request {
        send_buffer: window,
        receive_buffer: window,
        send_size: size(spec.max_payload()).filter(|_| is_reverse),
        receive_size: None,
        request: size(connection.request_bytes()).filter(|_| has_data),
        response: size(connection.response_bytes()).filter(|_| has_data),
        flags,
        length: length(plan, connection),
        data_port: 0,
        server_address: None,
        client_port: 0,
        client_address: None,
        is_ipv6,
        protocol: if transport.datagrams() { Protocol::Udp } else { Protocol::Tcp },
        direction,
        priority: ip.and_then(|ip| ip.priority).map(u32::from),
        tos: connection.tos().map(u32::from),
        congestion: tcp.and_then(|tcp| tcp.congestion.clone()),
    }
}

/// How long the server is to take part.
fn length(plan: &Plan, connection: &Connection) -> Length {
    let limit_ns = connection.time_limit().map_or(0, |limit| limit.0.saturating_add(plan.omit.0));
    let seconds = |seconds: u64| Length::Seconds(u32::try_from(seconds).unwrap_or(0));
    let units = |units: u64| Length::Units(u32::try_from(units).unwrap_or(u32::MAX));
    match (connection.shape, connection.direction, connection.bytes) {
        (Shape::Stream, Direction::Reverse, Some(bytes)) => units(bytes.0),
        (Shape::Stream, Direction::Reverse, None) => seconds(limit_ns.div_ceil(SECOND_NS)),
        // It has no connection whose end it could see.
        (Shape::Crr, ..) => match connection.packets {
            Some(packets) => units(packets),
            None => seconds(limit_ns.div_ceil(SECOND_NS)),
        },
        _ if limit_ns == 0 => Length::Seconds(0),
        _ => seconds(limit_ns.div_ceil(SECOND_NS).saturating_add(SPARE_SECONDS)),
    }
}

/// A size in `1..=most`, or the default.
fn within(what: &str, given: Option<u32>, default: u32, most: u32) -> Result<u64, codec::Refused> {
    match given.unwrap_or(default) {
        size if (1..=most).contains(&size) => Ok(size.into()),
        size => refuse(errno::MESSAGE_SIZE, format!("{what} of {size} bytes")),
    }
}

/// The plan of this end for a client's request: what the client sends is received, `reverse` at this end; transactions are
/// `forward`, since they have no other direction. `longest`: maximum duration of a session, s.
///
/// # Errors
/// [`codec::Refused`].
pub(super) fn plan(request: &Request, longest: u64) -> Result<Plan, codec::Refused> {
    use codec::Direction::{Connect, Exchange, Receive, Send};
    let r = request;
    let udp = r.protocol == Protocol::Udp;
    if let Length::Seconds(seconds) = r.length
        && u64::from(seconds) > longest
    {
        return refuse(errno::TIME, format!("{seconds} s"));
    }
    let connects = r.flags & flag::CONNECT != 0;
    if udp && (connects || r.direction == Connect) {
        return refuse(errno::PROTOCOL, "connections over UDP");
    }
    let most = if udp { MAX_DATAGRAM } else { MAX_BLOCK };
    let mut fields = ConnectionFields {
        transport: if udp { Transport::udp() } else { Transport::tcp() }.name(),
        rate: Some(SendRate::UNLIMITED),
        content: Content::Random,
        duration: Some(Span(0)),
        no_delay: (!udp && r.flags & flag::NO_DELAY != 0).then_some(true),
        congestion: r.congestion.clone().filter(|_| !udp),
        tos: r.tos.and_then(|tos| u8::try_from(tos).ok()),
        priority: r.priority.and_then(|priority| u8::try_from(priority).ok()),
        ..ConnectionFields::default()
    };
    let window = match r.direction {
        Send => r.send_buffer,
        Receive => r.receive_buffer,
        Exchange | Connect => r.receive_buffer.or(r.send_buffer),
    };
    let default = match r.direction {
        Receive if udp => Some(DATA_BUFFER),
        Exchange if udp => Some(REQUEST_BUFFER),
        _ => None,
    };
    let window = window.filter(|window| *window > 0).or(default);
    fields.window = window.map(|window| ByteSize(window.min(MAX_WINDOW).into()));
    match r.direction {
        Send => {
            let default = match r.send_buffer {
                Some(buffer) if buffer > 0 => buffer.min(most),
                _ if udp => MAX_DATAGRAM,
                _ => STREAM_BLOCK,
            };
            fields.payload = Some(ByteSize(within("sends", r.send_size, default, most)?).into());
            match r.length {
                Length::Seconds(seconds) => {
                    fields.duration = Some(Span::from_seconds(seconds.into()));
                }
                Length::Units(bytes) => {
                    fields.duration = None;
                    fields.bytes = Some(ByteSize(bytes.into()));
                }
            }
        }
        Receive => {
            fields.direction = Direction::Reverse;
            let default = if udp { MAX_DATAGRAM } else { READ_BYTES };
            let size = r.receive_size.map(|size| size.min(most));
            fields.payload = Some(ByteSize(within("receives", size, default, most)?).into());
        }
        Exchange => {
            fields.shape = if connects { Shape::Crr } else { Shape::Rr };
            fields.request = Some(ByteSize(within("requests", r.request, 0, most)?));
            fields.response = Some(ByteSize(within("responses", r.response, 0, most)?));
        }
        Connect if connects => fields.shape = Shape::Cc,
        Connect => return refuse(errno::INVALID, "no direction"),
    }
    if udp && fields.shape == Shape::Stream {
        fields.header = HeaderFormat::None;
    }
    let plan =
        Plan { peer: PEER, latency: false, connections: vec![fields.into()], ..Plan::default() };
    match plan.check() {
        Ok(()) => Ok(plan),
        Err(error) => refuse(errno::INVALID, error.to_string()),
    }
}

/// Fuzz body: any message is read, and is written again as it was understood; any request makes a valid plan of one flow, or is
/// refused.
pub fn fuzz_netperf(data: &[u8]) {
    let Some(bytes) = data.first_chunk() else { return };
    let message = codec::Message::parse(bytes);
    assert_eq!(message.to_bytes(), *bytes);
    assert!(!message.has_passphrase("x") || message.kind == codec::kind::PASSPHRASE);
    if let Ok(request) = Request::parse(&message) {
        assert_eq!(Request::parse(&request.to_message()).as_ref(), Ok(&request));
        if let Ok(plan) = plan(&request, 3600) {
            assert!(plan.check().is_ok());
            assert_eq!(plan.flows(weir_model::plan::Family::Ipv4, 1500).len(), 1);
        }
    }
    if let Ok(request) = Request::parse_tcp_cc(&message)
        && let Ok(plan) = plan(&request, 3600)
    {
        assert_eq!(plan.connections[0].shape, Shape::Cc);
    }
    if let Some(response) = Response::parse(&message) {
        assert_eq!(Response::parse(&response.to_message()).as_ref(), Some(&response));
    }
    let results = Results::parse(&message);
    assert_eq!(Results::parse(&results.to_message()), results);
}

#[cfg(test)]
mod tests;
