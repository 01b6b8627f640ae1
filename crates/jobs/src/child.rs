//! Child processes: their output is read without blocking them, and they are stopped with their owner.

use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use weir_net::process;

/// A child process that ends with its owner.
#[derive(Debug)]
pub struct ChildGuard {
    /// The process.
    pub child: Child,
    grace: Duration,
    /// Whether it leads its own process group, which is ended with it.
    is_group: bool,
    /// Whether it was reaped, so that its process id may have been reused, or was left running.
    is_over: bool,
}

impl ChildGuard {
    /// Guards a process that gets SIGTERM when the guard is dropped, and is killed if it has not ended after `grace`.
    #[must_use]
    pub fn graceful(child: Child, grace: Duration) -> ChildGuard {
        Self::guarded(child, grace, false)
    }

    /// Like `graceful`, for the leader of a session: processes left in its group are ended with it. Not for programs that
    /// leave a process behind on purpose, as an emulator leaves its watchdog.
    #[must_use]
    pub fn group(child: Child, grace: Duration) -> ChildGuard {
        Self::guarded(child, grace, true)
    }

    fn guarded(child: Child, grace: Duration, is_group: bool) -> ChildGuard {
        ChildGuard { child, grace, is_group, is_over: false }
    }

    /// Lets the process run on without a guard.
    pub(crate) fn leave(&mut self) {
        self.is_over = true;
    }

    /// Whether it has ended. Does not reap it, so that its process id and group id stay reserved.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        process::has_ended(&self.child)
    }

    /// Ends it, and its group if it leads one; returns its exit code if it had one.
    pub fn end(mut self) -> Option<i32> {
        self.stop();
        self.child.try_wait().ok().flatten().and_then(|status| status.code())
    }

    /// Sends SIGTERM; on systems without it, kills the process.
    pub fn terminate(&mut self) {
        // It is running, so it was not reaped and its id is valid.
        if self.is_group {
            process::terminate_group(&mut self.child);
        } else {
            process::terminate(&mut self.child);
        }
    }

    /// Its exit code, if it ends within `timeout` by itself.
    pub(crate) fn exit_code_within(&mut self, timeout: Duration) -> Option<i32> {
        let end = Instant::now() + timeout;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.code(),
                Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(2)),
                _ => return None,
            }
        }
    }

    fn stop(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        if self.is_group {
            return self.stop_group();
        }
        if !self.grace.is_zero() && matches!(self.child.try_wait(), Ok(None)) {
            self.terminate();
            let grace = self.grace;
            let _ = self.exit_code_within(grace);
        }
        // It may have ended by itself; killing a child that is reaped below is harmless.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn stop_group(&mut self) {
        if !self.grace.is_zero() && !self.has_ended() {
            self.terminate();
            let end = Instant::now() + self.grace;
            while !self.has_ended() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        // Before it is reaped: until then its group id can't be reused.
        process::kill_group(&mut self.child);
        let _ = self.child.wait();
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The lines of a stream, each at most `max_bytes` long, read on a separate thread.
pub(crate) fn lines(
    stream: Option<impl Read + Send + 'static>,
    max_bytes: u64,
) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let Some(stream) = stream else { return };
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = String::new();
            match Read::take(&mut reader, max_bytes).read_line(&mut line) {
                Ok(n) if n > 0 && sender.send(line).is_ok() => {}
                _ => break,
            }
        }
    });
    receiver
}

/// The first `max_bytes` of a stream, sent at its end; the rest is read and discarded.
pub fn collect(
    stream: Option<impl Read + Send + 'static>,
    max_bytes: u64,
) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut first = vec![];
        if let Some(mut stream) = stream {
            let _ = Read::take(&mut stream, max_bytes).read_to_end(&mut first);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
        let _ = sender.send(String::from_utf8_lossy(&first).into_owned());
    });
    receiver
}

/// The last `max_bytes` of a stream, sent at its end.
pub fn collect_last(
    stream: Option<impl Read + Send + 'static>,
    max_bytes: usize,
) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut last, mut buffer) = (vec![], [0; 4096]);
        if let Some(mut stream) = stream {
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                last.extend_from_slice(&buffer[..n]);
                if last.len() > 2 * max_bytes {
                    last.drain(..last.len() - max_bytes);
                }
            }
        }
        let begin = last.len().saturating_sub(max_bytes);
        let _ = sender.send(String::from_utf8_lossy(&last[begin..]).into_owned());
    });
    receiver
}

