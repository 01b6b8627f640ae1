//! UDP-Lite (RFC 3828): datagrams whose checksum may cover only their first bytes, so that data damaged behind
//! these still arrives.

use super::options::{Group, Options, Refusal};
use super::udp::UdpHeader;
use super::{CoverageOptions, IpOptions, UdpOptions};
use crate::plan::ConnectionFields;

/// UDP-Lite.
pub(super) struct UdpLite;

impl UdpHeader for UdpLite {
    fn label(&self) -> &'static str {
        "udp-lite"
    }

    fn title(&self) -> &'static str {
        "UDP-Lite"
    }

    fn is_udp(&self) -> bool {
        false
    }
}

/// The options of UDP that it has: the kernel neither segments nor coalesces its datagrams.
const OPTIONS: &[&str] = &[
    "dont_fragment",
    "ecn",
    "tos",
    "flow_label",
    "ttl",
    "mtu",
    "kernel_pacing",
    "client_port",
    "client_port_last",
];

/// Options of UDP-Lite.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UdpLiteOptions {
    udp: UdpOptions,
    coverage: CoverageOptions,
}

impl Options for UdpLiteOptions {
    fn take(&mut self, fields: &mut ConnectionFields) {
        self.udp.take_only(OPTIONS, fields);
        self.coverage.take(fields);
    }

    fn put(&self, fields: &mut ConnectionFields) {
        self.udp.put(fields);
        self.coverage.put(fields);
    }

    fn names(&self, out: &mut Vec<&'static str>) {
        out.extend(OPTIONS);
        self.coverage.names(out);
    }

    fn check(&self) -> Result<(), Refusal> {
        self.coverage.check()
    }

    fn ip(&self) -> Option<&IpOptions> {
        Some(&self.udp.ip)
    }

    fn ip_mut(&mut self) -> Option<&mut IpOptions> {
        Some(&mut self.udp.ip)
    }

    fn udp(&self) -> Option<&UdpOptions> {
        Some(&self.udp)
    }

    fn coverage(&self) -> Option<&CoverageOptions> {
        Some(&self.coverage)
    }
}
