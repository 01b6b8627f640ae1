//! Data files of flent (`.flent.gz`): JSON of version 4 with series of values at common times.

mod read;
mod write;

pub(crate) use read::{read, recognises};
pub(crate) use write::write;

/// Version of the file format.
const VERSION: u64 = 4;
/// Unit of a series of rates: 10^6 bit/s.
const RATE_UNIT: &str = "Mbits/s";
/// Unit of a series of round trips.
const TIME_UNIT: &str = "ms";
