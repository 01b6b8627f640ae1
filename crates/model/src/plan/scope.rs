//! Scopes of multicast groups: how far their packets go.

use std::net::IpAddr;

/// The scope of a multicast group, ascending.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// One link: 224.0.0.0/24 (RFC 5771) and the IPv6 scopes 1 and 2 (RFC 4291).
    Link,
    /// A site or an organization: 239.0.0.0/8 (RFC 2365) and the IPv6 scopes 3 to 8 (RFC 7346).
    Admin,
    /// Everything else.
    Global,
}

impl Scope {
    /// All scopes, ascending.
    pub const ALL: [Scope; 3] = [Scope::Link, Scope::Admin, Scope::Global];

    /// The scope of a group; `None` if the address is not a multicast address.
    #[must_use]
    pub fn of(group: IpAddr) -> Option<Scope> {
        group.is_multicast().then_some(match group {
            IpAddr::V4(v4) => match v4.octets() {
                [224, 0, 0, _] => Scope::Link,
                [239, ..] => Scope::Admin,
                _ => Scope::Global,
            },
            IpAddr::V6(v6) => match v6.octets()[1] & 0xf {
                0..=2 => Scope::Link,
                3..=8 => Scope::Admin,
                _ => Scope::Global,
            },
        })
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scope::Link => "link",
            Scope::Admin => "admin",
            Scope::Global => "global",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_follow_the_assigned_ranges() {
        for (group, scope) in [
            ("224.0.0.251", Some(Scope::Link)),
            ("224.0.1.1", Some(Scope::Global)),
            ("232.1.1.1", Some(Scope::Global)),
            ("239.1.1.1", Some(Scope::Admin)),
            ("ff02::1", Some(Scope::Link)),
            ("ff35::8000:1", Some(Scope::Admin)),
            ("ff1e::1", Some(Scope::Global)),
            ("192.0.2.1", None),
            ("fe80::1", None),
        ] {
            assert_eq!(Scope::of(group.parse().unwrap()), scope, "{group}");
        }
    }
}
