//! The size and interval laws of a plan: forms, bounds, moments, and errors.

use std::str::FromStr;

use proptest::prelude::*;
use weir_laws::{Direction, DrawPosition, Philox, flow_hash, slot};
use weir_model::ModelError;
use weir_model::plan::{Plan, Size, Spacing};
use weir_model::units::{ByteSize, RateLimit};

use crate::scipy::{CHI_SQUARE, CLAMPED, CONTINUOUS, POISSON, PROBABILITIES};

fn place(slot: u8, packet: u64) -> DrawPosition {
    DrawPosition { flow: flow_hash("voice"), direction: Direction::Forward, slot, packet }
}

fn sizes(text: &str, seed: u64, packets: u64) -> Vec<u64> {
    let law = text.parse::<Size>().unwrap().start();
    let philox = Philox::new(seed);
    let draw = |packet| law.at(&mut place(slot::SIZE, packet).draws(&philox));
    (0..packets).map(draw).collect()
}

fn intervals(text: &str, seed: u64, packets: u64) -> Vec<f64> {
    let mut law = text.parse::<Spacing>().unwrap().start();
    let philox = Philox::new(seed);
    (0..packets).map(|n| law.next(&mut place(slot::SPACING, n).draws(&philox))).collect()
}

#[test]
fn laws_print_in_canonical_form() {
    for (given, printed) in [
        ("1460", "1460"),
        ("64K", "64K"),
        ("constant(64K)", "64K"),
        ("64..1400", "64..1400"),
        ("uniform(min=64, max=1400)", "64..1400"),
        ("uniform( max = 64K,min=1K )", "1K..64K"),
        ("normal(mean=700, deviation=200)", "normal(deviation=200, mean=700)"),
        ("gamma(shape=2,scale=300,min=64,max=1400)", "gamma(max=1400, min=64, scale=300, shape=2)"),
        ("alternate(first=64, second=1400)", "alternate(first=64, second=1400)"),
        (
            "decreasing(start=1400, end=64, step=8, at_end=bounce)",
            "decreasing(at_end=bounce, end=64, start=1400, step=8)",
        ),
        ("table(64:7, 576:4,1472:1)", "table(64:7, 576:4, 1472:1)"),
        ("table(64:50%)", "table(64:50)"),
        ("values(64,1K , 9)", "values(64, 1K, 9)"),
        ("values(64)", "values(64)"),
        (
            "mixture(normal(mean=300, deviation=50):0.75, 1472:0.25)",
            "mixture(normal(deviation=50, mean=300):0.75, 1472:0.25)",
        ),
    ] {
        let size: Size = given.parse().unwrap();
        assert_eq!(size.to_string(), printed, "{given}");
        assert_eq!(printed.parse::<Size>().unwrap(), size);
    }
    for (given, printed) in [
        ("constant", "constant"),
        ("20ms", "20ms"),
        ("constant(mean=20ms)", "20ms"),
        ("exponential", "exponential"),
        ("exponential()", "exponential"),
        ("exponential(mean=1ms)", "exponential(mean=1ms)"),
        // D-ITG's rates.
        ("500pps", "2ms"),
        ("exponential(mean=500pps)", "exponential(mean=2ms)"),
        ("uniform(min=1000pps, max=2ms)", "1ms..2ms"),
        ("1ms..20ms", "1ms..20ms"),
        ("pareto(shape=3)", "pareto(shape=3)"),
        (
            "on_off(on=1s, off=exponential(mean=2s), interval=mixture(1ms:1, normal(mean=9ms, deviation=1ms):2))",
            "on_off(interval=mixture(1ms:1, normal(deviation=1ms, mean=9ms):2), off=exponential(mean=2s), on=1s)",
        ),
        (
            "on_off(on=exponential(mean=1s), period=3s, interval=1ms)",
            "on_off(interval=1ms, on=exponential(mean=1s), period=3s)",
        ),
        ("table(1ms:9, 500pps:1)", "table(1ms:9, 2ms:1)"),
    ] {
        let spacing: Spacing = given.parse().unwrap();
        assert_eq!(spacing.to_string(), printed, "{given}");
        assert_eq!(printed.parse::<Spacing>().unwrap(), spacing);
    }
}

