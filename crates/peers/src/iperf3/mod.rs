//! iperf3 (ESnet): a control connection with states and JSON, streams with a cookie, UDP streams with a hello, and results of
//! both ends.

mod auth;
mod client;
mod codec;
mod control;
mod rate_limit;
mod results;
mod server;
mod settings;

pub use auth::{Login, LoginError, Logins, Padding};
pub use client::{Extras, run_with};
pub use rate_limit::TotalRateLimit;
pub use settings::fuzz_iperf3;

use crate::{Client, Protocol};

/// Declaration of the protocol.
pub(crate) const PROTOCOL: Protocol = Protocol {
    name: weir_model::plan::PeerName::Iperf3.label(),
    port: weir_model::plan::PeerName::Iperf3.default_port(),
    transports: &["tcp", "udp", "mptcp"],
    command: None,
    client: Some(Client {
        check: |config| settings::prepared(config).map(drop),
        run: client::run,
        probe: Some(client::probe),
    }),
    serve: Some(server::open),
    guests: Some(server::guests),
    is_served_by_name_only: false,
};
