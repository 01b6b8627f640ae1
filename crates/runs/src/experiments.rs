//! Stored experiments: a checkpoint and a result each, as files next to the runs.
//!
//! `ID.checkpoint` is written while an experiment runs, and is needed to resume it; `ID.json` (`weir.experiment/1`)
//! is its result. The caller defines their content; this module finds the files, by id or selector.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use weir_model::record::Status;

use crate::store::back_from_last;
use crate::{DataDirectory, StoreError};

/// Maximum length of a result: that of a sweep of 100 000 runs has about 50 MB.
const MAX_RESULT_BYTES: u64 = 512 << 20;

/// The directory of stored experiments.
#[derive(Debug, Clone)]
pub struct Experiments {
    data: DataDirectory,
    directory: PathBuf,
}

impl Experiments {
    /// The experiments of a data directory; creates nothing.
    #[must_use]
    pub fn of(data: &DataDirectory) -> Experiments {
        Experiments { data: data.clone(), directory: data.directory().join("experiments") }
    }

    /// The experiments of a data directory, which is created if missing.
    ///
    /// # Errors
    /// Those of [`DataDirectory::prepare`].
    pub fn prepare(data: &DataDirectory) -> Result<Experiments, StoreError> {
        data.prepare_directory("experiments")?;
        Ok(Experiments::of(data))
    }

    /// The checkpoint of an experiment; it may not exist.
    #[must_use]
    pub fn checkpoint(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.checkpoint"))
    }

    /// The result of an experiment; it may not exist.
    #[must_use]
    pub fn result(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.json"))
    }