#[test]
fn invalid_laws_are_refused() {
    for text in
        ["", "x", "1.5", "64 1400", "64..", "..9", "64..x", "uniform 9", "student_t(1)", "9(1)"]
    {
        let error = text.parse::<Size>().unwrap_err();
        assert!(matches!(error, ModelError::Value { what: "payload", .. }), "{text}: {error}");
    }
    // A time without a unit may be meant as milliseconds.
    for text in ["", "20", "x", "exponential 20ms", "20ms 3ms", "20ms(1)", "erlang(mean=1ms)"] {
        let error = text.parse::<Spacing>().unwrap_err();
        assert!(matches!(error, ModelError::Value { what: "spacing", .. }), "{text}: {error}");
    }
    let field = |error: ModelError| match error {
        ModelError::Field { field, .. } => field,
        other => panic!("{other}"),
    };
    for (text, named) in [
        ("uniform(min=9, max=3)", "payload.uniform.min"),
        ("9..3", "payload.uniform.min"),
        ("uniform(min=9)", "payload.uniform.max"),
        ("uniform(min=9, max=x)", "payload.uniform.max"),
        ("uniform", "payload.uniform.min"),
        ("uniform(9, 10)", "payload.uniform"),
        ("pareto(1)", "payload.pareto"),
        ("exponential(max=9)", "payload.exponential.mean"),
        ("exponential(mean=0)", "payload.exponential.mean"),
        ("exponential(mean=2T)", "payload.exponential.mean"),
        ("normal(mean=700)", "payload.normal.deviation"),
        ("normal(mean=700, deviation=9, min=80, max=70)", "payload.normal.max"),
        ("normal(mean=700, deviation=9, max=0)", "payload.normal.max"),
        ("normal(mean=700, deviation=9, min=70000)", "payload.normal.max"),
        // Without a mean, nothing can be asked of it but a maximum.
        ("cauchy(location=700, scale=9)", "payload.cauchy.max"),
        ("pareto(shape=1, scale=9)", "payload.pareto.max"),
        ("student(degrees=1, location=9, scale=9)", "payload.student.max"),
        ("pareto(shape=0, scale=9)", "payload.pareto.shape"),
        ("gamma(shape=nan, scale=9)", "payload.gamma.shape"),
        ("gamma(shape=2)", "payload.gamma.scale"),
        ("weibull(shape=2, scale=0)", "payload.weibull.scale"),
        ("poisson(mean=1M, max=9)", "payload.poisson.mean"),
        ("alternate(first=1, second=2, first_count=0)", "payload.alternate.first_count"),
        ("increasing(start=9, end=3, step=1)", "payload.increasing.start"),
        ("increasing(start=1, end=3, step=0)", "payload.increasing.step"),
        ("increasing(start=1, end=3, step=3)", "payload.increasing.step"),
        ("increasing(start=1, end=1M, step=1)", "payload.increasing.step"),
        ("decreasing(start=1, end=3, step=1)", "payload.decreasing.end"),
        ("increasing(start=1, end=3, step=1, at_end=x)", "payload.increasing.at_end"),
        ("table()", "payload.table"),
        ("table(64)", "payload.table"),
        ("table(64:0)", "payload.table"),
        ("table(0:1)", "payload.table"),
        ("values(x)", "payload.values"),
        ("mixture(values(1, 2):1)", "payload.mixture"),
        ("mixture(exponential(mean=0):1)", "payload.mixture"),
    ] {
        assert_eq!(field(text.parse::<Size>().unwrap_err()), named, "{text}");
    }
    for (text, named) in [
        ("0ms", "spacing.constant.mean"),
        ("exponential(mean=2h)", "spacing.exponential.mean"),
        ("exponential(mean=5)", "spacing.exponential.mean"),
        ("exponential(mean=0pps)", "spacing.exponential.mean"),
        ("exponential(max=5ms)", "spacing.exponential.max"),
        ("pareto(shape=1)", "spacing.pareto.shape"),
        ("2ms..1ms", "spacing.uniform.min"),
        ("0s..0s", "spacing.uniform.max"),
        ("mixture(exponential:1)", "spacing.mixture"),
        ("on_off(on=1s, off=1s, interval=exponential)", "spacing.on_off.interval"),
        ("on_off(on=1s, off=values(1ms, 2ms), interval=1ms)", "spacing.on_off.off"),
        ("on_off(on=1s, off=x, interval=1ms)", "spacing.on_off.off"),
        ("on_off(on=1s, interval=1ms)", "spacing.on_off.off"),
        ("on_off(on=1s, off=1s, period=3s, interval=1ms)", "spacing.on_off.off"),
        ("on_off(on=1s, period=1s..3s, interval=1ms)", "spacing.on_off.period"),
        ("on_off(on=pareto(shape=3, scale=1s), period=3s, interval=1ms)", "spacing.on_off.on"),
        ("on_off(on=exponential(mean=1s, min=1ms), period=3s, interval=1ms)", "spacing.on_off.on"),
    ] {
        assert_eq!(field(text.parse::<Spacing>().unwrap_err()), named, "{text}");
    }
}

