//! Expectations: a metric, a comparison and a bound.

use std::fmt;
use std::str::FromStr;

use super::{Metric, expand_words};
use crate::ModelError;

/// How a figure has to compare with its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    More,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
}

const COMPARISONS: &[(&str, Comparison)] = &[
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("≤", Comparison::AtMost),
    ("≥", Comparison::AtLeast),
    ("<", Comparison::Less),
    (">", Comparison::More),
];

impl Comparison {
    /// Whether the comparison of `value` with `bound` holds.
    #[must_use]
    pub fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Comparison::Less => value < bound,
            Comparison::AtMost => value <= bound,
            Comparison::More => value > bound,
            Comparison::AtLeast => value >= bound,
            Comparison::Equal => value == bound,
            Comparison::NotEqual => value != bound,
        }
    }
}

impl Comparison {
    /// The text before the comparison, the comparison, and the bound; absent without a comparison.
    pub(super) fn split(text: &str) -> Option<(&str, Comparison, &str)> {
        // The first sign, and of those that start there the longest.
        let (place, sign, comparison) = COMPARISONS
            .iter()
            .filter_map(|(sign, comparison)| Some((text.find(sign)?, *sign, *comparison)))
            .min_by_key(|(place, sign, _)| (*place, usize::MAX - sign.len()))?;
        Some((&text[..place], comparison, text[place + sign.len()..].trim()))
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(COMPARISONS.iter().find(|(_, c)| c == self).map_or("", |(text, _)| text))
    }
}

/// One expectation: `METRIC COMPARISON BOUND [where NAME=VALUE, …]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// As it was written.
    pub text: String,
    /// The figure.
    pub metric: Metric,
    /// The comparison.
    pub comparison: Comparison,
    /// The bound, in the metric's SI unit.
    pub bound: f64,
    /// The points of a sweep to which it applies, by their values; empty for all.
    pub at: Vec<(String, String)>,
}

/// The parts of an expectation's text.
struct Parts<'t> {
    metric: &'t str,
    comparison: Comparison,
    bound: &'t str,
    /// The text after `where`.
    at: Option<&'t str>,
}

impl Parts<'_> {
    /// The parts of `text`; absent without a comparison.
    fn of(text: &str) -> Option<Parts<'_>> {
        let (head, at) = match text.split_once(" where ") {
            Some((head, tail)) => (head, Some(tail)),
            None => (text, None),
        };
        let (metric, comparison, bound) = Comparison::split(head)?;
        Some(Parts { metric, comparison, bound, at })
    }
}

impl FromStr for Rule {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        const FORM: &str = "METRIC COMPARISON BOUND, such as 'throughput >= 95 Mbit/s', 'loss <= 0.1 %' or \
                            'p99 one_way_delay of voice < 30 ms'";
        let refuse = |given: String, accepted: &str| ModelError::Field {
            field: format!("expectation '{text}'"),
            given,
            accepted: accepted.into(),
        };
        let Parts { metric, comparison, bound: given, at } =
            Parts::of(text).ok_or_else(|| refuse("no comparison".into(), FORM))?;
        let at = at.map_or(Ok(vec![]), expand_words).map_err(|e| refuse(e, "NAME=VALUE"))?;
        let metric: Metric = metric.parse()?;
        let unit = metric.unit();
        let bound =
            unit.read(given).ok_or_else(|| refuse(format!("'{given}'"), unit.accepted()))?;
        Ok(Rule { text: text.into(), metric, comparison, bound, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_are_parsed() {
        let rule: Rule = "p99 one_way_delay of voice < 30 ms".parse().unwrap();
        assert_eq!(rule.metric.to_string(), "p99 one_way_delay of voice");
        assert_eq!((rule.comparison, rule.bound), (Comparison::Less, 0.03));
        let rule: Rule = "loss<=0.1%".parse().unwrap();
        assert_eq!((rule.comparison, rule.bound), (Comparison::AtMost, 0.001));
        let rule: Rule = "throughput ≥ 95 Mbit/s where size=1408, transport=udp".parse().unwrap();
        let values = [("size", "1408"), ("transport", "udp")];
        assert_eq!(rule.at, values.map(|(axis, value)| (axis.to_owned(), value.to_owned())));
    }

    #[test]
    fn refusals_name_the_error() {
        let refusal = |text: &str| crate::Refusal::from(&text.parse::<Rule>().unwrap_err());
        let accepted = |text: &str| refusal(text).accepted.unwrap();
        assert!(accepted("throughput is 3").starts_with("METRIC COMPARISON BOUND"));
        assert!(accepted("throughput >= 3 ms").contains("95 Mbit/s"));
        assert_eq!(refusal("loss <= ").given.as_deref(), Some("''"));
        for text in ["loss < 1", "loss <= 0.001", "link_usage >= 95", "local_cpu < 0.5"] {
            assert!(accepted(text).contains('%'), "{text}");
        }
        for text in ["jitter < 5", "p99 one_way_delay <= 0.03", "mean idle_round_trip > 1e-3"] {
            assert!(accepted(text).contains("30 ms"), "{text}");
        }
        assert_eq!("loss == 0".parse::<Rule>().unwrap().bound, 0.0);
        assert_eq!("jitter >= 0".parse::<Rule>().unwrap().bound, 0.0);
        assert!(accepted("los <= 1 %").contains("loss?"), "the nearest");
    }

    #[test]
    fn bounds_are_inclusive_or_exclusive_by_their_sign() {
        for (sign, at, below, above) in [
            ("<", false, true, false),
            ("<=", true, true, false),
            (">", false, false, true),
            (">=", true, false, true),
            ("==", true, false, false),
            ("!=", false, true, true),
        ] {
            let rule: Rule = format!("lost_packets {sign} 5").parse().unwrap();
            assert_eq!(rule.comparison.holds(5.0, rule.bound), at, "{sign}");
            assert_eq!(rule.comparison.holds(4.0, rule.bound), below, "{sign}");
            assert_eq!(rule.comparison.holds(6.0, rule.bound), above, "{sign}");
        }
    }
}
