//! One direction without its thread: frames in, verdicts, changes, frames out, with counters. Time is an argument.

mod recording;

use std::sync::Arc;

use weir_impair::{
    Disposition, FLAG_EXEMPT, FlowStatus, Hops, ImpairError, Meta, Peaks, Prepared, Retired, Share,
    Verdict,
};
use weir_laws::Direction;
use weir_link::{Handle, Receive, Received, Slabs, Transmit};
use weir_model::impairment::Counters;
use weir_model::impairment::Impairment;
use weir_model::plan::Direction as Side;
use weir_wire::too_big;

use crate::drops::{Drops, Watches};
use crate::frames::{Copies, meta, native};
use crate::lateness::{LATE_NS, Timing};
use crate::packet_trace::TraceWriter;
use crate::recording::{CapturePoint, Passage, Recorders};
use crate::report::{LinkReport, PeriodReason, TriggerReport};
use crate::sharing::{Handed, Owners, Sharing};
use crate::snapshot::{ExemptSnapshot, FlowSnapshot, Period, Snapshot};

/// Ring entries taken in one go.
pub(crate) const MAX: usize = 64;
/// Frames passed to the link in one call: its batch, after which the clock is read.
const SENT_AT_ONCE: usize = 64;
/// Frames that may wait for room in the link before the receive ring is left alone.
const MAX_WAITING: usize = 4096;
/// Bytes of these frames: with slots of twice that, one more batch of super-packets fits into the headroom.
const MAX_WAITING_BYTES: u64 = 8 << 20;
/// Memory for frames beyond the laws' limit: those entering and leaving.
const HEADROOM_BYTES: u64 = 32 << 20;

/// A frame that is about to leave.
#[derive(Debug)]
struct QueuedFrame {
    disposition: Disposition,
    native: Option<(u64, u32)>,
}

/// A frame on its way to the next hop.
#[derive(Debug)]
struct PassingFrame {
    handle: Handle,
    /// When it left the hop before, or entered.
    at_ns: u64,
    /// What the last hop that took it decided, if one did.
    taken: Option<QueuedFrame>,
}

/// Data of a flow in addition to the engine's counters.
#[derive(Debug, Default)]
struct FlowExtra {
    timing: Timing,
    /// Frames that the link refused, or whose change found no memory.
    unplanned: u64,
    unplanned_bytes: u64,
    untraced: bool,
    period: Period,
    /// Its largest values before the period.
    peaks: Peaks,
    /// Version of the laws of the period.
    laws_version: u64,
}

impl FlowExtra {
    /// The flow's counters; `waiting` are its packets and bytes that wait for room in the link.
    fn counters(&self, status: &FlowStatus<'_>, waiting: (u64, u64)) -> Counters {
        let (packets, bytes) = waiting;
        let mut counters = status.counters;
        // The engine counts released packets as sent. Those that the link refused were not sent, and those that wait
        // for it are queued.
        counters.sent_packets = counters.sent_packets.saturating_sub(self.unplanned + packets);
        counters.sent_bytes = counters.sent_bytes.saturating_sub(self.unplanned_bytes + bytes);
        counters.unplanned_dropped_packets += self.unplanned;
        counters
    }
}

/// One direction.
#[derive(Debug)]
pub(crate) struct Datapath {
    direction: Direction,
    hops: Hops,
    slabs: Slabs,
    copies: Copies,
    /// Room for the bytes of a segment of a train.
    scratch: Vec<u8>,
    received: Vec<Received>,
    metas: Vec<Meta>,
    dispositions: Vec<Disposition>,
    /// Frames between two hops, in the order of time.
    passing: Vec<PassingFrame>,
    /// Room for those that arrive at a hop, and for those of them that belong to one of its flows.
    arrivals: Vec<(Meta, Option<QueuedFrame>)>,
    taken: Vec<Meta>,
    /// Packets and bytes that came in, exempt frames included.
    entered: (u64, u64),
    /// Packets and bytes that have left, exempt frames excluded.
    departed: (u64, u64),
    /// Frames that are about to leave, in order; those before `left` have left.
    handles: Vec<Handle>,
    leaving: Vec<QueuedFrame>,
    left: usize,
    /// Bytes of those that have not left.
    waiting_bytes: u64,
    extras: Vec<FlowExtra>,
    late_packets: u64,
    /// Lateness from which a packet counts as late in a verdict.
    late_limit_ns: u64,
    /// Exempt frames that the link refused.
    exempt_unplanned: (u64, u64),
    packet_trace: Option<TraceWriter>,
    recorders: Recorders,
    watches: Watches,
    /// Messages to the senders of packets that are too long, to be sent to where these came from.
    messages: Vec<Vec<u8>>,
    /// Other workers of this direction, if there are any.
    sharing: Option<Box<Sharing>>,
    /// Packets that others passed to this one, and those for which there was no memory.
    accepted: Vec<Meta>,
    unaccepted: u64,
}

