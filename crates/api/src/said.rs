//! What parsers say, as refusals of a request's fields: what was given and what is accepted stand apart.

use serde_json::Value;

use crate::problem::{FieldError, Problem};

/// What `serde` says of the value at `field`, a pointer.
pub(crate) fn of_parser(field: &str, message: &str) -> FieldError {
    let of = |field: String, given: &str, accepted: &str| FieldError {
        field,
        given: Some(given.into()),
        accepted: Some(accepted.into()),
        message: message.into(),
    };
    let quoted = |rest: &str| rest.split('`').next().unwrap_or_default().to_owned();
    if let Some(rest) = message.strip_prefix("missing field `") {
        let name = quoted(rest).replace('~', "~0").replace('/', "~1");
        // A query's keys stand behind its mark.
        let mark = if field == "?" { "" } else { "/" };
        return of(format!("{field}{mark}{name}"), "nothing", "a value");
    }
    if let Some(rest) = message.strip_prefix("unknown field `") {
        let given = format!("a field {}", quoted(rest));
        let accepted = after(message, ", expected ").unwrap_or_else(|| "no field here".into());
        return of(field.into(), &given, &accepted);
    }
    if let Some(rest) = message.strip_prefix("duplicate field `") {
        return of(field.into(), &format!("{} twice", quoted(rest)), "each field once");
    }
    for (lead, accepted) in [
        ("unknown variant ", ", expected "),
        ("invalid type: ", ", expected "),
        ("invalid value: ", ", expected "),
        ("invalid length ", ", expected "),
        ("", "; accepted: "),
        ("", " is not accepted; expected "),
    ] {
        if let Some(rest) = message.strip_prefix(lead)
            && let Some((given, accepted)) = rest.split_once(accepted)
        {
            let given = without_marks(given);
            let given = if lead == "invalid length " { format!("length {given}") } else { given };
            return of(field.into(), &given, &without_marks(accepted));
        }
    }
    FieldError { field: field.into(), given: None, accepted: None, message: message.into() }
}

/// What the model's parsers, of JSON and of TOML, and those of a test's flags say of what stands at `field`.
pub(crate) fn of_words(field: &str, words: &str) -> FieldError {
    let message = words;
    let of = |given: String, accepted: String| FieldError {
        field: field.into(),
        given: Some(given),
        accepted: Some(accepted),
        message: message.into(),
    };
    if let Some(rest) = words.strip_prefix("TOML parse error at ") {
        // The place, the line itself between marks, and the reason.
        let mut lines = rest.lines();
        let place = lines.next().unwrap_or_default();
        let text = lines.clone().find_map(|line| {
            let (number, text) = line.split_once('|')?;
            number.trim().parse::<u64>().ok().map(|_| text.trim())
        });
        let reason = lines.next_back().unwrap_or_default();
        let given = text.map_or_else(|| place.to_owned(), |text| format!("{place}: {text}"));
        return of(given, of_words(field, reason).accepted.unwrap_or_else(|| reason.into()));
    }
    if let Some(rest) = words.strip_prefix("unexpected argument '")
        && let Some((given, _)) = rest.split_once("' found")
    {
        return of(given.into(), "the flags of weir test".into());
    }
    if let Some(rest) = words.strip_prefix("invalid value '")
        && let Some((given, rest)) = rest.split_once("' for '")
        && let Some((flag, why)) = rest.split_once("'")
    {
        let why = why.trim_start_matches([':', ' ']);
        let accepted = why.split_once("expected ").map_or(why, |(_, accepted)| accepted);
        return of(format!("{flag}: {given}"), accepted.into());
    }
    let known = of_parser(field, words);
    if known.given.is_some() {
        return known;
    }
    if let Some((what, place)) = words.rsplit_once(" at line ") {
        return of(format!("line {place}"), what.into());
    }
    match words.split_once(": ") {
        Some((flag, why)) if flag.starts_with("--") => of(flag.into(), why.into()),
        _ => known,
    }
}

/// Longest value that a refusal repeats.
const MAX_GIVEN: usize = 200;

