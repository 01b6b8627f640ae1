//! An experiment as one table: `--csv` of `weir run`, `points.csv` of `weir report`.

use weir_model::csv::text_cell;
use weir_model::experiment::{Experiment, Point, StepOutcome};

/// Columns after those of the axes; names as in `weir.experiment/1`, figures in SI units.
const COLUMNS: [&str; 23] = [
    "metric",
    "count",
    "mean",
    "variance",
    "deviation",
    "interval_low",
    "interval_high",
    "interval_confidence_ratio",
    "min",
    "max",
    "host_limited",
    "failed",
    "bound_low",
    "bound_high",
    "interval_first_stage_count",
    "precision_asked_ratio",
    "precision_needed_count",
    "precision_count",
    "precision_reached",
    "interval_clipped",
    "peer_unreachable",
    "interrupted",
    "crossing",
];

/// An experiment as CSV. RFC 4180, lines end in LF.
///
/// There is a row for each point and metric of every sweep, comparison and search, and for each figure that a search found. The figure
/// of a search is in `mean`; its last two bounds are in `bound_low` and `bound_high`, which are not a confidence interval.
/// The result of a precision is in the row of the metric that determined the number of runs; if no run has that metric, its
/// row has `count` 0. A point without any figure has a row with `count` 0 and no metric: its runs failed, lost their peer,
/// were cut short, or were not made. The columns are `step` (the names of the enclosing steps and its own, joined by ` / `),
/// each axis, then the figures.
#[must_use]
pub fn experiment_csv(experiment: &Experiment) -> String {
    points_csv(&[("", experiment)])
}

/// Several experiments, each with a name, as one CSV: as [`experiment_csv`], with the name in a first column `experiment`.
#[must_use]
pub fn experiments_csv(experiments: &[(String, Experiment)]) -> String {
    let named: Vec<(&str, &Experiment)> =
        experiments.iter().map(|(name, experiment)| (name.as_str(), experiment)).collect();
    points_csv(&named)
}

/// The rows of experiments. A single one without a name has no column for it.
fn points_csv(experiments: &[(&str, &Experiment)]) -> String {
    let is_named = experiments.iter().any(|(name, _)| !name.is_empty());
    let steps: Vec<(&str, String, &StepOutcome)> = experiments
        .iter()
        .flat_map(|(name, experiment)| {
            flat(&experiment.steps, "")
                .into_iter()
                .map(move |(step, outcome)| (*name, step, outcome))
        })
        .collect();
    let mut axes: Vec<&str> = vec![];
    for (.., step) in &steps {
        let points = step.points.iter().flat_map(|p| p.at.keys());
        let found = step.found.iter().flat_map(|f| f.at.keys());
        for axis in step.axes.iter().chain(points).chain(found) {
            if !axes.contains(&axis.as_str()) {
                axes.push(axis);
            }
        }
    }
    let mut out = String::new();
    let names = is_named.then_some("experiment").into_iter().chain(["step"]);
    let head = names.chain(axes.iter().copied()).chain(COLUMNS);
    line(&mut out, head.map(text_cell));
    let number = |v: Option<f64>| v.map_or(String::new(), |v| v.to_string());
    for (experiment, name, step) in &steps {
        let place_cells = |at: &std::collections::BTreeMap<String, String>| {
            let values = axes.iter().map(|a| text_cell(at.get(*a).map_or("", String::as_str)));
            let names =
                is_named.then(|| text_cell(experiment)).into_iter().chain([text_cell(name)]);
            names.chain(values).collect::<Vec<_>>()
        };
        for point in &step.points {
            let crossing = crossing(point);
            let whole = |n: Option<u64>| n.map_or(String::new(), |n| n.to_string());
            for (metric, s) in &point.metrics {
                let precision = point.precision.as_ref().filter(|p| p.metric == *metric);
                let figures = [
                    text_cell(metric),
                    s.count.to_string(),
                    s.mean.to_string(),
                    number(s.variance),
                    number(s.deviation),
                    number(s.interval.map(|i| i.low)),
                    number(s.interval.map(|i| i.high)),
                    number(s.interval.map(|i| i.confidence_ratio)),
                    s.min.to_string(),
                    s.max.to_string(),
                    point.host_limited.to_string(),
                    point.failed.to_string(),
                    String::new(),
                    String::new(),
                    whole(s.interval.and_then(|i| i.first_stage_count)),
                    number(precision.map(|p| p.asked_ratio)),
                    whole(precision.and_then(|p| p.needed_count)),
                    whole(precision.map(|p| p.count)),
                    precision.map_or(String::new(), |p| p.reached.to_string()),
                    s.interval.map_or(String::new(), |i| i.clipped.to_string()),
                    point.peer_unreachable.to_string(),
                    point.interrupted.to_string(),
                    crossing.clone(),
                ];
                line(&mut out, place_cells(&point.at).into_iter().chain(figures));
            }
            // No run has the deciding metric: report the result of the precision without figures.
            let decides = point.precision.as_ref();
            if let Some(p) = decides.filter(|p| !point.metrics.contains_key(&p.metric)) {
                let mut figures = [const { String::new() }; COLUMNS.len()];
                figures[0] = text_cell(&p.metric);
                figures[1] = "0".into();
                figures[10] = point.host_limited.to_string();
                figures[11] = point.failed.to_string();
                figures[15] = p.asked_ratio.to_string();
                figures[16] = whole(p.needed_count);
                figures[17] = p.count.to_string();
                figures[18] = p.reached.to_string();
                figures[20] = point.peer_unreachable.to_string();
                figures[21] = point.interrupted.to_string();
                figures[22].clone_from(&crossing);
                line(&mut out, place_cells(&point.at).into_iter().chain(figures));
            }
        }
        for point in step.points.iter().filter(|p| p.metrics.is_empty() && p.precision.is_none()) {
            let mut figures = [const { String::new() }; COLUMNS.len()];
            figures[1] = "0".into();
            figures[10] = point.host_limited.to_string();
            figures[11] = point.failed.to_string();
            figures[20] = point.peer_unreachable.to_string();
            figures[21] = point.interrupted.to_string();
            figures[22] = crossing(point);
            line(&mut out, place_cells(&point.at).into_iter().chain(figures));
        }
        for found in &step.found {
            let mut figures = [const { String::new() }; COLUMNS.len()];
            figures[0] = text_cell(&found.name);
            figures[2] = number(found.value);
            figures[5] = number(found.interval.map(|i| i.low));
            figures[6] = number(found.interval.map(|i| i.high));
            figures[7] = number(found.interval.map(|i| i.confidence_ratio));
            figures[10] = u8::from(found.host_limited).to_string();
            figures[12] = number(found.bounds.and_then(|b| b.low));
            figures[13] = number(found.bounds.and_then(|b| b.high));
            line(&mut out, place_cells(&found.at).into_iter().chain(figures));
        }
    }
    out
}

