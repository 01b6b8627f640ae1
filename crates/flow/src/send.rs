//! The sending side of one flow, datagrams or stream: what to send next, and what was sent.
//!
//! The caller asks [`Sending::next`], fills and sends, and reports with `sent`; only what the network accepted is
//! counted.

use std::sync::Arc;

use weir_model::plan::{CatchUp, EngineName, FlowSpec, HeaderFormat, TransportName};
use weir_model::record::{IntervalCount, RateChange};
use weir_model::units::SendRate;
use weir_stats::Spacing;
use weir_wire::header::native::FLAG_VERIFY;
use weir_wire::header::{Codec, Header, HeaderFields, TagKey, Tags, WithCodec};

use crate::gaps::Gaps;
use crate::intervals::{IntervalClock, IntervalLog};
use crate::limits::{BusyTimes, Limits};
use crate::pacer::{Due, Pacer};
use crate::payload::{FEW_SEGMENTS, MAX_MESSAGE, PayloadRing, segments_per_message};
use crate::scheduling::{Class, Demand};
use crate::sizes::Sizes;
use crate::supply::Supply;

/// The next action of a sending flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextSend {
    /// Nothing to send before this time.
    At(u64),
    /// Up to this number of packets may be sent now.
    Now(u32),
    /// Finished.
    Done,
}

/// Counts of one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendCount {
    /// Payload bytes.
    pub bytes: u64,
    /// Packets or writes.
    pub packets: u64,
    /// Segments retransmitted in this interval (TCP).
    pub retransmits: Option<u64>,
    /// Transactions completed in this interval, of a flow that has any.
    pub transactions: Option<u64>,
    /// Congestion window at its end.
    pub cwnd_bytes: Option<u64>,
    /// Smoothed round trip at its end.
    pub rtt_ns: Option<u64>,
    /// What limited a TCP stream.
    pub limits: Limits,
}

/// Samples of a stream's round trip and congestion window while it sent, without an omitted start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct TcpSums {
    samples: u64,
    rtt_ns: u128,
    max_rtt_ns: u64,
    cwnd_bytes: u128,
    max_cwnd_bytes: u64,
}

/// A packet that was due less than this before the end of sending is not overdue, ns: each send takes time.
const PUNCTUAL_NS: u64 = 1_000_000;
/// Maximum number of rate changes of one flow.
const MAX_RATE_CHANGES: usize = 1000;

/// Slots of earlier rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Slots {
    served: u64,
    missed: u64,
    late: u64,
}

/// A rate that applies from a time on.
#[derive(Debug, Clone, Copy, PartialEq)]
struct RateFrom {
    ns: u64,
    rate: SendRate,
    /// `None`: unlimited.
    packets_per_second: Option<f64>,
    /// By the plan's schedule, not by a command.
    is_scheduled: bool,
}

/// Datagrams with times of their own.
#[derive(Debug, Clone, Copy, Default)]
struct OwnTimes {
    due_ns: u64,
    sent: u64,
    late: u64,
}

/// The rates that a flow still has to follow.
#[derive(Debug, Clone)]
struct Schedule {
    spec: FlowSpec,
    initial: SendRate,
    /// The number of the next change.
    next: usize,
    /// That change: its time since the start, ns, and its rate.
    change: Option<(u64, SendRate)>,
    /// The highest packet rate, packets per second.
    peak: f64,
}

impl Schedule {
    fn of(spec: &FlowSpec) -> Option<Box<Schedule>> {
        let schedule = spec.connection.rate_schedule.as_ref()?;
        let (initial, peak) = (spec.rate, spec.peak_packets_per_second()?);
        let change = schedule.rates(initial).next();
        Some(Box::new(Schedule { spec: spec.clone(), initial, next: 0, change, peak }))
    }

    /// Takes the next change if it is due at `since_start_ns`.
    fn take_due(&mut self, since_start_ns: u64) -> Option<(u64, SendRate)> {
        let due = self.change.take_if(|(at, _)| since_start_ns >= *at)?;
        self.next += 1;
        let schedule = self.spec.connection.rate_schedule.as_ref();
        self.change = schedule.and_then(|schedule| schedule.rates(self.initial).nth(self.next));
        Some(due)
    }
}

/// The waits of a sender for room.
#[derive(Debug, Clone, Copy, Default)]
struct Waits {
    count: u64,
    total_ns: u64,
    since_ns: Option<u64>,
}

impl Waits {
    /// What was waited for is over, if anything was.
    fn end(&mut self, now_ns: u64) {
        if let Some(since) = self.since_ns.take() {
            self.total_ns += now_ns.saturating_sub(since);
        }
    }
}

/// Numbers of a flow in the headers of its datagrams, where they are not those of the session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Numbering {
    /// The flow. Absent: its number in the session.
    pub flow: Option<u32>,
    /// The first datagram.
    pub first: u64,
}

