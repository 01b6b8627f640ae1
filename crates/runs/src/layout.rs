//! The tables of the file.

use rusqlite::Transaction;

/// The version of the layout, in `user_version`.
pub(crate) const LAYOUT: i64 = 1;

/// Creates the tables in an empty file.
pub(crate) fn create(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "CREATE TABLE runs (
            id TEXT PRIMARY KEY NOT NULL,
            started_unix_ms INTEGER,
            started_at TEXT NOT NULL,
            title TEXT,
            host TEXT,
            transport TEXT NOT NULL,
            forward_bits_per_second REAL,
            reverse_bits_per_second REAL,
            loss_ratio REAL,
            warnings INTEGER NOT NULL,
            status TEXT NOT NULL,
            version TEXT NOT NULL,
            connections INTEGER
        );
        CREATE INDEX runs_by_start ON runs (started_unix_ms, id);
        CREATE INDEX runs_by_host ON runs (host, started_unix_ms, id);
        -- Records are apart, so that a list of many runs reads narrow rows.
        CREATE TABLE records (
            run TEXT PRIMARY KEY NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
            record TEXT NOT NULL
        );
        CREATE TABLE labels (
            key TEXT NOT NULL,
            value TEXT NOT NULL,
            run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
            PRIMARY KEY (key, value, run)
        ) WITHOUT ROWID;
        CREATE INDEX labels_by_run ON labels (run);
        CREATE TABLE connections (
            run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            transport TEXT NOT NULL,
            direction TEXT NOT NULL,
            family TEXT,
            payload_bytes INTEGER,
            rate_bits_per_second REAL,
            rate_packets_per_second REAL,
            duration_seconds REAL,
            PRIMARY KEY (run, number)
        ) WITHOUT ROWID;
        CREATE TABLE calibrations (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            host TEXT NOT NULL,
            at TEXT NOT NULL,
            calibration TEXT NOT NULL
        );
        CREATE INDEX calibrations_by_host ON calibrations (host, number);",
    )
}
