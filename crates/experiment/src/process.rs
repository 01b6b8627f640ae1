//! Programs that this one starts: waited for until they work, read, asked to end, and never left behind.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Child;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use weir_net::namespace::{Process, process_start_time, signal_group};

/// How long a program may take to begin.
pub(crate) const BEGIN: Duration = Duration::from_secs(20);
/// Longest text of a record, and longest line of a stream of them.
pub(crate) const MOST_RECORD_BYTES: u64 = 512 << 20;
/// What is kept of a program's remarks.
pub(crate) const MOST_WORDS_BYTES: u64 = 64 << 10;
/// SIGKILL and SIGTERM, as every Linux numbers them.
pub(crate) const KILL: i32 = 9;
const TERMINATE: i32 = 15;

/// A program that ends with its owner.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) child: Child,
    patience: Duration,
    /// It leads a process group of its own, which ends with it.
    is_group: bool,
    /// That group was ended and its leader waited for: the number may be another's.
    is_over: bool,
}

/// A program that ended before it worked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Died {
    /// Its own words, or what can be said without any.
    pub(crate) said: String,
    /// Its exit code, where it had one.
    pub(crate) code: Option<i32>,
}

impl Died {
    fn new(said: &str) -> Died {
        Died { said: said.into(), code: None }
    }
}

impl Running {
    /// One that is killed when it is dropped.
    pub(crate) fn new(child: Child) -> Running {
        Running { child, patience: Duration::ZERO, is_group: false, is_over: false }
    }

    /// One that is asked to end when it is dropped, and killed when it has not after `patience`.
    pub(crate) fn patient(child: Child, patience: Duration) -> Running {
        Running { child, patience, is_group: false, is_over: false }
    }

    /// The same for a leader of a session of its own: what it started and left in its group ends with it. Not for programs
    /// that leave something behind on purpose, as an emulator does its watchdog.
    pub(crate) fn group(child: Child, patience: Duration) -> Running {
        Running { child, patience, is_group: true, is_over: false }
    }

    /// Whether it has ended. It is not waited for by this: its number, and its group's, stay its own.
    pub(crate) fn has_ended(&self) -> bool {
        process_start_time(self.child.id()).is_none()
    }

    /// Ends it, with its group where it leads one; its exit code where it had one.
    pub(crate) fn end(mut self) -> Option<i32> {
        self.stop();
        self.child.try_wait().ok().flatten().and_then(|status| status.code())
    }

    /// Asks it to end.
    pub(crate) fn terminate(&mut self) {
        let pid = self.child.id();
        if self.is_group {
            // Not waited for yet, or it would not be running.
            let _ = signal_group(pid, TERMINATE);
            return;
        }
        // Not waited for yet: the number is its own.
        let process = process_start_time(pid).and_then(|at| Process::open(pid, at).ok().flatten());
        if process.is_none_or(|process| process.signal(TERMINATE).is_err()) {
            let _ = self.child.kill();
        }
    }

