//! Stand-in for the speed test, which is not available on this system.

use weir_jobs::{Event, SpeedTestJob};

use crate::commands::not_available;
use crate::error::CliError;

/// A running speed test; it has no values on this system.
pub(crate) enum Serving {}

impl Serving {
    /// Never called.
    pub(crate) fn event(&self) -> Event {
        match *self {}
    }
}

/// Refuses a speed test, if one is requested.
pub(crate) fn start(job: Option<&SpeedTestJob>) -> Result<Option<Serving>, CliError> {
    job.map_or(Ok(None), |_| not_available("--speed-test"))
}
