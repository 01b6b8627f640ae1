//! A link of a limited rate with a queue, in integers: no packet is sent faster than the rate allows, not by a
//! nanosecond, and rounding errors do not accumulate.

use std::collections::VecDeque;

use weir_model::impairment::{QueueLimit, Rate};

/// Bytes of an untagged Ethernet header, beyond the network layer.
const ETHERNET_HEADER: u32 = 14;
const NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Time(u64),
    Bytes(u64),
    Packets(usize),
}

/// Memory for queued packets: used and permitted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    /// Memory in use: packets, and the tables of queues.
    pub(crate) used_bytes: u64,
    /// The tables alone.
    pub(crate) tables_bytes: u64,
    pub(crate) limit_bytes: u64,
}

impl Memory {
    /// Whether there is memory for another packet.
    #[inline]
    pub(crate) fn has_room(&self, cost: u64) -> bool {
        self.used_bytes + cost <= self.limit_bytes
    }
}

/// The result of offering a frame to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It will have been sent at this time.
    Sent(u64),
    /// The queue has no room.
    Full,
    /// The queue has room, but there is no memory. The link's time is not used.
    NoMemory,
}

/// An entry for a waiting frame.
type Waiting = (u64, u32);
const WAITING_BYTES: u64 = size_of::<Waiting>() as u64;

/// The state of a link.
#[derive(Debug)]
pub(crate) struct Link {
    bits_per_second: u64,
    overhead: u32,
    limit: Limit,
    /// When all accepted frames have been sent: this many ns and `part`/rate of one.
    busy_until: u64,
    part: u64,
    /// Start of transmission and size of waiting frames; kept if the limit needs it.
    waiting: VecDeque<Waiting>,
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

    /// Takes over what another link has still to send, so that a change of rate does not send two frames at the same
    /// time.
    pub(crate) fn after(mut self, before: &Link) -> Self {
        self.busy_until = before.free_at();
        self.waiting.clone_from(&before.waiting);
        self.waiting_bytes = before.waiting_bytes;
        self
    }

    #[inline]
    fn free_at(&self) -> u64 {
        self.busy_until.saturating_add(u64::from(self.part > 0))
    }

    /// Memory of the table of waiting frames.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.waiting.capacity() as u64 * WAITING_BYTES
    }

    /// Releases most of a table that is mostly unused at `now`. A table in use is kept, since memory must be
    /// allocated again.
    pub(crate) fn tidy(&mut self, now: u64) {
        self.leave_waiting(now);
        let needed = self.waiting.len().max(16);
        if self.waiting.capacity() > 4 * needed {
            self.waiting.shrink_to(2 * needed);
        }
    }

    /// Frames whose transmission has started at `t` no longer wait.
    #[inline]
    fn leave_waiting(&mut self, t: u64) {
        while let Some((start, bytes)) = self.waiting.front().copied()
            && start <= t
        {
            self.waiting.pop_front();
            self.waiting_bytes -= u64::from(bytes);
        }
    }

    /// Makes room for one more entry; `false`: no memory.
    #[cold]
    fn grow(&mut self, cost: u64, memory: &mut Memory) -> bool {
        let before = self.table_bytes();
        let more = self.waiting.capacity().max(4);
        if !memory.has_room(cost + more as u64 * WAITING_BYTES) {
            return false;
        }
        self.waiting.reserve_exact(more);
        let grown = self.table_bytes() - before;
        memory.tables_bytes += grown;
        memory.used_bytes += grown;
        true
    }

    /// When a frame that arrives at `t` will have been sent; it takes `cost` bytes of `memory` while queued.
    ///
    /// The frame in transmission does not count as waiting; a frame that finds the link idle is always accepted, if
    /// there is memory. A refused frame leaves the link unchanged.
    #[inline]
    pub(crate) fn enter(&mut self, t: u64, length: u32, cost: u64, memory: &mut Memory) -> Entry {
        let framed = (length + self.overhead).saturating_sub(ETHERNET_HEADER);
        let free_at = self.free_at();
        if t >= free_at {
            if !memory.has_room(cost) {
                return Entry::NoMemory;
            }
            self.busy_until = t;
            self.part = 0;
            self.waiting.clear();
            self.waiting_bytes = 0;
        } else {
            if !matches!(self.limit, Limit::Time(_)) {
                self.leave_waiting(t);
            }
            let room = match self.limit {
                Limit::Time(most) => free_at - t <= most,
                Limit::Bytes(most) => self.waiting_bytes + u64::from(framed) <= most,
                Limit::Packets(most) => self.waiting.len() < most,
            };
            if !room {
                return Entry::Full;
            }
            if !memory.has_room(cost) {
                return Entry::NoMemory;
            }
            if !matches!(self.limit, Limit::Time(_)) {
                if self.waiting.len() == self.waiting.capacity() && !self.grow(cost, memory) {
                    return Entry::NoMemory;
                }
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
        Entry::Sent(self.free_at())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_model::impairment::Laws;

    /// A link whose packets find memory.
    struct Roomy(Link);

    impl Roomy {
        fn enter(&mut self, t: u64, length: u32) -> Option<u64> {
            let mut memory = Memory { limit_bytes: u64::MAX, ..Memory::default() };
            match self.0.enter(t, length, 0, &mut memory) {
                Entry::Sent(at) => Some(at),
                Entry::Full => None,
                Entry::NoMemory => unreachable!("there is no end of it"),
            }
        }
    }

    fn link(text: &str) -> Roomy {
        Roomy(Link::new(&text.parse::<Laws>().unwrap().rate.unwrap()))
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
        let mut new = Roomy(link("rate 24M").0.after(&old.0));
        assert_eq!(new.enter(0, 1496), Some(1_500_000));
    }

    #[test]
    fn a_frame_without_memory_takes_nothing_of_the_links_time() {
        let Roomy(mut link) = link("rate 12M queue 1T");
        let mut memory = Memory { limit_bytes: 100_000, ..Memory::default() };
        assert_eq!(link.enter(0, 1496, 100, &mut memory), Entry::Sent(1_000_000));
        // First no memory for the frame, then none for the queue's table.
        assert_eq!(link.enter(0, 1496, 100_001, &mut memory), Entry::NoMemory);
        assert_eq!(link.enter(0, 1496, 100_000, &mut memory), Entry::NoMemory);
        assert_eq!(link.enter(5_000_000, 1496, 100_001, &mut memory), Entry::NoMemory);
        assert_eq!(link.enter(0, 1496, 100, &mut memory), Entry::Sent(2_000_000));
        assert_eq!((memory.used_bytes, memory.tables_bytes), (64, 64));
        let taken = (0..100_000)
            .filter(|_| matches!(link.enter(0, 1496, 100, &mut memory), Entry::Sent(_)))
            .count();
        // The table doubles while that leaves room: 4096 entries of 16 bytes.
        assert_eq!((taken, memory.tables_bytes, link.table_bytes()), (4095, 65_536, 65_536));
        link.tidy(4_000_000_000);
        assert!(link.waiting.len() < 200 && link.table_bytes() < 4096);
        assert_eq!(link.enter(4_097_000_000, 1496, 100, &mut memory), Entry::Sent(4_098_000_000));
    }

    #[test]
    fn the_end_of_time_is_no_overflow() {
        let mut link = link("rate 7k queue 1T");
        assert_eq!(link.enter(u64::MAX - 9, 1496), Some(u64::MAX));
        assert_eq!(link.enter(u64::MAX, 1496), Some(u64::MAX));
        assert_eq!(link.enter(u64::MAX - 1, 1496), Some(u64::MAX));
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
