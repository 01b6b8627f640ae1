//! Judging runs: metrics of a record, whether the host was the limit, summaries of repetitions, expectations.

use std::collections::BTreeMap;

use weir_model::experiment::{
    Comparison, Confidence, Judged, Metric, Outcome, Rule, RunRef, Summary,
};
use weir_model::record::{Crossing, Record};
use weir_model::warning::{Severity, is_host_limit};
use weir_stats::Sample;

/// Codes of the warnings of a record that mark it as host-limited.
#[must_use]
pub(crate) fn disturbances(record: &Record) -> Vec<String> {
    let mut out: Vec<String> = record
        .warnings
        .iter()
        .filter(|w| w.severity != Severity::Info && is_host_limit(&w.code))
        .map(|w| w.code.clone())
        .collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// The reference to the records of one run that the experiment stores: one, or one of each sender.
#[must_use]
pub(crate) fn run_ref(records: &[&Record], metrics: &[Metric]) -> RunRef {
    let all = || records.iter().copied();
    let mut warnings: Vec<String> = all()
        .flat_map(|record| &record.warnings)
        .filter(|w| w.severity != Severity::Info)
        .map(|w| w.code.clone())
        .collect();
    warnings.sort_unstable();
    warnings.dedup();
    let mut ids = all().filter(|record| !record.id.is_empty()).map(|record| record.id.clone());
    let shortage = |m: &Metric| all().find_map(|record| m.shortage(record));
    RunRef {
        id: ids.next(),
        also: ids.collect(),
        metrics: metrics.iter().filter_map(|m| Some((m.to_string(), m.over(records)?))).collect(),
        crossing: Crossing::all(all().map(|record| Crossing::of(&record.flows))),
        absent: metrics.iter().filter_map(|m| Some((m.to_string(), shortage(m)?))).collect(),
        host_limited: all().any(|record| !disturbances(record).is_empty()),
        warnings,
        seed: all().map(|record| record.plan.seed).find(|seed| seed.0 != 0),
        ..RunRef::default()
    }
}

/// How the confidence intervals of repetitions are computed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Intervals {
    /// Confidence, such as 0.95.
    pub confidence: f64,
    /// A metric, and how many of its first repetitions decided the number of runs: the standard deviation of its
    /// interval is that of these runs alone ([`Sample::half_width_over`]). Absent if the number was given. Other
    /// metrics use all runs.
    pub first_stage: Option<(String, usize)>,
}

impl Intervals {
    /// How many of the first repetitions give a metric's interval its standard deviation; absent: all.
    fn first_of(&self, metric: &str) -> Option<usize> {
        self.first_stage
            .as_ref()
            .filter(|(deciding, _)| deciding == metric)
            .map(|(_, first)| *first)
    }
}

impl From<f64> for Intervals {
    fn from(confidence: f64) -> Self {
        Intervals { confidence, first_stage: None }
    }
}

/// The range that the mean of a metric can have; unbounded if it is no [`Metric`].
fn range_of(metric: &str) -> (f64, f64) {
    metric.parse().map_or((f64::NEG_INFINITY, f64::INFINITY), |m: Metric| m.range())
}

/// Summary of repetitions, in the order in which they ran; absent without any. The interval's standard deviation is
/// that of the `first` ones; absent: of all.
///
/// An end of the interval outside of `range` (what the mean can be) is moved to the end of the range: Student's t
/// does not know the range, the true mean is never outside, and so the coverage stays the same. An end of the range
/// that a value itself exceeds (a link that carries more than its nominal rate) is ignored.
#[must_use]
pub(crate) fn summary(
    values: &[f64],
    confidence: f64,
    first: Option<usize>,
    range: (f64, f64),
) -> Option<Summary> {
    let sample = Sample::of(values)?;
    let first = first.map(|first| first.min(values.len()));
    let basis = match first {
        Some(first) => Sample::of(&values[..first])?,
        None => sample,
    };
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = if min < range.0 { f64::NEG_INFINITY } else { range.0 };
    let greatest = if max > range.1 { f64::INFINITY } else { range.1 };
    let interval = basis.half_width_over(sample.count, confidence).map(|half| {
        let (low, high) = (sample.mean - half, sample.mean + half);
        Confidence {
            low: low.max(least),
            high: high.min(greatest),
            confidence_ratio: confidence,
            clipped: low < least || high > greatest,
            first_stage_count: first.map(|first| first as u64),
        }
    });
    Some(Summary {
        count: sample.count,
        mean: sample.mean,
        variance: sample.variance,
        deviation: sample.standard_deviation(),
        interval,
        min,
        max,
    })
}

