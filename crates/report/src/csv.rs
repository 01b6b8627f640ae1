//! `--csv`: one row for each interval and flow, then the final rows. RFC 4180 quoting, lines end in LF.
//!
//! A column is the JSON path of its figure within the row's own part of the record, joined by `_`:
//! `intervals[].flows[].receiver.jitter_seconds` is `receiver_jitter_seconds`. The order is fixed
//! ([`CSV_COLUMNS`]); new columns are added at the end. What was not measured is an empty cell.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use weir_model::csv::text_cell;
use weir_model::plan::Direction;
use weir_model::record::{Interval, Record};

use crate::meta::{FlowMeta, Start};

/// The columns in their order: where the row belongs, what intervals have, then what only final rows have.
pub const CSV_COLUMNS: &[&str] = &[
    "kind",
    "run_id",
    "start_seconds",
    "end_seconds",
    "omitted",
    "flow_id",
    "flow_name",
    "flow_transport",
    "flow_direction",
    "sender_bytes",
    "sender_packets",
    "sender_bits_per_second",
    "sender_packets_per_second",
    "sender_retransmits",
    "sender_cwnd_bytes",
    "sender_rtt_seconds",
    "receiver_bytes",
    "receiver_packets",
    "receiver_bits_per_second",
    "receiver_packets_per_second",
    "receiver_lost_packets",
    "receiver_duplicate_packets",
    "receiver_reordered_packets",
    "receiver_jitter_seconds",
    "receiver_mean_delay_seconds",
    // Final rows only, from here on.
    "flow_family",
    "flow_source",
    "flow_destination",
    "flow_payload_bytes",
    "flow_connect_seconds",
    "sender_seconds",
    "sender_method",
    "sender_io_calls",
    "sender_segments_per_message",
    "sender_buffer_bytes",
    "sender_queue_full",
    "sender_asked_packets_per_second",
    "sender_intended_slots",
    "sender_late_slots",
    "sender_missed_slots",
    "sender_spacing_intended_seconds",
    "sender_spacing_deviation_seconds",
    "sender_spacing_p50_seconds",
    "sender_spacing_p01_seconds",
    "sender_spacing_p99_seconds",
    "sender_spacing_max_seconds",
    "sender_scheduling",
    "receiver_seconds",
    "receiver_method",
    "receiver_crossing",
    "receiver_io_calls",
    "receiver_segments_per_message",
    "receiver_buffer_bytes",
    "receiver_loss_ratio",
    "receiver_late_packets",
    "receiver_implausible_packets",
    "receiver_forced_packets",
    "receiver_corrupted_packets",
    "receiver_unreadable_packets",
    "receiver_bit_errors",
    "receiver_undelivered_bytes",
    "receiver_truncated_packets",
    "receiver_reordering_extent_mean",
    "receiver_reordering_extent_max",
    "receiver_reordering_extent_bounds",
    "receiver_socket_dropped_packets",
    "receiver_ambiguous",
    "receiver_time_unit",
    "receiver_delay_variation_pdv_mean_seconds",
    "receiver_delay_variation_pdv_p99_seconds",
    "receiver_delay_variation_ipdv_mean_seconds",
    "receiver_delay_variation_ipdv_p99_seconds",
    "receiver_delay_variation_ipdv_pairs",
    "receiver_delay_variation_ipdv_omitted_pairs",
    "receiver_one_way_delay_count",
    "receiver_one_way_delay_min_seconds",
    "receiver_one_way_delay_mean_seconds",
    "receiver_one_way_delay_p50_seconds",
    "receiver_one_way_delay_p90_seconds",
    "receiver_one_way_delay_p99_seconds",
    "receiver_one_way_delay_p99_9_seconds",
    "receiver_one_way_delay_p99_99_seconds",
    "receiver_one_way_delay_p99_999_seconds",
    "receiver_one_way_delay_max_seconds",
    "receiver_one_way_delay_error_seconds",
    "receiver_one_way_delay_negative_samples",
    "receiver_one_way_delay_from_intended_count",
    "receiver_one_way_delay_from_intended_min_seconds",
    "receiver_one_way_delay_from_intended_mean_seconds",
    "receiver_one_way_delay_from_intended_p50_seconds",
    "receiver_one_way_delay_from_intended_p90_seconds",
    "receiver_one_way_delay_from_intended_p99_seconds",
    "receiver_one_way_delay_from_intended_p99_9_seconds",
    "receiver_one_way_delay_from_intended_p99_99_seconds",
    "receiver_one_way_delay_from_intended_p99_999_seconds",
    "receiver_one_way_delay_from_intended_max_seconds",
    "receiver_one_way_delay_from_intended_error_seconds",
    "receiver_one_way_delay_from_intended_negative_samples",
    "round_trip_count",
    "round_trip_min_seconds",
    "round_trip_mean_seconds",
    "round_trip_p50_seconds",
    "round_trip_p90_seconds",
    "round_trip_p99_seconds",
    "round_trip_p99_9_seconds",
    "round_trip_p99_99_seconds",
    "round_trip_p99_999_seconds",
    "round_trip_max_seconds",
    "round_trip_error_seconds",
    "round_trip_negative_samples",
    "tcp_retransmits",
    "tcp_retransmitted_bytes",
    "tcp_mss_bytes",
    "tcp_rtt_seconds",
    "tcp_min_rtt_seconds",
    "tcp_cwnd_bytes",
    "tcp_congestion_control",
    "tcp_send_window_bytes",
    "tcp_receive_window_bytes",
    "tcp_receive_window_limited_ratio",
    "tcp_send_buffer_limited_ratio",
    "tcp_timestamps",
    // Added later.
    "sender_start_seconds",
    "sender_end_seconds",
    "receiver_start_seconds",
    "receiver_end_seconds",
    "receiver_user_timed_messages",
    "sender_reported_until_seconds",
    "receiver_reported_until_seconds",
    "tcp_max_rtt_seconds",
    "tcp_max_cwnd_bytes",
];

