//! Walks the schemas of an OpenAPI document.

use serde_json::{Map, Value};

/// The keywords of a schema.
pub(super) type Keywords = Map<String, Value>;

/// Calls `visit` for each schema of a document or a part of one, inner schemas first.
pub(super) fn each(document: &mut Value, visit: &mut impl FnMut(&mut Keywords)) {
    match document {
        Value::Object(members) => {
            for (name, member) in members {
                match (name.as_str(), member) {
                    ("schema", schema) => inside(schema, visit),
                    ("schemas", Value::Object(named)) => {
                        named.values_mut().for_each(|schema| inside(schema, visit));
                    }
                    (_, member) => each(member, visit),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|member| each(member, visit)),
        _ => {}
    }
}

/// The same for one schema. Defaults and examples are values, and are not walked.
fn inside(schema: &mut Value, visit: &mut impl FnMut(&mut Keywords)) {
    // Others are `true` and `false`.
    let Value::Object(keywords) = schema else { return };
    for (name, member) in keywords.iter_mut() {
        match (name.as_str(), member) {
            ("properties" | "patternProperties" | "dependentSchemas", Value::Object(named)) => {
                named.values_mut().for_each(|schema| inside(schema, visit));
            }
            ("oneOf" | "anyOf" | "allOf", Value::Array(list)) => {
                list.iter_mut().for_each(|schema| inside(schema, visit));
            }
            ("items" | "additionalProperties" | "propertyNames" | "not", schema) => {
                inside(schema, visit);
            }
            _ => {}
        }
    }
    visit(keywords);
}

/// Adds a sentence or a list to a description.
pub(super) fn describe(keywords: &mut Keywords, text: &str) {
    let before = keywords.get("description").and_then(Value::as_str);
    let whole = before.map_or_else(|| text.to_owned(), |before| format!("{before}\n\n{text}"));
    keywords.insert("description".into(), whole.into());
}
