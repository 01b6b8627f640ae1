//! Searches over trials: RFC 2544's tests, multiple loss ratio search, and the saturation point.
//!
//! A trial is asked of the caller, so that a search runs as well on a virtual path. What a trial says rests on what its
//! sender sent, not on what it was asked to: a trial whose sender fell short by more than 1 % bounds the tool, not the path.

use std::collections::BTreeMap;

use weir_model::experiment::{Confidence, Found, SearchKind};

/// A trial that is wanted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ask {
    /// Rate, in the search's unit.
    pub rate: f64,
    /// Length.
    pub seconds: f64,
    /// A burst of so many packets at full speed, instead of a rate and a length.
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
    /// Rate that arrived.
    pub received_rate: Option<f64>,
    /// Delays in seconds, by statistic.
    pub delays: BTreeMap<String, f64>,
    /// Tool or host shaped it.
    pub disturbed: bool,
}

impl Trial {
    fn loss(&self) -> f64 {
        if self.sent == 0 { 1.0 } else { self.lost as f64 / self.sent as f64 }
    }

    /// Whether the sender kept the rate that it was asked for.
    fn is_offered(&self, rate: f64) -> bool {
        self.sent_rate.is_none_or(|sent| sent >= rate * (1.0 - SHORTFALL))
    }
}

/// What is searched, and how closely.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// What.
    pub kind: SearchKind,
    /// Least rate.
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
}

/// A sender this share below its rate was the limit itself.
const SHORTFALL: f64 = 0.01;
/// A disturbed trial that lost packets is done again so often; one whose sender fell short, once.
const AGAIN: u32 = 2;
/// Loss ratio of the saturation point: less than this share of what is sent does not arrive.
const SATURATION_LOSS: f64 = 0.01;
/// Steps of a frame-loss measurement, share of the greatest rate (RFC 2544, section 26.3: at most 10 %).
const FRAME_LOSS_STEP: f64 = 0.1;
/// A bound that the sender set.
const AT_LEAST: &str = "at least: at the next rate the sender fell short, and what it sent arrived";
/// Most trials of one search, whatever its terms.
const MOST_TRIALS: u32 = 10_000;

struct Searching<'a, E> {
    terms: &'a Terms,
    trial: &'a mut dyn FnMut(Ask) -> Result<Trial, E>,
    number: u32,
    /// Trials that stayed disturbed.
    disturbed: u32,
    /// The greatest rate that the sender reached when it fell short.
    limit: Option<f64>,
}

/// Runs a search.
///
/// # Errors
/// Those of a trial.
pub fn search<E>(
    terms: &Terms,
    trial: &mut dyn FnMut(Ask) -> Result<Trial, E>,
) -> Result<Vec<Found>, E> {
    let mut searching = Searching { terms, trial, number: 0, disturbed: 0, limit: None };
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
    if searching.disturbed > 0 {
        notes.push(format!(
            "{} of {} trials were disturbed by tool or host",
            searching.disturbed, searching.number
        ));
    }
    if let Some(first) = found.first_mut()
        && !notes.is_empty()
    {
        first.text = [first.text.clone()]
            .into_iter()
            .filter(|t| !t.is_empty())
            .chain(notes)
            .collect::<Vec<_>>()
            .join("; ");
    }
    Ok(found)
}

fn shown(rate: f64, unit: &str) -> String {
    if unit == "bits_per_second" {
        format!("{rate:.0} bit/s")
    } else {
        format!("{rate:.0} packets/s")
    }
}

