//! The messages of the control connection: JSON in length-prefixed frames ([`crate::frame`]).
//!
//! The order of a test: hello both ways, [`ClientMessage::Open`] / [`ServerMessage::Opened`], data connections and
//! UDP hellos, clock probes, [`ClientMessage::Start`], the test itself with [`ClientMessage::Clock`] and live
//! intervals, [`ClientMessage::SenderDone`] / [`ServerMessage::SenderDone`], [`ServerMessage::ReceiverDone`], then the
//! report in parts. Unknown fields are ignored and unknown messages refused, so that different versions
//! either work together or fail with a clear error.

use serde::{Deserialize, Serialize};
use weir_model::plan::{Family, Plan};
use weir_model::record::{IntervalCount, LimitedBy};
use weir_model::report::{EndReport, FlowReport};
use weir_model::units::SendRate;

/// The version of the control protocol. A peer supports every version from its minimum to its maximum.
pub const PROTOCOL: u32 = 1;
/// Maximum frame size before a valid hello, bytes.
pub const HELLO_LIMIT: usize = 16 << 10;
/// Maximum frame size that a server accepts afterwards, bytes: a plan.
pub const SERVER_LIMIT: usize = 1 << 20;
/// Maximum frame size that a client accepts, bytes: one flow's report with its intervals.
pub const CLIENT_LIMIT: usize = 16 << 20;
/// Maximum number of bytes in a part of a file.
pub const MAX_PART: usize = 256 << 10;

/// Identity of a host's clock: hosts with equal identities share CLOCK_MONOTONIC.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockIdentity {
    /// The kernel's boot id; empty when it can't be read.
    pub boot_id: String,
    /// The time namespace.
    pub time_namespace: String,
}

impl ClockIdentity {
    /// Whether both sides are certain to read the same monotonic clock.
    pub fn is_same_clock(&self, other: &ClockIdentity) -> bool {
        !self.boot_id.is_empty() && self == other
    }
}

/// The first message of either side.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Hello {
    /// Minimum supported protocol version.
    pub protocol_min: u32,
    /// Maximum supported protocol version.
    pub protocol_max: u32,
    /// Version of Weir.
    pub version: String,
    /// Optional features by name.
    pub features: Vec<String>,
    /// Identity of the clock.
    pub clock: ClockIdentity,
}

impl Hello {
    /// The maximum version that both support.
    pub fn common_protocol(&self, other: &Hello) -> Option<u32> {
        let version = self.protocol_max.min(other.protocol_max);
        (version >= self.protocol_min.max(other.protocol_min)).then_some(version)
    }
}

/// A request for a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// The plan to run, without names of profiles; both sides expand it in the same way.
    #[serde(deserialize_with = "weir_model::plan::without_profiles")]
    pub plan: Plan,
    /// IP version in use.
    pub family: Family,
    /// MTU for the size of default payloads.
    pub path_mtu_bytes: u32,
    /// A packet is lost if it does not arrive within this time.
    pub loss_threshold_ns: u64,
    /// Whether live intervals are requested, as long as they stay within the control-traffic budget.
    pub live: bool,
}

/// A granted session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// Number of the session.
    pub session: u64,
    /// Key of data tags and datagrams, hexadecimal.
    pub key: String,
    /// Secret from which the single-use token of each data connection derives, hexadecimal.
    pub token_secret: String,
    /// Port for TCP data.
    pub tcp_port: u16,
    /// Port for UDP hellos and data.
    pub udp_port: u16,
    /// Flows that have a port of their own, with the port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow_ports: Vec<(u32, u16)>,
    /// MAC address of the server's interface, if flows are sent as frames of a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
}

/// Relation of the server's clock to the client's, measured by the client.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ClockState {
    /// Server minus client at `reference_ns` of the client's clock.
    pub offset_ns: i64,
    /// Growth of the offset, parts per billion.
    pub skew_ppb: i64,
    /// Client's time at which the offset holds.
    pub reference_ns: u64,
    /// Maximum error.
    pub error_ns: u64,
}

