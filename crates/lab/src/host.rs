//! A host of a lab.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// A host of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// `a`, `b`, …
    pub name: String,
    /// Its address in 198.18.0.0/15.
    pub ipv4: Ipv4Addr,
    /// Its address in 2001:2::/48.
    pub ipv6: Ipv6Addr,
    /// Its interface on the lab's link.
    pub interface: String,
}
