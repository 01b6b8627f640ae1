//! The state of a trigger: whether the laws of a flow are applied.
//!
//! Conditions of time are met without a packet. They are evaluated when the state is asked for, so that nothing has
//! to be scheduled and the result does not depend on when that is.

use weir_model::impairment::{Filter, Impairment, Trigger, TriggerCondition, TriggerState};

use crate::classify::{Classifier, OTHER, RareFilters, RareMatch};
use crate::disposition::Meta;
use crate::error::ImpairError;

/// The filters of triggers' conditions that are on rare fields: they are evaluated where a packet is parsed, since its bytes
/// are not there when it reaches the trigger.
#[derive(Debug, Default)]
pub(crate) struct Conditions(Vec<(Filter, RareFilters)>);

impl Conditions {
    /// Those of a configuration and its timeline, in both directions.
    pub(crate) fn of(config: &Impairment) -> Self {
        let mut all: Vec<(Filter, RareFilters)> = vec![];
        for filter in config.match_filters() {
            if all.iter().all(|(other, _)| other != filter)
                && let Some(rare) = RareFilters::of(std::slice::from_ref(filter))
            {
                all.push((filter.clone(), rare));
            }
        }
        Self(all)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Which of them a frame matches, by bit.
    pub(crate) fn matching(&self, frame: &[u8], meta: &Meta) -> u32 {
        let matches = |rare: &RareFilters| {
            rare.matching(None, frame, &meta.key, &meta.layers) != RareMatch::NONE
        };
        self.0.iter().rev().fold(0, |bits, (_, rare)| bits << 1 | u32::from(matches(rare)))
    }

    fn bit(&self, filter: &Filter) -> u32 {
        self.0.iter().position(|(other, _)| other == filter).map_or(0, |at| 1 << at)
    }
}

/// A condition that matches packets.
#[derive(Debug)]
struct MatchedFilter {
    classifier: Classifier,
    /// The bit of its filter among the [`Conditions`]; 0 if it needs none.
    bit: u32,
}

impl MatchedFilter {
    fn matches(&mut self, meta: &Meta, now_ns: u64) -> bool {
        let is_match = meta.conditions & self.bit != 0;
        let rare = self.classifier.rare().map_or(RareMatch::NONE, |rare| rare.single(is_match));
        self.classifier.flow(&meta.key, meta.length, rare, now_ns) != OTHER
    }
}

/// The state of a trigger, and how many times it has started the laws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriggerStatus {
    /// The state.
    pub state: TriggerState,
    /// Number of times that the laws have been applied, the current one included.
    pub applications: u64,
}

/// A running trigger.
#[derive(Debug)]
pub(crate) struct RunningTrigger {
    trigger: Trigger,
    /// Of the start and the stop condition, if they match packets.
    filters: [Option<MatchedFilter>; 2],
    /// `None` until the engine has a time.
    progress: Option<Progress>,
}

/// How far a trigger is.
#[derive(Clone, Copy, Debug)]
struct Progress {
    status: TriggerStatus,
    /// When it came into this state.
    since_ns: u64,
    /// Packets and bytes since then.
    packets: u64,
    bytes: u64,
}

impl RunningTrigger {
    pub(crate) fn new(trigger: &Trigger) -> Result<Self, ImpairError> {
        let filter = |condition: &Option<TriggerCondition>| -> Result<_, ImpairError> {
            match condition {
                Some(TriggerCondition::Match(filter)) => {
                    let classifier = Classifier::new(std::slice::from_ref(&**filter))?;
                    Ok(Some(MatchedFilter { classifier, bit: 0 }))
                }
                _ => Ok(None),
            }
        };
        let filters = [filter(&trigger.start)?, filter(&trigger.stop)?];
        Ok(Self { trigger: trigger.clone(), filters, progress: None })
    }

    pub(crate) fn is_of(&self, trigger: &Trigger) -> bool {
        self.trigger == *trigger
    }

    /// Whether a condition needs the fields of packets.
    pub(crate) fn needs_keys(&self) -> bool {
        self.filters.iter().flatten().any(|filter| filter.classifier.needs_keys())
    }

    /// Finds its conditions among those of the engine.
    pub(crate) fn assign(&mut self, conditions: &Conditions) {
        let wanted = [&self.trigger.start, &self.trigger.stop];
        for (filter, condition) in self.filters.iter_mut().zip(wanted) {
            if let (Some(filter), Some(TriggerCondition::Match(of))) = (filter, condition) {
                filter.bit = conditions.bit(of);
            }
        }
    }

    /// Starts to wait for the start condition, unless it has before.
    pub(crate) fn arm(&mut self, now_ns: u64) {
        if self.progress.is_none() {
            let mut progress = Progress::armed(now_ns);
            if self.trigger.start.is_none() {
                progress.turn(&self.trigger, now_ns);
            }
            self.progress = Some(progress);
        }
    }

