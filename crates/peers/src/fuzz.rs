//! Fuzz bodies, one per parser of outside bytes: functions that take any bytes and check invariants.

pub use crate::stamp::fuzz_stamp;
