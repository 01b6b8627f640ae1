//! Simulated paths for tests of searches.

use super::*;

pub(super) fn terms(kind: SearchKind) -> Terms {
    Terms {
        kind,
        low: 1000.0,
        high: 1_000_000.0,
        unit: "packets_per_second",
        precision: 0.001,
        seconds: 1.0,
        loss: 0.0,
        runs: 1,
        confidence: 0.95,
        seed: 1,
        max_trials: MAX_TRIALS,
    }
}

/// A path with this capacity (packets/s) and a queue of 5000 packets.
pub(super) fn path(capacity: f64) -> impl FnMut(TrialRequest) -> Result<Trial, ()> {
    move |ask| {
        let sent = ask.packets.unwrap_or((ask.rate * ask.seconds) as u64);
        let lost = match ask.packets {
            Some(burst) => burst.saturating_sub(5000),
            None => ((ask.rate - capacity).max(0.0) * ask.seconds) as u64,
        };
        Ok(Trial {
            sent,
            lost,
            sent_rate: Some(ask.rate),
            received_rate: Some(ask.rate.min(capacity)),
            delays: BTreeMap::from([("mean".to_owned(), 0.002)]),
            host_limited: false,
        })
    }
}

/// A path of 2 million packets/s, with a sender that reaches `limit`.
pub(super) fn weak(limit: f64) -> impl FnMut(TrialRequest) -> Result<Trial, ()> {
    let mut inner = path(2e6);
    move |ask| {
        let reached = Some(ask.rate.min(limit));
        Ok(Trial { sent_rate: reached, received_rate: reached, ..inner(ask)? })
    }
}
