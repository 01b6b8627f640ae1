//! The size of a scenario before it runs: points, runs, sending time and pauses.

use std::ops::{Add, AddAssign};
use std::time::Duration;

use weir_model::plan::{Connection, Plan};

/// Sending time of a connection without a limit.
const DEFAULT_LENGTH: Duration = Duration::from_secs(10);

/// The estimated size of a scenario or step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Points of its sweeps, searches and comparisons.
    pub points: u64,
    /// Runs of its tests; a search counts as one.
    pub runs: u64,
    /// Sending time of these runs in sequence, with the omitted start. The start-up and shutdown of each run is not
    /// included.
    pub sending: Duration,
    /// Pauses of sweeps and waits, when nothing sends.
    pub waiting: Duration,
    /// It contains searches, whose trials are not counted in `runs`.
    pub has_searches: bool,
    /// It may take longer: precision, searches and repeated runs are decided while running, and the time for a volume
    /// depends on the path.
    pub is_minimum: bool,
}

impl Estimate {
    /// The estimate for one run of a plan.
    pub(super) fn of(plan: &Plan) -> Estimate {
        let omit = Duration::from_nanos(plan.omit.0);
        let lengths: Vec<Option<Duration>> =
            plan.connections.iter().map(|c| Some(length(c)? + omit)).collect();
        Estimate {
            runs: 1,
            sending: lengths.iter().flatten().max().copied().unwrap_or_default(),
            is_minimum: lengths.contains(&None),
            ..Estimate::default()
        }
    }

    /// A pause.
    pub(super) fn pause(waiting: Duration) -> Estimate {
        Estimate { waiting, ..Estimate::default() }
    }

    /// `count` times this estimate.
    pub(super) fn times(self, count: u64) -> Estimate {
        let by = |n: u64| n.saturating_mul(count);
        let long = |time: Duration| Duration::from_millis(by(time.as_millis() as u64));
        Estimate {
            points: by(self.points),
            runs: by(self.runs),
            sending: long(self.sending),
            waiting: long(self.waiting),
            ..self
        }
    }

    /// Concurrent steps: the longer one determines the time, and pauses shrink by the other's sending.
    pub(super) fn beside(self, other: Estimate) -> Estimate {
        let sending = self.sending.max(other.sending);
        let waiting = self.lasting().max(other.lasting()).saturating_sub(sending);
        Estimate { sending, waiting, ..self + other }
    }

    /// Sending and pauses.
    fn lasting(&self) -> Duration {
        self.sending.saturating_add(self.waiting)
    }

    /// `193 runs at 193 points, 32 min 10 s of sending and 3 min 13 s of pauses; …`. When resumed, `done` is the
    /// number of completed runs.
    #[must_use]
    pub fn text(&self, done: Option<u64>) -> String {
        let least = if self.is_minimum { "at least " } else { "" };
        let mut text = match self.runs {
            0 => "no runs".into(),
            1 => format!("{least}1 run"),
            n => format!("{least}{n} runs"),
        };
        // A search counts as one run in the estimate, but each of its trials in the checkpoint.
        let done = done.filter(|_| !self.has_searches);
        if let Some(done) = done {
            let verb = if done == 1 { "is" } else { "are" };
            text += &format!(" (of which {done} {verb} done)");
        }
        if self.points > 0 {
            let plural = if self.points == 1 { "" } else { "s" };
            text += &format!(" at {} point{plural}", self.points);
        }
        let parts = [(self.sending, "sending"), (self.waiting, "pauses")];
        let parts = parts.iter().filter(|(time, _)| *time >= Duration::from_secs(1));
        let times: Vec<String> =
            parts.map(|(time, what)| format!("{} of {what}", minutes(*time))).collect();
        if !times.is_empty() {
            text += &format!(", {least}{}", times.join(" and "));
            if done.is_some() {
                text += " in all";
            }
        }
        if self.sending >= Duration::from_secs(1) {
            text += match self.runs {
                1 => ", plus start and end of the run",
                _ => ", plus start and end of each run",
            };
        }
        text
    }

    /// Whether it says more than a single run's duration.
    #[must_use]
    pub fn is_worth_showing(&self) -> bool {
        self.runs > 1
    }
}

impl Add for Estimate {
    type Output = Estimate;
    fn add(self, other: Estimate) -> Estimate {
        Estimate {
            points: self.points.saturating_add(other.points),
            runs: self.runs.saturating_add(other.runs),
            sending: self.sending.saturating_add(other.sending),
            waiting: self.waiting.saturating_add(other.waiting),
            has_searches: self.has_searches || other.has_searches,
            is_minimum: self.is_minimum || other.is_minimum,
        }
    }
}

impl AddAssign for Estimate {
    fn add_assign(&mut self, other: Estimate) {
        *self = *self + other;
    }
}

