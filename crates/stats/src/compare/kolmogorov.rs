//! Kolmogorov–Smirnov test: whether two samples, or a sample and a law, have the same distribution.

use std::f64::consts::PI;

use super::all_finite;

/// Maximum product of two samples' sizes for an exact p (one step of arithmetic per pair).
const EXACT_PAIRS: usize = 1_000_000;
/// Maximum size of one sample for an exact p.
const EXACT_SIZE: usize = 100;
/// Where n D² is above this, p is below 10⁻⁶ and the limit is accurate enough.
const FAR: f64 = 7.24;

/// Result of a Kolmogorov–Smirnov test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KolmogorovSmirnov {
    /// D: the largest distance between the two distribution functions, 0 to 1.
    pub statistic: f64,
    /// Two-sided p.
    pub p: f64,
    /// Whether p is exact for these sizes; else it is Kolmogorov's limit with Stephens' correction for
    /// finite samples.
    pub exact: bool,
}

impl KolmogorovSmirnov {
    /// Compares two samples of independent values; absent when one is empty or a value is not finite. With ties p is an
    /// upper bound.
    pub fn two_samples(first: &[f64], second: &[f64]) -> Option<Self> {
        let (n, m) = (first.len(), second.len());
        if n == 0 || m == 0 || !all_finite(first) || !all_finite(second) {
            return None;
        }
        let distance = distance(first, second);
        let pairs = n as f64 * m as f64;
        let statistic = distance as f64 / pairs;
        let exact = n.saturating_mul(m) <= EXACT_PAIRS;
        let p = if exact {
            paths_outside(n, m, distance)
        } else {
            limit(statistic, pairs / (n + m) as f64)
        };
        Some(KolmogorovSmirnov { statistic, p, exact })
    }

    /// Compares a sample with a distribution function that was not fitted to it. Absent without values,
    /// when one is not finite, or when `cdf` returns a value outside 0 to 1.
    pub fn one_sample(values: &[f64], cdf: impl Fn(f64) -> f64) -> Option<Self> {
        if values.is_empty() || !all_finite(values) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let mut statistic: f64 = 0.0;
        for (i, value) in sorted.iter().enumerate() {
            let share = cdf(*value);
            if !(0.0..=1.0).contains(&share) {
                return None;
            }
            statistic = statistic.max((i + 1) as f64 / count - share).max(share - i as f64 / count);
        }
        let exact = sorted.len() <= EXACT_SIZE && count * statistic * statistic <= FAR;
        let p = if exact {
            (1.0 - one_sample_below(sorted.len(), statistic)).clamp(0.0, 1.0)
        } else {
            limit(statistic, count)
        };
        Some(KolmogorovSmirnov { statistic, p, exact })
    }
}

/// D in units of 1/(n m): the largest |i m − j n| over the values, with i and j the values of each sample
/// up to that value.
fn distance(first: &[f64], second: &[f64]) -> u64 {
    let (n, m) = (first.len() as i64, second.len() as i64);
    let mut all: Vec<(f64, i64)> =
        first.iter().map(|v| (*v, m)).chain(second.iter().map(|v| (*v, -n))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut lead, mut most) = (0i64, 0u64);
    for group in all.chunk_by(|a, b| a.0 == b.0) {
        lead += group.iter().map(|(_, step)| step).sum::<i64>();
        most = most.max(lead.unsigned_abs());
    }
    most
}

/// Fraction of the orders of n and m values whose distance is at least `distance`. Each order is a path
/// from (0, 0) to (n, m), and the last of i + j values is one of the i with probability i / (i + j) (J. L.
/// Hodges, Arkiv för Matematik 3, 1958). All terms are positive, so that small fractions stay precise.
fn paths_outside(n: usize, m: usize, distance: u64) -> f64 {
    let outside =
        |i: usize, j: usize| (i as i64 * m as i64 - j as i64 * n as i64).unsigned_abs() >= distance;
    if distance == 0 {
        return 1.0;
    }
    let mut row = vec![0.0; m + 1];
    for i in 0..=n {
        for j in 0..=m {
            row[j] = if outside(i, j) {
                1.0
            } else if i + j == 0 {
                0.0
            } else {
                let share = i as f64 / (i + j) as f64;
                let above = if i > 0 { share * row[j] } else { 0.0 };
                let before = if j > 0 { (1.0 - share) * row[j - 1] } else { 0.0 };
                above + before
            };
        }
    }
    row[m].min(1.0)
}

