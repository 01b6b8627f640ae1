//! `weir impair exec -- COMMAND`: runs a command in a namespace of its own, behind the emulator. The command reaches this
//! host's services and, where the kernel permits it, other hosts.

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use weir_emulator::Report;
use weir_jobs::EmulatorJob;
use weir_lab::{Lab, LabSpec, Topology};
use weir_net::namespace::{ChildSetup, effective_user_id, enter_user_namespace};
use weir_net::thread::raise_descriptor_limit;

use super::args::{ExecArgs, of_line};
use super::files::OutputFiles;
use super::outward::Outward;
use super::spawn::{KILL, Spawned, TERMINATE, send_signal};
use super::{outward, relay, spawn, text};
use crate::emulated::OF_COMMAND;
use crate::engine::StopReason;
use crate::error::CliError;
use crate::job::{notice, warn};
use crate::output::print_object;
use crate::signals;
use crate::terminal::style;

/// Interval at which the command, the emulator and signals are checked.
const LOOK: Duration = Duration::from_millis(20);
/// After the start of the command, a signal that arrived before it may be reported up to this late: another thread receives it.
const SIGNAL_DELAY: Duration = Duration::from_millis(500);
/// The command is killed if it has not ended this long after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// ENOENT, as every Unix numbers it.
const NO_ENTRY: i32 = 2;
/// SIGINT, as every Unix numbers it.
const INTERRUPT: i32 = 2;
/// Descriptors that the relays may need: two for each connection, two for each exchange of datagrams.
const DESCRIPTORS: u64 = 8192;
const RESOLVER: &str = "/etc/resolv.conf";

/// Runs the command behind an emulator; returns its exit code.
pub(super) fn run(args: &ExecArgs) -> Result<i32, CliError> {
    OutputFiles {
        packet_trace: args.packet_trace.as_deref(),
        capture: args.capture.as_deref(),
        log: args.log.as_deref(),
    }
    .check(&args.laws)?;
    let (line, asked) = divide(&args.command);
    let laws = args.laws.with_line(&line)?;
    let impairment = laws.impairment()?;
    laws.print_translation();
    if laws.is_empty() {
        warn(
            "no-laws",
            "the path is not impaired: no laws are given (LAWS, --netem, --profile, --config)",
        );
    }
    let Some((program, words)) = asked.split_first() else {
        return Err(CliError::flag("COMMAND", "nothing", "a command and its arguments"));
    };
    if program.to_string_lossy().starts_with('-') {
        return Err(CliError::flag(
            &program.to_string_lossy(),
            "no flag of weir impair exec",
            "its flags (weir impair exec --help), then -- and the command",
        ));
    }
    if is_missing(program) {
        let line = joined(asked);
        if of_line(&line).is_ok() {
            return Err(CliError::flag("COMMAND", line, "after laws: -- and the command"));
        }
        let program = program.to_string_lossy().into_owned();
        return Err(CliError::Command { program, source: io::Error::from_raw_os_error(NO_ENTRY) });
    }
    let mut report_file = match &args.report {
        None => None,
        Some(path) => {
            let file = weir_net::output::begin(path);
            Some((file.map_err(CliError::io("--report: create", path))?, path))
        }
    };
    if effective_user_id() != 0 {
        // Must happen before threads are started; they may then enter the lab's namespaces.
        enter_user_namespace().map_err(weir_lab::Error::from)?;
    }
    let (sender, requests) = channel();
    // From here on there is a lab to remove. Until the command runs, a third signal ends this program immediately; the lab and
    // the emulator then end by themselves, as when it is killed. Once the command runs, this program waits for its end, and a
    // further signal kills the command.
    let runs = Arc::new(AtomicBool::new(false));
    let (is_running, mut count) = (runs.clone(), 0);
    signals::each(move |reason| {
        count += 1;
        if count >= 3 && !is_running.load(Ordering::Relaxed) {
            std::process::exit(reason.exit_code());
        }
        // The receiver is dropped when the command has ended; this program is then ending too.
        let _ = sender.send(reason);
    })?;
    let lab = Lab::up(&LabSpec { topology: Topology::MIDDLE, ..LabSpec::default() })?;
    let job = EmulatorJob {
        packet_trace: args.packet_trace.clone(),
        capture: args.capture.clone(),
        log: args.log.clone(),
        ..spawn::in_the_middle(&impairment)
    };
    let mut emulator = spawn::start(lab.command("m", crate::job::program())?, job)?;
    let relay = relay::start(&lab, "b")?;
    let chat = |code: &str, words: &str| {
        if !args.quiet {
            notice(code, words)
        }
    };
    chat("ready", emulator.head.trim_end());
    let b = lab.host("b")?;
    let text = std::fs::read(RESOLVER).map(|text| String::from_utf8_lossy(&text).into_owned());
    let names = outward::names_to_relay(text.as_deref().unwrap_or_default());
    let outward = outward::open(&lab, "a", "b", names);
    let services = if outward.is_ok() { "TCP and UDP" } else { "TCP" };
    let beyond = "; TCP and UDP over IPv4 go out too, by sockets of this program";
    chat(
        "services",
        &format!(
            "A is the command's side; this host's {services} services answer at {} ($WEIR_HOST), TCP also at {}{}",
            b.ipv4,
            b.ipv6,
            if outward.is_ok() { beyond } else { "" }
        ),
    );
    if let Err(reason) = &outward {
        warn("no-outward-access", &format!("no access beyond the lab ({reason})"));
    }
    let mut command = lab.command("a", program)?;
    command.args(words).env("WEIR_HOST", b.ipv4.to_string());
    if args.json {
        command.stdout(io::stderr());
    }
    if let Some(socket) = &emulator.control_socket {
        command.env(OF_COMMAND, socket);
    }
    let resolver = resolver(&mut command, &outward, names, text, b.ipv4)?;
    if let Ok(reason) = requests.try_recv() {
        drop((relay, outward));
        let _ = emulator.finish();
        notice("nothing-run", "stopped before the command was started");
        return Ok(reason.exit_code());
    }
    let started_at = Instant::now();
    let started = command.spawn();
    runs.store(true, Ordering::Relaxed);
    // Closes this process's end of the pipe that reports a failed mount.
    drop(command);
    if let Some(reason) = resolver.and_then(refusal) {
        warn(
            "no-names",
            &format!("names are not resolved: another {RESOLVER} cannot be mounted: {reason}"),
        );
    }
    // After the spawn, so that the command inherits the original limit.
    let _ = raise_descriptor_limit(DESCRIPTORS);
    let done = match started {
        Ok(mut child) => watch(&mut child, &mut emulator, &requests)
            .map_err(|e| CliError::Internal(format!("the command cannot be waited for: {e}"))),
        Err(source) => {
            Err(CliError::Command { program: program.to_string_lossy().into_owned(), source })
        }
    };
    let seconds = started_at.elapsed().as_secs_f64();
    let lost = outward.as_ref().map_or_else(|_| vec![], Outward::lost);
    drop((relay, outward));
    let ended = emulator.finish();
    if let Some(report) = ended.report.as_ref().filter(|_| !args.json) {
        chat("report", text::table(report, &style()).trim_end());
    }
    for (code, text) in lost {
        warn(code, &text);
    }
    drop(lab);
    let done = done?;
    if let Some((reason, exit_code)) = ended.failure {
        return Err(CliError::EmulatorEnded { reason, exit_code });
    }
    let status = done.status;
    // The convention of shells: 128 plus the signal's number.
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(70);
    let code = done.asked.map_or(code, StopReason::exit_code);
    let command = asked.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let result = ExecResult { command, exit_code: code, seconds, report: ended.report };
    if let Some((file, path)) = &mut report_file {
        let text = serde_json::to_string_pretty(&result).map_err(io::Error::from);
        let written = text.and_then(|text| writeln!(file, "{text}"));
        written.map_err(CliError::io("--report: write", path.as_path()))?;
    }
    if args.json {
        print_object(&result)?;
    }
    Ok(code)
}

