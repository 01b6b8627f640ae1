//! The layout of the file, and the steps that bring an older one to it.
//!
//! `user_version` counts the steps that were done. A step is never changed once a file may have gone through it; all
//! that are missing run in one transaction, so that a file is of one layout whatever happens.

use rusqlite::{OptionalExtension, Transaction, params};
use weir_model::record::Record;

use crate::parameters::keep_parameters;
use crate::row::RunRow;

type Step = fn(&Transaction<'_>) -> rusqlite::Result<()>;

const STEPS: [Step; 3] = [first, second, third];

/// The layout of this program.
pub(crate) const LAYOUT: i64 = STEPS.len() as i64;

/// Does the steps behind `version`.
pub(crate) fn bring_up_to_date(
    transaction: &Transaction<'_>,
    version: i64,
) -> rusqlite::Result<()> {
    STEPS.iter().skip(usize::try_from(version).unwrap_or(0)).try_for_each(|step| step(transaction))
}

fn first(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
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
            record TEXT NOT NULL
        );
        CREATE INDEX runs_by_start ON runs (started_unix_ms, id);
        CREATE INDEX runs_by_host ON runs (host, started_unix_ms, id);
        CREATE TABLE labels (
            key TEXT NOT NULL,
            value TEXT NOT NULL,
            run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
            PRIMARY KEY (key, value, run)
        ) WITHOUT ROWID;
        CREATE INDEX labels_by_run ON labels (run);
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

/// Records get a table of their own, so that a list of many runs reads narrow rows; and plans can be searched.
fn second(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "CREATE TABLE records (
            run TEXT PRIMARY KEY NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
            record TEXT NOT NULL
        );
        INSERT INTO records SELECT id, record FROM runs;
        ALTER TABLE runs DROP COLUMN record;
        ALTER TABLE runs ADD COLUMN connections INTEGER;
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
        ) WITHOUT ROWID;",
    )?;
    let mut records = transaction.prepare("SELECT run, record FROM records")?;
    let mut rows = records.query([])?;
    while let Some(row) = rows.next()? {
        let (run, text): (String, String) = (row.get(0)?, row.get(1)?);
        // A record that does not read is kept as it is: it has no parameters to be found by.
        if let Ok(record) = serde_json::from_str::<Record>(&text) {
            keep_parameters(transaction, &run, &record)?;
        }
    }
    Ok(())
}

/// The loss of runs that were cut short is taken from their records again: the first two layouts were also written by
/// versions that listed what a lost end had told of it as the loss of the run.
fn third(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut cut = transaction.prepare("SELECT id FROM runs WHERE status <> 'complete'")?;
    let cut: Vec<String> = cut.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut record = transaction.prepare("SELECT record FROM records WHERE run = ?")?;
    let mut keep = transaction.prepare("UPDATE runs SET loss_ratio = ? WHERE id = ?")?;
    for run in cut {
        let text: Option<String> = record.query_row([&run], |row| row.get(0)).optional()?;
        // What does not read stays as it is: there is nothing better to list it by.
        if let Some(Ok(record)) = text.map(|text| serde_json::from_str::<Record>(&text)) {
            keep.execute(params![RunRow::from(&record).loss_ratio, run])?;
        }
    }
    Ok(())
}
