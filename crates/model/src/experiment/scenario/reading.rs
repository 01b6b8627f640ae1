//! A document's values become types. Errors are plain: which field, what was
//! given, what is accepted, and the nearest known name.

use serde_json::Value;

use super::SCENARIO_SCHEMA;
use super::nearest;
use crate::ModelError;
use crate::schema::{impair_schema, plan_schema, scenario_schema};

/// Keys of `[emulator.NAME]` and of `impair`, which are read as two tables in one: the reader does not tell what it knows.
const OF_BOTH: [&str; 7] = ["both", "a_to_b", "b_to_a", "profile", "config", "config_file", "seed"];
const OF_EMULATORS: [&str; 2] = ["interfaces", "control_socket"];
const OF_IMPAIR: [&str; 2] = ["emulator", "clear"];

/// Reads a value as a type.
pub(super) fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, ModelError> {
    read_as_told(value).map_err(|(field, reason)| plain(value, field, reason))
}

/// The same with the reader's own words of what is wrong, and its place, which is empty for the whole.
pub(super) fn read_as_told<T: serde::de::DeserializeOwned>(
    value: &Value,
) -> Result<T, (String, String)> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let at = error.path().to_string();
        (if at == "." { String::new() } else { at }, error.inner().to_string())
    })
}

/// What is wrong, in plain words; the reader's own where they are another's, such as a unit's.
fn plain(document: &Value, field: String, reason: String) -> ModelError {
    let refuse = |field: &str, given: String, accepted: String| {
        let field = if field.is_empty() { "the file" } else { field };
        ModelError::Field { field: field.into(), given, accepted }
    };
    if let Some((kind, given, known)) = unknown(&reason) {
        let known = if known.is_empty() { of_two_tables(&field) } else { known };
        let near = nearest(given, known.iter().copied());
        let hint = near.map_or_else(String::new, |n| format!(" (did you mean {n}?)"));
        let accepted = match known.is_empty() {
            true => "no key here".into(),
            false => format!("{}{hint}", known.join(", ")),
        };
        let given = format!("{kind}'{given}'");
        return refuse(outside(&field, &given), given.clone(), accepted);
    }
    if let Some(name) = reason.strip_prefix("missing field `").and_then(|r| r.strip_suffix('`')) {
        let what = if name == "step" { "at least one [[step]]" } else { "it has to be there" };
        let field = if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") };
        return refuse(&field, "nothing".into(), what.into());
    }
    let wrong = ["invalid type: ", "invalid value: ", "invalid length "];
    let told =
        wrong.iter().find_map(|prefix| reason.strip_prefix(prefix)?.split_once(", expected "));
    if let Some((given, expected)) = told {
        let (given, field) = (given_words(given), inner(document, &field, given));
        return refuse(&field, given, accepted(expected));
    }
    let at = if field.is_empty() { String::new() } else { format!("{field}: ") };
    ModelError::Document { document: SCENARIO_SCHEMA, reason: format!("{at}{reason}"), field }
}

/// What is not known, and what is, in the words "unknown field `x`, expected one of `a`, `b`".
fn unknown(reason: &str) -> Option<(&'static str, &str, Vec<&str>)> {
    let (kind, rest) = match reason.strip_prefix("unknown field `") {
        Some(rest) => ("a key ", rest),
        None => ("", reason.strip_prefix("unknown variant `")?),
    };
    let (given, rest) = rest.split_once('`')?;
    Some((kind, given, rest.split('`').skip(1).step_by(2).collect()))
}

/// The known name that is nearest to an unknown one, by what a reader said of it.
pub(crate) fn nearest_known(reason: &str) -> Option<&str> {
    let start = ["unknown field `", "unknown variant `"].iter().find_map(|s| reason.find(s))?;
    let (_, given, known) = unknown(&reason[start..])?;
    nearest(given, known)
}

/// A key that is not known is no field of anything: what it is in has the path.
fn outside<'f>(field: &'f str, given: &str) -> &'f str {
    let key = given.strip_prefix("a key '").and_then(|g| g.strip_suffix('\''));
    key.and_then(|key| field.strip_suffix(key))
        .map_or(field, |outer| outer.strip_suffix('.').unwrap_or(outer))
}

fn of_two_tables(field: &str) -> Vec<&'static str> {
    let own = if field.starts_with("emulator") { &OF_EMULATORS } else { &OF_IMPAIR };
    OF_BOTH.iter().chain(own).copied().collect()
}

/// The path of a value that is wrong: where several tables are read as one, the reader names only these.
fn inner(document: &Value, field: &str, told: &str) -> String {
    let mut here = document;
    for part in field.split('.').filter(|part| !part.is_empty()) {
        let (name, indices) = part.split_once('[').unwrap_or((part, ""));
        let Some(mut next) = here.get(name) else { return field.into() };
        for index in indices.split(['[', ']']).filter_map(|i| i.parse::<usize>().ok()) {
            let Some(item) = next.get(index) else { return field.into() };
            next = item;
        }
        here = next;
    }
    let Some(table) = here.as_object().filter(|_| told != "map") else { return field.into() };
    let is_it = |value: &Value| match value {
        Value::Array(_) => told == "sequence",
        Value::Object(_) => false,
        Value::String(text) => told == format!("string {text:?}"),
        Value::Null => matches!(told, "null" | "unit value"),
        value => told.ends_with(&format!(" `{value}`")),
    };
    let mut found = table.iter().filter(|(_, value)| is_it(value)).map(|(name, _)| name);
    match (found.next(), found.next(), field.is_empty()) {
        (Some(name), None, true) => name.clone(),
        (Some(name), None, false) => format!("{field}.{name}"),
        _ => field.into(),
    }
}

