//! An experiment as text: a table for each sweep, expectations with the measured values, the verdict.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use weir_model::experiment::{
    Bounds, Experiment, Found, Metric, Outcome, Point, StepOutcome, Summary, Together, Unit,
};
use weir_model::record::Status;
use weir_model::warning::is_host_limit;

/// The outcome of a step, complete or interrupted.
fn ended(step: &StepOutcome) -> String {
    match (step.interrupted, step.outcome) {
        (false, outcome) => word(outcome).into(),
        // It did not run: neither passed nor failed.
        (true, Outcome::Inconclusive) => "interrupted".into(),
        (true, outcome) => format!("{}, interrupted", word(outcome)),
    }
}

/// The name of an outcome.
#[must_use]
pub(crate) fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::Passed => "passed",
        Outcome::Inconclusive => "inconclusive",
        Outcome::Failed => "FAILED",
        Outcome::Error => "ERROR",
        Outcome::Skipped => "skipped",
    }
}

/// The unit of a metric by its name.
#[must_use]
pub fn unit_of(metric: &str) -> Unit {
    metric.parse::<Metric>().map_or(Unit::Count, |m| m.unit())
}

/// A figure found by a search, with its unit.
#[must_use]
pub(crate) fn shown(found: &Found, value: f64) -> String {
    in_unit(value, &found.unit)
}

/// A value with the unit that a search names.
#[must_use]
pub(crate) fn in_unit(value: f64, unit: &str) -> String {
    match unit {
        "bits_per_second" => Unit::BitsPerSecond.show(value),
        "packets_per_second" => Unit::PacketsPerSecond.show(value),
        "seconds" => Unit::Seconds.show(value),
        "ratio" => Unit::Ratio.show(value),
        "packets" => format!("{} packets", Unit::Count.show(value)),
        _ => Unit::Count.show(value),
    }
}

/// Not measured or not published.
const ABSENT: &str = "-";

/// A table: the first `names` and the last `words` columns are text, the others figures.
fn table(rows: &[Vec<String>], names: usize, words: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |i: usize| {
        rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::from(" ");
        for (i, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[i].saturating_sub(cell.chars().count()));
            line += " ";
            let is_text = i < names || i + words >= columns;
            line += &if is_text { format!("{cell}{pad} ") } else { format!("{pad}{cell} ") };
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

/// The table of a sweep: a row for each point and metric with mean, standard deviation, interval, minimum and
/// maximum.
#[must_use]
pub(crate) fn points(step: &StepOutcome) -> String {
    let has_crossing = step.points.iter().any(|p| p.crossing.is_some());
    let mut out = String::new();
    for name in step.metric_names() {
        let unit = unit_of(name);
        let repeated = step.points.iter().filter_map(|p| p.metrics.get(name)).any(|s| s.count > 1);
        let mut head: Vec<String> = step.axes.clone();
        head.push(name.into());
        if repeated {
            let confidence = step.points.iter().find_map(|p| p.metrics.get(name)?.interval);
            let interval = confidence.map_or("interval".into(), |c| {
                format!("± ({:.4} %)", c.confidence_ratio * 100.0).replacen(".0000", "", 1)
            });
            head.extend([
                interval,
                "deviation".into(),
                squared(unit).into(),
                "min".into(),
                "max".into(),
                "runs".into(),
            ]);
        }
        if has_crossing {
            head.push("crossing".into());
        }
        let mut rows = vec![head];
        for point in &step.points {
            let shown = Shown { name, unit, repeated, has_crossing };
            rows.push(row(step, point, &shown));
        }
        out += &table(&rows, step.axes.len(), usize::from(has_crossing));
        out.push('\n');
    }
    out
}

/// The trials of a search: a row for each load, with the means of what was sent and received.
fn trials(step: &StepOutcome) -> String {
    let (sent, received) = step.rates();
    let heads = ["sent", "received", "received", "runs"].map(String::from);
    let mut rows = vec![step.axes.iter().cloned().chain(heads).collect::<Vec<_>>()];
    for point in &step.points {
        let mean = |name: &str| {
            point.metrics.get(name).map_or(ABSENT.into(), |s| unit_of(name).show(s.mean))
        };
        let at = step.axes.iter().map(|axis| point.at.get(axis).cloned().unwrap_or_default());
        let mark = if point.host_limited > 0 { "*" } else { "" };
        let figures =
            [mean(sent), mean(received), mean("received_ratio") + mark, point.runs.to_string()];
        rows.push(at.chain(figures).collect());
    }
    table(&rows, step.axes.len(), 0) + "\n"
}

/// The unit of a variance: the square of the SI unit, without a prefix.
fn squared(unit: Unit) -> &'static str {
    match unit {
        Unit::BitsPerSecond => "variance, (bit/s)²",
        Unit::PacketsPerSecond => "variance, (packets/s)²",
        Unit::TransactionsPerSecond => "variance, (transactions/s)²",
        Unit::Bytes => "variance, B²",
        Unit::Seconds => "variance, s²",
        Unit::PerMinute => "variance, (per minute)²",
        Unit::Ratio | Unit::Count => "variance",
    }
}

/// A metric, and the columns of its table.
struct Shown<'n> {
    name: &'n str,
    unit: Unit,
    repeated: bool,
    has_crossing: bool,
}

