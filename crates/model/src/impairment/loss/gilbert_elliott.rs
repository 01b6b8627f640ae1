//! Bursty loss: the Gilbert-Elliott model (Gilbert, BSTJ 1960; Elliott, BSTJ 1963; parameters named as by
//! Hasslinger and Hohlfeld, 2008).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::{Chance, Draws};

use super::{LossChain, LossProcess, LossRule};
use crate::ModelError;
use crate::law::{Law, Running, Words, check_percentage, refuse};

/// Bursty loss by the Gilbert-Elliott model of two states: by mean loss and mean burst length, or by four
/// probabilities.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Gilbert-Elliott", transform = crate::schema::in_order::<GilbertElliott>)]
#[schemars(extend("examples" = [{ "loss_percentage": 1, "mean_run": 3 }, { "good_to_bad_percentage": 1, "bad_to_good_percentage": 30 }]))]
pub struct GilbertElliott {
    /// Mean loss in percent, all of it in the bad state. Together with `mean_run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 1)]
    pub loss_percentage: Option<f64>,
    /// Mean length of a loss burst, packets, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Mean burst length", example = 3, extend("x-unit" = "packets"))]
    pub mean_run: Option<f64>,
    /// Probability p of going from good to bad at each packet, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 1)]
    pub good_to_bad_percentage: Option<f64>,
    /// Probability r of going from bad to good, in percent. Absent: 100 − p.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 30)]
    pub bad_to_good_percentage: Option<f64>,
    /// Loss in the bad state, 1 − h, in percent. Absent: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 100)]
    pub bad_loss_percentage: Option<f64>,
    /// Loss in the good state, 1 − k, in percent. Absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 0)]
    pub good_loss_percentage: Option<f64>,
}

/// The four probabilities of the model, each 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Chain {
    /// p: from good to bad.
    to_bad: f64,
    /// r: from bad to good.
    to_good: f64,
    /// 1 − h: loss in the bad state.
    bad_loss: f64,
    /// 1 − k: loss in the good state.
    good_loss: f64,
}

impl Chain {
    /// The fraction of packets in the bad state: p/(p + r).
    fn bad(&self) -> f64 {
        self.to_bad / (self.to_bad + self.to_good)
    }
}

impl GilbertElliott {
    /// The four probabilities. From mean loss l and mean run B: r = 1/B, p = l/(B(1 − l)).
    fn chain(&self) -> Chain {
        if let (Some(loss), Some(run)) = (self.loss_percentage, self.mean_run) {
            let l = loss / 100.0;
            return Chain {
                to_bad: l / (run * (1.0 - l)),
                to_good: 1.0 / run,
                bad_loss: 1.0,
                good_loss: 0.0,
            };
        }
        let part = |value: Option<f64>, default: f64| value.unwrap_or(default) / 100.0;
        let p = self.good_to_bad_percentage.unwrap_or(0.0);
        Chain {
            to_bad: p / 100.0,
            to_good: part(self.bad_to_good_percentage, 100.0 - p),
            bad_loss: part(self.bad_loss_percentage, 100.0),
            good_loss: part(self.good_loss_percentage, 0.0),
        }
    }

