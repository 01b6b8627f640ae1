//! D-ITG (University of Naples): a signalling connection, on which the sender announces each of its flows and their ends. Data
//! goes to a port that the sender names.

mod client;
mod codec;
mod control;
mod icmp;
mod log_server;
mod manager;
mod script;
mod served;
mod server;
mod settings;

pub use codec::fuzz_ditg;
pub(crate) use log_server::PROTOCOL as LOG_SERVER;
pub use manager::Managers;
pub(crate) use manager::PROTOCOL as MANAGER;
pub use script::{ScriptError, ditg_script, fuzz_ditg_script};

use crate::{Client, Protocol};

/// Declaration of the protocol.
pub(crate) const PROTOCOL: Protocol = Protocol {
    name: weir_model::plan::PeerName::Ditg.label(),
    port: weir_model::plan::PeerName::Ditg.default_port(),
    transports: &["tcp", "udp", "icmp"],
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
