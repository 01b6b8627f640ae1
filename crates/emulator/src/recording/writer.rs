//! The thread of a recording: brings records into the order of time, and writes them until the limit.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use weir_net::clock::Clock;

use super::{RecordingCounts, RecordingState};
use crate::batches::{Batch, Filled};

/// How long a record waits for earlier ones of the other direction, which passes on its batches every 50 ms.
const ORDER_NS: u64 = 150_000_000;
/// Interval of writing.
const WRITE: Duration = Duration::from_millis(100);
/// Bytes that wait for earlier records; beyond it, the older half is written.
const MAX_PENDING_BYTES: usize = 8 << 20;

/// Formats records.
pub(super) trait Format: Send + 'static {
    /// What it gets.
    type Batch: Batch + Send + 'static;
    /// Formats each record of a batch: its time by the monotonic clock, and its bytes.
    fn format(&mut self, batch: &Self::Batch, out: &mut Pending);
}

/// A formatted record.
#[derive(Debug, Clone, Copy)]
struct Entry {
    time_ns: u64,
    start: usize,
    bytes: usize,
}

/// Formatted records that wait for earlier ones.
#[derive(Debug, Default)]
pub(super) struct Pending {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

impl Pending {
    /// Adds a record, whose bytes `write` appends.
    pub(super) fn add(&mut self, time_ns: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.entries.push(Entry { time_ns, start, bytes: self.bytes.len() - start });
    }

    /// Takes the records up to a time and, beyond the limit of waiting bytes, the older half: in the order of time.
    pub(super) fn take(&mut self, until_ns: u64, mut out: impl FnMut(&[u8])) {
        // Stable: equal times stay in the order in which they were added.
        self.entries.sort_by_key(|entry| entry.time_ns);
        let mut count = self.entries.partition_point(|entry| entry.time_ns <= until_ns);
        if self.bytes.len() > MAX_PENDING_BYTES {
            count = count.max(self.entries.len().div_ceil(2));
        }
        if count == 0 {
            return;
        }
        let of = |entry: &Entry| &self.bytes[entry.start..entry.start + entry.bytes];
        self.entries[..count].iter().for_each(|entry| out(of(entry)));
        let mut rest = Pending::default();
        for entry in &self.entries[count..] {
            rest.add(entry.time_ns, |bytes| bytes.extend_from_slice(of(entry)));
        }
        *self = rest;
    }
}

/// The file of a recording.
#[derive(Debug)]
pub(super) struct RecordingFile {
    /// Closed when the recording ends by itself.
    file: Option<File>,
    /// Whether a record that was written in part is removed again.
    is_cut: bool,
    limit_bytes: u64,
    written: u64,
    counts: Arc<RecordingCounts>,
}

impl RecordingFile {
    /// A file without its header. `is_own` if it is a regular file that nothing else writes to, from its start.
    pub(super) fn new(
        file: File,
        is_own: bool,
        limit_bytes: Option<u64>,
        counts: Arc<RecordingCounts>,
    ) -> Self {
        let limit_bytes = limit_bytes.unwrap_or(u64::MAX);
        RecordingFile { file: Some(file), is_cut: is_own, limit_bytes, written: 0, counts }
    }

    /// Appends bytes, which may wait for the reader of a pipe, a socket or a terminal.
    ///
    /// # Errors
    /// Those of writing. The recording has ended then.
    pub(super) fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let written = file.write_all(bytes);
        match &written {
            Ok(()) => {
                self.written += bytes.len() as u64;
                self.counts.bytes.store(self.written, Ordering::Relaxed);
            }
            Err(error) => {
                if self.is_cut {
                    // If this fails, the last record is truncated.
                    let _ = file.set_len(self.written);
                }
                let _ = self.counts.reason.set(error.to_string());
                self.end(match error.kind() {
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded => RecordingState::DiskFull,
                    _ => RecordingState::Failed,
                });
            }
        }
        written
    }

    fn end(&mut self, state: RecordingState) {
        self.counts.end(state);
        self.file = None;
    }

    /// Writes records up to the limit.
    fn write(&mut self, pending: &mut Pending, until_ns: u64) {
        if self.file.is_none() {
            return;
        }
        let (mut out, mut records, mut is_full) = (Vec::new(), 0, false);
        let room = self.limit_bytes.saturating_sub(self.written);
        pending.take(until_ns, |record| {
            is_full |= (out.len() + record.len()) as u64 > room;
            if !is_full {
                out.extend_from_slice(record);
                records += 1;
            }
        });
        if self.append(&out).is_ok() {
            self.counts.records.fetch_add(records, Ordering::Relaxed);
            if is_full {
                self.end(RecordingState::LimitReached);
            }
        }
    }
}

