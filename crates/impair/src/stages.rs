//! The state of a flow's stages: its own, and that of its path, which flows may share.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_laws::{Chance, Direction, DrawPosition, Draws, Geometric, flow_hash, slot};
use weir_model::impairment::{
    Batch, BatchLaw, Change, Checksum, Delay, Distance, Duplicate, Laws, LossLaw, OTHER,
    OrderPolicy, PacketFacts, Police, Rate, Region, Release, Reorder, RunningDelay, Stage,
    TimingLaw, TriggerState,
};

use crate::counters::{Counters, Peaks};
use crate::disposition::Meta;
use crate::engine::ManagedLink;
use crate::key::Layers;
use crate::pool::List;
use crate::queue::{Link, Policer, Transmitter};
use crate::trigger::{RunningTrigger, TriggerStatus};

/// A stage in the engine. Content is not one: it is changed when a packet leaves, since flipped bits do not
/// affect other stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Step {
    /// The end of the list.
    End,
    Loss,
    Duplicate,
    Police,
    Mtu,
    Rate,
    Delay,
    Reorder,
    Batch,
}

/// The steps that a packet still takes, the next one in the lowest bits. Therefore a packet that is queued while laws change keeps
/// its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Steps(u32);

/// Bits of a step.
const STEP_BITS: u32 = 4;
// All stages but content are steps.
const _: () =
    assert!((Stage::COUNT as u32 - 1) * STEP_BITS <= u32::BITS, "too many stages for Steps");

impl Steps {
    fn of(steps: impl DoubleEndedIterator<Item = Step>) -> Self {
        Self(steps.rev().fold(0, |rest, step| rest << STEP_BITS | step as u32))
    }

    /// Returns the next step and advances to the one after it.
    #[inline]
    pub(crate) fn take(&mut self) -> Step {
        let step = self.0 & ((1 << STEP_BITS) - 1);
        self.0 >>= STEP_BITS;
        match step {
            1 => Step::Loss,
            2 => Step::Duplicate,
            3 => Step::Police,
            4 => Step::Mtu,
            5 => Step::Rate,
            6 => Step::Delay,
            7 => Step::Reorder,
            8 => Step::Batch,
            _ => Step::End,
        }
    }
}

/// The content law of a flow.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ContentLaw {
    pub(crate) chance: Chance,
    pub(crate) change: Change,
    /// Distances between bit errors, if the change is those.
    pub(crate) bit_errors: Option<Geometric>,
    pub(crate) checksum: Checksum,
    region: Region,
    offset: u32,
    length: u32,
    /// Of the ECN field being cleared.
    pub(crate) bleach: Chance,
}

impl ContentLaw {
    /// The range of a packet's bytes that the law may change, possibly empty.
    #[inline]
    pub(crate) fn region(&self, layers: &Layers) -> (u32, u32) {
        let start = match (self.checksum, self.region) {
            // Any checksum lies after the start of the network header.
            (Checksum::Checksum, _) => return (layers.l3, layers.end),
            (_, Region::L2) => 0,
            (_, Region::L3) => layers.l3,
            (_, Region::L4) => layers.l4,
            (_, Region::Payload) => layers.payload,
        };
        let from = start.saturating_add(self.offset);
        (from, from.saturating_add(self.length).min(layers.end))
    }
}

/// The duplication of a flow.
#[derive(Clone, Debug)]
pub(crate) struct DuplicateStage {
    /// Which packets: the same law twice, with the states for ordinary packets and for control traffic.
    pub(crate) selects: [LossLaw; 2],
    pub(crate) copies: u8,
    /// Of the delay of each copy.
    pub(crate) delays: Option<[TimingLaw; 2]>,
}

impl DuplicateStage {
    fn of(config: &Duplicate) -> Option<Self> {
        let law = config.selects()?;
        let delays = config.delay.as_ref().map(|delay| [delay.start(), delay.start()]);
        Some(Self { selects: [law.clone(), law], copies: config.copies, delays })
    }
}

