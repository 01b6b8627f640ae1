//! The engine: passes packets of one direction through their stages, in the order of time.
//!
//! A stage whose output is known immediately (loss, a rate with tail drop, a delay that keeps order) is
//! passed at arrival, ahead of time; its packets wait in a FIFO queue. A law that reorders puts packets on
//! the timing wheel; they pass the remaining stages when their timer expires. Events are processed in the
//! order of (time, number), independent of the batches.

mod configure;
mod groups;
mod managed;
mod mtu;

pub(crate) use managed::ManagedLink;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use weir_laws::{Direction, DrawPosition, Draws, Philox, slot};
use weir_model::impairment::{
    Checksum, Colour, Distance, Impairment, Laws, OTHER as OTHER_NAME, PacketFacts, PoliceAction,
    Release, TriggerCondition,
};
use weir_model::plan::Direction as Side;
use weir_model::units::Dscp;

use crate::classify::{Classifier, OTHER, UNCLASSIFIED};
use crate::counters::{Counters, Exempt, Peaks};
use crate::disposition::{
    Disposition, FLAG_CONTROL, FLAG_DELAYED, FLAG_MARKED, FLAG_MODIFIED, FLAG_REORDERED, Fragment,
    Meta, TooLongPacket, Verdict,
};
use crate::edit::{EcnChange, Edit};
use crate::error::ImpairError;
use crate::pool::Pool;
use crate::prepared::Names;
use crate::queue::{Entry, Memory};
use crate::role::Role;
use crate::share::Share;
use crate::stages::{Arrival, Flow, GROUPS, GroupKind, Order, Path, Shared, Step, Steps};
use crate::timeline::{RunningTimeline, TimelineStatus};
use crate::trigger::{Conditions, TriggerStatus};
use crate::wheel::{Timer, Wheel};
use mtu::MessageLimit;

/// Memory accounted for a queued packet in addition to its length, bytes.
pub const HELD_OVERHEAD_BYTES: u64 = 128;

/// Number of changes of content with preallocated memory.
const EDITS_AT_ONCE: usize = 4096;
/// Minimum interval between two releases of memory that the tables of queues no longer need.
const RECLAIM_NS: u64 = 10_000_000;
/// Bit of a timer's item: the timer releases the oldest packet of a path, whose number is in the other
/// bits.
const FIRES: u32 = 1 << 31;
/// Bit of a timer's item with [`FIRES`]: the timer releases packets of a flow's group. The other bits are the flow's number and the
/// group's place.
const GROUP: u32 = 1 << 30;
/// Bit of a timer's item with [`FIRES`] alone: the managed link of a path is free. The other bits are the path's number.
const LINK: u32 = 1 << 29;
/// Bit of a packet's flags within the engine: it is ECN-capable, and a law of its flow may mark it. Not one of a [`Disposition`].
const CAPABLE: u8 = 32;
/// Bit of a packet's flags within the engine: it has waited in a batch or for a time slot.
const BATCHED: u8 = 16;
/// Bit of a packet's flags within the engine: it leaves at its own time, whatever is in the FIFO queue of its path.
const OWN_TIME: u8 = 128;
const INTERNAL: u8 = CAPABLE | BATCHED | OWN_TIME;
/// Bit of a packet's DSCP within the engine: a policer sets it.
const SETS_DSCP: u8 = 128;
/// Instead of a packet's DSCP: it has none, or no policer of its flow asks for it.
const NO_DSCP: u8 = 64;
/// The path without laws.
const NO_PATH: u32 = 0;

/// A packet in the engine.
#[derive(Clone, Copy, Debug, Default)]
struct Packet {
    handle: u32,
    flow: u32,
    index: u64,
    /// Index of its draws.
    draw: u64,
    arrived_ns: u64,
    length: u32,
    /// The range of bytes that content laws may change.
    from: u32,
    to: u32,
    /// What managed queues tell packets apart by, if the flow has one.
    class: u32,
    next: Steps,
    copy: u8,
    flags: u8,
    /// Its DSCP, or [`NO_DSCP`]; with [`SETS_DSCP`] the one that it gets.
    dscp: u8,
    fragment: Fragment,
    /// What an MTU limit does with it, if it is longer.
    too_long: TooLongPacket,
}

/// A packet in a FIFO queue, with its time and number.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    time: u64,
    number: u64,
    packet: Packet,
}

/// The status of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowStatus<'a> {
    /// Its number, as in [`Disposition::flow`]: 0 is Other.
    pub number: u32,
    /// Its name.
    pub name: &'a str,
    /// Whether it is in the current configuration.
    pub active: bool,
    /// Its counters.
    pub counters: Counters,
    /// Its largest values since [`Engine::restart_peaks`].
    pub peaks: Peaks,
    /// Changes whenever its laws change, shared ones included.
    pub laws_version: u64,
}

