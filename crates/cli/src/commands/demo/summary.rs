//! The demo as one object, `weir.demo/1`.

use serde_json::{Value, json};
use weir_experiment::demo::path::{self, Floor, SEED, Tolerance};
use weir_experiment::demo::{self, Row, Verdict};
use weir_experiment::triangulation::quantile;

use super::paths::Shown;

/// The results of a demo.
pub(super) struct Summary<'a> {
    /// Label of the stored runs, `demo=ID`.
    pub(super) id: Option<&'a str>,
    pub(super) is_simulated: bool,
    pub(super) floor: Floor,
    pub(super) path_delay_ns: f64,
    pub(super) clean: &'a [Row],
    pub(super) paths: &'a [Shown<'a>],
    pub(super) seconds: f64,
}

fn verdict(verdict: &Verdict) -> (&'static str, Option<&str>) {
    match verdict {
        Verdict::Passed => ("passed", None),
        Verdict::Failed(reason) => ("failed", Some(reason)),
        Verdict::Undecided(reason) => ("undecided", Some(reason)),
    }
}

/// The worst of all rows: failed before undecided before passed.
pub(super) fn overall<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>) -> (&'static str, i32) {
    let (mut failed, mut undecided) = (false, false);
    for verdict in verdicts {
        failed |= matches!(verdict, Verdict::Failed(_));
        undecided |= matches!(verdict, Verdict::Undecided(_));
    }
    match (failed, undecided) {
        (true, _) => ("failed", 1),
        (false, true) => ("undecided", 5),
        (false, false) => ("passed", 0),
    }
}

fn figure(value: path::Value) -> (&'static str, Value) {
    match value {
        path::Value::Packets(n) => ("packets", json!(n)),
        path::Value::Bytes(n) => ("bytes", json!(n)),
        path::Value::Seconds(s) => ("seconds", json!(s)),
        path::Value::BitsPerSecond(r) => ("bits_per_second", json!(r)),
    }
}

fn line(line: &path::Line) -> Value {
    let (unit, asked) = figure(line.asked);
    let (verdict, reason) = verdict(&line.verdict);
    let mut out = json!({
        "flow": line.flow, "figure": line.figure, format!("asked_{unit}"): asked, "verdict": verdict,
    });
    for (name, value) in [("realised", line.realised), ("measured", line.measured)] {
        if let Some(value) = value {
            out[format!("{name}_{unit}")] = figure(value).1;
        }
    }
    match line.tolerance {
        Tolerance::Exact => out["tolerance"] = json!("exact"),
        Tolerance::Between(low, high) => {
            out["min_packets"] = json!(low);
            out["max_packets"] = json!(high);
        }
        Tolerance::PlusMinus(by) => out[format!("tolerance_{unit}")] = figure(by).1,
    }
    if let Some(reason) = reason {
        out["reason"] = json!(reason);
    }
    out
}

/// Quantiles of an ascending series of ns, in seconds; absent when the series is empty.
fn distribution(series: &[i64]) -> Option<Value> {
    let at = |q| quantile(series, q).map(|ns| ns as f64 / 1e9);
    Some(json!({
        "count": series.len(), "min_seconds": at(0.0)?, "p50_seconds": at(0.5)?,
        "p99_seconds": at(0.99)?, "max_seconds": at(1.0)?,
    }))
}

pub(super) fn path_row(row: &Shown<'_>) -> Value {
    let (name, reason) = verdict(&row.verdict);
    let mut out = json!({
        "name": row.case.name, "laws": row.case.laws, "attempts": row.attempts, "verdict": name,
    });
    if let Some(reason) = reason {
        out["reason"] = json!(reason);
    }
    if let Some(judged) = row.judgement {
        let a = judged.agreement;
        out["figures"] = judged.lines.iter().map(line).collect();
        out["dispositions"] = json!({
            "sent_packets": a.sent, "matched_packets": a.matched,
            "predicted": a.predicted, "unpredicted": a.unpredicted,
            "remainder_packets": a.remainder, "unplanned_packets": a.unplanned,
        });
        for (key, series) in [("residual", &judged.residual_ns), ("lateness", &judged.lateness_ns)]
        {
            if let Some(found) = distribution(series) {
                out[key] = found;
            }
        }
    }
    if let Some(ledger) = row.ledger {
        out["loss_ledger"] = json!(ledger);
    }
    out
}

pub(super) fn clean_row(row: &Row) -> Value {
    let (name, reason) = verdict(&row.verdict);
    let mut out = json!({ "name": row.case.name, "asked": row.case.asked, "verdict": name });
    if let Some(reason) = reason {
        out["reason"] = json!(reason);
    }
    if let Ok(record) = &row.outcome {
        let f = demo::figures(record);
        out["sent_packets"] = json!(f.sent_packets);
        out["received_bits_per_second"] = json!(f.bits_per_second);
        for (key, value) in [
            ("delay_p50_seconds", f.delay_p50_seconds),
            ("jitter_seconds", f.jitter_seconds),
            ("spacing_deviation_seconds", f.spacing_seconds),
        ] {
            if let Some(value) = value {
                out[key] = json!(value);
            }
        }
        if let Some(lost) = f.lost_packets {
            out["lost_packets"] = json!(lost);
        }
        if let Some(ledger) = &record.loss_ledger {
            out["loss_ledger"] = json!(ledger);
        }
    }
    out
}

impl Summary<'_> {
    /// The object, on lines of its own.
    pub(super) fn json(&self) -> Value {
        let verdicts =
            self.clean.iter().map(|r| &r.verdict).chain(self.paths.iter().map(|r| &r.verdict));
        let (verdict, exit_code) = overall(verdicts);
        let mut out = json!({
            "schema": "weir.demo/1", "seed": SEED, "simulated": self.is_simulated,
            "seconds": self.seconds, "verdict": verdict, "exit_code": exit_code,
            "paths": self.paths.iter().map(path_row).collect::<Vec<_>>(),
        });
        if let Some(id) = self.id {
            out["id"] = json!(id);
        }
        if !self.is_simulated {
            out["clean"] = self.clean.iter().map(clean_row).collect();
            out["noise_floor"] = json!({
                "median_seconds": self.floor.median_ns / 1e9,
                "single_seconds": self.floor.single_ns / 1e9,
                "path_delay_seconds": self.path_delay_ns / 1e9,
            });
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_row_decides() {
        let (failed, open) = (Verdict::Failed("x".into()), Verdict::Undecided("y".into()));
        assert_eq!(overall([&Verdict::Passed, &open, &failed]), ("failed", 1));
        assert_eq!(overall([&open, &Verdict::Passed]), ("undecided", 5));
        assert_eq!(overall([&Verdict::Passed]), ("passed", 0));
    }
}