/// When a connection stops sending, from the start of the test; absent if its plan has no time limit.
fn length(connection: &Connection) -> Option<Duration> {
    let length = match connection.duration {
        _ if !connection.autostart => return None,
        Some(span) if span.0 == 0 => return None,
        Some(span) => Duration::from_nanos(span.0),
        None if connection.bytes.is_some() || connection.packets.is_some() => return None,
        None => DEFAULT_LENGTH,
    };
    Some(length + Duration::from_nanos(connection.start_after.0))
}

/// A duration by its two largest units: `32 min 10 s`.
#[must_use]
pub fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::units::{ByteSize, Span};

    fn plan(connections: Vec<Connection>) -> Plan {
        Plan { connections, ..Plan::default() }
    }

    fn lasting(seconds: u64) -> Connection {
        Connection { duration: Some(Span::from_seconds(seconds)), ..Connection::default() }
    }

    #[test]
    fn a_run_sends_for_as_long_as_its_longest_connection() {
        let late = Connection { start_after: Span::from_seconds(2), ..lasting(3) };
        let of = |connections| Estimate::of(&plan(connections));
        let four = of(vec![lasting(4), late]);
        assert_eq!((four.sending, four.is_minimum), (Duration::from_secs(5), false));
        assert_eq!(of(vec![Connection::default()]).sending, Duration::from_secs(10));
        let volume = Connection { bytes: Some(ByteSize(1 << 20)), ..Connection::default() };
        let both = of(vec![volume, lasting(1)]);
        assert_eq!((both.sending, both.is_minimum), (Duration::from_secs(1), true));
        let omitted = Plan { omit: Span::from_seconds(3), ..plan(vec![lasting(4)]) };
        assert_eq!(Estimate::of(&omitted).sending, Duration::from_secs(7), "it sends all the same");
        let asked = Connection { autostart: false, ..lasting(1) };
        assert!(of(vec![asked]).is_minimum && of(vec![lasting(0)]).is_minimum);
    }

    #[test]
    fn runs_add_up_and_steps_at_the_same_time_overlap() {
        let (one, two) =
            (Estimate::of(&plan(vec![lasting(1)])), Estimate::of(&plan(vec![lasting(2)])));
        let beside = one.beside(two);
        assert_eq!((beside.runs, beside.sending), (2, Duration::from_secs(2)));
        let all = (one + two).times(3);
        assert_eq!((all.runs, all.sending), (6, Duration::from_secs(9)));
        assert_eq!(one.times(u64::MAX).times(u64::MAX).runs, u64::MAX);
    }

    /// A pause that overlaps a test of the same length costs nothing; only the rest of a longer pause counts.
    #[test]
    fn pauses_are_no_sending() {
        let seconds = Duration::from_secs;
        let run = Estimate::of(&plan(vec![lasting(2)]));
        let all = (run + Estimate::pause(seconds(5))).times(3);
        assert_eq!((all.sending, all.waiting), (seconds(6), seconds(15)));
        let beside = run.beside(Estimate::pause(seconds(5)));
        assert_eq!((beside.sending, beside.waiting), (seconds(2), seconds(3)));
        let beside = run.beside(Estimate::pause(seconds(1)));
        assert_eq!((beside.sending, beside.waiting), (seconds(2), seconds(0)));
    }

    #[test]
    fn what_is_to_come_is_reported_in_words() {
        let run = Estimate::of(&plan(vec![lasting(10)]));
        assert!(!run.is_worth_showing(), "one run is what was asked for");
        assert_eq!(run.text(None), "1 run, 10 s of sending, plus start and end of the run");
        let sweep = Estimate { points: 193, ..run.times(193) };
        assert!(sweep.is_worth_showing());
        assert_eq!(
            sweep.text(None),
            "193 runs at 193 points, 32 min 10 s of sending, plus start and end of each run"
        );
        let paused =
            Estimate { points: 4, ..run.times(8) } + Estimate::pause(Duration::from_secs(40));
        assert_eq!(
            paused.text(None),
            "8 runs at 4 points, 1 min 20 s of sending and 40 s of pauses, plus start and end of each run"
        );
        assert_eq!(
            paused.text(Some(3)),
            "8 runs (of which 3 are done) at 4 points, 1 min 20 s of sending and 40 s of pauses in all, plus \
            start and end of each run"
        );
        assert!(paused.text(Some(1)).contains("(of which 1 is done)"));
        let wait = Estimate::pause(Duration::from_secs(5));
        assert_eq!(wait.text(None), "no runs, 5 s of pauses");
        assert_eq!(Estimate::default().text(None), "no runs");
        let open = Estimate { is_minimum: true, points: 1, runs: 10, ..Estimate::default() };
        assert_eq!(open.text(None), "at least 10 runs at 1 point");
        let search = Estimate { has_searches: true, ..open };
        assert_eq!(search.text(Some(40)), "at least 10 runs at 1 point", "trials are no runs here");
        assert_eq!(minutes(Duration::from_secs(7384)), "2 h 3 min");
    }
}
