//! How long one end waits for the other while results are exchanged.
//!
//! A report crosses a link of some kbit/s in minutes: what moves renews the patience, and an end that moves a byte now and
//! then is bounded by the time for the whole. No clock is read here.

use std::time::Duration;

use tokio::time::Instant;

/// A peer of which nothing is heard for this long is gone, even if nothing says so: a path or an interface may be.
pub(crate) const SILENCE: Duration = Duration::from_secs(12);

/// What is given to the exchange of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Longest time in which nothing of a report moves.
    pub silence: Duration,
    /// Longest time for the whole report, however it moves.
    pub whole: Duration,
}

impl Default for Patience {
    /// 12 s of silence, 120 s for the whole.
    fn default() -> Self {
        Patience { silence: SILENCE, whole: Duration::from_secs(120) }
    }
}

/// Why waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// Nothing moved for [`Patience::silence`].
    Silent(Duration),
    /// It was not whole after [`Patience::whole`].
    NotWhole(Duration),
}

/// Waiting that is under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    patience: Patience,
    begun: Instant,
    moved: Instant,
}

impl Waiting {
    pub(crate) fn begin(patience: Patience, now: Instant) -> Waiting {
        Waiting { patience, begun: now, moved: now }
    }

    /// Something moved at `at`; what moved before waiting began does not count.
    pub(crate) fn moved(&mut self, at: Instant) {
        self.moved = self.moved.max(at);
    }

    fn deadline(&self) -> Instant {
        self.begun + self.patience.whole
    }

    /// When waiting is over if nothing moves.
    pub(crate) fn until(&self) -> Instant {
        self.deadline().min(self.moved + self.patience.silence)
    }

    /// When to look at something that does not call: often enough that what moves is seen well within the silence.
    pub(crate) fn look(&self, now: Instant) -> Instant {
        self.until().min(now + self.patience.silence / 8)
    }

    /// Whether waiting is over at `now`.
    pub(crate) fn over(&self, now: Instant) -> Option<Over> {
        let Patience { silence, whole } = self.patience;
        if now >= self.deadline() {
            Some(Over::NotWhole(whole))
        } else if now >= self.moved + silence {
            Some(Over::Silent(silence))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_from_the_last_movement_and_movement_does_not_pass_the_deadline() {
        let begun = Instant::now();
        let at = |seconds: f64| begun + Duration::from_secs_f64(seconds);
        let patience = Patience::default();
        let mut waiting = Waiting::begin(patience, begun);
        waiting.moved(begun - Duration::from_secs(1));
        assert_eq!(waiting.until(), at(12.0));
        assert_eq!(waiting.over(at(11.9)), None);
        assert_eq!(waiting.over(at(12.0)), Some(Over::Silent(patience.silence)));
        // Early in a window: the window is not what is renewed.
        waiting.moved(at(0.5));
        assert_eq!(waiting.until(), at(12.5));
        assert_eq!(waiting.over(at(12.4)), None);
        assert_eq!(waiting.over(at(12.5)), Some(Over::Silent(patience.silence)));
        for second in 1..200 {
            waiting.moved(at(f64::from(second)));
        }
        assert_eq!(waiting.until(), at(120.0));
        assert_eq!(waiting.over(at(119.9)), None);
        assert_eq!(waiting.over(at(120.0)), Some(Over::NotWhole(patience.whole)));
        assert_eq!(waiting.look(at(0.0)), at(1.5));
        assert_eq!(waiting.look(at(119.5)), at(120.0));
    }
}
