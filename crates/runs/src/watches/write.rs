//! Storing figures, and removing old ones.

use rusqlite::{Transaction, TransactionBehavior, params};
use weir_model::json::to_line;
use weir_model::watch::{AgentState, Line, Minute};

use super::{LatestPair, Watches};
use crate::StoreError;

/// Rows are removed after this time, s.
pub(super) const KEPT_SECONDS: u64 = 30 * 24 * 3600;
/// Between two removals of old rows, s.
const PRUNING_SECONDS: u64 = 60;

impl Watches {
    /// Stores minutes, events and the latest figures of pairs of a mesh, and removes what is older than 30 days before
    /// `now_unix_seconds`. A minute that is stored already and the latest figures of a pair are replaced.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub fn add<'a>(
        &mut self,
        mesh: &str,
        minutes: &[Minute],
        events: &[Line],
        latest: impl IntoIterator<Item = &'a LatestPair>,
        now_unix_seconds: u64,
    ) -> Result<(), StoreError> {
        let fail = self.fail("store figures");
        let is_pruned = now_unix_seconds.abs_diff(self.pruned_at) >= PRUNING_SECONDS;
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(&fail)?;
        let written = || -> rusqlite::Result<()> {
            write_minutes(&transaction, mesh, minutes)?;
            write_events(&transaction, mesh, events)?;
            write_latest(&transaction, mesh, latest)?;
            if is_pruned {
                prune(&transaction, now_unix_seconds.saturating_sub(KEPT_SECONDS) as i64)?;
            }
            Ok(())
        };
        written().map_err(&fail)?;
        transaction.commit().map_err(&fail)?;
        if is_pruned {
            self.pruned_at = now_unix_seconds;
        }
        Ok(())
    }
}

fn write_minutes(to: &Transaction, mesh: &str, minutes: &[Minute]) -> rusqlite::Result<()> {
    let mut insert =
        to.prepare_cached("INSERT OR REPLACE INTO minutes VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for minute in minutes {
        // Maps with keys other than strings do not occur.
        let text = to_line(minute).unwrap_or_default();
        let at = minute.at_unix_seconds as i64;
        insert.execute(params![mesh, minute.from, minute.to, at, text])?;
    }
    Ok(())
}

fn write_events(to: &Transaction, mesh: &str, events: &[Line]) -> rusqlite::Result<()> {
    let mut insert = to.prepare_cached(
        "INSERT INTO events (mesh, kind, source, target, at, line) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let mut burst =
        to.prepare_cached("INSERT OR REPLACE INTO latest_bursts VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let mut agent =
        to.prepare_cached("INSERT OR REPLACE INTO agents VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for line in events {
        let text = to_line(line).unwrap_or_default();
        let at = line.at_unix_seconds() as i64;
        let (kind, source, target) = match line {
            // They are the pair's latest figures and its minutes.
            Line::Start(_) | Line::Second(_) => continue,
            Line::Agent(line) => {
                let is_connected = line.state == AgentState::Connected;
                agent.execute(params![mesh, line.agent, at, is_connected, text])?;
                ("agent", &line.agent, "")
            }
            Line::Burst(line) => {
                let at = line.at_unix_seconds;
                burst.execute(params![mesh, line.from, line.to, at, line.bits_per_second])?;
                ("burst", &line.from, line.to.as_str())
            }
            Line::Change(line) => ("change", &line.from, line.to.as_str()),
        };
        insert.execute(params![mesh, kind, source, target, at, text])?;
    }
    Ok(())
}

fn write_latest<'a>(
    to: &Transaction,
    mesh: &str,
    latest: impl IntoIterator<Item = &'a LatestPair>,
) -> rusqlite::Result<()> {
    let mut insert = to.prepare_cached(
        "INSERT OR REPLACE INTO latest VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?;
    let integer = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    for pair in latest {
        insert.execute(params![
            mesh,
            pair.from,
            pair.to,
            pair.at_unix_seconds,
            pair.window_seconds,
            integer(pair.sent_packets),
            pair.loss_ratio,
            pair.round_trip_p50_seconds,
            pair.round_trip_mean_seconds,
            pair.forward_delay_seconds,
            pair.return_delay_seconds,
            pair.one_way_error_seconds,
            integer(pair.last_sent_packets),
            integer(pair.last_lost_packets),
        ])?;
    }
    Ok(())
}

/// Removes what is older than `until`. The state of an agent is removed once it has been gone for so long, or its mesh has no figures.
fn prune(from: &Transaction, until: i64) -> rusqlite::Result<()> {
    for table in ["minutes", "events", "latest", "latest_bursts"] {
        from.execute(&format!("DELETE FROM {table} WHERE at < ?1"), [until])?;
    }
    let agents = "DELETE FROM agents WHERE at < ?1
        AND (NOT is_connected OR mesh NOT IN (SELECT mesh FROM latest))";
    from.execute(agents, [until]).map(drop)
}