/// The sending side of one flow.
#[derive(Debug, Clone)]
pub struct Sending {
    transport: TransportName,
    sizes: Sizes,
    header: Header,
    key: TagKey,
    flow: u32,
    flags: u32,
    /// What is added to the monotonic clock for the send times on the wire, ns.
    epoch_ns: u64,
    /// The number of the first datagram on the wire.
    first_number: u64,
    rate: Option<(f64, u32, CatchUp)>,
    /// The rate that it started with, and each one since.
    rates: Vec<RateFrom>,
    /// What remains of its schedule.
    schedule: Option<Box<Schedule>>,
    /// Of the pacers before this one.
    earlier: Slots,
    /// Its intervals, where they differ.
    gaps: Option<Gaps>,
    /// Data in place of generated content.
    supply: Option<Arc<Supply>>,
    segmented: bool,
    /// Whether its engine sends many packets in one call.
    sends_frames: bool,
    /// Whether a backlog of any length is sent: a request that is left out would hide the longest wait.
    sends_whole_backlog: bool,
    has_transactions: bool,
    /// Whether what it sends are transfers, whose data follow their start.
    has_volumes: bool,
    /// Class of the sending thread; `Fifo` only if every packet so far was sent under it.
    class: Option<Class>,
    pacer: Option<Pacer>,
    /// Where each datagram has a time of its own: when the next one is due, and what was late.
    own_times: Option<OwnTimes>,
    limit_packets: u64,
    limit_bytes: u64,
    duration_ns: Option<u64>,
    end_ns: u64,
    started: Option<u64>,
    stopped: bool,
    sequence: u64,
    bytes: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    /// When the last packet, or transaction, began.
    last_packet_ns: u64,
    calls: u64,
    /// Calls that sent frames, and the maximum number of packets of one.
    frame_calls: u64,
    max_call_packets: u32,
    messages: u64,
    waits: Waits,
    refused: u64,
    retransmits_seen: u64,
    tcp: TcpSums,
    /// The kernel's clocks of busy time when they were last noted.
    busy: Option<BusyTimes>,
    spacing: Spacing,
    /// Counts by interval.
    pub log: IntervalLog<SendCount>,
    /// When it was finished, and its last interval closed.
    finished_ns: Option<u64>,
}

impl Sending {
    /// A flow that has not started. `segmented`: datagrams are sent in super-packets, so that a paced flow is served
    /// by whole messages.
    pub fn new(spec: &FlowSpec, key: TagKey, omit_ns: u64, segmented: bool) -> Self {
        let sizes = Sizes::of(spec);
        let rate = pacing(spec, sizes.max(), segmented);
        let gaps = rate.and_then(|(_, burst, _)| Gaps::of(spec, burst));
        let packets_per_second = spec.packets_per_second();
        Sending {
            transport: spec.connection.transport.name(),
            header: Header::new(spec.connection.header, sizes.min()),
            sizes,
            key,
            flow: spec.id,
            flags: if spec.connection.verify { FLAG_VERIFY } else { 0 },
            epoch_ns: 0,
            first_number: 0,
            rate,
            rates: vec![RateFrom {
                ns: 0,
                rate: spec.rate,
                packets_per_second,
                is_scheduled: true,
            }],
            schedule: Schedule::of(spec),
            earlier: Slots::default(),
            gaps,
            supply: None,
            segmented,
            sends_frames: spec.connection.engine == EngineName::Xdp,
            sends_whole_backlog: spec.connection.shape.has_transactions(),
            has_transactions: spec.connection.shape.has_transactions(),
            has_volumes: spec.connection.shape.has_volumes(),
            class: None,
            pacer: None,
            limit_packets: spec.connection.packets.unwrap_or(u64::MAX),
            limit_bytes: spec.connection.bytes.map_or(u64::MAX, |b| b.0),
            duration_ns: spec.duration_ns.map(|d| d.saturating_add(omit_ns)),
            end_ns: u64::MAX,
            started: None,
            stopped: false,
            sequence: 0,
            bytes: 0,
            first_ns: None,
            last_ns: 0,
            last_packet_ns: 0,
            calls: 0,
            frame_calls: 0,
            max_call_packets: 0,
            messages: 0,
            waits: Waits::default(),
            refused: 0,
            own_times: None,
            retransmits_seen: 0,
            tcp: TcpSums::default(),
            busy: None,
            spacing: Spacing::new(),
            log: IntervalLog::default(),
            finished_ns: None,
        }
    }

    /// The same with data that was read from a file, whose recorded sizes and intervals replace the plan's summary of them.
    #[must_use]
    pub fn with_supply(mut self, spec: &FlowSpec, supply: Arc<Supply>) -> Self {
        self.sizes = self.sizes.recorded(&supply);
        self.gaps = self.gaps.map(|gaps| gaps.recorded(spec, &supply));
        // A packet that is skipped would shift all later ones away from their recorded times.
        self.sends_whole_backlog |= spec.connection.spacing.is_recorded();
        self.supply = Some(supply);
        self
    }

