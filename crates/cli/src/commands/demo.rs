//! `weir demo`: real tests between two hosts of a lab, first on a plain link and then through the emulator. It prints the
//! impairment that was asked for, the one that the emulator realised and the one that was measured.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use weir_experiment::calibrate::{Calibration, Options, calibrate};
use weir_experiment::demo::path::{self, Floor, PathRow, SEED};
use weir_experiment::demo::{self, Row, Verdict};
use weir_jobs::{DemoJob, Notice};
use weir_model::counted;
use weir_model::record::Record;
use weir_report::duration;
use weir_runs::{DataDirectory, rfc3339};

use crate::app::note;
use crate::commands::values;
use crate::engine::{Stop, StopReason};
use crate::error::CliError;
use crate::job::warn;
use crate::output::{print, print_object};
use crate::stamp::Identity;
use crate::terminal::{style, wrapped};
use crate::time::since_epoch;
use crate::{random, signals, user_data};

mod clean;
mod evidence;
mod paths;
mod simulated;
mod summary;

use paths::Shown;
use summary::{Summary, overall};

/// Sending time of a row without an emulator, as a fraction of `--time`: such a row tests the tool, not a path.
const CLEAN_FRACTION: f64 = 0.4;
/// Host-limited rows are measured again until this multiple of the sending time has passed since the start: the first for
/// rows without an emulator, the second for all. With 1 s per row the demo thus ends within a minute.
const AGAIN_WITHIN: [u32; 2] = [14, 42];

/// Packets sent to measure the noise floor. Since a busy host skips some slots, only [`PERCENTILE_PACKETS`] of them are
/// needed for a 99th percentile; with fewer, the measurement is repeated, [`FLOOR_ATTEMPTS`] times in all.
const FLOOR_PACKETS: u64 = 1300;
const PERCENTILE_PACKETS: u64 = 1000;
const FLOOR_ATTEMPTS: u32 = 3;

/// Measure between two network namespaces with the emulator between them: what was asked, realised and measured
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 every row passed, 1 a row failed, 4 not permitted, 5 undecided because the host was busy (the row \
                  was measured three times), 130 interrupted, 143 terminated.\n\
                  The evidence of the last 8 failed rows (records, packet logs) is stored in demo-evidence, next to the runs."
)]
pub(crate) struct DemoArgs {
    /// Sending time of each test through the emulator, 1 to 60 s
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 1, value_parser = values::whole(1_u32..=60))]
    time: u32,
    /// Print one JSON object (weir.demo/1) instead of tables
    #[arg(short = 'J', long)]
    json: bool,
    /// Do not store the runs
    #[arg(long)]
    no_store: bool,
    /// Run the rows with the emulator on a virtual clock: no network, no rights, nothing stored
    #[arg(long)]
    simulate: bool,
}

/// Stores the runs of a demo under one label.
struct RunStore<'a> {
    words: &'a [OsString],
    labels: BTreeMap<String, String>,
    calibration: &'a Calibration,
    is_off: bool,
    count: usize,
    /// The last error message: printed once, not for each run.
    refusal: Option<String>,
}

impl RunStore<'_> {
    /// Stores the evidence of a failed row: the row as in the summary, and the files that it was judged by.
    fn evidence(&self, name: &str, row: &serde_json::Value, files: Vec<evidence::File>) {
        if self.is_off {
            return;
        }
        let row = ("row.json", format!("{row:#}\n").into_bytes());
        let files: Vec<_> = std::iter::once(row).chain(files).collect();
        let id = self.labels.get("demo").map_or("", String::as_str);
        let stored = DataDirectory::of_this_user().map_err(|e| e.to_string()).and_then(|data| {
            evidence::store(data.directory(), id, name, &files).map_err(|e| e.to_string())
        });
        match stored {
            Ok(path) => note(&format!("  evidence of {name}: {}", path.display())),
            Err(e) => {
                warn(Notice::NOT_STORED, &format!("the evidence of {name} was not stored: {e}"))
            }
        }
    }

    fn keep(&mut self, name: &str, record: &Record) {
        if self.is_off {
            return;
        }
        let mut record = record.clone();
        let now = since_epoch(SystemTime::now());
        Identity::new(self.words, self.labels.clone(), now, random::u64()).stamp(&mut record);
        record.plan.title = Some(format!("demo: {name}"));
        record.calibration = Some(self.calibration.to_reference());
        match user_data::keep(&record) {
            Ok(()) => self.count += 1,
            Err(e) => {
                let reason = Some(e.to_string());
                if reason != self.refusal {
                    warn(Notice::NOT_STORED, &format!("the run was not stored: {e}"));
                }
                self.refusal = reason;
            }
        }
    }
}

/// A file of evidence with this value.
fn json_file(name: &'static str, value: &impl serde::Serialize) -> evidence::File {
    // A value that can't be serialized is left empty: the row's verdict does not depend on it.
    (name, serde_json::to_vec_pretty(value).unwrap_or_default())
}

