//! The receiving side of one datagram flow: how arrivals are accounted for.
//!
//! Sequence accounting is exact for datagrams with 64-bit numbers. Narrow numbers are extended by nearest match; once
//! that may have gone wrong, only the number of datagrams is accounted for. Times are those of packets that crossed
//! individually; a coalesced message has one arrival time, so that it counts as one batch.

mod elsewhere;
mod membership;
mod report;
mod returned;

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_model::plan::{Direction, FlowSpec};
use weir_model::progress::EchoInterval;
use weir_model::record::{
    Crossing, Delay, DelayVariation, EcnCounts, Histogram, IntervalCount, Receiver,
};
use weir_stats::{
    Arrival, DayUnwrapper, DelaySummary, Ipdv, Jitter, SequenceConfig, SequenceExtender,
    SequenceSummary, SequenceTracker, Time32Unwrapper,
};
use weir_wire::header::{
    Carries, Codec, DecodeError, Epoch, Header, SendTime, TagKey, Tags, WithCodec,
};
use weir_wire::packets;

use crate::drain::Drain;
use crate::intervals::{IntervalClock, IntervalLog};
use crate::payload::{PayloadRing, bit_errors};
use crate::sizes::Sizes;

/// Memory of all flows of a session for what arrives out of order: twice this, for numbers and for delays.
const REORDERING_BYTES: usize = 64 << 20;
/// Share of a flow among very many: numbers of 131 072 packets, and 1024 delays.
const MIN_REORDERING_BYTES: usize = 16 << 10;

pub use elsewhere::{Counted, Stated};
pub use membership::MembershipReport;
pub use report::delay_record;
pub(crate) use report::{set_loss_periods, set_reordering};
use returned::Returned;

/// The sender's clock as seen from the receiver: sender minus receiver, linear in the receiver's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderClock {
    /// Offset at the reference, ns.
    pub offset_ns: i64,
    /// Drift, parts per billion.
    pub skew_ppb: i64,
    /// Receiver's time of the offset.
    pub reference_ns: u64,
    /// Bound of the error.
    pub error_ns: u64,
}

impl SenderClock {
    #[inline]
    fn offset_at(&self, receiver_ns: u64) -> i64 {
        if self.skew_ppb == 0 {
            return self.offset_ns;
        }
        let elapsed = receiver_ns.wrapping_sub(self.reference_ns) as i64;
        self.offset_ns + (i128::from(elapsed) * i128::from(self.skew_ppb) / 1_000_000_000) as i64
    }
}

/// Counts of one interval.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ReceiveCount {
    /// Payload bytes of unique datagrams.
    pub bytes: u64,
    /// Unique datagrams.
    pub packets: u64,
    /// Copies.
    pub duplicates: u64,
    /// Late datagrams.
    pub late: u64,
    /// Payload bytes of copies and late datagrams.
    pub repeated_bytes: u64,
    /// Reordered.
    pub reordered: u64,
    /// Corrupted.
    pub corrupted: u64,
    /// Corrupted datagrams whose header was unreadable.
    pub unreadable: u64,
    /// Datagrams refused for their implausible number.
    pub implausible: u64,
    /// Sum of delays, ns.
    pub delay_sum_ns: i64,
    /// Number of delays in the sum.
    pub delays: u64,
    /// Jitter at the end, ns.
    pub jitter_ns: Option<f64>,
}

impl ReceiveCount {
    /// The count of one arrival of `size` bytes.
    #[inline]
    pub(crate) fn of(arrival: Arrival, size: u64) -> ReceiveCount {
        let none = ReceiveCount::default();
        let unique = ReceiveCount { packets: 1, bytes: size, ..none };
        match arrival {
            Arrival::InOrder | Arrival::Gap { .. } => unique,
            Arrival::Reordered { .. } => ReceiveCount { reordered: 1, ..unique },
            Arrival::Duplicate => ReceiveCount { duplicates: 1, repeated_bytes: size, ..none },
            Arrival::Late => ReceiveCount { late: 1, repeated_bytes: size, ..none },
            Arrival::Implausible => ReceiveCount { implausible: 1, ..none },
        }
    }

