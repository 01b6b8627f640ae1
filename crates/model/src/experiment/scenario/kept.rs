//! A scenario that an earlier version stored is read by the rules of its time, spelt as today's: else its experiment could
//! not be resumed.
//!
//! What is refused today had a meaning: a range of more than 32 values without a step went by 1; an expectation of a share by a
//! bare number was a share of 1, and one of a time was in seconds; a share in a law was in per cent without its sign, too; a
//! queue of 1.5 bytes was one of 2; and `both` beside the laws of one direction was what these left open.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::experiment::Rule;
use crate::experiment::variables::is_stepless;
use crate::impairment::{Laws, QueueLimit, words_of};
use crate::units::rounded_size;

/// Values of the axes around something, as they are written.
type Axes = BTreeMap<String, String>;

/// Spells what the earlier rules took in steps, in emulators, and in what is inside of them.
pub(super) fn respelt(value: &mut Value) {
    inside(value, &Axes::new());
}

fn inside(value: &mut Value, around: &Axes) {
    match value {
        Value::Object(fields) => {
            let mut axes = around.clone();
            if let Some(Value::Array(over)) = fields.get("over") {
                let all = over.iter().filter_map(|axis| axis.as_str()?.split_once('='));
                axes.extend(all.map(|(name, values)| (name.trim().into(), values.into())));
            }
            laws_of(fields, &axes);
            for (name, item) in fields {
                match (name.as_str(), item) {
                    ("over", Value::Array(axes)) => axes.iter_mut().for_each(|a| text(a, axis)),
                    ("expect", Value::Array(all)) => all.iter_mut().for_each(|e| text(e, rule)),
                    ("config", config) => queues(config),
                    // Another document's, or words that only look like ours.
                    ("plan" | "variables" | "run", _) => {}
                    (_, item) => inside(item, &axes),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| inside(item, around)),
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

/// An expectation with the unit of its bound; absent where it says what it said.
fn rule(text: &str) -> Option<String> {
    text.parse::<Rule>().err().and_then(|_| Rule::with_unit(text))
}

/// The laws of an emulator or of its orders.
fn laws_of(fields: &mut Map<String, Value>, axes: &Axes) {
    const ONE_WAY: [&str; 2] = ["a_to_b", "b_to_a"];
    for name in ["both"].into_iter().chain(ONE_WAY) {
        if let Some(Value::String(laws)) = fields.get_mut(name) {
            *laws = laws_line(laws, axes);
        }
    }
    let words = |name| fields.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    let [there, back] = ONE_WAY.map(words);
    if let (Some(both), true) = (words("both"), there.is_some() || back.is_some()) {
        fields.remove("both");
        for (name, own) in ONE_WAY.into_iter().zip([there, back]) {
            let own = own.unwrap_or_default();
            let slots: Vec<&str> = terms(&own).map(slot).collect();
            let rest = terms(&both).filter(|term| !slots.contains(&slot(term)));
            let all: Vec<&str> = terms(&own).chain(rest).collect();
            fields.insert(name.into(), all.join(", ").into());
        }
    }
}

/// The terms of laws in one line.
fn terms(laws: &str) -> impl Iterator<Item = &str> {
    laws.split(',').map(str::trim).filter(|term| !matches!(*term, "" | "none"))
}

/// What a term sets, by its first word: duplicates were a part of loss.
fn slot(term: &str) -> &str {
    match term.split_whitespace().next().unwrap_or_default() {
        "duplicate" => "loss",
        word => word,
    }
}

/// Laws with the signs of their shares, and whole bytes; as they are where nothing is to be spelt otherwise.
fn laws_line(laws: &str, axes: &Axes) -> String {
    if laws.trim().is_empty() {
        return "none".into();
    }
    if laws.parse::<Laws>().is_ok() {
        return laws.to_owned();
    }
    // A unit may stand apart: it is a part of its number here as there.
    let spell = |term: &str| {
        let words = words_of(term);
        let mut out = vec![];
        for (i, word) in words.iter().enumerate() {
            let before = i.checked_sub(1).map(|i| words[i].as_str());
            let is_signed = words.get(i + 1).is_some_and(|next| next == "%");
            let is_share = matches!(
                before,
                Some("loss" | "ge" | "to-good" | "bad" | "good" | "duplicate" | "corrupt")
            );
            out.push(match before {
                _ if is_share && !is_signed && is_bare(word, axes) => format!("{word}%"),
                Some("queue") => queue(word).unwrap_or_else(|| word.clone()),
                _ => word.clone(),
            });
        }
        out.join(" ")
    };
    let spelt: Vec<String> = laws.split(',').map(spell).collect();
    let same = laws.split(',').map(|term| words_of(term).join(" "));
    if same.eq(spelt.iter().cloned()) { laws.to_owned() } else { spelt.join(", ") }
}

/// Whether a share is without its sign: a number, or the name of an axis of such.
fn is_bare(word: &str, axes: &Axes) -> bool {
    let name = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
    match name.and_then(|name| axes.get(name)) {
        Some(values) => !values.contains('%'),
        None => word.parse::<f64>().is_ok(),
    }
}

/// A queue in whole bytes; absent where it is none that today's rules refuse.
fn queue(word: &str) -> Option<String> {
    word.parse::<QueueLimit>().err().and_then(|_| rounded_size(word)).map(|size| size.to_string())
}

/// The queues of a `weir.impair/1`.
fn queues(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, item) in fields {
                match name.as_str() {
                    "queue" => text(item, queue),
                    "a_to_b" | "b_to_a" | "both" if item.is_string() => {
                        let laws = item.as_str().unwrap_or_default();
                        *item = Value::String(laws_line(laws, &Axes::new()));
                    }
                    _ => queues(item),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(queues),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
            ("jitter < 5", 5.0, "jitter < 5 s"),
            (
                "p99 one_way_delay <= 0.03 where size=64",
                0.03,
                "p99 one_way_delay <= 0.03 s where size=64",
            ),
        ] {
            let spelt = rule(before).unwrap();
            assert_eq!(spelt, after);
            assert_eq!(spelt.parse::<Rule>().unwrap().bound, bound, "{spelt}");
        }
        for same in ["loss < 1 %", "loss == 0", "loss < 1 ms", "throughput > 1", "los < 1", "x"] {
            assert_eq!(rule(same), None, "{same}");
        }
    }

    #[test]
    fn laws_keep_what_they_were() {
        let axes = Axes::from([("p".into(), "0,0.5,1".into()), ("q".into(), "1%,2%".into())]);
        for (before, after) in [
            ("loss 5", "loss 5%"),
            (
                "delay 20ms , loss 0.5 run 4,rate 1M queue 1.5",
                "delay 20ms, loss 0.5% run 4, rate 1M queue 2",
            ),
            ("loss ge 1 to-good 25% bad 50 good 0", "loss ge 1% to-good 25% bad 50% good 0%"),
            ("duplicate .5, corrupt 1 repair flip 3", "duplicate .5%, corrupt 1% repair flip 3"),
            ("rate 10M queue 0.3K overhead 38", "rate 10M queue 307 overhead 38"),
            ("loss {p}, duplicate {q}", "loss {p}%, duplicate {q}"),
            (
                "loss 5, delay 20 ms, rate 1M queue 1.5 KiB",
                "loss 5%, delay 20ms, rate 1M queue 1.5KiB",
            ),
            ("", "none"),
        ] {
            assert_eq!(laws_line(before, &axes), after);
            assert!(before.contains('{') || after.parse::<Laws>().is_ok(), "{after}");
        }
        for same in [
            "loss 5%,  delay 20ms ±5ms",
            "loss every 100, rate 10M queue 64K",
            "loss {p}%, rate 1M queue 1.5K",
            "rate 5M queue 250ms",
            "none",
            // What is taken today says what it says today.
            "loss 1 %, duplicate .5 %, corrupt 1 % repair",
            "rate 10M queue 1.5 MiB",
            "loss 1 % run 4, rate 10 Mbit/s queue 1.5 ms",
            "loss {p} %, rate 1M queue 1.5 KiB",
        ] {
            assert_eq!(laws_line(same, &axes), same);
        }
    }

    #[test]
    fn laws_are_spelt_wherever_they_stand_and_nothing_else_is() {
        let mut scenario = json!({
            "emulator": { "m": { "both": "loss 5", "config": { "other": { "a_to_b": { "rate": { "bits": "1M", "queue": "1.5" } } } } } },
            "step": [
                { "repeat": { "over": ["p=1,2"], "step": [{ "impair": { "both": "loss {p}, delay 5ms", "a_to_b": "delay 9ms" } }] } },
                { "command": { "run": ["loss 5"] }, "name": "loss 5" },
            ],
        });
        respelt(&mut scenario);
        assert_eq!(
            scenario,
            json!({
                "emulator": { "m": { "both": "loss 5%", "config": { "other": { "a_to_b": { "rate": { "bits": "1M", "queue": "2" } } } } } },
                "step": [
                    { "repeat": { "over": ["p=1,2"], "step": [{ "impair": { "a_to_b": "delay 9ms, loss {p}%", "b_to_a": "loss {p}%, delay 5ms" } }] } },
                    { "command": { "run": ["loss 5"] }, "name": "loss 5" },
                ],
            })
        );
    }
}
