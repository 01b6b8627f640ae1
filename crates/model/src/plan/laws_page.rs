//! The table of laws in `docs/laws.md`, made of their declarations.

use schemars::Schema;
use serde_json::Value;

use super::{Size, Spacing};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/laws.md");
const BEGIN: &str = "<!-- generated: laws -->\n";
const END: &str = "<!-- end: laws -->\n";

fn text(of: &Value) -> String {
    of.get("description").and_then(Value::as_str).unwrap_or_default().replace('\n', " ")
}

/// The parameters of a law, in the order of their names.
fn parameters(schema: &Schema) -> String {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return String::new();
    };
    // What clamps has a section of its own.
    let is_bound = |of: &Value| {
        [" values become this.", "Mean after clamping:"].iter().any(|part| text(of).contains(part))
    };
    let bounds = properties.iter().filter(|(_, of)| is_bound(of));
    let bounds: Vec<_> = bounds.map(|(name, _)| format!("`{name}`")).collect();
    let own = properties.iter().filter(|(_, of)| !is_bound(of));
    let mut own: Vec<_> = own.map(|(name, of)| format!("`{name}`: {}", text(of))).collect();
    if !bounds.is_empty() {
        own.push(format!("{}: [bounds](#bounds)", bounds.join(", ")));
    }
    own.join("<br>")
}

fn table() -> String {
    let (sizes, intervals) = (Size::laws(), Spacing::laws());
    let only = intervals.iter().filter(|(name, _)| !sizes.iter().any(|(other, _)| other == name));
    let mut out = String::from("| law | for | values | parameters |\n| --- | --- | --- | --- |\n");
    for (name, schema) in sizes.iter().chain(only) {
        let has = |laws: &[(&str, Schema)]| laws.iter().any(|(other, _)| other == name);
        let of = match (has(&sizes), has(&intervals)) {
            (true, true) => "both",
            (true, false) => "sizes",
            _ => "intervals",
        };
        out += &format!(
            "| `{name}` | {of} | {} | {} |\n",
            text(schema.as_value()),
            parameters(schema)
        );
    }
    out
}

/// `WEIR_BLESS=1` rewrites the table.
#[test]
fn the_schema_of_laws_is_documented() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, behind) = rest.split_once(END).unwrap();
    let now = format!("{before}{BEGIN}{}{END}{behind}", table());
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(PAGE, now).unwrap();
    } else {
        assert!(page == now, "docs/laws.md: run this test with WEIR_BLESS=1 and commit");
    }
}