/// The reordering of a flow.
#[derive(Clone, Debug)]
pub(crate) struct ReorderStage {
    /// Which packets move: the same law twice, with the states for ordinary packets and for control traffic.
    pub(crate) selects: [LossLaw; 2],
    pub(crate) distance: Distance,
    /// Whether selected packets pass and the others wait.
    pub(crate) ahead: bool,
    pub(crate) timeout_ns: u64,
}

impl ReorderStage {
    fn of(config: &Reorder) -> Option<Self> {
        let law = config.selects()?;
        let Reorder { distance, ahead, timeout, .. } = *config;
        Some(Self { selects: [law.clone(), law], distance, ahead, timeout_ns: timeout.0 })
    }
}

/// The batches of a flow.
#[derive(Clone, Debug)]
pub(crate) struct BatchStage {
    /// The same law twice, with the states for ordinary packets and for control traffic.
    laws: [BatchLaw; 2],
    /// When the first packet reached it.
    start_ns: Option<u64>,
}

impl BatchStage {
    fn of(config: &Batch) -> Option<Self> {
        let law = BatchLaw::of(config)?;
        Some(Self { laws: [law.clone(), law], start_ns: None })
    }

    /// When the next packet leaves, which reaches the stage at `now_ns`; on the engine's clock.
    #[inline]
    pub(crate) fn release(
        &mut self,
        now_ns: u64,
        bytes: u32,
        is_control: bool,
        draws: &mut Draws,
    ) -> Release {
        let start_ns = *self.start_ns.get_or_insert(now_ns);
        let packet = PacketFacts { elapsed_ns: now_ns.saturating_sub(start_ns), bytes };
        let on_clock = |elapsed_ns: u64| start_ns.saturating_add(elapsed_ns);
        match self.laws[usize::from(is_control)].release(&packet, draws) {
            Release::Complete => Release::Complete,
            Release::Before(elapsed_ns) => Release::Before(on_clock(elapsed_ns)),
            Release::At(elapsed_ns) => Release::At(on_clock(elapsed_ns)),
        }
    }
}

/// Packets of a flow that wait for others, oldest first. Each has a time at which it leaves at the latest.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) list: List,
    /// When its timer fires; there is one as long as packets wait.
    pub(crate) timer_ns: Option<u64>,
}

impl Group {
    const EMPTY: Group = Group { list: List::EMPTY, timer_ns: None };
}

/// Counts of packets that reordering compares.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Packets that others wait for, so far.
    pub(crate) passed: u64,
    /// For each waiting packet, oldest first: the count at which it leaves.
    pub(crate) leave_at: VecDeque<u64>,
}

/// The groups of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupKind {
    Reorder,
    Batch,
}

/// Number of groups of a flow: of each kind one for ordinary packets and one for control traffic.
pub(crate) const GROUPS: usize = 4;

impl GroupKind {
    /// The place of a group among those of its flow.
    pub(crate) fn place(self, is_control: bool) -> usize {
        2 * usize::from(self == GroupKind::Batch) + usize::from(is_control)
    }
}

/// What arriving packets of a flow do first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// They are forwarded directly: there are no laws.
    Plain,
    /// They pass the stages.
    Stages,
    /// A trigger decides.
    Triggered,
}

/// The trigger of a flow.
#[derive(Debug)]
pub(crate) struct FlowTrigger {
    pub(crate) running: RunningTrigger,
    /// The application for which the laws were last started.
    started: u64,
    /// The laws as they start, if they may be applied more than once.
    fresh: Option<FreshLaws>,
}

/// The laws of a flow, and policer and delay of its own path, before the first packet.
#[derive(Debug)]
struct FreshLaws {
    loss: [Option<LossLaw>; 2],
    duplicate: Option<DuplicateStage>,
    reorder: Option<ReorderStage>,
    batch: Option<BatchStage>,
    policer: Option<Policer>,
    delay: Option<DelayStage>,
}

