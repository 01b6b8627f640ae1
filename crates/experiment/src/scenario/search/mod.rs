//! Searches over trials: RFC 2544's tests, multiple loss ratio search, and the saturation point.
//!
//! The caller runs the trials, so that a search also runs on a simulated path. A trial is judged by what its sender
//! sent: a sender more than 1 % below the requested rate shows a limit of the tool, not of the path. Such results,
//! and those of a limited host, are reported and leave the search inconclusive.

use std::collections::BTreeMap;

use weir_model::experiment::{Bounds, Confidence, Found, SearchKind};

use super::text::in_unit as shown;

mod mlrsearch;
mod rfc2544;
mod saturation;
#[cfg(test)]
mod virtual_path;

/// A request for a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TrialRequest {
    /// Total rate of all flows, in the search's unit; above 0.
    pub rate: f64,
    /// Length.
    pub seconds: f64,
    /// A burst of this many packets at the rate, instead of a duration.
    pub packets: Option<u64>,
    /// Number of the trial, from 1.
    pub number: u32,
    /// Whether it repeats the trial before, whose result is not used.
    pub is_again: bool,
}

/// The result of a trial.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Trial {
    /// Packets sent.
    pub sent: u64,
    /// Of them lost.
    pub lost: u64,
    /// Rate sent, in the search's unit; absent if unknown.
    pub sent_rate: Option<f64>,
    /// Rate received between first and last arrival; packets still queued at the end do not count.
    pub received_rate: Option<f64>,
    /// Delays in seconds, by statistic.
    pub delays: BTreeMap<String, f64>,
    /// The tool or the host was the limit.
    pub host_limited: bool,
}

impl Trial {
    fn loss(&self) -> f64 {
        if self.sent == 0 { 1.0 } else { self.lost as f64 / self.sent as f64 }
    }

    /// Whether the sender reached the requested rate; unknown counts as no. A burst of n packets spans n − 1 gaps.
    fn is_offered(&self, ask: TrialRequest) -> bool {
        let gaps = match ask.packets {
            Some(packets @ 2..) => (packets - 1) as f64 / packets as f64,
            // One packet has no rate.
            Some(_) => return self.sent > 0,
            None => 1.0,
        };
        self.sent_rate.is_some_and(|sent| sent >= ask.rate * (1.0 - SHORTFALL) * gaps)
    }

    /// Ratio of received to sent rate; absent if either is.
    fn received_share(&self) -> Option<f64> {
        Some(self.received_rate? / self.sent_rate.filter(|sent| *sent > 0.0)?)
    }
}

/// What to search, and how precisely.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Terms {
    /// What.
    pub kind: SearchKind,
    /// Minimum rate, above 0.
    pub low: f64,
    /// Maximum rate.
    pub high: f64,
    /// `bits_per_second` or `packets_per_second`.
    pub unit: &'static str,
    /// Width of the final interval relative to its upper end.
    pub precision: f64,
    /// Duration of a trial.
    pub seconds: f64,
    /// Loss ratio that counts as no loss; in multiple loss ratio search, that of the second goal.
    pub loss: f64,
    /// Number of repetitions for averages.
    pub runs: u32,
    /// Confidence of intervals, such as 0.95.
    pub confidence: f64,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Maximum number of trials.
    pub max_trials: u32,
}

impl Terms {
    /// The next rate of a bisection, from the highest rate that passed and the lowest that failed: first the maximum,
    /// then the middle until the two are close, and the minimum if nothing passed.
    fn next(&self, passed: Option<f64>, did_not: Option<f64>) -> Option<f64> {
        let Some(high) = did_not else {
            return (passed < Some(self.high)).then_some(self.high);
        };
        let base = passed.unwrap_or(self.low);
        if high - base > self.precision * high {
            Some(base.midpoint(high))
        } else {
            (passed.is_none() && high > self.low).then_some(self.low)
        }
    }

