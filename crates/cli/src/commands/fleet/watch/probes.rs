//! The probes of a pair: its tests, and the figures of their events.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use weir_fleet::mesh::{ChangeDetector, PairSum, Windows};
use weir_fleet::{JobId, Outcome};
use weir_jobs::{Event, Job, KeySource, TestJob};
use weir_model::plan::{Connection, Echo, Plan, Transport};
use weir_model::progress::EchoInterval;
use weir_model::record::{Interval, IntervalCount};
use weir_model::units::{BitRate, RateLimit, SendRate, Span};
use weir_model::watch::{ChangeLine, Line, Mesh, Minute, PairFigures, SecondLine, WindowFigures};

use super::PairNames;
use crate::job::warn;

/// Duration of a test.
const DURATION: Span = Span::from_seconds(600);
/// The next test starts this long before the end of the one before.
const OVERLAP: Duration = Duration::from_secs(20);
/// A test has ended after this time.
const LONGEST: Duration = Duration::from_secs(660);
/// Before another attempt after a test that failed.
const PAUSE: Duration = Duration::from_secs(5);
/// Control traffic of a test: live figures of each second need about 3 kbit/s.
const CONTROL_RATE: BitRate = BitRate(8_000);
/// Counts of the far agent that wait for what came back.
const MAX_WAITING: usize = 64;
/// Limit for a connection to be established.
const CONNECT: Span = Span::from_seconds(5);

/// The test of a pair.
pub(super) fn test(mesh: &Mesh, address: IpAddr, port: u16, key: KeySource) -> Job {
    let probes = &mesh.probes;
    let packets = f64::from(probes.per_second);
    let connection = Connection {
        name: "probes".into(),
        transport: Transport::udp(),
        echo: Some(Echo::Whole),
        payload: probes.payload_bytes.to_string().parse().ok(),
        rate: Some(SendRate { limit: RateLimit::Packets(packets), burst: 1 }),
        duration: Some(DURATION),
        ..Connection::default()
    };
    let plan = Plan {
        loss_threshold: Some(probes.loss_threshold),
        control_rate: Some(CONTROL_RATE),
        latency: false,
        connections: vec![connection],
        ..Plan::default()
    };
    Job::Test(Box::new(TestJob {
        host: Some(address.to_string()),
        port: Some(port),
        plan,
        key,
        labels: [("mesh".to_owned(), mesh.name.clone())].into(),
        store: false,
        connect_timeout: CONNECT,
        ..TestJob::default()
    }))
}

/// A test of a pair.
#[derive(Debug)]
struct Run {
    job: JobId,
    started: Instant,
    /// The controller's time of the test's start, s since 1970, by the arrival of its first interval.
    zero: Option<f64>,
    /// What the far agent counted in intervals, by their starts in ms, until the echoes of their probes are complete.
    arrived: BTreeMap<u64, IntervalCount>,
}

/// A pair and its figures.
pub(super) struct Pair {
    runs: Vec<Run>,
    /// No test is started before.
    pause_until: Option<Instant>,
    windows: Windows,
    changes: ChangeDetector,
    /// The number of the latest second, its figures and those of the windows.
    latest: Option<(u64, PairFigures, Vec<WindowFigures>)>,
    /// The number of the current minute, and its sum.
    minute: Option<(u64, PairSum)>,
    /// Minutes that are over.
    minutes: Vec<Minute>,
    /// Seconds that were not taken: their starts and sums.
    seconds: Vec<(f64, PairSum)>,
    /// Why the last test failed, until another one measures.
    failure: Option<String>,
}

fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1e3).round() as u64
}

impl Pair {
    pub(super) fn new(mesh: &Mesh) -> Pair {
        let seconds = mesh.windows.iter().map(|window| window.0 / 1_000_000_000);
        Pair {
            runs: vec![],
            pause_until: None,
            windows: Windows::new(seconds),
            changes: ChangeDetector::new(mesh.changes.clone()),
            latest: None,
            minute: None,
            minutes: vec![],
            seconds: vec![],
            failure: None,
        }
    }

    /// The number of the latest second with figures, these, and those of the windows.
    pub(super) fn latest(&self) -> Option<&(u64, PairFigures, Vec<WindowFigures>)> {
        self.latest.as_ref()
    }

    /// Why its last test failed.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether another test is to be started: none runs, or the only one is about to end.
    pub(super) fn wants_test(&mut self, now: Instant) -> bool {
        // Where the end of one was not reported.
        self.runs.retain(|run| now.duration_since(run.started) < LONGEST);
        if self.pause_until.is_some_and(|until| now < until) {
            return false;
        }
        let ends = Duration::from_nanos(DURATION.0) - OVERLAP;
        self.runs.iter().all(|run| now.duration_since(run.started) >= ends) && self.runs.len() < 2
    }

    pub(super) fn started(&mut self, job: JobId, now: Instant) {
        self.runs.push(Run { job, started: now, zero: None, arrived: BTreeMap::new() });
    }

