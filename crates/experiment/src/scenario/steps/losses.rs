//! Decides when the peer of a sweep is unreachable.

use weir_model::experiment::RunRef;

use super::FAILURES;

/// What to do after the failures so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LossDecision {
    /// Continue with the next run.
    Continue,
    /// Repeat this point, which had reached its peer before, to see whether the peer is still there.
    Probe(usize),
    /// Stop the sweep.
    Stop,
}

/// Runs that failed because their peer was unreachable.
///
/// Points that never reach their peer (an address family that the path lacks) prove nothing about others. So only
/// failures at points that had reached it count. After many consecutive failures elsewhere, one more run at such a
/// point decides, since points with a single run never reached it before. If no point ever reached the peer, every
/// failure counts.
#[derive(Debug)]
pub(super) struct PeerLosses {
    /// For each point: whether a run of it was complete.
    had: Vec<bool>,
    /// The newest of these points.
    last: Option<usize>,
    /// Whether the points change the path.
    change: bool,
    /// Consecutive failures at points that had reached the peer.
    counted: u64,
    /// Consecutive failures at points that never reached it.
    in_vain: u64,
    /// Number of these that ask for a probe; doubled after each successful probe, so that points that never reach
    /// their peer cost few probes.
    patience: u64,
    /// The probe failed too.
    is_lost: bool,
}

impl PeerLosses {
    pub(super) fn of(points: usize, change: bool) -> PeerLosses {
        PeerLosses {
            had: vec![false; points],
            last: None,
            change,
            counted: 0,
            in_vain: 0,
            patience: FAILURES,
            is_lost: false,
        }
    }

    /// Adds a run of a point. A run of an earlier session only proves that the peer was there then.
    pub(super) fn ran(&mut self, point: usize, run: &RunRef, is_old: bool) {
        let is_whole = run.error.is_none();
        if is_whole {
            (self.had[point], self.last) = (true, Some(point));
        }
        match is_lost(run, self.change) {
            _ if is_old => {}
            true if self.had[point] => self.counted += 1,
            true => self.in_vain += 1,
            // Failures caused by the laws of a path prove nothing about the peer.
            false if run.peer_unreachable => {}
            false if is_whole => (self.counted, self.in_vain) = (0, 0),
            // Neither do local failures.
            false => {}
        }
    }

    /// Adds the result of the probe.
    pub(super) fn probed(&mut self, is_lost: bool) {
        self.is_lost = is_lost;
        if !is_lost {
            self.patience = self.patience.saturating_mul(2);
            (self.counted, self.in_vain) = (0, 0);
        }
    }

    pub(super) fn next(&self) -> LossDecision {
        match self.last {
            _ if self.is_lost || self.counted >= FAILURES => LossDecision::Stop,
            None if self.in_vain >= FAILURES => LossDecision::Stop,
            Some(point) if self.in_vain >= self.patience => LossDecision::Probe(point),
            _ => LossDecision::Continue,
        }
    }

    /// Consecutive failures, of all points.
    pub(super) fn in_a_row(&self) -> u64 {
        self.counted + self.in_vain
    }
}

/// Whether a run shows that its peer is unreachable. If the points `change` the path, its laws may drop everything:
/// then only an answer counts (connection refused or reset), not silence.
pub(super) fn is_lost(run: &RunRef, change: bool) -> bool {
    run.peer_unreachable && (!change || says(run, &SAID))
}

/// Whether the peer did not answer at all, as on a path that drops everything.
pub(super) fn is_silence(run: &RunRef) -> bool {
    run.peer_unreachable && !says(run, &SAID) && !says(run, &[REFUSED])
}

fn says(run: &RunRef, words: &[&str]) -> bool {
    run.error.as_ref().is_some_and(|error| words.iter().any(|said| error.contains(said)))
}

/// The standard library's suffix of system errors: ECONNREFUSED, ECONNRESET.
const SAID: [&str; 2] = ["(os error 111)", "(os error 104)"];
/// Part of the message of a peer's refusal, before its code.
const REFUSED: &str = ": refused (";

#[cfg(test)]
mod tests {
    use super::*;

    fn run(error: Option<&str>) -> RunRef {
        RunRef {
            peer_unreachable: error.is_some(),
            error: error.map(Into::into),
            ..RunRef::default()
        }
    }

