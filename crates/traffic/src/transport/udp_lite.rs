//! UDP-Lite.

use std::net::SocketAddr;

use weir_model::plan::FlowSpec;
use weir_net::udp::{UdpOptions, try_lite};

use super::{DatagramTransport, udp};

/// UDP-Lite.
pub(super) struct UdpLite;

impl DatagramTransport for UdpLite {
    fn unavailable(&self) -> Option<String> {
        let error = try_lite().err()?;
        Some(format!("the kernel opens no UDP-Lite socket ({error})"))
    }

    fn options(
        &self,
        spec: &FlowSpec,
        bind: SocketAddr,
        receives: bool,
        flows: usize,
    ) -> UdpOptions {
        let coverage = spec.connection.transport.coverage().and_then(|o| o.checksum_coverage);
        UdpOptions {
            lite_coverage: Some(coverage.unwrap_or(0)),
            ..udp::options(spec, bind, receives, flows)
        }
    }
}
