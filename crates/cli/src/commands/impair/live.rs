//! `weir impair A B`: the emulator between two interfaces, until it is stopped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use weir_emulator::control::{ControlSocket, LastContact, socket_name};
use weir_emulator::{
    Alarm, Emulator, EmulatorConfig, LinkMode, Local, PacketTraceFiles, Recording, RecordingKind,
    Remote, Scheduling,
};
use weir_jobs::{EmulatorJob, Event, Notice, Ready};
use weir_model::Refusal;
use weir_net::restoration::{Restoration, restore};
use weir_net::thread::lock;
use weir_runs::DataDirectory;

use super::args::{RunArgs, link};
use super::files::OutputFiles;
use super::record::OpenedFile;
use super::{figures, text};
use crate::commands::exporter::{self, OtlpService};
use crate::commands::runs::RunsError;
use crate::engine::{Stop, StopReason};
use crate::error::CliError;
use crate::job::{emit, notice, report, warn};
use crate::output::print;
use crate::signals;
use crate::terminal::style;

/// Interval at which signals, alarms and the time are checked.
const LOOK: Duration = Duration::from_millis(50);
/// The name of interface A in reports if it is this host itself.
const THIS_HOST: &str = "this-host";
/// Interval of exports to a collector.
const EXPORT_EVERY: Duration = Duration::from_secs(10);

/// Runs the command until its time is over, a signal arrives, or an interface is removed.
pub(super) fn run(args: &RunArgs) -> Result<i32, CliError> {
    let interfaces = match (&args.local, &args.a, &args.b) {
        (Some(interface), ..) => [THIS_HOST.to_owned(), interface.clone()],
        (None, Some(a), Some(b)) => [a.clone(), b.clone()],
        _ => return Err(CliError::flag("B", "nothing", "two interfaces: weir impair A B")),
    };
    args.otlp.as_deref().map_or(Ok(()), exporter::check_otlp)?;
    OutputFiles {
        packet_trace: args.packet_trace.as_deref(),
        capture: args.capture.as_deref(),
        log: args.log.as_deref(),
    }
    .check(&args.laws)?;
    let job = EmulatorJob {
        link: Some(args.link.name().to_owned()),
        force: args.force,
        control_socket: args.control_socket.clone(),
        controlled: !args.no_control_socket,
        keepalive_timeout: args.keepalive_timeout,
        duration: args.duration,
        packet_trace: args.packet_trace.clone(),
        packet_trace_limit: args.packet_trace_limit.map(|limit| limit.0),
        capture: args.capture.clone(),
        log: args.log.clone(),
        ring_frames: args.ring,
        threads: args.threads,
        real_time: !args.no_real_time,
        disposable: args.local.is_some(),
        ..EmulatorJob::new(interfaces, args.impairment()?)
    };
    let local = args
        .local
        .as_ref()
        .map(|interface| Local { interface: interface.clone(), prefixes: args.to.clone() });
    args.laws.print_translation();
    let form = if args.json { Form::Json } else { Form::Text };
    if let Some(server) = args.on.connect()? {
        return super::on::run(server, job, form, args.detach);
    }
    emulate(job, form, Around { otlp: args.otlp.as_deref(), local }).map_err(with_flag)
}

/// Adds the overriding flag to the refusal of an interface.
fn with_flag(error: CliError) -> CliError {
    match &error {
        CliError::Emulator(refused) if refused.may_be_forced() => {
            let refusal = error.refusal();
            let message = format!("{}; --force accepts it", refusal.message);
            CliError::Refused(Box::new(Refusal { message, ..refusal }))
        }
        CliError::Emulator(weir_emulator::EmulatorError::Refusal { what, given, accepted })
            if what == "threads" =>
        {
            CliError::flag("--threads", given.clone(), accepted)
        }
        _ => error,
    }
}

/// How an emulator's report is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Text on standard output.
    Text,
    /// The report alone on standard output, as JSON.
    Json,
    /// Events of a job.
    Events,
}

