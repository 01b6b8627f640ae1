//! `weir demo`: a lab of two hosts, real tests between them, and a table of requested and measured values.
//!
//! Both ends run as separate processes, as on two machines. The lab is removed when the demo ends, however it ends.

mod cases;
mod judge;
mod load;
pub mod path;
mod process;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use weir_jobs::{ServeJob, TestJob};
use weir_lab::{Lab, LabSpec};
use weir_model::record::Record;

use cases::cases;
pub use cases::{Case, Expectation};
use judge::judge;
pub use judge::{Figures, Verdict, figures, losses};
use load::Watch;
use process::{measure, serve};

/// Time that a test may take beyond its sending time.
const TEST_GRACE: Duration = Duration::from_secs(20);

/// How many times a host-limited row is measured.
const ATTEMPTS: u32 = 3;

/// Why the demo could not run.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The lab could not be made.
    #[error("lab: {0}")]
    Lab(#[from] weir_lab::Error),
    /// A program of the demo did not run.
    #[error("{what}: {reason}")]
    Program {
        /// Which.
        what: String,
        /// How it failed.
        reason: String,
    },
    /// Asked to end.
    #[error("interrupted")]
    Interrupted,
}

/// One row of the table.
#[derive(Debug, Clone)]
pub struct Row {
    /// What was asked.
    pub case: Case,
    /// The record, or why there is none.
    pub outcome: Result<Box<Record>, String>,
    /// The verdict.
    pub verdict: Verdict,
}

/// Runs the rows without an emulator, each sending for `seconds`, with `program` as both ends. A host-limited row is
/// repeated at most twice and not after `until`. `is_stopped` is polled between and during tests.
///
/// # Errors
/// [`DemoError`]; rows that were measured before have been shown by then.
pub fn demo(
    program: PathBuf,
    seconds: f64,
    until: Instant,
    is_stopped: &dyn Fn() -> bool,
    show: &mut dyn FnMut(&Row),
) -> Result<Vec<Row>, DemoError> {
    let lab = Lab::up(&LabSpec::default())?;
    let host = lab.host("b")?.clone();
    let limit = Duration::from_secs_f64(seconds) + TEST_GRACE;
    let mut rows = vec![];
    for case in cases(seconds).map_err(process::failed("weir demo"))? {
        if is_stopped() {
            return Err(DemoError::Interrupted);
        }
        let address = if case.ipv6 { host.ipv6.to_string() } else { host.ipv4.to_string() };
        let once = &mut || -> Result<_, DemoError> {
            let watch = Watch::start();
            let outcome = told(is_stopped, || {
                // One server per row: its CPU time counts as this program's once it was waited for.
                let server = serve(lab.command("b", &program)?, ServeJob::default())?;
                let job = TestJob {
                    host: Some(address.clone()),
                    plan: case.plan.clone(),
                    store: false,
                    ..TestJob::default()
                };
                let outcome = measure(lab.command("a", &program)?, job, limit, is_stopped)?;
                drop(server);
                Ok(outcome)
            })?;
            let host_limited = watch.host_limit();
            let verdict = match &outcome {
                Ok(record) => judge(&case, record, host_limited.as_deref()),
                Err(reason) => excused(reason.clone(), host_limited.as_deref()),
            };
            Ok((outcome, verdict))
        };
        let is_open = |outcome: &Result<_, _>, verdict: &Verdict| {
            outcome.is_err() || matches!(verdict, Verdict::Undecided(_))
        };
        let (outcome, verdict) = tried(once, &is_open, &|| Instant::now() < until)?;
        let row = Row { case, outcome, verdict };
        show(&row);
        rows.push(row);
    }
    Ok(rows)
}

/// A program that failed is the row's reason, unless the demo was stopped.
fn told<T>(
    is_stopped: &dyn Fn() -> bool,
    row: impl FnOnce() -> Result<Result<T, String>, DemoError>,
) -> Result<Result<T, String>, DemoError> {
    match row() {
        Err(DemoError::Program { .. }) if is_stopped() => Err(DemoError::Interrupted),
        Err(DemoError::Program { what, reason }) => Ok(Err(format!("{what}: {reason}"))),
        other => other,
    }
}

/// A failure that load on the host explains is undecided.
fn excused(reason: String, host_limited: Option<&str>) -> Verdict {
    match host_limited {
        Some(what) => Verdict::Undecided(format!("{reason}, and {what}")),
        None => Verdict::Failed(reason),
    }
}

/// Measures while a row is open, at most [`ATTEMPTS`] times; the last attempt counts.
fn tried<T, E>(
    once: &mut dyn FnMut() -> Result<(T, Verdict), E>,
    is_open: &dyn Fn(&T, &Verdict) -> bool,
    may_repeat: &dyn Fn() -> bool,
) -> Result<(T, Verdict), E> {
    for _ in 1..ATTEMPTS {
        let (outcome, verdict) = once()?;
        if !is_open(&outcome, &verdict) || !may_repeat() {
            return Ok((outcome, verdict));
        }
    }
    once()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_start_is_the_rows_reason_and_load_excuses_it() {
        let died = || Err(DemoError::Program { what: "weir serve".into(), reason: "slow".into() });
        let reason = told::<()>(&|| false, died).unwrap().unwrap_err();
        assert!(matches!(told::<()>(&|| true, died), Err(DemoError::Interrupted)));
        assert!(matches!(excused(reason.clone(), None), Verdict::Failed(_)));
        assert!(matches!(excused(reason, Some("busy")), Verdict::Undecided(_)));
    }

    #[test]
    fn the_last_try_decides() {
        let open = |why: &str| Verdict::Undecided(why.into());
        let of = |gives: Vec<Verdict>, tries: u32| {
            let made = std::cell::Cell::new(0);
            let mut gives = gives.into_iter();
            let once = &mut || {
                made.set(made.get() + 1);
                gives.next().map(|verdict| (made.get(), verdict)).ok_or("asked once more")
            };
            let is_open = |_: &u32, verdict: &Verdict| matches!(verdict, Verdict::Undecided(_));
            tried(once, &is_open, &|| made.get() < tries)
        };
        let all = vec![open("first"), open("second"), open("third")];
        assert_eq!(of(all.clone(), 99), Ok((3, open("third"))));
        let lost = Verdict::Failed("lost".into());
        assert_eq!(of(vec![open("busy"), open("busy"), lost.clone()], 99), Ok((3, lost)));
        assert_eq!(of(vec![open("busy"), Verdict::Passed], 99), Ok((2, Verdict::Passed)));
        // No time for another.
        assert_eq!(of(all.clone(), 1), Ok((1, open("first"))));
        assert_eq!(of(all, 2), Ok((2, open("second"))));
        assert_eq!(of(vec![open("busy")], 99), Err("asked once more"));
    }
}