    /// All ids, the oldest first; none if nothing was stored yet.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn ids(&self) -> Result<Vec<String>, StoreError> {
        let fail =
            |source| StoreError::Io { operation: "read", path: self.directory.clone(), source };
        let entries = match std::fs::read_dir(&self.directory) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            entries => entries.map_err(fail)?,
        };
        let mut ids = vec![];
        for entry in entries {
            let path = PathBuf::from(entry.map_err(fail)?.file_name());
            if path.extension().is_some_and(|e| e == "checkpoint" || e == "json") {
                ids.extend(path.file_stem().map(|s| s.to_string_lossy().into_owned()));
            }
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// The ids that a selector matches: a complete id alone, else those with this prefix; `last` is the newest,
    /// `last~1` the one before.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn matching(&self, selector: &str) -> Result<Vec<String>, StoreError> {
        let mut ids = self.ids()?;
        if let Some(back) = back_from_last(selector) {
            return Ok(ids.into_iter().rev().skip(back as usize).take(1).collect());
        }
        if ids.iter().any(|id| id == selector) {
            return Ok(vec![selector.into()]);
        }
        ids.retain(|id| !selector.is_empty() && id.starts_with(selector));
        Ok(ids)
    }

    /// The one id that a selector matches (see [`Experiments::matching`]).
    ///
    /// # Errors
    /// [`StoreError::NoExperiment`], [`StoreError::SeveralExperiments`], [`StoreError::Io`].
    pub fn resolve(&self, selector: &str) -> Result<String, StoreError> {
        let mut found = self.matching(selector)?;
        match found.len() {
            1 => Ok(found.swap_remove(0)),
            0 => {
                let mut newest: Vec<String> = self.ids()?.into_iter().rev().take(3).collect();
                newest.reverse();
                Err(StoreError::NoExperiment {
                    selector: selector.into(),
                    path: self.directory.clone(),
                    newest,
                })
            }
            _ => Err(StoreError::SeveralExperiments { selector: selector.into(), matches: found }),
        }
    }

    /// The text of a result; absent for an experiment that has not ended.
    ///
    /// # Errors
    /// [`StoreError::Io`], also for one that is too long.
    pub fn read(&self, id: &str) -> Result<Option<String>, StoreError> {
        let path = self.result(id);
        let fail = |source| StoreError::Io { operation: "read", path: path.clone(), source };
        let file = match File::open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(fail)?,
        };
        let mut text = String::new();
        let length = file.take(MAX_RESULT_BYTES + 1).read_to_string(&mut text).map_err(fail)?;
        if length as u64 > MAX_RESULT_BYTES {
            return Err(fail(io::Error::from(io::ErrorKind::FileTooLarge)));
        }
        Ok(Some(text))
    }

    /// Stores a result; replaces an earlier one atomically.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn keep(&self, id: &str, text: &str) -> Result<(), StoreError> {
        let path = self.result(id);
        let fail = |source| StoreError::Io { operation: "write", path: path.clone(), source };
        let directory = path.parent().unwrap_or(Path::new("."));
        let mut part = tempfile::NamedTempFile::new_in(directory).map_err(fail)?;
        part.write_all(text.as_bytes()).and_then(|()| part.as_file().sync_all()).map_err(fail)?;
        self.data.give(part.as_file(), &path)?;
        part.persist(&path).map(drop).map_err(|refused| fail(refused.error))
    }

    /// The id of an experiment to resume: `last` is the newest incomplete one, `last~1` the one before.
    ///
    /// # Errors
    /// As [`Experiments::resolve`].
    pub fn unfinished(&self, selector: &str) -> Result<String, StoreError> {
        let Some(back) = back_from_last(selector) else { return self.resolve(selector) };
        let all = self.ids()?;
        if all.is_empty() {
            return self.resolve(selector);
        }
        let mut open = vec![];
        for id in all.into_iter().rev() {
            if self.is_open(&id) {
                open.push(id);
            }
            if open.len() as u64 > back as u64 {
                break;
            }
        }
        open.into_iter().nth(back as usize).ok_or_else(|| StoreError::NoUnfinished {
            selector: selector.into(),
            path: self.directory.clone(),
        })
    }

    /// Whether it can be resumed: it has a checkpoint and no result that is complete. It may be running.
    #[must_use]
    pub fn is_open(&self, id: &str) -> bool {
        self.checkpoint(id).is_file() && !self.is_complete(id)
    }

    /// Whether its result says that it is complete.
    fn is_complete(&self, id: &str) -> bool {
        #[derive(Deserialize)]
        struct Ended {
            status: Status,
        }
        // An unreadable result counts as incomplete.
        let text = self.read(id).ok().flatten().unwrap_or_default();
        serde_json::from_str::<Ended>(&text).is_ok_and(|ended| ended.status == Status::Complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(names: &[&str]) -> (tempfile::TempDir, Experiments) {
        let dir = tempfile::tempdir().unwrap();
        let experiments = Experiments::prepare(&DataDirectory::in_directory(dir.path())).unwrap();
        for name in names {
            std::fs::write(experiments.directory.join(name), "x").unwrap();
        }
        (dir, experiments)
    }

    #[test]
    fn a_selector_is_an_id_a_prefix_or_last() {
        let (_dir, all) = stored(&[
            "20261122-01-a.checkpoint",
            "20261122-01-a.json",
            "20261122-02-b.checkpoint",
            "x.txt",
        ]);
        assert_eq!(all.ids().unwrap(), ["20261122-01-a", "20261122-02-b"]);
        assert_eq!(all.resolve("last").unwrap(), "20261122-02-b");
        assert_eq!(all.resolve("last~1").unwrap(), "20261122-01-a");
        assert_eq!(all.resolve("20261122-01").unwrap(), "20261122-01-a");
        let several = all.resolve("2026").unwrap_err().to_string();
        assert!(several.contains("20261122-01-a, 20261122-02-b"), "{several}");
        for word in ["last~2", "nothing", "", "x"] {
            assert!(matches!(all.resolve(word), Err(StoreError::NoExperiment { .. })), "{word}");
        }
        let (_dir, none) = stored(&[]);
        std::fs::remove_dir(&none.directory).unwrap();
        assert!(none.ids().unwrap().is_empty());
    }

    #[test]
    fn a_complete_id_matches_even_if_it_is_a_prefix_of_another() {
        let (_dir, all) = stored(&["a.json", "ab.json"]);
        assert_eq!(all.resolve("a").unwrap(), "a");
    }

    #[test]
    fn a_result_replaces_an_earlier_one_or_leaves_it_unchanged() {
        let (_dir, all) = stored(&[]);
        assert_eq!(all.read("a").unwrap(), None);
        all.keep("a", "one").unwrap();
        all.keep("a", "two").unwrap();
        assert_eq!(all.read("a").unwrap().as_deref(), Some("two"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = all.result("a").metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "as private as the store");
        }
        // No temporary file is left, even if the result can't be replaced.
        std::fs::create_dir(all.result("b")).unwrap();
        assert!(matches!(all.keep("b", "three"), Err(StoreError::Io { .. })));
        assert_eq!(std::fs::read_dir(&all.directory).unwrap().count(), 2);
    }

    #[test]
    fn last_to_resume_is_the_newest_incomplete_experiment() {
        let (_dir, all) =
            stored(&["1.checkpoint", "2.checkpoint", "3.checkpoint", "4.checkpoint", "5.json"]);
        all.keep("2", r#"{"status":"interrupted"}"#).unwrap();
        all.keep("3", r#"{"status":"complete","steps":[]}"#).unwrap();
        assert_eq!(all.unfinished("last").unwrap(), "4", "it was killed or is running");
        assert_eq!(all.unfinished("last~1").unwrap(), "2");
        assert_eq!(all.unfinished("last~2").unwrap(), "1");
        assert!(matches!(all.unfinished("last~3"), Err(StoreError::NoUnfinished { .. })));
        assert_eq!(all.unfinished("3").unwrap(), "3", "any experiment by its id");
    }
}
