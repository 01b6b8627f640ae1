//! The distance from one event to the next, where each step has an event with the same probability.

use crate::{Draws, open_unit_interval};

/// The number of steps without an event before the next one: geometric, ⌊ln *v*/ln(1 − *p*)⌋ with *v* a draw in the open unit
/// interval (Devroye, "Non-uniform random variate generation", 1986, section X.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Geometric {
    /// ln(1 − p), below 0.
    log_none: f64,
}

impl Geometric {
    /// With an event at each step with probability `p`, above 0 and below 1.
    #[must_use]
    pub fn new(p: f64) -> Self {
        Self { log_none: libm::log1p(-p) }
    }

    /// The next number of steps. Uses one draw.
    #[inline]
    pub fn next(&self, draws: &mut Draws<'_>) -> u64 {
        // Not negative; the cast truncates and saturates.
        (libm::log(open_unit_interval(draws.bits())) / self.log_none) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, DrawPosition, Philox};

    #[test]
    fn distances_are_geometric() {
        let (philox, n) = (Philox::new(5), 200_000u32);
        for p in [0.5, 0.1, 1e-3] {
            let law = Geometric::new(p);
            let draw = |packet| {
                let position =
                    DrawPosition { flow: 3, direction: Direction::Forward, slot: 4, packet };
                law.next(&mut position.draws(&philox))
            };
            let all: Vec<u64> = (0..u64::from(n)).map(draw).collect();
            let n = f64::from(n);
            // Mean (1 − p)/p and variance (1 − p)/p²; 6.2 standard deviations.
            let mean = all.iter().sum::<u64>() as f64 / n;
            let bound = 6.2 * ((1.0 - p) / n).sqrt() / p;
            assert!((mean - (1.0 - p) / p).abs() < bound, "{p}: {mean}");
            for distance in 0..3 {
                let share = p * (1.0 - p).powi(distance as i32);
                let found = all.iter().filter(|one| **one == distance).count() as f64;
                let bound = 6.2 * (n * share * (1.0 - share)).sqrt();
                assert!((found - n * share).abs() < bound, "{p} {distance}: {found}");
            }
        }
    }
}