pub(crate) const fn side(direction: Direction) -> Side {
    match direction {
        Direction::Forward => Side::Forward,
        Direction::Reverse => Side::Reverse,
    }
}

impl Datapath {
    pub(crate) fn new(
        config: &Impairment,
        direction: Direction,
        packet_trace: Option<TraceWriter>,
    ) -> Result<Self, ImpairError> {
        Self::for_worker(config, direction, packet_trace, Share::WHOLE)
    }

    /// Sets the lateness from which a packet counts as late in a verdict; before any packet.
    pub(crate) fn limit_lateness(&mut self, late_limit_ns: u64) {
        self.late_limit_ns = late_limit_ns;
    }

    /// The part of a worker.
    pub(crate) fn for_worker(
        config: &Impairment,
        direction: Direction,
        packet_trace: Option<TraceWriter>,
        share: Share,
    ) -> Result<Self, ImpairError> {
        let hops = Hops::for_worker(config, direction, share)?;
        let memory_bytes = share.of_bytes(config.memory_bytes());
        // A slot is at most twice what its frame counts towards the limit (tested), except that of a train, of which only few
        // segments may be left.
        let of_trains = memory_bytes / 2;
        let limit = memory_bytes.saturating_mul(2).saturating_add(HEADROOM_BYTES);
        let mut slabs = Slabs::new(limit.saturating_add(of_trains));
        slabs.keep_trains(of_trains);
        slabs.reserve(64, 1 << 12);
        slabs.reserve(1514, 1 << 10);
        let mut datapath = Datapath {
            direction,
            hops,
            slabs,
            copies: Copies::default(),
            scratch: Vec::new(),
            received: Vec::with_capacity(4096),
            metas: Vec::with_capacity(4096),
            dispositions: Vec::with_capacity(4096),
            passing: Vec::new(),
            arrivals: Vec::new(),
            taken: Vec::new(),
            entered: (0, 0),
            departed: (0, 0),
            handles: Vec::with_capacity(2 * MAX_WAITING),
            leaving: Vec::with_capacity(2 * MAX_WAITING),
            left: 0,
            waiting_bytes: 0,
            extras: Vec::new(),
            late_packets: 0,
            late_limit_ns: LATE_NS,
            exempt_unplanned: (0, 0),
            packet_trace,
            recorders: Recorders::default(),
            watches: Watches::default(),
            messages: Vec::new(),
            sharing: None,
            accepted: Vec::new(),
            unaccepted: 0,
        };
        datapath.make_room();
        for (status, extra) in datapath.hops.flows().zip(&mut datapath.extras) {
            extra.laws_version = status.laws_version;
        }
        Ok(datapath)
    }

    /// Makes it one of several workers.
    pub(crate) fn share(&mut self, sharing: Sharing) {
        self.sharing = Some(Box::new(sharing));
    }

    fn make_room(&mut self) {
        let flows = self.hops.flows().count();
        self.extras.resize_with(flows.max(self.extras.len()), FlowExtra::default);
    }

    /// Applies another configuration between two batches; queued packets keep their departure times. Returns values
    /// that another thread should drop.
    pub(crate) fn configure(
        &mut self,
        prepared: Prepared,
        owners: Owners,
        number: u64,
        now_ns: u64,
    ) -> Result<Retired, ImpairError> {
        let retired = self.hops.put_into_force(prepared)?;
        if let Some(sharing) = &mut self.sharing {
            sharing.configure(owners, number);
        }
        self.hops.arm(now_ns);
        self.make_room();
        self.start_laws(now_ns);
        if let Some(packet_trace) = &mut self.packet_trace {
            packet_trace.configured(number, now_ns);
        }
        Ok(retired)
    }

    /// Starts triggers and the timeline, at the start of the emulator.
    pub(crate) fn arm(&mut self, now_ns: u64) {
        self.hops.arm(now_ns);
    }