/// Summaries of every metric, each over the runs that have it.
#[must_use]
pub(crate) fn summaries<'a>(
    runs: impl Iterator<Item = &'a RunRef>,
    intervals: impl Into<Intervals>,
) -> BTreeMap<String, Summary> {
    let intervals = intervals.into();
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in runs {
        for (name, value) in &run.metrics {
            values.entry(name.clone()).or_default().push(*value);
        }
    }
    let summed = values.into_iter();
    let one = |values: &[f64], name: &str| {
        summary(values, intervals.confidence, intervals.first_of(name), range_of(name))
    };
    summed.filter_map(|(name, values)| Some((name.clone(), one(&values, &name)?))).collect()
}

/// Judges an expectation.
///
/// One run is compared directly. Of several runs the confidence interval of the mean must lie on one side of the
/// bound, else the outcome is inconclusive; `==` and `!=` must hold for each run. A host-limited run proves only what
/// it reached: that a rate was at least that high. A low rate proves nothing, and neither do losses or delays under a
/// load that may not have been the requested one. A figure that only some of the runs have proves nothing either.
#[must_use]
pub(crate) fn judge(
    rule: &Rule,
    at: &BTreeMap<String, String>,
    runs: &[&RunRef],
    intervals: impl Into<Intervals>,
) -> Judged {
    let intervals = intervals.into();
    let name = rule.metric.to_string();
    let values: Vec<f64> = runs.iter().filter_map(|run| run.metrics.get(&name).copied()).collect();
    let unit = rule.metric.unit();
    let bound = format!("{} {}", rule.comparison, unit.show(rule.bound));
    let mut judged = Judged {
        text: rule.text.clone(),
        outcome: Outcome::Inconclusive,
        at: at.clone(),
        measured: None,
        bound: rule.bound,
        interval: None,
        count: values.len() as u64,
        reason: String::new(),
        code: None,
    };
    if !values.is_empty() && values.len() < runs.len() {
        judged.reason = format!("{name} was measured in {} of {} runs", values.len(), runs.len());
        if let Some(shortage) = runs.iter().find_map(|run| run.absent.get(&name)) {
            judged.reason += &format!(": {shortage}");
        }
        return judged;
    }
    let (first, range) = (intervals.first_of(&name), rule.metric.range());
    let Some(summed) = summary(&values, intervals.confidence, first, range) else {
        judged.reason = match (runs.len(), runs.iter().find_map(|run| run.absent.get(&name))) {
            (0, _) => format!("{name} was not measured: nothing ran"),
            (_, Some(shortage)) => shortage.clone(),
            _ => format!("{name} was not measured"),
        };
        return judged;
    };
    let holds = |value| rule.comparison.holds(value, rule.bound);
    let shown = unit.show(summed.mean);
    judged.measured = Some(summed.mean);
    let exact = matches!(rule.comparison, Comparison::Equal | Comparison::NotEqual);
    let (outcome, words) = match summed.interval {
        None => (
            if holds(summed.mean) { Outcome::Passed } else { Outcome::Failed },
            format!("measured {shown}, expected {bound} (one run: no confidence interval)"),
        ),
        Some(_) if exact => {
            let missed = values.iter().filter(|v| !holds(**v)).count();
            let outcome = if missed == 0 { Outcome::Passed } else { Outcome::Failed };
            (
                outcome,
                format!(
                    "measured {shown} as the mean, expected {bound}: {missed} of {} runs are outside",
                    values.len()
                ),
            )
        }
        Some(interval) => {
            let outcome = match (holds(interval.low), holds(interval.high)) {
                (true, true) => Outcome::Passed,
                (false, false) => Outcome::Failed,
                _ => Outcome::Inconclusive,
            };
            let spans =
                if outcome == Outcome::Inconclusive { ", which spans the bound" } else { "" };
            let words = format!(
                "measured {shown} as the mean of {} runs, {:.4} % interval {} to {}{spans}; expected {bound}",
                values.len(),
                intervals.confidence * 100.0,
                unit.show(interval.low),
                unit.show(interval.high),
            );
            // 95.0000 % is 95 %.
            (outcome, words.replacen(".0000 %", " %", 1))
        }
    };
    judged.interval = summed.interval;
    judged.outcome = outcome;
    judged.reason = words;
    let mut host_limited: Vec<&str> = runs
        .iter()
        .filter(|r| r.host_limited)
        .flat_map(|r| r.warnings.iter().map(String::as_str))
        .filter(|code| is_host_limit(code))
        .collect();
    host_limited.sort_unstable();
    host_limited.dedup();
    let is_ceiling = matches!(rule.comparison, Comparison::Less | Comparison::AtMost);
    let is_floor =
        matches!(rule.comparison, Comparison::More | Comparison::AtLeast | Comparison::Equal);
    let proves_nothing = match judged.outcome {
        Outcome::Passed => !(rule.metric.is_reached() && is_floor),
        Outcome::Failed => !(rule.metric.is_reached() && is_ceiling),
        _ => false,
    };
    if proves_nothing && !host_limited.is_empty() {
        judged.outcome = Outcome::Inconclusive;
        judged.reason +=
            &format!("; the tool or the host was the limit ({})", host_limited.join(", "));
    }
    judged
}

