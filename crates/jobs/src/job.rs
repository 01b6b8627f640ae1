//! The jobs that a process of Weir can run.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::experiment::{HostSpec, Variables};
use weir_model::impairment::{Impairment, Prefixes};
use weir_model::plan::{DEFAULT_PORT, Plan, Scope};
use weir_model::threads::Threads;
use weir_model::units::{ByteSize, Seed, Span};

/// The job of one process. Unknown fields are refused.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "job", rename_all = "kebab-case")]
pub enum Job {
    /// Serve tests (`weir serve`): [`Event::Listening`](crate::Event::Listening), then sessions.
    Serve(Box<ServeJob>),
    /// Run a test (`weir test`): the events of `--json-stream`, at last the record.
    Test(Box<TestJob>),
    /// Emulate a path (`weir impair`): [`Event::Ready`](crate::Event::Ready), at last its report.
    Emulator(Box<EmulatorJob>),
    /// Run a scenario (`weir run`, `weir sweep`): progress, at last the experiment.
    Scenario(Box<ScenarioJob>),
    /// Resume an experiment (`weir run --resume`).
    Resume(ResumeJob),
    /// Create a lab (`weir lab up`).
    LabUp(Box<LabUpJob>),
    /// Remove a lab (`weir lab down`).
    LabDown(LabDownJob),
    /// Measure this host's noise floor (`weir calibrate`).
    Calibrate(CalibrateJob),
    /// Run the demo (`weir demo`).
    Demo(DemoJob),
    /// Check this host (`weir doctor`).
    Doctor {},
    /// Run a test by the protocol of another tool, such as `weir ttcp`: what it prints, at last the record.
    Peer(Box<PeerJob>),
}

impl Job {
    /// The name of its kind, as in the field `job`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Job::Serve(_) => "serve",
            Job::Test(_) => "test",
            Job::Emulator(_) => "emulator",
            Job::Scenario(_) => "scenario",
            Job::Resume(_) => "resume",
            Job::LabUp(_) => "lab-up",
            Job::LabDown(_) => "lab-down",
            Job::Calibrate(_) => "calibrate",
            Job::Demo(_) => "demo",
            Job::Doctor {} => "doctor",
            Job::Peer(_) => "peer",
        }
    }

    /// Whether it continues when standard input is closed.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        matches!(self, Job::Emulator(job) if job.detached)
    }
}

/// The source of a shared key. All absent: the environment variable `WEIR_KEY`, else no key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeySource {
    /// The key, as `weir keygen` prints it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A file that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// A file whose first line is a passphrase, from which the key is derived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passphrase_file: Option<PathBuf>,
}

impl KeySource {
    /// A key in a file.
    #[must_use]
    pub fn file(path: Option<PathBuf>) -> KeySource {
        KeySource { key_file: path, ..KeySource::default() }
    }
}

/// A server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServeJob {
    /// TCP and UDP port.
    pub port: u16,
    /// Addresses to listen on; none: all of both families.
    pub bind: Vec<IpAddr>,
    /// Listen on this Unix socket only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unix: Option<PathBuf>,
    /// First and last of the separate data ports; absent: chosen by the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_ports: Option<(u16, u16)>,
    /// Serve one client, then end.
    pub one_off: bool,
    /// The clients' key.
    pub key: KeySource,
    /// Its threads.
    pub threads: Threads,
    /// Received packets are logged here (`weir.packets/1`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_log: Option<PathBuf>,
    /// What clients ask to be stored is stored in this directory; absent: nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_dir: Option<PathBuf>,
    /// Files stay when their session ends.
    pub keep_files: bool,
    /// Maximum bytes of the files of a session.
    pub max_session_file: ByteSize,
    /// Maximum bytes of all files that have not been removed.
    pub max_files: ByteSize,
    /// Maximum number of concurrent sessions.
    pub max_sessions: u32,
    /// Maximum number of concurrent flows of all sessions.
    pub max_flows: u32,
    /// Maximum duration of a session, whole seconds.
    pub session_time: Span,
    /// Time in which a client must send its hello, whole seconds.
    pub hello_time: Span,
    /// Maximum number of connections without a session yet.
    pub max_half_open: u32,
    /// A session without a message of its client for this time is closed, whole seconds from 5.
    pub silence_time: Span,
    /// Widest scope of multicast groups that clients may let the server join; null: none.
    pub multicast_scope: Option<Scope>,
    /// Maximum number of multicast and broadcast flows that a session receives.
    pub max_session_joins: u32,
    /// The same of all sessions.
    pub max_joins: u32,
    /// Maximum number of flows of all sessions that are sent as Ethernet frames.
    pub max_frame_flows: u32,
    /// End after this time without a client; absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Span>,
    /// The speed test for browsers; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_test: Option<SpeedTestJob>,
    /// Protocols of other tools that are served as well, with their ports.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub peers: BTreeMap<String, u16>,
    /// The server of iperf2 connects back to its clients over TCP, where they ask for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub iperf2_call_back: bool,
    /// A file with the key of STAMP's authenticated mode; absent: its open mode is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hmac_key_file: Option<PathBuf>,
    /// Managers of D-ITG (`ditg-manager` of `peers`); absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ditg_managers: Option<DitgManagers>,
}

