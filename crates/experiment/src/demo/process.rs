//! The processes of the demo: both ends and the emulator run separately, as on three machines.

use std::fs::File;
use std::io::{BufReader, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use weir_jobs::{Event, Job, NoEvent, Process, ServeJob, TestJob};
use weir_model::record::Record;
use weir_net::namespace::ChildSetup;
use weir_net::tcp::MemFile;

use super::DemoError;

/// Time for a program to end after it was asked to.
const END: Duration = Duration::from_secs(5);
/// Interval of checking whether the demo was stopped.
const LOOK: Duration = Duration::from_millis(50);

/// Starts a server and waits until it listens.
pub(super) fn serve(command: Command, job: ServeJob) -> Result<Process, DemoError> {
    let mut server =
        Process::start(command, &Job::Serve(Box::new(job)), END).map_err(failed("weir serve"))?;
    server.wait_ready().map_err(failed("weir serve"))?;
    Ok(server)
}

/// Runs one test and returns its record. The inner error is a test without a record.
pub(super) fn measure(
    command: Command,
    job: TestJob,
    limit: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Result<Box<Record>, String>, DemoError> {
    let job = Job::Test(Box::new(job));
    let mut test = Process::start(command, &job, Duration::ZERO).map_err(failed("weir test"))?;
    let end = Instant::now() + limit;
    let (mut record, mut error) = (None, None);
    loop {
        match test.next_within(LOOK) {
            Ok(Event::End(found)) => record = Some(found),
            Ok(Event::Error(refusal)) => error = Some(refusal),
            Err(NoEvent::Ended) => break,
            Ok(_) | Err(NoEvent::Timeout) => {}
        }
        if is_stopped() {
            return Err(DemoError::Interrupted);
        }
        if Instant::now() >= end {
            return Ok(Err(format!("no result within {} s", limit.as_secs())));
        }
    }
    Ok(match record {
        Some(record) if !record.flows.is_empty() => Ok(record),
        _ => Err(test.ended(error).message.chars().take(300).collect()),
    })
}

/// Output of a program as an unnamed file, so that nothing is left behind even after SIGKILL.
pub(super) struct OutputFile(MemFile);

impl OutputFile {
    pub(super) fn new(what: &str) -> Result<Self, DemoError> {
        MemFile::new(&[]).map(OutputFile).map_err(failed(what))
    }

    /// Keeps the file open in a child; returns its path there.
    pub(super) fn to(&self, child: &mut Command, what: &str) -> Result<PathBuf, DemoError> {
        let descriptor = self.0.as_fd().try_clone_to_owned().map_err(failed(what))?;
        let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        ChildSetup::new().inherit(descriptor).apply(child).map_err(failed(what))?;
        Ok(path.into())
    }

    /// The first bytes of the output.
    pub(super) fn bytes(&self, most: u64) -> Result<Vec<u8>, DemoError> {
        let what = "packet log";
        let mut bytes = vec![];
        self.read(what)?.take(most).read_to_end(&mut bytes).map_err(failed(what))?;
        Ok(bytes)
    }

    /// The output, from its start.
    pub(super) fn read(&self, what: &str) -> Result<BufReader<File>, DemoError> {
        let path = format!("/proc/self/fd/{}", self.0.as_fd().as_raw_fd());
        Ok(BufReader::new(File::open(path).map_err(failed(what))?))
    }
}

/// An error of a program, with its reason.
pub(super) fn failed<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> DemoError {
    move |reason| DemoError::Program { what: what.into(), reason: reason.to_string() }
}