#[cfg(test)]
mod tests {
    use weir_model::warning::Warning;

    use super::*;

    const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
    const SHARE: (f64, f64) = (0.0, 1.0);

    fn runs(values: &[f64], host_limited: bool) -> Vec<RunRef> {
        let run = |v: &f64| RunRef {
            metrics: BTreeMap::from([("throughput".to_owned(), *v)]),
            host_limited,
            warnings: if host_limited { vec!["cpu-stolen".into()] } else { vec![] },
            ..RunRef::default()
        };
        values.iter().map(run).collect()
    }

    fn outcome(rule: &str, values: &[f64], host_limited: bool) -> Judged {
        let runs = runs(values, host_limited);
        let runs: Vec<&RunRef> = runs.iter().collect();
        judge(&rule.parse().unwrap(), &BTreeMap::new(), &runs, 0.95)
    }

    #[test]
    fn only_warnings_about_the_host_disturb() {
        let warning = |code| Warning::new(code, Severity::Warning, "");
        let slots = Warning::new("missed-slots", Severity::Info, "");
        let codes = ["not-drained", "receiving-unfinished", "end-lost", "late-slots", "late-slots"];
        let warnings = codes.into_iter().map(warning).chain([slots]).collect();
        assert_eq!(disturbances(&Record { warnings, ..Record::default() }), ["late-slots"]);
    }

    #[test]
    fn one_run_is_compared_as_it_is() {
        assert_eq!(outcome("throughput >= 95M", &[95e6], false).outcome, Outcome::Passed);
        let judged = outcome("throughput >= 95M", &[94.9e6], false);
        assert_eq!(judged.outcome, Outcome::Failed);
        assert_eq!(judged.measured, Some(94.9e6));
        assert_eq!((judged.bound, judged.interval), (95e6, None));
        for part in ["94.9 Mbit/s", ">= 95 Mbit/s"] {
            assert!(judged.reason.contains(part), "{}", judged.reason);
        }
    }

