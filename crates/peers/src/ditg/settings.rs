//! Plans as announcements of flows, and announcements as plans.

use std::net::SocketAddr;

use weir_model::plan::{
    ConnectionFields, Direction, Echo, FlowSpec, HeaderFormat, PeerName, Plan, Switch, Transport,
};
use weir_model::units::{ByteSize, SendRate, Span};
use weir_traffic::{ClientConfig, TrafficError};

use super::codec::{FRAME_BYTES, FlowRequest, Layer4, Metadata};
use crate::carried::{self, Side};

const PEER: PeerName = PeerName::Ditg;
/// The port of data at a receiver.
pub(super) const DATA_PORT: u16 = 8999;
/// Default payload: that of ITGSend.
const PAYLOAD: ByteSize = ByteSize(512);

/// The options of a connection that a test has, by their fields. All others are refused.
const ACCEPTED: &[(&str, Side)] = &[
    ("name", Side::Both),
    ("transport", Side::Both),
    ("count", Side::Both),
    ("payload", Side::Both),
    ("header", Side::Both),
    ("echo", Side::Both),
    ("rate", Side::Both),
    ("rate_schedule", Side::Both),
    ("spacing", Side::Both),
    ("duration", Side::Both),
    ("bytes", Side::Both),
    ("packets", Side::Both),
    ("start_after", Side::Both),
    ("content", Side::Both),
    ("catch_up", Side::Both),
    ("window", Side::Both),
    ("tos", Side::Both),
    ("ttl", Side::Both),
    ("mtu", Side::Both),
    ("priority", Side::Both),
    ("flow_label", Side::Both),
    ("kernel_pacing", Side::Both),
    ("client_port", Side::Both),
    ("port", Side::Both),
    ("mss", Side::Both),
    ("no_delay", Side::Both),
    ("cork", Side::Both),
    ("congestion", Side::Both),
    ("user_timeout", Side::Both),
    ("dont_fragment", Side::Both),
    ("gso", Side::Both),
    ("gro", Side::Both),
];

/// Checks what the protocol carries of a test, and completes its plan.
///
/// # Errors
/// [`TrafficError::Input`], [`TrafficError::Plan`].
pub(super) fn prepared(config: &ClientConfig) -> Result<Plan, TrafficError> {
    carried::check_sides(config, &[ACCEPTED])?;
    if config.has_start() {
        let accepted = "a start as soon as the receiver is ready";
        return Err(carried::of_test(PEER, "start_at_ns", "given", accepted));
    }
    let mut plan = config.plan.clone();
    if plan.omit.0 > 0 {
        let accepted = "0: D-ITG's receiver counts the whole test";
        return Err(carried::of_test(PEER, "omit", plan.omit, accepted));
    }
    // There is no channel for round trips alongside the data.
    plan.latency = false;
    for (index, connection) in plan.connections.iter_mut().enumerate() {
        let refused = |field, given: &dyn std::fmt::Display, accepted: &str| {
            Err(carried::of_connection(PEER, index, field, given, accepted))
        };
        connection.payload.get_or_insert(PAYLOAD.into());
        if connection.echo.is_some_and(|echo| echo != Echo::Whole) {
            return refused("echo", &"a part of each datagram", "whole");
        }
        if connection.transport.datagrams() {
            connection.header = match connection.header {
                HeaderFormat::Native | HeaderFormat::Ditg => HeaderFormat::Ditg,
                other @ (HeaderFormat::DitgShort | HeaderFormat::None) => other,
                other => return refused("header", &other, "ditg, ditg-short or none"),
            };
            continue;
        }
        carried::whole_messages(PEER, index, connection, FRAME_BYTES as u64)?;
    }
    plan.check()?;
    Ok(plan)
}

/// The announcement of a flow of a plan from [`prepared`]. `peer`: where its receiver is.
pub(super) fn request(spec: &FlowSpec, peer: SocketAddr) -> FlowRequest {
    let connection = &spec.connection;
    let is_datagrams = connection.transport.datagrams();
    FlowRequest {
        flow: spec.id,
        layer4: match (is_datagrams, connection.transport.echoes()) {
            (_, true) => Layer4::Icmp,
            (true, false) => Layer4::Udp,
            (false, false) => Layer4::Tcp,
        },
        echoes: connection.echo.is_some(),
        tos: connection.tos().unwrap_or(0),
        metadata: match connection.header {
            HeaderFormat::DitgShort => Metadata::Short,
            HeaderFormat::None if is_datagrams => Metadata::Nothing,
            _ => Metadata::Whole,
        },
        // The server's own port is the plan's.
        port: connection.port.unwrap_or(DATA_PORT),
        address: peer.ip().to_canonical(),
    }
}

