//! Bursty loss with gaps inside bursts: a Markov chain of four states (Salsano, Ludovici, Ordine, Giannuzzi: "Definition of
//! a general and intuitive loss model for packet networks and its implementation in the Netem module in the Linux kernel",
//! 2012; the loss model of ETSI TS 101 329-5, annex E).
//!
//! State 1: received in a gap; 2: received within a burst; 3: lost within a burst; 4: lost alone, in a gap.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::{Chance, Draws};

use super::{LossChain, LossMoments, LossProcess, LossRule};
use crate::ModelError;
use crate::law::{Law, Running, check_percentage, refuse};

/// Bursty loss with gaps inside bursts: a Markov chain of four states, 1 received in a gap, 2 received within a burst, 3 lost within a burst, 4 lost alone. Each p is the probability of going from one state to another, in percent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Four-state Markov chain")]
pub struct FourState {
    /// From the gap into a burst. With p14 at most 100.
    #[schemars(example = 1)]
    pub p13_percentage: f64,
    /// From a burst into the gap. With p32 at most 100. Absent: 100 − p13.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 30)]
    pub p31_percentage: Option<f64>,
    /// From lost to received within a burst. Absent: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 20)]
    pub p32_percentage: Option<f64>,
    /// From received to lost within a burst; above 0 if p32 is. Absent: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 50)]
    pub p23_percentage: Option<f64>,
    /// From the gap to a single loss. Absent: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 0.1)]
    pub p14_percentage: Option<f64>,
}

/// The probabilities, each 0 to 1.
#[derive(Debug, Clone, Copy)]
struct Steps {
    p13: f64,
    p31: f64,
    p32: f64,
    p23: f64,
    p14: f64,
}

impl Steps {
    /// Fraction of packets in each state, from the balance of each state's entries and exits.
    fn stationary(&self) -> [f64; 4] {
        let Steps { p13, p31, p32, p23, p14 } = *self;
        if p13 == 0.0 {
            // The burst is never entered.
            return [1.0 / (1.0 + p14), 0.0, 0.0, p14 / (1.0 + p14)];
        }
        // Without p32 state 2 is never entered, so that its exits do not matter.
        let p23 = if p32 == 0.0 { 1.0 } else { p23 };
        let weights = [p31 * p23, p13 * p32, p13 * p23, p14 * p31 * p23];
        let sum: f64 = weights.iter().sum();
        weights.map(|weight| weight / sum)
    }

    /// Mean length of a loss period, packets. It starts in state 3 from 1 and 2, and in 4 from 1, and lasts
    /// 1/(p31 + p32) packets in state 3 and one in 4.
    fn burst(&self) -> Option<f64> {
        let [one, two, three, four] = self.stationary();
        let begin = one * (self.p13 + self.p14) + two * self.p23;
        (begin > 0.0).then(|| (three + four) / begin)
    }
}

impl FourState {
    fn steps(&self) -> Steps {
        let part = |value: Option<f64>, default: f64| value.unwrap_or(default) / 100.0;
        Steps {
            p13: self.p13_percentage / 100.0,
            p31: part(self.p31_percentage, 100.0 - self.p13_percentage),
            p32: part(self.p32_percentage, 0.0),
            p23: part(self.p23_percentage, 100.0),
            p14: part(self.p14_percentage, 0.0),
        }
    }
}