fn crossing(point: &Point) -> String {
    point.crossing.map_or(String::new(), |c| c.word().into())
}

fn line(out: &mut String, cells: impl Iterator<Item = String>) {
    *out += &cells.collect::<Vec<_>>().join(",");
    out.push('\n');
}

/// All steps with their names; nested steps follow the enclosing one.
pub(crate) fn flat<'a>(steps: &'a [StepOutcome], around: &str) -> Vec<(String, &'a StepOutcome)> {
    let mut out = vec![];
    for step in steps {
        let name = match around {
            "" => step.name.clone(),
            around => format!("{around} / {}", step.name),
        };
        out.push((name.clone(), step));
        out.extend(flat(&step.steps, &name));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of a precision is in the row of its metric and in no other.
    #[test]
    fn a_precision_that_was_not_reached_has_its_own_columns() {
        let summary = serde_json::json!({
            "count": 6, "mean": 2.0, "min": 1.0, "max": 3.0,
            "interval": { "low": 1.0, "high": 3.0, "confidence_ratio": 0.95, "first_stage_count": 5 },
        });
        let other = serde_json::json!({ "count": 6, "mean": 2.0, "min": 1.0, "max": 3.0 });
        let experiment = serde_json::json!({
            "schema": "weir.experiment/1", "id": "x", "version": "0", "name": "n", "started_at": "", "seconds": 0.0,
            "status": "complete", "command": [], "seed": 1, "outcome": "inconclusive",
            "steps": [{
                "name": "s", "action": "test", "outcome": "inconclusive", "seconds": 0.0,
                "points": [{
                    "at": {}, "runs": 6, "host_limited": 0, "failed": 0,
                    "metrics": { "loss": summary, "throughput": other },
                    "precision": {
                        "metric": "loss", "asked_ratio": 0.02, "first_stage_count": 5, "needed_count": 40, "count": 6,
                        "reached": false,
                    },
                }],
            }],
        });
        let text = experiment_csv(&serde_json::from_value(experiment).unwrap());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with(
            ",bound_low,bound_high,interval_first_stage_count,precision_asked_ratio,precision_needed_count,\
             precision_count,precision_reached,interval_clipped,peer_unreachable,interrupted,crossing"
        ));
        assert!(
            lines[1].starts_with("s,loss,")
                && lines[1].ends_with(",,,5,0.02,40,6,false,false,0,0,")
        );
        assert!(
            lines[2].starts_with("s,throughput,") && lines[2].ends_with(",,,,,,,,0,0,"),
            "{text}"
        );
    }

    /// Even if no run has the metric, a program must find that the precision was not reached.
    #[test]
    fn a_precision_whose_metric_no_run_has_is_in_a_row_with_count_0() {
        let experiment = serde_json::json!({
            "schema": "weir.experiment/1", "id": "x", "version": "0", "name": "n", "started_at": "", "seconds": 0.0,
            "status": "complete", "command": [], "seed": 1, "outcome": "inconclusive",
            "steps": [{
                "name": "s", "action": "test", "outcome": "inconclusive", "seconds": 0.0, "axes": ["rate"],
                "points": [{
                    "at": { "rate": "1M" }, "runs": 6, "host_limited": 2, "failed": 1,
                    "metrics": { "throughput": { "count": 6, "mean": 2.0, "min": 1.0, "max": 3.0 } },
                    "precision": {
                        "metric": "loss", "asked_ratio": 0.02, "first_stage_count": 5, "count": 0, "reached": false,
                    },
                }],
            }],
        });
        let text = experiment_csv(&serde_json::from_value(experiment).unwrap());
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].starts_with("s,1M,throughput,6,2,") && lines[1].ends_with(",,,,,0,0,"),
            "{text}"
        );
        assert_eq!(&lines[2..], ["s,1M,loss,0,,,,,,,,,2,1,,,,0.02,,0,false,,0,0,"]);
        let cells = |line: &str| line.split(',').count();
        assert_eq!(cells(lines[2]), cells(lines[0]));
    }

    /// The number of runs is shown with each figure, and a point without figures is not omitted.
    #[test]
    fn runs_that_lost_their_peer_or_were_cut_short_are_counted_in_columns_of_their_own() {
        let experiment = serde_json::json!({
            "schema": "weir.experiment/1", "id": "x", "version": "0", "name": "n", "started_at": "", "seconds": 0.0,
            "status": "interrupted", "command": [], "seed": 1, "outcome": "inconclusive",
            "steps": [{
                "name": "s", "action": "sweep", "outcome": "inconclusive", "seconds": 0.0, "axes": ["size"],
                "points": [
                    {
                        "at": { "size": "1" }, "runs": 2, "host_limited": 0, "failed": 3, "peer_unreachable": 2, "interrupted": 1,
                        "crossing": "per-packet",
                        "metrics": { "loss": {
                            "count": 2, "mean": 0.5, "min": 0.25, "max": 0.75,
                            "interval": { "low": 0.0, "high": 1.0, "confidence_ratio": 0.95, "clipped": true },
                        } },
                    },
                    { "at": { "size": "2" }, "runs": 0, "host_limited": 0, "failed": 1, "interrupted": 1, "metrics": {} },
                    { "at": { "size": "3" }, "runs": 0, "host_limited": 0, "failed": 0, "metrics": {} },
                ],
            }],
        });
        let text = experiment_csv(&serde_json::from_value(experiment).unwrap());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            &lines[1..],
            [
                "s,1,loss,2,0.5,,,0,1,0.95,0.25,0.75,0,3,,,,,,,,true,2,1,per-packet",
                "s,2,,0,,,,,,,,,0,1,,,,,,,,,0,1,",
                "s,3,,0,,,,,,,,,0,0,,,,,,,,,0,0,",
            ]
        );
    }

    /// Names and values come from the scenario, and a spreadsheet evaluates cells that start like a formula.
    #[test]
    fn nothing_of_a_scenario_is_a_formula() {
        let experiment = serde_json::json!({
            "schema": "weir.experiment/1", "id": "x", "version": "0", "name": "n", "started_at": "", "seconds": 0.0,
            "status": "complete", "command": [], "seed": 1, "outcome": "passed",
            "steps": [{
                "name": "=cmd|' /C calc'!A0", "action": "sweep", "outcome": "passed", "seconds": 0.0, "axes": ["@axis"],
                "points": [{
                    "at": { "@axis": "-2+3" }, "runs": 1, "host_limited": 0, "failed": 0,
                    "metrics": { "+loss": { "count": 1, "mean": 0.5, "min": 0.5, "max": 0.5 } },
                }],
            }],
        });
        let text = experiment_csv(&serde_json::from_value(experiment).unwrap());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("step,'@axis,metric,"), "{text}");
        assert!(lines[1].starts_with("'=cmd|' /C calc'!A0,'-2+3,'+loss,1,0.5,"), "{text}");
    }
}
