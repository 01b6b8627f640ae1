//! Moments of a distribution that is given by its quantile function.

/// Abscissae and weights of Gauss-Legendre quadrature with 8 points on (−1, 1) (Abramowitz and Stegun, table 25.4).
const GAUSS: [(f64, f64); 4] = [
    (0.183_434_642_495_649_8, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887_3),
    (0.796_666_477_413_626_7, 0.222_381_034_453_374_48),
    (0.960_289_856_497_536_3, 0.101_228_536_290_376_26),
];

/// The probability below which draws do not reach: 2⁻⁵³.
const LOWEST: f64 = f64::EPSILON / 2.0;

/// Mean and standard deviation of a variable whose values below `low` become `low` and those above `high` become `high`.
/// `quantile` is monotone. Within about 10⁻⁶ of the standard deviation.
#[must_use]
pub fn clamped_moments(quantile: impl Fn(f64) -> f64, low: f64, high: f64) -> (f64, f64) {
    let clamped = |p: f64| quantile(p).clamp(low, high);
    // Differences from the median, so that the difference of two large squares keeps its digits.
    let median = clamped(0.5);
    let (mut first, mut second) = (0.0, 0.0);
    let mut add = |weight: f64, p: f64| {
        let difference = clamped(p) - median;
        first += weight * difference;
        second += weight * difference * difference;
    };
    for is_upper in [false, true] {
        let p = |tail: f64| if is_upper { 1.0 - tail } else { tail };
        add(LOWEST, p(LOWEST));
        let mut from = LOWEST;
        while from < 0.5 {
            let to = 2.0 * from;
            // Parts within which no bound is crossed are smooth.
            let mut ends = [from, to, to, to];
            for (n, bound) in [low, high].into_iter().enumerate() {
                ends[n + 1] = crossing(|tail| quantile(p(tail)) - bound, from, to);
            }
            ends.sort_by(f64::total_cmp);
            for pair in ends.windows(2) {
                let (middle, half) = ((pair[0] + pair[1]) / 2.0, (pair[1] - pair[0]) / 2.0);
                for (at, weight) in GAUSS.into_iter().filter(|_| half > 0.0) {
                    add(weight * half, p(middle - at * half));
                    add(weight * half, p(middle + at * half));
                }
            }
            from = to;
        }
    }
    (median + first, (second - first * first).max(0.0).sqrt())
}

/// Where a monotone function changes its sign between two points, or the second of them.
fn crossing(f: impl Fn(f64) -> f64, from: f64, to: f64) -> f64 {
    let is_below = f(from) < 0.0;
    if (f(to) < 0.0) == is_below {
        return to;
    }
    let (mut before, mut behind) = (from, to);
    for _ in 0..50 {
        let middle = (before + behind) / 2.0;
        if (f(middle) < 0.0) == is_below { before = middle } else { behind = middle }
    }
    behind
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normal_quantile;

    fn assert_near((mean, deviation): (f64, f64), wanted: (f64, f64)) {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6 * wanted.1.max(1e-9);
        assert!(
            close(mean, wanted.0) && close(deviation, wanted.1),
            "{mean} {deviation} {wanted:?}"
        );
    }

    #[test]
    fn moments_of_known_distributions() {
        let unbounded = (f64::NEG_INFINITY, f64::INFINITY);
        let of = |q: fn(f64) -> f64, (low, high)| clamped_moments(q, low, high);
        assert_near(of(|p| p, unbounded), (0.5, (1.0f64 / 12.0).sqrt()));
        assert_near(of(|p| -libm::log(p), unbounded), (1.0, 1.0));
        assert_near(of(|p| 5.0 + 2.0 * normal_quantile(p), unbounded), (5.0, 2.0));
        // Half of a normal distribution becomes 0: 1/√(2π), and the root of ½ − 1/2π.
        let half = 1.0 / (2.0 * core::f64::consts::PI).sqrt();
        assert_near(of(normal_quantile, (0.0, f64::INFINITY)), (half, (0.5 - half * half).sqrt()));
        // Pareto of shape 1 from 1, cut at 10: 1 + ln 10, and 19 for the square.
        let mean = 1.0 + 10f64.ln();
        assert_near(of(|p| 1.0 / p, (0.0, 10.0)), (mean, (19.0 - mean * mean).sqrt()));
        assert_near(of(|p| p, (3.0, 3.0)), (3.0, 0.0));
    }
}
