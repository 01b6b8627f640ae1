//! Every test of this crate in one program: one link instead of many.
// A helper that can't go on is a failed test; helpers are shared, and not every test uses each.
#![allow(dead_code, clippy::unwrap_used)]

mod http;
mod served;

mod answers;
mod counters;
mod dashboard;
mod experiments;
mod guarded;
mod hostile;
mod imports;
mod launcher;
mod limits;
mod meshes;
mod openapi;
mod refusals;
mod speed;
mod supervised;
