//! The echo protocol (RFC 862): a server sends back what it receives, over TCP and UDP. There are no messages: a datagram or
//! a stream is all that the far end has to understand.

mod server;

use weir_model::plan::{PeerName, Plan};
use weir_traffic::{ClientConfig, TrafficError};

use crate::one_sided::{self, Additions};
use crate::{Client, Protocol};

/// Declaration of the protocol.
pub(crate) const PROTOCOL: Protocol = Protocol {
    name: PeerName::Echo.label(),
    port: PeerName::Echo.default_port(),
    transports: &["tcp", "udp"],
    command: None,
    client: Some(Client {
        check: |config| prepared(config).map(drop),
        run: |config, stop, observe| {
            one_sided::run(
                config,
                prepared(config)?,
                &mut |_, _| Ok(Additions::default()),
                stop,
                observe,
            )
        },
        probe: None,
    }),
    serve: Some(server::open),
    guests: None,
    // Its answers go to whatever source a datagram states.
    is_served_by_name_only: true,
};

/// The options of a connection that a test has, by their fields.
const ACCEPTED: &[&str] = &[
    "align",
    "bytes",
    "catch_up",
    "client_port",
    "congestion",
    "content",
    "cork",
    "count",
    "delayed_ack",
    "dont_fragment",
    "duration",
    "echo",
    "flow_label",
    "gro",
    "gso",
    "kernel_pacing",
    "mss",
    "mtu",
    "name",
    "no_delay",
    "packets",
    "payload",
    "priority",
    "rate",
    "rate_schedule",
    "spacing",
    "tos",
    "transport",
    "ttl",
    "user_timeout",
    "verify",
    "window",
];

/// The plan of a test.
///
/// # Errors
/// [`TrafficError`] that names the field.
fn prepared(config: &ClientConfig) -> Result<Plan, TrafficError> {
    let plan = one_sided::prepared(config, ACCEPTED)?;
    plan.check()?;
    Ok(plan)
}