    /// The maximum number of trials: every one host-limited and repeated.
    pub(crate) fn most_trials(&self) -> u32 {
        let runs = f64::from(self.runs.max(1));
        let halvings = |range: f64, width: f64| (range / width).max(1.0).log2().ceil();
        // The maximum and the minimum, and the rates between them.
        let bisection = 2.0 + halvings(self.high - self.low, self.precision * self.low);
        let most = match self.kind {
            SearchKind::Throughput => bisection,
            SearchKind::Latency => bisection + runs,
            SearchKind::FrameLoss => rfc2544::FRAME_LOSS_RATES,
            SearchKind::BackToBack => runs * (1.0 + halvings(self.high * self.seconds, 1.0)),
            SearchKind::Mlrsearch => 2.0 * runs * bisection,
            SearchKind::Saturation => saturation::most_trials(self),
        };
        let most = most * f64::from(1 + AGAIN);
        if most < f64::from(self.max_trials) { most as u32 } else { self.max_trials }
    }
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SearchResult {
    /// The figures, the requested one first.
    pub found: Vec<Found>,
    /// Why the search is inconclusive: figures that were not found, or that the tool or the host limited. Empty:
    /// conclusive.
    pub open: Vec<String>,
}

/// A sender below its rate by more than this ratio was the limit itself.
const SHORTFALL: f64 = 0.01;
/// Repetitions of a failed host-limited trial; a trial whose sender fell short is repeated once.
const AGAIN: u32 = 2;
/// Minimum number of packets of a valid trial.
pub(crate) const MIN_PACKETS: f64 = 100.0;
/// Maximum number of trials of one search.
pub(crate) const MAX_TRIALS: u32 = 1000;

/// Why a trial failed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cause {
    /// The path lost packets.
    Path,
    /// The sender did not reach the rate, and no more than permitted was lost. Its rate, if known.
    Sender(Option<f64>),
    /// Packets were lost while the host was the limit.
    HostLimited,
}

/// The highest value that passed and the lowest that failed, with the trials.
#[derive(Debug, Clone, PartialEq)]
struct Bracket {
    low: Option<(f64, Trial)>,
    high: Option<(f64, Cause)>,
    /// Trials ran out.
    is_incomplete: bool,
}

impl Bracket {
    fn passed(&self) -> Option<f64> {
        self.low.as_ref().map(|(value, _)| *value)
    }

    fn did_not(&self) -> Option<f64> {
        self.high.map(|(value, _)| value)
    }
}

struct Searching<'a, E> {
    terms: &'a Terms,
    trial: &'a mut dyn FnMut(TrialRequest) -> Result<Trial, E>,
    number: u32,
    /// Trials that are not used to repeat others.
    reserved: u32,
    /// The highest rate that the sender reached when it fell short.
    limit: Option<f64>,
    open: Vec<String>,
}

/// Runs a search.
///
/// # Errors
/// Those of a trial.
pub(crate) fn search<E>(
    terms: &Terms,
    trial: &mut dyn FnMut(TrialRequest) -> Result<Trial, E>,
) -> Result<SearchResult, E> {
    let mut searching =
        Searching { terms, trial, number: 0, reserved: 0, limit: None, open: vec![] };
    let found = match terms.kind {
        SearchKind::Throughput => vec![searching.throughput()?.0],
        SearchKind::Latency => searching.latency()?,
        SearchKind::FrameLoss => searching.frame_loss()?,
        SearchKind::BackToBack => searching.back_to_back()?,
        SearchKind::Mlrsearch => searching.mlrsearch()?,
        SearchKind::Saturation => searching.saturation()?,
    };
    Ok(SearchResult { found, open: searching.open })
}

/// Why a trial of a rate failed; absent if it passed.
fn failure(trial: &Trial, ask: TrialRequest, goal: f64) -> Option<Cause> {
    match (trial.sent > 0 && trial.loss() > goal, trial.is_offered(ask)) {
        (true, _) if trial.host_limited => Some(Cause::HostLimited),
        (true, _) => Some(Cause::Path),
        (false, false) => Some(Cause::Sender(trial.sent_rate)),
        (false, true) => None,
    }
}

