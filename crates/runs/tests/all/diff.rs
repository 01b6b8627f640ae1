//! Comparisons of runs: significant differences, chance, and undecided cases.
// Clippy exempts test functions, but not their helpers.

use weir_model::plan::TransportName;
use weir_model::record::{
    DirectionTotal, Flow, Interval, IntervalCount, IntervalEnds, IntervalTotals, Receiver, Record,
    Sender, Status, Sums, Totals,
};
use weir_runs::{Diff, FigureDifference, Moved, Samples, Side, diff};
use weir_stats::compare::SplitMix64;

const UDP: &str = include_str!("../../../report/tests/golden/udp_loss.json");

/// A run with this throughput in each of its one-second intervals.
fn run(id: &str, throughput: &[f64]) -> Record {
    let mean = throughput.iter().sum::<f64>() / throughput.len() as f64;
    let intervals = throughput.iter().enumerate().map(|(second, rate)| {
        let receiver = IntervalCount { bits_per_second: Some(*rate), ..Default::default() };
        let ends = IntervalEnds { receiver: Some(receiver), ..IntervalEnds::default() };
        Interval {
            start_seconds: second as f64,
            end_seconds: second as f64 + 1.0,
            total: IntervalTotals { forward: Some(ends), reverse: None },
            ..Default::default()
        }
    });
    let receiver = Sums { bits_per_second: Some(mean), ..Default::default() };
    let forward = Some(DirectionTotal { sender: None, receiver: Some(receiver) });
    Record {
        id: id.into(),
        intervals: intervals.collect(),
        total: Totals { forward, reverse: None },
        ..Default::default()
    }
}

/// AR(1) noise around a mean.
fn noisy(mean: f64, coefficient: f64, count: usize, seed: u64) -> Vec<f64> {
    let mut random = SplitMix64::new(seed);
    let mut value = 0.0;
    (0..count + 100)
        .map(|_| {
            value = coefficient * value + random.unit() - 0.5;
            mean + value
        })
        .skip(100)
        .collect()
}

fn compared(a: &Record, b: &Record) -> Diff {
    let [mut one, mut two] = [Side::new(), Side::new()];
    one.add(a);
    two.add(b);
    diff(&one, &two, 0.95)
}

fn throughput(found: &Diff) -> &FigureDifference {
    found.figures.iter().find(|f| f.name == "forward_throughput_bits_per_second").unwrap()
}

#[test]
fn a_difference_of_intervals_is_shown_with_its_size() {
    let found = compared(&run("a", &noisy(10.0, 0.0, 30, 1)), &run("b", &noisy(11.0, 0.0, 30, 2)));
    let figure = throughput(&found);
    assert_eq!((figure.moved, figure.samples), (Moved::Significant, Some(Samples::Intervals)));
    let welch = figure.welch.as_ref().unwrap();
    assert!(welch.low.unwrap() > 0.5 && welch.high.unwrap() < 1.5 && welch.p < 1e-6, "{welch:?}");
    assert!(
        figure.hedges_g.unwrap() > 2.0 && figure.mann_whitney.as_ref().unwrap().cliffs_delta > 0.9
    );
    assert!((figure.difference_ratio.unwrap() - 0.1).abs() < 0.03);
    // With the sides swapped, the signs are reversed.
    let back = compared(&run("b", &noisy(11.0, 0.0, 30, 2)), &run("a", &noisy(10.0, 0.0, 30, 1)));
    assert_eq!(throughput(&back).welch.as_ref().unwrap().t, -welch.t);
}

/// Autocorrelated runs of the same distribution: if their intervals were treated as independent, half of them would "differ".
#[test]
fn autocorrelated_intervals_are_not_treated_as_independent() {
    let (mut naive, mut ours) = (0, 0);
    for seed in 0..100 {
        let (one, two) = (noisy(10.0, 0.9, 60, seed), noisy(10.0, 0.9, 60, seed + 1000));
        let found = compared(&run("a", &one), &run("b", &two));
        let figure = throughput(&found);
        ours += u32::from(figure.moved == Moved::Significant);
        assert!(figure.a.effective_samples.unwrap() < 60.0);
        let moments = |values: &[f64]| weir_stats::compare::Moments::of(values).unwrap();
        let plain = weir_stats::compare::Welch::of(&moments(&two), &moments(&one)).unwrap();
        naive += u32::from(plain.p < 0.05);
    }
    assert!(naive > 40, "the series are not autocorrelated enough: {naive} of 100");
    assert!(ours < 10, "{ours} of 100 called different; {naive} without the effective size");
}

