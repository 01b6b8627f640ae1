//! The checkpoint of an experiment: one line per completed run, from which it can be resumed.
//!
//! The first line names the experiment and its first session. Each later line is a completed run, all runs of
//! concurrent steps together, or the start of a later session. A line is written and synchronised to disk before the
//! next run starts; a line truncated by a crash is dropped when the file is read again. The runs themselves are in
//! the store.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use weir_model::experiment::{HostUse, RunRef};
use weir_net::file::private;

/// Limits of reading: bytes per line and lines.
const MAX_LINE_BYTES: u64 = 256 << 20;
const MAX_LINES: usize = 1_000_000;
/// How long to wait for the lock of a program that has ended.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointHeader {
    /// `weir.checkpoint/1`.
    pub schema: String,
    /// The experiment's id.
    pub id: String,
    /// Start, RFC 3339.
    pub started_at: String,
    /// The text of the scenario.
    pub scenario: String,
    /// `--quick`.
    pub quick: bool,
    /// `--set`.
    pub set: weir_model::experiment::Variables,
    /// `--host`.
    #[serde(default)]
    pub hosts: BTreeMap<String, weir_model::experiment::HostSpec>,
    /// The seed.
    pub seed: weir_model::units::Seed,
    /// Directory that the scenario's relative paths refer to.
    pub directory: PathBuf,
    /// SHA-256 of each file that the scenario names.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The command line.
    pub command: Vec<String>,
    /// Who began it.
    pub session: Session,
}

/// The schema of the first line.
pub const CHECKPOINT_SCHEMA: &str = "weir.checkpoint/1";

/// One program that runs the experiment, from its start or resumed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its process.
    pub pid: u32,
    /// Start, RFC 3339.
    pub started_at: String,
    /// Version of Weir.
    pub version: String,
    /// The commit that it was built from, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Name of the host.
    pub host: String,
    /// The kernel's boot id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
}

impl Session {
    fn build(&self) -> (&str, Option<&str>) {
        (&self.version, self.commit.as_deref())
    }
}

/// The versions of sessions: one if all are of the same build, else each with its commit. Absent without sessions.
#[must_use]
pub(crate) fn versions(sessions: &[Session]) -> Option<String> {
    let first = sessions.first()?;
    if sessions.iter().all(|s| s.build() == first.build()) {
        return Some(first.version.clone());
    }
    let mut all: Vec<String> = vec![];
    for session in sessions {
        let commit = session.commit.as_deref().unwrap_or("unknown");
        let words = format!("{} (commit {commit})", session.version);
        if !all.contains(&words) {
            all.push(words);
        }
    }
    Some(all.join(", "))
}

/// Differences between sessions that may affect the figures: program, host, reboot.
#[must_use]
pub(crate) fn differences(sessions: &[Session]) -> Vec<String> {
    let mut out = vec![];
    for pair in sessions.windows(2) {
        let [before, after] = pair else { continue };
        let at = &after.started_at;
        if before.build() != after.build() {
            let both = versions(pair).unwrap_or_default();
            out.push(format!("resumed at {at} by another version: {both}"));
        }
        if before.host != after.host {
            out.push(format!("resumed at {at} on another host: {}, {}", before.host, after.host));
        } else if before.boot_id != after.boot_id {
            out.push(format!("resumed at {at} after {} was restarted", after.host));
        }
    }
    out
}

/// A later line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum CheckpointLine {
    /// The start of a later session.
    Session { session: Session },
    /// A host of the tests, when a run has used it first.
    Host { host: Box<HostUse> },
    /// All runs of concurrent steps: repeated together or not at all.
    Unit { unit: String, runs: Vec<StoredRun>, seconds: f64 },
    /// One run.
    Run(Box<StoredRun>),
}

/// A run and its key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredRun {
    /// Step, point, repetition and attempt.
    pub(super) key: String,
    pub(super) run: RunRef,
    /// Duration of the run.
    pub(super) seconds: f64,
}