impl FreshLaws {
    /// Those of laws that are applied again; tables are made here, and not when a packet arrives.
    fn of(laws: &Laws, shared: &Shared) -> Option<Self> {
        laws.trigger.as_ref().filter(|trigger| trigger.rearm)?;
        Some(Self {
            loss: [(), ()].map(|()| laws.loss.as_ref().and_then(LossLaw::of)),
            duplicate: laws.duplicate.as_ref().and_then(DuplicateStage::of),
            reorder: laws.reorder.as_ref().and_then(ReorderStage::of),
            batch: laws.batch.as_ref().and_then(BatchStage::of),
            policer: shared.police.as_ref().map(Policer::new),
            delay: shared.delay.as_ref().and_then(DelayStage::of),
        })
    }
}

/// State of a flow.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) name: String,
    pub(crate) hash: u32,
    /// Index of the next packet.
    pub(crate) next_index: u64,
    /// Index of the next packet's draws: for ordinary packets and for control traffic.
    pub(crate) next_draw: [u64; 2],
    /// One more than the highest index sent.
    pub(crate) sent_to: u64,
    pub(crate) counters: Counters,
    pub(crate) peaks: Peaks,
    pub(crate) steps: Steps,
    /// What arriving packets do first.
    pub(crate) arrival: Arrival,
    /// Whether there is no stage and no content law.
    is_empty: bool,
    /// The same law twice, with the states for ordinary packets and for control traffic.
    pub(crate) loss: [Option<LossLaw>; 2],
    /// Packets that it has dropped since the last one that it did not drop.
    pub(crate) loss_runs: [u64; 2],
    /// Whether packets that the law selects are marked if they can be, instead of dropped.
    pub(crate) marks: bool,
    /// Whether the policer of its path reads or marks packets, its queue marks them, the queue distinguishes flows, or there is an MTU limit.
    pub(crate) classifies: bool,
    /// When the first packet reached the law.
    pub(crate) loss_start_ns: Option<u64>,
    pub(crate) duplicate: Option<DuplicateStage>,
    pub(crate) reorder: Option<ReorderStage>,
    pub(crate) batch: Option<BatchStage>,
    /// Packets that wait for others, by [`GroupKind::place`]. They stay there when the laws change.
    pub(crate) groups: [Group; GROUPS],
    /// Of reordering: of ordinary packets and of control traffic.
    pub(crate) places: [Places; 2],
    pub(crate) content: Option<ContentLaw>,
    pub(crate) path: u32,
    /// When the laws are applied, unless always.
    pub(crate) trigger: Option<Box<FlowTrigger>>,
    /// The current laws.
    pub(crate) laws: Laws,
    /// How many times the laws or the path have changed.
    pub(crate) laws_version: u64,
}

impl Flow {
    /// A flow without laws, whose first packet has this index.
    pub(crate) fn new(name: &str, first_index: u64) -> Self {
        Self {
            name: name.into(),
            hash: flow_hash(name),
            next_index: first_index,
            next_draw: [first_index; 2],
            sent_to: 0,
            counters: Counters::default(),
            peaks: Peaks::default(),
            steps: Steps::default(),
            arrival: Arrival::Plain,
            is_empty: true,
            loss: [None, None],
            loss_runs: [0; 2],
            marks: false,
            classifies: false,
            loss_start_ns: None,
            duplicate: None,
            reorder: None,
            batch: None,
            groups: [const { Group::EMPTY }; GROUPS],
            places: Default::default(),
            content: None,
            path: 0,
            trigger: None,
            laws: Laws::default(),
            laws_version: 0,
        }
    }

    /// Counts a packet that the loss law drops.
    #[inline]
    pub(crate) fn extend_loss_burst(&mut self, is_control: usize) {
        let run = &mut self.loss_runs[is_control];
        *run += 1;
        self.counters.loss_bursts += u64::from(*run == 1);
        self.peaks.loss_burst_packets = self.peaks.loss_burst_packets.max(*run);
    }

