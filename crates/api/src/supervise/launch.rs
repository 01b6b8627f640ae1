//! The launcher's side: a small program that keeps the capabilities which the web server gives up. It takes typed orders
//! from its standard input, checks each by itself, makes the command line, and starts this binary, nothing else.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_experiment::lines::with_value as value;
use weir_net::namespace::{ChildSetup, Process, process_start_time};

use super::command_line::arguments;
use super::orders::{
    JOURNALS, MOST_ORDER_BYTES, Numbered, Order, Word, inside, log_name, socket_name, word,
};
use crate::app::lock;

/// Signals as every Linux numbers them.
const INTERRUPT: i32 = 2;
const KILL: i32 = 9;
const TERMINATE: i32 = 15;
/// Time that programs get to end when the server is gone.
const END: Duration = Duration::from_secs(3);

/// Why the launcher can't begin.
#[derive(Debug, thiserror::Error)]
#[error("launcher: {0}")]
pub struct LaunchError(String);

/// Where things are.
pub(super) struct Place {
    pub(super) program: PathBuf,
    pub(super) directory: PathBuf,
    pub(super) runtime: PathBuf,
    pub(super) serve: Vec<String>,
    /// Where runs are kept, and emulators' journals beside them.
    pub(super) data: weir_runs::Place,
}

impl Place {
    /// The directory of journals.
    pub(super) fn journals(&self) -> PathBuf {
        self.data.directory().join(JOURNALS)
    }
}

/// Runs the launcher until the other end is gone: then tests, experiments and the answering side are asked to end;
/// emulators and labs stay.
///
/// # Errors
/// No runtime directory, or the connection can't be had twice.
pub fn launch(
    stream: UnixStream,
    program: PathBuf,
    directory: PathBuf,
    serve: Vec<String>,
    data: weir_runs::Place,
) -> Result<(), LaunchError> {
    let failed = |e: &dyn std::fmt::Display| LaunchError(e.to_string());
    let runtime = weir_lab::runtime_directory().map_err(|e| failed(&e))?;
    let place = Place { program, directory, runtime, serve, data };
    let voice = Arc::new(Mutex::new(stream.try_clone().map_err(|e| failed(&e))?));
    let say = |voice: &Mutex<UnixStream>, word: &Word| {
        let line = serde_json::to_string(word).unwrap_or_default();
        // Who does not listen is gone, which the reader below finds out.
        let _ = lock(voice).write_all(format!("{line}\n").as_bytes());
    };
    // Those that end with the server: process and when it began.
    let children: Arc<Mutex<HashMap<u32, Option<u64>>>> = Arc::default();
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        match (&mut reader).take(MOST_ORDER_BYTES).read_until(b'\n', &mut line) {
            Ok(n) if n > 0 && line.last() == Some(&b'\n') => {}
            Ok(n) if n as u64 == MOST_ORDER_BYTES => {
                let error = format!("an order of more than {MOST_ORDER_BYTES} bytes");
                say(&voice, &Word::Refused { number: number_of(&line), error });
                match skip_line(&mut reader) {
                    Ok(()) => continue,
                    Err(_) => break,
                }
            }
            _ => break,
        }
        let Numbered { number, order, output } = match serde_json::from_slice(&line) {
            Ok(numbered) => numbered,
            Err(e) => {
                let error = format!("no order: {e}");
                say(&voice, &Word::Refused { number: number_of(&line), error });
                continue;
            }
        };
        let done = match &order {
            Order::Stop { pid } => stop(&children, *pid).map(|()| None),
            Order::EndEmulator { id } => end_emulator(&place, id).map(|()| None),
            order => start(&place, order, output.as_ref()).map(Some),
        };
        match done {
            Err(error) => say(&voice, &Word::Refused { number, error }),
            Ok(None) => say(&voice, &Word::Done { number, pid: None }),
            Ok(Some(mut child)) => {
                let pid = child.id();
                let outlives = matches!(order, Order::Emulator { .. } | Order::LabUp { .. });
                if !outlives {
                    lock(&children).insert(pid, process_start_time(pid));
                }
                say(&voice, &Word::Done { number, pid: Some(pid) });
                let (voice, children) = (voice.clone(), children.clone());
                std::thread::spawn(move || {
                    let status = child.wait().ok();
                    lock(&children).remove(&pid);
                    let code = status.and_then(|s| s.code());
                    let signal = status.and_then(|s| s.signal());
                    say(&voice, &Word::Exited { exited: pid, code, signal });
                });
            }
        }
    }
    let pids: Vec<u32> = lock(&children).keys().copied().collect();
    for pid in pids {
        let _ = stop(&children, pid);
    }
    // What is left dies with this thread (PR_SET_PDEATHSIG).
    let end = std::time::Instant::now() + END;
    while !lock(&children).is_empty() && std::time::Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    // A server that was killed did not get to it.
    let _ = std::fs::remove_dir_all(&place.directory);
    Ok(())
}

