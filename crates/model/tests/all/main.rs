//! All tests of this crate in one program, to link only once.
// Helpers may panic to fail a test; not every test uses all shared helpers.
#![allow(dead_code, clippy::unwrap_used)]

mod laws;
mod plan;
mod scenario;
#[rustfmt::skip]
mod scipy;
mod traffic_laws;
mod units;
