//! The filter of a list of runs, as SQL.
//!
//! A list walks the index of starts backwards and checks the conditions of each run, so that the first page is
//! immediate and the last one costs one pass over narrow rows. All values are bound, none is written into SQL.

use rusqlite::Row;
use rusqlite::types::Value;

use crate::condition::Condition;
use crate::row::RunRow;
use crate::{Store, StoreError};

/// Runs by whether they are part of an experiment.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// Both.
    #[default]
    All,
    /// Tests that are not part of an experiment.
    Tests,
    /// Runs of experiments.
    Experiments,
}

/// Which runs to list, newest first. All conditions must hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filter {
    /// Maximum number; absent: all.
    pub limit: Option<u32>,
    /// Started at or after this, milliseconds since 1970.
    pub since_unix_ms: Option<i64>,
    /// Started before this.
    pub until_unix_ms: Option<i64>,
    /// The peer's name or address as given, exactly.
    pub host: Option<String>,
    /// Labels: key and, when given, value.
    pub labels: Vec<(String, Option<String>)>,
    /// Whether the runs are part of an experiment.
    pub kind: RunKind,
    /// Text in the title; A to Z match in either case.
    pub title: Option<String>,
    /// Parameters and results. Those of a connection must hold for the same connection.
    pub conditions: Vec<Condition>,
}

impl Filter {
    /// The `WHERE` of this filter, and the values of its question marks.
    fn sql(&self) -> (String, Vec<Value>) {
        let mut sql = String::from(" WHERE 1");
        let mut values: Vec<Value> = vec![];
        let mut and = |condition: &str, more: Vec<Value>| {
            sql += " AND ";
            sql += condition;
            values.extend(more);
        };
        if let Some(since) = self.since_unix_ms {
            and("started_unix_ms >= ?", vec![since.into()]);
        }
        if let Some(until) = self.until_unix_ms {
            and("started_unix_ms < ?", vec![until.into()]);
        }
        if let Some(host) = &self.host {
            and("host = ?", vec![host.clone().into()]);
        }
        for (key, value) in &self.labels {
            let of_key = "EXISTS (SELECT 1 FROM labels WHERE labels.run = runs.id AND key = ?";
            match value {
                Some(value) => and(
                    &format!("{of_key} AND value = ?)"),
                    vec![key.clone().into(), value.clone().into()],
                ),
                None => and(&format!("{of_key})"), vec![key.clone().into()]),
            }
        }
        let of_experiment =
            "EXISTS (SELECT 1 FROM labels WHERE labels.run = runs.id AND key = 'experiment')";
        match self.kind {
            RunKind::All => {}
            RunKind::Tests => and(&format!("NOT {of_experiment}"), vec![]),
            RunKind::Experiments => and(of_experiment, vec![]),
        }
        if let Some(words) = &self.title {
            and("instr(lower(title), lower(?)) > 0", vec![words.clone().into()]);
        }
        let (of_connection, of_run): (Vec<_>, Vec<_>) =
            self.conditions.iter().partition(|c| c.of_connection());
        for condition in of_run {
            let (one, more) = condition.sql();
            and(&one, more);
        }
        if !of_connection.is_empty() {
            let (mut all, mut values) = (String::new(), vec![]);
            for condition in of_connection {
                let (one, more) = condition.sql();
                all += " AND ";
                all += &one;
                values.extend(more);
            }
            and(
                &format!("EXISTS (SELECT 1 FROM connections WHERE connections.run = runs.id{all})"),
                values,
            );
        }
        (sql, values)
    }

    /// The whole query of a list.
    fn list_sql(&self) -> (String, Vec<Value>) {
        let (conditions, mut values) = self.sql();
        values.push(self.limit.map_or(-1, i64::from).into());
        let sql = format!(
            "SELECT id, started_at, title, host, transport, forward_bits_per_second,
                    reverse_bits_per_second, loss_ratio, warnings, status, version
             FROM runs{conditions} ORDER BY started_unix_ms DESC, id DESC LIMIT ?"
        );
        (sql, values)
    }
}

impl Store {
    /// Runs, newest first, without their records.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub fn list(&self, filter: &Filter) -> Result<Vec<RunRow>, StoreError> {
        let mut rows = vec![];
        self.each(filter, |row| {
            rows.push(row.to_owned());
            Ok::<(), StoreError>(())
        })?;
        Ok(rows)
    }

    /// Passes each run of a list to `take`, newest first, without copying its texts; ends with the first error.
    ///
    /// # Errors
    /// [`StoreError::Database`], and those of `take`.
    pub fn each<E: From<StoreError>>(
        &self,
        filter: &Filter,
        mut take: impl FnMut(RunRow<&str>) -> Result<(), E>,
    ) -> Result<(), E> {
        let fail = self.fail("list runs");
        let (sql, values) = filter.list_sql();
        let mut statement = self.connection.prepare(&sql).map_err(&fail)?;
        let mut rows = statement.query(rusqlite::params_from_iter(values)).map_err(&fail)?;
        while let Some(row) = rows.next().map_err(&fail)? {
            take(read(row).map_err(&fail)?)?;
        }
        Ok(())
    }

    /// Number of runs that match a filter, regardless of its limit.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let (conditions, values) = filter.sql();
        let sql = format!("SELECT count(*) FROM runs{conditions}");
        let count: i64 = self
            .connection
            .query_row(&sql, rusqlite::params_from_iter(values), |r| r.get(0))
            .map_err(self.fail("count runs"))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// Sorts ids of runs by their start, those without a known start first, and removes repeated ones.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub fn in_order_of_start(&self, ids: &[String]) -> Result<Vec<String>, StoreError> {
        let fail = self.fail("list runs");
        let sql = "SELECT started_unix_ms FROM runs WHERE id = ?";
        let mut statement = self.connection.prepare(sql).map_err(&fail)?;
        let mut started = Vec::with_capacity(ids.len());
        for id in ids {
            let at: Option<i64> = statement.query_row([id], |row| row.get(0)).map_err(&fail)?;
            started.push((at, id.clone()));
        }
        started.sort();
        started.dedup();
        Ok(started.into_iter().map(|(_, id)| id).collect())
    }

    /// SQLite's query plan of a list, for tests of indexes.
    #[doc(hidden)]
    pub fn plan_of_list_for_test(&self, filter: &Filter) -> Result<Vec<String>, StoreError> {
        let fail = self.fail("explain");
        let (sql, values) = filter.list_sql();
        let mut statement =
            self.connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).map_err(&fail)?;
        let rows = statement.query_map(rusqlite::params_from_iter(values), |r| r.get(3));
        rows.map_err(&fail)?.collect::<Result<_, _>>().map_err(&fail)
    }
}

/// A row of the query of a list.
fn read<'a>(row: &'a Row<'_>) -> rusqlite::Result<RunRow<&'a str>> {
    Ok(RunRow {
        id: row.get_ref(0)?.as_str()?,
        started_at: row.get_ref(1)?.as_str()?,
        title: row.get_ref(2)?.as_str_or_null()?,
        host: row.get_ref(3)?.as_str_or_null()?,
        transport: row.get_ref(4)?.as_str()?,
        forward_bits_per_second: row.get(5)?,
        reverse_bits_per_second: row.get(6)?,
        loss_ratio: row.get(7)?,
        warnings: u64::try_from(row.get::<_, i64>(8)?).unwrap_or(0),
        status: row.get_ref(9)?.as_str()?,
        version: row.get_ref(10)?.as_str()?,
    })
}
