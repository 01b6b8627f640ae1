//! Results as Parquet files.

mod documented;
mod duckdb;
mod partitions;
mod tables;
mod ten_million;
