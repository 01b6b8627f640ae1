//! Throughput bursts: in each period one in each direction of each pair, in rounds in which no two have an agent in common.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use weir_fleet::mesh::rounds;
use weir_fleet::{JobId, Outcome};
use weir_jobs::{Job, KeySource, TestJob};
use weir_model::plan::{Connection, Plan, Transport};
use weir_model::record::Record;
use weir_model::units::Span;
use weir_model::watch::{BurstLine, Bursts as Settings, Mesh};

use super::PairNames;
use crate::commands::fleet::list;

/// A burst that has not ended this long after its duration is given up: its host is busy with other jobs.
const PATIENCE: Duration = Duration::from_secs(300);

/// The bursts of a mesh.
pub(super) struct Bursts {
    settings: Settings,
    /// Rounds that were not started: the agents that send and receive.
    rounds: VecDeque<Vec<PairNames>>,
    running: BTreeMap<JobId, (PairNames, Instant)>,
    /// When the next rounds begin.
    next: Instant,
}

impl Bursts {
    pub(super) fn new(settings: Settings, now: Instant) -> Bursts {
        Bursts { settings, rounds: VecDeque::new(), running: BTreeMap::new(), next: now }
    }

    /// The bursts to start now. `pairs`: those that can be measured.
    pub(super) fn due(&mut self, pairs: &[PairNames], now: Instant) -> Vec<PairNames> {
        if !self.running.is_empty() || pairs.is_empty() {
            return vec![];
        }
        if self.rounds.is_empty() && now >= self.next {
            for round in rounds(pairs) {
                let back = round.iter().map(|(from, to)| (to.clone(), from.clone())).collect();
                self.rounds.extend([round, back]);
            }
            self.next = now + Duration::from_nanos(self.settings.every.0);
        }
        self.rounds.pop_front().unwrap_or_default()
    }

    pub(super) fn started(&mut self, job: JobId, names: PairNames, now: Instant) {
        self.running.insert(job, (names, now));
    }

    /// A job that has taken too long, if there is one.
    pub(super) fn overdue(&self, now: Instant) -> Option<JobId> {
        let longest = PATIENCE + Duration::from_nanos(self.settings.duration.0);
        let late = self.running.iter().find(|(_, (_, at))| now.duration_since(*at) > longest);
        late.map(|(job, _)| job.clone())
    }

    /// A burst has ended, or was given up.
    pub(super) fn ended(&mut self, job: &JobId) -> Option<PairNames> {
        self.running.remove(job).map(|(names, _)| names)
    }

    /// Those of an agent that is gone.
    pub(super) fn leave(&mut self, agent: &weir_fleet::AgentName) {
        self.running.retain(|_, ((from, to), _)| from != agent && to != agent);
    }

    fn transport(&self) -> &'static str {
        if self.settings.rate.is_some() { "udp" } else { "tcp" }
    }

    /// The test of a burst.
    pub(super) fn test(&self, mesh: &Mesh, address: IpAddr, port: u16, key: KeySource) -> Job {
        let transport = match self.settings.rate {
            Some(_) => Transport::udp(),
            None => Transport::default(),
        };
        let connection = Connection {
            transport,
            rate: self.settings.rate,
            duration: Some(self.settings.duration),
            ..Connection::default()
        };
        Job::Test(Box::new(TestJob {
            host: Some(address.to_string()),
            port: Some(port),
            plan: Plan { connections: vec![connection], ..Plan::default() },
            key,
            labels: [("mesh".to_owned(), mesh.name.clone())].into(),
            connect_timeout: Span::from_seconds(5),
            ..TestJob::default()
        }))
    }

    /// The line of a burst that has ended.
    pub(super) fn line(&self, (from, to): &PairNames, outcome: &Outcome, now: f64) -> BurstLine {
        let line = BurstLine {
            at_unix_seconds: now,
            from: from.to_string(),
            to: to.to_string(),
            transport: self.transport().into(),
            error: outcome.error.as_ref().map(|error| error.message.clone()),
            ..BurstLine::default()
        };
        match list::record(outcome) {
            Some(record) => with_figures(line, &record),
            None => line,
        }
    }

    /// The line of a burst that was given up.
    pub(super) fn given_up(&self, (from, to): &PairNames, now: f64) -> BurstLine {
        BurstLine {
            at_unix_seconds: now,
            from: from.to_string(),
            to: to.to_string(),
            transport: self.transport().into(),
            error: Some("not done in time: other jobs use the agent's host".into()),
            ..BurstLine::default()
        }
    }
}

fn with_figures(line: BurstLine, record: &Record) -> BurstLine {
    let flow = record.flows.first();
    let receiver = flow.and_then(|flow| flow.receiver.as_ref());
    let sender = flow.and_then(|flow| flow.sender.as_ref());
    BurstLine {
        seconds: sender.map(|sender| sender.seconds),
        bits_per_second: receiver.and_then(|receiver| receiver.bits_per_second),
        loss_ratio: receiver.and_then(|receiver| receiver.loss_ratio),
        retransmits: flow.and_then(|flow| flow.tcp.as_ref()).map(|tcp| tcp.retransmits),
        run: Some(record.id.clone()),
        ..line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pair: &str) -> PairNames {
        (pair[..1].parse().unwrap(), pair[1..].parse().unwrap())
    }

    #[test]
    fn rounds_follow_each_other_and_begin_again_after_the_period() {
        let settings = Settings {
            every: Span::from_seconds(600),
            duration: Span::from_seconds(5),
            rate: None,
        };
        let start = Instant::now();
        let mut bursts = Bursts::new(settings, start);
        let pairs = ["ab", "ac", "bc"].map(names);
        let mut done = vec![];
        for at in 0..6 {
            let due = bursts.due(&pairs, start);
            let [(from, to)] = &due[..] else { panic!("{due:?}") };
            done.push(format!("{from}{to}"));
            let job: JobId = at.to_string().parse().unwrap();
            bursts.started(job.clone(), due[0].clone(), start);
            assert!(bursts.due(&pairs, start).is_empty(), "one round at a time");
            assert_eq!(bursts.overdue(start + PATIENCE), None);
            assert_eq!(bursts.overdue(start + 2 * PATIENCE), Some(job.clone()));
            assert_eq!(bursts.ended(&job), Some(due[0].clone()));
        }
        done.sort_unstable();
        assert_eq!(done, ["ab", "ac", "ba", "bc", "ca", "cb"]);
        assert!(bursts.due(&pairs, start + Duration::from_secs(599)).is_empty());
        assert_eq!(bursts.due(&pairs, start + Duration::from_secs(600)).len(), 1);
    }

    #[test]
    fn the_tests_are_valid() {
        let mesh = Mesh::parse("schema = \"weir.mesh/1\"\nname = \"m\"").unwrap();
        for rate in [None, Some("10M".parse().unwrap())] {
            let settings =
                Settings { every: Span::from_seconds(600), duration: Span::from_seconds(5), rate };
            let bursts = Bursts::new(settings, Instant::now());
            let address = "192.0.2.1".parse().unwrap();
            let Job::Test(job) = bursts.test(&mesh, address, 5, KeySource::default()) else {
                panic!()
            };
            job.plan.check().unwrap();
            let name = job.plan.connections[0].transport.name().to_string();
            assert_eq!(name, bursts.transport());
        }
    }
}
