//! Admission of tests: concurrent and per hour, per network and in total. No clock, no sockets.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};

/// Maximum number of networks remembered; beyond, new ones wait.
const MAX_NETWORKS: usize = 4096;
const HOUR_NS: u64 = 3_600_000_000_000;
/// `Retry-After` for a network with too many concurrent tests, s.
const SOON_SECONDS: u64 = 30;

/// Limits of a speed-test server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpeedLimits {
    /// Concurrent connections, in total.
    pub connections: usize,
    /// Concurrent connections per address (per /64 for IPv6).
    pub connections_per_address: usize,
    /// Tests at once.
    pub tests: usize,
    /// Concurrent tests per address.
    pub tests_per_address: usize,
    /// Tests started per hour.
    pub tests_per_hour: usize,
    /// Tests started per hour and address.
    pub tests_per_hour_per_address: usize,
    /// Payload bytes of a test, both directions together; one phase takes half of them at most.
    pub bytes: u64,
    /// Duration of a test, s.
    pub session_seconds: u64,
    /// Duration of a phase, s.
    pub phase_seconds: u64,
    /// Idle timeout of a control connection, s.
    pub silence_seconds: u64,
    /// Time for a request's head, s.
    pub head_seconds: u64,
    /// Duration of a connection without a test, s.
    pub page_seconds: u64,
    /// Data connections of a test.
    pub streams: usize,
    /// Requests per second and address; bursts of four seconds' worth are accepted.
    pub requests_per_second: u32,
    /// Number of results stored, the newest.
    pub kept_results: usize,
    /// Time for which results are stored, days.
    pub kept_days: u64,
}

impl Default for SpeedLimits {
    fn default() -> Self {
        SpeedLimits {
            connections: 256,
            connections_per_address: 32,
            tests: 8,
            tests_per_address: 2,
            tests_per_hour: 600,
            tests_per_hour_per_address: 30,
            bytes: 4_000_000_000,
            session_seconds: 60,
            phase_seconds: 8,
            silence_seconds: 15,
            head_seconds: 10,
            page_seconds: 60,
            streams: 4,
            requests_per_second: 20,
            kept_results: 20_000,
            kept_days: 90,
        }
    }
}

/// The unit of a visitor: an IPv4 address, or a /64 of IPv6, which one host may have.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

/// A limit on tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// Running, all together.
    Running,
    /// Within an hour, all together.
    Hourly,
    /// Networks within an hour.
    Networks,
    /// Running, from one address.
    OwnRunning,
    /// Within an hour, from one address.
    OwnHourly,
}

/// Why a test may not start now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Busy {
    /// The limit that is reached.
    pub(super) limit: Limit,
    pub(super) retry_after_seconds: u64,
    pub(super) text: String,
}

#[derive(Debug, Default)]
struct Visits {
    now: usize,
    begun_ns: VecDeque<u64>,
}

impl Visits {
    fn forget(&mut self, now_ns: u64) {
        while self.begun_ns.front().is_some_and(|at| now_ns.saturating_sub(*at) >= HOUR_NS) {
            self.begun_ns.pop_front();
        }
    }

    /// Seconds until fewer than `most` tests have started within the hour.
    fn wait(&self, most: usize, now_ns: u64) -> Option<u64> {
        let at = self.begun_ns.len().checked_sub(most).and_then(|n| self.begun_ns.get(n))?;
        Some(HOUR_NS.saturating_sub(now_ns.saturating_sub(*at)).div_ceil(1_000_000_000).max(1))
    }
}

/// Running tests, and tests of the last hour.
#[derive(Debug, Default)]
pub(super) struct TestRegistry {
    all: Visits,
    by_network: HashMap<IpAddr, Visits>,
}

impl TestRegistry {
    /// Registers a test, or says why not. Each registered test must be removed by [`TestRegistry::leave`].
    pub(super) fn enter(
        &mut self,
        network: IpAddr,
        limits: &SpeedLimits,
        now_ns: u64,
    ) -> Result<(), Busy> {
        let busy = |limit, retry_after_seconds, text: String| {
            Err(Busy { limit, retry_after_seconds, text })
        };
        self.all.forget(now_ns);
        if self.all.now >= limits.tests {
            return busy(
                Limit::Running,
                SOON_SECONDS,
                format!("{} tests are running here, which is the limit.", limits.tests),
            );
        }
        if let Some(wait) = self.all.wait(limits.tests_per_hour, now_ns) {
            return busy(
                Limit::Hourly,
                wait,
                format!(
                    "{} tests were started here within the hour, which is the limit.",
                    limits.tests_per_hour
                ),
            );
        }
        if self.by_network.len() >= MAX_NETWORKS && !self.by_network.contains_key(&network) {
            self.by_network.retain(|_, visits| {
                visits.forget(now_ns);
                visits.now > 0 || !visits.begun_ns.is_empty()
            });
            if self.by_network.len() >= MAX_NETWORKS {
                return busy(
                    Limit::Networks,
                    SOON_SECONDS,
                    "too many visitors within the hour.".into(),
                );
            }
        }
        let own = self.by_network.entry(network).or_default();
        own.forget(now_ns);
        if own.now >= limits.tests_per_address {
            return busy(
                Limit::OwnRunning,
                SOON_SECONDS,
                format!("{} tests are running from your address, which is the limit.", own.now),
            );
        }
        if let Some(wait) = own.wait(limits.tests_per_hour_per_address, now_ns) {
            let most = limits.tests_per_hour_per_address;
            return busy(
                Limit::OwnHourly,
                wait,
                format!(
                    "{most} tests were started from your address within the hour, which is the limit."
                ),
            );
        }
        for visits in [own, &mut self.all] {
            visits.now += 1;
            visits.begun_ns.push_back(now_ns);
        }
        Ok(())
    }

