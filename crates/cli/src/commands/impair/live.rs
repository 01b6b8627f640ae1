//! `weir impair A B`: the emulator between two interfaces, until it is stopped.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use weir_emulator::{Emulator, EmulatorConfig, EmulatorResult, Local, Remote, Scheduling};
use weir_jobs::{EmulatorJob, Event, Ready};
use weir_model::units::Seed;
use weir_model::{Refusal, names};
use weir_net::restoration::{Restoration, restore};
use weir_net::thread::lock;

use super::args::RunArgs;
use super::files::OutputFiles;
use super::pair::{Prepared, Watched, check};
use super::{figures, text};
use crate::commands::exporter::{self, OtlpService};
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
    let ends = job.interfaces.clone();
    let around = Around { otlp: args.otlp.as_deref(), local };
    emulate(&with_pairs(job, args), form, around).map_err(|error| with_flag(error, &ends))
}

/// The job, and one for each further pair of interfaces: with the same laws, but draws of their own.
fn with_pairs(job: EmulatorJob, args: &RunArgs) -> Vec<EmulatorJob> {
    let more: Vec<_> = args
        .pair
        .chunks_exact(2)
        .zip(1..)
        .map(|(pair, number)| {
            let mut more = job.clone();
            more.interfaces = [pair[0].clone(), pair[1].clone()];
            more.impairment.seed = Seed(job.impairment.seed.0.wrapping_add(number));
            more
        })
        .collect();
    std::iter::once(job).chain(more).collect()
}

