//! Correlated uniform numbers: a Gaussian copula.

use std::sync::LazyLock;

use crate::{QuantileTable, open_unit_interval};

/// A sequence of uniform numbers, each correlated with the one before: *z* ← ρ·*z* + √(1 − ρ²)·Φ⁻¹(*v*), and the number is
/// Φ(*z*). Each is uniform, whatever ρ is, so that a quantile function of it has the distribution that it would have of
/// independent numbers.
#[derive(Clone, Debug)]
pub struct Copula {
    /// The last normal number; absent before the first.
    z: Option<f64>,
    normal: &'static QuantileTable,
    tail: &'static [[f64; 4]],
}

/// Two sequences that go on alike.
impl PartialEq for Copula {
    fn eq(&self, other: &Self) -> bool {
        self.z == other.z
    }
}

/// 2⁵².
const STEPS: f64 = (1u64 << 52) as f64;
/// Cells of [`TAIL`] in a unit.
const CELLS: f64 = 64.0;
/// End of [`TAIL`], beyond which the tail is less than 2⁻⁵⁴.
const END: usize = 9;

/// Φ(−x) from 0 to [`END`]: in each cell the cubic that has its value and slope at both ends. Within 10⁻¹⁰ of the exact one,
/// and within 10⁻⁶ of its value. A tenth of the cost of the exact one.
static TAIL: LazyLock<Box<[[f64; 4]]>> = LazyLock::new(|| {
    let value = |x: f64| libm::erfc(x * core::f64::consts::FRAC_1_SQRT_2) / 2.0;
    let slope = |x: f64| -libm::exp(-x * x / 2.0) / (2.0 * core::f64::consts::PI).sqrt() / CELLS;
    let cell = |index: usize| {
        let (from, to) = (index as f64 / CELLS, (index + 1) as f64 / CELLS);
        let (first, last, rise) = (slope(from), slope(to), value(to) - value(from));
        [value(from), first, 3.0 * rise - 2.0 * first - last, first + last - 2.0 * rise]
    };
    (0..END * CELLS as usize).map(cell).collect()
});

impl Default for Copula {
    fn default() -> Self {
        Self::new()
    }
}

impl Copula {
    /// Before the first number.
    #[must_use]
    pub fn new() -> Self {
        Self { z: None, normal: QuantileTable::normal(), tail: &TAIL }
    }

    /// The next number, as 64 bits of which the upper 52 are used. `rho` is the correlation of the normal numbers, 0 to 1;
    /// `bits` are a draw, from which *v* follows. The first number is uniform.
    #[inline]
    pub fn next(&mut self, rho: f64, bits: u64) -> u64 {
        let own = self.normal.at(open_unit_interval(bits));
        let z = match self.z {
            // Of a ρ near 1 the product keeps the digits that 1 − ρ² loses.
            Some(z) => rho * z + ((1.0 - rho) * (1.0 + rho)).sqrt() * own,
            None => own,
        };
        self.z = Some(z);
        let place = z.abs() * CELLS;
        let cell = place as usize;
        let tail = self.tail.get(cell).map_or(0.0, |[a, b, c, d]| {
            let place = place - cell as f64;
            a + place * (b + place * (c + place * d))
        });
        // The cast truncates, and is below 2⁵², since the tail is at most ½.
        let step = (tail.max(0.0) * STEPS) as u64;
        (if z < 0.0 { step } else { (1 << 52) - 1 - step }) << 12
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, DrawPosition, Philox, normal_quantile};

    /// Normal numbers of a sequence of correlation `rho`.
    fn sequence(rho: f64, seed: u64, count: u64) -> Vec<f64> {
        let (philox, mut copula) = (Philox::new(seed), Copula::new());
        let number = |packet| {
            let position = DrawPosition { flow: 3, direction: Direction::Forward, slot: 3, packet };
            let bits = copula.next(rho, position.draws(&philox).bits());
            normal_quantile(open_unit_interval(bits))
        };
        (0..count).map(number).collect()
    }

    #[test]
    fn numbers_are_normal_and_correlated_as_stated() {
        let n = 200_000;
        for rho in [0.0, 0.25, 0.9] {
            let z = sequence(rho, 5, n);
            let n = n as f64;
            // The variance of a mean and of a mean square of such a sequence is that of independent numbers times (1 + ρ)/(1 − ρ)
            // and (1 + ρ²)/(1 − ρ²). 6.2 standard deviations.
            let mean = z.iter().sum::<f64>() / n;
            assert!(mean.abs() < 6.2 * ((1.0 + rho) / (1.0 - rho) / n).sqrt(), "{rho}: {mean}");
            let square = z.iter().map(|z| z * z).sum::<f64>() / n;
            let wide = (1.0 + rho * rho) / (1.0 - rho * rho);
            assert!((square - 1.0).abs() < 6.2 * (2.0 * wide / n).sqrt(), "{rho}: {square}");
            // Bartlett: the variance of the first sample correlation is (1 − ρ²)/n.
            let lag = z.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / n / square;
            let bound = 6.2 * ((1.0 - rho * rho) / n).sqrt() + 1e-4;
            assert!((lag - rho).abs() < bound, "{rho}: {lag}");
        }
    }

    #[test]
    fn without_correlation_numbers_are_those_of_the_draws() {
        let philox = Philox::new(1);
        let mut copula = Copula::new();
        for packet in 0..1000 {
            let position = DrawPosition { flow: 3, direction: Direction::Forward, slot: 3, packet };
            let bits = position.draws(&philox).bits();
            let (own, got) = (open_unit_interval(bits), open_unit_interval(copula.next(0.0, bits)));
            assert!((own - got).abs() < 1e-6, "{own} {got}");
        }
        // Also far out in either tail, where the error is relative.
        for power in 2..53 {
            for is_upper in [false, true] {
                let bits =
                    if is_upper { u64::MAX - (1u64 << (64 - power)) } else { 1 << (64 - power) };
                let got = Copula::new().next(0.5, bits);
                let tail = |bits| {
                    let p = open_unit_interval(bits);
                    if is_upper { 1.0 - p } else { p }
                };
                let error = (tail(got) - tail(bits)).abs();
                assert!(error < 2e-5 * tail(bits) + 3.0 / STEPS, "2^-{power}: {}", tail(got));
            }
        }
        // With ρ = 1 the first stays.
        let mut copula = Copula::new();
        let first = copula.next(1.0, 1 << 63);
        assert_eq!(copula.next(1.0, 1 << 50), first);
    }
}
