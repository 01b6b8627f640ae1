//! UDP multicast (RFC 1112, RFC 4607): one sender, and receivers that join a group.

use super::options::{Group, Options, Refusal};
use super::udp::UdpHeader;
use super::{GroupOptions, IpOptions};
use crate::plan::{ConnectionFields, DEFAULT_GROUP_PORT};

/// UDP multicast.
pub(super) struct Multicast;

impl UdpHeader for Multicast {
    fn label(&self) -> &'static str {
        "multicast"
    }

    fn title(&self) -> &'static str {
        "UDP multicast"
    }

    fn multicast(&self) -> bool {
        true
    }
}

/// The options of the IP layer that it has.
const IP: &[&str] = &["tos", "ttl", "mtu", "kernel_pacing", "client_port", "client_port_last"];

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
impl GroupOptions {
    /// The UDP port of the group.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.group_port.unwrap_or(DEFAULT_GROUP_PORT)
    }
}
