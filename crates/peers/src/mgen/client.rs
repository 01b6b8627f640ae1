//! The sender: flows of messages, which no far end answers.

use std::net::SocketAddr;

use weir_model::content::Content;
use weir_model::plan::{ConnectionFields, Direction, FlowSpec, HeaderFormat, PeerName, Plan};
use weir_model::record::Record;
use weir_model::units::ByteSize;
use weir_traffic::session::Numbering;
use weir_traffic::{ClientConfig, Event, Failure, Stop, TrafficError};
use weir_wire::header::Header;

use super::codec::{self, Frames, MAX_BYTES, STREAM_BYTES};
use crate::carried::{self, Side};
use crate::one_sided::{self, Additions};

/// Length of a message that the plan does not state, bytes: that of MGEN's examples.
const DEFAULT_BYTES: u64 = 1024;

/// The options of a connection that a test has, by their fields.
const ACCEPTED: &[&str] = &[
    "bytes",
    "catch_up",
    "client_port",
    "congestion",
    "content",
    "cork",
    "count",
    "dont_fragment",
    "duration",
    "flow_label",
    "gso",
    "header",
    "host",
    "kernel_pacing",
    "mss",
    "mtu",
    "name",
    "no_delay",
    "packets",
    "payload",
    "port",
    "priority",
    "rate",
    "rate_schedule",
    "spacing",
    "start_after",
    "tos",
    "transport",
    "ttl",
    "user_timeout",
    "window",
];

/// The plan of a test.
///
/// # Errors
/// [`TrafficError`] that names the field.
pub(super) fn prepared(config: &ClientConfig) -> Result<Plan, TrafficError> {
    carried::check(config, |field| ACCEPTED.contains(&field).then_some(Side::Both))?;
    let mut plan = config.plan.clone();
    // There is no channel for round trips alongside the data.
    plan.latency = false;
    for (index, connection) in plan.connections.iter_mut().enumerate() {
        let refused = |field, given: &str, accepted: &str| {
            Err(carried::of_connection(PeerName::Mgen, index, field, given, accepted))
        };
        if connection.direction == Direction::Reverse {
            return refused("direction", "reverse", "forward: a receiver of MGEN sends nothing");
        }
        connection.payload.get_or_insert(ByteSize(DEFAULT_BYTES).into());
        if !connection.transport.datagrams() {
            carried::whole_messages(PeerName::Mgen, index, connection, STREAM_BYTES.0)?;
            let most = connection.payload.as_ref().map_or(0, |size| size.moments().max_bytes);
            if most > STREAM_BYTES.1 {
                let accepted = "up to 65535 bytes, the maximum of a message that is not divided";
                return refused("payload", &most.to_string(), accepted);
            }
            continue;
        }
        let header = match connection.header {
            HeaderFormat::Native | HeaderFormat::MgenChecked => HeaderFormat::MgenChecked,
            HeaderFormat::Mgen => HeaderFormat::Mgen,
            other => return refused("header", other.label(), "mgen or mgen-crc"),
        };
        let payload = connection.payload.clone().unwrap_or(ByteSize(DEFAULT_BYTES).into());
        let most = payload.moments().max_bytes;
        if most > MAX_BYTES {
            return refused("payload", &most.to_string(), "up to 8192 bytes, MGEN's maximum");
        }
        *connection =
            ConnectionFields { header, payload: Some(payload), ..connection.clone().into() }.into();
    }
    plan.check()?;
    Ok(plan)
}

/// Runs a test.
///
/// # Errors
/// [`Failure`] with the reason and what had been measured until then.
pub(super) fn run(
    config: &ClientConfig,
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    let plan = prepared(config)?;
    let mut additions = |spec: &FlowSpec, to: SocketAddr| {
        let flow = flow_number(&spec.name).unwrap_or(spec.id);
        if !spec.connection.transport.datagrams() {
            let frames = Frames::new(flow, to, data(spec));
            return Ok(Additions { framing: Some(Box::new(frames)), ..Additions::default() });
        }
        Ok(Additions {
            prefix: fitting(spec, to)?,
            numbering: Numbering { flow: Some(flow), first: 0 },
            ..Additions::default()
        })
    };
    one_sided::run(config, plan, &mut additions, stop, observe)
}

