//! Multiple loss ratio search: non-drop and partial-drop rate, a subset of draft-ietf-bmwg-mlrsearch with trials of
//! one length.
//!
//! A goal's *relevant upper bound* is the smallest load that exceeds it; its *relevant lower bound* is the largest
//! load below that which does not. With random loss a larger load may pass by chance, which is ignored.

use super::*;

/// The result of one trial.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    loss: f64,
    /// Rate of its sender.
    sent_rate: Option<f64>,
    is_short: bool,
    host_limited: bool,
}

impl Seen {
    /// Packets that the sender did not send count as lost.
    fn exceeds(&self, goal: f64) -> bool {
        self.is_short || self.loss > goal
    }
}

/// A load with its trials.
struct Load {
    rate: f64,
    trials: Vec<Seen>,
}

impl Load {
    fn class(&self, needed: usize, goal: f64) -> Option<bool> {
        let exceeding: Vec<bool> = self.trials.iter().map(|t| t.exceeds(goal)).collect();
        class(&exceeding, needed)
    }

    /// Why a load is an upper bound.
    fn cause(&self, needed: usize, goal: f64) -> Cause {
        let only = |of: &dyn Fn(&Seen) -> bool| -> bool {
            let exceeding: Vec<bool> = self.trials.iter().map(of).collect();
            class(&exceeding, needed) == Some(false)
        };
        if only(&|t| t.loss > goal && !t.host_limited) {
            Cause::Path
        } else if only(&|t| t.loss > goal) {
            Cause::HostLimited
        } else {
            let short = self.trials.iter().filter(|t| t.is_short);
            Cause::Sender(short.filter_map(|t| t.sent_rate).max_by(f64::total_cmp))
        }
    }

    /// The median loss ratio of the trials.
    fn middle_loss(&self, needed: usize) -> f64 {
        let mut losses: Vec<f64> =
            self.trials.iter().map(|t| if t.is_short { 1.0 } else { t.loss }).collect();
        losses.sort_by(f64::total_cmp);
        // Trials that were skipped count as worse.
        let place = needed.max(losses.len()).div_ceil(2) - 1;
        losses.get(place).copied().unwrap_or(1.0)
    }
}

impl<E> Searching<'_, E> {
    /// Non-drop and partial-drop rates. Each load is measured until the remaining trials cannot change its class: at
    /// most `runs` trials, of which at most half may exceed the goal's loss ratio (the exceed ratio).
    pub(super) fn mlrsearch(&mut self) -> Result<Vec<Found>, E> {
        let terms = self.terms;
        let needed = terms.runs.max(1) as usize;
        let mut loads: Vec<Load> = vec![];
        let mut out = vec![];
        for (name, goal) in [("NDR", 0.0), ("PDR", terms.loss)] {
            let (bracket, conditional) = self.goal(goal, needed, &mut loads)?;
            let found = self.of_bracket(name, terms.unit, &bracket);
            let conditional = conditional.filter(|_| found.value.is_some());
            let (is_open, host_limited) = (found.value.is_none(), found.host_limited);
            out.push(found);
            if !is_open {
                let name = format!("{name} conditional throughput");
                let text = "received at the relevant lower bound";
                let found = self.found(&name, conditional, terms.unit, text);
                out.push(Found { host_limited, ..found });
            }
        }
        Ok(out)
    }

    /// Narrows the relevant bounds of a goal, and computes its conditional throughput.
    fn goal(
        &mut self,
        goal: f64,
        needed: usize,
        loads: &mut Vec<Load>,
    ) -> Result<(Bracket, Option<f64>), E> {
        let terms = self.terms;
        loop {
            // Trials of earlier goals narrow the bounds without new ones.
            let of =
                |is_low: bool| loads.iter().filter(move |l| l.class(needed, goal) == Some(is_low));
            let upper = of(false).min_by(|a, b| a.rate.total_cmp(&b.rate));
            let below = upper.map_or(f64::INFINITY, |u| u.rate);
            let lower =
                of(true).filter(|l| l.rate < below).max_by(|a, b| a.rate.total_cmp(&b.rate));
            let next = terms.next(lower.map(|l| l.rate), upper.map(|u| u.rate));
            let Some(rate) = next.filter(|_| !self.is_over()) else {
                let bracket = Bracket {
                    low: lower.map(|l| (l.rate, Trial::default())),
                    high: upper.map(|u| (u.rate, u.cause(needed, goal))),
                    is_incomplete: next.is_some(),
                };
                let conditional = lower.map(|l| l.rate * (1.0 - l.middle_loss(needed)));
                return Ok((bracket, conditional));
            };
            self.classify(rate, goal, needed, loads)?;
        }
    }

    /// Measures a load until its class is known.
    fn classify(
        &mut self,
        rate: f64,
        goal: f64,
        needed: usize,
        loads: &mut Vec<Load>,
    ) -> Result<(), E> {
        let place = loads.iter().position(|l| l.rate == rate).unwrap_or_else(|| {
            loads.push(Load { rate, trials: vec![] });
            loads.len() - 1
        });
        while loads[place].class(needed, goal).is_none() && !self.is_over() {
            let trial = self.judged(rate, None, goal)?;
            let is_short = !trial.is_offered(self.ask(rate, None));
            // If nothing was sent, the path lost nothing.
            let loss = if trial.sent == 0 { 0.0 } else { trial.loss() };
            loads[place].trials.push(Seen {
                loss,
                sent_rate: trial.sent_rate,
                is_short,
                host_limited: trial.host_limited,
            });
        }
        Ok(())
    }
}

