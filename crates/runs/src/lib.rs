//! Stored results: run records and calibrations in one SQLite file.
//!
//! The main types:
//! - [`Store`]: the open file. [`Store::insert`], [`Store::list`], [`Store::get`], [`Store::remove`],
//!   [`Store::export`], [`Store::import`], [`Store::tag`]; [`Store::put_calibration`], [`Store::latest_calibration`].
//! - [`DataDirectory`]: the directory of this user's file, also under sudo.
//! - [`Experiments`]: checkpoints and results of experiments, next to the file.
//! - [`Filter`], [`Condition`] and [`RunRow`]: the query and the rows of a list.
//! - [`diff()`] of two [`Side`]s: differences of figures between runs, and whether chance explains them.
//! - [`Watches`]: figures of continuous measurement, in a file of their own.
//! - [`Tables`]: runs as tidy tables for statistics programs; as Parquet files with the feature `parquet`.
//! - [`new_run_id`]: an id that sorts by time and can be typed.
//! - [`StoreError`]: what failed, on which file. A record is never lost by it: the caller still holds it.
//!
//! ```
//! use std::time::Duration;
//! use weir_model::record::{RUN_SCHEMA, Record};
//! use weir_runs::{Filter, Store, new_run_id};
//! # let dir = tempfile::tempdir().unwrap();
//! let mut store = Store::open(&dir.path().join("runs.db"))?;
//! let id = new_run_id(Duration::from_millis(1_795_293_009_125), 0xab12);
//! store.insert(&Record { schema: RUN_SCHEMA.into(), id: id.clone(), ..Default::default() })?;
//! assert_eq!(store.get("last")?.id, id);
//! assert_eq!(store.list(&Filter::default())?.len(), 1);
//! # Ok::<(), weir_runs::StoreError>(())
//! ```

mod calibration;
mod condition;
mod data_directory;
mod diff;
mod error;
mod experiments;
mod figures;
mod import;
mod labels;
mod layout;
mod parameters;
#[cfg(feature = "parquet")]
mod parquet;
mod plan_hash;
pub mod retention;
mod row;
mod search;
mod setup;
mod store;
mod tables;
mod time;
mod watches;

#[doc(hidden)]
pub mod fuzz;

pub use calibration::StoredCalibration;
pub use condition::Condition;
pub use data_directory::DataDirectory;
pub use diff::{
    Diff, FigureDifference, MannWhitneyFigure, Moved, Samples, Side, SideFigure, WelchFigure, diff,
    diff_schema,
};
pub use error::StoreError;
pub use experiments::Experiments;
pub use import::{Imported, MAX_RECORD_BYTES};
#[cfg(feature = "parquet")]
pub use parquet::{ParquetExport, ParquetSummary, group_columns, groups};
pub use plan_hash::plan_sha256;
pub use row::RunRow;
pub use search::{Filter, RunKind};
pub use setup::SetupDifference;
pub use store::Store;
pub use tables::{
    RowSink, TABLE_FILES, Tables, table_columns, write_flows, write_histograms, write_intervals,
    write_run,
};
pub use time::{Edge, moment_of, new_run_id, rfc3339, unix_ms_of};
pub use watches::{LatestBurst, LatestPair, MeshSummary, Watches};