impl ClockState {
    /// Server minus client when the client's clock reads `client_ns`.
    pub fn offset_at_client(&self, client_ns: u64) -> i64 {
        let elapsed = client_ns.wrapping_sub(self.reference_ns) as i64;
        let growth = i128::from(elapsed) * i128::from(self.skew_ppb) / 1_000_000_000;
        // Both values come from a peer, so that any sum must not overflow.
        let offset = i128::from(self.offset_ns) + growth;
        offset.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// Server minus client when the server's clock reads `server_ns`.
    pub fn offset_at_server(&self, server_ns: u64) -> i64 {
        // The offset changes by less than 1 ‰ of the elapsed time; one step is enough.
        self.offset_at_client(server_ns.wrapping_add_signed(self.offset_ns.wrapping_neg()))
    }
}

/// Error bound of a host's realtime clock, and the relation of its monotonic clock to it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClockReference {
    /// The time service that disciplines the clock and bounds its error: `chrony`, `ntp-kernel`.
    pub source: String,
    /// CLOCK_REALTIME − CLOCK_MONOTONIC of that host.
    pub realtime_minus_monotonic_ns: i64,
    /// That host's monotonic time at which the bound holds.
    pub at_ns: u64,
    /// |realtime − true time| is at most this at `at_ns`.
    pub error_ns: u64,
    /// Growth of the bound, parts per billion of the elapsed time.
    pub growth_ppb: u64,
}

impl ClockReference {
    /// The bound when that host's monotonic clock reads `monotonic_ns`; saturates.
    pub fn error_at(&self, monotonic_ns: u64) -> u64 {
        let elapsed = u128::from(self.at_ns.abs_diff(monotonic_ns));
        let growth = (elapsed * u128::from(self.growth_ppb)).div_ceil(1_000_000_000);
        self.error_ns.saturating_add(u64::try_from(growth).unwrap_or(u64::MAX))
    }
}

/// Final count of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderTotal {
    /// Flow.
    pub flow: u32,
    /// Datagrams or writes.
    pub packets: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Packets sent in the omitted time; included in `packets`.
    #[serde(default)]
    pub omitted_packets: u64,
    /// End of sending since the start of the test, on the sender's clock; older peers don't report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ns: Option<u64>,
}

/// An [`IntervalCount`] in live figures. It has short keys, because every byte counts against the session's
/// control budget, and no rates, which follow from the amounts and the interval's length.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveCount {
    /// Payload bytes.
    #[serde(rename = "b")]
    pub bytes: u64,
    /// Packets.
    #[serde(rename = "p")]
    pub packets: u64,
    /// Lost packets.
    #[serde(rename = "l", skip_serializing_if = "Option::is_none")]
    pub lost_packets: Option<u64>,
    /// Known losses in earlier intervals.
    #[serde(rename = "e", skip_serializing_if = "Option::is_none")]
    pub lost_before_packets: Option<u64>,
    /// Duplicates.
    #[serde(rename = "d", skip_serializing_if = "Option::is_none")]
    pub duplicate_packets: Option<u64>,
    /// Reordered packets.
    #[serde(rename = "o", skip_serializing_if = "Option::is_none")]
    pub reordered_packets: Option<u64>,
    /// Jitter at the end of the interval.
    #[serde(rename = "j", skip_serializing_if = "Option::is_none")]
    pub jitter_seconds: Option<f64>,
    /// Mean one-way delay.
    #[serde(rename = "m", skip_serializing_if = "Option::is_none")]
    pub mean_delay_seconds: Option<f64>,
    /// Retransmitted segments.
    #[serde(rename = "r", skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Congestion window.
    #[serde(rename = "c", skip_serializing_if = "Option::is_none")]
    pub cwnd_bytes: Option<u64>,
    /// Smoothed round trip.
    #[serde(rename = "t", skip_serializing_if = "Option::is_none")]
    pub rtt_seconds: Option<f64>,
    /// What limited the stream.
    #[serde(rename = "w", skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<LimitedBy>,
}

