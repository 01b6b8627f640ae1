//! A running watch: it follows the list of agents, starts what is missing, and turns events of jobs into lines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Instant, SystemTime};

use weir_fleet::{Agent, AgentName, JobId, Outcome, Selector};
use weir_jobs::Event;
use weir_model::watch::{AgentLine, AgentState, Line, Mesh, StartLine, WATCH_SCHEMA};

use super::PairNames;
use super::bursts::Bursts;
use super::jobs::{Jobs, Purpose};
use super::members::{Member, pairs_of};
use super::output::Output;
use super::probes::{self, Pair};
use super::servers::Servers;
use super::store::Store;
use crate::commands::exporter::MeshMetrics;
use crate::error::CliError;
use crate::job::warn;
use crate::{stamp, time};

/// Maximum number of tests that are started at one look, so that those of many pairs do not start together.
const MAX_STARTS: usize = 64;

/// Seconds since 1970.
fn now() -> f64 {
    time::since_epoch(SystemTime::now()).as_secs_f64()
}

/// A running watch.
pub(super) struct Watch {
    mesh: Mesh,
    selector: Selector,
    pub(super) jobs: Jobs,
    servers: Servers,
    bursts: Option<Bursts>,
    members: BTreeMap<AgentName, Member>,
    pairs: BTreeMap<PairNames, Pair>,
    pub(super) output: Output,
    store: Store,
    pub(super) metrics: Option<MeshMetrics>,
    /// The list of agents could not be read at the last look.
    is_unreachable: bool,
}

impl Watch {
    /// A watch that has not started anything.
    pub(super) fn new(
        (mesh, selector): (Mesh, Selector),
        jobs: Jobs,
        output: Output,
        store: Store,
        metrics: Option<MeshMetrics>,
    ) -> Watch {
        let bursts = mesh.bursts.clone();
        Watch {
            bursts: bursts.map(|settings| Bursts::new(settings, Instant::now())),
            mesh,
            selector,
            jobs,
            servers: Servers::default(),
            members: BTreeMap::new(),
            pairs: BTreeMap::new(),
            output,
            store,
            metrics,
            is_unreachable: false,
        }
    }

    /// Prints the first line.
    pub(super) fn start(&mut self, agents: &[Agent]) {
        let members = self.selector.members(agents).unwrap_or_default();
        let names: Vec<&AgentName> = members.iter().map(|agent| &agent.name).collect();
        let pairs = pairs_of(&self.mesh, &names).unwrap_or_default();
        let text = |name: &AgentName| name.to_string();
        self.output.line(&Line::Start(StartLine {
            schema: WATCH_SCHEMA.into(),
            mesh: self.mesh.name.clone(),
            version: stamp::VERSION.into(),
            at_unix_seconds: now(),
            agents: names.iter().map(|name| text(name)).collect(),
            pairs: pairs.iter().map(|(from, to)| (text(from), text(to))).collect(),
            window_seconds: self.mesh.windows.iter().map(|window| window.seconds()).collect(),
        }));
    }

