//! All tests of this crate in one program, to link once.
// A failing helper is a failed test; helpers are shared, and not every test uses each.
#![allow(dead_code, clippy::unwrap_used)]

mod faults_common;

mod cast;
mod echo;
mod ethernet;
mod faults;
mod files;
mod header;
mod hostile;
mod loopback;
mod mptcp;
mod session;
mod several;
mod transactions;
mod transfers;
mod unix;