fn row(step: &StepOutcome, point: &Point, shown: &Shown<'_>) -> Vec<String> {
    let Shown { name, unit, repeated, has_crossing } = *shown;
    let sent = step.sent_instead(point, name);
    let summary: Option<&Summary> = point.metrics.get(name).or(sent);
    let mut cells: Vec<String> =
        step.axes.iter().map(|axis| point.at.get(axis).cloned().unwrap_or_default()).collect();
    let show = |v: Option<f64>| v.map_or(ABSENT.into(), |v| unit.show(v));
    // An absent figure gets no mark.
    let mark = if point.host_limited > 0 && summary.is_some() { "*" } else { "" };
    let mark = if sent.is_some() { format!(" sent{mark}") } else { mark.into() };
    cells.push(show(summary.map(|s| s.mean)) + &mark);
    if repeated {
        cells.push(summary.and_then(|s| s.interval).map_or(ABSENT.into(), |i| match i.clipped {
            // The mean is not the middle of the interval.
            true => format!("{} to {}", unit.show(i.low), unit.show(i.high)),
            false => unit.show((i.high - i.low) / 2.0),
        }));
        cells.push(show(summary.and_then(|s| s.deviation)));
        cells.push(summary.and_then(|s| s.variance).map_or(ABSENT.into(), |v| format!("{v:.3e}")));
        cells.push(show(summary.map(|s| s.min)));
        cells.push(show(summary.map(|s| s.max)));
        cells.push(match point.failed {
            0 => point.runs.to_string(),
            failed => format!("{} ({failed} failed)", point.runs),
        });
    }
    if has_crossing {
        cells.push(point.crossing.map_or(ABSENT.into(), |c| c.word().into()));
    }
    cells
}

/// Removes line breaks from a scenario's text: it could imitate a line of Weir's.
fn line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), "\u{fffd}")
}

