//! Flows whose data are messages of ICMP, as ITGSend 2.8.1 sends them: echo requests with identifier and number 0, before the data.
//! Over IPv6 their type is 8, too, which ICMPv6 does not define, and the data follow the checksum.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use weir_model::plan::{FlowSpec, Plan};
use weir_net::thread::lock;
use weir_net::udp::IcmpFilter;
use weir_traffic::session::{self, IcmpHeader, IcmpMessages};

use super::codec::{FlowRequest, Metadata};
use super::settings::Refused;

/// The type of messages at both families.
const REQUEST: u8 = 8;
/// The types that are received over IPv4. ITGSend sends any that its user states; replies are left out, since this host itself
/// may have sent them.
const TYPES_V4: &[u8] = &[REQUEST, 13, 15, 17];
const TYPES_V6: &[u8] = &[REQUEST];

fn header(is_v6: bool) -> IcmpHeader {
    IcmpHeader { message_type: REQUEST, bytes: if is_v6 { 4 } else { 8 } }
}

/// The messages of an announced flow.
fn filter(request: &FlowRequest, is_v6: bool) -> IcmpFilter {
    let number = number(request);
    match is_v6 {
        true => IcmpFilter { types: TYPES_V6, words: [number, None] },
        false => IcmpFilter { types: TYPES_V4, words: [Some(0), number] },
    }
}

/// The flow's number in its messages, if they have it.
fn number(request: &FlowRequest) -> Option<u32> {
    (request.metadata != Metadata::Nothing).then_some(request.flow)
}

/// The flows of ICMP that a server receives: the host of each, and its number if its messages have it.
#[derive(Debug, Default)]
pub(super) struct Open(Mutex<Vec<(IpAddr, Option<u32>)>>);

/// One of them, until this is dropped.
pub(super) struct Receiver {
    /// The socket, until something has arrived.
    pub(super) waiting: Option<IcmpMessages>,
    flow: (IpAddr, Option<u32>),
    open: Arc<Open>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut open = lock(&self.open.0);
        if let Some(at) = open.iter().position(|flow| *flow == self.flow) {
            open.swap_remove(at);
        }
    }
}

/// Opens the socket of a flow that this end sends.
///
/// # Errors
/// Those of [`session::open_icmp_messages`].
pub(super) fn sender(
    plan: &Plan,
    spec: &FlowSpec,
    peer: SocketAddr,
) -> Result<IcmpMessages, weir_traffic::TrafficError> {
    let peer = canonical(peer);
    session::open_icmp_messages(plan, spec, header(peer.is_ipv6()), None, None, peer)
}

/// Opens the socket of a flow that `client` has announced, at the first of these addresses where that is possible.
///
/// # Errors
/// The reason why this host can't receive it.
pub(super) fn receiver(
    plan: &Plan,
    spec: &FlowSpec,
    request: &FlowRequest,
    at: &[IpAddr],
    client: SocketAddr,
    open: &Arc<Open>,
) -> Result<Receiver, Refused> {
    let client = canonical(client);
    let is_v6 = client.is_ipv6();
    let number = number(request);
    let flow = (client.ip(), number);
    let mut flows = lock(&open.0);
    // Messages have no ports: those of both flows would be alike.
    let is_alike = |other: &(IpAddr, Option<u32>)| {
        other.0 == flow.0 && (other.1 == number || other.1.is_none() || number.is_none())
    };
    if flows.iter().any(is_alike) {
        let reason = format!("a flow {} of ICMP like another one of the host", request.flow);
        return Err(Refused::Other(reason));
    }
    let mut reason = "no address".into();
    for local in at {
        let filter = Some(filter(request, is_v6));
        let opened =
            session::open_icmp_messages(plan, spec, header(is_v6), filter, Some(*local), client);
        match opened {
            Ok(socket) => {
                flows.push(flow);
                let open = open.clone();
                return Ok(Receiver { waiting: Some(socket), flow, open });
            }
            Err(error) => reason = error.to_string(),
        }
    }
    Err(Refused::Icmp(reason))
}

/// The host of an address, of IPv4 if it is mapped into IPv6.
fn canonical(address: SocketAddr) -> SocketAddr {
    match (address, address.ip().to_canonical()) {
        (SocketAddr::V6(mut v6), IpAddr::V6(_)) => {
            v6.set_port(0);
            v6.into()
        }
        (_, ip) => SocketAddr::new(ip, 0),
    }
}