/// What each message to `to` begins with.
///
/// # Errors
/// [`TrafficError::Input`]: messages of this length have no room for the destination.
fn fitting(spec: &FlowSpec, to: SocketAddr) -> Result<Vec<u8>, TrafficError> {
    let (length, header) = (spec.size.moments().min_bytes, spec.connection.header);
    let least = codec::min_bytes(to, Header::new(header, MAX_BYTES as usize).trailer_bytes());
    if length < least {
        return Err(TrafficError::Input {
            field: "payload",
            given: format!("{length} bytes to {}", to.ip()),
            accepted: format!("at least {least} bytes with header {header}"),
        });
    }
    Ok(codec::prefix(to, data(spec)))
}

/// The data of the user, which mgen logs.
fn data(spec: &FlowSpec) -> &[u8] {
    match &spec.connection.content {
        Content::Pattern(pattern) => pattern.bytes(),
        _ => &[],
    }
}

/// The flow number in the name of a flow: the number that it begins with, alone or before a full stop.
fn flow_number(name: &str) -> Option<u32> {
    name.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared_plan(connection: &str) -> Result<Plan, TrafficError> {
        let transport = if connection.contains("transport") { "" } else { "transport = \"udp\"\n" };
        let text = format!(
            "schema = \"weir.plan/1\"\npeer = \"mgen\"\n[[connection]]\n{transport}{connection}"
        );
        let plan = Plan::parse(&text).unwrap();
        prepared(&ClientConfig::new(plan, "192.0.2.1"))
    }

    #[test]
    fn messages_have_a_checksum_and_their_length_unless_stated() {
        let connection = &prepared_plan("").unwrap().connections[0];
        assert_eq!(connection.header, HeaderFormat::MgenChecked);
        assert_eq!(connection.payload, Some(ByteSize(1024).into()));
        let connection = &prepared_plan("header = \"mgen\"\npayload = 28").unwrap().connections[0];
        assert_eq!(connection.header, HeaderFormat::Mgen);
    }

    #[test]
    fn a_stream_has_whole_messages_of_76_to_65535_bytes() {
        let of = |more: &str| prepared_plan(&format!("transport = \"tcp\"\n{more}"));
        let plan = of("payload = 1000\nbytes = \"2500\"").unwrap();
        assert_eq!((plan.connections[0].packets, plan.connections[0].bytes), (Some(3), None));
        for bytes in [75, 65_536] {
            assert!(of(&format!("payload = {bytes}")).is_err(), "{bytes}");
        }
        of("payload = \"76..65535\"").unwrap();
        assert!(of("payload = \"76..100\"\nbytes = \"1K\"").is_err());
    }

    #[test]
    fn what_mgen_does_not_carry_is_refused_by_field() {
        for (text, field) in [
            ("direction = \"reverse\"", "direction"),
            ("header = \"rtp\"", "header"),
            ("payload = 8193", "payload"),
            ("verify = true", "verify"),
            ("echo = \"whole\"", "echo"),
        ] {
            let TrafficError::Plan(error) = prepared_plan(text).unwrap_err() else {
                panic!("{text}")
            };
            let refusal = weir_model::Refusal::from(&error);
            assert_eq!(refusal.field, Some(format!("connection[0].{field}")), "{text}");
        }
    }

    #[test]
    fn a_flow_whose_name_is_a_number_has_it() {
        for (name, number) in
            [("7", Some(7)), ("7.2", Some(7)), ("4294967295", Some(u32::MAX)), ("udp-1", None)]
        {
            assert_eq!(flow_number(name), number, "{name}");
        }
    }

    #[test]
    fn a_message_has_room_for_its_destination() {
        let plan = prepared_plan("header = \"mgen\"\npayload = 28").unwrap();
        let spec = plan.flows(weir_model::plan::Family::Ipv6, 1500).swap_remove(0);
        assert_eq!(fitting(&spec, "192.0.2.1:5000".parse().unwrap()).unwrap().len(), 28);
        let six = fitting(&spec, "[2001:db8::1]:5000".parse().unwrap());
        assert!(matches!(six, Err(TrafficError::Input { field: "payload", .. })));
    }
}
