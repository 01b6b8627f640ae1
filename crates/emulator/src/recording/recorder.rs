//! The part of recordings in a direction's thread: copies packets and verdicts into batches.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use weir_impair::Disposition;
use weir_laws::Direction;
use weir_link::capture::MAX_CAPTURED_BYTES;
use weir_wire::packets::{Judged, Record};

use super::capture::InterfaceNumbers;
use super::{CapturePoint, MAX_RECORDINGS, Recording, RecordingCounts};
use crate::batches::{BATCH, Batch, Feed, Filled};
use crate::packet_trace::judged;

/// Frames of a batch.
const FRAMES: usize = 1024;
/// Bytes of the frames of a batch.
const FRAME_BYTES: usize = 128 << 10;
/// Batches of a direction that may wait for the disk: 8 MiB of frames, 32 Ki verdicts.
pub(super) const WAITING: usize = 64;
/// Time for queues to take the last batches.
const CLOSING: Duration = Duration::from_secs(2);

/// The flow number of frames that belong to none.
pub(super) const NO_FLOW: u32 = u32::MAX;

/// A captured frame, without its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameHead {
    /// Monotonic clock.
    pub(super) time_ns: u64,
    pub(super) flow: u32,
    pub(super) original_bytes: u32,
    pub(super) captured_bytes: u32,
    /// Number of the interface in the capture.
    pub(super) interface: u8,
}

/// Captured frames.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) heads: Vec<FrameHead>,
    /// The frames' bytes one after the other.
    pub(super) bytes: Vec<u8>,
}

impl Batch for Frames {
    fn with_room() -> Self {
        Frames { heads: Vec::with_capacity(FRAMES), bytes: Vec::with_capacity(FRAME_BYTES) }
    }
    fn records(&self) -> u64 {
        self.heads.len() as u64
    }
    fn clear(&mut self) {
        self.heads.clear();
        self.bytes.clear();
    }
}

impl Frames {
    /// Whether a frame of this length fits without an allocation.
    #[inline]
    fn has_room(&self, bytes: usize) -> bool {
        self.heads.len() < FRAMES && self.bytes.len() + bytes <= FRAME_BYTES
    }
}

/// Verdicts.
pub(super) type Verdicts = Vec<(Record, Judged)>;

/// What a recorder records, with its end of the queue.
#[derive(Debug)]
enum RecorderKind {
    Capture { interfaces: InterfaceNumbers, snap_bytes: usize, feed: Feed<Frames> },
    Log(Feed<Verdicts>),
}

/// A recording of a direction.
#[derive(Debug)]
pub(crate) struct Recorder {
    id: u64,
    /// `None`: all packets.
    flow: Option<u32>,
    kind: RecorderKind,
    counts: Arc<RecordingCounts>,
}

impl Recorder {
    /// A direction of a capture.
    pub(super) fn capture(
        id: u64,
        recording: &Recording,
        flow: Option<u32>,
        interfaces: InterfaceNumbers,
        sender: SyncSender<Filled<Frames>>,
        counts: &Arc<RecordingCounts>,
    ) -> Self {
        let snap = recording.snap_bytes.map_or(MAX_CAPTURED_BYTES, |bytes| bytes as usize);
        let feed = Feed::new(sender, WAITING, false, counts.dropped.clone());
        let kind = RecorderKind::Capture { interfaces, snap_bytes: snap.min(FRAME_BYTES), feed };
        Recorder { id, flow, kind, counts: counts.clone() }
    }

    /// A direction of a log.
    pub(super) fn log(
        id: u64,
        flow: Option<u32>,
        sender: SyncSender<Filled<Verdicts>>,
        counts: &Arc<RecordingCounts>,
    ) -> Self {
        let feed = Feed::new(sender, WAITING, false, counts.dropped.clone());
        Recorder { id, flow, kind: RecorderKind::Log(feed), counts: counts.clone() }
    }

    /// Whether it captures at a point; a log does at none.
    fn captures(&self, point: CapturePoint) -> bool {
        matches!(&self.kind, RecorderKind::Capture { interfaces, .. }
            if interfaces[point as usize].is_some())
    }

    fn frame(&mut self, point: CapturePoint, flow: Option<u32>, time_ns: u64, frame: &[u8]) {
        let RecorderKind::Capture { interfaces, snap_bytes, feed } = &mut self.kind else { return };
        let Some(interface) = interfaces[point as usize] else { return };
        if !self.counts.is_running() {
            return;
        }
        let captured = frame.len().min(*snap_bytes);
        if !feed.batch().has_room(captured) {
            feed.flush();
        }
        let batch = feed.batch();
        batch.heads.push(FrameHead {
            time_ns,
            flow: flow.unwrap_or(NO_FLOW),
            original_bytes: frame.len() as u32,
            captured_bytes: captured as u32,
            interface,
        });
        batch.bytes.extend_from_slice(&frame[..captured]);
    }

