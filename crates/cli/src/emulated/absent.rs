//! Stand-in for watching an emulator, which is not available on this system.

use std::path::Path;

use weir_model::record::Record;

use crate::commands::not_available;
use crate::error::CliError;

/// A watched emulator; it has no values on this system.
pub(crate) enum Watched {}

impl Watched {
    /// Refuses an emulator if one is named.
    pub(crate) fn find(
        named: Option<&Path>,
        _client_side: Option<&str>,
    ) -> Result<Option<Watched>, CliError> {
        named.map_or(Ok(None), |_| not_available("--emulator"))
    }

    /// Never called.
    pub(crate) fn finish(self, _record: &mut Record) -> Result<(), String> {
        match self {}
    }
}
