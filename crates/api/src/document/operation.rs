//! An operation of the OpenAPI document: name, parameters and responses.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

type Shape = fn(&mut SchemaGenerator) -> Schema;

/// The description of a route.
#[derive(Clone)]
pub(crate) struct Operation {
    id: &'static str,
    group: &'static str,
    summary: &'static str,
    query: Option<Shape>,
    body: Option<Shape>,
    is_file: bool,
    answers: Vec<(u16, &'static str, Option<Shape>)>,
    matching: bool,
    tagged: bool,
    names_file: bool,
    choice: Option<(&'static str, &'static [&'static str])>,
}

/// Names that `handlers::file_name` accepts, with letters of Latin, Greek, Cyrillic and East Asian scripts; it accepts those
/// of other scripts too, for which readers of patterns have no common class.
pub(crate) const FILE_NAME: &str = "^[A-Za-z0-9_\u{c0}-\u{d6}\u{d8}-\u{f6}\u{f8}-\u{24f}\u{3b1}-\u{3c9}\u{430}-\u{44f}\u{3041}-\u{3096}\u{30a1}-\u{30fa}\u{4e00}-\u{9fff}\u{ac00}-\u{d7a3}]([A-Za-z0-9_. \u{c0}-\u{d6}\u{d8}-\u{f6}\u{f8}-\u{24f}\u{3b1}-\u{3c9}\u{430}-\u{44f}\u{3041}-\u{3096}\u{30a1}-\u{30fa}\u{4e00}-\u{9fff}\u{ac00}-\u{d7a3}-]{0,62}[A-Za-z0-9_\u{c0}-\u{d6}\u{d8}-\u{f6}\u{f8}-\u{24f}\u{3b1}-\u{3c9}\u{430}-\u{44f}\u{3041}-\u{3096}\u{30a1}-\u{30fa}\u{4e00}-\u{9fff}\u{ac00}-\u{d7a3}-])?$";

/// One entity tag (RFC 9110, 8.8.3), or any.
const ENTITY_TAG: &str = r#"^(\*|(W/)?"[!#-~]*")$"#;

impl Operation {
    /// An operation with its name in generated code, its tag and a summary.
    pub(crate) fn new(id: &'static str, group: &'static str, summary: &'static str) -> Self {
        Operation {
            id,
            group,
            summary,
            query: None,
            body: None,
            is_file: false,
            answers: vec![],
            matching: false,
            tagged: false,
            names_file: false,
            choice: None,
        }
    }

    /// The query parameters.
    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(|generator| T::json_schema(generator));
        self
    }

    /// The request body, as JSON.
    pub(crate) fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(|generator| generator.subschema_for::<T>());
        self
    }

    /// The request body is the content of a file.
    pub(crate) fn file(mut self) -> Self {
        self.is_file = true;
        self
    }

    /// A response with a JSON body.
    pub(crate) fn answers<T: JsonSchema>(mut self, status: u16) -> Self {
        let shape: Shape = |generator| generator.subschema_for::<T>();
        self.answers.push((status, "application/json", Some(shape)));
        self
    }

    /// A response with another body.
    pub(crate) fn answers_as<T: JsonSchema>(mut self, status: u16, media: &'static str) -> Self {
        let shape: Shape = |generator| generator.subschema_for::<T>();
        self.answers.push((status, media, Some(shape)));
        self
    }

    /// A response without a body.
    pub(crate) fn done(mut self) -> Self {
        self.answers.push((204, "", None));
        self
    }

    /// Responses carry an entity tag.
    pub(crate) fn tagged(mut self) -> Self {
        self.tagged = true;
        self
    }

    /// A change that may be conditional on the entity tag.
    pub(crate) fn matching(mut self) -> Self {
        self.matching = true;
        self.tagged()
    }

    /// The path has the name of a file.
    pub(crate) fn names_file(mut self) -> Self {
        self.names_file = true;
        self
    }

    /// A part of the path that is one of these words.
    pub(crate) fn one_of(mut self, name: &'static str, words: &'static [&'static str]) -> Self {
        self.choice = Some((name, words));
        self
    }

    /// The operation in the document.
    pub(crate) fn describe(&self, path: &str, generator: &mut SchemaGenerator) -> Value {
        let mut parameters: Vec<Value> = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .map(|name| {
                let mut schema = json!({ "type": "string" });
                if self.names_file && name == "name" {
                    schema["pattern"] = FILE_NAME.into();
                }
                if let Some((_, words)) = self.choice.filter(|(part, _)| *part == name) {
                    schema["enum"] = json!(words);
                }
                json!({ "name": name, "in": "path", "required": true, "schema": schema })
            })
            .collect();
        if let Some(query) = self.query {
            parameters.extend(query_parameters(query(generator)));
        }
        if self.matching {
            parameters.push(json!({
                "name": "If-Match", "in": "header", "required": false, "schema": { "type": "string", "pattern": ENTITY_TAG },
                "description": "The entity tag of the document that was changed, or `*` for any. If the document has changed since: 412 with who changed it; without a condition: 428.",
            }));
            parameters.push(json!({
                "name": "If-None-Match", "in": "header", "required": false, "schema": { "type": "string", "enum": ["*"] },
                "description": "Create a new document: 412 if it exists. With If-Match, both conditions must hold.",
            }));
        }
        let mut responses = Map::new();
        for (status, media, shape) in &self.answers {
            let mut response = json!({ "description": described(*status) });
            if let Some(shape) = shape {
                let content = &mut response["content"][*media]["schema"];
                match content.as_object_mut() {
                    // Several responses of the same status are merged.
                    Some(_) => {}
                    None => *content = shape(generator).to_value(),
                }
            }
            if self.tagged && *status < 300 {
                response["headers"]["ETag"] = json!({ "schema": { "type": "string" } });
            }
            match responses.get_mut(&status.to_string()) {
                Some(known) => {
                    if let (Some(known), Some(new)) =
                        (known["content"].as_object_mut(), response["content"].as_object_mut())
                    {
                        known.append(new);
                    }
                }
                None => drop(responses.insert(status.to_string(), response)),
            }
        }
        responses.insert("default".into(), json!({ "$ref": "#/components/responses/Problem" }));
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.group],
            "summary": self.summary,
            "responses": responses,
        });
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if let Some(body) = self.body {
            operation["requestBody"] = json!({
                "required": true,
                "content": { "application/json": { "schema": body(generator) } },
            });
        }
        if self.is_file {
            operation["requestBody"] = json!({
                "required": true,
                "content": { "application/octet-stream": { "schema": { "type": "string", "format": "binary" } } },
            });
        }
        operation
    }
}

fn described(status: u16) -> &'static str {
    match status {
        200 => "As asked.",
        201 => "Made.",
        202 => "Begun.",
        204 => "Done.",
        _ => "See the status.",
    }
}

/// The properties of an object as query parameters.
fn query_parameters(schema: Schema) -> Vec<Value> {
    let schema = schema.to_value();
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let Some(properties) = schema["properties"].as_object() else { return vec![] };
    properties
        .iter()
        .map(|(name, shape)| {
            let mut shape = shape.clone();
            // A query parameter is present or absent, never null.
            if let Some(kinds) = shape.get_mut("type").and_then(Value::as_array_mut) {
                kinds.retain(|kind| kind != "null");
                if let [one] = &kinds[..] {
                    shape["type"] = one.clone();
                }
            }
            if shape["default"].is_null()
                && let Some(shape) = shape.as_object_mut()
            {
                shape.remove("default");
            }
            let words = shape.as_object_mut().and_then(|s| s.remove("description"));
            let mut parameter = json!({
                "name": name, "in": "query", "required": required.contains(&name.as_str()), "schema": shape,
            });
            if let Some(words) = words {
                parameter["description"] = words;
            }
            parameter
        })
        .collect()
}