/// A finished step.
#[must_use]
pub(crate) fn step(step: &StepOutcome, depth: usize, verbose: bool) -> String {
    let pad = "  ".repeat(depth);
    let mut out = format!("{pad}{}: {}", line(&step.name), ended(step));
    // Do not repeat the outcome.
    let reason = step.reason.as_deref().map(|reason| match step.interrupted {
        true => reason.strip_prefix("interrupted").map_or(reason, |r| r.trim_start_matches(": ")),
        false => reason,
    });
    if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
        let _ = write!(out, ": {}", line(reason));
    }
    out.push('\n');
    let body = |text: &str| {
        text.lines()
            .map(|l| if l.is_empty() { "\n".into() } else { format!("{pad}{l}\n") })
            .collect::<String>()
    };
    if step.is_search() {
        // Of other searches, the result says it all.
        if step.found.iter().any(|f| f.name == Found::SATURATION_POINT) {
            out += &body(&trials(step));
        }
    } else if !step.points.is_empty() {
        out += &body(&points(step));
    } else if step.found.is_empty() {
        for run in step.runs.iter().filter(|r| r.error.is_none()) {
            let mut figures: Vec<String> = run
                .metrics
                .iter()
                .map(|(name, v)| format!("{name} {}", unit_of(name).show(*v)))
                .collect();
            figures.extend(run.crossing.map(|c| c.word().to_owned()));
            out += &body(&format!("  {}", figures.join(", ")));
        }
    }
    for left_out in step.left_out_words() {
        out += &body(&format!("  {}", line(&left_out)));
    }
    let host_limited: u64 = step.points.iter().map(|p| p.host_limited).sum();
    if host_limited > 0 {
        let mut codes: BTreeMap<&str, u32> = BTreeMap::new();
        for run in step.counted_runs().filter(|r| r.host_limited) {
            let limits = run.warnings.iter().filter(|code| is_host_limit(code));
            limits.for_each(|code| *codes.entry(code).or_default() += 1);
        }
        let codes: Vec<String> = codes.iter().map(|(c, n)| format!("{c} in {n}")).collect();
        let all: u64 = step.points.iter().map(|p| p.runs).sum();
        let runs = format!("{host_limited} of {}", weir_model::counted(all, "run"));
        out += &body(&format!("  * limited by tool or host in {runs}: {}", codes.join(", ")));
    }
    if let Some(together) = &step.together {
        out += &body(&format!("  {}", together_words(together)));
    }
    let mut rows = vec![];
    for found in &step.found {
        let at: Vec<String> = found.at.iter().map(|(n, v)| format!("{n}={v}")).collect();
        // A lower bound without an upper one stands for the value, as in a result table.
        let at_least = found.bounds.filter(|b| b.high.is_none() && found.value.is_none());
        let value = match (found.value, at_least.and_then(|b| b.low)) {
            (Some(value), _) => {
                format!("{}{}", shown(found, value), if found.host_limited { "*" } else { "" })
            }
            (None, Some(low)) => format!("≥ {}", shown(found, low)),
            (None, None) => ABSENT.into(),
        };
        let interval = found.interval.map_or(String::new(), |i| {
            let percentage = i.confidence_ratio * 100.0;
            format!("{percentage} % interval {} to {}", shown(found, i.low), shown(found, i.high))
        });
        let between = match at_least {
            Some(_) => String::new(),
            None => found.bounds.map_or(String::new(), |b| bounds_words(found, b)),
        };
        let notes = [interval, between, found.text.clone()]
            .into_iter()
            .filter(|t| !t.is_empty())
            .collect::<Vec<_>>();
        rows.push(vec![found.name.clone(), at.join(" "), value, notes.join("; ")]);
    }
    if !rows.is_empty() {
        out += &body(&table(&rows, 2, 1));
    }
    out += &body(&output(step, verbose));
    out += &body(&tools_output(step, verbose));
    for judged in &step.expectations {
        let at: Vec<String> = judged.at.iter().map(|(n, v)| format!("{n}={v}")).collect();
        let at = if at.is_empty() { String::new() } else { format!(" [{}]", at.join(" ")) };
        out += &body(&format!(
            "  {:<12} {}{at}: {}",
            word(judged.outcome),
            line(&judged.text),
            line(&judged.reason)
        ));
    }
    out
}

/// A finished step with its inner steps. Of a command that failed, with the last lines of its output; if `verbose`, with the
/// whole output of any.
#[must_use]
pub fn whole(outcome: &StepOutcome, depth: usize, verbose: bool) -> String {
    let inner = outcome.steps.iter().map(|inner| whole(inner, depth + 1, verbose));
    step(outcome, depth, verbose) + &inner.collect::<String>()
}

/// Maximum number of lines of each stream of a command's output, unless verbose.
const OUTPUT_LINES: usize = 20;

