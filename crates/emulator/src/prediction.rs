//! Predicts the result of a delay law that can't keep both independent draws and packet order: simulates the same law
//! and seed before the start.

use weir_impair::{Engine, Meta, Verdict};
use weir_laws::Direction;
use weir_model::impairment::{Delay, Impairment, Laws, OTHER, OrderPolicy};
use weir_model::plan::Direction as Side;

/// Packet spacings of the prediction, ns.
const SPACINGS_NS: [u64; 3] = [10_000_000, 1_000_000, 100_000];
/// Packets of each.
const PACKETS: u64 = 10_000;
/// Maximum number of flows in the report.
const MAX: usize = 4;

/// The prediction for evenly spaced packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Time between two packets, s.
    pub spacing_seconds: f64,
    /// Mean delay, s.
    pub mean_seconds: f64,
    /// Standard deviation of the delay, s.
    pub deviation_seconds: f64,
    /// Fraction of packets that leave after a later one.
    pub reordered_ratio: f64,
}

/// Simulates `delay` alone with packets every `spacing_ns`. `None` if it is invalid.
#[must_use]
pub(crate) fn predict(delay: &Delay, config: &Impairment, spacing_ns: u64) -> Option<Prediction> {
    let laws = Laws { delay: Some(delay.clone()), ..Laws::default() };
    let config = Impairment { seed: config.seed, ..Impairment::of_both(laws) };
    let mut engine = Engine::new(&config, Direction::Forward).ok()?;
    let mut dispositions = Vec::new();
    for packet in 0..PACKETS {
        let arrived_ns = packet * spacing_ns;
        engine.step(arrived_ns, &[Meta::opaque(0, arrived_ns, 60)], &mut dispositions);
    }
    engine.step(u64::MAX >> 1, &[], &mut dispositions);
    // The first packets have none before them.
    let sent =
        dispositions.iter().filter(|f| f.verdict == Verdict::Forwarded && f.index >= PACKETS / 10);
    let delays: Vec<f64> = sent.map(|f| (f.at_ns - f.arrived_ns) as f64 / 1e9).collect();
    let count = delays.len() as f64;
    let mean_seconds = delays.iter().sum::<f64>() / count;
    let square = delays.iter().map(|d| (d - mean_seconds).powi(2)).sum::<f64>() / count;
    let reordered = engine.flows().map(|flow| flow.counters.reordered_packets).sum::<u64>();
    Some(Prediction {
        spacing_seconds: spacing_ns as f64 / 1e9,
        mean_seconds,
        deviation_seconds: square.sqrt(),
        reordered_ratio: reordered as f64 / PACKETS as f64,
    })
}

/// A sentence for each flow and direction whose delay law changes the order, the standard deviation or the mean.
#[must_use]
pub fn predictions(config: &Impairment) -> Vec<String> {
    let mut told: Vec<(String, Delay)> = Vec::new();
    let others = [Side::Forward, Side::Reverse].map(|side| (OTHER, config.other.laws(side)));
    let flows = config.flows.iter().flat_map(|flow| {
        [Side::Forward, Side::Reverse].map(|side| (flow.name.as_str(), flow.laws(side)))
    });
    for (name, laws) in flows.chain(others) {
        if let Some(delay) = laws.delay
            && !told.iter().any(|(other, before)| other == name && *before == delay)
        {
            told.push((name.to_owned(), delay));
        }
    }
    told.iter().filter_map(|(name, delay)| sentence(name, delay, config)).take(MAX).collect()
}

