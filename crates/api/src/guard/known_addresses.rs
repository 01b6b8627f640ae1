//! Addresses that have shown a valid token: some connections are reserved for them, so that others can't use up all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::masked;
use crate::app::lock;

/// Maximum number of addresses, and for how long they are remembered.
const MAX: usize = 1024;
const LONG: Duration = Duration::from_secs(86_400);

/// The addresses, and when each was last seen.
#[derive(Debug, Default)]
pub(crate) struct KnownAddresses(Mutex<HashMap<IpAddr, Instant>>);

impl KnownAddresses {
    /// An address has shown a valid token.
    pub(crate) fn remember(&self, address: IpAddr, now: Instant) {
        let mut all = lock(&self.0);
        let address = masked(address);
        if all.len() >= MAX && !all.contains_key(&address) {
            let oldest = all.iter().min_by_key(|(_, at)| **at).map(|(address, _)| *address);
            oldest.map(|oldest| all.remove(&oldest));
        }
        all.insert(address, now);
    }

    /// Whether one did.
    pub(crate) fn knows(&self, address: IpAddr, now: Instant) -> bool {
        let all = lock(&self.0);
        all.get(&masked(address)).is_some_and(|at| now.saturating_duration_since(*at) < LONG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_remembered() {
        let known = KnownAddresses::default();
        let begin = Instant::now();
        let address = |i: u32| IpAddr::from(std::net::Ipv4Addr::from(i));
        for i in 0..2000 {
            known.remember(address(i), begin + Duration::from_millis(u64::from(i)));
        }
        let end = begin + Duration::from_secs(2);
        assert!(lock(&known.0).len() <= MAX);
        assert!(known.knows(address(1999), end) && !known.knows(address(0), end));
        assert!(!known.knows(address(1999), end + LONG));
    }
}