/// Prints the verdict on a row as soon as it is known.
fn print_verdict(name: &str, verdict: &Verdict) {
    match verdict {
        Verdict::Passed => note(&format!("  {name:<26} done")),
        Verdict::Failed(reason) | Verdict::Undecided(reason) => {
            note(&format!("  {name:<26} {reason}"));
        }
    }
}

/// Runs the demo. Exit code: 0 all rows passed, 1 a row failed, 5 undecided because the host was busy.
pub(crate) fn run(args: &DemoArgs, words: &[OsString]) -> Result<i32, CliError> {
    if args.simulate {
        return simulated::run(args.time, args.json);
    }
    let started = Instant::now();
    let stop = Stop::new();
    signals::listen(&stop)?;
    let is_stopped = || stop.reason().is_some();
    let program = crate::job::program();
    let now = since_epoch(SystemTime::now());
    let identity = Identity::new(words, BTreeMap::new(), now, random::u64());
    let say = |text: &str| if args.json { Ok(0) } else { print(text) };
    say(&wrapped(
        "two hosts in network namespaces, a and b: `weir serve` on b, `weir test` on a; first on one virtual link, then with \
         `weir impair` between them",
    ))?;
    note("  measuring this host's noise floor");
    let mut attempts = 0;
    let (calibration, floor) = loop {
        let Some(calibration) = floor(&identity.id, &is_stopped)? else {
            return Ok(stop.reason().unwrap_or(StopReason::Interrupted).exit_code());
        };
        attempts += 1;
        match Floor::of(&calibration.figures) {
            Some(floor) => break (calibration, floor),
            None if attempts == FLOOR_ATTEMPTS => return Err(no_floor(&calibration)),
            None => {}
        }
    };
    let mut run_store = RunStore {
        words,
        labels: BTreeMap::from([("demo".to_string(), identity.id.clone())]),
        calibration: &calibration,
        is_off: args.no_store,
        count: 0,
        refusal: None,
    };
    let ended = |error: demo::DemoError| match error {
        demo::DemoError::Interrupted => {
            Ok(stop.reason().unwrap_or(StopReason::Interrupted).exit_code())
        }
        demo::DemoError::Lab(e) => Err(e.into()),
        e => Err(CliError::Internal(e.to_string())),
    };
    let mut show = |row: &Row| {
        print_verdict(row.case.name, &row.verdict);
        if let Ok(record) = &row.outcome {
            run_store.keep(row.case.name, record);
        }
        if matches!(row.verdict, Verdict::Failed(_)) {
            let record = row.outcome.as_ref().ok().map(|record| json_file("record.json", record));
            let files = record.into_iter().collect();
            run_store.evidence(row.case.name, &summary::clean_row(row), files);
        }
    };
    let seconds = f64::from(args.time) * CLEAN_FRACTION;
    let [until_clean, until] =
        AGAIN_WITHIN.map(|times| started + Duration::from_secs(u64::from(times * args.time)));
    let clean = match demo::demo(program.clone(), seconds, until_clean, &is_stopped, &mut show) {
        Ok(rows) => rows,
        Err(error) => return ended(error),
    };
    say(&format!("\n{}{}\n", clean::table(&clean, &style()), wrapped(&clean::reasons(&clean))))?;
    let mut show = |row: &PathRow| {
        if !row.is_final {
            note(&format!("  {:<26} host-limited: measured again at the end", row.case.name));
            return;
        }
        print_verdict(row.case.name, &row.verdict());
        if let Ok(measured) = &row.outcome {
            run_store.keep(row.case.name, &measured.evidence.record);
        }
        if matches!(row.verdict(), Verdict::Failed(_)) {
            let files = row.outcome.as_ref().map_or_else(
                |_| vec![],
                |measured| {
                    let mut files = measured.logs.clone();
                    files.push(json_file("record.json", &measured.evidence.record));
                    files.push(json_file("emulator.json", &measured.emulator));
                    files
                },
            );
            run_store.evidence(row.case.name, &summary::path_row(&shown(row)), files);
        }
    };
    let rows = match path::on_hosts(program, args.time, floor, until, &is_stopped, &mut show) {
        Ok(rows) => rows,
        Err(error) => return ended(error),
    };
    let shown: Vec<_> = rows.iter().map(shown).collect();
    let measured = rows.iter().skip(1).find_map(|row| row.outcome.as_ref().ok());
    let path_delay_ns = measured.map_or(0.0, |m| m.conditions.path_delay_ns);
    let verdicts = clean.iter().map(|r| &r.verdict).chain(shown.iter().map(|r| &r.verdict));
    let (_, exit_code) = overall(verdicts);
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        let id = (!args.no_store).then_some(identity.id.as_str());
        let summary = Summary {
            id,
            is_simulated: false,
            floor,
            path_delay_ns,
            clean: &clean,
            paths: &shown,
            seconds,
        };
        print_object(&summary.json())?;
        return Ok(exit_code);
    }
    let style = style();
    let mut out =
        format!("\n{}\n{}\n", paths::table(&shown, &style), paths::residuals(&shown, &style));
    out += &wrapped(&format!(
        "seed {SEED}; noise floor of this host, just calibrated: {} for a median of delays; the path through an emulator \
         without laws takes {} (median of the clean baseline), which is subtracted from measured delays",
        duration(floor.median_ns / 1e9),
        duration(path_delay_ns / 1e9),
    ));
    out += &wrapped(&paths::closing(&shown));
    let all = clean.len() + shown.len();
    let verdicts = clean.iter().map(|r| &r.verdict).chain(shown.iter().map(|r| &r.verdict));
    let count = |of: fn(&Verdict) -> bool| verdicts.clone().filter(|v| of(v)).count();
    let passed = count(|v| *v == Verdict::Passed);
    let undecided = count(|v| matches!(v, Verdict::Undecided(_)));
    let failed = all - passed - undecided;
    let beyond: Vec<String> = [(failed, "failed"), (undecided, "undecided (the host was busy)")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!(", {n} {what}"))
        .collect();
    let beyond = beyond.concat();
    out +=
        &format!("{passed} of {all} rows passed{beyond}; the labs are removed; {seconds:.0} s\n");
    if run_store.count > 0 {
        let (count, id) = (run_store.count, &identity.id);
        out += &format!("{} stored (weir runs list --label demo={id})\n", counted(count, "run"));
    }
    if failed == 0 && undecided > 0 {
        out += &wrapped(
            "nothing failed, but other load on this host kept some rows from a verdict: run the demo again when the host is idle",
        );
    }
    print(&out)?;
    Ok(exit_code)
}

