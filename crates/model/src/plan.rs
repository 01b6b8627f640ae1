//! `weir.plan/1`: the plan of a test, a list of connections. Each expands to `count` flows, which can be
//! started and stopped one by one.
//!
//! A plan is checked before anything starts; errors name the field, the given value and the accepted values.

mod alignment;
mod check;
mod choices;
mod connection;
mod echo;
mod engine;
mod fields;
mod header;
mod mtu;
mod peer;
mod profiles;
mod schedule;
mod scope;
mod servers;
mod shape;
mod size;
mod sources;
mod spacing;
mod transfers;
mod transport;
mod voice;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::document::{self, DocumentError};
use crate::units::{BitRate, ByteSize, Seed, SendRate, Span};

pub use alignment::Alignment;
pub use choices::{CatchUp, DataPorts, Direction, Ecn, Family, Switch};
pub use echo::Echo;
pub use engine::EngineName;
pub use fields::{Connection, ConnectionFields};
pub use header::HeaderFormat;
pub use peer::PeerName;
pub use profiles::{ProfileName, TrafficProfile, UserProfiles, without_profiles};
pub use schedule::RateSchedule;
pub use scope::Scope;
pub use servers::{GroupStream, Server};
pub use shape::Shape;
pub use size::{Size, SizeLaw, SizeMoments};
pub use sources::SourceAddresses;
pub use spacing::{Spacing, SpacingLaw, SpacingMoments};
pub use transfers::{MAX_CONCURRENT, MIN_TRANSFER_DATAGRAM};
pub use transport::{
    CoverageOptions, Description, GroupOptions, Headers, IpOptions, Misplaced, StreamOptions,
    TcpOptions, Transport, TransportName, UdpOptions,
};
pub use voice::{CodecFacts, DEFAULT_JITTER_BUFFER, VoiceCodec};

/// The schema name of a plan.
pub(crate) const PLAN_SCHEMA: &str = "weir.plan/1";
/// The port of Weir: "WEIR" on a telephone keypad.
pub const DEFAULT_PORT: u16 = 9347;
/// The default port of multicast and broadcast datagrams: not the server's, whose socket would receive them too.
pub const DEFAULT_GROUP_PORT: u16 = 9348;
/// Largest UDP payload over IPv4: 65 535 minus the headers of IP (20 B) and UDP (8 B).
pub const MAX_UDP_PAYLOAD_V4: u64 = 65_507;
/// Largest UDP payload over IPv6 without jumbograms: the 16-bit length minus the 8 B UDP header.
pub(crate) const MAX_UDP_PAYLOAD_V6: u64 = 65_527;
/// Maximum number of flows of a plan.
pub const MAX_FLOWS: u32 = 200_000;

/// A plan, `weir.plan/1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = crate::schema::in_order::<Plan>)]
pub struct Plan {
    /// `weir.plan/1`.
    #[schemars(extend("const" = "weir.plan/1"))]
    pub schema: String,
    /// A title, printed with the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-group" = "what"))]
    pub title: Option<String>,
    /// The server: a name or address, with or without its port. A command line's HOST replaces it. Connections may name
    /// others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-group" = "what"))]
    pub host: Option<String>,
    /// Its port, 1 to 65535. Absent: the usual one of its protocol, 9347 for Weir's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Protocol of the server: Weir's, or that of another tool, whose servers carry only a part of a plan.
    #[serde(default, skip_serializing_if = "is_weir")]
    #[schemars(title = "Protocol of the server", extend("x-group" = "what"))]
    pub peer: PeerName,
    /// IP version; absent: what the name resolves to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "IP version")]
    pub family: Option<Family>,
    /// Local address to bind to, or a range or network of them, which the streams of the test, and with shape `crr` or `cc` their connections, use in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Local address")]
    pub bind: Option<SourceAddresses>,
    /// Local interface to bind to: 1 to 15 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Local interface")]
    pub device: Option<String>,
    /// Length of a reporting interval, 10 ms to 1 h; `0` for none.
    #[serde(default = "default_interval")]
    #[schemars(title = "Reporting interval", extend("x-group" = "how-long"))]
    pub interval: Span,
    /// Time at the start that is omitted from the totals.
    #[serde(default)]
    #[schemars(title = "Omit at the start", extend("x-group" = "how-long"))]
    pub omit: Span,
    /// Seed of all random values.
    #[serde(default)]
    pub seed: Seed,
    /// Which ports carry data.
    #[serde(default)]
    pub data_ports: DataPorts,
    /// A packet that has not arrived within this time is lost (RFC 7680). Absent: max(2 s, 4 × RTT).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_threshold: Option<Span>,
    /// Maximum rate of all control traffic of the test, 1k to 1G. Absent: 10 % of the rate of its flows, where each has one.
    /// A test of few packets per second needs more for the other end's figures while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Rate of control traffic")]
    pub control_rate: Option<BitRate>,
    /// Measure round trips alongside the test: idle before it and loaded during it.
    #[serde(default = "yes")]
    #[schemars(title = "Measure round trips", extend("x-group" = "what"))]
    pub latency: bool,
    /// Nominal rate of the link, for link usage: above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Nominal rate of the link", extend("x-group" = "how-much"))]
    pub nominal: Option<BitRate>,
    /// The connections.
    #[serde(rename = "connection", deserialize_with = "profiles::expanded")]
    pub connections: Vec<Connection>,
}

