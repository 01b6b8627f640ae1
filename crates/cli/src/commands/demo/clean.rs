//! The rows without an emulator: two hosts measure a plain link.

use weir_experiment::demo::{self, Row, Verdict};
use weir_report::{Align, Style, Table, Units, duration, percent};

/// The table of asked and measured values.
pub(super) fn table(rows: &[Row], style: &Style) -> String {
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
        ("", Align::Left),
    ]);
    let none = || "-".to_string();
    for row in rows {
        let verdict = match &row.verdict {
            Verdict::Passed if lossy(row).is_some() => {
                let f = row.outcome.as_ref().map(|r| demo::figures(r)).unwrap_or_default();
                let lost = f.lost_packets.unwrap_or(0) as f64 / f.sent_packets.max(1) as f64;
                format!("ok, but {} lost, placed", percent(lost))
            }
            Verdict::Passed => "ok".to_string(),
            Verdict::Failed(_) => "FAILED".to_string(),
            Verdict::Undecided(_) => "undecided".to_string(),
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
                verdict,
            ]);
            continue;
        };
        let f = demo::figures(record);
        let is_udp = f.lost_packets.is_some();
        let crossing = f.crossing.map(|c| format!(" {}", c.word())).unwrap_or_default();
        table.row([
            row.case.name.into(),
            row.case.asked.clone(),
            Units::ADAPTIVE.rate(f.bits_per_second),
            if is_udp { format!("{:.0}{crossing}", f.packets_per_second) } else { none() },
            f.lost_packets.map_or_else(none, |l| format!("{l}/{}", f.sent_packets)),
            f.delay_p50_seconds.map_or_else(none, duration),
            f.jitter_seconds.map_or_else(none, duration),
            f.spacing_seconds.map_or_else(none, duration),
            verdict,
        ]);
    }
    table.render(style)
}

/// The loss of a row that passed in spite of it.
fn lossy(row: &Row) -> Option<String> {
    let record = row.outcome.as_ref().ok()?;
    (row.verdict == Verdict::Passed).then(|| demo::losses(record))?
}

/// The reasons for the rows' verdicts, one a line.
pub(super) fn reasons(rows: &[Row]) -> String {
    let mut out = String::new();
    for row in rows {
        if let Verdict::Failed(reason) | Verdict::Undecided(reason) = &row.verdict {
            out.push_str(&format!("{}: {reason}\n", row.case.name));
        }
        if let Some(losses) = lossy(row) {
            out.push_str(&format!("{}: {losses}\n", row.case.name));
        }
    }
    out
}
