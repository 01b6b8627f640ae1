//! One pair of interfaces of `weir impair`: what is opened for its emulator, its control socket, and what it reports while it runs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_emulator::control::{ControlSocket, LastContact, socket_name};
use weir_emulator::{
    Emulator, EmulatorConfig, LinkMode, PacketTraceFiles, Recording, RecordingKind, Remote,
};
use weir_jobs::{EmulatorJob, Event, Notice};
use weir_runs::DataDirectory;

use super::args::link;
use super::record::OpenedFile;
use super::text;
use crate::commands::runs::RunsError;
use crate::error::CliError;
use crate::job::{notice, report};

/// The files of a job, opened before its emulator starts.
pub(super) struct Prepared {
    link: LinkMode,
    opened: Vec<OpenedFile>,
    recordings: Vec<(Recording, File)>,
    packet_trace: Option<Arc<PacketTraceFiles>>,
}

impl Prepared {
    pub(super) fn new(job: &EmulatorJob) -> Result<Self, CliError> {
        let link = match &job.link {
            None => LinkMode::Auto,
            Some(name) => link(name).map_err(|accepted| CliError::flag("link", name, &accepted))?,
        };
        if let Some(path) = &job.packet_trace {
            super::files::packet_trace_is_file(path)?;
        }
        let wanted =
            [(RecordingKind::Capture, &job.capture), (RecordingKind::Log, &job.log)].into_iter();
        let wanted = wanted.filter_map(|(kind, path)| Some((kind, path.as_ref()?)));
        let (mut recordings, mut opened) = (vec![], vec![]);
        for (kind, path) in wanted {
            let file = OpenedFile::open(kind, path)?;
            let name = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let copy = file.file().map_err(CliError::io("open", path))?;
            recordings.push((Recording::new(kind, &name), copy));
            opened.push(file);
        }
        let trace = job.packet_trace.as_deref().filter(|_| job.few_capabilities);
        let packet_trace = trace.map(packet_trace_files).transpose()?.map(Arc::new);
        Ok(Self { link, opened, recordings, packet_trace })
    }

    /// The emulator's configuration, with the defaults of what is not the job's.
    pub(super) fn config(&mut self, job: &EmulatorJob) -> EmulatorConfig {
        let [a, b] = &job.interfaces;
        EmulatorConfig {
            link: self.link,
            // Clients of the control socket may have another working directory.
            packet_trace: job
                .packet_trace
                .as_ref()
                .map(|p| std::path::absolute(p).unwrap_or_else(|_| p.clone())),
            packet_trace_files: self.packet_trace.take(),
            packet_trace_max_bytes: job.packet_trace_limit,
            recordings: std::mem::take(&mut self.recordings),
            force: job.force,
            ring_frames: job.ring_frames,
            threads: job.threads.unwrap_or(1),
            few_capabilities: job.few_capabilities,
            lab: weir_lab::place_of_this_program(),
            ..EmulatorConfig::new(a, b, job.impairment.clone())
        }
    }

    /// Keeps the files of captures and logs: the emulator has started.
    pub(super) fn keep_files(self) {
        self.opened.into_iter().for_each(OpenedFile::keep);
    }
}

/// Checks the impairment of a job and its control socket.
pub(super) fn check(job: &EmulatorJob) -> Result<(), CliError> {
    job.impairment.check().map_err(CliError::Model)?;
    weir_emulator::compile_filters(&job.impairment).map_err(CliError::Model)?;
    match job.control_socket.as_ref().filter(|_| job.controlled) {
        Some(path) => Ok(ControlSocket::check(path)?),
        None => Ok(()),
    }
}

