//! The result of an emulator.

use crate::error::EmulatorError;
use crate::report::Report;

/// The result of an emulator.
#[derive(Debug)]
pub struct EmulatorResult {
    /// What it did.
    pub report: Report,
    /// What ended it, if it was not stopped.
    pub error: Option<EmulatorError>,
}