    /// Its agents are gone.
    pub(super) fn forget_runs(&mut self) {
        self.runs.clear();
        self.failure = None;
        self.pause_until = None;
    }

    /// A test has ended.
    pub(super) fn ended(&mut self, (from, to): &PairNames, outcome: &Outcome, now: Instant) {
        let before = self.runs.len();
        self.runs.retain(|run| run.job != outcome.id);
        let Some(error) = outcome.error.as_ref().filter(|_| self.runs.len() < before) else {
            return;
        };
        self.pause_until = Some(now + PAUSE);
        // Each reason once, not with each attempt.
        if self.failure.as_ref() != Some(&error.message) {
            warn("probes", &format!("{from} to {to}: {}", error.message));
        }
        self.failure = Some(error.message.clone());
    }

    /// Ends the current minute.
    pub(super) fn end_minute(&mut self, (from, to): &PairNames) {
        if let Some((number, sum)) = self.minute.take() {
            self.minutes.push(Minute {
                at_unix_seconds: number.saturating_mul(60),
                from: from.to_string(),
                to: to.to_string(),
                figures: sum.figures(),
            });
        }
    }

    /// Takes the minutes that are over.
    pub(super) fn take_minutes(&mut self) -> Vec<Minute> {
        std::mem::take(&mut self.minutes)
    }

    /// Takes the new seconds: their starts, s since 1970, and sums.
    pub(super) fn take_seconds(&mut self) -> Vec<(f64, PairSum)> {
        std::mem::take(&mut self.seconds)
    }

    /// The lines of an event of one of its tests, which arrived at `now`, s since 1970.
    pub(super) fn on_event(
        &mut self,
        names: &PairNames,
        job: &JobId,
        event: &Event,
        now: f64,
    ) -> Vec<Line> {
        let Some(run) = self.runs.iter_mut().find(|run| run.job == *job) else { return vec![] };
        match event {
            Event::Interval(interval) => {
                run.on_interval(interval, now);
                vec![]
            }
            Event::Echoes(intervals) => {
                let seconds: Vec<_> =
                    intervals.iter().filter_map(|echo| run.on_echo(echo)).collect();
                self.failure = None;
                seconds.into_iter().flat_map(|(at, sum)| self.second(names, at, &sum)).collect()
            }
            _ => vec![],
        }
    }

    /// Adds a second, which began at `at`.
    fn second(&mut self, names: &PairNames, at: f64, sum: &PairSum) -> Vec<Line> {
        let number = at.max(0.0) as u64;
        // Two tests overlap.
        if self.latest.as_ref().is_some_and(|(latest, ..)| *latest >= number) {
            return vec![];
        }
        if self.minute.as_ref().is_some_and(|(minute, _)| *minute != number / 60) {
            self.end_minute(names);
        }
        self.minute.get_or_insert_with(|| (number / 60, PairSum::default())).1.add(sum);
        self.seconds.push((at, sum.clone()));
        self.windows.add(number, sum);
        let windows = self.windows.figures(number);
        let figures = sum.figures();
        let (from, to) = (names.0.to_string(), names.1.to_string());
        let mut lines = vec![Line::Second(Box::new(SecondLine {
            at_unix_seconds: milliseconds(at) as f64 / 1e3,
            from: from.clone(),
            to: to.clone(),
            figures: figures.clone(),
            windows: windows.clone(),
        }))];
        self.latest = Some((number, figures, windows));
        let changes = self.changes.add(number, sum);
        lines.extend(changes.into_iter().map(|change| {
            Line::Change(ChangeLine {
                at_unix_seconds: change.second as f64,
                from: from.clone(),
                to: to.clone(),
                figure: change.figure,
                before: change.before,
                after: change.after,
                threshold: change.threshold,
            })
        }));
        lines
    }
}

impl Run {
    fn on_interval(&mut self, interval: &Interval, now: f64) {
        if self.zero.is_none() && interval.end_seconds.is_finite() {
            self.zero = Some(now - interval.end_seconds);
        }
        let count = interval.flows.first().and_then(|flow| flow.receiver.clone());
        if let Some(count) = count {
            self.arrived.insert(milliseconds(interval.start_seconds), count);
            if self.arrived.len() > MAX_WAITING {
                self.arrived.pop_first();
            }
        }
    }

    /// The start of an interval of an echo, s since 1970, and its figures.
    fn on_echo(&mut self, echo: &EchoInterval) -> Option<(f64, PairSum)> {
        let arrived = self.arrived.remove(&milliseconds(echo.start_seconds));
        // An agent states it; tests last ten minutes.
        if !(0.0..86_400.0).contains(&echo.start_seconds) {
            return None;
        }
        let at = self.zero? + echo.start_seconds;
        let sum = PairSum::of_interval(echo, arrived.as_ref())?;
        at.is_finite().then_some((at, sum))
    }
}

#[cfg(test)]
mod tests;
