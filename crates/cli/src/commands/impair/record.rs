//! `weir impair capture` and `log`: starts and ends captures and logs of a running emulator.
//!
//! This program opens the file and passes it over the control socket, so that it has the user's working directory and rights,
//! and the emulator opens no file by name.

use std::fs::File;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use weir_emulator::{CapturePoint, Recording, RecordingKind, RecordingReport, RecordingSelection};
use weir_link::capture::MAX_CAPTURED_BYTES;
use weir_model::plan::Direction;
use weir_model::units::ByteSize;
use weir_net::output::{descriptor, descriptor_of};

use super::args::SocketArgs;
use super::control::{record_at, talk, understood};
use super::text;
use crate::commands::values;
use crate::error::CliError;
use crate::output::print;

/// A verb on captures.
#[derive(Debug, Subcommand)]
pub(crate) enum CaptureVerb {
    /// Start a capture, which goes on until it is ended
    On {
        /// The file, which is replaced (- is stdout, for example of a pipe to tshark)
        file: PathBuf,
        /// Capture packets only as they arrive, before the laws
        #[arg(long, conflicts_with = "after")]
        before: bool,
        /// Capture packets only as they leave, after the laws
        #[arg(long)]
        after: bool,
        /// Capture this many bytes of each packet at most [default: all]
        #[arg(long, value_name = "N", value_parser = values::whole(1_u32..=MAX_CAPTURED_BYTES as u32))]
        snaplen: Option<u32>,
        #[command(flatten)]
        packets: PacketArgs,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// End captures, and print what their files have
    Off {
        #[command(flatten)]
        which: WhichArgs,
        #[command(flatten)]
        socket: SocketArgs,
    },
}

/// A verb on logs.
#[derive(Debug, Subcommand)]
pub(crate) enum LogVerb {
    /// Start a log, which goes on until it is ended
    On {
        /// The file, which is replaced (- is stdout)
        file: PathBuf,
        #[command(flatten)]
        packets: PacketArgs,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// End logs, and print what their files have
    Off {
        #[command(flatten)]
        which: WhichArgs,
        #[command(flatten)]
        socket: SocketArgs,
    },
}

/// Which packets are recorded, and how many.
#[derive(Debug, Args)]
pub(crate) struct PacketArgs {
    /// Their flow [default: all packets]
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,
    /// Packets that entered at A only
    #[arg(long, conflicts_with = "b_to_a")]
    a_to_b: bool,
    /// Packets that entered at B only
    #[arg(long)]
    b_to_a: bool,
    /// End when the file would become longer, at least 4K [default: limited only by the disk]
    #[arg(long, value_name = "BYTES")]
    limit: Option<ByteSize>,
}

/// Which recordings are ended.
#[derive(Debug, Args)]
pub(crate) struct WhichArgs {
    /// The one with this file [default: all]
    file: Option<PathBuf>,
    /// Those of this flow [default: all]
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,
}

/// Starts or ends captures.
pub(super) fn capture(verb: &CaptureVerb) -> Result<i32, CliError> {
    match verb {
        CaptureVerb::On { file, before, after, snaplen, packets, socket } => {
            let point = match (before, after) {
                (true, _) => Some(CapturePoint::Before),
                (_, true) => Some(CapturePoint::After),
                _ => None,
            };
            let recording = packets.recording(RecordingKind::Capture, file);
            start(Recording { point, snap_bytes: *snaplen, ..recording }, file, socket)
        }
        CaptureVerb::Off { which, socket } => end(RecordingKind::Capture, which, socket),
    }
}

/// Starts or ends logs.
pub(super) fn log(verb: &LogVerb) -> Result<i32, CliError> {
    match verb {
        LogVerb::On { file, packets, socket } => {
            start(packets.recording(RecordingKind::Log, file), file, socket)
        }
        LogVerb::Off { which, socket } => end(RecordingKind::Log, which, socket),
    }
}

impl PacketArgs {
    fn recording(&self, kind: RecordingKind, file: &Path) -> Recording {
        let direction = match (self.a_to_b, self.b_to_a) {
            (true, _) => Some(Direction::Forward),
            (_, true) => Some(Direction::Reverse),
            _ => None,
        };
        Recording {
            flow: self.flow.clone(),
            direction,
            limit_bytes: self.limit.map(|limit| limit.0),
            ..Recording::new(kind, &named(file))
        }
    }
}

/// The path of a file wherever it is named; a stream keeps its name.
fn named(file: &Path) -> PathBuf {
    match descriptor_of(file) {
        Some(_) => file.to_owned(),
        None => std::path::absolute(file).unwrap_or_else(|_| file.to_owned()),
    }
}

/// A file that was opened for a recording. One that was created is removed unless it is kept.
pub(super) struct OpenedFile {
    file: File,
    created: Option<PathBuf>,
}

impl OpenedFile {
    /// Opens a file for writing, without removing its content yet.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn open(kind: RecordingKind, path: &Path) -> Result<Self, CliError> {
        let operation = match kind {
            RecordingKind::Capture => "create capture",
            RecordingKind::Log => "create log",
        };
        let failed = CliError::io(operation, path);
        if let Some(number) = descriptor_of(path) {
            let file = descriptor(number, path).map_err(failed)?;
            if kind == RecordingKind::Capture && file.is_terminal() {
                return Err(CliError::flag("FILE", "a terminal", "a file, or - into a pipe"));
            }
            return Ok(OpenedFile { file, created: None });
        }
        let mut options = File::options();
        options.write(true);
        match options.open(path) {
            Ok(file) => Ok(OpenedFile { file, created: None }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let file = options.create_new(true).open(path).map_err(failed)?;
                Ok(OpenedFile { file, created: Some(path.to_owned()) })
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// A descriptor of it.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn file(&self) -> std::io::Result<File> {
        self.file.try_clone()
    }

    /// Keeps it: the recording has started.
    pub(super) fn keep(mut self) {
        self.created = None;
    }
}

impl Drop for OpenedFile {
    fn drop(&mut self) {
        if let Some(path) = &self.created {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn start(recording: Recording, file: &Path, socket: &SocketArgs) -> Result<i32, CliError> {
    if socket.on.is_given() {
        let given = format!("given with {} on", recording.kind.name());
        return Err(CliError::flag("--on", given, "none: files of another host can't be named"));
    }
    let opened = OpenedFile::open(recording.kind, file)?;
    let mut request = json!(recording);
    request["verb"] = "record".into();
    record_at(socket, &request, &opened.file)?;
    opened.keep();
    Ok(0)
}

fn end(kind: RecordingKind, which: &WhichArgs, socket: &SocketArgs) -> Result<i32, CliError> {
    let path = which.file.as_deref().map(|file| named(file).display().to_string());
    let selection = RecordingSelection { kind: Some(kind), path, flow: which.flow.clone() };
    let mut request = json!(selection);
    request["verb"] = "end_recordings".into();
    let answer = talk(socket, &request)?;
    let ended: Vec<RecordingReport> = understood(&answer["recordings"])?;
    if ended.is_empty() {
        let flow = which.flow.as_ref().map(|flow| format!(" of {flow}")).unwrap_or_default();
        let file = selection.path.map(|path| format!(" with the file {path}"));
        let file = file.unwrap_or_default();
        return print(&format!("no {} ended: none{flow}{file} is running\n", kind.name()));
    }
    print(&ended.iter().map(text::recording).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_created_is_removed_unless_it_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (new, old) = (dir.path().join("new"), dir.path().join("old"));
        std::fs::write(&old, "text").unwrap();
        let open = |path: &Path| OpenedFile::open(RecordingKind::Log, path).unwrap();
        drop(open(&new));
        assert!(!new.exists());
        open(&new).keep();
        assert!(new.exists());
        drop(open(&old));
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "text");
        assert!(OpenedFile::open(RecordingKind::Log, dir.path()).is_err());
    }
}
