//! JSON: the record in one piece, and one object a line while a test runs.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use weir_model::json::{to_line, to_pretty};
use weir_model::progress::{EchoInterval, FlowProgress, PeerStatus};
use weir_model::record::{Interval, Record};

use crate::meta::Start;

/// The record indented, with a newline at the end (`--json`).
pub fn json_pretty(record: &Record) -> String {
    // Maps of the record have string keys, so serializing can't fail.
    to_pretty(record).unwrap_or_default() + "\n"
}

/// The record on one line, with a newline at the end.
pub fn json_line(record: &Record) -> String {
    to_line(record).unwrap_or_default() + "\n"
}

/// An error, as `--json` and `--json-stream` print it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorEvent {
    /// The message, which names the operation and its object.
    pub message: String,
    /// The exit code.
    pub exit_code: i32,
}

impl ErrorEvent {
    /// `{"error":{…}}` and a newline: what `--json` prints when there is no record.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Wrapped<'a> {
            error: &'a ErrorEvent,
        }
        to_line(&Wrapped { error: self }).unwrap_or_default() + "\n"
    }
}

/// `--json-stream`: `{"event":"start|flows|interval|peer|end|error","data":…}`, one object a line, flushed after each.
#[derive(Debug)]
pub struct JsonStream<W: Write> {
    out: W,
}

impl<W: Write> JsonStream<W> {
    /// A stream that writes to `out`.
    pub fn new(out: W) -> Self {
        JsonStream { out }
    }

    /// The test starts.
    ///
    /// # Errors
    /// Those of the writer, as for each event.
    pub fn start(&mut self, start: &Start) -> io::Result<()> {
        self.event("start", start)
    }

    /// States of flows that have changed.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn flows(&mut self, changed: &[FlowProgress]) -> io::Result<()> {
        self.event("flows", &changed)
    }

    /// The peer has become unreachable, or reachable again.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn peer(&mut self, status: &PeerStatus) -> io::Result<()> {
        self.event("peer", status)
    }

    /// Intervals of echoed flows are complete.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn echoes(&mut self, intervals: &[EchoInterval]) -> io::Result<()> {
        self.event("echoes", &intervals)
    }

    /// An interval ended.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn interval(&mut self, interval: &Interval) -> io::Result<()> {
        self.event("interval", interval)
    }

    /// The test ended; the record holds everything.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn end(&mut self, record: &Record) -> io::Result<()> {
        self.event("end", record)
    }

    /// Something failed. An `end` with the results so far may still follow.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn error(&mut self, error: &ErrorEvent) -> io::Result<()> {
        self.event("error", error)
    }

    fn event<T: Serialize>(&mut self, event: &str, data: &T) -> io::Result<()> {
        #[derive(Serialize)]
        struct Event<'a, T> {
            event: &'a str,
            data: &'a T,
        }
        let mut line = to_line(&Event { event, data })?;
        line.push('\n');
        self.out.write_all(line.as_bytes())?;
        self.out.flush()
    }

    /// Returns the writer.
    pub fn into_inner(self) -> W {
        self.out
    }
}
