//! The speed test of a visitor's browser: a listener of its own with a page, and the server's side of `weir.speed/1`
//! (`web/src/speed/PROTOCOL.md`) over WebSockets.
//!
//! Anybody may use it who reaches it: no login, so everything is bounded, by address and in total ([`SpeedLimits`]). It
//! answers only what was asked for on a connection whose handshake proved the address, and holds no rights: it reads the
//! page, measures, and keeps a run.
//!
//! The types you meet: [`SpeedConfig`], [`SpeedServer`]: [`SpeedServer::bind`], [`SpeedServer::run`].

mod content;
mod control;
mod figures;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod host;
mod limits;
mod message;
mod record;
mod serve;
mod session;
mod stream;
mod upgrade;

use std::net::SocketAddr;

use weir_runs::DataDirectory;

pub use limits::SpeedLimits;
pub(crate) use limits::network_of;
pub use serve::SpeedServer;

/// Configuration of a speed-test server.
#[derive(Debug, Clone)]
pub struct SpeedConfig {
    /// Where it listens.
    pub address: SocketAddr,
    /// Version of Weir, shown on the page and in records.
    pub version: String,
    /// Where runs are stored.
    pub data: DataDirectory,
    /// Accepted names in `Host`; addresses and localhost are always accepted.
    pub host_names: Vec<String>,
    /// Do not store browsers' addresses.
    pub anonymous: bool,
    /// Limits.
    pub limits: SpeedLimits,
}