impl From<&IntervalCount> for LiveCount {
    fn from(count: &IntervalCount) -> LiveCount {
        // Every field is named, so that a new one is either sent or omitted on purpose.
        let &IntervalCount {
            bytes,
            packets,
            bits_per_second: _,
            packets_per_second: _,
            lost_packets,
            // A property of displayed lines, computed where they are shown.
            earlier_lost_packets: _,
            lost_before_packets,
            duplicate_packets,
            reordered_packets,
            jitter_seconds,
            mean_delay_seconds,
            retransmits,
            cwnd_bytes,
            rtt_seconds,
            limited_by,
            // Counted by the client alone.
            transactions: _,
            transactions_per_second: _,
        } = count;
        LiveCount {
            bytes,
            packets,
            lost_packets,
            lost_before_packets,
            duplicate_packets,
            reordered_packets,
            jitter_seconds,
            mean_delay_seconds,
            retransmits,
            cwnd_bytes,
            rtt_seconds,
            limited_by,
        }
    }
}

impl LiveCount {
    /// The count of an interval of `seconds`, with its rates.
    pub fn over(self, seconds: Option<f64>) -> IntervalCount {
        let per_second = |n: u64| seconds.filter(|s| *s > 0.0).map(|s| n as f64 / s);
        IntervalCount {
            bytes: self.bytes,
            packets: self.packets,
            bits_per_second: per_second(self.bytes.saturating_mul(8)),
            packets_per_second: per_second(self.packets),
            lost_packets: self.lost_packets,
            earlier_lost_packets: None,
            lost_before_packets: self.lost_before_packets,
            duplicate_packets: self.duplicate_packets,
            reordered_packets: self.reordered_packets,
            jitter_seconds: self.jitter_seconds,
            mean_delay_seconds: self.mean_delay_seconds,
            retransmits: self.retransmits,
            cwnd_bytes: self.cwnd_bytes,
            rtt_seconds: self.rtt_seconds,
            limited_by: self.limited_by,
            transactions: None,
            transactions_per_second: None,
        }
    }
}

/// A message from the client, which runs the test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientMessage {
    /// First.
    Hello(Hello),
    /// Request for a session.
    Open(Box<Open>),
    /// Clock probe over the control connection; also renews the session's lease.
    Probe {
        /// Client's time of sending.
        t1_ns: u64,
        /// Whether the server's own reference for its clock is requested too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reference: bool,
    },
    /// The current relation of the clocks.
    Clock(ClockState),
    /// Request to receive a flow that is sent to a group. The server sends nothing to `source`: datagrams of other
    /// addresses are not received.
    Join {
        /// Which.
        flow: u32,
        /// The address from which the client sends.
        source: std::net::SocketAddr,
        /// The name by which the sender draws sizes: its stream may have receivers in other sessions.
        name: String,
        /// The key of its tags, 16 bytes in hexadecimal.
        key: String,
    },
    /// Time zero of the test, on the server's clock. Flows with autostart start at this time plus their own
    /// delay.
    Start {
        /// Server's time; 0 if the client doesn't know it, because the clocks are not related: then the
        /// server starts by its own clock.
        at_ns: u64,
    },
    /// Starts one flow now, whichever end sends.
    StartFlow {
        /// Which.
        flow: u32,
    },
    /// Stops one flow now; without a flow, all of them.
    StopFlow {
        /// Which.
        flow: Option<u32>,
    },
    /// Changes the rate of a flow that the server sends, now. No effect on other flows, nor after 1000 changes.
    SetRate {
        /// Which.
        flow: u32,
        /// The new rate.
        rate: SendRate,
    },
    /// A sender on the client's side has finished.
    SenderDone(SenderTotal),
    /// Everything is done: request for the report.
    Report,
    /// Request for a part of the file in which the server stored a flow, after the report.
    Fetch {
        /// Which.
        flow: u32,
        /// Position of its first byte.
        offset: u64,
    },
    /// End of the session.
    Close,
}

