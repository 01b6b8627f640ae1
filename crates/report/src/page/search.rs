//! The trials of a search as a chart: loss against the sent rate, and the result of the search.

use std::collections::BTreeMap;

use weir_model::experiment::{Found, StepOutcome};

use crate::plot::{Axis, Figure, Mark, Point, Quantity, ReferenceLine, Series};

/// A chart of the loss of each trial against its sent rate (for bursts: against the number of packets), with a series for each
/// point of the axes and a reference line for each result. `None` if no trial has both values.
pub(super) fn trials(step: &StepOutcome, number: usize) -> Option<Figure> {
    // These results have their own charts.
    let is_own = |f: &Found| [Found::SATURATION_POINT, "frame loss"].contains(&f.name.as_str());
    if !step.is_search() || step.found.iter().any(is_own) {
        return None;
    }
    let first = step.found.first()?;
    let (metric, x) = match first.unit.as_str() {
        "packets" => ("sent_packets", Axis::new("burst", "burst", Quantity::Count)),
        "bits_per_second" => {
            let kind = Quantity::BitsPerSecond;
            ("sent_throughput", Axis::new("sent", "sent_bits_per_second", kind))
        }
        _ => {
            let kind = Quantity::PacketsPerSecond;
            ("sent_packet_rate", Axis::new("sent", "sent_packets_per_second", kind))
        }
    };
    let mut series: Vec<(String, Vec<Point>)> = vec![];
    for run in step.counted_runs() {
        let (Some(x), Some(loss)) = (run.metrics.get(metric), run.metrics.get("loss")) else {
            continue;
        };
        let point = Point::at(*x, *loss).host_limited(run.host_limited);
        let name = name_of(step, &run.at);
        match series.iter_mut().find(|(n, _)| *n == name) {
            Some((_, points)) => points.push(point),
            None => series.push((name, vec![point])),
        }
    }
    let id = format!("step-{}-trials", number + 1);
    let y = Axis::new("loss", "loss_ratio", Quantity::Ratio);
    let mut figure = Figure::new(&id, &format!("{}: trials", step.name), x, y);
    for (name, mut points) in series {
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let name = if name.is_empty() { "trials".into() } else { name };
        figure = figure.with(Series::new(name, Mark::Points).points(points));
    }
    if figure.is_empty() {
        return None;
    }
    for found in step.found.iter().filter(|f| f.unit == first.unit) {
        // A rate received at a bound is on another axis.
        if let Some(value) = found.value.filter(|_| !found.name.contains("conditional")) {
            let name = format!("{} {}", found.name, name_of(step, &found.at));
            figure = figure.reference(name.trim(), ReferenceLine::Vertical(value));
        }
    }
    Some(
        figure.caption(
            "Each trial by what its sender sent; hollow where tool or host was the limit.",
        ),
    )
}

/// The values of the search's own axes, without the load of a trial.
pub(super) fn name_of(step: &StepOutcome, at: &BTreeMap<String, String>) -> String {
    let load = step.axes.last();
    let own = at.iter().filter(|(axis, _)| Some(*axis) != load);
    let values = own.map(|(axis, value)| format!("{axis}={value}"));
    values.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use weir_model::experiment::{Outcome, RunRef};

    use super::*;

    #[test]
    fn each_trial_is_a_dot_and_the_result_a_line() {
        let run = |sent: f64, loss: f64, size: &str| RunRef {
            at: [("size", size), ("rate", "20pps")]
                .map(|(n, v)| (n.to_owned(), v.to_owned()))
                .into(),
            metrics: [("sent_packet_rate".to_owned(), sent), ("loss".to_owned(), loss)].into(),
            host_limited: sent == 20.0,
            ..RunRef::default()
        };
        let found = |name: &str, value| Found {
            name: name.into(),
            at: [("size".to_owned(), "500".to_owned())].into(),
            value,
            unit: "packets_per_second".into(),
            ..Found::default()
        };
        let repeated = RunRef { superseded: true, ..run(20.0, 0.9, "500") };
        let step = StepOutcome {
            name: "s".into(),
            action: "search".into(),
            outcome: Outcome::Passed,
            reason: None,
            code: None,
            seconds: 1.0,
            runs: vec![repeated, run(20.0, 0.5, "500"), run(10.0, 0.0, "500"), run(20.0, 0.1, "2")],
            left_out: vec![],
            tools: vec![],
            axes: vec!["size".into(), "rate".into()],
            points: vec![],
            found: vec![found("throughput", Some(10.0)), found("other", None)],
            together: None,
            output: None,
            stderr: None,
            expectations: vec![],
            steps: vec![],
            interrupted: false,
        };
        let figure = trials(&step, 0).unwrap();
        let names: Vec<&str> = figure.series.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["size=500", "size=2"]);
        let points: Vec<(f64, f64, bool)> =
            figure.series[0].points.iter().map(|p| (p.x, p.y, p.host_limited)).collect();
        assert_eq!(points, [(10.0, 0.0, false), (20.0, 0.5, true)]);
        assert_eq!(figure.references.len(), 1);
        let curve = StepOutcome { found: vec![found(Found::SATURATION_POINT, Some(1.0))], ..step };
        assert!(trials(&curve, 0).is_none());
    }
}
