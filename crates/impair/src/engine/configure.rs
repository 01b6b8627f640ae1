//! Applying a configuration: flows, their laws and their paths.

use std::collections::HashMap;

use weir_laws::flow_hash;

use super::*;
use crate::prepared::{self, PreparedHop, RetiredHop, laws_in, other_laws_in};
use crate::trigger::RunningTrigger;

impl Engine {
    /// The engine of hop 1 in one direction.
    ///
    /// # Errors
    /// [`ImpairError`] for an invalid configuration, or two names with one hash.
    pub fn new(config: &Impairment, direction: Direction) -> Result<Self, ImpairError> {
        let mut engine = Self::empty(config, direction, 1, Share::WHOLE);
        engine.configure(config)?;
        Ok(engine)
    }

    /// An engine without flows.
    pub(crate) fn empty(config: &Impairment, direction: Direction, hop: u8, share: Share) -> Self {
        Self {
            direction,
            hop,
            share,
            philox: Philox::new(config.seed.0),
            classifier: Classifier::none(),
            numbers: vec![],
            names: Names::default(),
            flows: vec![Flow::new(OTHER_NAME, share.first_index())],
            active: vec![true],
            paths: vec![Path::new(Shared::default())],
            pool: Pool::new(),
            fifos: BinaryHeap::with_capacity(64),
            wheel: Wheel::new(),
            clock_ns: 0,
            present_ns: 0,
            next_ns: u64::MAX,
            timeline: None,
            conditions: Conditions::default(),
            parses_rare: false,
            smallest_mtu: u32::MAX,
            messages: MessageLimit::default(),
            number: 0,
            held_packets: 0,
            memory: Memory::default(),
            reclaimed_ns: None,
            edits: vec![],
            parses: false,
            native_port: config.native_port,
            exempts: !config.impair_arp,
            exempt: Exempt::default(),
        }
    }

    /// An engine for another hop with the same numbers of flows, for the next configuration.
    pub(crate) fn for_hop(&self, hop: u8, config: &Impairment) -> Self {
        let mut engine = Self::empty(config, self.direction, hop, self.share);
        engine.names = self.names.clone();
        let first_index = self.share.first_index();
        engine.flows = self.flows.iter().map(|flow| Flow::new(&flow.name, first_index)).collect();
        engine.active = vec![false; engine.flows.len()];
        engine.clock_ns = self.clock_ns;
        engine
    }

    /// Prepares and applies a configuration: for callers that may block while it is prepared.
    ///
    /// # Errors
    /// As [`Engine::new`]; then nothing has changed.
    pub(crate) fn configure(&mut self, config: &Impairment) -> Result<(), ImpairError> {
        prepared::check(config)?;
        let prepared = PreparedHop::new(Arc::new(config.clone()), self.direction, self.hop)?;
        self.names.check_hop(&prepared)?;
        drop(self.put_into_force(prepared));
        Ok(())
    }

    /// Applies another configuration between two steps. Flows are identified by name: packet indices and
    /// counters continue, so that no draw is used twice. Unchanged laws keep their state. Delayed packets
    /// leave at their planned time. A link with a new rate starts when the old queue is empty.
    ///
    /// # Panics
    /// The configuration was prepared for the other direction or another hop.
    pub(crate) fn put_into_force(&mut self, prepared: PreparedHop) -> RetiredHop {
        assert_eq!(prepared.direction, self.direction, "prepared for the other direction");
        assert_eq!(prepared.hop, self.hop, "prepared for another hop");
        let PreparedHop {
            config, classifier, filtered, triggers, mut timeline, conditions, ..
        } = prepared;
        let conditions = std::mem::replace(&mut self.conditions, conditions);
        if let (Some(timeline), Some(before)) = (&mut timeline, &self.timeline) {
            timeline.resume(before);
        }
        let current = timeline.as_ref().map_or(&config, |timeline| timeline.current()).clone();
        let (numbers, unused) = self.put_laws(&current, triggers);
        self.numbers = filtered.iter().map(|place| numbers[*place as usize]).collect();
        let timeline = std::mem::replace(&mut self.timeline, timeline);
        self.next_ns = self.next_ns.min(self.change_ns());
        self.philox = Philox::new(config.seed.0);
        self.memory.limit_bytes = self.share.of_bytes(config.memory_bytes());
        self.native_port = config.native_port;
        self.exempts = !config.impair_arp;
        self.tidy_tables();
        let before = std::mem::replace(&mut self.classifier, classifier);
        self.smallest_mtu = config.smallest_mtu().unwrap_or(u32::MAX);
        let has_mtu = self.smallest_mtu != u32::MAX;
        self.parses_rare =
            self.classifier.rare().is_some() || !self.conditions.is_empty() || has_mtu;
        let parses = |flow: &Flow| {
            let matches = flow.trigger.as_ref().is_some_and(|trigger| trigger.running.needs_keys());
            flow.content.is_some() || flow.marks || flow.classifies || matches
        };
        // A batch is parsed before the changes that are due within it.
        self.parses = has_mtu || self.timeline.is_some() || self.flows.iter().any(parses);
        if self.parses {
            // Memory for all packets that leave together after a stall, so that no packet waits for an
            // allocation.
            self.edits.reserve(EDITS_AT_ONCE);
        }
        RetiredHop { classifier: before, triggers: unused, timeline, conditions }
    }