    /// Asks it to end, and waits so long until it has.
    pub(crate) fn finish(mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Its exit code, where it ends within `patience` by itself.
    fn code(&mut self, patience: Duration) -> Option<i32> {
        let end = Instant::now() + patience;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.code(),
                Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(2)),
                _ => return None,
            }
        }
    }

    /// The message of an error that a program with `--json` printed, beside whatever it remarked.
    fn json_error(&mut self) -> Option<String> {
        let said = read_all(self.child.stdout.take(), MOST_WORDS_BYTES);
        let said = said.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        let error = serde_json::from_str::<serde_json::Value>(&said).ok()?;
        error["error"]["message"].as_str().map(Into::into)
    }

    /// Waits for the first line of a server's output, which says that it listens.
    pub(crate) fn listens(&mut self) -> Result<(), Died> {
        let lines = lines(self.child.stdout.take());
        let said = lines.recv_timeout(BEGIN);
        // The rest is read and dropped, or the server would stand still when the pipe is full.
        std::thread::spawn(move || lines.into_iter().for_each(drop));
        match said {
            Ok(_) => Ok(()),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(Died {
                code: self.code(Duration::from_secs(1)),
                ..Died::new("it ended before it listened")
            }),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(Died::new("it did not listen within 5 s")),
        }
    }

    /// Hands an emulator its configuration on stdin and waits until it says on stderr that it works.
    pub(crate) fn emulates(&mut self, configuration: &[u8]) -> Result<(), Died> {
        if let Some(mut stdin) = self.child.stdin.take() {
            // One that died of something else tells it on stderr.
            let _ = stdin.write_all(configuration);
        }
        let words = self.child.stderr.take();
        let (sender, begun) = mpsc::channel();
        std::thread::spawn(move || {
            let mut said = String::new();
            for line in words.into_iter().flat_map(|w| BufReader::new(w).lines()) {
                let Ok(line) = line else { break };
                if line.starts_with("control socket") || line.starts_with("no control") {
                    let _ = sender.send(Ok(()));
                }
                if (said.len() as u64) < MOST_WORDS_BYTES {
                    said += &line;
                    said.push('\n');
                }
            }
            // Read when it ended before it worked, else of no interest.
            let _ = sender.send(Err(said));
        });
        match begun.recv_timeout(BEGIN) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(said)) => {
                let said = self.json_error().unwrap_or_else(|| match without_head(&said) {
                    said if said.is_empty() => "it ended before it worked, without a word".into(),
                    said => said,
                });
                Err(Died { said, code: self.code(Duration::from_secs(1)) })
            }
            Err(_) => Err(Died::new("it did not begin within 5 s")),
        }
    }

    fn stop(&mut self) {
        if self.is_group {
            return self.stop_group();
        }
        if !self.patience.is_zero() && matches!(self.child.try_wait(), Ok(None)) {
            self.terminate();
            let patience = self.patience;
            let _ = self.code(patience);
        }
        // It may have ended by itself; killing a child that is reaped below is harmless.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn stop_group(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        if !self.patience.is_zero() && !self.has_ended() {
            self.terminate();
            let end = Instant::now() + self.patience;
            while !self.has_ended() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        // Before it is waited for: the number of its group is its own until then.
        let _ = signal_group(self.child.id(), KILL);
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What a program of ours said, without the word that its errors begin with.
pub(crate) fn without_head(said: &str) -> String {
    said.trim().trim_start_matches("error: ").into()
}

/// The lines of a stream, read on a thread of their own.
pub(crate) fn lines(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let Some(stream) = stream else { return };
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = String::new();
            match Read::take(&mut reader, MOST_RECORD_BYTES).read_line(&mut line) {
                Ok(n) if n > 0 && sender.send(line).is_ok() => {}
                _ => break,
            }
        }
    });
    receiver
}

/// The first `most` bytes of a stream, once it has ended; the rest is read and dropped.
pub(crate) fn read_all(
    stream: Option<impl Read + Send + 'static>,
    most: u64,
) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut kept = vec![];
        if let Some(mut stream) = stream {
            let _ = Read::take(&mut stream, most).read_to_end(&mut kept);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
        let _ = sender.send(String::from_utf8_lossy(&kept).into_owned());
    });
    receiver
}

/// What a stream has said so far.
pub(crate) struct Said {
    kept: Arc<Mutex<Vec<u8>>>,
    ended: mpsc::Receiver<()>,
}

impl Said {
    /// Waits so long for the stream's end; false when it is still open.
    pub(crate) fn ends_within(&self, patience: Duration) -> bool {
        // Nobody sends: the other end goes with the thread that reads.
        self.ended.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Disconnected)
    }

    /// The text that was kept until now.
    pub(crate) fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
        String::from_utf8_lossy(&kept).into_owned()
    }
}

/// The first `most` bytes of a stream as they come; the rest is read and dropped.
pub(crate) fn hear(stream: Option<impl Read + Send + 'static>, most: u64) -> Said {
    let (open, ended) = mpsc::channel();
    let kept = Arc::new(Mutex::new(vec![]));
    let all = kept.clone();
    std::thread::spawn(move || {
        let _open: mpsc::Sender<()> = open;
        let Some(mut stream) = stream else { return };
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            let mut all = all.lock().unwrap_or_else(|e| e.into_inner());
            let room = (most as usize).saturating_sub(all.len());
            all.extend_from_slice(&buffer[..n.min(room)]);
        }
    });
    Said { kept, ended }
}

