//! The metrics by which two runs are compared, and their values over the intervals.

use std::collections::BTreeMap;

use weir_model::metric::{Better, Definition, End, METRICS, Statistic, Unit};
use weir_model::plan::Direction;
use weir_model::record::{Interval, Record};

/// A metric of a run.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    /// Its name, ending in its unit; that of a direction begins with it.
    pub(crate) name: String,
    /// Its heading.
    pub(crate) label: String,
    pub(crate) better: Better,
    pub(crate) value: f64,
}

/// The metrics of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures(pub(crate) Vec<Figure>);

impl Figures {
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }
}

/// The statistics of a metric that are compared; `None` is the metric itself.
fn statistics(metric: &Definition) -> Vec<Option<Statistic>> {
    if metric.is_distribution() {
        Statistic::COMPARED.into_iter().map(Some).collect()
    } else {
        vec![None]
    }
}

/// The name of a metric in a comparison.
fn name(metric: &Definition, direction: Option<Direction>, statistic: Option<Statistic>) -> String {
    let direction = direction.map_or(String::new(), |d| format!("{d}_"));
    match statistic {
        Some(statistic) => format!("{direction}{}_{}_seconds", metric.key, statistic.name()),
        None => format!("{direction}{}", metric.key),
    }
}

fn label(
    metric: &Definition,
    record: &Record,
    direction: Option<Direction>,
    statistic: Option<Statistic>,
) -> String {
    let mut out = metric.label_of(&record.flows).to_string();
    if let Some(statistic) = statistic {
        out += &format!(", {}", statistic.name());
    }
    if let Some(direction) = direction {
        out += &format!(", {direction}");
    }
    out
}

/// The metrics of a run, as declared in [`METRICS`]. Absent ones are omitted.
pub(crate) fn figures(record: &Record) -> Figures {
    let mut out = vec![];
    let mut add = |metric: &Definition, direction: Option<Direction>| {
        for statistic in statistics(metric) {
            let value = metric.of(record, direction, statistic);
            if let Some(value) = value.filter(|v| v.is_finite()) {
                let name = name(metric, direction, statistic);
                let label = label(metric, record, direction, statistic);
                out.push(Figure { name, label, better: metric.better, value });
            }
        }
    };
    let compared = || METRICS.iter().filter(|m| m.is_compared);
    for direction in [Direction::Forward, Direction::Reverse] {
        compared().filter(|m| !m.is_of_run()).for_each(|m| add(m, Some(direction)));
    }
    compared().filter(|m| m.is_of_run()).for_each(|m| add(m, None));
    out.push(Figure {
        name: "warnings".into(),
        label: "Warnings".into(),
        better: Better::Lower,
        value: record.warnings.len() as f64,
    });
    Figures(out)
}

/// Values over the intervals of a run, by the name of the run's figure, without the omitted part, and without an
/// interval shorter than half of the others.
pub(crate) fn series(record: &Record) -> BTreeMap<String, Vec<f64>> {
    let length = |i: &Interval| i.end_seconds - i.start_seconds;
    let kept = record.intervals.iter().filter(|i| !i.omitted);
    let longest = kept.clone().map(length).fold(0.0, f64::max);
    let mut out: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for interval in kept.filter(|i| length(i) >= longest / 2.0) {
        let directions = [
            (Direction::Forward, &interval.total.forward),
            (Direction::Reverse, &interval.total.reverse),
        ];
        for (direction, ends) in directions {
            let Some(ends) = ends else { continue };
            for metric in METRICS.iter().filter(|m| m.is_compared && m.unit != Unit::Count) {
                // A last value is momentary; the interval has no mean of it.
                let Some(read) = metric.interval.as_ref().filter(|i| !i.is_last_value) else {
                    continue;
                };
                let end = if metric.end == End::Sender { &ends.sender } else { &ends.receiver };
                let value = end.as_ref().and_then(|count| (read.get)(count));
                if let Some(value) = value.filter(|v| v.is_finite()) {
                    let statistic = metric.is_distribution().then_some(Statistic::Mean);
                    out.entry(name(metric, Some(direction), statistic)).or_default().push(value);
                }
            }
        }
    }
    out
}
