//! The rows with an emulator, on real hosts or on the virtual clock: asked, realised and measured values.

use weir_experiment::demo::Verdict;
use weir_experiment::demo::path::{Judgement, Line, PathCase, Tolerance, Value};
use weir_experiment::triangulation::quantile;
use weir_model::counted;
use weir_model::record::LossLedger;
use weir_report::{Align, Style, Table, Units, duration, volume};

/// A row to print.
pub(super) struct Shown<'a> {
    pub(super) case: &'a PathCase,
    /// Absent when nothing was measured.
    pub(super) judgement: Option<&'a Judgement>,
    pub(super) verdict: Verdict,
    pub(super) ledger: Option<&'a LossLedger>,
    pub(super) attempts: u32,
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

/// Without colour: the cells of a table have no escape sequences.
fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Passed => "ok".into(),
        Verdict::Failed(_) => "FAILED".into(),
        Verdict::Undecided(_) => "undecided".into(),
    }
}

/// The table of asked, realised and measured values: a line for each figure, and one for the packets of each row.
pub(super) fn table(rows: &[Shown<'_>], style: &Style) -> String {
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
    for Shown { case, judgement, verdict: of_row, .. } in rows {
        let Some(judged) = judgement else {
            let none = || "-".to_string();
            let name = case.name.to_string();
            table.row([name, none(), none(), none(), none(), none(), verdict(of_row)]);
            continue;
        };
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
                verdict(&line.verdict),
            ]);
        }
        let a = judged.agreement;
        let verdict = |is_whole: bool| match of_row {
            _ if is_whole => "ok".to_string(),
            Verdict::Undecided(_) => "undecided".into(),
            _ => "FAILED".into(),
        };
        let mut laws =
            if judged.lines.len() == 1 { format!("  {}", case.laws) } else { String::new() };
        let none = || "-".to_string();
        // The packets of a stream are not joined.
        if a.sent > 0 || a.predicted == 0 {
            table.row([
                std::mem::take(&mut laws),
                "packets joined".into(),
                a.sent.to_string(),
                none(),
                a.matched.to_string(),
                "exact".into(),
                verdict(a.matched == a.sent && a.remainder == 0),
            ]);
        }
        table.row([
            laws,
            "dispositions".into(),
            (a.predicted + a.unpredicted).to_string(),
            a.predicted.to_string(),
            none(),
            "exact".into(),
            verdict(a.unpredicted == 0),
        ]);
    }
    table.render(style)
}

/// Delay that neither laws nor emulator account for, packet by packet, and the emulator's lateness.
pub(super) fn residuals(rows: &[Shown<'_>], style: &Style) -> String {
    let right = Align::Right;
    let mut table = Table::new([
        ("path", Align::Left),
        ("joined", right),
        ("residual min", right),
        ("p50", right),
        ("p99", right),
        ("max", right),
        ("late p50", right),
        ("p99", right),
        ("max", right),
    ]);
    let at = |series: &[i64], q| {
        quantile(series, q).map_or_else(|| "-".into(), |ns| duration(ns as f64 / 1e9))
    };
    let mut add = |name: &str, residual: &[i64], late: &[i64]| {
        table.row([
            name.to_string(),
            residual.len().to_string(),
            at(residual, 0.0),
            at(residual, 0.5),
            at(residual, 0.99),
            at(residual, 1.0),
            at(late, 0.5),
            at(late, 0.99),
            at(late, 1.0),
        ]);
    };
    let (mut residual, mut late) = (vec![], vec![]);
    for (shown, judged) in rows.iter().filter_map(|row| Some((row, row.judgement?))) {
        if judged.residual_ns.is_empty() {
            continue;
        }
        add(shown.case.name, &judged.residual_ns, &judged.lateness_ns);
        residual.extend(&judged.residual_ns);
        late.extend(&judged.lateness_ns);
    }
    residual.sort_unstable();
    late.sort_unstable();
    add("all", &residual, &late);
    table.render(style)
}

/// The loss ledger over all rows: missing packets by stage.
fn ledger(rows: &[Shown<'_>]) -> Option<String> {
    let ledgers: Vec<_> = rows.iter().filter_map(|row| row.ledger).collect();
    if ledgers.is_empty() {
        return None;
    }
    let missing: i64 = ledgers.iter().map(|l| l.missing_packets).sum();
    let remainder: i64 = ledgers.iter().map(|l| l.remainder_packets.abs()).sum();
    let mut stages: Vec<(&str, u64)> = vec![];
    for row in ledgers.iter().flat_map(|l| &l.rows) {
        match stages.iter_mut().find(|(stage, _)| *stage == row.stage) {
            Some((_, packets)) => *packets += row.packets,
            None => stages.push((&row.stage, row.packets)),
        }
    }
    let places: Vec<String> =
        stages.iter().map(|(stage, packets)| format!("{packets} by {stage}")).collect();
    let places = if places.is_empty() { String::new() } else { format!(": {}", places.join(", ")) };
    Some(format!(
        "loss ledger: {} missing{places}; remainder {remainder}\n",
        counted(missing, "packet")
    ))
}

/// The lines after the tables: reasons of verdicts, then totals.
pub(super) fn closing(rows: &[Shown<'_>]) -> String {
    let mut out = String::new();
    for Shown { case, verdict, attempts, .. } in rows {
        let again =
            if *attempts > 1 { format!(" (measured {attempts} times)") } else { String::new() };
        match verdict {
            Verdict::Failed(reason) | Verdict::Undecided(reason) => {
                out.push_str(&format!("{}: {reason}{again}\n", case.name));
            }
            Verdict::Passed if *attempts > 1 => {
                out.push_str(&format!("{}: host-limited at first{again}\n", case.name));
            }
            Verdict::Passed => {}
        }
    }
    let judged: Vec<_> = rows.iter().filter_map(|row| row.judgement).collect();
    let sum = |of: fn(&Judgement) -> u64| judged.iter().map(|j| of(j)).sum::<u64>();
    let remainder: i64 = judged.iter().map(|j| j.agreement.remainder.abs()).sum();
    let (sent, matched) = (sum(|j| j.agreement.sent), sum(|j| j.agreement.matched));
    let (predicted, unpredicted) =
        (sum(|j| j.agreement.predicted), sum(|j| j.agreement.unpredicted));
    out.push_str(&format!(
        "packets joined: emulator and receiver agree on {matched} of {sent} sent; ledger remainder {remainder}\n\
         dispositions: {predicted} of {} are as predicted from seed and arrivals, of all packets that crossed the emulator, with copies and control traffic\n",
        predicted + unpredicted
    ));
    out.push_str(&ledger(rows).unwrap_or_default());
    out
}
