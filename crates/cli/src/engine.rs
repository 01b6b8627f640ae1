//! The generator and the answering side, as this program calls them.
//!
//! Until the crate `traffic` is there these are its types with an engine that refuses; then they become
//! `pub(crate) use weir_traffic::…`.
#![allow(dead_code)] // The stand-in makes none of its own events.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use weir_model::plan::{Family, FlowSpec, Plan};
use weir_model::record::{Interval, Record};

/// A shared secret of 256 bits.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Key {
    Raw([u8; 32]),
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Key(hidden)")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Key::Raw(bytes) = self;
        bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl Key {
    pub(crate) fn generate() -> Key {
        let mut bytes = [0; 32];
        let read = std::fs::File::open("/dev/urandom")
            .and_then(|mut f| std::io::Read::read_exact(&mut f, &mut bytes));
        assert!(read.is_ok(), "no system generator: a key can't be made");
        Key::Raw(bytes)
    }

    pub(crate) fn from_text(text: &str) -> Result<Key, TrafficError> {
        let bad = || TrafficError("a key is 64 hexadecimal digits or 44 of base64".into());
        let text = text.trim();
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(bad());
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| bad())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| bad())?;
        }
        Ok(Key::Raw(bytes))
    }

    pub(crate) fn from_passphrase(_: &str) -> Result<Key, TrafficError> {
        Err(TrafficError("passphrases: not built in".into()))
    }
}

#[derive(Debug)]
pub(crate) struct ClientConfig {
    pub(crate) plan: Plan,
    pub(crate) host: String,
    pub(crate) key: Option<Key>,
    pub(crate) connect_timeout: Duration,
    pub(crate) control_socket: Option<PathBuf>,
    pub(crate) packet_log: Option<PathBuf>,
    pub(crate) cpus: Option<Vec<usize>>,
    pub(crate) nominal_auto: bool,
}

#[derive(Debug)]
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

#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicU8>);

impl Stop {
    pub(crate) fn new() -> Stop {
        Stop::default()
    }
    pub(crate) fn request(&self, _: StopReason) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct TrafficError(pub(crate) String);

impl TrafficError {
    pub(crate) fn exit_code(&self) -> i32 {
        70
    }
}

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: TrafficError,
    pub(crate) partial: Option<Box<Record>>,
}

pub(crate) fn run(_: ClientConfig, _: Stop, _: &mut dyn FnMut(Event)) -> Result<Record, Failure> {
    Err(Failure { error: TrafficError("the engine is not built in".into()), partial: None })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) sessions: u32,
    pub(crate) session_seconds: u64,
    pub(crate) flows: u32,
    pub(crate) hello_seconds: u64,
    pub(crate) half_open: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            sessions: 64,
            session_seconds: 3600,
            flows: 10_000,
            hello_seconds: 10,
            half_open: 1024,
        }
    }
}

#[derive(Debug)]
pub(crate) struct ServerConfig {
    pub(crate) bind: Vec<IpAddr>,
    pub(crate) port: u16,
    pub(crate) key: Option<Key>,
    pub(crate) limits: Limits,
    pub(crate) one_off: bool,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) packet_log: Option<PathBuf>,
    pub(crate) cpus: Option<Vec<usize>>,
}

#[derive(Debug)]
pub(crate) enum ServerEvent {
    Listening { addresses: Vec<SocketAddr>, open: bool },
    SessionOpened { session: u64, peer: SocketAddr, flows: u32 },
    SessionClosed { session: u64, peer: SocketAddr, reason: String, record: Option<Box<Record>> },
    Refused { peer: SocketAddr, reason: String },
}

pub(crate) fn serve(
    _: ServerConfig,
    _: Stop,
    _: &mut dyn FnMut(ServerEvent),
) -> Result<(), TrafficError> {
    Err(TrafficError("the engine is not built in".into()))
}