    /// Triggers a flow (`None`: all) by command; returns the number of triggers that waited for one.
    pub(crate) fn trigger(&mut self, flow: Option<&str>, now_ns: u64) -> usize {
        self.hops.trigger(flow, now_ns)
    }

    /// Starts a period of counting for a flow (`None`: all). `false` if there is no such flow.
    pub(crate) fn reset(&mut self, flow: Option<&str>, now_ns: u64) -> bool {
        let mut found = flow.is_none();
        self.start_periods(now_ns, PeriodReason::Reset, |status, _| {
            let is_meant = flow.is_none_or(|name| name == status.name);
            found |= is_meant;
            is_meant
        });
        found
    }

    /// Starts a period of counting for flows whose laws have changed.
    fn start_laws(&mut self, now_ns: u64) {
        self.start_periods(now_ns, PeriodReason::Laws, |status, extra| {
            std::mem::replace(&mut extra.laws_version, status.laws_version) != status.laws_version
        });
    }

    /// Starts a period of counting for the flows selected by `meant`.
    fn start_periods(
        &mut self,
        now_ns: u64,
        reason: PeriodReason,
        mut meant: impl FnMut(&FlowStatus<'_>, &mut FlowExtra) -> bool,
    ) {
        let waiting = self.waiting_by_flow();
        let mut started = Vec::new();
        for ((status, extra), waiting) in self.hops.flows().zip(&mut self.extras).zip(waiting) {
            if meant(&status, extra) {
                started.push(status.number);
                extra.peaks = extra.peaks.max(status.peaks);
                extra.timing.earlier.merge(&extra.period.delays);
                extra.period = Period {
                    start_ns: Some(now_ns),
                    reason,
                    base: extra.counters(&status, waiting),
                    ..Period::default()
                };
            }
        }
        started.into_iter().for_each(|number| self.hops.restart_peaks(number));
    }

    /// Sets whether the verdicts of a flow (`None`: all) go to the packet trace. `false` if there is no such flow.
    pub(crate) fn trace(&mut self, flow: Option<&str>, on: bool) -> bool {
        let mut found = flow.is_none();
        for (status, extra) in self.hops.flows().zip(&mut self.extras) {
            if flow.is_none_or(|name| name == status.name) {
                extra.untraced = !on;
                found = true;
            }
        }
        found
    }

    /// Receives frames; returns the number of ring entries, usable or not. Does nothing while too much waits to
    /// leave, or for another worker: the link's ring is the queue then.
    pub(crate) fn take_in(&mut self, from: &mut dyn Receive) -> weir_link::Result<usize> {
        self.received.clear();
        if self.is_full() {
            return Ok(0);
        }
        from.recv(&mut self.slabs, MAX, &mut self.received)
    }

    /// Whether so much waits to leave, or for another worker, that no frames are received.
    pub(crate) fn is_full(&self) -> bool {
        self.is_link_full() || self.untaken() > 0
    }

    /// Whether so much waits to leave that no packets of other workers are accepted either.
    pub(crate) fn is_link_full(&self) -> bool {
        self.waiting() >= MAX_WAITING || self.waiting_bytes >= MAX_WAITING_BYTES
    }

    /// Discards received frames; returns the number of ring entries and of frames.
    pub(crate) fn discard(&mut self, from: &mut dyn Receive) -> weir_link::Result<(usize, usize)> {
        self.received.clear();
        let entries = from.recv(&mut self.slabs, MAX, &mut self.received)?;
        for frame in &self.received {
            self.slabs.release(frame.handle);
        }
        Ok((entries, self.received.len()))
    }

    /// Adds a frame that does not come from a link; `false`: out of memory.
    pub(crate) fn put_in(&mut self, frame: &[u8], ingress_ns: u64) -> bool {
        self.received.clear();
        match self.slabs.insert(frame) {
            Some(handle) => {
                self.received.push(Received { handle, len: frame.len() as u32, ingress_ns });
                true
            }
            None => false,
        }
    }

    /// Passes received frames through the laws, and releases those that are due.
    pub(crate) fn judge(&mut self, now_ns: u64) {
        self.metas.clear();
        let first = self.hops.engine(self.hops.place_of_turn(0));
        let mut before = None;
        for &Received { handle, len, ingress_ns } in &self.received {
            let (slabs, scratch) = (&self.slabs, &mut self.scratch);
            let packet = meta(first, slabs, (handle, len), ingress_ns, &mut before, scratch);
            self.metas.push(packet);
            self.entered.1 += u64::from(len);
        }
        self.entered.0 += self.received.len() as u64;
        self.received.clear();
        let mut metas = std::mem::take(&mut self.metas);
        if self.recorders.capture(CapturePoint::Before) {
            self.capture_entries(&mut metas);
        }
        if self.sharing.is_some() {
            self.share_out(&mut metas);
        }
        let done = self.follow_timeline(now_ns, &mut metas);
        self.step(now_ns, &mut metas[done..]);
        self.metas = metas;
    }

    /// Takes out the packets that another worker judges, and adds those that others passed to this one.
    fn share_out(&mut self, metas: &mut Vec<Meta>) {
        let Some(sharing) = &mut self.sharing else { return };
        let engine = self.hops.engine_mut(0);
        let (slabs, scratch) = (&mut self.slabs, &mut self.scratch);
        metas.retain_mut(|meta| {
            let Some(other) = engine.classify(meta).and_then(|flow| sharing.other(flow)) else {
                return true;
            };
            let handle = Handle::from_bits(meta.handle);
            sharing.pass(other, meta, slabs.frame(handle, scratch));
            slabs.release(handle);
            false
        });
        if !self.accepted.is_empty() {
            metas.append(&mut self.accepted);
            metas.sort_by_key(|meta| meta.arrived_ns);
        }
    }

    /// Takes packets that other workers passed to this one, to be judged next.
    pub(crate) fn accept(&mut self, packets: &mut Handed) {
        let configuration = self.sharing.as_ref().map(|sharing| sharing.configuration());
        let engine = self.hops.engine(0);
        packets.drain(|head, frame| match self.slabs.insert(frame) {
            None => self.unaccepted += 1,
            Some(handle) => {
                let mut meta = engine.meta(handle.to_bits(), head.arrived_ns, frame);
                if configuration == Some(head.configuration) {
                    meta.class = head.class;
                }
                self.accepted.push(meta);
            }
        });
    }

    /// The packets for other workers.
    pub(crate) fn outgoing(&mut self) -> impl Iterator<Item = (usize, &mut Handed)> {
        self.sharing.iter_mut().flat_map(|sharing| sharing.outgoing())
    }

    /// Number of packets that other workers have not taken yet.
    pub(crate) fn untaken(&self) -> usize {
        self.sharing.as_ref().map_or(0, |sharing| sharing.untaken())
    }

    /// Drops the packets that other workers have not taken; returns their number.
    pub(crate) fn drop_untaken(&mut self) -> u64 {
        let untaken = self.untaken() as u64;
        self.sharing = None;
        untaken
    }

    /// Packets of other workers for which there was no memory.
    pub(crate) fn unaccepted(&self) -> u64 {
        self.unaccepted
    }

    /// Passes packets through the laws.
    fn step(&mut self, now_ns: u64, metas: &mut [Meta]) {
        if self.hops.count() == 1 {
            return self.step_hop(0, true, now_ns, metas);
        }
        let (mut arrivals, mut taken) =
            (std::mem::take(&mut self.arrivals), std::mem::take(&mut self.taken));
        for turn in 0..self.hops.count() {
            let place = self.hops.place_of_turn(turn);
            let is_last = turn + 1 == self.hops.count();
            match turn {
                0 => arrivals.extend(metas.iter().map(|meta| (*meta, None))),
                _ => {
                    let engine = self.hops.engine(place);
                    let passing = self.passing.drain(..);
                    let (slabs, scratch) = (&self.slabs, &mut self.scratch);
                    let mut before = None;
                    arrivals.extend(passing.map(|PassingFrame { handle, at_ns, taken }| {
                        let frame = (handle, slabs.len_of(handle) as u32);
                        (meta(engine, slabs, frame, at_ns, &mut before, scratch), taken)
                    }));
                }
            }
            for (mut meta, before) in arrivals.drain(..) {
                if self.hops.takes(place, &mut meta) {
                    if let Some(QueuedFrame { disposition, native }) = before {
                        let (handle, at_ns) = (Handle::from_bits(meta.handle), disposition.at_ns);
                        self.capture_departure(&disposition, handle, at_ns, Passage::Hop);
                        self.departed(&disposition, native, at_ns);
                    }
                    taken.push(meta);
                    continue;
                }
                // What leaves this hop earlier leaves before it.
                self.step_hop(place, is_last, meta.arrived_ns, &mut taken);
                taken.clear();
                self.pass_by(&meta, is_last, before);
            }
            self.step_hop(place, is_last, now_ns, &mut taken);
            taken.clear();
        }
        (self.arrivals, self.taken) = (arrivals, taken);
    }

    /// Passes packets through one hop.
    fn step_hop(&mut self, place: usize, is_last: bool, now_ns: u64, metas: &mut [Meta]) {
        self.dispositions.clear();
        if self.recorders.capture(CapturePoint::Before) {
            self.capture_arrivals(place, metas);
        }
        self.hops.step(place, now_ns, metas, &mut self.dispositions);
        self.carry_out(place, is_last);
    }

    /// Passes a packet that belongs to no flow of a hop.
    fn pass_by(&mut self, meta: &Meta, is_last: bool, before: Option<QueuedFrame>) {
        let handle = Handle::from_bits(meta.handle);
        let frame = PassingFrame { handle, at_ns: meta.arrived_ns, taken: before };
        match (is_last, frame.taken) {
            // Every packet is taken by hop 1.
            (true, Some(taken)) => self.leave(handle, taken),
            (_, taken) => self.passing.push(PassingFrame { taken, ..frame }),
        }
    }

    /// Adds a frame to those that are about to leave.
    fn leave(&mut self, handle: Handle, frame: QueuedFrame) {
        self.handles.push(handle);
        self.waiting_bytes += u64::from(frame.disposition.length);
        self.leaving.push(frame);
    }

    /// Makes the changes of the timeline that are due, each after the packets that arrived before it, so that a period of counting
    /// starts with it. Returns the number of packets that were passed.
    pub(crate) fn follow_timeline(&mut self, now_ns: u64, metas: &mut [Meta]) -> usize {
        let mut done = 0;
        while self.hops.next_change_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            let rest = &mut metas[done..];
            self.hops.skip_idle_loops(rest.first().map_or(now_ns, |meta| meta.arrived_ns));
            let Some(at_ns) = self.hops.next_change_ns() else { break };
            let later = rest.iter().position(|meta| meta.arrived_ns >= at_ns);
            let before = later.unwrap_or(rest.len());
            self.step(at_ns, &mut rest[..before]);
            done += before;
            self.start_laws(at_ns);
        }
        done
    }

