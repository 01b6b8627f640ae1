//! UDP multicast.

use std::net::SocketAddr;

use weir_model::plan::FlowSpec;
use weir_net::interface::Interface;
use weir_net::udp::{Membership, UdpOptions};

use super::{GroupTransport, group};

/// UDP multicast.
pub(super) struct Multicast;

impl GroupTransport for Multicast {
    fn sender(&self, spec: &FlowSpec, bind: SocketAddr, interface: &Interface) -> UdpOptions {
        group::sender(spec, bind, interface.index)
    }

    fn receiver(
        &self,
        spec: &FlowSpec,
        source: SocketAddr,
        interface: &Interface,
        receivers: usize,
    ) -> UdpOptions {
        group::receiver(spec, source, interface.index, receivers)
    }

    fn membership(
        &self,
        spec: &FlowSpec,
        source: SocketAddr,
        interface: &Interface,
    ) -> Option<Membership> {
        let options = group::group_options(spec);
        let source = options.source_specific.then_some(source.ip());
        Some(Membership { group: options.group?, source, interface: interface.index })
    }
}
