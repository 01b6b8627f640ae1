//! What a scenario comes to before anything of it runs: points, runs, and the time in which they send.

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
    /// Time in which these runs send, one after another, with the pauses between them. What each needs to begin and to end
    /// comes on top.
    pub sending: Duration,
    /// It may become more: a precision, a search or a run that is made again decides as it runs, and how long a volume takes is
    /// the path's to say.
    pub is_least: bool,
}

impl Extent {
    /// What one run of a plan comes to.
    pub(super) fn of(plan: &Plan) -> Extent {
        let lengths: Vec<Option<Duration>> = plan.connections.iter().map(length).collect();
        Extent {
            points: 0,
            runs: 1,
            sending: lengths.iter().flatten().max().copied().unwrap_or_default(),
            is_least: lengths.contains(&None),
        }
    }

    /// The same several times.
    pub(super) fn times(self, count: u64) -> Extent {
        let by = |n: u64| n.saturating_mul(count);
        Extent {
            points: by(self.points),
            runs: by(self.runs),
            sending: Duration::from_millis(by(self.sending.as_millis() as u64)),
            is_least: self.is_least,
        }
    }

    /// Of steps at the same time: the longest sends for as long as all.
    pub(super) fn beside(self, other: Extent) -> Extent {
        Extent { sending: self.sending.max(other.sending), ..self + other }
    }

    /// `193 runs at 193 points, 32 min 10 s of sending; what each run needs to begin and end comes on top`. Nothing for one run.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        if self.runs < 2 {
            return None;
        }
        let least = if self.is_least { "at least " } else { "" };
        let mut text = format!("{least}{} runs", self.runs);
        if self.points > 0 {
            let plural = if self.points == 1 { "" } else { "s" };
            text += &format!(" at {} point{plural}", self.points);
        }
        if self.sending >= Duration::from_secs(1) {
            text += &format!(
                ", {least}{} of sending; what each run needs to begin and end comes on top",
                minutes(self.sending)
            );
        }
        Some(text)
    }
}

impl Add for Extent {
    type Output = Extent;
    fn add(self, other: Extent) -> Extent {
        Extent {
            points: self.points.saturating_add(other.points),
            runs: self.runs.saturating_add(other.runs),
            sending: self.sending.saturating_add(other.sending),
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

    #[test]
    fn what_is_to_come_is_told_in_words() {
        let run = Extent::of(&plan(vec![lasting(10)]));
        assert_eq!(run.words(), None, "one run is what was asked for");
        let sweep = Extent { points: 193, ..run.times(193) };
        assert_eq!(
            sweep.words().unwrap(),
            "193 runs at 193 points, 32 min 10 s of sending; what each run needs to begin and end comes on top"
        );
        let open = Extent { is_least: true, points: 1, runs: 10, sending: Duration::ZERO };
        assert_eq!(open.words().unwrap(), "at least 10 runs at 1 point");
        assert_eq!(minutes(Duration::from_secs(7384)), "2 h 3 min");
    }
}
