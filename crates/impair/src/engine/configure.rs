//! Applying a configuration: flows, their laws and their paths.

use std::collections::HashMap;

use super::*;

impl Engine {
    /// The engine of one direction.
    ///
    /// # Errors
    /// [`ImpairError`] for an invalid configuration, or two names with one hash.
    pub fn new(config: &Impairment, direction: Direction) -> Result<Self, ImpairError> {
        let mut engine = Self {
            direction,
            philox: Philox::new(config.seed.0),
            classifier: Classifier::none(),
            numbers: vec![],
            names: Names::default(),
            flows: vec![Flow::new(OTHER_NAME)],
            active: vec![true],
            paths: vec![Path::new(Shared::default())],
            steps: StepLists::new(),
            pool: Pool::new(),
            fifos: BinaryHeap::with_capacity(64),
            wheel: Wheel::new(),
            clock_ns: 0,
            present_ns: 0,
            next_ns: u64::MAX,
            number: 0,
            held_packets: 0,
            memory: Memory::default(),
            reclaimed_ns: None,
            edits: vec![],
            parses: false,
            native_port: config.native_port,
            exempts: !config.impair_arp,
            exempt: Exempt::default(),
        };
        engine.configure(config)?;
        Ok(engine)
    }

    /// Prepares and applies a configuration: for callers that may block while it is prepared.
    ///
    /// # Errors
    /// As [`Engine::new`]; then nothing has changed.
    pub(crate) fn configure(&mut self, config: &Impairment) -> Result<(), ImpairError> {
        let prepared = Prepared::new(Arc::new(config.clone()), self.direction)?;
        self.put_into_force(prepared).map(drop)
    }

    /// Applies another configuration between two steps. Flows are identified by name: packet indices and
    /// counters continue, so that no draw is used twice. Unchanged laws keep their state. Delayed packets
    /// leave at their planned time. A link with a new rate starts when the old queue is empty.
    ///
    /// # Errors
    /// As [`Names::check`], for all names that this engine has had; then nothing has changed.
    ///
    /// # Panics
    /// The configuration was prepared for the other direction.
    pub fn put_into_force(&mut self, prepared: Prepared) -> Result<Retired, ImpairError> {
        assert_eq!(prepared.direction, self.direction, "prepared for the other direction");
        self.names.check(&prepared)?;
        let Prepared { config, hashes, classifier, filtered, .. } = prepared;
        let side = side(self.direction);
        // Rates and delays with their flows; `group_of` is the index in it by a flow's name.
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
                    rate: shared.rate.clone(),
                    delay: shared.delay.clone(),
                    order: None,
                });
            }
        }
        let mut wanted: Vec<(u32, Laws, usize)> = Vec::with_capacity(config.flows.len() + 1);
        let mut active = vec![false; self.flows.len()];
        for (config, hash) in config.flows.iter().zip(hashes) {
            let number = self.names.number(hash, &config.name);
            if number as usize == self.flows.len() {
                self.flows.push(Flow::new(&config.name));
                active.push(false);
            }
            active[number as usize] = true;
            let laws = if config.run.0 { config.laws(side) } else { Laws::default() };
            let group = match group_of.get(config.name.as_str()) {
                Some(group) if config.run.0 => *group,
                _ => {
                    shareds.push(Shared::own([config.name.clone()].into(), &laws));
                    shareds.len() - 1
                }
            };
            wanted.push((number, laws, group));
        }
        let laws = config.other.laws(side);
        // The empty name is Other's: it is not valid for a flow.
        shareds.push(Shared::own([String::new()].into(), &laws));
        wanted.push((0, laws, shareds.len() - 1));
        active[0] = true;
        self.numbers = filtered.iter().map(|place| wanted[*place as usize].0).collect();
        self.put(wanted, &shareds, &active);
        self.philox = Philox::new(config.seed.0);
        self.memory.limit_bytes = config.memory_bytes();
        self.native_port = config.native_port;
        self.exempts = !config.impair_arp;
        self.tidy_tables();
        let before = std::mem::replace(&mut self.classifier, classifier);
        self.active = active;
        let parses = |flow: &Flow| flow.content.is_some() || flow.marks || flow.classifies;
        self.parses = self.flows.iter().any(parses);
        if self.parses {
            // Memory for all packets that leave together after a stall, so that no packet waits for an
            // allocation.
            self.edits.reserve(EDITS_AT_ONCE);
        }
        Ok(Retired(before))
    }

    /// Assigns each flow its laws and its path: the current one if unchanged, an unused one, or a new one.
    fn put(&mut self, wanted: Vec<(u32, Laws, usize)>, shareds: &[Shared], active: &[bool]) {
        for (number, flow) in self.flows.iter_mut().enumerate() {
            if !active[number] {
                // Its queued packets pass the remaining stages without laws.
                flow.put(Laws::default(), &Shared::default(), NO_PATH, &mut self.steps);
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
            if self.free_at(path) > self.free_at(before[*group]) {
                before[*group] = path;
            }
        }
        for (number, laws, group) in wanted {
            let shared = &shareds[group];
            let path = match paths[group] {
                Some(path) => path,
                None => self.new_path(shared, before[group], &mut free),
            };
            paths[group] = Some(path);
            self.flows[number as usize].put(laws, shared, path, &mut self.steps);
        }
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
        let free_at = self.free_at(before);
        path.link = path.link.map(|link| match &self.paths[before as usize].link {
            Some(old) => link.after(old),
            None => link.busy_until(free_at),
        });
        path.managed = path.managed.map(|link| link.busy_until(free_at));
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
