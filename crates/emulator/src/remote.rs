//! Controls a running emulator from any thread: reports, configuration, packet trace, stop.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use weir_impair::{ImpairError, Names, Prepared};
use weir_laws::Direction;
use weir_model::impairment::{Impairment, Laws, OTHER};
use weir_model::plan::Direction as Side;
use weir_net::clock::Clock;
pub(crate) use weir_net::thread::lock;

use crate::alarm::{Alarm, AlarmSelection, AlarmThresholds, Alarms};
use crate::config::is_timed;
use crate::direction::{DirectionStatus, Mailbox, Order};
use crate::error::EmulatorError;
use crate::expressions::compile_filters;
use crate::lateness::seconds;
use crate::packet_trace::TraceCounters;
use crate::recording::{Recording, RecordingReport, RecordingSelection, Recordings, close, finish};
use crate::report::{
    DirectionReport, DropsReport, FlowReport, FlowTrigger, ImpairmentReport, REPORT_SCHEMA, Report,
};
use crate::sharing;
use crate::snapshot::Snapshot;
use crate::wanted::{Change, PendingConfiguration, Wanted, effective, no_such};

const SIDES: [Side; 2] = [Side::Forward, Side::Reverse];
/// Time for queued packets to leave after the end was requested.
const DRAIN_NS: u64 = 2_000_000_000;
/// Timeout of a direction's answer; beyond it, the direction has stalled.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Controls a running emulator; clones control the same one, from any thread.
#[derive(Clone)]
pub struct Remote {
    pub(crate) shared: Arc<Shared>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote")
            .field("interfaces", &self.shared.interfaces)
            .finish_non_exhaustive()
    }
}

/// Counts dropped and damaged datagrams until dropped.
#[derive(Debug)]
pub struct Watch {
    remote: Remote,
    id: u64,
}

impl Watch {
    /// The datagrams dropped or damaged since it was created.
    ///
    /// # Errors
    /// [`EmulatorError::Ended`] when a direction has ended.
    pub fn drops(&self) -> Result<DropsReport, EmulatorError> {
        let found = self.remote.ask(|reply| Order::Drops { id: self.id, reply })?;
        let mut out = DropsReport::default();
        for (side, (drops, names)) in &found {
            drops.report(*side, names, &mut out);
        }
        Ok(out)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for mailbox in self.remote.shared.mailboxes.iter().flatten() {
            mailbox.post(Order::Unwatch(self.id));
        }
    }
}

pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) started_ns: u64,
    pub(crate) interfaces: [String; 2],
    pub(crate) lab: Option<String>,
    pub(crate) links: Vec<String>,
    /// Whether arrivals have kernel stamps.
    pub(crate) stamped: bool,
    /// Of the workers of each direction.
    pub(crate) mailboxes: [Vec<Arc<Mailbox>>; 2],
    pub(crate) statuses: [Vec<Arc<DirectionStatus>>; 2],
    pub(crate) wanted: Mutex<Wanted>,
    pub(crate) alarms: Mutex<Alarms>,
    pub(crate) packet_trace: Option<TraceCounters>,
    /// Locked after `wanted`, where both are.
    pub(crate) recordings: Mutex<Recordings>,
    pub(crate) notes: Vec<String>,
    /// Number of watches so far, and so of the next one.
    pub(crate) watches: AtomicU64,
    pub(crate) over: (Mutex<bool>, Condvar),
    /// Monitored interfaces; none in tests.
    pub(crate) indices: Option<[u32; 2]>,
    /// The interface that was removed.
    pub(crate) gone: Mutex<Option<String>>,
}

impl Remote {
    /// Number of workers of each direction.
    pub(crate) fn workers(&self) -> u8 {
        self.shared.mailboxes[0].len() as u8
    }

    /// Sends an order to all workers of both directions, and waits for their answers.
    pub(crate) fn ask<T>(
        &self,
        order: impl Fn(SyncSender<T>) -> Order,
    ) -> Result<Vec<(Side, T)>, EmulatorError> {
        let ways = SIDES.into_iter().zip(&self.shared.mailboxes);
        let all = ways.flat_map(|(side, mailboxes)| mailboxes.iter().map(move |to| (side, to)));
        let asked: Vec<(Side, Receiver<T>)> = all
            .map(|(side, mailbox)| {
                let (sender, receiver) = sync_channel(1);
                mailbox.post(order(sender));
                (side, receiver)
            })
            .collect();
        asked.into_iter().map(|(side, receiver)| Ok((side, answer(receiver)?))).collect()
    }

