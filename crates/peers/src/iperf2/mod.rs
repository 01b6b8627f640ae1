//! iperf2 (NLANR/DAST, now at SourceForge): a header in front of each stream and in each datagram, and for datagrams a report of
//! the receiver. There is no control connection; the end of a stream is that of its connection.

mod bounce;
mod call_back;
mod calling;
mod client;
mod codec;
mod datagrams;
mod group;
mod isochronous;
mod load;
mod opening;
mod recognition;
mod senders;
mod server;
mod settings;

pub use call_back::CallBack;
pub use client::{Extras, run_with};
pub use group::Group;
pub use isochronous::Isochronous;
pub use load::WorkingLoad;
pub use settings::fuzz_iperf2;

use weir_model::plan::PeerName;
use weir_traffic::TrafficError;

use crate::{Client, Protocol};

/// What only a server of iperf2 has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServeOptions {
    /// It receives this multicast group alone, over UDP; absent: the addresses of its configuration.
    pub group: Option<Group>,
}

/// Declaration of the protocol.
pub(crate) const PROTOCOL: Protocol = Protocol {
    name: PeerName::Iperf2.label(),
    port: PeerName::Iperf2.default_port(),
    transports: &["tcp", "udp"],
    command: None,
    client: Some(Client {
        check: |config| settings::prepared(config).map(drop),
        run: client::run,
        // A server answers only what starts a test.
        probe: None,
    }),
    serve: Some(server::open),
    guests: None,
    is_served_by_name_only: false,
};

fn system(operation: &str, source: std::io::Error) -> TrafficError {
    TrafficError::System { operation: operation.into(), source }
}
