//! Reading stored figures.

use std::ops::Range;

use rusqlite::{Row, params};
use weir_model::watch::{AgentLine, BurstLine, ChangeLine, Line, Minute};

use super::{LatestBurst, LatestPair, MeshSummary, Watches};
use crate::StoreError;

/// Maximum number of minutes that one query reads: more than are stored.
const MAX_MINUTES: u32 = 31 * 24 * 60;

impl Watches {
    /// The meshes that have figures or agents, by name.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub fn meshes(&self) -> Result<Vec<MeshSummary>, StoreError> {
        let sql = "SELECT mesh, max(at), sum(agents), sum(connected), sum(pairs) FROM (
                SELECT mesh, max(at) AS at, 0 AS agents, 0 AS connected, count(*) AS pairs FROM latest GROUP BY mesh
                UNION ALL
                SELECT mesh, NULL, count(*), sum(is_connected), 0 FROM agents GROUP BY mesh
            ) GROUP BY mesh ORDER BY mesh";
        self.rows(sql, [], |row| {
            Ok(MeshSummary {
                name: row.get(0)?,
                at_unix_seconds: row.get(1)?,
                agents: count(row, 2)?,
                connected_agents: count(row, 3)?,
                pairs: count(row, 4)?,
            })
        })
    }

    /// The latest state of each agent of a mesh, by name.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::Unreadable`].
    pub fn agents(&self, mesh: &str) -> Result<Vec<AgentLine>, StoreError> {
        let sql = "SELECT line FROM agents WHERE mesh = ?1 ORDER BY agent";
        let lines = self.parse(self.texts(sql, [mesh])?)?;
        Ok(lines.into_iter().filter_map(agent_of).collect())
    }

    /// The latest figures of each pair of a mesh, by name.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub fn latest(&self, mesh: &str) -> Result<Vec<LatestPair>, StoreError> {
        let sql = "SELECT source, target, at, window_seconds, sent, loss, median, mean, forward, back, error, last_sent, last_lost
            FROM latest WHERE mesh = ?1 ORDER BY source, target";
        self.rows(sql, [mesh], |row| {
            Ok(LatestPair {
                from: row.get(0)?,
                to: row.get(1)?,
                at_unix_seconds: row.get(2)?,
                window_seconds: row.get(3)?,
                sent_packets: count(row, 4)?,
                loss_ratio: row.get(5)?,
                round_trip_p50_seconds: row.get(6)?,
                round_trip_mean_seconds: row.get(7)?,
                forward_delay_seconds: row.get(8)?,
                return_delay_seconds: row.get(9)?,
                one_way_error_seconds: row.get(10)?,
                last_sent_packets: count(row, 11)?,
                last_lost_packets: count(row, 12)?,
            })
        })
    }

    /// The latest burst of each direction of each pair of a mesh, by name.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub fn latest_bursts(&self, mesh: &str) -> Result<Vec<LatestBurst>, StoreError> {
        let sql = "SELECT source, target, at, rate FROM latest_bursts WHERE mesh = ?1
            ORDER BY source, target";
        self.rows(sql, [mesh], |row| {
            Ok(LatestBurst {
                from: row.get(0)?,
                to: row.get(1)?,
                at_unix_seconds: row.get(2)?,
                bits_per_second: row.get(3)?,
            })
        })
    }

    /// The agent that probes in the pair of these two, the first one if both do; `None` if they have no figures.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub fn probing<'a>(
        &self,
        mesh: &str,
        (one, other): (&'a str, &'a str),
    ) -> Result<Option<&'a str>, StoreError> {
        for (from, to) in [(one, other), (other, one)] {
            let sql = "SELECT source FROM latest WHERE mesh = ?1 AND source = ?2 AND target = ?3";
            if !self.texts(sql, [mesh, from, to])?.is_empty() {
                return Ok(Some(from));
            }
        }
        let sql = "SELECT source FROM latest_bursts WHERE mesh = ?1
            AND (source = ?2 AND target = ?3 OR source = ?3 AND target = ?2) LIMIT 1";
        Ok(self.texts(sql, [mesh, one, other])?.first().map(|_| one))
    }

    /// Reads the minutes of a pair that begin in a range of time, s since 1970, in order of time.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::Unreadable`].
    pub fn each_minute(
        &self,
        mesh: &str,
        (from, to): (&str, &str),
        during: Range<i64>,
        mut each: impl FnMut(Minute),
    ) -> Result<(), StoreError> {
        let sql = "SELECT minute FROM minutes WHERE mesh = ?1 AND source = ?2 AND target = ?3 AND at >= ?4 AND at < ?5
            ORDER BY at LIMIT ?6";
        let fail = self.fail("read figures");
        let mut statement = self.connection.prepare_cached(sql).map_err(&fail)?;
        let values = params![mesh, from, to, during.start, during.end, MAX_MINUTES];
        let mut rows = statement.query(values).map_err(&fail)?;
        while let Some(row) = rows.next().map_err(&fail)? {
            let text = row.get_ref(0).and_then(|text| Ok(text.as_str()?)).map_err(&fail)?;
            each(self.line(text)?);
        }
        Ok(())
    }

    /// Bursts from one agent to another in a range of time, s since 1970, in order of time: the latest `most`.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::Unreadable`].
    pub fn bursts(
        &self,
        mesh: &str,
        pair: (&str, &str),
        during: Range<i64>,
        most: u32,
    ) -> Result<Vec<BurstLine>, StoreError> {
        let lines = self.events(mesh, ("burst", pair), during, most)?;
        let burst = |line| if let Line::Burst(burst) = line { Some(burst) } else { None };
        Ok(lines.into_iter().filter_map(burst).collect())
    }

    /// Changes of a pair's figures in a range of time, s since 1970, in order of time: the latest `most`.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::Unreadable`].
    pub fn changes(
        &self,
        mesh: &str,
        pair: (&str, &str),
        during: Range<i64>,
        most: u32,
    ) -> Result<Vec<ChangeLine>, StoreError> {
        let lines = self.events(mesh, ("change", pair), during, most)?;
        let change = |line| if let Line::Change(change) = line { Some(change) } else { None };
        Ok(lines.into_iter().filter_map(change).collect())
    }

    fn events(
        &self,
        mesh: &str,
        (kind, (from, to)): (&str, (&str, &str)),
        during: Range<i64>,
        most: u32,
    ) -> Result<Vec<Line>, StoreError> {
        let sql = "SELECT line FROM (SELECT line, at, number FROM events
            WHERE mesh = ?1 AND kind = ?2 AND source = ?3 AND target = ?4 AND at >= ?5 AND at < ?6
            ORDER BY at DESC, number DESC LIMIT ?7) ORDER BY at, number";
        let values = params![mesh, kind, from, to, during.start, during.end, most];
        self.parse(self.texts(sql, values)?)
    }

    fn texts(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<String>, StoreError> {
        self.rows(sql, values, |row| row.get(0))
    }

    fn rows<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        read: impl FnMut(&Row) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let fail = self.fail("read figures");
        let mut statement = self.connection.prepare_cached(sql).map_err(&fail)?;
        let rows = statement.query_map(values, read).map_err(&fail)?;
        rows.collect::<Result<_, _>>().map_err(&fail)
    }

    fn parse(&self, rows: Vec<String>) -> Result<Vec<Line>, StoreError> {
        rows.iter().map(|text| self.line(text)).collect()
    }

    fn line<T: serde::de::DeserializeOwned>(&self, text: &str) -> Result<T, StoreError> {
        serde_json::from_str(text).map_err(|error| StoreError::Unreadable {
            what: "a row".into(),
            path: self.path.clone(),
            reason: error.to_string(),
        })
    }
}

fn agent_of(line: Line) -> Option<AgentLine> {
    if let Line::Agent(agent) = line { Some(agent) } else { None }
}

/// A column that counts.
fn count(row: &Row, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.max(0) as u64)
}
