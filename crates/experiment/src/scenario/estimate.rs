//! The size of a scenario before it runs: points, runs, sending time and pauses.

use std::ops::{Add, AddAssign};
use std::time::Duration;

use weir_model::counted;
use weir_model::plan::{Connection, Plan};

/// Sending time of a connection without a limit.
const DEFAULT_LENGTH: Duration = Duration::from_secs(10);

/// The estimated size of a scenario or step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Points of its sweeps and comparisons.
    pub points: u64,
    /// Runs of its tests, sweeps and comparisons.
    pub runs: u64,
    /// Sending time of these runs in sequence, with the omitted start. The start-up and shutdown of each run is not
    /// included.
    pub sending: Duration,
    /// Pauses of sweeps and waits, when nothing sends.
    pub waiting: Duration,
    /// Searches, one for each of their points. Their trials are not counted in `runs` and `sending`.
    pub searches: u64,
    /// Maximum number of their trials.
    pub trials: u64,
    /// Sending time of that many.
    pub searching: Duration,
    /// It may take longer: precision and repeated runs are decided while running, and the time for a volume depends on
    /// the path.
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

    /// The estimate for a search of at most this many trials.
    pub(super) fn search(trials: u32, trial: Duration) -> Estimate {
        Estimate {
            searches: 1,
            trials: trials.into(),
            searching: trial.saturating_mul(trials),
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
            searches: by(self.searches),
            trials: by(self.trials),
            searching: long(self.searching),
            ..self
        }
    }

    /// Concurrent steps: the longer one determines the time, and pauses shrink by the other's sending.
    pub(super) fn beside(self, other: Estimate) -> Estimate {
        let sending = self.sending.max(other.sending);
        let waiting = self.lasting().max(other.lasting()).saturating_sub(sending);
        let searching = self.searching.max(other.searching);
        Estimate { sending, waiting, searching, ..self + other }
    }

    /// Sending and pauses.
    fn lasting(&self) -> Duration {
        self.sending.saturating_add(self.waiting)
    }

    /// `193 runs at 193 points, 32 min 10 s of sending and 3 min 13 s of pauses; …`, or `6 runs at 2 points and 2 searches
    /// of up to 60 trials, …`. When resumed, `done` is the number of completed runs.
    #[must_use]
    pub fn text(&self, done: Option<u64>) -> String {
        let least = if self.is_minimum { "at least " } else { "" };
        let mut text = match self.runs {
            0 if self.searches > 0 => String::new(),
            0 => "no runs".into(),
            n => format!("{least}{}", counted(n, "run")),
        };
        // The checkpoint counts trials too.
        let done = done.filter(|_| self.searches == 0);
        if let Some(done) = done {
            let verb = if done == 1 { "is" } else { "are" };
            text += &format!(" (of which {done} {verb} done)");
        }
        if self.points > 0 {
            text += &format!(" at {}", counted(self.points, "point"));
        }
        if self.searches > 0 {
            text += if text.is_empty() { "" } else { " and " };
            let kind = if self.searches == 1 { "search" } else { "searches" };
            text += &format!("{} {kind} of up to {}", self.searches, counted(self.trials, "trial"));
            text += if self.searches > 1 { " in all" } else { "" };
        }
        let parts = [(self.sending, "sending"), (self.waiting, "pauses")];
        let parts = parts.iter().filter(|(time, _)| *time >= Duration::from_secs(1));
        let times: Vec<String> =
            parts.map(|(time, what)| format!("{} of {what}", minutes(*time))).collect();
        if self.searching >= Duration::from_secs(1) {
            text += &format!(", up to {} of sending in trials", minutes(self.searching));
        }
        if !times.is_empty() {
            text += &format!(", {least}{}", times.join(" and "));
            if done.is_some() {
                text += " in all";
            }
        }
        if self.sending.saturating_add(self.searching) >= Duration::from_secs(1) {
            text += match self.runs + self.trials {
                1 => ", plus start and end of the run",
                _ if self.searches > 0 => ", plus start and end of each",
                _ => ", plus start and end of each run",
            };
        }
        text
    }

    /// Whether it says more than a single run's duration.
    #[must_use]
    pub fn is_worth_showing(&self) -> bool {
        self.runs > 1 || self.searches > 0
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
            searches: self.searches.saturating_add(other.searches),
            trials: self.trials.saturating_add(other.trials),
            searching: self.searching.saturating_add(other.searching),
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
        let search = Estimate::search(30, Duration::from_secs(1));
        assert!(search.is_worth_showing());
        assert_eq!(
            search.text(Some(40)),
            "1 search of up to 30 trials, up to 30 s of sending in trials, plus start and end of each"
        );
        assert_eq!(
            (Estimate { points: 2, ..run.times(2) } + search.times(2)).text(None),
            "2 runs at 2 points and 2 searches of up to 60 trials in all, up to 1 min 0 s of sending in trials, \
            20 s of sending, plus start and end of each"
        );
        assert_eq!(minutes(Duration::from_secs(7384)), "2 h 3 min");
    }
}
