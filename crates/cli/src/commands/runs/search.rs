//! The flags that select runs, the same for every command that accepts several.

use clap::{Args, ValueEnum};
use weir_runs::{Condition, Edge, Filter, RunKind, moment_of};

use super::RunsError;

#[derive(Debug, Default, Args)]
pub(super) struct SearchArgs {
    /// Only runs with this peer, as given to weir test.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Only runs with this label; may be repeated for runs with all of them.
    #[arg(long, value_name = "KEY[=VALUE]")]
    label: Vec<String>,
    /// Only runs that started after this time: an age such as 90m, 24h or 7d, or a date such as 2026-11-22 or
    /// 2026-11-22T10:30 (UTC).
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only runs that started before this time; a date includes the whole day.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only runs whose plan or result meets this condition: transport=udp, rate>=10M, size=1472, loss<0.1%, throughput>1G,
    /// warnings>0, status!=complete; also direction, family, time, connections. May be repeated for
    /// runs that meet all; conditions on connections refer to the same one.
    #[arg(long = "where", value_name = "CONDITION")]
    conditions: Vec<Condition>,
    /// Only runs with these words in their title.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Only tests that are not part of an experiment, or only runs of experiments.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Tests,
    Experiments,
}

impl SearchArgs {
    /// Names of the flags, for commands that require one of them or another argument.
    pub(super) const FLAGS: [&str; 7] =
        ["host", "label", "since", "until", "conditions", "title", "kind"];

    /// The filter, without a limit.
    pub(super) fn filter(&self, now_unix_ms: i64) -> Result<Filter, RunsError> {
        let moment = |flag, text: &Option<String>, edge| {
            text.as_ref()
                .map(|text| moment_of(text, now_unix_ms, edge))
                .transpose()
                .map_err(|error| RunsError::Flag { flag, error })
        };
        Ok(Filter {
            limit: None,
            since_unix_ms: moment("--since", &self.since, Edge::Since)?,
            until_unix_ms: moment("--until", &self.until, Edge::Until)?,
            host: self.host.clone(),
            labels: self.label.iter().map(|label| key_and_value(label)).collect(),
            title: self.title.clone(),
            conditions: self.conditions.clone(),
            kind: match self.kind {
                None => RunKind::All,
                Some(Kind::Tests) => RunKind::Tests,
                Some(Kind::Experiments) => RunKind::Experiments,
            },
        })
    }
}

/// A label to search for: its key, and its value if one is given.
pub(super) fn key_and_value(label: &str) -> (String, Option<String>) {
    match label.split_once('=') {
        Some((key, value)) => (key.trim().into(), Some(value.into())),
        None => (label.trim().into(), None),
    }
}
