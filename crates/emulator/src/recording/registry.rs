//! The recordings of a running emulator: starting, ending and reporting them.

use std::fs::{File, TryLockError};
use std::io::{IsTerminal, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl};
use weir_laws::Direction;
use weir_net::clock::Clock;

use super::capture::{CaptureFormatter, FlowNames};
use super::log::LogFormatter;
use super::recorder::{Recorder, WAITING};
use super::writer::{self, RecordingFile};
use super::{
    MAX_RECORDINGS, Recording, RecordingCounts, RecordingKind, RecordingReport, RecordingSelection,
    RecordingState,
};
use crate::error::EmulatorError;

/// Maximum number of recordings in the report: those that have ended are forgotten, the oldest first.
const MAX_LISTED: usize = 64;
/// Time to write what is in the queue at the end.
const FINISH: Duration = Duration::from_secs(5);
/// A difference between two relations of the clocks above which one was stepped.
const STEP_NS: u64 = 1_000_000;
const UNUSED_FILE: &str = "a file to which no other capture, log or packet trace writes";
const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];

/// A recording and its counters.
struct Listed {
    id: u64,
    recording: Recording,
    start_seconds: f64,
    counts: Arc<RecordingCounts>,
    /// Device and inode of a regular file.
    file: Option<(u64, u64)>,
    /// Gets a message from its thread at its end; `None` once the directions record no more.
    done: Option<Receiver<()>>,
}

/// All recordings.
pub(crate) struct Recordings {
    next: u64,
    listed: Vec<Listed>,
    /// Realtime minus monotonic clock, ns: the same for all, unless the clock is stepped.
    offset_ns: i64,
    names: FlowNames,
    /// Number of workers of each direction.
    workers: usize,
}

/// Device and inode of a regular file.
fn identity(file: &File) -> Option<(u64, u64)> {
    let found = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((found.dev(), found.ino()))
}

/// Whether writing may wait for a reader: pipes, sockets and terminals.
fn waits(file: &File) -> bool {
    let kind = file.metadata().map(|found| found.file_type());
    let is_stream = kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket());
    is_stream || file.is_terminal()
}

impl Recordings {
    /// No recordings yet, of this many workers of each direction.
    pub(crate) fn of(workers: usize) -> Self {
        Recordings {
            next: 0,
            listed: Vec::new(),
            offset_ns: 0,
            names: FlowNames::default(),
            workers,
        }
    }

