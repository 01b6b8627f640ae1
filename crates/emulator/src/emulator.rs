//! The emulator: opens the links, starts the directions, hands on what it is told, watches, ends.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_impair::{ImpairError, Names, Prepared};
use weir_laws::Direction;
use weir_link::{Link, LinkChoice, LinkOptions, Mode, StampSource};
use weir_model::impairment::{Impairment, Laws, OTHER, Other};
use weir_model::units::Seed;
use weir_net::clock::Clock;
use weir_net::interface;
use weir_net::watchdog::Watchdog;

use crate::alarm::{Alarm, AlarmKind, Alarms};
use crate::config::{EmulatorConfig, LinkMode, is_timed};
use crate::direction::{Ended, InForce, Mailbox, Order, Parts, Pulse, Running, spawn};
use crate::error::EmulatorError;
use crate::journal::{Journal, Watching};
use crate::lateness::{LATE_NS, seconds};
use crate::passage::Passage;
use crate::refusal::refusals;
use crate::report::{
    AppliedConfiguration, DirectionReport, ImpairmentReport, REPORT_SCHEMA, Report,
};
use crate::snapshot::Snapshot;

/// How long what is held may still leave after the end was asked for.
const DRAIN_NS: u64 = 2_000_000_000;
/// A direction that does not answer within this time has other trouble.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks of the supervisor.
const WATCH: Duration = Duration::from_millis(500);

const NAMES: [&str; 2] = ["a-to-b", "b-to-a"];

/// A running emulator. Dropping it ends it at once and restores the interfaces' settings.
pub struct Emulator {
    remote: Remote,
    threads: Vec<JoinHandle<Ended>>,
    supervisor: Option<JoinHandle<()>>,
    journal: Option<Journal>,
    watchdog: Option<Watchdog>,
}

impl std::fmt::Debug for Emulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emulator")
            .field("interfaces", &self.remote.shared.interfaces)
            .finish_non_exhaustive()
    }
}

/// How an emulator ended.
#[derive(Debug)]
pub struct Ending {
    /// What it did.
    pub report: Report,
    /// What ended it, if it was not asked to.
    pub error: Option<EmulatorError>,
}

/// Steers a running emulator; clones steer the same one, from any thread.
#[derive(Clone)]
pub struct Remote {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote")
            .field("interfaces", &self.shared.interfaces)
            .finish_non_exhaustive()
    }
}

struct Shared {
    clock: Clock,
    started_ns: u64,
    interfaces: [String; 2],
    links: Vec<String>,
    /// Whether arrivals are stamped by whoever took them in, not by this process.
    stamped: bool,
    mailboxes: [Arc<Mailbox>; 2],
    pulses: [Arc<Pulse>; 2],
    wanted: Mutex<Wanted>,
    alarms: Mutex<Alarms>,
    journal: Option<Watching>,
    notes: Vec<String>,
    over: (Mutex<bool>, Condvar),
    /// Interfaces whose state is watched: none in tests.
    indices: Option<[u32; 2]>,
    /// The interface that was removed.
    gone: Mutex<Option<String>>,
}

/// What is to be in force.
struct Wanted {
    config: Arc<Impairment>,
    /// Flows whose laws are stopped by command.
    stopped: BTreeSet<String>,
    /// Every name that the directions know.
    names: Names,
    /// Number of the next configuration; none is given twice.
    next: u64,
    applied: Vec<AppliedConfiguration>,
    /// Those that were handed over, and not yet confirmed by both directions.
    pending: Vec<Pending>,
}

/// A configuration that was handed over.
struct Pending {
    number: u64,
    answers: [Option<Receiver<Result<InForce, ImpairError>>>; 2],
    at_ns: [u64; 2],
}

/// A configuration without the laws of flows that are stopped.
fn effective(config: &Impairment, stopped: &BTreeSet<String>) -> Impairment {
    let mut config = config.clone();
    for flow in &mut config.flows {
        flow.run.0 &= !stopped.contains(&flow.name);
    }
    if stopped.contains(OTHER) {
        config.other = Other::default();
    }
    config
}

