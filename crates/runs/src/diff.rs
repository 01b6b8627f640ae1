//! Differences between two runs, or between two sets of runs, and whether chance explains them.
//!
//! Sets are compared run by run, since runs are considered independent. Two single runs are compared by their intervals,
//! which are not independent: a series counts as its effective number of independent values, and the order test uses means
//! of batches of corresponding length. For figures without intervals only the difference is shown, without a test.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use weir_model::metric::Better;
use weir_model::plan::Direction;
use weir_model::record::{Crossing, Record, Status};
use weir_model::warning::{Severity, Warning};
use weir_stats::compare::{
    MannWhitney, Moments, Welch, autocorrelation, batch_means, effective_size, hedges_g, holm,
};

use crate::figures::{Figure, Figures, figures, series};
use crate::setup::{Setup, SetupDifference};

/// The schema name of a [`Diff`].
pub(crate) const DIFF_SCHEMA: &str = "weir.runs-diff/1";

/// The JSON Schema of a printed [`Diff`]: the published file, which a test compares with the type.
#[must_use]
pub fn diff_schema() -> serde_json::Value {
    let text = include_str!("../../../docs/schemas/weir.runs-diff-1.schema.json");
    serde_json::from_str(text).unwrap_or_default()
}

/// One side of a comparison: a run, or several.
#[derive(Debug, Clone, Default)]
pub struct Side {
    runs: Vec<String>,
    figures: Vec<Figures>,
    /// The intervals of the first run; used only if it is the only one.
    series: BTreeMap<String, Vec<f64>>,
    setup: Setup,
    incomplete: Vec<String>,
    /// How the datagrams of each direction crossed the path.
    crossings: BTreeMap<String, BTreeSet<&'static str>>,
}

impl Side {
    /// A side without runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a run: its figures, not the record.
    pub fn add(&mut self, record: &Record) {
        if self.runs.is_empty() {
            self.series = series(record);
        }
        if record.status != Status::Complete {
            self.incomplete.push(record.id.clone());
        }
        self.runs.push(record.id.clone());
        self.figures.push(figures(record));
        self.setup.add(record);
        for direction in [Direction::Forward, Direction::Reverse] {
            let flows = record.flows.iter().filter(|f| f.direction == direction);
            if let Some(crossing) = Crossing::of(flows) {
                self.crossings.entry(direction.to_string()).or_default().insert(crossing.word());
            }
        }
    }

    /// The ids of its runs.
    pub fn runs(&self) -> &[String] {
        &self.runs
    }

    /// A figure's value in every run of this side that has it.
    fn values(&self, name: &str) -> Vec<f64> {
        self.figures.iter().filter_map(|f| f.get(name)).collect()
    }
}

/// The samples of a figure's test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "DiffSamples")]
#[serde(rename_all = "lowercase")]
pub enum Samples {
    /// The intervals of one run on each side.
    Intervals,
    /// The runs of each side.
    Runs,
}

/// Whether a figure differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "DiffMoved")]
#[serde(rename_all = "kebab-case")]
pub enum Moved {
    /// Both tests show a difference at the given level, Welch's after Holm's correction for all figures tested; if
    /// neither side varies, the order test after that correction.
    Significant,
    /// One of the tests shows a difference.
    Unclear,
    /// Neither does, which does not prove that there is none.
    NotSignificant,
    /// Too few independent values.
    TooFew,
    /// A single value on each side: chance can't be estimated.
    Untested,
}

/// One side of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SideFigure {
    /// The figure of the run, or the mean over the runs.
    pub value: f64,
    /// Number of intervals or runs tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Number of independent values that these are worth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effective_samples: Option<f64>,
    /// Autocorrelation of neighbouring intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag1_autocorrelation: Option<f64>,
    /// Mean of the samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Standard deviation of the samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_deviation: Option<f64>,
}

/// Welch's test of a figure: mean of B less mean of A.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WelchFigure {
    /// Mean of B less mean of A.
    pub difference: f64,
    /// Lower end of its confidence interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Difference ÷ standard error.
    pub t: f64,
    /// Welch–Satterthwaite.
    pub degrees_of_freedom: f64,
    /// Two-sided.
    pub p: f64,
    /// The same, corrected for the number of figures tested (Holm).
    pub p_adjusted: f64,
}

/// The Mann–Whitney test of a figure, B against A.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MannWhitneyFigure {
    /// Pairs in which B is larger, ties as half.
    pub u: f64,
    /// Two-sided.
    pub p: f64,
    /// The same, corrected for the number of figures tested (Holm): if neither side varies, so that order alone
    /// decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_adjusted: Option<f64>,
    /// Exact, not approximated.
    pub exact: bool,
    /// Number of values of A and of B compared: runs, or means of batches of intervals.
    pub samples: [u64; 2],
    /// The smallest p that so few values can give.
    pub min_p: f64,
    /// Fraction of pairs in which B is larger less that in which it is smaller (Cliff's delta), −1 to 1.
    pub cliffs_delta: f64,
}

