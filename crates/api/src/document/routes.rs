//! Routes and their operations, registered together.

use axum::Router;
use axum::http::Method;
use axum::routing::MethodRouter;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::{Operation, choices};
use crate::app::Shared;
use crate::problem::Problem;
use crate::types::StreamEvent;

/// Prefix of every path.
pub(crate) const BASE: &str = "/api/v1";

/// The router and the document. The document is made for the published file, docs/openapi.json; a server, which has that file in it,
/// registers its routes without (`DOCUMENTED` false), so that the program has no code for it.
pub(crate) struct Routes<const DOCUMENTED: bool> {
    router: Router<Shared>,
    generator: SchemaGenerator,
    paths: serde_json::Map<String, Value>,
}

impl<const DOCUMENTED: bool> Routes<DOCUMENTED> {
    pub(crate) fn new() -> Self {
        let mut settings = SchemaSettings::draft2020_12();
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
        Routes {
            router: Router::new(),
            generator: settings.into_generator(),
            paths: serde_json::Map::new(),
        }
    }

    /// Registers a route; `path` is relative to the base, `handler` is for this method alone.
    pub(crate) fn add(
        mut self,
        method: &Method,
        path: &str,
        handler: MethodRouter<Shared>,
        operation: impl Fn() -> Operation,
    ) -> Self {
        let full = format!("{BASE}{path}");
        self.router = self.router.route(&full, handler);
        if DOCUMENTED {
            let described = operation().describe(path, &mut self.generator);
            let entry = self.paths.entry(full).or_insert_with(|| json!({}));
            entry[method.as_str().to_ascii_lowercase()] = described;
        }
        self
    }

    pub(crate) fn into_router(self) -> Router<Shared> {
        self.router
    }
}

impl Routes<true> {
    pub(crate) fn into_document(mut self) -> Value {
        let problem = self.generator.subschema_for::<Problem>();
        // The schemas of the stream's events, although the response is text.
        let _ = self.generator.subschema_for::<StreamEvent>();
        let schemas = self.generator.take_definitions(true);
        let mut document = json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Weir",
                "version": env!("CARGO_PKG_VERSION"),
                "summary": "The functions of the weir program over HTTP.",
                "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
            },
            "servers": [{ "url": "/" }],
            "paths": self.paths,
            "components": {
                "schemas": schemas,
                "responses": { "Problem": {
                    "description": "Refused or failed; the problem names the field.",
                    "content": { "application/problem+json": { "schema": problem } },
                } },
                "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            },
            "security": [{}, { "token": [] }],
        });
        choices::simplify(&mut document);
        document
    }
}