/// One direction of a hop of an impairment.
///
/// Call [`step`](Self::step) with packets in the order of arrival, and again (without packets, if none
/// arrived) at [`next_deadline_ns`](Self::next_deadline_ns).
#[derive(Debug)]
pub struct Engine {
    direction: Direction,
    hop: u8,
    share: Share,
    philox: Philox,
    classifier: Classifier,
    /// Number of the flow for each filter of the classifier.
    numbers: Vec<u32>,
    names: Names,
    flows: Vec<Flow>,
    /// Whether each flow is in the configuration.
    active: Vec<bool>,
    paths: Vec<Path>,
    pool: Pool<Waiting>,
    fifos: BinaryHeap<Reverse<(u64, u64, u32)>>,
    wheel: Wheel,
    /// The latest time seen.
    clock_ns: u64,
    /// The time of the current decision: the clock, or the time of an event that is processed late, so that
    /// its consequences are in order.
    present_ns: u64,
    /// Time of the next event or change of the timeline; `u64::MAX` when there is none.
    next_ns: u64,
    timeline: Option<Box<RunningTimeline>>,
    conditions: Conditions,
    /// Whether there are filters on rare fields, among the flows' or the triggers', or an MTU limit.
    parses_rare: bool,
    /// The smallest MTU limit; `u32::MAX` without one.
    smallest_mtu: u32,
    messages: MessageLimit,
    /// Number of the next event.
    number: u64,
    held_packets: u64,
    memory: Memory,
    /// When memory was last released.
    reclaimed_ns: Option<u64>,
    edits: Vec<Edit>,
    /// Whether a law needs the bytes of packets.
    parses: bool,
    /// The port by which control traffic over TCP is recognised.
    native_port: u16,
    /// Whether frames that the link needs to work, such as ARP, are exempt.
    exempts: bool,
    exempt: Exempt,
}

pub(crate) const fn side(direction: Direction) -> Side {
    match direction {
        Direction::Forward => Side::Forward,
        Direction::Reverse => Side::Reverse,
    }
}

impl Engine {
    /// Whether a filter or content law needs packets to be parsed.
    fn needs_keys(&self) -> bool {
        self.parses || self.classifier.needs_keys()
    }

    /// A packet for filters on rare fields and MTU limits.
    // Apart, so that packets of other configurations are not copied once more.
    #[inline(never)]
    fn meta_for(&self, handle: u32, arrived_ns: u64, frame: &[u8]) -> Meta {
        let mut meta = Meta::of_frame(handle, arrived_ns, frame, self.native_port);
        if let Some(filters) = self.classifier.rare() {
            let role = self.exempt_role(meta.role);
            meta.rare = filters.matching(role, frame, &meta.key, &meta.layers);
        }
        meta.limited_to(self.smallest_mtu, frame);
        meta.conditions = self.conditions.matching(frame, &meta);
        meta
    }

    /// Position of a role among the exempt ones; `None` if laws apply to its frames.
    #[inline]
    fn exempt_role(&self, role: Role) -> Option<usize> {
        role.exempt_place().filter(|_| self.exempts)
    }

    /// A packet for [`step`](Self::step): parses `frame` as far as the configuration needs.
    #[inline]
    #[must_use]
    pub fn meta(&self, handle: u32, arrived_ns: u64, frame: &[u8]) -> Meta {
        if self.needs_keys() {
            return match self.parses_rare {
                false => Meta::of_frame(handle, arrived_ns, frame, self.native_port),
                true => self.meta_for(handle, arrived_ns, frame),
            };
        }
        let role = Role::of_frame(frame, self.native_port);
        Meta { role, ..Meta::opaque(handle, arrived_ns, frame.len() as u32) }
    }

    /// The packet of the next segment of a super-packet, from that of the segment before it. `None` if the configuration reads
    /// more than what all segments have in common; then [`meta`](Self::meta) parses it. The role is that of the segment before.
    #[inline]
    #[must_use]
    pub fn next_segment(
        &self,
        before: &Meta,
        handle: u32,
        arrived_ns: u64,
        length: u32,
    ) -> Option<Meta> {
        (!self.parses_rare).then(|| Meta { handle, arrived_ns, ..before.of_length(length) })
    }

    /// All names of flows, with their numbers.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// Whether a packet belongs to a flow of this hop, and not to Other or to the exempt frames.
    pub(crate) fn takes(&mut self, meta: &mut Meta) -> bool {
        meta.class = self.class(meta);
        meta.class != OTHER
    }

    /// Classifies a packet that the next [`step`](Self::step) has; returns the number of its flow, `None` for an exempt frame.
    pub fn classify(&mut self, meta: &mut Meta) -> Option<u32> {
        meta.class = self.class(meta);
        match meta.class {
            OTHER => self.exempt_role(meta.role).is_none().then_some(0),
            class => Some(self.numbers[class as usize]),
        }
    }

    /// The filter that a packet matches, or [`OTHER`].
    #[inline]
    fn class(&mut self, meta: &Meta) -> u32 {
        if meta.class != UNCLASSIFIED {
            return meta.class;
        }
        match self.exempt_role(meta.role) {
            None => self.classifier.flow(&meta.key, meta.length, meta.rare, meta.arrived_ns),
            Some(role) => self.classifier.naming(role, &meta.key, meta.length, meta.rare),
        }
    }