/// Writes `head`, and then what arrives until all senders are gone.
pub(super) fn run<F: Format>(
    mut format: F,
    receiver: &Receiver<Filled<F::Batch>>,
    mut file: RecordingFile,
    head: &[u8],
    done: &Sender<()>,
) {
    // The recording has ended if this fails.
    let _ = file.append(head);
    let clock = Clock::System;
    let mut pending = Pending::default();
    let mut written_ns = clock.monotonic_ns();
    loop {
        let is_over = match receiver.recv_timeout(WRITE) {
            Ok((mut batch, back)) => {
                if file.file.is_some() {
                    format.format(&batch, &mut pending);
                }
                batch.clear();
                // The channel is full: the direction has as many as it needs.
                let _ = back.try_send(batch);
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        let now_ns = clock.monotonic_ns();
        if is_over {
            file.write(&mut pending, u64::MAX);
            break;
        }
        let is_due = now_ns - written_ns >= WRITE.as_nanos() as u64;
        if is_due || pending.bytes.len() > MAX_PENDING_BYTES {
            file.write(&mut pending, now_ns.saturating_sub(ORDER_NS));
            written_ns = now_ns;
        }
        if file.file.is_none() {
            pending = Pending::default();
        }
    }
    drop(file.file);
    file.counts.end(RecordingState::Ended);
    let _ = done.send(());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(entries: &[(u64, &[u8])]) -> Pending {
        let mut pending = Pending::default();
        for (time_ns, bytes) in entries {
            pending.add(*time_ns, |out| out.extend_from_slice(bytes));
        }
        pending
    }

    fn taken(pending: &mut Pending, until_ns: u64) -> Vec<u8> {
        let mut out = vec![];
        pending.take(until_ns, |bytes| out.extend_from_slice(bytes));
        out
    }

    #[test]
    fn records_of_both_directions_leave_in_the_order_of_time() {
        let mut pending = pending(&[(5, b"e"), (3, b"c"), (9, b"ii"), (1, b"a"), (3, b"d")]);
        assert_eq!(taken(&mut pending, 4), b"acd");
        pending.add(7, |out| out.push(b'g'));
        assert_eq!(taken(&mut pending, 4), b"");
        assert_eq!(taken(&mut pending, u64::MAX), b"egii");
        assert_eq!((pending.entries.len(), pending.bytes.len()), (0, 0));
    }

    #[test]
    fn no_more_than_the_limit_waits() {
        let block = vec![7; MAX_PENDING_BYTES / 4];
        let mut pending = pending(&[(4, &block), (3, &block), (2, &block), (1, &block), (0, b"x")]);
        assert_eq!(taken(&mut pending, 0).len(), 1 + 2 * block.len());
        assert_eq!(taken(&mut pending, 0).len(), 0);
        assert_eq!(pending.bytes.len(), 2 * block.len());
    }

    fn begun(file: File, limit: u64) -> (RecordingFile, Arc<RecordingCounts>) {
        let counts = Arc::new(RecordingCounts::default());
        let mut file = RecordingFile::new(file, true, Some(limit), counts.clone());
        file.append(b"head").unwrap();
        (file, counts)
    }

    #[test]
    fn a_file_ends_with_the_last_whole_record_below_its_limit() {
        let mut found = tempfile::tempfile().unwrap();
        let (mut file, counts) = begun(found.try_clone().unwrap(), 10);
        file.write(&mut pending(&[(1, b"aaa")]), 1);
        assert!(counts.is_running());
        // A short record after one that does not fit is not written either.
        file.write(&mut pending(&[(2, b"bb"), (3, b"cc"), (4, b"d")]), 9);
        assert!(!counts.is_running() && file.file.is_none());
        let mut text = String::new();
        std::io::Seek::rewind(&mut found).unwrap();
        std::io::Read::read_to_string(&mut found, &mut text).unwrap();
        assert_eq!(text, "headaaabb");
        let report = counts.report(&super::super::tests::capture(), 0.0);
        assert_eq!((report.state, report.records), (RecordingState::LimitReached, 2));
        assert_eq!((report.bytes, report.dropped_records), (9, 0));
    }

    #[test]
    fn a_full_disk_is_named() {
        let Ok(full) = File::options().write(true).open("/dev/full") else {
            return eprintln!("SKIPPED a_full_disk_is_named: no /dev/full");
        };
        let counts = Arc::new(RecordingCounts::default());
        let mut file = RecordingFile {
            file: Some(full),
            is_cut: true,
            limit_bytes: u64::MAX,
            written: 0,
            counts: counts.clone(),
        };
        file.write(&mut pending(&[(1, b"aaa")]), 1);
        let report = counts.report(&super::super::tests::capture(), 0.0);
        assert_eq!((report.state, report.records), (RecordingState::DiskFull, 0));
        assert_eq!((report.dropped_records, report.reason.is_some()), (0, true));
    }
}
