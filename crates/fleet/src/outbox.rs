//! Outcomes that NATS has not acknowledged yet: one file each, so that they survive the agent.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use weir_net::file::private;

use crate::document::Outcome;
use crate::error::Error;
use crate::names::JobId;
use weir_model::document;

const SUFFIX: &str = ".json";

/// A directory with outcomes.
#[derive(Debug, Clone)]
pub(crate) struct Outbox(PathBuf);

impl Outbox {
    /// Opens or creates the directory.
    pub(crate) fn open(directory: &Path) -> Result<Outbox, Error> {
        fs::create_dir_all(directory).map_err(Error::file("create directory", directory))?;
        Ok(Outbox(directory.to_owned()))
    }

    fn path(&self, id: &JobId) -> PathBuf {
        self.0.join(format!("{id}{SUFFIX}"))
    }

    /// Stores an outcome; it is on the disk afterwards.
    pub(crate) fn put(&self, outcome: &Outcome) -> Result<(), Error> {
        let path = self.path(&outcome.id);
        let write = || -> std::io::Result<()> {
            let text = serde_json::to_vec(outcome)?;
            let mut file = tempfile::Builder::new().make_in(&self.0, |path| {
                private(fs::File::options().write(true).create_new(true)).open(path)
            })?;
            file.write_all(&text)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            sync_directory(&self.0)
        };
        write().map_err(Error::file("store outcome", path))
    }

    /// The outcome of a job; `None` if there is none, or its file can't be read.
    pub(crate) fn get(&self, id: &JobId) -> Option<Outcome> {
        let text = fs::read(self.path(id)).ok()?;
        document::parse_json(&text).ok()
    }

    /// The jobs with an outcome here.
    pub(crate) fn jobs(&self) -> Result<Vec<JobId>, Error> {
        let entries = fs::read_dir(&self.0).map_err(Error::file("read directory", &self.0))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut jobs: Vec<JobId> =
            names.filter_map(|name| name.strip_suffix(SUFFIX)?.parse().ok()).collect();
        jobs.sort();
        Ok(jobs)
    }

    /// Removes an outcome that NATS has; a file that is already gone is no error.
    pub(crate) fn remove(&self, id: &JobId) -> Result<(), Error> {
        match fs::remove_file(self.path(id)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::file("remove outcome", self.path(id))(error))
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
        fs::write(outbox.path(&"3".parse().unwrap()), "not finis").unwrap();
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
}