/// One figure on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FigureDifference {
    /// Its name, ending in its unit; that of a direction starts with it.
    pub name: String,
    /// Its heading.
    pub label: String,
    /// Which values are better.
    pub better: Better,
    /// In A.
    pub a: SideFigure,
    /// In B.
    pub b: SideFigure,
    /// B less A.
    pub difference: f64,
    /// The same relative to A; absent if A is zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference_ratio: Option<f64>,
    /// The samples that were tested; absent if it was not tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<Samples>,
    /// Absent if a side is worth fewer than two values, or neither has any spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub welch: Option<WelchFigure>,
    /// Absent if it was not tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mann_whitney: Option<MannWhitneyFigure>,
    /// Difference of the means in pooled standard deviations (Hedges' g), B less A.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hedges_g: Option<f64>,
    /// Whether it moved.
    pub moved: Moved,
}

/// A comparison of two runs, or of two sets of runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Diff {
    /// [`DIFF_SCHEMA`].
    pub schema: String,
    /// Runs of A.
    pub a: Vec<String>,
    /// Runs of B.
    pub b: Vec<String>,
    /// Incomplete runs of either side: their figures cover what was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<String>,
    /// Confidence of intervals, and 1 less the level of the tests.
    pub confidence: f64,
    /// Differences in the setup.
    pub setup: Vec<SetupDifference>,
    /// Why figures of the two sides may not be comparable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// Figures that both sides have.
    pub figures: Vec<FigureDifference>,
}

/// Compares two sides at `confidence` (such as 0.95).
pub fn diff(a: &Side, b: &Side, confidence: f64) -> Diff {
    let single = a.runs.len() == 1 && b.runs.len() == 1;
    // In the order of the first run that has the figure.
    let mut names: Vec<&Figure> = vec![];
    for figure in a.figures.iter().flat_map(|f| &f.0) {
        if !names.iter().any(|other| other.name == figure.name) {
            names.push(figure);
        }
    }
    let mut found: Vec<FigureDifference> = names
        .into_iter()
        .filter_map(|figure| {
            if single {
                of_intervals(figure, a, b, confidence)
            } else {
                of_runs(figure, a, b, confidence)
            }
        })
        .collect();
    decide(&mut found, confidence);
    Diff {
        schema: DIFF_SCHEMA.into(),
        a: a.runs.clone(),
        b: b.runs.clone(),
        incomplete: a.incomplete.iter().chain(&b.incomplete).cloned().collect(),
        confidence,
        setup: a.setup.differences(&b.setup),
        warnings: crossings(a, b),
        figures: found,
    }
}

/// A warning for each direction whose datagrams crossed the path differently on the two sides.
fn crossings(a: &Side, b: &Side) -> Vec<Warning> {
    let differ = a.crossings.iter().filter_map(|(direction, one)| {
        let other = b.crossings.get(direction).filter(|other| *other != one)?;
        let words = |set: &BTreeSet<&str>| set.iter().copied().collect::<Vec<_>>().join(" and ");
        let text = format!(
            "{direction}: datagrams crossed the path {} in A and {} in B; coalesced and per-packet rates are not comparable",
            words(one),
            words(other)
        );
        Some(Warning::new("crossing-differs", Severity::Warning, text))
    });
    differ.collect()
}

/// A figure without a test.
fn untested(figure: &Figure, a: f64, b: f64) -> FigureDifference {
    let side = |value| SideFigure {
        value,
        samples: None,
        effective_samples: None,
        lag1_autocorrelation: None,
        mean: None,
        standard_deviation: None,
    };
    FigureDifference {
        name: figure.name.clone(),
        label: figure.label.clone(),
        better: figure.better,
        a: side(a),
        b: side(b),
        difference: b - a,
        difference_ratio: (a != 0.0).then(|| (b - a) / a).filter(|r| r.is_finite()),
        samples: None,
        welch: None,
        mann_whitney: None,
        hedges_g: None,
        moved: Moved::Untested,
    }
}

/// A figure of one run on each side, by its intervals if it has some.
fn of_intervals(figure: &Figure, a: &Side, b: &Side, confidence: f64) -> Option<FigureDifference> {
    let name = &figure.name;
    let [value_a, value_b] = [a, b].map(|side| side.figures.first()?.get(name));
    let mut out = untested(figure, value_a?, value_b?);
    let (Some(one), Some(two)) = (a.series.get(name), b.series.get(name)) else {
        return Some(out);
    };
    out.samples = Some(Samples::Intervals);
    let [worth_a, worth_b] = [one, two].map(|values| Moments::of_series(values));
    describe(&mut out.a, one, worth_a);
    describe(&mut out.b, two, worth_b);
    out.a.effective_samples = effective_size(one);
    out.b.effective_samples = effective_size(two);
    out.a.lag1_autocorrelation = autocorrelation(one, 1);
    out.b.lag1_autocorrelation = autocorrelation(two, 1);
    // The autocorrelation of a short series is unknown, and so is its number of independent values.
    let [batches_a, batches_b] = [one, two].map(|values| batch_means(values).unwrap_or_default());
    test(&mut out, (worth_a, worth_b), (&batches_a, &batches_b), confidence);
    Some(out)
}

