//! `weir demo --simulate`: asked, realised and measured, with sender, emulator and receiver under a virtual clock.

use std::time::Instant;

use weir_experiment::demo::Verdict;
use weir_experiment::demo::path::{self, Conditions, Floor, SEED};

use super::paths::{Shown, closing, table};
use super::summary::Summary;
use crate::error::CliError;
use crate::output::{print, print_object};
use crate::signals;
use crate::terminal::{style, wrapped};

/// Runs the rows. Exit code: 0 all rows passed, 1 a row failed.
pub(super) fn run(seconds: u32, json: bool) -> Result<i32, CliError> {
    // Nothing has to be removed. This also ends a process that was started with SIGINT ignored, as by a shell's `&`.
    signals::each(|reason| std::process::exit(reason.exit_code()))?;
    let start = Instant::now();
    let internal =
        |what: &str, e: &dyn std::fmt::Display| CliError::Internal(format!("demo row {what}: {e}"));
    let mut rows = vec![];
    let mut left_out = vec![];
    for case in path::cases(seconds).map_err(|e| internal("list", &e))? {
        if !case.is_simulated() {
            left_out.push(case.name);
            continue;
        }
        let evidence = path::simulate(&case).map_err(|e| internal(case.name, &e))?;
        let judged = path::judge(&case, &evidence, &Conditions::simulated());
        rows.push((case, evidence, judged));
    }
    let shown: Vec<_> = rows
        .iter()
        .map(|(case, evidence, judged)| Shown {
            case,
            judgement: Some(judged),
            verdict: judged.verdict.clone(),
            ledger: evidence.record.loss_ledger.as_ref(),
            attempts: 1,
        })
        .collect();
    let passed = shown.iter().filter(|row| row.verdict == Verdict::Passed).count();
    let seconds = start.elapsed().as_secs_f64();
    if json {
        let summary = Summary {
            id: None,
            is_simulated: true,
            floor: Floor::default(),
            path_delay_ns: 0.0,
            clean: &[],
            paths: &shown,
            seconds,
        };
        print_object(&summary.json())?;
    } else {
        print(&wrapped(&format!(
            "sender, emulator and receiver under one virtual clock, seed {SEED}: no network, no host, no error of theirs\n\n"
        )))?;
        print(&table(&shown, &style()))?;
        let mut out = format!("\n{}", closing(&shown));
        for name in &left_out {
            out += &format!("not simulated: {name} (a stream's behaviour is the kernel's)\n");
        }
        out += &format!("{passed} of {} rows passed; {seconds:.1} s\n", rows.len());
        print(&wrapped(&out))?;
    }
    Ok(i32::from(passed < rows.len()))
}