/// A message from the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerMessage {
    /// First.
    Hello(Hello),
    /// The session is refused.
    Refused {
        /// Stable code: `busy`, `limit`, `version`, `plan`, `key`, `closing`, `unavailable`, `damaged`.
        code: String,
        /// In words.
        text: String,
    },
    /// The session is granted.
    Opened(Opened),
    /// Answer to a probe.
    ProbeReply {
        /// As in the probe.
        t1_ns: u64,
        /// Server's time of receiving it.
        t2_ns: u64,
        /// Server's time of sending this.
        t3_ns: u64,
        /// The server's reference for its clock, if it was requested and is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reference: Option<ClockReference>,
    },
    /// A data connection or UDP flow has arrived and was verified.
    FlowReady {
        /// Which.
        flow: u32,
    },
    /// The test's time zero is set.
    Started,
    /// Current figures of an interval.
    Live {
        /// Index of the interval. Later counts arrive in a further message for the same interval.
        interval: u32,
        /// Flow and its count at this end. Flow 0 is the sum of all flows that this end receives, sent if
        /// the flows' own counts would exceed the budget.
        flows: Vec<(u32, LiveCount)>,
        /// Number of flows in the sum; 0 without a sum.
        #[serde(default, skip_serializing_if = "is_zero")]
        of: u32,
    },
    /// A sender on the server's side has finished.
    SenderDone(SenderTotal),
    /// A receiver on the server's side has accounted for all packets, or has waited for the loss threshold.
    ReceiverDone {
        /// Which.
        flow: u32,
    },
    /// One flow's part of the report.
    Flow(Box<FlowReport>),
    /// The rest of the report without its flows; the last message of a report.
    End(Box<EndReport>),
    /// A part of the file of a flow, up to [`MAX_PART`] bytes; empty at its end.
    Part {
        /// Which.
        flow: u32,
        /// Position of its first byte.
        offset: u64,
        /// The bytes, base64.
        data: String,
    },
    /// Something went wrong with a flow.
    FlowFailed {
        /// Which.
        flow: u32,
        /// In words.
        text: String,
    },
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// A frame is not a valid message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid control message: {0}")]
pub struct MessageError(String);

/// A message of either end. Its JSON is read and written in this crate, so that no other crate compiles
/// that code again.
pub trait Message: Sized {
    /// Its JSON.
    #[doc(hidden)]
    fn to_json(&self) -> Vec<u8>;
    /// The message with this JSON.
    #[doc(hidden)]
    fn of_json(json: &[u8]) -> serde_json::Result<Self>;
}

macro_rules! messages {
    ($($message:ident)*) => { $(
        impl Message for $message {
            fn to_json(&self) -> Vec<u8> {
                // Serialising these types to memory can't fail: no map has keys other than strings or numbers.
                serde_json::to_vec(self).unwrap_or_default()
            }
            fn of_json(json: &[u8]) -> serde_json::Result<Self> {
                serde_json::from_slice(json)
            }
        }
    )* };
}
messages!(ClientMessage ServerMessage);

/// The JSON of a message, the payload of a frame.
pub fn encode<M: Message>(message: &M) -> Vec<u8> {
    message.to_json()
}

