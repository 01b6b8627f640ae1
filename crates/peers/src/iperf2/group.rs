//! A multicast group that a server receives. Its senders get no answer.

use std::net::IpAddr;

use weir_model::plan::Scope;
use weir_net::interface::interface;
use weir_net::udp::Membership;
use weir_traffic::TrafficError;

/// A multicast group that a server joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The group.
    pub address: IpAddr,
    /// The only sender to receive from (source-specific multicast, RFC 4607); absent: any.
    pub source: Option<IpAddr>,
    /// Name of the interface; absent: the one that the route to the group names.
    pub interface: Option<String>,
}

impl Group {
    /// The membership on this host.
    ///
    /// # Errors
    /// [`TrafficError::Input`]: not a group, a source that can't send to it, or an interface that this host has not.
    pub(super) fn membership(&self) -> Result<Membership, TrafficError> {
        let refused = |field, given: String, accepted: &str| {
            Err(TrafficError::Input { field, given, accepted: accepted.into() })
        };
        let group = self.address;
        if !group.is_multicast() {
            return refused("bind", group.to_string(), "a multicast group, with a source");
        }
        let can_send =
            |source: &IpAddr| source.is_ipv4() == group.is_ipv4() && !source.is_multicast();
        if let Some(source) = self.source.filter(|source| !can_send(source)) {
            let accepted = "the address of one host, of the group's IP version";
            return refused("ssm_host", source.to_string(), accepted);
        }
        let index = match &self.interface {
            Some(name) => match interface(name) {
                Ok(found) => found.index,
                Err(_) => return refused("bind", name.clone(), "an interface of this host"),
            },
            None if group.is_ipv6() && Scope::of(group) == Some(Scope::Link) => {
                let accepted = "GROUP%INTERFACE: the group is one of a link";
                return refused("bind", group.to_string(), accepted);
            }
            None => 0,
        };
        Ok(Membership { group, source: self.source, interface: index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_group_or_source_is_refused_by_its_field() {
        let field = |address: &str, source: Option<&str>, interface: Option<&str>| {
            let group = Group {
                address: address.parse().unwrap(),
                source: source.map(|source| source.parse().unwrap()),
                interface: interface.map(String::from),
            };
            match group.membership() {
                Ok(_) => None,
                Err(TrafficError::Input { field, .. }) => Some(field),
                Err(other) => panic!("{other}"),
            }
        };
        for (address, source, interface, refused) in [
            ("239.1.2.3", None, None, None),
            ("ff15::1", None, None, None),
            ("ff02::5", None, Some("lo"), None),
            ("232.1.2.3", Some("192.0.2.1"), Some("lo"), None),
            ("192.0.2.1", None, None, Some("bind")),
            ("239.1.2.3", None, Some("weir-none"), Some("bind")),
            ("ff02::5", None, None, Some("bind")),
            ("232.1.2.3", Some("2001:db8::1"), None, Some("ssm_host")),
            ("232.1.2.3", Some("232.1.2.4"), None, Some("ssm_host")),
        ] {
            assert_eq!(field(address, source, interface), refused, "{address} {source:?}");
        }
    }
}