fn is_weir(peer: &PeerName) -> bool {
    *peer == PeerName::Weir
}
fn default_interval() -> Span {
    Span::from_seconds(1)
}
fn yes() -> bool {
    true
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            schema: PLAN_SCHEMA.into(),
            title: None,
            host: None,
            port: None,
            peer: PeerName::Weir,
            family: None,
            bind: None,
            device: None,
            interval: default_interval(),
            omit: Span(0),
            seed: Seed(0),
            data_ports: DataPorts::Auto,
            loss_threshold: None,
            control_rate: None,
            latency: true,
            nominal: None,
            connections: vec![],
        }
    }
}

/// One flow of an expanded plan, with all defaults resolved, as either side runs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowSpec {
    /// Flow number, from 1, unique in the session.
    pub id: u32,
    /// Name, unique in the plan.
    pub name: String,
    /// Law of the payload bytes of a datagram or of a write.
    pub size: Size,
    /// Rate, resolved.
    pub rate: SendRate,
    /// Duration of sending in ns; `None`: until another limit or a stop.
    pub duration_ns: Option<u64>,
    /// Seed of its laws, from the plan.
    pub seed: Seed,
    /// The connection that it was expanded from, with a `count` of 1.
    pub connection: Connection,
}

impl FlowSpec {
    /// Mean payload, bytes, rounded.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.size.moments().mean_bytes.round() as u64
    }

    /// Maximum payload in bytes, for the size of buffers.
    #[must_use]
    pub fn max_payload(&self) -> u64 {
        self.size.moments().max_bytes
    }

    /// Mean packets per second; `None` when unlimited.
    #[must_use]
    pub fn packets_per_second(&self) -> Option<f64> {
        self.rate.packets_per_second(self.size.moments().mean_bytes)
    }

    /// Highest mean of packets per second, that of its schedule included; `None` when unlimited.
    #[must_use]
    pub fn peak_packets_per_second(&self) -> Option<f64> {
        let mean = self.size.moments().mean_bytes;
        let schedule = self.connection.rate_schedule.iter();
        let scheduled = schedule.flat_map(|schedule| schedule.reached(self.rate));
        let packets = scheduled.filter_map(|rate| rate.packets_per_second(mean));
        Some(packets.fold(self.packets_per_second()?, f64::max))
    }

    /// Mean payload bits per second; `None` when unlimited.
    #[must_use]
    pub fn bits_per_second(&self) -> Option<f64> {
        self.packets_per_second().map(|packets| 8.0 * packets * self.size.moments().mean_bytes)
    }

    /// Whether its sender is paced.
    #[must_use]
    pub fn is_paced(&self) -> bool {
        self.packets_per_second().is_some()
    }
}

impl Plan {
    /// Reads a plan from TOML, or from JSON when it begins with `{`, and checks it.
    ///
    /// # Errors
    /// [`ModelError::Document`] with the field and its line.
    pub fn parse(text: &str) -> Result<Plan, ModelError> {
        let plan: Plan = document::parse(text).map_err(|e| e.of(PLAN_SCHEMA))?;
        plan.check().map_err(|e| DocumentError::of_check(e, PLAN_SCHEMA, text))?;
        Ok(plan)
    }

    /// The plan as TOML, as `--save-plan` writes it.
    ///
    /// # Errors
    /// [`ModelError::Document`] if a number does not fit TOML's 64-bit integers.
    pub fn to_toml(&self) -> Result<String, ModelError> {
        document::to_toml(self).map_err(|e| e.of(PLAN_SCHEMA).into())
    }