fn refused(connection: &str) -> String {
    let text = format!("schema = \"weir.plan/1\"\n[[connection]]\n{connection}");
    match Plan::parse(&text) {
        Ok(_) => String::new(),
        Err(ModelError::Document(error)) => {
            error.field.strip_prefix("connection[0].").unwrap_or(&error.field).into()
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn unusable_laws_are_refused_in_plans() {
    for (connection, field) in [
        ("transport = 'udp'\npayload = '64..1400'", ""),
        ("payload = '64..1400'", ""),
        ("transport = 'udp'\npayload = '64..65508'", "payload"),
        ("payload = '1..32M'", "payload"),
        ("transport = 'udp'\nspacing = 'values(2ns, 0ns, 0ns)'", "spacing"),
        ("transport = 'udp'\nspacing = 'values(2ns, 1ns, 0ns)'", ""),
        // An empty datagram has no number, so its size would be unknown.
        ("transport = 'udp'\npayload = '0..9'", "payload"),
        ("transport = 'udp'\npayload = '9..90'\ngso = 'on'", "gso"),
        ("transport = 'udp'\npayload = '9..9'\ngso = 'on'", ""),
        ("transport = 'udp'\nspacing = 'exponential'", ""),
        ("spacing = 'exponential'", "spacing"),
        ("rate = '10M'\nspacing = 'exponential'", ""),
        ("transport = 'udp'\nrate = 0\nspacing = 'exponential'", "spacing"),
        ("spacing = 'exponential(mean=1ms)'", ""),
        ("rate = '10M'\nspacing = 'exponential(mean=1ms)'", "rate"),
        ("rate = '10M'\nspacing = '20ms'", "rate"),
        ("spacing = 'on_off(on=1ms, off=1s, interval=2ms)'", "spacing.on_off.on"),
    ] {
        assert_eq!(refused(connection), field, "{connection}");
    }
}

#[test]
fn the_number_of_tables_has_a_limit() {
    // Half of them in mixtures.
    let plan = |connections: usize| {
        let one = "[[connection]]\ntransport = 'udp'\npayload = 'mixture(gamma(shape=2, scale=9):1, 64:1)'\nspacing = 'poisson(mean=9ms)'\n";
        Plan::parse(&format!("schema = 'weir.plan/1'\n{}", one.repeat(connections)))
    };
    assert!(plan(16).is_ok());
    let Err(ModelError::Document(error)) = plan(17) else { panic!() };
    assert_eq!(error.field, "connection");
}

#[test]
fn laws_are_strings_in_documents() {
    let text = "schema = 'weir.plan/1'\n[[connection]]\ntransport = 'udp'\npayload = 'uniform(min=64, max=1400)'\nspacing = 'exponential(mean=2ms)'\n[[connection]]\npayload = 1000";
    let plan = Plan::parse(text).unwrap();
    assert_eq!(Plan::parse(&plan.to_toml().unwrap()).unwrap(), plan);
    assert_eq!(Plan::parse(&serde_json::to_string(&plan).unwrap()).unwrap(), plan);
    assert_eq!(plan.connections[1].payload, Some(ByteSize(1000).into()));
    let flow = plan.flows(weir_model::plan::Family::Ipv4, 1500).remove(0);
    assert_eq!((flow.payload_bytes(), flow.max_payload()), (732, 1400));
    assert_eq!((flow.rate.limit, flow.rate.burst), (RateLimit::Packets(500.0), 1));
    assert_eq!(flow.bits_per_second(), Some(8.0 * 732.0 * 500.0));
}

#[test]
fn intervals_are_exponential() {
    // 100 000 draws: mean and deviation within 5 standard errors, and the Kolmogorov-Smirnov distance below its 0.1 % point.
    let mut drawn = intervals("exponential", 7, 100_000);
    let n = drawn.len() as f64;
    let mean = drawn.iter().sum::<f64>() / n;
    assert!((mean - 1.0).abs() < 5.0 / n.sqrt(), "{mean}");
    let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    assert!((variance.sqrt() - 1.0).abs() < 0.03, "{variance}");
    drawn.sort_by(f64::total_cmp);
    let distance = drawn.iter().enumerate().map(|(i, x)| {
        let p = 1.0 - (-x).exp();
        (p - i as f64 / n).abs().max((p - (i + 1) as f64 / n).abs())
    });
    let distance = distance.fold(0.0, f64::max) * n.sqrt();
    assert!(distance < 1.95, "{distance}");
    let moments = "exponential".parse::<Spacing>().unwrap().moments();
    assert_eq!(moments.mean_ns, None);
    assert!((moments.variation - 1.0).abs() < 1e-6);
    assert!(intervals("20ms", 7, 9).iter().all(|x| *x == 1.0));
}

/// A size law with its bytes as microseconds; the lower bound is that of intervals.
fn in_microseconds(size: &str) -> String {
    let with_unit = |pair: &str| match pair.trim().split_once('=') {
        Some((key @ ("shape" | "degrees"), value)) => format!("{key}={value}"),
        Some((key, value)) => format!("{key}={}us", value.replace('K', "000")),
        None => panic!("{pair}"),
    };
    let (name, arguments) = size.trim_end_matches(')').split_once('(').unwrap();
    let pairs = arguments.split(',').filter(|pair| !pair.contains("min="));
    format!("{name}({})", pairs.map(with_unit).collect::<Vec<_>>().join(", "))
}

#[test]
fn continuous_laws_have_the_distributions_of_scipy() {
    const DRAWS: u64 = 100_000;
    for (size, quantiles) in CONTINUOUS {
        let law = in_microseconds(size);
        let mean_ns = law.parse::<Spacing>().unwrap().moments().mean_ns.unwrap();
        let drawn: Vec<f64> =
            intervals(&law, 7, DRAWS).iter().map(|x| x * mean_ns / 1000.0).collect();
        let cells = quantiles.iter().zip(PROBABILITIES).filter(|(quantile, _)| **quantile > 0.0);
        // Kolmogorov and Smirnov's distance at these quantiles; 1.95 is its 0.1 % point.
        let distance = cells.map(|(quantile, p)| {
            let below = drawn.iter().filter(|x| *x <= quantile).count();
            (below as f64 / DRAWS as f64 - p).abs()
        });
        let distance = distance.fold(0.0, f64::max) * (DRAWS as f64).sqrt();
        assert!(distance < 1.95, "{law}: {distance}");
        // Sizes are the same values in whole bytes: half of one shifts the distribution.
        let bytes = sizes(size, 7, DRAWS);
        let distance =
            quantiles.iter().zip(PROBABILITIES).filter(|(q, _)| **q > 60.0).map(|(quantile, p)| {
                let below = bytes.iter().filter(|x| (**x as f64) <= quantile + 0.5).count();
                (below as f64 / DRAWS as f64 - p).abs()
            });
        let distance = distance.fold(0.0, f64::max) * (DRAWS as f64).sqrt();
        assert!(distance < 2.5, "{size}: {distance}");
    }
}

#[test]
fn clamped_laws_state_the_mean_that_they_have() {
    const DRAWS: u64 = 100_000;
    for (law, mean, deviation) in CLAMPED {
        let moments = law.parse::<Size>().unwrap().moments();
        assert!((moments.mean_bytes - mean).abs() < 1e-3, "{law}: {moments:?} {mean}");
        assert!((moments.deviation_bytes / deviation - 1.0).abs() < 1e-5, "{law}: {moments:?}");
        // A Pareto law never reaches the lower bound.
        let lowest = if law.starts_with("pareto") { 100 } else { 32 };
        assert_eq!((moments.min_bytes, moments.max_bytes), (lowest, 1400), "{law}");
        let drawn = sizes(law, 3, DRAWS);
        assert!(drawn.iter().all(|bytes| (lowest..=1400).contains(bytes)), "{law}");
        let realised = drawn.iter().sum::<u64>() as f64 / DRAWS as f64;
        let error = 5.0 * deviation / (DRAWS as f64).sqrt();
        assert!((realised - mean).abs() < error, "{law}: {realised} of {mean}");
    }
    // Nothing is clamped where nothing needs to be.
    let narrow = "normal(mean=700, deviation=20)".parse::<Size>().unwrap().moments();
    assert_eq!(narrow.mean_bytes, 700.0);
    assert!(narrow.min_bytes > 500 && narrow.max_bytes < 900, "{narrow:?}");
    let mixed =
        "mixture(normal(mean=300, deviation=50):3, 1500:1)".parse::<Size>().unwrap().moments();
    assert_eq!((mixed.mean_bytes, mixed.max_bytes), (600.0, 1500));
    assert!(
        (mixed.deviation_bytes - (0.75 * 2500.0 + 270_000f64).sqrt()).abs() < 1e-3,
        "{mixed:?}"
    );
}

/// The chi-square of counts against probabilities is below its 0.1 % point.
fn assert_frequencies(what: &str, counts: &[u64], probabilities: &[f64]) {
    let all: u64 = counts.iter().sum();
    let cells = counts.iter().zip(probabilities).map(|(count, p)| {
        let expected = p * all as f64;
        (*count as f64 - expected).powi(2) / expected
    });
    let chi: f64 = cells.sum();
    assert!(chi < CHI_SQUARE[counts.len() - 2], "{what}: {chi}");
}

#[test]
fn discrete_laws_have_their_probabilities() {
    const DRAWS: u64 = 60_000;
    let count = |law: &str, values: &[u64]| -> Vec<u64> {
        let drawn = sizes(law, 5, DRAWS);
        let counts = values.iter().map(|v| drawn.iter().filter(|x| *x == v).count() as u64);
        counts.collect()
    };
    let twelfths = [7.0 / 12.0, 4.0 / 12.0, 1.0 / 12.0];
    for law in ["table(64:7, 576:4, 1472:1)", "mixture(64:7, 576:4, 1472:1)"] {
        let counts = count(law, &[64, 576, 1472]);
        assert_eq!(counts.iter().sum::<u64>(), DRAWS, "{law}");
        assert_frequencies(law, &counts, &twelfths);
    }
    assert_frequencies("5..9", &count("5..9", &[5, 6, 7, 8, 9]), &[0.2; 5]);
    let law = "poisson(mean=40, min=1)";
    let mut counts = count(law, &(20..=60).collect::<Vec<_>>());
    counts.push(DRAWS - counts.iter().sum::<u64>());
    let mut probabilities = POISSON.to_vec();
    probabilities.push(1.0 - POISSON.iter().sum::<f64>());
    assert_frequencies(law, &counts, &probabilities);
    // Intervals are whole multiples of the unit.
    let mean_ns = 1e7;
    let drawn = intervals("poisson(mean=10ms)", 5, 1000);
    assert!(drawn.iter().all(|x| (x * mean_ns / 1e6 - (x * mean_ns / 1e6).round()).abs() < 1e-6));
}

#[test]
fn sequences_repeat() {
    for (law, expected) in [
        ("alternate(first=64, second=9, second_count=2)", [64, 9, 9, 64, 9, 9, 64]),
        ("increasing(start=10, end=35, step=10)", [10, 20, 30, 10, 20, 30, 10]),
        ("increasing(start=10, end=35, step=10, at_end=bounce)", [10, 20, 30, 20, 10, 20, 30]),
        ("decreasing(start=30, end=5, step=10)", [30, 20, 10, 30, 20, 10, 30]),
        ("decreasing(start=30, end=5, step=10, at_end=bounce)", [30, 20, 10, 20, 30, 20, 10]),
        ("values(5, 1, 7)", [5, 1, 7, 5, 1, 7, 5]),
    ] {
        assert_eq!(sizes(law, 1, 7), expected, "{law}");
        let moments = law.parse::<Size>().unwrap().moments();
        let whole = sizes(law, 1, 12);
        let mean = whole.iter().sum::<u64>() as f64 / 12.0;
        assert!((moments.mean_bytes - mean).abs() < 1e-3, "{law}: {moments:?} {mean}");
        assert_eq!(moments.min_bytes, *whole.iter().min().unwrap());
        assert_eq!(moments.max_bytes, *whole.iter().max().unwrap());
    }
    let drawn = intervals("alternate(first=1ms, second=3ms)", 1, 4);
    assert_eq!(drawn, [0.5, 1.5, 0.5, 1.5]);
}

#[test]
fn phases_have_their_lengths() {
    let of = |law: &str| law.parse::<Spacing>().unwrap().moments().mean_ns.unwrap() / 1e6;
    // 10 packets in 100 ms, then 100 ms more.
    let law = "on_off(on=100ms, off=100ms, interval=10ms)";
    assert_eq!(of(law), 20.0);
    let drawn: Vec<f64> = intervals(law, 1, 20).iter().map(|x| (x * 20.0).round()).collect();
    let mut expected = [10.0; 20];
    (expected[9], expected[19]) = (110.0, 110.0);
    assert_eq!(drawn, expected);
    let law = "on_off(on=exponential(mean=50ms), off=pareto(shape=3, scale=20ms), interval=exponential(mean=2ms))";
    let mean = of(law);
    assert!((mean - 2.0 * (1.0 + 30.0 / 50.0)).abs() < 1e-6, "{mean}");
    // 8000 phases, whose lengths vary by about one of their mean.
    let drawn = intervals(law, 1, 200_000);
    let realised = drawn.iter().sum::<f64>() / drawn.len() as f64;
    assert!((realised - 1.0).abs() < 5.0 / 8000f64.sqrt(), "{realised}");
}

#[test]
fn phases_with_a_period_start_one_period_apart_or_one_after_the_other() {
    let law = |on: &str, period: &str| format!("on_off(on={on}, period={period}, interval=1ms)");
    // 40 ms ON of 100 ms; of 30 ms, which is always over.
    for (period, expected) in [("100ms", 2.5), ("30ms", 1.0)] {
        let law = law("40ms", period);
        let mean = law.parse::<Spacing>().unwrap().moments().mean_ns.unwrap() / 1e6;
        assert!((mean - expected).abs() < 1e-9, "{period}: {mean}");
        let drawn = intervals(&law, 1, 200).iter().sum::<f64>() / 200.0;
        assert!((drawn - 1.0).abs() < 1e-9, "{period}: {drawn}");
    }
    const PACKETS: u64 = 400_000;
    // E[max(ON, period)] / E[ON], and how often a period outlasts its ON phase.
    let exponential = |mean: u32| format!("exponential(mean={mean}ms)");
    let e = std::f64::consts::E;
    for (on, period, expected, outlasts) in [
        (exponential(50), "100ms".to_owned(), (100.0 + 50.0 / (e * e)) / 50.0, 1.0 - 1.0 / (e * e)),
        ("50ms".into(), exponential(100), (50.0 + 100.0 / e.sqrt()) / 50.0, 1.0 / e.sqrt()),
        (exponential(50), exponential(100), (150.0 - 100.0 / 3.0) / 50.0, 2.0 / 3.0),
        // A maximum of both.
        ("exponential(mean=50ms, max=50ms)".into(), "100ms".into(), 2.0 / (1.0 - 1.0 / e), 1.0),
    ] {
        let law = law(&on, &period);
        let mean = law.parse::<Spacing>().unwrap().moments().mean_ns.unwrap() / 1e6;
        assert!((mean - expected).abs() < 1e-5 * expected, "{law}: {mean} {expected}");
        let drawn: Vec<f64> = intervals(&law, 5, PACKETS).iter().map(|x| x * mean).collect();
        // Some 8000 phases, whose lengths vary by about one of their mean.
        let realised = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((realised / mean - 1.0).abs() < 5.0 / 8000f64.sqrt(), "{law}: {realised}");
        // Pauses of a length of 1 ms at least, of which an ON phase that is shorter than a packet's interval hides some.
        let pauses = drawn.iter().filter(|ms| **ms > 1.0 + 1e-6).count() as f64;
        let phases =
            PACKETS as f64 * if on.contains("max") { 1.0 / (50.0 * (1.0 - 1.0 / e)) } else { 0.02 };
        assert!((pauses / phases - outlasts).abs() < 0.05, "{law}: {pauses}");
    }
    // Between two pauses lies a period, unless ON phases have followed each other.
    let law = law("exponential(mean=50ms)", "100ms");
    let mean = law.parse::<Spacing>().unwrap().moments().mean_ns.unwrap() / 1e6;
    let (mut now, mut starts) = (0.0, vec![]);
    for ms in intervals(&law, 5, PACKETS).iter().map(|x| x * mean) {
        now += ms;
        if ms > 1.0 + 1e-6 {
            starts.push(now);
        }
    }
    let apart: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // A phase begins within a packet's interval.
    assert!(apart.iter().all(|ms| *ms > 99.0), "{apart:?}");
    let exact = apart.iter().filter(|ms| (**ms - 100.0).abs() < 1.0).count() as f64;
    let share = exact / apart.len() as f64;
    assert!((share - (1.0 - 1.0 / (e * e))).abs() < 0.03, "{share}");
}

#[test]
fn the_rate_gives_the_scale_of_laws_without_one() {
    for law in ["gamma(shape=0.5)", "weibull(shape=2)", "pareto(shape=4)", "exponential"] {
        assert_eq!(law.parse::<Spacing>().unwrap().moments().mean_ns, None);
        let drawn = intervals(law, 9, 100_000);
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((mean - 1.0).abs() < 0.02, "{law}: {mean}");
    }
}

fn law_of_sizes() -> impl Strategy<Value = String> {
    let size = 40u64..2000;
    let one = prop_oneof![
        (size.clone(), size.clone()).prop_map(|(m, d)| format!("normal(mean={m}, deviation={d})")),
        (size.clone(), size.clone())
            .prop_map(|(m, d)| format!("log_normal(mean={m}, deviation={d})")),
        (size.clone(), 1100u32..9000)
            .prop_map(|(s, a)| format!("pareto(scale={s}, shape={})", f64::from(a) / 1000.0)),
        (size.clone(), 100u32..9000)
            .prop_map(|(s, a)| format!("weibull(scale={s}, shape={})", f64::from(a) / 1000.0)),
        size.clone().prop_map(|m| format!("exponential(mean={m}, max=4K)")),
        size.clone().prop_map(|m| format!("poisson(mean={m}, unit=2)")),
        (size.clone(), size.clone())
            .prop_map(|(l, s)| format!("cauchy(location={l}, scale={s}, max=8K)")),
        (size.clone(), 0u64..99).prop_map(|(l, w)| format!("{l}..{}", l + w)),
        proptest::collection::vec((size.clone(), 1u32..99), 1..9).prop_map(|all| {
            let all: Vec<_> = all.iter().map(|(v, w)| format!("{v}:{w}")).collect();
            format!("table({})", all.join(", "))
        }),
    ];
    let parts = proptest::collection::vec((one.clone(), 1u32..99), 1..5);
    let mixture = parts.prop_map(|all| {
        let all: Vec<_> = all.iter().map(|(law, w)| format!("{law}:{w}")).collect();
        format!("mixture({})", all.join(", "))
    });
    let values = proptest::collection::vec(size, 1..9).prop_map(|all| {
        let all: Vec<_> = all.iter().map(u64::to_string).collect();
        format!("values({})", all.join(", "))
    });
    prop_oneof![4 => one, 1 => mixture, 1 => values]
}

proptest! {
    #[test]
    fn laws_are_the_same_after_printing_and_reading(text in law_of_sizes(), seed: u64) {
        let law: Size = text.parse().unwrap();
        let printed = law.to_string();
        let again: Size = printed.parse().unwrap();
        prop_assert_eq!(&again, &law, "{}", printed);
        prop_assert_eq!(again.to_string(), printed);
        // Draws are within what the law states, and its mean is.
        let moments = law.moments();
        let drawn = sizes(&text, seed, 50);
        prop_assert!(drawn.iter().all(|b| (moments.min_bytes..=moments.max_bytes).contains(b)), "{:?}", moments);
        prop_assert!((moments.min_bytes as f64 - 0.5..=moments.max_bytes as f64 + 0.5).contains(&moments.mean_bytes));
    }

    #[test]
    fn nested_parentheses_are_refused_or_read(text in "(mixture\\(|on_off\\(on=){0,40}[0-9:,()ms ]{0,20}") {
        let _ = text.parse::<Size>();
        let _ = text.parse::<Spacing>();
    }

    #[test]
    fn sizes_are_within_their_bounds_and_have_their_moments(
        min in 1u64..60_000,
        width in 0u64..5000,
        seed: u64,
    ) {
        const PACKETS: u64 = 4000;
        let text = format!("{min}..{}", min + width);
        let moments = text.parse::<Size>().unwrap().moments();
        prop_assert_eq!((moments.min_bytes, moments.max_bytes), (min, min + width));
        let drawn = sizes(&text, seed, PACKETS);
        prop_assert!(drawn.iter().all(|bytes| (min..=min + width).contains(bytes)));
        let n = PACKETS as f64;
        let mean = drawn.iter().sum::<u64>() as f64 / n;
        // Six standard errors: once in 5·10^8.
        let error = 6.0 * moments.deviation_bytes / n.sqrt();
        prop_assert!((mean - moments.mean_bytes).abs() <= error + 1e-9, "{} {:?}", mean, moments);
        let variance = drawn.iter().map(|b| (*b as f64 - moments.mean_bytes).powi(2)).sum::<f64>() / n;
        let deviation = moments.deviation_bytes;
        prop_assert!((variance.sqrt() - deviation).abs() <= 0.06 * deviation + 1e-9);
    }
}

#[test]
fn every_size_of_a_range_occurs() {
    let drawn: std::collections::BTreeSet<u64> = sizes("5..8", 1, 200).into_iter().collect();
    assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [5, 6, 7, 8]);
}

fn outcome(law: &str) -> String {
    match law.split_once(' ') {
        Some(("payload", law)) => {
            sizes(law, 7, 6).iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
        }
        Some(("spacing", law)) => {
            let drawn = intervals(law, 7, 6);
            drawn.iter().map(|x| format!("{x:.15}")).collect::<Vec<_>>().join(" ")
        }
        _ => panic!("{law}"),
    }
}

#[test]
fn documented_vectors_match() {
    let page = include_str!("../../../../docs/randomness.md");
    let mut seen = 0;
    for line in page.lines().filter(|l| l.starts_with("| `payload") || l.starts_with("| `spacing"))
    {
        let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [_, law, documented, _] = cells[..] else { panic!("{line}") };
        if std::env::var_os("WEIR_BLESS").is_some() {
            println!("| `{law}` | `{}` |", outcome(law));
        } else {
            assert_eq!(outcome(law), documented, "{law}");
        }
        seen += 1;
    }
    assert_eq!(seen, 8);
}

/// What a refusal accepts, after its field and what was given.
fn accepted<T: FromStr<Err = ModelError>>(law: &str) -> (String, String, String) {
    match law.parse::<T>().err() {
        Some(ModelError::Field { field, given, accepted }) => (field, given, accepted),
        other => panic!("{law}: {other:?}"),
    }
}

#[test]
fn values_without_names_are_shown_with_them() {
    for (law, form) in [
        ("normal(700,200)", "normal(mean=700, deviation=200)"),
        ("normal(700, 200, 64)", "normal(mean=700, deviation=200, min=64)"),
        ("gamma(2, 300)", "gamma(shape=2, scale=300)"),
        ("poisson(500)", "poisson(mean=500)"),
        ("uniform(64, 1400)", "uniform(min=64, max=1400)"),
        // Not enough values, and values that are refused with their names too: the example of the schema.
        ("normal(700)", "normal(deviation=200, mean=700)"),
        ("normal(-1, 2)", "normal(deviation=200, mean=700)"),
        ("gamma(2)", "gamma(scale=300, shape=2)"),
    ] {
        let (field, _, accepted) = accepted::<Size>(law);
        let name = law.split('(').next().unwrap();
        assert_eq!(field, format!("payload.{name}"), "{law}");
        assert!(accepted.ends_with(form), "{law}: {accepted}");
    }
    let (.., of_times) = accepted::<Spacing>("normal(10ms, 2ms)");
    assert!(of_times.ends_with("normal(mean=10ms, deviation=2ms)"), "{of_times}");
}

/// Each law by its name alone is a law, or names what it lacks with an example that is a law.
#[test]
fn a_name_alone_is_refused_by_the_missing_key() {
    let mut named = 0;
    for law in
        ["poisson", "gamma", "normal", "log_normal", "weibull", "pareto", "on_off", "poisson()"]
    {
        let (field, given, accepted) = accepted::<Spacing>(law);
        let key = field.rsplit('.').next().unwrap();
        assert_eq!(given, "nothing", "{law}");
        let (key_form, example) = accepted
            .split_once(", such as ")
            .unwrap_or_else(|| panic!("{law}: {field}: {accepted}"));
        assert_eq!(key_form, format!("{key}=VALUE"), "{law}");
        assert!(example.parse::<Spacing>().is_ok(), "{law}: {example}");
        named += 1;
    }
    assert_eq!(named, 8);
    for (law, field) in [
        ("poisson", "payload.poisson.mean"),
        ("gamma", "payload.gamma.shape"),
        ("gamma(shape=2)", "payload.gamma.scale"),
        ("exponential", "payload.exponential.mean"),
    ] {
        let (named, given, accepted) = accepted::<Size>(law);
        assert_eq!((&*named, &*given), (field, "nothing"), "{law}");
        assert!(accepted.contains("=VALUE, such as "), "{law}: {accepted}");
    }
    assert!("exponential".parse::<Spacing>().is_ok());
    assert!("poisson 3".parse::<Spacing>().is_err());
}
