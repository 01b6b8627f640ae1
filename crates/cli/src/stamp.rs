//! The identity of a record: id, version, build, command, plan hash and labels. The engine fills in the results.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use weir_exchange::Maker;
use weir_model::record::{Build, RUN_SCHEMA, Record};
use weir_runs::plan_sha256;

/// Version of Weir.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Version with its commit, if known, for `-V`.
pub(crate) const SHORT_VERSION: &str = env!("WEIR_SHORT_VERSION");
/// Target of this build.
pub(crate) const TARGET: &str = env!("WEIR_TARGET");
/// The commit that this program was built from, if known.
pub(crate) const COMMIT: Option<&str> = option_env!("WEIR_COMMIT");
/// Version with its build, for `--version`.
pub(crate) const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("WEIR_TARGET"),
    ", commit ",
    env!("WEIR_COMMIT_OR_UNKNOWN"),
    ")"
);

/// What identifies a run, known before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Unique, sortable by time.
    pub(crate) id: String,
    /// RFC 3339, UTC.
    pub(crate) started_at: String,
    /// The command line, without secrets.
    pub(crate) command: Vec<String>,
    /// `--label`.
    pub(crate) labels: BTreeMap<String, String>,
}

impl Identity {
    /// The identity of a run that starts now.
    pub(crate) fn new(
        words: &[OsString],
        labels: BTreeMap<String, String>,
        now: Duration,
        random: u64,
    ) -> Identity {
        let now_ms = now.as_millis() as u64;
        Identity {
            id: weir_runs::new_run_id(now, random),
            started_at: weir_runs::rfc3339(now_ms),
            command: without_secrets(words),
            labels,
        }
    }

    /// Moves the start to now.
    pub(crate) fn start_again(&mut self, now: Duration, random: u64) {
        self.id = weir_runs::new_run_id(now, random);
        self.started_at = weir_runs::rfc3339(now.as_millis() as u64);
    }

    /// Puts the identity into a record.
    pub(crate) fn stamp(&self, record: &mut Record) {
        record.schema = RUN_SCHEMA.into();
        record.id.clone_from(&self.id);
        record.version = VERSION.into();
        record.build = build();
        record.started_at.clone_from(&self.started_at);
        record.command.clone_from(&self.command);
        record.labels.clone_from(&self.labels);
        record.seed = record.plan.seed;
        record.plan_sha256 = plan_sha256(&record.plan);
        if record.peer.is_empty() {
            record.peer = "weir".into();
        }
    }
}

/// This program as the maker of imported records.
pub(crate) fn maker() -> Maker {
    Maker { version: VERSION.into(), build: build() }
}

/// This build.
pub(crate) fn build() -> Build {
    Build { commit: COMMIT.map(Into::into), target: TARGET.into() }
}

/// The command line without the value of `--key`.
fn without_secrets(words: &[OsString]) -> Vec<String> {
    const REMOVED: &str = "(removed)";
    let mut out: Vec<String> = vec![];
    for word in words.iter().map(|w| w.to_string_lossy().into_owned()) {
        let text = if out.last().is_some_and(|before| before == "--key") {
            REMOVED.into()
        } else if word.starts_with("--key=") {
            format!("--key={REMOVED}")
        } else {
            word
        };
        out.push(text);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_stored() {
        let words: Vec<OsString> =
            ["weir", "test", "h", "--key", "s3cret", "--key=s3cret", "--key-file", "f"]
                .iter()
                .map(OsString::from)
                .collect();
        assert_eq!(
            without_secrets(&words),
            ["weir", "test", "h", "--key", "(removed)", "--key=(removed)", "--key-file", "f"]
        );
    }

    #[test]
    fn a_stamped_record_has_its_identity() {
        let identity = Identity::new(
            &["weir".into(), "test".into()],
            BTreeMap::from([("site".into(), "lab".into())]),
            Duration::from_millis(1_795_293_009_125),
            0xab12,
        );
        let mut record = Record::default();
        identity.stamp(&mut record);
        assert_eq!(record.id, "20261121-203009-2000ab12");
        assert_eq!(record.started_at, "2026-11-21T20:30:09.125Z");
        assert_eq!(record.schema, "weir.run/1");
        assert_eq!(record.version, VERSION);
        assert!(record.build.target.contains('-'));
        assert_eq!(record.labels["site"], "lab");
        assert_eq!(record.peer, "weir");
    }
}
