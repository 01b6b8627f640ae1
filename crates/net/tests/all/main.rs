//! All tests of this crate in one program, to link once.
// A failing helper is a failed test; helpers are shared, and not every test uses each.
#![allow(dead_code, clippy::unwrap_used)]

mod chrony;
mod ethernet;
mod facts;
mod fuzz_replay;
mod tcp;
mod udp;
