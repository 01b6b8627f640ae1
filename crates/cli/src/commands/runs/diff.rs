//! `weir runs diff`: compares two runs or two sets of runs, figure by figure.

use std::io::{self, Write};

use clap::Args;
use weir_report::{Align, Table, TextOptions, Units, duration, percent, significant};
use weir_runs::{
    DataDirectory, Diff, FigureDifference, Filter, Moved, Samples, Side, SideFigure, Store, diff,
};

use super::search::key_and_value;
use super::{RunsError, existing};

/// Maximum number of set-up differences that are printed; the JSON has all.
const SETUP_LINES: usize = 20;

#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// The first run: an id, a unique prefix, "last" or "last~N" [default: last~1]
    #[arg(conflicts_with_all = ["side_a", "side_b"])]
    a: Option<String>,
    /// The second run [default: last; if the only run given is the last one, it is compared with the one before]
    #[arg(conflicts_with_all = ["side_a", "side_b"])]
    b: Option<String>,
    /// Instead of A: the runs with this label, or a run. May be repeated: runs must have all labels; single runs are added.
    #[arg(long = "a", id = "side_a", value_name = "KEY=VALUE|RUN", requires = "side_b")]
    side_a: Vec<String>,
    /// Instead of B: the runs with this label, or a run.
    #[arg(long = "b", id = "side_b", value_name = "KEY=VALUE|RUN", requires = "side_a")]
    side_b: Vec<String>,
    /// Confidence of intervals and tests.
    #[arg(long, value_name = "PERCENT", default_value = "95%", value_parser = confidence)]
    confidence: f64,
    /// Print one JSON object instead of a table.
    #[arg(short = 'J', long)]
    json: bool,
    /// Unit of rates: k, m, g, t (bits, powers of ten) or K, M, G, T (bytes, powers of 1024).
    #[arg(short = 'f', long, value_name = "UNIT")]
    format: Option<Units>,
}

/// `95%` or `0.95`, from 50 % to below 100 %.
fn confidence(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let share = number.trim().parse::<f64>().ok().map(|n| n / scale);
    share
        .filter(|share| (0.5..1.0).contains(share))
        .ok_or_else(|| "expected a confidence such as 95% or 0.95, from 50% to below 100%".into())
}

pub(super) fn run(
    args: &DiffArgs,
    data: &DataDirectory,
    options: &TextOptions,
    out: &mut dyn Write,
) -> Result<(), RunsError> {
    let (a, b) = if args.side_a.is_empty() {
        let (last, before) = ("last".to_owned(), "last~1".to_owned());
        let store = existing(data, Some(args.a.as_ref().unwrap_or(&before)))?;
        let side = |selector: &String| {
            let mut side = Side::new();
            side.add(&store.get(selector)?);
            Ok::<_, RunsError>(side)
        };
        match (&args.a, &args.b) {
            (Some(a), Some(b)) => (side(a)?, side(b)?),
            (Some(a), None) if store.resolve(a)? != store.resolve(&last)? => {
                (side(a)?, side(&last)?)
            }
            _ => (side(&before)?, side(&last)?),
        }
    } else {
        let store = existing(data, args.side_a.first())?;
        (load(&store, "--a", &args.side_a)?, load(&store, "--b", &args.side_b)?)
    };
    if let Some(id) = a.runs().iter().find(|id| b.runs().contains(id)) {
        return Err(RunsError::BothSides { id: id.clone() });
    }
    let found = diff(&a, &b, args.confidence);
    if args.json {
        let text = weir_model::json::to_pretty(&found).map_err(io::Error::from)?;
        writeln!(out, "{text}")?;
    } else {
        let units = args.format.unwrap_or(options.units);
        out.write_all(text(&found, &TextOptions { units, ..*options }).as_bytes())?;
    }
    Ok(())
}

/// The runs of a side: those that have all its labels, and those named individually.
fn load(store: &Store, flag: &'static str, words: &[String]) -> Result<Side, RunsError> {
    let (labels, named): (Vec<&String>, Vec<&String>) = words.iter().partition(|w| w.contains('='));
    let mut ids = vec![];
    if !labels.is_empty() {
        let labels: Vec<_> = labels.iter().map(|label| key_and_value(label)).collect();
        let found = store.list(&Filter { labels, ..Default::default() })?;
        if found.is_empty() {
            return Err(RunsError::NoRuns { side: flag, given: words.join(" and ") });
        }
        ids.extend(found.into_iter().rev().map(|r| r.id));
    }
    for word in named {
        let id = store.resolve(word)?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let mut side = Side::new();
    for id in &ids {
        side.add(&store.get(id)?);
    }
    Ok(side)
}

/// The comparison as text.
fn text(found: &Diff, options: &TextOptions) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out += &weir_report::clean(&text);
        out.push('\n');
    };
    for (side, runs) in [("A", &found.a), ("B", &found.b)] {
        let more = runs.len().saturating_sub(3);
        let names = runs.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        let count = if runs.len() > 1 { format!("{} runs: ", runs.len()) } else { String::new() };
        line(format!("{side}  {count}{names}{rest}"));
    }
    if !found.incomplete.is_empty() {
        line(format!(
            "incomplete, figures cover what was measured: {}",
            found.incomplete.join(", ")
        ));
    }
    for warning in &found.warnings {
        line(format!("warning: {}", warning.text));
    }
    if !found.setup.is_empty() {
        out.push('\n');
        out += &setup(found, options);
    }
    out.push('\n');
    out += &figures(found, options);
    let notes = notes(found);
    if !notes.is_empty() {
        out.push('\n');
        out += &notes.join("\n");
        out.push('\n');
    }
    out
}

