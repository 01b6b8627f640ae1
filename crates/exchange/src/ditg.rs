//! D-ITG's binary log of packets, as ITGSend, ITGRecv and ITGLog write it: no header, one entry for each packet.
//!
//! The log names neither transport nor date nor the end that wrote it. An end that logs no times of arrival, and whose packets
//! are numbered without a gap, is taken for a sender.

use weir_flow::{DitgLog, DitgLogError};
use weir_model::record::Status;
use weir_model::warning::{Severity, Warning};
use weir_wire::ditg_log::{ENTRY_BYTES, Entry};

use crate::ReadError;
use crate::reading::Reading;

/// How many entries show that a file is a log.
const SHOWING: usize = 16;

fn entries(bytes: &[u8]) -> impl Iterator<Item = &[u8; ENTRY_BYTES]> {
    bytes.chunks_exact(ENTRY_BYTES).filter_map(|entry| entry.first_chunk())
}

/// Whether a file looks like a log.
pub(crate) fn recognises(bytes: &[u8]) -> bool {
    bytes.len() >= ENTRY_BYTES
        && entries(bytes).take(SHOWING).all(|entry| Entry::parse(entry).is_ok())
}

/// A time of the UTC day, as text.
fn time_of_day(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// The result of a file.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Reading<'_>>, ReadError> {
    let mut log = DitgLog::default();
    for (n, bytes) in entries(bytes).enumerate() {
        let place = |field: &str| format!("entry[{n}].{field}");
        let entry = Entry::parse(bytes).map_err(|error| {
            ReadError::at_field(place(error.field), error.given, error.accepted)
        })?;
        log.push(&entry).map_err(|error| {
            let (field, given) = match error {
                DitgLogError::Flows(_) => ("flow", entry.flow.to_string()),
                DitgLogError::Span => ("arrival_time", time_of_day(entry.received_ns)),
            };
            ReadError::at_field(place(field), given, format!("a log without {error}"))
        })?;
    }
    if log.is_empty() {
        let accepted = format!("entries of {ENTRY_BYTES} bytes");
        return Err(ReadError::new(format!("size of {} bytes", bytes.len()), accepted));
    }
    let mut record = log.record(Status::Complete, "completed".into());
    if !bytes.len().is_multiple_of(ENTRY_BYTES) {
        // The program was killed while it wrote. ITGDec ignores it too.
        let text = "the last entry of the log is incomplete and was left out";
        record.warnings.push(Warning::new("entry-incomplete", Severity::Info, text));
    }
    Ok(vec![Reading { record, version: None, started_ms: None, text: bytes }])
}