    /// Applies laws. `shared` has policer, rate and delay of the flow's path, its own or an aggregate's.
    /// Unchanged laws keep their state.
    pub(crate) fn put(&mut self, laws: Laws, shared: &Shared, path: u32) {
        // Equal paths are the same path, so that another path means another policer, rate or delay.
        let is_first = self.laws_version == 0;
        self.laws_version += u64::from(is_first || self.laws != laws || self.path != path);
        if self.laws.loss != laws.loss {
            self.loss = [(), ()].map(|()| laws.loss.as_ref().and_then(LossLaw::of));
            self.loss_start_ns = None;
        }
        self.marks = laws.loss.as_ref().is_some_and(|loss| loss.ecn);
        let aqm = shared.rate.as_ref().and_then(|rate| rate.aqm.as_ref());
        self.classifies = aqm.is_some_and(|aqm| aqm.reads_packets())
            || shared.police.as_ref().is_some_and(Police::reads_packets)
            || laws.mtu.is_some();
        if self.laws.duplicate != laws.duplicate {
            self.duplicate = laws.duplicate.as_ref().and_then(DuplicateStage::of);
        }
        if self.laws.reorder != laws.reorder {
            self.reorder = laws.reorder.as_ref().and_then(ReorderStage::of);
        }
        if self.laws.batch != laws.batch {
            self.batch = laws.batch.as_ref().and_then(BatchStage::of);
        }
        self.content = laws.content.as_ref().map(|content| ContentLaw {
            chance: Chance::percent(content.percentage),
            bit_errors: match content.change() {
                Change::BitErrors(ratio) => Some(Geometric::new(ratio)),
                _ => None,
            },
            change: content.change(),
            checksum: content.checksum,
            region: content.region,
            offset: content.offset,
            length: content.length.unwrap_or(u32::MAX),
            bleach: Chance::percent(content.bleach_ecn_percentage),
        });
        self.path = path;
        let step = |stage| match stage {
            Stage::Loss => self.loss[0].as_ref().map(|_| Step::Loss),
            Stage::Duplicate => self.duplicate.as_ref().map(|_| Step::Duplicate),
            Stage::Police => shared.police.as_ref().map(|_| Step::Police),
            Stage::Mtu => laws.mtu.as_ref().map(|_| Step::Mtu),
            Stage::Rate => shared.rate.as_ref().map(|_| Step::Rate),
            Stage::Delay => shared.delay.as_ref().map(|_| Step::Delay),
            Stage::Reorder => self.reorder.as_ref().map(|_| Step::Reorder),
            Stage::Batch => self.batch.as_ref().map(|_| Step::Batch),
            Stage::Content => None,
        };
        let steps: Vec<Step> = laws.stages().into_iter().filter_map(step).collect();
        self.is_empty = steps.is_empty() && self.content.is_none();
        self.steps = Steps::of(steps.into_iter());
        self.laws = laws;
    }

    /// Sets the trigger of the laws that were applied before. An unchanged one keeps its state; returns the one that is no
    /// longer used.
    pub(crate) fn set_trigger(
        &mut self,
        new: Option<RunningTrigger>,
        shared: &Shared,
    ) -> Option<RunningTrigger> {
        let is_kept = match (&self.trigger, &self.laws.trigger) {
            (Some(old), Some(trigger)) => old.running.is_of(trigger),
            _ => false,
        };
        let (unused, running) = match (self.trigger.take(), new) {
            (Some(old), new) if is_kept => (new, Some((old.running, old.started))),
            (old, new) => (old.map(|old| old.running), new.map(|new| (new, 0))),
        };
        self.trigger = running.map(|(running, started)| {
            let fresh = FreshLaws::of(&self.laws, shared);
            Box::new(FlowTrigger { running, started, fresh })
        });
        self.arrival = match (&self.trigger, self.is_empty) {
            (Some(_), _) => Arrival::Triggered,
            (None, true) => Arrival::Plain,
            (None, false) => Arrival::Stages,
        };
        unused
    }

