//! The OpenAPI document: made of the routes as they are registered, so that what is described is what answers.
//!
//! The shapes come from the same `schemars` schemas as the published ones of plans, impairments and records; nothing is
//! described a second time.

mod operation;
mod routes;

pub(crate) use operation::Operation;
pub(crate) use routes::Routes;
