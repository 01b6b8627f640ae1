//! `weir demo --simulate`: asked, realised and measured, with sender, emulator and receiver under a virtual clock.

use std::time::Instant;

use weir_experiment::demo::Verdict;
use weir_experiment::demo::path::{
    self, Conditions, Judgement, Line, PathCase, SEED, Tolerance, Value,
};
use weir_report::{Align, Style, Table, Units, duration, volume};

use crate::app::style;
use crate::error::CliError;
use crate::output::print;

/// Runs the rows; 0 all hold, 1 one does not.
pub(super) fn run(seconds: u32) -> Result<i32, CliError> {
    let begun = Instant::now();
    print(&format!(
        "sender, emulator and receiver under one virtual clock, seed {SEED}: no network, no host, no error of theirs\n\n"
    ))?;
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
        rows.push((case, judged));
    }
    let style = style();
    print(&table(&rows, &style))?;
    print(&closing(&rows, &left_out, begun.elapsed().as_secs_f64()))?;
    let failed = rows.iter().any(|(_, judged)| judged.verdict != Verdict::Passed);
    Ok(i32::from(failed))
}

fn value(value: Value) -> String {
    match value {
        Value::Packets(n) if n.fract().abs() < 1e-6 => format!("{n:.0}"),
        Value::Packets(n) => format!("{n:.1}"),
        Value::Bytes(n) => volume(n),
        Value::Seconds(s) => duration(s),
        Value::BitsPerSecond(r) => Units::ADAPTIVE.rate(r),
    }
}

fn tolerance(tolerance: Tolerance) -> String {
    match tolerance {
        Tolerance::Exact => "exact".into(),
        Tolerance::Between(low, high) => format!("{low} to {high}"),
        Tolerance::PlusMinus(by) => format!("± {}", value(by)),
    }
}

fn verdict(verdict: &Verdict, style: &Style) -> String {
    match verdict {
        Verdict::Passed => "ok".into(),
        Verdict::Failed(_) => style.red("FAILED"),
        Verdict::Undecided(_) => style.yellow("undecided"),
    }
}

/// Asked, realised, measured: one line for each figure, and one for the packets of a row.
fn table(rows: &[(PathCase, Judgement)], style: &Style) -> String {
    let right = Align::Right;
    let mut table = Table::new([
        ("path", Align::Left),
        ("figure", Align::Left),
        ("asked", right),
        ("realised", right),
        ("measured", right),
        ("tolerance", right),
        ("", Align::Left),
    ]);
    let optional = |v: Option<Value>| v.map_or_else(|| "-".into(), value);
    for (case, judged) in rows {
        let has_flows = case.plan.connections.len() > 1;
        for (i, line) in judged.lines.iter().enumerate() {
            let Line { flow, figure, .. } = line;
            // The name, then the laws under it.
            let name = [case.name, case.laws].get(i).copied().unwrap_or_default();
            let name = if i == 1 { format!("  {name}") } else { name.to_string() };
            table.row([
                name,
                if has_flows { format!("{figure}, flow {flow}") } else { (*figure).to_string() },
                value(line.asked),
                optional(line.realised),
                optional(line.measured),
                tolerance(line.tolerance),
                verdict(&line.verdict, style),
            ]);
        }
        let a = judged.agreement;
        let is_whole = a.matched == a.sent && a.remainder == 0 && a.unpredicted == 0;
        let name = if judged.lines.len() == 1 { format!("  {}", case.laws) } else { String::new() };
        table.row([
            name,
            // Asked: sent; realised: as predicted, copies included; measured: both opinions agree.
            "fates".into(),
            a.sent.to_string(),
            a.predicted.to_string(),
            a.matched.to_string(),
            "exact".into(),
            if is_whole { "ok".into() } else { style.red("FAILED") },
        ]);
    }
    table.render(style)
}

fn closing(rows: &[(PathCase, Judgement)], left_out: &[&str], seconds: f64) -> String {
    let mut out = String::from("\n");
    for (case, judged) in rows {
        if let Verdict::Failed(reason) | Verdict::Undecided(reason) = &judged.verdict {
            out.push_str(&format!("{}: {reason}\n", case.name));
        }
    }
    let sum = |of: fn(&Judgement) -> u64| rows.iter().map(|(_, j)| of(j)).sum::<u64>();
    let remainder: i64 = rows.iter().map(|(_, j)| j.agreement.remainder).sum();
    let (sent, matched) = (sum(|j| j.agreement.sent), sum(|j| j.agreement.matched));
    let (predicted, unpredicted) =
        (sum(|j| j.agreement.predicted), sum(|j| j.agreement.unpredicted));
    out.push_str(&format!(
        "packet by packet: {matched} of {sent} fates agree; {predicted} of {} as predicted from seed and arrivals; ledger remainder {remainder}\n",
        predicted + unpredicted
    ));
    for name in left_out {
        out.push_str(&format!("not simulated: {name} (a stream's behaviour is the kernel's)\n"));
    }
    let passed = rows.iter().filter(|(_, j)| j.verdict == Verdict::Passed).count();
    out.push_str(&format!("{passed} of {} rows hold; {seconds:.1} s\n", rows.len()));
    out
}