    /// The probabilities with their names.
    fn probabilities(&self) -> [(&'static str, Option<f64>); 4] {
        [
            ("good_to_bad_percentage", self.good_to_bad_percentage),
            ("bad_to_good_percentage", self.bad_to_good_percentage),
            ("bad_loss_percentage", self.bad_loss_percentage),
            ("good_loss_percentage", self.good_loss_percentage),
        ]
    }
}

impl Law for GilbertElliott {
    const SHORT_FORMS: &'static [&'static str] =
        &["P% run N", "ge P% [to-good R%] [bad B%] [good G%]"];
    type Running = TwoStates;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        let mut model = Self::default();
        // netem writes the values by position: gemodel p [r [1-h [1-k]]].
        let is_positional = words.took("gemodel");
        if is_positional || words.took("ge") {
            model.good_to_bad_percentage = Some(words.percent()?);
            for (word, field) in [
                ("to-good", &mut model.bad_to_good_percentage),
                ("bad", &mut model.bad_loss_percentage),
                ("good", &mut model.good_loss_percentage),
            ] {
                if words.took(word) || is_positional && !words.is_law_complete() {
                    *field = Some(words.percent()?);
                }
            }
            return Ok(Some(model));
        }
        model.loss_percentage = words.percent_if_number()?;
        if !words.took("run") {
            return Ok(None);
        }
        model.mean_run = Some(words.value()?);
        Ok(Some(model))
    }

    fn short(&self) -> Option<String> {
        if let (Some(loss), Some(run)) = (self.loss_percentage, self.mean_run) {
            return Some(format!("{loss}% run {run}"));
        }
        let mut text = format!("ge {}%", self.good_to_bad_percentage?);
        for (word, value) in [
            ("to-good", self.bad_to_good_percentage),
            ("bad", self.bad_loss_percentage),
            ("good", self.good_loss_percentage),
        ] {
            if let Some(value) = value {
                text += &format!(" {word} {value}%");
            }
        }
        Some(text)
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        const FORM: &str =
            "loss_percentage with mean_run, or good_to_bad_percentage with the other probabilities";
        match (self.loss_percentage, self.mean_run) {
            (Some(loss), Some(run)) if self.probabilities().iter().all(|(_, p)| p.is_none()) => {
                if !(0.0..100.0).contains(&loss) {
                    return refuse(at, "loss_percentage", loss, "0 to below 100");
                }
                if !(1.0..=1e9).contains(&run) {
                    return refuse(at, "mean_run", run, "1 to 1000000000");
                }
                if self.chain().to_bad > 1.0 {
                    let accepted = "at least loss/(100 − loss), which this loss requires";
                    return refuse(at, "mean_run", run, accepted);
                }
                Ok(())
            }
            (None, None) if self.good_to_bad_percentage.is_some() => {
                for (field, value) in self.probabilities() {
                    check_percentage(at, field, value.unwrap_or(0.0))?;
                }
                let chain = self.chain();
                if chain.to_bad + chain.to_good == 0.0 {
                    return refuse(at, "", "no transitions", "p + r above 0");
                }
                Ok(())
            }
            _ => refuse(at, "", "an incomplete or mixed set", FORM),
        }
    }

    fn start(&self) -> TwoStates {
        let chain = self.chain();
        TwoStates {
            to_bad: Chance::new(chain.to_bad),
            to_good: Chance::new(chain.to_good),
            bad_loss: Chance::new(chain.bad_loss),
            good_loss: Chance::new(chain.good_loss),
            first_bad: Chance::new(chain.bad()),
            bad: None,
        }
    }
}

/// A chain of two states with a loss probability each. The first packet draws the stationary state (draw 0 <
/// p/(p + r) is bad); each further one first changes the state (draw 0). Then draw 1 decides on loss.
#[derive(Clone, Debug, PartialEq)]
pub struct TwoStates {
    to_bad: Chance,
    to_good: Chance,
    bad_loss: Chance,
    good_loss: Chance,
    first_bad: Chance,
    /// Whether the last packet was in the bad state.
    bad: Option<bool>,
}

impl Running for TwoStates {
    type Outcome = bool;

    #[inline]
    fn next(&mut self, draws: &mut Draws) -> bool {
        let bits = draws.bits();
        let bad = match self.bad {
            None => self.first_bad.happens(bits),
            Some(false) => self.to_bad.happens(bits),
            Some(true) => !self.to_good.happens(bits),
        };
        self.bad = Some(bad);
        let loss = if bad { self.bad_loss } else { self.good_loss };
        // Both draws are of one block: the second costs nothing.
        loss.happens(draws.bits())
    }
}

impl LossRule for GilbertElliott {
    fn process(&self) -> Option<LossProcess> {
        let chain = self.chain();
        let Chain { to_bad, to_good, bad_loss, good_loss } = chain;
        Some(LossProcess::Chain(LossChain {
            stationary: vec![1.0 - chain.bad(), chain.bad()],
            step: vec![vec![1.0 - to_bad, to_bad], vec![to_good, 1.0 - to_good]],
            loss: vec![good_loss, bad_loss],
        }))
    }
}