    #[test]
    fn several_runs_are_judged_by_the_interval_of_their_mean() {
        // Mean 96, deviation 1, n = 3: 96 ± 2.484.
        let of = |rule| outcome(rule, &[95e6, 96e6, 97e6], false);
        assert_eq!(of("throughput >= 93M").outcome, Outcome::Passed);
        assert_eq!(of("throughput >= 99M").outcome, Outcome::Failed);
        let spans = of("throughput >= 95M");
        assert_eq!(spans.outcome, Outcome::Inconclusive);
        let interval = spans.interval.unwrap();
        assert!((interval.low - 93.52e6).abs() < 5e3 && (interval.high - 98.48e6).abs() < 5e3);
        for part in ["96 Mbit/s", "3 runs", "95 %", "93.52 Mbit/s", "98.48 Mbit/s", ">= 95 Mbit/s"]
        {
            assert!(spans.reason.contains(part), "{}", spans.reason);
        }
    }

    /// Two stages: the mean and the number of runs are of all runs, the interval's width uses the standard deviation
    /// of the first.
    #[test]
    fn an_interval_of_two_stages_rests_on_the_first_ones_deviation() {
        let values = [95e6, 96e6, 97e6, 96e6, 96e6, 96e6, 96e6, 96e6, 96e6];
        let first_stage = Some(("throughput".to_owned(), 3));
        let intervals = Intervals { confidence: 0.95, first_stage };
        let of_two = summary(&values, 0.95, Some(3), ANY).unwrap();
        let of_all = summary(&values, 0.95, None, ANY).unwrap();
        assert_eq!((of_two.mean, of_two.deviation), (of_all.mean, of_all.deviation));
        // The JSON says which runs the width is from.
        let stage = |s: Summary| s.interval.unwrap().first_stage_count;
        assert_eq!((stage(of_two), stage(of_all)), (Some(3), None));
        let short = summary(&values[..2], 0.95, Some(3), ANY).unwrap();
        assert_eq!(stage(short), Some(2), "as many of them as there are");
        // t of 2 degrees of freedom is 4.303; s is 1e6, n is 9.
        let half = |s: Summary| s.interval.map(|i| (i.high - i.low) / 2.0).unwrap();
        assert!((half(of_two) - 4.302_652_73e6 / 3.0).abs() < 10.0, "{of_two:?}");
        assert!(half(of_all) < half(of_two) / 3.0);
        // A verdict uses the interval that the table shows.
        let runs = runs(&values, false);
        let runs: Vec<&RunRef> = runs.iter().collect();
        let rule = "throughput >= 95M".parse().unwrap();
        let judged = judge(&rule, &BTreeMap::new(), &runs, intervals.clone());
        assert_eq!((judged.outcome, judged.interval), (Outcome::Inconclusive, of_two.interval));
        assert_eq!(judge(&rule, &BTreeMap::new(), &runs, 0.95).outcome, Outcome::Passed);
        assert_eq!(summaries(runs.iter().copied(), intervals)["throughput"], of_two);
    }

    /// Coverage of the intervals, measured through the code that makes tables ([`summaries`]) and verdicts
    /// ([`judge`]): 20 000 campaigns of five normal figures each; the standard error of the fraction is 0.15 %.
    #[test]
    fn an_interval_of_95_per_cent_covers_the_mean_95_times_in_a_hundred() {
        const MEAN: f64 = 100e6;
        let mut random = weir_stats::compare::SplitMix64::new(0xC0FE);
        // Box and Muller 1958.
        let mut normal = move || {
            let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
            radius * (std::f64::consts::TAU * random.unit()).cos()
        };
        let above: Rule = "throughput >= 100M".parse().unwrap();
        let (campaigns, mut covered, mut wrong) = (20_000, 0, 0);
        for _ in 0..campaigns {
            let values: Vec<f64> = (0..5).map(|_| MEAN + 5e6 * normal()).collect();
            let runs = runs(&values, false);
            let interval = summaries(runs.iter(), 0.95)["throughput"].interval.unwrap();
            let holds = interval.low <= MEAN && MEAN <= interval.high;
            covered += u32::from(holds);
            let runs: Vec<&RunRef> = runs.iter().collect();
            let judged = judge(&above, &BTreeMap::new(), &runs, 0.95);
            assert_eq!(judged.interval, Some(interval));
            // The bound is the true mean, so that each verdict is one of the misses.
            wrong += u32::from(judged.outcome != Outcome::Inconclusive);
        }
        let share = f64::from(covered) / f64::from(campaigns);
        // Three standard errors: an interval that is 5 % too narrow covers 94.3 %.
        assert!((0.9455..=0.9545).contains(&share), "{share}");
        assert_eq!(covered + wrong, campaigns as u32, "the verdict is the interval's");
    }

