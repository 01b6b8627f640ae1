//! Figures of continuous measurement (`weir fleet watch`): a row for each pair and minute, and a row for each burst, change and
//! agent that appeared or is gone. They are in a file of their own, `watches.db`, for 30 days. The latest figures of each pair, its
//! latest bursts and the state of each agent are in tables of their own, so that a view of a mesh reads no history.

mod latest;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use latest::{LatestBurst, LatestPair, MeshSummary};

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::{DataDirectory, StoreError};

/// Name of the file in the data directory.
const FILE: &str = "watches.db";
/// Timeout of waiting for another writer.
const BUSY_MS: u64 = 10_000;
/// `application_id` of the file: "WeiW".
const APPLICATION: i64 = 0x5765_6957;
/// The version of the layout, in `user_version`.
const LAYOUT: i64 = 1;

const CREATE: &str = "CREATE TABLE minutes (
        mesh TEXT NOT NULL,
        source TEXT NOT NULL,
        target TEXT NOT NULL,
        at INTEGER NOT NULL,
        minute TEXT NOT NULL,
        PRIMARY KEY (mesh, source, target, at)
    ) WITHOUT ROWID;
    CREATE INDEX minutes_by_time ON minutes (at);
    CREATE TABLE events (
        number INTEGER PRIMARY KEY,
        mesh TEXT NOT NULL,
        kind TEXT NOT NULL,
        source TEXT NOT NULL,
        target TEXT NOT NULL,
        at INTEGER NOT NULL,
        line TEXT NOT NULL
    );
    CREATE INDEX events_by_time ON events (at);
    CREATE INDEX events_by_pair ON events (mesh, kind, source, target, at);
    CREATE TABLE latest (
        mesh TEXT NOT NULL,
        source TEXT NOT NULL,
        target TEXT NOT NULL,
        at REAL NOT NULL,
        window_seconds REAL NOT NULL,
        sent INTEGER NOT NULL,
        loss REAL,
        median REAL,
        mean REAL,
        forward REAL,
        back REAL,
        error REAL,
        last_sent INTEGER NOT NULL,
        last_lost INTEGER NOT NULL,
        PRIMARY KEY (mesh, source, target)
    ) WITHOUT ROWID;
    CREATE TABLE latest_bursts (
        mesh TEXT NOT NULL,
        source TEXT NOT NULL,
        target TEXT NOT NULL,
        at REAL NOT NULL,
        rate REAL,
        PRIMARY KEY (mesh, source, target)
    ) WITHOUT ROWID;
    CREATE TABLE agents (
        mesh TEXT NOT NULL,
        agent TEXT NOT NULL,
        at INTEGER NOT NULL,
        is_connected INTEGER NOT NULL,
        line TEXT NOT NULL,
        PRIMARY KEY (mesh, agent)
    ) WITHOUT ROWID;";

/// Stored figures of meshes.
#[derive(Debug)]
pub struct Watches {
    connection: Connection,
    path: PathBuf,
    /// When old rows were last removed, s since 1970.
    pruned_at: u64,
}

impl Watches {
    /// Opens the file of this user, created if missing.
    ///
    /// # Errors
    /// As [`Watches::open`], and those of [`DataDirectory`].
    pub fn open_at(data: &DataDirectory) -> Result<Watches, StoreError> {
        Watches::open(&data.prepare_file(FILE)?)
    }

    /// Opens the file of this user if there is one.
    ///
    /// # Errors
    /// As [`Watches::open`].
    pub fn open_existing(data: &DataDirectory) -> Result<Option<Watches>, StoreError> {
        let path = data.directory().join(FILE);
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        Watches::open(&path).map(Some)
    }

    /// Opens a file, created if missing.
    ///
    /// # Errors
    /// [`StoreError::Database`] for a file that can't be opened, is damaged, locked or full, [`StoreError::Layout`],
    /// [`StoreError::Foreign`] for another program's database.
    pub fn open(path: &Path) -> Result<Watches, StoreError> {
        let fail = |source| StoreError::Database { operation: "open", path: path.into(), source };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(fail)?;
        connection.busy_timeout(std::time::Duration::from_millis(BUSY_MS)).map_err(fail)?;
        // A damaged or hostile file must not run SQL of its own.
        connection.pragma_update(None, "trusted_schema", false).map_err(fail)?;
        let mut watches = Watches { connection, path: path.into(), pruned_at: 0 };
        watches.set_up()?;
        Ok(watches)
    }

    /// Creates the tables in an empty file; refuses other layouts and other programs' files.
    fn set_up(&mut self) -> Result<(), StoreError> {
        let fail = self.fail("open");
        let versions = |connection: &Connection| -> rusqlite::Result<(i64, i64)> {
            let get = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
            Ok((get("application_id")?, get("user_version")?))
        };
        // Readers of a file that is in use take no lock of a writer.
        if versions(&self.connection).map_err(&fail)? == (APPLICATION, LAYOUT) {
            return Ok(());
        }
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(&fail)?;
        let tables: i64 = transaction
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(&fail)?;
        match versions(&transaction).map_err(&fail)? {
            (APPLICATION, LAYOUT) => return Ok(()),
            (APPLICATION, found) => {
                return Err(StoreError::Layout { path: self.path.clone(), found, known: LAYOUT });
            }
            (0, 0) if tables == 0 => {}
            _ => {
                let reason = "a database of another program".into();
                return Err(StoreError::Foreign { path: self.path.clone(), reason });
            }
        }
        transaction.execute_batch(CREATE).map_err(&fail)?;
        transaction.pragma_update(None, "user_version", LAYOUT).map_err(&fail)?;
        transaction.pragma_update(None, "application_id", APPLICATION).map_err(&fail)?;
        transaction.commit().map_err(&fail)
    }

    fn fail(&self, operation: &'static str) -> impl Fn(rusqlite::Error) -> StoreError + use<> {
        let path = self.path.clone();
        move |source| StoreError::Database { operation, path: path.clone(), source }
    }
}
