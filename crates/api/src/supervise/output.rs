//! The events of a job, through two sockets that the launcher connects to its standard output and error.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::mpsc;
use weir_jobs::Event;
use weir_model::Refusal;

use super::launcher::{Exit, Started};
use super::sockets::Sockets;

/// Time for the launcher to connect.
const CONNECT: Duration = Duration::from_secs(5);
/// Maximum length of a line: the record of a test with many flows.
const MAX_LINE_BYTES: u64 = 256 << 20;
/// Maximum length of standard error that is stored.
const MAX_STDERR_BYTES: usize = 16 << 10;

/// Two listening sockets, whose files are removed with it.
#[derive(Debug)]
pub(crate) struct Output(Sockets);

impl Output {
    pub(super) fn listen(directory: &Path, names: &[String; 2]) -> std::io::Result<Output> {
        Sockets::listen(directory, names).map(Output)
    }

    /// Forwards each event, and at last the output on standard error. Ends when the job has closed both.
    pub(crate) fn events(self) -> mpsc::Receiver<JobOutput> {
        // Bounded: a job waits if a busy server does not take its events.
        let (events, inbox) = mpsc::channel(16);
        tokio::spawn(async move {
            let connected = tokio::time::timeout(CONNECT, self.0.accept());
            let Ok(Ok((out, err))) = connected.await else { return };
            drop(self);
            tokio::join!(read(out, &events), read_stderr(err, &events));
        });
        inbox
    }
}

/// Output of a job.
#[derive(Debug)]
pub(crate) enum JobOutput {
    /// An event.
    Event(Box<Event>),
    /// The end of its standard error, which is empty unless it panicked.
    Stderr(String),
}

/// The outcome of a job.
#[derive(Debug, Default)]
pub(crate) struct JobOutcome {
    /// How its process ended, if the launcher reported it.
    pub(crate) exit: Option<Exit>,
    /// The last error that it reported.
    pub(crate) refusal: Option<Refusal>,
    /// Its final document.
    pub(crate) result: Option<Value>,
    /// The end of its standard error.
    pub(crate) stderr: String,
}

impl JobOutcome {
    /// Collects the outcome from the job's output.
    pub(crate) fn take(&mut self, heard: JobOutput) {
        match heard {
            JobOutput::Stderr(text) => self.stderr = text,
            JobOutput::Event(event) => match *event {
                Event::Error(refusal) => self.refusal = Some(refusal),
                Event::Result(result) => self.result = Some(result),
                _ => {}
            },
        }
    }

    /// Why it failed.
    pub(crate) fn why(&self) -> Refusal {
        if let Some(refusal) = &self.refusal {
            return refusal.clone();
        }
        let code = self.exit.and_then(|e| e.code).unwrap_or(70);
        let message = match (self.exit.and_then(|e| e.signal), self.stderr.trim()) {
            (Some(signal), _) => format!("its process was killed by signal {signal}"),
            (None, "") => format!("its process ended with exit code {code}"),
            (None, stderr) => stderr.to_owned(),
        };
        Refusal::new("ended", message, code)
    }
}

/// Follows a job to its end; `take` gets each event first.
pub(crate) async fn follow(started: Started, mut take: impl FnMut(&Event)) -> JobOutcome {
    let mut ended = JobOutcome::default();
    if let Some(output) = started.output {
        let mut events = output.events();
        while let Some(heard) = events.recv().await {
            if let JobOutput::Event(event) = &heard {
                take(event);
            }
            ended.take(heard);
        }
    }
    ended.exit = started.exit.await.ok();
    ended
}

async fn read(stream: impl AsyncRead + Unpin, events: &mpsc::Sender<JobOutput>) {
    let mut reader = BufReader::with_capacity(64 << 10, stream);
    loop {
        let mut line = Vec::new();
        match (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await {
            Ok(n) if n > 0 => {}
            _ => return,
        }
        let Some(event) = Event::parse(&String::from_utf8_lossy(&line)) else { continue };
        if events.send(JobOutput::Event(Box::new(event))).await.is_err() {
            return;
        }
    }
}

async fn read_stderr(mut stream: impl AsyncRead + Unpin, events: &mpsc::Sender<JobOutput>) {
    let (mut last, mut buffer) = (vec![], [0; 4096]);
    while let Ok(n @ 1..) = stream.read(&mut buffer).await {
        last.extend_from_slice(&buffer[..n]);
        if last.len() > 2 * MAX_STDERR_BYTES {
            last.drain(..last.len() - MAX_STDERR_BYTES);
        }
    }
    let text = String::from_utf8_lossy(&last).into_owned();
    let _ = events.send(JobOutput::Stderr(text)).await;
}