    /// The flows of this plan over `family`, with all defaults resolved; ids start at 1.
    ///
    /// Default datagrams are sized to fit into `path_mtu_bytes` without fragmentation (1472 B at 1500 over
    /// IPv4).
    pub fn flows(&self, family: Family, path_mtu_bytes: u32) -> Vec<FlowSpec> {
        let mut out = vec![];
        for c in &self.connections {
            for n in 0..c.count {
                let id = out.len() as u32 + 1;
                let name = match (c.name.as_str(), c.count) {
                    ("", 1) => self.unnamed(c, id),
                    ("", _) => format!("{}-{}", c.kind(), n + 1),
                    (name, 1) => name.to_owned(),
                    (name, _) => format!("{name}-{}", n + 1),
                };
                let mut connection = c.clone();
                connection.count = 1;
                if let Some(ip) = connection.transport.ip_mut() {
                    // Each port is used with every address of a range.
                    let turn = n / self.bind.map_or(1, SourceAddresses::count);
                    ip.client_port = ip.client_port.map(|p| p.wrapping_add(turn as u16));
                }
                connection.fit_segments(family);
                let size = match c.shape.has_transactions() && !c.transfers_datagrams() {
                    true => ByteSize(c.request_bytes()).into(),
                    false => c.payload.clone().unwrap_or_else(|| {
                        let by_path =
                            || c.transport.default_payload(c.rate, family, path_mtu_bytes);
                        let of_transport = || {
                            let payload = c.unfragmented_bytes(family).unwrap_or_else(by_path);
                            c.engine.payload_bytes().map_or(payload, |(_, most)| payload.min(most))
                        };
                        ByteSize(c.voice_payload().unwrap_or_else(of_transport)).into()
                    }),
                };
                out.push(FlowSpec {
                    id,
                    name,
                    size,
                    rate: c.send_rate(),
                    seed: self.seed,
                    duration_ns: c.time_limit().map(|limit| limit.0),
                    connection,
                });
            }
        }
        out
    }

    /// The IP version of its tests: as stated, or that of a group; absent: what the name resolves to.
    #[must_use]
    pub fn wanted_family(&self) -> Option<Family> {
        let groups = || self.connections.iter().filter_map(|c| c.transport.group()?.group);
        self.family.or_else(|| groups().next().map(check::family_of))
    }