#[test]
fn short_series_are_reported_as_too_few() {
    let found = compared(&run("a", &[1.0, 2.0, 3.0]), &run("b", &[4.0, 5.0, 6.0]));
    assert_eq!(throughput(&found).moved, Moved::TooFew);
    // Constant on both sides: no spread, but not chance either.
    let steady = compared(&run("a", &[10.0; 12]), &run("b", &[9.0; 12]));
    assert_eq!(
        (throughput(&steady).moved, &throughput(&steady).welch),
        (Moved::Significant, &None)
    );
    let same = compared(&run("a", &[10.0; 12]), &run("b", &[10.0; 12]));
    assert_eq!(throughput(&same).moved, Moved::NotSignificant);
}

#[test]
fn the_omitted_part_and_a_short_rest_are_left_out() {
    let mut a = run("a", &[[0.0; 2].as_slice(), &[10.0; 10], &[1.0]].concat());
    a.intervals[0].omitted = true;
    a.intervals[1].omitted = true;
    a.intervals[12].end_seconds = 12.3;
    let found = compared(&a, &run("b", &[10.0; 10]));
    let figure = throughput(&found);
    assert_eq!((figure.a.samples, figure.a.mean), (Some(10), Some(10.0)));
}

#[test]
fn single_figures_are_not_tested() {
    let a: Record = serde_json::from_str(UDP).unwrap();
    let mut b = a.clone();
    b.id = "other".into();
    b.status = Status::Partial;
    b.plan.connections[0].rate = Some("2000pps".parse().unwrap());
    b.local.as_mut().unwrap().kernel = "6.13.0".into();
    b.flows[0].receiver.as_mut().unwrap().jitter_seconds = Some(1.04e-5);
    let found = compared(&a, &b);
    let jitter = found.figures.iter().find(|f| f.name == "forward_jitter_seconds").unwrap();
    assert_eq!((jitter.moved, jitter.samples), (Moved::Untested, None));
    assert!((jitter.difference_ratio.unwrap() - 1.0).abs() < 1e-9);
    let names: Vec<&str> = found.figures.iter().map(|f| f.name.as_str()).collect();
    for name in [
        "forward_loss_ratio",
        "forward_one_way_delay_p99_seconds",
        "loaded_round_trip_p50_seconds",
        "responsiveness_per_minute",
        "local_cpu_ratio",
        "warnings",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let paths: Vec<&str> = found.setup.iter().map(|s| s.path.as_str()).collect();
    assert_eq!(paths, ["local.kernel", "plan.connection[0].rate"]);
    assert_eq!(
        (found.setup[1].a[0].as_str(), found.setup[1].b[0].as_str()),
        ("1000pps", "2000pps")
    );
    assert_eq!(found.incomplete, ["other"]);
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["schema"], "weir.runs-diff/1");
    let plain =
        json["figures"].as_array().unwrap().iter().find(|f| f["moved"] == "untested").unwrap();
    assert!(plain.get("welch").is_none() && plain["a"].get("samples").is_none(), "{plain}");
}

#[test]
fn a_different_crossing_is_a_warning() {
    use weir_model::record::Crossing::{Coalesced, PerPacket};
    let run = |crossing| {
        let mut record: Record = serde_json::from_str(UDP).unwrap();
        record.flows[0].receiver.as_mut().unwrap().crossing = crossing;
        record
    };
    let (one, many) = (run(Some(PerPacket)), run(Some(Coalesced)));
    let found = compared(&one, &many);
    assert_eq!(found.warnings.len(), 1);
    assert_eq!(found.warnings[0].code, "crossing-differs");
    let [a, b] = [PerPacket.word(), Coalesced.word()].map(|w| found.warnings[0].text.find(w));
    assert!(a.unwrap() < b.unwrap(), "{}", found.warnings[0].text);
    assert!(compared(&one, &one).warnings.is_empty());
    assert!(compared(&one, &run(None)).warnings.is_empty(), "not known of one side");
}