impl Pending {
    /// Waits for the answers that are still to come, until a time; whether all are there.
    fn wait(&mut self, until: Instant) -> Result<bool, EmulatorError> {
        for (answer, at_ns) in self.answers.iter_mut().zip(&mut self.at_ns) {
            let Some(receiver) = answer else { continue };
            let left = until.saturating_duration_since(Instant::now());
            match receiver.recv_timeout(left) {
                Ok(Ok(in_force)) => *at_ns = in_force.at_ns,
                Ok(Err(refused)) => return Err(refused.into()),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(EmulatorError::Ended),
            }
            *answer = None;
        }
        Ok(self.answers.iter().all(Option::is_none))
    }
}

impl Wanted {
    /// Takes note of configurations that have come into force since.
    fn settle(&mut self, started_ns: u64) {
        let mut pending = std::mem::take(&mut self.pending);
        // One that a direction will never answer is not in force there.
        pending.retain_mut(|pending| match pending.wait(Instant::now()) {
            Ok(true) => {
                self.in_force(pending, started_ns);
                false
            }
            Ok(false) => true,
            Err(_) => false,
        });
        self.pending = pending;
    }

    fn in_force(&mut self, Pending { number, at_ns, .. }: &Pending, started_ns: u64) {
        let at_seconds = at_ns.map(|ns| seconds(ns.saturating_sub(started_ns)));
        self.applied.push(AppliedConfiguration { number: *number, at_seconds });
    }
}

/// What is to be changed in the configuration; what is absent stays.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// The flow that laws and preset are for; absent: Other.
    pub flow: Option<String>,
    /// A preset, in place of the laws there were.
    pub profile: Option<String>,
    /// Laws from A to B, in place of those there were; over the preset's, if there is one.
    pub a_to_b: Option<Laws>,
    /// Laws from B to A.
    pub b_to_a: Option<Laws>,
    /// The seed.
    pub seed: Option<Seed>,
}