    /// The same with send times of a realtime clock, which is `epoch_ns` ahead of the monotonic one.
    #[must_use]
    pub fn with_epoch(self, epoch_ns: u64) -> Self {
        Sending { epoch_ns, ..self }
    }

    /// The same with other numbers in its headers.
    #[must_use]
    pub fn with_numbering(mut self, numbering: Numbering) -> Self {
        self.flow = numbering.flow.unwrap_or(self.flow);
        self.first_number = numbering.first;
        self
    }

    /// What is added to the monotonic clock for the send times on the wire, ns.
    pub fn epoch_ns(&self) -> u64 {
        self.epoch_ns
    }

    /// The data that it sends in place of generated content.
    pub fn supply(&self) -> Option<&Arc<Supply>> {
        self.supply.as_ref()
    }

    /// Sets when it starts, and the intervals of the test.
    pub fn start(&mut self, at_ns: u64, intervals: IntervalClock) {
        self.started = Some(at_ns);
        self.end_ns = self.duration_ns.map_or(u64::MAX, |d| at_ns.saturating_add(d));
        self.pacer = self.pacer_from(at_ns);
        if self.log.clock().is_none() {
            self.log.start(intervals);
        }
    }

    fn pacer_from(&self, at_ns: u64) -> Option<Pacer> {
        self.rate.map(|(pps, burst, policy)| {
            let pacer = Pacer::new(pps, burst, policy, at_ns);
            let pacer = pacer.with_gaps(self.gaps.clone(), self.sequence);
            let pacer = if self.sends_frames { pacer.with_calls(CALL_NS) } else { pacer };
            if self.sends_whole_backlog { pacer.with_unlimited_backlog() } else { pacer }
        })
    }

    /// Changes the rate to that of `spec`, from `now_ns` on. The slot that is due next keeps its time, unless the new rate
    /// has one before. False, and nothing changes, after 1000 changes.
    /// The rest of a schedule is dropped.
    #[must_use]
    pub fn set_rate(&mut self, spec: &FlowSpec, now_ns: u64) -> bool {
        if self.rates.iter().filter(|rate| !rate.is_scheduled).count() >= MAX_RATE_CHANGES {
            return false;
        }
        self.schedule = None;
        self.change_rate(spec, now_ns, false);
        true
    }

    /// Makes the changes of its schedule that are due.
    fn follow_schedule(&mut self, started: u64, now_ns: u64) {
        while let Some(schedule) = &mut self.schedule
            && let Some((at, rate)) = schedule.take_due(now_ns.saturating_sub(started))
        {
            schedule.spec.rate = rate;
            let spec = schedule.spec.clone();
            self.change_rate(&spec, started.saturating_add(at), true);
        }
    }

    /// When its schedule changes the rate next.
    fn next_change_ns(&self, started: u64) -> u64 {
        let next = self.schedule.as_ref().and_then(|schedule| schedule.change);
        next.map_or(u64::MAX, |(at, _)| started.saturating_add(at))
    }

    fn change_rate(&mut self, spec: &FlowSpec, now_ns: u64, is_scheduled: bool) {
        self.rate = pacing(spec, self.sizes.max(), self.segmented);
        self.gaps = self.rate.and_then(|(_, burst, _)| Gaps::of(spec, burst));
        if let Some(supply) = &self.supply {
            self.gaps = self.gaps.take().map(|gaps| gaps.recorded(spec, supply));
        }
        let packets_per_second = spec.packets_per_second();
        let Some(started) = self.started else {
            self.rates =
                vec![RateFrom { ns: 0, rate: spec.rate, packets_per_second, is_scheduled: true }];
            return;
        };
        let mut from = now_ns.max(started);
        self.rates.push(RateFrom { ns: from, rate: spec.rate, packets_per_second, is_scheduled });
        if let Some(mut before) = self.pacer.take() {
            if let Some((pps, ..)) = self.rate {
                from = before.succeed(from, 1e9 / pps);
            }
            self.earlier.served += before.slot();
            self.earlier.missed += before.missed();
            self.earlier.late += before.late();
        }
        self.pacer = self.pacer_from(from);
    }

    /// The mean of its rates from one time to another; `None` if it was unlimited for a part of it.
    fn asked_packets_per_second(&self, from: u64, to: u64) -> Option<f64> {
        let [only] = &self.rates[..] else {
            let ends = self.rates.iter().skip(1).map(|rate| rate.ns).chain([u64::MAX]);
            let mut packets = 0.0;
            for (rate, end) in self.rates.iter().zip(ends) {
                let length = end.min(to).saturating_sub(rate.ns.max(from)) as f64;
                if length > 0.0 {
                    packets += rate.packets_per_second? * length;
                }
            }
            let length = to.saturating_sub(from) as f64;
            return (length > 0.0).then(|| packets / length);
        };
        only.packets_per_second
    }