/// Kolmogorov's limit at √n D, corrected for a finite n (M. A. Stephens, JRSS B 32, 1970): P(D as large or larger).
fn limit(statistic: f64, size: f64) -> f64 {
    let root = size.sqrt();
    let x = (root + 0.12 + 0.11 / root) * statistic;
    if x <= 0.0 {
        return 1.0;
    }
    // Two series for one function; each converges in a few terms on its side.
    let p = if x < 1.18 {
        let term = |k: f64| libm::exp(-(2.0 * k - 1.0) * (2.0 * k - 1.0) * PI * PI / (8.0 * x * x));
        1.0 - (2.0 * PI).sqrt() / x * (1..=8).map(|k| term(f64::from(k))).sum::<f64>()
    } else {
        let term = |k: f64| libm::exp(-2.0 * k * k * x * x);
        2.0 * (1..=8)
            .rev()
            .map(|k| if k % 2 == 1 { 1.0 } else { -1.0 } * term(f64::from(k)))
            .sum::<f64>()
    };
    p.clamp(0.0, 1.0)
}

/// P(D < d) of one sample of n values: the matrix power of G. Marsaglia, W. W. Tsang and J. Wang, Journal of Statistical
/// Software 8(18), 2003. For n ≤ 100 everything fits a double without scaling.
fn one_sample_below(n: usize, d: f64) -> f64 {
    let scaled = n as f64 * d;
    let k = scaled as usize + 1;
    let size = 2 * k - 1;
    let h = k as f64 - scaled;
    let mut matrix = vec![0.0; size * size];
    for i in 0..size {
        for j in 0..size.min(i + 2) {
            matrix[i * size + j] = 1.0;
        }
    }
    for i in 0..size {
        matrix[i * size] -= h.powi(i as i32 + 1);
        matrix[(size - 1) * size + i] -= h.powi((size - i) as i32);
    }
    if 2.0 * h > 1.0 {
        matrix[(size - 1) * size] += (2.0 * h - 1.0).powi(size as i32);
    }
    for i in 0..size {
        for j in 0..=i {
            for factor in 1..=(i + 1 - j) {
                matrix[i * size + j] /= factor as f64;
            }
        }
    }
    let mut power = identity(size);
    let mut exponent = n;
    while exponent > 0 {
        if exponent % 2 == 1 {
            power = product(&power, &matrix, size);
        }
        matrix = product(&matrix, &matrix, size);
        exponent /= 2;
    }
    (1..=n).fold(power[(k - 1) * size + k - 1], |p, i| p * i as f64 / n as f64)
}

fn identity(size: usize) -> Vec<f64> {
    (0..size * size).map(|place| if place / size == place % size { 1.0 } else { 0.0 }).collect()
}

fn product(a: &[f64], b: &[f64], size: usize) -> Vec<f64> {
    let mut out = vec![0.0; size * size];
    for i in 0..size {
        for k in 0..size {
            let factor = a[i * size + k];
            if factor != 0.0 {
                for j in 0..size {
                    out[i * size + j] += factor * b[k * size + j];
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_samples_by_hand() {
        // Of the six orders of two and two, two have the samples apart: D = 1, p = 2/6.
        let test = KolmogorovSmirnov::two_samples(&[1.0, 2.0], &[3.0, 4.0]).unwrap();
        assert_eq!((test.statistic, test.exact), (1.0, true));
        assert!((test.p - 1.0 / 3.0).abs() < 1e-15);
        let same = KolmogorovSmirnov::two_samples(&[1.0, 2.0], &[2.0, 1.0]).unwrap();
        assert_eq!((same.statistic, same.p), (0.0, 1.0));
        // One value x of a uniform law: D = max(x, 1 − x), and P(D ≥ d) = 2 (1 − d).
        let one = KolmogorovSmirnov::one_sample(&[0.9], |x| x).unwrap();
        assert!((one.statistic - 0.9).abs() < 1e-15 && (one.p - 0.2).abs() < 1e-12, "{one:?}");
    }

    #[test]
    fn both_series_of_the_limit_meet() {
        // Q(1.18) of Kolmogorov's distribution lies between these.
        let at = |x: f64| limit(x / (1e12f64.sqrt() + 0.12), 1e12);
        assert!((at(1.18 - 1e-9) - at(1.18 + 1e-9)).abs() < 1e-8);
        assert!((at(1.358_098_639_6) - 0.05).abs() < 1e-6, "{}", at(1.358_098_639_6));
    }

    #[test]
    fn the_limit_is_near_the_exact_value() {
        for distance in [20u64, 30, 40] {
            let counted = paths_outside(200, 200, distance * 200);
            let close = limit(distance as f64 / 200.0, 100.0);
            assert!((close / counted - 1.0).abs() < 0.25, "{distance}: {counted} {close}");
        }
    }

    #[test]
    fn invalid_distributions_are_refused() {
        assert_eq!(KolmogorovSmirnov::one_sample(&[1.0], |_| 1.5), None);
        assert_eq!(KolmogorovSmirnov::one_sample(&[1.0], |_| f64::NAN), None);
        assert_eq!(KolmogorovSmirnov::one_sample(&[], |_| 0.5), None);
        assert_eq!(KolmogorovSmirnov::two_samples(&[], &[1.0]), None);
        let outside = KolmogorovSmirnov::one_sample(&[5.0, 6.0], |_| 1.0).unwrap();
        assert!(outside.statistic == 1.0 && outside.p < 1e-12, "{outside:?}");
    }
}
