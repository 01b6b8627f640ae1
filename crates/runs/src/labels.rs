//! Labels of stored runs: added and removed, in the record and in the index.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, params};

use crate::{Store, StoreError};

/// Maximum length of a key, bytes.
const MAX_KEY: usize = 256;
/// Maximum length of a value, bytes.
const MAX_VALUE: usize = 4096;

impl Store {
    /// The labels of a run.
    ///
    /// # Errors
    /// Those of [`Store::resolve`].
    pub fn labels(&self, selector: &str) -> Result<BTreeMap<String, String>, StoreError> {
        let id = self.resolve(selector)?;
        labels(&self.connection, &id).map_err(self.fail("read labels"))
    }

    /// All label keys of these runs.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub fn label_keys<S: AsRef<str>>(&self, ids: &[S]) -> Result<Vec<String>, StoreError> {
        let fail = self.fail("read labels");
        let mut keys = BTreeSet::new();
        for id in ids {
            keys.extend(labels(&self.connection, id.as_ref()).map_err(&fail)?.into_keys());
        }
        Ok(keys.into_iter().collect())
    }

    /// Sets labels of a run, replacing those with the same keys; returns its id.
    ///
    /// # Errors
    /// Those of [`Store::resolve`]; [`StoreError::Label`] for an invalid key or value; [`StoreError::Database`], then
    /// nothing was changed.
    pub fn tag<K: AsRef<str>, V: AsRef<str>>(
        &mut self,
        selector: &str,
        new: &[(K, V)],
    ) -> Result<String, StoreError> {
        for (key, value) in new {
            check(key.as_ref(), value.as_ref())?;
        }
        self.relabel(selector, |_, labels| {
            labels.extend(new.iter().map(|(k, v)| (k.as_ref().into(), v.as_ref().into())));
            Ok(())
        })
    }

    /// Removes the labels with these keys from a run, all or none; returns its id.
    ///
    /// # Errors
    /// Those of [`Store::resolve`]; [`StoreError::NoLabel`] for a key that it lacks; [`StoreError::Database`].
    pub fn untag<K: AsRef<str>>(
        &mut self,
        selector: &str,
        keys: &[K],
    ) -> Result<String, StoreError> {
        self.relabel(selector, |id, labels| {
            let missing = keys.iter().find(|k| !labels.contains_key(k.as_ref()));
            if let Some(key) = missing {
                return Err(StoreError::NoLabel {
                    id: id.into(),
                    key: key.as_ref().into(),
                    present: labels.keys().cloned().collect(),
                });
            }
            labels.retain(|key, _| !keys.iter().any(|k| k.as_ref() == key));
            Ok(())
        })
    }

    /// Changes the labels of a run, also in its record, which is what is exported. Only this member of the record is
    /// rewritten, so that unknown members of later versions stay.
    fn relabel(
        &mut self,
        selector: &str,
        change: impl FnOnce(&str, &mut BTreeMap<String, String>) -> Result<(), StoreError>,
    ) -> Result<String, StoreError> {
        let id = self.resolve(selector)?;
        let fail = self.fail("label a run");
        let transaction = self.write("label a run")?;
        let mut all = labels(&transaction, &id).map_err(&fail)?;
        change(&id, &mut all)?;
        let written = if all.is_empty() {
            let sql = "UPDATE records SET record = json_remove(record, '$.labels') WHERE run = ?1";
            transaction.execute(sql, params![id])
        } else {
            // A map of strings is JSON.
            let json = serde_json::to_string(&all).unwrap_or_default();
            let sql =
                "UPDATE records SET record = json_set(record, '$.labels', json(?2)) WHERE run = ?1";
            transaction.execute(sql, params![id, json])
        };
        written.map_err(&fail)?;
        transaction.execute("DELETE FROM labels WHERE run = ?", [&id]).map_err(&fail)?;
        insert_labels(&transaction, &id, &all).map_err(&fail)?;
        transaction.commit().map_err(fail)?;
        Ok(id)
    }
}

/// Inserts the labels of a run.
pub(crate) fn insert_labels(
    connection: &Connection,
    run: &str,
    labels: &BTreeMap<String, String>,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO labels (key, value, run) VALUES (?, ?, ?)";
    let mut statement = connection.prepare_cached(sql)?;
    labels.iter().try_for_each(|(key, value)| statement.execute(params![key, value, run]).map(drop))
}

fn labels(connection: &Connection, run: &str) -> rusqlite::Result<BTreeMap<String, String>> {
    let mut statement = connection.prepare_cached("SELECT key, value FROM labels WHERE run = ?")?;
    statement.query_map([run], |r| Ok((r.get(0)?, r.get(1)?)))?.collect()
}

/// Refuses an invalid label.
pub(crate) fn check(key: &str, value: &str) -> Result<(), StoreError> {
    let refuse = |reason| Err(StoreError::Label { label: format!("{key}={value}"), reason });
    if key.is_empty() || key.len() > MAX_KEY || key.contains('=') {
        return refuse("a key has 1 to 256 bytes and no '='");
    }
    if value.len() > MAX_VALUE {
        return refuse("a value has at most 4096 bytes");
    }
    if key.chars().chain(value.chars()).any(char::is_control) {
        return refuse("no control characters");
    }
    Ok(())
}
