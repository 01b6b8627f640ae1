//! Repetitions: mean, variance and Student's confidence interval.

/// Mean and spread of independent repetitions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Repetitions.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Unbiased variance (n − 1); absent below two values.
    pub variance: Option<f64>,
}

impl Sample {
    /// The sample of these values; absent without any. Welford's recurrence: exact for values that differ
    /// little.
    pub fn of(values: &[f64]) -> Option<Self> {
        let (mut mean, mut squares, mut count) = (0.0, 0.0, 0u64);
        for &value in values {
            count += 1;
            let from_old = value - mean;
            mean += from_old / count as f64;
            squares += from_old * (value - mean);
        }
        let variance = (count > 1).then(|| squares / (count - 1) as f64);
        (count > 0).then_some(Self { count, mean, variance })
    }

    /// Standard deviation: the root of the variance.
    pub fn standard_deviation(&self) -> Option<f64> {
        Some(self.variance?.sqrt())
    }

    /// Half the width of the two-sided confidence interval of the mean at `confidence` (such as 0.95), by Student's
    /// t with n − 1 degrees of freedom. Assumes independent repetitions whose mean is about normal.
    pub fn half_width(&self, confidence: f64) -> Option<f64> {
        self.half_width_over(self.count, confidence)
    }

    /// Half the width of a mean's confidence interval after Stein's second stage. The mean is over `count`
    /// repetitions; this sample is the first of them and alone determined `count`. Student's t with this
    /// sample's n − 1 degrees of freedom and standard deviation, and the root of `count` (C. Stein, A
    /// Two-Sample Test for a Linear Hypothesis Whose Power is Independent of the Variance, Annals of
    /// Mathematical Statistics 16, 1945). The variance of normal values is independent of their mean, so
    /// the interval has exactly its nominal coverage, whatever `count` followed from that variance. An
    /// interval from the variance of all repetitions would cover less often: where that variance is small
    /// by chance, no further repetitions are made that would correct it. Absent below two values, and for a
    /// `count` of 0.
    pub fn half_width_over(&self, count: u64, confidence: f64) -> Option<f64> {
        let quantile = student_t_quantile(0.5 + confidence / 2.0, (self.count - 1) as f64)?;
        (count > 0).then_some(quantile * (self.variance? / count as f64).sqrt())
    }

    /// Total number of repetitions by Stein's two-stage rule, those of this sample included. It is the
    /// smallest for which [`half_width_over`] is at most `half_width`: max(n, ⌈(t s / d)²⌉). Absent below
    /// two values, and where no number suffices (a `half_width` of 0 or below with values that differ).
    ///
    /// [`half_width_over`]: Self::half_width_over
    pub fn repetitions_for(&self, half_width: f64, confidence: f64) -> Option<u64> {
        let now = self.half_width(confidence)?;
        if now <= half_width {
            return Some(self.count);
        }
        let needed = (self.count as f64 * (now / half_width) * (now / half_width)).ceil();
        // Above this, integers are no longer exact in a double.
        (half_width > 0.0 && needed < 9e15).then_some(needed as u64)
    }
}

/// Quantile of Student's t distribution: the t with P(T ≤ t) = `probability` (between 0 and 1, exclusive)
/// for `degrees` of freedom (above 0). Relative error below 1e-9. Absent out of range.
pub fn student_t_quantile(probability: f64, degrees: f64) -> Option<f64> {
    if !(probability > 0.0 && probability < 1.0 && degrees > 0.0 && degrees.is_finite()) {
        return None;
    }
    if probability < 0.5 {
        return Some(-student_t_quantile(1.0 - probability, degrees)?);
    }
    let tail = 1.0 - probability;
    let (mut low, mut high) = (0.0, 1.0);
    while student_t_upper_tail(high, degrees) > tail {
        low = high;
        high *= 2.0;
        if high > 1e300 {
            return None;
        }
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if student_t_upper_tail(middle, degrees) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(0.5 * (low + high))
}

/// P(T > t) for t ≥ 0: half the regularized incomplete beta function at ν / (ν + t²) with a = ν/2, b = 1/2.
pub(crate) fn student_t_upper_tail(t: f64, degrees: f64) -> f64 {
    let square = t * t;
    let x = degrees / (degrees + square);
    let complement = square / (degrees + square);
    0.5 * incomplete_beta(degrees / 2.0, 0.5, x, complement)
}

/// Regularized incomplete beta function I_x(a, b) (DLMF 8.17). `complement` is 1 − x, given separately for
/// precision.
fn incomplete_beta(a: f64, b: f64, x: f64, complement: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if complement <= 0.0 {
        return 1.0;
    }
    let front = libm::exp(
        libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b)
            + a * libm::log(x)
            + b * libm::log(complement),
    );
    // The fraction converges fast below the mean; above it, I_x(a, b) = 1 − I_(1−x)(b, a).
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, complement) / b
    }
}