    /// Losses that the first runs did not see: their standard deviation of 0 says nothing of the others.
    #[test]
    fn a_figure_that_decided_nothing_has_an_interval_of_all_runs() {
        let first_stage = Some(("throughput".to_owned(), 3));
        let intervals = Intervals { confidence: 0.95, first_stage };
        let runs: Vec<RunRef> = [0.0, 0.0, 0.0, 0.0, 0.05]
            .map(|loss| RunRef {
                metrics: [("loss".to_owned(), loss), ("throughput".to_owned(), 1e6)].into(),
                ..RunRef::default()
            })
            .into();
        let all = summaries(runs.iter(), intervals.clone());
        assert_eq!(
            all["loss"].interval,
            summary(&[0.0, 0.0, 0.0, 0.0, 0.05], 0.95, None, SHARE).unwrap().interval
        );
        let runs: Vec<&RunRef> = runs.iter().collect();
        for rule in ["loss <= 1.1 %", "loss <= 0.9 %"] {
            let judged = judge(&rule.parse().unwrap(), &BTreeMap::new(), &runs, intervals.clone());
            assert_eq!(judged.outcome, Outcome::Inconclusive, "{rule}");
        }
    }

    /// Ends by scipy.stats.t.interval(0.95, n - 1, mean, sem), 1.17.
    #[test]
    fn an_interval_ends_where_the_figure_does() {
        for (values, low, high, is_clipped) in [
            (&[0.0, 0.0, 0.0, 0.0, 0.05][..], 0.0, 0.037_764_451_051_977_94, true),
            (&[0.99, 1.0, 0.97], 0.948_720_836_330_699, 1.0, true),
            (&[0.2, 0.4, 0.3], 0.051_586_228_824_967_02, 0.548_413_771_175_033_1, false),
            // More than the nominal rate was measured: the nominal rate is wrong, and 1 is no limit.
            (&[1.02, 0.97, 0.99], 0.930_817_238_539_575_4, 1.055_849_428_127_091_1, false),
        ] {
            for metric in ["loss", "link_usage", "local_cpu"] {
                let run = |value: &f64| RunRef {
                    metrics: [(metric.to_owned(), *value)].into(),
                    ..RunRef::default()
                };
                let runs: Vec<RunRef> = values.iter().map(run).collect();
                let summed = summaries(runs.iter(), 0.95)[metric];
                let interval = summed.interval.unwrap();
                assert!((interval.low - low).abs() < 1e-9, "{metric} {values:?}: {interval:?}");
                assert!((interval.high - high).abs() < 1e-9, "{metric} {values:?}: {interval:?}");
                assert_eq!(interval.clipped, is_clipped, "{metric} {values:?}");
                assert!(interval.low <= summed.mean && summed.mean <= interval.high);
                // A verdict uses the interval that the table shows.
                let runs: Vec<&RunRef> = runs.iter().collect();
                let rule = format!("{metric} >= 0 %").parse().unwrap();
                let judged = judge(&rule, &BTreeMap::new(), &runs, 0.95);
                assert_eq!((judged.interval, judged.outcome), (Some(interval), Outcome::Passed));
            }
        }
    }

