//! The hops of one direction: an engine for each, which packets pass one after the other.
//!
//! The owner of the bytes carries out what an engine decides before a packet arrives at the next one, so that later hops see
//! changed, marked, copied and fragmented packets as a network would pass them on.

use std::sync::Arc;

use weir_laws::{Direction, flow_hash};
use weir_model::impairment::{Counters, Impairment, TriggerCondition};

use crate::counters::{Exempt, Peaks};
use crate::disposition::{Disposition, Meta};
use crate::engine::{Engine, FlowStatus};
use crate::error::ImpairError;
use crate::prepared::{Prepared, Retired};
use crate::share::Share;
use crate::timeline::TimelineStatus;
use crate::trigger::TriggerStatus;

/// The engines of one direction. Hops are known by their places: in either direction, 0 is the one nearest to A.
#[derive(Debug)]
pub struct Hops {
    direction: Direction,
    engines: Vec<Engine>,
    /// Place of each flow, by its number.
    places: Vec<u8>,
    share: Share,
    memory_bytes: u64,
}

impl Hops {
    /// The engines of a configuration.
    ///
    /// # Errors
    /// [`ImpairError`] for an invalid configuration, or two names with one hash.
    pub fn new(config: &Impairment, direction: Direction) -> Result<Self, ImpairError> {
        Self::for_worker(config, direction, Share::WHOLE)
    }

