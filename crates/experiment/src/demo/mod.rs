//! `weir demo`: a lab of two hosts, real tests between them, and a table of what was asked beside what was measured.
//!
//! The two ends run as programs of their own, as on two machines; the lab is gone when the demo ends, however it ends.

mod cases;
mod judge;
pub mod path;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use weir_lab::{Lab, LabSpec};
use weir_model::record::Record;

pub use cases::{Case, Expectation, cases};
pub use judge::{Figures, Verdict, figures, judge, losses};

/// How long a server may take to listen.
const LISTEN: Duration = Duration::from_secs(5);
/// How long a test may take beyond its sending time.
const TEST_GRACE: Duration = Duration::from_secs(20);

/// What kept the demo from being run.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The lab could not be made.
    #[error("lab: {0}")]
    Lab(#[from] weir_lab::Error),
    /// A program of the demo did not run.
    #[error("{what}: {reason}")]
    Program {
        /// Which.
        what: String,
        /// How it failed.
        reason: String,
    },
    /// Asked to end.
    #[error("interrupted")]
    Interrupted,
}

/// One row of the table.
#[derive(Debug, Clone)]
pub struct Row {
    /// What was asked.
    pub case: Case,
    /// What was measured; the reason where it was not.
    pub outcome: Result<Box<Record>, String>,
    /// What to think of it.
    pub verdict: Verdict,
}

/// Something of the demo that ends with it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; killing a child that is reaped below is harmless.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the demo with `program` as both ends. `is_stopped` is asked between and during tests.
///
/// # Errors
/// [`DemoError`]; rows that were measured before have been shown by then.
pub fn demo(
    program: PathBuf,
    seconds: u32,
    is_stopped: &dyn Fn() -> bool,
    show: &mut dyn FnMut(&Row),
) -> Result<Vec<Row>, DemoError> {
    let lab = Lab::up(&LabSpec::default())?;
    let host = lab.host("b")?.clone();
    let mut serve = lab.command("b", &program)?;
    serve.arg("serve").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server =
        Running(serve.spawn().map_err(|e| DemoError::Program {
            what: "weir serve".into(),
            reason: e.to_string(),
        })?);
    wait_for_listening(&mut server.0)?;
    let mut rows = vec![];
    for case in cases(seconds) {
        if is_stopped() {
            return Err(DemoError::Interrupted);
        }
        let address = if case.ipv6 { host.ipv6.to_string() } else { host.ipv4.to_string() };
        let mut test = lab.command("a", &program)?;
        test.arg("test").arg(&address).args(&case.arguments).args(["--json", "--no-store"]);
        let outcome =
            measure(test, Duration::from_secs(u64::from(seconds)) + TEST_GRACE, is_stopped)?;
        let verdict = match &outcome {
            Ok(record) => judge(&case, record),
            Err(reason) => Verdict::Failed(reason.clone()),
        };
        let row = Row { case, outcome, verdict };
        show(&row);
        rows.push(row);
    }
    Ok(rows)
}

/// Waits for the first line of a server, which says that it listens.
fn wait_for_listening(server: &mut Child) -> Result<(), DemoError> {
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
fn measure(
    mut test: std::process::Command,
    limit: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Result<Box<Record>, String>, DemoError> {
    let failed = |reason: String| DemoError::Program { what: "weir test".into(), reason };
    test.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Running(test.spawn().map_err(|e| failed(e.to_string()))?);
    let read = |stream: Option<Box<dyn std::io::Read + Send>>| {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            if let Some(mut stream) = stream {
                let _ = std::io::Read::read_to_string(&mut stream, &mut text);
            }
            let _ = sender.send(text);
        });
        receiver
    };
    let stdout = read(child.0.stdout.take().map(|s| Box::new(s) as _));
    let stderr = read(child.0.stderr.take().map(|s| Box::new(s) as _));
    let end = std::time::Instant::now() + limit;
    let text = loop {
        match stdout.recv_timeout(Duration::from_millis(50)) {
            Ok(text) => break text,
            Err(_) if is_stopped() => return Err(DemoError::Interrupted),
            Err(_) if std::time::Instant::now() >= end => {
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
