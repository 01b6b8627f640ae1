//! Programs that this one starts: waited for until they work, read, asked to end, and never left behind.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Child;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use weir_net::namespace::{Process, process_start_time};

/// How long a program may take to begin.
pub(crate) const BEGIN: Duration = Duration::from_secs(5);
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
        Running { child, patience: Duration::ZERO }
    }

    /// One that is asked to end when it is dropped, and killed when it has not after `patience`.
    pub(crate) fn patient(child: Child, patience: Duration) -> Running {
        Running { child, patience }
    }

    /// Asks it to end.
    pub(crate) fn terminate(&mut self) {
        let pid = self.child.id();
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
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.patience.is_zero() && matches!(self.child.try_wait(), Ok(None)) {
            self.terminate();
            let patience = self.patience;
            let _ = self.code(patience);
        }
        // It may have ended by itself; killing a child that is reaped below is harmless.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
