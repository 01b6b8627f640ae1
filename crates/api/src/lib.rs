//! Weir's HTTP API.

mod app;
mod document;
mod handlers;
mod problem;
mod routes;
pub mod types;

/// The OpenAPI document.
#[must_use]
pub fn openapi() -> serde_json::Value {
    routes::routes().1
}