    /// Adds counts; the jitter stays.
    pub(crate) fn add(&mut self, other: &ReceiveCount) {
        self.bytes += other.bytes;
        self.packets += other.packets;
        self.duplicates += other.duplicates;
        self.late += other.late;
        self.repeated_bytes += other.repeated_bytes;
        self.reordered += other.reordered;
        self.corrupted += other.corrupted;
        self.unreadable += other.unreadable;
        self.implausible += other.implausible;
    }

    /// Datagrams with a usable number, copies and late ones included.
    fn arrivals(&self) -> u64 {
        self.packets + self.duplicates + self.late
    }
}

/// Maximum number of arrivals that are stored until the clocks' relation is known.
const MAX_UNRELATED: usize = 8192;

/// The times of one datagram.
#[derive(Clone, Copy)]
struct Timed {
    sequence: u64,
    sent_ns: u64,
    lateness_ns: Option<i32>,
    received_ns: u64,
}

enum Tracking {
    /// No number in the header.
    Counted,
    Narrow(SequenceTracker, SequenceExtender),
    Full(SequenceTracker),
    /// Datagrams with a valid tag are accounted for elsewhere, with these counts so far.
    Elsewhere(Counted),
}

/// The receiving side of one datagram flow.
pub struct Receiving {
    header: Header,
    carries: Carries,
    sizes: Sizes,
    key: TagKey,
    tracking: Tracking,
    /// The number of the first datagram that is expected.
    first_number: u64,
    expected_packets_per_second: f64,
    /// The interval between packets, if it is constant.
    gap_ns: Option<f64>,
    clock: SenderClock,
    /// Whether the relation of the clocks is known.
    related: bool,
    /// Arrivals before that, whose delays are counted once it is known.
    unrelated: Vec<Timed>,
    worst_error_ns: u64,
    unwrapper: Time32Unwrapper,
    days: DayUnwrapper,
    /// What arrives was sent here: its send times are of this clock.
    is_own: bool,
    jitter: Jitter,
    delay: DelaySummary,
    delay_intended: Option<DelaySummary>,
    /// Depth of the jitter buffer of a voice connection, ns.
    jitter_buffer_ns: Option<u64>,
    paced: bool,
    ipdv: Ipdv,
    verify: Option<Arc<PayloadRing>>,
    bit_errors: u64,
    /// Bytes of content that were compared.
    verified_bytes: u64,
    truncated: u64,
    /// Datagrams by the ECN bits that they arrived with.
    ecn: Option<[u64; 4]>,
    /// Sums of all intervals so far, and of the omitted ones.
    sum: ReceiveCount,
    base: ReceiveCount,
    first_ns: Option<u64>,
    last_ns: u64,
    /// Time since the last datagram that had a number, ns.
    quiet_ns: u64,
    messages: u64,
    coalesced_messages: u64,
    user_timed_messages: u64,
    calls: u64,
    omit_pending: bool,
    finished: Option<SequenceSummary>,
    strays: u64,
    sent_total: Option<u64>,
    sent_omitted: u64,
    drain: Option<Drain>,
    start_after_ns: u64,
    sender_end_ns: Option<u64>,
    /// Present if it joins or leaves a group while the flow is sent.
    window: Option<membership::Window>,
    /// Present for the echo of a paced flow.
    returned: Option<Returned>,
    /// Counts by interval.
    pub log: IntervalLog<ReceiveCount>,
}

/// One arrival in the form of the packet log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logged {
    /// Sequence number.
    pub sequence: u64,
    /// Send time on the sender's clock, where carried.
    pub send_ns: Option<u64>,
    /// Kind of arrival.
    pub arrival: Arrival,
    /// Bytes.
    pub size: u32,
    /// Truncated, or with content that differs from what was sent.
    pub damaged: bool,
}

impl Logged {
    /// The record of `weir.packets/1` for an arrival at `at_ns`. `coalesced`: it shares that time with others.
    #[must_use]
    pub fn record(
        &self,
        flow: u32,
        direction: Direction,
        at_ns: u64,
        coalesced: bool,
    ) -> packets::Record {
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        packets::Record {
            sequence: self.sequence,
            time1_ns: self.send_ns,
            time2_ns: Some(at_ns),
            flow,
            size_bytes: self.size,
            copy: u16::from(self.arrival == Arrival::Duplicate),
            kind: match self.arrival {
                Arrival::Duplicate => packets::RecordKind::DUPLICATE,
                Arrival::Late => packets::RecordKind::LATE,
                Arrival::Implausible => packets::RecordKind::CORRUPTED,
                _ => packets::RecordKind::ARRIVED,
            },
            direction: u8::from(direction == Direction::Reverse),
            flags: flag(coalesced, packets::FLAG_COALESCED)
                | flag(self.damaged, packets::FLAG_MODIFIED),
        }
    }
}

