//! Calibrations: the noise floor of a host, stored to be printed with its results.

use rusqlite::{OptionalExtension, params};
use serde_json::Value;

use crate::{Store, StoreError};

/// A stored calibration.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCalibration {
    /// Id.
    pub id: String,
    /// The calibrated host: homes may be shared between hosts.
    pub host: String,
    /// When, RFC 3339.
    pub at: String,
    /// What was measured.
    pub calibration: Value,
}

impl Store {
    /// Stores a calibration; one of the same id is replaced.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub fn put_calibration(&mut self, stored: &StoredCalibration) -> Result<(), StoreError> {
        let fail = self.fail("store the calibration");
        let transaction = self.write("store the calibration")?;
        let sql =
            "INSERT OR REPLACE INTO calibrations (id, host, at, calibration) VALUES (?, ?, ?, ?)";
        let values = params![stored.id, stored.host, stored.at, stored.calibration.to_string()];
        transaction.execute(sql, values).map_err(&fail)?;
        transaction.commit().map_err(fail)
    }

    /// The latest stored calibration of a host.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::Unreadable`].
    pub fn latest_calibration(&self, host: &str) -> Result<Option<StoredCalibration>, StoreError> {
        let sql = "SELECT id, host, at, calibration FROM calibrations WHERE host = ? ORDER BY number DESC LIMIT 1";
        let found = self
            .connection
            .query_row(sql, [host], |r| {
                Ok((r.get::<_, String>(0)?, r.get(1)?, r.get(2)?, r.get::<_, String>(3)?))
            })
            .optional()
            .map_err(self.fail("read the calibration"))?;
        let Some((id, host, at, text)) = found else { return Ok(None) };
        let calibration = serde_json::from_str(&text).map_err(|e| StoreError::Unreadable {
            what: format!("calibration {id}"),
            path: self.path().into(),
            reason: e.to_string(),
        })?;
        Ok(Some(StoredCalibration { id, host, at, calibration }))
    }
}
