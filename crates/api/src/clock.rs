//! The time of day, and ids derived from it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time since 1970.
fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    since_1970().as_millis() as u64
}

/// RFC 3339, UTC.
pub(crate) fn now() -> String {
    weir_runs::rfc3339(unix_ms())
}

/// The time of a file, RFC 3339, UTC.
pub(crate) fn of(time: SystemTime) -> String {
    let ms = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
    weir_runs::rfc3339(ms)
}

/// An id that sorts by time.
pub(crate) fn new_id() -> String {
    // Without random bits, ids of the same moment would be equal.
    let random = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
    weir_runs::new_run_id(since_1970(), random)
}

/// A seed for a new emulator.
pub(crate) fn new_seed() -> weir_model::units::Seed {
    weir_model::units::Seed(getrandom::u64().unwrap_or_else(|_| unix_ms()))
}
