//! MGEN (Naval Research Laboratory), version 5: a sender's messages, and a receiver that logs them. There is no control
//! connection and no end: each end knows only what it sent, or what arrived.

mod client;
mod codec;
mod opening;
mod server;

pub use codec::fuzz_mgen;

use weir_model::plan::PeerName;

use crate::{Client, Protocol};

/// Declaration of the protocol.
pub(crate) const PROTOCOL: Protocol = Protocol {
    name: PeerName::Mgen.label(),
    port: PeerName::Mgen.default_port(),
    transports: &["tcp", "udp"],
    command: None,
    client: Some(Client {
        check: |config| client::prepared(config).map(drop),
        run: client::run,
        probe: None,
    }),
    serve: Some(server::open),
    guests: None,
    // MGEN has no port of its own, and nuttcp has this one.
    is_served_by_name_only: true,
};
