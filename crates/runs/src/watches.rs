//! Figures of continuous measurement (`weir fleet watch`): a row for each pair and minute, and a row for each burst, change and
//! agent that appeared or is gone. They are in a file of their own, `watches.db`, for 30 days.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};
use weir_model::json::to_line;
use weir_model::watch::{Line, Minute};

use crate::{DataDirectory, StoreError};

/// Name of the file in the data directory.
const FILE: &str = "watches.db";
/// Rows are removed after this time, s.
const KEPT_SECONDS: u64 = 30 * 24 * 3600;
/// Timeout of waiting for another writer.
const BUSY_MS: u64 = 10_000;
/// `application_id` of the file: "WeiW".
const APPLICATION: i64 = 0x5765_6957;
/// The version of the layout, in `user_version`.
const LAYOUT: i64 = 1;

/// Stored figures of meshes.
#[derive(Debug)]
pub struct Watches {
    connection: Connection,
    path: PathBuf,
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
        let mut watches = Watches { connection, path: path.into() };
        watches.set_up()?;
        Ok(watches)
    }

    /// Creates the tables in an empty file; refuses other layouts and other programs' files.
    fn set_up(&mut self) -> Result<(), StoreError> {
        let fail = self.fail("open");
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(&fail)?;
        let get = |name| transaction.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let (version, application) = (get("user_version"), get("application_id"));
        let (version, application) = (version.map_err(&fail)?, application.map_err(&fail)?);
        let tables: i64 = transaction
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(&fail)?;
        match (application, version) {
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
        let create = "CREATE TABLE minutes (
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
                at INTEGER NOT NULL,
                line TEXT NOT NULL
            );
            CREATE INDEX events_by_time ON events (mesh, at);";
        transaction.execute_batch(create).map_err(&fail)?;
        transaction.pragma_update(None, "user_version", LAYOUT).map_err(&fail)?;
        transaction.pragma_update(None, "application_id", APPLICATION).map_err(&fail)?;
        transaction.commit().map_err(&fail)
    }

    fn fail(&self, operation: &'static str) -> impl Fn(rusqlite::Error) -> StoreError + use<> {
        let path = self.path.clone();
        move |source| StoreError::Database { operation, path: path.clone(), source }
    }

    /// Stores minutes and events of a mesh, and removes what is older than 30 days before `now_unix_seconds`. A minute that is stored
    /// already is replaced.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub fn add(
        &mut self,
        mesh: &str,
        minutes: &[Minute],
        events: &[Line],
        now_unix_seconds: u64,
    ) -> Result<(), StoreError> {
        let fail = self.fail("store figures");
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(&fail)?;
        {
            let insert = "INSERT OR REPLACE INTO minutes VALUES (?1, ?2, ?3, ?4, ?5)";
            let mut insert = transaction.prepare_cached(insert).map_err(&fail)?;
            for minute in minutes {
                // Maps with keys other than strings do not occur.
                let text = to_line(minute).unwrap_or_default();
                let at = minute.at_unix_seconds as i64;
                insert.execute(params![mesh, minute.from, minute.to, at, text]).map_err(&fail)?;
            }
            let insert = "INSERT INTO events (mesh, at, line) VALUES (?1, ?2, ?3)";
            let mut insert = transaction.prepare_cached(insert).map_err(&fail)?;
            for line in events {
                let text = to_line(line).unwrap_or_default();
                insert
                    .execute(params![mesh, line.at_unix_seconds() as i64, text])
                    .map_err(&fail)?;
            }
            let until = now_unix_seconds.saturating_sub(KEPT_SECONDS) as i64;
            for table in ["minutes", "events"] {
                let remove = format!("DELETE FROM {table} WHERE at < ?1");
                transaction.execute(&remove, [until]).map_err(&fail)?;
            }
        }
        transaction.commit().map_err(&fail)
    }

    /// The meshes that have figures, by name.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub fn meshes(&self) -> Result<Vec<String>, StoreError> {
        self.rows("SELECT DISTINCT mesh FROM minutes ORDER BY mesh", [])
    }

    /// The latest minute of each pair of a mesh.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::Unreadable`].
    pub fn latest(&self, mesh: &str) -> Result<Vec<Minute>, StoreError> {
        // Of the columns beside max() SQLite returns those of the row with the maximum.
        let sql = "SELECT minute FROM (SELECT minute, source, target, max(at) FROM minutes WHERE mesh = ?1
             GROUP BY source, target) ORDER BY source, target";
        self.parse(self.rows(sql, params![mesh])?)
    }

    /// Minutes of a pair from a time on, s since 1970, in order of time, at most `most`.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::Unreadable`].
    pub fn minutes(
        &self,
        mesh: &str,
        (from, to): (&str, &str),
        since_unix_seconds: u64,
        most: u32,
    ) -> Result<Vec<Minute>, StoreError> {
        let sql = "SELECT minute FROM minutes WHERE mesh = ?1 AND source = ?2 AND target = ?3 AND at >= ?4
             ORDER BY at LIMIT ?5";
        let since = i64::try_from(since_unix_seconds).unwrap_or(i64::MAX);
        self.parse(self.rows(sql, params![mesh, from, to, since, most])?)
    }

    /// Bursts, changes and states of agents of a mesh from a time on, s since 1970, in order of time: the latest `most`.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::Unreadable`].
    pub fn events(
        &self,
        mesh: &str,
        since_unix_seconds: u64,
        most: u32,
    ) -> Result<Vec<Line>, StoreError> {
        let sql =
            "SELECT line FROM (SELECT line, at, number FROM events WHERE mesh = ?1 AND at >= ?2
             ORDER BY at DESC, number DESC LIMIT ?3) ORDER BY at, number";
        let since = i64::try_from(since_unix_seconds).unwrap_or(i64::MAX);
        self.parse(self.rows(sql, params![mesh, since, most])?)
    }

    fn rows(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<String>, StoreError> {
        let fail = self.fail("read figures");
        let mut statement = self.connection.prepare_cached(sql).map_err(&fail)?;
        let rows = statement.query_map(values, |row| row.get(0)).map_err(&fail)?;
        rows.collect::<Result<_, _>>().map_err(&fail)
    }

    fn parse<T: serde::de::DeserializeOwned>(
        &self,
        rows: Vec<String>,
    ) -> Result<Vec<T>, StoreError> {
        let read = |text: String| {
            serde_json::from_str(&text).map_err(|error| StoreError::Unreadable {
                what: "a row".into(),
                path: self.path.clone(),
                reason: error.to_string(),
            })
        };
        rows.into_iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::watch::{BurstLine, PairFigures};

    fn minute(from: &str, to: &str, at: u64) -> Minute {
        let figures = PairFigures { sent_packets: at, ..PairFigures::default() };
        Minute { at_unix_seconds: at, from: from.into(), to: to.into(), figures }
    }

    fn burst(at: u64) -> Line {
        Line::Burst(BurstLine { at_unix_seconds: at as f64, ..BurstLine::default() })
    }

    #[test]
    fn minutes_and_events_are_stored_by_their_mesh() {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDirectory::in_directory(directory.path().join("weir"));
        assert!(Watches::open_existing(&data).unwrap().is_none());
        let mut watches = Watches::open_at(&data).unwrap();
        let rows = [minute("a", "b", 60), minute("a", "b", 120), minute("a", "c", 60)];
        watches.add("m", &rows, &[burst(5), burst(7)], 200).unwrap();
        watches.add("other", &[minute("a", "b", 600)], &[], 200).unwrap();
        drop(watches);
        let mut watches = Watches::open_existing(&data).unwrap().unwrap();
        assert_eq!(watches.meshes().unwrap(), ["m", "other"]);
        assert_eq!(watches.latest("m").unwrap(), [rows[1].clone(), rows[2].clone()]);
        assert_eq!(watches.minutes("m", ("a", "b"), 61, 10).unwrap(), [rows[1].clone()]);
        assert_eq!(watches.minutes("m", ("a", "b"), 0, 1).unwrap(), [rows[0].clone()]);
        assert_eq!(watches.events("m", 0, 10).unwrap(), [burst(5), burst(7)]);
        assert_eq!(watches.events("m", 0, 1).unwrap(), [burst(7)]);
        assert_eq!(watches.events("m", 6, 10).unwrap(), [burst(7)]);
        // Old rows go, and a minute is stored once.
        let again = Minute { figures: PairFigures::default(), ..minute("a", "c", 60) };
        watches.add("m", std::slice::from_ref(&again), &[], KEPT_SECONDS + 60).unwrap();
        assert_eq!(watches.latest("m").unwrap(), [rows[1].clone(), again]);
        assert!(watches.events("m", 0, 10).unwrap().is_empty());
    }

    #[test]
    fn another_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.db");
        drop(crate::Store::open(&path).unwrap());
        assert!(matches!(Watches::open(&path), Err(StoreError::Foreign { .. })));
        let path = directory.path().join("y.db");
        std::fs::write(
            &path,
            "no database, and longer than its head of a hundred bytes: ".repeat(9),
        )
        .unwrap();
        assert!(matches!(Watches::open(&path), Err(StoreError::Database { .. })));
    }
}