/// Refusals of a document's fields that don't say what was given: what stands there. Where the words say nothing apart of what is
/// accepted, they are that.
pub(crate) fn with_document(mut problem: Problem, root: &str, document: &str) -> Problem {
    let parsed: Value = serde_json::from_str(document).unwrap_or_default();
    for error in &mut problem.errors {
        if error.given.is_none() {
            let at = error.field.strip_prefix(root).and_then(|at| parsed.pointer(at));
            let text = at.map_or_else(|| "nothing".into(), Value::to_string);
            let is_long = text.chars().count() > MAX_GIVEN;
            let short: String = text.chars().take(MAX_GIVEN).collect();
            error.given = Some(if is_long { format!("{short}…") } else { text });
        }
        if error.accepted.is_none() {
            error.accepted = Some(error.message.clone());
        }
    }
    problem
}

fn after(text: &str, mark: &str) -> Option<String> {
    text.split_once(mark).map(|(_, rest)| without_marks(rest))
}

/// Names without the marks that code has in prose.
fn without_marks(text: &str) -> String {
    text.replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;

    #[test]
    fn a_parsers_words_are_taken_apart() {
        for (message, field, given, accepted) in [
            ("missing field `plan`", "/a/plan", "nothing", "a value"),
            ("unknown field `x`, expected `a` or `b`", "/a", "a field x", "a or b"),
            ("unknown field `x`, there are no fields", "/a", "a field x", "no field here"),
            ("duplicate field `x`", "/a", "x twice", "each field once"),
            ("unknown variant `x`, expected one of `a`, `b`", "/a", "x", "one of a, b"),
            ("invalid type: string \"7\", expected u32", "/a", "string \"7\"", "u32"),
            ("invalid value: integer `-1`, expected u32", "/a", "integer -1", "u32"),
            (
                "invalid length 1, expected an array of length 2",
                "/a",
                "length 1",
                "an array of length 2",
            ),
            ("rate: 'fast' is not accepted; expected 10M", "/a", "rate: 'fast'", "10M"),
        ] {
            let found = of_parser("/a", message);
            let told = (found.field.as_str(), found.given.as_deref(), found.accepted.as_deref());
            assert_eq!(told, (field, Some(given), Some(accepted)), "{message}");
            assert_eq!(found.message, message);
        }
        let other = of_parser("/a", "something else");
        assert_eq!((other.given, other.accepted), (None, None));
        assert_eq!(of_parser("?", "missing field `runs`").field, "?runs");
    }

    #[test]
    fn texts_and_flags_are_taken_apart() {
        let toml = toml::from_str::<serde_json::Value>("a = 1\nb = = 2\n").unwrap_err();
        let found = of_words("/a", &toml.to_string());
        let given = found.given.unwrap();
        assert!(given.starts_with("line 2, column ") && given.ends_with(": b = = 2"), "{given}");
        assert!(!found.accepted.unwrap().is_empty());
        for (message, given, accepted) in [
            (
                "TOML parse error at line 3, column 1\n  |\n3 | x = 1\n  | ^\nunknown field `x`, expected `y`\n",
                "line 3, column 1: x = 1",
                "y",
            ),
            ("unexpected argument '--sped' found", "--sped", "the flags of weir test"),
            (
                "invalid value 'fast' for '--rate <RATE>': 'fast' is not accepted; expected 10M",
                "--rate <RATE>: fast",
                "10M",
            ),
            ("--json: not in a scenario", "--json", "not in a scenario"),
            ("expected value at line 1 column 2", "line 1 column 2", "expected value"),
            ("unknown field `x`, expected `y`", "a field x", "y"),
        ] {
            let found = of_words("/a", message);
            let told = (found.given.as_deref(), found.accepted.as_deref());
            assert_eq!(told, (Some(given), Some(accepted)), "{message}");
        }
        // Of other words what stands in the document is what was given.
        let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "no")
            .with(FieldError { field: "/d/b".into(), ..of_words("", "only UDP has it") });
        let long = "x".repeat(300);
        let problem = with_document(problem, "/d", &format!(r#"{{"b":["{long}"]}}"#));
        let error = &problem.errors[0];
        assert!(error.given.as_deref().unwrap().starts_with(r#"["xxx"#));
        assert_eq!(error.given.as_deref().unwrap().chars().count(), MAX_GIVEN + 1);
        assert_eq!(error.accepted.as_deref(), Some("only UDP has it"));
    }
}