/// The result as JSON.
#[derive(Debug, serde::Serialize)]
struct ExecResult {
    command: Vec<String>,
    exit_code: i32,
    seconds: f64,
    /// The emulator's report.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Report>,
}

/// Laws before a `--`, and the command behind it. Words before a `--` that are no laws, or whose first is a program, are the
/// command's.
fn divide(words: &[OsString]) -> (String, &[OsString]) {
    let no_laws = (String::new(), words);
    let Some(at) = words.iter().position(|word| word == "--") else { return no_laws };
    let (before, command) = (&words[..at], &words[at + 1..]);
    let line = joined(before);
    let is_program = before.first().is_some_and(|program| !is_missing(program));
    if is_program || of_line(&line).is_err() { no_laws } else { (line, command) }
}

/// Words as one line.
fn joined(words: &[OsString]) -> String {
    words.join(OsStr::new(" ")).to_string_lossy().into_owned()
}

/// Whether no program of this name exists, by the search of execvp(3); checked before the lab is created. If one exists but
/// can't be run, the exec reports it.
fn is_missing(program: &OsStr) -> bool {
    let is_there = |file: &Path| file.symlink_metadata().is_ok();
    if program.as_bytes().contains(&b'/') {
        return !is_there(Path::new(program));
    }
    // Without PATH the system searches its default directories.
    let path = std::env::var_os("PATH");
    path.is_some_and(|path| !std::env::split_paths(&path).any(|at| is_there(&at.join(program))))
}

/// How the command ended.
struct Done {
    status: ExitStatus,
    /// Why this program asked it to end.
    asked: Option<StopReason>,
}