fn setup(found: &Diff, options: &TextOptions) -> String {
    let mut table =
        Table::new([("set up differently", Align::Left), ("A", Align::Left), ("B", Align::Left)]);
    let values = |values: &[String]| match values {
        [] => "-".into(),
        [one] => one.clone(),
        [one, two] => format!("{one}, {two}"),
        [one, two, ..] => format!("{one}, {two}, …"),
    };
    for row in found.setup.iter().take(SETUP_LINES) {
        table.row([&row.path, &values(&row.a), &values(&row.b)]);
    }
    let mut out = table.render(&options.style);
    if found.setup.len() > SETUP_LINES {
        out += &format!("and {} more; --json has all\n", found.setup.len() - SETUP_LINES);
    }
    out
}

fn figures(found: &Diff, options: &TextOptions) -> String {
    let left = |h: &str| (h.to_string(), Align::Left);
    let right = |h: &str| (h.to_string(), Align::Right);
    let mut table = Table::new([
        left("figure"),
        right("A"),
        right("B"),
        right("B - A"),
        right("change"),
        right(&format!("{} interval", percent(found.confidence))),
        right("samples"),
        right("p (Welch)"),
        right("p (order)"),
        right("g"),
        left("moved"),
    ]);
    for f in &found.figures {
        let value = |v: f64| shown(&f.name, v, options.units);
        let signed = |v: f64| {
            let text = value(v);
            if v > 0.0 { format!("+{text}") } else { text }
        };
        let welch = f.welch.as_ref();
        let interval = welch
            .and_then(|w| Some(format!("{} to {}", signed(w.low?), signed(w.high?))))
            .unwrap_or_default();
        let change = f.difference_ratio.map(|r| {
            let sign = if r > 0.0 { "+" } else { "" };
            format!("{sign}{}", percent(r))
        });
        table.row([
            name(&f.name),
            value(f.a.value),
            value(f.b.value),
            signed(f.difference),
            change.unwrap_or_default(),
            interval,
            samples(f),
            welch.map_or_else(String::new, |w| p(w.p_adjusted)),
            f.mann_whitney.as_ref().map_or_else(String::new, |m| p(m.p_adjusted.unwrap_or(m.p))),
            f.hedges_g.map_or_else(String::new, |g| format!("{g:+.2}")),
            moved(f.moved).into(),
        ]);
    }
    table.render(&options.style)
}

/// A figure's name as words, without its unit.
fn name(name: &str) -> String {
    let units = ["_bits_per_second", "_seconds", "_ratio"];
    let stem = units.iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name);
    stem.replace('_', " ")
}

/// A value in the unit that its name ends in.
fn shown(name: &str, value: f64, units: Units) -> String {
    if name.ends_with("_bits_per_second") {
        // The unit is chosen by magnitude; the sign is added afterwards.
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", units.rate(value.abs()))
    } else if name.ends_with("_seconds") {
        duration(value)
    } else if name.ends_with("_ratio") {
        percent(value)
    } else if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        significant(value)
    }
}

fn p(p: f64) -> String {
    if p < 0.0001 { "<0.0001".into() } else { format!("{p:.4}") }
}

/// The number of values compared, and the number of independent values if that is smaller.
fn samples(figure: &FigureDifference) -> String {
    let side = |side: &SideFigure| {
        let count = side.samples.unwrap_or(0);
        match side.effective_samples {
            Some(worth) if worth < count as f64 => format!("{count} worth {worth:.1}"),
            _ => count.to_string(),
        }
    };
    match figure.samples {
        None => String::new(),
        Some(_) => format!("{} / {}", side(&figure.a), side(&figure.b)),
    }
}

fn moved(moved: Moved) -> &'static str {
    match moved {
        Moved::Significant => "yes",
        Moved::Unclear => "unclear",
        Moved::NotSignificant => "not shown",
        Moved::TooFew => "too few",
        Moved::Untested => "not tested",
    }
}

/// Notes on how to read the figures.
fn notes(found: &Diff) -> Vec<String> {
    let mut notes = vec![];
    let any = |samples| found.figures.iter().any(|f| f.samples == Some(samples));
    if any(Samples::Intervals) {
        notes.push(
            "Tested by intervals, weighted by the number of independent values that they are \
            worth. Differences between runs are not included: compare sets of runs (--a, --b)."
                .into(),
        );
    }
    if found.figures.iter().any(|f| f.moved == Moved::Untested) {
        notes.push(
            "Not tested: a single value on each side, whose difference may be chance.".into(),
        );
    }
    let level = 1.0 - found.confidence;
    let few =
        found.figures.iter().filter_map(|f| f.mann_whitney.as_ref()).find(|m| m.min_p >= level);
    if let Some(few) = few {
        let [a, b] = few.samples;
        notes.push(format!(
            "With {a} and {b} values the order test can't be significant at {}.",
            percent(found.confidence)
        ));
    }
    notes
}
