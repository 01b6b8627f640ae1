//! The packet trace: verdicts pass through a bounded queue to a writing thread. On overflow records are dropped and
//! counted, so that packets do not wait; a capture waits.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use weir_impair::{Disposition, Names};
use weir_laws::Direction;
use weir_model::impairment::{Impairment, OTHER};
use weir_wire::packets::{JUDGED_LEN, Judged, PacketLogWriter, PacketsError, Record, RecordKind};

use crate::batches::{BATCH, Feed, Filled};
use crate::config::PacketTraceFiles;
use crate::error::EmulatorError;
use crate::report::PacketTraceReport;

/// Batches that may wait for the disk: 64 Ki records.
const WAITING: usize = 128;

type Batch = Vec<(Record, Judged)>;

/// The writing side.
#[derive(Debug)]
pub(crate) struct PacketTrace {
    path: PathBuf,
    files: Option<Arc<PacketTraceFiles>>,
    sender: SyncSender<Filled<Batch>>,
    thread: JoinHandle<Result<(), PacketsError>>,
    counts: Arc<TraceCounts>,
}

#[derive(Debug, Default)]
struct TraceCounts {
    written: AtomicU64,
    dropped: Arc<AtomicU64>,
    failed: AtomicBool,
    /// Size of the packet trace with its configurations.
    bytes: AtomicU64,
    most_bytes: Option<u64>,
}