/// Writes rows as a test goes: [`CsvWriter::start`], [`CsvWriter::interval`] …, [`CsvWriter::end`].
///
/// A row that is written is final, and rows are in the order of time: an interval that lacks figures, and those behind it,
/// are written when it is whole ([`CsvWriter::late`]), at the end of the test at the latest.
#[derive(Debug)]
pub struct CsvWriter<W: Write> {
    out: W,
    run_id: String,
    flows: BTreeMap<u32, FlowMeta>,
    held: VecDeque<Interval>,
}

/// Whether the figures of all flows that ran in it are there.
fn is_whole(interval: &Interval) -> bool {
    let ends = [&interval.total.forward, &interval.total.reverse];
    ends.into_iter().flatten().all(|ends| ends.flows.is_none())
}

/// A row before it is laid out: column → cell, quoted already.
type Cells = BTreeMap<String, String>;

impl<W: Write> CsvWriter<W> {
    /// A writer into `out`; writes the line of column names.
    ///
    /// # Errors
    /// Those of `out`, as for each method.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(CSV_COLUMNS.join(",").as_bytes())?;
        out.write_all(b"\n")?;
        Ok(CsvWriter { out, run_id: String::new(), flows: BTreeMap::new(), held: VecDeque::new() })
    }

    /// A run begins: its id and flows go into the rows that follow.
    pub fn start(&mut self, start: &Start) {
        self.run_id.clone_from(&start.id);
        self.flows = start.flows.iter().map(|f| (f.id, f.clone())).collect();
    }

    /// The rows of one interval (`kind` is `interval`), flushed; held back while it or one before it lacks figures.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn interval(&mut self, interval: &Interval) -> io::Result<()> {
        if !self.held.is_empty() || !is_whole(interval) {
            self.held.push_back(interval.clone());
            return Ok(());
        }
        self.rows(interval)
    }

    /// An interval that lacked figures is whole now.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn late(&mut self, interval: &Interval) -> io::Result<()> {
        let begin = interval.start_seconds;
        if let Some(held) = self.held.iter_mut().find(|held| held.start_seconds == begin) {
            held.clone_from(interval);
        }
        while self.held.front().is_some_and(is_whole)
            && let Some(interval) = self.held.pop_front()
        {
            self.rows(&interval)?;
        }
        Ok(())
    }

    fn rows(&mut self, interval: &Interval) -> io::Result<()> {
        for flow in &interval.flows {
            let mut cells = self.cells("interval");
            put(&mut cells, "start_seconds", &interval.start_seconds);
            put(&mut cells, "end_seconds", &interval.end_seconds);
            put(&mut cells, "omitted", &interval.omitted);
            put(&mut cells, "flow_id", &flow.id);
            if let Some(meta) = self.flows.get(&flow.id) {
                put(&mut cells, "flow_name", &meta.name);
                put(&mut cells, "flow_transport", &meta.transport);
                put(&mut cells, "flow_direction", &meta.direction);
            }
            put(&mut cells, "sender", &flow.sender);
            put(&mut cells, "receiver", &flow.receiver);
            self.write(&cells)?;
        }
        self.out.flush()
    }

    /// The final rows: one for each flow (`kind` is `summary`), one for each direction that ran (`total`).
    ///
    /// # Errors
    /// Those of the writer.
    pub fn end(&mut self, record: &Record) -> io::Result<()> {
        for held in std::mem::take(&mut self.held) {
            let told = record.intervals.iter().find(|i| i.start_seconds == held.start_seconds);
            self.rows(told.unwrap_or(&held))?;
        }
        self.run_id.clone_from(&record.id);
        for flow in &record.flows {
            let mut cells = self.cells("summary");
            put(&mut cells, "flow_id", &flow.id);
            put(&mut cells, "flow_name", &flow.name);
            put(&mut cells, "flow_transport", &flow.transport);
            put(&mut cells, "flow_direction", &flow.direction);
            put(&mut cells, "flow_family", &flow.family);
            put(&mut cells, "flow_source", &flow.source);
            put(&mut cells, "flow_destination", &flow.destination);
            put(&mut cells, "flow_payload_bytes", &flow.payload_bytes);
            put(&mut cells, "flow_connect_seconds", &flow.connect_seconds);
            put(&mut cells, "sender", &flow.sender);
            put(&mut cells, "receiver", &flow.receiver);
            put(&mut cells, "round_trip", &flow.round_trip);
            put(&mut cells, "tcp", &flow.tcp);
            self.write(&cells)?;
        }
        for direction in [Direction::Forward, Direction::Reverse] {
            if let Some(total) = record.direction(direction) {
                let mut cells = self.cells("total");
                put(&mut cells, "flow_direction", &direction);
                put(&mut cells, "sender", &total.sender);
                put(&mut cells, "receiver", &total.receiver);
                self.write(&cells)?;
            }
        }
        self.out.flush()
    }

    /// All rows of a kept record.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn record(&mut self, record: &Record) -> io::Result<()> {
        self.start(&Start::from(record));
        for interval in &record.intervals {
            self.interval(interval)?;
        }
        self.end(record)
    }

    /// The writer back.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn cells(&self, kind: &str) -> Cells {
        Cells::from([("kind".into(), kind.into()), ("run_id".into(), text_cell(&self.run_id))])
    }

    fn write(&mut self, cells: &Cells) -> io::Result<()> {
        let mut line = String::with_capacity(CSV_COLUMNS.len() * 4);
        for (i, column) in CSV_COLUMNS.iter().enumerate() {
            if i > 0 {
                line.push(',');
            }
            line.push_str(cells.get(*column).map_or("", String::as_str));
        }
        line.push('\n');
        self.out.write_all(line.as_bytes())
    }
}

