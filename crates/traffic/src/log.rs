//! The packet log of a process: one file, written by all its receivers. Its first write error is stored and reported.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use weir_wire::packets::{PacketLogWriter, PacketsError, Record};

use crate::TrafficError;

/// A packet log, shared.
pub(crate) type PacketLog = Arc<Mutex<LogFile>>;

/// The file and its first write error.
pub(crate) struct LogFile {
    writer: PacketLogWriter<BufWriter<File>>,
    path: PathBuf,
    failure: Option<io::Error>,
}

/// Opens a packet log.
pub(crate) fn open(path: &Path) -> Result<PacketLog, TrafficError> {
    let failed = |source| TrafficError::File { field: "packet_log", path: path.into(), source };
    let file = weir_net::output::begin(path).map_err(failed)?;
    let metadata = serde_json::json!({
        "schema": "weir.packets/1",
        "version": env!("CARGO_PKG_VERSION"),
        "role": "receiver",
        "time1": "sender's monotonic clock, ns",
        "time2": "receiver's monotonic clock, ns",
    });
    let writer =
        PacketLogWriter::new(BufWriter::with_capacity(1 << 20, file), &metadata.to_string())
            .map_err(|e| failed(reason(e)))?;
    Ok(Arc::new(Mutex::new(LogFile { writer, path: path.into(), failure: None })))
}

/// The system's error, without the context that the log adds.
fn reason(error: PacketsError) -> io::Error {
    match error {
        PacketsError::Write { source, .. } => source,
        other => io::Error::other(other),
    }
}

impl LogFile {
    /// Writes a record. After a failure nothing more is written: a log with a hole would be read as loss.
    pub(crate) fn write(&mut self, record: &Record) {
        if self.failure.is_none()
            && let Err(e) = self.writer.write(record)
        {
            self.failure = Some(reason(e));
        }
    }

    /// Flushes all records to the system.
    ///
    /// # Errors
    /// The first failure since the log was opened, again on every call.
    pub(crate) fn flush(&mut self) -> Result<(), TrafficError> {
        if self.failure.is_none()
            && let Err(e) = self.writer.flush()
        {
            self.failure = Some(reason(e));
        }
        match &self.failure {
            None => Ok(()),
            Some(e) => Err(TrafficError::File {
                field: "packet_log",
                path: self.path.clone(),
                source: io::Error::new(e.kind(), e.to_string()),
            }),
        }
    }
}
