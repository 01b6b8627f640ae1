//! A test with several servers: one test for each, with shared workers, a common start, one control socket and one
//! record.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, LocalSet};
use weir_flow::assemble::{ServerPart, merge, merge_intervals, number_interval};
use weir_flow::without_reported;
use weir_model::plan::{Direction, Family, FlowSpec, Server, TransportName};
use weir_model::progress::{FlowProgress, FlowState, PeerStatus};
use weir_model::record::{Interval, Record};

use super::commands::{NamedFlow, PendingRequest, Reply, Request, has_ended, unknown};
use super::streams::Streams;
use super::test::{self, Control, Gate, start_late};
use super::{ClientConfig, Event, Failure, StartSignal};
use crate::stop::Stop;
use crate::transport::xdp::Senders;
use crate::{START_NS, TrafficError};

/// Time from the moment when all servers are ready to the common start. Each test needs [`START_NS`] of it.
const COMMON_START_NS: u64 = 5 * START_NS;
/// Number of shown intervals that wait for late figures.
const MAX_LATE: usize = 1024;

/// What a test reports to the others' common end.
enum Message {
    Event(Event),
    Ended(Box<Result<Record, Failure>>),
}

/// The test with one server.
struct Part {
    label: String,
    /// Numbers of its flows in the whole test.
    flows: Vec<u32>,
    /// Its flows by these numbers, once it has started.
    specs: Vec<FlowSpec>,
    family: Option<Family>,
    requests: mpsc::UnboundedSender<PendingRequest>,
    unreachable_since_seconds: Option<f64>,
    record: Option<Record>,
    error: Option<TrafficError>,
}

impl Part {
    /// The number in the whole test of one of its flows.
    fn number(&self, id: u32) -> u32 {
        let index = id.checked_sub(1).map(|index| index as usize);
        index.and_then(|index| self.flows.get(index)).copied().unwrap_or(0)
    }

    fn is_over(&self) -> bool {
        self.record.is_some()
    }

    /// The request as its test understands it, which counts its flows from 1; `None` if it concerns none of them.
    fn own_request(&self, request: &Request) -> Option<Request> {
        let spec = self.specs.iter().find(|spec| request.names(spec))?;
        let number = spec.id.to_string();
        let index = self.flows.iter().position(|id| *id == spec.id)?;
        let by_number = request.connection.as_ref().is_some_and(|name| {
            *name == number && *name != spec.name && *name != spec.connection.name
        });
        Some(match by_number {
            true => Request { connection: Some((index + 1).to_string()), ..request.clone() },
            false => request.clone(),
        })
    }
}

/// Runs a test of each server's connections.
pub(super) async fn run(
    config: ClientConfig,
    servers: Vec<Server>,
    asked: mpsc::UnboundedReceiver<PendingRequest>,
    stop: Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    LocalSet::new().run_until(run_here(config, servers, asked, stop, observe)).await
}

/// The start that another program decides; never completes without a signal.
async fn signaled(signal: &mut Option<StartSignal>) -> Option<u64> {
    match signal {
        Some(signal) => signal.wait().await,
        None => std::future::pending().await,
    }
}