/// A figure of several runs.
fn of_runs(figure: &Figure, a: &Side, b: &Side, confidence: f64) -> Option<FigureDifference> {
    let (one, two) = (a.values(&figure.name), b.values(&figure.name));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    if one.is_empty() || two.is_empty() {
        return None;
    }
    let mut out = untested(figure, mean(&one), mean(&two));
    out.samples = Some(Samples::Runs);
    let (worth_a, worth_b) = (Moments::of(&one), Moments::of(&two));
    describe(&mut out.a, &one, worth_a);
    describe(&mut out.b, &two, worth_b);
    test(&mut out, (worth_a, worth_b), (&one, &two), confidence);
    Some(out)
}

fn describe(side: &mut SideFigure, values: &[f64], worth: Option<Moments>) {
    side.samples = Some(values.len() as u64);
    side.effective_samples = worth.map(|w| w.size);
    side.mean = worth.map(|w| w.mean);
    side.standard_deviation = worth.map(|w| w.standard_deviation());
}

/// Both tests, B against A.
fn test(
    out: &mut FigureDifference,
    (worth_a, worth_b): (Option<Moments>, Option<Moments>),
    (a, b): (&[f64], &[f64]),
    confidence: f64,
) {
    if let (Some(first), Some(second)) = (&worth_b, &worth_a) {
        out.hedges_g = hedges_g(first, second);
        out.welch = Welch::of(first, second).map(|w| {
            let interval = w.interval(confidence);
            WelchFigure {
                difference: w.difference,
                low: interval.map(|i| i.0),
                high: interval.map(|i| i.1),
                t: w.t,
                degrees_of_freedom: w.degrees_of_freedom,
                p: w.p,
                p_adjusted: w.p,
            }
        });
    }
    out.mann_whitney = MannWhitney::of(b, a).map(|m| MannWhitneyFigure {
        u: m.u,
        p: m.p,
        p_adjusted: None,
        exact: m.exact,
        samples: [a.len() as u64, b.len() as u64],
        min_p: MannWhitney::min_p(a.len(), b.len()),
        cliffs_delta: m.cliffs_delta(),
    });
}

/// The p of a figure for Holm's correction: Welch's or, if neither side varies, that of the order test. Equal values
/// throughout are not tested.
fn deciding(figure: &mut FigureDifference) -> Option<(f64, &mut f64)> {
    let steady = |side: &SideFigure| side.standard_deviation == Some(0.0);
    let is_steady = steady(&figure.a) && steady(&figure.b) && figure.difference != 0.0;
    match (&mut figure.welch, &mut figure.mann_whitney) {
        (Some(welch), _) => Some((welch.p, &mut welch.p_adjusted)),
        (None, Some(order)) if is_steady => Some((order.p, order.p_adjusted.insert(order.p))),
        _ => None,
    }
}

/// Corrects for the number of tests, and decides whether each figure differs.
fn decide(figures: &mut [FigureDifference], confidence: f64) {
    let level = 1.0 - confidence;
    let tested: Vec<_> = figures.iter_mut().filter_map(deciding).collect();
    let adjusted = holm(&tested.iter().map(|(p, _)| *p).collect::<Vec<_>>());
    for ((_, place), adjusted) in tested.into_iter().zip(adjusted) {
        *place = adjusted;
    }
    for figure in figures.iter_mut().filter(|f| f.samples.is_some()) {
        let is_equal = figure.a.standard_deviation == Some(0.0)
            && figure.b.standard_deviation == Some(0.0)
            && figure.difference == 0.0;
        figure.moved = match (&figure.welch, &figure.mann_whitney) {
            (Some(welch), Some(order)) => match (welch.p_adjusted < level, order.p < level) {
                (true, true) => Moved::Significant,
                (false, false) => Moved::NotSignificant,
                _ => Moved::Unclear,
            },
            // Neither side varies: the order test decides, if so few values can show anything.
            (None, Some(order)) if is_equal && order.min_p < level => Moved::NotSignificant,
            (None, Some(MannWhitneyFigure { p_adjusted: Some(p), min_p, .. }))
                if *min_p < level =>
            {
                if *p < level {
                    Moved::Significant
                } else {
                    Moved::NotSignificant
                }
            }
            _ => Moved::TooFew,
        };
    }
}

#[cfg(test)]
mod tests {
    /// The committed file matches the types. `WEIR_BLESS=1` rewrites it.
    #[test]
    fn the_published_schema_is_current() {
        let path = format!(
            "{}/../../docs/schemas/weir.runs-diff-1.schema.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let settings = schemars::generate::SchemaSettings::default().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<super::Diff>();
        let text = serde_json::to_string_pretty(&schema.to_value()).unwrap() + "\n";
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == text, "it differs from the types: run with WEIR_BLESS=1 and commit");
    }
}