/// Runs a job of `weir job`.
pub(crate) fn run_job(job: &DemoJob) -> Result<i32, CliError> {
    if !(1..=60).contains(&job.seconds) {
        return Err(CliError::flag("seconds", job.seconds.to_string(), "1 to 60"));
    }
    let args = DemoArgs { time: job.seconds, json: true, no_store: false, simulate: job.simulate };
    run(&args, &["weir", "demo"].map(OsString::from))
}

/// The error for a noise floor with missing figures.
fn no_floor(found: &Calibration) -> CliError {
    let missing = Floor::missing(&found.figures);
    let what = format!("the noise floor could not be measured: no {}", missing.join(", "));
    if missing.iter().any(|name| name.ends_with("stamp_to_read_p50_seconds")) {
        return CliError::Unavailable(format!("{what}: the kernel does not stamp packets"));
    }
    CliError::Inconclusive(format!(
        "{what}: fewer than {PERCENTILE_PACKETS} of {FLOOR_PACKETS} packets (one per \
        millisecond) were sent on time in {FLOOR_ATTEMPTS} attempts: the processors are busy \
        (see weir doctor)"
    ))
}

/// Measures this host's noise floor, but only the figures that delays and time stamps need. `None` if it was stopped; its
/// lab is then removed when the program ends.
fn floor(id: &str, is_stopped: &dyn Fn() -> bool) -> Result<Option<Calibration>, CliError> {
    let options = Options {
        slow_packets: FLOOR_PACKETS,
        fast_packets: 1000,
        rate_ns: 20_000_000,
        ..Options::default()
    };
    let now_ms = since_epoch(SystemTime::now()).as_millis() as u64;
    let id = id.to_owned();
    let at_work =
        std::thread::spawn(move || calibrate(&id, &rfc3339(now_ms), &options, &mut |_| {}));
    while !at_work.is_finished() {
        if is_stopped() {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let found = at_work.join().map_err(|_| CliError::Internal("calibrating panicked".into()))?;
    found.map(Some).map_err(|e| CliError::Unavailable(e.to_string()))
}

fn shown(row: &PathRow) -> Shown<'_> {
    let measured = row.outcome.as_ref().ok();
    Shown {
        case: &row.case,
        judgement: measured.map(|m| &m.judgement),
        verdict: row.verdict(),
        ledger: measured.and_then(|m| m.evidence.record.loss_ledger.as_ref()),
        attempts: row.attempts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_not_measured_because_of_load_is_exit_code_5() {
        let whole = [
            "loopback_stamp_to_read_p50_seconds",
            "loopback_one_way_delay_p50_seconds",
            "emulator_wakeup_late_p50_seconds",
            "emulator_wakeup_late_p99_seconds",
        ];
        let of = |names: &[&str]| Calibration {
            figures: names.iter().map(|name| ((*name).to_owned(), 1e-5)).collect(),
            ..Calibration::default()
        };
        let error = no_floor(&of(&whole));
        assert_eq!((error.exit_code(), error.refusal().code.as_str()), (5, "inconclusive"));
        assert!(error.chain().contains("loopback_one_way_delay_p99_seconds"), "{error}");
        // Not load: time stamps are unavailable.
        assert_eq!(no_floor(&of(&whole[1..])).exit_code(), 4);
    }
}