    fn flush(&mut self) {
        match &mut self.kind {
            RecorderKind::Capture { feed, .. } => feed.flush(),
            RecorderKind::Log(feed) => feed.flush(),
        }
    }

    fn close_until(self, until: Instant) {
        match self.kind {
            RecorderKind::Capture { feed, .. } => feed.close_until(until),
            RecorderKind::Log(feed) => feed.close_until(until),
        }
    }
}

/// Passes on the last batches of recorders that are no longer used.
pub(crate) fn close(recorders: impl IntoIterator<Item = Recorder>) {
    let until = Instant::now() + CLOSING;
    recorders.into_iter().for_each(|recorder| recorder.close_until(until));
}

/// What a packet enters or leaves: captures of a flow are around its hop, those of all packets around the emulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passage {
    /// The hop of its flow.
    Hop,
    /// The emulator.
    Emulator,
    /// The hop of its flow, and the emulator.
    Both,
}

/// The recordings of a direction. Without any, each question costs one comparison.
#[derive(Debug)]
pub(crate) struct Recorders {
    all: Vec<Recorder>,
    /// Whether any captures where packets arrive, and where they leave.
    captures: [bool; 2],
    logs: bool,
}

impl Default for Recorders {
    fn default() -> Self {
        Recorders { all: Vec::with_capacity(MAX_RECORDINGS), captures: [false; 2], logs: false }
    }
}

impl Recorders {
    /// Starts a recording.
    pub(crate) fn add(&mut self, recorder: Recorder) {
        self.all.push(recorder);
        self.note();
    }

    /// Ends a recording; returns it, to be closed by another thread.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Recorder> {
        let place = self.all.iter().position(|recorder| recorder.id == id)?;
        let removed = self.all.swap_remove(place);
        self.note();
        Some(removed)
    }

    fn note(&mut self) {
        let running = || self.all.iter().filter(|recorder| recorder.counts.is_running());
        let captures = |point| running().any(|recorder| recorder.captures(point));
        self.captures = [CapturePoint::Before, CapturePoint::After].map(captures);
        self.logs = running().any(|recorder| matches!(recorder.kind, RecorderKind::Log(_)));
    }

    /// Whether packets are captured at a point.
    #[inline]
    pub(crate) fn capture(&self, point: CapturePoint) -> bool {
        self.captures[point as usize]
    }

    /// Whether verdicts are logged.
    #[inline]
    pub(crate) fn log(&self) -> bool {
        self.logs
    }

    /// Captures a packet of a flow (`None`: exempt) at a point of a passage.
    pub(crate) fn packet(
        &mut self,
        point: CapturePoint,
        of: Passage,
        flow: Option<u32>,
        time_ns: u64,
        frame: &[u8],
    ) {
        for recorder in &mut self.all {
            let is_meant = match recorder.flow {
                None => of != Passage::Hop,
                only => of != Passage::Emulator && only == flow,
            };
            if is_meant {
                recorder.frame(point, flow, time_ns, frame);
            }
        }
    }

    /// Logs the verdict on a packet.
    pub(crate) fn verdict(
        &mut self,
        direction: Direction,
        disposition: &Disposition,
        departed_ns: Option<u64>,
        native: Option<(u64, u32)>,
    ) {
        let Some((record, judged)) = judged(direction, disposition, departed_ns, native) else {
            return;
        };
        for recorder in &mut self.all {
            let RecorderKind::Log(feed) = &mut recorder.kind else { continue };
            if recorder.flow.is_none_or(|flow| flow == record.flow) && recorder.counts.is_running()
            {
                let batch = feed.batch();
                batch.push((record, judged));
                if batch.len() >= BATCH {
                    feed.flush();
                }
            }
        }
    }

    /// Passes the current batches on.
    pub(crate) fn flush(&mut self) {
        self.all.iter_mut().for_each(Recorder::flush);
        // Those that have ended by themselves cost nothing from now on.
        self.note();
    }

    /// Ends all recordings.
    pub(crate) fn close(&mut self) {
        close(self.all.drain(..));
        self.note();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::RecordingState;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn a_recording_that_has_ended_by_itself_is_given_nothing() {
        let (sender, _receiver) = sync_channel(1);
        let counts = Arc::new(RecordingCounts::default());
        let mut recorders = Recorders::default();
        recorders.add(Recorder::log(1, None, sender, &counts));
        recorders.flush();
        assert!(recorders.log());
        counts.end(RecordingState::DiskFull);
        recorders.flush();
        assert!(!recorders.log());
        assert!(recorders.remove(1).is_some());
    }
}