/// Why a flow is not received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    /// ICMP can't be received, which has an error of its own.
    Icmp(String),
    /// Something else.
    Other(String),
}

/// The plan of this end for one flow of a client: what the client sends is received, `reverse` at this end.
///
/// # Errors
/// The reason for which it is not served.
pub(super) fn plan(request: &FlowRequest) -> Result<Plan, Refused> {
    let other = |reason: String| Err(Refused::Other(reason));
    let transport = match request.layer4 {
        Layer4::Tcp => Transport::tcp(),
        Layer4::Udp => Transport::udp(),
        Layer4::Icmp => Transport::icmp(),
        Layer4::Other(4) => return other("SCTP".into()),
        Layer4::Other(5) => return other("DCCP".into()),
        Layer4::Other(number) => return other(format!("a protocol of number {number}")),
    };
    let is_datagrams = transport.datagrams();
    let is_own = |port| (1..crate::reflector::FIRST_CLIENT_PORT).contains(&port);
    // Messages of ICMP have no ports, and the system answers those that ask for it.
    let is_icmp = transport.echoes();
    if is_own(request.port) && !is_icmp {
        return other(format!("data port {}", request.port));
    }
    let alone = (is_datagrams && !is_icmp).then_some(Switch::Off);
    let fields = ConnectionFields {
        name: format!("flow-{}", request.flow),
        direction: Direction::Reverse,
        transport: transport.name(),
        header: match (is_datagrams, request.metadata) {
            (false, _) => HeaderFormat::default(),
            (true, Metadata::Whole) => HeaderFormat::Ditg,
            (true, Metadata::Short) => HeaderFormat::DitgShort,
            (true, Metadata::Nothing) => HeaderFormat::None,
        },
        echo: (request.echoes && !is_icmp).then_some(Echo::Whole),
        rate: Some(SendRate::UNLIMITED),
        // The client ends it.
        duration: Some(Span(0)),
        tos: Some(request.tos).filter(|tos| *tos > 0),
        gso: alone,
        gro: alone,
        ..ConnectionFields::default()
    };
    Ok(Plan { peer: PEER, latency: false, connections: vec![fields.into()], ..Plan::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::plan::Family;

    fn config(text: &str) -> ClientConfig {
        let plan = Plan::parse(&format!("schema = \"weir.plan/1\"\npeer = \"ditg\"\n{text}"));
        ClientConfig::new(plan.unwrap(), "h")
    }

    fn requested(text: &str) -> Vec<FlowRequest> {
        let plan = prepared(&config(text)).unwrap();
        let to = "192.0.2.1:9000".parse().unwrap();
        plan.flows(Family::Ipv4, 1500).iter().map(|spec| request(spec, to)).collect()
    }

    fn field(text: &str) -> String {
        match prepared(&config(text)).unwrap_err() {
            TrafficError::Input { field, .. } => field.into(),
            TrafficError::Plan(weir_model::ModelError::Field { field, .. }) => field,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn each_option_becomes_its_field_of_the_announcement() {
        let all = requested(
            "[[connection]]\ntransport = \"udp\"\ncount = 2\ntos = 32\necho = \"whole\"\n\
             [[connection]]\n[[connection]]\ntransport = \"udp\"\nheader = \"ditg-short\"\n\
             [[connection]]\ntransport = \"udp\"\nheader = \"none\"\n\
             [[connection]]\ntransport = \"icmp\"",
        );
        let flows: Vec<u32> = all.iter().map(|request| request.flow).collect();
        assert_eq!(flows, [1, 2, 3, 4, 5, 6]);
        let udp = FlowRequest {
            flow: 1,
            layer4: Layer4::Udp,
            echoes: true,
            tos: 32,
            metadata: Metadata::Whole,
            port: DATA_PORT,
            address: "192.0.2.1".parse().unwrap(),
        };
        assert_eq!(all[0], udp);
        let plain = FlowRequest { echoes: false, tos: 0, ..udp };
        assert_eq!(all[2], FlowRequest { flow: 3, layer4: Layer4::Tcp, ..plain });
        assert_eq!(all[3], FlowRequest { flow: 4, metadata: Metadata::Short, ..plain });
        assert_eq!(all[4], FlowRequest { flow: 5, metadata: Metadata::Nothing, ..plain });
        assert_eq!(all[5], FlowRequest { flow: 6, layer4: Layer4::Icmp, ..plain });
    }

    #[test]
    fn a_stream_ends_with_a_whole_message() {
        for (text, packets) in [
            ("bytes = \"1000\"\npayload = 100", Some(10)),
            ("bytes = \"1001\"\npayload = 100", Some(11)),
            ("packets = 7", Some(7)),
            ("duration = \"1s\"", None),
        ] {
            let plan = prepared(&config(&format!("[[connection]]\n{text}"))).unwrap();
            let connection = &plan.connections[0];
            assert_eq!((connection.packets, connection.bytes), (packets, None), "{text}");
        }
        // A datagram is a message, whatever its size.
        let udp = "[[connection]]\ntransport = \"udp\"\nbytes = \"1001\"";
        assert!(prepared(&config(udp)).unwrap().connections[0].bytes.is_some());
    }

    #[test]
    fn what_the_protocol_does_not_carry_is_refused_by_its_field() {
        for (text, refused) in [
            ("[[connection]]\ndirection = \"reverse\"", "connection[0].direction"),
            ("[[connection]]\nshape = \"rr\"", "connection[0].shape"),
            ("[[connection]]\nzero_copy = true", "connection[0].zero_copy"),
            ("[[connection]]\npayload = 19", "connection[0].payload"),
            ("[[connection]]\npayload = \"64..100\"\nbytes = \"1K\"", "connection[0].bytes"),
            ("[[connection]]\ntransport = \"udp\"\npayload = 19", "connection[0].payload"),
            ("[[connection]]\ntransport = \"icmp\"\npayload = 19", "connection[0].payload"),
            ("[[connection]]\ntransport = \"icmp\"\nshape = \"rr\"", "connection[0].shape"),
            ("[[connection]]\ntransport = \"udp\"\necho = \"64\"", "connection[0].echo"),
            ("[[connection]]\ntransport = \"udp\"\nheader = \"rtp\"", "connection[0].header"),
            ("[[connection]]\ntransport = \"udp\"\nverify = true", "connection[0].verify"),
            ("omit = \"1s\"\n[[connection]]", "omit"),
        ] {
            assert_eq!(field(text), refused, "{text}");
        }
        requested(
            "[[connection]]\nstart_after = \"1s\"\nspacing = \"exponential\"\nrate = \"9pps\"",
        );
        requested("[[connection]]\ntransport = \"udp\"\npayload = \"64..1400\"\npackets = 9");
    }

    #[test]
    fn an_announcement_and_its_plan_mean_the_same() {
        let text = "[[connection]]\ntransport = \"udp\"\ntos = 8\n[[connection]]\n\
                    [[connection]]\ntransport = \"udp\"\nheader = \"none\"\n\
                    [[connection]]\ntransport = \"icmp\"\ntos = 8";
        let near = prepared(&config(text)).unwrap();
        for (spec, request) in near.flows(Family::Ipv4, 1500).iter().zip(requested(text)) {
            let far = plan(&request).unwrap();
            let (near, far) = (&spec.connection, &far.connections[0]);
            assert_eq!(far.direction, Direction::Reverse);
            assert_eq!(near.transport.name(), far.transport.name());
            assert_eq!((near.header, near.tos()), (far.header, far.tos()));
        }
    }

    #[test]
    fn what_the_server_does_not_receive_is_refused() {
        let request = requested("[[connection]]")[0];
        plan(&request).unwrap();
        plan(&FlowRequest { port: 0, ..request }).unwrap();
        let of = |layer4| plan(&FlowRequest { layer4, ..request });
        plan(&FlowRequest { layer4: Layer4::Icmp, port: 0, ..request }).unwrap();
        for other in [0, 4, 5, 9] {
            assert!(matches!(of(Layer4::Other(other)), Err(Refused::Other(_))), "{other}");
        }
        assert!(plan(&FlowRequest { port: 1023, ..request }).is_err());
    }
}
