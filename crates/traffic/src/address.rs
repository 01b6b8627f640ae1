//! Addresses of servers and clients.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Mutex;

use crate::engine::lock;

/// Address of a control connection or a stream: an IP address or a Unix socket's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Address {
    /// Address and port.
    Ip(SocketAddr),
    /// Path of a Unix socket; written `unix:PATH`.
    Unix(&'static str),
}

impl Address {
    /// The address of a Unix socket. Programs use few paths, so each is stored until the program exits.
    #[must_use]
    pub(crate) fn unix(path: &str) -> Address {
        static PATHS: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
        let mut paths = lock(&PATHS);
        let paths = paths.get_or_insert_default();
        Address::Unix(paths.get(path).copied().unwrap_or_else(|| {
            let path: &'static str = String::from(path).leak();
            paths.insert(path);
            path
        }))
    }

    /// The IP address and port; `None` for a Unix socket.
    #[must_use]
    pub fn ip(&self) -> Option<SocketAddr> {
        match self {
            Address::Ip(address) => Some(*address),
            Address::Unix(_) => None,
        }
    }

    /// The path of the Unix socket; `None` for an IP address.
    #[must_use]
    pub(crate) fn path(&self) -> Option<&'static Path> {
        match self {
            Address::Ip(_) => None,
            Address::Unix(path) => Some(Path::new(*path)),
        }
    }

    /// The IP address, or the unspecified address, to which nothing is sent.
    pub(crate) fn ip_or_none(&self) -> SocketAddr {
        self.ip().unwrap_or((Ipv4Addr::UNSPECIFIED, 0).into())
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Address::Ip(address)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Address::Ip(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

impl std::str::FromStr for Address {
    type Err = std::net::AddrParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("unix:") {
            Some(path) => Ok(Address::unix(path)),
            None => text.parse().map(Address::Ip),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn addresses_read_back() {
        for text in ["192.0.2.1:9347", "[2001:db8::1]:1", "unix:/run/weir.socket"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!(Address::unix("/a"), Address::unix("/a"));
        assert!("192.0.2.1".parse::<Address>().is_err());
    }
}