    /// Removes a finished test.
    pub(super) fn leave(&mut self, network: IpAddr) {
        self.all.now = self.all.now.saturating_sub(1);
        if let Some(own) = self.by_network.get_mut(&network) {
            own.now = own.now.saturating_sub(1);
        }
    }
}

/// Connections by network.
#[derive(Debug, Default)]
pub(super) struct Connections {
    all: usize,
    by_network: HashMap<IpAddr, usize>,
}

impl Connections {
    /// Counts a connection if the limits permit; returns whether they do.
    pub(super) fn enter(&mut self, network: IpAddr, limits: &SpeedLimits) -> bool {
        let own = self.by_network.get(&network).copied().unwrap_or(0);
        if self.all >= limits.connections || own >= limits.connections_per_address {
            return false;
        }
        self.all += 1;
        self.by_network.insert(network, own + 1);
        true
    }

    pub(super) fn leave(&mut self, network: IpAddr) {
        self.all = self.all.saturating_sub(1);
        if let Some(own) = self.by_network.get_mut(&network) {
            *own -= 1;
            if *own == 0 {
                self.by_network.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_is_one_visitor() {
        assert_eq!(network_of(ip("192.0.2.1")), ip("192.0.2.1"));
        assert_eq!(network_of(ip("::ffff:192.0.2.1")), ip("192.0.2.1"));
        assert_eq!(network_of(ip("2001:db8:1:2:3:4:5:6")), network_of(ip("2001:db8:1:2::1")));
        assert_ne!(network_of(ip("2001:db8:1:2::1")), network_of(ip("2001:db8:1:3::1")));
    }

    #[test]
    fn an_address_has_its_share_at_once_and_the_rest_is_others() {
        let limits = SpeedLimits::default();
        let mut book = TestRegistry::default();
        let (a, b) = (ip("192.0.2.1"), ip("192.0.2.2"));
        book.enter(a, &limits, 0).unwrap();
        book.enter(a, &limits, 0).unwrap();
        let refused = book.enter(a, &limits, 0).unwrap_err();
        assert_eq!(refused.limit, Limit::OwnRunning);
        book.enter(b, &limits, 0).unwrap();
        book.leave(a);
        book.enter(a, &limits, 0).unwrap();
    }

    #[test]
    fn all_together_have_a_limit() {
        let limits = SpeedLimits { tests: 3, ..SpeedLimits::default() };
        let mut book = TestRegistry::default();
        for n in 1..=3u8 {
            book.enter(IpAddr::from([192, 0, 2, n]), &limits, 0).unwrap();
        }
        let refused = book.enter(ip("192.0.2.9"), &limits, 0).unwrap_err();
        assert_eq!(refused.limit, Limit::Running);
        book.leave(ip("192.0.2.1"));
        book.enter(ip("192.0.2.9"), &limits, 0).unwrap();
    }

    #[test]
    fn an_hour_has_so_many_and_the_wait_is_reported() {
        let limits = SpeedLimits {
            tests_per_hour_per_address: 2,
            tests_per_hour: 3,
            ..SpeedLimits::default()
        };
        let mut book = TestRegistry::default();
        let (a, b) = (ip("192.0.2.1"), ip("192.0.2.2"));
        for at in [10 * S, 70 * S] {
            book.enter(a, &limits, at).unwrap();
            book.leave(a);
        }
        let refused = book.enter(a, &limits, 100 * S).unwrap_err();
        // The first of the two is an hour old at 3610 s.
        assert_eq!((refused.limit, refused.retry_after_seconds), (Limit::OwnHourly, 3510));
        book.enter(b, &limits, 100 * S).unwrap();
        book.leave(b);
        assert_eq!(book.enter(b, &limits, 100 * S).unwrap_err().limit, Limit::Hourly);
        book.enter(a, &limits, 3610 * S).unwrap();
    }

    #[test]
    fn networks_that_are_remembered_are_bounded() {
        let limits =
            SpeedLimits { tests_per_hour: usize::MAX, tests: usize::MAX, ..SpeedLimits::default() };
        let mut book = TestRegistry::default();
        for n in 0..MAX_NETWORKS as u32 {
            let network = IpAddr::from(n.to_be_bytes());
            book.enter(network, &limits, 0).unwrap();
            book.leave(network);
        }
        assert!(book.enter(ip("192.0.2.1"), &limits, S).is_err());
        book.enter(ip("192.0.2.1"), &limits, HOUR_NS).unwrap();
        assert_eq!(book.by_network.len(), 1);
    }

    #[test]
    fn connections_are_counted_until_they_leave() {
        let limits =
            SpeedLimits { connections: 3, connections_per_address: 2, ..SpeedLimits::default() };
        let mut open = Connections::default();
        let (a, b) = (ip("192.0.2.1"), ip("192.0.2.2"));
        assert!(open.enter(a, &limits) && open.enter(a, &limits) && !open.enter(a, &limits));
        assert!(open.enter(b, &limits) && !open.enter(b, &limits));
        open.leave(a);
        assert!(open.enter(b, &limits));
        open.leave(a);
        assert!(!open.by_network.contains_key(&a));
    }
}