/// The class of a load: lower bound of a goal (`true`), upper bound (`false`), or not yet known. `exceeding` has an
/// entry per trial: whether it exceeds the goal.
fn class(exceeding: &[bool], needed: usize) -> Option<bool> {
    let whole = needed.max(exceeding.len());
    let open = whole - exceeding.len();
    let exceeding = exceeding.iter().filter(|e| **e).count();
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
    use weir_stats::compare::SplitMix64;

    use super::super::virtual_path::{path, terms, weak};
    use super::*;

    #[test]
    fn two_loss_ratios_are_found_in_one_search() {
        let terms = Terms { loss: 0.005, runs: 3, ..terms(SearchKind::Mlrsearch) };
        let searched = search(&terms, &mut path(400_000.0)).unwrap();
        let names: Vec<&str> = searched.found.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(
            names,
            ["NDR", "NDR conditional throughput", "PDR", "PDR conditional throughput"]
        );
        let value = |i: usize| searched.found[i].value.unwrap();
        assert!((399_000.0..=400_001.0).contains(&value(0)), "{}", value(0));
        assert_eq!(value(1), value(0), "nothing was lost there");
        // At r the loss is 1 − 400 000 / r: half a per cent at 402 010.
        assert!((401_000.0..=402_011.0).contains(&value(2)), "{}", value(2));
        assert!((value(3) - 400_000.0).abs() < 2.0, "{}", value(3));
        assert!(searched.open.is_empty());
    }

    /// Random loss near the goal: each load passes by chance, but the bounds stay ordered and close.
    #[test]
    fn random_loss_about_the_goal_leaves_bounds_in_order() {
        for seed in 0..200 {
            let mut random = SplitMix64::new(seed);
            let mut inner = path(2e6);
            let mut lossy = |ask: TrialRequest| {
                let mut trial = inner(ask)?;
                trial.lost = (trial.sent as f64 * 0.01 * random.unit()) as u64;
                Ok::<_, ()>(trial)
            };
            let terms = Terms {
                loss: 0.005,
                precision: 0.02,
                low: 500.0,
                high: 20_000.0,
                ..terms(SearchKind::Mlrsearch)
            };
            let searched = search(&terms, &mut lossy).unwrap();
            for found in searched.found.iter().filter(|f| f.bounds.is_some()) {
                let bounds = found.bounds.unwrap();
                let (Some(low), Some(high)) = (bounds.low, bounds.high) else { continue };
                assert!(low < high, "seed {seed}: {found:?}");
                assert!(high - low <= 0.02 * high, "seed {seed}: {found:?}");
                assert_eq!(found.value, Some(low), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_host_limited_trial_that_lost_is_made_again_for_either_goal() {
        let terms = Terms { loss: 0.005, ..terms(SearchKind::Mlrsearch) };
        let mut inner = path(2e6);
        let mut calls = 0;
        // 0.1 %: too much for the non-drop rate alone.
        let mut hiccup = |ask: TrialRequest| {
            calls += 1;
            let mut trial = inner(ask)?;
            if calls == 1 {
                (trial.lost, trial.host_limited) = (trial.sent / 1000, true);
            }
            Ok::<_, ()>(trial)
        };
        let searched = search(&terms, &mut hiccup).unwrap();
        assert_eq!((searched.found[0].value, calls), (Some(1e6), 2));
    }

    #[test]
    fn a_sender_that_falls_short_leaves_both_rates_open() {
        let terms = Terms { loss: 0.005, runs: 3, ..terms(SearchKind::Mlrsearch) };
        let searched = search(&terms, &mut weak(300_000.0)).unwrap();
        assert!(searched.found.iter().all(|f| f.value.is_none()), "{:?}", searched.found);
        assert_eq!((searched.found.len(), searched.open.len()), (2, 2));
    }

    #[test]
    fn a_load_is_classed_when_its_open_trials_can_no_more_change_it() {
        assert_eq!(class(&[false], 1), Some(true));
        assert_eq!(class(&[true], 1), Some(false));
        assert_eq!(class(&[true], 3), None);
        assert_eq!(class(&[false, false], 3), Some(true));
        assert_eq!(class(&[true, false], 3), None);
        assert_eq!(class(&[true, false, true], 3), Some(false));
    }

    #[test]
    fn the_middle_loss_is_that_which_at_most_half_exceed() {
        let load = |losses: &[f64]| Load {
            rate: 1.0,
            trials: losses
                .iter()
                .map(|loss| Seen {
                    loss: *loss,
                    sent_rate: None,
                    is_short: false,
                    host_limited: false,
                })
                .collect(),
        };
        assert_eq!(load(&[0.3, 0.1, 0.2]).middle_loss(3), 0.2);
        // The third trial was skipped.
        assert_eq!(load(&[0.1, 0.0]).middle_loss(3), 0.1);
        assert_eq!(load(&[0.4, 0.1, 0.2, 0.3]).middle_loss(4), 0.2);
    }
}
