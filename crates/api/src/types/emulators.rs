//! Running emulators.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_emulator::Alarm;
use weir_model::impairment::Impairment;
use weir_model::plan::Direction;
use weir_model::units::Seed;

use super::LAB_HOST;
use crate::supervise::Written;

/// A request to start an emulator.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmulatorRequest {
    /// Interface A and interface B. `tap:NAME` is a TAP device: the emulator is the wire behind it, and creates it if there is none.
    #[schemars(schema_with = "interfaces")]
    pub interfaces: [String; 2],
    /// Its first configuration; absent: everything is forwarded unchanged. Without a seed a new one is drawn, which
    /// the response has.
    #[serde(default)]
    pub configuration: Impairment,
    /// How frames are received.
    #[serde(default)]
    pub link: LinkChoice,
    /// Accept interfaces that have addresses or are members of a bridge. For a remote client, those of the default
    /// route and of its session are always refused.
    #[serde(default)]
    pub force: bool,
    /// Keepalive timeout, 1 to 86 400 s: after this time without a command or a client that reads its samples, the emulator forwards everything untouched. Absent: never.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    pub keepalive_timeout_seconds: Option<u32>,
    /// It stops after this time. Absent: on request.
    #[serde(default)]
    #[schemars(range(min = 1, max = 604_800))]
    pub duration_seconds: Option<u32>,
    /// Write each packet's verdict into a packet trace (`weir.packets/1`) in the server's data directory; every flow
    /// is traced until it is excluded. Its size is limited: `packet_trace_bytes` of the server's limits.
    #[serde(default)]
    pub packet_trace: bool,
    /// Start it in this namespace of a lab, `LAB/m`; absent: here.
    #[serde(default)]
    #[schemars(regex(pattern = LAB_HOST))]
    pub lab: Option<String>,
}

/// What the pattern of names admits and no device is called.
pub(super) const NOT_NAMES: [&str; 4] = [".", "..", "tap:.", "tap:.."];

/// Names of interfaces in ASCII, without the verbs of `weir impair`, and of TAP devices (`weir_model::names::is_emulator_end`).
fn interfaces(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let name = serde_json::json!({
        "type": "string",
        "pattern": "^([!-,.0-9;-~][!-.0-9;-~]{0,14}|tap:[!-$&-.0-9;-~]{1,15})$",
        "not": { "enum": weir_model::names::VERBS.iter().chain(&NOT_NAMES).collect::<Vec<_>>() },
    });
    schemars::json_schema!({ "type": "array", "items": name, "minItems": 2, "maxItems": 2 })
}

/// How frames are received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LinkChoice {
    /// What serves best.
    #[default]
    Auto,
    /// TPACKET_V2.
    Packet,
    /// AF_XDP in the driver (native mode).
    Xdp,
    /// AF_XDP before the stack (generic mode).
    XdpGeneric,
}

impl LinkChoice {
    /// Its name in a job.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LinkChoice::Auto => "auto",
            LinkChoice::Packet => "packet",
            LinkChoice::Xdp => "xdp",
            LinkChoice::XdpGeneric => "xdp-generic",
        }
    }
}

/// A running emulator, started by this server or by another program on this host.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct EmulatorEntry {
    /// Id in paths.
    pub id: String,
    /// Interface A and interface B.
    pub interfaces: [String; 2],
    /// The namespace of a lab that it runs in, `LAB/NODE`; absent outside of labs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lab: Option<String>,
    /// The types of the links, A first.
    pub links: Vec<String>,
    /// Features that were unavailable.
    pub notes: Vec<String>,
    /// Its threads have real-time priority.
    pub real_time: bool,
    /// Entity tag of its configuration.
    pub etag: String,
    /// Seed of its configuration, as requested or drawn.
    pub seed: Seed,
    /// Its configuration's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Flows whose laws are not applied at the moment.
    pub stopped_flows: Vec<String>,
    /// This server started it.
    pub own: bool,
    /// Its keepalive timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keepalive_timeout_seconds: Option<u32>,
    /// Where its packet trace is; without one no flow can be traced.
    pub packet_trace: PacketTraceLocation,
}

/// Where an emulator's packet trace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PacketTraceLocation {
    /// It has none.
    None,
    /// In the data directory of this server, from which it can be downloaded.
    Stored,
    /// In a file named when it was started outside this server.
    External,
}

/// Running emulators.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct EmulatorList {
    /// By id.
    pub emulators: Vec<EmulatorEntry>,
    /// Why none can be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

/// The result of a change.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Applied {
    /// Number of the configuration, 0 being the first.
    pub configuration: u64,
    /// Its seed; a new one was drawn if the configuration had none.
    pub seed: Seed,
    /// The new entity tag.
    pub etag: String,
    /// Notes about the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The messages of an emulator.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct EmulatorLog {
    /// Alarms, including those that have passed.
    pub alarms: Vec<Alarm>,
    /// Lines of output, latest last; none if another program started it.
    pub lines: Vec<String>,
    /// Changes made through this server, latest last.
    pub changes: Vec<EmulatorChange>,
}

/// A change made through this server.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct EmulatorChange {
    /// RFC 3339, UTC.
    pub at: String,
    /// Address of the client that made it.
    pub by: String,
    /// What it was.
    pub change: String,
}

/// The result of a verb on alarms.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct AlarmCount {
    /// Number of alarms that it changed.
    pub alarms: u64,
}

/// The figures of a running emulator over time.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct EmulatorHistory {
    /// Its counters at several times, at least 0.5 s apart, oldest first; the newest 8 MiB are stored. They are read
    /// only while a client reads its samples.
    #[schemars(with = "Vec<EmulatorCounts>")]
    pub reports: Vec<Written>,
}

/// The counters of an emulator at one time.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct EmulatorCounts {
    /// Time since the start of the emulator, s.
    pub seconds: f64,
    /// Each flow and direction.
    pub flows: Vec<EmulatorFlowCounts>,
}

/// The counters of a flow and direction, since the start of the emulator.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct EmulatorFlowCounts {
    /// Name.
    pub name: String,
    /// `forward` is A to B.
    pub direction: Direction,
    /// Packets received.
    pub received_packets: u64,
    /// Lost by law.
    pub lost_packets: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Mean delay, s; absent if nothing was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_mean_seconds: Option<f64>,
}

/// Whether a flow's verdicts go to the packet trace.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TraceRequest {
    /// Write them.
    pub on: bool,
}
