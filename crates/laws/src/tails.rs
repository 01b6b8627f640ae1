//! Tail probabilities of the gamma and Student t distributions, and their inversion for quantile tables.
//!
//! Series and continued fractions as in Abramowitz and Stegun, 6.5.29, 6.5.31 and 26.5.8; the fractions by Lentz's method.
//! Tails are computed as logarithms, so that they neither underflow nor lose digits.

use crate::table::{CELLS, OCTAVES, tail_of};

/// A point of a quantile function: the value at a tail probability, and its derivative by that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) value: f64,
    pub(crate) slope: f64,
}

/// Relative error at which series and iterations end.
const ENOUGH: f64 = 1e-15;
/// More terms than any accepted parameter needs.
const MAX_TERMS: u32 = 10_000;
const MAX_STEPS: u32 = 100;

/// The points of a tail of the gamma distribution with scale 1, by [`tail_of`] their index.
pub(crate) fn gamma_points(shape: f64, upper: bool) -> Vec<Point> {
    let constant = libm::lgamma(shape + 1.0);
    // The logarithm of x·density.
    let log_density = |x: f64| shape * libm::log(x) - x - constant + libm::log(shape);
    let log_tail = |x: f64| {
        let (value, is_upper) = gamma_tail(shape, constant, x);
        if is_upper == upper { value } else { libm::log(-libm::expm1(value)) }
    };
    // Wilson and Hilferty's median; of small shapes from the first term of the series.
    let start = match shape < 0.5 {
        true => (constant - core::f64::consts::LN_2) / shape,
        false => libm::log(shape) + 3.0 * libm::log(1.0 - 1.0 / (9.0 * shape)),
    };
    let sign = if upper { -1.0 } else { 1.0 };
    descend(start, |y| {
        let x = libm::exp(y);
        let tail = log_tail(x);
        (tail, sign * libm::exp(log_density(x) - tail))
    })
}

/// The points of the upper tail of Student's t distribution, by [`tail_of`] their index.
pub(crate) fn student_points(degrees: f64) -> Vec<Point> {
    let half = degrees / 2.0;
    let constant = libm::lgamma(half + 0.5) - libm::lgamma(half) - libm::lgamma(0.5);
    let density =
        |x: f64| libm::exp(constant - (half + 0.5) * libm::log1p(x * x / degrees)) / degrees.sqrt();
    // Below the first point under ½ the slope by the logarithm is well conditioned.
    let first = (0.5 - tail_of(OCTAVES * CELLS - 1)) / density(0.0);
    let mut points = descend(libm::log(first), |y| {
        let x = libm::exp(y);
        let tail = student_log_tail(half, constant, x * x / degrees);
        (tail, -x * density(x) / libm::exp(tail))
    });
    if let Some(median) = points.last_mut() {
        *median = Point { value: 0.0, slope: -1.0 / density(0.0) };
    }
    points
}

/// Inverts a tail from ½ downwards. `log_tail` returns the logarithm of the tail at e^y, and its derivative by y.
fn descend(start: f64, log_tail: impl Fn(f64) -> (f64, f64)) -> Vec<Point> {
    let mut y = start;
    let mut points: Vec<Point> = (0..=OCTAVES * CELLS)
        .rev()
        .map(|index| {
            let tail = tail_of(index);
            let wanted = libm::log(tail);
            let mut slope = 1.0;
            for _ in 0..MAX_STEPS {
                let (value, derivative) = log_tail(y);
                slope = derivative;
                let step = (value - wanted) / derivative;
                if !step.is_finite() {
                    break;
                }
                // Newton's steps towards a tail of ½ may be far too long where the tail is flat.
                y -= step.clamp(-2.0, 2.0);
                if step.abs() <= ENOUGH * y.abs().max(1.0) {
                    break;
                }
            }
            let value = libm::exp(y);
            Point { value, slope: value / (slope * tail) }
        })
        .collect();
    points.reverse();
    points
}

/// The logarithm of a tail of the gamma distribution at `x`, and whether it is the upper one: the one that is computed
/// without cancellation. `constant` is ln Γ(shape + 1).
fn gamma_tail(shape: f64, constant: f64, x: f64) -> (f64, bool) {
    let front = shape * libm::log(x) - x - constant;
    if x < shape + 1.0 {
        let (mut term, mut sum, mut n) = (1.0, 1.0, shape);
        for _ in 0..MAX_TERMS {
            n += 1.0;
            term *= x / n;
            sum += term;
            if term < sum * ENOUGH {
                break;
            }
        }
        return (front + libm::log(sum), false);
    }
    let mut b = x + 1.0 - shape;
    let (mut c, mut d) = (1e300, 1.0 / b);
    let mut fraction = d;
    for i in 1..MAX_TERMS {
        let a = -f64::from(i) * (f64::from(i) - shape);
        b += 2.0;
        d = 1.0 / (a * d + b);
        c = b + a / c;
        let change = c * d;
        fraction *= change;
        if (change - 1.0).abs() < ENOUGH {
            break;
        }
    }
    (front + libm::log(shape * fraction), true)
}

/// The logarithm of the probability that t is above x > 0: ½·I(half, ½) at 1/(1 + r), with r = x²/degrees. `constant` is
/// −ln B(half, ½).
fn student_log_tail(half: f64, constant: f64, r: f64) -> f64 {
    let z = 1.0 / (1.0 + r);
    let front = constant - half * libm::log1p(r) + 0.5 * libm::log(r / (1.0 + r));
    if z < (half + 1.0) / (half + 2.5) {
        return front + libm::log(0.5 * beta_fraction(half, 0.5, z) / half);
    }
    let other = libm::exp(front) * beta_fraction(0.5, half, r / (1.0 + r)) / 0.5;
    libm::log(0.5 * (1.0 - other))
}

/// The continued fraction of the incomplete beta function.
fn beta_fraction(a: f64, b: f64, z: f64) -> f64 {
    let tiny = 1e-300;
    let kept = |value: f64| if value.abs() < tiny { tiny } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / kept(1.0 - (a + b) * z / (a + 1.0));
    let mut fraction = d;
    for m in 1..MAX_TERMS {
        let m = f64::from(m);
        let even = m * (b - m) * z / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / kept(1.0 + even * d);
        c = kept(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * z / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / kept(1.0 + odd * d);
        c = kept(1.0 + odd / c);
        let change = d * c;
        fraction *= change;
        if (change - 1.0).abs() < ENOUGH {
            break;
        }
    }
    fraction
}
