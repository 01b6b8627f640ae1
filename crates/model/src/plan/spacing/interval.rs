//! The time between two packets, as laws state it.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_laws::Draws;

use super::{Spacing, SpacingLaw};
use crate::ModelError;
use crate::law::distribution::{Clamp, Moments, Quantity};
use crate::units::Span;

/// Its accepted forms.
pub(super) const FORM: &str =
    "a time with its unit such as 10ms or 100us, or packets per second such as 500pps";

/// The time between two packets, ns. Written with its unit, or as the packets per second that have it: `500pps` is `2ms`,
/// rounded to nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval(pub Span);

impl FromStr for Interval {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let text = text.trim();
        let bad = || ModelError::Value { what: "interval", given: text.into(), accepted: FORM };
        if let Some(rate) = text.strip_suffix("pps") {
            let rate: f64 = rate.trim().parse().map_err(|_| bad())?;
            return match (1e-9..=1e9).contains(&rate) {
                true => Ok(Self(Span((1e9 / rate).round() as u64))),
                false => Err(bad()),
            };
        }
        // D-ITG reads a number without a unit as milliseconds, flags as seconds.
        let is_bare = text.ends_with(|c: char| c.is_ascii_digit() || c == '.');
        match text.parse() {
            Ok(span) if !is_bare || span == Span(0) => Ok(Self(span)),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Interval;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(FORM)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Interval, E> {
                text.parse().map_err(crate::document::refused)
            }
        }
        deserializer.deserialize_any(Text)
    }
}

impl JsonSchema for Interval {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Interval".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "description": FORM })
    }
}

impl Quantity for Interval {
    const MIN: f64 = 0.0;
    /// One hour.
    const MAX: f64 = 3.6e12;
    const LIMIT: Self = Interval(Span::from_seconds(3600));
    const IS_RATED: bool = true;
    const STEP: Self = Interval(Span(1_000_000));
    type Choice = Spacing;
    /// With its mean, ns.
    type Running = (SpacingLaw, f64);

    fn value(self) -> f64 {
        self.0.0 as f64
    }

    fn example(_: &'static str, time: &'static str) -> &'static str {
        time
    }

    fn start(part: &Spacing) -> Self::Running {
        (part.start(), part.moments().mean_ns.unwrap_or(0.0))
    }

    #[inline]
    fn draw((law, mean): &Self::Running, draws: &mut Draws) -> f64 {
        // A part has no state.
        law.clone().next(draws) * mean
    }

    fn may_be_part(part: &Spacing) -> bool {
        part.may_be_part()
    }

    /// Intervals have no limit that a tail could meet.
    fn has_default_maximum(_: &Spacing) -> bool {
        false
    }

    fn has_default_minimum(_: &Spacing) -> bool {
        false
    }

    fn tables(law: &Spacing) -> usize {
        law.tables()
    }

    fn part_clamp(part: &Spacing) -> Clamp {
        part.clamp()
    }

    fn part_moments(part: &Spacing) -> Option<Moments> {
        part.part_moments()
    }
}