/// Creates the files of a packet trace that a server requested, with the owner of the stored runs.
fn packet_trace_files(path: &Path) -> Result<PacketTraceFiles, CliError> {
    use std::os::unix::fs::OpenOptionsExt;
    let data = DataDirectory::of_this_user().map_err(RunsError::from)?;
    let open = |path: PathBuf| -> Result<File, CliError> {
        let mut options = File::options();
        let file = options.append(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(CliError::io("create packet trace", &path))?;
        data.give(&file, &path).map_err(RunsError::from)?;
        Ok(file)
    };
    let mut configurations_path = path.as_os_str().to_owned();
    configurations_path.push(".configurations");
    Ok(PacketTraceFiles {
        packet_trace: open(path.into())?,
        configurations: open(configurations_path.into())?,
    })
}

/// A running emulator, watched for alarms and for its keepalive timeout.
pub(super) struct Watched {
    pub(super) remote: Remote,
    /// Interfaces, seed, links, laws, notes and the control socket, as printed at the start.
    pub(super) head: String,
    /// What its messages begin with: its interfaces, or nothing if this process has no other pair.
    label: String,
    socket: Option<ControlSocket>,
    keepalive: Option<(LastContact, Duration)>,
    is_released: bool,
    seen_alarms: u64,
}

impl Watched {
    /// Opens the control socket of the `number`th emulator of this process, from 1; `is_only` if there is no other.
    pub(super) fn new(
        job: &EmulatorJob,
        number: usize,
        is_only: bool,
        emulator: &mut Emulator,
    ) -> Result<Self, CliError> {
        let remote = emulator.remote().clone();
        let socket = listen(job, number, &remote)?;
        if let Ok(socket) = &socket {
            // If this fails, a socket that is left behind is removed at the next start.
            let _ = emulator.remove_at_death(socket.path());
        }
        let [a, b] = &job.interfaces;
        let mut head = format!("{a} ⇄ {b}, seed {}\n", job.impairment.seed);
        for link in remote.links() {
            head += &format!("  {link}\n");
        }
        head += &text::laws(&job.impairment);
        for limit in weir_emulator::predictions(&job.impairment).iter().chain(remote.notes()) {
            head += &format!("  note: {limit}\n");
        }
        match &socket {
            Ok(socket) => head += &format!("control socket {}\n", socket.path().display()),
            Err(reason) => head += &format!("no control socket: {reason}\n"),
        }
        let keepalive = job.keepalive_timeout.map(|time| {
            // Without a socket there is no contact after this one.
            let contact =
                socket.as_ref().map_or_else(|_| LastContact::default(), ControlSocket::contact);
            (contact, Duration::from_nanos(time.0))
        });
        let socket = socket.ok();
        let label = if is_only { String::new() } else { format!("{a} ⇄ {b}: ") };
        Ok(Self { remote, head, label, socket, keepalive, is_released: false, seen_alarms: 0 })
    }

    pub(super) fn socket_path(&self) -> Option<&Path> {
        self.socket.as_ref().map(ControlSocket::path)
    }

    /// Ends all laws when the keepalive timeout is over, and prints new alarms.
    pub(super) fn look(&mut self) {
        if let Some((contact, time)) = &self.keepalive {
            let is_expired = contact.elapsed() >= *time;
            if is_expired && !self.is_released {
                let outcome = match self.remote.run(None, false) {
                    Ok(_) => "everything is forwarded unchanged".into(),
                    Err(e) => crate::error::chain(&e),
                };
                let (label, time) = (&self.label, time.as_secs_f64());
                notice(
                    "keepalive-expired",
                    &format!("{label}keepalive timeout: no command for {time} s: {outcome}"),
                );
            }
            self.is_released = is_expired;
        }
        let (alarms, count) = self.remote.alarms_after(self.seen_alarms);
        self.seen_alarms = count;
        for alarm in alarms {
            let text = format!("{}alarm: {}", self.label, alarm.text);
            report(&Event::Warning(Notice::new(alarm.kind.name(), &text)), &text);
        }
    }
}

/// The control socket, or why there is none. If its path was given and can't be used, that is an error: clients would not
/// find the emulator there.
fn listen(
    job: &EmulatorJob,
    number: usize,
    remote: &Remote,
) -> Result<Result<ControlSocket, String>, CliError> {
    if !job.controlled {
        return Ok(Err("none is wanted".into()));
    }
    if let Some(path) = &job.control_socket {
        return Ok(Ok(ControlSocket::listen(path, remote.clone())?));
    }
    let listening = default_path(number).map_err(|e| e.to_string()).and_then(|path| {
        ControlSocket::listen(&path, remote.clone()).map_err(|e| crate::error::chain(&e))
    });
    Ok(listening)
}

/// The id of an emulator is that of its process, with a number from the second one on.
fn default_path(number: usize) -> Result<PathBuf, weir_lab::Error> {
    let process = std::process::id();
    let name = match number {
        1 => socket_name(&process.to_string()),
        more => socket_name(&format!("{process}-{more}")),
    };
    let directory = weir_lab::runtime_directory()?;
    // This also removes the sockets of emulators that were killed.
    let _ = super::control::running(&directory);
    Ok(directory.join(name))
}
