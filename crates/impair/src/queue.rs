//! A link of a limited rate with a queue before it, in whole numbers: no packet is sent faster than the
//! rate allows, not by a nanosecond, and no rounding adds up.

use std::collections::VecDeque;

use weir_model::impairment::{QueueLimit, Rate};

/// Bytes of an untagged Ethernet header: what a frame here has beyond its network layer.
const ETHERNET_HEADER: u32 = 14;
const NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Time(u64),
    Bytes(u64),
    Packets(usize),
}

/// The state of a link.
#[derive(Debug)]
pub(crate) struct Link {
    bits_per_second: u64,
    overhead: u32,
    limit: Limit,
    /// When all that was accepted has been sent: this many ns and `part`/rate of one.
    busy_until: u64,
    part: u64,
    /// Start of transmission and bytes of what waits; kept where the limit needs it.
    waiting: VecDeque<(u64, u32)>,
    waiting_bytes: u64,
}

impl Link {
    pub(crate) fn new(config: &Rate) -> Self {
        let limit = match config.queue_limit() {
            QueueLimit::Time(span) => Limit::Time(span.0),
            QueueLimit::Bytes(size) => Limit::Bytes(size.0),
            QueueLimit::Packets(n) => Limit::Packets(n as usize),
        };
        Self {
            // A checked configuration has 1 or more.
            bits_per_second: config.bits.0.max(1),
            overhead: config.overhead(),
            limit,
            busy_until: 0,
            part: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    /// Takes over what another link has still to send, so that a change of rate does not send two at once.
    pub(crate) fn after(mut self, before: &Link) -> Self {
        self.busy_until = before.busy_until + u64::from(before.part > 0);
        self.waiting.clone_from(&before.waiting);
        self.waiting_bytes = before.waiting_bytes;
        self
    }

    /// When a frame that comes at `t` will have been sent; `None` when the queue has no room.
    ///
    /// What is being sent does not count as waiting; a frame that finds the link idle is always taken.
    #[inline]
    pub(crate) fn enter(&mut self, t: u64, length: u32) -> Option<u64> {
        let framed = (length + self.overhead).saturating_sub(ETHERNET_HEADER);
        let free_at = self.busy_until + u64::from(self.part > 0);
        if t >= free_at {
            self.busy_until = t;
            self.part = 0;
            self.waiting.clear();
            self.waiting_bytes = 0;
        } else {
            if !matches!(self.limit, Limit::Time(_)) {
                while let Some((start, bytes)) = self.waiting.front().copied()
                    && start <= t
                {
                    self.waiting.pop_front();
                    self.waiting_bytes -= u64::from(bytes);
                }
            }
            let room = match self.limit {
                Limit::Time(most) => free_at - t <= most,
                Limit::Bytes(most) => self.waiting_bytes + u64::from(framed) <= most,
                Limit::Packets(most) => self.waiting.len() < most,
            };
            if !room {
                return None;
            }
            if !matches!(self.limit, Limit::Time(_)) {
                self.waiting.push_back((free_at, framed));
                self.waiting_bytes += u64::from(framed);
            }
        }
        // At most 2³² bytes: 2³² · 8 · 10⁹ is below 2⁶⁵, so the product needs care.
        let work = u128::from(framed) * u128::from(8 * NS) + u128::from(self.part);
        let (whole, part) = match u64::try_from(work) {
            Ok(work) => (work / self.bits_per_second, work % self.bits_per_second),
            Err(_) => {
                let rate = u128::from(self.bits_per_second);
                // The remainder is below the rate; the quotient saturates, centuries from now.
                (u64::try_from(work / rate).unwrap_or(u64::MAX), (work % rate) as u64)
            }
        };
        self.busy_until = self.busy_until.saturating_add(whole);
        self.part = part;
        Some(self.busy_until.saturating_add(u64::from(part > 0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_model::impairment::Laws;

    fn link(text: &str) -> Link {
        Link::new(&text.parse::<Laws>().unwrap().rate.unwrap())
    }

    #[test]
    fn serialization_time_is_exact() {
        // 1500 bytes of IP in Ethernet are 1518: 121.44 µs at 100 Mbit/s; 1538 with preamble and gap.
        assert_eq!(link("rate 100M").enter(1000, 1514), Some(1000 + 121_440));
        assert_eq!(link("rate 100M overhead 38").enter(0, 1514), Some(123_040));
        // Thirds of a nanosecond do not add up to an error: 3 · 8·64 bits at 3 Gbit/s are 512 ns.
        let mut third = link("rate 3G queue 1s");
        let times: Vec<_> = (0..3).map(|_| third.enter(0, 60).unwrap()).collect();
        assert_eq!(times, [171, 342, 512]);
    }

    #[test]
    fn the_queue_is_limited_as_it_says() {
        let accepted = |text: &str| {
            let mut link = link(text);
            (0..100).filter(|_| link.enter(0, 1496).is_some()).count()
        };
        // Frames of 1500: one is being sent, the rest waits.
        assert_eq!(accepted("rate 12M queue 9packets"), 10);
        assert_eq!(accepted("rate 12M queue 0packets"), 1);
        assert_eq!(accepted("rate 12M queue 4500"), 4);
        assert_eq!(accepted("rate 12M queue 4499"), 3);
        // 1 ms each: the fifth would wait for 4 ms.
        assert_eq!(accepted("rate 12M queue 3ms"), 4);
        // By default 250 ms, or 16 full frames where that is more.
        assert_eq!(accepted("rate 1M"), 1 + 31_250 / 1500);
        assert_eq!(accepted("rate 20k"), 1 + 16 * 1518 / 1500);
    }

    #[test]
    fn the_queue_empties() {
        let mut link = link("rate 12M queue 1packets");
        assert_eq!(link.enter(0, 1496), Some(1_000_000));
        assert_eq!(link.enter(0, 1496), Some(2_000_000));
        assert_eq!(link.enter(999_999, 1496), None);
        // The second begins at 1 ms and leaves its place.
        assert_eq!(link.enter(1_000_000, 1496), Some(3_000_000));
        assert_eq!(link.enter(3_000_000, 1496), Some(4_000_000));
    }

    #[test]
    fn a_new_rate_waits_for_the_old_queue() {
        let mut old = link("rate 12M");
        old.enter(0, 1496);
        let mut new = link("rate 24M").after(&old);
        assert_eq!(new.enter(0, 1496), Some(1_500_000));
    }

    proptest! {
        #[test]
        fn never_faster_than_the_rate(
            rate in 1_000u64..20_000_000_000,
            frames in prop::collection::vec((0u64..3_000_000, 14u32..9014), 2..60),
        ) {
            let mut link = link(&format!("rate {rate} queue 1h"));
            let mut t = 0;
            let mut sent = vec![];
            for (gap, length) in frames {
                t += gap;
                if let Some(departure) = link.enter(t, length) {
                    let own = u128::from(length + 4) * 8_000_000_000;
                    prop_assert!(u128::from(departure - t) * u128::from(rate) >= own);
                    sent.push((departure, length + 4));
                }
            }
            for i in 0..sent.len() {
                let mut bits = 0u128;
                for (departure, bytes) in &sent[i + 1..] {
                    bits += u128::from(*bytes) * 8;
                    // A window of departures carries no more than the rate, up to the rounding of one end.
                    let window = u128::from(departure - sent[i].0 + 1);
                    prop_assert!(bits * 1_000_000_000 <= window * u128::from(rate));
                }
            }
        }

        #[test]
        fn a_busy_link_is_as_fast_as_its_rate(rate in 1_000u64..20_000_000_000, n in 1u64..2000) {
            let mut link = link(&format!("rate {rate} queue 1h"));
            let mut last = 0;
            let mut taken = 0;
            for _ in 0..n {
                if let Some(departure) = link.enter(0, 1496) {
                    last = departure;
                    taken += 1;
                }
            }
            let exact = (u128::from(taken as u64) * 1500 * 8_000_000_000).div_ceil(u128::from(rate));
            prop_assert_eq!(u128::from(last), exact);
        }
    }
}
