//! `weir demo`: a lab of two hosts, real tests, asked beside measured.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Instant, SystemTime};

use clap::Args;
use weir_experiment::demo::{self, Row, Verdict};
use weir_report::{Align, Style, Table, Units, duration, percent};

use crate::app::{note, style};
use crate::engine::{Stop, StopReason};
use crate::error::CliError;
use crate::output::print;
use crate::stamp::Identity;
use crate::time::since_epoch;
use crate::{kept, random, signals};

mod simulated;

/// Measure between two hosts made of network namespaces: what was asked beside what was measured
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Seconds that each test sends, 1 to 60
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=60))]
    time: u32,
    /// Do not keep the runs
    #[arg(long)]
    no_store: bool,
    /// The rows with the emulator in the middle on a virtual clock: no network, no rights, nothing kept
    #[arg(long)]
    simulate: bool,
}

/// Runs the demo; 0 all rows hold, 1 one does not, 5 the host was too busy to tell.
pub(crate) fn run(args: &DemoArgs, words: &[OsString]) -> Result<i32, CliError> {
    if args.simulate {
        return simulated::run(args.time);
    }
    let begun = Instant::now();
    let stop = Stop::new();
    signals::listen(&stop)?;
    let program = std::env::current_exe().map_err(CliError::io("find", "this program"))?;
    let identity =
        Identity::new(words, BTreeMap::new(), since_epoch(SystemTime::now()), random::u64());
    let mut labels = BTreeMap::new();
    labels.insert("demo".to_string(), identity.id.clone());
    print(
        "two hosts in network namespaces, a and b, joined by one virtual link; `weir serve` on b, `weir test` on a\n",
    )?;
    let mut kept_runs = 0;
    let mut show = |row: &Row| {
        note(&match (&row.outcome, &row.verdict) {
            (Err(reason), _) => format!("  {:<22} {reason}", row.case.name),
            (Ok(_), Verdict::Passed) => format!("  {:<22} done", row.case.name),
            (Ok(_), Verdict::Failed(reason) | Verdict::Undecided(reason)) => {
                format!("  {:<22} {reason}", row.case.name)
            }
        });
        if let Ok(record) = &row.outcome
            && !args.no_store
        {
            let mut record = record.clone();
            let id =
                Identity::new(words, labels.clone(), since_epoch(SystemTime::now()), random::u64());
            id.stamp(&mut record);
            record.plan.title = Some(format!("demo: {}", row.case.name));
            kept::add_calibration(&mut record);
            match kept::keep(&record) {
                Ok(()) => kept_runs += 1,
                Err(e) => note(&format!("warning: the run was not kept: {e}")),
            }
        }
    };
    let rows = match demo::demo(program, args.time, &|| stop.reason().is_some(), &mut show) {
        Ok(rows) => rows,
        Err(demo::DemoError::Interrupted) => {
            return Ok(stop.reason().unwrap_or(StopReason::Interrupted).exit_code());
        }
        Err(demo::DemoError::Lab(e)) => return Err(e.into()),
        Err(e) => return Err(CliError::Internal(e.to_string())),
    };
    let style = style();
    print(&format!("\n{}", table(&rows, &style)))?;
    print(&closing(&rows, kept_runs, &identity.id, begun.elapsed().as_secs_f64()))?;
    let failed = rows.iter().any(|r| matches!(r.verdict, Verdict::Failed(_)));
    let undecided = rows.iter().any(|r| matches!(r.verdict, Verdict::Undecided(_)));
    Ok(if failed {
        1
    } else if undecided {
        5
    } else {
        0
    })
}

/// The table of asked and measured.
fn table(rows: &[Row], style: &Style) -> String {
    let right = Align::Right;
    let mut table = Table::new([
        ("test", Align::Left),
        ("asked", right),
        ("received", right),
        ("packets/s", right),
        ("lost", right),
        ("delay p50", right),
        ("jitter", right),
        ("spacing ±", right),
        ("of 1G wire", right),
        ("", Align::Left),
    ]);
    let none = || "-".to_string();
    for row in rows {
        let verdict = match &row.verdict {
            Verdict::Passed if lossy(row).is_some() => "ok, losses placed".to_string(),
            Verdict::Passed => "ok".to_string(),
            Verdict::Failed(_) => style.red("FAILED").to_string(),
            Verdict::Undecided(_) => style.yellow("undecided").to_string(),
        };
        let Ok(record) = &row.outcome else {
            table.row([
                row.case.name.into(),
                row.case.asked.clone(),
                none(),
                none(),
                none(),
                none(),
                none(),
                none(),
                none(),
                verdict,
            ]);
            continue;
        };
        let f = demo::figures(record);
        let is_udp = f.lost_packets.is_some();
        let crossing = f.crossing.as_deref().map(|c| format!(" {c}")).unwrap_or_default();
        table.row([
            row.case.name.into(),
            row.case.asked.clone(),
            Units::ADAPTIVE.rate(f.bits_per_second),
            if is_udp { format!("{:.0}{crossing}", f.packets_per_second) } else { none() },
            f.lost_packets.map_or_else(none, |l| format!("{l}/{}", f.sent_packets)),
            f.delay_p50_seconds.map_or_else(none, duration),
            f.jitter_seconds.map_or_else(none, duration),
            f.spacing_seconds.map_or_else(none, duration),
            f.wire_ratio.map_or_else(none, percent),
            verdict,
        ]);
    }
    table.render(style)
}

/// What a row that holds lost all the same.
fn lossy(row: &Row) -> Option<String> {
    let record = row.outcome.as_ref().ok()?;
    (row.verdict == Verdict::Passed).then(|| demo::losses(record))?
}

fn closing(rows: &[Row], kept: usize, id: &str, seconds: f64) -> String {
    let mut out = String::new();
    if let Some(f) = rows.first().and_then(|r| r.outcome.as_ref().ok()).map(|r| demo::figures(r)) {
        out.push_str(&format!(
            "\nnoise floor of this host, from the first row: delay p50 {}, jitter {}, spacing ± {}: differences below them mean nothing\n",
            f.delay_p50_seconds.map_or_else(|| "-".into(), duration),
            f.jitter_seconds.map_or_else(|| "-".into(), duration),
            f.spacing_seconds.map_or_else(|| "-".into(), duration),
        ));
    }
    for row in rows {
        if let Verdict::Failed(reason) | Verdict::Undecided(reason) = &row.verdict {
            out.push_str(&format!("{}: {reason}\n", row.case.name));
        }
        if let Some(losses) = lossy(row) {
            out.push_str(&format!("{}: {losses}\n", row.case.name));
        }
    }
    let passed = rows.iter().filter(|r| r.verdict == Verdict::Passed).count();
    out.push_str(&format!(
        "{passed} of {} rows hold; the lab is gone; {seconds:.0} s\n",
        rows.len()
    ));
    if kept > 0 {
        out.push_str(&format!("{kept} runs kept (weir runs list --label demo={id})\n"));
    }
    out
}
