//! Compression on the path: the rates of compressible and incompressible content.

use std::collections::BTreeMap;

use weir_model::ModelError;
use weir_model::experiment::{Confidence, Found, RunRef};
use weir_model::plan::Plan;
use weir_model::units::RateLimit;
use weir_stats::compare::MeanRatio;

/// The ratio above which content makes a difference: caches and offloads of hosts cause smaller ones.
const MARGIN: f64 = 1.05;
/// The fraction of the planned rate that counts as the whole.
const REACHED: f64 = 0.97;
/// The compared rate.
pub(super) const METRIC: &str = "throughput";

/// What a comparison of contents shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conclusion {
    Compresses,
    NoSign,
    Undecided(&'static str),
}

impl Conclusion {
    /// Its stable name.
    fn code(self) -> &'static str {
        match self {
            Conclusion::Compresses => "compresses",
            Conclusion::NoSign => "no-sign",
            Conclusion::Undecided(_) => "undecided",
        }
    }

    /// The sentence of the result.
    fn text(self) -> String {
        match self {
            Conclusion::Compresses => {
                "the path compresses: zeros arrive faster than random bytes".into()
            }
            Conclusion::NoSign => "no sign of compression on the path".into(),
            Conclusion::Undecided(why) => format!("undecided: {why}"),
        }
    }
}

/// The counted runs of one content.
struct Side {
    rates: Vec<f64>,
    is_host_limited: bool,
}

impl Side {
    fn of(runs: &[RunRef], content: &str) -> Side {
        let has = |run: &&RunRef| {
            run.is_counted() && run.at.get("content").is_some_and(|value| value == content)
        };
        let runs: Vec<&RunRef> = runs.iter().filter(has).collect();
        let limited = runs.iter().filter(|run| run.host_limited).count();
        let is_host_limited = 2 * limited > runs.len();
        // The rates of other runs are not the path's. If these are most, the ratio is shown and decides nothing.
        let is_of_path = |run: &&&RunRef| is_host_limited || !run.host_limited;
        let rate = |run: &&RunRef| run.metrics.get(METRIC).copied();
        Side { rates: runs.iter().filter(is_of_path).filter_map(rate).collect(), is_host_limited }
    }
}

/// The ratio of the rates of the compressible and the incompressible content, and what it shows. `planned` is the
/// planned rate, bit/s, if the sender has a limit.
pub(super) fn compared(runs: &[RunRef], planned: Option<f64>, confidence: f64) -> Found {
    let (zeros, random) = (Side::of(runs, "zeros"), Side::of(runs, "random"));
    let ratio = MeanRatio::of(&zeros.rates, &random.rates, confidence);
    let conclusion = conclude(&zeros, &random, ratio, planned);
    Found {
        name: Found::CONTENT_RATIO.into(),
        value: ratio.map(|r| r.ratio),
        unit: "number".into(),
        interval: ratio.and_then(|r| r.interval).map(|(low, high)| Confidence {
            low,
            high,
            confidence_ratio: confidence,
            ..Confidence::default()
        }),
        host_limited: zeros.is_host_limited || random.is_host_limited,
        code: Some(conclusion.code().into()),
        text: conclusion.text(),
        at: BTreeMap::new(),
        bounds: None,
    }
}

fn conclude(
    zeros: &Side,
    random: &Side,
    ratio: Option<MeanRatio>,
    planned: Option<f64>,
) -> Conclusion {
    use Conclusion::{Compresses, NoSign, Undecided};
    let Some(MeanRatio { ratio, interval }) = ratio else {
        return Undecided("fewer than two runs of a content have a rate");
    };
    let mean = random.rates.iter().sum::<f64>() / random.rates.len() as f64;
    if planned.is_some_and(|planned| mean >= REACHED * planned) {
        return Undecided(
            "random bytes arrived at the planned rate, so compression would not show: plan a higher rate",
        );
    }
    if zeros.is_host_limited || random.is_host_limited {
        return Undecided(
            "tool or host limited the rate of most runs of a content, so the ratio is not that of the path",
        );
    }
    let (low, high) = interval.unwrap_or((ratio, ratio));
    match (low > MARGIN, high < MARGIN) {
        (true, _) => Compresses,
        (_, true) => NoSign,
        _ => Undecided("the interval of the ratio includes 1.05: more or longer runs narrow it"),
    }
}

/// Refuses plans without one rate of one direction.
///
/// # Errors
/// [`ModelError::Field`] for transactions, verification, and connections in both directions.
pub(in crate::scenario) fn check(plan: &Plan) -> Result<(), ModelError> {
    let refuse = |given: &str, accepted: &str| {
        Err(ModelError::Field {
            field: "sweep.compare_content".into(),
            given: given.into(),
            accepted: accepted.into(),
        })
    };
    let all = &plan.connections;
    if all.iter().any(|c| c.shape.has_transactions()) {
        return refuse("given with transactions", "streams, whose rate is compared");
    }
    if all.iter().any(|c| c.verify) {
        return refuse("given with verify", "no verify, whose cost depends on the content");
    }
    if all.iter().any(|c| c.direction != all[0].direction) {
        return refuse("given with both directions", "one of them, forward or reverse");
    }
    Ok(())
}

