//! Laws of a time, for outages and for the parts of a mixture of delays. A law that other quantities have as well is a
//! file in `law/distribution/` and a line in the list below.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_laws::Draws;

use crate::ModelError;
use crate::law::distribution::{Drawn, Quantity, Rule, Source, parts_of_choice};
use crate::law::{Law, Running, Words, choice_of_laws};
use crate::units::Span;

const TIME_FORM: &str = "a time with its unit, such as 100us, 20ms or 1.5s";

/// A time, written with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(pub Span);

impl FromStr for Time {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let text = text.trim();
        // A number without a unit may mean seconds or milliseconds.
        let is_bare = text.ends_with(|c: char| c.is_ascii_digit() || c == '.');
        match text.parse() {
            Ok(span) if !is_bare || span == Span(0) => Ok(Self(span)),
            _ => Err(ModelError::Value { what: "time", given: text.into(), accepted: TIME_FORM }),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Documents have spans in one form.
        Span::deserialize(deserializer).map(Self)
    }
}

impl JsonSchema for Time {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        Span::schema_name()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Span::json_schema(generator)
    }
}

impl Quantity for Time {
    const MIN: f64 = 0.0;
    /// One hour.
    const MAX: f64 = 3.6e12;
    const LIMIT: Self = Time(Span::from_seconds(3600));
    const IS_RATED: bool = false;
    const NEEDS_MEAN: bool = false;
    const STEP: Self = Time(Span(1_000_000));
    type Choice = Timing;
    type Running = TimingLaw;

    fn value(self) -> f64 {
        self.0.0 as f64
    }

    fn example(_: &'static str, time: &'static str) -> &'static str {
        time
    }

    #[inline]
    fn draw(part: &TimingLaw, draws: &mut Draws) -> f64 {
        // A part has no state.
        part.clone().next(draws) as f64
    }

    parts_of_choice!(Timing);
}

/// Nanoseconds, rounded to the nearest.
impl<S: Source> Running for Drawn<S, Time> {
    type Outcome = u64;

    #[inline]
    fn next(&mut self, draws: &mut Draws) -> u64 {
        let index = self.count();
        super::delay::round_ns(self.value(index, draws))
    }
}

choice_of_laws! {
    /// The law of a time.
    Timing("time");
    /// A running law of a time: ns.
    TimingLaw: next(&mut) -> u64;
    all of Time
}

impl Timing {
    /// Reads the law from the words of a term.
    pub(super) fn of_words(words: &mut Words) -> Result<Self, ModelError> {
        Self::read(words)
    }
}