    /// Sets the memory that queued packets and their tables may use.
    pub(crate) fn limit_memory(&mut self, bytes: u64) {
        self.memory.limit_bytes = bytes;
    }

    /// The TCP and UDP port of Weir's servers on this path.
    #[must_use]
    pub fn native_port(&self) -> u16 {
        self.native_port
    }

    /// The counters of exempt frames.
    #[must_use]
    pub fn exempt(&self) -> Exempt {
        self.exempt
    }

    /// Every flow of the current or an earlier configuration, by number; 0 is Other.
    pub fn flows(&self) -> impl Iterator<Item = FlowStatus<'_>> {
        (0..self.flows.len() as u32).filter_map(|number| self.flow(number))
    }

    /// A flow, by its number.
    pub(crate) fn flow(&self, number: u32) -> Option<FlowStatus<'_>> {
        let flow = self.flows.get(number as usize)?;
        Some(FlowStatus {
            number,
            name: &flow.name,
            active: self.active[number as usize],
            counters: flow.counters,
            peaks: flow.peaks,
            laws_version: flow.laws_version,
        })
    }

    /// Forgets the largest values of a flow, by its number. Packets that the loss law drops after this are another burst.
    pub fn restart_peaks(&mut self, number: u32) {
        if let Some(flow) = self.flows.get_mut(number as usize) {
            flow.peaks = Peaks::default();
            flow.loss_runs = [0; 2];
        }
    }

    /// Starts triggers that have not started to wait yet, the timeline and the traces of links: at the start of the emulator, and
    /// after another configuration. Otherwise they start with their first packet.
    pub fn arm(&mut self, now_ns: u64) {
        self.start_timeline(now_ns);
        for link in self.paths.iter_mut().filter_map(Path::transmitter_mut) {
            link.start_trace(now_ns);
        }
        for trigger in self.flows.iter_mut().filter_map(|flow| flow.trigger.as_mut()) {
            trigger.running.arm(now_ns);
        }
    }

    /// Meets the condition of triggers that wait for a command, of a flow (`None`: all). Returns their number.
    pub fn trigger(&mut self, flow: Option<&str>, now_ns: u64) -> usize {
        let meant = self.flows.iter_mut().filter(|it| flow.is_none_or(|name| name == it.name));
        let triggers = meant.filter_map(|flow| flow.trigger.as_mut());
        triggers.map(|trigger| usize::from(trigger.running.command(now_ns))).sum()
    }

    /// Time of the next change of the timeline; `None` if there is none.
    #[must_use]
    pub fn next_change_ns(&self) -> Option<u64> {
        self.timeline.as_ref().map(|timeline| timeline.next_ns()).filter(|at| *at != u64::MAX)
    }

    /// The configuration with the changes that the timeline has made; `None` without a timeline.
    #[must_use]
    pub fn timeline_config(&self) -> Option<&Arc<Impairment>> {
        self.timeline.as_ref().map(|timeline| timeline.current())
    }

    /// Where the timeline is at a time; `None` without one.
    #[must_use]
    pub fn timeline_status(&self, now_ns: u64) -> Option<TimelineStatus> {
        self.timeline.as_ref().map(|timeline| timeline.status(now_ns))
    }

    /// The trigger of a flow at a time, by the flow's number; `None` if its laws have none.
    #[must_use]
    pub fn trigger_status(&self, number: u32, now_ns: u64) -> Option<TriggerStatus> {
        let trigger = self.flows.get(number as usize)?.trigger.as_ref()?;
        Some(trigger.running.status(now_ns))
    }

    /// The condition that a flow's trigger waits for at a time, by the flow's number; `None` without a trigger, and if no
    /// condition will change its state.
    #[must_use]
    pub fn trigger_condition(&self, number: u32, now_ns: u64) -> Option<&TriggerCondition> {
        let trigger = self.flows.get(number as usize)?.trigger.as_ref()?;
        trigger.running.condition(now_ns)
    }

    /// Number of queued packets, copies included.
    #[must_use]
    pub fn held_packets(&self) -> u64 {
        self.held_packets
    }

    /// Memory of queued packets: the length and [`HELD_OVERHEAD_BYTES`] of each.
    #[must_use]
    pub(crate) fn held_bytes(&self) -> u64 {
        self.memory.used_bytes - self.memory.tables_bytes
    }

    /// Total memory: queued packets, and the tables of queues that are limited by bytes or packets.
    #[must_use]
    pub fn memory_used_bytes(&self) -> u64 {
        self.memory.used_bytes
    }

    /// Time at which [`step`](Self::step) must be called if nothing arrives before; `None` if nothing is
    /// queued.
    #[inline]
    #[must_use]
    pub fn next_deadline_ns(&self) -> Option<u64> {
        // Changes of the timeline alone can wait for the next packet.
        let is_needed = self.timeline.is_none() || self.held_packets > 0;
        (self.next_ns != u64::MAX && is_needed).then_some(self.next_ns)
    }

    /// The change of content of a disposition of the last step. If applying it changes nothing, call
    /// [`unmodified`](Self::unmodified).
    #[must_use]
    pub fn edit(&self, disposition: &Disposition) -> Option<&Edit> {
        if disposition.verdict != Verdict::Forwarded || disposition.is_message() {
            return None;
        }
        self.edits.get((disposition.edit as usize).checked_sub(1)?)
    }

    /// Clears the flag and count of a change for which [`Edit::apply`] returned `false`.
    pub fn unmodified(&mut self, disposition: &mut Disposition) {
        if disposition.flags & FLAG_MODIFIED != 0 {
            disposition.flags &= !FLAG_MODIFIED;
            self.flows[disposition.flow as usize].counters.modified_packets -= 1;
        }
    }

    /// Processes arrived packets and releases those due at `now_ns`. Dispositions are appended to
    /// `dispositions` in the order of departure; their edits are valid until the next call.
    pub fn step(&mut self, now_ns: u64, metas: &[Meta], dispositions: &mut Vec<Disposition>) {
        self.edits.clear();
        if self.timeline.is_some() {
            self.start_timeline(metas.first().map_or(now_ns, |meta| meta.arrived_ns));
        }
        for meta in metas {
            self.clock_ns = self.clock_ns.max(meta.arrived_ns);
            if self.next_ns <= self.clock_ns {
                self.advance(dispositions);
            }
            self.present_ns = self.clock_ns;
            self.arrive(meta, dispositions);
        }
        self.clock_ns = self.clock_ns.max(now_ns);
        if self.next_ns <= self.clock_ns {
            self.advance(dispositions);
        }
    }

    /// Drops all queued packets as unplanned, at the end of a run.
    pub fn abandon(&mut self, dispositions: &mut Vec<Disposition>) {
        while let Some(Reverse((_, _, path))) = self.fifos.pop() {
            while let Some(node) = self.pool.pop_front(&mut self.paths[path as usize].fifo) {
                let packet = self.free(node);
                self.drop(packet, self.clock_ns, Verdict::Unplanned, dispositions);
            }
        }
        while let Some(timer) = self.wheel.pop(u64::MAX) {
            if timer.item & (FIRES | GROUP | LINK) == FIRES | LINK {
                self.abandon_link(timer.item, dispositions);
                continue;
            }
            if timer.item & FIRES != 0 && timer.item & GROUP != 0 {
                self.abandon_group(timer.item, dispositions);
                continue;
            }
            let node = if timer.item & FIRES == 0 {
                Some(timer.item)
            } else {
                let path = &mut self.paths[(timer.item & !FIRES) as usize];
                self.pool.pop_front(&mut path.waiting)
            };
            if let Some(node) = node {
                let packet = self.free(node);
                self.drop(packet, self.clock_ns, Verdict::Unplanned, dispositions);
            }
        }
        self.next_ns = u64::MAX;
    }

    #[inline]
    fn arrive(&mut self, meta: &Meta, dispositions: &mut Vec<Disposition>) {
        let class = self.class(meta);
        if class == OTHER && self.exempt_role(meta.role).is_some() {
            return self.pass_exempt(meta, dispositions);
        }
        let is_control = meta.role == Role::Control;
        let role_flag = if is_control { FLAG_CONTROL } else { 0 };
        let number = if class == OTHER { 0 } else { self.numbers[class as usize] };
        let flow = &mut self.flows[number as usize];
        let index = flow.next_index;
        flow.next_index += 1;
        let next_draw = &mut flow.next_draw[usize::from(is_control)];
        let draw = *next_draw;
        *next_draw += 1;
        flow.counters.received_packets += 1;
        flow.counters.received_bytes += u64::from(meta.length);
        // Flows with stages and without trigger pass with one comparison.
        if flow.arrival != Arrival::Stages && !self.is_triggered(number, meta) {
            let flow = &mut self.flows[number as usize];
            flow.counters.sent_packets += 1;
            flow.counters.sent_bytes += u64::from(meta.length);
            // Packets still delayed by an earlier configuration are overtaken here, and will be marked as
            // reordered.
            flow.sent_to = index + 1;
            dispositions.push(Disposition {
                handle: meta.handle,
                flow: number,
                index,
                arrived_ns: meta.arrived_ns,
                at_ns: meta.arrived_ns,
                length: meta.length,
                edit: 0,
                verdict: Verdict::Forwarded,
                copy: 0,
                fragment: Fragment::default(),
                flags: role_flag,
            });
            return;
        }
        let flow = &self.flows[number as usize];
        let (from, to) = flow.content.as_ref().map_or((0, 0), |law| law.region(&meta.layers));
        let is_capable = (flow.marks || flow.classifies) && meta.key.ecn != 0;
        let (class, too_long) = match flow.classifies {
            false => (0, TooLongPacket::default()),
            true => (managed::class_of(&meta.key), flow.too_long(meta)),
        };
        let packet = Packet {
            handle: meta.handle,
            flow: number,
            index,
            draw,
            arrived_ns: meta.arrived_ns,
            length: meta.length,
            from,
            to,
            class,
            next: flow.steps,
            copy: 0,
            flags: role_flag | if is_capable { CAPABLE } else { 0 },
            dscp: if flow.classifies && meta.key.is_ip() { meta.key.dscp } else { NO_DSCP },
            fragment: Fragment::default(),
            too_long,
        };
        self.run(packet, meta.arrived_ns, dispositions);
    }

    /// Whether the trigger of a flow applies its laws to an arriving packet.
    #[inline]
    fn is_triggered(&mut self, number: u32, meta: &Meta) -> bool {
        let flow = &mut self.flows[number as usize];
        if flow.arrival == Arrival::Plain {
            return false;
        }
        let path = Some(&mut self.paths[flow.path as usize]).filter(|path| path.is_own());
        flow.is_applied(meta, path)
    }

    /// Forwards an exempt frame.
    #[cold]
    fn pass_exempt(&mut self, meta: &Meta, dispositions: &mut Vec<Disposition>) {
        let index = self.exempt.packets;
        self.exempt.packets += 1;
        self.exempt.bytes += u64::from(meta.length);
        dispositions.push(Disposition {
            handle: meta.handle,
            flow: 0,
            index,
            ..Disposition::of_message(meta.length, meta.arrived_ns)
        });
    }

    /// The position of a packet's draws for a law slot.
    #[inline]
    fn position(&self, packet: &Packet, slot: u8) -> DrawPosition {
        position(&self.flows, self.direction, packet, slot)
    }

    /// Passes a packet through its remaining stages, from time `t` on.
    fn run(&mut self, mut packet: Packet, mut t: u64, dispositions: &mut Vec<Disposition>) {
        loop {
            let here = packet.next;
            match packet.next.take() {
                Step::End => return self.leave(packet, t, dispositions),
                Step::Loss => {
                    let position = self.position(&packet, slot::LOSS);
                    let flow = &mut self.flows[packet.flow as usize];
                    let mut draws = position.draws_of_copy(&self.philox, packet.copy);
                    let is_control = usize::from(packet.flags & FLAG_CONTROL != 0);
                    let law = &mut flow.loss[is_control];
                    let start_ns = *flow.loss_start_ns.get_or_insert(t);
                    let elapsed_ns = t.saturating_sub(start_ns);
                    let facts = PacketFacts { elapsed_ns, bytes: packet.length };
                    if law.as_mut().is_some_and(|law| law.lost(&facts, &mut draws)) {
                        if packet.flags & CAPABLE == 0 || !flow.marks {
                            flow.extend_loss_burst(is_control);
                            return self.drop(packet, t, Verdict::Lost, dispositions);
                        }
                        packet.flags |= FLAG_MARKED;
                        flow.counters.marked_packets += 1;
                    }
                    flow.loss_runs[is_control] = 0;
                }
                Step::Duplicate => {
                    let position = self.position(&packet, slot::DUPLICATE);
                    let flow = &mut self.flows[packet.flow as usize];
                    let Some(stage) = &mut flow.duplicate else { continue };
                    if stage.delays.is_some() && t > self.present_ns {
                        return self.come_back(packet, here, t, dispositions);
                    }
                    let law = &mut stage.selects[usize::from(packet.flags & FLAG_CONTROL != 0)];
                    if !law.lost(&PacketFacts::default(), &mut position.draws(&self.philox)) {
                        continue;
                    }
                    let (copies, is_delayed) = (stage.copies, stage.delays.is_some());
                    flow.counters.duplicated_packets += u64::from(copies);
                    for _ in 0..copies {
                        dispositions.push(disposition(&packet, t, Verdict::Copied));
                    }
                    // Before the last copy: the packet itself and the other copies.
                    for copy in 0..copies {
                        packet.copy = copy;
                        if copy > 0 && is_delayed {
                            self.delay_copy(packet, t, dispositions);
                        } else {
                            self.run(packet, t, dispositions);
                        }
                    }
                    packet.copy = copies;
                    if is_delayed {
                        return self.delay_copy(packet, t, dispositions);
                    }
                }
                Step::Police => {
                    let flow = &mut self.flows[packet.flow as usize];
                    let Some(policer) = &mut self.paths[flow.path as usize].policer else {
                        continue;
                    };
                    let has_dscp = packet.dscp != NO_DSCP;
                    let dscp = has_dscp.then_some(Dscp(packet.dscp & !SETS_DSCP));
                    let before = policer.config.arrives_in(dscp);
                    let colour = policer.colour(t, packet.length, before);
                    flow.counters.yellow_packets += u64::from(colour == Colour::Yellow);
                    flow.counters.red_packets += u64::from(colour == Colour::Red);
                    match policer.config.action(colour) {
                        PoliceAction::Pass => {}
                        PoliceAction::Dscp(dscp) if has_dscp => {
                            packet.dscp = dscp.0 | SETS_DSCP;
                            flow.counters.remarked_packets += 1;
                        }
                        PoliceAction::Dscp(_) => {}
                        PoliceAction::Drop
                            if packet.flags & CAPABLE == 0 || !policer.config.ecn =>
                        {
                            flow.counters.policed_packets += 1;
                            return self.drop(packet, t, Verdict::Lost, dispositions);
                        }
                        PoliceAction::Drop => {
                            packet.flags |= FLAG_MARKED;
                            flow.counters.marked_packets += 1;
                        }
                    }
                }
                Step::Mtu => {
                    if packet.too_long.is_ip() {
                        if t > self.present_ns {
                            return self.come_back(packet, here, t, dispositions);
                        }
                        return self.too_long(packet, t, dispositions);
                    }
                }
                Step::Rate => {
                    let path = self.flows[packet.flow as usize].path;
                    if self.paths[path as usize].managed.is_some() {
                        if t > self.present_ns {
                            return self.come_back(packet, here, t, dispositions);
                        }
                        return self.offer(path, packet, t, dispositions);
                    }
                    let on_path = &mut self.paths[path as usize];
                    if let Some(link) = &mut on_path.link {
                        if link.has_background() {
                            let position = on_path.shared.position(self.direction);
                            let draws = position.draws(&self.philox);
                            link.pass_background(t, &draws, &mut self.memory);
                        }
                        // A packet that cannot be queued must not use the link's time.
                        let cost = cost(packet.length);
                        let mut entry = link.enter(t, packet.length, cost, &mut self.memory);
                        if link.has_waiting() {
                            link.note_queue(&mut self.flows[packet.flow as usize].peaks);
                        }
                        if entry == Entry::NoMemory && self.reclaim() {
                            entry = self.enter_again(path, t, packet.length);
                        }
                        match entry {
                            Entry::Sent(sent) => t = sent,
                            Entry::Full => {
                                return self.drop(packet, t, Verdict::QueueDropped, dispositions);
                            }
                            Entry::NoMemory => {
                                return self.drop(
                                    packet,
                                    self.present_ns,
                                    Verdict::Unplanned,
                                    dispositions,
                                );
                            }
                        }
                    }
                }
                Step::Delay => {
                    let position = self.position(&packet, slot::DELAY);
                    let number = self.flows[packet.flow as usize].path;
                    let path = &mut self.paths[number as usize];
                    let Some(stage) = &mut path.delay else { continue };
                    let mut draws = position.draws_of_copy(&self.philox, packet.copy);
                    let is_control = packet.flags & FLAG_CONTROL != 0;
                    let delay = stage.draw_ns(t, packet.length, is_control, &mut draws);
                    let until = t.saturating_add(delay);
                    if delay > 0 {
                        packet.flags |= FLAG_DELAYED;
                    }
                    if stage.is_clamp(delay) {
                        self.flows[packet.flow as usize].counters.clamped_packets += 1;
                    }
                    match stage.order {
                        Order::Kept => t = until,
                        Order::Max => {
                            t = until.max(path.latest_ns);
                            path.latest_ns = t;
                        }
                        Order::Allow => {
                            if let Some(node) = self.hold(packet, until, dispositions) {
                                self.schedule(until, node);
                            }
                            return;
                        }
                        Order::FifoRelease => {
                            // Every packet waits at least for the next candidate.
                            packet.flags |= FLAG_DELAYED;
                            if let Some(node) = self.hold(packet, until, dispositions) {
                                let path = &mut self.paths[number as usize];
                                self.pool.push_back(&mut path.waiting, node);
                                self.schedule(until, number | FIRES);
                            }
                            return;
                        }
                    }
                }
                Step::Reorder => {
                    if t > self.present_ns {
                        return self.come_back(packet, here, t, dispositions);
                    }
                    if !self.reorder(&mut packet, t, dispositions) {
                        return;
                    }
                }
                Step::Batch => {
                    if t > self.present_ns {
                        return self.come_back(packet, here, t, dispositions);
                    }
                    if !self.batch(&mut packet, t, dispositions) {
                        return;
                    }
                }
            }
        }
    }

    /// Sends a packet that has passed all stages, or puts it into the FIFO queue until its time.
    #[inline]
    fn leave(&mut self, packet: Packet, t: u64, dispositions: &mut Vec<Disposition>) {
        if packet.flags & OWN_TIME != 0 && t <= self.present_ns {
            return self.emit(packet, t, dispositions);
        }
        let number = self.flows[packet.flow as usize].path;
        let path = &self.paths[number as usize];
        let empty = path.fifo.is_empty();
        // An earlier stamp does not overtake packets before it.
        let t = if empty { t } else { t.max(path.fifo_ns) };
        if t <= self.present_ns {
            return self.emit(packet, t, dispositions);
        }
        let number_of_event = self.number;
        if let Some(node) = self.hold(packet, t, dispositions) {
            let path = &mut self.paths[number as usize];
            self.pool.push_back(&mut path.fifo, node);
            path.fifo_ns = t;
            if empty {
                self.fifos.push(Reverse((t, number_of_event, number)));
                self.next_ns = self.next_ns.min(t);
            }
        }
    }

    /// Queues a packet, if there is memory.
    #[inline]
    fn hold(
        &mut self,
        packet: Packet,
        time: u64,
        dispositions: &mut Vec<Disposition>,
    ) -> Option<u32> {
        let cost = cost(packet.length);
        let has_room = self.memory.has_room(cost) || self.reclaim() && self.memory.has_room(cost);
        if !has_room {
            self.drop(packet, self.present_ns, Verdict::Unplanned, dispositions);
            return None;
        }
        self.memory.used_bytes += cost;
        self.held_packets += 1;
        let number = self.number;
        self.number += 1;
        Some(self.pool.insert(Waiting { time, number, packet }))
    }

    /// Releases memory that the tables of queues no longer need, if it is a large part and was not done
    /// recently. Returns whether it did.
    #[cold]
    fn reclaim(&mut self) -> bool {
        let recent =
            self.reclaimed_ns.is_some_and(|at| self.present_ns.saturating_sub(at) < RECLAIM_NS);
        if recent || self.memory.tables_bytes < self.memory.limit_bytes / 8 {
            return false;
        }
        self.reclaimed_ns = Some(self.present_ns);
        for path in &mut self.paths {
            if let Some(link) = &mut path.link {
                link.tidy(self.present_ns);
            }
        }
        self.tidy_tables();
        true
    }

    #[cold]
    fn enter_again(&mut self, path: u32, t: u64, length: u32) -> Entry {
        match &mut self.paths[path as usize].link {
            Some(link) => link.enter(t, length, cost(length), &mut self.memory),
            None => Entry::Sent(t),
        }
    }

    #[inline]
    fn free(&mut self, node: u32) -> Packet {
        let packet = self.pool.remove(node).packet;
        self.memory.used_bytes -= cost(packet.length);
        self.held_packets -= 1;
        packet
    }

    /// Adds a timer for the packet queued last.
    #[inline]
    fn schedule(&mut self, time: u64, item: u32) {
        self.wheel.insert(Timer { time, number: self.number - 1, item });
        self.next_ns = self.next_ns.min(time);
    }

    /// Processes all events due at the clock, in order. A change of the timeline precedes other events at its time.
    fn advance(&mut self, dispositions: &mut Vec<Disposition>) {
        while let Some(at_ns) = self.timeline.as_ref().map(|timeline| timeline.next_ns())
            && at_ns <= self.clock_ns
        {
            self.pass_events(at_ns.saturating_sub(1), dispositions);
            self.turn_timeline();
        }
        self.pass_events(self.clock_ns, dispositions);
        let fifo = self.fifos.peek().map_or(u64::MAX, |Reverse(head)| head.0);
        let change = self.timeline.as_ref().map_or(u64::MAX, |timeline| timeline.next_ns());
        self.next_ns = fifo.min(self.wheel.next_time()).min(change);
    }

    /// Processes events up to a time.
    fn pass_events(&mut self, now: u64, dispositions: &mut Vec<Disposition>) {
        loop {
            let fifo = self.fifos.peek().map(|Reverse(head)| *head).filter(|head| head.0 <= now);
            let timer = self.wheel.peek(now);
            match (fifo, timer) {
                (Some((time, number, path)), timer)
                    if timer.is_none_or(|timer| (time, number) < (timer.time, timer.number)) =>
                {
                    self.leave_fifo(time, path, dispositions);
                }
                (_, Some(timer)) => {
                    self.wheel.pop(now);
                    self.present_ns = timer.time;
                    if timer.item & (FIRES | GROUP | LINK) == FIRES | LINK {
                        self.link_is_free(timer, dispositions);
                        continue;
                    }
                    if timer.item & FIRES != 0 && timer.item & GROUP != 0 {
                        self.fire_group(timer, dispositions);
                        continue;
                    }
                    let node = if timer.item & FIRES == 0 {
                        Some(timer.item)
                    } else {
                        let path = &mut self.paths[(timer.item & !FIRES) as usize];
                        self.pool.pop_front(&mut path.waiting)
                    };
                    if let Some(node) = node {
                        let packet = self.free(node);
                        // The candidate may come from a packet with an earlier stamp, and precede this
                        // packet's arrival.
                        let t = timer.time.max(packet.arrived_ns);
                        self.run(packet, t, dispositions);
                    }
                }
                (_, None) => break,
            }
        }
    }

    /// Releases the head of a FIFO queue, and the following packets as long as no other event can be due between
    /// them.
    fn leave_fifo(&mut self, time: u64, path: u32, dispositions: &mut Vec<Disposition>) {
        let Some(node) = self.pool.pop_front(&mut self.paths[path as usize].fifo) else { return };
        let packet = self.free(node);
        self.emit(packet, time, dispositions);
        let next = self.paths[path as usize].fifo;
        if next.is_empty() {
            self.fifos.pop();
        } else {
            let Waiting { time, number, .. } = *self.pool.get(next.head());
            if let Some(mut head) = self.fifos.peek_mut() {
                *head = Reverse((time, number, path));
            }
        }
    }

    /// Sends a packet.
    #[inline]
    fn emit(&mut self, packet: Packet, t: u64, dispositions: &mut Vec<Disposition>) {
        let mut disposition = disposition(&packet, t, Verdict::Forwarded);
        let is_marked = packet.flags & FLAG_MARKED != 0 || packet.dscp & SETS_DSCP != 0;
        if is_marked || self.flows[packet.flow as usize].content.is_some() {
            self.change(&packet, &mut disposition);
        }
        let flow = &mut self.flows[packet.flow as usize];
        flow.counters.sent_packets += 1;
        flow.counters.sent_bytes += u64::from(packet.length);
        flow.counters.batched_packets += u64::from(packet.flags & BATCHED != 0);
        flow.counters.delayed_packets += u64::from(packet.flags & FLAG_DELAYED != 0);
        if packet.copy == 0 && !packet.fragment.is_later() {
            if packet.index < flow.sent_to {
                disposition.flags |= FLAG_REORDERED;
                flow.counters.reordered_packets += 1;
            } else {
                flow.sent_to = packet.index + 1;
            }
        }
        dispositions.push(disposition);
    }

    /// Decides what the content law changes of a packet that is sent, and adds the edit of it, of its mark and of its DSCP.
    fn change(&mut self, packet: &Packet, disposition: &mut Disposition) {
        let position = self.position(packet, slot::CONTENT);
        let mut ecn = (packet.flags & FLAG_MARKED != 0).then_some(EcnChange::Mark);
        let mut change = None;
        let mut checksum = Checksum::Repair;
        let flow = &self.flows[packet.flow as usize];
        if let Some(law) = &flow.content {
            let mut draws = position.draws_of_copy(&self.philox, packet.copy);
            if packet.from < packet.to && law.chance.happens(draws.bits()) {
                let bits = u64::from(packet.to - packet.from) * 8;
                let is_changed = law.bit_errors.is_none_or(|errors| errors.next(&mut draws) < bits);
                (change, checksum) = (is_changed.then(|| law.change.clone()), law.checksum);
            }
            let position = self.position(packet, slot::BLEACH);
            let mut draws = position.draws_of_copy(&self.philox, packet.copy);
            // Bleaching removes marks as well.
            if !law.bleach.is_never() && law.bleach.happens(draws.bits()) {
                ecn = Some(EcnChange::Bleach);
            }
        }
        if change.is_some() || ecn == Some(EcnChange::Bleach) {
            self.flows[packet.flow as usize].counters.modified_packets += 1;
            disposition.flags |= FLAG_MODIFIED;
        }
        let dscp = (packet.dscp & SETS_DSCP != 0).then_some(packet.dscp & !SETS_DSCP);
        if change.is_some() || ecn.is_some() || dscp.is_some() {
            self.edits.push(Edit {
                ecn,
                dscp,
                philox: self.philox,
                position,
                copy: packet.copy,
                change,
                checksum,
                from: packet.from,
                to: packet.to,
            });
            disposition.edit = self.edits.len() as u32;
        }
    }

    fn drop(
        &mut self,
        packet: Packet,
        t: u64,
        verdict: Verdict,
        dispositions: &mut Vec<Disposition>,
    ) {
        let counters = &mut self.flows[packet.flow as usize].counters;
        match verdict {
            Verdict::Lost => counters.lost_packets += 1,
            Verdict::QueueDropped => counters.queue_dropped_packets += 1,
            Verdict::Unplanned => counters.unplanned_dropped_packets += 1,
            Verdict::Forwarded | Verdict::Copied => {}
        }
        dispositions.push(disposition(&packet, t, verdict));
    }
}

