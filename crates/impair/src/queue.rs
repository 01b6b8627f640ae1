//! A link of a limited rate with a queue, and a policer. Their arithmetic is in integers: no packet is sent even a
//! nanosecond too early, and rounding errors do not accumulate.

use std::collections::VecDeque;

use weir_laws::Draws;
use weir_model::impairment::{
    Colour, DeliveryTrace, Framing, OPPORTUNITY_BYTES, Police, QueueLimit, Rate, RunningBackground,
};

use crate::counters::Peaks;

/// Bytes of an untagged Ethernet header, which a rate does not count: its framing has the link's own.
pub const ETHERNET_HEADER: u32 = 14;
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

/// A time that frames move on, by the time that each takes at a rate.
#[derive(Clone, Debug)]
struct Meter {
    bits_per_second: u64,
    /// This many ns and `part`/rate of one.
    ns: u64,
    part: u64,
}

impl Meter {
    fn new(bits_per_second: u64) -> Self {
        // A checked configuration has 1 or more.
        Self { bits_per_second: bits_per_second.max(1), ns: 0, part: 0 }
    }

    fn set(&mut self, t: u64) {
        self.ns = t;
        self.part = 0;
    }

    /// The time, rounded up.
    #[inline]
    fn time(&self) -> u64 {
        self.ns.saturating_add(u64::from(self.part > 0))
    }