/// Reads the JSON of a frame.
///
/// # Errors
/// [`MessageError`] with the position in the frame.
pub fn decode<M: Message>(frame: &[u8]) -> Result<M, MessageError> {
    M::of_json(frame).map_err(|e| MessageError(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_version_is_the_maximum_of_both() {
        let hello = |least, greatest| Hello {
            protocol_min: least,
            protocol_max: greatest,
            ..Hello::default()
        };
        assert_eq!(hello(1, 3).common_protocol(&hello(2, 5)), Some(3));
        assert_eq!(hello(1, 1).common_protocol(&hello(2, 5)), None);
        assert_eq!(hello(0, 0).common_protocol(&hello(1, 1)), None);
    }

    #[test]
    fn unknown_fields_are_ignored_and_unknown_messages_refused() {
        let hello: ClientMessage =
            decode(br#"{"type":"hello","protocol_min":1,"protocol_max":9,"new":true}"#).unwrap();
        assert!(matches!(hello, ClientMessage::Hello(h) if h.protocol_max == 9));
        assert!(decode::<ClientMessage>(br#"{"type":"format_disk"}"#).is_err());
    }

    #[test]
    fn offset_follows_skew() {
        let c = ClockState {
            offset_ns: 1_000_000_000_000,
            skew_ppb: 100_000,
            reference_ns: 5_000_000_000,
            error_ns: 0,
        };
        assert_eq!(c.offset_at_client(15_000_000_000), 1_000_000_000_000 + 1_000_000);
        let server = 15_000_000_000u64 + 1_000_001_000_000;
        assert!((c.offset_at_server(server) - 1_000_001_000_000).abs() <= 1000);
    }

    #[test]
    fn a_references_bound_grows_and_never_overflows() {
        let r =
            ClockReference { at_ns: 1_000, error_ns: 5, growth_ppb: 500_000, ..Default::default() };
        assert_eq!(r.error_at(1_000), 5);
        assert_eq!(r.error_at(1_000_001_000), 5 + 500_000);
        assert_eq!(r.error_at(0), 6);
        let wild = ClockReference { error_ns: u64::MAX, growth_ppb: u64::MAX, ..r };
        assert_eq!(wild.error_at(u64::MAX), u64::MAX);
    }

    #[test]
    fn an_older_peers_probe_is_understood() {
        let probe: ClientMessage = decode(br#"{"type":"probe","t1_ns":5}"#).unwrap();
        assert_eq!(probe, ClientMessage::Probe { t1_ns: 5, reference: false });
        assert_eq!(encode(&probe), br#"{"type":"probe","t1_ns":5}"#);
    }

    #[test]
    fn a_live_count_is_small_and_omits_only_rates() {
        let count = IntervalCount {
            bytes: 2150,
            packets: 12,
            bits_per_second: Some(68_800.0),
            packets_per_second: Some(48.0),
            lost_packets: Some(0),
            earlier_lost_packets: None,
            lost_before_packets: Some(0),
            duplicate_packets: Some(0),
            reordered_packets: Some(3),
            jitter_seconds: Some(2.123_456_789e-5),
            mean_delay_seconds: Some(1.0 / 3e4),
            retransmits: Some(7),
            cwnd_bytes: Some(14_480),
            rtt_seconds: Some(0.012_5),
            limited_by: Some(LimitedBy::ReceiveWindow),
            transactions: None,
            transactions_per_second: None,
        };
        let message = ServerMessage::Live { interval: 3, flows: vec![(1, (&count).into())], of: 0 };
        let ServerMessage::Live { flows, .. } = decode(&encode(&message)).unwrap() else {
            panic!("another message")
        };
        assert_eq!(flows[0].1.clone().over(Some(0.25)), count);
        let (none, wild) =
            (LiveCount::default(), LiveCount { bytes: u64::MAX, ..Default::default() });
        assert_eq!(none.over(None), IntervalCount::default());
        assert!(wild.over(Some(1.0)).bits_per_second.is_some());
        let datagrams = IntervalCount {
            retransmits: None,
            cwnd_bytes: None,
            rtt_seconds: None,
            limited_by: None,
            ..count
        };
        let flows = vec![(1, (&datagrams).into())];
        let size = encode(&ServerMessage::Live { interval: 3, flows, of: 0 }).len();
        assert!(size < 136, "{size} bytes for one flow");
    }

    #[test]
    fn no_boot_id_is_no_shared_clock() {
        assert!(!ClockIdentity::default().is_same_clock(&ClockIdentity::default()));
    }
}
