//! What a program prints, by two sockets that the launcher connects its standard output and error to.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use super::MOST_PRINTED_BYTES;
use super::launcher::{Exit, Started};

/// Time for the launcher to connect.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest line that is taken: the record of a test of many flows.
const MOST_LINE_BYTES: u64 = 256 << 20;
/// Most that is kept of a program's words, and of one of them.
const MOST_WORDS_BYTES: usize = 16 << 10;

/// Two listening sockets, whose files go with it.
#[derive(Debug)]
pub(crate) struct Output {
    out: UnixListener,
    err: UnixListener,
    paths: [PathBuf; 2],
}

impl Drop for Output {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Output {
    pub(super) fn listen(directory: &Path, names: &[String; 2]) -> std::io::Result<Output> {
        let paths = [directory.join(&names[0]), directory.join(&names[1])];
        let (out, err) = (UnixListener::bind(&paths[0])?, UnixListener::bind(&paths[1])?);
        Ok(Output { out, err, paths })
    }

    /// Hands each line on, standard error's as [`Line::Words`]. Ends when the program has closed both.
    pub(crate) fn lines(self) -> mpsc::Receiver<Line> {
        // A program waits when nobody takes its lines: a bound on memory that a busy server can't pass.
        let (lines, inbox) = mpsc::channel(16);
        tokio::spawn(async move {
            let connected = tokio::time::timeout(CONNECT, async {
                tokio::try_join!(self.out.accept(), self.err.accept())
            });
            let Ok(Ok(((out, _), (err, _)))) = connected.await else { return };
            drop(self);
            tokio::join!(read(out, &lines, Line::Out), read(err, &lines, Line::Words));
        });
        inbox
    }
}

/// A line of a program.
#[derive(Debug)]
pub(crate) enum Line {
    /// Of its standard output.
    Out(String),
    /// Of its standard error.
    Words(String),
}

/// Hands on what a program prints until it has closed its output; how it ended, where the launcher is there to tell.
pub(super) async fn follow(started: Started, mut take: impl FnMut(Line)) -> Option<Exit> {
    if let Some(output) = started.output {
        let mut lines = output.lines();
        while let Some(line) = lines.recv().await {
            take(line);
        }
    }
    started.exit.await.ok()
}

/// What a program came to that prints one result.
pub(super) struct Told {
    /// What it printed, its beginning.
    pub(super) printed: String,
    /// What it said on standard error, its end.
    pub(super) words: String,
    pub(super) exit: Option<Exit>,
}

impl Told {
    /// Why it failed.
    pub(super) fn why(&self) -> String {
        why(&self.printed, &self.words, self.exit)
    }
}

/// Follows such a program to its end; `say` gets what it says on its way.
pub(super) async fn told(started: Started, mut say: impl FnMut(&str)) -> Told {
    let (mut printed, mut words) = (String::new(), String::new());
    let exit = follow(started, |line| match line {
        Line::Words(line) => {
            keep_words(&mut words, &line);
            say(&line);
        }
        Line::Out(line) if printed.len() < MOST_PRINTED_BYTES => {
            printed.push_str(&line);
            printed.push('\n');
        }
        Line::Out(_) => {}
    })
    .await;
    Told { printed, words, exit }
}

/// Why a program failed: the signal that killed it, or the error that it printed as `--json` has it, or what it said.
pub(super) fn why(printed: &str, words: &str, exit: Option<Exit>) -> String {
    let message = error_message(printed).unwrap_or_default();
    let said = words.trim().trim_start_matches("error: ");
    match exit.and_then(|e| e.signal) {
        Some(signal) => format!("its program was killed by signal {signal}"),
        None if !message.is_empty() => message,
        None if said.is_empty() => "its program ended without a word".into(),
        None => said.into(),
    }
}

async fn read(stream: UnixStream, lines: &mpsc::Sender<Line>, of: fn(String) -> Line) {
    let mut reader = BufReader::with_capacity(64 << 10, stream);
    loop {
        let mut line = Vec::new();
        match (&mut reader).take(MOST_LINE_BYTES).read_until(b'\n', &mut line).await {
            Ok(n) if n > 0 => {}
            _ => return,
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if lines.send(of(text)).await.is_err() {
            return;
        }
    }
}

/// Keeps the end of what a program said.
pub(crate) fn keep_words(words: &mut String, line: &str) {
    words.extend(line.chars().take(4096));
    words.push('\n');
    if words.len() > MOST_WORDS_BYTES {
        let mut cut = words.len() - MOST_WORDS_BYTES / 2;
        while !words.is_char_boundary(cut) {
            cut += 1;
        }
        words.drain(..cut);
    }
}

/// The words of an error, as text or as `--json` has it.
pub(crate) fn error_in(line: &str) -> String {
    error_message(line).unwrap_or_else(|| line.trim().trim_start_matches("error: ").to_owned())
}

fn error_message(text: &str) -> Option<String> {
    let parsed: Option<serde_json::Value> = serde_json::from_str(text).ok();
    parsed.and_then(|v| v["error"]["message"].as_str().map(str::to_owned))
}