async fn run_here(
    config: ClientConfig,
    servers: Vec<Server>,
    mut asked: mpsc::UnboundedReceiver<PendingRequest>,
    stop: Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    let engine = Arc::new(test::start_engine(&config)?);
    let streams = Arc::new(Streams::default());
    let senders = Arc::new(Senders::default());
    let (ready, mut are_ready) = mpsc::unbounded_channel();
    let (start, own_signal) = StartSignal::new();
    let mut signal = config.start_signal.clone();
    let (messages, mut reported) = mpsc::unbounded_channel();
    // Dropping it ends all tests, so that none continues after an error of another before the start.
    let mut tests = JoinSet::new();
    let mut parts = vec![];
    for (index, server) in servers.iter().enumerate() {
        let (requests, asked) = mpsc::unbounded_channel();
        let gate = Gate { ready: Some(ready.clone()), index, start: own_signal.clone() };
        let control = Control {
            asked,
            engine: Some(engine.clone()),
            gate: Some(gate),
            streams: streams.clone(),
            senders: senders.clone(),
        };
        let own = ClientConfig {
            plan: config.plan.of_server(server),
            host: server.host.clone(),
            start_at_ns: None,
            start_signal: None,
            ..config.clone()
        };
        let (stop, messages) = (stop.clone(), messages.clone());
        tests.spawn_local(async move {
            let mut observe = |event| {
                let _ = messages.send((index, Message::Event(event)));
            };
            let outcome = test::run(own, control, stop, &mut observe).await;
            let _ = messages.send((index, Message::Ended(Box::new(outcome))));
        });
        parts.push(Part {
            label: server.label(),
            flows: config.plan.flows_of_server(server),
            specs: vec![],
            family: None,
            requests,
            unreachable_since_seconds: None,
            record: None,
            error: None,
        });
    }
    drop((ready, messages, own_signal));
    let mut whole = Whole {
        rows: Rows::new(parts.len(), config.plan.shared_streams()),
        parts,
        states: HashMap::new(),
    };
    let (mut waiting, mut late_ns) = (servers.len(), None);
    while whole.parts.iter().any(|part| !part.is_over()) {
        let is_started = waiting == 0;
        tokio::select! {
            biased;
            Some((index, message)) = reported.recv() => match message {
                Message::Event(event) => whole.event(index, event, observe),
                Message::Ended(outcome) => whole.ended(index, *outcome, observe)?,
            },
            Some(_) = are_ready.recv() => {
                waiting -= 1;
                if waiting == 0
                    && signal.is_some()
                {
                    observe(Event::Ready);
                } else if waiting == 0 {
                    let soonest = config.clock.monotonic_ns() + COMMON_START_NS;
                    let asked = config.start_at_ns.unwrap_or(soonest);
                    late_ns = soonest.checked_sub(asked).filter(|late| *late > 0);
                    start.start(soonest.max(asked));
                }
            }
            at_ns = signaled(&mut signal), if is_started && signal.is_some() => {
                signal = None;
                start.start(at_ns.unwrap_or_else(|| config.clock.monotonic_ns() + COMMON_START_NS));
            }
            Some((request, reply)) = asked.recv(), if is_started => {
                whole.command(request, reply);
            }
            Some(Err(e)) = tests.join_next() => {
                let error = std::io::Error::other(e.to_string());
                return Err(TrafficError::system("running the test with a server", error).into());
            }
        }
    }
    let mut errors: Vec<TrafficError> =
        whole.parts.iter_mut().filter_map(|part| part.error.take()).collect();
    let done = whole.parts.into_iter().filter_map(|part| {
        Some(ServerPart { name: part.label, flows: part.flows, record: part.record? })
    });
    let mut record = merge(config.plan, done.collect());
    record.warnings.extend(late_ns.map(start_late));
    // A stop by the user determines the exit code, whatever else happened.
    let stopped = errors.iter().position(|error| matches!(error, TrafficError::Stopped(..)));
    match errors.is_empty() {
        true => Ok(record),
        false => Err(Failure {
            error: errors.swap_remove(stopped.unwrap_or(0)),
            partial: Some(Box::new(record)),
        }),
    }
}

/// The state of the whole test.
struct Whole {
    parts: Vec<Part>,
    rows: Rows,
    /// States of the flows as last reported.
    states: HashMap<u32, FlowState>,
}

