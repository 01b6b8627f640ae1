//! The generator and the answering side, as this program calls them.
//!
//! Until the crate `traffic` is there these are its types with an engine that refuses; then this file becomes
//! `pub(crate) use weir_traffic::{ClientConfig, Event, …, run, serve};`.
#![allow(dead_code)] // The stand-in makes none of its own events.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_model::plan::{DEFAULT_PORT, Family, FlowSpec, Plan};
use weir_model::record::{Interval, Record};
use weir_model::report::EndReport;

/// A shared secret of 256 bits.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key([u8; 32]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Key(hidden)")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl Key {
    pub(crate) fn generate() -> Result<Key, TrafficError> {
        let mut bytes = [0; 32];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut f| std::io::Read::read_exact(&mut f, &mut bytes))
            .map_err(|_| TrafficError::Stopped("no system generator", 4))?;
        Ok(Key(bytes))
    }

    pub(crate) fn from_passphrase(_: &str) -> Result<Key, TrafficError> {
        Err(TrafficError::Stopped("passphrases are not built in", 4))
    }
}

impl FromStr for Key {
    type Err = TrafficError;
    fn from_str(text: &str) -> Result<Key, TrafficError> {
        let bad = TrafficError::Stopped("a key is 64 hexadecimal digits", 2);
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad);
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).unwrap_or_default();
            *byte = u8::from_str_radix(digits, 16).unwrap_or_default();
        }
        Ok(Key(bytes))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ClientConfig {
    pub(crate) plan: Plan,
    pub(crate) host: String,
    pub(crate) key: Option<Key>,
    pub(crate) connect_timeout: Duration,
    pub(crate) control_socket: Option<PathBuf>,
    pub(crate) packet_log: Option<PathBuf>,
    pub(crate) cpus: Option<Vec<usize>>,
    pub(crate) nominal_auto: bool,
    pub(crate) clock: (),
}

impl ClientConfig {
    pub(crate) fn new(plan: Plan, host: impl Into<String>) -> Self {
        ClientConfig {
            plan,
            host: host.into(),
            key: None,
            connect_timeout: Duration::from_secs(3),
            control_socket: None,
            packet_log: None,
            cpus: None,
            nominal_auto: false,
            clock: (),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    Connected { local: SocketAddr, remote: SocketAddr },
    Started { specs: Vec<FlowSpec>, family: Family },
    Interval(Box<Interval>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    Interrupted,
    Terminated,
}

impl StopReason {
    pub(crate) fn exit_code(self) -> i32 {
        match self {
            StopReason::Interrupted => 130,
            StopReason::Terminated => 143,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<Mutex<Option<StopReason>>>);

impl Stop {
    pub(crate) fn new() -> Stop {
        Stop::default()
    }
    pub(crate) fn request(&self, reason: StopReason) {
        if let Ok(mut first) = self.0.lock() {
            first.get_or_insert(reason);
        }
    }
    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.0.lock().ok().and_then(|r| *r)
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TrafficError {
    #[error("{0}")]
    Stopped(&'static str, i32),
}

impl TrafficError {
    pub(crate) fn exit_code(&self) -> i32 {
        let TrafficError::Stopped(_, code) = self;
        *code
    }
}

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: TrafficError,
    pub(crate) partial: Option<Box<Record>>,
}

pub(crate) fn run(_: ClientConfig, _: Stop, _: &mut dyn FnMut(Event)) -> Result<Record, Failure> {
    Err(Failure { error: TrafficError::Stopped("the engine is not built in", 70), partial: None })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) sessions: u64,
    pub(crate) session_seconds: u64,
    pub(crate) flows: u64,
    pub(crate) hello_seconds: u64,
    pub(crate) half_open: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            sessions: 64,
            session_seconds: 3600,
            flows: 10_000,
            hello_seconds: 10,
            half_open: 20_000,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ServerConfig {
    pub(crate) bind: Vec<IpAddr>,
    pub(crate) port: u16,
    pub(crate) key: Option<Key>,
    pub(crate) limits: Limits,
    pub(crate) one_off: bool,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) packet_log: Option<PathBuf>,
    pub(crate) cpus: Option<Vec<usize>>,
    pub(crate) clock: (),
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            bind: vec![],
            port: DEFAULT_PORT,
            key: None,
            limits: Limits::default(),
            one_off: false,
            idle_timeout: None,
            packet_log: None,
            cpus: None,
            clock: (),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ServerEvent {
    Listening { addresses: Vec<SocketAddr>, open: bool },
    SessionOpened { session: u64, peer: SocketAddr, flows: usize },
    SessionClosed { session: u64, peer: SocketAddr, reason: String, report: Option<Box<EndReport>> },
    Refused { peer: SocketAddr, reason: String },
}

/// Listens and serves nobody, so that what is around it can be tried.
pub(crate) fn serve(
    config: ServerConfig,
    stop: Stop,
    observe: &mut dyn FnMut(ServerEvent),
) -> Result<(), TrafficError> {
    let addresses: Vec<SocketAddr> =
        config.bind.iter().map(|address| (*address, config.port).into()).collect();
    let listeners: Result<Vec<_>, _> = addresses.iter().map(std::net::TcpListener::bind).collect();
    let _listeners = listeners.map_err(|_| TrafficError::Stopped("the port is in use", 4))?;
    observe(ServerEvent::Listening { addresses, open: config.key.is_none() });
    while stop.reason().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