    /// Counts a packet of a flow with a trigger, and returns whether laws are applied to it. `path` is the flow's own, if it
    /// is not shared; a further application starts all laws from their beginning.
    #[cold]
    pub(crate) fn is_applied(&mut self, meta: &Meta, path: Option<&mut Path>) -> bool {
        let Some(trigger) = &mut self.trigger else { return !self.is_empty };
        let TriggerStatus { state, applications } = trigger.running.packet(meta);
        if state != TriggerState::Applying {
            return false;
        }
        let is_further = applications > 1 && applications != trigger.started;
        trigger.started = applications;
        if let Some(fresh) = trigger.fresh.as_ref().filter(|_| is_further) {
            self.loss.clone_from(&fresh.loss);
            self.loss_start_ns = None;
            self.duplicate.clone_from(&fresh.duplicate);
            self.reorder.clone_from(&fresh.reorder);
            self.batch.clone_from(&fresh.batch);
            if let Some(path) = path {
                path.policer.clone_from(&fresh.policer);
                path.delay.clone_from(&fresh.delay);
            }
        }
        !self.is_empty
    }
}

/// The configuration of a path and its flows. Equal configurations are the same path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shared {
    pub(crate) members: Arc<[String]>,
    pub(crate) police: Option<Police>,
    pub(crate) rate: Option<Rate>,
    pub(crate) delay: Option<Delay>,
    /// Order of the stages: paths of different orders do not share an output queue.
    pub(crate) order: Option<Vec<Stage>>,
}

impl Shared {
    /// The configuration of a path that belongs to one flow or to Other.
    pub(crate) fn own(members: Arc<[String]>, laws: &Laws) -> Self {
        Self {
            members,
            police: laws.police.clone(),
            rate: laws.rate.clone(),
            delay: laws.delay.clone(),
            order: laws.order.clone(),
        }
    }

    pub(crate) fn is_empty_path(&self) -> bool {
        self.police.is_none() && self.rate.is_none() && self.delay.is_none()
    }

    /// The position of draws for events of the link's other traffic: of the first flow.
    #[cold]
    pub(crate) fn position(&self, direction: Direction) -> DrawPosition {
        let name =
            self.members.first().filter(|name| !name.is_empty()).map_or(OTHER, String::as_str);
        DrawPosition { flow: flow_hash(name), direction, slot: slot::BACKGROUND, packet: 0 }
    }

    /// A hash of the first member's name; a flow is on one path only.
    pub(crate) fn key(&self) -> u32 {
        self.members.first().map_or(0, |name| flow_hash(name))
    }
}

/// How a delay law treats the order of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// A constant delay, which keeps the order.
    Kept,
    Allow,
    FifoRelease,
    Max,
}

/// The delay law of a path.
#[derive(Clone, Debug)]
pub(crate) struct DelayStage {
    /// The same law twice, with the states for ordinary packets and for control traffic.
    laws: [RunningDelay; 2],
    /// The delays that draws beyond the law's bounds become; `u64::MAX` instead of one that no draw is beyond.
    pub(crate) clamps_ns: [u64; 2],
    pub(crate) order: Order,
    /// Whether all packets share one state: delays that are smooth in time only then keep the order.
    is_shared: bool,
    /// When the first packet reached it.
    start_ns: Option<u64>,
}