    /// Counts a packet, and returns the state for it.
    pub(crate) fn packet(&mut self, meta: &Meta) -> TriggerStatus {
        let (now_ns, length) = (meta.arrived_ns, meta.length);
        self.arm(now_ns);
        let Self { trigger, filters, progress: Some(progress) } = self else {
            return TriggerStatus { state: TriggerState::Waiting, applications: 0 };
        };
        progress.pass_time(trigger, now_ns);
        let [start, stop] = filters;
        let filter = if progress.status.state == TriggerState::Waiting { start } else { stop };
        let is_met = match progress.condition(trigger) {
            Some(TriggerCondition::Packets(n)) => progress.packets >= *n,
            Some(TriggerCondition::Bytes(size)) => progress.bytes >= size.0,
            Some(TriggerCondition::Match(_)) => {
                filter.as_mut().is_some_and(|filter| filter.matches(meta, now_ns))
            }
            Some(TriggerCondition::Time(_) | TriggerCondition::Command) | None => false,
        };
        if is_met {
            progress.turn(trigger, now_ns);
        }
        progress.packets += 1;
        progress.bytes += u64::from(length);
        progress.status
    }

    /// Meets the condition that it waits for, if that is a command; returns whether it is.
    pub(crate) fn command(&mut self, now_ns: u64) -> bool {
        self.arm(now_ns);
        let Self { trigger, progress: Some(progress), .. } = self else { return false };
        progress.pass_time(trigger, now_ns);
        let is_met = progress.condition(trigger) == Some(&TriggerCondition::Command);
        if is_met {
            progress.turn(trigger, now_ns);
        }
        is_met
    }

    /// The state at a time.
    pub(crate) fn status(&self, now_ns: u64) -> TriggerStatus {
        self.progress_at(now_ns).status
    }

    /// The condition that it waits for at a time; `None` if none will change its state.
    pub(crate) fn condition(&self, now_ns: u64) -> Option<&TriggerCondition> {
        self.progress_at(now_ns).condition(&self.trigger)
    }

    /// How far it is at a time. Without a time so far, it waits.
    fn progress_at(&self, now_ns: u64) -> Progress {
        let mut progress = self.progress.unwrap_or(Progress::armed(now_ns));
        progress.pass_time(&self.trigger, now_ns);
        progress
    }
}

impl Progress {
    /// That of a trigger that starts to wait.
    fn armed(now_ns: u64) -> Self {
        let status = TriggerStatus { state: TriggerState::Waiting, applications: 0 };
        Self { status, since_ns: now_ns, packets: 0, bytes: 0 }
    }

    /// The condition that it waits for.
    fn condition<'a>(&self, trigger: &'a Trigger) -> Option<&'a TriggerCondition> {
        match self.status.state {
            TriggerState::Waiting => trigger.start.as_ref(),
            TriggerState::Applying => trigger.stop.as_ref(),
            TriggerState::Done => None,
        }
    }

    /// Goes to the next state.
    fn turn(&mut self, trigger: &Trigger, at_ns: u64) {
        let is_last = trigger.repeat.is_some_and(|n| self.status.applications >= n.into());
        self.status.state = match self.status.state {
            TriggerState::Waiting => TriggerState::Applying,
            TriggerState::Applying if trigger.rearm && !is_last => TriggerState::Waiting,
            TriggerState::Applying | TriggerState::Done => TriggerState::Done,
        };
        self.status.applications += u64::from(self.status.state == TriggerState::Applying);
        (self.since_ns, self.packets, self.bytes) = (at_ns, 0, 0);
    }

    /// Meets the conditions of time up to now, each at its own time.
    fn pass_time(&mut self, trigger: &Trigger, now_ns: u64) {
        while let Some(TriggerCondition::Time(span)) = self.condition(trigger) {
            let until = self.since_ns.saturating_add(span.0);
            if now_ns < until {
                return;
            }
            self.skip_cycles(trigger, now_ns);
            let until = self.since_ns.saturating_add(span.0);
            self.turn(trigger, until);
        }
    }

    /// Passes whole cycles of two times at once: an idle flow may have any number of them. The last one is left.
    fn skip_cycles(&mut self, trigger: &Trigger, now_ns: u64) {
        let (
            Some(TriggerCondition::Time(start)),
            Some(TriggerCondition::Time(stop)),
            TriggerState::Waiting,
            true,
        ) = (&trigger.start, &trigger.stop, self.status.state, trigger.rearm)
        else {
            return;
        };
        let cycle = start.0.saturating_add(stop.0).max(1);
        let left = trigger
            .repeat
            .map_or(u64::MAX, |n| u64::from(n).saturating_sub(self.status.applications));
        let whole = ((now_ns - self.since_ns) / cycle).min(left).saturating_sub(1);
        self.since_ns += whole * cycle;
        self.status.applications += whole;
    }
}
