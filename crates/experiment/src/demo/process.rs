//! The programs of the demo: both ends and the emulator run as processes of their own, as on three machines.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use weir_model::record::Record;
use weir_net::namespace::{ChildSetup, Process, process_start_time};
use weir_net::tcp::MemFile;

use super::DemoError;

/// How long a server may take to listen.
const LISTEN: Duration = Duration::from_secs(5);
/// How long a program may take to end when it was asked to.
const END: Duration = Duration::from_secs(5);
/// SIGTERM, as every Unix numbers it.
const TERMINATE: i32 = 15;

/// Something of the demo that ends with it.
pub(super) struct Running(pub(super) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; killing a child that is reaped below is harmless.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for the first line of a server, which says that it listens.
pub(super) fn wait_for_listening(server: &mut Child) -> Result<(), DemoError> {
    let failed =
        |reason: &str| DemoError::Program { what: "weir serve".into(), reason: reason.into() };
    let stdout = server.stdout.take().ok_or_else(|| failed("its output is missing"))?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stdout).lines();
        let _ = sender.send(lines.next().is_some_and(|l| l.is_ok()));
        // The rest is read and dropped, or the server would stand still when the pipe is full.
        lines.map_while(Result::ok).for_each(drop);
    });
    match receiver.recv_timeout(LISTEN) {
        Ok(true) => Ok(()),
        Ok(false) => Err(failed("it ended before it listened")),
        Err(_) => Err(failed("it did not listen within 5 s")),
    }
}

/// Runs one test and reads its record. The inner error is a test that gave none.
pub(super) fn measure(
    mut test: Command,
    limit: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Result<Box<Record>, String>, DemoError> {
    let failed = |reason: String| DemoError::Program { what: "weir test".into(), reason };
    test.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Running(test.spawn().map_err(|e| failed(e.to_string()))?);
    let stdout = read_all(child.0.stdout.take());
    let stderr = read_all(child.0.stderr.take());
    let end = Instant::now() + limit;
    let text = loop {
        match stdout.recv_timeout(Duration::from_millis(50)) {
            Ok(text) => break text,
            Err(_) if is_stopped() => return Err(DemoError::Interrupted),
            Err(_) if Instant::now() >= end => {
                return Ok(Err(format!("no result within {} s", limit.as_secs())));
            }
            Err(_) => {}
        }
    };
    match serde_json::from_str::<Record>(&text) {
        Ok(record) if !record.flows.is_empty() => Ok(Ok(Box::new(record))),
        _ => {
            let words = stderr.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
            let said = if words.trim().is_empty() { text } else { words };
            Ok(Err(said.trim().chars().take(300).collect()))
        }
    }
}

impl Running {
    /// Asks it to end, and waits until it has.
    pub(super) fn finish(mut self) {
        self.terminate();
        let end = Instant::now() + END;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Asks it to end.
    pub(super) fn terminate(&mut self) {
        let pid = self.0.id();
        // Not waited for yet: the number is its own.
        let process = process_start_time(pid).and_then(|at| Process::open(pid, at).ok().flatten());
        if process.is_none_or(|process| process.signal(TERMINATE).is_err()) {
            let _ = self.0.kill();
        }
    }
}

/// What a program of the demo writes and the demo reads: a file without a name, so that nothing is left of it however the
/// demo ends.
pub(super) struct Handed(MemFile);

impl Handed {
    pub(super) fn new(what: &str) -> Result<Self, DemoError> {
        MemFile::new(&[]).map(Handed).map_err(failed(what))
    }

    /// Keeps the file open in a child; returns the path by which the child has it.
    pub(super) fn to(&self, child: &mut Command, what: &str) -> Result<String, DemoError> {
        let descriptor = self.0.as_fd().try_clone_to_owned().map_err(failed(what))?;
        let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        ChildSetup::new().inherit(descriptor).apply(child).map_err(failed(what))?;
        Ok(path)
    }

    /// Fills it.
    pub(super) fn write(&self, bytes: &[u8], what: &str) -> Result<(), DemoError> {
        let path = format!("/proc/self/fd/{}", self.0.as_fd().as_raw_fd());
        std::fs::write(path, bytes).map_err(failed(what))
    }

    /// What was written, from its beginning.
    pub(super) fn read(&self, what: &str) -> Result<BufReader<File>, DemoError> {
        let path = format!("/proc/self/fd/{}", self.0.as_fd().as_raw_fd());
        Ok(BufReader::new(File::open(path).map_err(failed(what))?))
    }
}

/// An error of a program, with its reason.
pub(super) fn failed<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> DemoError {
    move |reason| DemoError::Program { what: what.into(), reason: reason.to_string() }
}

/// Reads a stream to its end on a thread.
pub(super) fn read_all(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_string(&mut text);
        }
        let _ = sender.send(text);
    });
    receiver
}