impl<E> Searching<'_, E> {
    fn ask(&self, rate: f64, packets: Option<u64>) -> TrialRequest {
        let (seconds, number) = (self.terms.seconds, self.number);
        TrialRequest { rate, seconds, packets, number, is_again: false }
    }

    /// Runs a trial; repeats it if it was host-limited and `spoils` says that its failure makes it unusable.
    fn measure(
        &mut self,
        rate: f64,
        packets: Option<u64>,
        spoils: impl Fn(&Trial) -> bool,
    ) -> Result<Trial, E> {
        let mut again = 0;
        loop {
            self.number += 1;
            let ask = TrialRequest { is_again: again > 0, ..self.ask(rate, packets) };
            let trial = (self.trial)(ask)?;
            let is_short = !trial.is_offered(ask);
            let is_spoilt = trial.host_limited && spoils(&trial);
            // A sender that fell short twice will hardly do better.
            let most = if is_spoilt { AGAIN } else { u32::from(trial.host_limited && is_short) };
            let is_last = self.number + self.reserved >= self.terms.max_trials;
            if again >= most || is_last {
                if is_short {
                    let reached = trial.sent_rate.unwrap_or(0.0);
                    self.limit = Some(self.limit.map_or(reached, |l: f64| l.max(reached)));
                }
                return Ok(trial);
            }
            again += 1;
        }
    }

    /// A trial judged by its loss.
    fn judged(&mut self, rate: f64, packets: Option<u64>, goal: f64) -> Result<Trial, E> {
        self.measure(rate, packets, |trial| trial.loss() > goal)
    }

    /// Why a search without trials left has no figure.
    fn ran_out(&self) -> String {
        format!("not found within {} trials", self.terms.max_trials)
    }

    fn is_over(&self) -> bool {
        self.number >= self.terms.max_trials
    }

    fn found(&self, name: &str, value: Option<f64>, unit: &str, text: &str) -> Found {
        Found { name: name.into(), value, unit: unit.into(), text: text.into(), ..Found::default() }
    }

    /// Adds a reason why the search is inconclusive.
    fn leave_open(&mut self, name: &str, why: &str) {
        self.open.push(format!("{name}: {why}"));
    }

    /// The figure of a bracket. If the sender was the upper bound there is no figure, only a lower bound.
    fn of_bracket(&mut self, name: &str, unit: &str, bracket: &Bracket) -> Found {
        let (low, high) = (bracket.passed(), bracket.did_not());
        let cause = bracket.high.map(|(_, cause)| cause);
        let mut found = self.found(name, low, unit, "");
        found.bounds = Some(Bounds { low, high });
        let open = match (low, cause) {
            _ if bracket.is_incomplete => {
                found.value = None;
                Some(self.ran_out())
            }
            (Some(_), None) => {
                found.text = "the maximum passed: the path may carry more".into();
                None
            }
            (Some(_), Some(Cause::Path)) => None,
            (Some(_), Some(Cause::Sender(reached))) => {
                found.value = None;
                found.bounds = Some(Bounds { low, high: None });
                let sent = reached.map_or("at an unknown rate".into(), |rate| {
                    // Bursts are bounded in packets, but their senders have a rate.
                    shown(rate, self.terms.unit)
                });
                let at = high.map_or(String::new(), |high| format!("at {} ", shown(high, unit)));
                Some(format!(
                    "{at}the sender was the limit (it sent {sent}): the path may carry more"
                ))
            }
            (Some(_), Some(Cause::HostLimited)) => {
                found.host_limited = true;
                Some(
                    "packets were lost while the tool or the host was the limit: the path may carry more"
                        .into(),
                )
            }
            (None, Some(Cause::Sender(_))) => {
                found.bounds = None;
                Some("the sender reached none of the rates".into())
            }
            (None, _) => Some("packets were lost even at the minimum".into()),
        };
        if let Some(why) = open {
            self.leave_open(name, &why);
            found.text = why;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::virtual_path::{path, terms};
    use super::*;

    /// Paths with and without loss, on which each trial is host-limited or none is.
    #[test]
    fn no_search_makes_more_trials_than_announced() {
        use SearchKind::{BackToBack, FrameLoss, Latency, Mlrsearch, Saturation, Throughput};
        for kind in [Throughput, Latency, FrameLoss, BackToBack, Mlrsearch, Saturation] {
            for (capacity, max_trials) in
                [(2e6, MAX_TRIALS), (1500.0, MAX_TRIALS), (10.0, MAX_TRIALS), (3e5, 7), (10.0, 1)]
            {
                for host_limited in [false, true] {
                    let terms = Terms { max_trials, runs: 3, ..terms(kind) };
                    let (mut inner, mut made) = (path(capacity), 0);
                    let mut counting = |ask: TrialRequest| {
                        made += 1;
                        Ok::<_, ()>(Trial { host_limited, ..inner(ask)? })
                    };
                    search(&terms, &mut counting).unwrap();
                    let most = terms.most_trials();
                    assert!(
                        made <= most && most <= max_trials,
                        "{kind:?} {capacity}: {made}, {most}"
                    );
                }
            }
        }
    }
}