impl Receiving {
    /// Limits the memory for what arrives out of order to the share of one of `flows`.
    #[must_use]
    pub fn sharing_memory(mut self, flows: usize) -> Self {
        let bytes = (REORDERING_BYTES / flows.max(1)).max(MIN_REORDERING_BYTES);
        if let Tracking::Full(tracker) | Tracking::Narrow(tracker, _) = &mut self.tracking {
            tracker.limit_window(bytes);
        }
        self.ipdv.limit(bytes / 16);
        self
    }

    /// A receiver for `spec`. `verify`: the ring that payloads are compared with, if requested.
    pub fn new(
        spec: &FlowSpec,
        key: TagKey,
        loss_threshold_ns: u64,
        verify: Option<Arc<PayloadRing>>,
    ) -> Self {
        let sizes = Sizes::received(spec);
        let header = Header::new(spec.connection.header, sizes.min());
        let carries = header.carries();
        let tracker = || {
            SequenceTracker::new(SequenceConfig { loss_threshold_ns, ..SequenceConfig::default() })
        };
        let mut tracking = match carries.sequence_bits {
            0 => Tracking::Counted,
            64 => Tracking::Full(tracker()),
            bits => Tracking::Narrow(tracker(), SequenceExtender::new(bits)),
        };
        let by_bytes = spec.connection.bytes.map(|b| b.0.div_ceil(sizes.min().max(1) as u64));
        if let (Tracking::Full(t) | Tracking::Narrow(t, _), Some(most)) =
            (&mut tracking, spec.connection.packets.into_iter().chain(by_bytes).min())
        {
            t.announce_total(most);
        }
        let rate = spec.peak_packets_per_second();
        let is_even = spec.connection.spacing.is_constant()
            && spec.size.is_constant()
            && spec.connection.rate_schedule.is_none()
            && spec.rate.burst <= 1;
        Receiving {
            header,
            carries,
            sizes,
            key,
            tracking,
            first_number: 0,
            expected_packets_per_second: rate.unwrap_or(0.0),
            gap_ns: rate.filter(|rate| is_even && *rate > 0.0).map(|rate| 1e9 / rate),
            clock: SenderClock::default(),
            related: false,
            unrelated: Vec::new(),
            worst_error_ns: 0,
            unwrapper: Time32Unwrapper::new(0),
            days: DayUnwrapper::default(),
            is_own: false,
            jitter: Jitter::new(),
            delay: DelaySummary::new(),
            delay_intended: None,
            jitter_buffer_ns: spec.connection.jitter_buffer().map(|depth| depth.0),
            paced: rate.is_some(),
            ipdv: Ipdv::new(),
            verify,
            bit_errors: 0,
            verified_bytes: 0,
            truncated: 0,
            ecn: None,
            sum: ReceiveCount::default(),
            base: ReceiveCount::default(),
            first_ns: None,
            last_ns: 0,
            quiet_ns: 0,
            messages: 0,
            coalesced_messages: 0,
            user_timed_messages: 0,
            calls: 0,
            omit_pending: false,
            finished: None,
            strays: 0,
            sent_total: None,
            sent_omitted: 0,
            drain: None,
            start_after_ns: spec.connection.start_after.0,
            sender_end_ns: None,
            window: None,
            returned: None,
            log: IntervalLog::default(),
        }
    }

    /// The same for a flow whose first number is another than that of its header's format. Needs numbers of up to 63 bits.
    #[must_use]
    pub fn with_first_number(self, first_number: u64) -> Self {
        Receiving { first_number, ..self }
    }