#[test]
fn sets_of_runs_are_compared_run_by_run() {
    let side = |name: &str, mean: f64, count: usize| {
        let mut side = Side::new();
        for (number, value) in noisy(mean, 0.0, count, 9 + count as u64).iter().enumerate() {
            // Values are constant within a run: only the runs count.
            side.add(&run(&format!("{name}{number}"), &[*value; 10]));
        }
        side
    };
    let found = diff(&side("a", 10.0, 8), &side("b", 12.0, 6), 0.95);
    let figure = throughput(&found);
    assert_eq!((figure.moved, figure.samples), (Moved::Significant, Some(Samples::Runs)));
    assert_eq!((figure.a.samples, figure.b.samples), (Some(8), Some(6)));
    assert_eq!((found.a.len(), found.b.len()), (8, 6));

    // Three runs each: too few for the order test, so no difference is claimed.
    let few = diff(&side("a", 10.0, 3), &side("b", 12.0, 3), 0.95);
    let figure = throughput(&few);
    assert_eq!(figure.moved, Moved::Unclear);
    assert!(figure.mann_whitney.as_ref().unwrap().min_p > 0.05);

    let one = diff(&side("a", 10.0, 1), &side("b", 12.0, 5), 0.95);
    assert_eq!(throughput(&one).moved, Moved::TooFew);
}

/// Constant runs have no Welch test, and a claim by the order test alone needs enough runs.
#[test]
fn constant_runs_differ_only_if_the_order_test_can_show_it() {
    let side = |name: &str, rate: f64, loss: f64, count: usize| {
        let mut side = Side::new();
        for number in 0..count {
            let mut record = run(&format!("{name}{number}"), &[rate; 4]);
            record.flows = vec![Flow {
                transport: TransportName::Udp,
                sender: Some(Sender { packets: 100, ..Default::default() }),
                receiver: Some(Receiver {
                    lost_packets: Some((100.0 * loss) as u64),
                    packets_per_second: Some(7.0),
                    ..Default::default()
                }),
                ..Default::default()
            }];
            side.add(&record);
        }
        side
    };
    let few = diff(&side("a", 1.0, 0.0, 3), &side("b", 2.0, 0.0, 3), 0.95);
    let figure = throughput(&few);
    let order = figure.mann_whitney.as_ref().unwrap();
    assert!(order.exact && (order.p - 0.1).abs() < 1e-12, "{order:?}");
    assert_eq!((figure.moved, &figure.welch), (Moved::TooFew, &None));

    let enough = diff(&side("a", 1.0, 0.0, 4), &side("b", 2.0, 0.0, 4), 0.95);
    let figure = throughput(&enough);
    assert_eq!(figure.moved, Moved::Significant);
    // A figure that is equal everywhere does not count for Holm's correction.
    let order = figure.mann_whitney.as_ref().unwrap();
    assert!((order.p_adjusted.unwrap() - 2.0 / 70.0).abs() < 1e-12, "{order:?}");
    let same = enough.figures.iter().find(|f| f.name == "forward_loss_ratio").unwrap();
    assert_eq!(same.moved, Moved::NotSignificant);

    // Two figures tested: 2/70 each is no longer below 5 %.
    let two = diff(&side("a", 1.0, 0.0, 4), &side("b", 2.0, 0.5, 4), 0.95);
    let figure = throughput(&two);
    assert_eq!(figure.moved, Moved::NotSignificant);
    let order = figure.mann_whitney.as_ref().unwrap();
    assert!((order.p_adjusted.unwrap() - 4.0 / 70.0).abs() < 1e-12, "{order:?}");
}

/// With many tested figures, a small p of one of them is less significant.
#[test]
fn many_figures_are_corrected_for() {
    let mut a: Record = serde_json::from_str(UDP).unwrap();
    let [mut one, mut two] = [Side::new(), Side::new()];
    let mut random = SplitMix64::new(4);
    for number in 0..16 {
        a.id = format!("r{number}");
        let receiver = a.flows[0].receiver.as_mut().unwrap();
        receiver.jitter_seconds = Some(random.unit());
        receiver.packets_per_second = Some(random.unit());
        let sums = a.total.forward.as_mut().unwrap().receiver.as_mut().unwrap();
        sums.bits_per_second = Some(random.unit());
        if number % 2 == 0 {
            one.add(&a)
        } else {
            two.add(&a)
        };
    }
    let found = diff(&one, &two, 0.95);
    let tested: Vec<_> = found.figures.iter().filter_map(|f| f.welch.as_ref()).collect();
    assert_eq!(tested.len(), 3);
    assert!(tested.iter().all(|w| w.p_adjusted >= w.p));
    let least = tested.iter().min_by(|x, y| x.p.total_cmp(&y.p)).unwrap();
    assert!((least.p_adjusted - (3.0 * least.p).min(1.0)).abs() < 1e-12);
}
