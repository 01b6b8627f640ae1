//! netperf (Hewlett-Packard): a control connection with messages of one size, a data socket of each test on a port of its own,
//! and results of the server.

mod client;
mod codec;
mod control;
mod cpu;
mod data;
mod ends;
mod far;
mod served;
mod server;
mod settings;

pub use client::run_with;
pub use codec::Cpu;
pub use ends::{Accepted, Counted, ServerOptions, Stated, Wanted};
pub use settings::fuzz_netperf;

use crate::{Client, Protocol};

/// Declaration of the protocol.
pub(crate) const PROTOCOL: Protocol = Protocol {
    name: weir_model::plan::PeerName::Netperf.label(),
    port: weir_model::plan::PeerName::Netperf.default_port(),
    transports: &["tcp", "udp"],
    command: None,
    client: Some(Client {
        check: |config| settings::prepared(config).map(drop),
        run: client::run,
        probe: Some(client::probe),
    }),
    serve: Some(server::open),
    guests: None,
    is_served_by_name_only: false,
};
