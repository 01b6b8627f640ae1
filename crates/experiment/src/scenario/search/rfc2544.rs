//! RFC 2544, section 26: throughput, latency, frame loss; back-to-back bursts as in RFC 9004.

use super::*;

/// Step of a frame-loss measurement relative to the maximum rate (section 26.3: at most 10 %).
const FRAME_LOSS_STEP: f64 = 0.1;
/// Number of its rates.
pub(super) const FRAME_LOSS_RATES: f64 = 1.0 / FRAME_LOSS_STEP;

impl<E> Searching<'_, E> {
    /// The highest rate with no more than the permitted loss, by bisection, and its trial.
    pub(super) fn throughput(&mut self) -> Result<(Found, Bracket), E> {
        let terms = self.terms;
        let mut bracket = Bracket { low: None, high: None, is_incomplete: false };
        while let Some(rate) = terms.next(bracket.passed(), bracket.did_not()) {
            if self.is_over() {
                bracket.is_incomplete = true;
                break;
            }
            let trial = self.judged(rate, None, terms.loss)?;
            match failure(&trial, self.ask(rate, None), terms.loss) {
                None => bracket.low = Some((rate, trial)),
                Some(cause) => bracket.high = Some((rate, cause)),
            }
        }
        Ok((self.of_bracket("throughput", terms.unit, &bracket), bracket))
    }

    /// Delay at the throughput: mean of the repetitions (RFC 2544: 20).
    pub(super) fn latency(&mut self) -> Result<Vec<Found>, E> {
        let (throughput, bracket) = self.throughput()?;
        let mut out = vec![throughput];
        let Some((rate, _)) = bracket.low else { return Ok(out) };
        let mut trials = vec![];
        for _ in 0..self.terms.runs.max(1) {
            if self.is_over() {
                self.leave_open("latency", &self.ran_out());
                break;
            }
            trials.push(self.measure(rate, None, |_| true)?);
        }
        let is_host_limited = trials.iter().any(|t| t.host_limited);
        if is_host_limited {
            self.leave_open("latency", "delays were limited by tool or host");
        }
        let mut names: Vec<&String> = trials.iter().flat_map(|t| t.delays.keys()).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            self.leave_open("latency", "no delay was measured");
        }
        let at = shown(rate, self.terms.unit);
        for name in names {
            let values: Vec<f64> =
                trials.iter().filter_map(|t| t.delays.get(name).copied()).collect();
            let (count, all) = (values.len(), trials.len());
            // A mean of some repetitions would be mislabelled.
            let mean = (count == all).then(|| values.iter().sum::<f64>() / count as f64);
            let text = match mean {
                Some(_) => format!("mean of {count} trials at {at}"),
                None => format!("{count} of {all} trials reported it"),
            };
            let name = format!("{name} latency");
            if mean.is_none() {
                self.leave_open(&name, &text);
            }
            let found = self.found(&name, mean, "seconds", &text);
            out.push(Found { host_limited: is_host_limited, ..found });
        }
        Ok(out)
    }

    /// Loss at 100 %, 90 %, … of the maximum rate, until two consecutive rates have none. A rate that was not sent
    /// has no loss.
    pub(super) fn frame_loss(&mut self) -> Result<Vec<Found>, E> {
        let mut out = vec![];
        let (mut clean, mut step, mut missing) = (0, 0, 0u32);
        while clean < 2 {
            let share = 1.0 - f64::from(step) * FRAME_LOSS_STEP;
            let rate = self.terms.high * share;
            if share < FRAME_LOSS_STEP / 2.0 || rate < self.terms.low {
                break;
            }
            if self.is_over() {
                self.leave_open("frame loss", &self.ran_out());
                break;
            }
            let trial = self.judged(rate, None, 0.0)?;
            let is_offered = trial.is_offered(self.ask(rate, None));
            clean = if trial.lost == 0 && is_offered { clean + 1 } else { 0 };
            let sent =
                trial.sent_rate.map_or("nothing".into(), |sent| shown(sent, self.terms.unit));
            let text = match is_offered {
                true => format!("{sent} sent"),
                false => format!("the sender reached {sent} of {}", shown(rate, self.terms.unit)),
            };
            missing += u32::from(!is_offered);
            let loss = is_offered.then(|| trial.loss());
            let mut found = self.found("frame loss", loss, "ratio", &text);
            found.host_limited = trial.host_limited && trial.lost > 0;
            if found.host_limited {
                self.leave_open(
                    "frame loss",
                    "packets were lost while the tool or the host was the limit",
                );
            }
            found.at.insert("rate".into(), format!("{:.0} %", share * 100.0));
            out.push(found);
            step += 1;
        }
        if missing > 0 {
            let why = format!("the sender was too slow at {missing} of {} rates", out.len());
            self.leave_open("frame loss", &why);
        }
        self.open.dedup();
        Ok(out)
    }

    /// The longest burst at the maximum rate without loss: mean of the repetitions.
    pub(super) fn back_to_back(&mut self) -> Result<Vec<Found>, E> {
        let terms = self.terms;
        // As long as a trial at the maximum rate; RFC 2544 asks for 2 s.
        let most = (terms.high * terms.seconds.max(0.001)).max(1.0) as u64;
        let mut bursts: Vec<Found> = vec![];
        for _ in 0..terms.runs.max(1) {
            let (mut low, mut burst) = (0u64, most);
            let mut bracket = Bracket { low: None, high: None, is_incomplete: false };
            loop {
                if self.is_over() {
                    bracket.is_incomplete = true;
                    break;
                }
                let trial = self.judged(terms.high, Some(burst), 0.0)?;
                match failure(&trial, self.ask(terms.high, Some(burst)), 0.0) {
                    None => {
                        low = burst;
                        bracket.low = Some((burst as f64, trial));
                    }
                    Some(cause) => bracket.high = Some((burst as f64, cause)),
                }
                let Some((high, _)) = bracket.high else { break };
                let width = (terms.precision * high).max(1.0) as u64;
                if high as u64 - low <= width {
                    break;
                }
                burst = low + (high as u64 - low) / 2;
            }
            bursts.push(self.of_bracket("back-to-back", "packets", &bracket));
        }
        self.open.sort_unstable();
        self.open.dedup();
        let values: Option<Vec<f64>> = bursts.iter().map(|b| b.value).collect();
        let host_limited = bursts.iter().any(|b| b.host_limited);
        let text = match &values {
            // Without a valid burst in each repetition there is no mean.
            None => {
                bursts.iter().find(|b| b.value.is_none()).map_or("", |b| b.text.as_str()).into()
            }
            Some(values) if values.iter().all(|b| *b == most as f64) => {
                "the longest burst passed: the path may hold more".to_owned()
            }
            Some(values) => format!("mean of {} searches", values.len()),
        };
        let mean = values.map(|v| v.iter().sum::<f64>() / v.len() as f64);
        Ok(vec![Found { host_limited, ..self.found("back-to-back", mean, "packets", &text) }])
    }
}

