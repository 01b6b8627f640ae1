//! The OpenAPI document, made from the routes as they are registered, so that it describes what the server does. The program has the
//! published document and not the code that makes it.
//!
//! The shapes come from the same `schemars` schemas as the published ones of plans, impairments and records.

mod choices;
mod operation;
mod routes;
mod schemas;
mod three_zero;

pub(crate) use operation::{FILE_NAME, Operation};
pub(crate) use routes::Routes;
pub(crate) use three_zero::three_zero;
