//! Variables of scenarios (`{name}` in any string), and the values of a sweep's axes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::ModelError;

/// Names and their values: strings, numbers or booleans.
pub type Variables = BTreeMap<String, Value>;

/// Maximum number of values of one axis of a sweep.
const MAX_VALUES: usize = 10_000;
/// Maximum number of values of a range without a step. `64..256` may mean its two ends or some sizes between
/// them, but hardly 193 sizes.
const MAX_STEPLESS: i128 = 32;
/// Decimal places of ranges.
const PLACES: usize = 9;

/// Replaces `{name}` in every string of a document, but not in keys. A string that is only `{name}` becomes the
/// variable's own value, so that numbers stay numbers. `{{` and `}}` are braces. Names in `later` stay
/// unchanged.
///
/// # Errors
/// [`ModelError::Field`] with the path of the string, for an unknown variable or an unmatched brace.
pub fn expand(
    value: &Value,
    variables: &Variables,
    later: &BTreeSet<String>,
    at: &str,
) -> Result<Value, ModelError> {
    Ok(match value {
        Value::String(text) => expand_text(text, variables, later, at)?,
        Value::Array(items) => Value::Array(
            items
                .iter()
                .enumerate()
                .map(|(i, item)| expand(item, variables, later, &format!("{at}[{i}]")))
                .collect::<Result<_, _>>()?,
        ),
        Value::Object(fields) => {
            // The values of a sweep's axes are known only at each point; its axes themselves are expanded by
            // the surrounding variables.
            let mut inner = later.clone();
            if let Some(Value::Array(axes)) = fields.get("over") {
                let names = axes.iter().filter_map(|a| a.as_str()?.split_once('='));
                inner.extend(names.map(|(name, _)| name.trim().to_owned()));
            }
            let is_search = fields.contains_key("kind") && fields.contains_key("trial");
            let mut out = serde_json::Map::new();
            for (key, item) in fields {
                let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                let mut own = if key == "over" { later.clone() } else { inner.clone() };
                if is_search && key == "test" {
                    own.extend(["rate", "seconds", "packets"].map(String::from));
                }
                out.insert(key.clone(), expand(item, variables, &own, &path)?);
            }
            Value::Object(out)
        }
        other => other.clone(),
    })
}

fn expand_text(
    text: &str,
    variables: &Variables,
    later: &BTreeSet<String>,
    at: &str,
) -> Result<Value, ModelError> {
    let refuse =
        |given: String, accepted: String| ModelError::Field { field: at.into(), given, accepted };
    let mut out = String::new();
    let mut rest = text;
    while let Some(place) = rest.find(['{', '}']) {
        let (before, tail) = rest.split_at(place);
        out.push_str(before);
        if tail.starts_with("{{") || tail.starts_with("}}") {
            // Escaped braces are kept until the last expansion, when no names are left for later.
            out.push_str(if later.is_empty() { &tail[..1] } else { &tail[..2] });
            rest = &tail[2..];
            continue;
        }
        let end = tail.strip_prefix('{').and_then(|t| t.find('}'));
        let Some(end) = end else {
            return Err(refuse(
                format!("'{text}' has an unmatched brace"),
                "{name}, or {{ and }} for braces".into(),
            ));
        };
        let name = tail[1..=end].trim();
        if later.contains(name) {
            out.push_str(&tail[..end + 2]);
        } else {
            let Some(value) = variables.get(name) else {
                let names: Vec<&str> = variables
                    .keys()
                    .map(String::as_str)
                    .chain(later.iter().map(String::as_str))
                    .collect();
                let hint = super::nearest(name, names.iter().copied())
                    .map_or_else(String::new, |n| format!(" (did you mean {{{n}}}?)"));
                let known = if names.is_empty() {
                    "no variable is defined".into()
                } else {
                    names.join(", ")
                };
                return Err(refuse(format!("{{{name}}} is no variable"), format!("{known}{hint}")));
            };
            if place == 0 && out.is_empty() && tail.len() == end + 2 {
                return Ok(value.clone());
            }
            out.push_str(&plain(value));
        }
        rest = &tail[end + 2..];
    }
    out.push_str(rest);
    Ok(Value::String(out))
}

