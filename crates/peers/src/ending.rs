//! How a test of this end's ends: its status and error, and its record.

use std::net::SocketAddr;

use weir_model::record::{Record, Status};
use weir_traffic::{ClientConfig, Event, Failure, StopReason, TrafficError, session};

/// How a test ended.
pub(crate) enum Over {
    Complete,
    Stopped(StopReason),
    Failed(TrafficError),
}

/// The error of a test that was stopped.
pub(crate) fn stopped(reason: StopReason) -> TrafficError {
    TrafficError::Stopped(reason.text(), reason.exit_code())
}

impl Over {
    /// Its status and reason in the record.
    pub(crate) fn status(&self) -> (Status, String) {
        match self {
            Over::Complete => (Status::Complete, "all flows ended".into()),
            Over::Stopped(reason) => (Status::Interrupted, reason.text().into()),
            Over::Failed(error) => (Status::Partial, error.to_string()),
        }
    }

    /// Shows the intervals of `record` that have not been shown, and ends the test with it.
    ///
    /// # Errors
    /// [`Failure`] with the record, unless the test is complete.
    pub(crate) fn end(
        self,
        record: Record,
        shown: usize,
        observe: &mut dyn FnMut(Event),
    ) -> Result<Record, Failure> {
        for interval in record.intervals.iter().skip(shown) {
            observe(Event::Interval(Box::new(interval.clone())));
        }
        let error = match self {
            Over::Complete => return Ok(record),
            Over::Stopped(reason) => stopped(reason),
            Over::Failed(error) => error,
        };
        Err(Failure { error, partial: Some(Box::new(record)) })
    }
}

/// The nominal rate of the path to `peer`, bit/s, and its source, if the test has one.
pub(crate) fn nominal(config: &ClientConfig, peer: SocketAddr) -> Option<(u64, String)> {
    match config.plan.nominal {
        Some(rate) => Some((rate.0, "stated".into())),
        None => config.nominal_auto.then(|| session::nominal(peer.ip())).flatten(),
    }
}
