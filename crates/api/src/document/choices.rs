//! Choices as generators of client code read them: constants as one `enum`, tagged objects with a `discriminator`.
//!
//! The published schemas keep a constant with a description for each choice, of which the page makes its forms.

use serde_json::{Value, json};

use super::schemas::{Keywords, describe, each};

/// Rewrites the choices of a document.
pub(super) fn simplify(document: &mut Value) {
    each(document, &mut plain_enum);
    if let Some(Value::Object(schemas)) = document.pointer_mut("/components/schemas") {
        discriminate(schemas);
    }
}

/// Turns a choice of constants into an `enum`; their descriptions become a list in its description.
fn plain_enum(keywords: &mut Keywords) {
    let Some(Value::Array(choices)) = keywords.get("oneOf") else { return };
    let mut values = vec![];
    let mut list = vec![];
    for choice in choices {
        // Choices without a description share an `enum`.
        let constants = match (choice.get("const"), choice.get("enum")) {
            (Some(one), None) => std::slice::from_ref(one),
            (None, Some(Value::Array(several))) => several.as_slice(),
            _ => return,
        };
        for constant in constants {
            let Some(name) = constant.as_str() else { return };
            let text = choice.get("description").and_then(Value::as_str);
            list.push(text.map_or_else(
                || format!("- `{name}`"),
                |text| format!("- `{name}`: {}", text.replace('\n', " ")),
            ));
            values.push(constant.clone());
        }
    }
    keywords.remove("oneOf");
    keywords.insert("type".into(), "string".into());
    keywords.insert("enum".into(), values.into());
    describe(keywords, &list.join("\n"));
}

/// Gives the objects of each tagged choice names, so that a discriminator can refer to them.
fn discriminate(schemas: &mut Keywords) {
    let mut named = vec![];
    for (name, schema) in schemas.iter_mut() {
        let Some(Value::Array(variants)) = schema.get_mut("oneOf") else { continue };
        let Some(tag) = tag_of(variants) else { continue };
        let mut mapping = Keywords::new();
        for variant in variants {
            let value = variant["properties"][&tag]["const"].take();
            let Some(text) = value.as_str() else { continue };
            variant["properties"][&tag] = json!({ "type": "string", "enum": [text] });
            let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
            let component = format!("{name}{}{rest}", first.to_uppercase());
            let reference = format!("#/components/schemas/{component}");
            mapping.insert(text.into(), reference.clone().into());
            named.push((component, std::mem::replace(variant, json!({ "$ref": reference }))));
        }
        schema["discriminator"] = json!({ "propertyName": tag, "mapping": mapping });
    }
    schemas.extend(named);
}

/// The property that has a constant of its own in every variant.
fn tag_of(variants: &[Value]) -> Option<String> {
    let constant = |variant: &Value, name: &str| {
        variant["properties"][name]["const"].is_string()
            && variant["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
    };
    let properties = variants.first()?["properties"].as_object()?;
    let found = properties.keys().find(|name| variants.iter().all(|one| constant(one, name)));
    found.cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_become_one_enum() {
        let mut document = json!({ "components": { "schemas": { "Law": {
            "description": "A law.",
            "oneOf": [
                { "const": "normal", "type": "string", "description": "Gaussian." },
                { "enum": ["a", "b"], "type": "string" },
            ],
        } } } });
        simplify(&mut document);
        let law = &document["components"]["schemas"]["Law"];
        assert_eq!(law["enum"], json!(["normal", "a", "b"]));
        assert_eq!(law["type"], "string");
        assert!(law.get("oneOf").is_none());
        assert!(law["description"].as_str().unwrap().contains("Gaussian."));
    }

    #[test]
    fn a_choice_of_other_schemas_stays() {
        let choice =
            json!({ "oneOf": [{ "const": "a", "type": "string" }, { "type": "integer" }] });
        // A property with that name is no keyword.
        let object = json!({ "properties": { "oneOf": { "type": "string" } } });
        let before = json!({ "components": { "schemas": { "Choice": choice, "Object": object } } });
        let mut document = before.clone();
        simplify(&mut document);
        assert_eq!(document, before);
    }

    #[test]
    fn tagged_objects_are_found_by_their_tags() {
        let variant = |tag: &str| {
            json!({
                "type": "object",
                "properties": { "data": { "type": "string" }, "event": { "const": tag, "type": "string" } },
                "required": ["data", "event"],
            })
        };
        let choice = json!({ "oneOf": [variant("hello"), variant("state")] });
        let mut document = json!({ "components": { "schemas": { "Event": choice } } });
        simplify(&mut document);
        let event = &document["components"]["schemas"]["Event"];
        assert_eq!(event["discriminator"]["propertyName"], "event");
        for (tag, name) in [("hello", "EventHello"), ("state", "EventState")] {
            let reference = format!("#/components/schemas/{name}");
            assert_eq!(event["discriminator"]["mapping"][tag], reference);
            let variant = &document["components"]["schemas"][name];
            assert_eq!(variant["properties"]["event"]["enum"], json!([tag]));
        }
        assert_eq!(event["oneOf"][1]["$ref"], "#/components/schemas/EventState");
    }
}