    /// The report so far.
    ///
    /// # Errors
    /// [`EmulatorError::Ended`] when a direction has ended.
    pub fn report(&self) -> Result<Report, EmulatorError> {
        let snapshots = self.ask(Order::Report)?;
        let snapshots = snapshots.into_iter().map(|(_, snapshot)| snapshot).collect();
        Ok(self.assemble(directions(snapshots), None))
    }

    pub(crate) fn assemble(
        &self,
        mut directions: Vec<DirectionReport>,
        end_reason: Option<String>,
    ) -> Report {
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
        let (alarms, thresholds) = {
            let alarms = lock(&self.shared.alarms);
            (alarms.list().to_vec(), alarms.thresholds)
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
            alarms,
            alarm_thresholds: Some(thresholds),
            packet_trace: self.shared.packet_trace.as_ref().map(TraceCounters::report),
            recordings: self.recordings(),
            notes: self.shared.notes.clone(),
        }
    }

    pub(crate) fn seconds(&self) -> f64 {
        seconds(self.shared.clock.monotonic_ns().saturating_sub(self.shared.started_ns))
    }

    /// Counts the datagrams that are dropped or damaged from now on, by their addresses, until the watch is dropped.
    ///
    /// # Errors
    /// [`EmulatorError::Ended`] when a direction has ended.
    pub fn watch_drops(&self) -> Result<Watch, EmulatorError> {
        let id = self.shared.watches.fetch_add(1, Ordering::Relaxed);
        let watch = Watch { remote: self.clone(), id };
        self.ask(|reply| Order::Watch { id, reply })?;
        Ok(watch)
    }

    /// Interface A, interface B.
    #[must_use]
    pub(crate) fn interfaces(&self) -> &[String; 2] {
        &self.shared.interfaces
    }

    /// The namespace of a lab that it runs in, `LAB/NODE`.
    #[must_use]
    pub(crate) fn lab(&self) -> Option<&str> {
        self.shared.lab.as_deref()
    }

    /// The types of the links, and why.
    #[must_use]
    pub fn links(&self) -> &[String] {
        &self.shared.links
    }

