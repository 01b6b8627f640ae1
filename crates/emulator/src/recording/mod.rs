//! Captures (pcapng) and logs (CSV) of a flow or of all packets, started and stopped while the emulator runs.
//!
//! A direction copies what a recording needs into batches ([`recorder`]); a thread for each recording orders, formats
//! and writes them ([`writer`]). The emulator opens no file: each is passed to it open.

mod capture;
mod log;
mod recorder;
#[cfg(target_os = "linux")]
mod registry;
mod writer;

use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_link::capture::MAX_CAPTURED_BYTES;
use weir_model::counted;
use weir_model::plan::Direction;

use crate::error::EmulatorError;

pub(crate) use recorder::{Passage, Recorders};
#[cfg(target_os = "linux")]
pub(crate) use recorder::{Recorder, close};
#[cfg(target_os = "linux")]
pub(crate) use registry::{Recordings, finish};

/// Maximum number of recordings at a time.
pub const MAX_RECORDINGS: usize = 16;
/// Minimum of a limit: the header of a file, and a frame.
const MIN_LIMIT_BYTES: u64 = 4096;

/// The type of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordingKind {
    /// Packets, as pcapng.
    Capture,
    /// Verdicts, as CSV.
    Log,
}

impl RecordingKind {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RecordingKind::Capture => "capture",
            RecordingKind::Log => "log",
        }
    }
}

/// Where packets are captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapturePoint {
    /// As they arrived, before the laws.
    Before,
    /// As they left, after the laws.
    After,
}

/// A recording that is requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// Capture or log.
    pub kind: RecordingKind,
    /// The name of its file, for people and for ending it: the file itself is passed open. Bytes that are not UTF-8 are replaced.
    pub path: String,
    /// The flow; absent: all packets, which a capture has as they entered and left the emulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// The direction; absent: both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// Of a capture, where; absent: before and after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<CapturePoint>,
    /// Of a capture, the maximum number of bytes of each frame; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 262_144))]
    pub snap_bytes: Option<u32>,
    /// Size of the file at which it ends; absent: limited by the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 4096))]
    pub limit_bytes: Option<u64>,
}

impl Recording {
    /// One of all packets in both directions without a limit.
    #[must_use]
    pub fn new(kind: RecordingKind, path: &Path) -> Self {
        Recording {
            kind,
            path: path.display().to_string(),
            flow: None,
            direction: None,
            point: None,
            snap_bytes: None,
            limit_bytes: None,
        }
    }