impl<E> Searching<'_, E> {
    /// One trial; done again when it was disturbed and lost packets, or its sender fell short.
    fn measure(&mut self, rate: f64, packets: Option<u64>) -> Result<Trial, E> {
        let mut again = 0;
        loop {
            self.number += 1;
            let ask = Ask { rate, seconds: self.terms.seconds, packets, number: self.number };
            let trial = (self.trial)(ask)?;
            let is_short = packets.is_none() && !trial.is_offered(rate);
            let is_lossy = trial.loss() > self.terms.loss;
            let spoilt = trial.disturbed && (is_lossy || is_short);
            // A sender that fell short twice is not likely to do better.
            if !spoilt || again == if is_lossy { AGAIN } else { 1 } {
                self.disturbed += u32::from(spoilt);
                if is_short {
                    let reached = trial.sent_rate.unwrap_or(0.0);
                    self.limit = Some(self.limit.map_or(reached, |l: f64| l.max(reached)));
                }
                return Ok(trial);
            }
            again += 1;
        }
    }

    fn found(&self, name: &str, value: Option<f64>, unit: &str, text: &str) -> Found {
        Found { name: name.into(), value, unit: unit.into(), text: text.into(), ..Found::default() }
    }

    /// The greatest rate at which no more is lost than the terms allow, by bisection; and the trial that showed it.
    fn throughput(&mut self) -> Result<(Found, Option<(f64, Trial)>), E> {
        let (mut low, mut high) = (self.terms.low, self.terms.high);
        let mut best: Option<(f64, Trial)> = None;
        let mut failed = false;
        let mut is_senders = false;
        let mut rate = high;
        while self.number < MOST_TRIALS {
            let trial = self.measure(rate, None)?;
            let is_whole = trial.loss() <= self.terms.loss;
            if is_whole && trial.is_offered(rate) {
                low = rate;
                best = Some((rate, trial));
            } else {
                high = rate;
                failed = true;
                is_senders = is_whole;
            }
            if !failed || high - low <= self.terms.precision * high {
                break;
            }
            rate = low.midpoint(high);
        }
        // Nothing above the least rate passed: it is itself a trial.
        if best.is_none() && self.terms.low > 0.0 {
            let trial = self.measure(self.terms.low, None)?;
            if trial.loss() <= self.terms.loss && trial.is_offered(self.terms.low) {
                best = Some((self.terms.low, trial));
            }
        }
        let mut found = match &best {
            Some((rate, _)) => self.found("throughput", Some(*rate), self.terms.unit, ""),
            None => self.found("throughput", None, self.terms.unit, "every rate lost packets"),
        };
        if best.is_some() && is_senders {
            found.text = AT_LEAST.into();
        } else if best.is_some() && failed {
            // Not a confidence: the bounds of a search.
            found.interval = Some(Confidence { low, high, confidence_ratio: 1.0 });
        } else if best.is_some() {
            found.text = "the greatest rate asked for passed: the path may carry more".into();
        }
        Ok((found, best))
    }

    /// Delay at the throughput, the mean of the repetitions (RFC 2544 asks for 20).
    fn latency(&mut self) -> Result<Vec<Found>, E> {
        let (throughput, best) = self.throughput()?;
        let Some((rate, _)) = best else { return Ok(vec![throughput]) };
        let mut sums: BTreeMap<String, (f64, u32)> = BTreeMap::new();
        for _ in 0..self.terms.runs.max(1) {
            for (name, value) in self.measure(rate, None)?.delays {
                let sum = sums.entry(name).or_default();
                *sum = (sum.0 + value, sum.1 + 1);
            }
        }
        let mut out = vec![throughput];
        for (name, (sum, count)) in sums {
            let text = format!("mean of {count} trials at the throughput");
            out.push(self.found(
                &format!("{name} latency"),
                Some(sum / f64::from(count)),
                "seconds",
                &text,
            ));
        }
        Ok(out)
    }

    /// Loss at 100 %, 90 %, … of the greatest rate, until two in a row lose nothing.
    fn frame_loss(&mut self) -> Result<Vec<Found>, E> {
        let mut out = vec![];
        let mut clean = 0;
        let mut step = 0;
        while clean < 2 {
            let share = 1.0 - f64::from(step) * FRAME_LOSS_STEP;
            let rate = self.terms.high * share;
            if share < FRAME_LOSS_STEP / 2.0 || rate < self.terms.low {
                break;
            }
            let trial = self.measure(rate, None)?;
            clean = if trial.lost == 0 { clean + 1 } else { 0 };
            let text = match trial.sent_rate {
                Some(sent) if !trial.is_offered(rate) => {
                    format!("of {} that the sender reached", shown(sent, self.terms.unit))
                }
                _ => String::new(),
            };
            let mut found = self.found("frame loss", Some(trial.loss()), "ratio", &text);
            found.at.insert("rate".into(), format!("{:.0} %", share * 100.0));
            out.push(found);
            step += 1;
        }
        Ok(out)
    }

    /// The longest burst at full speed that loses nothing, the mean of the repetitions (RFC 9004).
    fn back_to_back(&mut self) -> Result<Vec<Found>, E> {
        // As long as a trial lasts at the greatest rate; RFC 2544 asks for 2 s.
        let most = (self.terms.high * self.terms.seconds.max(0.001)).max(1.0) as u64;
        let mut bursts = vec![];
        for _ in 0..self.terms.runs.max(1) {
            let (mut low, mut high, mut burst) = (0u64, most, most);
            loop {
                let trial = self.measure(self.terms.high, Some(burst))?;
                if trial.lost == 0 && trial.sent > 0 {
                    low = burst
                } else {
                    high = burst
                }
                let width = (self.terms.precision * high as f64).max(1.0) as u64;
                if low == most || high - low <= width || self.number >= MOST_TRIALS {
                    break;
                }
                burst = low + (high - low) / 2;
            }
            bursts.push(low as f64);
        }
        let mean = bursts.iter().sum::<f64>() / bursts.len() as f64;
        let text = if bursts.iter().all(|b| *b == most as f64) {
            "the longest burst asked for passed: the path may hold more".to_owned()
        } else {
            format!("mean of {} searches", bursts.len())
        };
        Ok(vec![self.found("back-to-back", Some(mean), "packets", &text)])
    }

    /// Non-drop and partial-drop rates. Each load is measured until most of its trials could not change its class any more:
    /// up to `runs` trials, of which at most half may exceed the goal's loss ratio (the exceed ratio).
    fn mlrsearch(&mut self) -> Result<Vec<Found>, E> {
        let mut seen: Vec<(f64, Vec<f64>)> = vec![];
        let mut out = vec![];
        for (name, goal) in [("NDR", 0.0), ("PDR", self.terms.loss)] {
            let (mut low, mut high) = (self.terms.low, self.terms.high);
            // What earlier trials say of this goal narrows it at once.
            let needed = self.terms.runs.max(1) as usize;
            for (rate, losses) in &seen {
                match class(losses, needed, goal) {
                    Some(true) if *rate > low => low = *rate,
                    Some(false) if *rate < high => high = *rate,
                    _ => {}
                }
            }
            let mut passed = None;
            let mut rate = high;
            let mut failed = false;
            while self.number < MOST_TRIALS {
                let is_low = self.classify(rate, goal, needed, &mut seen)?;
                if is_low {
                    low = rate;
                    passed = Some(rate);
                } else {
                    high = rate;
                    failed = true;
                }
                if !failed || high - low <= self.terms.precision * high {
                    break;
                }
                rate = low.midpoint(high);
            }
            if passed.is_none() && low > self.terms.low {
                // An earlier goal's trials had passed it.
                passed = Some(low);
            }
            let mut found = self.found(name, passed, self.terms.unit, "");
            match passed {
                Some(_) if failed => {
                    found.interval = Some(Confidence { low, high, confidence_ratio: 1.0 });
                }
                Some(_) => found.text = "the greatest rate asked for passed".into(),
                None => found.text = "every rate lost more".into(),
            }
            out.push(found);
        }
        Ok(out)
    }

    /// Whether a load is a lower bound of a goal.
    fn classify(
        &mut self,
        rate: f64,
        goal: f64,
        needed: usize,
        seen: &mut Vec<(f64, Vec<f64>)>,
    ) -> Result<bool, E> {
        let place = seen.iter().position(|(r, _)| *r == rate).unwrap_or_else(|| {
            seen.push((rate, vec![]));
            seen.len() - 1
        });
        loop {
            if let Some(is_low) = class(&seen[place].1, needed, goal) {
                return Ok(is_low);
            }
            let trial = self.measure(rate, None)?;
            // Packets that the sender did not send are lost to the load that was asked for.
            let short = trial.sent_rate.map_or(0.0, |sent| (1.0 - sent / rate).max(0.0));
            let loss = if trial.is_offered(rate) { trial.loss() } else { trial.loss().max(short) };
            seen[place].1.push(loss);
        }
    }

    /// The rate above which less arrives than is sent: rates doubling from the least until one loses, then bisection.
    fn saturation(&mut self) -> Result<Vec<Found>, E> {
        let terms = self.terms;
        let mut rate = terms.low.max(terms.high / 1024.0);
        let (mut low, mut high) = (None, None);
        let mut is_senders = false;
        let mut curve: Vec<(f64, Trial)> = vec![];
        while self.number < MOST_TRIALS {
            let trial = self.measure(rate, None)?;
            let arrived = trial.loss() <= SATURATION_LOSS;
            let offered = trial.is_offered(rate);
            curve.push((rate, trial));
            if arrived && offered {
                low = Some(rate)
            } else {
                high = Some(rate);
                is_senders = arrived;
            }
            rate = match (low, high) {
                (Some(low), Some(high)) if high - low <= terms.precision * high => break,
                (Some(low), Some(high)) => low.midpoint(high),
                (Some(low), None) if low >= terms.high => break,
                (Some(low), None) => (low * 2.0).min(terms.high),
                (None, Some(high)) if high <= terms.low.max(terms.high / 1e6) => break,
                (None, Some(high)) => (high / 2.0).max(terms.low),
                (None, None) => break,
            };
        }
        let mut point = self.found("saturation point", low, terms.unit, "");
        match (low, high) {
            (Some(_), Some(_)) if is_senders => point.text = AT_LEAST.into(),
            (Some(low), Some(high)) => {
                point.interval = Some(Confidence { low, high, confidence_ratio: 1.0 });
            }
            (Some(_), None) => point.text = "the greatest rate asked for arrived whole".into(),
            _ if is_senders => point.text = "the sender reached none of the rates".into(),
            _ => point.text = "every rate lost more than 1 %".into(),
        }
        curve.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut out = vec![point];
        for (rate, trial) in curve {
            let at = BTreeMap::from([("asked".to_owned(), shown(rate, terms.unit))]);
            let mut push = |name: &str, value: Option<f64>, unit: &str| {
                let text = String::new();
                out.push(Found {
                    name: name.into(),
                    at: at.clone(),
                    value,
                    unit: unit.into(),
                    text,
                    ..Found::default()
                });
            };
            push("sent", trial.sent_rate, terms.unit);
            push("received", trial.received_rate, terms.unit);
            push("received share", Some(1.0 - trial.loss()), "ratio");
        }
        Ok(out)
    }
}

