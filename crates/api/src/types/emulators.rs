//! Running emulators.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_emulator::Alarm;
use weir_model::impairment::Impairment;
use weir_model::units::Seed;

/// An emulator to be started.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmulatorRequest {
    /// Interface A and interface B.
    pub interfaces: [String; 2],
    /// Its first configuration; absent: everything passes. One that names no seed gets a new one, which the answer tells.
    #[serde(default)]
    pub configuration: Impairment,
    /// How frames are taken.
    #[serde(default)]
    pub link: LinkChoice,
    /// Take interfaces that carry addresses or are members of a bridge. Those of the default route and of the session are
    /// never taken for a remote user.
    #[serde(default)]
    pub force: bool,
    /// Keepalive timeout, 1 to 86 400 s: after this time without a command or a client that reads its samples, the emulator forwards everything untouched. Absent: never.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    pub keepalive_timeout_seconds: Option<u32>,
    /// It ends after this time. Absent: when it is told to.
    #[serde(default)]
    #[schemars(range(min = 1, max = 604_800))]
    pub duration_seconds: Option<u32>,
    /// Write each packet's verdict into a packet trace (`weir.packets/1`) in the server's data directory; every flow is logged until it is
    /// switched off. Its size is limited: `packet_trace_bytes` of the server's limits.
    #[serde(default)]
    pub packet_trace: bool,
    /// Start it in this namespace of a lab, `LAB/m`; absent: here.
    #[serde(default)]
    pub lab: Option<String>,
}

/// How frames are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinkChoice {
    /// What serves best.
    #[default]
    Auto,
    /// TPACKET_V2.
    Packet,
    /// AF_XDP in the driver.
    Xdp,
    /// AF_XDP in front of the stack.
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

/// A running emulator: one of this server or one that somebody else started on this host.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EmulatorEntry {
    /// Id in paths.
    pub id: String,
    /// Interface A and interface B.
    pub interfaces: [String; 2],
    /// The namespace of a lab that it runs in, `LAB/NODE`, as `lab` of a request has it; absent outside of labs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lab: Option<String>,
    /// What the links are made of, A first.
    pub links: Vec<String>,
    /// What could not be had, in words.
    pub notes: Vec<String>,
    /// Its threads are scheduled in real time.
    pub real_time: bool,
    /// Entity tag of its configuration.
    pub etag: String,
    /// Seed of its configuration: what was asked for, or what was drawn.
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
    /// Where its packet trace is; without one no flow can be logged.
    pub packet_trace: PacketTraceLocation,
}

/// Where an emulator's packet trace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PacketTraceLocation {
    /// It was started without one.
    None,
    /// In the data directory of this server, from which it can be had.
    Stored,
    /// In a file that whoever started it named.
    External,
}

/// Running emulators.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EmulatorList {
    /// By id.
    pub emulators: Vec<EmulatorEntry>,
    /// Why none can be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

/// What a change came to.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Applied {
    /// Number of the configuration, 0 being the first.
    pub configuration: u64,
    /// Its seed; drawn anew where a configuration that was put into force named none.
    pub seed: Seed,
    /// The new entity tag.
    pub etag: String,
    /// What to know of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What an emulator had to say.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EmulatorLog {
    /// Alarms, those that have passed included.
    pub alarms: Vec<Alarm>,
    /// Lines of its program, latest last; of one that another started there are none.
    pub lines: Vec<String>,
    /// Changes made through this server, latest last.
    pub changes: Vec<EmulatorChange>,
}

/// A change made through this server.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EmulatorChange {
    /// RFC 3339, UTC.
    pub at: String,
    /// Address of who made it.
    pub by: String,
    /// What it was.
    pub change: String,
}

/// Whether a flow's verdicts go to the packet trace.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogRequest {
    /// Write them.
    pub on: bool,
}
