//! The agents of a scenario: held while it runs, and given its jobs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, interval};
use weir_fleet::{
    AgentFacts, AgentName, Campaign, Controller, Error, HOLD_LAPSE, HOST_RESOURCE, JobId, Outcome,
    Selector, Submission, Work,
};
use weir_jobs::{Answer, Command, Event, Job, NoEvent, Notice, RemoteHosts, RunningJob};
use weir_model::Refusal;
use weir_model::experiment::Scenario;
use weir_net::clock::Clock;
use weir_net::thread::lock;

use super::clocks::{bound_between, check_clocks};
use super::{Fleet, hold, list, number, refused, stopped};
use crate::engine::{Key, Stop};
use crate::error::CliError;
use crate::job::warn;
use crate::stamp;
use crate::user_data::keep_record;

/// A job of a scenario is stopped after this time, s, even if its controller holds the agent still: a week.
const LONGEST_SECONDS: u64 = 7 * 24 * 3600;
/// Between two looks whether an agent still answers.
const LOOK: Duration = Duration::from_secs(10);
/// An agent that has not answered for this long is lost.
const LOST: Duration = Duration::from_secs(60);
/// Timeout of an emulator's answer to another configuration.
const CONFIGURED: Duration = Duration::from_secs(10);
/// Most events that wait. With more, only those of its end are added.
const MAX_WAITING: usize = 4096;

/// A held agent.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) name: AgentName,
    pub(super) facts: AgentFacts,
    pub(super) clock_bound_ns: Option<u64>,
}

/// The agents of a scenario. They are free again when this is dropped.
pub(super) struct FleetHosts {
    runtime: Driver,
    controller: Controller,
    campaign: Mutex<Campaign>,
    /// The agents by the scenario's names.
    members: BTreeMap<String, Vec<String>>,
    agents: BTreeMap<String, Held>,
    number: String,
    jobs: AtomicUsize,
    key: String,
}

impl FleetHosts {
    /// Finds and holds the agents of a scenario; `None` if it was stopped before.
    pub(super) fn hold(
        fleet: &Fleet,
        scenario: &Scenario,
        max_start_error_ns: Option<u64>,
        stop: &Stop,
    ) -> Result<Option<FleetHosts>, CliError> {
        let runtime = Driver::start()?;
        let key = Key::generate()?.to_string();
        let held = runtime.handle.block_on(async {
            let controller = fleet.controller().await?;
            let known = controller.agents().await.map_err(refused)?;
            let mut members = BTreeMap::new();
            let mut agents = BTreeMap::new();
            for (name, selector) in &scenario.agents {
                let field =
                    |refusal: Refusal| CliError::Refused(Box::new(in_agents(name, refusal)));
                let selector: Selector = selector.parse().map_err(field)?;
                let chosen = selector.choose(&known, stamp::VERSION).map_err(|r| field(*r))?;
                for agent in &chosen {
                    let held = Held {
                        name: agent.name.clone(),
                        facts: agent.facts.clone(),
                        clock_bound_ns: agent.facts.clock_bound_ns,
                    };
                    agents.insert(agent.name.to_string(), held);
                }
                members.insert(name.clone(), chosen.iter().map(|a| a.name.to_string()).collect());
            }
            check_resources(scenario, &members, &agents)?;
            let number = number();
            let mut campaign = Campaign::new(controller.clone(), HOLD_LAPSE);
            let names: Vec<AgentName> = agents.values().map(|held| held.name.clone()).collect();
            let taken = tokio::select! {
                taken = hold(&mut campaign, &names, &number) => taken,
                _ = stopped(stop, 1) => {
                    campaign.release().await;
                    return Ok(None);
                }
            };
            let checked = match taken {
                Ok(()) => check_clocks(&controller, agents.values_mut(), max_start_error_ns).await,
                Err(error) => Err(error),
            };
            if let Err(error) = checked {
                campaign.release().await;
                return Err(error);
            }
            Ok(Some((controller, campaign, members, agents, number)))
        })?;
        let Some((controller, campaign, members, agents, number)) = held else { return Ok(None) };
        Ok(Some(FleetHosts {
            runtime,
            controller,
            campaign: Mutex::new(campaign),
            members,
            agents,
            number,
            jobs: AtomicUsize::new(0),
            key,
        }))
    }