impl Law for FourState {
    type Running = FourStates;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        for (field, value) in [
            ("p13_percentage", Some(self.p13_percentage)),
            ("p31_percentage", self.p31_percentage),
            ("p32_percentage", self.p32_percentage),
            ("p23_percentage", self.p23_percentage),
            ("p14_percentage", self.p14_percentage),
        ] {
            check_percentage(at, field, value.unwrap_or(0.0))?;
        }
        let Steps { p31, p32, p23, .. } = self.steps();
        // The sums are of the given percentages: whole numbers add up exactly.
        let most = |field, value: Option<f64>, other: f64, accepted: &str| match value {
            Some(value) if value + other > 100.0 => refuse(at, field, value, accepted),
            _ => Ok(()),
        };
        most("p14_percentage", self.p14_percentage, self.p13_percentage, "at most 100 - p13")?;
        let back = self.p31_percentage.unwrap_or(100.0 - self.p13_percentage);
        most("p32_percentage", self.p32_percentage, back, "at most 100 - p31")?;
        if p32 > 0.0 && p23 == 0.0 {
            return refuse(at, "p23_percentage", 0, "above 0, since p32 is");
        }
        if self.p13_percentage > 0.0 && p31 == 0.0 {
            return refuse(at, "p31_percentage", 0, "above 0, so that bursts end");
        }
        Ok(())
    }

    fn start(&self) -> FourStates {
        let Steps { p13, p31, p32, p23, p14 } = self.steps();
        let [one, two, three, _] = self.steps().stationary();
        let start = [one, one + two, one + two + three];
        FourStates {
            start: start.map(Chance::new),
            p14: Chance::new(p14),
            p14_or_p13: Chance::new(p14 + p13),
            p23: Chance::new(p23),
            p32: Chance::new(p32),
            p32_or_p31: Chance::new(p32 + p31),
            state: None,
        }
    }
}

/// A state of the chain.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Gap,
    Kept,
    Burst,
    Alone,
}

/// The state of the first packet is drawn from the stationary distribution (draw 0, states in their order);
/// each further packet changes it by draw 0.
#[derive(Clone, Debug, PartialEq)]
pub struct FourStates {
    start: [Chance; 3],
    p14: Chance,
    p14_or_p13: Chance,
    p23: Chance,
    p32: Chance,
    p32_or_p31: Chance,
    state: Option<State>,
}

impl Running for FourStates {
    type Outcome = bool;

    #[inline]
    fn next(&mut self, draws: &mut Draws) -> bool {
        let bits = draws.bits();
        let state = match self.state {
            None => match self.start.map(|chance| chance.happens(bits)) {
                [true, ..] => State::Gap,
                [_, true, _] => State::Kept,
                [_, _, true] => State::Burst,
                _ => State::Alone,
            },
            Some(State::Gap) if self.p14.happens(bits) => State::Alone,
            Some(State::Gap) if self.p14_or_p13.happens(bits) => State::Burst,
            Some(State::Gap) => State::Gap,
            Some(State::Kept) if self.p23.happens(bits) => State::Burst,
            Some(State::Kept) => State::Kept,
            Some(State::Burst) if self.p32.happens(bits) => State::Kept,
            Some(State::Burst) if self.p32_or_p31.happens(bits) => State::Gap,
            Some(State::Burst) => State::Burst,
            Some(State::Alone) => State::Gap,
        };
        self.state = Some(state);
        matches!(state, State::Burst | State::Alone)
    }
}

impl LossRule for FourState {
    fn process(&self) -> Option<LossProcess> {
        let Steps { p13, p31, p32, p23, p14 } = self.steps();
        // States that are never entered lead to the others: as a chain of their own they would spoil the moments.
        let (p31, p32) = if p13 == 0.0 { (1.0, 0.0) } else { (p31, p32) };
        let p23 = if p32 == 0.0 { 1.0 } else { p23 };
        Some(LossProcess::Chain(LossChain {
            stationary: self.steps().stationary().to_vec(),
            step: vec![
                vec![1.0 - p13 - p14, 0.0, p13, p14],
                vec![0.0, 1.0 - p23, p23, 0.0],
                vec![p31, p32, 1.0 - p31 - p32, 0.0],
                vec![1.0, 0.0, 0.0, 0.0],
            ],
            loss: vec![0.0, 0.0, 1.0, 1.0],
        }))
    }

