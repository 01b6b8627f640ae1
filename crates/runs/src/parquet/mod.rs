//! Stored results as Apache Parquet files, for DuckDB, Spark, pandas and the like.
//!
//! [`ParquetExport`] writes records into partitions by group and day, as Hive lays them out:
//! `group=packets/day=2026-11-21/weir.parquet`. [`groups`] and [`group_columns`] are the schema; columns are those of the
//! tidy tables. `docs/formats.md` describes the files.

mod column;
mod export;
mod file;
mod interval;
mod layout;
mod table;

pub use export::{ParquetExport, ParquetSummary};
pub use layout::{group_columns, groups};
