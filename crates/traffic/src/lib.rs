//! The running generator and server: sockets, threads and sessions around the logic of `flow`.
//!
//! - [`serve`] runs the server: any number of concurrent clients on one port, TCP and UDP.
//! - [`run`] runs one test against it and returns the [`weir_model::record::Record`] of what both ends measured.
//! - [`serve_requests`] and [`RequestClient`] carry requests and answers of another kind over the same control connection.
//! - [`session`] is the interface for session protocols of other tools.
//! - [`Stop`] stops either, gracefully first; [`Key`] encrypts the control connection and authenticates both ends.
//!
//! Data moves on plain threads ([`engine`](self)); the control connection is asynchronous, since a server may have
//! ten thousand of them half open. ARCHITECTURE.md follows a packet and a test through this crate.

mod address;
mod channel;
mod client;
mod engine;
mod error;
mod expected;
mod flows;
mod framing;
mod host;
mod key;
mod local;
mod log;
mod reference;
mod report_timeout;
mod requests;
mod server;
pub mod session;
mod signals;
mod stop;
mod transport;

use weir_net::clock::Clock;
use weir_wire::control::{ClockIdentity, Hello, PROTOCOL};

pub use address::Address;
pub use client::{
    Answer, ClientConfig, Commands, Event, Failure, FlowAddresses, StartSignal, Starter, run,
};
pub use error::{TrafficError, file_exit_code};
pub use key::Key;
pub use report_timeout::ReportTimeout;
pub use requests::{
    InvalidRequest, MAX_REQUEST_CLIENTS, RequestClient, RequestServer, RequestTimeouts, Service,
    serve_requests,
};
pub use server::{FileConfig, Limits, ServerConfig, ServerEvent, Stranger, serve};
pub use stop::{Stop, StopReason};
pub use weir_flow::Scheduling;

/// Minimum time between the command to start and time zero, in addition to a round trip.
const START_NS: u64 = 20_000_000;

/// The first message of this end.
fn hello(has_key: bool, clock: &Clock) -> Hello {
    let mut features = vec![
        "tcp".to_string(),
        "udp".into(),
        "live".into(),
        "dedicated-ports".into(),
        "data-port-range".into(),
    ];
    if has_key {
        features.push("noise".into());
    }
    Hello {
        protocol_min: 1,
        protocol_max: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").into(),
        features,
        clock: clock_identity(clock),
    }
}

/// The refusal of a client that supports no version of this server.
fn other_version(ours: &Hello, client: &Hello) -> String {
    format!(
        "this is Weir {} and speaks control protocol {PROTOCOL}; the client ({}) speaks {} to {}",
        ours.version,
        channel::clean(&client.version),
        client.protocol_min,
        client.protocol_max
    )
}

/// Identity of this end's clock. An injected clock belongs to no other process, so it has no identity to share.
fn clock_identity(clock: &Clock) -> ClockIdentity {
    match clock {
        Clock::System => ClockIdentity {
            boot_id: weir_net::clock::boot_id().unwrap_or_default(),
            time_namespace: weir_net::clock::time_namespace().unwrap_or_default(),
        },
        Clock::Injected(_) => ClockIdentity::default(),
    }
}
