//! Where a server or a client is.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Mutex;

use crate::engine::lock;

/// An address of the control connection, and of streams: of IP, or the path of a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Address {
    /// Address and port.
    Ip(SocketAddr),
    /// Path of a Unix socket; written `unix:PATH`.
    Unix(&'static str),
}

impl Address {
    /// The path of a Unix socket. A program knows few, so that each is kept as long as it runs.
    #[must_use]
    pub fn unix(path: &str) -> Address {
        static PATHS: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
        let mut paths = lock(&PATHS);
        let paths = paths.get_or_insert_default();
        Address::Unix(paths.get(path).copied().unwrap_or_else(|| {
            let path: &'static str = String::from(path).leak();
            paths.insert(path);
            path
        }))
    }

    /// The address of IP; `None`: it is a path.
    #[must_use]
    pub fn ip(&self) -> Option<SocketAddr> {
        match self {
            Address::Ip(address) => Some(*address),
            Address::Unix(_) => None,
        }
    }

    /// The path; `None`: it is an address of IP.
    #[must_use]
    pub fn path(&self) -> Option<&'static Path> {
        match self {
            Address::Ip(_) => None,
            Address::Unix(path) => Some(Path::new(*path)),
        }
    }

    /// The address of IP, or one that nothing is sent to.
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