    /// Stops it now. Returns whether it was stopped already.
    pub fn stop(&mut self) -> bool {
        std::mem::replace(&mut self.stopped, true)
    }

    /// Whether it was started.
    pub fn is_started(&self) -> bool {
        self.started.is_some()
    }

    /// Whether it is paced.
    pub fn is_paced(&self) -> bool {
        self.rate.is_some()
    }

    /// Its demand on the thread that sends it.
    pub fn demand(&self) -> Demand {
        let most = if self.segmented { FEW_SEGMENTS } else { 1 };
        let segments = segments_per_message(self.sizes.max(), most);
        let peak = self.schedule.as_ref().map_or(0.0, |schedule| schedule.peak);
        self.rate.map_or(Demand::UNLIMITED, |(pps, burst, _)| {
            let burst = match self.sends_frames {
                true => burst.max((pps * USUAL_CALL_SECONDS) as u32),
                false => burst,
            };
            Demand::paced(pps.max(peak), burst, self.sizes.max(), segments)
        })
    }

    /// Notes that packets were sent by a thread of this class.
    pub fn scheduled(&mut self, class: Class) {
        match self.class {
            Some(Class::Normal) => {}
            _ => self.class = Some(class),
        }
    }

    /// Its next action at `now_ns`. Closes intervals that have passed.
    pub fn next(&mut self, now_ns: u64) -> NextSend {
        while self.log.is_due(now_ns) {
            self.log.close(|_| {});
        }
        let Some(started) = self.started else {
            return if self.stopped { NextSend::Done } else { NextSend::At(u64::MAX) };
        };
        if self.stopped || now_ns >= self.end_ns {
            self.follow_schedule(started, now_ns.min(self.end_ns));
            if let Some(pacer) = &mut self.pacer
                && self.sequence < self.limit_packets
            {
                pacer.end(now_ns.min(self.end_ns));
            }
            return NextSend::Done;
        }
        let left = self.packets_left();
        if left == 0 {
            return NextSend::Done;
        }
        if now_ns < started {
            return NextSend::At(started);
        }
        if self.schedule.is_some() {
            self.follow_schedule(started, now_ns);
        }
        match self.pacer.as_mut().map(|p| p.due(now_ns)) {
            None => NextSend::Now(left),
            Some(Due::At(t)) => NextSend::At(t.min(self.end_ns).min(self.next_change_ns(started))),
            Some(Due::Now(n)) => NextSend::Now(n.min(left)),
        }
    }

    /// Packets that the limits still allow; the last one of a byte limit may be short for a stream.
    fn packets_left(&self) -> u32 {
        let by_packets = self.limit_packets.saturating_sub(self.sequence);
        let by_bytes = match self.limit_bytes {
            u64::MAX => u64::MAX,
            // Where sizes vary, the number that certainly fits; checked again after these.
            limit => limit.saturating_sub(self.bytes).div_ceil(self.sizes.max().max(1) as u64),
        };
        u32::try_from(by_packets.min(by_bytes)).unwrap_or(u32::MAX)
    }

    /// Bytes of the next write of a stream: its payload, less at a byte limit.
    pub fn write_length(&self) -> usize {
        let left = self.limit_bytes.saturating_sub(self.bytes);
        usize::try_from(left).unwrap_or(usize::MAX).min(self.sizes.at(self.sequence))
    }

    /// Position in a stream.
    pub fn position(&self) -> u64 {
        self.bytes
    }