/// Waits for the command. Signals to this program are forwarded to the command; after a second one, or some time after
/// the first, it is killed. Without an emulator there is no path, and the command gets SIGTERM.
fn watch(
    child: &mut Child,
    emulator: &mut Spawned,
    requests: &Receiver<StopReason>,
) -> io::Result<Done> {
    let (mut asked, mut kill_at) = (None, None);
    let mut has_path = true;
    let started_at = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Done { status, asked });
        }
        match requests.recv_timeout(LOOK) {
            // The terminal sends the interrupt to the command as well, and the command decides what it does. Only an interrupt
            // from before the exec has not reached the command.
            Ok(StopReason::Interrupted) if is_in_foreground() => {
                if started_at.elapsed() < SIGNAL_DELAY {
                    send_signal(child, INTERRUPT);
                }
            }
            Ok(reason) => {
                let signal = match reason {
                    _ if asked.is_some() => KILL,
                    StopReason::Interrupted => INTERRUPT,
                    _ => TERMINATE,
                };
                send_signal(child, signal);
                asked = asked.or(Some(reason));
                kill_at = kill_at.or(Some(Instant::now() + GRACE));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
        }
        if has_path && emulator.has_ended() {
            has_path = false;
            notice(
                "path-ended",
                "the emulator and so the path have ended: the command gets SIGTERM",
            );
            send_signal(child, TERMINATE);
            kill_at = kill_at.or(Some(Instant::now() + GRACE));
        }
        if kill_at.is_some_and(|at| Instant::now() >= at) {
            send_signal(child, KILL);
        }
    }
}

/// Whether this process, and thus its command, is in the terminal's foreground group: an interrupt then came from the terminal.
fn is_in_foreground() -> bool {
    std::fs::read("/proc/self/stat")
        .is_ok_and(|stat| is_foreground(&String::from_utf8_lossy(&stat)))
}

/// By proc_pid_stat(5): the process group is field 5, the terminal's foreground group field 8. The name, field 2, may
/// contain any character; it ends at the last parenthesis.
fn is_foreground(stat: &str) -> bool {
    let Some((_, rest)) = stat.rsplit_once(')') else { return false };
    let mut fields = rest.split_whitespace();
    let group = fields.nth(2);
    group.is_some() && group == fields.nth(2)
}

/// Mounts a resolv.conf that names `server` for the command, if this host's would not work in the lab. The child reports
/// a failed mount through the returned pipe.
fn resolver(
    command: &mut Command,
    outward: &Result<Outward, String>,
    names: Option<IpAddr>,
    text: io::Result<String>,
    server: Ipv4Addr,
) -> Result<Option<PipeReader>, CliError> {
    if outward.is_err() || names.is_none() {
        return Ok(None);
    }
    let text = match text {
        Ok(text) => text,
        Err(reason) => {
            warn(
                "no-names",
                &format!("names are not resolved: this host has no {RESOLVER} ({reason})"),
            );
            return Ok(None);
        }
    };
    let (reader, writer) = io::pipe().map_err(CliError::io("make a pipe for", RESOLVER))?;
    ChildSetup::new()
        .file(c"/etc/resolv.conf", outward::with_server(&text, server), OwnedFd::from(writer))
        .apply(command)
        .map_err(weir_lab::Error::from)?;
    Ok(Some(reader))
}

/// The error that the child reported before it became the command.
fn refusal(mut reader: PipeReader) -> Option<io::Error> {
    let mut errno = [0; 4];
    reader.read_exact(&mut errno).ok()?;
    Some(io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_before_the_command_are_laws_unless_they_are_a_program() {
        let divided = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let (laws, command) = divide(&words);
            (laws, joined(command))
        };
        for (line, laws, command) in [
            ("delay 40ms loss 1% -- curl -- x", "delay 40ms loss 1%", "curl -- x"),
            ("delay 40ms curl", "", "delay 40ms curl"),
            ("git log -- file", "", "git log -- file"),
            ("sh -c true -- delay", "", "sh -c true -- delay"),
            ("delay -- x", "", "delay -- x"),
        ] {
            assert_eq!(divided(line), (laws.to_owned(), command.to_owned()), "{line}");
        }
    }

    #[test]
    fn an_interrupt_is_the_terminals_where_this_group_is_in_its_foreground() {
        assert!(is_foreground("12 (weir) S 1 12 12 34816 12 4194304 0"));
        assert!(is_foreground("13 (a) b) S 1 12 12 34816 12 4194304 0"));
        // In the background; without a terminal.
        assert!(!is_foreground("12 (weir) S 1 12 12 34816 77 4194304 0"));
        assert!(!is_foreground("12 (weir) S 1 12 12 0 -1 4194304 0"));
        for bad in ["", "12 (weir", "12 (weir) S", "12 (weir) S 1 12"] {
            assert!(!is_foreground(bad), "{bad}");
        }
    }
}