    /// Puts the laws of a configuration into force, and returns the numbers of its flows, with Other at the end, and triggers
    /// that are no longer used. `triggers` are prepared ones in the same order.
    fn put_laws(
        &mut self,
        config: &Impairment,
        triggers: Vec<Option<RunningTrigger>>,
    ) -> (Vec<u32>, Vec<RunningTrigger>) {
        let side = side(self.direction);
        // Policers, rates and delays with their flows; `group_of` is the index in it by a flow's name.
        let mut shareds: Vec<Shared> = vec![];
        let mut group_of: HashMap<&str, usize> = HashMap::new();
        for aggregate in &config.aggregates {
            let shared = match self.direction {
                Direction::Forward => &aggregate.a_to_b,
                Direction::Reverse => &aggregate.b_to_a,
            };
            if !shared.is_empty() {
                group_of.extend(aggregate.flows.iter().map(|name| (name.as_str(), shareds.len())));
                shareds.push(Shared {
                    members: aggregate.flows.clone().into(),
                    police: shared.police.clone(),
                    rate: shared.rate.clone(),
                    delay: shared.delay.clone(),
                    order: None,
                });
            }
        }
        let mut wanted: Vec<(u32, Laws, usize)> = Vec::with_capacity(config.flows.len() + 1);
        let mut active = vec![false; self.flows.len()];
        for config in &config.flows {
            let number = self.names.number(flow_hash(&config.name), &config.name);
            if number as usize == self.flows.len() {
                self.flows.push(Flow::new(&config.name, self.share.first_index()));
                active.push(false);
            }
            active[number as usize] = true;
            let laws = laws_in(self.hop, config, side);
            let group = match group_of.get(config.name.as_str()) {
                Some(group) if config.run.0 && config.hop() == self.hop => *group,
                _ => {
                    shareds.push(Shared::own([config.name.clone()].into(), &laws));
                    shareds.len() - 1
                }
            };
            wanted.push((number, laws, group));
        }
        let laws = other_laws_in(self.hop, config, side);
        // The empty name is Other's: it is not valid for a flow.
        shareds.push(Shared::own([String::new()].into(), &laws));
        wanted.push((0, laws, shareds.len() - 1));
        active[0] = true;
        let numbers = wanted.iter().map(|(number, ..)| *number).collect();
        let unused = self.put(wanted, triggers, &shareds, &active);
        for trigger in self.flows.iter_mut().filter_map(|flow| flow.trigger.as_mut()) {
            trigger.running.assign(&self.conditions);
        }
        self.active = active;
        (numbers, unused)
    }

    /// Time of the next change of the timeline; `u64::MAX` if there is none.
    fn change_ns(&self) -> u64 {
        self.timeline.as_ref().map_or(u64::MAX, |timeline| timeline.next_ns())
    }

    /// Starts the timeline, unless it has started.
    pub(super) fn start_timeline(&mut self, now_ns: u64) {
        if let Some(timeline) = &mut self.timeline {
            timeline.start(now_ns);
        }
        self.next_ns = self.next_ns.min(self.change_ns());
    }

    /// Skips loops of the timeline that end before a time, if nothing is queued; the last one is left.
    pub fn skip_idle_loops(&mut self, until_ns: u64) {
        if let Some(timeline) = self.timeline.as_mut().filter(|_| self.held_packets == 0) {
            timeline.skip_loops(until_ns);
        }
    }

    /// Makes the changes of the timeline that are due next.
    #[cold]
    pub(super) fn turn_timeline(&mut self) {
        let Some(timeline) = &mut self.timeline else { return };
        if self.held_packets == 0 {
            timeline.skip_loops(self.clock_ns);
        }
        let at_ns = timeline.next_ns();
        timeline.turn();
        let current = timeline.current().clone();
        // Events between this time and the clock are still to come.
        let clock_ns = std::mem::replace(&mut self.clock_ns, at_ns);
        let triggers = (0..=current.flows.len()).map(|_| None).collect();
        self.put_laws(&current, triggers);
        self.tidy_tables();
        self.clock_ns = clock_ns;
        self.arm(at_ns);
    }

    /// The trigger for new laws of a flow: the prepared one, or one for laws of the timeline; any if the present one stays.
    fn trigger_of(
        &self,
        number: u32,
        laws: &Laws,
        prepared: Option<RunningTrigger>,
    ) -> Option<RunningTrigger> {
        let trigger = laws.trigger.as_ref()?;
        let present = self.flows[number as usize].trigger.as_ref();
        let is_ready = prepared.as_ref().is_some_and(|prepared| prepared.is_of(trigger))
            || present.is_some_and(|present| present.running.is_of(trigger));
        // The tables of one filter are small enough for any limit.
        if is_ready { prepared } else { RunningTrigger::new(trigger).ok() }
    }

