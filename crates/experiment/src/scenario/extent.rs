//! What a scenario comes to before anything of it runs: points, runs, the time in which they send, and its pauses.

use std::ops::{Add, AddAssign};
use std::time::Duration;

use weir_model::plan::{Connection, Plan};

/// Length of sending of a connection that names no limit.
const DEFAULT_LENGTH: Duration = Duration::from_secs(10);

/// What a scenario, or a step of it, comes to, as far as its plans tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// Points of its sweeps, searches and comparisons.
    pub points: u64,
    /// Runs of its tests; a search counts as one.
    pub runs: u64,
    /// Time in which these runs send, one after another, the omitted part at their beginning included. What each needs to begin
    /// and to end comes on top.
    pub sending: Duration,
    /// Pauses of sweeps and waits, in which nothing sends.
    pub waiting: Duration,
    /// Searches are in it, whose trials are not among the runs.
    pub has_searches: bool,
    /// It may become more: a precision, a search or a run that is made again decides as it runs, and how long a volume takes is
    /// the path's to say.
    pub is_least: bool,
}

impl Extent {
    /// What one run of a plan comes to.
    pub(super) fn of(plan: &Plan) -> Extent {
        let omit = Duration::from_nanos(plan.omit.0);
        let lengths: Vec<Option<Duration>> =
            plan.connections.iter().map(|c| Some(length(c)? + omit)).collect();
        Extent {
            runs: 1,
            sending: lengths.iter().flatten().max().copied().unwrap_or_default(),
            is_least: lengths.contains(&None),
            ..Extent::default()
        }
    }

    /// A pause.
    pub(super) fn pause(waiting: Duration) -> Extent {
        Extent { waiting, ..Extent::default() }
    }

    /// The same several times.
    pub(super) fn times(self, count: u64) -> Extent {
        let by = |n: u64| n.saturating_mul(count);
        let long = |time: Duration| Duration::from_millis(by(time.as_millis() as u64));
        Extent {
            points: by(self.points),
            runs: by(self.runs),
            sending: long(self.sending),
            waiting: long(self.waiting),
            ..self
        }
    }

    /// Of steps at the same time: the longest takes as long as all, and what nothing sends in is left of that.
    pub(super) fn beside(self, other: Extent) -> Extent {
        let sending = self.sending.max(other.sending);
        let waiting = self.lasting().max(other.lasting()).saturating_sub(sending);
        Extent { sending, waiting, ..self + other }
    }

    /// Sending and pauses.
    fn lasting(&self) -> Duration {
        self.sending.saturating_add(self.waiting)
    }

    /// `193 runs at 193 points, 32 min 10 s of sending and 3 min 13 s of pauses; what each run needs to begin and end comes on
    /// top`. Of what is gone on with, `done` tells how many runs are done.
    #[must_use]
    pub fn words(&self, done: Option<u64>) -> String {
        let least = if self.is_least { "at least " } else { "" };
        let mut text = match self.runs {
            0 => "no runs".into(),
            1 => format!("{least}1 run"),
            n => format!("{least}{n} runs"),
        };
        // A search counts as one run here, and each of its trials there.
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
                1 => "; what it needs to begin and end comes on top",
                _ => "; what each run needs to begin and end comes on top",
            };
        }
        text
    }

    /// Whether there is more to tell than whoever asked for one run knows.
    #[must_use]
    pub fn is_worth_telling(&self) -> bool {
        self.runs > 1
    }
}

impl Add for Extent {
    type Output = Extent;
    fn add(self, other: Extent) -> Extent {
        Extent {
            points: self.points.saturating_add(other.points),
            runs: self.runs.saturating_add(other.runs),
            sending: self.sending.saturating_add(other.sending),
            waiting: self.waiting.saturating_add(other.waiting),
            has_searches: self.has_searches || other.has_searches,
            is_least: self.is_least || other.is_least,
        }
    }
}

impl AddAssign for Extent {
    fn add_assign(&mut self, other: Extent) {
        *self = *self + other;
    }
}

/// When a connection's sending ends, after the test's start; absent where its plan does not tell.
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