/// The continued fraction of DLMF 8.17.22, evaluated from the front (modified Lentz).
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    let away_from_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for step in 1..10_000 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            fraction *= d * c;
        }
        if (fraction - before).abs() <= 1e-16 * fraction.abs() {
            break;
        }
    }
    fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Degrees of freedom, quantiles at 0.95, 0.975 and 0.995; computed with scipy.stats.t.ppf (scipy 1.17.1).
    const QUANTILES: [(f64, [f64; 3]); 12] = [
        (1.0, [6.313751514675037, 12.706204736174694, 63.656741162871526]),
        (2.0, [2.9199855803537242, 4.302652729749462, 9.924843200918287]),
        (3.0, [2.3533634348018233, 3.1824463052837078, 5.840909309733355]),
        (4.0, [2.1318467863266495, 2.7764451051977934, 4.604094871349992]),
        (5.0, [2.0150483733330233, 2.5705818356363146, 4.032142983555228]),
        (9.0, [1.833112932656237, 2.262157162798205, 3.249835541592126]),
        (10.0, [1.8124611228116756, 2.228138851986274, 3.16927267261695]),
        (24.0, [1.710882079909428, 2.0638985616280245, 2.796939504774456]),
        (29.0, [1.6991270265334972, 2.045229642132703, 2.756385903670605]),
        (30.0, [1.697260886593957, 2.0422724563012378, 2.7499956535672254]),
        (99.0, [1.6603911560169906, 1.9842169515864174, 2.626405457280827]),
        (1000.0, [1.6463788172854643, 1.9623390808264083, 2.580754698065951]),
    ];

    #[test]
    fn quantiles_agree_with_scipy() {
        for (degrees, expected) in QUANTILES {
            for (probability, expected) in [0.95, 0.975, 0.995].into_iter().zip(expected) {
                let got = student_t_quantile(probability, degrees).unwrap();
                assert!((got / expected - 1.0).abs() < 1e-9, "{degrees} {probability}: {got}");
                let mirrored = student_t_quantile(1.0 - probability, degrees).unwrap();
                assert!((mirrored / expected + 1.0).abs() < 1e-9, "{degrees} {probability}");
            }
        }
        assert!(student_t_quantile(0.5, 3.0).unwrap().abs() < 1e-12);
        for (probability, degrees) in [(0.0, 1.0), (1.0, 1.0), (f64::NAN, 1.0), (0.9, 0.0)] {
            assert_eq!(student_t_quantile(probability, degrees), None);
        }
    }

    #[test]
    fn half_width_agrees_with_scipy() {
        let values = [76.7, 77.1, 76.2, 76.9, 75.8, 77.4, 76.6, 76.5];
        let sample = Sample::of(&values).unwrap();
        assert!((sample.mean - 76.65).abs() < 1e-12);
        assert!((sample.variance.unwrap() - 0.2542857142857156).abs() < 1e-12);
        let half = sample.half_width(0.99).unwrap();
        assert!((half - (77.2739070781348 - 76.02609292186521) / 2.0).abs() < 1e-9);
    }

    /// Nine values of mean 100 whose interval at 95 % is ± 2.306 · s / 3.
    #[test]
    fn repetitions_depend_on_the_first_stage_only() {
        let first = Sample { count: 9, mean: 100.0, variance: Some(9.0) };
        assert!((first.half_width_over(9, 0.95).unwrap() - 2.306_004_135_204_166).abs() < 1e-9);
        assert!((first.half_width_over(36, 0.95).unwrap() - 1.153_002_067_602_083).abs() < 1e-9);
        // (2.306 · 3 / 1)² = 47.86.
        assert_eq!(first.repetitions_for(1.0, 0.95), Some(48));
        assert_eq!(first.repetitions_for(2.4, 0.95), Some(9), "they are enough");
        for hopeless in [0.0, -1.0, f64::NAN, 1e-12] {
            assert_eq!(first.repetitions_for(hopeless, 0.95), None, "{hopeless}");
        }
        let same = Sample { variance: Some(0.0), ..first };
        assert_eq!(same.repetitions_for(0.0, 0.95), Some(9), "values that do not differ");
        let one = Sample::of(&[5.0]).unwrap();
        assert_eq!((one.half_width_over(5, 0.95), one.repetitions_for(1.0, 0.95)), (None, None));
        assert_eq!(first.half_width_over(0, 0.95), None);
    }

    #[test]
    fn one_value_has_a_mean_only() {
        assert_eq!(Sample::of(&[]), None);
        let one = Sample::of(&[5.0]).unwrap();
        assert_eq!((one.mean, one.variance, one.half_width(0.95)), (5.0, None, None));
    }
}