/// A run of an earlier session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CompletedRun {
    /// What it measured.
    pub run: RunRef,
    /// Duration of the run.
    pub seconds: f64,
}

/// The checkpoint of a running experiment; without a file nothing is stored.
#[derive(Debug, Default)]
pub struct Checkpoint {
    file: Option<(LockedFile, PathBuf)>,
    done: HashMap<String, CompletedRun>,
    /// Runs without a complete result: repeated unless a later attempt is complete.
    failed: HashMap<String, CompletedRun>,
    sessions: Vec<Session>,
    hosts: Vec<HostUse>,
    seconds: f64,
}

/// The first line of a checkpoint, and whether a program has it locked. Neither changes the file nor waits.
///
/// # Errors
/// Those of the file; `InvalidData` when its first line is not of a checkpoint.
pub fn read_header(path: &Path) -> io::Result<(CheckpointHeader, bool)> {
    let file = File::open(path)?;
    let (_, head) = head(&mut BufReader::new(&file))?;
    Ok((head, LockedFile::lock(file).is_err()))
}

/// The sessions of a checkpoint, each with its number of runs, failed ones included. Does not change the file, which
/// may grow meanwhile.
///
/// # Errors
/// As [`read_header`]; `InvalidData` also when it has over a million lines.
pub fn read_sessions(path: &Path) -> io::Result<Vec<(Session, u64)>> {
    /// A later line without its runs, which are not needed in memory.
    #[derive(Deserialize)]
    struct Kind {
        session: Option<Session>,
        host: Option<IgnoredAny>,
    }
    let file = File::open(path)?;
    let mut reader = BufReader::new(&file);
    let (_, head) = head(&mut reader)?;
    let mut sessions = vec![(head.session, 0)];
    let mut lines = 0;
    while let Some(text) = next(&mut reader)? {
        let Ok(kind) = serde_json::from_str::<Kind>(&text) else { break };
        lines += 1;
        if lines > MAX_LINES {
            return Err(invalid("it has over a million lines"));
        }
        match (kind.session, sessions.last_mut()) {
            (Some(session), _) => sessions.push((session, 0)),
            (None, _) if kind.host.is_some() => {}
            (None, Some((_, runs))) => *runs += 1,
            (None, None) => {}
        }
    }
    Ok(sessions)
}

