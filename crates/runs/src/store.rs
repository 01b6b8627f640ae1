//! The SQLite file: opening it, and storing, finding and removing runs.
//!
//! A rollback journal and not WAL: results are written once a test, homes may be on a network file system where
//! WAL's shared memory does not work, and a reader of a read-only directory needs no second file. Writers take the
//! lock at the start of a transaction and wait for each other for [`BUSY_MS`].

use std::io::Write;
use std::path::{Path, PathBuf};

use rusqlite::{
    Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params,
};
use weir_model::json::to_line;
use weir_model::record::{RUN_SCHEMA, Record};

use crate::StoreError;
use crate::data_directory::DataDirectory;
use crate::labels::insert_labels;
use crate::layout::{LAYOUT, create};
use crate::parameters::keep_parameters;
use crate::row::RunRow;
use crate::time::unix_ms_of;

/// Timeout of waiting for another writer.
const BUSY_MS: u64 = 10_000;
/// Creating the tables of an empty file.
const SET_UP: &str = "set up";
/// Memory for pages of the file, in KiB (negative, as SQLite wants it): a list of 100 000 runs reads each page once.
const CACHE_KIB: i64 = -32_768;
/// `application_id` of the file: "Weir".
const APPLICATION: i64 = 0x5765_6972;

/// The stored runs.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens the file of this user, created if missing.
    ///
    /// # Errors
    /// As [`Store::open`], and those of [`DataDirectory`].
    pub fn open_at(data: &DataDirectory) -> Result<Store, StoreError> {
        Store::open(&data.prepare()?)
    }

    /// Opens the file of this user if there is one; absent if nothing was stored yet. A read-only file still opens,
    /// and refuses writes.
    ///
    /// # Errors
    /// As [`Store::open_at`].
    pub fn open_existing(data: &DataDirectory) -> Result<Option<Store>, StoreError> {
        if data.file().symlink_metadata().is_ok() {
            Store::open_at(data).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Opens a file for reading and writing, created if missing.
    ///
    /// # Errors
    /// [`StoreError::Database`] for a file that can't be opened, is damaged, locked or full, [`StoreError::Layout`],
    /// [`StoreError::Foreign`] for another program's database.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut store = Store::connect(path, flags)?;
        store.set_up()?;
        Ok(store)
    }

    /// Opens a file for reading; writes are refused.
    ///
    /// # Errors
    /// As [`Store::open`]; also when the file does not exist or is empty.
    pub fn open_read_only(path: &Path) -> Result<Store, StoreError> {
        let store = Store::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        if store.version()? != LAYOUT {
            return Err(StoreError::Layout { path: path.into(), found: 0, known: LAYOUT });
        }
        Ok(store)
    }

    fn connect(path: &Path, flags: OpenFlags) -> Result<Store, StoreError> {
        let fail = |source| StoreError::Database { operation: "open", path: path.into(), source };
        // With NO_MUTEX SQLite omits its locks, since a connection is not shared by threads; without URI the name is always a path.
        let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(fail)?;
        connection.busy_timeout(std::time::Duration::from_millis(BUSY_MS)).map_err(fail)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(fail)?;
        // A damaged or hostile file must not run SQL of its own.
        connection.pragma_update(None, "trusted_schema", false).map_err(fail)?;
        connection.pragma_update(None, "cache_size", CACHE_KIB).map_err(fail)?;
        let store = Store { connection, path: path.into() };
        store.version()?;
        Ok(store)
    }

    /// The layout's version, 0 for an empty file; refuses other versions and other programs' files.
    fn version(&self) -> Result<i64, StoreError> {
        // One transaction, so that another program can't create the tables between the readings.
        let transaction = match self.connection.is_autocommit() {
            true => Some(self.connection.unchecked_transaction().map_err(self.fail("open"))?),
            false => None,
        };
        let get = |name| self.connection.pragma_query_value(None, name, |r| r.get::<_, i64>(0));
        let fail = self.fail("open");
        let (version, application) = (get("user_version"), get("application_id"));
        let (version, application) =
            (version.map_err(fail)?, application.map_err(self.fail("open"))?);
        let tables: i64 = self
            .connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))
            .map_err(self.fail("open"))?;
        drop(transaction);
        if application != APPLICATION && (application != 0 || version != 0 || tables != 0) {
            return Err(StoreError::Foreign {
                path: self.path.clone(),
                reason: "a database of another program".into(),
            });
        }
        if version != 0 && version != LAYOUT {
            let path = self.path.clone();
            return Err(StoreError::Layout { path, found: version, known: LAYOUT });
        }
        Ok(version)
    }

    /// Creates the tables in an empty file.
    fn set_up(&mut self) -> Result<(), StoreError> {
        if self.version()? == LAYOUT {
            return Ok(());
        }
        let fail = self.fail(SET_UP);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(&fail)?;
        // Another program may have created them while this one waited for the lock.
        let version: i64 =
            transaction.pragma_query_value(None, "user_version", |r| r.get(0)).map_err(&fail)?;
        if version == 0 {
            create(&transaction).map_err(&fail)?;
            transaction.pragma_update(None, "user_version", LAYOUT).map_err(&fail)?;
            transaction.pragma_update(None, "application_id", APPLICATION).map_err(&fail)?;
        }
        transaction.commit().map_err(&fail)
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Limits the file of this connection to this many pages, to test a full disk.
    #[doc(hidden)]
    pub fn set_page_limit_for_test(&self, pages: u32) -> Result<(), StoreError> {
        let sql = format!("PRAGMA max_page_count = {pages}");
        self.connection.query_row(&sql, [], |_| Ok(())).map_err(self.fail("limit"))
    }

    /// An error of this file.
    pub(crate) fn fail(
        &self,
        operation: &'static str,
    ) -> impl Fn(rusqlite::Error) -> StoreError + use<> {
        let path = self.path.clone();
        move |source| StoreError::Database { operation, path: path.clone(), source }
    }

    /// A transaction that holds the write lock from its start.
    pub(crate) fn write(&mut self, operation: &'static str) -> Result<Transaction<'_>, StoreError> {
        let fail = self.fail(operation);
        self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)
    }

    /// Stores a record.
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::Refused`] for an invalid id or schema, [`StoreError::Database`] if
    /// writing fails: the caller still has the record and can print it.
    pub fn insert(&mut self, record: &Record) -> Result<(), StoreError> {
        let fail = self.fail("store the run");
        let path = self.path.clone();
        let transaction = self.write("store the run")?;
        if !insert(&transaction, record, &fail)? {
            return Err(StoreError::Exists { id: record.id.clone(), path });
        }
        transaction.commit().map_err(fail)
    }

    /// The id that a selector matches: `last` for the newest run, `last~1` for the one before and so on, a complete
    /// id, or a unique prefix.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Ambiguous`], [`StoreError::Database`].
    pub fn resolve(&self, selector: &str) -> Result<String, StoreError> {
        let fail = self.fail("find a run");
        let not_found =
            || StoreError::NotFound { selector: selector.into(), path: self.path.clone() };
        if let Some(back) = back_from_last(selector) {
            let newest =
                "SELECT id FROM runs ORDER BY started_unix_ms DESC, id DESC LIMIT 1 OFFSET ?";
            let found = self.connection.query_row(newest, [back], |r| r.get(0)).optional();
            return found.map_err(fail)?.ok_or_else(not_found);
        }
        if selector.is_empty() {
            return Err(not_found());
        }
        // Ids are ASCII: all with the selector as prefix lie between it and this.
        let end = format!("{selector}\u{10ffff}");
        let sql = "SELECT id FROM runs WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 6";
        let mut statement = self.connection.prepare(sql).map_err(&fail)?;
        let found = statement.query_map(params![selector, end], |r| r.get::<_, String>(0));
        let mut ids: Vec<String> =
            found.map_err(&fail)?.collect::<Result<_, _>>().map_err(&fail)?;
        match ids.as_slice() {
            [] => Err(not_found()),
            [first, ..] if ids.len() == 1 || first == selector => Ok(ids.swap_remove(0)),
            _ => Err(StoreError::Ambiguous { selector: selector.into(), matches: ids }),
        }
    }

    /// The record that a selector matches (see [`Store::resolve`]).
    ///
    /// # Errors
    /// Those of [`Store::resolve`]; [`StoreError::Unreadable`] for a damaged record.
    pub fn get(&self, selector: &str) -> Result<Record, StoreError> {
        let id = self.resolve(selector)?;
        weir_model::document::parse_json(self.text(&id)?.as_bytes()).map_err(|e| {
            StoreError::Unreadable {
                what: format!("run {id}"),
                path: self.path.clone(),
                reason: e.to_string(),
            }
        })
    }

    /// Size of the record that a selector matches, bytes of JSON, which [`Store::get`] reads.
    ///
    /// # Errors
    /// Those of [`Store::resolve`].
    pub fn record_bytes(&self, selector: &str) -> Result<u64, StoreError> {
        let id = self.resolve(selector)?;
        let sql = "SELECT length(CAST(record AS BLOB)) FROM records WHERE run = ?";
        let found = self.connection.query_row(sql, [&id], |r| r.get::<_, i64>(0)).optional();
        let bytes = found
            .map_err(self.fail("read a run"))?
            .ok_or_else(|| StoreError::NotFound { selector: id, path: self.path.clone() })?;
        Ok(bytes.unsigned_abs())
    }

    /// The JSON of a stored record.
    fn text(&self, id: &str) -> Result<String, StoreError> {
        let sql = "SELECT record FROM records WHERE run = ?";
        let found = self.connection.query_row(sql, [id], |r| r.get(0)).optional();
        found
            .map_err(self.fail("read a run"))?
            .ok_or_else(|| StoreError::NotFound { selector: id.into(), path: self.path.clone() })
    }

    /// Removes the runs that the selectors match, all or none; returns their ids.
    ///
    /// # Errors
    /// Those of [`Store::resolve`].
    pub fn remove<S: AsRef<str>>(&mut self, selectors: &[S]) -> Result<Vec<String>, StoreError> {
        let mut ids =
            selectors.iter().map(|s| self.resolve(s.as_ref())).collect::<Result<Vec<_>, _>>()?;
        ids.sort_unstable();
        ids.dedup();
        let fail = self.fail("remove runs");
        let transaction = self.write("remove runs")?;
        for id in &ids {
            transaction.execute("DELETE FROM runs WHERE id = ?", [id]).map_err(&fail)?;
        }
        transaction.commit().map_err(fail)?;
        Ok(ids)
    }

    /// Writes the records that the selectors match, one per line, as stored.
    ///
    /// # Errors
    /// Those of [`Store::resolve`] before anything is written; [`StoreError::Export`] of the writer.
    pub fn export<S: AsRef<str>>(
        &self,
        selectors: &[S],
        out: &mut dyn Write,
    ) -> Result<(), StoreError> {
        let ids =
            selectors.iter().map(|s| self.resolve(s.as_ref())).collect::<Result<Vec<_>, _>>()?;
        for id in ids {
            let text = self.text(&id)?;
            let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n"));
            written.map_err(|source| StoreError::Export { id, source })?;
        }
        Ok(())
    }
}

