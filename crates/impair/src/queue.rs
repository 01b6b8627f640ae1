//! A link of a limited rate with a queue. Its arithmetic is in integers: no packet is sent even a
//! nanosecond too early, and rounding errors do not accumulate.

use std::collections::VecDeque;

use weir_model::impairment::{Framing, QueueLimit, Rate};

/// Bytes of an untagged Ethernet header, beyond the network layer.
const ETHERNET_HEADER: i64 = 14;
const NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Time(u64),
    Bytes(u64),
    Packets(usize),
}

impl Limit {
    pub(crate) fn of(config: &Rate) -> Self {
        match config.queue_limit() {
            QueueLimit::Time(span) => Limit::Time(span.0),
            QueueLimit::Bytes(size) => Limit::Bytes(size.0),
            QueueLimit::Packets(n) => Limit::Packets(n as usize),
        }
    }
}

/// The transmitter of a link.
#[derive(Clone, Debug)]
pub(crate) struct Transmitter {
    bits_per_second: u64,
    framing: Framing,
    /// End of transmission of all accepted frames: this many ns and `part`/rate of one.
    busy_until: u64,
    part: u64,
}

impl Transmitter {
    pub(crate) fn new(config: &Rate) -> Self {
        // A checked configuration has 1 or more.
        let bits_per_second = config.bits.0.max(1);
        Self { bits_per_second, framing: config.framing(), busy_until: 0, part: 0 }
    }

    /// Starts another transmission at `t` at the earliest.
    pub(crate) fn set_busy_until(&mut self, t: u64) {
        self.busy_until = t;
        self.part = 0;
    }

    #[inline]
    pub(crate) fn free_at(&self) -> u64 {
        self.busy_until.saturating_add(u64::from(self.part > 0))
    }

    /// Bytes of a frame on the link.
    #[inline]
    pub(crate) fn framed(&self, length: u32) -> u32 {
        self.framing.bytes(i64::from(length) - ETHERNET_HEADER)
    }

    /// Adds a frame of this many bytes on the link behind those accepted.
    #[inline]
    fn add(&mut self, framed: u32) {
        // For up to 2³² bytes the product is at most 2³² · 8 · 10⁹, which may exceed 64 bits.
        let work = u128::from(framed) * u128::from(8 * NS) + u128::from(self.part);
        let (whole, part) = match u64::try_from(work) {
            Ok(work) => (work / self.bits_per_second, work % self.bits_per_second),
            Err(_) => {
                let rate = u128::from(self.bits_per_second);
                // The remainder is below the rate. The quotient saturates after centuries.
                (u64::try_from(work / rate).unwrap_or(u64::MAX), (work % rate) as u64)
            }
        };
        self.busy_until = self.busy_until.saturating_add(whole);
        self.part = part;
    }

    /// Sends a frame at `t`, when the transmitter is free; returns when its transmission ends. `has_waited`: it starts exactly when the
    /// one before ended, a part of a nanosecond before `t`.
    pub(crate) fn send(&mut self, t: u64, framed: u32, has_waited: bool) -> u64 {
        if !has_waited {
            self.set_busy_until(t);
        }
        self.add(framed);
        self.free_at()
    }