impl Checkpoint {
    /// Creates a checkpoint, readable by its owner alone.
    ///
    /// # Errors
    /// Those of the file, which must not exist yet. A file that could not be written is removed.
    pub fn create(path: &Path, head: &CheckpointHeader) -> io::Result<Checkpoint> {
        let mut options = OpenOptions::new();
        let file = private(options.append(true).create_new(true)).open(path)?;
        let file =
            LockedFile::lock(file).map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
        let mut checkpoint = Checkpoint {
            file: Some((file, path.into())),
            sessions: vec![head.session.clone()],
            ..Checkpoint::default()
        };
        let begun = serde_json::to_string(head).map_err(io::Error::other);
        if let Err(error) = begun.and_then(|line| checkpoint.append(&line)) {
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        Ok(checkpoint)
    }

    /// Opens the checkpoint of an earlier session. Everything after a damaged line is dropped from the file.
    ///
    /// If it is locked although `is_gone` says that the program of its last session has ended, a child of that
    /// program still holds a copy of the lock (between fork and exec): waits up to 10 s for it.
    ///
    /// # Errors
    /// Those of the file; `InvalidData` when its first line is not of a checkpoint; `ResourceBusy` while another
    /// program has it locked, with the process id.
    pub fn open(
        path: &Path,
        is_gone: impl Fn(&Session) -> bool,
    ) -> io::Result<(Checkpoint, CheckpointHeader)> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let (checkpoint, head) = Self::read(path)?;
            if checkpoint.file.is_some() {
                return Ok((checkpoint, head));
            }
            let last = checkpoint.sessions.last();
            let is_gone = last.is_some_and(&is_gone);
            if !is_gone || Instant::now() >= deadline {
                let pid = last.map_or(0, |s| s.pid);
                let text = match is_gone {
                    false => format!("another program is running this experiment: process {pid}"),
                    true => format!(
                        "a child of process {pid}, which has ended, still has its checkpoint locked"
                    ),
                };
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The content; without the file if another program has it locked.
    fn read(path: &Path) -> io::Result<(Checkpoint, CheckpointHeader)> {
        let file = OpenOptions::new().read(true).append(true).open(path)?;
        let locked = LockedFile::lock(file);
        let mut reader = BufReader::new(locked.as_ref().map_or_else(|other| other, |own| &own.0));
        let (first, head) = head(&mut reader)?;
        let mut checkpoint =
            Checkpoint { sessions: vec![head.session.clone()], ..Checkpoint::default() };
        let mut good = first;
        let mut lines = 0;
        while let Some(text) = next(&mut reader)? {
            let Ok(line) = weir_model::document::parse_json::<CheckpointLine>(text.as_bytes())
            else {
                break;
            };
            good += text.len() as u64;
            lines += 1;
            if lines > MAX_LINES {
                return Err(invalid("it has over a million lines"));
            }
            checkpoint.take(line);
        }
        if let Ok(file) = locked {
            file.0.set_len(good)?;
            checkpoint.file = Some((file, path.into()));
        }
        Ok((checkpoint, head))
    }

    fn take(&mut self, line: CheckpointLine) {
        match line {
            CheckpointLine::Session { session } => self.sessions.push(session),
            CheckpointLine::Host { host } => self.hosts.push(*host),
            CheckpointLine::Unit { runs, seconds, .. } => {
                self.seconds += seconds;
                runs.into_iter().for_each(|kept| self.remember(kept));
            }
            CheckpointLine::Run(kept) => {
                self.seconds += kept.seconds;
                self.remember(*kept);
            }
        }
    }

    fn remember(&mut self, StoredRun { key, run, seconds }: StoredRun) {
        let of = if run.error.is_none() { &mut self.done } else { &mut self.failed };
        of.insert(key, CompletedRun { run, seconds });
    }

    /// Starts another session.
    ///
    /// # Errors
    /// Those of the file.
    pub fn go_on(&mut self, session: Session) -> io::Result<()> {
        let line = CheckpointLine::Session { session };
        self.append(&serde_json::to_string(&line).map_err(io::Error::other)?)?;
        self.take(line);
        Ok(())
    }

    /// All sessions, including this one.
    #[must_use]
    pub(crate) fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// Stores hosts that are not known yet.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn saw_hosts(&mut self, hosts: &[HostUse]) -> io::Result<()> {
        for host in hosts {
            if !self.hosts.contains(host) {
                self.keep_line(CheckpointLine::Host { host: Box::new(host.clone()) })?;
            }
        }
        Ok(())
    }

    /// The hosts of all sessions.
    #[must_use]
    pub(super) fn hosts(&self) -> &[HostUse] {
        &self.hosts
    }

    /// A completed run of this or an earlier session. A failed run is not, unless a later attempt is complete.
    #[must_use]
    pub(crate) fn done(&self, key: &str) -> Option<&CompletedRun> {
        if let Some(done) = self.done.get(key) {
            return Some(done);
        }
        let (place, number) = key.rsplit_once('#')?;
        let (repetition, attempt) = number.split_once('.')?;
        let next = attempt.parse::<u32>().ok()?.checked_add(1)?;
        let failed = self.failed.get(key)?;
        self.done(&format!("{place}#{repetition}.{next}")).map(|_| failed)
    }

    /// Number of completed runs.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.done.len()
    }