/// What jobs don't have.
#[derive(Default)]
pub(super) struct Around<'a> {
    /// The URL of a collector that gets its counters.
    otlp: Option<&'a str>,
    /// This host's own traffic in place of two interfaces.
    local: Option<Local>,
}

/// Runs an emulator; returns the exit code.
pub(super) fn emulate(job: EmulatorJob, form: Form, around: Around<'_>) -> Result<i32, CliError> {
    let Around { otlp, local } = around;
    let [a, b] = &job.interfaces;
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
    let (mut recordings, mut opened_files) = (vec![], vec![]);
    for (kind, path) in wanted {
        let opened = OpenedFile::open(kind, path)?;
        let name = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let file = opened.file().map_err(CliError::io("open", path))?;
        recordings.push((Recording::new(kind, &name), file));
        opened_files.push(opened);
    }
    let scheduling = if job.real_time { Scheduling::Auto } else { Scheduling::Normal };
    // The capabilities that open the packet trace in another user's directory (under sudo) are dropped below.
    let opened =
        job.packet_trace.as_deref().filter(|_| job.few_capabilities).map(packet_trace_files);
    let packet_trace_files = opened.transpose()?.map(Arc::new);
    if job.few_capabilities {
        // Before threads are started: each thread has its own capabilities.
        weir_emulator::keep_for_setting_up(scheduling)?;
    }
    job.impairment.check().map_err(CliError::Model)?;
    weir_emulator::compile_filters(&job.impairment).map_err(CliError::Model)?;
    let predictions = weir_emulator::predictions(&job.impairment);
    // Before interfaces are locked and a packet trace is overwritten.
    if let Some(path) = job.control_socket.as_ref().filter(|_| job.controlled) {
        ControlSocket::check(path)?;
    }
    // Dropped after the emulator, so that its watchdog acts first.
    let restoration = if job.disposable { None } else { restore_after_kill(&[a, b]) };
    let config = EmulatorConfig {
        link,
        // Clients of the control socket may have another working directory.
        packet_trace: job
            .packet_trace
            .as_ref()
            .map(|p| std::path::absolute(p).unwrap_or_else(|_| p.clone())),
        packet_trace_files,
        packet_trace_max_bytes: job.packet_trace_limit,
        recordings,
        restoration: restoration.as_ref().and_then(Restoration::path).map(Path::to_owned),
        scheduling,
        force: job.force,
        ring_frames: job.ring_frames,
        threads: job.threads.unwrap_or(1),
        few_capabilities: job.few_capabilities,
        lab: weir_lab::place_of_this_program(),
        local,
        ..EmulatorConfig::new(a, b, job.impairment.clone())
    };
    let leftovers = Arc::new(Mutex::new(Leftovers { socket: None, restoration }));
    // Emulator::start forks its watchdog, which must not inherit the signal thread's state: start that thread afterwards.
    let mut emulator = Emulator::start(config)?;
    opened_files.into_iter().for_each(OpenedFile::keep);
    settle(&leftovers);
    let stop = Stop::new();
    let otlp = otlp.map(exporter::start_otlp_service).transpose()?;
    let remote = emulator.remote().clone();
    crate::job::on_set(move |impairment| {
        remote.set(impairment).map(drop).map_err(|e| crate::error::chain(&e))
    });
    // A weak reference: everything is released when this function ends.
    let left = Arc::downgrade(&leftovers);
    signals::listen_until(&stop, move || clean_up(&left))?;
    let socket = listen(&job, emulator.remote())?;
    note_socket(&leftovers, socket.as_ref().ok().map(ControlSocket::path));
    if let Ok(socket) = &socket {
        // If this fails, a socket that is left behind is removed at the next start.
        let _ = emulator.remove_at_death(socket.path());
    }
    let mut head = format!("{a} ⇄ {b}, seed {}\n", job.impairment.seed);
    for link in emulator.remote().links() {
        head += &format!("  {link}\n");
    }
    head += &text::laws(&job.impairment);
    for limit in predictions.iter().chain(emulator.remote().notes()) {
        head += &format!("  note: {limit}\n");
    }
    match &socket {
        Ok(socket) => head += &format!("control socket {}\n", socket.path().display()),
        Err(reason) => head += &format!("no control socket: {reason}\n"),
    }
    match form {
        Form::Text => drop(print(&head)?),
        Form::Json | Form::Events => {
            let control_socket = socket.as_ref().ok().map(|socket| socket.path().to_owned());
            let event = Event::Ready(Ready { control_socket, message: head.clone() });
            report(&event, head.trim_end());
        }
    }
    let until = job.duration.map(|d| Instant::now() + Duration::from_nanos(d.0));
    let keepalive = job.keepalive_timeout.map(|time| {
        // Without a socket there is no contact after this one.
        let contact =
            socket.as_ref().map_or_else(|_| LastContact::default(), ControlSocket::contact);
        (contact, Duration::from_nanos(time.0))
    });
    if keepalive.is_some() && socket.is_err() {
        warn(
            "keepalive-timeout",
            "--keepalive-timeout without a control socket: all laws end after that time",
        );
    }
    let why = watch(&stop, emulator.remote(), until, keepalive, otlp.as_ref());
    // From now on a second request to stop ends the emulator immediately.
    let over = Arc::new(AtomicBool::new(false));
    let second_stop = end_on_second_stop(&stop, emulator.remote(), over.clone());
    let ending = emulator.finish(why.map_or("time is over", StopReason::text));
    over.store(true, Ordering::Relaxed);
    let _ = second_stop.join();
    note_socket(&leftovers, None);
    drop(socket);
    let internal = |e: serde_json::Error| CliError::Internal(e.to_string());
    match form {
        Form::Text => drop(print(&text::table(&ending.report, &style()))?),
        Form::Json => {
            let report = serde_json::to_string_pretty(&ending.report).map_err(internal)?;
            print(&format!("{report}\n"))?;
        }
        Form::Events => {
            emit(&Event::Result(serde_json::to_value(&ending.report).map_err(internal)?));
        }
    }
    if let Some(otlp) = otlp {
        otlp.set(figures::series(&ending.report));
        exporter::finish_otlp_service(otlp, &stop);
    }
    super::outcome(
        ending.error.map(CliError::from),
        form == Form::Json,
        why.map_or(0, StopReason::service_exit_code),
    )
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

/// Restores offloads after this program and its watchdog were both killed: enables the offloads that an earlier emulator left
/// disabled, and notes the ones that this emulator will disable for the next start.
fn restore_after_kill(interfaces: &[&str]) -> Option<Restoration> {
    let warn_not_restored = |reason: &dyn std::fmt::Display| {
        warn(
            "not-restorable",
            &format!("offloads can't be restored at the next start after a SIGKILL: {reason}"),
        );
    };
    let directory = weir_lab::runtime_directory().inspect_err(|e| warn_not_restored(e)).ok()?;
    for done in restore(&directory, &weir_link::UNWANTED) {
        let (interface, feature) = (&done.interface, &done.feature);
        notice(
            "restored",
            &format!(
                "{interface}: {feature} is enabled again; a killed emulator had left it disabled"
            ),
        );
    }
    Restoration::note(&directory, interfaces, &weir_link::UNWANTED)
        .inspect_err(|e| warn_not_restored(e))
        .ok()
}

/// What would remain if this process ended without cleaning up.
struct Leftovers {
    socket: Option<PathBuf>,
    restoration: Option<Restoration>,
}

/// Reduces the note to the offloads that were in fact disabled.
fn settle(leftovers: &Mutex<Leftovers>) {
    let mut leftovers = lock(leftovers);
    if let Some(Err(reason)) = leftovers.restoration.as_mut().map(Restoration::settle) {
        warn("not-restorable", &format!("the note of offloads could not be corrected: {reason}"));
    }
}

fn note_socket(leftovers: &Mutex<Leftovers>, path: Option<&Path>) {
    let mut leftovers = lock(leftovers);
    leftovers.socket = path.map(Path::to_owned);
}

/// Cleans up a process that three signals end: removes the socket, enables the interfaces' offloads again and removes the
/// note for the next start. The watchdog then has nothing left to do.
fn clean_up(leftovers: &Weak<Mutex<Leftovers>>) {
    let Some(leftovers) = leftovers.upgrade() else { return };
    let mut leftovers = lock(&leftovers);
    if let Some(path) = leftovers.socket.take() {
        let _ = std::fs::remove_file(path);
    }
    drop(leftovers.restoration.take());
}

/// Waits for the end; prints alarms and exports counters in the meantime.
fn watch(
    stop: &Stop,
    remote: &Remote,
    until: Option<Instant>,
    keepalive_timeout: Option<(LastContact, Duration)>,
    otlp: Option<&OtlpService>,
) -> Option<StopReason> {
    let mut seen = 0;
    let mut export_at = Instant::now() + EXPORT_EVERY;
    let mut released = false;
    loop {
        if let Some((contact, time)) = &keepalive_timeout {
            let is_expired = contact.elapsed() >= *time;
            if is_expired && !released {
                let outcome = match remote.run(None, false) {
                    Ok(_) => "everything is forwarded unchanged".into(),
                    Err(e) => crate::error::chain(&e),
                };
                let time = time.as_secs_f64();
                notice(
                    "keepalive-expired",
                    &format!("keepalive timeout: no command for {time} s: {outcome}"),
                );
            }
            released = is_expired;
        }
        let (alarms, count) = remote.alarms_after(seen);
        seen = count;
        for alarm in alarms {
            alarmed(&alarm);
        }
        if let Some(reason) = stop.reason() {
            return Some(reason);
        }
        let now = Instant::now();
        if let Some(otlp) = otlp.filter(|_| now >= export_at) {
            export_at = now + EXPORT_EVERY;
            // An error means that it has ended.
            remote.report().iter().for_each(|report| otlp.set(figures::series(report)));
        }
        if remote.has_ended() || until.is_some_and(|until| now >= until) {
            return None;
        }
        let left = until.map_or(LOOK, |until| until.saturating_duration_since(now));
        std::thread::sleep(left.min(LOOK));
    }
}

fn alarmed(alarm: &Alarm) {
    let text = format!("alarm: {}", alarm.text);
    report(&Event::Warning(Notice::new(alarm.kind.name(), &text)), &text);
}

/// Ends the emulator immediately on the second request to stop.
fn end_on_second_stop(
    stop: &Stop,
    remote: &Remote,
    over: Arc<AtomicBool>,
) -> std::thread::JoinHandle<()> {
    let (stop, remote) = (stop.clone(), remote.clone());
    std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            if stop.requests() >= 2 {
                remote.abort();
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    })
}

/// The control socket, or why there is none. If its path was given and can't be used, that is an error: clients would not
/// find the emulator there.
fn listen(job: &EmulatorJob, remote: &Remote) -> Result<Result<ControlSocket, String>, CliError> {
    if !job.controlled {
        return Ok(Err("none is wanted".into()));
    }
    if let Some(path) = &job.control_socket {
        return Ok(Ok(ControlSocket::listen(path, remote.clone())?));
    }
    let listening = default_path().map_err(|e| e.to_string()).and_then(|path| {
        ControlSocket::listen(&path, remote.clone()).map_err(|e| crate::error::chain(&e))
    });
    Ok(listening)
}

fn default_path() -> Result<PathBuf, weir_lab::Error> {
    let name = socket_name(&std::process::id().to_string());
    let directory = weir_lab::runtime_directory()?;
    // This also removes the sockets of emulators that were killed.
    let _ = super::control::running(&directory);
    Ok(directory.join(name))
}