    /// Starts the thread of a recording, which writes to `file` from its current position; returns its parts in the workers
    /// of the directions, none for a direction that it does not cover. `flow` is the number of its flow.
    ///
    /// # Errors
    /// An invalid recording, too many, a file that is in use or not open for writing, one that can't be written.
    pub(crate) fn start(
        &mut self,
        recording: Recording,
        mut file: File,
        flow: Option<u32>,
        interfaces: &[String; 2],
        start_seconds: f64,
    ) -> Result<[Vec<Recorder>; 2], EmulatorError> {
        let refuse = |what: &str, given: String, accepted: &str| EmulatorError::Refusal {
            what: what.into(),
            given,
            accepted: accepted.into(),
        };
        recording.check()?;
        let running = self.listed.iter().filter(|listed| listed.done.is_some());
        if running.clone().count() >= MAX_RECORDINGS {
            let accepted = format!("{MAX_RECORDINGS} captures and logs at a time");
            return Err(refuse("recordings", "one more".into(), &accepted));
        }
        let id_of_file = identity(&file);
        let given = recording.path.clone();
        if id_of_file.is_some() && running.clone().any(|other| other.file == id_of_file) {
            return Err(refuse("path", given, UNUSED_FILE));
        }
        let failed = |operation| {
            let path = recording.path.clone().into();
            move |source| EmulatorError::File { operation, path, source }
        };
        let flags = fcntl_getfl(file.as_fd()).map_err(|e| failed("look at")(e.into()))?;
        if !flags.intersects(OFlags::WRONLY | OFlags::RDWR) {
            return Err(refuse(
                "path",
                format!("{given}, open for reading"),
                "a file open for writing",
            ));
        }
        // Another emulator, or a packet trace, may write to it. A file system without locks is taken at its word.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(refuse("path", given, UNUSED_FILE));
        }
        // A stream that a shell opened with `>>` keeps its content.
        let is_own = id_of_file.is_some()
            && !flags.contains(OFlags::APPEND)
            && file.stream_position().map_err(failed("look at"))? == 0;
        if is_own {
            file.set_len(0).map_err(failed("write"))?;
        }
        let counts = Arc::new(RecordingCounts::default());
        let offset_ns = Clock::System.bracket().realtime_minus_monotonic();
        if offset_ns.abs_diff(self.offset_ns) > STEP_NS {
            self.offset_ns = offset_ns;
        }
        let offset_ns = self.offset_ns;
        let id = self.next;
        let waits = waits(&file);
        // What can't take the header is refused, unless finding out may take any time.
        let begin = |file, mut header: Vec<u8>| {
            let mut file = RecordingFile::new(file, is_own, recording.limit_bytes, counts.clone());
            if !waits {
                file.append(&std::mem::take(&mut header)).map_err(failed("write"))?;
            }
            Ok::<_, EmulatorError>((file, header))
        };
        let (done, is_done) = channel();
        let name = format!("weir-{}", recording.kind.name());
        let thread = std::thread::Builder::new().name(name);
        let workers = self.workers;
        let of = |direction| 0..if recording.covers(direction) { workers } else { 0 };
        let (recorders, started) = match recording.kind {
            RecordingKind::Capture => {
                let (format, header, numbers) =
                    CaptureFormatter::new(&recording, interfaces, &self.names, offset_ns)?;
                let (file, head) = begin(file, header)?;
                let (sender, receiver) = sync_channel(2 * WAITING * workers);
                let recorder = |direction: Direction| {
                    let numbers = numbers[direction as usize];
                    let part = |_| {
                        Recorder::capture(id, &recording, flow, numbers, sender.clone(), &counts)
                    };
                    of(direction).map(part).collect()
                };
                let recorders = BOTH.map(recorder);
                (
                    recorders,
                    thread.spawn(move || writer::run(format, &receiver, file, &head, &done)),
                )
            }
            RecordingKind::Log => {
                let (format, header) = LogFormatter::new(&self.names, offset_ns);
                let (file, head) = begin(file, header)?;
                let (sender, receiver) = sync_channel(2 * WAITING * workers);
                let recorder = |direction: Direction| {
                    let part = |_| Recorder::log(id, flow, sender.clone(), &counts);
                    of(direction).map(part).collect()
                };
                let recorders = BOTH.map(recorder);
                (
                    recorders,
                    thread.spawn(move || writer::run(format, &receiver, file, &head, &done)),
                )
            }
        };
        started.map_err(|source| EmulatorError::System { operation: "start a thread", source })?;
        self.next += 1;
        let done = Some(is_done);
        self.listed.push(Listed { id, recording, start_seconds, counts, file: id_of_file, done });
        if self.listed.len() > MAX_LISTED
            && let Some(oldest) = self.listed.iter().position(|listed| listed.done.is_none())
        {
            self.listed.remove(oldest);
        }
        Ok(recorders)
    }

    /// Sets the names of all flows, by number.
    pub(crate) fn set_names(&self, numbered: Vec<(u32, &str)>) {
        let mut names = self.names.write().unwrap_or_else(|e| e.into_inner());
        // A number is never given to another name.
        let known = names.len();
        names.extend(numbered.into_iter().skip(known).map(|(_, name)| name.to_owned()));
    }

    /// The ids of the selected recordings that have not ended by command.
    pub(crate) fn selected(&self, selection: &RecordingSelection) -> Vec<u64> {
        let is_meant = |listed: &&Listed| listed.done.is_some() && selection.has(&listed.recording);
        self.listed.iter().filter(is_meant).map(|listed| listed.id).collect()
    }

    /// The ids of those that have ended by themselves: by their limit or an error.
    pub(crate) fn over(&self) -> Vec<u64> {
        let is_over = |listed: &&Listed| listed.done.is_some() && !listed.counts.is_running();
        self.listed.iter().filter(is_over).map(|listed| listed.id).collect()
    }

    /// Marks recordings as ended by the directions; returns what gets a message when each is written.
    pub(crate) fn ending(&mut self, ids: &[u64]) -> Vec<Receiver<()>> {
        let meant = self.listed.iter_mut().filter(|listed| ids.contains(&listed.id));
        meant.filter_map(|listed| listed.done.take()).collect()
    }

    /// The reports of some recordings.
    pub(crate) fn reports(&self, ids: &[u64]) -> Vec<RecordingReport> {
        let meant = self.listed.iter().filter(|listed| ids.contains(&listed.id));
        meant.map(Listed::report).collect()
    }

    /// The reports of all recordings.
    pub(crate) fn report(&self) -> Vec<RecordingReport> {
        self.listed.iter().map(Listed::report).collect()
    }

    /// The recordings that lack packets or verdicts, or that ended by themselves, with their ids.
    pub(crate) fn incomplete(&self) -> Vec<(u64, RecordingReport)> {
        let is_incomplete = |(_, report): &(u64, RecordingReport)| {
            report.dropped_records > 0
                || !matches!(report.state, RecordingState::Running | RecordingState::Ended)
        };
        let all = self.listed.iter().map(|listed| (listed.id, listed.report()));
        all.filter(is_incomplete).collect()
    }
}

/// Waits until recordings are written. A file that takes nothing for so long, such as a pipe that is not read, is left to
/// its thread.
pub(crate) fn finish(ending: Vec<Receiver<()>>) {
    let until = Instant::now() + FINISH;
    for done in ending {
        let _ = done.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

impl Listed {
    fn report(&self) -> RecordingReport {
        self.counts.report(&self.recording, self.start_seconds)
    }
}