impl Whole {
    fn event(&mut self, index: usize, event: Event, observe: &mut dyn FnMut(Event)) {
        let part = &mut self.parts[index];
        match event {
            Event::Connected { local, remote } => observe(Event::Connected { local, remote }),
            Event::Addresses(mut addresses) => {
                addresses.iter_mut().for_each(|known| known.flow = part.number(known.flow));
                observe(Event::Addresses(addresses));
            }
            // No part has a signal of its own.
            Event::Ready => {}
            Event::Started { mut specs, family } => {
                for spec in &mut specs {
                    spec.id = part.number(spec.id);
                    spec.connection.host = Some(part.label.clone());
                    let kind = (spec.connection.direction, spec.connection.transport.name());
                    self.rows.kinds.insert(spec.id, kind);
                }
                (part.specs, part.family) = (specs, Some(family));
                let families: Option<Vec<_>> = self.parts.iter().map(|part| part.family).collect();
                let Some(family) = families.and_then(|all| all.first().copied()) else { return };
                let mut specs: Vec<FlowSpec> =
                    self.parts.iter().flat_map(|part| part.specs.iter().cloned()).collect();
                specs.sort_by_key(|spec| spec.id);
                observe(Event::Started { specs, family });
            }
            Event::ServerOutput(text) => observe(Event::ServerOutput(text)),
            Event::Flows(mut changed) => {
                for FlowProgress { id, state } in &mut changed {
                    *id = part.number(*id);
                    self.states.insert(*id, *state);
                }
                observe(Event::Flows(changed));
            }
            Event::Peer(status) => {
                let earliest = |parts: &[Part]| {
                    let since = parts.iter().filter_map(|part| part.unreachable_since_seconds);
                    since.min_by(f64::total_cmp)
                };
                let before = earliest(&self.parts);
                self.parts[index].unreachable_since_seconds = status.unreachable_since_seconds;
                let unreachable_since_seconds = earliest(&self.parts);
                if unreachable_since_seconds != before {
                    observe(Event::Peer(PeerStatus { unreachable_since_seconds }));
                }
            }
            Event::Interval(mut interval) => {
                number_interval(&mut interval, &part.flows);
                self.rows.add(index, *interval);
                self.rows.show(observe);
            }
            Event::Late(mut interval) => {
                number_interval(&mut interval, &part.flows);
                self.rows.late(index, *interval, observe);
            }
            Event::Echoes(mut intervals) => {
                intervals.iter_mut().for_each(|interval| interval.id = part.number(interval.id));
                observe(Event::Echoes(intervals));
            }
        }
    }

    /// Stores the result of a test.
    ///
    /// # Errors
    /// One that ended before the start.
    fn ended(
        &mut self,
        index: usize,
        outcome: Result<Record, Failure>,
        observe: &mut dyn FnMut(Event),
    ) -> Result<(), Failure> {
        let part = &mut self.parts[index];
        let (record, error) = match outcome {
            Ok(record) => (record, None),
            Err(Failure { mut error, partial }) => {
                if let TrafficError::Flow { flow, .. } = &mut error {
                    *flow = part.number(*flow);
                }
                let Some(mut record) = partial else { return Err(error.into()) };
                if let TrafficError::Flow { .. } = &error {
                    record.end_reason = error.to_string();
                }
                (*record, Some(error))
            }
        };
        (part.record, part.error) = (Some(record), error);
        self.rows.ended[index] = true;
        self.rows.show(observe);
        Ok(())
    }