/// A value as text.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `NAME=VALUE, NAME=VALUE`.
pub(super) fn expand_words(text: &str) -> Result<Vec<(String, String)>, String> {
    text.split(',')
        .map(|word| match word.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                Ok((name.trim().into(), value.trim().into()))
            }
            _ => Err(format!("'{}'", word.trim())),
        })
        .collect()
}

/// The values of an axis: `tcp,udp`, `128..1408:128` (both ends included), `1M..1000M*10`, or a list of these.
/// The unit follows every number (`1ms..5ms:1ms`), or the ends only. A range without a step has the step 1 and
/// at most 32 values.
///
/// # Errors
/// [`ModelError::Field`] for an invalid or endless range, or one with more than 10 000 values (32 without a
/// step).
pub(crate) fn ranges(name: &str, text: &str) -> Result<Vec<String>, ModelError> {
    let refuse = |given: &str, accepted: &str| ModelError::Field {
        field: name.into(),
        given: format!("'{given}'"),
        accepted: accepted.into(),
    };
    const FORM: &str =
        "A..B:STEP or A..B*FACTOR with numbers of one unit, such as 128..1408:128 or 1M..1000M*10";
    let mut out: Vec<String> = vec![];
    for word in text.split(',').map(str::trim) {
        if word.is_empty() {
            return Err(refuse(text, "values separated by commas, none of them empty"));
        }
        // A range starts with a number; an address has dots too.
        let range = word.split_once("..").filter(|(a, _)| number(a).is_some());
        let Some((from, rest)) = range else {
            out.push(word.into());
            continue;
        };
        let (to, step, factor) = match (rest.split_once(':'), rest.split_once('*')) {
            (Some((to, step)), _) => (to, Some(step), None),
            (None, Some((to, factor))) => (to, None, Some(factor)),
            (None, None) => (rest, None, None),
        };
        let bad = || refuse(word, FORM);
        let (first, unit) = number(from).ok_or_else(bad)?;
        let (last, last_unit) = number(to).ok_or_else(bad)?;
        if unit != last_unit {
            return Err(bad());
        }
        if last < first {
            return Err(refuse(word, "a range from its smaller end to its larger one"));
        }
        if step.is_none() && factor.is_none() {
            let count = (last - first) / 10i128.pow(PLACES as u32) + 1;
            if count > MAX_STEPLESS {
                return Err(refuse(
                    word,
                    &stepped_form(word, unit, count.unsigned_abs(), out.len()),
                ));
            }
        }
        let mut value = first;
        let advance: Box<dyn Fn(i128) -> Option<i128>> = if let Some(factor) = factor {
            let (factor, none) = number(factor).ok_or_else(bad)?;
            let one = 10i128.pow(PLACES as u32);
            if !none.is_empty() {
                return Err(bad());
            }
            if factor <= one || first <= 0 {
                return Err(refuse(word, "a factor above 1, and a start above 0"));
            }
            Box::new(move |v| v.checked_mul(factor).map(|v| (v + one / 2) / one))
        } else {
            let (step, step_unit) = number(step.unwrap_or("1")).ok_or_else(bad)?;
            if !(step_unit == unit || step_unit.is_empty()) {
                return Err(bad());
            }
            if step <= 0 {
                return Err(refuse(word, "a step above 0"));
            }
            Box::new(move |v| v.checked_add(step))
        };
        let before = out.len();
        while value <= last {
            if out.len() >= MAX_VALUES {
                return Err(refuse(word, "at most 10000 values"));
            }
            out.push(format!("{}{unit}", decimal(value)));
            match advance(value) {
                Some(next) if next > value => value = next,
                _ => break,
            }
        }
        if out.len() - before == 1 && last > first && (step.is_some() || factor.is_some()) {
            return Err(refuse(word, &second_value_form(unit, step)));
        }
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = out.iter().find(|v| !seen.insert(v.as_str())) {
        return Err(refuse(twice, "each value once"));
    }
    Ok(out)
}

/// The error for a range with a single value. A step without a unit has that of the range, which may not have
/// been intended.
fn second_value_form(unit: &str, step: Option<&str>) -> String {
    let reach = "a step or a factor that reaches a second value";
    match step.filter(|step| !unit.is_empty() && !step.ends_with(unit)) {
        Some(step) => format!("{reach}; a step without a unit has that of its range: {step}{unit}"),
        None => reach.into(),
    }
}

/// The ranges that an error suggests instead of one without a step that has `count` values; `before` values
/// precede it.
fn stepped_form(word: &str, unit: &str, count: u128, before: usize) -> String {
    // About nine values, by a round step.
    let wide = (count / 8).next_power_of_two();
    let all = if count.saturating_add(before as u128) <= MAX_VALUES as u128 {
        format!("{word}:1{unit} for all {count} values")
    } else {
        format!("at most {MAX_VALUES} values")
    };
    format!(
        "a step: {word}:{wide}{unit} for every {}, {all}; without one up to {MAX_STEPLESS}",
        nth(wide)
    )
}

/// `32nd`.
fn nth(number: u128) -> String {
    let end = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}

/// `1.5M` as billionths and its unit.
fn number(text: &str) -> Option<(i128, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || whole.len() > 18 || part.len() > PLACES || unit.contains(['.', ':', '*'])
    {
        return None;
    }
    let value: i128 = format!("{whole}{part:0<PLACES$}").parse().ok()?;
    Some((value, unit))
}

fn decimal(value: i128) -> String {
    let one = 10i128.pow(PLACES as u32);
    let (whole, part) = (value / one, value % one);
    if part == 0 {
        return whole.to_string();
    }
    let part = format!("{part:0PLACES$}");
    format!("{whole}.{}", part.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The accepted ranges in the error of a refused one.
    fn refusal(text: &str) -> String {
        match ranges("size", text).unwrap_err() {
            ModelError::Field { field, accepted, .. } if field == "size" => accepted,
            other => panic!("{text}: {other}"),
        }
    }

    fn values(text: &str) -> Vec<String> {
        ranges("size", text).unwrap()
    }

    #[test]
    fn ranges_have_the_values_of_their_steps_with_the_unit() {
        assert_eq!(values("128..512:128"), ["128", "256", "384", "512"]);
        assert_eq!(values("128..500:128"), ["128", "256", "384"]);
        assert_eq!(values("1M..1000M*10"), ["1M", "10M", "100M", "1000M"]);
        assert_eq!(values("0.1..0.3:0.1"), ["0.1", "0.2", "0.3"]);
        assert_eq!(values("1ms..3ms:1ms"), ["1ms", "2ms", "3ms"]);
        assert_eq!(values("1ms..3ms"), ["1ms", "2ms", "3ms"]);
        assert_eq!(values("tcp, udp"), ["tcp", "udp"]);
        assert_eq!(values("0,10..20:10"), ["0", "10", "20"]);
        assert_eq!(values("192.0.2.1"), ["192.0.2.1"]);
        assert_eq!(values("2..32*2.5"), ["2", "5", "12.5", "31.25"]);
    }

    #[test]
    fn endless_and_invalid_ranges_are_refused() {
        for text in
            ["5..1", "1..5:0", "1M..5G:1M", "1..5*1", "0..5*2", "1,,2", "1..100000", "1,1", ""]
        {
            assert!(ranges("size", text).is_err(), "{text}");
        }
        for (text, why) in [
            ("5..1", "from its smaller end"),
            ("1..5:0", "a step above 0"),
            ("1..5*1", "a factor above 1"),
            ("128..512:1000", "a step or a factor that reaches a second value"),
            ("2..3*2", "a step or a factor that reaches a second value"),
            ("1K..2K:512", "a step without a unit has that of its range: 512K"),
            ("1M..1G*10", "of one unit, such as 128..1408:128 or 1M..1000M*10"),
        ] {
            let accepted = refusal(text);
            assert!(accepted.contains(why), "{text}: {accepted}");
        }
    }

    #[test]
    fn the_error_of_a_long_range_suggests_a_step() {
        let refused = refusal("64..256");
        for part in ["64..256:32 ", "64..256:1 ", " 193 "] {
            assert!(refused.contains(part), "{refused}");
        }
        assert!(refusal("5,1ms..1s").contains("A..B:STEP"), "of two units");
        for part in ["1ms..40ms:8ms ", "1ms..40ms:1ms "] {
            assert!(refusal("5,1ms..40ms").contains(part), "{}", refusal("5,1ms..40ms"));
        }
        assert!(refusal("0.5..33").contains(" 33 "));
        assert_eq!(values("64..256:32").len(), 7);
        assert_eq!(values("64..256:1").len(), 193, "an explicit step is accepted");
        assert_eq!(values("1ms..40ms:1ms").len(), 40);
        assert_eq!((values("1..32").len(), values("64..256*2").len()), (32, 3));
    }

    /// Every range that an error suggests is accepted.
    #[test]
    fn suggested_ranges_are_accepted() {
        for text in [
            "64..256",
            "1..100000",
            "0..9999",
            "0..10000",
            "1..9,10..10005",
            "1s..900s",
            "1..999999999999",
        ] {
            let refused = refusal(text);
            let advised = refused.split_once("a step: ").unwrap().1;
            let head = text.rsplit_once(',').map_or(String::new(), |(head, _)| format!("{head},"));
            let all = advised.split([' ', ';']).filter(|word| word.contains(".."));
            let all: Vec<String> = all.map(|word| format!("{head}{word}")).collect();
            assert!(!all.is_empty(), "{refused}");
            for range in all {
                assert!(ranges("size", &range).is_ok(), "{range}: {refused}");
            }
        }
        let refused = refusal("1..100000");
        assert!(refused.contains(" 16384th") && refused.contains(" 10000 "), "{refused}");
        assert_eq!([1, 2, 4, 11, 32, 512].map(nth), ["1st", "2nd", "4th", "11th", "32nd", "512th"]);
    }

    fn expanded(value: Value, later: &[&str]) -> Result<Value, ModelError> {
        let variables = Variables::from([("n".into(), json!(16)), ("rate".into(), json!("10M"))]);
        expand(&value, &variables, &later.iter().map(|l| (*l).into()).collect(), "")
    }

    #[test]
    fn a_lone_name_keeps_its_type_and_others_become_text() {
        let given = json!({ "count": "{n}", "args": "-b {rate} -P {n}", "x": ["a{{b}}"] });
        assert_eq!(
            expanded(given, &[]).unwrap(),
            json!({ "count": 16, "args": "-b 10M -P 16", "x": ["a{b}"] })
        );
    }

    #[test]
    fn names_of_axes_are_not_expanded() {
        let given = json!({ "over": ["size=1,2"], "test": { "args": "-l {size} -P {n}" } });
        let once = expanded(given, &[]).unwrap();
        assert_eq!(once["test"]["args"], "-l {size} -P 16");
        assert!(expanded(json!({ "args": "{size}" }), &[]).is_err(), "not outside of it");
        let given = json!({ "over": ["n={n}"], "test": { "args": "{n}" } });
        let once = expanded(given, &[]).unwrap();
        assert_eq!((&once["over"][0], &once["test"]["args"]), (&json!("n=16"), &json!("{n}")));
    }

    #[test]
    fn a_search_leaves_rate_and_length_in_its_test_only() {
        let given = json!({ "kind": "throughput", "trial": "{n}", "test": { "args": "-b {rate} -t {seconds}" } });
        let once = expanded(given, &[]).unwrap();
        assert_eq!(
            (&once["trial"], &once["test"]["args"]),
            (&json!(16), &json!("-b {rate} -t {seconds}"))
        );
    }

    #[test]
    fn an_unknown_name_is_refused_with_its_place_and_the_nearest() {
        let error = expanded(json!({ "step": [{ "args": "-b {rat}" }] }), &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "step[0].args: {rat} is no variable; accepted: n, rate (did you mean {rate}?)"
        );
        assert!(expanded(json!("{n"), &[]).is_err());
        assert!(expanded(json!("n}"), &[]).is_err());
    }
}