    /// The name of flow `id`, the only one of a connection without a name.
    fn unnamed(&self, connection: &Connection, id: u32) -> String {
        let base = connection.kind();
        if self.connections.len() > 1 { format!("{base}-{id}") } else { base }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Plan, ModelError> {
        Plan::parse(&format!("schema = \"weir.plan/1\"\n{text}"))
    }

    #[test]
    fn omitted_fields_have_defaults() {
        let p =
            plan("[[connection]]\ntransport = \"udp\"\nrate = \"50000pps\"\ncount = 3").unwrap();
        let flows = p.flows(Family::Ipv4, 1500);
        assert_eq!(flows.len(), 3);
        assert_eq!(flows[2].payload_bytes(), 1472);
        assert_eq!(flows[2].name, "udp-forward-3");
        assert_eq!(flows[0].duration_ns, Some(10_000_000_000));
        assert_eq!(p.flows(Family::Ipv6, 1500)[0].payload_bytes(), 1452);
    }

    #[test]
    fn errors_name_field_and_line() {
        let refused = |text: &str| match plan(text).unwrap_err() {
            ModelError::Document(error) => (error.field, error.given, error.line),
            other => panic!("{text}: {other}"),
        };
        let connection = |field: &str, given: &str, line| {
            (format!("connection[0].{field}"), given.to_owned(), Some(line))
        };
        for (text, expected) in [
            ("verify = true\ndiscard = true", connection("verify", "true", 3)),
            ("transport = \"udp\"\npayload = 65508", connection("payload", "65508", 4)),
            ("speed = 3", connection("speed", "speed", 3)),
        ] {
            assert_eq!(refused(&format!("[[connection]]\n{text}")), expected, "{text}");
        }
        assert_eq!(refused("port = 0\n[[connection]]"), ("port".into(), "0".into(), Some(2)));
        assert_eq!(refused("").0, "connection");
        let other = Plan::parse("schema = \"weir.plan/2\"\nconnection = [{}]").unwrap_err();
        assert_eq!(crate::Refusal::from(&other).field.as_deref(), Some("schema"));
        let twice = refused("[[connection]]\nname='a'\n[[connection]]\nname='a'");
        assert_eq!((twice.0.as_str(), twice.2), ("connection[1].name", Some(5)));
    }

    #[test]
    fn groups_and_coverage_are_refused_by_field() {
        let to = "transport = \"multicast\"\ngroup = ";
        let groups = |text: &str| plan(&format!("[[connection]]\n{to}{text}"));
        for good in [
            "\"239.1.1.1\"\njoin_after = \"1s\"\nleave_after = \"2s\"\npayload = 32",
            "\"239.1.1.1\"\nleave_after = \"3s\"\nstart_after = \"2s\"\nduration = \"2s\"",
            "\"239.1.1.1\"\nleave_after = \"15s\"\npackets = 10",
            "\"239.1.1.1\"\nleave_after = \"15s\"\nduration = 0",
            "\"239.1.1.1\"\nleave_after = \"15s\"\nautostart = false",
            "\"ff35::8000:1\"\nsource_specific = true\nttl = 4\ngroup_port = 5000",
            "\"ff02::7\"\ninterface = \"eth0\"",
            "\"239.1.1.1\"\nheader = \"none\"",
        ] {
            assert!(groups(good).is_ok(), "{good}: {:?}", groups(good));
        }
        for (text, field) in [
            ("\"192.0.2.1\"", "group"),
            ("\"239.1.1.1\"\ngroup_port = 0", "group_port"),
            ("\"239.1.1.1\"\ndirection = \"reverse\"", "direction"),
            ("\"224.0.0.7\"", "interface"),
            ("\"ff02::7\"", "interface"),
            ("\"239.1.1.1\"\ninterface = \"a/b\"", "interface"),
            ("\"239.1.1.1\"\njoin_after = \"2s\"\nleave_after = \"2s\"", "leave_after"),
            ("\"239.1.1.1\"\njoin_after = \"2s\"\nduration = \"2s\"", "join_after"),
            ("\"239.1.1.1\"\nleave_after = \"3s\"\nduration = \"2s\"", "leave_after"),
            ("\"239.1.1.1\"\nleave_after = \"15s\"", "leave_after"),
            ("\"239.1.1.1\"\njoin_after = \"2s\"\npayload = 31", "join_after"),
            ("\"239.1.1.1\"\nleave_after = \"2s\"\nheader = \"none\"", "leave_after"),
            ("\"239.1.1.1\"\njoin_after = \"2s\"\nheader = \"rtp\"", "join_after"),
            ("\"239.1.1.1\"\ndont_fragment = true", "dont_fragment"),
            (
                "\"239.1.1.1\"\n[[connection]]\ntransport = \"multicast\"\ngroup = \"ff15::1\"",
                "group",
            ),
        ] {
            let ModelError::Document(error) = groups(text).unwrap_err() else { panic!("{text}") };
            assert_eq!(error.field.rsplit('.').next(), Some(field), "{text}: {error:?}");
        }
        for (text, field) in [
            ("transport = \"multicast\"", "group"),
            ("transport = \"broadcast\"\ngroup = \"ff15::1\"", "group"),
            (
                "transport = \"broadcast\"\ngroup = \"192.0.2.255\"\njoin_after = \"1s\"",
                "join_after",
            ),
            ("transport = \"udp\"\ngroup = \"239.1.1.1\"", "group"),
            ("transport = \"udp\"\nchecksum_coverage = 20", "checksum_coverage"),
            ("transport = \"udp-lite\"\nchecksum_coverage = 7", "checksum_coverage"),
            ("transport = \"udp-lite\"\ngso = \"on\"", "gso"),
        ] {
            let error = plan(&format!("[[connection]]\n{text}")).unwrap_err();
            let ModelError::Document(error) = error else { panic!("{text}") };
            assert_eq!(error.field.rsplit('.').next(), Some(field), "{text}: {error:?}");
        }
        let shared = plan("data_ports = \"shared\"\n[[connection]]\ntransport = \"udp-lite\"");
        assert!(matches!(shared, Err(ModelError::Document(e)) if e.field == "data_ports"));
    }

    #[test]
    fn toml_round_trip() {
        let mut p = Plan { title: Some("t".into()), ..Plan::default() };
        p.connections.push(Connection {
            rate: Some("10M/4".parse().unwrap()),
            bytes: Some(ByteSize(1 << 20)),
            ..Connection::default()
        });
        p.connections.push(Connection {
            transport: Transport::udp(),
            start_after: Span(5),
            catch_up: CatchUp::Burst(3),
            ..Connection::default()
        });
        assert_eq!(Plan::parse(&p.to_toml().unwrap()).unwrap(), p);
        assert_eq!(Plan::parse(&serde_json::to_string(&p).unwrap()).unwrap(), p);
    }

    #[test]
    fn byte_limit_replaces_default_duration() {
        let p = plan("[[connection]]\nbytes = \"1M\"").unwrap();
        assert_eq!(p.flows(Family::Ipv4, 1500)[0].duration_ns, None);
    }
}