/// The output of a step's command, indented.
fn output(step: &StepOutcome, verbose: bool) -> String {
    let has_failed = matches!(step.outcome, Outcome::Failed | Outcome::Error);
    if !verbose && !has_failed {
        return String::new();
    }
    let mut out = String::new();
    for (stream, text) in step.printed() {
        if let Some(stream) = stream {
            let _ = writeln!(out, "  {stream}:");
        }
        let lines: Vec<&str> = text.lines().collect();
        let left_out = if verbose { 0 } else { lines.len().saturating_sub(OUTPUT_LINES) };
        if left_out > 0 {
            let left_out = weir_model::counted(left_out, "line");
            let _ = writeln!(out, "  | … {left_out} before (-V shows all)");
        }
        for text in &lines[left_out..] {
            let _ = writeln!(out, "  | {}", line(text));
        }
    }
    out
}

/// What other tools printed, indented: of runs that failed, or of all.
fn tools_output(step: &StepOutcome, verbose: bool) -> String {
    let mut out = String::new();
    for run in step.runs.iter().filter(|run| verbose || run.error.is_some()) {
        for (end, text) in run.printed() {
            let _ = writeln!(out, "  {}:", line(&run.title_of(end)));
            for text in text.lines() {
                let _ = writeln!(out, "  | {}", line(text));
            }
        }
    }
    out
}

/// The last bounds of a search.
fn bounds_words(found: &Found, bounds: Bounds) -> String {
    match (bounds.low, bounds.high) {
        (Some(low), Some(high)) => {
            format!("{} passed, {} did not", shown(found, low), shown(found, high))
        }
        (Some(low), None) => format!("{} passed", shown(found, low)),
        (None, Some(high)) => format!("{} did not pass", shown(found, high)),
        (None, None) => String::new(),
    }
}

/// How far apart concurrent tests started.
fn together_words(together: &Together) -> String {
    let time = |seconds| Unit::Seconds.show(seconds);
    format!(
        "{} tests started together: their first packets arrived within {} (clocks: {})",
        together.tests,
        time(together.first_packet_skew_seconds),
        together.error_seconds.map_or("no bound known".to_owned(), |s| format!("± {}", time(s)))
    )
}

