//! The programs of the demo: both ends and the emulator run as processes of their own, as on three machines.

use std::fs::File;
use std::io::{BufReader, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use weir_model::record::Record;
use weir_net::namespace::ChildSetup;
use weir_net::tcp::MemFile;

use super::DemoError;
use crate::process::{MOST_RECORD_BYTES, MOST_WORDS_BYTES, Running, read_all};

/// How long a program may take to end when it was asked to.
const END: Duration = Duration::from_secs(5);

/// Waits until a server says that it listens.
pub(super) fn wait_for_listening(server: &mut Running) -> Result<(), DemoError> {
    server.listens().map_err(|died| failed("weir serve")(died.said))
}

/// Asks a program to end, and waits until it has.
pub(super) fn finish(program: Running) {
    program.finish(END);
}

/// Runs one test and reads its record. The inner error is a test that gave none.
pub(super) fn measure(
    mut test: Command,
    limit: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Result<Box<Record>, String>, DemoError> {
    let failed = |reason: String| DemoError::Program { what: "weir test".into(), reason };
    test.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Running::new(test.spawn().map_err(|e| failed(e.to_string()))?);
    let stdout = read_all(child.child.stdout.take(), MOST_RECORD_BYTES);
    let stderr = read_all(child.child.stderr.take(), MOST_WORDS_BYTES);
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

    /// The first bytes of what was written.
    pub(super) fn bytes(&self, most: u64) -> Result<Vec<u8>, DemoError> {
        let what = "packet log";
        let mut bytes = vec![];
        self.read(what)?.take(most).read_to_end(&mut bytes).map_err(failed(what))?;
        Ok(bytes)
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
