//! What an experiment has done, a line at a time, so that it can go on after any interruption.
//!
//! The first line names the experiment; each later one is a run that ended. A line is written whole and synchronised before
//! the next run begins; one that was cut by a crash is dropped when the file is read again. The runs themselves are in the
//! store.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weir_model::experiment::RunRef;

/// A journal is read up to this many bytes a line and so many lines.
const MOST_LINE_BYTES: u64 = 16 << 20;
const MOST_LINES: usize = 1_000_000;

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// `weir.journal/1`.
    pub schema: String,
    /// The experiment's id.
    pub id: String,
    /// Start, RFC 3339.
    pub started_at: String,
    /// The scenario's text, as it was.
    pub scenario: String,
    /// `--quick`.
    pub quick: bool,
    /// `--set`.
    pub set: weir_model::experiment::Variables,
    /// `--host`.
    #[serde(default)]
    pub hosts: std::collections::BTreeMap<String, weir_model::experiment::HostSpec>,
    /// The seed.
    pub seed: weir_model::units::Seed,
    /// Directory that the scenario's files are beside.
    pub directory: PathBuf,
    /// The command as it was given.
    pub command: Vec<String>,
}

/// The schema of the first line.
pub const JOURNAL_SCHEMA: &str = "weir.journal/1";

/// A later line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Line {
    /// Which run: step, point, repetition, attempt.
    key: String,
    run: RunRef,
    /// Time that it took.
    seconds: f64,
}

/// A run of an earlier session.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// What it measured.
    pub run: RunRef,
    /// How long it took.
    pub seconds: f64,
}

/// The journal of an experiment that runs; without a file it forgets.
#[derive(Debug, Default)]
pub struct Journal {
    file: Option<(File, PathBuf)>,
    done: HashMap<String, Done>,
}

impl Journal {
    /// A new one.
    ///
    /// # Errors
    /// Those of the file, which must not exist yet. Nothing is left of one that could not be begun.
    pub fn create(path: &Path, head: &Head) -> io::Result<Journal> {
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        alone(&file)?;
        let mut journal = Journal { file: Some((file, path.into())), done: HashMap::new() };
        let begun = serde_json::to_string(head).map_err(io::Error::other);
        if let Err(error) = begun.and_then(|line| journal.append(&line)) {
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        Ok(journal)
    }

    /// One of an earlier session. What follows a broken line is dropped from the file.
    ///
    /// # Errors
    /// Those of the file; `InvalidData` when its first line is not of a journal, `ResourceBusy` while another program has it.
    pub fn open(path: &Path) -> io::Result<(Journal, Head)> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        alone(&file)?;
        let invalid = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_owned());
        let mut reader = BufReader::new(&file);
        let mut whole = 0u64;
        let mut next = |reader: &mut BufReader<&File>| -> io::Result<Option<String>> {
            let mut line = String::new();
            let read = io::Read::take(&mut *reader, MOST_LINE_BYTES).read_line(&mut line);
            match read {
                Ok(n) if line.ends_with('\n') => {
                    whole += n as u64;
                    Ok(Some(line))
                }
                Ok(_) => Ok(None),
                Err(e) if e.kind() == io::ErrorKind::InvalidData => Ok(None),
                Err(e) => Err(e),
            }
        };
        let first = next(&mut reader)?.ok_or_else(|| invalid("it is empty"))?;
        let head: Head =
            serde_json::from_str(&first).map_err(|e| invalid(&format!("its first line: {e}")))?;
        if head.schema != JOURNAL_SCHEMA {
            return Err(invalid(&format!("its schema is {:?}, not {JOURNAL_SCHEMA}", head.schema)));
        }
        let mut done = HashMap::new();
        let mut good = 0;
        while let Some(text) = next(&mut reader)? {
            let Ok(line) = serde_json::from_str::<Line>(&text) else { break };
            good += text.len() as u64;
            done.insert(line.key, Done { run: line.run, seconds: line.seconds });
            if done.len() > MOST_LINES {
                return Err(invalid("it has over a million lines"));
            }
        }
        let end = first.len() as u64 + good;
        file.set_len(end)?;
        let mut file = file;
        io::Seek::seek(&mut file, io::SeekFrom::Start(end))?;
        Ok((Journal { file: Some((file, path.into())), done }, head))
    }

    /// A run that was done in an earlier session, or before in this one.
    #[must_use]
    pub fn done(&self, key: &str) -> Option<&Done> {
        self.done.get(key)
    }

    /// Runs that are done.
    #[must_use]
    pub fn len(&self) -> usize {
        self.done.len()
    }

    /// Whether no run is done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// Time that the runs in it took, each counted by itself.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.done.values().map(|done| done.seconds).sum()
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(_, path)| path.as_path())
    }

    /// Keeps a run that ended.
    ///
    /// # Errors
    /// Those of the file: nothing of the line is left in it then.
    pub fn keep(&mut self, key: &str, run: &RunRef, seconds: f64) -> io::Result<()> {
        let line = Line { key: key.into(), run: run.clone(), seconds };
        self.append(&serde_json::to_string(&line).map_err(io::Error::other)?)?;
        self.done.insert(key.into(), Done { run: run.clone(), seconds });
        Ok(())
    }

    fn append(&mut self, text: &str) -> io::Result<()> {
        let Some((file, _)) = &mut self.file else { return Ok(()) };
        let before = file.metadata()?.len();
        let written =
            file.write_all(format!("{text}\n").as_bytes()).and_then(|()| file.sync_data());
        if written.is_err() {
            // A full disk: half a line would hide those after it.
            let _ = file.set_len(before);
        }
        written
    }
}