    /// The engines of a worker that judges part of the packets.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn for_worker(
        config: &Impairment,
        direction: Direction,
        share: Share,
    ) -> Result<Self, ImpairError> {
        let prepared = Prepared::new(&Arc::new(config.clone()), direction, 1)?;
        let engines = vec![Engine::empty(config, direction, 1, share)];
        let mut hops = Self { direction, engines, places: vec![], share, memory_bytes: 0 };
        hops.put_into_force(prepared)?;
        Ok(hops)
    }

    /// Applies another configuration between two steps. Flows are identified by name: packet indices and
    /// counters continue, so that no draw is used twice. Unchanged laws keep their state. Delayed packets
    /// leave at their planned time. A link with a new rate starts when the old queue is empty.
    ///
    /// # Errors
    /// As [`Names::check`](crate::Names::check), for all names that these engines have had; then nothing has changed.
    ///
    /// # Panics
    /// The configuration was prepared for the other direction or for fewer hops.
    pub fn put_into_force(&mut self, prepared: Prepared) -> Result<Retired, ImpairError> {
        assert!(prepared.hops.len() >= self.engines.len(), "prepared for fewer hops");
        self.engines[0].names().check(&prepared)?;
        let config = prepared.config().clone();
        let mut retired = Vec::with_capacity(prepared.hops.len());
        for hop in self.engines.len() as u8..prepared.hops.len() as u8 {
            self.engines.push(self.engines[0].for_hop(hop + 1, &config));
        }
        for (engine, prepared) in self.engines.iter_mut().zip(prepared.hops) {
            retired.push(engine.put_into_force(prepared));
        }
        let names = self.engines[0].names();
        self.places.resize(self.engines[0].flows().count(), 0);
        for flow in &config.flows {
            if let Some(number) = names.known(flow_hash(&flow.name)) {
                self.places[number as usize] = flow.hop() - 1;
            }
        }
        self.memory_bytes = self.share.of_bytes(config.memory_bytes());
        Ok(Retired(retired))
    }

    /// Number of hops, those without flows included.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.engines.len()
    }

    /// The places of the hops in the order in which packets pass them.
    #[inline]
    #[must_use]
    pub fn place_of_turn(&self, turn: usize) -> usize {
        match self.direction {
            Direction::Forward => turn,
            Direction::Reverse => self.engines.len() - 1 - turn,
        }
    }

    /// The engine of a hop.
    #[inline]
    #[must_use]
    pub fn engine(&self, place: usize) -> &Engine {
        &self.engines[place]
    }

    /// The engine of a hop.
    #[inline]
    pub fn engine_mut(&mut self, place: usize) -> &mut Engine {
        &mut self.engines[place]
    }

    /// Whether a packet passes the laws of a hop: all packets those of the first, where they are at least counted.
    pub fn takes(&mut self, place: usize, meta: &mut Meta) -> bool {
        place == 0 || self.engines[place].takes(meta)
    }

    /// [`Engine::step`] of a hop.
    pub fn step(
        &mut self,
        place: usize,
        now_ns: u64,
        metas: &[Meta],
        dispositions: &mut Vec<Disposition>,
    ) {
        if self.engines.len() > 1 {
            // The hops share the memory.
            let used: u64 = self.engines.iter().map(Engine::memory_used_bytes).sum();
            let others = used - self.engines[place].memory_used_bytes();
            self.engines[place].limit_memory(self.memory_bytes.saturating_sub(others));
        }
        self.engines[place].step(now_ns, metas, dispositions);
    }

    /// Every flow of the current or an earlier configuration, by number; 0 is Other. A flow that was moved to another hop has the
    /// counters of both.
    pub fn flows(&self) -> impl Iterator<Item = FlowStatus<'_>> {
        (0..).zip(&self.places).filter_map(|(number, place)| {
            let status = self.engines[usize::from(*place)].flow(number)?;
            let of_hops = self.engines.iter().filter_map(|engine| engine.flow(number));
            let both = |(counters, peaks): (Counters, Peaks), of: FlowStatus<'_>| {
                (counters.plus(&of.counters), peaks.max(of.peaks))
            };
            let (counters, peaks) = of_hops.fold(Default::default(), both);
            // In another hop, the same laws are others.
            let laws_version = status.laws_version | u64::from(*place) << 56;
            Some(FlowStatus { counters, peaks, laws_version, ..status })
        })
    }

    /// [`Engine::restart_peaks`] of all hops.
    pub fn restart_peaks(&mut self, number: u32) {
        self.engines.iter_mut().for_each(|engine| engine.restart_peaks(number));
    }

    /// The place of a flow's hop, by the flow's number.
    #[must_use]
    pub fn place(&self, number: u32) -> usize {
        self.places.get(number as usize).copied().unwrap_or_default().into()
    }

    /// The counters of exempt frames.
    #[must_use]
    pub fn exempt(&self) -> Exempt {
        self.engines[0].exempt()
    }

    /// The TCP and UDP port of Weir's servers on this path.
    #[must_use]
    pub fn native_port(&self) -> u16 {
        self.engines[0].native_port()
    }

    /// [`Engine::arm`] of all hops.
    pub fn arm(&mut self, now_ns: u64) {
        self.engines.iter_mut().for_each(|engine| engine.arm(now_ns));
    }

    /// [`Engine::trigger`] of all hops.
    pub fn trigger(&mut self, flow: Option<&str>, now_ns: u64) -> usize {
        self.engines.iter_mut().map(|engine| engine.trigger(flow, now_ns)).sum()
    }

    /// [`Engine::trigger_status`] of the flow's hop.
    #[must_use]
    pub fn trigger_status(&self, number: u32, now_ns: u64) -> Option<TriggerStatus> {
        self.engines[self.place(number)].trigger_status(number, now_ns)
    }

    /// [`Engine::trigger_condition`] of the flow's hop.
    #[must_use]
    pub fn trigger_condition(&self, number: u32, now_ns: u64) -> Option<&TriggerCondition> {
        self.engines[self.place(number)].trigger_condition(number, now_ns)
    }

    /// Time of the next change of the timeline; `None` if there is none.
    #[must_use]
    pub fn next_change_ns(&self) -> Option<u64> {
        self.engines.iter().filter_map(Engine::next_change_ns).min()
    }

    /// [`Engine::skip_idle_loops`], if nothing is queued in any hop.
    pub fn skip_idle_loops(&mut self, until_ns: u64) {
        if self.held_packets() == 0 {
            self.engines.iter_mut().for_each(|engine| engine.skip_idle_loops(until_ns));
        }
    }

    /// The configuration with the changes that the timeline has made; `None` without a timeline.
    #[must_use]
    pub fn timeline_config(&self) -> Option<&Arc<Impairment>> {
        self.engines[0].timeline_config()
    }

    /// Where the timeline is at a time; `None` without one.
    #[must_use]
    pub fn timeline_status(&self, now_ns: u64) -> Option<TimelineStatus> {
        self.engines[0].timeline_status(now_ns)
    }

    /// Number of queued packets, copies included.
    #[must_use]
    pub fn held_packets(&self) -> u64 {
        self.engines.iter().map(Engine::held_packets).sum()
    }

    /// Total memory: queued packets, and the tables of queues that are limited by bytes or packets.
    #[must_use]
    pub fn memory_used_bytes(&self) -> u64 {
        self.engines.iter().map(Engine::memory_used_bytes).sum()
    }

    /// Time at which the hops must be passed if nothing arrives before; `None` if nothing is queued.
    #[inline]
    #[must_use]
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.engines.iter().filter_map(Engine::next_deadline_ns).min()
    }
}