/// Puts the scalars below `value` into cells named by their path.
fn put<T: Serialize>(cells: &mut Cells, path: &str, value: &T) {
    fn walk(cells: &mut Cells, path: String, value: Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    walk(cells, format!("{path}_{key}"), value);
                }
            }
            Value::String(text) => {
                cells.insert(path, text_cell(&text));
            }
            Value::Bool(_) | Value::Number(_) => {
                cells.insert(path, value.to_string());
            }
            Value::Null | Value::Array(_) => {}
        }
    }
    // What serde_json can't express is left empty.
    walk(cells, path.into(), serde_json::to_value(value).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Paths of the scalars of a type in the published schema.
    fn leaves(root: &Value, node: &Value, path: &str, out: &mut BTreeSet<String>) {
        let node = match node["$ref"].as_str() {
            Some(r) => &root["$defs"][r.trim_start_matches("#/$defs/")],
            None => node,
        };
        for (key, value) in node["properties"].as_object().into_iter().flatten() {
            let path = if path.is_empty() { key.clone() } else { format!("{path}_{key}") };
            leaves(root, value, &path, out);
        }
        for inner in node["anyOf"].as_array().into_iter().flatten() {
            leaves(root, inner, path, out);
        }
        let scalar = |t: &Value| ["integer", "number", "string", "boolean"].iter().any(|s| t == s);
        let kind = &node["type"];
        if scalar(kind)
            || kind.as_array().is_some_and(|k| k.iter().any(scalar))
            || node.get("oneOf").is_some()
            || node.get("enum").is_some()
        {
            out.insert(path.to_string());
        }
    }

    use weir_model::record::{IntervalCount, IntervalEnds, IntervalFlow};

    /// Second `start` of flow 1, of which the receiver got `received` packets, if that is known.
    fn second(start: u32, received: Option<u64>) -> Interval {
        let count = |packets| IntervalCount { packets, ..IntervalCount::default() };
        let flow = IntervalFlow { id: 1, sender: Some(count(9)), receiver: received.map(count) };
        let mut interval = Interval {
            start_seconds: f64::from(start),
            end_seconds: f64::from(start + 1),
            flows: vec![flow],
            ..Interval::default()
        };
        interval.total.forward = Some(IntervalEnds {
            flows: received.is_none().then_some(1),
            ..IntervalEnds::default()
        });
        interval
    }

    /// Start and the receiver's packets of each interval's row.
    fn rows(csv: &CsvWriter<Vec<u8>>) -> Vec<(String, String)> {
        let text = std::str::from_utf8(&csv.out).unwrap();
        let column = |name| CSV_COLUMNS.iter().position(|c| *c == name).unwrap();
        let (start, packets) = (column("start_seconds"), column("receiver_packets"));
        let lines = text.lines().filter(|l| l.starts_with("interval,"));
        let cells = lines.map(|l| l.split(',').collect::<Vec<_>>());
        cells.map(|c| (c[start].into(), c[packets].into())).collect()
    }

    #[test]
    fn rows_wait_for_late_figures_and_stay_in_order() {
        let mut csv = CsvWriter::new(vec![]).unwrap();
        csv.interval(&second(0, Some(5))).unwrap();
        csv.interval(&second(1, None)).unwrap();
        csv.interval(&second(2, Some(7))).unwrap();
        csv.interval(&second(3, None)).unwrap();
        assert_eq!(rows(&csv), [("0.0".into(), "5".into())]);
        csv.late(&second(1, Some(6))).unwrap();
        let expected = [("0.0", "5"), ("1.0", "6"), ("2.0", "7")];
        let expected = expected.map(|(a, b)| (a.to_string(), b.to_string()));
        assert_eq!(rows(&csv), expected);
        // What never came is in the record.
        let intervals = vec![second(3, Some(8))];
        csv.end(&Record { intervals, ..Record::default() }).unwrap();
        assert_eq!(rows(&csv)[..3], expected);
        assert_eq!(rows(&csv)[3..], [("3.0".to_string(), "8".to_string())]);
    }

    #[test]
    fn every_scalar_of_a_flow_has_its_column() {
        let schema = weir_model::schema::run_schema();
        let columns: BTreeSet<&str> = CSV_COLUMNS.iter().copied().collect();
        assert_eq!(columns.len(), CSV_COLUMNS.len(), "a column stands twice");
        let mut paths = BTreeSet::new();
        leaves(&schema, &schema["$defs"]["Flow"], "", &mut paths);
        let mut interval = BTreeSet::new();
        leaves(&schema, &schema["$defs"]["IntervalFlow"], "", &mut interval);
        assert!(paths.len() > 80 && interval.len() > 20, "{paths:?} {interval:?}");
        // One shape serves both ends of an interval; these never come from that end.
        let one_sided = [
            "sender_lost_packets",
            "sender_duplicate_packets",
            "sender_reordered_packets",
            "sender_jitter_seconds",
            "sender_mean_delay_seconds",
            "receiver_retransmits",
            "receiver_cwnd_bytes",
            "receiver_rtt_seconds",
            // Of running tests alone.
            "sender_earlier_lost_packets",
            "receiver_earlier_lost_packets",
        ];
        for path in paths.union(&interval).filter(|p| !one_sided.contains(&p.as_str())) {
            assert!(
                columns.contains(path.as_str())
                    || columns.contains(format!("flow_{path}").as_str()),
                "{path} has no column"
            );
        }
    }
}