    /// Writes headers for up to `count` datagrams, from the next sequence number on, into the ring. Returns their
    /// slots of [`Sending::payload`] bytes each, and their number. Where sizes vary, [`Sending::size`] is the part of
    /// its slot that a datagram uses. Nothing is counted until [`Sending::sent`].
    pub fn fill<'r>(&self, ring: &'r mut PayloadRing, count: u32, now_ns: u64) -> (&'r [u8], u32) {
        let count = ring.run(self.sequence, count as usize);
        let bytes = ring.slots_mut(self.sequence, count);
        if let Some(supply) = &self.supply {
            let slots = bytes.chunks_exact_mut(self.sizes.max().max(1));
            let header = self.header.carries().bytes;
            (self.sequence..).zip(slots).for_each(|(n, slot)| supply.fill(n, header, slot));
        }
        if self.header.carries().bytes > 0 {
            self.header.dispatch(Fill { sending: self, bytes: &mut *bytes, now_ns });
        }
        (bytes, count as u32)
    }

    /// Counts datagrams that the network accepted at `now_ns`, in `messages` super-packets or single ones.
    pub fn sent(&mut self, packets: u32, messages: u32, now_ns: u64) {
        if packets == 0 {
            return;
        }
        let bytes = self.sizes.sum(self.sequence, packets);
        self.messages += u64::from(messages);
        self.account(packets, bytes, now_ns);
    }

    /// The next datagram was due at `at_ns`.
    pub fn due(&mut self, at_ns: u64) {
        self.own_times.get_or_insert_default().due_ns = at_ns;
    }

    /// Counts a datagram of `bytes` that the network accepted at `now_ns`, whatever the law of sizes says. It is late if that is
    /// more than `interval_ns` after it was due.
    pub(crate) fn sent_sized(&mut self, bytes: u64, interval_ns: u64, now_ns: u64) {
        if let Some(times) = &mut self.own_times {
            times.sent += 1;
            times.late += u64::from(now_ns.saturating_sub(times.due_ns) > interval_ns);
        }
        self.advance(now_ns);
        self.calls += 1;
        self.messages += 1;
        self.account(1, bytes, now_ns);
    }

    /// Counts datagrams that one call sent at `now_ns` as single frames, whose headers were written elsewhere.
    pub fn sent_frames(&mut self, packets: u32, now_ns: u64) {
        self.calls += 1;
        self.frame_calls += 1;
        self.max_call_packets = self.max_call_packets.max(packets);
        self.sent(packets, packets, now_ns);
    }

    /// Counts bytes of a stream that the network accepted at `now_ns` in one call. `whole`: a write completed.
    pub fn wrote(&mut self, bytes: usize, whole: bool, now_ns: u64) {
        self.messages += 1;
        self.account(u32::from(whole), bytes as u64, now_ns);
    }

    /// Counts data that the session protocol has sent on the flow's socket itself, at `now_ns`.
    pub fn sent_by_protocol(&mut self, packets: u64, bytes: u64, now_ns: u64) {
        self.advance(now_ns);
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = self.last_ns.max(now_ns);
        self.sequence += packets;
        self.bytes += bytes;
        let is_over = self.finished_ns.is_some();
        let count = if is_over { self.log.last_mut() } else { &mut self.log.current };
        count.packets += packets;
        count.bytes += bytes;
    }

    fn account(&mut self, packets: u32, bytes: u64, now_ns: u64) {
        if let Some(pacer) = &mut self.pacer
            && packets > 0
        {
            self.spacing.on_sent(pacer.intended_ns(pacer.slot()), now_ns);
            pacer.served(packets, now_ns);
        }
        self.waits.end(now_ns);
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = now_ns;
        if packets > 0 {
            self.last_packet_ns = now_ns;
        }
        self.sequence += u64::from(packets);
        self.bytes += bytes;
        self.log.current.bytes += bytes;
        self.log.current.packets += u64::from(packets);
    }

    /// Leaves out the packet that is due at `now_ns`.
    pub(crate) fn pass(&mut self, now_ns: u64) {
        if let Some(pacer) = &mut self.pacer {
            pacer.served(1, now_ns);
        }
    }

    /// Whether its time is over, or it was stopped; false when another limit ended it.
    pub(crate) fn is_ended(&self, now_ns: u64) -> bool {
        self.stopped || now_ns >= self.end_ns
    }

    /// Counts a transaction that was completed at `now_ns`.
    pub fn transaction(&mut self, now_ns: u64) {
        self.advance(now_ns);
        *self.log.current.transactions.get_or_insert(0) += 1;
    }

    /// When the next packet is due by the schedule; `None` without one.
    pub(crate) fn intended_ns(&self) -> Option<u64> {
        self.pacer.as_ref().map(|pacer| pacer.intended_ns(pacer.slot()))
    }

    /// Slots that were skipped so far.
    pub(crate) fn missed_slots(&self) -> u64 {
        self.earlier.missed + self.pacer.as_ref().map_or(0, Pacer::missed)
    }

    /// If sending is over at `now_ns`: packets that were due more than [`PUNCTUAL_NS`] before that and were not sent.
    pub(crate) fn overdue_at_end(&self, now_ns: u64) -> u64 {
        let (true, Some(pacer)) = (self.stopped || now_ns >= self.end_ns, &self.pacer) else {
            return 0;
        };
        let mut rest = pacer.clone();
        rest.end(now_ns.min(self.end_ns).saturating_sub(PUNCTUAL_NS));
        (rest.missed() - pacer.missed()).min(self.packets_left().into())
    }

    /// Counts system calls.
    pub fn called(&mut self, calls: u64) {
        self.calls += calls;
    }

    /// The socket or a queue below it was full at `now_ns`: sending waits.
    pub fn waits(&mut self, now_ns: u64) {
        self.waits.count += 1;
        self.waits.since_ns.get_or_insert(now_ns);
    }

    /// The receiver's host reported that nothing listens on the port: the datagram is repeated.
    pub fn refused(&mut self) {
        self.refused += 1;
    }

    /// Whether any message held more than one datagram: the kernel may have refused requested segmentation.
    pub fn has_coalesced(&self) -> bool {
        self.messages < self.sequence
    }

    /// Notes current TCP information: totals so far, stored with the current interval.
    pub fn note_tcp(&mut self, retransmits_total: u64, cwnd_bytes: u64, rtt_ns: u64) {
        self.note_retransmits(retransmits_total);
        if self.finished_ns.is_some() {
            return;
        }
        let current = &mut self.log.current;
        current.cwnd_bytes = Some(cwnd_bytes);
        current.rtt_ns = Some(rtt_ns);
        let is_omitted = self.log.closed().len() < self.log.omitted();
        if self.first_ns.is_some() && self.finished_ns.is_none() && !is_omitted {
            let sums = &mut self.tcp;
            sums.samples += 1;
            sums.rtt_ns += u128::from(rtt_ns);
            sums.max_rtt_ns = sums.max_rtt_ns.max(rtt_ns);
            sums.cwnd_bytes += u128::from(cwnd_bytes);
            sums.max_cwnd_bytes = sums.max_cwnd_bytes.max(cwnd_bytes);
        }
    }

    /// Notes the kernel's clocks of busy time: what passed since the call before belongs to the current interval.
    pub fn note_busy(&mut self, now: BusyTimes) {
        if self.finished_ns.is_some() {
            return;
        }
        if let Some(before) = self.busy.replace(now) {
            self.log.current.limits.add(&before, &now);
        }
    }

    /// Writes means and maxima of what was noted while it sent into the record's TCP information.
    pub fn report_tcp(&self, tcp: &mut weir_model::record::Tcp) {
        let sums = &self.tcp;
        if sums.samples == 0 {
            return;
        }
        let mean = |sum: u128| sum as f64 / sums.samples as f64;
        tcp.rtt_seconds = Some(mean(sums.rtt_ns) / 1e9);
        tcp.max_rtt_seconds = Some(sums.max_rtt_ns as f64 / 1e9);
        tcp.cwnd_bytes = Some(mean(sums.cwnd_bytes).round() as u64);
        tcp.max_cwnd_bytes = Some(sums.max_cwnd_bytes);
    }

    /// Whether sending is over.
    pub fn has_finished(&self) -> bool {
        self.finished_ns.is_some()
    }

    /// Notes the retransmitted segments so far: new ones belong to the current interval, after the end of sending to
    /// the last one.
    pub fn note_retransmits(&mut self, total: u64) {
        let new = total.saturating_sub(self.retransmits_seen);
        self.retransmits_seen = self.retransmits_seen.max(total);
        let is_over = self.finished_ns.is_some();
        let count = if is_over { self.log.last_mut() } else { &mut self.log.current };
        *count.retransmits.get_or_insert(0) += new;
    }

    /// Advances the time without sending: closes intervals that have passed, until sending has ended.
    pub fn advance(&mut self, now_ns: u64) {
        while self.finished_ns.is_none() && self.log.is_due(now_ns) {
            self.log.close(|_| {});
        }
    }

    /// Closes the last interval at the end of the test.
    pub fn finish(&mut self, now_ns: u64) {
        self.advance(now_ns);
        self.waits.end(now_ns);
        self.finished_ns.get_or_insert(now_ns);
        let count = &self.log.current;
        if count.bytes > 0
            || count.packets > 0
            || count.transactions.is_some()
            || count.retransmits.is_some_and(|n| n > 0)
        {
            self.log.close(|_| {});
        }
    }

    /// Packets and bytes so far, the omitted time included.
    pub fn total(&self) -> (u64, u64) {
        (self.sequence, self.bytes)
    }

    /// Packets of the omitted time among those so far.
    pub fn omitted_packets(&self) -> u64 {
        let open = self.log.closed().len() < self.log.omitted();
        let closed = self.log.closed().iter().take(self.log.omitted());
        closed.map(|c| c.packets).sum::<u64>() + if open { self.log.current.packets } else { 0 }
    }

    /// Largest payload of a packet, bytes.
    pub fn payload(&self) -> usize {
        self.sizes.max()
    }

    /// Whether all packets have the same size.
    pub fn has_one_size(&self) -> bool {
        self.sizes.is_constant()
    }

    /// Payload bytes of the packet `ahead` of the next one.
    pub fn size(&self, ahead: usize) -> usize {
        self.sizes.at(self.sequence + ahead as u64)
    }

    /// Header of its datagrams: rings of payloads are shared by flows with the same one.
    pub fn header(&self) -> Header {
        self.header
    }

    /// When it ends by its duration.
    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Whether its time of sending ends with its planned end, and not with the last send.
    fn sends_until_planned_end(&self) -> bool {
        let continues = self.last_ns < self.end_ns && !self.stopped && self.packets_left() > 0;
        // Stopped before that time, because the other end ended the test or became unreachable.
        let is_cut = self.finished_ns.is_some_and(|at| at < self.end_ns);
        continues && !is_cut && self.started.is_some() && self.duration_ns.is_some()
    }

    /// End of sending so far, ns since the start of the test; `None` when nothing was sent.
    pub fn end_offset_ns(&self) -> Option<u64> {
        self.first_ns?;
        let end = if self.sends_until_planned_end() { self.end_ns } else { self.last_ns };
        Some(end.saturating_sub(self.log.start_ns()?))
    }

    /// The sender's part of the record. `method` is how it sent.
    pub fn report(&self, method: &str, buffer_bytes: Option<u64>) -> weir_model::record::Sender {
        let omitted = self.log.omitted();
        let (mut bytes, mut packets) = (self.bytes, self.sequence);
        for skipped in self.log.closed().iter().take(omitted) {
            bytes -= skipped.bytes;
            packets -= skipped.packets;
        }
        let omit_end = self.log.clock().filter(|c| c.omit_ns > 0).map(|c| c.start_ns + c.omit_ns);
        // Time before the sender learned of a late start is not time of sending.
        let from = self.first_ns.map(|f| omit_end.map_or(f, |o| f.max(o)));
        let to = if self.sends_until_planned_end() { self.end_ns } else { self.last_ns };
        let seconds = from.map_or(0.0, |f| to.saturating_sub(f) as f64 / 1e9);
        let zero = self.log.start_ns();
        let since_zero = |at: u64| Some(at.saturating_sub(zero?) as f64 / 1e9);
        let per_second = |n: u64| (seconds > 0.0).then(|| n as f64 / seconds);
        // Transfers go on after the last of them began.
        let until = match (self.has_volumes, self.duration_ns) {
            (false, _) => to,
            (true, Some(_)) => to.min(self.end_ns),
            (true, None) => self.last_packet_ns,
        };
        let starting = from.map_or(0.0, |f| until.saturating_sub(f) as f64 / 1e9);
        let packets_per_second = (starting > 0.0).then(|| packets as f64 / starting);
        let paced = self.pacer.as_ref();
        let is_paced = paced.is_some() || self.earlier != Slots::default();
        let slots =
            |earlier: u64, now: fn(&Pacer) -> u64| is_paced.then(|| earlier + paced.map_or(0, now));
        let asked = from.map_or(self.rate.map(|(pps, ..)| pps), |from| {
            self.asked_packets_per_second(from, until)
        });
        let changes = self.rates.iter().filter(|rate| !rate.is_scheduled);
        // Where each transaction has a connection, its calls are not counted, and transactions wait for responses.
        let io_calls = (self.calls > 0 || self.messages == 0).then_some(self.calls);
        let waits = io_calls.filter(|_| !self.has_transactions).map(|_| self.waits);
        weir_model::record::Sender {
            bytes,
            packets,
            seconds,
            start_seconds: from.and_then(since_zero),
            end_seconds: from.and_then(|f| since_zero(to.max(f))),
            bits_per_second: per_second(8 * bytes),
            packets_per_second,
            mean_payload_bytes: (!self.sizes.is_constant() && packets > 0)
                .then(|| bytes as f64 / packets as f64),
            mean_spacing_seconds: self.mean_spacing(),
            io_calls,
            method: method.into(),
            mean_call_packets: (self.frame_calls > 0)
                .then(|| self.sequence as f64 / self.frame_calls as f64),
            max_call_packets: (self.frame_calls > 0).then_some(self.max_call_packets),
            segments_per_message: (self.transport.datagrams() && self.messages > 0)
                .then(|| self.sequence as f64 / self.messages as f64),
            intended_slots: slots(self.earlier.served, Pacer::slot)
                .or(self.own_times.map(|times| times.sent)),
            missed_slots: slots(self.earlier.missed, Pacer::missed),
            late_slots: slots(self.earlier.late, Pacer::late)
                .or(self.own_times.map(|times| times.late)),
            asked_packets_per_second: asked,
            rate_changes: changes
                .filter_map(|change| {
                    Some(RateChange { at_seconds: since_zero(change.ns)?, rate: change.rate })
                })
                .collect(),
            spacing: paced.and_then(|p| self.spacing_report(p, asked)),
            buffer_bytes,
            checksum_coverage_bytes: None,
            sleeps: waits.map(|waits| waits.count),
            sleep_seconds: waits.map(|waits| waits.total_ns as f64 / 1e9),
            refused_sends: (self.refused > 0).then_some(self.refused),
            scheduling: self.class.map(|c| c.name().into()),
            reported_until_seconds: None,
        }
    }

    /// Realised mean interval, s, where intervals differ.
    fn mean_spacing(&self) -> Option<f64> {
        let first = self.first_ns.filter(|_| self.gaps.is_some() && self.sequence > 1)?;
        Some(self.last_packet_ns.saturating_sub(first) as f64 / 1e9 / (self.sequence - 1) as f64)
    }

    fn spacing_report(
        &self,
        pacer: &Pacer,
        asked_packets_per_second: Option<f64>,
    ) -> Option<weir_model::record::Spacing> {
        let s = &self.spacing;
        let seconds = |ns: i64| ns as f64 / 1e9;
        let absolute_max = s.errors().map(|(error, _)| error.unsigned_abs()).max()?;
        Some(weir_model::record::Spacing {
            intended_seconds: match asked_packets_per_second.filter(|_| self.rates.len() > 1) {
                Some(asked) => 1.0 / asked,
                None => pacer.period_ns() as f64 / 1e9,
            } * self.rate.map_or(1.0, |(_, burst, _)| f64::from(burst)),
            deviation_seconds: s.half_range_ns()? / 1e9,
            p50_seconds: seconds(s.quantile_ns(0.5)?),
            p01_seconds: s.quantile_ns(0.01).map(seconds),
            p99_seconds: s.quantile_ns(0.99).map(seconds),
            max_seconds: absolute_max as f64 / 1e9,
        })
    }

    /// This end's intervals in the form of the record.
    pub fn interval_counts(&self) -> Vec<IntervalCount> {
        let Some(clock) = self.log.clock() else { return vec![] };
        self.log.closed().iter().enumerate().map(|(i, c)| c.count(clock.seconds(i))).collect()
    }
}

