//! The server and its host.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_experiment::calibrate::Calibration;
use weir_model::metric::MetricEntry;
use weir_model::report::EndReport;

/// The server and its permissions.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct System {
    /// Version of Weir.
    pub version: String,
    /// Changes at each start of the server, so that a page notices a restart.
    pub instance: String,
    /// When the server started, RFC 3339, UTC.
    pub started_at: String,
    /// The host's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Every request needs a token.
    pub token_needed: bool,
    /// What the server may do.
    pub may: Permissions,
    /// The embedded page.
    pub page: PageState,
    /// Limits.
    pub limits: ServerLimits,
    /// Names of keys for tests, as in `key_name`.
    pub key_names: Vec<String>,
    /// Calibration of this host; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration_id: Option<String>,
}

/// A page's token.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionRequest {
    /// The token; it goes into a cookie that scripts can't read.
    pub token: String,
}

/// What this server may do on its host.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Permissions {
    /// Start emulators.
    pub emulate: bool,
    /// Make labs.
    pub make_labs: bool,
    /// Let scenarios run named scripts (`--allow-commands`).
    pub run_scripts: bool,
    /// Why something is unavailable.
    pub reasons: Vec<String>,
    /// Effective capabilities of the web server itself; normally none.
    pub capabilities: Vec<String>,
}

/// Whether there is a page.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct PageState {
    /// The page is embedded in this program.
    pub built: bool,
    /// What is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The server's limits.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct ServerLimits {
    /// Connections at once.
    pub connections: usize,
    /// Concurrent connections per address.
    pub connections_per_address: usize,
    /// Concurrent readers of the live stream.
    pub stream_readers: usize,
    /// Length of a body, bytes.
    pub body_bytes: usize,
    /// Time for the head of a request.
    pub head_seconds: u64,
    /// Time for its body.
    pub body_seconds: u64,
    /// Write timeout: a peer must take some data within this time.
    pub write_seconds: u64,
    /// Mean requests per second and address.
    pub requests_per_second: u32,
    /// Tests at once.
    pub tests: usize,
    /// Experiments at once.
    pub experiments: usize,
    /// Emulators at once.
    pub emulators: usize,
    /// Size of an emulator's packet trace with its configurations, bytes; the packet traces of as many ended
    /// emulators are stored as there may be emulators.
    pub packet_trace_bytes: u64,
    /// Labs at once.
    pub labs: usize,
    /// Finished tests and experiments in the lists.
    pub ended_kept: usize,
}

/// An interface of this host.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct InterfaceEntry {
    /// Name.
    pub name: String,
    /// Kind of a virtual interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Switched on.
    pub up: bool,
    /// Has a carrier.
    pub carrier: bool,
    /// Loopback.
    pub loopback: bool,
    /// Member of a bridge or bond.
    pub member: bool,
    /// Largest IP packet.
    pub mtu_bytes: u32,
    /// Hardware address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Addresses with prefix length.
    pub addresses: Vec<String>,
    /// Queueing discipline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qdisc: Option<String>,
    /// Speed of the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_bits_per_second: Option<u64>,
    /// An emulator on it would be refused without `force`, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_use: Option<String>,
}

/// The interfaces of this host.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct InterfaceList {
    /// By their numbers.
    pub interfaces: Vec<InterfaceEntry>,
}

/// This host's noise floor.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct CalibrationState {
    /// The latest stored one; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<Calibration>,
    /// One is running.
    pub running: bool,
    /// Current action of the running one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Why the latest one failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A published schema.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SchemaEntry {
    /// Its name in paths: `plan`, `impair`, `run`, `scenario`, `experiment`.
    pub name: String,
    /// Its name in documents.
    pub schema: String,
}

/// The published schemas.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SchemaList {
    /// All of them.
    pub schemas: Vec<SchemaEntry>,
}

/// The metrics of records, comparisons and experiments.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct MetricList {
    /// All of them, in the order of tables.
    pub metrics: Vec<MetricEntry>,
}

/// Any JSON.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct AnyJson(pub Value);

/// A requested change.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AuditEntry {
    /// RFC 3339, UTC.
    pub at: String,
    /// Address of the client.
    pub address: String,
    /// The name of the token or certificate; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Method.
    pub method: String,
    /// Path.
    pub path: String,
    /// The answer's status.
    pub status: u16,
}

/// The latest changes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct AuditList {
    /// Newest first, 1000 at most.
    pub entries: Vec<AuditEntry>,
    /// The log file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// A client of the test server.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Client {
    /// Number of the session.
    pub session: u64,
    /// Address and port.
    pub peer: String,
    /// Flows.
    pub flows: usize,
    /// Start, RFC 3339, UTC.
    pub opened_at: String,
    /// End; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<String>,
    /// Why it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the server measured; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<EndReport>,
}

/// The test server of this web server.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(crate) struct ClientList {
    /// Addresses that it listens on; empty if it does not.
    pub addresses: Vec<String>,
    /// Any client may use it: no key is set.
    pub open: bool,
    /// Sessions, newest first: running ones and the latest 100 that finished.
    pub clients: Vec<Client>,
    /// Refused clients since the start.
    pub refused: u64,
    /// Why the latest one was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_refusal: Option<String>,
}

/// The result of checking a document.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Validation {
    /// It is valid.
    pub valid: bool,
    /// What is wrong with it.
    pub errors: Vec<crate::problem::FieldError>,
    /// The same as TOML, as parsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toml: Option<String>,
    /// The same as JSON, if the text of a file was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<serde_json::Value>,
    /// Laws of an impairment that its flows have from a preset or an aggregate.
    pub inherited: Vec<super::InheritedLaws>,
    /// What it will do: flows, limits.
    pub notes: Vec<String>,
}

/// A lab.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct LabEntry {
    /// Name.
    pub name: String,
    /// Its hosts.
    pub hosts: Vec<LabHost>,
    /// Namespaces, including those without addresses (the middle `m`).
    pub nodes: Vec<String>,
}

/// A host of a lab.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct LabHost {
    /// Name.
    pub name: String,
    /// Address.
    pub ipv4: String,
    /// Address.
    pub ipv6: String,
    /// The test server that this server started there; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<LabServer>,
}

/// A test server in a host of a lab.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct LabServer {
    /// TCP and UDP port.
    pub port: u16,
    /// Any client that reaches it may use it: no key is set.
    pub open: bool,
    /// When it was ready, RFC 3339, UTC.
    pub started_at: String,
}

/// The labs of this user.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct LabList {
    /// By name.
    pub labs: Vec<LabEntry>,
}

/// A request to create a lab.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LabRequest {
    /// Name: letters, digits, hyphens and underscores, the first a letter or digit, at most 32.
    #[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$"))]
    pub name: String,
    /// Hosts, 2 to 16; 2 with `middle` or `impair`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 16))]
    pub hosts: Option<u32>,
    /// MTU of its links, 1280 to 65535.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1280, max = 65_535))]
    pub mtu_bytes: Option<u32>,
    /// Offloads off.
    #[serde(default)]
    pub no_offload: bool,
    /// Kernel settings of each host (`net.ipv4.tcp_sack`, as in sysctl(8)) with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// A namespace between a and b, for an emulator; a, c, e, … are on one side of it, the other hosts on the other.
    #[serde(default)]
    pub middle: bool,
    /// Laws of an emulator in the middle, as arguments of `weir impair --both`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4000))]
    pub impair: Option<String>,
}
