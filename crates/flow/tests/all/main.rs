//! All tests of this crate in one program, to link once.
// A failing helper is a failed test; helpers are shared, and not every test uses each.
#![allow(dead_code, clippy::unwrap_used)]

mod conservation;
mod ends;
mod pacing;
mod record;
mod transactions;
mod transfers;