/// The last lines.
#[must_use]
pub fn closing(experiment: &Experiment) -> String {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    fn count(steps: &[StepOutcome], counts: &mut BTreeMap<&str, u32>) {
        for step in steps {
            for judged in &step.expectations {
                *counts.entry(word(judged.outcome)).or_default() += 1;
            }
            count(&step.steps, counts);
        }
    }
    count(&experiment.steps, &mut counts);
    let outcome = match (experiment.status, experiment.outcome) {
        (Status::Interrupted, Outcome::Inconclusive) => "interrupted".into(),
        (Status::Interrupted, outcome) => format!("{}, interrupted", word(outcome)),
        (_, outcome) => word(outcome).to_owned(),
    };
    let mut out = format!("{}: {outcome}", line(&experiment.name));
    if !counts.is_empty() {
        let counts: Vec<String> =
            counts.iter().map(|(w, n)| format!("{n} {}", w.to_lowercase())).collect();
        let _ = write!(out, " (expectations: {})", counts.join(", "));
    }
    let _ = write!(
        out,
        ", {:.1} s, seed {}, id {}",
        experiment.seconds, experiment.seed, experiment.id
    );
    out.push('\n');
    for (name, value) in &experiment.sysctls {
        out += &format!("set in every host: {name} = {}\n", line(value));
    }
    if experiment.quick {
        out += "quick: fewer and shorter runs than the method asks for; not for publication\n";
    }
    if experiment.simulated {
        out += "simulated: on a virtual clock, no packet crossed a network\n";
    }
    for warning in &experiment.warnings {
        out += &format!("warning: {}\n", line(warning));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sent rate is not shown as a received one, nor a coalesced one as per-packet.
    #[test]
    fn what_a_rate_is_of_is_in_its_row() {
        let point = |tool: &str, metric: &str, crossing: &str| {
            serde_json::json!({
                "at": { "tool": tool }, "runs": 1, "host_limited": 0, "failed": 0, "crossing": crossing,
                "metrics": { metric: { "count": 1, "mean": 1e7, "min": 1e7, "max": 1e7 } },
            })
        };
        let step = |action: &str| -> StepOutcome {
            serde_json::from_value(serde_json::json!({
                "name": "s", "action": action, "outcome": "done", "seconds": 1.0, "axes": ["tool"],
                "points": [
                    point("weir", "throughput", "coalesced"),
                    point("iperf", "sent_throughput", "per-packet"),
                ],
            }))
            .unwrap()
        };
        let rows = |step: &StepOutcome| -> Vec<Vec<String>> {
            let cells = |line: &str| {
                line.split("  ").map(|c| c.trim().to_owned()).filter(|c| !c.is_empty()).collect()
            };
            points(step).lines().map(cells).filter(|row: &Vec<String>| !row.is_empty()).collect()
        };
        let wanted = [
            ["tool", "throughput", "crossing"],
            ["weir", "10 Mbit/s", "coalesced"],
            ["iperf", "10 Mbit/s sent", "per-packet"],
        ];
        assert_eq!(rows(&step("compare")), wanted);
        // A sweep that asks for the column has it.
        let heads: Vec<String> = rows(&step("sweep"))
            .into_iter()
            .filter(|r| r[0] == "tool")
            .map(|r| r[1].clone())
            .collect();
        assert_eq!(heads, ["throughput", "sent_throughput"]);
        assert!(super::step(&step("compare"), 0, false).starts_with("s: done\n"));
    }

    #[test]
    fn what_tools_printed_is_shown_if_they_failed_or_if_asked() {
        let run = |error: Option<&str>| {
            serde_json::json!({ "repetition": 1, "metrics": {}, "at": { "tool": "iperf3" }, "error": error,
                "output": "a\nb\u{7}", "server_output": "c" })
        };
        let lines = |error: Option<&str>, verbose: bool| -> Vec<String> {
            let step: StepOutcome = serde_json::from_value(serde_json::json!({
                "name": "s", "action": "compare", "outcome": "done", "seconds": 1.0, "runs": [run(error)],
            }))
            .unwrap();
            tools_output(&step, verbose).lines().map(|line| line.trim().to_owned()).collect()
        };
        assert!(lines(None, false).is_empty());
        let all = lines(None, true);
        let shown = ["| a", "| b\u{fffd}", "| c"];
        assert!(shown.iter().all(|wanted| all.iter().any(|line| line == wanted)), "{all:?}");
        assert_eq!(lines(Some("exit code 1"), false), all);
    }

    #[test]
    fn a_failed_command_shows_the_end_of_its_output() {
        let printed: String = (0..30).map(|n| format!("line {n}\n")).collect();
        let lines = |outcome: &str, verbose: bool| -> Vec<String> {
            let step: StepOutcome = serde_json::from_value(serde_json::json!({
                "name": "s", "action": "command", "outcome": outcome, "seconds": 1.0, "output": printed,
            }))
            .unwrap();
            whole(&step, 0, verbose)
                .lines()
                .filter(|l| l.contains("| line"))
                .map(Into::into)
                .collect()
        };
        let failed = lines("failed", false);
        assert_eq!((failed.len(), failed[0].trim()), (20, "| line 10"));
        assert_eq!(lines("failed", true).len(), 30);
        assert_eq!(lines("done", false).len(), 0);
        assert_eq!(lines("done", true).len(), 30);
        let step: StepOutcome = serde_json::from_value(serde_json::json!({
            "name": "s", "action": "command", "outcome": "failed", "seconds": 1.0, "output": printed, "stderr": printed,
        }))
        .unwrap();
        assert_eq!(output(&step, false).lines().count(), 2 * (1 + 1 + 20));
    }
}