    #[test]
    fn what_a_host_limited_run_did_not_reach_is_inconclusive() {
        assert_eq!(outcome("throughput >= 95M", &[90e6], true).outcome, Outcome::Inconclusive);
        assert_eq!(outcome("throughput >= 95M", &[96e6], true).outcome, Outcome::Passed);
        assert_eq!(outcome("throughput <= 95M", &[90e6], true).outcome, Outcome::Inconclusive);
        assert_eq!(outcome("throughput <= 95M", &[96e6], true).outcome, Outcome::Failed);
    }

    /// A sender that never reached the rate has no valid loss or delay.
    #[test]
    fn a_loss_or_delay_under_a_load_that_was_not_offered_proves_nothing() {
        let of = |rule: &str, metric: &str, value| {
            let run = RunRef {
                metrics: BTreeMap::from([(metric.to_owned(), value)]),
                host_limited: true,
                warnings: vec!["sender-cpu-bound".into()],
                ..RunRef::default()
            };
            judge(&rule.parse().unwrap(), &BTreeMap::new(), &[&run], 0.95)
        };
        let judged = of("loss <= 0.1 %", "loss", 0.0);
        assert_eq!(judged.outcome, Outcome::Inconclusive);
        assert!(judged.reason.contains("sender-cpu-bound"), "{}", judged.reason);
        let delay = "p99 one_way_delay";
        assert_eq!(of("p99 one_way_delay < 30 ms", delay, 0.01).outcome, Outcome::Inconclusive);
        assert_eq!(of("loss >= 1 %", "loss", 0.5).outcome, Outcome::Inconclusive);
        assert_eq!(of("packets >= 100", "packets", 100.0).outcome, Outcome::Passed);
        assert_eq!(of("packets == 100", "packets", 100.0).outcome, Outcome::Passed);
    }

    #[test]
    fn a_figure_that_only_some_runs_have_decides_nothing() {
        let mut all = runs(&[96e6, 97e6, 98e6], false);
        all[1].metrics.clear();
        let all: Vec<&RunRef> = all.iter().collect();
        let rule = "throughput >= 5M".parse().unwrap();
        let judged = judge(&rule, &BTreeMap::new(), &all, 0.95);
        assert_eq!((judged.outcome, judged.count), (Outcome::Inconclusive, 2));
        assert!(judged.reason.contains("2 of 3"), "{}", judged.reason);
    }

    #[test]
    fn what_was_not_measured_is_neither_passed_nor_failed() {
        let judged = outcome("loss <= 1 %", &[90e6], false);
        assert_eq!((judged.outcome, judged.measured), (Outcome::Inconclusive, None));
        assert!(judged.count == 0 && judged.reason.contains("loss"), "{}", judged.reason);
    }

    #[test]
    fn a_percentile_of_too_few_packets_says_so() {
        use weir_model::record::{Delay, Flow, Receiver};
        let delay = Delay { count: 400, ..Delay::default() };
        let receiver = Receiver { one_way_delay: Some(delay), ..Receiver::default() };
        let flow = Flow { receiver: Some(receiver), ..Flow::default() };
        let rule: Rule = "p99 one_way_delay <= 10 ms".parse().unwrap();
        let record = Record { flows: vec![flow], ..Record::default() };
        let run = run_ref(&[&record], std::slice::from_ref(&rule.metric));
        let judged = judge(&rule, &BTreeMap::new(), &[&run], 0.95);
        assert_eq!((judged.outcome, judged.measured), (Outcome::Inconclusive, None));
        assert_eq!(Some(judged.reason), rule.metric.shortage(&record));
    }

    #[test]
    fn equality_is_asked_of_each_run() {
        assert_eq!(outcome("throughput == 5", &[5.0, 5.0], false).outcome, Outcome::Passed);
        assert_eq!(outcome("throughput == 5", &[5.0, 5.0, 6.0], false).outcome, Outcome::Failed);
        assert_eq!(outcome("throughput != 5", &[4.0, 6.0], false).outcome, Outcome::Passed);
    }
}
