//! An export: files are written into a hidden directory and moved to their partitions when all are complete.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;
use tempfile::TempDir;
use weir_model::metric::Group;
use weir_model::record::Record;

use super::interval::Intervals;
use super::layout::{INTERVAL_GROUPS, TABLES};
use super::table::{Started, Table};
use crate::{RowSink, StoreError, write_flows, write_histograms, write_run};

/// The file of a partition.
const FILE: &str = "weir.parquet";
/// Hive's name of the partition of rows without a day.
const NO_DAY: &str = "__HIVE_DEFAULT_PARTITION__";

/// What an export wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ParquetSummary {
    /// Runs.
    pub runs: u64,
    /// Days of their starts.
    pub days: u64,
    /// Histograms that were unreadable and have no rows.
    pub unreadable_histograms: u64,
    /// Values that are null because the column's type can't have them: an integer of 2^63 or more, an invalid time.
    pub omitted_values: u64,
}

/// An export that is being written. It replaces the partitions of the days that it has runs of, by [`ParquetExport::finish`]; if it
/// is dropped before, nothing has changed.
///
/// It holds one run in memory, and for each group the rows of a row group.
#[derive(Debug)]
pub struct ParquetExport {
    directory: PathBuf,
    staging: TempDir,
    day: Option<Day>,
    finished: Vec<Part>,
    summary: ParquetSummary,
}

/// The files of a day.
#[derive(Debug)]
struct Day {
    date: Option<Date>,
    runs: Table,
    flows: Table,
    histograms: Table,
    intervals: Vec<(Group, Intervals)>,
}

/// A complete file, and its directory below that of the export.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    partition: PathBuf,
}

/// For `map_err`: the error of an operation on a path.
fn of_file(
    operation: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.into();
    move |source| StoreError::Io { operation, path, source }
}

fn day_name(date: Option<Date>) -> String {
    date.map_or_else(|| NO_DAY.into(), |date| date.to_string())
}

/// The UTC day of an RFC 3339 time; absent if it is invalid.
fn date_of(rfc3339: &str) -> Option<Date> {
    let time: Timestamp = rfc3339.parse().ok()?;
    Some(Offset::UTC.to_datetime(time).date())
}

impl ParquetExport {
    /// An export into a directory, which is created if missing.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it can't be written, as for each method.
    pub fn new(directory: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(directory).map_err(of_file("create directory", directory))?;
        let staging =
            tempfile::Builder::new().prefix(".weir-").suffix(".part").tempdir_in(directory);
        Ok(ParquetExport {
            directory: directory.into(),
            staging: staging.map_err(of_file("write to", directory))?,
            day: None,
            finished: vec![],
            summary: ParquetSummary::default(),
        })
    }

    /// Writes the rows of a run. Runs are passed in the order of their starts.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if it started on an earlier day than the run before.
    pub fn record(&mut self, record: &Record) -> Result<(), StoreError> {
        let date = date_of(&record.started_at);
        if self.day.as_ref().is_none_or(|day| day.date != date) {
            if self.day.as_ref().is_some_and(|day| day.date > date) {
                let reason = "it started on an earlier day than the run before it";
                return Err(StoreError::Refused { id: record.id.clone(), reason: reason.into() });
            }
            self.end_day()?;
            self.day = Some(self.start_day(date)?);
        }
        let Some(day) = &mut self.day else { return Ok(()) };
        let mut rows = || {
            if !record.labels.is_empty() {
                let labels = serde_json::to_string(&record.labels).unwrap_or_default();
                day.runs.put("labels", &labels);
            }
            write_run(record, &mut day.runs)?;
            let started_at = &record.started_at;
            write_flows(record, &mut Started { table: &mut day.flows, started_at })?;
            for (_, intervals) in &mut day.intervals {
                intervals.record(record)?;
            }
            write_histograms(record, &mut Started { table: &mut day.histograms, started_at })
        };
        let unreadable = rows().map_err(of_file("write to", &self.directory))?;
        self.summary.unreadable_histograms += unreadable;
        self.summary.runs += 1;
        Ok(())
    }

    fn part(&self, group: &str, date: Option<Date>) -> PathBuf {
        self.staging.path().join(format!("{group}-{}", day_name(date)))
    }

    fn start_day(&self, date: Option<Date>) -> Result<Day, StoreError> {
        let create = |group| File::create_new(self.part(group, date));
        let table = |group| Table::new(group, create(group)?);
        let open = || {
            let [runs, flows, histograms] = TABLES;
            let mut intervals = vec![];
            for group in INTERVAL_GROUPS {
                intervals.push((group, Intervals::new(group, create(group.name())?)?));
            }
            Ok(Day {
                date,
                runs: table(runs)?,
                flows: table(flows)?,
                histograms: table(histograms)?,
                intervals,
            })
        };
        open().map_err(of_file("write to", &self.directory))
    }

    /// Completes the files of the day that is open.
    fn end_day(&mut self) -> Result<(), StoreError> {
        let Some(day) = self.day.take() else { return Ok(()) };
        let tables = [day.runs, day.flows, day.histograms];
        self.summary.days += 1;
        self.summary.omitted_values += tables.iter().map(Table::omitted).sum::<u64>();
        let tables = TABLES.into_iter().zip(tables).map(|(group, table)| (group, table.finish()));
        let intervals = day.intervals.into_iter();
        let intervals = intervals.map(|(group, table)| (group.name(), table.finish()));
        for (group, finished) in tables.chain(intervals) {
            let complete = finished.and_then(|out| out.sync_all());
            complete.map_err(of_file("write to", &self.directory))?;
            let partition = format!("group={group}/day={}", day_name(day.date));
            let path = self.part(group, day.date);
            self.finished.push(Part { path, partition: partition.into() });
        }
        Ok(())
    }

    /// Completes the export: moves each file to its partition, where it replaces that of an earlier export.
    ///
    /// # Errors
    /// [`StoreError::Io`]. If a file can't be moved, those before it have been replaced; each is complete.
    pub fn finish(mut self) -> Result<ParquetSummary, StoreError> {
        self.end_day()?;
        for part in &self.finished {
            let partition = self.directory.join(&part.partition);
            fs::create_dir_all(&partition).map_err(of_file("create directory", &partition))?;
            let path = partition.join(FILE);
            fs::rename(&part.path, &path).map_err(of_file("write", path))?;
        }
        Ok(self.summary)
    }
}
