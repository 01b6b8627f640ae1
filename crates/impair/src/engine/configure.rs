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
            content: false,
            native_port: config.native_port,
            exempts: !config.impair_arp,
            exempt: Exempt::default(),
        };
        engine.configure(config)?;
        Ok(engine)
    }

    /// Prepares and applies a configuration: [`put_into_force`](Self::put_into_force) where time does not matter.
    ///
    /// # Errors
    /// As [`Engine::new`]; then nothing has changed.
    pub fn configure(&mut self, config: &Impairment) -> Result<(), ImpairError> {
        let prepared = Prepared::new(Arc::new(config.clone()), self.direction)?;
        self.put_into_force(prepared).map(drop)
    }

    /// Puts another configuration into force, between two steps. Flows are known by their names: packet
    /// indices and counters go on, so that no draw is made twice; the state of laws that did not change is
    /// kept; delayed packets leave when they were to leave. A new rate waits for what the old one had queued.
    ///
    /// # Errors
    /// What [`Names::check`] refuses, of the names that this engine has known; then nothing has changed.
    ///
    /// # Panics
    /// The configuration was prepared for the other direction.
    pub fn put_into_force(&mut self, prepared: Prepared) -> Result<Retired, ImpairError> {
        assert_eq!(prepared.direction, self.direction, "prepared for the other direction");
        self.names.check(&prepared)?;
        let Prepared { config, hashes, classifier, filtered, .. } = prepared;
        let side = side(self.direction);
        // What flows have in common, each once; `group_of` tells by a flow's name.
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
        // A flow can't be called so: the empty name is no name.
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
        self.content = self.flows.iter().any(|flow| flow.content.is_some());
        if self.content {
            // Room for all packets that leave together after a stall: no packet should wait for an allocation.
            self.edits.reserve(EDITS_AT_ONCE);
        }
        Ok(Retired(before))
    }

    /// Gives each flow its laws and its path: its present one if unchanged, an empty one, or a new one.
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
        let alike = |shared: &Shared| {
            let candidates = by_key.get(&shared.key())?;
            candidates.iter().copied().find(|n| self.paths[*n as usize].shared == *shared)
        };
        let mut paths: Vec<Option<u32>> = shareds
            .iter()
            .map(|shared| if shared.is_nothing() { Some(NO_PATH) } else { alike(shared) })
            .collect();
        // A path that another flow still uses, or that has queued packets, must not be reused.
        let mut taken = vec![false; self.paths.len()];
        for path in paths.iter().flatten().copied().chain(self.flows.iter().map(|flow| flow.path)) {
            taken[path as usize] = true;
        }
        let mut free: Vec<u32> = (1..self.paths.len() as u32)
            .rev()
            .filter(|n| !taken[*n as usize] && self.paths[*n as usize].is_empty())
            .collect();
        for (number, laws, group) in wanted {
            let shared = &shareds[group];
            let path = match paths[group] {
                Some(path) => path,
                None => self.new_path(shared, number, &mut free),
            };
            paths[group] = Some(path);
            self.flows[number as usize].put(laws, shared, path, &mut self.steps);
        }
    }

    /// Releases tables of queues without flows, and counts the memory of the others.
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
        }
        self.memory.used_bytes = self.memory.used_bytes - self.memory.tables_bytes + tables;
        self.memory.tables_bytes = tables;
    }

    fn new_path(&mut self, shared: &Shared, flow: u32, free: &mut Vec<u32>) -> u32 {
        let mut path = Path::new(shared.clone());
        let before = &self.paths[self.flows[flow as usize].path as usize];
        if let Some(old) = &before.link {
            path.link = path.link.map(|link| link.after(old));
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
