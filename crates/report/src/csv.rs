//! `--csv`: one row for each interval and flow, then the final rows. RFC 4180 quoting, lines end in LF.
//!
//! A column is the JSON path of its figure within the row's own part of the record, joined by `_`:
//! `intervals[].flows[].receiver.jitter_seconds` is `receiver_jitter_seconds`. The columns are those of the record's
//! schema ([`csv_columns`]). A value that was not measured is an empty cell.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::sync::LazyLock;

use serde::Serialize;
use weir_model::csv::{each_cell, flow_columns, interval_columns, names_of, text_cell};
use weir_model::plan::Direction;
use weir_model::record::{Interval, Record};

use crate::meta::{FlowMeta, Start};

/// The columns that every row fills.
const FIRST: [&str; 9] = [
    "kind",
    "run_id",
    "start_seconds",
    "end_seconds",
    "omitted",
    "flow_id",
    "flow_name",
    "flow_transport",
    "flow_direction",
];

/// The columns in their order: those of every row, those of intervals, then those of final rows only.
static CSV_COLUMNS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut out: Vec<String> = FIRST.iter().map(ToString::to_string).collect();
    for column in names_of(&[interval_columns(), flow_columns()].concat()) {
        if !out.contains(&column) {
            out.push(column);
        }
    }
    out
});

/// The columns in their order.
pub fn csv_columns() -> &'static [String] {
    &CSV_COLUMNS
}

/// Writes rows during a test: [`CsvWriter::start`], [`CsvWriter::interval`] …, [`CsvWriter::end`].
///
/// Written rows are final and in the order of time. Therefore an incomplete interval and all later ones are queued until it
/// is complete ([`CsvWriter::late`]), or until the end of the test.
#[derive(Debug)]
pub struct CsvWriter<W: Write> {
    out: W,
    run_id: String,
    flows: BTreeMap<u32, FlowMeta>,
    queued: VecDeque<Interval>,
}

/// Whether an interval has the figures of all flows that ran in it.
fn is_whole(interval: &Interval) -> bool {
    let ends = [&interval.total.forward, &interval.total.reverse];
    ends.into_iter().flatten().all(|ends| ends.flows.is_none())
}

/// A row by column; cells are quoted already.
type Cells = BTreeMap<String, String>;

impl<W: Write> CsvWriter<W> {
    /// A writer into `out`; writes the line of column names.
    ///
    /// # Errors
    /// Those of `out`, as for each method.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(csv_columns().join(",").as_bytes())?;
        out.write_all(b"\n")?;
        Ok(CsvWriter {
            out,
            run_id: String::new(),
            flows: BTreeMap::new(),
            queued: VecDeque::new(),
        })
    }

    /// Starts a run: its id and flows are used in the following rows.
    pub fn start(&mut self, start: &Start) {
        self.run_id.clone_from(&start.id);
        self.flows = start.flows.iter().map(|f| (f.id, f.clone())).collect();
    }

    /// Writes and flushes the rows of one interval (`kind` is `interval`); queued while it or an earlier one is incomplete.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn interval(&mut self, interval: &Interval) -> io::Result<()> {
        if !self.queued.is_empty() || !is_whole(interval) {
            self.queued.push_back(interval.clone());
            return Ok(());
        }
        self.rows(interval)
    }

    /// Completes an interval that lacked figures.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn late(&mut self, interval: &Interval) -> io::Result<()> {
        let begin = interval.start_seconds;
        if let Some(queued) = self.queued.iter_mut().find(|queued| queued.start_seconds == begin) {
            queued.clone_from(interval);
        }
        while self.queued.front().is_some_and(is_whole)
            && let Some(interval) = self.queued.pop_front()
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
                put(&mut cells, "flow_host", &meta.host);
            }
            put(&mut cells, "sender", &flow.sender);
            put(&mut cells, "receiver", &flow.receiver);
            self.write(&cells)?;
        }
        self.out.flush()
    }

    /// Writes the final rows: one for each flow (`kind` is `summary`), one for each direction that ran (`total`).
    ///
    /// # Errors
    /// Those of the writer.
    pub fn end(&mut self, record: &Record) -> io::Result<()> {
        for queued in std::mem::take(&mut self.queued) {
            let complete =
                record.intervals.iter().find(|i| i.start_seconds == queued.start_seconds);
            self.rows(complete.unwrap_or(&queued))?;
        }
        self.run_id.clone_from(&record.id);
        for flow in &record.flows {
            let mut cells = self.cells("summary");
            put_parts(&mut cells, flow);
            self.write(&cells)?;
        }
        for direction in [Direction::Forward, Direction::Reverse] {
            if let Some(total) = record.direction(direction) {
                let mut cells = self.cells("total");
                put(&mut cells, "flow_direction", &direction);
                put_parts(&mut cells, total);
                self.write(&cells)?;
            }
        }
        self.out.flush()
    }

    /// Writes all rows of a stored record.
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

    /// Returns the writer.
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
            line.push_str(cells.get(column).map_or("", String::as_str));
        }
        line.push('\n');
        self.out.write_all(line.as_bytes())
    }
}

/// Stores the scalars in `value` in cells named by their path.
fn put<T: Serialize>(cells: &mut Cells, path: &str, value: &T) {
    each_cell(path, value, |path, cell| {
        cells.insert(path.into(), cell);
    });
}

/// Stores what [`flow_columns`] has columns for: own scalars after `flow_`, those of parts by their path.
fn put_parts<T: Serialize>(cells: &mut Cells, value: &T) {
    let parts = serde_json::to_value(value).unwrap_or_default();
    for (key, value) in parts.as_object().into_iter().flatten() {
        match value.is_object() {
            true => put(cells, key, value),
            false => put(cells, &format!("flow_{key}"), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use weir_model::record::{IntervalCount, IntervalEnds, IntervalFlow};

    /// The interval from second `start` of flow 1, in which the receiver got `received` packets, if known.
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
    fn the_final_row_of_a_flow_has_every_figure_that_it_measured() {
        use weir_model::record::{Flow, Transactions};
        let transactions = Transactions { completed: 7, ..Transactions::default() };
        let flow = Flow {
            id: 3,
            destination: "b".into(),
            transactions: Some(transactions),
            ..Flow::default()
        };
        let mut csv = CsvWriter::new(vec![]).unwrap();
        csv.end(&Record { flows: vec![flow], ..Record::default() }).unwrap();
        let text = std::str::from_utf8(&csv.out).unwrap();
        let row: Vec<_> = text.lines().nth(1).unwrap().split(',').collect();
        for (name, cell) in
            [("flow_id", "3"), ("flow_destination", "b"), ("transactions_completed", "7")]
        {
            let column = CSV_COLUMNS.iter().position(|c| *c == name).unwrap();
            assert_eq!(row[column], cell, "{name}");
        }
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
        // Figures that never arrived during the test come from the record.
        let intervals = vec![second(3, Some(8))];
        csv.end(&Record { intervals, ..Record::default() }).unwrap();
        assert_eq!(rows(&csv)[..3], expected);
        assert_eq!(rows(&csv)[3..], [("3.0".to_string(), "8".to_string())]);
    }
}