#[cfg(test)]
mod tests {
    use super::super::virtual_path::{path, terms, weak};
    use super::*;

    #[test]
    fn the_throughput_of_a_path_is_found_within_the_precision() {
        for capacity in [1500.0, 123_456.0, 999_000.0] {
            let searched = search(&terms(SearchKind::Throughput), &mut path(capacity)).unwrap();
            let found = &searched.found[0];
            let rate = found.value.unwrap();
            assert!(rate <= capacity + 1.0 && rate > capacity * 0.998, "{rate} of {capacity}");
            let bounds = found.bounds.unwrap();
            assert_eq!(bounds.low, Some(rate));
            assert!(capacity <= bounds.high.unwrap(), "{bounds:?}");
            // The bounds of a search are no confidence interval.
            assert!(found.interval.is_none() && searched.open.is_empty());
        }
    }

    #[test]
    fn a_path_that_passes_all_says_so_and_one_that_passes_nothing_has_no_figure() {
        let searched = search(&terms(SearchKind::Throughput), &mut path(2e6)).unwrap();
        let found = &searched.found[0];
        assert_eq!((found.value, found.bounds.unwrap().high), (Some(1e6), None));
        assert!(!found.text.is_empty() && searched.open.is_empty());
        let mut trials = 0;
        let mut inner = path(10.0);
        let mut counted = |ask: TrialRequest| {
            trials += 1;
            assert!(ask.rate >= 1000.0, "no rate below the least is asked for: {ask:?}");
            inner(ask)
        };
        let searched = search(&terms(SearchKind::Throughput), &mut counted).unwrap();
        assert_eq!((searched.found[0].value, searched.open.len()), (None, 1));
        assert!(trials < 40, "{trials} trials");
    }

    #[test]
    fn what_the_sender_bounds_is_no_figure_and_leaves_the_search_open() {
        let searched = search(&terms(SearchKind::Throughput), &mut weak(300_000.0)).unwrap();
        let found = &searched.found[0];
        // Nothing was lost: only a lower bound is known.
        assert_eq!(found.value, None);
        let bounds = found.bounds.unwrap();
        assert!((299_000.0..=304_000.0).contains(&bounds.low.unwrap()) && bounds.high.is_none());
        assert!(found.text.contains("sender"), "{}", found.text);
        let [open] = &searched.open[..] else { panic!("{:?}", searched.open) };
        assert!(open.starts_with("throughput: ") && open.contains("sender"), "{open}");
    }

