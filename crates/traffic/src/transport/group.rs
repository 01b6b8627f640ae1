//! What multicast and broadcast share: a sender connected to the group, and receivers bound to it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};

use weir_model::plan::{FlowSpec, GroupOptions, Scope};
use weir_net::udp::UdpOptions;

use super::udp;

/// The options of a flow that is sent to a group, or their defaults.
pub(crate) fn group_options(spec: &FlowSpec) -> GroupOptions {
    spec.connection.transport.group().cloned().unwrap_or_default()
}

/// Where a flow is sent, through the interface with this index.
pub(crate) fn destination(spec: &FlowSpec, interface: u32) -> SocketAddr {
    let options = group_options(spec);
    // The plan's check has refused a missing group.
    at(options.group.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), options.port(), interface)
}

/// An address with a port; a link-local one on the link of an interface.
pub(crate) fn at(address: IpAddr, port: u16, interface: u32) -> SocketAddr {
    match address {
        IpAddr::V4(v4) => SocketAddr::new(v4.into(), port),
        IpAddr::V6(v6) => {
            let is_link_local =
                v6.is_unicast_link_local() || Scope::of(address) == Some(Scope::Link);
            SocketAddrV6::new(v6, port, 0, if is_link_local { interface } else { 0 }).into()
        }
    }
}

/// The options of the sender's socket.
pub(super) fn sender(spec: &FlowSpec, bind: SocketAddr, interface: u32) -> UdpOptions {
    UdpOptions {
        connect: Some(destination(spec, interface)),
        multicast_interface: Some(interface),
        ..udp::options(spec, bind, false, 1)
    }
}

/// The options of a receiver's socket. Connected to the sender, it receives from that address alone. Its buffer is limited
/// even if the plan states one, since the plan is another host's.
pub(super) fn receiver(
    spec: &FlowSpec,
    source: SocketAddr,
    interface: u32,
    receivers: usize,
) -> UdpOptions {
    // The number of an interface is that of its host.
    let source = at(source.ip(), source.port(), interface);
    let options = udp::options(spec, destination(spec, interface), true, receivers);
    let most = udp::buffer_limit(receivers);
    UdpOptions {
        connect: Some(source),
        reuse_address: true,
        own_groups_only: true,
        receive_buffer: options.receive_buffer.map(|bytes| bytes.min(most)),
        ..options
    }
}