/// The managers of D-ITG that may let this host send, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DitgManagers {
    /// Their addresses.
    pub from: Prefixes,
    /// The receivers' addresses.
    pub to: Prefixes,
}

/// A speed test for browsers, next to a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpeedTestJob {
    /// Where it listens.
    pub address: SocketAddr,
    /// Host names that it answers to, in addition to IP addresses and localhost.
    #[serde(default)]
    pub host_names: Vec<String>,
    /// Days after which results are removed; absent: 90.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_days: Option<u64>,
    /// Browsers' addresses are not stored.
    #[serde(default)]
    pub anonymous: bool,
}

impl Default for ServeJob {
    fn default() -> Self {
        ServeJob {
            port: DEFAULT_PORT,
            bind: vec![],
            unix: None,
            data_ports: None,
            one_off: false,
            key: KeySource::default(),
            threads: Threads::default(),
            packet_log: None,
            file_dir: None,
            keep_files: false,
            max_session_file: ByteSize(256 << 20),
            max_files: ByteSize(1 << 30),
            max_sessions: 64,
            max_flows: 10_000,
            session_time: Span::from_seconds(3600),
            hello_time: Span::from_seconds(10),
            max_half_open: 20_000,
            silence_time: Span::from_seconds(30),
            multicast_scope: Some(Scope::Admin),
            max_session_joins: 32,
            max_joins: 256,
            max_frame_flows: 256,
            idle_timeout: None,
            speed_test: None,
            peers: BTreeMap::new(),
            hmac_key_file: None,
            ditg_managers: None,
            iperf2_call_back: false,
        }
    }
}

/// An emulator on a test's path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmulatorOnPath {
    /// Its control socket.
    pub control_socket: PathBuf,
    /// The client's side of it, `a` or `b`; absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_side: Option<String>,
}

/// A test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TestJob {
    /// The server, a name or an address with or without its port; absent: the plan's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The server's port; absent: that of `host`, else the plan's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// What to send.
    pub plan: Plan,
    /// The nominal rate is the interface's speed, if the plan names none.
    pub nominal_of_interface: bool,
    /// The server's key.
    pub key: KeySource,
    /// A file with the key of STAMP's authenticated mode; absent: its open mode is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hmac_key_file: Option<PathBuf>,
    /// Labels of the record.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The record is stored.
    pub store: bool,
    /// Where connections of the running test can be started and stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_socket: Option<PathBuf>,
    /// The emulator on its path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulator: Option<EmulatorOnPath>,
    /// CLOCK_MONOTONIC, ns, at which sending starts; absent: when both ends are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_at_ns: Option<u64>,
    /// Sending waits for the command `start` after both ends are ready; replaces `start_at_ns`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub wait_for_start: bool,
    /// Its threads.
    pub threads: Threads,
    /// Packets received at this end are logged here (`weir.packets/1`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_log: Option<PathBuf>,
    /// The file that the server stored is fetched into this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetch: Option<PathBuf>,
    /// Limit for a connection to be established.
    pub connect_timeout: Span,
}

impl Default for TestJob {
    fn default() -> Self {
        TestJob {
            host: None,
            port: None,
            plan: Plan::default(),
            nominal_of_interface: false,
            key: KeySource::default(),
            hmac_key_file: None,
            labels: BTreeMap::new(),
            store: true,
            control_socket: None,
            emulator: None,
            start_at_ns: None,
            wait_for_start: false,
            threads: Threads::default(),
            packet_log: None,
            fetch: None,
            connect_timeout: Span::from_seconds(3),
        }
    }
}

/// A test by the protocol of another tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PeerJob {
    /// The protocol.
    pub protocol: String,
    /// Options of its command, by name; the value of one that takes none does not matter.
    pub options: BTreeMap<String, String>,
    /// Labels of the record.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The record is stored.
    pub store: bool,
}

impl Default for PeerJob {
    fn default() -> Self {
        PeerJob {
            protocol: String::new(),
            options: BTreeMap::new(),
            labels: BTreeMap::new(),
            store: true,
        }
    }
}