/// The last `most` bytes of a stream, once it has ended.
pub(crate) fn read_end(
    stream: Option<impl Read + Send + 'static>,
    most: u64,
) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let most = most as usize;
        let (mut kept, mut buffer) = (vec![], [0; 4096]);
        if let Some(mut stream) = stream {
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                kept.extend_from_slice(&buffer[..n]);
                if kept.len() > 2 * most {
                    kept.drain(..kept.len() - most);
                }
            }
        }
        let begin = kept.len().saturating_sub(most);
        let _ = sender.send(String::from_utf8_lossy(&kept[begin..]).into_owned());
    });
    receiver
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn shell(script: &str) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(command.spawn().unwrap())
    }

    #[test]
    fn a_server_listens_once_it_has_said_something() {
        assert_eq!(shell("echo listening; sleep 60").listens(), Ok(()));
        let died = shell("exit 4").listens().unwrap_err();
        assert_eq!((died.said.as_str(), died.code), ("it ended before it listened", Some(4)));
    }

    #[test]
    fn an_emulator_that_dies_is_told_with_its_words_and_its_code() {
        let mut works =
            shell("read line; [ \"$line\" = laws ] && echo 'control socket x' >&2; sleep 60");
        assert_eq!(works.emulates(b"laws\n"), Ok(()));
        let died = shell("echo 'error: no such interface' >&2; exit 4").emulates(b"").unwrap_err();
        assert_eq!(died, Died { said: "no such interface".into(), code: Some(4) });
        let json =
            r#"echo 'note: x' >&2; echo '{"error":{"message":"no such interface"}}'; exit 2"#;
        let died = shell(json).emulates(b"").unwrap_err();
        assert_eq!(died, Died { said: "no such interface".into(), code: Some(2) });
    }

    #[test]
    fn what_is_dropped_is_asked_to_end_where_there_is_patience() {
        let dir = tempfile::tempdir().unwrap();
        for (patience, ends_in_order) in [(Duration::from_secs(20), true), (Duration::ZERO, false)]
        {
            let file = dir.path().join(format!("{ends_in_order}"));
            let script = format!(
                "trap 'echo bye > {}; exit 0' TERM; echo up; while :; do sleep 0.01; done",
                file.display()
            );
            let mut running = shell(&script);
            running.listens().unwrap();
            running.patience = patience;
            drop(running);
            assert_eq!(file.exists(), ends_in_order);
        }
    }

    /// A program that starts others and leaves them, or is ended before they are, takes them with it.
    #[test]
    fn what_a_group_leader_started_ends_with_it() {
        for (script, code) in [
            ("sleep 1000 & echo first; sleep 1000", None),
            ("sleep 1000 & echo first; exit 3", Some(3)),
            // One that is deaf to the request.
            ("trap '' TERM; (sleep 1000; :) & echo first; exit 0", Some(0)),
        ] {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
            weir_net::namespace::ChildSetup::new().new_session().apply(&mut command).unwrap();
            let mut running = Running::group(command.spawn().unwrap(), Duration::from_secs(20));
            let said = hear(running.child.stdout.take(), 4);
            while !said.text().starts_with("firs") || (code.is_some() && !running.has_ended()) {
                std::thread::sleep(Duration::from_millis(2));
            }
            assert_eq!(running.end(), code, "{script}");
            // Whoever is left of the group would hold the stream open for 1000 s.
            assert!(said.ends_within(Duration::from_secs(20)), "{script}");
            assert_eq!(said.text(), "firs");
        }
    }

    #[test]
    fn a_stream_is_read_to_its_end_and_kept_to_its_bound() {
        let mut running = shell("printf 'äbcdef'; exit 0");
        let text = read_all(running.child.stdout.take(), 4).recv().unwrap();
        assert_eq!(text, "äbc");
        let mut running =
            shell("i=0; while [ $i -lt 5000 ]; do printf '|'; i=$((i+1)); done; printf 'end'");
        assert_eq!(read_end(running.child.stdout.take(), 5).recv().unwrap(), "||end");
    }
}
