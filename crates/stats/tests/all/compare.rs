//! The comparison statistics checked against scipy: golden numbers made by scripts/scipy_reference.py.
// Clippy knows test functions, not their helpers.

use serde_json::Value;
use weir_stats::compare::{
    KolmogorovSmirnov, LoadPoint, MannWhitney, Moments, SaturationPoint, SplitMix64, Welch,
    autocorrelation, bootstrap_median, effective_size, hedges_g, holm, saturation,
};

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/compare.json")).unwrap()
}

fn list(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

/// Agreement to a relative error.
fn close(got: f64, expected: &Value, error: f64, what: &str) {
    let expected = expected.as_f64().unwrap();
    assert!(
        (got - expected).abs() <= error * expected.abs() + 1e-13,
        "{what}: {got} for {expected}"
    );
}

#[test]
fn two_samples_agree_with_scipy() {
    let golden = golden();
    for pair in golden["pairs"].as_array().unwrap() {
        let name = pair["name"].as_str().unwrap();
        let (a, b) = (list(&pair["a"]), list(&pair["b"]));
        let (first, second) = (Moments::of(&a).unwrap(), Moments::of(&b).unwrap());

        let welch = Welch::of(&first, &second).unwrap();
        let theirs = &pair["welch"];
        close(welch.t, &theirs["t"], 1e-10, name);
        close(welch.degrees_of_freedom, &theirs["degrees_of_freedom"], 1e-10, name);
        close(welch.p, &theirs["p"], 1e-8, name);
        let (low, high) = welch.interval(0.99).unwrap();
        close(low, &theirs["low"], 1e-8, name);
        close(high, &theirs["high"], 1e-8, name);

        let order = MannWhitney::of(&a, &b).unwrap();
        close(order.u, &pair["mann_whitney"]["u"], 1e-12, name);
        close(order.p, &pair["mann_whitney"]["p"], 1e-9, name);
        assert_eq!(Some(order.exact), pair["mann_whitney"]["exact"].as_bool(), "{name}");
        close(order.cliffs_delta(), &pair["cliffs_delta"], 1e-10, name);
        close(hedges_g(&first, &second).unwrap(), &pair["hedges_g"], 1e-9, name);

        let distance = KolmogorovSmirnov::two_samples(&a, &b).unwrap();
        close(distance.statistic, &pair["kolmogorov_smirnov"]["statistic"], 1e-12, name);
        close(distance.p, &pair["kolmogorov_smirnov"]["p"], 1e-9, name);
        assert!(distance.exact);
    }
}

#[test]
fn distributions_agree_with_scipy() {
    let golden = golden();
    let normal = |x: f64| 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
    for sample in golden["one_samples"].as_array().unwrap() {
        let name = sample["name"].as_str().unwrap();
        let test = KolmogorovSmirnov::one_sample(&list(&sample["values"]), normal).unwrap();
        close(test.statistic, &sample["statistic"], 1e-10, name);
        close(test.p, &sample["p"], 1e-7, name);
        assert_eq!(Some(test.exact), sample["exact"].as_bool(), "{name}");
    }
    for pair in golden["large_pairs"].as_array().unwrap() {
        let test = KolmogorovSmirnov::two_samples(&list(&pair["a"]), &list(&pair["b"])).unwrap();
        close(test.statistic, &pair["statistic"], 1e-12, "large");
        close(test.p, &pair["p"], 1e-9, "large");
        assert!(!test.exact);
    }
}

#[test]
fn series_agree_with_numpy() {
    let golden = golden();
    for series in golden["series"].as_array().unwrap() {
        let name = series["name"].as_str().unwrap();
        let values = list(&series["values"]);
        close(autocorrelation(&values, 1).unwrap(), &series["lag1"], 1e-9, name);
        close(autocorrelation(&values, 3).unwrap(), &series["lag3"], 1e-9, name);
        close(effective_size(&values).unwrap(), &series["effective_size"], 1e-9, name);
        let moments = Moments::of_series(&values).unwrap();
        close(moments.variance, &series["variance"], 1e-9, name);
    }
}

#[test]
fn resampling_agrees_with_numpy() {
    let golden = golden();
    for case in golden["bootstrap"].as_array().unwrap() {
        let mut random = SplitMix64::new(case["seed"].as_u64().unwrap());
        let resamples = u32::try_from(case["resamples"].as_u64().unwrap()).unwrap();
        let confidence = case["confidence"].as_f64().unwrap();
        let values = list(&case["values"]);
        let (low, high) = bootstrap_median(&values, resamples, confidence, &mut random).unwrap();
        close(low, &case["low"], 1e-12, "low");
        close(high, &case["high"], 1e-12, "high");
    }
    let ours = holm(&list(&golden["holm"]["p"]));
    for (ours, theirs) in ours.iter().zip(list(&golden["holm"]["adjusted"])) {
        assert!((ours - theirs).abs() < 1e-12);
    }
}

#[test]
fn saturation_agrees_with_a_numerical_search() {
    let golden = golden();
    for sweep in golden["sweeps"].as_array().unwrap() {
        let name = sweep["name"].as_str().unwrap();
        let received = sweep["received"].as_array().unwrap().iter().map(list);
        let points: Vec<LoadPoint> = list(&sweep["offered"])
            .into_iter()
            .zip(received)
            .map(|(offered, received)| LoadPoint { offered, received })
            .collect();
        let threshold = sweep["threshold"].as_f64().unwrap();
        let mut random = SplitMix64::new(1);
        let found = saturation(&points, threshold, 0.95, 500, &mut random).unwrap();
        close(found.fit.breakpoint, &sweep["breakpoint"], 1e-5, name);
        close(found.fit.slope_before, &sweep["slope_before"], 1e-5, name);
        assert!((found.fit.slope_after - sweep["slope_after"].as_f64().unwrap()).abs() < 1e-5);
        match sweep["point"].as_f64() {
            Some(expected) => {
                let SaturationPoint::At(rate) = found.point else { panic!("{name}: {found:?}") };
                assert!((rate / expected - 1.0).abs() < 1e-5, "{name}: {rate} for {expected}");
                let (low, high) = found.interval.unwrap();
                assert!(low <= rate && rate <= high && high - low < 2.0, "{name}: {found:?}");
            }
            None => assert!(matches!(found.point, SaturationPoint::Below(_)), "{name}: {found:?}"),
        }
    }
}
