//! Runs a job as a separate process.

use std::io::Write;
use std::process::{ChildStdin, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use weir_model::Refusal;

use crate::child::{ChildGuard, collect_last, lines};
use crate::{Command, Event, Job, Ready, RunningJob};

/// Maximum length of an event's line: a record with many flows and intervals.
const MAX_EVENT_BYTES: u64 = 512 << 20;
/// Maximum length of standard error that is stored: a job prints there only if it panics.
const MAX_STDERR_BYTES: usize = 16 << 10;

/// A running job. It is stopped when this is dropped, and killed if it has not ended after the grace period.
#[derive(Debug)]
pub struct Process {
    child: ChildGuard,
    stdin: Option<ChildStdin>,
    events: Mutex<mpsc::Receiver<Event>>,
    is_ignored: Arc<AtomicBool>,
    stderr: Mutex<mpsc::Receiver<String>>,
    grace: Duration,
    /// The deadline for stopping, once it was asked to stop.
    stops_by: Option<Instant>,
}

/// The reason why there is no next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoEvent {
    /// No event within the timeout.
    Timeout,
    /// The job has ended.
    Ended,
}

impl Process {
    /// Starts `program` as `weir job` and sends it `job`. `program` is a command without arguments that runs this program, in
    /// this or another namespace.
    ///
    /// # Errors
    /// Errors of starting a process. A job that ends immediately is no error here.
    pub fn start(
        mut program: std::process::Command,
        job: &Job,
        grace: Duration,
    ) -> std::io::Result<Process> {
        let mut line = serde_json::to_string(job)?;
        line.push('\n');
        // Its name and kind are shown in process listings.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::arg0(&mut program, "weir");
        program.args(["job", job.kind()]);
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = ChildGuard::graceful(program.spawn()?, grace);
        let mut stdin = child.child.stdin.take();
        if let Some(stdin) = &mut stdin {
            // If the job has ended before it read this, its events or its exit code say why.
            let _ = stdin.write_all(line.as_bytes());
        }
        let is_ignored = Arc::new(AtomicBool::new(false));
        let events = Mutex::new(events(child.child.stdout.take(), is_ignored.clone()));
        let stderr = Mutex::new(collect_last(child.child.stderr.take(), MAX_STDERR_BYTES));
        Ok(Process { child, stdin, events, is_ignored, stderr, grace, stops_by: None })
    }

    /// The next event.
    ///
    /// # Errors
    /// [`NoEvent`].
    pub fn next_within(&self, timeout: Duration) -> Result<Event, NoEvent> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.recv_timeout(timeout).map_err(|e| match e {
            mpsc::RecvTimeoutError::Timeout => NoEvent::Timeout,
            mpsc::RecvTimeoutError::Disconnected => NoEvent::Ended,
        })
    }

    /// Waits until a server listens, or an emulator or a lab is ready.
    ///
    /// # Errors
    /// Its own refusal, or a refusal made from its exit code and standard error.
    pub fn wait_ready(&mut self) -> Result<Ready, Box<Refusal>> {
        self.wait_until_up().map(|event| match event {
            Event::Ready(ready) => ready,
            _ => Ready::default(),
        })
    }

    /// Discards events from now on: those of a long job would otherwise accumulate in memory.
    pub fn ignore_events(&self) {
        self.is_ignored.store(true, Ordering::Relaxed);
    }

    /// The reason of an unexpected end: `refusal`, which is the job's last error, if it reported one.
    pub fn ended(&mut self, refusal: Option<Refusal>) -> Refusal {
        let code = self.child.exit_code_within(Duration::from_secs(1));
        refusal.unwrap_or_else(|| {
            let stderr = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
            let stderr = stderr.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
            let code_words = match code {
                Some(code) => format!("ended with exit code {code}"),
                None => "was killed".to_owned(),
            };
            let message = match stderr.trim() {
                "" => code_words,
                stderr => format!("{code_words}: {stderr}"),
            };
            Refusal::new("ended", message, code.unwrap_or(70))
        })
    }

    /// Sends a command; ignored if the job has ended.
    pub fn command(&mut self, command: &Command) {
        if let (Some(stdin), Ok(line)) = (&mut self.stdin, serde_json::to_string(command)) {
            let _ = stdin.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// Asks it to stop in order; a second time, immediately.
    pub fn stop(&mut self) {
        self.stops_by.get_or_insert(Instant::now() + self.grace);
        self.command(&Command::Stop);
    }

    /// Leaves a detached job running.
    pub fn leave(mut self) {
        self.child.leave();
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.child.has_ended()
    }

    /// Stops it and waits for its end; returns its events from now on, and its exit code if it had one.
    pub fn finish(mut self) -> (Vec<Event>, Option<i32>) {
        self.stop();
        let end = Instant::now() + self.grace;
        let mut events = vec![];
        while let Ok(event) = self.next_within(end.saturating_duration_since(Instant::now())) {
            events.push(event);
        }
        let code = self.child.exit_code_within(end.saturating_duration_since(Instant::now()));
        (events, code)
    }
}

impl RunningJob for Process {
    fn next_within(&mut self, timeout: Duration) -> Result<Event, NoEvent> {
        Process::next_within(self, timeout)
    }

    fn command(&mut self, command: &Command) -> Result<(), Box<Refusal>> {
        Process::command(self, command);
        Ok(())
    }

    fn stop(&mut self) {
        Process::stop(self);
    }

    fn ended(&mut self, refusal: Option<Refusal>) -> Refusal {
        Process::ended(self, refusal)
    }

    fn has_ended(&self) -> bool {
        Process::has_ended(self)
    }

    fn ignore_events(&self) {
        Process::ignore_events(self);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Wait first: the guard's SIGTERM would be a second request, which ends the job immediately.
        if let Some(end) = self.stops_by {
            let _ = self.child.exit_code_within(end.saturating_duration_since(Instant::now()));
        }
    }
}

fn events(
    stdout: Option<std::process::ChildStdout>,
    is_ignored: Arc<AtomicBool>,
) -> mpsc::Receiver<Event> {
    let lines = lines(stdout, MAX_EVENT_BYTES);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        // Always read to the end, else the job would block when the pipe is full.
        for line in lines {
            if !is_ignored.load(Ordering::Relaxed)
                && let Some(event) = Event::parse(&line)
            {
                let _ = sender.send(event);
            }
        }
    });
    receiver
}