/// The number at the beginning of an order that can't be read whole; 0, which nobody waits for, where there is none.
fn number_of(line: &[u8]) -> u64 {
    let rest = line.strip_prefix(b"{\"number\":").unwrap_or_default();
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok().and_then(|d| d.parse().ok()).unwrap_or(0)
}

/// Takes the rest of a line without keeping it.
fn skip_line(reader: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let piece = reader.fill_buf()?;
        if piece.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let (taken, is_end) = match piece.iter().position(|b| *b == b'\n') {
            Some(at) => (at + 1, true),
            None => (piece.len(), false),
        };
        reader.consume(taken);
        if is_end {
            return Ok(());
        }
    }
}

fn stop(children: &Mutex<HashMap<u32, Option<u64>>>, pid: u32) -> Result<(), String> {
    let began = lock(children).get(&pid).copied().ok_or("it has ended")?;
    signal(pid, began, INTERRUPT)
}

fn signal(pid: u32, began: Option<u64>, signal: i32) -> Result<(), String> {
    let began = began.ok_or("it has ended")?;
    let process = Process::open(pid, began).map_err(|e| e.to_string())?.ok_or("it has ended")?;
    process.signal(signal).map_err(|e| e.to_string())
}

/// Ends whoever listens on an emulator's control socket, in this user's runtime directory.
fn end_emulator(place: &Place, id: &str) -> Result<(), String> {
    let path = place.runtime.join(socket_name(&word(id, 64)?));
    let stream = UnixStream::connect(&path).map_err(|e| format!("emulator {id}: {e}"))?;
    let who = rustix::net::sockopt::socket_peercred(&stream).map_err(|e| e.to_string())?;
    let pid = u32::try_from(who.pid.as_raw_nonzero().get()).map_err(|e| e.to_string())?;
    signal(pid, process_start_time(pid), TERMINATE)
}

fn start(
    place: &Place,
    order: &Order,
    output: Option<&[String; 2]>,
) -> Result<std::process::Child, String> {
    let (at, arguments) = arguments(place, order)?;
    let mut command = Command::new(&place.program);
    if let Some(at) = at {
        // It becomes the program that it starts: one process.
        command.args(["lab", "exec"]).arg(value("--lab", &word(&at.lab, 32)?)?);
        command.args([&word(&at.node, 8)?, "--"]).arg(&place.program);
    }
    command.args(arguments).env("NO_COLOR", "1").stdin(Stdio::null());
    if are_keys_found(order) {
        command.env(weir_net::trust::KEYS_AS_FOUND, "1");
    }
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if let Some([out, words]) = output {
        let connect = |name: &str| {
            let path = inside(&place.directory, name)?;
            UnixStream::connect(&path).map_err(|e| format!("{name}: {e}"))
        };
        command.stdout(std::os::fd::OwnedFd::from(connect(out)?));
        command.stderr(std::os::fd::OwnedFd::from(connect(words)?));
    }
    let mut setup = ChildSetup::new().new_session();
    match order {
        Order::Emulator { id, journal_bytes, .. } => {
            if journal_bytes.is_some() {
                place.data.prepare_directory(JOURNALS).map_err(|e| e.to_string())?;
            }
            let path = place.runtime.join(log_name(id));
            let log = std::fs::File::create(&path).map_err(|e| e.to_string())?;
            // With --json its errors are JSON, on standard output.
            let same = log.try_clone().map_err(|e| e.to_string())?;
            command.stdout(same).stderr(log);
        }
        // Its holder outlives it.
        Order::LabUp { .. } => {}
        _ => setup = setup.parent_death_signal(KILL),
    }
    setup.apply(&mut command).map_err(|e| e.to_string())?;
    command.spawn().map_err(|e| e.to_string())
}

/// Whether a path of a key is that of one which the server found. It is opened later, and again where an experiment is gone on with. The
/// answering side's was named by whoever started all this.
fn are_keys_found(order: &Order) -> bool {
    !matches!(order, Order::Serve {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answering_sides_key_was_named() {
        assert!(!are_keys_found(&Order::Serve {}));
        assert!(are_keys_found(&Order::Resume { id: "x".into(), head: "0".into() }));
    }

    #[test]
    fn the_number_of_an_order_that_can_not_be_read() {
        assert_eq!(number_of(b"{\"number\":12,\"or"), 12);
        assert_eq!(number_of(b"{\"order\":12"), 0);
    }
}