/// What was given, as the file has it.
fn given_words(told: &str) -> String {
    match told {
        "map" => "a table".into(),
        "sequence" => "a list".into(),
        "null" | "unit value" => "nothing (null)".into(),
        _ => match told.strip_prefix("string ") {
            Some(text) => format!("'{}'", text.trim_matches('"')),
            None => match told.split_once('`') {
                Some((_, value)) => value.trim_end_matches('`').into(),
                None => format!("a list of {told}"),
            },
        },
    }
}

/// What a type takes, by the reader's name of it.
pub(super) fn accepted(expected: &str) -> String {
    let whole = |most: u64| format!("a whole number, 0 to {most}");
    match expected {
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        "u64" | "usize" | "i32" | "i64" => "a whole number".into(),
        "f64" | "f32" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a string" => "words in quotes".into(),
        "a sequence" => "a list, [ … ]".into(),
        "a map" => "a table, { NAME = … }".into(),
        _ => match expected.strip_prefix("struct ") {
            Some(name) => table(name),
            None => match expected.strip_prefix("an array of length ") {
                Some(length) => format!("a list of {length}"),
                None => expected.replace('`', ""),
            },
        },
    }
}

/// A table with the keys that the published schemas give it.
fn table(name: &str) -> String {
    let of = |schema: Value| -> Option<Vec<String>> {
        let own = (schema["title"] == name).then_some(&schema["properties"]);
        let properties = own.unwrap_or(&schema["$defs"][name]["properties"]);
        Some(properties.as_object()?.keys().cloned().collect())
    };
    match [scenario_schema, plan_schema, impair_schema].into_iter().find_map(|schema| of(schema()))
    {
        Some(keys) => format!("a table of {}", keys.join(", ")),
        None => "a table, { NAME = … }".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::Scenario;
    use crate::experiment::Variables;

    fn refused(text: &str) -> String {
        let text = format!("schema = \"weir.scenario/1\"\nname = \"s\"\n{text}\n");
        let none = BTreeMap::new();
        Scenario::parse(&text, false, &Variables::new(), &none).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_reported_without_the_words_of_the_reader() {
        for (text, wanted) in [
            (
                "[[step]]\ncommand = \"ls\"",
                "step[0].command: 'ls'; accepted: a table of exit_code, host, run",
            ),
            (
                "[[step]]\ncommand = { run = \"ls -l\" }",
                "step[0].command.run: 'ls -l'; accepted: a list, [ … ]",
            ),
            (
                "[[step]]\ntest = { runs = \"x\" }",
                "step[0].test.runs: 'x'; accepted: a whole number, 0 to 4294967295",
            ),
            (
                "[[step]]\ntest = { runs = -1 }",
                "step[0].test.runs: -1; accepted: a whole number, 0 to 4294967295",
            ),
            (
                "[[step]]\ntest = { background = 1 }",
                "step[0].test.background: 1; accepted: true or false",
            ),
            (
                "[[step]]\ntest = { args = [\"-u\"] }",
                "step[0].test.args: a list; accepted: words in quotes",
            ),
            (
                "[[step]]\nexpect = \"loss < 1 %\"\ntest = {}",
                "step[0].expect: 'loss < 1 %'; accepted: a list, [ … ]",
            ),
            (
                "[[step]]\nsearch = { kind = \"thruput\" }",
                "step[0].search.kind: 'thruput'; accepted: throughput, latency,",
            ),
            ("[[step]]\ntset = {}", "step[0]: a key 'tset'; accepted: name, timeout, "),
            ("[[step]]\ntset = {}", " (did you mean test?)"),
            ("[emulator.m]\nbth = \"none\"", "emulator.m: a key 'bth'; accepted: both, a_to_b, "),
            ("[emulator.m]\nbth = \"none\"", "control_socket (did you mean both?)"),
            ("[emulator.m]\nboth = 3", "emulator.m.both: 3; accepted: words in quotes"),
            (
                "[emulator.m]\ninterfaces = [\"a\"]",
                "emulator.m.interfaces: a list of 1; accepted: a list of 2",
            ),
            ("step = 3", "step: 3; accepted: a list, [ … ]"),
            ("tags = { a = 1 }", "tags: a table; accepted: a list, [ … ]"),
            ("timeout = true", "timeout: true; accepted: "),
            ("", "step: nothing; accepted: at least one [[step]]"),
            ("[[step]]\nparallel = []", "step[0].parallel: no steps; accepted: at least one step"),
            (
                "[[step]]\nrepeat = { times = 1 }",
                "step[0].repeat.step: none; accepted: at least one step",
            ),
        ] {
            let said = refused(text);
            assert!(said.contains(wanted), "{text}\n  said: {said}\n  wanted: {wanted}");
            for word in
                ["struct ", "invalid type", "unknown field", "missing field", "sequence", "`"]
            {
                assert!(!said.contains(word), "{text}: {said}");
            }
        }
    }
}
