//! `weir impair A B`: the emulator between two interfaces, until it is stopped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use weir_emulator::control::{Contact, ControlSocket};
use weir_emulator::{Emulator, EmulatorConfig, JournalFiles, Remote, Scheduling};
use weir_net::restoration::{Restoration, restore};
use weir_runs::Place;

use super::args::RunArgs;
use super::text;
use crate::app::{note, style};
use crate::commands::runs::RunsError;
use crate::engine::{Stop, StopReason};
use crate::error::CliError;
use crate::output::print;
use crate::signals;

/// Between two looks at signals, alarms and the time.
const LOOK: Duration = Duration::from_millis(50);

/// Runs until the time is over, a signal, or the loss of an interface.
pub(super) fn run(args: &RunArgs) -> Result<i32, CliError> {
    let (Some(a), Some(b)) = (&args.a, &args.b) else {
        return Err(CliError::Usage("two interfaces are needed: weir impair A B".into()));
    };
    super::files::journal_apart(&args.laws, args.journal.as_deref())?;
    let scheduling = if args.no_real_time { Scheduling::Normal } else { Scheduling::Auto };
    // What opens the journal in a directory of another user (under sudo) is given up below.
    let opened = args.journal.as_deref().filter(|_| args.few_capabilities).map(journal_files);
    let journal_files = opened.transpose()?.map(Arc::new);
    if args.few_capabilities {
        // Before there are threads: each has capabilities of its own.
        weir_emulator::keep_for_setting_up(scheduling)?;
    }
    let impairment = args.impairment()?;
    let predictions = weir_emulator::predictions(&impairment);
    // Before interfaces are locked and a packet trace is overwritten.
    if let Some(path) = args.control_socket.as_ref().filter(|_| !args.no_control_socket) {
        ControlSocket::check(path)?;
    }
    // Ends after the emulator, when its watchdog has had its turn.
    let restoration = if args.disposable { None } else { second_line(&[a, b]) };
    let config = EmulatorConfig {
        link: args.link,
        // Clients of the control socket may have another working directory.
        journal: args
            .journal
            .as_ref()
            .map(|p| std::path::absolute(p).unwrap_or_else(|_| p.clone())),
        journal_files,
        journal_most_bytes: args.journal_limit.map(|limit| limit.0),
        restoration: restoration.as_ref().and_then(Restoration::path).map(Path::to_owned),
        scheduling,
        force: args.force,
        ring_frames: args.ring,
        few_capabilities: args.few_capabilities,
        lab: weir_lab::place_of_this_program(),
        ..EmulatorConfig::new(a, b, impairment.clone())
    };
    let leavings = Arc::new(Mutex::new(Leavings { socket: None, restoration }));
    // Emulator::start forks its watchdog, which is to have no copy of the signal thread's doings: first that.
    let mut emulator = Emulator::start(config)?;
    settle(&leavings);
    let stop = Stop::new();
    // No share in it: when this function has ended, all of it is gone.
    let left = Arc::downgrade(&leavings);
    signals::listen_until(&stop, move || take_away(&left))?;
    let socket = listen(args, emulator.remote())?;
    note_socket(&leavings, socket.as_ref().ok().map(ControlSocket::path));
    if let Ok(socket) = &socket {
        // Without it a socket that is left goes with the next start.
        let _ = emulator.remove_at_death(socket.path());
    }
    let mut head = format!("{a} ⇄ {b}, seed {}\n", impairment.seed);
    for link in emulator.remote().links() {
        head += &format!("  {link}\n");
    }
    head += &text::laws(&impairment);
    for limit in predictions.iter().chain(emulator.remote().notes()) {
        head += &format!("  note: {limit}\n");
    }
    match &socket {
        Ok(socket) => head += &format!("control socket {}\n", socket.path().display()),
        Err(reason) => head += &format!("no control socket: {reason}\n"),
    }
    if args.json {
        note(head.trim_end());
    } else {
        print(&head)?;
    }
    let until = args.duration.map(|d| Instant::now() + Duration::from_nanos(d.0));
    let dead_man = args
        .dead_man
        .and_then(|time| Some((socket.as_ref().ok()?.contact(), Duration::from_nanos(time.0))));
    if args.dead_man.is_some() && dead_man.is_none() {
        note(
            "warning: --dead-man has no control socket to listen at: it will end what is asked after its time",
        );
    }
    let why = watch(&stop, emulator.remote(), until, dead_man);
    // From now on the second request is the one that ends it at once.
    let over = Arc::new(AtomicBool::new(false));
    let impatient = impatience(&stop, emulator.remote(), over.clone());
    let ending = emulator.finish(why.map_or("time is over", StopReason::text));
    over.store(true, Ordering::Relaxed);
    let _ = impatient.join();
    note_socket(&leavings, None);
    drop(socket);
    if args.json {
        let report = serde_json::to_string_pretty(&ending.report)
            .map_err(|e| CliError::Internal(e.to_string()))?;
        print(&format!("{report}\n"))?;
    } else {
        print(&text::table(&ending.report, &style()))?;
    }
    super::outcome(ending.error, args.json, why.map_or(0, StopReason::exit_code))
}