/// Locks a journal until it is closed: lines of two programs would each be whole, but runs be made twice.
fn alone(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another program is running this experiment",
        )),
        // A file system without locks: there is no more to be had.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            schema: JOURNAL_SCHEMA.into(),
            id: "x".into(),
            started_at: String::new(),
            scenario: "s".into(),
            quick: false,
            set: Default::default(),
            hosts: Default::default(),
            seed: weir_model::units::Seed(7),
            directory: "/".into(),
            command: vec![],
        }
    }

    fn run(value: f64) -> RunRef {
        RunRef { metrics: [("loss".to_owned(), value)].into(), ..RunRef::default() }
    }

    #[test]
    fn what_was_done_is_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let mut journal = Journal::create(&path, &head()).unwrap();
        journal.keep("a", &run(0.1), 1.0).unwrap();
        journal.keep("b", &run(0.2), 2.0).unwrap();
        drop(journal);
        let (mut journal, found) = Journal::open(&path).unwrap();
        assert_eq!(found, head());
        assert_eq!(journal.len(), 2);
        assert_eq!(journal.done("b"), Some(&Done { run: run(0.2), seconds: 2.0 }));
        assert_eq!(journal.seconds(), 3.0);
        journal.keep("c", &run(0.3), 3.0).unwrap();
        // One program at a time.
        assert_eq!(Journal::open(&path).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        drop(journal);
        assert_eq!(Journal::open(&path).unwrap().0.len(), 3);
        assert!(Journal::create(&path, &head()).is_err(), "never over another");
    }

    /// Cut anywhere, at most the run in progress is lost, and the journal goes on.
    #[test]
    fn a_line_cut_by_a_crash_costs_that_run_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let mut journal = Journal::create(&path, &head()).unwrap();
        let head_bytes = std::fs::metadata(&path).unwrap().len() as usize;
        journal.keep("a", &run(0.1), 1.0).unwrap();
        let one = std::fs::metadata(&path).unwrap().len() as usize;
        journal.keep("b", &run(0.2), 2.0).unwrap();
        drop(journal);
        let bytes = std::fs::read(&path).unwrap();
        for cut in head_bytes..bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let (mut journal, _) = Journal::open(&path).unwrap();
            assert_eq!(journal.len(), usize::from(cut >= one), "cut at {cut}");
            journal.keep("b", &run(0.2), 2.0).unwrap();
            drop(journal);
            assert!(Journal::open(&path).unwrap().0.done("b").is_some(), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_journal_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        for bytes in [&b""[..], b"{}\n", b"\xff\xff\n", b"[1]\n"] {
            std::fs::write(&path, bytes).unwrap();
            assert!(Journal::open(&path).is_err());
        }
    }
}