    /// Time that bytes take on the link.
    pub(crate) fn time_of(&self, bytes: u64) -> u64 {
        let ns = u128::from(bytes) * u128::from(8 * NS) / u128::from(self.bits_per_second);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Bytes that the link carries in a time.
    pub(crate) fn bytes_in(&self, ns: u64) -> u64 {
        let bytes = u128::from(ns) * u128::from(self.bits_per_second) / u128::from(8 * NS);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// Memory for queued packets: used and maximum.
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
    /// Its transmission ends at this time.
    Sent(u64),
    /// The queue has no room.
    Full,
    /// The queue has room, but there is no memory. The link's time is not used.
    NoMemory,
}

/// A waiting frame: start of transmission and size.
type Waiting = (u64, u32);
const WAITING_BYTES: u64 = size_of::<Waiting>() as u64;

/// The state of a link.
#[derive(Debug)]
pub(crate) struct Link {
    transmitter: Transmitter,
    limit: Limit,
    /// Waiting frames; only if the limit is in bytes or packets.
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
}

impl Link {
    pub(crate) fn new(config: &Rate) -> Self {
        Self {
            transmitter: Transmitter::new(config),
            limit: Limit::of(config),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    /// Adopts the queue of the link that this one replaces, so that two frames are never sent at the same
    /// time.
    pub(crate) fn after(mut self, before: &Link) -> Self {
        self.transmitter.set_busy_until(before.free_at());
        self.waiting.clone_from(&before.waiting);
        self.waiting_bytes = before.waiting_bytes;
        self
    }

    /// This link, which starts another transmission at `t` at the earliest.
    pub(crate) fn busy_until(mut self, t: u64) -> Self {
        self.transmitter.set_busy_until(t);
        self
    }

    #[inline]
    pub(crate) fn free_at(&self) -> u64 {
        self.transmitter.free_at()
    }

    /// Memory of the table of waiting frames.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.waiting.capacity() as u64 * WAITING_BYTES
    }

    /// Shrinks the table if it is mostly unused at `now`. A table in use is kept, to avoid another
    /// allocation.
    pub(crate) fn tidy(&mut self, now: u64) {
        self.leave_waiting(now);
        let needed = self.waiting.len().max(16);
        if self.waiting.capacity() > 4 * needed {
            self.waiting.shrink_to(2 * needed);
        }
    }

    /// Removes waiting frames whose transmission has started at `t`.
    #[inline]
    fn leave_waiting(&mut self, t: u64) {
        while let Some((start, bytes)) = self.waiting.front().copied()
            && start <= t
        {
            self.waiting.pop_front();
            self.waiting_bytes -= u64::from(bytes);
        }
    }

    /// Makes room for at least one more entry; `false` if there is no memory.
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

    /// Accepts or refuses a frame that arrives at `t` and needs `cost` bytes of `memory` while queued.
    ///
    /// The frame in transmission does not count as waiting. An idle link accepts any frame if there is
    /// memory. A refused frame does not change the link.
    #[inline]
    pub(crate) fn enter(&mut self, t: u64, length: u32, cost: u64, memory: &mut Memory) -> Entry {
        let framed = self.transmitter.framed(length);
        let free_at = self.free_at();
        if t >= free_at {
            if !memory.has_room(cost) {
                return Entry::NoMemory;
            }
            self.transmitter.set_busy_until(t);
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
        self.transmitter.add(framed);
        Entry::Sent(self.free_at())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_model::impairment::Laws;

    /// A link with unlimited memory.
    struct Roomy(Link);

    impl Roomy {
        fn enter(&mut self, t: u64, length: u32) -> Option<u64> {
            let mut memory = Memory { limit_bytes: u64::MAX, ..Memory::default() };
            match self.0.enter(t, length, 0, &mut memory) {
                Entry::Sent(at) => Some(at),
                Entry::Full => None,
                Entry::NoMemory => unreachable!("memory is unlimited"),
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
        // 1500 bytes with the trailer of AAL5 are 1508, in 32 cells of 53: 1696 bytes. One byte more than 32 cells needs a 33rd.
        let atm = "rate 53M overhead 8 cells 48+5";
        assert_eq!(link(atm).enter(0, 1514), Some(256_000));
        assert_eq!(link(atm).enter(0, 14 + 32 * 48 - 8), Some(256_000));
        assert_eq!(link(atm).enter(0, 14 + 32 * 48 - 7), Some(264_000));
        // Thirds of a nanosecond do not add up to an error: 3 · 8·64 bits at 3 Gbit/s are 512 ns.
        let mut third = link("rate 3G queue 1s");
        let times: Vec<_> = (0..3).map(|_| third.enter(0, 60).unwrap()).collect();
        assert_eq!(times, [171, 342, 512]);
    }

    #[test]
    fn the_queue_has_its_configured_limit() {
        let accepted = |text: &str| {
            let mut link = link(text);
            (0..100).filter(|_| link.enter(0, 1496).is_some()).count()
        };
        // Frames of 1500 bytes: one is in transmission, the others wait.
        assert_eq!(accepted("rate 12M queue 9packets"), 10);
        assert_eq!(accepted("rate 12M queue 0packets"), 1);
        assert_eq!(accepted("rate 12M queue 4500"), 4);
        assert_eq!(accepted("rate 12M queue 4499"), 3);
        // 1 ms each: the fifth would wait 4 ms.
        assert_eq!(accepted("rate 12M queue 3ms"), 4);
        // The default is 250 ms, or 16 full frames if that is more.
        assert_eq!(accepted("rate 1M"), 1 + 31_250 / 1500);
        assert_eq!(accepted("rate 20k"), 1 + 16 * 1518 / 1500);
    }

    #[test]
    fn the_queue_empties() {
        let mut link = link("rate 12M queue 1packets");
        assert_eq!(link.enter(0, 1496), Some(1_000_000));
        assert_eq!(link.enter(0, 1496), Some(2_000_000));
        assert_eq!(link.enter(999_999, 1496), None);
        // The transmission of the second starts at 1 ms, so that it no longer waits.
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
    fn a_frame_refused_for_memory_does_not_use_the_link() {
        let Roomy(mut link) = link("rate 12M queue 1T");
        let mut memory = Memory { limit_bytes: 100_000, ..Memory::default() };
        assert_eq!(link.enter(0, 1496, 100, &mut memory), Entry::Sent(1_000_000));
        // First no memory for the frame, then none for the queue's table.
        assert_eq!(link.enter(0, 1496, 100_001, &mut memory), Entry::NoMemory);
        assert_eq!(link.enter(0, 1496, 100_000, &mut memory), Entry::NoMemory);
        assert_eq!(link.enter(5_000_000, 1496, 100_001, &mut memory), Entry::NoMemory);
        assert_eq!(link.enter(0, 1496, 100, &mut memory), Entry::Sent(2_000_000));
        assert_eq!((memory.used_bytes, memory.tables_bytes), (64, 64));
        let accepted_frames = (0..100_000)
            .filter(|_| matches!(link.enter(0, 1496, 100, &mut memory), Entry::Sent(_)))
            .count();
        // The table doubles while that leaves room: 4096 entries of 16 bytes.
        assert_eq!(
            (accepted_frames, memory.tables_bytes, link.table_bytes()),
            (4095, 65_536, 65_536)
        );
        link.tidy(4_000_000_000);
        assert!(link.waiting.len() < 200 && link.table_bytes() < 4096);
        assert_eq!(link.enter(4_097_000_000, 1496, 100, &mut memory), Entry::Sent(4_098_000_000));
    }

    #[test]
    fn times_saturate_without_overflow() {
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
            let mut accepted_frames = 0;
            for _ in 0..n {
                if let Some(departure) = link.enter(0, 1496) {
                    last = departure;
                    accepted_frames += 1;
                }
            }
            let exact = (u128::from(accepted_frames as u64) * 1500 * 8_000_000_000).div_ceil(u128::from(rate));
            prop_assert_eq!(u128::from(last), exact);
        }
    }
}