/// The planned payload rate of all connections, bit/s; `None` if one has no limit or no stated payload size.
pub(super) fn planned_rate(plan: &Plan) -> Option<f64> {
    let rates = plan.connections.iter().map(|connection| {
        let each = match connection.send_rate().limit {
            RateLimit::Unlimited => None,
            RateLimit::Bits(rate) => Some(rate.0 as f64),
            RateLimit::Packets(rate) => {
                let size = connection.payload.as_ref()?;
                Some(rate * 8.0 * size.moments().mean_bytes)
            }
        };
        Some(each? * f64::from(connection.count))
    });
    rates.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of both contents with these rates; `limited` are the host-limited contents.
    fn runs(zeros: &[f64], random: &[f64], limited: &[&str]) -> Vec<RunRef> {
        let of = |content: &'static str, rates: &[f64]| {
            let run = |rate: &f64| RunRef {
                at: [("content".to_owned(), content.to_owned())].into(),
                metrics: [(METRIC.to_owned(), *rate)].into(),
                host_limited: limited.contains(&content),
                ..RunRef::default()
            };
            rates.iter().map(run).collect::<Vec<_>>()
        };
        [of("zeros", zeros), of("random", random)].concat()
    }

    fn code(runs: &[RunRef], planned: Option<f64>) -> String {
        compared(runs, planned, 0.95).code.unwrap()
    }

    const ONE: &[f64] = &[1e6, 1.01e6, 0.99e6];
    const SIX: &[f64] = &[6e6, 6.1e6, 5.9e6];

    #[test]
    fn the_interval_of_the_ratio_decides() {
        assert_eq!(code(&runs(SIX, ONE, &[]), None), "compresses");
        assert_eq!(code(&runs(ONE, ONE, &[]), None), "no-sign");
        // A path that prefers random bytes does not compress.
        assert_eq!(code(&runs(ONE, SIX, &[]), None), "no-sign");
        let spread = [1e6, 2e6, 0.5e6];
        assert_eq!(code(&runs(&spread, ONE, &[]), None), "undecided");
        let found = compared(&runs(SIX, ONE, &[]), None, 0.95);
        let interval = found.interval.unwrap();
        assert!((found.value.unwrap() - 6.0).abs() < 0.01, "{found:?}");
        assert!(interval.low > 5.5 && interval.high < 6.5, "{found:?}");
    }

    #[test]
    fn a_rate_that_the_path_did_not_limit_decides_nothing() {
        assert_eq!(code(&runs(ONE, ONE, &[]), Some(1e6)), "undecided");
        assert_eq!(code(&runs(ONE, ONE, &[]), Some(10e6)), "no-sign");
        assert_eq!(code(&runs(ONE, ONE, &["zeros"]), None), "undecided");
        assert_eq!(code(&runs(ONE, ONE, &["random"]), None), "undecided");
        // A host may take longer over one of them: other pages, other offloads.
        assert_eq!(code(&runs(SIX, ONE, &["zeros"]), None), "undecided");
        assert_eq!(code(&runs(SIX, ONE, &["random"]), None), "undecided");
        assert_eq!(code(&runs(&SIX[..1], ONE, &[]), None), "undecided");
        // Single runs that the host limited are left out.
        let mut some = runs(&[6e6, 6.1e6, 5.9e6, 1.0], ONE, &[]);
        some[3].host_limited = true;
        let found = compared(&some, None, 0.95);
        assert!((found.value.unwrap() - 6.0).abs() < 0.01, "{found:?}");
        assert_eq!((found.code.as_deref(), found.host_limited), (Some("compresses"), false));
        // A run that was repeated does not count, nor does one without a result.
        let mut repeated = runs(SIX, ONE, &[]);
        repeated[0].superseded = true;
        repeated[1].error = Some("interrupted".into());
        assert_eq!(code(&repeated, None), "undecided");
    }

    #[test]
    fn the_planned_rate_is_that_of_all_connections() {
        let plan = |text: &str| Plan::parse(text).unwrap();
        let udp = "schema = \"weir.plan/1\"\n[[connection]]\ntransport = \"udp\"\n";
        let of = |rest: &str| planned_rate(&plan(&format!("{udp}{rest}\n")));
        assert_eq!(of("rate = \"3M\"\ncount = 2"), Some(6e6));
        assert_eq!(of("rate = \"100pps\"\npayload = 1000"), Some(8e5));
        assert_eq!(of("rate = 0"), None);
    }
}
