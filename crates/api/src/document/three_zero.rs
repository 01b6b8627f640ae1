//! The OpenAPI document in version 3.0.3, for generators that read no later one. Its schemas are not JSON Schema (OpenAPI 3.0.3,
//! 4.7.24): what they cannot express is left out, so that they admit more and never less.

use serde_json::{Value, json};

use super::schemas::{Keywords, each};

/// A document of version 3.1 in version 3.0.3.
pub(crate) fn three_zero(mut document: Value) -> Value {
    document["openapi"] = "3.0.3".into();
    let info = &mut document["info"];
    let summary = info["summary"].take();
    info["description"] = summary;
    if let Some(info) = info.as_object_mut() {
        info.remove("summary");
        if let Some(Value::Object(license)) = info.get_mut("license") {
            license.remove("identifier");
        }
    }
    if let Some(Value::Object(paths)) = document.get_mut("paths") {
        let operations = paths.values_mut().filter_map(Value::as_object_mut);
        operations.flat_map(Keywords::values_mut).for_each(split_default);
    }
    each(&mut document, &mut downgrade);
    document
}

/// The response of all other statuses becomes that of errors: generators that allow one type of success count it as one.
fn split_default(operation: &mut Value) {
    let Some(Value::Object(responses)) = operation.get_mut("responses") else { return };
    if let Some(response) = responses.remove("default") {
        responses.insert("4XX".into(), response.clone());
        responses.insert("5XX".into(), response);
    }
}

/// Keywords of JSON Schema without an equivalent in 3.0.3. Its `not` cannot refer to null.
const UNKNOWN: [&str; 4] = ["dependentSchemas", "propertyNames", "$comment", "not"];

fn downgrade(keywords: &mut Keywords) {
    for name in UNKNOWN {
        keywords.remove(name);
    }
    if let Some(constant) = keywords.remove("const") {
        keywords.insert("enum".into(), json!([constant]));
    }
    if let Some(Value::Array(examples)) = keywords.remove("examples")
        && let Some(first) = examples.into_iter().next()
    {
        keywords.insert("example".into(), first);
    }
    exclusive(keywords, "exclusiveMinimum", "minimum");
    exclusive(keywords, "exclusiveMaximum", "maximum");
    patterns(keywords);
    types(keywords);
    null_choice(keywords);
    // Keywords beside a reference are ignored.
    if keywords.len() > 1
        && let Some(reference) = keywords.remove("$ref")
    {
        keywords.insert("allOf".into(), json!([{ "$ref": reference }]));
    }
}

/// A bound that is excluded is a flag of the bound.
fn exclusive(keywords: &mut Keywords, name: &str, bound: &str) {
    if let Some(limit) = keywords.remove(name) {
        keywords.insert(bound.into(), limit);
        keywords.insert(name.into(), true.into());
    }
}

/// Names by pattern become any names.
fn patterns(keywords: &mut Keywords) {
    let Some(Value::Object(patterns)) = keywords.remove("patternProperties") else { return };
    let mut schemas = patterns.into_iter().map(|(_, schema)| schema);
    let one = match (schemas.next(), schemas.next()) {
        (Some(one), None) => one,
        _ => true.into(),
    };
    keywords.insert("additionalProperties".into(), one);
}

/// Keywords that concern a value of one type only.
fn concerns(keyword: &str, kind: &str) -> bool {
    match kind {
        "string" => matches!(keyword, "pattern" | "minLength" | "maxLength" | "enum"),
        "number" | "integer" => matches!(
            keyword,
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf"
        ),
        _ => false,
    }
}

/// A list of types becomes one type, `nullable`, or a choice.
fn types(keywords: &mut Keywords) {
    let Some(Value::Array(kinds)) = keywords.get("type") else { return };
    let mut kinds = kinds.clone();
    let all = kinds.len();
    kinds.retain(|kind| kind != "null");
    let is_nullable = kinds.len() < all;
    keywords.remove("type");
    if let [one] = &kinds[..] {
        keywords.insert("type".into(), one.clone());
        if is_nullable {
            keywords.insert("nullable".into(), true.into());
        }
        return;
    }
    let choice = kinds.iter().filter_map(Value::as_str).map(|kind| {
        let mut schema = json!({ "type": kind });
        for (name, value) in keywords.iter().filter(|(name, _)| concerns(name, kind)) {
            schema[name] = value.clone();
        }
        if is_nullable {
            schema["nullable"] = true.into();
        }
        schema
    });
    let choice: Vec<Value> = choice.collect();
    let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
    keywords.retain(|name, _| !kinds.iter().any(|kind| concerns(name, kind)));
    keywords.insert("anyOf".into(), choice.into());
}