fn sentence(name: &str, delay: &Delay, config: &Impairment) -> Option<String> {
    let moments = delay.moments().filter(|_| delay.varies_by_packet())?;
    // A heavy-tailed law may have no standard deviation, or even no mean.
    let asked = |ns: Option<f64>| ns.map_or("infinite".into(), |ns| format!("{:.3}", ns / 1e6));
    let deviation = asked(moments.deviation_ns);
    let of: Vec<Prediction> =
        SPACINGS_NS.iter().filter_map(|ns| predict(delay, config, *ns)).collect();
    let list = |what: &dyn Fn(&Prediction) -> String| {
        let parts = of.iter().map(|p| format!("{} at {} ms", what(p), p.spacing_seconds * 1e3));
        parts.collect::<Vec<_>>().join(", ")
    };
    let (mean, spread) =
        (|p: &Prediction| p.mean_seconds * 1e3, |p: &Prediction| p.deviation_seconds * 1e3);
    Some(match delay.order {
        OrderPolicy::Allow => format!(
            "{name}: this delay law lets packets overtake each other; depending on their spacing, {} are reordered",
            list(&|p| format!("{:.1} %", p.reordered_ratio * 100.0))
        ),
        OrderPolicy::FifoRelease => format!(
            "{name}: fifo-release keeps the order; depending on the spacing of packets, the standard deviation of \
            {deviation} ms becomes {} (allow keeps it, but reorders)",
            list(&|p| format!("{:.3} ms", spread(p)))
        ),
        OrderPolicy::Smooth => format!(
            "{name}: smooth keeps the order with delays that vary slowly, so that {} ± {deviation} ms become, \
            depending on the spacing of packets, {}",
            asked(moments.mean_ns),
            list(&|p| format!("{:.3} ± {:.3} ms", mean(p), spread(p)))
        ),
        OrderPolicy::Max => format!(
            "{name}: max keeps the order by waiting, so that {} ± {deviation} ms become, \
            depending on the spacing of packets, {}",
            asked(moments.mean_ns),
            list(&|p| format!("{:.3} ± {:.3} ms", mean(p), spread(p)))
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(laws: &str) -> Impairment {
        Impairment {
            seed: "0x7".parse().expect("seed"),
            ..Impairment::of_both(laws.parse().expect("laws"))
        }
    }

    fn at(laws: &str, spacing_ns: u64) -> Prediction {
        let config = config(laws);
        predict(config.other.a_to_b.delay.as_ref().expect("delay"), &config, spacing_ns)
            .expect("it holds")
    }

    #[test]
    fn each_policy_gives_up_what_it_must() {
        // Packets 1 s apart never meet: the law is as asked.
        let far = at("delay 40ms ±5ms normal fifo-release", 1_000_000_000);
        assert!((far.deviation_seconds - 0.005).abs() < 0.0002, "{far:?}");
        let near = at("delay 40ms ±5ms normal fifo-release", 100_000);
        assert!(near.deviation_seconds < 0.0025, "{near:?}");
        assert!((near.mean_seconds - 0.04).abs() < 0.0005, "{near:?}");
        assert!((far.reordered_ratio, near.reordered_ratio) == (0.0, 0.0));
        let near = at("delay 40ms ±5ms normal allow", 100_000);
        assert!((near.deviation_seconds - 0.005).abs() < 0.0003, "{near:?}");
        assert!(near.reordered_ratio > 0.8, "{near:?}");
        // As published for this policy: 44.5 ± 3.2 at 1 ms, 49.4 ± 2.4 at 0.1 ms.
        for (spacing, mean, deviation) in [(1_000_000, 0.0445, 0.0032), (100_000, 0.0494, 0.0024)] {
            let got = at("delay 40ms ±5ms normal max", spacing);
            assert!((got.mean_seconds - mean).abs() < 0.0006, "{got:?}");
            assert!((got.deviation_seconds - deviation).abs() < 0.0004, "{got:?}");
        }
    }

    #[test]
    fn only_laws_that_give_something_up_are_reported() {
        assert_eq!(predictions(&config("delay 40ms, loss 1%")), [] as [String; 0]);
        let told = predictions(&config("delay 40ms ±5ms normal"));
        assert_eq!(told.len(), 1, "both ways alike: once: {told:?}");
        assert!(told[0].contains(" 5.000 ms"), "{told:?}");
        let mut two = config("delay 40ms ±5ms normal allow");
        two.other.b_to_a = "delay 10ms ±1ms uniform max".parse().expect("laws");
        let told = predictions(&two);
        assert!(told.len() == 2 && told[0].contains("are reordered"), "{told:?}");
        assert!(told[1].contains("by waiting"), "{told:?}");
    }
}
