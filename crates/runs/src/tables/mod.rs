//! Tidy tables of stored runs as CSV: one row for each run, flow, interval of a flow, and histogram bin. `run_id` and
//! `flow_id` join them.

mod columns;

use std::collections::HashMap;
use std::io::{self, Write};

use serde::Serialize;
use weir_model::csv::{each_cell, text_cell};
use weir_model::plan::Connection;
use weir_model::record::{Flow, Record};
use weir_stats::Histogram;

pub use columns::table_columns;

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
        let open =
            |file, out, more: Vec<String>| Table::new(out, [table_columns(file), more].concat());
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
        self.run(record)?;
        let connections = Connections::of(record);
        for flow in &record.flows {
            let row = &mut self.flows;
            row.put("run_id", &record.id);
            row.put_flow(flow);
            row.put("sender", &flow.sender);
            row.put("receiver", &flow.receiver);
            row.put("round_trip", &flow.round_trip);
            row.put("tcp", &flow.tcp);
            row.put("plan_connection", &connections.get(flow.id));
            row.write()?;
        }
        let flows: HashMap<u32, &Flow> = record.flows.iter().map(|flow| (flow.id, flow)).collect();
        for interval in &record.intervals {
            for part in &interval.flows {
                let row = &mut self.intervals;
                row.put("run_id", &record.id);
                row.put("start_seconds", &interval.start_seconds);
                row.put("end_seconds", &interval.end_seconds);
                row.put("omitted", &interval.omitted);
                row.put("flow_id", &part.id);
                if let Some(flow) = flows.get(&part.id) {
                    row.put("flow_name", &flow.name);
                    row.put("flow_transport", &flow.transport);
                    row.put("flow_direction", &flow.direction);
                }
                row.put("sender", &part.sender);
                row.put("receiver", &part.receiver);
                row.write()?;
            }
        }
        self.distributions(record)
    }

    fn run(&mut self, record: &Record) -> io::Result<()> {
        let row = &mut self.runs;
        row.put("run_id", &record.id);
        row.put("schema", &record.schema);
        row.put("version", &record.version);
        row.put("build", &record.build);
        row.put("started_at", &record.started_at);
        row.put("seconds", &record.seconds);
        row.put("status", &record.status);
        row.put("end_reason", &record.end_reason);
        row.put("command", &record.command.join(" "));
        row.put("plan_sha256", &record.plan_sha256);
        row.put("seed", &record.seed);
        row.put("peer", &record.peer);
        row.put("flows", &record.flows.len());
        row.put("warnings", &record.warnings.len());
        let codes: Vec<&str> = record.warnings.iter().map(|w| w.code.as_str()).collect();
        row.put("warning_codes", &codes.join(" "));
        row.put("labels", &record.labels);
        // Its connections are in the rows of their flows.
        let plan = weir_model::plan::Plan { connections: vec![], ..record.plan.clone() };
        row.put("plan", &plan);
        row.put("local", &record.local);
        row.put("remote", &record.remote);
        row.put("clock", &record.clock);
        row.put("time_source", &record.time_source);
        row.put("total", &record.total);
        row.put("latency", &record.latency);
        row.put("cpu", &record.cpu);
        row.put("link_usage", &record.link_usage);
        row.put("loss_ledger", &record.loss_ledger);
        row.put("triangulation", &record.triangulation);
        row.put("calibration", &record.calibration);
        row.put("control_bytes", &record.control_bytes);
        row.put("omitted_seconds", &record.omitted_seconds);
        row.put("loss_threshold_seconds", &record.loss_threshold_seconds);
        row.put("verdict", &record.verdict);
        row.write()
    }

    fn distributions(&mut self, record: &Record) -> io::Result<()> {
        for distribution in &record.histograms {
            let read = match distribution.encoding.as_str() {
                "hdr-v2" => Histogram::from_hdr_v2(&distribution.data).ok(),
                _ => None,
            };
            let Some(read) = read else {
                self.unreadable += 1;
                continue;
            };
            for (low, high, count) in read.cells() {
                let row = &mut self.histograms;
                row.put("run_id", &record.id);
                row.put("flow_id", &distribution.flow);
                row.put("metric", &distribution.metric);
                row.put("low_seconds", &(low as f64 / 1e9));
                row.put("high_seconds", &(high as f64 / 1e9));
                row.put("count", &count);
                row.write()?;
            }
        }
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

/// The connection of each flow: flows are numbered in the order of the plan.
struct Connections<'a> {
    /// Number of the last flow of each connection.
    ends: Vec<u64>,
    connections: &'a [Connection],
}

impl<'a> Connections<'a> {
    fn of(record: &'a Record) -> Self {
        let mut last = 0u64;
        let connections = &record.plan.connections;
        let ends = connections.iter().map(|c| {
            last = last.saturating_add(u64::from(c.count));
            last
        });
        Connections { ends: ends.collect(), connections }
    }

    fn get(&self, flow: u32) -> Option<&'a Connection> {
        let flow = u64::from(flow);
        (flow > 0).then(|| self.connections.get(self.ends.partition_point(|end| *end < flow)))?
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

    /// The scalars of a flow itself.
    fn put_flow(&mut self, flow: &Flow) {
        self.put("flow_id", &flow.id);
        self.put("flow_name", &flow.name);
        self.put("flow_transport", &flow.transport);
        self.put("flow_carried_by", &flow.carried_by);
        self.put("flow_family", &flow.family);
        self.put("flow_direction", &flow.direction);
        self.put("flow_source", &flow.source);
        self.put("flow_destination", &flow.destination);
        self.put("flow_payload_bytes", &flow.payload_bytes);
        self.put("flow_payload_law", &flow.payload_law);
        self.put("flow_spacing_law", &flow.spacing_law);
        self.put("flow_payload_draws", &flow.payload_draws);
        self.put("flow_spacing_draws", &flow.spacing_draws);
        self.put("flow_connect_seconds", &flow.connect_seconds);
    }

    /// Fills the cells of `value` and its members, named by their paths. Absent members leave them empty; lists have
    /// no cell.
    fn put<T: Serialize + ?Sized>(&mut self, path: &str, value: &T) {
        each_cell(path, value, |path, cell| {
            if let Some(place) = self.places.get(path) {
                self.cells[*place] = cell;
            }
        });
    }

    fn write(&mut self) -> io::Result<()> {
        let mut line = self.cells.join(",");
        line.push('\n');
        self.cells.iter_mut().for_each(String::clear);
        self.out.write_all(line.as_bytes())
    }
}
