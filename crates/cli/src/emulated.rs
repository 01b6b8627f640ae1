//! Watches the emulator on the path of a test, and stores its laws, counters and drops in the record.
//!
//! A test in a host of a lab finds the emulator in the lab's middle by itself, and a test run by `weir impair exec` that
//! command's emulator. Any other emulator is named by `--emulator`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use weir_emulator::control::Connection;
use weir_emulator::{DropCounts, DropsReport, Report};
use weir_flow::{DroppedDatagrams, Emulated, attribute};
use weir_model::record::Record;
use weir_model::warning::{Severity, Warning};

use crate::commands::impair::running;
use crate::error::CliError;

/// Environment variable by which `weir impair exec` names the control socket of its emulator.
pub(crate) const OF_COMMAND: &str = "WEIR_EMULATOR";

/// Code of the warning that the emulator of `--emulator` was not crossed.
const NOT_ON_PATH: &str = "emulator-not-on-path";
/// Timeout of each emulator that is asked during the search for the lab's: any of them may be a stopped process.
const SCAN_TIMEOUT: Duration = Duration::from_secs(2);

/// A watched emulator.
pub(crate) struct Watched {
    connection: Connection,
    path: PathBuf,
    before: Report,
    client_side: Option<String>,
    /// Whether `--emulator` names it: the test is then expected to cross it.
    is_named: bool,
}

impl Watched {
    /// Finds the emulator that `named` names, else that of the lab or of the `weir impair exec` in which this program runs.
    ///
    /// # Errors
    /// The named emulator does not answer.
    pub(crate) fn find(
        named: Option<&Path>,
        client_side: Option<&str>,
    ) -> Result<Option<Watched>, CliError> {
        if let Some(path) = named {
            let refused = |reason| CliError::Control { path: path.into(), reason, exit_code: 3 };
            let connection = Connection::open(path)
                .map_err(|e| refused(format!("no emulator listens there ({e})")))?;
            let watched = Watched::start(connection, path, client_side.map(Into::into));
            let named = |watched| Some(Watched { is_named: true, ..watched });
            return watched.map(named).map_err(refused);
        }
        // The lab comes first: it may be inside a command that runs behind another emulator.
        Ok(Watched::in_the_middle().or_else(Watched::of_command))
    }

    /// The emulator of `weir impair exec`, with this program on its side A.
    fn of_command() -> Option<Watched> {
        let path = PathBuf::from(std::env::var_os(OF_COMMAND)?);
        let connection = Connection::open(&path).ok()?;
        Watched::start(connection, &path, Some("a".into())).ok()
    }

    fn in_the_middle() -> Option<Watched> {
        let place = weir_lab::place_of_this_program()?;
        let (lab, host) = place.split_once('/')?;
        let side = weir_lab::side_of(host)?;
        let middle = format!("{lab}/m");
        let directory = weir_lab::runtime_directory().ok()?;
        running(&directory).ok()?.iter().find_map(|path| {
            let mut connection = Connection::open(path).ok()?;
            connection.set_timeout(SCAN_TIMEOUT).ok()?;
            let is_there = asked(&mut connection, "show").ok()?["lab"] == middle.as_str();
            let connection = Connection::open(path).ok().filter(|_| is_there)?;
            Watched::start(connection, path, Some(side.into())).ok()
        })
    }

    fn start(
        mut connection: Connection,
        path: &Path,
        client_side: Option<String>,
    ) -> Result<Watched, String> {
        asked(&mut connection, "watch")?;
        let before = report(&mut connection)?;
        Ok(Watched { connection, path: path.into(), before, client_side, is_named: false })
    }

    /// Stores the emulator's part of the run in its record.
    ///
    /// # Errors
    /// A text that says why its counters are unavailable.
    pub(crate) fn finish(mut self, record: &mut Record) -> Result<(), String> {
        let at = |reason| format!("emulator at {}: {reason}", self.path.display());
        // Read the drops first, so that every drop is included in the counters.
        let drops = asked(&mut self.connection, "drops").map_err(at)?["drops"].take();
        let drops: DropsReport =
            weir_model::document::read(&drops).map_err(|e| at(e.to_string()))?;
        let after = report(&mut self.connection).map_err(at)?;
        let mut used = after.used_since(Some(&self.before));
        used.client_side = self.client_side.take();
        let rows = drops.rows.into_iter().map(|row| DroppedDatagrams {
            direction: row.direction,
            flow: row.flow,
            source: row.source,
            destination: row.destination,
            packets: by_stage(row.packets),
        });
        let emulated = Emulated {
            used,
            drops: rows.collect(),
            later_fragments: by_stage(drops.later_fragments),
            damaged_control: drops.damaged_control_packets,
            uncounted: drops.uncounted_packets,
            link_dropped: after.link_dropped_since(&self.before),
        };
        if !attribute(record, emulated) && self.is_named {
            let text = format!(
                "the emulator at {} forwarded less than arrived: this test did not cross it, and no loss is attributed to the emulator",
                self.path.display()
            );
            record.warnings.push(Warning::new(NOT_ON_PATH, Severity::Warning, text));
        }
        Ok(())
    }
}

fn by_stage(counts: DropCounts) -> [u64; 4] {
    [
        counts.lost_packets,
        counts.queue_dropped_packets,
        counts.unplanned_dropped_packets,
        counts.damaged_packets,
    ]
}

fn asked(connection: &mut Connection, verb: &str) -> Result<Value, String> {
    let answer =
        connection.ask(&json!({ "verb": verb })).map_err(|e| format!("no answer ({e})"))?;
    match answer["ok"].as_bool() {
        Some(true) => Ok(answer),
        _ => Err(answer["error"].as_str().unwrap_or("no answer").into()),
    }
}

fn report(connection: &mut Connection) -> Result<Report, String> {
    let report = asked(connection, "stats")?["report"].take();
    weir_model::document::read(&report).map_err(|e| e.to_string())
}
