use std::collections::BTreeMap;

use serde::Deserialize;

use super::{DocumentCode, DocumentError, parse, parse_json};
use crate::impairment::Impairment;
use crate::plan::Plan;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    number: u16,
    #[serde(default)]
    ratio: Option<f64>,
    #[serde(default)]
    pair: Option<[i32; 2]>,
    #[serde(default)]
    choice: Option<Choice>,
    #[serde(default)]
    names: BTreeMap<String, bool>,
    #[serde(default, rename = "inner")]
    inner: Vec<Table>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Choice {
    FirstOne,
    Second(String),
    Third { a: u8 },
}

fn refused(text: &str) -> Box<DocumentError> {
    parse::<Table>(text).unwrap_err()
}

#[test]
fn both_formats_give_the_same() {
    let toml = "number = 3\nratio = 2\npair = [-1, 1]\nchoice = { third = { a = 1 } }\n[names]\nx = true\n[[inner]]\nnumber = 4\nchoice = \"first-one\"\n";
    let json = r#"{"number":3,"ratio":2.0,"pair":[-1,1],"choice":{"third":{"a":1}},"names":{"x":true},
        "inner":[{"number":4,"choice":"first-one"}]}"#;
    let read: Table = parse(toml).unwrap();
    assert_eq!(parse::<Table>(json).unwrap(), read);
    assert_eq!((read.number, read.ratio, read.pair), (3, Some(2.0), Some([-1, 1])));
    assert_eq!(read.choice, Some(Choice::Third { a: 1 }));
    assert_eq!(read.inner[0].choice, Some(Choice::FirstOne));
    let second: Table = parse("number = 1\nchoice = { second = \"x\" }").unwrap();
    assert_eq!(second.choice, Some(Choice::Second("x".into())));
}

#[test]
fn brackets_and_dotted_keys_together_have_a_depth() {
    let key = vec!["a"; 70].join(".");
    let nested =
        |tables: usize| (0..tables).fold("1".into(), |value, _| format!("{{{key} = {value}}}"));
    let deep = refused(&format!("number = 1\nx = {}\n", nested(70)));
    assert_eq!((deep.code, deep.line), (DocumentCode::Syntax, Some(2)));
    // What only looks deep is read.
    let dots = ".".repeat(300);
    for strings in [
        format!("\"{dots}\\\"{dots}\""),
        format!("'{dots}{{{{'"),
        format!("\"\"\"\n{dots}\"\"{dots}\\\"\"\"\"\" # {dots}"),
        format!("[{}]", vec!["[1.5, {a.b = 2.5}]"; 300].join(",\n")),
    ] {
        assert!(super::tree(&format!("x = {strings}\n")).is_ok(), "{strings}");
    }
    let tables = (0..300).map(|i| format!("[a.b.c{i}]\nd.e = 1.5\n")).collect::<String>();
    assert!(super::tree(&tables).is_ok() && super::tree(&format!("x = {}", nested(1))).is_ok());
}

#[test]
fn a_fraction_of_zero_makes_no_difference() {
    assert_eq!(parse_json::<u16>(b"7.0").ok(), Some(7));
    assert_eq!(parse_json::<i8>(b"-7.0").ok(), Some(-7));
    assert!(parse_json::<u16>(b"70000.0").is_err() && parse_json::<u16>(b"-1.0").is_err());
}

#[test]
fn what_is_no_number_is_refused_by_its_field() {
    for (word, given) in [("nan", "nan"), ("inf", "inf"), ("-inf", "-inf"), ("+nan", "nan")] {
        let error = refused(&format!("number = 1\nratio = {word}\n"));
        assert_eq!(error.code, DocumentCode::Value);
        assert_eq!((&*error.field, &*error.given, error.line), ("ratio", given, Some(2)));
        assert_eq!(error.accepted, "a number");
    }
}

#[test]
fn a_field_that_is_twice_has_its_path() {
    let error = refused("{\"number\":1,\"inner\":[{},\n{\"names\":{\"a b\":true,\"a b\":true}}]}");
    assert_eq!((error.code, error.line), (DocumentCode::DuplicateField, Some(2)));
    assert_eq!((&*error.field, &*error.given), ("inner[1].names[\"a b\"]", "a b"));
    let error = super::tree("[limits]\nflows = 1\nflows = 2\n").unwrap_err();
    assert_eq!((error.code, error.line), (DocumentCode::DuplicateField, Some(3)));
    assert_eq!(error.field, "flows");
}

