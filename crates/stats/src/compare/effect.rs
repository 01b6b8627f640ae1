//! Effect size: how large a difference is, in addition to whether it is significant.

use super::Moments;

/// Hedges' g: first mean minus second, in pooled standard deviations, with the exact correction for small
/// samples (L. V. Hedges, Journal of Educational Statistics 6, 1981). About 0.2 is small, 0.8 large (Cohen
/// 1988). Absent without any spread, or where the sizes add up to three or less.
pub fn hedges_g(first: &Moments, second: &Moments) -> Option<f64> {
    let degrees = first.size + second.size - 2.0;
    if !(degrees > 1.0 && first.size > 1.0 && second.size > 1.0) {
        return None;
    }
    let squares = (first.size - 1.0) * first.variance + (second.size - 1.0) * second.variance;
    let deviation = (squares / degrees).sqrt();
    let correction = libm::exp(libm::lgamma(degrees / 2.0) - libm::lgamma((degrees - 1.0) / 2.0))
        / (degrees / 2.0).sqrt();
    let g = correction * (first.mean - second.mean) / deviation;
    (deviation > 0.0 && g.is_finite()).then_some(g)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_one_deviation_apart_give_the_correction_factor() {
        let at = |mean| Moments { size: 50.0, mean, variance: 4.0 };
        let g = hedges_g(&at(12.0), &at(10.0)).unwrap();
        // The usual approximation of the correction: 1 − 3 / (4 df − 1).
        assert!((g - (1.0 - 3.0 / 391.0)).abs() < 1e-4, "{g}");
        assert_eq!(hedges_g(&at(10.0), &at(12.0)).unwrap(), -g);
        let flat = Moments { variance: 0.0, ..at(1.0) };
        assert_eq!(hedges_g(&flat, &flat), None);
        let few = Moments { size: 1.5, ..at(1.0) };
        assert_eq!(hedges_g(&few, &few), None);
    }
}
