//! `weir fleet watch`: measures continuously between agents.
//!
//! Each agent that replies to probes runs a server, and each pair an echo test of ten minutes at a time: the next test starts before
//! the one before it ends. All are jobs of agents, so that they end by themselves when this controller is gone.

mod bursts;
mod jobs;
mod members;
mod output;
mod probes;
mod servers;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use tokio::time::{MissedTickBehavior, interval};
use weir_fleet::{Agent, AgentName, Outcome, Selector};
use weir_jobs::Event;
use weir_model::Refusal;
use weir_model::watch::{AgentLine, AgentState, Line, Mesh, StartLine, WATCH_SCHEMA};

use super::{Fleet, block_on, listening, refused, stopped};
use crate::commands::exporter::{self, MeshMetrics};
use crate::commands::values;
use crate::engine::StopReason;
use crate::error::CliError;
use crate::job::warn;
use crate::{stamp, time};
use bursts::Bursts;
use jobs::{Jobs, Purpose};
use members::{Member, pairs_of};
use output::Output;
use probes::Pair;
use servers::Servers;
use store::Store;

/// Between two looks at the list of agents.
const LOOK: Duration = Duration::from_secs(2);
/// Maximum number of tests that are started at one look, so that those of many pairs do not start together.
const MAX_STARTS: usize = 64;
/// For jobs to stop at the end.
const ENDING: Duration = Duration::from_secs(15);
/// Maximum length of a mesh's file, bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Round trips, one-way delay and loss each second, and rolling windows
#[derive(Debug, Args)]
#[command(
    after_help = "The file (TOML or JSON, weir schema mesh) names the agents; docs/mesh.md describes it:\n  \
                  schema = \"weir.mesh/1\"\n  \
                  name = \"core\"\n  \
                  agents = \"site=paris,site=lyon\"\n\
                  Ctrl-C stops the measurement and its jobs."
)]
pub(crate) struct WatchArgs {
    /// Print JSON, one object a line (weir schema watch)
    #[arg(short = 'J', long)]
    json: bool,
    /// Serve the figures for Prometheus at http://ADDRESS:PORT/metrics, round trips as native histograms [default: 127.0.0.1:9350]
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:9350", value_parser = values::exporter_address)]
    prometheus: Option<SocketAddr>,
    /// Post the figures to an OpenTelemetry collector each second (OTLP/HTTP with JSON), round trips as exponential histograms
    #[arg(long, value_name = "http://HOST[:PORT][/PATH]")]
    otlp: Option<String>,
    /// Do not store the figures of each minute on this host
    #[arg(long)]
    no_store: bool,
    /// The file that describes the mesh
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// The names of a pair: the agent that probes, and the one that replies.
type PairNames = (AgentName, AgentName);

pub(super) fn run(fleet: &Fleet, args: &WatchArgs) -> Result<i32, CliError> {
    let mesh = read(&args.file)?;
    let selector: Selector = mesh.agents.parse().map_err(of_mesh)?;
    let metrics = exporter::start_mesh(&mesh.name, args.prometheus, args.otlp.as_deref())?;
    let store = Store::open(&mesh.name, !args.no_store)?;
    let stop = listening()?;
    block_on(async {
        let controller = fleet.controller().await?;
        let agents = controller.agents().await.map_err(refused)?;
        let members = selector.members(&agents).map_err(|refusal| of_mesh(*refusal))?;
        let names: Vec<&AgentName> = members.iter().map(|agent| &agent.name).collect();
        pairs_of(&mesh, &names)?;
        let mut outcomes = controller.outcomes_from_now().await.map_err(refused)?;
        let (jobs, mut events) = Jobs::new(controller);
        let settings = mesh.bursts.clone();
        let mut watch = Watch {
            bursts: settings.map(|settings| Bursts::new(settings, Instant::now())),
            output: Output::new(args.json),
            store,
            metrics,
            mesh,
            selector,
            jobs,
            servers: Servers::default(),
            members: BTreeMap::new(),
            pairs: BTreeMap::new(),
            is_unreachable: false,
        };
        watch.start(&agents);
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seconds = interval(Duration::from_secs(1));
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let reason = loop {
            tokio::select! {
                reason = stopped(&stop, 1) => break reason,
                Some((job, event)) = events.recv() => watch.on_event(&job, event),
                outcome = outcomes.next() => watch.on_outcome(outcome.map_err(refused)?),
                _ = looks.tick() => watch.look().await,
                _ = seconds.tick() => watch.draw(),
            }
            if watch.output.is_over() {
                break StopReason::OutputClosed;
            }
        };
        watch.finish_minutes();
        watch.jobs.stop_all().await;
        let ended = async {
            while !watch.jobs.is_empty() {
                // They fail because their servers stop.
                watch.jobs.ended(&outcomes.next().await.map_err(refused)?.id);
            }
            Ok::<(), CliError>(())
        };
        tokio::select! {
            ended = tokio::time::timeout(ENDING, ended) => drop(ended),
            _ = stopped(&stop, 2) => {}
        }
        watch.metrics.take().into_iter().for_each(|metrics| exporter::finish_mesh(metrics, &stop));
        watch.output.failure().map_or(Ok(reason.service_exit_code()), Err)
    })
}

/// The mesh of a file.
fn read(path: &Path) -> Result<Mesh, CliError> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(CliError::io("read mesh", path))?;
    let length = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text);
    if length.map_err(CliError::io("read mesh", path))? as u64 > MAX_FILE_BYTES {
        let given = format!("{} is longer", path.display());
        return Err(CliError::flag("FILE", given, "a file of up to 4M"));
    }
    Mesh::parse(&text).map_err(|error| CliError::Plan { path: path.into(), error })
}