/// An emulator between two interfaces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmulatorJob {
    /// Interface A and interface B. `tap:NAME` is a TAP device, of which the emulator is the wire.
    pub interfaces: [String; 2],
    /// Flows, filters and laws.
    #[serde(default)]
    pub impairment: Impairment,
    /// How frames are received and sent: `auto`, `packet`, `xdp` or `xdp-generic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Accept interfaces that carry addresses or are members of a bridge.
    #[serde(default)]
    pub force: bool,
    /// Where to listen for commands. Absent, with `controlled`: in the runtime directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_socket: Option<PathBuf>,
    /// There is a control socket.
    #[serde(default = "yes")]
    pub controlled: bool,
    /// Forward everything untouched after this time without a command; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive_timeout: Option<Span>,
    /// End after this time; absent: when it is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// Write the verdict on each packet here (`weir.packets/1`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_trace: Option<PathBuf>,
    /// Maximum size of the packet trace in bytes; absent: limited only by the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_trace_limit: Option<u64>,
    /// Capture all packets as they arrive and as they leave here (pcapng).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<PathBuf>,
    /// Log the verdict on each packet here (CSV).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<PathBuf>,
    /// Frames in each receive ring; absent: the link's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_frames: Option<u32>,
    /// Threads of each direction, 1 to 16; absent: 1. Laws that judge each packet on its own are shared among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16))]
    pub threads: Option<u8>,
    /// The threads may run in real time (SCHED_FIFO).
    #[serde(default = "yes")]
    pub real_time: bool,
    /// Give up every capability that is needed for setting up alone.
    #[serde(default)]
    pub few_capabilities: bool,
    /// The interfaces end with their namespace: nothing is noted for a start after a SIGKILL.
    #[serde(default)]
    pub disposable: bool,
    /// Run on when standard input is closed.
    #[serde(default)]
    pub detached: bool,
}

fn yes() -> bool {
    true
}

impl EmulatorJob {
    /// An emulator between two interfaces with the defaults.
    #[must_use]
    pub fn new(interfaces: [String; 2], impairment: Impairment) -> EmulatorJob {
        EmulatorJob {
            interfaces,
            impairment,
            link: None,
            force: false,
            control_socket: None,
            controlled: true,
            keepalive_timeout: None,
            duration: None,
            packet_trace: None,
            packet_trace_limit: None,
            capture: None,
            log: None,
            ring_frames: None,
            threads: None,
            real_time: true,
            few_capabilities: false,
            disposable: false,
            detached: false,
        }
    }
}

/// A scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScenarioJob {
    /// The id of its experiment; absent: a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The scenario's text, `weir.scenario/1` in TOML or JSON.
    pub text: String,
    /// The base of its relative paths; empty: the working directory.
    pub directory: PathBuf,
    /// Its `quick` values.
    pub quick: bool,
    /// On a virtual clock.
    pub simulate: bool,
    /// Values of its variables.
    pub set: Variables,
    /// Hosts in place of its lab.
    pub hosts: BTreeMap<String, HostSpec>,
    /// Seed of the order of points, and of plans without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// Its runs and a checkpoint are stored.
    pub store: bool,
}

impl Default for ScenarioJob {
    fn default() -> Self {
        ScenarioJob {
            id: None,
            text: String::new(),
            directory: PathBuf::new(),
            quick: false,
            simulate: false,
            set: Variables::default(),
            hosts: BTreeMap::new(),
            seed: None,
            store: true,
        }
    }
}

/// An experiment that is resumed from its checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeJob {
    /// Its id.
    pub id: String,
}

/// A lab that is created.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabUpJob {
    /// Its name.
    pub name: String,
    /// Number of hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
    /// MTU of its links, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u32>,
    /// Without segmentation and receive offloads.
    #[serde(default)]
    pub no_offload: bool,
    /// Kernel settings (`net.…`) of each host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// With a node in the middle.
    #[serde(default)]
    pub middle: bool,
    /// The impairment of an emulator in the middle; absent: there is no emulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impairment: Option<Box<Impairment>>,
}

/// A lab that is removed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabDownJob {
    /// Its name.
    pub name: String,
}

/// A calibration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CalibrateJob {
    /// Over loopback only, without the two hosts of a lab.
    pub no_lab: bool,
}

/// The demo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DemoJob {
    /// Seconds for which each test through the emulator sends, 1 to 60. With 1, the demo takes about a minute.
    #[schemars(range(min = 1, max = 60))]
    pub seconds: u32,
    /// The rows with the emulator on a virtual clock: no network, no rights, nothing stored.
    pub simulate: bool,
}

impl Default for DemoJob {
    fn default() -> Self {
        DemoJob { seconds: 1, simulate: false }
    }
}
