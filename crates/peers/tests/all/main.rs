//! Every test of this crate in one program: one link instead of many.
// A helper that can't go on is a failed test.
#![allow(clippy::unwrap_used)]

mod ttcp;