    /// Features that were unavailable.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.shared.notes
    }

    /// The latest requested configuration, and its flows whose laws are not applied: stopped by command, or by the
    /// configuration itself.
    #[must_use]
    pub fn wanted(&self) -> (Impairment, Vec<String>) {
        let wanted = lock(&self.shared.wanted);
        ((*wanted.config).clone(), wanted.resting())
    }

    /// Applies another configuration, in each direction between two batches; queued packets keep their departure
    /// times. Returns its number.
    ///
    /// # Errors
    /// An invalid configuration, which changes nothing. [`EmulatorError::Pending`]: a direction has not confirmed it
    /// yet. [`EmulatorError::Ended`].
    pub fn set(&self, config: Impairment) -> Result<u64, EmulatorError> {
        // Before the lock, since a name server may be slow.
        compile_filters(&config).map_err(ImpairError::Config)?;
        let mut wanted = lock(&self.shared.wanted);
        let stopped = wanted.stopped.clone();
        self.apply(&mut wanted, Arc::new(config), stopped)
    }

    /// Changes parts of the configuration together.
    ///
    /// # Errors
    /// As [`Remote::set`]; an unknown flow; an empty change.
    pub fn change(&self, change: Change) -> Result<u64, EmulatorError> {
        let mut wanted = lock(&self.shared.wanted);
        let mut config = (*wanted.config).clone();
        change.make(&mut config)?;
        compile_filters(&config).map_err(ImpairError::Config)?;
        let stopped = wanted.stopped.clone();
        self.apply(&mut wanted, Arc::new(config), stopped)
    }

    /// Replaces the laws of one flow, or of Other; `None` leaves a direction unchanged.
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

    /// Starts or stops the laws of a flow, of Other, or (`None`) of all; packets of a stopped flow are forwarded
    /// unchanged. A flow with `run = false` is started only by name, which changes the configuration.
    ///
    /// # Errors
    /// As [`Remote::set`]; an unknown flow.
    pub fn run(&self, flow: Option<&str>, on: bool) -> Result<u64, EmulatorError> {
        let mut wanted = lock(&self.shared.wanted);
        let mut config = wanted.config.clone();
        let names: Vec<String> = match flow {
            Some(name) if name == OTHER => vec![name.to_owned()],
            Some(name) => {
                let Some(at) = config.flows.iter().position(|flow| flow.name == name) else {
                    return Err(no_such(name, &config));
                };
                if on && !config.flows[at].run.0 {
                    Arc::make_mut(&mut config).flows[at].run.0 = true;
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

    /// Checks and prepares the configuration on this thread, so that neither direction can refuse it; then passes it
    /// to both.
    fn apply(
        &self,
        wanted: &mut Wanted,
        config: Arc<Impairment>,
        stopped: BTreeSet<String>,
    ) -> Result<u64, EmulatorError> {
        wanted.settle(self.shared.started_ns);
        let earlier = effective(&wanted.config, &wanted.stopped);
        let effective = Arc::new(effective(&config, &stopped));
        let is_change = *effective != earlier;
        let timed = is_timed(&effective);
        let hops = wanted.hops.max(effective.hops());
        let workers = self.workers();
        sharing::check(&effective, workers)?;
        let prepare = |direction| {
            let each = (0..workers).map(|_| Prepared::new(&effective, direction, hops));
            each.collect::<Result<Vec<_>, _>>()
        };
        let ways = [prepare(Direction::Forward)?, prepare(Direction::Reverse)?];
        wanted.names.check(&ways[0][0])?;
        if self.has_ended() {
            return Err(EmulatorError::Ended);
        }
        wanted.names.add(&ways[0][0]);
        lock(&self.shared.recordings).set_names(wanted.names.numbered());
        wanted.hops = hops;
        let number = wanted.next;
        wanted.next += 1;
        (wanted.config, wanted.stopped) = (config, stopped);
        if let Some(packet_trace) = &self.shared.packet_trace {
            // Before any record can refer to it.
            packet_trace.configure(number, &wanted.names, &effective);
        }
        let mut pending =
            PendingConfiguration { number, is_change, answers: Vec::new(), at_ns: [0; 2] };
        for (way, prepared) in ways.into_iter().enumerate() {
            let owners = sharing::owners(&effective, SIDES[way], &wanted.names, workers);
            for (prepared, mailbox) in prepared.into_iter().zip(&self.shared.mailboxes[way]) {
                let (reply, receiver) = sync_channel(1);
                let owners = owners.clone();
                mailbox.post(Order::Configure { prepared, owners, timed, number, reply });
                pending.answers.push((way, receiver));
            }
        }
        if pending.wait(Instant::now() + TIMEOUT)? {
            wanted.in_force(&pending, self.shared.started_ns);
            Ok(number)
        } else {
            wanted.pending.push(pending);
            Err(EmulatorError::Pending(number))
        }
    }

    /// Whether deadlines start from stamps taken on arrival. If not, and `config` delays packets, a note is due.
    #[must_use]
    pub(crate) fn is_stamped(&self) -> bool {
        self.shared.stamped
    }

    /// The file of the packet trace, if there is one.
    #[must_use]
    pub(crate) fn packet_trace(&self) -> Option<&Path> {
        self.shared.packet_trace.as_ref().map(TraceCounters::path)
    }

    /// Starts a period of counting for a flow (`None`: all): [`crate::CurrentReport`]. Counters since the emulator's
    /// start continue.
    ///
    /// # Errors
    /// An unknown flow; [`EmulatorError::Ended`].
    pub(crate) fn reset(&self, flow: Option<&str>) -> Result<(), EmulatorError> {
        let flow = flow.map(ToOwned::to_owned);
        let found = self.ask(|reply| Order::Reset { flow: flow.clone(), reply })?;
        match (found.iter().any(|(_, found)| *found), flow) {
            (false, Some(name)) => Err(no_such(&name, &self.wanted().0)),
            _ => Ok(()),
        }
    }

    /// Triggers a flow (`None`: all) by command, in each direction whose trigger waits for one. Returns their number.
    ///
    /// # Errors
    /// An unknown flow; no trigger waits for a command.
    pub fn trigger(&self, flow: Option<&str>) -> Result<usize, EmulatorError> {
        let config = self.wanted().0;
        if let Some(name) = flow.filter(|name| *name != OTHER)
            && config.flows.iter().all(|flow| flow.name != name)
        {
            return Err(no_such(name, &config));
        }
        let name = flow.map(ToOwned::to_owned);
        let found = self.ask(|reply| Order::Trigger { flow: name.clone(), reply })?;
        // Every thread has the triggers of its direction.
        let of = |side| found.iter().filter(move |(of, _)| *of == side).map(|(_, count)| *count);
        let [there, back] = SIDES.map(|side| of(side).max().unwrap_or(0));
        match there + back {
            0 => Err(EmulatorError::Refusal {
                what: "trigger".into(),
                given: flow.unwrap_or("all flows").into(),
                accepted: "a flow whose trigger waits for a command, as with \"trigger command\" in its laws".into(),
            }),
            triggers => Ok(triggers),
        }
    }

    /// The triggers of all flows: name, direction, state. Empty without a trigger.
    ///
    /// # Errors
    /// [`EmulatorError::Ended`] when a direction has ended.
    pub(crate) fn triggers(&self) -> Result<Vec<FlowTrigger>, EmulatorError> {
        if !self.wanted().0.has_triggers() {
            return Ok(vec![]);
        }
        let flows = self.report()?.impairment.flows.into_iter();
        let trigger = |flow: FlowReport| {
            let FlowReport { name, direction, trigger, .. } = flow;
            trigger.map(|trigger| FlowTrigger { name, direction, trigger })
        };
        Ok(flows.filter_map(trigger).collect())
    }

    /// Starts a capture or log, which is written to `file` from its current position.
    ///
    /// # Errors
    /// An unknown flow, an invalid value, too many at a time, a file that is in use or that can't be written;
    /// [`EmulatorError::Ended`].
    pub fn record(&self, recording: Recording, file: File) -> Result<(), EmulatorError> {
        let flow = {
            let wanted = lock(&self.shared.wanted);
            lock(&self.shared.recordings).set_names(wanted.names.numbered());
            let number = |name: &String| number_of(&wanted.names, &wanted.config, name);
            recording.flow.as_ref().map(number).transpose()?
        };
        // Those that have ended by themselves make room, and their files may be written again.
        let over = lock(&self.shared.recordings).over();
        self.end_by_id(&over)?;
        let interfaces = &self.shared.interfaces;
        let answers: Vec<Receiver<()>> = {
            // Posted under the lock: no client ends it before that.
            let mut recordings = lock(&self.shared.recordings);
            let recorders = recordings.start(recording, file, flow, interfaces, self.seconds())?;
            let ways = self.shared.mailboxes.iter().zip(recorders);
            let all = ways.flat_map(|(mailboxes, recorders)| mailboxes.iter().zip(recorders));
            let posted = all.map(|(mailbox, recorder)| {
                let (reply, receiver) = sync_channel(1);
                mailbox.post(Order::Record { recorder, reply });
                receiver
            });
            posted.collect()
        };
        answers.into_iter().try_for_each(answer)
    }

    /// Ends captures and logs, and waits until they are written; returns their reports.
    ///
    /// # Errors
    /// [`EmulatorError::Ended`] when a direction has ended.
    pub fn end_recordings(
        &self,
        selection: &RecordingSelection,
    ) -> Result<Vec<RecordingReport>, EmulatorError> {
        let ids = lock(&self.shared.recordings).selected(selection);
        self.end_by_id(&ids)
    }

    fn end_by_id(&self, ids: &[u64]) -> Result<Vec<RecordingReport>, EmulatorError> {
        if ids.is_empty() {
            return Ok(vec![]);
        }
        let removed = self.ask(|reply| Order::EndRecordings { ids: ids.to_vec(), reply })?;
        close(removed.into_iter().flat_map(|(_, recorders)| recorders));
        let ending = lock(&self.shared.recordings).ending(ids);
        finish(ending);
        Ok(lock(&self.shared.recordings).reports(ids))
    }

    /// Waits until all captures and logs are written, once the directions have ended.
    pub(crate) fn finish_recordings(&self) {
        let ending = {
            let mut recordings = lock(&self.shared.recordings);
            let all = recordings.selected(&RecordingSelection::default());
            recordings.ending(&all)
        };
        finish(ending);
    }

    /// The captures and logs.
    pub(crate) fn recordings(&self) -> Vec<RecordingReport> {
        lock(&self.shared.recordings).report()
    }

    /// Includes the verdicts of a flow (`None`: all) in the packet trace, or excludes them.
    ///
    /// # Errors
    /// No packet trace, or an unknown flow.
    pub fn trace(&self, flow: Option<&str>, on: bool) -> Result<(), EmulatorError> {
        if self.shared.packet_trace.is_none() {
            return Err(EmulatorError::Refusal {
                what: "trace".into(),
                given: "an emulator without packet trace".into(),
                accepted: "one started with a packet trace".into(),
            });
        }
        let flow = flow.map(ToOwned::to_owned);
        let found = self.ask(|reply| Order::Trace { flow: flow.clone(), on, reply })?;
        match (found.iter().any(|(_, found)| *found), flow) {
            (false, Some(name)) => Err(no_such(&name, &self.wanted().0)),
            _ => Ok(()),
        }
    }

    /// Acknowledges alarms; returns the number of those that were not acknowledged before.
    pub(crate) fn acknowledge(&self, which: &AlarmSelection) -> usize {
        let now = self.seconds();
        lock(&self.shared.alarms).acknowledge(which, now)
    }

    /// Removes alarms whose condition has passed; returns their number.
    pub(crate) fn clear_alarms(&self, which: &AlarmSelection) -> usize {
        lock(&self.shared.alarms).clear(which)
    }

    /// Changes the thresholds that are named; returns all.
    ///
    /// # Errors
    /// An unknown threshold, or one out of range, which changes nothing.
    pub(crate) fn set_thresholds(
        &self,
        changes: Map<String, Value>,
    ) -> Result<AlarmThresholds, EmulatorError> {
        let mut alarms = lock(&self.shared.alarms);
        let mut whole = json!(alarms.thresholds);
        changes.into_iter().for_each(|(name, value)| whole[name] = value);
        let thresholds: AlarmThresholds = weir_model::document::read(&whole)
            .map_err(|error| EmulatorError::from(ImpairError::Config(error.into())))?;
        thresholds.check()?;
        alarms.thresholds = thresholds;
        Ok(thresholds)
    }

    /// The alarms raised after the first `seen`, and the total number raised.
    #[must_use]
    pub fn alarms_after(&self, seen: u64) -> (Vec<Alarm>, u64) {
        lock(&self.shared.alarms).after(seen)
    }

    /// Stops receiving; the directions end when all queued packets have left, after 2 s at the latest.
    pub(crate) fn drain(&self) {
        let until_ns = self.shared.clock.monotonic_ns() + DRAIN_NS;
        for mailbox in self.shared.mailboxes.iter().flatten() {
            mailbox.post(Order::Drain { until_ns });
        }
    }

    /// Ends the directions immediately; queued packets are lost, and counted.
    pub fn abort(&self) {
        for mailbox in self.shared.mailboxes.iter().flatten() {
            mailbox.abort();
        }
    }

    /// Whether a direction has ended: by request, because its link did, or by a panic.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shared.statuses.iter().flatten().any(|status| status.ended.load(Ordering::Acquire))
    }

    /// Whether each direction's threads are under SCHED_FIFO now.
    #[must_use]
    pub(crate) fn is_real_time(&self) -> [bool; 2] {
        let is_fifo = |status: &Arc<DirectionStatus>| status.fifo.load(Ordering::Relaxed);
        self.shared.statuses.each_ref().map(|workers| workers.iter().all(is_fifo))
    }
}

/// The reports of the directions, of the snapshots of all workers.
pub(crate) fn directions(snapshots: Vec<Snapshot>) -> Vec<DirectionReport> {
    let mut ways: Vec<Snapshot> = Vec::with_capacity(2);
    for snapshot in snapshots {
        match ways.pop_if(|before| before.direction == snapshot.direction) {
            Some(before) => ways.push(before.merge(snapshot)),
            None => ways.push(snapshot),
        }
    }
    ways.into_iter().map(Snapshot::report).collect()
}

/// The number of a flow of the configuration.
fn number_of(names: &Names, config: &Impairment, name: &str) -> Result<u32, EmulatorError> {
    let is_there = name == OTHER || config.flows.iter().any(|flow| flow.name == name);
    let numbered = names.numbered();
    let found = numbered.iter().find(|(_, known)| is_there && *known == name);
    found.map(|(number, _)| *number).ok_or_else(|| no_such(name, config))
}

pub(crate) fn answer<T>(receiver: Receiver<T>) -> Result<T, EmulatorError> {
    receiver.recv_timeout(TIMEOUT).map_err(|error| match error {
        RecvTimeoutError::Disconnected => EmulatorError::Ended,
        RecvTimeoutError::Timeout => EmulatorError::System {
            operation: "wait for a direction's thread",
            source: std::io::ErrorKind::TimedOut.into(),
        },
    })
}
