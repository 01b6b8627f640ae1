//! UDP broadcast (RFC 919): one sender, and all hosts of its network.

use super::options::{Group, Options, Refusal};
use super::udp::{default_datagram_rate, largest_unfragmented};
use super::{Description, GroupOptions, Headers, IpOptions};
use crate::plan::{ConnectionFields, Family, MAX_UDP_PAYLOAD_V4, MAX_UDP_PAYLOAD_V6};
use crate::units::{ByteSize, SendRate};

/// UDP broadcast.
pub(super) struct Broadcast;

impl Description for Broadcast {
    fn label(&self) -> &'static str {
        "broadcast"
    }

    fn title(&self) -> &'static str {
        "UDP broadcast"
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
/// Its options of a group: there is nothing to join.
const GROUP: &[&str] = &["group", "group_port", "interface"];

/// Options of UDP broadcast.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BroadcastOptions {
    ip: IpOptions,
    group: GroupOptions,
}

impl Options for BroadcastOptions {
    fn take(&mut self, fields: &mut ConnectionFields) {
        self.ip.take_only(IP, fields);
        self.group.take_only(GROUP, fields);
    }

    fn put(&self, fields: &mut ConnectionFields) {
        self.ip.put(fields);
        self.group.put(fields);
    }

    fn names(&self, out: &mut Vec<&'static str>) {
        out.extend(IP);
        out.extend(GROUP);
    }

    fn check(&self) -> Result<(), Refusal> {
        self.group.check()?;
        match self.group.group {
            Some(group) if !group.is_ipv4() || group.is_multicast() => {
                let accepted = "a broadcast address of IPv4: 255.255.255.255 or that of a network";
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