    /// Assigns each flow its laws and its path: the current one if unchanged, an unused one, or a new one.
    /// Returns triggers that are no longer used.
    fn put(
        &mut self,
        wanted: Vec<(u32, Laws, usize)>,
        triggers: Vec<Option<RunningTrigger>>,
        shareds: &[Shared],
        active: &[bool],
    ) -> Vec<RunningTrigger> {
        let mut unused = vec![];
        for (number, flow) in self.flows.iter_mut().enumerate() {
            if !active[number] {
                // Its queued packets pass the remaining stages without laws.
                flow.put(Laws::default(), &Shared::default(), NO_PATH);
                unused.extend(flow.set_trigger(None, &Shared::default()));
            }
        }
        let mut by_key: HashMap<u32, Vec<u32>> = HashMap::with_capacity(self.paths.len());
        for (path, number) in self.paths.iter().zip(0..).skip(1) {
            by_key.entry(path.shared.key()).or_default().push(number);
        }
        let equal_path = |shared: &Shared| {
            let candidates = by_key.get(&shared.key())?;
            candidates.iter().copied().find(|n| self.paths[*n as usize].shared == *shared)
        };
        let mut paths: Vec<Option<u32>> = shareds
            .iter()
            .map(|shared| if shared.is_empty_path() { Some(NO_PATH) } else { equal_path(shared) })
            .collect();
        // A path that a flow still uses, or that has queued packets, must not be reused.
        let mut in_use = vec![false; self.paths.len()];
        for path in paths.iter().flatten().copied().chain(self.flows.iter().map(|flow| flow.path)) {
            in_use[path as usize] = true;
        }
        let mut free: Vec<u32> = (1..self.paths.len() as u32)
            .rev()
            .filter(|n| !in_use[*n as usize] && self.paths[*n as usize].is_empty())
            .collect();
        // Of the links that a new one replaces, the one that is free last: no flow overtakes its own packets.
        let mut before = vec![NO_PATH; shareds.len()];
        for (number, _, group) in &wanted {
            let path = self.flows[*number as usize].path;
            if self.free_at(path) >= self.free_at(before[*group]) {
                before[*group] = path;
            }
        }
        for ((number, laws, group), trigger) in wanted.into_iter().zip(triggers) {
            let shared = &shareds[group];
            let path = match paths[group] {
                Some(path) => path,
                None => self.new_path(shared, before[group], &mut free),
            };
            paths[group] = Some(path);
            let trigger = self.trigger_of(number, &laws, trigger);
            let flow = &mut self.flows[number as usize];
            flow.put(laws, shared, path);
            unused.extend(flow.set_trigger(trigger, shared));
        }
        unused
    }

    /// Releases the tables of queues without flows, and updates the memory of all tables.
    pub(super) fn tidy_tables(&mut self) {
        let mut used = vec![false; self.paths.len()];
        for flow in &self.flows {
            used[flow.path as usize] = true;
        }
        let mut tables = 0;
        for (path, used) in self.paths.iter_mut().zip(used) {
            if let Some(link) = &mut path.link {
                if !used {
                    link.tidy(self.clock_ns);
                }
                tables += link.table_bytes();
            }
            tables += path.managed.as_ref().map_or(0, |link| link.table_bytes());
        }
        self.memory.used_bytes = self.memory.used_bytes - self.memory.tables_bytes + tables;
        self.memory.tables_bytes = tables;
    }

    /// When the link of a path is free and its queue empty; 0 without a link.
    fn free_at(&self, path: u32) -> u64 {
        let path = &self.paths[path as usize];
        let managed = path.managed.as_ref().map_or(0, |link| link.free_at());
        path.link.as_ref().map_or(managed, |link| link.free_at())
    }

    fn new_path(&mut self, shared: &Shared, before: u32, free: &mut Vec<u32>) -> u32 {
        let mut path = Path::new(shared.clone());
        let (free_at, now) = (self.free_at(before), self.clock_ns);
        let before = &self.paths[before as usize];
        path.link = path.link.map(|link| match &before.link {
            Some(old) => link.after(old, now),
            None => link.busy_until(free_at, now),
        });
        path.managed = path.managed.map(|link| link.busy_until(free_at, now));
        if let (Some(link), Some(old)) = (path.transmitter_mut(), before.transmitter()) {
            link.continue_trace(old);
        }
        if path.shared.police == before.shared.police {
            path.policer.clone_from(&before.policer);
        }
        match free.pop() {
            Some(number) => {
                self.paths[number as usize] = path;
                number
            }
            None => {
                self.paths.push(path);
                self.paths.len() as u32 - 1
            }
        }
    }
}
