//! UDP multicast (RFC 1112, RFC 4607): one sender, and receivers that join a group.

use super::options::{Group, Options, Refusal};
use super::udp::{default_datagram_rate, largest_unfragmented};
use super::{Description, GroupOptions, Headers, IpOptions};
use crate::plan::{ConnectionFields, Family, MAX_UDP_PAYLOAD_V4, MAX_UDP_PAYLOAD_V6};
use crate::units::{ByteSize, SendRate};

/// UDP multicast.
pub(super) struct Multicast;

impl Description for Multicast {
    fn label(&self) -> &'static str {
        "multicast"
    }

    fn title(&self) -> &'static str {
        "UDP multicast"
    }

    fn datagrams(&self) -> bool {
        true
    }

    fn ordered(&self) -> bool {
        false
    }

    fn multicast(&self) -> bool {
        true
    }

    /// Its datagrams arrive at the port of the group.
    fn shares_port(&self) -> bool {
        false
    }

    fn headers(&self) -> Option<Headers> {
        Some(Headers { bytes: 8, timestamp_bytes: 0 })
    }

    fn datagram_counters(&self) -> bool {
        true
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
        // The same to every receiver, whatever the paths to their servers are.
        largest_unfragmented(family, path_mtu_bytes.min(1500))
    }
}

/// The options of the IP layer that it has.
const IP: &[&str] = &["tos", "ttl", "kernel_pacing", "client_port"];

/// Options of UDP multicast.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MulticastOptions {
    ip: IpOptions,
    group: GroupOptions,
}

impl Options for MulticastOptions {
    fn take(&mut self, fields: &mut ConnectionFields) {
        self.ip.take_only(IP, fields);
        self.group.take(fields);
    }

    fn put(&self, fields: &mut ConnectionFields) {
        self.ip.put(fields);
        self.group.put(fields);
    }

    fn names(&self, out: &mut Vec<&'static str>) {
        out.extend(IP);
        self.group.names(out);
    }

    fn check(&self) -> Result<(), Refusal> {
        self.group.check()?;
        match self.group.group {
            Some(group) if !group.is_multicast() => {
                let accepted = "a multicast address such as 239.1.1.1 or ff15::1";
                Err(("group", group.to_string(), accepted.into()))
            }
            _ => Ok(()),
        }
    }

    fn ip(&self) -> Option<&IpOptions> {
        Some(&self.ip)
    }

    fn ip_mut(&mut self) -> Option<&mut IpOptions> {
        Some(&mut self.ip)
    }

    fn group(&self) -> Option<&GroupOptions> {
        Some(&self.group)
    }
}
