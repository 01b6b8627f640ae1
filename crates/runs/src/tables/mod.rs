//! Tidy tables of stored runs: one row for each run, flow, interval of a flow, and histogram bin. `run_id` and
//! `flow_id` join them. [`Tables`] writes them as CSV.

mod columns;
mod rows;

use std::collections::HashMap;
use std::io::{self, Write};

use serde::Serialize;
use weir_model::csv::{each_cell, names_of, text_cell};
use weir_model::record::Record;

pub use columns::table_columns;
pub use rows::{RowSink, write_flows, write_histograms, write_intervals, write_run};

/// The tables' file names, in the order in which [`Tables`] takes their writers.
pub const TABLE_FILES: [&str; 4] = ["runs.csv", "flows.csv", "intervals.csv", "histograms.csv"];

/// Writes the four tables, record by record.
#[derive(Debug)]
pub struct Tables<W: Write> {
    runs: Table<W>,
    flows: Table<W>,
    intervals: Table<W>,
    histograms: Table<W>,
    unreadable: u64,
}

impl<W: Write> Tables<W> {
    /// Writes the lines of column names, into writers in the order of [`TABLE_FILES`]. Each of `label_keys` has a column
    /// of its own in the first table.
    ///
    /// # Errors
    /// Those of the writers, as for each method.
    pub fn new<K: AsRef<str>>(outs: [W; 4], label_keys: &[K]) -> io::Result<Self> {
        let [runs, flows, intervals, histograms] = outs;
        let labels = label_keys.iter().map(|key| format!("labels_{}", key.as_ref()));
        let open = |file, out, more: Vec<String>| {
            Table::new(out, [names_of(&table_columns(file)), more].concat())
        };
        Ok(Tables {
            runs: open(TABLE_FILES[0], runs, labels.collect())?,
            flows: open(TABLE_FILES[1], flows, vec![])?,
            intervals: open(TABLE_FILES[2], intervals, vec![])?,
            histograms: open(TABLE_FILES[3], histograms, vec![])?,
            unreadable: 0,
        })
    }

    /// Writes the rows of one record.
    ///
    /// # Errors
    /// Those of the writers.
    pub fn record(&mut self, record: &Record) -> io::Result<()> {
        write_run(record, &mut self.runs)?;
        write_flows(record, &mut self.flows)?;
        write_intervals(record, &mut self.intervals)?;
        self.unreadable += write_histograms(record, &mut self.histograms)?;
        Ok(())
    }

    /// Histograms that were unreadable and have no rows.
    pub fn unreadable_histograms(&self) -> u64 {
        self.unreadable
    }

    /// Flushes and returns the writers, in the order of [`TABLE_FILES`].
    ///
    /// # Errors
    /// Those of the writers.
    pub fn into_inner(self) -> io::Result<[W; 4]> {
        let mut outs = [self.runs.out, self.flows.out, self.intervals.out, self.histograms.out];
        outs.iter_mut().try_for_each(Write::flush)?;
        Ok(outs)
    }
}

/// One table: a row is filled by column names and then written.
#[derive(Debug)]
struct Table<W: Write> {
    out: W,
    places: HashMap<String, usize>,
    cells: Vec<String>,
}

impl<W: Write> Table<W> {
    fn new(mut out: W, columns: Vec<String>) -> io::Result<Self> {
        let header: Vec<String> = columns.iter().map(|column| text_cell(column)).collect();
        writeln!(out, "{}", header.join(","))?;
        let cells = vec![String::new(); columns.len()];
        let places = columns.into_iter().enumerate().map(|(place, name)| (name, place)).collect();
        Ok(Table { out, places, cells })
    }
}

impl<W: Write> RowSink for Table<W> {
    type Error = io::Error;

    fn put<T: Serialize + ?Sized>(&mut self, path: &str, value: &T) {
        each_cell(path, value, |path, cell| {
            if let Some(place) = self.places.get(path) {
                self.cells[*place] = cell;
            }
        });
    }

    fn end_row(&mut self) -> io::Result<()> {
        let mut line = self.cells.join(",");
        line.push('\n');
        self.cells.iter_mut().for_each(String::clear);
        self.out.write_all(line.as_bytes())
    }
}