/// The files of a packet trace that a server has asked for: new ones, so that no link there is followed, with the owner of
/// the runs.
fn journal_files(path: &Path) -> Result<JournalFiles, CliError> {
    use std::os::unix::fs::OpenOptionsExt;
    let place = Place::of_this_user().map_err(RunsError::from)?;
    let open = |path: PathBuf| -> Result<File, CliError> {
        let mut options = File::options();
        let file = options.append(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(CliError::io("create journal", &path))?;
        place.give(&file, &path).map_err(RunsError::from)?;
        Ok(file)
    };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".configurations");
    Ok(JournalFiles { journal: open(path.into())?, configurations: open(beside.into())? })
}

/// The second line of restoration, for when this program and its watchdog are both killed: what earlier ones left off is
/// switched on, and what this one will switch off is noted for the next.
fn second_line(interfaces: &[&str]) -> Option<Restoration> {
    let untold = |reason: &dyn std::fmt::Display| {
        note(&format!("warning: offloads are not noted for a start after a SIGKILL: {reason}"));
    };
    let directory = weir_lab::runtime_directory().inspect_err(|e| untold(e)).ok()?;
    for done in restore(&directory, &weir_link::UNWANTED) {
        let (interface, feature) = (&done.interface, &done.feature);
        note(&format!(
            "{interface}: {feature} is on again, which an emulator that was killed left off"
        ));
    }
    Restoration::note(&directory, interfaces, &weir_link::UNWANTED).inspect_err(|e| untold(e)).ok()
}

/// What would outlive this process if it ended in the middle.
struct Leavings {
    socket: Option<PathBuf>,
    restoration: Option<Restoration>,
}

/// Leaves in the note what was in fact switched off.
fn settle(leavings: &Mutex<Leavings>) {
    let mut leavings = leavings.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(Err(reason)) = leavings.restoration.as_mut().map(Restoration::settle) {
        note(&format!("warning: the note of offloads could not be corrected: {reason}"));
    }
}

fn note_socket(leavings: &Mutex<Leavings>, path: Option<&Path>) {
    let mut leavings = leavings.lock().unwrap_or_else(PoisonError::into_inner);
    leavings.socket = path.map(Path::to_owned);
}

/// The last deed of a process that three signals end: the socket goes, the interfaces have their offloads again, and
/// nothing is noted for the next start. The watchdog, which comes after, finds its work done.
fn take_away(leavings: &Weak<Mutex<Leavings>>) {
    let Some(leavings) = leavings.upgrade() else { return };
    let mut leavings = leavings.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = leavings.socket.take() {
        let _ = std::fs::remove_file(path);
    }
    drop(leavings.restoration.take());
}

/// Waits for the end; tells alarms meanwhile.
fn watch(
    stop: &Stop,
    remote: &Remote,
    until: Option<Instant>,
    dead_man: Option<(Contact, Duration)>,
) -> Option<StopReason> {
    let mut seen = 0;
    let mut released = false;
    loop {
        if let Some((contact, time)) = &dead_man {
            let alone = contact.elapsed() >= *time;
            if alone && !released {
                let said = match remote.run(None, false) {
                    Ok(_) => "everything passes untouched".into(),
                    Err(e) => crate::error::chain(&e),
                };
                let time = time.as_secs_f64();
                note(&format!("keepalive timeout: no command for {time} s: {said}"));
            }
            released = alone;
        }
        let (alarms, count) = remote.alarms_after(seen);
        seen = count;
        for alarm in alarms {
            note(&format!("alarm: {}", alarm.text));
        }
        if let Some(reason) = stop.reason() {
            return Some(reason);
        }
        let now = Instant::now();
        if remote.has_ended() || until.is_some_and(|until| now >= until) {
            return None;
        }
        let left = until.map_or(LOOK, |until| until.saturating_duration_since(now));
        std::thread::sleep(left.min(LOOK));
    }
}

/// Ends at once what is asked to end for the second time.
fn impatience(stop: &Stop, remote: &Remote, over: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
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

/// The control socket if it is wanted, or why there is none. If its path was given and it is unavailable, that is
/// an error: clients would look for it in vain.
fn listen(args: &RunArgs, remote: &Remote) -> Result<Result<ControlSocket, String>, CliError> {
    if args.no_control_socket {
        return Ok(Err("none is wanted".into()));
    }
    if let Some(path) = &args.control_socket {
        return Ok(Ok(ControlSocket::listen(path, remote.clone())?));
    }
    let listening = default_path().map_err(|e| e.to_string()).and_then(|path| {
        ControlSocket::listen(&path, remote.clone()).map_err(|e| crate::error::chain(&e))
    });
    Ok(listening)
}

fn default_path() -> Result<PathBuf, weir_lab::Error> {
    let name =
        format!("{}{}{}", super::control::PREFIX, std::process::id(), super::control::SUFFIX);
    let directory = weir_lab::runtime_directory()?;
    // Looking at them removes those of emulators that were killed.
    let _ = super::control::running(&directory);
    Ok(directory.join(name))
}
