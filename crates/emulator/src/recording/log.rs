//! A log: verdicts as CSV.

use std::io::Write;

use weir_laws::Direction;
use weir_model::csv::text_cell;
use weir_wire::packets::{FLAGS, Judged, Record};

use super::capture::{FlowNames, realtime_ns};
use super::recorder::Verdicts;
use super::writer::{Format, Pending};

/// The columns before those of flags.
const COLUMNS: &str = "flow,direction,packet,copy,verdict,size_bytes,arrived_unix_seconds,planned_unix_seconds,\
                       departed_unix_seconds,delay_seconds,native_flow,native_sequence";
/// The flags that an emulator sets, each with a column of 0 and 1.
const WRITTEN: [&str; 5] = ["modified", "reordered", "marked", "delayed", "control"];

/// Formats verdicts.
pub(super) struct LogFormatter {
    names: FlowNames,
    /// Realtime minus monotonic clock, ns, when the log started.
    offset_ns: i64,
}

impl LogFormatter {
    /// The formatter, and the header of the file.
    pub(super) fn new(names: &FlowNames, offset_ns: i64) -> (Self, Vec<u8>) {
        let header = format!("{COLUMNS},{}\n", WRITTEN.join(","));
        (LogFormatter { names: names.clone(), offset_ns }, header.into_bytes())
    }
}

/// Appends a cell with a time in s to the nanosecond, after a comma; an absent one is empty.
fn seconds(out: &mut Vec<u8>, ns: Option<u64>) {
    // Writing to memory can't fail.
    let _ = match ns {
        Some(ns) => write!(out, ",{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000),
        None => write!(out, ","),
    };
}

/// Appends a row.
fn row(out: &mut Vec<u8>, flow: &str, record: &Record, judged: &Judged, offset_ns: i64) {
    let direction = if record.direction == Direction::Forward as u8 { "a_to_b" } else { "b_to_a" };
    let verdict = record.kind.name().unwrap_or_default();
    let real = |ns: Option<u64>| ns.map(|ns| realtime_ns(ns, offset_ns));
    let Record { sequence, copy, size_bytes, time1_ns, time2_ns, .. } = *record;
    // As above.
    let _ = write!(out, "{flow},{direction},{sequence},{copy},{verdict},{size_bytes}");
    seconds(out, real(time1_ns));
    seconds(out, real(judged.asked_ns));
    seconds(out, real(time2_ns));
    seconds(out, time2_ns.zip(time1_ns).map(|(left, arrived)| left.saturating_sub(arrived)));
    let _ = match judged.native_sequence {
        Some(sequence) => write!(out, ",{},{sequence}", judged.native_flow),
        None => write!(out, ",,"),
    };
    for name in WRITTEN {
        let is_set = FLAGS.iter().any(|(bit, of)| *of == name && record.flags & bit != 0);
        out.extend_from_slice(if is_set { b",1" } else { b",0" });
    }
    out.push(b'\n');
}

impl Format for LogFormatter {
    type Batch = Verdicts;

    fn format(&mut self, batch: &Verdicts, out: &mut Pending) {
        let names = self.names.read().unwrap_or_else(|e| e.into_inner());
        // Most rows of a batch belong to few flows.
        let mut flow = (u32::MAX, String::new());
        for (record, judged) in batch {
            if flow.0 != record.flow {
                let name = names.get(record.flow as usize).map_or("", String::as_str);
                flow = (record.flow, text_cell(name));
            }
            let time_ns = record.time2_ns.or(record.time1_ns).unwrap_or_default();
            out.add(time_ns, |bytes| row(bytes, &flow.1, record, judged, self.offset_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, RwLock};
    use weir_wire::packets::{FLAG_DELAYED, FLAG_MODIFIED, RecordKind};

    /// What a spreadsheet reads: a cell for each column.
    #[test]
    fn a_row_has_a_cell_for_each_column() {
        let names: FlowNames = Arc::new(RwLock::new(vec!["other".into(), "a,b".into()]));
        let (mut format, header) = LogFormatter::new(&names, 1_000_000_000_000_000_000);
        let record = Record {
            sequence: 7,
            time1_ns: Some(1_000_000_005),
            time2_ns: Some(1_020_000_006),
            flow: 1,
            size_bytes: 98,
            copy: 2,
            kind: RecordKind::FORWARDED,
            direction: 1,
            flags: FLAG_MODIFIED | FLAG_DELAYED,
        };
        let forwarded =
            Judged { asked_ns: Some(1_020_000_005), native_sequence: Some(9), native_flow: 3 };
        let lost = Record {
            time2_ns: None,
            flow: 0,
            direction: 0,
            flags: 0,
            kind: RecordKind::LOST,
            ..record
        };
        let mut pending = Pending::default();
        format.format(&vec![(record, forwarded), (lost, Judged::default())], &mut pending);
        let mut text = header;
        pending.take(u64::MAX, |row| text.extend_from_slice(row));
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].split(',').count(), 17);
        assert_eq!(lines[1], "other,a_to_b,7,2,lost,98,1000000001.000000005,,,,,,0,0,0,0,0");
        assert_eq!(
            lines[2],
            "\"a,b\",b_to_a,7,2,forwarded,98,1000000001.000000005,1000000001.020000005,\
             1000000001.020000006,0.020000001,3,9,1,0,0,1,0"
        );
    }
}
