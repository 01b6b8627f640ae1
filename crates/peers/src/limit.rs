//! The rate at which a server obeys requests of each address, so that a forged source makes it flood no third party.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// Replies to one address per second, on average.
pub(crate) const REPLIES_PER_SECOND: u64 = 20_000;
/// Replies to one address that may follow each other without a pause.
const BURST: u64 = 2_000;
/// Entries of the table: 512 KiB.
const ENTRIES: usize = 1 << 16;

/// A limit per IPv4 address, or per /64 of IPv6. The memory is fixed: addresses with the same hash, which no client can
/// predict, have one limit together.
pub(crate) struct AddressLimits {
    /// When the allowance of each entry is full again, ns.
    full_at_ns: Vec<u64>,
    hash: RandomState,
    /// Time per request, ns.
    period_ns: u64,
    /// Requests that may follow each other without a pause.
    burst: u64,
}

impl AddressLimits {
    /// The limits of a reflector.
    pub(crate) fn new() -> Self {
        AddressLimits::of(REPLIES_PER_SECOND, BURST)
    }

    /// Limits of `per_second` requests on average, and `burst` without a pause.
    pub(crate) fn of(per_second: u64, burst: u64) -> Self {
        AddressLimits {
            full_at_ns: vec![0; ENTRIES],
            hash: RandomState::new(),
            period_ns: 1_000_000_000 / per_second,
            burst,
        }
    }

    /// Whether a request of `address` is within its limit at `now_ns`; counts it, if so.
    pub(crate) fn permits(&mut self, address: IpAddr, now_ns: u64) -> bool {
        let prefix: u64 = match address.to_canonical() {
            IpAddr::V4(v4) => u32::from(v4).into(),
            IpAddr::V6(v6) => (u128::from(v6) >> 64) as u64 | 1 << 63,
        };
        let entry = self.hash.hash_one(prefix) as usize % ENTRIES;
        let full_at_ns = self.full_at_ns[entry].max(now_ns).saturating_add(self.period_ns);
        let permits = full_at_ns - now_ns <= self.burst * self.period_ns;
        if permits {
            self.full_at_ns[entry] = full_at_ns;
        }
        permits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time per reply of a reflector, ns.
    const PERIOD_NS: u64 = 1_000_000_000 / REPLIES_PER_SECOND;

    fn count(limits: &mut AddressLimits, address: &str, at_ns: impl Iterator<Item = u64>) -> u64 {
        let address = address.parse().unwrap();
        at_ns.map(|at| u64::from(limits.permits(address, at))).sum()
    }

    #[test]
    fn an_address_gets_a_burst_and_then_the_rate() {
        let mut limits = AddressLimits::new();
        let start = 7_000_000_000;
        assert_eq!(count(&mut limits, "192.0.2.1", (0..5_000).map(|_| start)), BURST);
        // A second at twice the rate.
        let twice = (1..=2 * REPLIES_PER_SECOND).map(|i| start + i * PERIOD_NS / 2);
        assert_eq!(count(&mut limits, "192.0.2.1", twice), REPLIES_PER_SECOND);
        // Another address has a limit of its own, unless the hashes are equal (1 in 65 536).
        let others = (1..=8).map(|i| format!("198.51.100.{i}"));
        assert!(others.filter(|a| count(&mut limits, a, std::iter::once(start)) == 1).count() > 4);
    }

    #[test]
    fn addresses_of_one_prefix_have_one_limit() {
        let mut limits = AddressLimits::new();
        assert_eq!(count(&mut limits, "2001:db8::1", (0..5_000).map(|_| 0)), BURST);
        assert_eq!(count(&mut limits, "2001:db8::ffff:2", (0..10).map(|_| 0)), 0);
        // So have both forms of an IPv4 address.
        assert_eq!(count(&mut limits, "192.0.2.9", (0..5_000).map(|_| 0)), BURST);
        assert_eq!(count(&mut limits, "::ffff:192.0.2.9", (0..10).map(|_| 0)), 0);
    }
}