    #[test]
    fn frame_loss_of_a_rate_that_was_not_sent_is_absent() {
        let searched = search(&terms(SearchKind::FrameLoss), &mut weak(850_000.0)).unwrap();
        let values: Vec<Option<f64>> = searched.found.iter().map(|f| f.value).collect();
        assert_eq!(values, [None, None, Some(0.0), Some(0.0)]);
        let text = &searched.found[0].text;
        assert!(text.contains(" 850 kpackets/s") && text.contains(" 1 Mpackets/s"), "{text}");
        assert!(searched.found[2].text.starts_with("800 kpackets/s"));
        let [open] = &searched.open[..] else { panic!("{:?}", searched.open) };
        assert!(open.starts_with("frame loss: ") && open.contains("2 of 4"), "{open}");
    }

    #[test]
    fn a_burst_that_was_spread_is_no_burst() {
        let mut inner = path(1.0);
        let mut spread = |ask: TrialRequest| {
            let mut trial = inner(ask)?;
            (trial.sent_rate, trial.lost) = (Some(ask.rate / 3.0), 0);
            Ok::<_, ()>(trial)
        };
        let searched = search(&terms(SearchKind::BackToBack), &mut spread).unwrap();
        assert_eq!(searched.found[0].value, None);
        assert!(searched.open[0].contains("sender"), "{:?}", searched.open);
    }

    #[test]
    fn a_host_limited_trial_is_done_again() {
        for short in [false, true] {
            let mut inner = path(2e6);
            let mut calls = 0;
            let mut hiccup = |ask: TrialRequest| {
                calls += 1;
                let mut trial = inner(ask)?;
                if calls == 1 {
                    trial.host_limited = true;
                    match short {
                        true => trial.sent_rate = Some(1.0),
                        false => trial.lost = 5,
                    }
                }
                Ok::<_, ()>(trial)
            };
            let searched = search(&terms(SearchKind::Throughput), &mut hiccup).unwrap();
            assert_eq!((searched.found[0].value, calls), (Some(1e6), 2));
            assert!(searched.open.is_empty());
        }
    }

    #[test]
    fn loss_of_a_host_limited_host_leaves_the_search_open() {
        let mut inner = path(400_000.0);
        let mut busy = |ask: TrialRequest| {
            let trial = inner(ask)?;
            Ok::<_, ()>(Trial { host_limited: trial.lost > 0, ..trial })
        };
        let searched = search(&terms(SearchKind::Throughput), &mut busy).unwrap();
        assert!(searched.found[0].value.is_some() && searched.found[0].host_limited);
        let [open] = &searched.open[..] else { panic!("{:?}", searched.open) };
        assert!(open.contains("host"), "{open}");
    }

    #[test]
    fn latency_is_the_mean_at_the_throughput_of_trials_that_all_tell_it() {
        let terms = Terms { runs: 3, ..terms(SearchKind::Latency) };
        let searched = search(&terms, &mut path(50_000.0)).unwrap();
        let of = |searched: &SearchResult| {
            searched.found.iter().find(|f| f.name == "mean latency").unwrap().clone()
        };
        assert!((of(&searched).value.unwrap() - 0.002).abs() < 1e-12);
        assert!(of(&searched).text.contains("3 trials") && searched.open.is_empty());
        let mut inner = path(2e6);
        let mut deaf = |ask: TrialRequest| {
            let mut trial = inner(ask)?;
            if ask.number == 3 {
                trial.delays.clear();
            }
            Ok::<_, ()>(trial)
        };
        let searched = search(&terms, &mut deaf).unwrap();
        assert_eq!(of(&searched).value, None);
        let [open] = &searched.open[..] else { panic!("{:?}", searched.open) };
        assert!(open.starts_with("mean latency: ") && open.contains("2 of 3"), "{open}");
    }

    #[test]
    fn frame_loss_goes_down_until_two_trials_are_clean() {
        let searched = search(&terms(SearchKind::FrameLoss), &mut path(750_000.0)).unwrap();
        let found = searched.found;
        let shares: Vec<_> = found.iter().map(|f| f.at["rate"].as_str()).collect();
        assert_eq!(shares, ["100 %", "90 %", "80 %", "70 %", "60 %"]);
        assert!((found[0].value.unwrap() - 0.25).abs() < 1e-6);
        assert_eq!(found[4].value, Some(0.0));
    }

    #[test]
    fn the_longest_burst_is_found() {
        let searched = search(&terms(SearchKind::BackToBack), &mut path(1.0)).unwrap();
        let burst = searched.found[0].value.unwrap();
        assert!((4990.0..=5000.0).contains(&burst), "{burst}");
        assert!(searched.open.is_empty());
    }
}