    /// Carries out the dispositions of a hop.
    fn carry_out(&mut self, place: usize, is_last: bool) {
        let dispositions = std::mem::take(&mut self.dispositions);
        for disposition in &dispositions {
            let handle = Handle::from_bits(disposition.handle);
            match disposition.verdict {
                Verdict::Copied => self.copies.add(disposition.handle),
                Verdict::Forwarded => {
                    let native = self.native(disposition);
                    let mut disposition = *disposition;
                    let cut = match disposition.part() {
                        None => Some(handle),
                        Some(part) => {
                            let (slabs, scratch) = (&mut self.slabs, &mut self.scratch);
                            self.copies.cut(slabs, &disposition, part, scratch)
                        }
                    };
                    let edited = match (cut, self.hops.engine(place).edit(&disposition)) {
                        (None, _) => None,
                        (Some(handle), None) => Some((handle, true)),
                        (Some(handle), Some(edit)) => {
                            self.copies.own(&mut self.slabs, handle).map(|handle| {
                                let frame = self.slabs.bytes_mut(handle);
                                // The change may include its addresses.
                                let is_watched = self.watches.is_active();
                                let before =
                                    is_watched.then(|| Watches::before(edit, frame)).flatten();
                                let changed = edit.apply(frame);
                                if let Some(before) = before.filter(|_| changed) {
                                    self.watches.changed(disposition.flow, before, frame);
                                }
                                (handle, changed)
                            })
                        }
                    };
                    if !edited.is_some_and(|(_, changed)| changed) {
                        self.hops.engine_mut(place).unmodified(&mut disposition);
                    }
                    let frame = QueuedFrame { disposition, native };
                    match edited {
                        Some((handle, _)) if is_last => self.leave(handle, frame),
                        Some((handle, _)) => {
                            let at_ns = frame.disposition.at_ns;
                            self.passing.push(PassingFrame { handle, at_ns, taken: Some(frame) });
                        }
                        None => self.unplanned(&disposition, handle, native),
                    }
                }
                Verdict::Lost | Verdict::QueueDropped | Verdict::Unplanned => {
                    let native = self.native(disposition);
                    self.write(disposition, None, native);
                    if let Some(mtu) = disposition.reported_mtu() {
                        let packet = self.slabs.frame(handle, &mut self.scratch);
                        self.messages.extend(too_big::message(packet, mtu));
                    }
                    self.dropped(disposition.flow, disposition.verdict, handle);
                    self.copies.release(&mut self.slabs, handle);
                }
            }
        }
        self.dispositions = dispositions;
    }