    fn next_id(&self) -> Result<JobId, Box<Refusal>> {
        let n = self.jobs.fetch_add(1, Ordering::Relaxed);
        format!("{}-j{n}", self.number).parse().map_err(Box::new)
    }
}

impl Drop for FleetHosts {
    fn drop(&mut self) {
        self.runtime.handle.block_on(lock(&self.campaign).release());
    }
}

/// A thread that does what tasks of the fleet wait for, while those of the scenario block. It ends when this is dropped.
struct Driver {
    handle: Handle,
    _stop: oneshot::Sender<()>,
}

impl Driver {
    fn start() -> Result<Driver, CliError> {
        let failed = |e: std::io::Error| CliError::Internal(format!("start the runtime: {e}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("weir-fleet".into());
        let drive = move || {
            let _ = runtime.block_on(stopped);
        };
        thread.spawn(drive).map_err(failed)?;
        Ok(Driver { handle, _stop: stop })
    }
}

/// The refusal of a name or label, at the scenario's field.
fn in_agents(name: &str, refusal: Refusal) -> Refusal {
    let field = format!("agents.{name}");
    let message = match (&refusal.given, &refusal.accepted) {
        (Some(given), Some(accepted)) => format!("{field}: {given}; accepted: {accepted}"),
        _ => format!("{field}: {}", refusal.message),
    };
    Refusal { field: Some(field), message, ..refusal }
}

/// Refuses an emulator between interfaces that its agent's host does not have.
fn check_resources(
    scenario: &Scenario,
    members: &BTreeMap<String, Vec<String>>,
    agents: &BTreeMap<String, Held>,
) -> Result<(), CliError> {
    for (name, emulator) in &scenario.emulators {
        let Some(group) = emulator.agent.as_ref().and_then(|agent| members.get(agent)) else {
            continue;
        };
        let [agent] = &group[..] else {
            let given = format!("{} agents", group.len());
            return Err(CliError::flag(&format!("emulator.{name}.agent"), given, "one agent"));
        };
        let Some(held) = agents.get(agent) else { continue };
        let known: Vec<&str> = held.facts.interfaces.iter().map(|it| it.name.as_str()).collect();
        for interface in emulator.interfaces.iter().flatten() {
            if !interface.starts_with("tap:") && !known.contains(&interface.as_str()) {
                let field = format!("emulator.{name}.interfaces");
                let accepted =
                    format!("interfaces of agent {agent} that are up: {}", known.join(", "));
                return Err(CliError::flag(&field, interface, &accepted));
            }
        }
    }
    Ok(())
}

impl RemoteHosts for FleetHosts {
    fn members(&self, name: &str) -> Vec<String> {
        self.members.get(name).cloned().unwrap_or_else(|| vec![name.to_owned()])
    }

    fn is_agent(&self, host: &str) -> bool {
        self.agents.contains_key(host)
    }

    fn key(&self) -> String {
        self.key.clone()
    }

    fn clock_bound_ns(&self, agent: &str) -> Option<u64> {
        bound_between(self.agents.values(), self.agents.get(agent)?)
    }

    fn address(&self, agent: &str, is_ipv6: bool) -> Result<String, Box<Refusal>> {
        let held = self.agents.get(agent).ok_or_else(|| unknown(agent))?;
        address(&held.facts, is_ipv6).ok_or_else(|| {
            let family = if is_ipv6 { "IPv6" } else { "IPv4" };
            let words = format!("agent {agent} states no {family} address; --label address=ADDRESS of weir agent names one");
            Box::new(Refusal::new("agent", words, 3))
        })
    }

    fn start(&self, agent: &str, mut job: Job) -> Result<Box<dyn RunningJob>, Box<Refusal>> {
        let held = self.agents.get(agent).ok_or_else(|| unknown(agent))?;
        let handle = self.runtime.handle.clone();
        let id = self.next_id()?;
        let mut start_at_unix_ns = None;
        let mut is_kept = false;
        if let Job::Test(test) = &mut job {
            start_at_unix_ns = test.start_at_ns.take().map(unix_ns);
            is_kept = test.store;
        }
        let submission = Submission {
            id: id.clone(),
            resource: HOST_RESOURCE.parse().map_err(Box::new)?,
            start_at_unix_ns,
            longest_seconds: LONGEST_SECONDS,
            hold: lock(&self.campaign).hold_of(&held.name).cloned(),
            without_record: false,
            work: Work::Job(Box::new(job)),
        };
        let (sender, events) = mpsc::channel();
        let (configured, answers) = mpsc::sync_channel(1);
        let flags = Arc::new(Flags::default());
        let job = RemoteJob {
            events: Mutex::new(events),
            answers: Mutex::new(answers),
            controller: self.controller.clone(),
            handle: handle.clone(),
            agent: held.name.clone(),
            id,
            flags: flags.clone(),
        };
        let (controller, agent) = (self.controller.clone(), held.name.clone());
        let started = handle.block_on(async {
            let list = [(agent.clone(), submission.id.clone())];
            let arriving = controller.events(&agent, &submission.id).await?;
            let outcomes = controller.outcomes_of(&list).await?;
            controller.submit(&agent, &submission).await?;
            Ok((arriving, outcomes))
        });
        let (arriving, outcomes) = started.map_err(|error: Error| Box::new(error.refusal()))?;
        let following = Following { controller, agent, sender, configured, flags, is_kept };
        handle.spawn(following.run(arriving, outcomes));
        Ok(Box::new(job))
    }
}

fn unknown(agent: &str) -> Box<Refusal> {
    Box::new(Refusal::new("agent", format!("agent {agent} is not held"), 3))
}

/// The address at which others reach an agent: that of its label `address`, else the first one that is not link-local.
pub(super) fn address(facts: &AgentFacts, is_ipv6: bool) -> Option<String> {
    let is_of_family = |address: &&str| address.contains(':') == is_ipv6;
    let stated = facts.labels.get("address").map(String::as_str).filter(is_of_family);
    let own = facts.interfaces.iter().flat_map(|it| &it.addresses);
    let own = own.map(|address| address.split('/').next().unwrap_or_default());
    let mut own = own.filter(is_of_family).filter(|it| !it.starts_with("fe80:"));
    stated.or_else(|| own.next()).map(str::to_owned)
}

/// The time on the wall clock at this time of CLOCK_MONOTONIC, both in ns.
pub(super) fn unix_ns(monotonic_ns: u64) -> u64 {
    monotonic_ns.saturating_add_signed(Clock::System.bracket().realtime_minus_monotonic())
}

#[derive(Default)]
struct Flags {
    has_ended: AtomicBool,
    is_ignored: AtomicBool,
    /// Events that wait.
    waiting: AtomicUsize,
    /// Why it ended, where nothing else says so.
    reason: Mutex<Option<Refusal>>,
}

/// A job that runs at an agent.
struct RemoteJob {
    events: Mutex<mpsc::Receiver<Event>>,
    answers: Mutex<mpsc::Receiver<Answer>>,
    controller: Controller,
    handle: Handle,
    agent: AgentName,
    id: JobId,
    flags: Arc<Flags>,
}

impl RunningJob for RemoteJob {
    fn next_within(&mut self, timeout: Duration) -> Result<Event, NoEvent> {
        let event = lock(&self.events).recv_timeout(timeout).map_err(|error| match error {
            mpsc::RecvTimeoutError::Timeout => NoEvent::Timeout,
            mpsc::RecvTimeoutError::Disconnected => NoEvent::Ended,
        })?;
        self.flags.waiting.fetch_sub(1, Ordering::Relaxed);
        Ok(event)
    }

    fn command(&mut self, command: &Command) -> Result<(), Box<Refusal>> {
        let (agent, id) = (&self.agent, &self.id);
        let answers = lock(&self.answers);
        // One that came too late.
        let _ = answers.try_recv();
        let done = self.handle.block_on(async {
            match command {
                Command::Stop => self.controller.stop(agent, id).await,
                Command::Start { at_ns } => self.controller.start(agent, id, unix_ns(*at_ns)).await,
                Command::StartConnection { connection } => {
                    self.controller.start_connection(agent, id, connection.clone()).await
                }
                Command::StopConnection { connection } => {
                    self.controller.stop_connection(agent, id, connection.clone()).await
                }
                Command::Set { impairment } => {
                    self.controller.set(agent, id, (**impairment).clone()).await
                }
            }
        });
        done.map_err(|error| Box::new(error.refusal()))?;
        if !matches!(command, Command::Set { .. }) {
            return Ok(());
        }
        let refusal = |words: &str| Box::new(Refusal::new("set", words, 3));
        match answers.recv_timeout(CONFIGURED) {
            Ok(Answer { error: None }) => Ok(()),
            Ok(Answer { error: Some(reason) }) => Err(refusal(&reason)),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                Err(refusal(&format!("no answer within {} s", CONFIGURED.as_secs())))
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(refusal("it has ended")),
        }
    }

    fn stop(&mut self) {
        if let Err(error) = self.command(&Command::Stop) {
            warn("agent", &error.message);
        }
    }

    fn ended(&mut self, refusal: Option<Refusal>) -> Refusal {
        let reason = || lock(&self.flags.reason).clone();
        refusal
            .or_else(reason)
            .unwrap_or_else(|| Refusal::new("ended", "ended without a result", 70))
    }

    fn has_ended(&self) -> bool {
        self.flags.has_ended.load(Ordering::Relaxed)
    }

    fn ignore_events(&self) {
        self.flags.is_ignored.store(true, Ordering::Relaxed);
    }
}

impl Drop for RemoteJob {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.stop();
        }
    }
}

