//! UDP-Lite (RFC 3828): datagrams whose checksum may cover only their first bytes, so that data damaged behind
//! these still arrives.

use super::options::{Group, Options, Refusal};
use super::udp::{default_datagram_rate, largest_unfragmented};
use super::{CoverageOptions, Description, Headers, IpOptions, UdpOptions};
use crate::plan::{ConnectionFields, Family, MAX_UDP_PAYLOAD_V4, MAX_UDP_PAYLOAD_V6};
use crate::units::{ByteSize, SendRate};

/// UDP-Lite.
pub(super) struct UdpLite;

impl Description for UdpLite {
    fn label(&self) -> &'static str {
        "udp-lite"
    }

    fn title(&self) -> &'static str {
        "UDP-Lite"
    }

    fn datagrams(&self) -> bool {
        true
    }

    fn ordered(&self) -> bool {
        false
    }

    fn headers(&self) -> Option<Headers> {
        Some(Headers { bytes: 8, timestamp_bytes: 0 })
    }

    /// The server's port is one of UDP and TCP.
    fn shares_port(&self) -> bool {
        false
    }

    fn pacing_needs_fq(&self) -> bool {
        true
    }

    fn payload_bytes(&self, family: Option<Family>) -> (u64, u64) {
        match family {
            Some(Family::Ipv6) => (0, MAX_UDP_PAYLOAD_V6),
            _ => (0, MAX_UDP_PAYLOAD_V4),
        }
    }

    fn default_rate(&self, payload: Option<ByteSize>) -> SendRate {
        default_datagram_rate(payload)
    }

    fn default_payload(&self, _: Option<SendRate>, family: Family, path_mtu_bytes: u32) -> u64 {
        largest_unfragmented(family, path_mtu_bytes)
    }
}

/// The options of UDP that it has: the kernel neither segments nor coalesces its datagrams.
const OPTIONS: &[&str] =
    &["dont_fragment", "tos", "flow_label", "ttl", "kernel_pacing", "client_port"];

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