/// Bytes of a header in a payload that has room for all of it.
#[must_use]
pub fn header_bytes(format: HeaderFormat) -> usize {
    Header::new(format, MAX_MESSAGE).carries().bytes
}

/// Maximum time whose packets engine `xdp` sends in one call. A call costs some 20 µs, however few packets it sends.
const CALL_NS: u64 = 1_000_000;
/// Time whose packets it sends in one call where flows or the processor are busy: for the estimate of its demand.
const USUAL_CALL_SECONDS: f64 = 100e-6;

/// Packets per second, packets of a burst and policy of a paced flow.
fn pacing(spec: &FlowSpec, payload: usize, segmented: bool) -> Option<(f64, u32, CatchUp)> {
    spec.packets_per_second().map(|pps| {
        let burst = if segmented {
            spec.rate.burst.max(segments_per_message(payload, FEW_SEGMENTS) as u32)
        } else {
            spec.rate.burst
        };
        (pps, burst, spec.connection.catch_up)
    })
}

/// How long after the planned time, ns, as far as a header can say.
#[inline]
fn lateness(now_ns: u64, due_ns: u64) -> i32 {
    let late = now_ns as i64 - due_ns as i64;
    late.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

/// Writes the headers of the next datagrams.
struct Fill<'a> {
    sending: &'a Sending,
    bytes: &'a mut [u8],
    now_ns: u64,
}