    /// The client's receiver of what comes back of the datagrams that it sent itself: of each at most `most_bytes`. Their
    /// delays are round trips, on one clock; `epoch_ns` was added to it for their send times.
    #[must_use]
    pub fn of_echo(mut self, most_bytes: Option<usize>, epoch_ns: u64) -> Self {
        if let Some(most) = most_bytes {
            self.sizes = self.sizes.truncated(most);
        }
        self.jitter_buffer_ns = None;
        self.is_own = true;
        self.returned = self.paced.then(Returned::default);
        self.days = DayUnwrapper::new(epoch_ns as i64);
        self.set_clock(SenderClock { offset_ns: epoch_ns as i64, ..SenderClock::default() });
        self
    }

    /// Sets the intervals, at the start of the test.
    pub fn start(&mut self, clock: IntervalClock) {
        self.omit_pending = clock.omitted() > 0;
        self.log.start(clock);
        if let Tracking::Full(t) | Tracking::Narrow(t, _) = &mut self.tracking {
            t.begins_at(clock.start_ns.saturating_add(self.start_after_ns));
        }
    }

    /// Sets a newer relation of the clocks.
    pub fn set_clock(&mut self, clock: SenderClock) {
        self.clock = clock;
        self.related = true;
        self.unwrapper.set_offset(clock.offset_at(self.last_ns.max(clock.reference_ns)));
        self.worst_error_ns = self.worst_error_ns.max(clock.error_ns);
        for mut early in std::mem::take(&mut self.unrelated) {
            if self.carries.time.is_some_and(|time| time.bits == 32) {
                early.sent_ns = self.unwrapper.unwrap(early.sent_ns as u32, early.received_ns);
            }
            let delay = self.on_delay(&early);
            let interval = self.log.containing_mut(early.received_ns);
            interval.delay_sum_ns = interval.delay_sum_ns.saturating_add(delay);
            interval.delays += 1;
        }
    }

    /// Advances the time: closes intervals and gives up overdue packets.
    pub fn advance(&mut self, now_ns: u64) {
        // Datagrams that arrived before the boundary may still wait in the socket: the caller passes the time up to
        // which it has read.
        while self.log.is_due(now_ns) {
            self.close_interval();
        }
        match &mut self.tracking {
            Tracking::Full(t) | Tracking::Narrow(t, _) => t.advance(now_ns),
            Tracking::Counted | Tracking::Elsewhere(_) => {}
        }
    }

    fn close_interval(&mut self) {
        match &mut self.tracking {
            Tracking::Full(t) | Tracking::Narrow(t, _) => t.mark_interval(self.log.next_end_ns()),
            Tracking::Counted | Tracking::Elsewhere(_) => {}
        }
        let jitter = self.jitter_ns();
        let index = self.log.close(|c| c.jitter_ns = jitter);
        if self.omit_pending && index + 1 == self.log.omitted() {
            self.omit_so_far();
        }
    }

    /// Everything so far belongs to the omitted time: totals start after it.
    fn omit_so_far(&mut self) {
        self.omit_pending = false;
        self.base = self.sum;
        self.delay = DelaySummary::new();
        self.delay_intended = None;
        self.unrelated = Vec::new();
        self.ipdv = Ipdv::new();
        self.bit_errors = 0;
        self.verified_bytes = 0;
        self.truncated = 0;
        self.ecn = self.ecn.map(|_| [0; 4]);
        self.first_ns = None;
    }

    /// Counts system calls that received.
    pub fn called(&mut self, calls: u64) {
        self.calls += calls;
    }

    /// Counts the ECN codepoint of the next message of `datagrams`, which arrived at `at_ns`.
    pub fn note_ecn(&mut self, tos: u8, datagrams: u64, at_ns: u64) {
        // It may be the first one after the omitted time.
        while self.log.is_due(at_ns) {
            self.close_interval();
        }
        self.ecn.get_or_insert_default()[usize::from(tos & 3)] += datagrams;
    }

    /// Notes that the next message has no kernel stamp: its time is that of reading it.
    pub fn timed_by_reading(&mut self) {
        self.user_timed_messages += 1;
    }

