//! The standard normal quantile: Wichura, "Algorithm AS 241: The percentage points of the normal
//! distribution", Applied Statistics 37 (1988), routine PPND16, accurate to about 1 part in 10¹⁶.

// Coefficients from the highest power down; the denominators end in 1. Digits as printed.

#[allow(clippy::excessive_precision)]
const CENTRE_NUMERATOR: [f64; 8] = [
    2.5090809287301226727e+3,
    3.3430575583588128105e+4,
    6.7265770927008700853e+4,
    4.5921953931549871457e+4,
    1.3731693765509461125e+4,
    1.9715909503065514427e+3,
    1.3314166789178437745e+2,
    3.3871328727963666080e+0,
];
#[allow(clippy::excessive_precision)]
const CENTRE_DENOMINATOR: [f64; 8] = [
    5.2264952788528545610e+3,
    2.8729085735721942674e+4,
    3.9307895800092710610e+4,
    2.1213794301586595867e+4,
    5.3941960214247511077e+3,
    6.8718700749205790830e+2,
    4.2313330701600911252e+1,
    1.0,
];
#[allow(clippy::excessive_precision)]
const NEAR_NUMERATOR: [f64; 8] = [
    7.74545014278341407640e-4,
    2.27238449892691845833e-2,
    2.41780725177450611770e-1,
    1.27045825245236838258e+0,
    3.64784832476320460504e+0,
    5.76949722146069140550e+0,
    4.63033784615654529590e+0,
    1.42343711074968357734e+0,
];
#[allow(clippy::excessive_precision)]
const NEAR_DENOMINATOR: [f64; 8] = [
    1.05075007164441684324e-9,
    5.47593808499534494600e-4,
    1.51986665636164571966e-2,
    1.48103976427480074590e-1,
    6.89767334985100004550e-1,
    1.67638483018380384940e+0,
    2.05319162663775882187e+0,
    1.0,
];
#[allow(clippy::excessive_precision)]
const FAR_NUMERATOR: [f64; 8] = [
    2.01033439929228813265e-7,
    2.71155556874348757815e-5,
    1.24266094738807843860e-3,
    2.65321895265761230930e-2,
    2.96560571828504891230e-1,
    1.78482653991729133580e+0,
    5.46378491116411436990e+0,
    6.65790464350110377720e+0,
];
#[allow(clippy::excessive_precision)]
const FAR_DENOMINATOR: [f64; 8] = [
    2.04426310338993978564e-15,
    1.42151175831644588870e-7,
    1.84631831751005468180e-5,
    7.86869131145613259100e-4,
    1.48753612908506148525e-2,
    1.36929880922735805310e-1,
    5.99832206555887937690e-1,
    1.0,
];

/// Horner's rule, each product rounded before its sum: no fused contraction.
#[inline]
fn polynomial(coefficients: &[f64; 8], r: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, coefficient| sum * r + coefficient)
}

/// 64 random bits as a number uniform in the open interval (0, 1): with *n* the upper 52 bits,
/// (*n* + ½)/2⁵², which is exact.
#[inline]
#[must_use]
pub const fn open_unit_interval(bits: u64) -> f64 {
    (((bits >> 12) << 1) | 1) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Φ⁻¹(p): the value that a standard normal variable is below with probability `p`, 0 < p < 1.
#[inline]
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180625 - q * q;
        return q * polynomial(&CENTRE_NUMERATOR, r) / polynomial(&CENTRE_DENOMINATOR, r);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = (-libm::log(tail)).sqrt();
    let value = if r <= 5.0 {
        polynomial(&NEAR_NUMERATOR, r - 1.6) / polynomial(&NEAR_DENOMINATOR, r - 1.6)
    } else {
        polynomial(&FAR_NUMERATOR, r - 5.0) / polynomial(&FAR_DENOMINATOR, r - 5.0)
    };
    if q < 0.0 { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn published_points() {
        // From tables of the normal distribution, and AS 241's own checks at 0.25, 0.001 and 10⁻²⁰.
        for (p, z) in [
            (0.5, 0.0),
            (0.25, -0.674_489_750_196_081_7),
            (0.975, 1.959_963_984_540_054),
            (0.001, -3.090_232_306_167_814),
            (1e-20, -9.262_340_089_798_408),
        ] {
            assert!((normal_quantile(p) - z).abs() <= 1e-14 * z.abs().max(1.0), "{p}");
        }
        assert_eq!(open_unit_interval(0), 0.5 / (1u64 << 52) as f64);
        assert!(open_unit_interval(u64::MAX) < 1.0);
    }

    proptest! {
        #[test]
        fn it_inverts_the_distribution(p in 1e-12f64..1.0 - 1e-12) {
            let z = normal_quantile(p);
            let back = libm::erfc(-z / core::f64::consts::SQRT_2) / 2.0;
            prop_assert!((back - p).abs() <= 1e-13 * p.max(1e-3), "{p} {z} {back}");
        }
    }
}