impl WithCodec for Fill<'_> {
    type Output = ();

    #[inline(always)]
    fn with<C: Codec>(self, codec: C) {
        let Fill { sending, bytes, now_ns } = self;
        let mut fields = HeaderFields {
            sequence: sending.sequence.wrapping_add(sending.first_number),
            send_time_ns: now_ns.wrapping_add(sending.epoch_ns),
            lateness_ns: 0,
            flow: sending.flow,
            flags: sending.flags,
        };
        if let Some(times) = &sending.own_times {
            fields.lateness_ns = lateness(now_ns, times.due_ns);
        }
        let mut tags = Tags::new(&sending.key);
        let slot = sending.pacer.as_ref().map(Pacer::slot);
        let has_one_size = sending.has_one_size();
        for (i, packet) in bytes.chunks_exact_mut(sending.sizes.max()).enumerate() {
            if let (Some(pacer), Some(slot)) = (&sending.pacer, slot) {
                fields.lateness_ns = lateness(now_ns, pacer.intended_ns(slot + i as u64));
            }
            let bytes = if has_one_size { packet.len() } else { sending.size(i) };
            codec.encode(&mut tags, &fields, &mut packet[..bytes]);
            fields.sequence += 1;
        }
    }
}

impl SendCount {
    /// The counts in the form of the record, with rates over `seconds` if these are known.
    pub fn count(&self, seconds: Option<f64>) -> IntervalCount {
        let per_second = |n: u64| seconds.filter(|s| *s > 0.0).map(|s| n as f64 / s);
        IntervalCount {
            bytes: self.bytes,
            packets: self.packets,
            bits_per_second: per_second(8 * self.bytes),
            packets_per_second: per_second(self.packets),
            retransmits: self.retransmits,
            cwnd_bytes: self.cwnd_bytes,
            rtt_seconds: self.rtt_ns.map(|r| r as f64 / 1e9),
            limited_by: self.limits.limited_by(),
            transactions: self.transactions,
            transactions_per_second: self.transactions.and_then(per_second),
            ..IntervalCount::default()
        }
    }
}