/// A time for people, by its two largest units: `32 min 10 s`.
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
        let of = |connections| Extent::of(&plan(connections));
        let four = of(vec![lasting(4), late]);
        assert_eq!((four.sending, four.is_least), (Duration::from_secs(5), false));
        assert_eq!(of(vec![Connection::default()]).sending, Duration::from_secs(10));
        let volume = Connection { bytes: Some(ByteSize(1 << 20)), ..Connection::default() };
        let both = of(vec![volume, lasting(1)]);
        assert_eq!((both.sending, both.is_least), (Duration::from_secs(1), true));
        let omitted = Plan { omit: Span::from_seconds(3), ..plan(vec![lasting(4)]) };
        assert_eq!(Extent::of(&omitted).sending, Duration::from_secs(7), "it sends all the same");
        let asked = Connection { autostart: false, ..lasting(1) };
        assert!(of(vec![asked]).is_least && of(vec![lasting(0)]).is_least);
    }

    #[test]
    fn runs_add_up_and_steps_at_the_same_time_overlap() {
        let (one, two) = (Extent::of(&plan(vec![lasting(1)])), Extent::of(&plan(vec![lasting(2)])));
        let beside = one.beside(two);
        assert_eq!((beside.runs, beside.sending), (2, Duration::from_secs(2)));
        let all = (one + two).times(3);
        assert_eq!((all.runs, all.sending), (6, Duration::from_secs(9)));
        assert_eq!(one.times(u64::MAX).times(u64::MAX).runs, u64::MAX);
    }

    /// A pause beside a test that is as long costs nothing; what is longer is told as a pause.
    #[test]
    fn pauses_are_no_sending() {
        let seconds = Duration::from_secs;
        let run = Extent::of(&plan(vec![lasting(2)]));
        let all = (run + Extent::pause(seconds(5))).times(3);
        assert_eq!((all.sending, all.waiting), (seconds(6), seconds(15)));
        let beside = run.beside(Extent::pause(seconds(5)));
        assert_eq!((beside.sending, beside.waiting), (seconds(2), seconds(3)));
        let beside = run.beside(Extent::pause(seconds(1)));
        assert_eq!((beside.sending, beside.waiting), (seconds(2), seconds(0)));
    }

    #[test]
    fn what_is_to_come_is_told_in_words() {
        let run = Extent::of(&plan(vec![lasting(10)]));
        assert!(!run.is_worth_telling(), "one run is what was asked for");
        assert_eq!(
            run.words(None),
            "1 run, 10 s of sending; what it needs to begin and end comes on top"
        );
        let sweep = Extent { points: 193, ..run.times(193) };
        assert!(sweep.is_worth_telling());
        assert_eq!(
            sweep.words(None),
            "193 runs at 193 points, 32 min 10 s of sending; what each run needs to begin and end comes on top"
        );
        let paused = Extent { points: 4, ..run.times(8) } + Extent::pause(Duration::from_secs(40));
        assert_eq!(
            paused.words(None),
            "8 runs at 4 points, 1 min 20 s of sending and 40 s of pauses; what each run needs to begin and end comes on top"
        );
        assert_eq!(
            paused.words(Some(3)),
            "8 runs (of which 3 are done) at 4 points, 1 min 20 s of sending and 40 s of pauses in all; what each run needs to \
             begin and end comes on top"
        );
        assert!(paused.words(Some(1)).contains("(of which 1 is done)"));
        let wait = Extent::pause(Duration::from_secs(5));
        assert_eq!(wait.words(None), "no runs, 5 s of pauses");
        assert_eq!(Extent::default().words(None), "no runs");
        let open = Extent { is_least: true, points: 1, runs: 10, ..Extent::default() };
        assert_eq!(open.words(None), "at least 10 runs at 1 point");
        let search = Extent { has_searches: true, ..open };
        assert_eq!(
            search.words(Some(40)),
            "at least 10 runs at 1 point",
            "trials are no runs here"
        );
        assert_eq!(minutes(Duration::from_secs(7384)), "2 h 3 min");
    }
}
