//! Outcomes that NATS has not acknowledged yet, and how many times jobs without an outcome were started: a file each, so
//! that they survive the agent.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use weir_net::file::private;

use crate::document::Outcome;
use crate::error::Error;
use crate::names::JobId;
use weir_model::document;

const OUTCOME: &str = ".json";
const STARTS: &str = ".starts";

/// A directory with outcomes.
#[derive(Debug, Clone)]
pub(crate) struct Outbox(PathBuf);

impl Outbox {
    /// Opens or creates the directory.
    pub(crate) fn open(directory: &Path) -> Result<Outbox, Error> {
        fs::create_dir_all(directory).map_err(Error::file("create directory", directory))?;
        Ok(Outbox(directory.to_owned()))
    }

    fn path(&self, id: &JobId, suffix: &str) -> PathBuf {
        self.0.join(format!("{id}{suffix}"))
    }

    /// Stores an outcome; it is on the disk afterwards.
    pub(crate) fn put(&self, outcome: &Outcome) -> Result<(), Error> {
        let path = self.path(&outcome.id, OUTCOME);
        let write = || -> std::io::Result<()> {
            let file = self.write(&serde_json::to_vec(outcome)?)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            sync_directory(&self.0)
        };
        write().map_err(Error::file("store outcome", path))
    }

    /// A new file that has no final name yet.
    fn write(&self, text: &[u8]) -> std::io::Result<tempfile::NamedTempFile> {
        let mut file = tempfile::Builder::new().make_in(&self.0, |path| {
            private(fs::File::options().write(true).create_new(true)).open(path)
        })?;
        file.write_all(text)?;
        Ok(file)
    }

    /// The outcome of a job; `None` if there is none, or its file can't be read.
    pub(crate) fn get(&self, id: &JobId) -> Option<Outcome> {
        let text = fs::read(self.path(id, OUTCOME)).ok()?;
        document::parse_json(&text).ok()
    }

    /// How many times a job without an outcome was started.
    pub(crate) fn starts(&self, id: &JobId) -> u64 {
        let text = fs::read_to_string(self.path(id, STARTS)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    /// Stores how many times a job was started. An agent that is killed afterwards finds it; a host that loses power may
    /// not, because the job does not wait for the disk.
    pub(crate) fn put_starts(&self, id: &JobId, starts: u64) -> Result<(), Error> {
        let path = self.path(id, STARTS);
        let write = || -> std::io::Result<()> {
            self.write(starts.to_string().as_bytes())?.persist(&path)?;
            Ok(())
        };
        write().map_err(Error::file("store starts", path))
    }

    /// The jobs with an outcome here.
    pub(crate) fn jobs(&self) -> Result<Vec<JobId>, Error> {
        self.with_suffix(OUTCOME)
    }

    /// The jobs that were started and have no outcome, as far as this directory shows.
    pub(crate) fn started(&self) -> Result<Vec<JobId>, Error> {
        self.with_suffix(STARTS)
    }

    fn with_suffix(&self, suffix: &str) -> Result<Vec<JobId>, Error> {
        let entries = fs::read_dir(&self.0).map_err(Error::file("read directory", &self.0))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut jobs: Vec<JobId> =
            names.filter_map(|name| name.strip_suffix(suffix)?.parse().ok()).collect();
        jobs.sort();
        Ok(jobs)
    }

    /// Removes what is stored of a job that has left its queue; files that are already gone are no error.
    pub(crate) fn remove(&self, id: &JobId) -> Result<(), Error> {
        self.remove_starts(id)?;
        self.remove_file(id, OUTCOME)
    }

    /// Forgets how many times a job was started.
    pub(crate) fn remove_starts(&self, id: &JobId) -> Result<(), Error> {
        self.remove_file(id, STARTS)
    }

    fn remove_file(&self, id: &JobId, suffix: &str) -> Result<(), Error> {
        let path = self.path(id, suffix);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::file("remove", path)(error))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(unix)]
fn sync_directory(directory: &Path) -> std::io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::tests::outcome;

    #[test]
    fn outcomes_stay_until_they_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(&directory.path().join("outbox")).unwrap();
        let (one, two) = (outcome("1"), outcome("2"));
        outbox.put(&one).unwrap();
        outbox.put(&two).unwrap();
        outbox.put(&two).unwrap();
        fs::write(outbox.path(&"3".parse().unwrap(), OUTCOME), "not finis").unwrap();
        fs::write(directory.path().join("outbox/other"), "").unwrap();

        let again = Outbox::open(&directory.path().join("outbox")).unwrap();
        let ids: Vec<String> = again.jobs().unwrap().into_iter().map(String::from).collect();
        assert_eq!(ids, ["1", "2", "3"]);
        assert_eq!(again.get(&one.id), Some(one.clone()));
        assert_eq!(again.get(&"3".parse().unwrap()), None);
        again.remove(&one.id).unwrap();
        again.remove(&one.id).unwrap();
        assert_eq!(again.get(&one.id), None);
        assert_eq!(again.get(&two.id), Some(two));
    }

    #[test]
    fn starts_are_counted_until_there_is_an_outcome() {
        let directory = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(directory.path()).unwrap();
        let one = outcome("1");
        assert_eq!(outbox.starts(&one.id), 0);
        for starts in [1, 2] {
            outbox.put_starts(&one.id, starts).unwrap();
            assert_eq!(outbox.starts(&one.id), starts);
        }
        assert_eq!((outbox.started().unwrap().len(), outbox.jobs().unwrap().len()), (1, 0));
        fs::write(outbox.path(&"2".parse().unwrap(), STARTS), "-1").unwrap();
        assert_eq!(outbox.starts(&"2".parse().unwrap()), 0);
        outbox.put(&one).unwrap();
        outbox.remove(&one.id).unwrap();
        assert_eq!((outbox.starts(&one.id), outbox.get(&one.id)), (0, None));
    }
}