/// Names the flag or argument that was refused, and adds the overriding flag to the refusal of an interface.
fn with_flag(error: CliError, [a, b]: &[String; 2]) -> CliError {
    match &error {
        CliError::Emulator(refused) if refused.may_be_forced() => {
            let refusal = error.refusal();
            let message = format!("{}; --force accepts it", refusal.message);
            CliError::Refused(Box::new(Refusal { message, ..refusal }))
        }
        CliError::Emulator(weir_emulator::EmulatorError::Refusal { what, given, accepted }) => {
            match what.as_str() {
                "threads" => CliError::flag("--threads", given.clone(), accepted),
                "hops" => CliError::flag("--hop", given.clone(), accepted),
                "interfaces" if given == a => CliError::flag("A", given.clone(), accepted),
                "interfaces" if given == b => CliError::flag("B", given.clone(), accepted),
                "interfaces" => CliError::flag("--pair", given.clone(), accepted),
                _ => error,
            }
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

/// Runs an emulator for each job; returns the exit code. Several jobs differ in their interfaces and seeds alone.
pub(super) fn emulate(
    jobs: &[EmulatorJob],
    form: Form,
    around: Around<'_>,
) -> Result<i32, CliError> {
    let Around { otlp, local } = around;
    let Some(job) = jobs.first() else { return Ok(0) };
    let scheduling = if job.real_time { Scheduling::Auto } else { Scheduling::Normal };
    let late_limit_ns = crate::user_data::late_limit_ns();
    // The capabilities that open files in another user's directory (under sudo) are dropped next.
    let prepared = jobs.iter().map(Prepared::new).collect::<Result<Vec<_>, _>>()?;
    if job.few_capabilities {
        // Before threads are started: each thread has its own capabilities.
        weir_emulator::keep_for_setting_up(scheduling)?;
    }
    // Before interfaces are locked and a packet trace is overwritten.
    jobs.iter().try_for_each(check)?;
    // Dropped after the emulators, so that their watchdogs act first.
    let ends = jobs.iter().flat_map(|job| &job.interfaces).map(String::as_str);
    let interfaces: Vec<&str> = ends.filter(|end| names::tap(end).is_none()).collect();
    let restoration = if job.disposable { None } else { restore_after_kill(&interfaces) };
    let noted = restoration.as_ref().and_then(Restoration::path).map(Path::to_owned);
    let leftovers = Arc::new(Mutex::new(Leftovers { sockets: Vec::new(), restoration }));
    // Emulator::start forks a watchdog, which must not inherit the signal thread's state: start that thread afterwards.
    let mut emulators = Vec::new();
    for (job, mut prepared) in jobs.iter().zip(prepared) {
        let config = EmulatorConfig {
            restoration: noted.clone(),
            scheduling,
            late_limit_ns,
            local: local.clone(),
            ..prepared.config(job)
        };
        emulators.push(Emulator::start(config)?);
        prepared.keep_files();
    }
    settle(&leftovers);
    let stop = Stop::new();
    let otlp = otlp.map(exporter::start_otlp_service).transpose()?;
    if let [only] = &emulators[..] {
        let remote = only.remote().clone();
        crate::job::on_set(move |impairment| {
            remote.set(impairment).map(drop).map_err(|e| crate::error::chain(&e))
        });
    }
    // A weak reference: everything is released when this function ends.
    let left = Arc::downgrade(&leftovers);
    signals::listen_until(&stop, move || clean_up(&left))?;
    let mut watched = Vec::new();
    for ((job, emulator), number) in jobs.iter().zip(&mut emulators).zip(1..) {
        let one = Watched::new(job, number, jobs.len() == 1, emulator)?;
        lock(&leftovers).sockets.extend(one.socket_path().map(Path::to_owned));
        match form {
            Form::Text => drop(print(&one.head)?),
            Form::Json | Form::Events => {
                let control_socket = one.socket_path().map(Path::to_owned);
                let event = Event::Ready(Ready { control_socket, message: one.head.clone() });
                report(&event, one.head.trim_end());
            }
        }
        watched.push(one);
    }
    if job.keepalive_timeout.is_some() && watched.iter().any(|one| one.socket_path().is_none()) {
        warn(
            "keepalive-timeout",
            "--keepalive-timeout without a control socket: all laws end after that time",
        );
    }
    let until = job.duration.map(|d| Instant::now() + Duration::from_nanos(d.0));
    let why = watch(&stop, &mut watched, until, otlp.as_ref());
    // From now on a second request to stop ends the emulators immediately.
    let over = Arc::new(AtomicBool::new(false));
    let remotes = emulators.iter().map(|emulator| emulator.remote().clone()).collect();
    let second_stop = end_on_second_stop(&stop, remotes, over.clone());
    let reason = why.map_or("time is over", StopReason::text);
    let endings = finish(emulators, reason);
    over.store(true, Ordering::Relaxed);
    let _ = second_stop.join();
    lock(&leftovers).sockets.clear();
    drop(watched);
    print_reports(&endings, form)?;
    if let Some(otlp) = otlp {
        otlp.set(figures::series(endings.iter().map(|ending| &ending.report)));
        exporter::finish_otlp_service(otlp, &stop);
    }
    // A thread that panicked is the most important error.
    let errors = endings.into_iter().filter_map(|ending| ending.error);
    super::outcome(
        errors.max_by_key(super::exit_code).map(CliError::from),
        form == Form::Json,
        why.map_or(0, StopReason::service_exit_code),
    )
}

/// Ends all of them at the same time.
fn finish(emulators: Vec<Emulator>, reason: &str) -> Vec<EmulatorResult> {
    std::thread::scope(|scope| {
        let ending: Vec<_> = emulators
            .into_iter()
            .map(|emulator| scope.spawn(move || emulator.finish(reason)))
            .collect();
        ending
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}

/// Prints the reports; several are an array in JSON.
fn print_reports(endings: &[EmulatorResult], form: Form) -> Result<(), CliError> {
    let internal = |e: serde_json::Error| CliError::Internal(e.to_string());
    let reports: Vec<_> = endings.iter().map(|ending| &ending.report).collect();
    match form {
        Form::Text => {
            for report in &reports {
                if reports.len() > 1 {
                    print(&format!("\n{} ⇄ {}\n", report.interfaces[0], report.interfaces[1]))?;
                }
                print(&text::table(report, &style()))?;
            }
        }
        Form::Json => {
            let text = match &reports[..] {
                [only] => serde_json::to_string_pretty(only),
                all => serde_json::to_string_pretty(all),
            };
            print(&format!("{}\n", text.map_err(internal)?))?;
        }
        Form::Events => {
            for report in reports {
                emit(&Event::Result(serde_json::to_value(report).map_err(internal)?));
            }
        }
    }
    Ok(())
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
    sockets: Vec<PathBuf>,
    restoration: Option<Restoration>,
}

/// Reduces the note to the offloads that were in fact disabled.
fn settle(leftovers: &Mutex<Leftovers>) {
    let mut leftovers = lock(leftovers);
    if let Some(Err(reason)) = leftovers.restoration.as_mut().map(Restoration::settle) {
        warn("not-restorable", &format!("the note of offloads could not be corrected: {reason}"));
    }
}

/// Cleans up a process that three signals end: removes the sockets, enables the interfaces' offloads again and removes the
/// note for the next start. The watchdog then has nothing left to do.
fn clean_up(leftovers: &Weak<Mutex<Leftovers>>) {
    let Some(leftovers) = leftovers.upgrade() else { return };
    let mut leftovers = lock(&leftovers);
    for path in std::mem::take(&mut leftovers.sockets) {
        let _ = std::fs::remove_file(path);
    }
    drop(leftovers.restoration.take());
}

/// Waits for the end of all; prints alarms and exports counters in the meantime.
fn watch(
    stop: &Stop,
    watched: &mut [Watched],
    until: Option<Instant>,
    otlp: Option<&OtlpService>,
) -> Option<StopReason> {
    let mut export_at = Instant::now() + EXPORT_EVERY;
    loop {
        watched.iter_mut().for_each(Watched::look);
        if let Some(reason) = stop.reason() {
            return Some(reason);
        }
        let now = Instant::now();
        if let Some(otlp) = otlp.filter(|_| now >= export_at) {
            export_at = now + EXPORT_EVERY;
            // An error means that it has ended.
            let reports: Vec<_> =
                watched.iter().filter_map(|one| one.remote.report().ok()).collect();
            if !reports.is_empty() {
                otlp.set(figures::series(&reports));
            }
        }
        // When an interface is removed, the other pairs go on.
        let all_ended = watched.iter().all(|one| one.remote.has_ended());
        if all_ended || until.is_some_and(|until| now >= until) {
            return None;
        }
        let left = until.map_or(LOOK, |until| until.saturating_duration_since(now));
        std::thread::sleep(left.min(LOOK));
    }
}

/// Ends the emulators immediately on the second request to stop.
fn end_on_second_stop(
    stop: &Stop,
    remotes: Vec<Remote>,
    over: Arc<AtomicBool>,
) -> std::thread::JoinHandle<()> {
    let stop = stop.clone();
    std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            if stop.requests() >= 2 {
                remotes.iter().for_each(Remote::abort);
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    })
}
