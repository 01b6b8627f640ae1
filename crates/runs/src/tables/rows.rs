//! The rows of the tables, whatever they are written as.

use std::collections::HashMap;

use serde::Serialize;
use weir_model::plan::{Connection, Plan};
use weir_model::record::{Flow, Record};
use weir_stats::Histogram;

/// A table that takes rows: their cells by path, then the end of the row.
pub trait RowSink {
    /// Why a row could not be written.
    type Error;

    /// Fills the cells of `value` and its members, named by their paths. Absent members leave them empty; lists have
    /// no cell.
    fn put<T: Serialize + ?Sized>(&mut self, path: &str, value: &T);

    /// Writes the row.
    ///
    /// # Errors
    /// Those of the sink.
    fn end_row(&mut self) -> Result<(), Self::Error>;
}

/// Writes the row of a run.
///
/// # Errors
/// Those of the sink.
pub fn write_run<S: RowSink>(record: &Record, row: &mut S) -> Result<(), S::Error> {
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
    let plan = Plan { connections: vec![], ..record.plan.clone() };
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
    row.put("data_source", &record.data_source);
    row.put("control_bytes", &record.control_bytes);
    row.put("omitted_seconds", &record.omitted_seconds);
    row.put("loss_threshold_seconds", &record.loss_threshold_seconds);
    row.put("verdict", &record.verdict);
    row.end_row()
}

/// Writes a row for each flow of a run.
///
/// # Errors
/// Those of the sink.
pub fn write_flows<S: RowSink>(record: &Record, row: &mut S) -> Result<(), S::Error> {
    let connections = Connections::of(record);
    for flow in &record.flows {
        row.put("run_id", &record.id);
        put_flow(flow, row);
        row.put("plan_connection", &connections.get(flow.id));
        row.end_row()?;
    }
    Ok(())
}

/// Fills the cells of a flow: its own scalars after `flow_`, those of its parts by their path.
fn put_flow<S: RowSink>(flow: &Flow, row: &mut S) {
    let parts = serde_json::to_value(flow).unwrap_or_default();
    for (key, value) in parts.as_object().into_iter().flatten() {
        match value.is_object() {
            true => row.put(key, value),
            false => row.put(&format!("flow_{key}"), value),
        }
    }
}

/// Writes a row for each interval of each flow of a run.
///
/// # Errors
/// Those of the sink.
pub fn write_intervals<S: RowSink>(record: &Record, row: &mut S) -> Result<(), S::Error> {
    let flows: HashMap<u32, &Flow> = record.flows.iter().map(|flow| (flow.id, flow)).collect();
    for interval in &record.intervals {
        for part in &interval.flows {
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
            row.end_row()?;
        }
    }
    Ok(())
}

/// Writes a row for each bin of the histograms of a run; returns the number of histograms that were unreadable and have
/// no rows.
///
/// # Errors
/// Those of the sink.
pub fn write_histograms<S: RowSink>(record: &Record, row: &mut S) -> Result<u64, S::Error> {
    let mut unreadable = 0;
    for distribution in &record.histograms {
        let read = match distribution.encoding.as_str() {
            "hdr-v2" => Histogram::from_hdr_v2(&distribution.data).ok(),
            _ => None,
        };
        let Some(read) = read else {
            unreadable += 1;
            continue;
        };
        for (low, high, count) in read.cells() {
            row.put("run_id", &record.id);
            row.put("flow_id", &distribution.flow);
            row.put("metric", &distribution.metric);
            row.put("low_seconds", &(low as f64 / 1e9));
            row.put("high_seconds", &(high as f64 / 1e9));
            row.put("count", &count);
            row.end_row()?;
        }
    }
    Ok(unreadable)
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