    /// The run (from 1) at which the peer counts as unreachable, and the points probed. Points are letters; failures
    /// are capitals. A probe fails where `is_lost` says so of the run before it.
    fn probed_and_gone(runs: &str, is_lost: impl Fn(usize) -> bool) -> (String, Option<usize>) {
        let (mut losses, mut probes) = (PeerLosses::of(26, false), String::new());
        let gone = runs.bytes().zip(1..).find_map(|(point, n)| {
            let error = point.is_ascii_uppercase().then_some("no hello");
            losses.ran(usize::from(point.to_ascii_lowercase() - b'a'), &run(error), false);
            if let LossDecision::Probe(point) = losses.next() {
                probes.push(char::from(b'a' + point as u8));
                losses.probed(is_lost(n));
            }
            (losses.next() == LossDecision::Stop).then_some(n)
        });
        (probes, gone)
    }

    #[test]
    fn a_word_of_the_peer_is_no_silence_and_what_fails_here_is_no_word() {
        for (error, is) in [
            ("192.0.2.1:9347: connecting took longer than 3 s", true),
            ("cannot connect to 192.0.2.1:9347: Connection refused (os error 111)", false),
            ("198.18.0.2:9347: refused (limit): 10001 flows", false),
        ] {
            assert_eq!(is_silence(&run(Some(error))), is, "{error}");
        }
        assert!(!is_silence(&run(None)));
        let mut losses = PeerLosses::of(2, false);
        losses.ran(0, &run(None), false);
        let here = RunRef { peer_unreachable: false, ..run(Some("no such congestion control")) };
        for _ in 0..FAILURES {
            losses.ran(0, &run(Some("no hello")), false);
            losses.ran(1, &here, false);
        }
        assert_eq!(losses.next(), LossDecision::Stop);
    }

    #[test]
    fn a_peer_is_gone_where_points_lose_it_that_had_it() {
        let gone_at = |runs| {
            let (probes, gone) = probed_and_gone(runs, |_| panic!("a probe: {runs}"));
            assert_eq!(probes, "");
            gone
        };
        assert_eq!(gone_at("ABC"), Some(3), "it never was");
        assert_eq!(gone_at("abABA"), Some(5));
        // A peer that answers again is reachable.
        assert_eq!(gone_at("aAAaAAa"), None);
        assert_eq!(gone_at("aBCdA"), None);
        // Failures at points that never reach it are counted separately.
        assert_eq!(gone_at("bABAbABAb"), None);
        assert_eq!(gone_at("bABABB"), Some(6));
    }

    #[test]
    fn points_that_never_have_their_peer_ask_for_one_that_had_it() {
        // Every point runs once.
        assert_eq!(probed_and_gone("abcDEFGHI", |_| true), ("c".into(), Some(6)));
        // The peer is reachable: these failures do not end the sweep, and few probes are made.
        let runs = "abcDEFabcDEFabc".repeat(20);
        assert_eq!(probed_and_gone(&runs, |_| false), ("c".into(), None));
        assert_eq!(probed_and_gone("aBBBBBBBBBBBBBBBBBBBB", |_| false), ("aa".into(), None));
        // It disappears later.
        assert_eq!(probed_and_gone("aBBBBBBBBBBBBBBBBBBBB", |n| n > 4), ("aa".into(), Some(10)));
        assert_eq!(probed_and_gone("abcDEFabcDEFABC", |_| false), ("c".into(), Some(15)));
    }

    #[test]
    fn runs_of_an_earlier_session_say_nothing_of_now() {
        let mut losses = PeerLosses::of(2, false);
        for _ in 0..2 {
            losses.ran(0, &run(None), true);
            losses.ran(1, &run(Some("no hello")), false);
        }
        assert_eq!(losses.next(), LossDecision::Continue);
        losses.ran(0, &run(None), true);
        losses.ran(1, &run(Some("no hello")), false);
        assert_eq!(losses.next(), LossDecision::Probe(0));
    }

    /// Laws cause silence, not answers.
    #[test]
    fn where_points_change_the_path_only_a_refusal_or_a_reset_is_a_loss() {
        let said = [
            "cannot connect to 192.0.2.1:9347: Connection refused (os error 111)",
            "192.0.2.1:9347: the peer was lost during setup: Connection reset by peer (os error 104)",
        ];
        let silent = [
            "no hello",
            "cannot connect to 192.0.2.1:9347: no answer within 3 s",
            "cannot connect to 192.0.2.1:9347: No route to host (os error 113)",
        ];
        let gone = |errors: &[&str], change| {
            let mut losses = PeerLosses::of(1, change);
            losses.ran(0, &run(None), false);
            errors.iter().for_each(|error| losses.ran(0, &run(Some(error)), false));
            losses.next() == LossDecision::Stop
        };
        assert!(gone(&[said[0], said[1], said[0]], true));
        assert!(!gone(&silent, true) && gone(&silent, false));
        // Silence in between proves nothing about the peer.
        assert!(gone(&[said[0], silent[0], said[0], said[0]], true));
        assert!(!gone(&[said[0], silent[0], said[0]], true));
    }
}