impl DelayStage {
    fn of(config: &Delay) -> Option<Self> {
        let law = RunningDelay::of(config)?;
        let order = match config.order {
            _ if config.is_constant() => Order::Kept,
            OrderPolicy::Allow => Order::Allow,
            OrderPolicy::FifoRelease => Order::FifoRelease,
            OrderPolicy::Smooth | OrderPolicy::Max => Order::Max,
        };
        let is_shared = config.order == OrderPolicy::Smooth;
        let clamps_ns = config.clamps_ns().map(|bound| bound.unwrap_or(u64::MAX));
        Some(Self { laws: [law.clone(), law], clamps_ns, order, is_shared, start_ns: None })
    }

    /// Whether a delay is one that draws beyond the law's bounds become.
    #[inline]
    pub(crate) fn is_clamp(&self, delay_ns: u64) -> bool {
        let [min, max] = self.clamps_ns;
        delay_ns == min || delay_ns == max
    }

    /// The delay of the next packet, which reaches the stage at `now_ns`.
    #[inline]
    pub(crate) fn draw_ns(
        &mut self,
        now_ns: u64,
        bytes: u32,
        is_control: bool,
        draws: &mut Draws,
    ) -> u64 {
        let start_ns = *self.start_ns.get_or_insert(now_ns);
        let packet = PacketFacts { elapsed_ns: now_ns.saturating_sub(start_ns), bytes };
        self.laws[usize::from(is_control && !self.is_shared)].draw_ns(&packet, draws)
    }
}

/// Policer, rate and delay of one flow or of an aggregate, with their queued packets.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) shared: Shared,
    pub(crate) policer: Option<Policer>,
    pub(crate) link: Option<Link>,
    /// The link, if its queue is managed.
    pub(crate) managed: Option<ManagedLink>,
    pub(crate) delay: Option<DelayStage>,
    /// The latest planned departure, for the policies *max* and *smooth*.
    pub(crate) latest_ns: u64,
    /// Packets with a known departure time, in order.
    pub(crate) fifo: List,
    /// Departure time of the last packet in `fifo`.
    pub(crate) fifo_ns: u64,
    /// Packets that wait for the next candidate to fire, oldest first.
    pub(crate) waiting: List,
}

impl Path {
    pub(crate) fn new(shared: Shared) -> Self {
        let delay = shared.delay.as_ref().and_then(DelayStage::of);
        Self {
            policer: shared.police.as_ref().map(Policer::new),
            link: shared.rate.as_ref().filter(|rate| rate.aqm.is_none()).map(Link::new),
            managed: shared.rate.as_ref().and_then(ManagedLink::new),
            delay,
            shared,
            latest_ns: 0,
            fifo: List::EMPTY,
            fifo_ns: 0,
            waiting: List::EMPTY,
        }
    }

    /// The transmitter of its link.
    pub(crate) fn transmitter(&self) -> Option<&Transmitter> {
        let managed = self.managed.as_ref().map(|link| &link.transmitter);
        self.link.as_ref().map(|link| &link.transmitter).or(managed)
    }

    /// The transmitter of its link.
    pub(crate) fn transmitter_mut(&mut self) -> Option<&mut Transmitter> {
        let managed = self.managed.as_mut().map(|link| &mut link.transmitter);
        self.link.as_mut().map(|link| &mut link.transmitter).or(managed)
    }

    /// Whether it belongs to one flow.
    pub(crate) fn is_own(&self) -> bool {
        self.shared.members.len() == 1
    }

    /// Whether nothing is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.fifo.is_empty()
            && self.waiting.is_empty()
            && self.managed.as_ref().is_none_or(ManagedLink::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_taken_in_their_order_and_end() {
        for list in [
            &[Step::Rate, Step::Loss, Step::Delay][..],
            &[
                Step::Batch,
                Step::Reorder,
                Step::Delay,
                Step::Rate,
                Step::Mtu,
                Step::Police,
                Step::Duplicate,
                Step::Loss,
            ],
            &[],
        ] {
            let mut steps = Steps::of(list.iter().copied());
            for step in list {
                assert_eq!(steps.take(), *step);
            }
            assert_eq!([steps.take(), steps.take()], [Step::End; 2]);
        }
    }
}
