//! A connection as documents have it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CatchUp, Direction, HeaderFormat, Size, Spacing, Switch, TransportName};
use crate::content::Content;
use crate::law::is_default;
use crate::units::{BitRate, ByteSize, SendRate, Span};

/// A connection as documents have it: one flat table. Options that only some transports have are absent unless given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionFields {
    /// Name, unique in the plan; flows of a `count` above 1 get `-1`, `-2`, … behind it.
    pub name: String,
    /// Transport protocol.
    pub transport: TransportName,
    /// Which side sends.
    pub direction: Direction,
    /// How many flows like this one, 1 to 100 000.
    pub count: u32,
    /// Payload bytes of a datagram (0 to 65 507, or 65 527 over IPv6), or bytes of a write to a stream (1 to 16 M): a size, or a law of sizes. Absent: the largest datagram without fragmentation; for a stream 512K, or less when it is paced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Size>,
    /// Format of the data header that begins each datagram.
    #[serde(skip_serializing_if = "is_native")]
    pub header: HeaderFormat,
    /// Rate of this connection: payload bit/s or packets/s; `0` is unlimited. Absent: unlimited for TCP, 1M for UDP, 1000pps for empty datagrams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<SendRate>,
    /// Law of the intervals between packets; their mean is that of the rate unless the law states it. Absent: equal intervals.
    #[serde(skip_serializing_if = "is_default")]
    pub spacing: Spacing,
    /// Length of sending; `0` until stopped. At most one of `duration`, `bytes` and `packets`; with none of them 10 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// Stop after this many payload bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ByteSize>,
    /// Stop after this many datagrams or writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Start this long after the test's start.
    #[serde(skip_serializing_if = "is_zero")]
    pub start_after: Span,
    /// `false`: waits for a start command over the control socket.
    #[serde(skip_serializing_if = "is_true")]
    pub autostart: bool,
    /// Content of the payload.
    pub content: Content,
    /// The receiver verifies the seeded payload: bit errors and truncation are counted.
    #[serde(skip_serializing_if = "is_false")]
    pub verify: bool,
    /// What a paced sender does about late slots.
    pub catch_up: CatchUp,
    /// Segmentation offload at the sender (UDP_SEGMENT).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch", extend("default" = "auto"))]
    pub gso: Option<Switch>,
    /// Receive offload at the receiver (UDP_GRO).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch", extend("default" = "auto"))]
    pub gro: Option<Switch>,
    /// Socket buffer of both ends ("window"), bytes. Absent: TCP's autotuning; for UDP sized by Weir.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<ByteSize>,
    /// TCP maximum segment size, 88 to 32 767 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mss: Option<u32>,
    /// TCP_NODELAY: Nagle's algorithm off.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub no_delay: Option<bool>,
    /// TCP congestion control by its kernel name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// The whole TOS or traffic-class byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tos: Option<u8>,
    /// IPv6 flow label, 20 bits; with `family = "ipv6"` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
    /// Time to live or hop limit, 1 to 255.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u8>,
    /// Don't-fragment (IPv4) and no local fragmentation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub dont_fragment: Option<bool>,
    /// Sending without a copy (sendfile from memory) on a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub zero_copy: Option<bool>,
    /// The receiver of a stream discards in the kernel instead of copying (MSG_TRUNC).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub discard: Option<bool>,
    /// The kernel paces as well (SO_MAX_PACING_RATE), bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_pacing: Option<BitRate>,
    /// Source port on the side that runs `weir test`; flows of a `count` use the following ports, up to 65535.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_port: Option<u16>,
}

fn is_native(h: &HeaderFormat) -> bool {
    *h == HeaderFormat::default()
}
fn is_zero(s: &Span) -> bool {
    s.0 == 0
}
fn is_true(b: &bool) -> bool {
    *b
}
fn is_false(b: &bool) -> bool {
    !*b
}

impl Default for ConnectionFields {
    fn default() -> Self {
        ConnectionFields {
            name: String::new(),
            transport: TransportName::default(),
            direction: Direction::Forward,
            count: 1,
            payload: None,
            header: HeaderFormat::default(),
            rate: None,
            spacing: Spacing::default(),
            duration: None,
            bytes: None,
            packets: None,
            start_after: Span(0),
            autostart: true,
            content: Content::Random,
            verify: false,
            catch_up: CatchUp::default(),
            gso: None,
            gro: None,
            window: None,
            mss: None,
            no_delay: None,
            congestion: None,
            tos: None,
            flow_label: None,
            ttl: None,
            dont_fragment: None,
            zero_copy: None,
            discard: None,
            kernel_pacing: None,
            client_port: None,
        }
    }
}