/// The number of runs before the newest one that `last` or `last~2` means; absent for other selectors.
pub(crate) fn back_from_last(selector: &str) -> Option<u32> {
    match selector.strip_prefix("last")? {
        "" => Some(0),
        rest => rest.strip_prefix('~')?.parse().ok(),
    }
}

/// The reason why a record can't be stored, if there is one.
fn refusal(record: &Record) -> Option<String> {
    let id = &record.id;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if record.schema != RUN_SCHEMA {
        Some(format!("schema is {:?}; expected {RUN_SCHEMA:?}", record.schema))
    } else if id.is_empty() || id.len() > 64 || !id.chars().all(plain) || id.starts_with('-') {
        Some(
            "an id has 1 to 64 letters, digits, '-', '_' and '.', and does not start with '-'"
                .into(),
        )
    } else if id == "last" {
        Some("'last' means the newest run and can't be an id".into())
    } else {
        None
    }
}

/// Inserts a record; `false` if its id exists.
pub(crate) fn insert(
    transaction: &Transaction<'_>,
    record: &Record,
    fail: &dyn Fn(rusqlite::Error) -> StoreError,
) -> Result<bool, StoreError> {
    let refused = |reason| StoreError::Refused { id: record.id.chars().take(80).collect(), reason };
    if let Some(reason) = refusal(record) {
        return Err(refused(reason));
    }
    let text = to_line(record).map_err(|e| refused(e.to_string()))?;
    let row = RunRow::from(record);
    let new = transaction
        .execute(
            "INSERT INTO runs (id, started_unix_ms, started_at, title, host, transport,
                 forward_bits_per_second, reverse_bits_per_second, loss_ratio, warnings, status, version)
             VALUES (?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING",
            params![
                row.id,
                unix_ms_of(&row.started_at),
                row.started_at,
                row.title,
                row.host,
                row.transport,
                row.forward_bits_per_second,
                row.reverse_bits_per_second,
                row.loss_ratio,
                i64::try_from(row.warnings).unwrap_or(i64::MAX),
                row.status,
                row.version
            ],
        )
        .map_err(fail)?;
    if new == 0 {
        return Ok(false);
    }
    transaction
        .execute("INSERT INTO records (run, record) VALUES (?, ?)", params![record.id, text])
        .map_err(fail)?;
    keep_parameters(transaction, &record.id, record).map_err(fail)?;
    insert_labels(transaction, &record.id, &record.labels).map_err(fail)?;
    Ok(true)
}
