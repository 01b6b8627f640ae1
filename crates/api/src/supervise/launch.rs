//! The launcher's side: a small process that keeps the capabilities which the web server gives up. It reads typed
//! orders from its standard input and starts jobs of this binary, nothing else.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_emulator::control::{is_id, socket_name};
use weir_jobs::Job;
use weir_lab::Registry;
use weir_net::namespace::ChildSetup;

use super::orders::{
    LabNode, LauncherMessage, MAX_ORDER_BYTES, NumberedOrder, Order, PACKET_TRACES, inside,
};
use crate::app::lock;

/// Time for jobs to end after the server has ended.
const END: Duration = Duration::from_secs(3);

/// Why the launcher can't start.
#[derive(Debug, thiserror::Error)]
#[error("launcher: {0}")]
pub struct LaunchError(String);

/// Where things are.
struct Directories {
    program: PathBuf,
    directory: PathBuf,
    runtime: PathBuf,
    /// Where runs are stored, and emulators' packet traces next to them.
    data: weir_runs::DataDirectory,
}

/// A job that ends with the launcher.
struct Child {
    /// Its standard input for commands; closing it stops the job.
    input: Option<ChildStdin>,
}

/// Runs the launcher until the connection is closed: then tests, experiments and the server are stopped; emulators
/// and labs stay.
///
/// # Errors
/// No runtime directory, or the connection can't be duplicated.
pub fn launch(
    stream: UnixStream,
    program: PathBuf,
    directory: PathBuf,
    data: weir_runs::DataDirectory,
) -> Result<(), LaunchError> {
    let failed = |e: &dyn std::fmt::Display| LaunchError(e.to_string());
    let runtime = weir_lab::runtime_directory().map_err(|e| failed(&e))?;
    let directories = Directories { program, directory, runtime, data };
    let voice = Arc::new(Mutex::new(stream.try_clone().map_err(|e| failed(&e))?));
    let say = |voice: &Mutex<UnixStream>, word: &LauncherMessage| {
        let line = serde_json::to_string(word).unwrap_or_default();
        // A write error means that the server has ended, which the reader below notices.
        let _ = lock(voice).write_all(format!("{line}\n").as_bytes());
    };
    // Jobs that end with the server, by process id.
    let children: Arc<Mutex<HashMap<u32, Child>>> = Arc::default();
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        match (&mut reader).take(MAX_ORDER_BYTES).read_until(b'\n', &mut line) {
            Ok(n) if n > 0 && line.last() == Some(&b'\n') => {}
            Ok(n) if n as u64 == MAX_ORDER_BYTES => {
                let error = format!("an order longer than {MAX_ORDER_BYTES} bytes");
                say(&voice, &LauncherMessage::Refused { number: number_of(&line), error });
                match skip_line(&mut reader) {
                    Ok(()) => continue,
                    Err(_) => break,
                }
            }
            _ => break,
        }
        let NumberedOrder { number, order, output } = match weir_model::document::parse_json(&line)
        {
            Ok(numbered) => numbered,
            Err(e) => {
                let error = format!("no order: {e}");
                say(&voice, &LauncherMessage::Refused { number: number_of(&line), error });
                continue;
            }
        };
        let done = match &order {
            Order::Stop { pid } => stop(&children, *pid).map(|()| None),
            Order::EndEmulator { id } => end_emulator(&directories, id).map(|()| None),
            Order::Start { job, at, log } => {
                start(&directories, job, at.as_ref(), log.as_deref(), output.as_ref()).map(Some)
            }
        };
        match done {
            Err(error) => say(&voice, &LauncherMessage::Refused { number, error }),
            Ok(None) => say(&voice, &LauncherMessage::Done { number, pid: None }),
            Ok(Some(mut child)) => {
                let pid = child.id();
                let input = child.stdin.take();
                if !matches!(&order, Order::Start { job, .. } if job.is_detached()) {
                    lock(&children).insert(pid, Child { input });
                }
                say(&voice, &LauncherMessage::Done { number, pid: Some(pid) });
                let (voice, children) = (voice.clone(), children.clone());
                std::thread::spawn(move || {
                    let status = child.wait().ok();
                    lock(&children).remove(&pid);
                    let code = status.and_then(|s| s.code());
                    let signal = status.and_then(|s| s.signal());
                    say(&voice, &LauncherMessage::Exited { exited: pid, code, signal });
                });
            }
        }
    }
    // Jobs stop when their standard input is closed.
    lock(&children).values_mut().for_each(|child| child.input = None);
    let end = std::time::Instant::now() + END;
    while !lock(&children).is_empty() && std::time::Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    // A killed server did not delete it.
    let _ = std::fs::remove_dir_all(&directories.directory);
    Ok(())
}