/// A refusal of the agents that a mesh names.
fn of_mesh(refusal: Refusal) -> CliError {
    let Refusal { code, given, accepted, nearest, .. } = refusal;
    let (given, accepted) = (given.unwrap_or_default(), accepted.unwrap_or_default());
    let refusal = Refusal::of_field(&code, "agents", given, accepted);
    CliError::Refused(Box::new(Refusal { nearest, ..refusal }))
}

/// Seconds since 1970.
fn now() -> f64 {
    time::since_epoch(SystemTime::now()).as_secs_f64()
}

struct Watch {
    mesh: Mesh,
    selector: Selector,
    jobs: Jobs,
    servers: Servers,
    bursts: Option<Bursts>,
    members: BTreeMap<AgentName, Member>,
    pairs: BTreeMap<PairNames, Pair>,
    output: Output,
    store: Store,
    metrics: Option<MeshMetrics>,
    /// The list of agents could not be read at the last look.
    is_unreachable: bool,
}

impl Watch {
    fn start(&mut self, agents: &[Agent]) {
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
    async fn look(&mut self) {
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
        // A label may have no agent any more.
        let is_member = |agent: &Agent| self.selector.members(std::slice::from_ref(agent)).is_ok();
        let listed = agents.iter().filter(|agent| is_member(agent));
        let listed: BTreeMap<AgentName, Member> = listed
            .map(|agent| (agent.name.clone(), Member::of(agent, &self.mesh.address_label)))
            .collect();
        let forgotten: Vec<AgentName> =
            self.members.keys().filter(|name| !listed.contains_key(name)).cloned().collect();
        for name in forgotten {
            self.leave(&name).await;
            self.members.remove(&name);
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

    fn on_event(&mut self, job: &weir_fleet::JobId, event: Event) {
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

    fn on_outcome(&mut self, outcome: Outcome) {
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
    fn finish_minutes(&mut self) {
        for (names, pair) in &mut self.pairs {
            pair.end_minute(names);
            pair.take_minutes().into_iter().for_each(|minute| self.store.minute(minute));
        }
        self.store.flush(now() as u64);
    }

    fn draw(&mut self) {
        self.metrics.iter().for_each(MeshMetrics::export);
        let is_gone = |name: &AgentName| {
            self.members.get(name).is_none_or(|member| member.state != AgentState::Connected)
        };
        self.output.draw(&self.mesh, &self.pairs, &is_gone, now());
    }
}
