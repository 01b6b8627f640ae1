//! The running generator and answering side: sockets, threads and sessions around what `flow` decides.
//!
//! - [`serve`] runs the answering side: any number of clients at once on one port, TCP and UDP.
//! - [`run`] runs one test against it and gives the [`weir_model::record::Record`] of what both ends measured.
//! - [`Stop`] ends either, gently first; [`Key`] makes the control connection private and mutual.
//!
//! Data moves on plain threads ([`engine`](self)); the control connection is asynchronous, since a server may have
//! ten thousand of them half open. ARCHITECTURE.md follows a packet and a test through this crate.

mod channel;
mod client;
mod engine;
mod error;
mod flows;
mod host;
mod key;
mod server;
mod stop;

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::{Arc, Mutex};

use weir_net::clock::Clock;
use weir_wire::control::{ClockIdentity, Hello, PROTOCOL};
use weir_wire::packets::PacketLogWriter;

pub use client::{ClientConfig, Event, Failure, run};
pub use error::TrafficError;
pub use key::{Key, PASSPHRASE_SALT};
pub use server::{Limits, ServerConfig, ServerEvent, serve};
pub use stop::{Stop, StopReason};

/// Least time between the command to start and time zero, beside a round trip.
const START_NS: u64 = 20_000_000;

/// What this side says first.
fn hello(has_key: bool, clock: &Clock) -> Hello {
    let mut features =
        vec!["tcp".to_string(), "udp".into(), "live".into(), "dedicated-ports".into()];
    if has_key {
        features.push("noise".into());
    }
    Hello {
        protocol_least: 1,
        protocol_greatest: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").into(),
        features,
        clock: clock_identity(clock),
    }
}

/// Which clock this side reads. An injected one is nobody else's, so it has no identity to share.
fn clock_identity(clock: &Clock) -> ClockIdentity {
    match clock {
        Clock::System => ClockIdentity {
            boot_id: weir_net::clock::boot_id().unwrap_or_default(),
            time_namespace: weir_net::clock::time_namespace().unwrap_or_default(),
        },
        Clock::Injected(_) => ClockIdentity::default(),
    }
}

/// Opens a packet log.
fn packet_log(path: &Path) -> Result<engine::PacketLog, TrafficError> {
    let failed =
        |e: std::io::Error| TrafficError::system(format!("packet log {}", path.display()), e);
    let file = File::create(path).map_err(failed)?;
    let metadata = serde_json::json!({
        "schema": "weir.packets/1",
        "version": env!("CARGO_PKG_VERSION"),
        "role": "receiver",
        "time1": "sender's monotonic clock, ns",
        "time2": "receiver's monotonic clock, ns",
    });
    let writer =
        PacketLogWriter::new(BufWriter::with_capacity(1 << 20, file), &metadata.to_string())
            .map_err(|e| failed(std::io::Error::other(e)))?;
    Ok(Arc::new(Mutex::new(writer)))
}