/// Whether trials of one load make it a lower bound of a goal (`true`), an upper bound (`false`), or neither yet.
fn class(losses: &[f64], needed: usize, goal: f64) -> Option<bool> {
    let whole = needed.max(losses.len());
    let exceeding = losses.iter().filter(|loss| **loss > goal).count();
    let open = whole - losses.len();
    if 2 * exceeding > whole {
        Some(false)
    } else if 2 * (exceeding + open) <= whole {
        Some(true)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(kind: SearchKind) -> Terms {
        Terms {
            kind,
            low: 1000.0,
            high: 1_000_000.0,
            unit: "packets_per_second",
            precision: 0.001,
            seconds: 1.0,
            loss: 0.0,
            runs: 1,
        }
    }

    /// A path that carries so many packets a second, and holds bursts of 5000.
    fn path(capacity: f64) -> impl FnMut(Ask) -> Result<Trial, ()> {
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
                disturbed: false,
            })
        }
    }

    #[test]
    fn the_throughput_of_a_path_is_found_within_the_precision() {
        for capacity in [1500.0, 123_456.0, 999_000.0] {
            let found = search(&terms(SearchKind::Throughput), &mut path(capacity)).unwrap();
            let rate = found[0].value.unwrap();
            assert!(rate <= capacity + 1.0 && rate > capacity * 0.998, "{rate} of {capacity}");
            let interval = found[0].interval.unwrap();
            assert!(interval.low <= capacity + 1.0 && capacity <= interval.high);
        }
    }

    #[test]
    fn a_path_that_passes_all_says_so_and_one_that_passes_nothing_has_no_figure() {
        let found = search(&terms(SearchKind::Throughput), &mut path(2e6)).unwrap();
        assert_eq!(found[0].value, Some(1e6));
        assert!(found[0].interval.is_none() && found[0].text.contains("may carry more"));
        let found = search(&terms(SearchKind::Throughput), &mut path(10.0)).unwrap();
        assert_eq!(found[0].value, None);
    }

    #[test]
    fn a_sender_that_falls_short_is_the_limit_and_is_named() {
        let mut inner = path(2e6);
        let mut weak = |ask: Ask| {
            let mut trial = inner(ask)?;
            trial.sent_rate = Some(ask.rate.min(300_000.0));
            Ok::<_, ()>(trial)
        };
        let found = search(&terms(SearchKind::Throughput), &mut weak).unwrap();
        assert!(found[0].value.unwrap() <= 304_000.0);
        assert!(found[0].text.contains("bound of the sender"), "{}", found[0].text);
        // Nothing was lost: what is known is a lower bound.
        assert!(found[0].text.starts_with("at least") && found[0].interval.is_none());
        let found = search(&terms(SearchKind::Saturation), &mut weak).unwrap();
        assert!(found[0].text.starts_with("at least") && found[0].interval.is_none());
        let found = search(&terms(SearchKind::FrameLoss), &mut weak).unwrap();
        assert_eq!(
            found[0].text.split(';').next(),
            Some("of 300000 packets/s that the sender reached")
        );
    }

    #[test]
    fn a_disturbed_sender_that_fell_short_has_another_chance() {
        let mut inner = path(2e6);
        let mut calls = 0;
        let mut hiccup = |ask: Ask| {
            calls += 1;
            let mut trial = inner(ask)?;
            if calls == 1 {
                (trial.sent_rate, trial.disturbed) = (Some(1.0), true);
            }
            Ok::<_, ()>(trial)
        };
        let found = search(&terms(SearchKind::Throughput), &mut hiccup).unwrap();
        assert_eq!((found[0].value, calls), (Some(1e6), 2));
    }

    #[test]
    fn a_disturbed_trial_is_done_again() {
        let mut inner = path(2e6);
        let mut calls = 0;
        let mut hiccup = |ask: Ask| {
            calls += 1;
            let mut trial = inner(ask)?;
            if calls == 1 {
                (trial.lost, trial.disturbed) = (5, true);
            }
            Ok::<_, ()>(trial)
        };
        let found = search(&terms(SearchKind::Throughput), &mut hiccup).unwrap();
        assert_eq!((found[0].value, calls), (Some(1e6), 2));
    }

    #[test]
    fn latency_is_the_mean_at_the_throughput() {
        let found =
            search(&Terms { runs: 3, ..terms(SearchKind::Latency) }, &mut path(50_000.0)).unwrap();
        let latency = found.iter().find(|f| f.name == "mean latency").unwrap();
        assert!((latency.value.unwrap() - 0.002).abs() < 1e-12);
        assert!(latency.text.contains("3 trials"));
    }

    #[test]
    fn frame_loss_goes_down_until_two_trials_are_clean() {
        let found = search(&terms(SearchKind::FrameLoss), &mut path(750_000.0)).unwrap();
        let shares: Vec<_> = found.iter().map(|f| f.at["rate"].as_str()).collect();
        assert_eq!(shares, ["100 %", "90 %", "80 %", "70 %", "60 %"]);
        assert!((found[0].value.unwrap() - 0.25).abs() < 1e-6);
        assert_eq!(found[4].value, Some(0.0));
    }

    #[test]
    fn the_longest_burst_is_found() {
        let found = search(&terms(SearchKind::BackToBack), &mut path(1.0)).unwrap();
        let burst = found[0].value.unwrap();
        assert!((4990.0..=5000.0).contains(&burst), "{burst}");
    }

    #[test]
    fn two_loss_ratios_are_found_in_one_search() {
        let terms = Terms { loss: 0.005, runs: 3, ..terms(SearchKind::Mlrsearch) };
        let found = search(&terms, &mut path(400_000.0)).unwrap();
        let (ndr, pdr) = (found[0].value.unwrap(), found[1].value.unwrap());
        assert!((399_000.0..=400_001.0).contains(&ndr), "{ndr}");
        // At r the loss is 1 − 400 000 / r: half a per cent at 402 010.
        assert!((401_000.0..=402_011.0).contains(&pdr), "{pdr}");
    }

    #[test]
    fn a_load_is_classed_when_its_open_trials_can_no_more_change_it() {
        assert_eq!(class(&[0.0], 1, 0.0), Some(true));
        assert_eq!(class(&[0.1], 1, 0.0), Some(false));
        assert_eq!(class(&[0.1], 3, 0.0), None);
        assert_eq!(class(&[0.0, 0.0], 3, 0.0), Some(true));
        assert_eq!(class(&[0.1, 0.0], 3, 0.0), None);
        assert_eq!(class(&[0.1, 0.0, 0.2], 3, 0.0), Some(false));
    }

    #[test]
    fn saturation_is_between_what_arrived_and_what_did_not() {
        let found = search(&terms(SearchKind::Saturation), &mut path(300_000.0)).unwrap();
        let point = found[0].value.unwrap();
        // 1 % is lost at 303 030.
        assert!((302_000.0..=303_031.0).contains(&point), "{point}");
        assert!(found.iter().filter(|f| f.name == "received share").count() > 10);
    }
}
