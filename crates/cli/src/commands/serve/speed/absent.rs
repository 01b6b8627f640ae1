//! The speed test is not available on this system.

use weir_jobs::{Event, SpeedTestJob};

use crate::commands::not_available;
use crate::error::CliError;

/// A speed test, of which there is none.
pub(crate) enum Serving {}

impl Serving {
    /// Never called.
    pub(crate) fn event(&self) -> Event {
        match *self {}
    }
}

/// Refused, where it is asked for.
pub(crate) fn start(job: Option<&SpeedTestJob>) -> Result<Option<Serving>, CliError> {
    job.map_or(Ok(None), |_| not_available("--speed-test"))
}
