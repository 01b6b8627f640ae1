//! MPTCP (RFC 8684): a byte stream over one or several TCP subflows. It falls back to TCP if the peer or the
//! path does not support it.

use super::options::{Group, Options, Refusal};
use super::tcp::{WRITE_BYTES, default_write};
use super::{Description, Headers, IpOptions, StreamOptions, TcpOptions};
use crate::plan::{ConnectionFields, Family};
use crate::units::{ByteSize, SendRate};

/// MPTCP.
pub(super) struct Mptcp;

impl Description for Mptcp {
    fn label(&self) -> &'static str {
        "mptcp"
    }

    fn title(&self) -> &'static str {
        "MPTCP"
    }

    fn datagrams(&self) -> bool {
        false
    }

    fn ordered(&self) -> bool {
        true
    }

    fn segments(&self) -> bool {
        true
    }

    /// TCP's 20 bytes and the data sequence signal of each segment with data (RFC 8684 section 3.3), as Linux sends it
    /// without checksum: 22 bytes, padded to 24.
    fn headers(&self) -> Option<Headers> {
        Some(Headers { bytes: 44, timestamp_bytes: 12 })
    }

    fn tcp_info(&self) -> bool {
        true
    }

    fn payload_bytes(&self, _: Option<Family>) -> (u64, u64) {
        WRITE_BYTES
    }

    fn default_rate(&self, _: Option<ByteSize>) -> SendRate {
        SendRate::UNLIMITED
    }

    fn default_payload(&self, rate: Option<SendRate>, _: Family, _: u32) -> u64 {
        default_write(rate)
    }
}

/// The options of TCP that Linux accepts on an MPTCP socket.
const OPTIONS: &[&str] = &[
    "mss",
    "mtu",
    "no_delay",
    "congestion",
    "zero_copy",
    "discard",
    "no_half_close",
    "to_file",
    "align",
    "tos",
    "flow_label",
    "client_port",
    "client_port_last",
];

/// Options of MPTCP.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MptcpOptions {
    tcp: TcpOptions,
}

impl Options for MptcpOptions {
    fn take(&mut self, fields: &mut ConnectionFields) {
        self.tcp.take_only(OPTIONS, fields);
    }

    fn put(&self, fields: &mut ConnectionFields) {
        self.tcp.put(fields);
    }

    fn names(&self, out: &mut Vec<&'static str>) {
        out.extend(OPTIONS);
    }

    fn check(&self) -> Result<(), Refusal> {
        self.tcp.check()
    }

    fn ip(&self) -> Option<&IpOptions> {
        Some(&self.tcp.ip)
    }

    fn ip_mut(&mut self) -> Option<&mut IpOptions> {
        Some(&mut self.tcp.ip)
    }

    fn stream(&self) -> Option<&StreamOptions> {
        Some(&self.tcp.stream)
    }

    fn tcp(&self) -> Option<&TcpOptions> {
        Some(&self.tcp)
    }

    fn tcp_mut(&mut self) -> Option<&mut TcpOptions> {
        Some(&mut self.tcp)
    }
}