    fn moments(&self) -> Option<LossMoments> {
        let [_, _, three, four] = self.steps().stationary();
        let burst = self.steps().burst();
        let of_chain = self.process()?.moments();
        Some(LossMoments { mean: three + four, burst, ..of_chain })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{burst_within, losses, moments, within};
    use super::*;
    use crate::impairment::Laws;

    const LAWS: [&str; 6] = [
        "loss four_state(p13_percentage=1, p31_percentage=30, p32_percentage=20, p23_percentage=50, p14_percentage=0.1)",
        "loss four_state(p13_percentage=2, p31_percentage=25)",
        "loss four_state(p13_percentage=5)",
        "loss four_state(p13_percentage=0, p14_percentage=3)",
        "loss four_state(p13_percentage=0.5, p31_percentage=5, p32_percentage=60, p23_percentage=90)",
        "loss four_state(p13_percentage=40, p31_percentage=60, p32_percentage=40, p23_percentage=10, p14_percentage=60)",
    ];

    #[test]
    fn closed_forms_are_those_of_the_chain() {
        for text in LAWS {
            let Some(LossProcess::Chain(chain)) = slot(text).process() else { panic!("{text}") };
            // π·P = π.
            for to in 0..4 {
                let into: f64 = (0..4).map(|i| chain.stationary[i] * chain.step[i][to]).sum();
                assert!((into - chain.stationary[to]).abs() < 1e-12, "{text}: state {to}");
            }
            let (closed, general) = (moments(text), LossProcess::Chain(chain).moments());
            assert!((closed.mean - general.mean).abs() < 1e-12, "{text}");
            assert!((closed.burst.unwrap() - general.burst.unwrap()).abs() < 1e-9, "{text}");
        }
        // By hand: states 1 and 3 alone are a two-state chain of mean burst length 1/p31 and loss p13/(p13 +
        // p31).
        let simple = moments(LAWS[1]);
        assert!((simple.mean - 0.02 / 0.27).abs() < 1e-12);
        assert!((simple.burst.unwrap() - 4.0).abs() < 1e-12);
        let chain = moments("loss ge 2% to-good 25%");
        assert!((simple.variance - chain.variance).abs() < 1e-9, "{simple:?} {chain:?}");
    }

    #[test]
    fn states_that_are_never_entered_change_nothing() {
        for (text, same) in [
            ("p13_percentage=2, p31_percentage=25, p23_percentage=0", LAWS[1]),
            ("p13_percentage=0, p14_percentage=3, p31_percentage=0", LAWS[3]),
            ("p13_percentage=0, p14_percentage=3, p31_percentage=0, p23_percentage=0", LAWS[3]),
        ] {
            let (odd, plain) = (moments(&format!("loss four_state({text})")), moments(same));
            assert!((odd.variance - plain.variance).abs() < 1e-12, "{text}: {odd:?} {plain:?}");
            assert_eq!((odd.mean, odd.burst), (plain.mean, plain.burst), "{text}");
        }
    }

    #[test]
    fn losses_follow_the_closed_forms() {
        for text in LAWS {
            for seed in [1, 2, 3] {
                let lost = losses(text, seed, 400_000);
                within(text, &lost);
                burst_within(text, &lost);
            }
        }
    }

    #[test]
    fn the_first_packet_has_the_stationary_distribution() {
        let first = (0..20_000).filter(|seed| losses(LAWS[5], *seed, 1)[0]).count() as f64;
        let p = moments(LAWS[5]).mean;
        assert!((first - 20_000.0 * p).abs() < 5.0 * (20_000.0 * p * (1.0 - p)).sqrt(), "{first}");
    }

    #[test]
    fn parameters_are_checked() {
        for (text, field) in [
            ("p13_percentage=101", "p13"),
            ("p13_percentage=60, p14_percentage=41", "p14"),
            ("p13_percentage=1, p31_percentage=60, p32_percentage=41", "p32"),
            ("p13_percentage=1, p32_percentage=2", "p32"),
            ("p13_percentage=1, p31_percentage=9, p32_percentage=1, p23_percentage=0", "p23"),
            ("p13_percentage=1, p31_percentage=0", "p31"),
            ("p31_percentage=1", "p13"),
        ] {
            let error = format!("loss four_state({text})").parse::<Laws>().unwrap_err();
            let ModelError::Field { field: named, .. } = error else { panic!("{text}") };
            assert_eq!(named, format!("impairment.loss.four_state.{field}_percentage"), "{text}");
        }
        assert_eq!(
            "loss four_state(p13_percentage=1%, p31_percentage = 30%)".parse::<Laws>().unwrap().to_string(),
            "loss four_state(p13_percentage=1, p31_percentage=30)"
        );
    }

    fn slot(text: &str) -> FourState {
        text.parse::<Laws>().unwrap().loss.unwrap().four_state.unwrap()
    }
}
