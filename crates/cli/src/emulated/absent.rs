//! No emulator can be watched on this system.

use std::path::Path;

use weir_model::record::Record;

use crate::commands::not_available;
use crate::error::CliError;

/// An emulator that is watched, of which there is none.
pub(crate) enum Watched {}

impl Watched {
    /// Refuses one that is named.
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
