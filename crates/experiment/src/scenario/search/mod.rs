//! Searches over trials: RFC 2544's tests, multiple loss ratio search, and the saturation point.
//!
//! A trial is asked of the caller, so that a search runs as well on a virtual path. What a trial says rests on what its
//! sender sent, not on what it was asked to: a trial whose sender fell short by more than 1 % bounds the tool, not the path.
//! What tool or host bounded is told as such and leaves the search open.

use std::collections::BTreeMap;

use weir_model::experiment::{Bounds, Confidence, Found, SearchKind};

mod mlrsearch;
mod rfc2544;
mod saturation;
#[cfg(test)]
mod virtual_path;

/// A trial that is wanted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialRequest {
    /// Rate of all flows together, in the search's unit; always above 0.
    pub rate: f64,
    /// Length.
    pub seconds: f64,
    /// A burst of so many packets at the rate, instead of a length.
    pub packets: Option<u64>,
    /// Which trial, from 1.
    pub number: u32,
}

/// What a trial showed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trial {
    /// Packets sent.
    pub sent: u64,
    /// Of them lost.
    pub lost: u64,
    /// Rate that was sent, in the search's unit; absent when it could not be told.
    pub sent_rate: Option<f64>,
    /// Rate that arrived, from the first arrival to the last: what a queue holds at the end is no rate.
    pub received_rate: Option<f64>,
    /// Delays in seconds, by statistic.
    pub delays: BTreeMap<String, f64>,
    /// Tool or host shaped it.
    pub host_limited: bool,
}

impl Trial {
    fn loss(&self) -> f64 {
        if self.sent == 0 { 1.0 } else { self.lost as f64 / self.sent as f64 }
    }

    /// Whether the sender kept the rate that it was asked for. What was not told was not kept. n packets span n − 1 gaps, which
    /// is all that is known of a burst's length.
    fn is_offered(&self, ask: TrialRequest) -> bool {
        let gaps = match ask.packets {
            Some(packets @ 2..) => (packets - 1) as f64 / packets as f64,
            // One packet has no rate.
            Some(_) => return self.sent > 0,
            None => 1.0,
        };
        self.sent_rate.is_some_and(|sent| sent >= ask.rate * (1.0 - SHORTFALL) * gaps)
    }

    /// Share of the rate sent that was received; absent where one of them is.
    fn received_share(&self) -> Option<f64> {
        Some(self.received_rate? / self.sent_rate.filter(|sent| *sent > 0.0)?)
    }
}

/// What is searched, and how closely.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// What.
    pub kind: SearchKind,
    /// Least rate, above 0.
    pub low: f64,
    /// Greatest rate.
    pub high: f64,
    /// `bits_per_second` or `packets_per_second`.
    pub unit: &'static str,
    /// Width of the final interval, as a share of its upper end.
    pub precision: f64,
    /// Length of a trial.
    pub seconds: f64,
    /// Loss that counts as none; the second goal's of multiple loss ratio search.
    pub loss: f64,
    /// Repetitions of what is averaged.
    pub runs: u32,
    /// Confidence of intervals, such as 0.95.
    pub confidence: f64,
    /// Seed of the bootstrap.
    pub seed: u64,
}

impl Terms {
    /// The rate that a bisection tries next, by the greatest that passed and the least that did not: first the greatest of all,
    /// then the middle until the two are close, and where nothing passed at last the least of all, which is itself a trial.
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
}

/// What a search came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchResult {
    /// Figures, the one that was searched first.
    pub found: Vec<Found>,
    /// Why it is neither passed nor failed: figures that were not found, or that tool or host shaped. Empty: conclusive.
    pub open: Vec<String>,
}

/// A sender this share below its rate was the limit itself.
const SHORTFALL: f64 = 0.01;
/// A host-limited trial that did not pass is done again so often; one whose sender fell short, once.
const AGAIN: u32 = 2;
/// A trial of fewer packets decides nothing.
pub const LEAST_PACKETS: f64 = 100.0;
/// Most trials of one search, whatever its terms.
pub const MOST_TRIALS: u32 = 1000;

/// What kept a trial from passing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The path lost packets.
    Path,
    /// The sender did not reach the rate; what it sent arrived.
    Sender,
    /// Packets were lost while something disturbed the host.
    HostLimited,
}

/// The greatest value that passed and the least that did not, with what showed it.
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
    /// Trials that stayed host-limited.
    host_limited: u32,
    /// The greatest rate that the sender reached when it fell short.
    limit: Option<f64>,
    open: Vec<String>,
}