    /// Number of completed repetitions: attempts of one repetition count once, each trial of a search counts.
    #[must_use]
    pub fn repetitions(&self) -> u64 {
        let place = |key: &'_ str| -> String {
            let (place, number) = key.rsplit_once('#').unwrap_or((key, ""));
            let repetition = number.split_once('.').map_or(number, |(repetition, _)| repetition);
            format!("{place}#{repetition}")
        };
        self.done.keys().map(|key| place(key)).collect::<HashSet<_>>().len() as u64
    }

    /// Time that all runs took, failed ones included; concurrent runs count once.
    #[must_use]
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Where it is.
    #[must_use]
    pub(crate) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(_, path)| path.as_path())
    }

    /// The file, to change its owner.
    #[must_use]
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref().map(|(file, _)| &file.0)
    }

    /// Stores a completed run.
    ///
    /// # Errors
    /// Those of the file; then no part of the line is left in it.
    pub(crate) fn keep(&mut self, key: &str, run: &RunRef, seconds: f64) -> io::Result<()> {
        self.keep_line(CheckpointLine::Run(Box::new(StoredRun {
            key: key.into(),
            run: run.clone(),
            seconds,
        })))
    }

    /// Stores the runs of concurrent steps in one line.
    ///
    /// # Errors
    /// As [`Checkpoint::keep`].
    pub(super) fn keep_unit(
        &mut self,
        unit: &str,
        runs: Vec<StoredRun>,
        seconds: f64,
    ) -> io::Result<()> {
        self.keep_line(CheckpointLine::Unit { unit: unit.into(), runs, seconds })
    }

    fn keep_line(&mut self, line: CheckpointLine) -> io::Result<()> {
        self.append(&serde_json::to_string(&line).map_err(io::Error::other)?)?;
        self.take(line);
        Ok(())
    }

    fn append(&mut self, text: &str) -> io::Result<()> {
        let Some((LockedFile(file), _)) = &mut self.file else { return Ok(()) };
        let before = file.metadata()?.len();
        let written =
            file.write_all(format!("{text}\n").as_bytes()).and_then(|()| file.sync_data());
        if written.is_err() {
            // The disk is full: a partial line would hide those after it.
            let _ = file.set_len(before);
        }
        written
    }
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.to_owned())
}

/// The next complete line.
fn next(reader: &mut BufReader<&File>) -> io::Result<Option<String>> {
    let mut line = String::new();
    match io::Read::take(&mut *reader, MAX_LINE_BYTES).read_line(&mut line) {
        Ok(_) if line.ends_with('\n') => Ok(Some(line)),
        Ok(_) => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::InvalidData => Ok(None),
        Err(e) => Err(e),
    }
}

/// The first line and its length.
fn head(reader: &mut BufReader<&File>) -> io::Result<(u64, CheckpointHeader)> {
    let first = next(reader)?.ok_or_else(|| invalid("it is empty"))?;
    let head: CheckpointHeader = weir_model::document::parse_json(first.as_bytes())
        .map_err(|e| invalid(&format!("its first line: {e}")))?;
    if head.schema != CHECKPOINT_SCHEMA {
        return Err(invalid(&format!("its schema is {:?}, not {CHECKPOINT_SCHEMA}", head.schema)));
    }
    Ok((first.len() as u64, head))
}

/// The file, locked until dropped: two programs would repeat each other's runs.
#[derive(Debug)]
struct LockedFile(File);

impl LockedFile {
    /// Locks the file; returns it if another program has it locked.
    fn lock(file: File) -> Result<LockedFile, File> {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(file),
            // An error means that the file system has no locks.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(LockedFile(file)),
        }
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Closing is not enough: a child between its fork and its exec has a copy of the descriptor, and so the lock.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> CheckpointHeader {
        CheckpointHeader {
            schema: CHECKPOINT_SCHEMA.into(),
            id: "x".into(),
            started_at: String::new(),
            scenario: "s".into(),
            quick: false,
            set: Default::default(),
            hosts: Default::default(),
            seed: weir_model::units::Seed(7),
            directory: "/".into(),
            files: [("plan.toml".to_owned(), "00".to_owned())].into(),
            command: vec![],
            session: session("0.1.0", None, "one", "x"),
        }
    }

