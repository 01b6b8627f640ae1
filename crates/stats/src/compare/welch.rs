//! Welch's t test: compares two means of unequal variances.

use super::Moments;
use crate::ci::{student_t_quantile, student_t_upper_tail};

/// Result of Welch's t test (B. L. Welch, Biometrika 34, 1947).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Welch {
    /// Mean of the first minus mean of the second.
    pub difference: f64,
    /// Standard error of that difference.
    pub standard_error: f64,
    /// Difference ÷ standard error.
    pub t: f64,
    /// Welch–Satterthwaite degrees of freedom.
    pub degrees_of_freedom: f64,
    /// Two-sided p: the probability of a difference at least this large if the true means are equal.
    pub p: f64,
}

impl Welch {
    /// Compares two samples. Absent where the size of one is 1 or less, or where neither has any spread:
    /// the difference of values that never vary is not random.
    pub fn of(first: &Moments, second: &Moments) -> Option<Self> {
        let (a, b) = (first.error_square(), second.error_square());
        let standard_error = (a + b).sqrt();
        if !(first.size > 1.0 && second.size > 1.0 && standard_error > 0.0) {
            return None;
        }
        let difference = first.mean - second.mean;
        let t = difference / standard_error;
        // Fractions of the sum, because squares of very small numbers would underflow.
        let (share_a, share_b) = (a / (a + b), b / (a + b));
        let degrees_of_freedom = 1.0
            / (share_a * share_a / (first.size - 1.0) + share_b * share_b / (second.size - 1.0));
        let p = (2.0 * student_t_upper_tail(t.abs(), degrees_of_freedom)).min(1.0);
        t.is_finite().then_some(Welch { difference, standard_error, t, degrees_of_freedom, p })
    }

    /// The confidence interval of the difference at `confidence` (such as 0.95): lower and upper end.
    pub fn interval(&self, confidence: f64) -> Option<(f64, f64)> {
        let quantile = student_t_quantile(0.5 + confidence / 2.0, self.degrees_of_freedom)?;
        let half = quantile * self.standard_error;
        Some((self.difference - half, self.difference + half))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_interval_excludes_zero_exactly_when_p_is_small(
            a in prop::collection::vec(-1e3..1e3f64, 2..20),
            b in prop::collection::vec(-1e3..1e3f64, 2..20),
        ) {
            let (a, b) = (Moments::of(&a).unwrap(), Moments::of(&b).unwrap());
            let (Some(there), Some(back)) = (Welch::of(&a, &b), Welch::of(&b, &a)) else { return Ok(()) };
            prop_assert!((there.p - back.p).abs() < 1e-12 && there.t == -back.t);
            prop_assert!((0.0..=1.0).contains(&there.p));
            if (there.p - 0.05).abs() > 1e-9 {
                let (low, high) = there.interval(0.95).unwrap();
                prop_assert_eq!(there.p < 0.05, low > 0.0 || high < 0.0);
            }
        }
    }

    #[test]
    fn values_without_spread_have_no_p() {
        let same = |mean| Moments { size: 5.0, mean, variance: 0.0 };
        assert_eq!(Welch::of(&same(1.0), &same(2.0)), None);
        let single = Moments { size: 1.0, mean: 1.0, variance: 1.0 };
        assert_eq!(Welch::of(&single, &Moments { size: 9.0, ..single }), None);
    }
}
