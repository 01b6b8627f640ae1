//! nuttcp: a control connection, on which the client states the parameters of a test and the server its figures as text. Data
//! has connections of its own, from the sender to the receiver unless it is flipped.

mod client;
mod codec;
mod control;
mod datagrams;
mod ends;
mod far;
mod figures;
mod level;
mod served;
mod server;
mod settings;

pub use codec::fuzz_nuttcp;

use std::net::SocketAddr;

use weir_model::plan::PeerName;

use crate::{Client, Protocol};

/// Declaration of the protocol.
pub(crate) const PROTOCOL: Protocol = Protocol {
    name: PeerName::Nuttcp.label(),
    port: PeerName::Nuttcp.default_port(),
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

/// The address with another port, and with the interface of a link-local one.
fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}