    /// Passes a request on to the tests that it concerns; their answers become one. A test that is ending gives no
    /// answer: its flows have ended.
    fn command(&self, request: Request, reply: oneshot::Sender<Reply>) {
        let mut waiting = vec![];
        for part in &self.parts {
            let Some(own) = part.own_request(&request) else { continue };
            let (sender, receiver) = oneshot::channel();
            let _ = part.requests.send((own, sender));
            let named = part.specs.iter().filter(|spec| request.names(spec));
            let ended = named.map(|spec| NamedFlow {
                id: spec.id,
                name: spec.name.clone(),
                state: match self.states.get(&spec.id) {
                    Some(FlowState::Failed) => FlowState::Failed,
                    _ => FlowState::Finished,
                },
                rate: None,
            });
            waiting.push((receiver, part.flows.clone(), ended.collect::<Vec<_>>()));
        }
        if waiting.is_empty() {
            let specs = self.parts.iter().flat_map(|part| &part.specs);
            let _ = reply.send(unknown(&request, specs));
            return;
        }
        let starts_one = request.verb == "start" && request.connection.is_some();
        tokio::task::spawn_local(async move {
            let mut flows = vec![];
            for (receiver, numbers, ended) in waiting {
                match (receiver.await, ended.first()) {
                    (Ok(own), _) if own.ok => {
                        let number = |flow: NamedFlow| {
                            let index = flow.id.checked_sub(1)? as usize;
                            Some(NamedFlow { id: *numbers.get(index)?, ..flow })
                        };
                        flows.extend(own.flows.into_iter().filter_map(number));
                    }
                    (Ok(refusal), _) => {
                        let _ = reply.send(refusal);
                        return;
                    }
                    (Err(_), Some(flow)) if starts_one => {
                        let _ = reply.send(has_ended(&flow.name));
                        return;
                    }
                    (Err(_), _) => flows.extend(ended),
                }
            }
            flows.sort_by_key(|flow| flow.id);
            let _ = reply.send(Reply { ok: true, flows, error: None });
        });
    }
}

/// One interval of the tests: as each reported it first, and complete where figures were late.
struct Row {
    first: Vec<Option<Interval>>,
    complete: Vec<Option<Interval>>,
}

/// The intervals of all tests. One is shown when all tests that still run have reported it.
struct Rows {
    rows: BTreeMap<usize, Row>,
    /// The next interval of each test.
    next: Vec<usize>,
    ended: Vec<bool>,
    /// Number of intervals shown.
    shown: usize,
    kinds: HashMap<u32, (Direction, TransportName)>,
    /// Numbers of the flows that share a sender.
    shared: Vec<Vec<u32>>,
}

impl Rows {
    fn new(tests: usize, shared: Vec<Vec<u32>>) -> Rows {
        Rows {
            rows: BTreeMap::new(),
            next: vec![0; tests],
            ended: vec![false; tests],
            shown: 0,
            kinds: HashMap::new(),
            shared,
        }
    }

    fn add(&mut self, index: usize, interval: Interval) {
        let tests = self.next.len();
        let new = || Row { first: vec![None; tests], complete: vec![None; tests] };
        let row = self.rows.entry(self.next[index]).or_insert_with(new);
        row.first[index] = Some(interval);
        self.next[index] += 1;
    }

    fn show(&mut self, observe: &mut dyn FnMut(Event)) {
        while let Some(row) = self.rows.get(&self.shown) {
            let is_there = |(first, ended): (&Option<Interval>, &bool)| first.is_some() || *ended;
            if !row.first.iter().zip(&self.ended).all(is_there) {
                return;
            }
            let interval = self.merged(row.first.iter().flatten());
            observe(Event::Interval(Box::new(interval)));
            self.show_complete(self.shown, observe);
            self.shown += 1;
            while let Some(entry) = self.rows.first_entry()
                && entry.key() + MAX_LATE < self.shown
            {
                entry.remove();
            }
        }
    }

    /// Stores late figures of an interval.
    fn late(&mut self, index: usize, interval: Interval, observe: &mut dyn FnMut(Event)) {
        let is_same = |first: &Option<Interval>| {
            first.as_ref().is_some_and(|first| first.start_seconds == interval.start_seconds)
        };
        let found = self.rows.iter_mut().find(|(_, row)| is_same(&row.first[index]));
        let Some((&at, row)) = found else { return };
        row.complete[index] = Some(interval);
        if at < self.shown {
            self.show_complete(at, observe);
        }
    }