    /// The source of arrival times: `kernel`, `user`, or `kernel+user`, or `xdp` of datagrams that a program counts; `None` before the first message.
    pub fn time_source(&self) -> Option<&'static str> {
        match (self.messages, self.user_timed_messages) {
            (0, _) => None,
            _ if matches!(self.tracking, Tracking::Elsewhere(_)) => Some("xdp"),
            (_, 0) => Some("kernel"),
            (all, user) if user >= all => Some("user"),
            _ => Some("kernel+user"),
        }
    }

    /// Accounts for a message from the socket: one datagram, or several of `segment` bytes coalesced by the kernel,
    /// at `now_ns`. `each` is called for every datagram (the packet log).
    pub fn on_message(
        &mut self,
        message: &[u8],
        segment: Option<usize>,
        now_ns: u64,
        mut each: impl FnMut(Logged),
    ) {
        // Kernel stamps of two sockets' queues can step back by microseconds; accounting requires time that doesn't.
        let now_ns = now_ns.max(self.last_ns);
        while self.log.is_due(now_ns) {
            self.close_interval();
        }
        self.first_ns.get_or_insert(now_ns);
        if self.messages > 0 {
            self.quiet_ns = self.quiet_ns.saturating_add(now_ns - self.last_ns);
        }
        self.last_ns = now_ns;
        self.messages += 1;
        let segment = segment.filter(|s| *s > 0 && *s < message.len()).unwrap_or(message.len());
        if segment < message.len() {
            self.coalesced_messages += 1;
        }
        let header = self.header;
        header.dispatch(Message { receiving: self, message, segment, now_ns, each: &mut each });
    }

    /// The datagrams of a message.
    #[inline(always)]
    fn on_datagrams(
        &mut self,
        codec: impl Codec,
        message: &[u8],
        segment: usize,
        now_ns: u64,
        each: &mut impl FnMut(Logged),
    ) {
        if message.is_empty() {
            self.on_datagram(codec, message, now_ns, true, each);
            return;
        }
        let mut first = true;
        let chunks = message.chunks(segment);
        // Consecutive full numbers are accounted for together: the fast path of coalesced receiving.
        if matches!(self.tracking, Tracking::Full(_))
            && self.verify.is_none()
            && self.sizes.is_constant()
            && self.window.is_none()
            && self.returned.is_none()
            && chunks.len() > 1
        {
            self.on_coalesced(codec, message, segment, now_ns, each);
            return;
        }
        for datagram in chunks {
            self.on_datagram(codec, datagram, now_ns, first, each);
            first = false;
        }
    }

    /// Coalesced datagrams with full numbers.
    fn on_coalesced(
        &mut self,
        codec: impl Codec,
        message: &[u8],
        segment: usize,
        now_ns: u64,
        each: &mut impl FnMut(Logged),
    ) {
        let mut run: Option<(u64, u32, u64)> = None;
        let mut timed = false;
        let key = self.key.clone();
        let mut tags = Tags::new(&key);
        for datagram in message.chunks(segment) {
            let Ok(header) = codec.decode(&mut tags, datagram) else {
                self.flush(&mut run, now_ns);
                self.on_datagram(codec, datagram, now_ns, false, each);
                continue;
            };
            let continues = run.is_some_and(|(first, count, _)| {
                first.checked_add(u64::from(count)) == Some(header.sequence)
            });
            if !continues {
                self.flush(&mut run, now_ns);
            }
            // The log has the disposition of each, so only what is in order is counted by the run.
            if datagram.len() != self.sizes.max() || (!continues && self.is_behind(header.sequence))
            {
                self.flush(&mut run, now_ns);
                self.on_datagram(codec, datagram, now_ns, !timed, each);
                timed = true;
                continue;
            }
            if !timed {
                timed = true;
                if let Some(SendTime::Full(sent)) = header.send_time {
                    self.on_time(header.sequence, sent, header.lateness_ns, now_ns);
                }
            }
            let send_ns = match header.send_time {
                Some(SendTime::Full(t)) => Some(t),
                _ => None,
            };
            each(Logged {
                sequence: header.sequence,
                send_ns,
                arrival: Arrival::InOrder,
                size: datagram.len() as u32,
                damaged: false,
            });
            let (first, count, bytes) = run.get_or_insert((header.sequence, 0, 0));
            debug_assert_eq!(first.wrapping_add(u64::from(*count)), header.sequence);
            *count += 1;
            *bytes += datagram.len() as u64;
        }
        self.flush(&mut run, now_ns);
    }

    /// Whether a number is below one that has arrived.
    fn is_behind(&self, sequence: u64) -> bool {
        matches!(&self.tracking, Tracking::Full(tracker) if sequence < tracker.counts().next)
    }

    fn flush(&mut self, run: &mut Option<(u64, u32, u64)>, now_ns: u64) {
        let Some((first, count, bytes)) = run.take() else { return };
        let Tracking::Full(tracker) = &mut self.tracking else { return };
        let before = tracker.counts().received;
        let arrivals = tracker.on_consecutive(first, count, now_ns);
        let unique = tracker.counts().received - before;
        let each = bytes / u64::from(count);
        self.count(ReceiveCount {
            packets: unique,
            bytes: each * unique,
            duplicates: arrivals.duplicates,
            late: arrivals.late,
            repeated_bytes: each * (arrivals.duplicates + arrivals.late),
            reordered: arrivals.reordered,
            implausible: arrivals.implausible,
            ..ReceiveCount::default()
        });
    }

    fn count(&mut self, counted: ReceiveCount) {
        self.sum.add(&counted);
        self.log.current.add(&counted);
    }

    /// Accounts for one datagram. `timed`: its arrival time is its own.
    fn on_datagram(
        &mut self,
        codec: impl Codec,
        datagram: &[u8],
        now_ns: u64,
        timed: bool,
        each: &mut impl FnMut(Logged),
    ) {
        let header = match codec.decode(&mut Tags::new(&self.key), datagram) {
            Ok(header) => header,
            Err(e) => {
                if matches!(e, DecodeError::Truncated { .. }) {
                    self.truncated += 1;
                }
                let damaged = ReceiveCount { corrupted: 1, unreadable: 1, ..Default::default() };
                self.count(damaged);
                // Its number is not reliable.
                each(Logged {
                    sequence: 0,
                    send_ns: None,
                    arrival: Arrival::Implausible,
                    size: datagram.len() as u32,
                    damaged: true,
                });
                return;
            }
        };
        if matches!(self.tracking, Tracking::Elsewhere(_)) {
            self.strays += 1;
            return;
        }
        let Some(number) = self.counted_number(header.sequence, now_ns) else { return };
        let quiet_ns = std::mem::take(&mut self.quiet_ns);
        let (sequence, arrival) = match &mut self.tracking {
            Tracking::Counted | Tracking::Elsewhere(_) => (self.sum.packets, Arrival::InOrder),
            Tracking::Narrow(t, extender) => {
                let since_last = quiet_ns as f64 / 1e9 * self.expected_packets_per_second;
                let sequence = header.sequence.wrapping_sub(self.first_number);
                let extended = extender.extend(sequence, since_last as u64);
                let arrival = t.on_packet(extended.sequence, now_ns);
                if arrival != Arrival::Implausible {
                    extender.accept(extended);
                }
                (extended.sequence, arrival)
            }
            Tracking::Full(t) => (header.sequence, t.on_packet(number, now_ns)),
        };
        let sent = match header.send_time {
            Some(SendTime::Full(t)) => Some(t),
            Some(SendTime::Low32(low)) => Some(self.unwrapper.unwrap(low, now_ns)),
            Some(SendTime::OfDay(ns)) => Some(self.days.unwrap(ns, now_ns)),
            None => None,
        };
        let expected = self.expected_bytes(sequence);
        let errors = self.damage(sequence, datagram, expected);
        each(Logged {
            sequence,
            send_ns: sent,
            arrival,
            size: datagram.len() as u32,
            damaged: errors.is_some(),
        });
        let size = datagram.len() as u64;
        let none = ReceiveCount::default();
        self.count(ReceiveCount::of(arrival, size));
        if matches!(arrival, Arrival::Duplicate | Arrival::Late | Arrival::Implausible) {
            return;
        }
        if datagram.len() < expected {
            self.truncated += 1;
        }
        if self.verify.is_some() && datagram.len() >= expected {
            self.verified_bytes += expected.saturating_sub(self.carries.bytes) as u64;
        }
        if let Some(errors) = errors {
            self.bit_errors += errors;
            self.count(ReceiveCount { corrupted: 1, ..none });
        }
        let interval = self.sent_in(sent);
        if let Some((index, returned)) = interval.zip(self.returned.as_mut()) {
            returned.count(index);
        }
        if timed && let Some(sent) = sent {
            let number = if self.window.is_some() { number } else { sequence };
            self.on_time(number, sent, header.lateness_ns, now_ns);
        }
    }

    /// Number of wrong bits in a datagram's content; `None` if it is intact. A wrong length is damage too, with no
    /// bits counted if bytes are missing.
    fn damage(&self, sequence: u64, datagram: &[u8], expected: usize) -> Option<u64> {
        if datagram.len() < expected {
            return Some(0);
        }
        let ring = self.verify.as_ref()?;
        let head = self.carries.bytes;
        let content = ring.expected(sequence);
        let errors = bit_errors(&content[head..expected], &datagram[head..expected]);
        (errors > 0 || datagram.len() > expected).then_some(errors)
    }

    /// Bytes of datagram `sequence` as sent; the minimum if its number is uncertain.
    #[inline]
    fn expected_bytes(&self, sequence: u64) -> usize {
        match &self.tracking {
            _ if self.sizes.is_constant() => self.sizes.max(),
            Tracking::Full(_) => self.sizes.at(sequence),
            Tracking::Narrow(_, extender) if !extender.is_ambiguous() => self.sizes.at(sequence),
            _ => self.sizes.min(),
        }
    }

    #[inline]
    fn on_time(&mut self, sequence: u64, sent_ns: u64, lateness_ns: Option<i32>, now_ns: u64) {
        self.jitter.on_packet(sent_ns, now_ns);
        if self.carries.time.is_none_or(|time| time.epoch != Epoch::Monotonic && !self.is_own) {
            return;
        }
        let timed = Timed { sequence, sent_ns, lateness_ns, received_ns: now_ns };
        // The relation of the clocks can arrive after the first datagrams.
        if !self.related {
            if self.unrelated.len() < MAX_UNRELATED {
                self.unrelated.push(timed);
            }
            return;
        }
        let delay = self.on_delay(&timed);
        let interval = self.sent_in(Some(sent_ns));
        if let Some((index, returned)) = interval.zip(self.returned.as_mut()) {
            returned.time(index, delay);
        }
        let sum_ns = &mut self.log.current.delay_sum_ns;
        *sum_ns = sum_ns.saturating_add(delay);
        self.log.current.delays += 1;
    }

    /// The interval in which a datagram of an echo was sent.
    #[inline]
    fn sent_in(&self, sent_ns: Option<u64>) -> Option<usize> {
        self.returned.as_ref()?;
        let sent_here = sent_ns?.wrapping_add_signed(-self.clock.offset_ns);
        Some(self.log.clock()?.index_at(sent_here))
    }

    /// The number of the next interval that [`Receiving::take_echoes`] returns; `None` unless it receives the echo of a
    /// paced flow.
    pub fn next_echoes(&self) -> Option<usize> {
        self.returned.as_ref().map(Returned::next)
    }

    /// What came back of the `sent` datagrams that flow `id` sent in interval [`Receiving::next_echoes`]; `None` while some
    /// have not come back, unless it `is_late`.
    pub fn take_echoes(&mut self, id: u32, sent: u64, is_late: bool) -> Option<EchoInterval> {
        let clock = self.log.clock()?;
        let returned = self.returned.as_mut()?;
        returned.is_ready(sent, is_late).then(|| returned.take(id, sent, &clock))
    }

    /// Counts the one-way delay of a datagram, and returns it in ns.
    #[inline]
    fn on_delay(&mut self, timed: &Timed) -> i64 {
        let offset_ns = self.clock.offset_at(timed.received_ns);
        let sent_here = timed.sent_ns.wrapping_add_signed(-offset_ns);
        let delay = timed.received_ns.wrapping_sub(sent_here) as i64;
        self.delay.record(delay);
        if let Tracking::Full(tracker) | Tracking::Narrow(tracker, _) = &self.tracking {
            self.ipdv.record(timed.sequence, delay, tracker);
        }
        if self.paced
            && let Some(late) = timed.lateness_ns
        {
            self.delay_intended
                .get_or_insert_with(DelaySummary::new)
                .record(delay.saturating_add(i64::from(late)));
        }
        delay
    }

    /// Sets the sender's final count.
    pub fn set_sent_total(&mut self, packets: u64) {
        self.sent_total = Some(packets);
    }

    /// Sets how many packets of the sender's final count are in the omitted time.
    pub fn set_sent_omitted(&mut self, packets: u64) {
        self.sent_omitted = packets;
    }

    /// Sets how long after the start of the test the sender ended: losses at the tail are placed until then.
    pub fn set_sender_end(&mut self, end_offset_ns: u64) {
        let Some(start) = self.log.start_ns() else { return };
        let end = start.saturating_add(end_offset_ns);
        self.sender_end_ns = Some(end);
        let in_group = self.end_in_group(end);
        if let Tracking::Full(t) | Tracking::Narrow(t, _) = &mut self.tracking {
            t.ended_at(in_group);
        }
    }

    /// Whether all that was sent is accounted for, so that waiting longer changes nothing.
    pub fn is_complete(&self) -> bool {
        let sent = match self.sent_while_joined() {
            Some(sent) => sent,
            // Nothing more is known to be awaited.
            None if self.is_membership_unknown() => 0,
            None => return false,
        };
        match &self.tracking {
            Tracking::Full(t) | Tracking::Narrow(t, _) if !self.is_by_count() => {
                t.is_complete(sent)
            }
            Tracking::Elsewhere(_) => self.sum.packets >= sent,
            _ => self.sum.arrivals() >= sent,
        }
    }

    /// The sender has finished: `drain` now limits the wait for the remaining data.
    pub fn drain(&mut self, drain: Drain) {
        self.drain = Some(drain);
    }

    /// Whether everything is accounted for, or the wait for it has ended.
    pub fn is_over(&self, now_ns: u64) -> bool {
        self.is_complete() || self.drain.is_some_and(|d| d.is_over(now_ns, self.last_ns))
    }

    /// Whether only the number of datagrams is certain: they carry no sequence number, or narrow ones whose extension may
    /// have gone wrong, or contradicts the sender's count.
    fn is_by_count(&self) -> bool {
        match &self.tracking {
            Tracking::Counted => true,
            Tracking::Elsewhere(_) => false,
            Tracking::Narrow(t, extender) => {
                let quarter = extender.space() / 4;
                extender.is_ambiguous()
                    || self.sent_total.is_some_and(|sent| {
                        sent < t.counts().next || sent - t.counts().next >= quarter
                    })
            }
            // Without a tag any number is accepted, even one that the sender never reached.
            Tracking::Full(t) => {
                !self.carries.tag && self.sent_total.is_some_and(|sent| sent < t.counts().next)
            }
        }
    }

    /// Ends the flow: missing packets count as lost.
    pub fn finish(&mut self, now_ns: u64) {
        if self.finished.is_some() {
            return;
        }
        // Empty intervals at the end are closed too, until the end of sending.
        while self.log.is_due(now_ns.min(self.last_ns.max(self.sender_end_ns.unwrap_or(0)))) {
            self.close_interval();
        }
        if self.log.current != ReceiveCount::default() || self.log.closed().is_empty() {
            self.close_interval();
        }
        // A test that ended within the omitted time has measured nothing.
        if self.omit_pending {
            self.omit_so_far();
        }
        match &self.tracking {
            Tracking::Full(t) | Tracking::Narrow(t, _) => {
                self.finished = Some(t.clone().finish(self.sent_while_joined(), now_ns))
            }
            Tracking::Counted | Tracking::Elsewhere(_) => {}
        }
    }

    /// Interarrival jitter so far, ns.
    fn jitter_ns(&self) -> Option<f64> {
        match &self.tracking {
            Tracking::Elsewhere(counted) => counted.jitter_ns,
            _ => self.jitter.ns(),
        }
    }

    /// Time of the last arrival, or 0.
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }
}

/// A message of datagrams that share a time of arrival.
struct Message<'a, F> {
    receiving: &'a mut Receiving,
    message: &'a [u8],
    segment: usize,
    now_ns: u64,
    each: &'a mut F,
}

impl<F: FnMut(Logged)> WithCodec for Message<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with<C: Codec>(self, codec: C) {
        self.receiving.on_datagrams(codec, self.message, self.segment, self.now_ns, self.each);
    }
}
