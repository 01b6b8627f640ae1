//! STAMP (RFC 8762, RFC 8972) and TWAMP Light (RFC 5357, appendix I): a sender's test packets, each of which a reflector answers
//! with its own times and number. Both have the same packets; only STAMP's have TLVs, and an authenticated mode.

mod client;
mod codec;
mod server;

pub use codec::fuzz_stamp;

use weir_model::plan::PeerName;

use crate::{Client, Protocol};

const CLIENT: Client =
    Client { check: |config| client::prepared(config).map(drop), run: client::run, probe: None };

/// Declaration of STAMP.
pub(crate) const PROTOCOL: Protocol = Protocol {
    name: PeerName::Stamp.label(),
    port: PeerName::Stamp.default_port(),
    transports: &["udp"],
    command: None,
    client: Some(CLIENT),
    serve: Some(server::open_stamp),
    guests: None,
    // Its answers go to whatever source a datagram states.
    is_served_by_name_only: true,
};

/// Declaration of TWAMP Light.
pub(crate) const TWAMP_LIGHT: Protocol = Protocol {
    name: PeerName::TwampLight.label(),
    port: PeerName::TwampLight.default_port(),
    serve: Some(server::open_twamp_light),
    guests: None,
    ..PROTOCOL
};