#[test]
fn refusals_are_data() {
    use DocumentCode::{DuplicateField, MissingField, Syntax, UnknownField, Value};
    const OF_TABLE: &str = "number, ratio, pair, choice, names, inner";
    for (text, code, field, given, accepted, line) in [
        ("number = = 1", Syntax, "", None, "TOML", Some(1)),
        ("{\n\"number\":\n}", Syntax, "", None, "JSON", Some(3)),
        ("ratio = 1", MissingField, "number", Some(""), "a value", None),
        ("number = 1\nnumbre = 2", UnknownField, "numbre", Some("numbre"), OF_TABLE, Some(2)),
        (
            "number = 1\n[[inner]]\nnumber = 1\nrato = 1",
            UnknownField,
            "inner[0].rato",
            Some("rato"),
            OF_TABLE,
            Some(4),
        ),
        (
            "{\"number\":1,\n\"number\":2}",
            DuplicateField,
            "number",
            Some("number"),
            "each field once",
            Some(2),
        ),
        ("number = 70000", Value, "number", Some("70000"), "a whole number, 0 to 65535", Some(1)),
        ("number = 1.5", Value, "number", Some("1.5"), "a whole number, 0 to 65535", Some(1)),
        ("number = -1", Value, "number", Some("-1"), "a whole number, 0 to 65535", Some(1)),
        ("number = \"x\"", Value, "number", Some("x"), "a whole number, 0 to 65535", Some(1)),
        ("number = 1\nratio = []", Value, "ratio", Some("[]"), "a number", Some(2)),
        ("number = 1\npair = [1]", Value, "pair", Some("[1]"), "a list of 2", Some(2)),
        ("number = 1\nnames = { a = 1 }", Value, "names.a", Some("1"), "true or false", Some(2)),
        ("number = 1\ninner = 1", Value, "inner", Some("1"), "a list", Some(2)),
        (
            "number = 1\ninner = [1]",
            Value,
            "inner[0]",
            Some("1"),
            "a table of number, ratio, pair, choice, names, inner",
            Some(2),
        ),
        (
            "number = 1\nchoice = \"frist-one\"",
            Value,
            "choice",
            Some("frist-one"),
            "first-one, second, third",
            Some(2),
        ),
        ("number = 1\nchoice = 3", Value, "choice", Some("3"), "first-one, second, third", Some(2)),
        (
            "number = 1\nchoice = { third = { a = 256 } }",
            Value,
            "choice.third.a",
            Some("256"),
            "a whole number, 0 to 255",
            Some(2),
        ),
    ] {
        let error = refused(text);
        assert_eq!((error.code, error.field.as_str()), (code, field), "{text}");
        assert_eq!((error.accepted.as_str(), error.line), (accepted, line), "{text}");
        if let Some(given) = given {
            assert_eq!(error.given, given, "{text}");
        }
    }
    for (text, nearest) in [
        ("number = 1\nnumbre = 2", Some("number")),
        ("number = 1\nqqqqqqqq = 2", None),
        ("number = 1\nchoice = \"frist-one\"", Some("first-one")),
    ] {
        assert_eq!(refused(text).nearest.as_deref(), nearest, "{text}");
    }
}

#[test]
fn paths_are_split_into_their_names() {
    for (path, parts) in [
        ("", vec![]),
        ("port", vec!["port"]),
        ("connection[2].payload", vec!["connection", "2", "payload"]),
        ("a[1][2]", vec!["a", "1", "2"]),
        ("[0].x", vec!["0", "x"]),
        (".args", vec!["args"]),
        ("hosts[\"a.b\"].port", vec!["hosts", "a.b", "port"]),
        ("hosts[\"]\\\"[\"]", vec!["hosts", "]\"["]),
    ] {
        assert_eq!(super::segments(path), parts, "{path}");
    }
    let text = "number = 1\n[names]\n\"a.b\" = 3\n";
    let error = refused(text);
    assert_eq!((error.field.as_str(), error.line), ("names[\"a.b\"]", Some(3)));
    assert_eq!(super::segments(&error.field), ["names", "a.b"]);
}

#[test]
fn long_values_are_truncated() {
    let error = refused(&format!("number = \"{}\"", "x".repeat(1000)));
    assert_eq!(error.given.chars().count(), super::MAX_GIVEN + 1);
    let error = parse_json::<Table>(format!("{{\"{}\":1}}", "ä".repeat(1000)).as_bytes());
    assert_eq!(error.unwrap_err().given.chars().count(), super::MAX_GIVEN + 1);
}

/// Errors of units and laws are data too.
#[test]
fn values_with_units_and_laws_are_refused_by_field() {
    let of = |error: crate::ModelError| match error {
        crate::ModelError::Document(error) => (error.field, error.given, error.line),
        other => panic!("{other}"),
    };
    let plan =
        |text: &str| of(Plan::parse(&format!("schema = \"weir.plan/1\"\n{text}")).unwrap_err());
    let expected =
        |field: &str, given: &str, line| (field.to_owned(), given.to_owned(), Some(line));
    assert_eq!(plan("[[connection]]\nrate = \"fast\""), expected("connection[0].rate", "fast", 3));
    assert_eq!(plan("[[connection]]\nrate = []"), expected("connection[0].rate", "[]", 3));
    let laws = |text: &str| {
        of(Impairment::parse(&format!("schema = \"weir.impair/1\"\n{text}")).unwrap_err())
    };
    assert_eq!(laws("[other]\nbth = \"none\""), expected("other.bth", "bth", 3));
    assert_eq!(laws("[[flow]]\nname = \"x\"\nfilter = { dscp = 99 }").0, "flow[0].filter.dscp");
    assert_eq!(laws("[other]\nboth = \"dealy 1ms\"").0, "other.both");
    assert_eq!(laws("[other]\nboth = \"none\"\na_to_b = \"none\"").0, "other");
}