/// The output of a stream so far.
#[derive(Debug)]
pub struct Output {
    text: Arc<Mutex<Vec<u8>>>,
    is_truncated: Arc<AtomicBool>,
    ended: mpsc::Receiver<()>,
}

impl Output {
    /// Waits at most `timeout` for the stream's end; false if it is still open.
    #[must_use]
    pub fn ends_within(&self, timeout: Duration) -> bool {
        // Nothing is ever sent: the sender is dropped when the reading thread ends.
        self.ended.recv_timeout(timeout) == Err(mpsc::RecvTimeoutError::Disconnected)
    }

    /// Whether more was printed than is stored.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.is_truncated.load(Ordering::Relaxed)
    }

    /// The text so far.
    #[must_use]
    pub fn text(&self) -> String {
        let text = self.text.lock().unwrap_or_else(|e| e.into_inner());
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// The first `max_bytes` of a stream as they arrive; the rest is read and discarded.
#[must_use]
pub fn captured(stream: Option<impl Read + Send + 'static>, max_bytes: usize) -> Output {
    let (open, ended) = mpsc::channel();
    let text = Arc::new(Mutex::new(vec![]));
    let is_truncated = Arc::new(AtomicBool::new(false));
    let (all, truncated) = (text.clone(), is_truncated.clone());
    std::thread::spawn(move || {
        let _open: mpsc::Sender<()> = open;
        let Some(mut stream) = stream else { return };
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            let mut all = all.lock().unwrap_or_else(|e| e.into_inner());
            let room = max_bytes.saturating_sub(all.len());
            all.extend_from_slice(&buffer[..n.min(room)]);
            truncated.fetch_or(n > room, Ordering::Relaxed);
        }
    });
    Output { text, is_truncated, ended }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    #[test]
    fn a_dropped_child_gets_sigterm_where_there_is_grace() {
        let dir = tempfile::tempdir().unwrap();
        for (grace, ends_in_order) in [(Duration::from_secs(20), true), (Duration::ZERO, false)] {
            let file = dir.path().join(format!("{ends_in_order}"));
            let script = format!(
                "trap 'echo bye > {}; exit 0' TERM; echo up; while :; do sleep 0.01; done",
                file.display()
            );
            let mut running = ChildGuard::graceful(shell(&script), grace);
            let up = lines(running.child.stdout.take(), 100);
            assert_eq!(up.recv().unwrap(), "up\n");
            drop(running);
            assert_eq!(file.exists(), ends_in_order);
        }
    }

    /// Processes that a program started are ended with it, whether it ends by itself or is ended.
    #[test]
    fn a_group_ends_with_its_leader() {
        for (script, code) in [
            ("sleep 1000 & echo first; sleep 1000", None),
            ("sleep 1000 & echo first; exit 3", Some(3)),
            // A process that ignores SIGTERM.
            ("trap '' TERM; (sleep 1000; :) & echo first; exit 0", Some(0)),
        ] {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
            process::lead_session(&mut command).unwrap();
            let mut running = ChildGuard::group(command.spawn().unwrap(), Duration::from_secs(20));
            let output = captured(running.child.stdout.take(), 4);
            while !output.text().starts_with("firs") || (code.is_some() && !running.has_ended()) {
                std::thread::sleep(Duration::from_millis(2));
            }
            assert_eq!(running.end(), code, "{script}");
            // A remaining process of the group would hold the stream open for 1000 s.
            assert!(output.ends_within(Duration::from_secs(20)), "{script}");
            assert_eq!(output.text(), "firs");
        }
    }

    #[test]
    fn a_stream_is_read_to_its_end_and_stored_up_to_its_limit() {
        let mut running = ChildGuard::graceful(shell("printf 'äbcdef'; exit 0"), Duration::ZERO);
        assert_eq!(collect(running.child.stdout.take(), 4).recv().unwrap(), "äbc");
        let mut running = ChildGuard::graceful(shell("printf 'abcdef'; exit 0"), Duration::ZERO);
        assert_eq!(collect_last(running.child.stdout.take(), 4).recv().unwrap(), "cdef");
    }
}
