//! `weir runs export --parquet` in a build without the feature `parquet`.

use std::io::Write;
use std::path::Path;

use weir_runs::Store;

use super::RunsError;

/// Refuses.
///
/// # Errors
/// [`RunsError::NoParquet`].
pub(super) fn write(
    _: &Store,
    _: &[String],
    directory: &Path,
    _: &mut dyn Write,
) -> Result<(), RunsError> {
    Err(RunsError::NoParquet { directory: directory.into() })
}