/// Passes on what a job at an agent reports, until its outcome is there.
struct Following {
    controller: Controller,
    agent: AgentName,
    sender: mpsc::Sender<Event>,
    configured: mpsc::SyncSender<Answer>,
    flags: Arc<Flags>,
    is_kept: bool,
}

impl Following {
    async fn run(self, mut events: weir_fleet::Events, mut outcomes: weir_fleet::Outcomes) {
        let mut look = interval(LOOK);
        let mut answered = Instant::now();
        let mut is_heard = true;
        loop {
            tokio::select! {
                biased;
                event = events.next(), if is_heard => match event {
                    None => is_heard = false,
                    // The outcome has these, whatever is lost on the way.
                    Some(Event::End(_) | Event::Result(_) | Event::Error(_)) => {}
                    // The agent's own store.
                    Some(Event::Warning(notice)) if notice.code == Notice::NOT_STORED => {}
                    Some(Event::Configured(answer)) => drop(self.configured.try_send(answer)),
                    Some(event) if self.flags.waiting.load(Ordering::Relaxed) < MAX_WAITING => {
                        self.pass(event);
                    }
                    Some(_) => {}
                },
                outcome = outcomes.next() => {
                    match outcome {
                        Ok(outcome) => self.end(outcome),
                        Err(error) => self.pass(Event::Error(error.refusal())),
                    }
                    break;
                }
                _ = look.tick() => {
                    if self.controller.state(&self.agent).await.is_ok() {
                        answered = Instant::now();
                    } else if answered.elapsed() > LOST {
                        let words = format!("agent {} does not answer", self.agent);
                        self.pass(Event::Error(Refusal::new("agent", words, 3)));
                        break;
                    }
                }
            }
        }
        self.flags.has_ended.store(true, Ordering::Relaxed);
    }

    fn pass(&self, event: Event) {
        if !self.flags.is_ignored.load(Ordering::Relaxed) {
            self.flags.waiting.fetch_add(1, Ordering::Relaxed);
            // The scenario may have given the job up.
            let _ = self.sender.send(event);
        }
    }

    fn end(&self, outcome: Outcome) {
        *lock(&self.flags.reason) = Some(match (&outcome.error, outcome.exit_code) {
            (Some(error), _) => error.clone(),
            (None, Some(code)) => {
                Refusal::new("ended", format!("ended with exit code {code}"), code)
            }
            (None, None) => Refusal::new("ended", "was killed", 70),
        });
        if let Some(record) = list::record(&outcome) {
            if self.is_kept
                && let Err(error) = keep_record(&record)
            {
                let words = format!("the result of run {} was not stored: {error}", record.id);
                self.pass(Event::Warning(Notice::new(Notice::NOT_STORED, words)));
            }
            self.pass(Event::End(Box::new(record)));
        }
        if let Some(result) = outcome.result {
            self.pass(Event::Result(result));
        }
        if let Some(error) = outcome.error {
            self.pass(Event::Error(error));
        }
    }
}
