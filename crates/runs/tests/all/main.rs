//! All integration tests of this crate in one program, which is linked once.
// A helper that fails is a failed test. Helpers are shared, and not every test uses each.
#![allow(dead_code, clippy::unwrap_used)]

mod diff;
#[cfg(feature = "parquet")]
mod parquet;
mod search;
mod store;
mod tables;
