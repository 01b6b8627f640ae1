//! A scenario that was kept by an earlier version is read by the rules of its time, spelt as today's: else what was begun could
//! not be gone on with.
//!
//! Two things are refused today that had a meaning: a range of more than 32 values without a step, which went by 1, and an
//! expectation of a share by a bare number, which was a share of 1.

use serde_json::Value;

use crate::experiment::Rule;
use crate::experiment::variables::is_stepless;

/// Spells what the earlier rules took in steps and what is inside of them.
pub(super) fn respelt(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, item) in fields {
                match (name.as_str(), item) {
                    ("over", Value::Array(axes)) => axes.iter_mut().for_each(|a| text(a, axis)),
                    ("expect", Value::Array(all)) => all.iter_mut().for_each(|e| text(e, rule)),
                    (_, item) => respelt(item),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(respelt),
        _ => {}
    }
}

fn text(value: &mut Value, spell: fn(&str) -> Option<String>) {
    if let Some(text) = value.as_str().and_then(spell) {
        *value = Value::String(text);
    }
}

/// An axis with the step that its ranges went by.
fn axis(text: &str) -> Option<String> {
    let (name, values) = text.split_once('=')?;
    let spell = |word: &str| {
        if is_stepless(word) { format!("{}:1", word.trim_end()) } else { word.to_owned() }
    };
    Some(format!("{name}={}", values.split(',').map(spell).collect::<Vec<_>>().join(",")))
}

/// An expectation with its share in per cent; absent where it says what it said.
fn rule(text: &str) -> Option<String> {
    text.parse::<Rule>().err().and_then(|_| Rule::share_in_percent(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::ranges;

    #[test]
    fn a_range_keeps_its_values_and_a_share_its_bound() {
        for (before, after) in [
            ("size=64..256", "size=64..256:1"),
            ("size=5, 64..256 ,9..300:3", "size=5, 64..256:1,9..300:3"),
            ("delay=1ms..40ms", "delay=1ms..40ms:1"),
            ("size={from}..256", "size={from}..256:1"),
            ("rate=1M..1G*10", "rate=1M..1G*10"),
            ("to=192.0.2.1,../x,{a}", "to=192.0.2.1,../x,{a}"),
        ] {
            assert_eq!(axis(before).as_deref(), Some(after));
        }
        assert_eq!(ranges("delay", "1ms..40ms:1").unwrap().len(), 40);
        for (before, bound, after) in [
            ("loss < 1", 1.0, "loss < 100 %"),
            ("loss <= 0.001", 0.001, "loss <= 0.1 %"),
            ("link_usage >= 0.07 where size=64", 0.07, "link_usage >= 7 % where size=64"),
            ("loss<1e-3", 1e-3, "loss< 0.1 %"),
        ] {
            let spelt = rule(before).unwrap();
            assert_eq!(spelt, after);
            assert_eq!(spelt.parse::<Rule>().unwrap().bound, bound, "{spelt}");
        }
        for same in ["loss < 1 %", "loss == 0", "loss < 1 ms", "throughput > 1", "los < 1", "x"] {
            assert_eq!(rule(same), None, "{same}");
        }
    }
}
