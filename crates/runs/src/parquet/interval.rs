//! Rows of intervals, for which an export has millions: figures are read by the declarations of their metrics, not by name.

use std::collections::HashMap;
use std::fs::File;
use std::io;

use weir_model::csv::{ColumnType, interval_field};
use weir_model::metric::{End, Group, metric_of_interval_field};
use weir_model::record::{Flow, IntervalCount, IntervalFlow, Record};

use super::column::Cell;
use super::file::ParquetFile;
use super::layout::{group_columns, key_columns};
use super::table::nanoseconds;

/// How a figure is read.
#[derive(Debug, Clone, Copy)]
enum Read {
    Metric(fn(&IntervalCount) -> Option<f64>),
    LimitedBy,
}

#[derive(Debug, Clone, Copy)]
struct Figure {
    end: End,
    kind: ColumnType,
    read: Read,
}

impl Figure {
    fn of(&self, flow: &IntervalFlow) -> Cell<'static> {
        let count = match self.end {
            End::Sender => &flow.sender,
            _ => &flow.receiver,
        };
        let Some(count) = count else { return Cell::Null };
        let value = match self.read {
            Read::LimitedBy => {
                return count.limited_by.map_or(Cell::Null, |by| Cell::Text(by.name()));
            }
            Read::Metric(get) => get(count),
        };
        match (value, self.kind) {
            (Some(value), ColumnType::Integer) => {
                // 2^63, above which no count is plausible.
                let is_count = value.abs() < 9_223_372_036_854_775_808.0;
                if is_count { Cell::Integer(value as i64) } else { Cell::Null }
            }
            (Some(value), _) => Cell::Number(value),
            (None, _) => Cell::Null,
        }
    }
}

/// The table of a metric group.
#[derive(Debug)]
pub(crate) struct Intervals {
    file: ParquetFile,
    figures: Vec<Figure>,
    /// Those of the row.
    cells: Vec<Cell<'static>>,
}

impl Intervals {
    pub(crate) fn new(group: Group, out: File) -> io::Result<Self> {
        let columns = group_columns(group.name());
        let figures = columns.iter().skip(key_columns().len()).filter_map(|column| {
            let (end, field) = interval_field(&column.name)?;
            let metric = metric_of_interval_field(field, end).and_then(|m| m.interval.as_ref());
            let read = metric.map_or(Read::LimitedBy, |interval| Read::Metric(interval.get));
            Some(Figure { end, kind: column.kind, read })
        });
        let figures = figures.collect();
        Ok(Intervals { file: ParquetFile::new(out, &columns)?, figures, cells: vec![] })
    }

    /// Writes the rows of a record: of each interval and flow that has a figure of this group.
    pub(crate) fn record(&mut self, record: &Record) -> io::Result<()> {
        let started = nanoseconds(&record.started_at).map_or(Cell::Null, Cell::Integer);
        let flows: HashMap<u32, &Flow> = record.flows.iter().map(|flow| (flow.id, flow)).collect();
        for interval in &record.intervals {
            for part in &interval.flows {
                self.cells.clear();
                self.cells.extend(self.figures.iter().map(|figure| figure.of(part)));
                if self.cells.iter().all(|cell| *cell == Cell::Null) {
                    continue;
                }
                let [name, transport, direction] = match flows.get(&part.id) {
                    Some(flow) => {
                        [&flow.name, flow.transport.label(), flow.direction.name()].map(Cell::Text)
                    }
                    None => [Cell::Null; 3],
                };
                let keys = [
                    Cell::Text(&record.id),
                    started,
                    Cell::Number(interval.start_seconds),
                    Cell::Number(interval.end_seconds),
                    Cell::Boolean(interval.omitted),
                    Cell::Integer(part.id.into()),
                    name,
                    transport,
                    direction,
                ];
                self.file.row(keys.into_iter().chain(self.cells.iter().copied()))?;
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> io::Result<File> {
        self.file.finish()
    }
}
