//! The size and interval laws of a plan: forms, bounds, moments, and errors.

use proptest::prelude::*;
use weir_laws::{Direction, DrawPosition, Philox, flow_hash, slot};
use weir_model::ModelError;
use weir_model::plan::{Plan, Size, Spacing};
use weir_model::units::{ByteSize, RateLimit};

fn place(slot: u8, packet: u64) -> DrawPosition {
    DrawPosition { flow: flow_hash("voice"), direction: Direction::Forward, slot, packet }
}

fn sizes(text: &str, seed: u64, packets: u64) -> Vec<u64> {
    let law = text.parse::<Size>().unwrap().start();
    let philox = Philox::new(seed);
    let draw = |packet| law.clone().next(&mut place(slot::SIZE, packet).draws(&philox));
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
    ] {
        let spacing: Spacing = given.parse().unwrap();
        assert_eq!(spacing.to_string(), printed, "{given}");
        assert_eq!(printed.parse::<Spacing>().unwrap(), spacing);
    }
}

#[test]
fn invalid_laws_are_refused() {
    for text in ["", "x", "1.5", "64 1400", "64..", "..9", "64..x", "uniform", "pareto(1)", "9(1)"]
    {
        let error = text.parse::<Size>().unwrap_err();
        assert!(matches!(error, ModelError::Value { what: "payload", .. }), "{text}: {error}");
    }
    // A time without a unit may be meant as milliseconds.
    for text in ["", "20", "x", "exponential 20ms", "20ms 3ms", "normal(mean=1ms)"] {
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
        ("uniform(9, 10)", "payload.uniform"),
    ] {
        assert_eq!(field(text.parse::<Size>().unwrap_err()), named, "{text}");
    }
    for (text, named) in [
        ("0ms", "spacing.constant.mean"),
        ("exponential(mean=2h)", "spacing.exponential.mean"),
        ("exponential(mean=5)", "spacing.exponential.mean"),
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
    ] {
        assert_eq!(refused(connection), field, "{connection}");
    }
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
    assert_eq!((moments.mean, moments.variation), (None, 1.0));
    assert!(intervals("20ms", 7, 9).iter().all(|x| *x == 1.0));
}

proptest! {
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
        assert_eq!(outcome(law), documented, "{law}");
        seen += 1;
    }
    assert_eq!(seen, 2);
}
