//! `weir demo`: a lab of two hosts, real tests between them, and a table of what was asked beside what was measured.
//!
//! The two ends run as programs of their own, as on two machines; the lab is gone when the demo ends, however it ends.

mod cases;
mod judge;
pub mod path;
mod process;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use weir_lab::{Lab, LabSpec};
use weir_model::record::Record;

use crate::process::Running;
pub use cases::{Case, Expectation, cases};
pub use judge::{Figures, Verdict, figures, judge, losses};
use process::{measure, wait_for_listening};

/// How long a test may take beyond its sending time.
const TEST_GRACE: Duration = Duration::from_secs(20);

/// How often a row is measured that was disturbed.
const ATTEMPTS: u32 = 3;

/// What kept the demo from being run.
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
    /// What was measured; the reason where it was not.
    pub outcome: Result<Box<Record>, String>,
    /// What to think of it.
    pub verdict: Verdict,
}

/// Runs the rows without an emulator, each sending for `seconds`, with `program` as both ends. A disturbed row
/// is measured again, twice at most and not after `until`. `is_stopped` is asked between and during tests.
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
    let mut serve = lab.command("b", &program)?;
    serve.arg("serve").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server =
        Running::new(serve.spawn().map_err(|e| DemoError::Program {
            what: "weir serve".into(),
            reason: e.to_string(),
        })?);
    wait_for_listening(&mut server)?;
    let mut rows = vec![];
    for case in cases(seconds) {
        if is_stopped() {
            return Err(DemoError::Interrupted);
        }
        let address = if case.ipv6 { host.ipv6.to_string() } else { host.ipv4.to_string() };
        let once = &mut || -> Result<_, DemoError> {
            let mut test = lab.command("a", &program)?;
            test.arg("test").arg(&address).args(&case.arguments).args(["--json", "--no-store"]);
            let limit = Duration::from_secs_f64(seconds) + TEST_GRACE;
            let outcome = measure(test, limit, is_stopped)?;
            let verdict = match &outcome {
                Ok(record) => judge(&case, record),
                Err(reason) => Verdict::Failed(reason.clone()),
            };
            Ok((outcome, verdict))
        };
        let (outcome, verdict) = tried(once, &|| Instant::now() < until)?;
        let row = Row { case, outcome, verdict };
        show(&row);
        rows.push(row);
    }
    Ok(rows)
}

/// Measures until something is decided, [`ATTEMPTS`] times at most: the last try counts, whatever it gives.
fn tried<T, E>(
    once: &mut dyn FnMut() -> Result<(T, Verdict), E>,
    may_repeat: &dyn Fn() -> bool,
) -> Result<(T, Verdict), E> {
    for _ in 1..ATTEMPTS {
        let (outcome, verdict) = once()?;
        if !matches!(verdict, Verdict::Undecided(_)) || !may_repeat() {
            return Ok((outcome, verdict));
        }
    }
    once()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            tried(once, &|| made.get() < tries)
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
