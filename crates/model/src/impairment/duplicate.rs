//! The slot of duplication.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::loss::{LossLaw, SELECTIONS, Selection, selection_form};
use super::slot::Slot;
use super::time::Timing;
use crate::ModelError;
use crate::law::{Words, refuse};

/// Maximum number of copies of a packet.
const MAX_COPIES: u8 = 100;

/// Duplication: copies with draws of their own in the later stages. Exactly one of percentage and every_nth is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-one-of" = SELECTIONS))]
pub struct Duplicate {
    /// Probability for each packet, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Random", example = 1)]
    pub percentage: Option<f64>,
    /// Every n-th packet is duplicated, starting with the n-th.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Every n-th packet", example = 100)]
    pub every_nth: Option<u64>,
    /// Correlation of the selection of consecutive packets, in percent, 0 to below 100. Only with `percentage`, which stays the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 25)]
    pub correlation_percentage: Option<f64>,
    /// Number of copies of each selected packet, 1 to 100.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(example = 2)]
    pub copies: u8,
    /// The law of the delay of each copy at this stage. Absent: copies immediately follow the original.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = "exponential(mean=5ms)")]
    pub delay: Option<Timing>,
}

fn one() -> u8 {
    1
}

fn is_one(copies: &u8) -> bool {
    *copies == 1
}

impl Duplicate {
    fn selection(&self) -> Selection {
        let Self { percentage, every_nth, correlation_percentage, .. } = *self;
        Selection { percentage, every_nth, correlation_percentage }
    }

    /// The running law that selects packets, before its first packet; `None` if it selects none.
    #[must_use]
    pub fn selects(&self) -> Option<LossLaw> {
        self.selection().start()
    }

    /// Copies per packet, in the long run.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.selection().mean() * f64::from(self.copies)
    }

    /// The probability of a copy, if each packet has one copy at most, independently of others.
    #[must_use]
    pub fn probability(&self) -> Option<f64> {
        let is_independent = self.correlation_percentage.is_none() && self.copies == 1;
        self.percentage.filter(|_| is_independent).map(|percentage| percentage / 100.0)
    }

    /// The number of tables that its law draws from.
    pub(super) fn tables(&self) -> usize {
        self.delay.as_ref().map_or(0, Timing::tables)
    }
}

impl Slot for Duplicate {
    const TERM: &'static str = "duplicate";
    const OTHER_NAMES: &'static [&'static str] = &["dup", "duplication"];

    fn is_stateless(&self) -> bool {
        self.every_nth.is_none() && self.correlation_percentage.is_none() && self.delay.is_none()
    }

    fn form() -> &'static str {
        concat!(
            "duplicate ",
            selection_form!(),
            " [copies N] [after T], with T a time or a law of times"
        )
    }

    fn read(words: &mut Words) -> Result<Self, ModelError> {
        let Selection { percentage, every_nth, correlation_percentage } = Selection::read(words)?;
        let copies = if words.took("copies") { words.value()? } else { 1 };
        let delay = if words.took("after") { Some(Timing::of_words(words)?) } else { None };
        Ok(Self { percentage, every_nth, correlation_percentage, copies, delay })
    }

    fn text(&self) -> String {
        let mut text = format!("duplicate {}", self.selection().text());
        if self.copies != 1 {
            text += &format!(" copies {}", self.copies);
        }
        if let Some(delay) = &self.delay {
            text += &format!(" after {delay}");
        }
        text
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        self.selection().check(at)?;
        if !(1..=MAX_COPIES).contains(&self.copies) {
            return refuse(at, "copies", self.copies, "1 to 100");
        }
        match &self.delay {
            Some(delay) => delay.check(&format!("{at}.delay")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ModelError;
    use crate::impairment::Laws;

    #[test]
    fn forms_are_read_and_written() {
        for (text, mean) in [
            ("duplicate 1%", 0.01),
            ("duplicate 10% 25% copies 3", 0.3),
            ("duplicate every 4 copies 2 after 5ms", 0.5),
            ("duplicate 50% after exponential(mean=5ms)", 0.5),
        ] {
            let laws: Laws = text.parse().unwrap();
            assert_eq!(laws.to_string(), text);
            assert!((laws.duplicate.unwrap().mean() - mean).abs() < 1e-12, "{text}");
        }
        let laws: Laws = "duplicate 1% 25%".parse().unwrap();
        assert_eq!(laws.duplicate.unwrap().probability(), None);
    }

    #[test]
    fn parameters_are_checked() {
        for (text, field) in [
            ("101%", "percentage"),
            ("every 0", "every_nth"),
            ("1% 100%", "correlation_percentage"),
            ("1% copies 0", "copies"),
            ("1% copies 101", "copies"),
            ("1% after normal(mean=2h, deviation=1s)", "delay.normal.mean"),
        ] {
            let error = format!("duplicate {text}").parse::<Laws>().unwrap_err();
            let ModelError::Field { field: refused, .. } = error else {
                panic!("{text}: {error:?}")
            };
            assert_eq!(refused, format!("impairment.duplicate.{field}"), "{text}");
        }
    }
}
