//! Rate limit per address: a token bucket with a depth of four seconds.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::app::lock;

/// Maximum number of addresses.
const MAX: usize = 4096;
/// Depth of the bucket, in seconds of the rate.
const BURST_SECONDS: f64 = 4.0;

/// The buckets.
#[derive(Debug)]
pub(crate) struct Rates {
    per_second: f64,
    buckets: Mutex<HashMap<IpAddr, (f64, Instant)>>,
}

impl Rates {
    pub(crate) fn new(per_second: u32) -> Self {
        Rates { per_second: f64::from(per_second), buckets: Mutex::default() }
    }

    /// Takes one request from the bucket, or returns how long to wait.
    pub(crate) fn take(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let address = masked(address);
        let full = self.per_second * BURST_SECONDS;
        let mut buckets = lock(&self.buckets);
        if buckets.len() >= MAX && !buckets.contains_key(&address) {
            // Full buckets hold no information.
            let rate = self.per_second;
            buckets.retain(|_, (left, at)| {
                *left + now.saturating_duration_since(*at).as_secs_f64() * rate < full
            });
            if buckets.len() >= MAX {
                return Err(Duration::from_secs(1));
            }
        }
        let (left, at) = buckets.entry(address).or_insert((full, now));
        *left =
            (*left + now.saturating_duration_since(*at).as_secs_f64() * self.per_second).min(full);
        *at = now;
        if *left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - *left) / self.per_second));
        }
        *left -= 1.0;
        Ok(())
    }
}

/// One host has a whole /64 of IPv6.
pub(crate) fn masked(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => v4.into(),
            None => std::net::Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        },
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_the_rate_holds() {
        let rates = Rates::new(10);
        let begin = Instant::now();
        let one: IpAddr = "192.0.2.1".parse().unwrap();
        for i in 0..40 {
            assert!(rates.take(one, begin).is_ok(), "{i}");
        }
        assert!(rates.take(one, begin).is_err());
        assert!(rates.take("192.0.2.2".parse().unwrap(), begin).is_ok(), "others are not held up");
        let later = begin + Duration::from_secs(1);
        assert_eq!((0..20).filter(|_| rates.take(one, later).is_ok()).count(), 10);
    }

    #[test]
    fn memory_is_bounded() {
        let rates = Rates::new(1);
        let begin = Instant::now();
        for i in 0..10_000u32 {
            let _ = rates.take(std::net::Ipv4Addr::from(i).into(), begin);
        }
        assert!(lock(&rates.buckets).len() <= MAX);
        let much_later = begin + Duration::from_secs(100);
        assert!(rates.take("198.51.100.1".parse().unwrap(), much_later).is_ok());
    }
}