    /// Moves on by a frame of this many bytes on the link.
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
        self.ns = self.ns.saturating_add(whole);
        self.part = part;
    }

    /// Time that bytes take at the rate.
    fn time_of(&self, bytes: u64) -> u64 {
        let ns = u128::from(bytes) * u128::from(8 * NS) / u128::from(self.bits_per_second);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Bytes that the rate carries in a time.
    fn bytes_in(&self, ns: u64) -> u64 {
        let bytes = u128::from(ns) * u128::from(self.bits_per_second) / u128::from(8 * NS);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// The burst of a shaper, a token bucket as a time (the virtual scheduling of ITU-T I.371, appendix I): frames leave ahead of the time
/// at which a link of the rate would have sent them, by the time that the rate needs for a burst at most.
#[derive(Clone, Debug)]
struct Burst {
    ns: u64,
    peak: Option<Meter>,
}

/// The delivery opportunities of a link. One at time t is for frames that arrived before t; its unused bytes are lost.
#[derive(Clone, Debug)]
pub(crate) struct Opportunities {
    trace: DeliveryTrace,
    /// When the trace starts; absent before.
    start_ns: Option<u64>,
    /// Number of the first opportunity that is not used up, and the bytes of it that are used.
    next: u64,
    used: u32,
    /// No frame leaves by this time: when the link before this one is free.
    after_ns: u64,
    /// Whether a frame was refused because the trace ends before it would have left: no later one passes it.
    has_ended: bool,
}

impl Opportunities {
    fn new(trace: &DeliveryTrace) -> Self {
        Self {
            trace: trace.clone(),
            start_ns: None,
            next: 0,
            used: 0,
            after_ns: 0,
            has_ended: false,
        }
    }

    /// Time of an opportunity; `u64::MAX` if there is none.
    #[inline]
    fn time(&self, number: u64) -> u64 {
        let ns = self.trace.at_ns(number);
        ns.map_or(u64::MAX, |ns| self.start_ns.unwrap_or(0).saturating_add(ns))
    }

    /// When a frame that arrives at `t` starts to leave; `u64::MAX` if it never does.
    #[inline]
    fn start(&mut self, t: u64) -> u64 {
        let start_ns = *self.start_ns.get_or_insert(t);
        let t = t.max(self.after_ns);
        if self.time(self.next) <= t {
            self.next = match t.checked_sub(start_ns) {
                Some(elapsed_ns) => self.trace.first_after(elapsed_ns).max(self.next),
                None => self.next,
            };
            self.used = 0;
        }
        self.time(self.next)
    }

    /// The opportunity in which the last of further `bytes` leaves if none is lost, and the bytes of it that are used then.
    #[inline]
    fn after(&self, bytes: u64) -> (u64, u32) {
        let used = u64::from(self.used).saturating_add(bytes).max(1);
        let size = u64::from(OPPORTUNITY_BYTES);
        let further = (used - 1) / size;
        (self.next.saturating_add(further), (used - further * size) as u32)
    }

    /// Sends a frame that arrives at `t`; returns when its last byte leaves.
    #[inline]
    fn send(&mut self, t: u64, framed: u32) -> u64 {
        self.start(t);
        let (number, used) = self.after(framed.into());
        let leaves = self.time(number);
        (self.next, self.used) =
            if used == OPPORTUNITY_BYTES { (number + 1, 0) } else { (number, used) };
        leaves
    }
}

/// How frames leave a link.
#[derive(Clone, Debug)]
enum Pace {
    /// One after the other, each in its time of transmission.
    Link,
    /// As long as there are tokens.
    Shaper(Burst),
    /// At delivery opportunities.
    Trace(Box<Opportunities>),
}

/// The transmitter of a link.
#[derive(Clone, Debug)]
pub(crate) struct Transmitter {
    framing: Framing,
    /// End of transmission of all accepted frames. With a burst: when the bucket will be full. With a trace its rate is the mean.
    busy_until: Meter,
    pace: Pace,
}

impl Transmitter {
    pub(crate) fn new(config: &Rate) -> Self {
        let busy_until = Meter::new(config.bits.mean().0);
        let pace = match (config.bits.trace(), config.burst) {
            (Some(trace), _) => Pace::Trace(Box::new(Opportunities::new(trace))),
            (None, Some(burst)) => Pace::Shaper(Burst {
                ns: busy_until.time_of(burst.0),
                peak: config.peak.map(|peak| Meter::new(peak.0)),
            }),
            (None, None) => Pace::Link,
        };
        Self { framing: config.framing(), busy_until, pace }
    }

    /// Starts another transmission at `t` at the earliest, then without tokens for a burst if that is later than `now`.
    pub(crate) fn start_after(&mut self, t: u64, now: u64) {
        self.busy_until.set(t);
        match &mut self.pace {
            Pace::Link => {}
            Pace::Shaper(Burst { ns, peak }) => {
                self.busy_until.set(t.saturating_add(if t > now { *ns } else { 0 }));
                if let Some(peak) = peak {
                    peak.set(t);
                }
            }
            Pace::Trace(trace) => trace.after_ns = t,
        }
    }

    /// Starts the trace, if there is one that has not started.
    pub(crate) fn start_trace(&mut self, now: u64) {
        if let Pace::Trace(trace) = &mut self.pace {
            trace.start_ns.get_or_insert(now);
        }
    }

    /// Continues the trace of the transmitter that this one replaces, if it is the same trace.
    pub(crate) fn continue_trace(&mut self, before: &Transmitter) {
        if let (Pace::Trace(own), Pace::Trace(before)) = (&mut self.pace, &before.pace)
            && own.trace == before.trace
        {
            **own = Opportunities { after_ns: own.after_ns, ..Opportunities::clone(before) };
        }
    }

    /// When the last frame has been sent, and another transmission can start on a link without a trace.
    #[inline]
    pub(crate) fn free_at(&self) -> u64 {
        let end = self.busy_until.time();
        match &self.pace {
            Pace::Link | Pace::Trace(_) => end,
            Pace::Shaper(Burst { ns, peak }) => {
                end.saturating_sub(*ns).max(peak.as_ref().map_or(0, Meter::time))
            }
        }
    }

    /// When the transmission of a frame that arrives at `t` starts, behind all others; `free_at` is [`free_at`](Self::free_at).
    /// `u64::MAX` if it never does.
    #[inline]
    fn start(&mut self, t: u64, free_at: u64) -> u64 {
        match &mut self.pace {
            Pace::Link | Pace::Shaper(_) => t.max(free_at),
            Pace::Trace(trace) => trace.start(t),
        }
    }

    /// When the link sends the next of its waiting frames, after those that it has sent by `t`.
    pub(crate) fn next_start(&mut self, t: u64) -> u64 {
        let free_at = self.free_at();
        match &mut self.pace {
            Pace::Link | Pace::Shaper(_) => free_at,
            Pace::Trace(trace) => trace.start(t),
        }
    }

    /// Whether a waiting frame can be sent at `t`. `has_waited`: as [`send`](Self::send).
    pub(crate) fn is_ready(&self, t: u64, has_waited: bool) -> bool {
        match &self.pace {
            Pace::Link | Pace::Shaper(_) => self.free_at() <= t,
            Pace::Trace(trace) => has_waited && trace.time(trace.next) <= t,
        }
    }

    /// Sends a waiting frame at `t`, when the link [is ready](Self::is_ready); returns when its transmission ends.
    pub(crate) fn serve(&mut self, t: u64, framed: u32, has_waited: bool) -> u64 {
        // The frame arrived before its opportunity.
        let t = if let Pace::Trace(_) = self.pace { t.saturating_sub(1) } else { t };
        self.send(t, framed, has_waited)
    }

    /// Whether the trace ends before the last of `bytes` that wait would leave.
    pub(crate) fn never_leaves(&mut self, bytes: u64) -> bool {
        match &mut self.pace {
            Pace::Link | Pace::Shaper(_) => false,
            Pace::Trace(trace) => {
                trace.has_ended |= trace.time(trace.after(bytes).0) == u64::MAX;
                trace.has_ended
            }
        }
    }

    /// Bytes of a frame on the link.
    #[inline]
    pub(crate) fn framed(&self, length: u32) -> u32 {
        self.framing.bytes(i64::from(length) - i64::from(ETHERNET_HEADER))
    }

    /// Sends a frame that arrives at `t`; returns when its transmission ends. `has_waited`: it starts exactly when the one before
    /// ended, which may be a part of a nanosecond before [`free_at`](Self::free_at).
    #[inline]
    pub(crate) fn send(&mut self, t: u64, framed: u32, has_waited: bool) -> u64 {
        match &mut self.pace {
            Pace::Link => {}
            Pace::Shaper(_) => return self.send_shaped(t, framed, has_waited),
            Pace::Trace(trace) => {
                let leaves = trace.send(t, framed);
                self.busy_until.set(leaves);
                return leaves;
            }
        }
        if !has_waited {
            self.busy_until.set(t);
        }
        self.busy_until.add(framed);
        self.busy_until.time()
    }

    /// As [`send`](Self::send), with a burst.
    #[cold]
    fn send_shaped(&mut self, t: u64, framed: u32, has_waited: bool) -> u64 {
        let Pace::Shaper(Burst { ns, peak }) = &mut self.pace else { return t };
        let peak_end = peak.as_ref().map_or(0, Meter::time);
        let earliest = t.max(peak_end);
        if earliest >= self.busy_until.time() {
            // The bucket is full.
            self.busy_until.set(earliest);
        }
        self.busy_until.add(framed);
        let has_tokens_at = self.busy_until.time().saturating_sub(*ns);
        let start = earliest.max(has_tokens_at);
        let Some(peak) = peak else { return start };
        if !has_waited || start > peak_end {
            peak.set(start);
        }
        peak.add(framed);
        peak.time()
    }

    /// For how long a frame would wait from `t` on behind `bytes` that wait.
    pub(crate) fn wait(&self, t: u64, bytes: u64) -> u64 {
        match &self.pace {
            Pace::Link | Pace::Shaper(_) => {
                self.free_at().saturating_sub(t).saturating_add(self.time_of(bytes))
            }
            Pace::Trace(_) => self.ends(bytes).saturating_sub(t),
        }
    }

    /// When `bytes` that wait will have been sent.
    pub(crate) fn ends(&self, bytes: u64) -> u64 {
        match &self.pace {
            Pace::Trace(trace) if bytes > 0 => trace.time(trace.after(bytes).0),
            _ => self.free_at().saturating_add(self.time_of(bytes)),
        }
    }

    /// Time that bytes take on the link.
    fn time_of(&self, bytes: u64) -> u64 {
        self.busy_until.time_of(bytes)
    }

    /// Bytes that the link carries in a time.
    pub(crate) fn bytes_in(&self, ns: u64) -> u64 {
        self.busy_until.bytes_in(ns)
    }
}

/// A token bucket. Tokens are in units of 10⁻⁹ bit, so that the gain of a nanosecond is the rate.
#[derive(Clone, Debug)]
struct Bucket {
    bits_per_second: u64,
    size: u64,
    tokens: u64,
}

impl Bucket {
    /// A full bucket of up to 1 GiB, as a checked configuration has.
    fn new(bits_per_second: u64, bytes: u64) -> Self {
        let size = bytes.saturating_mul(8 * NS);
        Self { bits_per_second, size, tokens: size }
    }

    /// Adds the tokens of a time, and returns those for which there is no room.
    #[inline]
    fn fill(&mut self, ns: u64) -> u64 {
        self.add(ns.saturating_mul(self.bits_per_second))
    }

    #[inline]
    fn add(&mut self, tokens: u64) -> u64 {
        let added = tokens.min(self.size - self.tokens);
        self.tokens += added;
        tokens - added
    }
}

/// The second bucket of a policer.
#[derive(Clone, Debug)]
enum Second {
    None,
    /// Filled by what the first has no room for (RFC 2697).
    Excess(Bucket),
    /// Filled at a rate of its own (RFC 2698).
    Peak(Bucket),
}

/// A policer: token buckets that find the colour of packets.
#[derive(Clone, Debug)]
pub(crate) struct Policer {
    pub(crate) config: Police,
    framing: Framing,
    committed: Bucket,
    second: Second,
    /// The time up to which the buckets are filled.
    filled_ns: u64,
}

impl Policer {
    pub(crate) fn new(config: &Police) -> Self {
        let second = match (config.excess_burst, config.peak_bits, config.peak_burst) {
            (Some(excess), ..) => Second::Excess(Bucket::new(0, excess.0)),
            (None, Some(peak), Some(burst)) => Second::Peak(Bucket::new(peak.0, burst.0)),
            _ => Second::None,
        };
        Self {
            config: config.clone(),
            framing: config.framing(),
            committed: Bucket::new(config.bits.0, config.burst.0),
            second,
            filled_ns: 0,
        }
    }

    /// The colour of a frame that arrives at `t` in another one; it takes the tokens of its colour.
    #[inline]
    pub(crate) fn colour(&mut self, t: u64, length: u32, before: Colour) -> Colour {
        let elapsed_ns = t.saturating_sub(self.filled_ns);
        self.filled_ns = self.filled_ns.max(t);
        let left = self.committed.fill(elapsed_ns);
        let needed = u64::from(self.framing.bytes(i64::from(length) - i64::from(ETHERNET_HEADER)));
        let needed = needed.saturating_mul(8 * NS);
        let is_green = before == Colour::Green && self.committed.tokens >= needed;
        match &mut self.second {
            Second::None if is_green => {}
            Second::None => return Colour::Red,
            Second::Excess(excess) => {
                excess.add(left);
                if !is_green {
                    if before == Colour::Red || excess.tokens < needed {
                        return Colour::Red;
                    }
                    excess.tokens -= needed;
                    return Colour::Yellow;
                }
            }
            Second::Peak(peak) => {
                peak.fill(elapsed_ns);
                if before == Colour::Red || peak.tokens < needed {
                    return Colour::Red;
                }
                peak.tokens -= needed;
                if !is_green {
                    return Colour::Yellow;
                }
            }
        }
        self.committed.tokens -= needed;
        Colour::Green
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
    pub(crate) transmitter: Transmitter,
    limit: Limit,
    /// Waiting frames; only if the limit is in bytes or packets.
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    /// For how long the last frame waits.
    wait_ns: u64,
    /// Other traffic.
    background: Option<Box<RunningBackground>>,
}

impl Link {
    pub(crate) fn new(config: &Rate) -> Self {
        Self {
            transmitter: Transmitter::new(config),
            limit: Limit::of(config),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            wait_ns: 0,
            background: config
                .background
                .as_ref()
                .map(|background| Box::new(background.start(config.bits.mean(), config.framing()))),
        }
    }

    /// Adopts the queue of the link that this one replaces, so that two frames are never sent at the same
    /// time.
    pub(crate) fn after(mut self, before: &Link, now: u64) -> Self {
        self.transmitter.start_after(before.free_at(), now);
        self.waiting.clone_from(&before.waiting);
        self.waiting_bytes = before.waiting_bytes;
        if let (Some(own), Some(before)) = (&mut self.background, &before.background) {
            **own = RunningBackground::clone(own).after(before);
        }
        self
    }

    /// This link, which starts another transmission at `t` at the earliest.
    pub(crate) fn busy_until(mut self, t: u64, now: u64) -> Self {
        self.transmitter.start_after(t, now);
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
        self.admit(t, self.transmitter.framed(length), cost, memory)
    }

    /// Whether the frame that entered last waits.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        self.wait_ns > 0
    }

    /// Notes the queue that the frame that entered last has joined.
    #[inline]
    pub(crate) fn note_queue(&self, peaks: &mut Peaks) {
        let [packets, bytes, wait_ns] =
            [self.waiting.len() as u64, self.waiting_bytes, self.wait_ns];
        // Most queues are not the longest.
        if packets > peaks.queue_packets
            || bytes > peaks.queue_bytes
            || wait_ns > peaks.queue_wait_ns
        {
            peaks.queue_packets = peaks.queue_packets.max(packets);
            peaks.queue_bytes = peaks.queue_bytes.max(bytes);
            peaks.queue_wait_ns = peaks.queue_wait_ns.max(wait_ns);
        }
    }

    /// Whether there is other traffic.
    #[inline]
    pub(crate) fn has_background(&self) -> bool {
        self.background.is_some()
    }

    /// Accepts or refuses the packets of other traffic that come by `t`. They need memory for the queue's table alone.
    #[cold]
    pub(crate) fn pass_background(&mut self, t: u64, draws: &Draws, memory: &mut Memory) {
        let Some(mut background) = self.background.take() else { return };
        let framed = background.framed();
        while let Some(burst) = background.next_burst(t, draws) {
            for _ in 0..burst.packets {
                self.admit(burst.at_ns, framed, 0, memory);
            }
        }
        self.background = Some(background);
    }

    /// As [`enter`](Self::enter), for a frame of this many bytes on the link.
    #[inline]
    fn admit(&mut self, t: u64, framed: u32, cost: u64, memory: &mut Memory) -> Entry {
        let free_at = self.free_at();
        let start = self.transmitter.start(t, free_at);
        if start <= t {
            if !memory.has_room(cost) {
                return Entry::NoMemory;
            }
            self.waiting.clear();
            self.waiting_bytes = 0;
        } else {
            if !matches!(self.limit, Limit::Time(_)) {
                self.leave_waiting(t);
            }
            let room = match self.limit {
                // On a link with a trace, which any frame waits for.
                _ if t >= free_at => true,
                Limit::Time(most) => start - t <= most,
                Limit::Bytes(most) => self.waiting_bytes + u64::from(framed) <= most,
                Limit::Packets(most) => self.waiting.len() < most,
            };
            if !room || self.transmitter.never_leaves(framed.into()) {
                return Entry::Full;
            }
            if !memory.has_room(cost) {
                return Entry::NoMemory;
            }
            if !matches!(self.limit, Limit::Time(_)) {
                if self.waiting.len() == self.waiting.capacity() && !self.grow(cost, memory) {
                    return Entry::NoMemory;
                }
                self.waiting.push_back((start, framed));
                self.waiting_bytes += u64::from(framed);
            }
        }
        self.wait_ns = start.saturating_sub(t);
        Entry::Sent(self.transmitter.send(t, framed, t < free_at))
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
        let mut new = Roomy(link("rate 24M").0.after(&old.0, 0));
        assert_eq!(new.enter(0, 1496), Some(1_500_000));
    }

    /// Departures of frames of 1500 bytes on the link, which take 1 ms at 12 Mbit/s, in µs.
    fn departures(link: &mut Roomy, t: u64, frames: usize) -> Vec<u64> {
        (0..frames).map(|_| link.enter(t, 1496).unwrap() / 1000).collect()
    }

    #[test]
    fn a_shaper_sends_a_burst_and_then_its_rate() {
        let mut shaper = link("rate 12M burst 4500");
        assert_eq!(departures(&mut shaper, 0, 5), [0, 0, 0, 1000, 2000]);
        // The bucket is full at 5 ms.
        assert_eq!(departures(&mut shaper, 4_000_000, 4), [4000, 4000, 5000, 6000]);
        assert_eq!(departures(&mut shaper, 50_000_000, 4), [50_000, 50_000, 50_000, 51_000]);
        // A packet longer than the bucket waits for the rest of its tokens.
        assert_eq!(departures(&mut link("rate 12M burst 600"), 0, 3), [600, 1600, 2600]);
    }

    #[test]
    fn a_peak_rate_limits_the_burst() {
        let mut shaper = link("rate 12M burst 4500 peak 120M");
        assert_eq!(departures(&mut shaper, 0, 5), [100, 200, 300, 1100, 2100]);
        assert_eq!(departures(&mut shaper, 50_000_000, 2), [50_100, 50_200]);
    }

    #[test]
    fn a_burst_does_not_wait_in_the_queue() {
        let accepted = |text: &str| {
            let mut link = link(text);
            (0..100).filter(|_| link.enter(0, 1496).is_some()).count()
        };
        // Three leave immediately, one is next, two wait.
        assert_eq!(accepted("rate 12M burst 4500 queue 2packets"), 6);
        assert_eq!(accepted("rate 12M burst 4500 queue 3000"), 6);
        assert_eq!(accepted("rate 12M burst 4500 queue 2ms"), 6);
    }

    #[test]
    fn a_new_shaper_has_no_burst_until_the_old_queue_is_empty() {
        let mut old = link("rate 12M");
        old.enter(0, 1496);
        let new = "rate 24M burst 4500".parse::<Laws>().unwrap().rate.unwrap();
        let after = |now| Roomy(Link::new(&new).after(&old.0, now));
        assert_eq!(departures(&mut after(0), 0, 2), [1500, 2000]);
        assert_eq!(departures(&mut after(9_000_000), 9_000_000, 4), [9000, 9000, 9000, 9500]);
    }

    fn conforms(policer: &mut Policer, t: u64, length: u32) -> bool {
        policer.colour(t, length, Colour::Green) == Colour::Green
    }

    fn policer(text: &str) -> Policer {
        Policer::new(&text.parse::<Laws>().unwrap().police.unwrap())
    }

    #[test]
    fn a_policer_drops_what_exceeds_rate_and_burst() {
        let mut policer = policer("police 12M burst 4500");
        let mut conforming = |t: u64| (0..5).filter(|_| conforms(&mut policer, t, 1496)).count();
        assert_eq!(conforming(0), 3);
        // A dropped packet takes no tokens: there are enough again after exactly 1 ms.
        assert_eq!(conforming(999_999), 0);
        assert_eq!(conforming(1_000_000), 1);
        assert_eq!(conforming(3_500_000), 2);
        assert_eq!(conforming(60_000_000), 3);
        // An earlier stamp finds the tokens of that time or fewer.
        assert_eq!(conforming(59_000_000), 0);
    }

    #[test]
    fn a_policer_never_passes_a_packet_longer_than_its_burst() {
        let mut policer = policer("police 12M burst 1499");
        assert!((0..9).all(|second| !conforms(&mut policer, second * NS, 1496)));
        assert!(conforms(&mut policer, 0, 1495));
    }

    /// Colours of frames of 1000 bytes on the link, as letters; `times` in ms.
    fn colours(policer: &mut Policer, times: &[u64], before: Colour) -> String {
        let letter = |colour| match colour {
            Colour::Green => 'g',
            Colour::Yellow => 'y',
            Colour::Red => 'r',
        };
        times.iter().map(|ms| letter(policer.colour(ms * 1_000_000, 996, before))).collect()
    }

    #[test]
    fn a_single_rate_marker_fills_its_second_bucket_with_what_the_first_spills() {
        // RFC 2697: 1 byte in a microsecond, buckets of 2000 and 3000 bytes.
        let marker = || policer("police 8M burst 2000 excess 3000");
        assert_eq!(colours(&mut marker(), &[0; 7], Colour::Green), "ggyyyrr");
        // After 1 ms the first has a frame; the second has none until the first is full, 3 ms later.
        let mut one = marker();
        colours(&mut one, &[0; 7], Colour::Green);
        assert_eq!(colours(&mut one, &[1, 1], Colour::Green), "gr");
        assert_eq!(colours(&mut one, &[3, 3, 3], Colour::Green), "ggr");
        assert_eq!(colours(&mut one, &[6, 6, 6, 6], Colour::Green), "ggyr");
        // Color-aware: yellow frames take tokens of the second alone, red ones none.
        let mut one = marker();
        assert_eq!(colours(&mut one, &[0; 4], Colour::Yellow), "yyyr");
        assert_eq!(colours(&mut one, &[0], Colour::Red), "r");
        assert_eq!(colours(&mut one, &[0; 3], Colour::Green), "ggr");
    }

    #[test]
    fn a_two_rate_marker_takes_tokens_of_both_buckets() {
        // RFC 2698: 1 byte and 2 bytes in a microsecond, buckets of 2000 and 3000 bytes.
        let marker = || policer("police 8M burst 2000 peak 16M peak-burst 3000");
        assert_eq!(colours(&mut marker(), &[0; 4], Colour::Green), "ggyr");
        let mut one = marker();
        colours(&mut one, &[0; 4], Colour::Green);
        // After 1 ms there are tokens for one green frame and one more within the peak rate; after that no more.
        assert_eq!(colours(&mut one, &[1, 1, 1], Colour::Green), "gyr");
        assert_eq!(colours(&mut one, &[2, 2, 2], Colour::Green), "gyr");
        // A red frame takes no tokens, a yellow one those of the peak rate alone.
        let mut one = marker();
        assert_eq!(colours(&mut one, &[0; 2], Colour::Red), "rr");
        assert_eq!(colours(&mut one, &[0; 2], Colour::Yellow), "yy");
        assert_eq!(colours(&mut one, &[0; 2], Colour::Green), "gr");
        // Tokens of the first bucket that a frame beyond the peak rate did not take.
        assert_eq!(colours(&mut one, &[1, 1, 1], Colour::Green), "ggr");
    }

    /// A token bucket in units of 10⁻⁹ bit, in which the time since the start is a number as well: ns · rate.
    struct Tokens {
        rate: u128,
        size: u128,
        tokens: u128,
        at: u128,
    }

    impl Tokens {
        fn new(rate: u64, burst: u64) -> Self {
            let size = u128::from(burst) * u128::from(8 * NS);
            Self { rate: rate.into(), size, tokens: size, at: 0 }
        }

        fn fill(&mut self, at: u128) {
            self.tokens = self.size.min(self.tokens + (at - self.at));
            self.at = at;
        }

        /// When a frame leaves a shaper, ns.
        fn leaves(&mut self, t: u64, framed: u32) -> u64 {
            self.fill(self.at.max(u128::from(t) * self.rate));
            let needed = u128::from(framed) * u128::from(8 * NS);
            self.at += needed.saturating_sub(self.tokens);
            self.tokens = self.tokens.saturating_sub(needed);
            self.at.div_ceil(self.rate) as u64
        }

        fn conforms(&mut self, t: u64, framed: u32) -> bool {
            self.fill(u128::from(t) * self.rate);
            let needed = u128::from(framed) * u128::from(8 * NS);
            let conforms = needed <= self.tokens;
            self.tokens -= if conforms { needed } else { 0 };
            conforms
        }
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

        #[test]
        fn shaper_and_policer_are_token_buckets(
            rate in 1_000u64..20_000_000_000,
            burst in 1u64..200_000,
            frames in prop::collection::vec((0u64..3_000_000, 14u32..9014), 2..60),
        ) {
            let mut shaper = link(&format!("rate {rate} burst {burst} queue 1h"));
            let mut policer = policer(&format!("police {rate} burst {burst}"));
            let (mut waits, mut drops) = (Tokens::new(rate, burst), Tokens::new(rate, burst));
            let mut t = 0;
            for (gap, length) in frames {
                t += gap;
                prop_assert_eq!(conforms(&mut policer, t, length), drops.conforms(t, length + 4));
                if let Some(departure) = shaper.enter(t, length) {
                    let exact = waits.leaves(t, length + 4);
                    // The time of the burst is rounded down, so that no frame is early.
                    prop_assert!((exact..=exact + 1).contains(&departure), "{departure} {exact}");
                }
            }
        }
    }
}