    /// Looks at the list of agents, and starts the jobs that are missing.
    pub(super) async fn look(&mut self) {
        self.store.flush(now() as u64);
        match self.jobs.controller().agents().await {
            Ok(agents) => {
                self.is_unreachable = false;
                self.update(&agents).await;
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_unreachable, true) {
                    warn("nats", &error.to_string());
                }
                return;
            }
        }
        if let Err(error) = self.start_jobs().await {
            warn("nats", &error.to_string());
        }
    }

    /// Takes over the list of agents.
    async fn update(&mut self, agents: &[Agent]) {
        let listed = agents.iter().filter(|agent| self.selector.includes(agent));
        let listed: BTreeMap<AgentName, Member> = listed
            .map(|agent| (agent.name.clone(), Member::of(agent, &self.mesh.address_label)))
            .collect();
        let forgotten: Vec<AgentName> =
            self.members.keys().filter(|name| !listed.contains_key(name)).cloned().collect();
        for name in forgotten {
            self.leave(&name).await;
            let before = self.members.remove(&name);
            if before.is_some_and(|member| member.state != AgentState::Gone) {
                self.line(&Line::Agent(AgentLine {
                    at_unix_seconds: now(),
                    agent: name.to_string(),
                    state: AgentState::Gone,
                    address: None,
                    reason: None,
                }));
            }
        }
        for (name, member) in listed {
            let before = self.members.insert(name.clone(), member.clone());
            let is_changed = before.as_ref() != Some(&member);
            if is_changed && before.is_some_and(|before| before.is_usable()) {
                self.leave(&name).await;
            }
            if is_changed {
                self.line(&Line::Agent(AgentLine {
                    at_unix_seconds: now(),
                    agent: name.to_string(),
                    state: member.state,
                    address: member.address.map(|address| address.to_string()),
                    reason: member.reason,
                }));
            }
        }
        let names: Vec<&AgentName> = self.members.keys().collect();
        let wanted: BTreeSet<PairNames> =
            pairs_of(&self.mesh, &names).unwrap_or_default().into_iter().collect();
        let mesh = &self.mesh;
        self.pairs.retain(|names, _| wanted.contains(names));
        for names in wanted {
            self.pairs.entry(names).or_insert_with(|| Pair::new(mesh));
        }
    }

    /// An agent is gone: its jobs, and the tests that have it as their server, are over.
    async fn leave(&mut self, name: &AgentName) {
        self.servers.leave(name);
        self.bursts.iter_mut().for_each(|bursts| bursts.leave(name));
        self.jobs.stop_where(|agent, purpose| agent == name || purpose.is_with(name)).await;
        for ((from, to), pair) in &mut self.pairs {
            if from == name || to == name {
                pair.forget_runs();
            }
        }
    }

    /// Starts servers and tests that are missing.
    async fn start_jobs(&mut self) -> Result<(), CliError> {
        let is_usable = |name: &AgentName| self.members.get(name).is_some_and(Member::is_usable);
        let at = Instant::now();
        let ready: Vec<PairNames> = self
            .pairs
            .keys()
            .filter(|(from, to)| is_usable(from) && is_usable(to))
            .cloned()
            .collect();
        let mut replying: BTreeSet<AgentName> = ready.iter().map(|(_, to)| to.clone()).collect();
        if self.bursts.is_some() {
            replying.extend(ready.iter().map(|(from, _)| from.clone()));
        }
        for name in replying {
            self.servers.ensure(&mut self.jobs, &name, at).await?;
        }
        self.start_bursts(&ready, at).await?;
        let mut starts = 0;
        for names in ready {
            let (Some(port), Some(pair)) =
                (self.servers.port(&names.1), self.pairs.get_mut(&names))
            else {
                continue;
            };
            let address = self.members.get(&names.1).and_then(|member| member.address);
            let Some(address) = address.filter(|_| pair.wants_test(at)) else { continue };
            let key = self.servers.key();
            let job = probes::test(&self.mesh, address, port, key);
            let id = self.jobs.start(&names.0, job, Purpose::Probe(names.clone())).await?;
            pair.started(id, at);
            starts += 1;
            if starts == MAX_STARTS {
                break;
            }
        }
        Ok(())
    }

    /// Starts the bursts of a round whose turn it is, and gives up what takes too long.
    async fn start_bursts(&mut self, ready: &[PairNames], at: Instant) -> Result<(), CliError> {
        let Some(bursts) = &mut self.bursts else { return Ok(()) };
        let mut lines = vec![];
        while let Some(job) = bursts.overdue(at) {
            self.jobs.stop(&job).await;
            let names = bursts.ended(&job);
            lines.extend(names.map(|names| Line::Burst(bursts.given_up(&names, now()))));
        }
        let has_servers = |(from, to): &&PairNames| {
            self.servers.port(from).is_some() && self.servers.port(to).is_some()
        };
        let pairs: Vec<PairNames> = ready.iter().filter(has_servers).cloned().collect();
        // Before all servers listen, rounds would lack pairs.
        let due = if pairs.len() == ready.len() { bursts.due(&pairs, at) } else { vec![] };
        for names in due {
            let address = self.members.get(&names.1).and_then(|member| member.address);
            let port = self.servers.port(&names.1);
            let Some((address, port)) = address.zip(port) else { continue };
            let job = bursts.test(&self.mesh, address, port, self.servers.key());
            let id = self.jobs.start(&names.0, job, Purpose::Burst(names.clone())).await?;
            bursts.started(id, names, at);
        }
        lines.iter().for_each(|line| self.line(line));
        Ok(())
    }

    /// Takes an event of a job.
    pub(super) fn on_event(&mut self, job: &JobId, event: Event) {
        let Some(purpose) = self.jobs.purpose(job).cloned() else { return };
        match purpose {
            Purpose::Server(agent) => self.servers.on_event(&agent, job, &event),
            Purpose::Burst(_) => {}
            Purpose::Probe(names) => {
                let Some(pair) = self.pairs.get_mut(&names) else { return };
                let lines = pair.on_event(&names, job, &event, now());
                pair.take_minutes().into_iter().for_each(|minute| self.store.minute(minute));
                for (at, sum) in pair.take_seconds() {
                    let Some(metrics) = &self.metrics else { continue };
                    let cells = sum.round_trips().cells().map(|(_, high, count)| (high, count));
                    let (from, to) = (names.0.as_str(), names.1.as_str());
                    metrics.second((from, to), at, &sum.figures(), cells);
                }
                lines.iter().for_each(|line| self.line(line));
            }
        }
    }

    /// A job has ended.
    pub(super) fn on_outcome(&mut self, outcome: Outcome) {
        let Some(purpose) = self.jobs.ended(&outcome.id) else { return };
        match purpose {
            Purpose::Server(agent) => self.servers.ended(&agent, &outcome.id),
            Purpose::Burst(names) => {
                let Some(bursts) = &mut self.bursts else { return };
                bursts.ended(&outcome.id);
                let line = bursts.line(&names, &outcome, now());
                self.line(&Line::Burst(line));
            }
            Purpose::Probe(names) => {
                if let Some(pair) = self.pairs.get_mut(&names) {
                    pair.ended(&names, &outcome, Instant::now());
                }
            }
        }
    }

    /// Prints and stores an event.
    fn line(&mut self, line: &Line) {
        self.output.line(line);
        self.store.event(line);
        match (&self.metrics, line) {
            (Some(metrics), Line::Agent(agent)) => metrics.agent(&agent.agent, agent.state),
            (Some(metrics), Line::Burst(burst)) => metrics.burst(burst),
            _ => {}
        }
    }

    /// Stores what was measured of the current minutes.
    pub(super) fn finish_minutes(&mut self) {
        for (names, pair) in &mut self.pairs {
            pair.end_minute(names);
            pair.take_minutes().into_iter().for_each(|minute| self.store.minute(minute));
        }
        self.store.flush_all(now() as u64);
    }

    /// Draws the table and exports the metrics; once a second.
    pub(super) fn draw(&mut self) {
        self.metrics.iter().for_each(MeshMetrics::export);
        let is_gone = |name: &AgentName| {
            self.members.get(name).is_none_or(|member| member.state != AgentState::Connected)
        };
        self.output.draw(&self.mesh, &self.pairs, &is_gone, now());
    }
}
