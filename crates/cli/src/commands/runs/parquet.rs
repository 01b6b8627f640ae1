//! `weir runs export --parquet`.

use std::io::Write;
use std::path::Path;

use weir_runs::{ParquetExport, Store, StoreError};

use super::RunsError;

/// An error of the files, which the flag named.
fn of_flag(error: StoreError) -> RunsError {
    match error {
        StoreError::Io { operation, path, source } => {
            RunsError::Parquet { operation, path, source }
        }
        other => other.into(),
    }
}

/// Writes the runs into a directory, and what the files lack to `err`.
pub(super) fn write(
    store: &Store,
    ids: &[String],
    directory: &Path,
    err: &mut dyn Write,
) -> Result<(), RunsError> {
    let mut export = ParquetExport::new(directory).map_err(of_flag)?;
    for id in store.in_order_of_start(ids)? {
        export.record(&store.get(&id)?).map_err(of_flag)?;
    }
    let done = export.finish().map_err(of_flag)?;
    let days = if done.days == 1 { "day" } else { "days" };
    writeln!(err, "{} runs of {} {days} in {}", done.runs, done.days, directory.display())?;
    if done.unreadable_histograms > 0 {
        writeln!(err, "{} unreadable histograms are omitted", done.unreadable_histograms)?;
    }
    if done.omitted_values > 0 {
        writeln!(err, "{} values beyond the type of their column are null", done.omitted_values)?;
    }
    Ok(())
}