    fn session(version: &str, commit: Option<&str>, host: &str, boot_id: &str) -> Session {
        Session {
            pid: 4711,
            started_at: "T".into(),
            version: version.into(),
            commit: commit.map(Into::into),
            host: host.into(),
            boot_id: Some(boot_id.into()),
        }
    }

    fn failed() -> RunRef {
        RunRef { error: Some("gone".into()), ..RunRef::default() }
    }

    fn run(value: f64) -> RunRef {
        RunRef { metrics: [("loss".to_owned(), value)].into(), ..RunRef::default() }
    }

    #[test]
    fn what_each_session_noted_is_counted_while_it_runs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.checkpoint");
        let mut checkpoint = Checkpoint::create(&path, &head()).unwrap();
        let counts = || -> Vec<u64> {
            read_sessions(&path).unwrap().into_iter().map(|(_, runs)| runs).collect()
        };
        assert_eq!(counts(), [0]);
        checkpoint.keep("a", &run(0.1), 1.0).unwrap();
        checkpoint.go_on(Session::default()).unwrap();
        // A host is no run.
        checkpoint.saw_hosts(&[HostUse::default()]).unwrap();
        assert_eq!(counts(), [1, 0]);
        checkpoint.keep("b", &run(0.1), 1.0).unwrap();
        let both = vec![
            StoredRun { key: "c".into(), run: run(0.1), seconds: 1.0 },
            StoredRun { key: "d".into(), run: run(0.1), seconds: 1.0 },
        ];
        checkpoint
            .keep_line(CheckpointLine::Unit { unit: "u".into(), runs: both, seconds: 1.0 })
            .unwrap();
        // Concurrent runs are one line; a truncated line is none.
        assert_eq!(counts(), [1, 2]);
        let mut text = std::fs::read(&path).unwrap();
        text.pop();
        std::fs::write(&path, text).unwrap();
        assert_eq!(counts(), [1, 1]);
    }

    #[test]
    fn a_look_reports_the_head_and_whether_it_is_locked_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let begun = head();
        let checkpoint = Checkpoint::create(&path, &begun).unwrap();
        assert_eq!(read_header(&path).unwrap(), (begun.clone(), true));
        drop(checkpoint);
        let mut more = File::options().append(true).open(&path).unwrap();
        more.write_all(b"cut by a cra").unwrap();
        let before = std::fs::read(&path).unwrap();
        assert_eq!(read_header(&path).unwrap(), (begun, false));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn hosts_are_there_again_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let of = |role: &str| HostUse { role: role.into(), ..HostUse::default() };
        let mut checkpoint = Checkpoint::create(&path, &head()).unwrap();
        checkpoint.saw_hosts(&[of("a"), of("b")]).unwrap();
        checkpoint.keep("a", &run(0.1), 1.0).unwrap();
        drop(checkpoint);
        let (mut checkpoint, _) = Checkpoint::open(&path, |_| false).unwrap();
        checkpoint.saw_hosts(&[of("b"), of("c")]).unwrap();
        assert_eq!(checkpoint.hosts(), [of("a"), of("b"), of("c")]);
        assert_eq!(checkpoint.len(), 1);
    }

    #[test]
    fn what_was_done_is_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let mut checkpoint = Checkpoint::create(&path, &head()).unwrap();
        checkpoint.keep("a", &run(0.1), 1.0).unwrap();
        checkpoint.keep("b", &run(0.2), 2.0).unwrap();
        drop(checkpoint);
        let (mut checkpoint, found) = Checkpoint::open(&path, |_| false).unwrap();
        assert_eq!(found, head());
        assert_eq!(checkpoint.len(), 2);
        assert_eq!(checkpoint.done("b"), Some(&CompletedRun { run: run(0.2), seconds: 2.0 }));
        assert_eq!(checkpoint.seconds(), 3.0);
        checkpoint.keep("c", &run(0.3), 3.0).unwrap();
        // One program at a time.
        let busy = Checkpoint::open(&path, |_| false).unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
        assert!(busy.to_string().contains("process 4711"), "{busy}");
        checkpoint.go_on(Session { pid: 4712, ..Session::default() }).unwrap();
        assert!(
            Checkpoint::open(&path, |_| false).unwrap_err().to_string().contains("process 4712")
        );
        drop(checkpoint);
        assert_eq!(Checkpoint::open(&path, |_| false).unwrap().0.len(), 3);
        assert!(Checkpoint::create(&path, &head()).is_err(), "never over another");
    }

    /// What a child has between its fork and its exec.
    #[test]
    fn a_copy_of_its_descriptor_does_not_keep_it_locked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let checkpoint = Checkpoint::create(&path, &head()).unwrap();
        let _copy = checkpoint.file().unwrap().try_clone().unwrap();
        assert_eq!(
            Checkpoint::open(&path, |_| false).unwrap_err().kind(),
            io::ErrorKind::ResourceBusy
        );
        drop(checkpoint);
        let (checkpoint, _) = Checkpoint::open(&path, |_| false).unwrap();
        let _copy = checkpoint.file().unwrap().try_clone().unwrap();
        drop(checkpoint);
        Checkpoint::open(&path, |_| false).unwrap();
    }

    #[test]
    fn what_a_program_that_is_gone_left_locked_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let checkpoint = Checkpoint::create(&path, &head()).unwrap();
        // It ends at the second look.
        let mut left = Some(checkpoint);
        let left = std::cell::RefCell::new((&mut left, 0));
        let is_gone = |session: &Session| {
            let (left, looks) = &mut *left.borrow_mut();
            *looks += 1;
            if *looks == 2 {
                **left = None;
            }
            session.pid == 4711
        };
        Checkpoint::open(&path, is_gone).unwrap();
        assert_eq!(left.borrow().1, 2);
    }

    /// Truncated anywhere, at most the run in progress is lost, and the checkpoint can be continued.
    #[test]
    fn a_line_cut_by_a_crash_costs_that_run_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let mut checkpoint = Checkpoint::create(&path, &head()).unwrap();
        let head_bytes = std::fs::metadata(&path).unwrap().len() as usize;
        checkpoint.keep("a", &run(0.1), 1.0).unwrap();
        let one = std::fs::metadata(&path).unwrap().len() as usize;
        checkpoint.keep("b", &run(0.2), 2.0).unwrap();
        drop(checkpoint);
        let bytes = std::fs::read(&path).unwrap();
        for cut in head_bytes..bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let (mut checkpoint, _) = Checkpoint::open(&path, |_| false).unwrap();
            assert_eq!(checkpoint.len(), usize::from(cut >= one), "cut at {cut}");
            checkpoint.keep("b", &run(0.2), 2.0).unwrap();
            drop(checkpoint);
            assert!(
                Checkpoint::open(&path, |_| false).unwrap().0.done("b").is_some(),
                "cut at {cut}"
            );
        }
    }

    /// A failed run is repeated; its time counts nevertheless.
    #[test]
    fn a_run_that_failed_is_not_done() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let mut checkpoint = Checkpoint::create(&path, &head()).unwrap();
        checkpoint.keep("a#1", &failed(), 1.0).unwrap();
        checkpoint.keep("b#1.0", &failed(), 2.0).unwrap();
        assert_eq!(
            (checkpoint.done("a#1"), checkpoint.done("b#1.0"), checkpoint.len()),
            (None, None, 0)
        );
        checkpoint.keep("b#1.1", &failed(), 4.0).unwrap();
        checkpoint.keep("b#1.2", &run(0.1), 8.0).unwrap();
        drop(checkpoint);
        let (mut checkpoint, _) = Checkpoint::open(&path, |_| false).unwrap();
        assert_eq!((checkpoint.done("a#1"), checkpoint.seconds()), (None, 15.0));
        // Attempts that another one replaced are not made again.
        assert!(checkpoint.done("b#1.0").is_some() && checkpoint.done("b#1.1").is_some());
        assert_eq!(checkpoint.done("b#1.3"), None);
        checkpoint.keep("a#1", &run(0.2), 1.0).unwrap();
        drop(checkpoint);
        assert!(Checkpoint::open(&path, |_| false).unwrap().0.done("a#1").is_some());
    }

    #[test]
    fn a_run_that_was_made_again_counts_once() {
        let mut checkpoint = Checkpoint::default();
        for key in ["a|size=1#1.0", "a|size=1#1.1", "a|size=1#2.0", "a|size=2#1.0", "b#1", "b#2"] {
            checkpoint.keep(key, &run(0.1), 1.0).unwrap();
        }
        checkpoint.keep("c#1", &failed(), 1.0).unwrap();
        assert_eq!((checkpoint.len(), checkpoint.repetitions()), (6, 5));
    }

    #[test]
    fn runs_at_the_same_time_are_done_together_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let mut checkpoint = Checkpoint::create(&path, &head()).unwrap();
        let before = std::fs::metadata(&path).unwrap().len() as usize;
        let kept = |key: &str| StoredRun { key: key.into(), run: run(0.5), seconds: 3.0 };
        checkpoint.keep_unit("p", vec![kept("p/a#1"), kept("p/b#1")], 4.0).unwrap();
        drop(checkpoint);
        let bytes = std::fs::read(&path).unwrap();
        for cut in before..=bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let (checkpoint, _) = Checkpoint::open(&path, |_| false).unwrap();
            let found = (checkpoint.done("p/a#1").is_some(), checkpoint.done("p/b#1").is_some());
            let whole = cut == bytes.len();
            assert_eq!(
                (found, checkpoint.seconds()),
                ((whole, whole), if whole { 4.0 } else { 0.0 })
            );
        }
    }

    #[test]
    fn sessions_of_other_programs_and_hosts_are_reported() {
        let of = |sessions: &[Session]| (versions(sessions), differences(sessions));
        let first = session("0.1.0", Some("abc"), "one", "x");
        assert_eq!(of(&[]), (None, vec![]));
        assert_eq!(of(&[first.clone(), first.clone()]), (Some("0.1.0".into()), vec![]));
        let (version, words) = of(&[first.clone(), session("0.1.0", Some("def"), "one", "x")]);
        assert_eq!(version.unwrap(), "0.1.0 (commit abc), 0.1.0 (commit def)");
        assert_eq!(words.len(), 1);
        assert!(words[0].contains(" T ") && words[0].contains("(commit def)"), "{words:?}");
        let (_, words) = of(&[first.clone(), session("0.1.0", Some("abc"), "two", "y")]);
        assert!(words.len() == 1 && words[0].ends_with("one, two"), "{words:?}");
        let (_, words) = of(&[first, session("0.1.0", Some("abc"), "one", "y")]);
        assert!(words.len() == 1 && words[0].contains(" one "), "{words:?}");
    }

    #[cfg(unix)]
    #[test]
    fn it_has_mode_0600_and_replaces_nothing() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        drop(Checkpoint::create(&path, &head()).unwrap());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Checkpoint::create(&path, &head()).is_err(), "an earlier one is not overwritten");
    }

    #[test]
    fn what_is_no_checkpoint_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        for bytes in [&b""[..], b"{}\n", b"\xff\xff\n", b"[1]\n"] {
            std::fs::write(&path, bytes).unwrap();
            assert!(Checkpoint::open(&path, |_| false).is_err());
        }
    }
}
