//! UDP broadcast.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weir_model::plan::FlowSpec;
use weir_net::interface::Interface;
use weir_net::udp::UdpOptions;

use super::{GroupTransport, group};

/// UDP broadcast.
pub(super) struct Broadcast;

impl GroupTransport for Broadcast {
    /// The address must be a broadcast address of the interface, so that no packet leaves its network.
    fn refused(&self, spec: &FlowSpec, interface: &Interface) -> Option<String> {
        let Some(IpAddr::V4(address)) = group::group_options(spec).group else { return None };
        if address == Ipv4Addr::BROADCAST {
            return None;
        }
        let of = |ip: Ipv4Addr, length: u8| {
            let hosts = u32::MAX.checked_shr(length.into()).unwrap_or(0);
            // RFC 3021: a network of two addresses has no broadcast address.
            (length < 31).then(|| Ipv4Addr::from(u32::from(ip) | hosts))
        };
        let known = interface.addresses.iter().filter_map(|a| match a.address {
            IpAddr::V4(ip) => of(ip, a.prefix_length),
            IpAddr::V6(_) => None,
        });
        let known: Vec<Ipv4Addr> = known.collect();
        if known.contains(&address) {
            return None;
        }
        let names: Vec<String> =
            known.into_iter().chain([Ipv4Addr::BROADCAST]).map(|a| a.to_string()).collect();
        Some(format!(
            "a broadcast address of interface {}, which has {}",
            interface.name,
            names.join(", ")
        ))
    }

    fn sender(&self, spec: &FlowSpec, bind: SocketAddr, interface: &Interface) -> UdpOptions {
        UdpOptions {
            broadcast: true,
            // The limited broadcast address has no route.
            device: Some(interface.name.clone()),
            multicast_interface: None,
            ..group::sender(spec, bind, interface.index)
        }
    }

    fn receiver(
        &self,
        spec: &FlowSpec,
        source: SocketAddr,
        interface: &Interface,
        receivers: usize,
    ) -> UdpOptions {
        UdpOptions {
            broadcast: true,
            device: Some(interface.name.clone()),
            ..group::receiver(spec, source, interface.index, receivers)
        }
    }
}