/// The number at the start of an incomplete order; 0, which no caller waits for, without one.
fn number_of(line: &[u8]) -> u64 {
    let rest = line.strip_prefix(b"{\"number\":").unwrap_or_default();
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok().and_then(|d| d.parse().ok()).unwrap_or(0)
}

/// Skips the rest of a line.
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

/// Stops a job.
fn stop(children: &Mutex<HashMap<u32, Child>>, pid: u32) -> Result<(), String> {
    let mut children = lock(children);
    let child = children.get_mut(&pid).ok_or("it has ended")?;
    let line = serde_json::to_string(&weir_jobs::Command::Stop).map_err(|e| e.to_string())?;
    let input = child.input.as_mut().ok_or("it is stopping")?;
    // A job that has ended does not read it.
    let _ = input.write_all(format!("{line}\n").as_bytes());
    Ok(())
}

/// Stops the emulator that listens on a control socket in this user's runtime directory.
fn end_emulator(directories: &Directories, id: &str) -> Result<(), String> {
    if !is_id(id) {
        return Err(format!("{id:?} is no id of an emulator"));
    }
    let path = directories.runtime.join(socket_name(id));
    weir_emulator::control::end(&path).map_err(|e| format!("emulator {id}: {e}"))
}

fn start(
    directories: &Directories,
    job: &Job,
    at: Option<&LabNode>,
    log: Option<&str>,
    output: Option<&[String; 2]>,
) -> Result<std::process::Child, String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let mut command = match at {
        None => Command::new(&directories.program),
        Some(LabNode { lab, node }) => {
            let name = lab.parse().map_err(|e: weir_lab::Error| text(&e))?;
            let lab = Registry::open().and_then(|labs| labs.join(&name)).map_err(|e| text(&e))?;
            lab.command(node, &directories.program).map_err(|e| text(&e))?
        }
    };
    command.arg0("weir").args(["job", job.kind()]).env("NO_COLOR", "1").stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if let Some([out, error]) = output {
        let connect = |name: &str| {
            let path = inside(&directories.directory, name)?;
            UnixStream::connect(&path).map_err(|e| format!("{name}: {e}"))
        };
        command.stdout(std::os::fd::OwnedFd::from(connect(out)?));
        command.stderr(std::os::fd::OwnedFd::from(connect(error)?));
    }
    if let Some(name) = log {
        let path = inside(&directories.runtime, name)?;
        let file = std::fs::File::create(&path).map_err(|e| text(&e))?;
        command.stderr(file.try_clone().map_err(|e| text(&e))?).stdout(file);
    }
    if matches!(job, Job::Emulator(job) if job.packet_trace.is_some()) {
        directories.data.prepare_directory(PACKET_TRACES).map_err(|e| text(&e))?;
    }
    ChildSetup::new().new_session().apply(&mut command).map_err(|e| text(&e))?;
    let mut line = serde_json::to_string(job).map_err(|e| text(&e))?;
    line.push('\n');
    let mut child = command.spawn().map_err(|e| text(&e))?;
    if let Some(input) = &mut child.stdin {
        // A job that ended before it read this reports why by its events or its exit code.
        let _ = input.write_all(line.as_bytes());
    }
    Ok(child)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_an_order_that_can_not_be_read() {
        assert_eq!(number_of(b"{\"number\":12,\"or"), 12);
        assert_eq!(number_of(b"{\"order\":12"), 0);
    }
}