impl TraceCounts {
    /// Reserves this many bytes; `false` if the limit does not permit them.
    fn take(&self, bytes: u64) -> bool {
        let most = self.most_bytes.unwrap_or(u64::MAX);
        let more = |now: u64| now.checked_add(bytes).filter(|sum| *sum <= most);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// The writer of a direction.
#[derive(Debug)]
pub(crate) struct TraceWriter {
    direction: Direction,
    feed: Feed<Batch>,
}

/// Reads a packet trace's counters.
#[derive(Debug, Clone)]
pub(crate) struct TraceCounters(Arc<TraceCounts>, PathBuf, Option<Arc<PacketTraceFiles>>);

impl TraceCounters {
    /// Appends a configuration to the file next to the packet trace, whose records have only its number.
    pub(crate) fn configure(&self, number: u64, names: &Names, config: &Impairment) {
        let flows: Vec<_> = names.numbered().into_iter().map(named).collect();
        let line = json!({ "configuration": number, "flows": flows, "impairment": config });
        let line = format!("{line}\n");
        if !self.0.take(line.len() as u64) {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // One call per line: a full disk leaves complete lines and at most one truncated.
        let written = match &self.2 {
            Some(files) => (&files.configurations).write_all(line.as_bytes()),
            None => File::options()
                .append(true)
                .create(true)
                .open(configurations(&self.1))
                .and_then(|mut file| file.write_all(line.as_bytes())),
        };
        if written.is_err() {
            self.0.failed.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.1
    }

    pub(crate) fn report(&self) -> PacketTraceReport {
        PacketTraceReport {
            path: self.1.display().to_string(),
            records: self.0.written.load(Ordering::Relaxed),
            dropped_records: self.0.dropped.load(Ordering::Relaxed),
            failed: self.0.failed.load(Ordering::Relaxed),
            bytes: self.0.bytes.load(Ordering::Relaxed),
            limit_bytes: self.0.most_bytes,
        }
    }
}

/// The file of later configurations of a packet trace.
fn configurations(packet_trace: &Path) -> PathBuf {
    let mut path = packet_trace.as_os_str().to_owned();
    path.push(".configurations");
    path.into()
}

fn named((number, name): (u32, &str)) -> Value {
    json!({ "number": number, "name": name })
}

impl PacketTrace {
    /// Opens the file, unless it is open already, and starts the thread.
    pub(crate) fn create(
        path: &Path,
        files: Option<Arc<PacketTraceFiles>>,
        most_bytes: Option<u64>,
        interfaces: &[String; 2],
        config: &Impairment,
        clock: &str,
    ) -> Result<Self, EmulatorError> {
        let failed = |source| EmulatorError::PacketTrace { path: path.to_owned(), source };
        let file = match &files {
            Some(files) => files.packet_trace.try_clone(),
            None => File::create(path).inspect(|_| {
                // Left by an earlier packet trace of that name, if any.
                let _ = std::fs::remove_file(configurations(path));
            }),
        };
        let file = file.map_err(|source| EmulatorError::File {
            operation: "create packet trace",
            path: path.to_owned(),
            source,
        })?;
        // No capture or log may be written to it. Where files have no locks, that is the user's task.
        let _ = file.try_lock();
        let mut flows = vec![named((0, OTHER))];
        flows.extend(config.flows.iter().zip(1..).map(|(flow, n)| named((n, &flow.name))));
        let metadata = json!({
            "schema": "weir.packets/1",
            "writer": "weir impair",
            "clock": clock,
            "interfaces": { "a": interfaces[0], "b": interfaces[1] },
            "flows": flows,
            "impairment": config,
        });
        let out = BufWriter::with_capacity(1 << 18, file);
        let mut text = metadata.to_string();
        if text.len() > weir_wire::packets::MAX_METADATA_LEN {
            // Thousands of flows with laws: their names are in the report.
            text = json!({ "schema": "weir.packets/1", "writer": "weir impair", "clock": clock })
                .to_string();
        }
        let mut writer = PacketLogWriter::judged(out, &text).map_err(failed)?;
        let (sender, receiver) = sync_channel::<Filled<Batch>>(WAITING);
        let counts = Arc::new(TraceCounts { most_bytes, ..TraceCounts::default() });
        // The header, whose metadata ends at a record boundary, is written regardless of the limit.
        counts.bytes.store((16 + text.len() as u64).next_multiple_of(8), Ordering::Relaxed);
        let seen = counts.clone();
        let thread = std::thread::Builder::new()
            .name("weir-trace".into())
            .spawn(move || {
                let mut outcome = Ok(());
                loop {
                    let (mut batch, back) = match receiver.try_recv() {
                        Ok(next) => next,
                        Err(TryRecvError::Disconnected) => break,
                        Err(TryRecvError::Empty) => {
                            // Flushed, so that it survives SIGKILL.
                            outcome = outcome.and_then(|()| writer.flush());
                            match receiver.recv() {
                                Ok(next) => next,
                                Err(_) => break,
                            }
                        }
                    };
                    for (record, judged) in &batch {
                        let fits = outcome.is_ok() && seen.take(JUDGED_LEN as u64);
                        if fits {
                            outcome = writer.write_judged(record, judged);
                        }
                        let is_written = fits && outcome.is_ok();
                        let count = if is_written { &seen.written } else { &seen.dropped };
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    seen.failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                    batch.clear();
                    // The channel is full: the direction has as many as it needs.
                    let _ = back.try_send(batch);
                }
                outcome.and_then(|()| writer.finish().map(drop))
            })
            .map_err(|source| EmulatorError::System { operation: "start a thread", source })?;
        Ok(PacketTrace { path: path.to_owned(), files, sender, thread, counts })
    }

    /// The writer of a direction. One that waits drops nothing.
    pub(crate) fn writing(&self, direction: Direction, waits: bool) -> TraceWriter {
        let dropped = self.counts.dropped.clone();
        TraceWriter { direction, feed: Feed::new(self.sender.clone(), WAITING, waits, dropped) }
    }

    pub(crate) fn watching(&self) -> TraceCounters {
        TraceCounters(self.counts.clone(), self.path.clone(), self.files.clone())
    }

    /// Waits until everything is written. All writers must be gone.
    pub(crate) fn finish(self) -> Result<(), EmulatorError> {
        drop(self.sender);
        match self.thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(source)) => {
                self.counts.failed.store(true, Ordering::Relaxed);
                Err(EmulatorError::PacketTrace { path: self.path, source })
            }
            Err(_) => Err(EmulatorError::Ended),
        }
    }
}

impl TraceWriter {
    /// Adds a packet's verdict, its departure time if it left, and its native sequence and flow.
    #[inline]
    pub(crate) fn write(
        &mut self,
        disposition: &Disposition,
        departed_ns: Option<u64>,
        native: Option<(u64, u32)>,
    ) {
        if let Some((record, judged)) = judged(self.direction, disposition, departed_ns, native) {
            self.push(record, judged);
        }
    }

    /// Adds the application of another configuration.
    pub(crate) fn configured(&mut self, number: u64, at_ns: u64) {
        let record = Record {
            sequence: number,
            time1_ns: Some(at_ns),
            time2_ns: None,
            flow: 0,
            size_bytes: 0,
            copy: 0,
            kind: RecordKind::CONFIGURED,
            direction: self.direction as u8,
            flags: 0,
        };
        self.push(record, Judged::default());
    }

    #[inline]
    fn push(&mut self, record: Record, judged: Judged) {
        let batch = self.feed.batch();
        batch.push((record, judged));
        if batch.len() >= BATCH {
            self.feed.flush();
        }
    }

    /// Passes the current batch on.
    pub(crate) fn flush(&mut self) {
        self.feed.flush();
    }

    /// Passes on the last batch, and waits for it.
    pub(crate) fn close(self) {
        self.feed.close();
    }
}

/// The record of a packet with the emulator's additions; `None` if it has none ([`Disposition::record`]).
#[inline]
pub(crate) fn judged(
    direction: Direction,
    disposition: &Disposition,
    departed_ns: Option<u64>,
    native: Option<(u64, u32)>,
) -> Option<(Record, Judged)> {
    let record = disposition.record(direction, departed_ns)?;
    let judged = Judged {
        asked_ns: (record.kind == RecordKind::FORWARDED).then_some(disposition.at_ns),
        native_sequence: native.map(|n| n.0),
        native_flow: native.map_or(0, |n| n.1),
    };
    Some((record, judged))
}