/// As [`Engine::position`], beside changes of the other parts of an engine.
#[inline]
fn position(flows: &[Flow], direction: Direction, packet: &Packet, slot: u8) -> DrawPosition {
    let slot = if packet.flags & FLAG_CONTROL == 0 { slot } else { slot | slot::CONTROL };
    DrawPosition { flow: flows[packet.flow as usize].hash, direction, slot, packet: packet.draw }
}

/// Memory accounted for a packet while it is queued.
#[inline]
fn cost(length: u32) -> u64 {
    u64::from(length) + HELD_OVERHEAD_BYTES
}

#[inline]
fn disposition(packet: &Packet, at_ns: u64, verdict: Verdict) -> Disposition {
    Disposition {
        handle: packet.handle,
        flow: packet.flow,
        index: packet.index,
        arrived_ns: packet.arrived_ns,
        at_ns,
        length: packet.length,
        edit: 0,
        verdict,
        copy: packet.copy,
        fragment: packet.fragment,
        flags: packet.flags & !INTERNAL,
    }
}

#[cfg(test)]
mod delivery_tests;
#[cfg(test)]
mod group_tests;
#[cfg(test)]
mod law_tests;
#[cfg(test)]
mod managed_tests;
#[cfg(test)]
mod mtu_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod timeline_tests;
#[cfg(test)]
mod trigger_tests;
