//! UDP broadcast (RFC 919): one sender, and all hosts of its network.

use super::options::{Group, Options, Refusal};
use super::udp::UdpHeader;
use super::{GroupOptions, IpOptions};
use crate::plan::ConnectionFields;

/// UDP broadcast.
pub(super) struct Broadcast;

impl UdpHeader for Broadcast {
    fn label(&self) -> &'static str {
        "broadcast"
    }

    fn title(&self) -> &'static str {
        "UDP broadcast"
    }

    fn multicast(&self) -> bool {
        true
    }
}

/// The options of the IP layer that it has.
const IP: &[&str] = &["tos", "ttl", "mtu", "kernel_pacing", "client_port", "client_port_last"];
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