/// Runs a search.
///
/// # Errors
/// Those of a trial.
pub fn search<E>(
    terms: &Terms,
    trial: &mut dyn FnMut(TrialRequest) -> Result<Trial, E>,
) -> Result<SearchResult, E> {
    let mut searching =
        Searching { terms, trial, number: 0, host_limited: 0, limit: None, open: vec![] };
    let mut found = match terms.kind {
        SearchKind::Throughput => vec![searching.throughput()?.0],
        SearchKind::Latency => searching.latency()?,
        SearchKind::FrameLoss => searching.frame_loss()?,
        SearchKind::BackToBack => searching.back_to_back()?,
        SearchKind::Mlrsearch => searching.mlrsearch()?,
        SearchKind::Saturation => searching.saturation()?,
    };
    let mut notes = vec![];
    if let Some(limit) = searching.limit {
        notes.push(format!(
            "the sender reached {} at most: above that this is a bound of the sender, not of the path",
            shown(limit, terms.unit)
        ));
    }
    if searching.host_limited > 0 {
        notes.push(format!(
            "{} of {} trials {} host-limited",
            searching.host_limited,
            searching.number,
            if searching.host_limited == 1 { "was" } else { "were" }
        ));
    }
    if let Some(first) = found.first_mut() {
        let own = std::iter::once(first.text.clone()).filter(|t| !t.is_empty());
        first.text = own.chain(notes).collect::<Vec<_>>().join("; ");
    }
    Ok(SearchResult { found, open: searching.open })
}

fn shown(rate: f64, unit: &str) -> String {
    if unit == "bits_per_second" {
        format!("{rate:.0} bit/s")
    } else {
        format!("{rate:.0} packets/s")
    }
}

/// What a trial says of a rate: nothing kept it from passing (absent), or what did.
fn failure(trial: &Trial, ask: TrialRequest, goal: f64) -> Option<Cause> {
    match (trial.sent > 0 && trial.loss() > goal, trial.is_offered(ask)) {
        (true, _) if trial.host_limited => Some(Cause::HostLimited),
        (true, _) => Some(Cause::Path),
        (false, false) => Some(Cause::Sender),
        (false, true) => None,
    }
}

impl<E> Searching<'_, E> {
    fn ask(&self, rate: f64, packets: Option<u64>) -> TrialRequest {
        TrialRequest { rate, seconds: self.terms.seconds, packets, number: self.number }
    }

    /// One trial; done again when it was host-limited and its figures would not count: `spoils` tells from what is wrong with it.
    fn measure(
        &mut self,
        rate: f64,
        packets: Option<u64>,
        spoils: impl Fn(&Trial) -> bool,
    ) -> Result<Trial, E> {
        let mut again = 0;
        loop {
            self.number += 1;
            let ask = self.ask(rate, packets);
            let trial = (self.trial)(ask)?;
            let is_short = !trial.is_offered(ask);
            let is_spoilt = trial.host_limited && spoils(&trial);
            // A sender that fell short twice is not likely to do better.
            let most = if is_spoilt { AGAIN } else { u32::from(trial.host_limited && is_short) };
            if again >= most || self.is_over() {
                self.host_limited += u32::from(is_spoilt || trial.host_limited && is_short);
                if is_short {
                    let reached = trial.sent_rate.unwrap_or(0.0);
                    self.limit = Some(self.limit.map_or(reached, |l: f64| l.max(reached)));
                }
                return Ok(trial);
            }
            again += 1;
        }
    }

    /// A trial that is judged by its loss.
    fn judged(&mut self, rate: f64, packets: Option<u64>, goal: f64) -> Result<Trial, E> {
        self.measure(rate, packets, |trial| trial.loss() > goal)
    }

    fn is_over(&self) -> bool {
        self.number >= MOST_TRIALS
    }

    fn found(&self, name: &str, value: Option<f64>, unit: &str, text: &str) -> Found {
        Found { name: name.into(), value, unit: unit.into(), text: text.into(), ..Found::default() }
    }

    /// Says why the search is open.
    fn leave_open(&mut self, name: &str, why: &str) {
        self.open.push(format!("{name}: {why}"));
    }

    /// The figure of a bracket. Where the sender set the upper bound there is none: what passed is a lower bound alone.
    fn of_bracket(&mut self, name: &str, unit: &str, bracket: &Bracket) -> Found {
        let (low, high) = (bracket.passed(), bracket.did_not());
        let cause = bracket.high.map(|(_, cause)| cause);
        let mut found = self.found(name, low, unit, "");
        found.bounds = Some(Bounds { low, high });
        let open = match (low, cause) {
            _ if bracket.is_incomplete => {
                found.value = None;
                Some(format!("not found within {MOST_TRIALS} trials"))
            }
            (Some(_), None) => {
                found.text = "the greatest asked for passed: the path may carry more".into();
                None
            }
            (Some(_), Some(Cause::Path)) => None,
            (Some(_), Some(Cause::Sender)) => {
                found.value = None;
                found.bounds = Some(Bounds { low, high: None });
                Some(
                    "at least its lower bound: above it the sender fell short, and what it sent arrived"
                        .into(),
                )
            }
            (Some(_), Some(Cause::HostLimited)) => {
                found.host_limited = true;
                Some("packets above it were lost while the tool or the host was the limit".into())
            }
            (None, Some(Cause::Sender)) => {
                found.bounds = None;
                Some("the sender reached none of the rates".into())
            }
            (None, _) => Some("packets were lost at the least already".into()),
        };
        if let Some(why) = open {
            self.leave_open(name, &why);
            found.text = why;
        }
        found
    }
}