impl Change {
    fn make(self, config: &mut Impairment) -> Result<(), EmulatorError> {
        let refused = |given: &str, accepted: &str| EmulatorError::Refusal {
            what: "set".into(),
            given: given.into(),
            accepted: accepted.into(),
        };
        let has_laws = self.profile.is_some() || self.a_to_b.is_some() || self.b_to_a.is_some();
        if !has_laws && self.flow.is_some() {
            return Err(refused("a flow alone", "both, a_to_b, b_to_a or profile with it"));
        }
        if !has_laws && self.seed.is_none() {
            return Err(refused("nothing", "impairment, both, a_to_b, b_to_a, profile or seed"));
        }
        config.seed = self.seed.unwrap_or(config.seed);
        if !has_laws {
            return Ok(());
        }
        let (profile, forward, reverse) = match self.flow.filter(|name| *name != OTHER) {
            None => {
                let other = &mut config.other;
                (&mut other.profile, &mut other.a_to_b, &mut other.b_to_a)
            }
            Some(name) => {
                let at = config.flows.iter().position(|flow| flow.name == name);
                let at = at.ok_or_else(|| no_such(&name, config))?;
                let flow = &mut config.flows[at];
                (&mut flow.profile, &mut flow.a_to_b, &mut flow.b_to_a)
            }
        };
        if self.profile.is_some() {
            (*forward, *reverse) = (Laws::default(), Laws::default());
            *profile = self.profile;
        } else if self.a_to_b.is_some() && self.b_to_a.is_some() {
            // A preset would fill the slots that the new laws leave empty.
            *profile = None;
        }
        if let Some(laws) = self.a_to_b {
            *forward = laws;
        }
        if let Some(laws) = self.b_to_a {
            *reverse = laws;
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Values that are replaced whole: a thread that died left nothing half-done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Emulator {
    /// Takes the two interfaces of the calling thread's network namespace and starts.
    ///
    /// # Errors
    /// [`EmulatorError::Refused`] with every reason; an impairment that does not hold; what the system refuses. Nothing
    /// is left then.
    pub fn start(config: EmulatorConfig) -> Result<Self, EmulatorError> {
        let [a, b] = &config.interfaces;
        for (interface, mut refusals) in refusals(a, b)? {
            if config.force {
                refusals.retain(|reason| !reason.may_be_forced());
            }
            if !refusals.is_empty() {
                return Err(EmulatorError::Refused { interface, refusals });
            }
        }
        // What can be known wrong is told before anything is changed.
        Passage::new(&config.impairment, Direction::Forward, None, config.native_port)?;
        let mut watchdog = Watchdog::spawn()?;
        let mut notes = Vec::new();
        let timed = is_timed(&config.impairment);
        let mut open = |name: &String| -> Result<Link, EmulatorError> {
            let quietened = weir_link::quieten(name, &mut watchdog)?;
            if !quietened.still_on.is_empty() {
                notes.push(format!(
                    "{name}: {} cannot be switched off: frames may come in merged",
                    quietened.still_on.join(", ")
                ));
            }
            let options = LinkOptions { ring_frames: config.ring_frames, ..LinkOptions::default() };
            let link = |choice| weir_link::open(name, choice, &options);
            Ok(match config.link {
                LinkMode::Auto => link(LinkChoice::Auto { receive_stamps: timed })?,
                LinkMode::Packet => link(LinkChoice::Mode(Mode::Packet))?,
                LinkMode::XdpGeneric => link(LinkChoice::Mode(Mode::XdpGeneric))?,
                LinkMode::Xdp => link(LinkChoice::Mode(Mode::XdpZeroCopy))
                    .or_else(|_| link(LinkChoice::Mode(Mode::XdpNative)))?,
            })
        };
        let links = [open(a)?, open(b)?];
        let indices = [interface::interface(a)?.index, interface::interface(b)?.index];
        Self::assemble(links, config, Some((watchdog, indices)), notes)
    }

    /// Starts between two links that are open already.
    ///
    /// # Errors
    /// As [`Emulator::start`], without what concerns interfaces.
    pub fn between(links: [Link; 2], config: EmulatorConfig) -> Result<Self, EmulatorError> {
        Self::assemble(links, config, None, Vec::new())
    }

    fn assemble(
        links: [Link; 2],
        config: EmulatorConfig,
        real: Option<(Watchdog, [u32; 2])>,
        mut notes: Vec<String>,
    ) -> Result<Self, EmulatorError> {
        let (watchdog, indices) = real.unzip();
        let clock = Clock::System;
        let impairment = Arc::new(config.impairment);
        let journal = match &config.journal {
            None => None,
            Some(path) => {
                let clock = "CLOCK_MONOTONIC, ns";
                Some(Journal::create(path, &config.interfaces, &impairment, clock)?)
            }
        };
        let descriptions = links.each_ref().map(|link| link.description.to_string());
        let stamped = links.iter().all(|link| link.description.stamps != StampSource::Reading);
        if !stamped && is_timed(&impairment) {
            notes.push(
                "this link has no receive stamps: delays count from when a frame was read".into(),
            );
        }
        let rings = links.each_ref().map(|link| {
            u64::from(link.description.ring_frames) * u64::from(link.description.queues)
        });
        let [a, b] = links;
        let ways = [
            (Direction::Forward, a.receiver, b.transmitter),
            (Direction::Reverse, b.receiver, a.transmitter),
        ];
        let pulses = [Arc::new(Pulse::default()), Arc::new(Pulse::default())];
        let mut passages = Vec::new();
        for (direction, ..) in &ways {
            let writing = journal.as_ref().map(|journal| journal.writing(*direction));
            passages.push(Passage::new(&impairment, *direction, writing, config.native_port)?);
        }
        let mut names = Names::default();
        names.add(&Prepared::new(impairment.clone(), Direction::Forward)?);
        let started_ns = clock.monotonic_ns();
        let mut running: Vec<Running> = Vec::new();
        for (((_, from, to), passage), name) in ways.into_iter().zip(passages).zip(NAMES) {
            let started = spawn(Parts {
                name,
                passage,
                config: impairment.clone(),
                from,
                ring_frames: rings[running.len()],
                to,
                scheduling: config.scheduling,
                pulse: pulses[running.len()].clone(),
            });
            match started {
                Ok(started) => running.push(started),
                Err(error) => {
                    for started in running {
                        started.mailbox.abort();
                        let _ = started.thread.join();
                    }
                    return Err(error);
                }
            }
        }
        let (Some(second), Some(first)) = (running.pop(), running.pop()) else {
            return Err(EmulatorError::Ended);
        };
        let remote = Remote {
            shared: Arc::new(Shared {
                clock,
                started_ns,
                interfaces: config.interfaces,
                links: descriptions.to_vec(),
                stamped,
                mailboxes: [first.mailbox, second.mailbox],
                pulses,
                wanted: Mutex::new(Wanted {
                    config: impairment,
                    stopped: BTreeSet::new(),
                    names,
                    next: 1,
                    applied: vec![AppliedConfiguration { number: 0, at_seconds: [0.0, 0.0] }],
                    pending: Vec::new(),
                }),
                alarms: Mutex::new(Alarms::default()),
                journal: journal.as_ref().map(Journal::watching),
                notes,
                over: (Mutex::new(false), Condvar::new()),
                indices,
                gone: Mutex::new(None),
            }),
        };
        let mut emulator = Emulator {
            remote: remote.clone(),
            threads: vec![first.thread, second.thread],
            supervisor: None,
            journal,
            watchdog,
        };
        let supervisor = std::thread::Builder::new()
            .name("weir-watch".into())
            .spawn(move || remote.watch())
            .map_err(|source| EmulatorError::System { operation: "start a thread", source })?;
        emulator.supervisor = Some(supervisor);
        Ok(emulator)
    }

    /// What steers it.
    #[must_use]
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// [`EmulatorError::Ended`] when a direction has ended.
    pub fn report(&self) -> Result<Report, EmulatorError> {
        self.remote.report()
    }

    /// Ends it: takes in what has come and then no more, lets what is held leave within 2 s (less when [`Remote::abort`] is called), restores
    /// the interfaces. `reason` is told in the report.
    #[must_use]
    pub fn finish(mut self, reason: &str) -> Ending {
        self.remote.drain();
        let mut directions = Vec::new();
        let mut error = None;
        for (thread, name) in std::mem::take(&mut self.threads).into_iter().zip(NAMES) {
            match thread.join() {
                Ok(ended) => {
                    error = error.or(ended.error);
                    directions.push(ended.report);
                }
                // Whatever else there was: a defect comes first.
                Err(_) => error = Some(EmulatorError::Panicked(name)),
            }
        }
        if let Some(name) = lock(&self.remote.shared.gone).take() {
            error = error.or(Some(weir_link::Error::Gone(name).into()));
        }
        if let Some(journal) = self.journal.take()
            && let Err(failure) = journal.finish()
        {
            error = error.or(Some(failure));
        }
        let reason = error.as_ref().map_or_else(|| reason.to_owned(), ToString::to_string);
        let report = self.remote.assemble(directions, Some(reason));
        self.end();
        Ending { report, error }
    }

    fn end(&mut self) {
        self.remote.abort();
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
        let (over, bell) = &self.remote.shared.over;
        *lock(over) = true;
        bell.notify_all();
        if let Some(supervisor) = self.supervisor.take() {
            let _ = supervisor.join();
        }
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.restore();
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.end();
    }
}

impl Remote {
    /// Asks both directions, and waits for their answers.
    fn ask<T>(&self, order: impl Fn(SyncSender<T>) -> Order) -> Result<Vec<T>, EmulatorError> {
        let asked: Vec<Receiver<T>> = self
            .shared
            .mailboxes
            .iter()
            .map(|mailbox| {
                let (sender, receiver) = sync_channel(1);
                mailbox.post(order(sender));
                receiver
            })
            .collect();
        asked.into_iter().map(answer).collect()
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// [`EmulatorError::Ended`] when a direction has ended.
    pub fn report(&self) -> Result<Report, EmulatorError> {
        let snapshots = self.ask(Order::Report)?;
        Ok(self.assemble(snapshots.into_iter().map(Snapshot::report).collect(), None))
    }

    fn assemble(&self, mut directions: Vec<DirectionReport>, end_reason: Option<String>) -> Report {
        let mut flows = Vec::new();
        let mut lists: Vec<_> =
            directions.iter_mut().map(|d| std::mem::take(&mut d.flows).into_iter()).collect();
        // Flow by flow, A to B before B to A.
        loop {
            let before = flows.len();
            for list in &mut lists {
                flows.extend(list.next());
            }
            if flows.len() == before {
                break;
            }
        }
        let (config, configurations) = {
            let mut wanted = lock(&self.shared.wanted);
            wanted.settle(self.shared.started_ns);
            (effective(&wanted.config, &wanted.stopped), wanted.applied.clone())
        };
        Report {
            schema: REPORT_SCHEMA.into(),
            interfaces: self.shared.interfaces.clone(),
            links: self.shared.links.clone(),
            seconds: self.seconds(),
            end_reason,
            impairment: ImpairmentReport { config, flows },
            directions,
            configurations,
            alarms: lock(&self.shared.alarms).list().to_vec(),
            journal: self.shared.journal.as_ref().map(Watching::report),
            notes: self.shared.notes.clone(),
        }
    }

    fn seconds(&self) -> f64 {
        seconds(self.shared.clock.monotonic_ns().saturating_sub(self.shared.started_ns))
    }

    /// Interface A, interface B.
    #[must_use]
    pub fn interfaces(&self) -> &[String; 2] {
        &self.shared.interfaces
    }

    /// What the links are made of, and why.
    #[must_use]
    pub fn links(&self) -> &[String] {
        &self.shared.links
    }

    /// What could not be had.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.shared.notes
    }

    /// The configuration asked for last, and the flows whose laws are stopped by command.
    #[must_use]
    pub fn wanted(&self) -> (Impairment, Vec<String>) {
        let wanted = lock(&self.shared.wanted);
        ((*wanted.config).clone(), wanted.stopped.iter().cloned().collect())
    }

    /// Puts another configuration into force, in each direction between two batches; what is held leaves when it was to
    /// leave. Returns its number.
    ///
    /// # Errors
    /// A configuration that does not hold: then nothing has changed. [`EmulatorError::Pending`]: a direction has not
    /// confirmed it; it was handed over all the same. [`EmulatorError::Ended`].
    pub fn set(&self, config: Impairment) -> Result<u64, EmulatorError> {
        let mut wanted = lock(&self.shared.wanted);
        let stopped = wanted.stopped.clone();
        self.apply(&mut wanted, Arc::new(config), stopped)
    }

    /// Changes parts of the configuration, all of them at once.
    ///
    /// # Errors
    /// As [`Remote::set`]; a flow that is not there; a change of nothing.
    pub fn change(&self, change: Change) -> Result<u64, EmulatorError> {
        let mut wanted = lock(&self.shared.wanted);
        let mut config = (*wanted.config).clone();
        change.make(&mut config)?;
        let stopped = wanted.stopped.clone();
        self.apply(&mut wanted, Arc::new(config), stopped)
    }

    /// The laws of one flow, or of Other, in place of those it has; `None` leaves a direction as it is.
    ///
    /// # Errors
    /// As [`Remote::change`].
    pub fn set_laws(
        &self,
        flow: Option<&str>,
        a_to_b: Option<Laws>,
        b_to_a: Option<Laws>,
    ) -> Result<u64, EmulatorError> {
        let flow = flow.map(ToOwned::to_owned);
        self.change(Change { flow, a_to_b, b_to_a, ..Change::default() })
    }

    /// Starts or stops the laws of a flow, of Other, or (`None`) of all; packets of a stopped flow pass untouched.
    ///
    /// # Errors
    /// As [`Remote::set`]; a flow that is not there.
    pub fn run(&self, flow: Option<&str>, on: bool) -> Result<u64, EmulatorError> {
        let mut wanted = lock(&self.shared.wanted);
        let config = wanted.config.clone();
        let names: Vec<String> = match flow {
            Some(name) if name == OTHER => vec![name.to_owned()],
            Some(name) => {
                if !config.flows.iter().any(|flow| flow.name == name) {
                    return Err(no_such(name, &config));
                }
                vec![name.to_owned()]
            }
            None => {
                let all = config.flows.iter().map(|flow| flow.name.clone());
                all.chain([OTHER.to_owned()]).collect()
            }
        };
        let mut stopped = wanted.stopped.clone();
        for name in names {
            if on {
                stopped.remove(&name);
            } else {
                stopped.insert(name);
            }
        }
        self.apply(&mut wanted, config, stopped)
    }

    /// Checks and prepares on this thread, so that no direction can refuse what the other runs; then hands over to both.
    fn apply(
        &self,
        wanted: &mut Wanted,
        config: Arc<Impairment>,
        stopped: BTreeSet<String>,
    ) -> Result<u64, EmulatorError> {
        wanted.settle(self.shared.started_ns);
        let effective = Arc::new(effective(&config, &stopped));
        let timed = is_timed(&effective);
        let there = Prepared::new(effective.clone(), Direction::Forward)?;
        let back = Prepared::new(effective.clone(), Direction::Reverse)?;
        wanted.names.check(&there)?;
        if self.has_ended() {
            return Err(EmulatorError::Ended);
        }
        wanted.names.add(&there);
        let number = wanted.next;
        wanted.next += 1;
        (wanted.config, wanted.stopped) = (config, stopped);
        if let Some(journal) = &self.shared.journal {
            // Before any record can tell of it.
            journal.configure(number, &wanted.names, &effective);
        }
        let mut pending = Pending { number, answers: [None, None], at_ns: [0; 2] };
        let ways = [there, back].into_iter().zip(&self.shared.mailboxes);
        for ((prepared, mailbox), answer) in ways.zip(&mut pending.answers) {
            let (reply, receiver) = sync_channel(1);
            mailbox.post(Order::Configure { prepared, timed, number, reply });
            *answer = Some(receiver);
        }
        if pending.wait(Instant::now() + PATIENCE)? {
            wanted.in_force(&pending, self.shared.started_ns);
            Ok(number)
        } else {
            wanted.pending.push(pending);
            Err(EmulatorError::Pending(number))
        }
    }

    /// Whether deadlines count from stamps that were taken on arrival. If not, and `config` delays, that is worth a word.
    #[must_use]
    pub fn is_stamped(&self) -> bool {
        self.shared.stamped
    }

    /// Writes the verdicts of a flow (of all: `None`) to the journal, or no longer.
    ///
    /// # Errors
    /// No journal, or no such flow.
    pub fn log(&self, flow: Option<&str>, on: bool) -> Result<(), EmulatorError> {
        if self.shared.journal.is_none() {
            return Err(EmulatorError::Refusal {
                what: "log".into(),
                given: "an emulator without journal".into(),
                accepted: "one started with --journal".into(),
            });
        }
        let flow = flow.map(ToOwned::to_owned);
        let found = self.ask(|reply| Order::Log { flow: flow.clone(), on, reply })?;
        match (found.contains(&true), flow) {
            (false, Some(name)) => Err(no_such(&name, &self.wanted().0)),
            _ => Ok(()),
        }
    }

    /// The alarms raised after the first `seen`, and how many there were ever.
    #[must_use]
    pub fn alarms_after(&self, seen: u64) -> (Vec<Alarm>, u64) {
        lock(&self.shared.alarms).after(seen)
    }

    /// Takes in what has come by now, and no more; the directions end when all has left, after 2 s at the latest.
    pub fn drain(&self) {
        let until_ns = self.shared.clock.monotonic_ns() + DRAIN_NS;
        for mailbox in &self.shared.mailboxes {
            mailbox.post(Order::Drain { until_ns });
        }
    }

    /// Ends the directions at once; what is held is lost, and counted.
    pub fn abort(&self) {
        for mailbox in &self.shared.mailboxes {
            mailbox.abort();
        }
    }

    /// Whether a direction has ended: by request, since its link did, or by a panic.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shared.pulses.iter().any(|pulse| pulse.ended.load(Ordering::Acquire))
    }

    /// Whether each direction's thread is under SCHED_FIFO now.
    #[must_use]
    pub fn is_real_time(&self) -> [bool; 2] {
        self.shared.pulses.each_ref().map(|pulse| pulse.fifo.load(Ordering::Relaxed))
    }

    /// The supervisor's life.
    fn watch(&self) {
        let mut seen = [[0_u64; 3]; 2];
        let mut journal_dropped = 0;
        let (over, bell) = &self.shared.over;
        let mut ended = lock(over);
        while !*ended {
            ended = match bell.wait_timeout(ended, WATCH) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
            if !*ended {
                self.look(&mut seen, &mut journal_dropped);
            }
        }
    }

    fn look(&self, seen: &mut [[u64; 3]; 2], journal_dropped: &mut u64) {
        let now = self.seconds();
        let mut alarms = lock(&self.shared.alarms);
        for ((pulse, name), seen) in self.shared.pulses.iter().zip(NAMES).zip(seen) {
            let load = pulse.load_permille.load(Ordering::Relaxed);
            alarms.set(AlarmKind::CpuHigh, name, load > 900, now, || {
                format!("the thread of {name} uses {} % of a processor", load / 10)
            });
            let held = pulse.held_bytes.load(Ordering::Relaxed);
            let most = pulse.memory_bytes.load(Ordering::Relaxed);
            alarms.set(AlarmKind::MemoryCapNear, name, held > most / 10 * 9, now, || {
                format!("{name} holds {held} of {most} bytes; what comes beyond is dropped")
            });
            let unplanned = pulse.unplanned_packets.load(Ordering::Relaxed);
            let late = pulse.late_packets.load(Ordering::Relaxed);
            let steps = pulse.clock_steps.load(Ordering::Relaxed);
            let grown = [unplanned > seen[0], late > seen[1], steps > seen[2]];
            alarms.set(AlarmKind::UnplannedDrop, name, grown[0], now, || {
                format!("{name}: {} packets lost unasked", unplanned - seen[0])
            });
            alarms.set(AlarmKind::DeadlineLate, name, grown[1], now, || {
                let count = late - seen[1];
                format!("{name}: {count} packets left more than {} ms late", LATE_NS / 1_000_000)
            });
            alarms.set(AlarmKind::ClockStepped, name, grown[2], now, || {
                format!(
                    "{name}: the realtime clock was stepped; packets that came in within 10 ms of it may have \
                     been delayed by as much more or less"
                )
            });
            *seen = [unplanned, late, steps];
        }
        if let Some(journal) = &self.shared.journal {
            let dropped = journal.report().dropped_records;
            alarms.set(
                AlarmKind::JournalDropped,
                "journal",
                dropped > *journal_dropped,
                now,
                || format!("{} verdicts are missing in the journal", dropped - *journal_dropped),
            );
            *journal_dropped = dropped;
        }
        if let Some(indices) = self.shared.indices
            && let Ok(all) = interface::interfaces()
        {
            for (name, index) in self.shared.interfaces.iter().zip(indices) {
                let found = all.iter().find(|found| found.index == index);
                let down = !found.is_some_and(|found| found.up && found.carrier);
                alarms.set(AlarmKind::LinkDown, name, down, now, || {
                    format!("{name} is {}", if found.is_some() { "down" } else { "gone" })
                });
                if found.is_none() {
                    // A socket learns of the going down before, and may not learn of this.
                    *lock(&self.shared.gone) = Some(name.clone());
                    self.abort();
                }
            }
        }
    }
}

fn answer<T>(receiver: Receiver<T>) -> Result<T, EmulatorError> {
    receiver.recv_timeout(PATIENCE).map_err(|error| match error {
        RecvTimeoutError::Disconnected => EmulatorError::Ended,
        RecvTimeoutError::Timeout => EmulatorError::System {
            operation: "get an answer from a direction's thread",
            source: std::io::ErrorKind::TimedOut.into(),
        },
    })
}

fn no_such(name: &str, config: &Impairment) -> EmulatorError {
    let mut names: Vec<&str> = config.flows.iter().map(|flow| flow.name.as_str()).collect();
    names.push(OTHER);
    EmulatorError::Refusal { what: "flow".into(), given: name.into(), accepted: names.join(", ") }
}
