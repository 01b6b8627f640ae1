//! The slot of reordering, which needs no delay law.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::loss::{LossLaw, SELECTIONS, Selection, selection_form};
use super::slot::Slot;
use super::time::Time;
use super::value::{whole, word_serde};
use crate::ModelError;
use crate::law::{Words, refuse};
use crate::units::Span;

/// Maximum number of packets of a distance.
const MAX_PACKETS: u32 = 1_000_000;
/// Maximum time of a distance, and of a packet's wait.
const MAX_WAIT: Span = Span::from_seconds(60);
/// The default of [`Reorder::timeout`].
const DEFAULT_TIMEOUT: Span = Span::from_seconds(1);

/// How far a packet moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distance {
    /// By a number of packets.
    Packets(u32),
    /// By a time.
    Time(Span),
}

const DISTANCE_FORM: &str = "packets (3packets) or a time (5ms)";

impl Default for Distance {
    fn default() -> Self {
        Distance::Packets(1)
    }
}

impl FromStr for Distance {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad =
            || ModelError::Value { what: "distance", given: text.into(), accepted: DISTANCE_FORM };
        let word = text.trim();
        match word.strip_suffix("packets").or_else(|| word.strip_suffix("packet")) {
            Some(number) => whole(number).map(Distance::Packets).ok_or_else(bad),
            None => word.parse::<Time>().map(|time| Distance::Time(time.0)).map_err(|_| bad()),
        }
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Distance::Packets(1) => f.write_str("1packet"),
            Distance::Packets(n) => write!(f, "{n}packets"),
            Distance::Time(span) => span.fmt(f),
        }
    }
}

word_serde!(Distance, "packets (3packets) or a time (5ms)", ["3packets", "5ms"]);

/// Reordering: selected packets leave later or earlier than others of their flow. Exactly one of percentage and every_nth is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-one-of" = SELECTIONS))]
pub struct Reorder {
    /// Probability that a packet is selected, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Random", example = 5)]
    pub percentage: Option<f64>,
    /// Every n-th packet is selected, starting with the n-th.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Every n-th packet", example = 20)]
    pub every_nth: Option<u64>,
    /// Correlation of the selection of consecutive packets, in percent, 0 to below 100. Only with `percentage`, which stays the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 50)]
    pub correlation_percentage: Option<f64>,
    /// How far a selected packet moves: 1 to 1 000 000 packets, or a time up to 60 s. A packet moves later by packets when that many later ones have left.
    #[serde(default)]
    pub distance: Distance,
    /// `true`: selected packets overtake; all others wait for the distance. `false`: selected packets are overtaken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(example = true)]
    pub ahead: bool,
    /// Maximum time that a packet waits for others, if the distance is in packets; up to 60 s.
    #[serde(default = "default_timeout", skip_serializing_if = "is_default_timeout")]
    #[schemars(example = "100ms")]
    pub timeout: Span,
}

fn default_timeout() -> Span {
    DEFAULT_TIMEOUT
}

fn is_default_timeout(timeout: &Span) -> bool {
    *timeout == DEFAULT_TIMEOUT
}

impl Reorder {
    fn selection(&self) -> Selection {
        let Self { percentage, every_nth, correlation_percentage, .. } = *self;
        Selection { percentage, every_nth, correlation_percentage }
    }

    /// The running law that selects packets, before its first packet; `None` if it selects none.
    #[must_use]
    pub fn selects(&self) -> Option<LossLaw> {
        self.selection().start()
    }

    /// The probability that a packet leaves after a later one, if packets are selected independently and move by packets.
    #[must_use]
    pub fn probability(&self) -> Option<f64> {
        let is_independent = self.correlation_percentage.is_none() && self.mean().is_some();
        self.percentage.filter(|_| is_independent).map(|percentage| percentage / 100.0)
    }

    /// Fraction of packets that leave after a later one, in the long run; `None` if it depends on the spacing of packets.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let is_exact = !self.ahead && matches!(self.distance, Distance::Packets(_));
        is_exact.then(|| self.selection().mean())
    }
}

impl Slot for Reorder {
    const TERM: &'static str = "reorder";
    const OTHER_NAMES: &'static [&'static str] = &["reordering", "gap"];

    fn form() -> &'static str {
        concat!("reorder ", selection_form!(), " [by Npackets|T] [ahead] [within T]")
    }

    fn read(words: &mut Words) -> Result<Self, ModelError> {
        let Selection { percentage, every_nth, correlation_percentage } = Selection::read(words)?;
        let distance = if words.took("by") { words.value()? } else { Distance::default() };
        let ahead = words.took("ahead");
        let timeout = if words.took("within") {
            words.next().and_then(|word| words.span(word))?
        } else {
            DEFAULT_TIMEOUT
        };
        Ok(Self { percentage, every_nth, correlation_percentage, distance, ahead, timeout })
    }

    fn text(&self) -> String {
        let mut text = format!("reorder {} by {}", self.selection().text(), self.distance);
        if self.ahead {
            text += " ahead";
        }
        if self.timeout != DEFAULT_TIMEOUT {
            text += &format!(" within {}", self.timeout);
        }
        text
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        self.selection().check(at)?;
        let is_valid = match self.distance {
            Distance::Packets(n) => (1..=MAX_PACKETS).contains(&n),
            Distance::Time(time) => time.0 > 0 && time <= MAX_WAIT,
        };
        if !is_valid {
            let accepted = "1 to 1000000 packets, or a time above 0, up to 60s";
            return refuse(at, "distance", self.distance, accepted);
        }
        if self.timeout.0 == 0 || self.timeout > MAX_WAIT {
            return refuse(at, "timeout", self.timeout, "above 0, up to 60s");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::ModelError;
    use crate::impairment::Laws;

    #[test]
    fn forms_are_read_and_written() {
        for (given, printed) in [
            ("reorder 5%", "reorder 5% by 1packet"),
            ("reorder 25% 50% by 3 packets", "reorder 25% 50% by 3packets"),
            ("reorder every 5 by 10ms ahead", "reorder every 5 by 10ms ahead"),
            ("reorder 1% by 2packets within 50ms", "reorder 1% by 2packets within 50ms"),
        ] {
            let laws: Laws = given.parse().unwrap();
            assert_eq!(laws.to_string(), printed);
            assert_eq!(printed.parse::<Laws>().unwrap(), laws);
        }
        let mean = |text: &str| text.parse::<Laws>().unwrap().reorder.unwrap().mean();
        assert_eq!(mean("reorder every 4"), Some(0.25));
        let probability = |text: &str| text.parse::<Laws>().unwrap().reorder.unwrap().probability();
        assert_eq!(probability("reorder 5% by 3packets"), Some(0.05));
        for text in ["reorder every 4", "reorder 5% 20%", "reorder 5% by 1ms", "reorder 5% ahead"] {
            assert_eq!(probability(text), None, "{text}");
        }
        assert_eq!((mean("reorder 5% by 1ms"), mean("reorder 5% ahead")), (None, None));
    }

    #[test]
    fn parameters_are_checked() {
        for (text, field) in [
            ("101%", "percentage"),
            ("every 0", "every_nth"),
            ("5% 100%", "correlation_percentage"),
            ("5% by 0packets", "distance"),
            ("5% by 61s", "distance"),
            ("5% within 0s", "timeout"),
            ("5% within 61s", "timeout"),
        ] {
            let error = format!("reorder {text}").parse::<Laws>().unwrap_err();
            let ModelError::Field { field: refused, .. } = error else {
                panic!("{text}: {error:?}")
            };
            assert_eq!(refused, format!("impairment.reorder.{field}"), "{text}");
        }
    }
}