/// A choice with null becomes `nullable`.
fn null_choice(keywords: &mut Keywords) {
    for name in ["anyOf", "oneOf"] {
        let Some(Value::Array(choices)) = keywords.get_mut(name) else { continue };
        let all = choices.len();
        choices.retain(|choice| choice["type"] != "null");
        if choices.len() == all {
            continue;
        }
        keywords.insert("nullable".into(), true.into());
        if keywords[name].as_array().is_some_and(|left| left.len() == 1)
            && let Some(one) = keywords.remove(name)
        {
            keywords.insert("allOf".into(), one);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(schema: Value) -> Value {
        let mut document = json!({ "schema": schema });
        each(&mut document, &mut downgrade);
        document["schema"].take()
    }

    #[test]
    fn null_is_a_flag() {
        let nullable = json!({ "type": "string", "nullable": true });
        assert_eq!(of(json!({ "type": ["string", "null"] })), nullable);
        let reference = json!({ "$ref": "#/x" });
        let choice = json!({ "anyOf": [reference, { "type": "null" }], "description": "X" });
        assert_eq!(
            of(choice),
            json!({ "allOf": [reference], "nullable": true, "description": "X" })
        );
        let several =
            of(json!({ "anyOf": [reference, { "type": "boolean" }, { "type": "null" }] }));
        assert_eq!(several["anyOf"].as_array().unwrap().len(), 2);
        assert_eq!(several["nullable"], true);
    }

    #[test]
    fn several_types_are_a_choice_with_their_own_limits() {
        let both = of(
            json!({ "type": ["string", "number"], "pattern": "^x", "minimum": 0, "description": "X" }),
        );
        let choice =
            json!([{ "type": "string", "pattern": "^x" }, { "type": "number", "minimum": 0 }]);
        assert_eq!(both, json!({ "anyOf": choice, "description": "X" }));
    }

    #[test]
    fn keywords_of_later_versions_are_replaced() {
        assert_eq!(of(json!({ "const": 1 })), json!({ "enum": [1] }));
        assert_eq!(of(json!({ "examples": ["a", "b"] })), json!({ "example": "a" }));
        let limit = json!({ "exclusiveMinimum": 0, "type": "number" });
        assert_eq!(of(limit), json!({ "minimum": 0, "exclusiveMinimum": true, "type": "number" }));
        let referring = json!({ "$ref": "#/x", "default": 1 });
        assert_eq!(of(referring), json!({ "allOf": [{ "$ref": "#/x" }], "default": 1 }));
        let by_pattern =
            json!({ "patternProperties": { "^a": { "const": 1 } }, "additionalProperties": false });
        assert_eq!(of(by_pattern), json!({ "additionalProperties": { "enum": [1] } }));
        // A property of that name, and values, are no keywords.
        let object = json!({ "properties": { "const": { "default": { "const": 1 } } } });
        assert_eq!(of(object.clone()), object);
    }

    #[test]
    fn the_whole_document_has_no_later_keyword() {
        let document = crate::openapi_three_zero();
        assert_eq!(document["openapi"], "3.0.3");
        assert!(document["info"].get("summary").is_none());
        let responses = &document["paths"]["/api/v1/system"]["get"]["responses"];
        let statuses: Vec<&String> = responses.as_object().unwrap().keys().collect();
        assert_eq!(statuses, ["200", "4XX", "5XX"]);
        let mut schemas = 0;
        each(&mut document.clone(), &mut |keywords: &mut Keywords| {
            schemas += 1;
            for later in ["const", "examples", "patternProperties", "dependentSchemas"] {
                assert!(!keywords.contains_key(later), "{later} in {keywords:?}");
            }
            let kind = keywords.get("type");
            assert!(kind.is_none_or(|kind| kind.is_string() && kind != "null"), "{keywords:?}");
            assert!(!keywords.contains_key("$ref") || keywords.len() == 1, "{keywords:?}");
        });
        assert!(schemas > 1000, "{schemas}");
    }
}
