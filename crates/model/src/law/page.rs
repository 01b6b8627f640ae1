//! The tables of laws in `docs/laws.md` and `docs/impairment-laws.md`, made of their declarations.

use std::collections::HashSet;

use schemars::Schema;
use serde_json::Value;

use crate::impairment::{
    Aqm, Background, Batch, Count, Delay, Duplicate, Loss, Mtu, Police, Rate, Reorder, Timing,
};
use crate::plan::{Size, Spacing};

/// The page of laws that sizes, intervals, delays and other quantities share.
const SHARED: &str = "laws.md";
/// The page of the emulator's laws.
const EMULATOR: &str = "impairment-laws.md";

fn text(of: &Value) -> String {
    of.get("description").and_then(Value::as_str).unwrap_or_default().replace('\n', " ")
}

/// The parameters of a law, in the order of their names. `bounds` is the section on those that clamp.
fn parameters(schema: &Schema, bounds: &str) -> String {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return String::new();
    };
    let is_bound = |of: &Value| {
        [" values become this.", "Mean after clamping:"].iter().any(|part| text(of).contains(part))
    };
    let clamps = properties.iter().filter(|(_, of)| is_bound(of));
    let clamps: Vec<_> = clamps.map(|(name, _)| format!("`{name}`")).collect();
    let own = properties.iter().filter(|(_, of)| !is_bound(of));
    let mut own: Vec<_> = own.map(|(name, of)| format!("`{name}`: {}", text(of))).collect();
    if !clamps.is_empty() {
        own.push(format!("{}: [bounds]({bounds})", clamps.join(", ")));
    }
    own.join("<br>")
}

/// Each law with the quantities that have it, in the order of their first appearance. Delays have some laws of their own, which are
/// on the emulator's page.
fn table() -> String {
    let shared = Timing::laws();
    let is_shared = |(name, schema): &(&str, Schema)| {
        shared.iter().any(|(other, of)| other == name && of == schema)
    };
    let quantities = [
        ("sizes", Size::laws()),
        ("intervals", Spacing::laws()),
        ("delays", Delay::laws().into_iter().filter(is_shared).collect()),
        ("times", Timing::laws()),
        ("counts", Count::laws()),
    ];
    let mut out = String::from("| law | for | values | parameters |\n| --- | --- | --- | --- |\n");
    let mut seen = HashSet::new();
    for (name, schema) in quantities.iter().flat_map(|(_, laws)| laws) {
        if !seen.insert(name) {
            continue;
        }
        let has = |laws: &[(&str, Schema)]| laws.iter().any(|(other, _)| other == name);
        let of = quantities.iter().filter(|(_, laws)| has(laws)).map(|(quantity, _)| *quantity);
        let of: Vec<&str> = of.collect();
        let of = if of.len() == quantities.len() { "all".into() } else { of.join(", ") };
        let schema = shared.iter().find(|(other, _)| other == name).map_or(schema, |(_, of)| of);
        out += &format!(
            "| `{name}` | {of} | {} | {} |\n",
            text(schema.as_value()),
            parameters(schema, "#bounds")
        );
    }
    out
}

/// The laws of a stage of the emulator, with their short forms after the stage's name.
fn stage(slot: &str, laws: &[(&str, Schema)], short: &[&[&str]]) -> String {
    let mut out =
        String::from("| law | short form | meaning | parameters |\n| --- | --- | --- | --- |\n");
    for ((name, schema), short) in laws.iter().zip(short) {
        let general = format!("{name}(");
        let is_own = |form: &&&str| !form.starts_with(&general);
        let short = short.iter().filter(is_own).map(|form| format!("`{slot} {form}`"));
        let short = short.collect::<Vec<_>>().join("<br>").replace('|', "\\|");
        let meaning = text(schema.as_value());
        out += &format!(
            "| `{name}` | {short} | {meaning} | {} |\n",
            parameters(schema, "laws.md#bounds")
        );
    }
    out
}

/// The laws of active queue management, with their forms after the rate.
fn aqm() -> String {
    let mut out =
        String::from("| law | form | meaning | parameters |\n| --- | --- | --- | --- |\n");
    for ((name, schema), form) in Aqm::laws().iter().zip(Aqm::forms()) {
        let (meaning, parameters) = (text(schema.as_value()), parameters(schema, ""));
        out += &format!("| `{name}` | `{form}` | {meaning} | {parameters} |\n");
    }
    out
}

/// The fields of a stage without laws to choose from.
fn fields(schema: &Schema) -> String {
    let mut out = String::from("| field | meaning |\n| --- | --- |\n");
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, of) in properties.into_iter().flatten() {
        out += &format!("| `{name}` | {} |\n", text(of));
    }
    out
}

/// Compares a part of a page with its declarations; `WEIR_BLESS=1` rewrites it.
fn is_current(page: &str, part: &str, table: &str) {
    let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
    let (begin, end) = (format!("<!-- generated: {part} -->\n"), format!("<!-- end: {part} -->\n"));
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(&begin).unwrap();
    let (_, behind) = rest.split_once(&end).unwrap();
    let now = format!("{before}{begin}{table}{end}{behind}");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, now).unwrap();
    } else {
        assert!(text == now, "docs/{page}: run this test with WEIR_BLESS=1 and commit");
    }
}

#[test]
fn the_schema_of_laws_is_documented() {
    is_current(SHARED, "laws", &table());
    is_current(EMULATOR, "loss", &stage("loss", &Loss::laws(), &Loss::SHORT_FORMS));
    is_current(EMULATOR, "duplicate", &fields(&schemars::schema_for!(Duplicate)));
    is_current(EMULATOR, "reorder", &fields(&schemars::schema_for!(Reorder)));
    is_current(EMULATOR, "police", &fields(&schemars::schema_for!(Police)));
    is_current(EMULATOR, "rate", &fields(&schemars::schema_for!(Rate)));
    is_current(EMULATOR, "mtu", &fields(&schemars::schema_for!(Mtu)));
    is_current(EMULATOR, "background", &fields(&schemars::schema_for!(Background)));
    is_current(EMULATOR, "aqm", &aqm());
    is_current(EMULATOR, "batch", &stage("batch", &Batch::laws(), &Batch::SHORT_FORMS));
    is_current(EMULATOR, "delay", &stage("delay", &Delay::laws(), &Delay::SHORT_FORMS));
}