    /// Shows an interval again if late figures have completed it.
    fn show_complete(&self, at: usize, observe: &mut dyn FnMut(Event)) {
        let Some(row) = self.rows.get(&at) else { return };
        if row.complete.iter().all(Option::is_none) {
            return;
        }
        let parts = row.complete.iter().zip(&row.first);
        let parts = parts.filter_map(|(complete, first)| complete.as_ref().or(first.as_ref()));
        let mut interval = self.merged(parts);
        let ends = [&interval.total.forward, &interval.total.reverse];
        if ends.into_iter().flatten().all(|ends| ends.flows.is_none()) {
            without_reported(&mut interval);
            observe(Event::Late(Box::new(interval)));
        }
    }

    fn merged<'a>(&self, parts: impl Iterator<Item = &'a Interval> + Clone) -> Interval {
        merge_intervals(parts, |id| self.kinds.get(&id).copied(), &self.shared)
    }
}

#[cfg(test)]
mod tests {
    use weir_model::record::{IntervalCount, IntervalEnds, IntervalFlow, IntervalTotals};

    use super::*;

    /// Interval `n` of flow `id`, without its receiver's figures unless `whole`.
    fn interval(n: u32, id: u32, whole: bool) -> Interval {
        let count = IntervalCount { packets: 10, ..IntervalCount::default() };
        let receiver = whole.then(|| count.clone());
        let ends = IntervalEnds {
            sender: Some(count.clone()),
            receiver: receiver.clone(),
            flows: (!whole).then_some(1),
            sender_flows: (!whole).then_some(1),
            receiver_flows: (!whole).then_some(0),
        };
        Interval {
            start_seconds: f64::from(n),
            end_seconds: f64::from(n + 1),
            flows: vec![IntervalFlow { id, sender: Some(count), receiver }],
            total: IntervalTotals { forward: Some(ends), reverse: None },
            ..Interval::default()
        }
    }

    /// `I` or `L` for each event, its start and the flows in it.
    fn shown(events: &mut Vec<Event>) -> Vec<(char, f64, usize)> {
        let of = |event| match event {
            Event::Interval(i) => ('I', i.start_seconds, i.flows.len()),
            Event::Late(i) => ('L', i.start_seconds, i.flows.len()),
            _ => panic!("neither"),
        };
        events.drain(..).map(of).collect()
    }

    fn rows() -> Rows {
        let mut rows = Rows::new(2, vec![]);
        for id in [1, 2] {
            rows.kinds.insert(id, (Direction::Forward, TransportName::Udp));
        }
        rows
    }

    #[test]
    fn an_interval_waits_for_all_running_tests() {
        let (mut rows, mut events) = (rows(), vec![]);
        rows.add(0, interval(0, 1, true));
        rows.add(0, interval(1, 1, true));
        rows.show(&mut |e| events.push(e));
        assert!(events.is_empty());
        rows.add(1, interval(0, 2, true));
        rows.show(&mut |e| events.push(e));
        assert_eq!(shown(&mut events), [('I', 0.0, 2)]);
        rows.ended[1] = true;
        rows.show(&mut |e| events.push(e));
        assert_eq!(shown(&mut events), [('I', 1.0, 1)]);
    }

    #[test]
    fn late_figures_complete_an_interval_once_it_was_shown() {
        let (mut rows, mut events) = (rows(), vec![]);
        // Late before the other test has reported it.
        rows.add(0, interval(0, 1, false));
        rows.late(0, interval(0, 1, true), &mut |e| events.push(e));
        assert!(events.is_empty());
        rows.add(1, interval(0, 2, true));
        rows.show(&mut |e| events.push(e));
        assert_eq!(shown(&mut events), [('I', 0.0, 2), ('L', 0.0, 2)]);
        // Late after it was shown, from one test and then from the other.
        rows.add(0, interval(1, 1, false));
        rows.add(1, interval(1, 2, false));
        rows.show(&mut |e| events.push(e));
        rows.late(1, interval(1, 2, true), &mut |e| events.push(e));
        assert_eq!(shown(&mut events), [('I', 1.0, 2)]);
        rows.late(0, interval(1, 1, true), &mut |e| events.push(e));
        assert_eq!(shown(&mut events), [('L', 1.0, 2)]);
    }
}