    /// The messages to senders since the last call, as frames that leave where packets of this direction arrive.
    pub(crate) fn take_messages(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.messages)
    }

    /// Adds a message of the other direction to what is about to leave. Without memory it is not sent.
    pub(crate) fn send_message(&mut self, frame: &[u8], now_ns: u64) {
        let Some(handle) = self.slabs.insert(frame) else { return };
        let length = frame.len() as u32;
        let disposition = Disposition::of_message(length, now_ns);
        self.leave(handle, QueuedFrame { disposition, native: None });
    }

    /// Sequence and flow of native data, if the packet trace or a log needs them.
    #[inline]
    fn native(&mut self, disposition: &Disposition) -> Option<(u64, u32)> {
        let is_needed = self.packet_trace.is_some() || self.recorders.log();
        if !is_needed || disposition.fragment.is_later() {
            return None;
        }
        let handle = Handle::from_bits(disposition.handle);
        native(self.slabs.frame(handle, &mut self.scratch), self.hops.native_port())
    }

    #[inline]
    fn write(
        &mut self,
        disposition: &Disposition,
        departed_ns: Option<u64>,
        native: Option<(u64, u32)>,
    ) {
        if let Some(packet_trace) = &mut self.packet_trace
            && !self.extras[disposition.flow as usize].untraced
        {
            packet_trace.write(disposition, departed_ns, native);
        }
        if self.recorders.log() {
            self.recorders.verdict(self.direction, disposition, departed_ns, native);
        }
    }

    /// Counts a dropped frame for the watching clients.
    #[inline]
    fn dropped(&mut self, flow: u32, verdict: Verdict, handle: Handle) {
        if self.watches.is_active() {
            let frame = self.slabs.frame(handle, &mut self.scratch);
            self.watches.dropped(flow, verdict, frame);
        }
    }

    /// Starts counting the datagrams that are dropped or damaged, for a client.
    pub(crate) fn watch(&mut self, id: u64) {
        self.watches.start(id);
    }

    /// Ends a watch.
    pub(crate) fn unwatch(&mut self, id: u64) {
        self.watches.stop(id);
    }

    /// The datagrams dropped or damaged since a watch started.
    pub(crate) fn drops(&self, id: u64) -> Option<Drops> {
        self.watches.drops(id)
    }

    /// The names of the flows by number.
    pub(crate) fn names(&self) -> Vec<String> {
        self.hops.flows().map(|flow| flow.name.to_owned()).collect()
    }

    /// Counts a packet that could not be sent.
    fn unplanned(&mut self, disposition: &Disposition, handle: Handle, native: Option<(u64, u32)>) {
        if disposition.is_message() {
            return;
        }
        if disposition.flags & FLAG_EXEMPT != 0 {
            self.exempt_unplanned.0 += 1;
            self.exempt_unplanned.1 += u64::from(disposition.length);
            return;
        }
        self.dropped(disposition.flow, Verdict::Unplanned, handle);
        let extra = &mut self.extras[disposition.flow as usize];
        extra.unplanned += 1;
        extra.unplanned_bytes += u64::from(disposition.length);
        self.write(&Disposition { verdict: Verdict::Unplanned, ..*disposition }, None, native);
    }

    /// Sends leaving frames as far as the link has room; `clock` gives the time of each departure.
    pub(crate) fn send_out(
        &mut self,
        to: &mut dyn Transmit,
        clock: &mut dyn FnMut() -> u64,
    ) -> weir_link::Result<()> {
        while self.left < self.handles.len() {
            let mut end = self.handles.len().min(self.left + SENT_AT_ONCE);
            // A train leaves whole.
            while self.handles.get(end).is_some_and(|next| next.follows(self.handles[end - 1])) {
                end += 1;
            }
            let sent = to.send(&self.slabs, &self.handles[self.left..end])?;
            if sent == 0 {
                break;
            }
            let departed_ns = clock();
            let mut refused = to.refused().iter().copied().peekable();
            for place in 0..sent {
                let at = self.left + place;
                let QueuedFrame { disposition, native } = self.leaving[at];
                self.waiting_bytes -= u64::from(disposition.length);
                if refused.next_if_eq(&(place as u32)).is_some() {
                    self.unplanned(&disposition, self.handles[at], native);
                } else {
                    let handle = self.handles[at];
                    self.capture_departure(&disposition, handle, departed_ns, Passage::Both);
                    self.left_at(&disposition, native, departed_ns);
                }
                self.copies.release(&mut self.slabs, self.handles[at]);
            }
            self.left += sent;
            if self.left < end {
                break;
            }
        }
        self.tidy();
        Ok(())
    }

    /// Counts a packet that has left the last hop.
    #[inline]
    fn left_at(&mut self, disposition: &Disposition, native: Option<(u64, u32)>, departed_ns: u64) {
        if disposition.flags & FLAG_EXEMPT == 0 {
            self.departed.0 += 1;
            self.departed.1 += u64::from(disposition.length);
        }
        self.departed(disposition, native, departed_ns);
    }

    /// Counts a packet that has left a hop.
    #[inline]
    fn departed(
        &mut self,
        disposition: &Disposition,
        native: Option<(u64, u32)>,
        departed_ns: u64,
    ) {
        if disposition.flags & FLAG_EXEMPT != 0 {
            return;
        }
        let FlowExtra { timing, period, .. } = &mut self.extras[disposition.flow as usize];
        timing.record(disposition.at_ns, departed_ns);
        // A packet queued when the period started was delayed by other laws.
        let delays = match period.start_ns {
            Some(start) if disposition.arrived_ns < start => &mut timing.earlier,
            _ => &mut period.delays,
        };
        let times_ns = [disposition.arrived_ns, disposition.at_ns, departed_ns];
        delays.record(times_ns, self.late_limit_ns);
        self.late_packets += u64::from(departed_ns.saturating_sub(disposition.at_ns) > LATE_NS);
        self.write(disposition, Some(departed_ns), native);
    }

    fn tidy(&mut self) {
        if self.left == self.handles.len() {
            self.handles.clear();
            self.leaving.clear();
            self.left = 0;
        } else if self.left >= MAX_WAITING {
            self.handles.drain(..self.left);
            self.leaving.drain(..self.left);
            self.left = 0;
        }
    }

    /// Passes leaving frames to `out` with their planned times, which are the departures of a virtual clock.
    pub(crate) fn send_all<E>(
        &mut self,
        mut out: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for at in self.left..self.handles.len() {
            let QueuedFrame { disposition, native } = self.leaving[at];
            self.left = at + 1;
            self.waiting_bytes -= u64::from(disposition.length);
            out(disposition.at_ns, self.slabs.frame(self.handles[at], &mut self.scratch))?;
            self.left_at(&disposition, native, disposition.at_ns);
            self.copies.release(&mut self.slabs, self.handles[at]);
        }
        self.tidy();
        Ok(())
    }

    /// Drops queued packets and those that wait for the link.
    pub(crate) fn abandon(&mut self) {
        for place in 0..self.hops.count() {
            self.dispositions.clear();
            self.hops.engine_mut(place).abandon(&mut self.dispositions);
            self.carry_out(place, true);
        }
        for at in self.left..self.handles.len() {
            let QueuedFrame { disposition, native } = self.leaving[at];
            self.unplanned(&disposition, self.handles[at], native);
            self.copies.release(&mut self.slabs, self.handles[at]);
        }
        self.left = self.handles.len();
        self.waiting_bytes = 0;
        self.tidy();
    }

    /// Frames that wait for room in the link.
    pub(crate) fn waiting(&self) -> usize {
        self.handles.len() - self.left
    }

    pub(crate) fn next_deadline_ns(&self) -> Option<u64> {
        self.hops.next_deadline_ns()
    }

    pub(crate) fn held_packets(&self) -> u64 {
        self.hops.held_packets()
    }

    /// Fraction of the permitted memory that queued packets and their queues use.
    pub(crate) fn memory_used_bytes(&self) -> u64 {
        self.hops.memory_used_bytes()
    }

    pub(crate) fn late_packets(&self) -> u64 {
        self.late_packets
    }

    /// Packets that this side of the link lost without a law.
    pub(crate) fn unplanned_packets(&self) -> u64 {
        self.hops.flows().map(|flow| flow.counters.unplanned_dropped_packets).sum::<u64>()
            + self.extras.iter().map(|extra| extra.unplanned).sum::<u64>()
            + self.exempt_unplanned.0
    }

    /// Passes on the batches of the packet trace, captures and logs.
    pub(crate) fn flush_records(&mut self) {
        if let Some(packet_trace) = &mut self.packet_trace {
            packet_trace.flush();
        }
        self.recorders.flush();
    }

    /// Closes the packet trace of this direction, its captures and logs.
    pub(crate) fn close_records(&mut self) {
        self.recorders.close();
        if let Some(packet_trace) = self.packet_trace.take() {
            packet_trace.close();
        }
    }

    /// Packets and bytes of each flow that the laws released and that wait for room in the link.
    fn waiting_by_flow(&self) -> Vec<(u64, u64)> {
        let mut of = vec![(0, 0); self.extras.len()];
        let judged =
            self.leaving[self.left..].iter().filter(|l| l.disposition.flags & FLAG_EXEMPT == 0);
        for QueuedFrame { disposition, .. } in judged {
            let (packets, bytes) = &mut of[disposition.flow as usize];
            *packets += 1;
            *bytes += u64::from(disposition.length);
        }
        of
    }

    /// Exempt frames: forwarded, their bytes, refused by the link.
    fn exempt(&self) -> ExemptSnapshot {
        let all = self.hops.exempt();
        let is_exempt = |of: &Disposition| of.flags & FLAG_EXEMPT != 0 && !of.is_message();
        let waiting = self.leaving[self.left..].iter().filter(|l| is_exempt(&l.disposition));
        let (mut packets, mut bytes) = self.exempt_unplanned;
        for QueuedFrame { disposition, .. } in waiting {
            packets += 1;
            bytes += u64::from(disposition.length);
        }
        ExemptSnapshot {
            packets: all.packets.saturating_sub(packets),
            bytes: all.bytes.saturating_sub(bytes),
            unplanned_packets: self.exempt_unplanned.0,
        }
    }

    /// A copy of all counters, from which another thread makes the report. `times_ns` are the emulator's start and
    /// the time now.
    pub(crate) fn snapshot(
        &self,
        config: Arc<Impairment>,
        link: LinkReport,
        times_ns: [u64; 2],
    ) -> Snapshot {
        let waiting = self.waiting_by_flow();
        let flows = self.hops.flows().zip(&self.extras).zip(waiting);
        let trigger = |number| {
            let status = self.hops.trigger_status(number, times_ns[1])?;
            let condition = self.hops.trigger_condition(number, times_ns[1]);
            Some(TriggerReport::new(status, condition))
        };
        let flows = flows.map(|((status, extra), waiting)| FlowSnapshot {
            name: status.name.to_owned(),
            hop: self.hops.place(status.number) as u8 + 1,
            active: status.active,
            counters: extra.counters(&status, waiting),
            timing: extra.timing.clone(),
            traced: self.packet_trace.is_some().then_some(!extra.untraced),
            period: extra.period,
            peaks: [extra.peaks.max(status.peaks), status.peaks],
            trigger: trigger(status.number),
        });
        Snapshot {
            direction: side(self.direction),
            config: self.hops.timeline_config().cloned().unwrap_or(config),
            flows: flows.collect(),
            held_packets: self.hops.held_packets() + (self.waiting() + self.untaken()) as u64,
            received: (
                self.entered.0.saturating_sub(self.hops.exempt().packets),
                self.entered.1.saturating_sub(self.hops.exempt().bytes),
            ),
            sent: self.departed,
            late_packets: self.late_packets,
            late_limit_ns: self.late_limit_ns,
            link,
            exempt: self.exempt(),
            timeline: self.hops.timeline_status(times_ns[1]).map(Into::into),
            times_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_impair::HELD_OVERHEAD_BYTES;

    #[test]
    fn a_slot_is_at_most_twice_what_its_frame_counts_towards_the_limit() {
        for len in 1..=Slabs::MAX_FRAME_BYTES {
            let taken = Slabs::taken_bytes(len).expect("it is no longer than the longest");
            assert!(taken <= 2 * (len as u64 + HELD_OVERHEAD_BYTES), "{len} bytes take {taken}");
        }
    }
}