    /// Checks its values.
    fn check(&self) -> Result<(), EmulatorError> {
        let refuse = |what: &str, given: String, accepted: String| {
            Err(EmulatorError::Refusal { what: what.into(), given, accepted })
        };
        if self.kind == RecordingKind::Log {
            let none = || "none: a log has no packets".to_owned();
            if let Some(point) = self.point {
                return refuse("point", format!("{point:?}").to_lowercase(), none());
            }
            if let Some(snap) = self.snap_bytes {
                return refuse("snap_bytes", snap.to_string(), none());
            }
        }
        if let Some(snap) = self.snap_bytes
            && !(1..=MAX_CAPTURED_BYTES as u32).contains(&snap)
        {
            return refuse("snap_bytes", snap.to_string(), format!("1 to {MAX_CAPTURED_BYTES}"));
        }
        match self.limit_bytes {
            Some(limit) if limit < MIN_LIMIT_BYTES => {
                refuse("limit_bytes", limit.to_string(), format!("at least {MIN_LIMIT_BYTES}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether packets of this direction belong to it.
    fn covers(&self, direction: weir_laws::Direction) -> bool {
        self.direction.is_none_or(|only| only == crate::datapath::side(direction))
    }
}

/// Selects recordings; without a field: all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RecordingSelection {
    /// Captures or logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<RecordingKind>,
    /// Those of this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Those of this flow alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
}

impl RecordingSelection {
    /// Whether it selects a recording.
    fn has(&self, recording: &Recording) -> bool {
        self.kind.is_none_or(|kind| kind == recording.kind)
            && self.path.as_ref().is_none_or(|path| *path == recording.path)
            && self.flow.as_ref().is_none_or(|flow| recording.flow.as_ref() == Some(flow))
    }
}

/// The state of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordingState {
    /// It records.
    Running,
    /// It was ended by a command, or with the emulator.
    Ended,
    /// Its file has reached the limit. This and the following end it: the file has what was written before.
    LimitReached,
    /// The disk is full.
    DiskFull,
    /// Its file could not be written for another reason.
    Failed,
}

impl RecordingState {
    const ALL: [Self; 5] =
        [Self::Running, Self::Ended, Self::LimitReached, Self::DiskFull, Self::Failed];
}

/// A recording in a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EmulatorRecording")]
pub struct RecordingReport {
    /// What was requested.
    #[serde(flatten)]
    pub recording: Recording,
    /// When it started, s since the start of the emulator.
    pub start_seconds: f64,
    /// Its state.
    pub state: RecordingState,
    /// Why its file could not be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Packets or verdicts written.
    pub records: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Packets or verdicts that are missing because writing could not keep up.
    pub dropped_records: u64,
}

impl RecordingReport {
    /// What its file lacks, in words; empty if nothing.
    #[must_use]
    pub fn lack(&self) -> String {
        let what = match self.recording.kind {
            RecordingKind::Capture => "packet",
            RecordingKind::Log => "verdict",
        };
        let mut lacks = vec![];
        if self.dropped_records > 0 {
            let missing = counted(self.dropped_records, what);
            lacks.push(format!("{missing} MISSING: writing could not keep up"));
        }
        let reason = self.reason.as_deref().unwrap_or("unknown error");
        lacks.extend(match self.state {
            RecordingState::Running | RecordingState::Ended => None,
            RecordingState::LimitReached => Some("ended at its limit".to_owned()),
            RecordingState::DiskFull => Some("ended because the disk is full".to_owned()),
            RecordingState::Failed => {
                Some(format!("ended because its file could not be written: {reason}"))
            }
        });
        lacks.join("; ")
    }
}

/// Counters of a recording, which its directions and its thread share.
#[derive(Debug, Default)]
pub(crate) struct RecordingCounts {
    records: AtomicU64,
    bytes: AtomicU64,
    dropped: Arc<AtomicU64>,
    /// Index in [`RecordingState::ALL`].
    state: AtomicU8,
    reason: OnceLock<String>,
}

impl RecordingCounts {
    #[inline]
    fn is_running(&self) -> bool {
        self.state.load(Ordering::Relaxed) == RecordingState::Running as u8
    }

    /// Sets the state in which it ends; the first one remains.
    fn end(&self, state: RecordingState) {
        let running = RecordingState::Running as u8;
        let ordering = Ordering::Relaxed;
        let _ = self.state.compare_exchange(running, state as u8, ordering, ordering);
    }

    fn report(&self, recording: &Recording, start_seconds: f64) -> RecordingReport {
        let state = usize::from(self.state.load(Ordering::Relaxed));
        RecordingReport {
            recording: recording.clone(),
            start_seconds,
            state: RecordingState::ALL[state],
            reason: self.reason.get().cloned(),
            records: self.records.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            dropped_records: self.dropped.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A capture of all packets.
    pub(super) fn capture() -> Recording {
        Recording::new(RecordingKind::Capture, Path::new("x.pcapng"))
    }

    #[test]
    #[cfg(unix)]
    fn a_name_that_is_not_utf8_is_reported_too() {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(std::ffi::OsStr::from_bytes(b"caf\xe9"));
        let written = serde_json::to_value(Recording::new(RecordingKind::Log, path)).unwrap();
        assert_eq!(written["path"], "caf\u{fffd}");
    }

    #[test]
    fn states_have_their_places() {
        for (place, state) in RecordingState::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, place);
        }
    }

    #[test]
    fn values_out_of_range_and_those_of_the_other_kind_are_refused() {
        let log = Recording::new(RecordingKind::Log, Path::new("x.csv"));
        let refused = |recording: Recording| match recording.check() {
            Err(EmulatorError::Refusal { what, .. }) => what,
            other => panic!("{other:?}"),
        };
        assert!(capture().check().is_ok() && log.check().is_ok());
        assert_eq!(refused(Recording { snap_bytes: Some(0), ..capture() }), "snap_bytes");
        assert_eq!(refused(Recording { snap_bytes: Some(262_145), ..capture() }), "snap_bytes");
        assert_eq!(refused(Recording { limit_bytes: Some(4095), ..capture() }), "limit_bytes");
        assert_eq!(refused(Recording { snap_bytes: Some(60), ..log.clone() }), "snap_bytes");
        assert_eq!(refused(Recording { point: Some(CapturePoint::After), ..log }), "point");
    }

    #[test]
    fn a_selection_has_what_all_of_its_fields_name() {
        let of_flow = Recording { flow: Some("f".into()), ..capture() };
        let all = RecordingSelection::default();
        assert!(all.has(&capture()) && all.has(&of_flow));
        let flow = RecordingSelection { flow: Some("f".into()), ..all.clone() };
        assert!(!flow.has(&capture()) && flow.has(&of_flow));
        let logs = RecordingSelection { kind: Some(RecordingKind::Log), ..flow };
        assert!(!logs.has(&of_flow));
        let path = RecordingSelection { path: Some("y.pcapng".into()), ..all };
        assert!(!path.has(&capture()));
    }
}
