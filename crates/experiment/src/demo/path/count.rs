//! How many packets a law may take and still be that law: the interval that holds the count with probability 1 − 10⁻⁹.
//!
//! The distributions are the laws' own, not normal approximations: 10⁻⁹ lies far out in the tails, where bursts and
//! small means are anything but normal.

use weir_model::impairment::{Chain, Loss};

/// What both tails hold together.
pub const OUTSIDE: f64 = 1e-9;

/// A count with its mean: inclusive bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CountInterval {
    /// The law's mean.
    pub mean: f64,
    /// Least count.
    pub low: u64,
    /// Greatest count.
    pub high: u64,
}

impl CountInterval {
    /// Whether a count is one that the law gives.
    #[must_use]
    pub fn holds(&self, count: u64) -> bool {
        (self.low..=self.high).contains(&count)
    }

    /// A count that can't vary.
    #[must_use]
    pub fn exact(count: u64) -> Self {
        Self { mean: count as f64, low: count, high: count }
    }
}

/// `n` packets, each with probability `p` and on its own: the binomial distribution.
#[must_use]
pub fn independent(n: u64, p: f64) -> CountInterval {
    if p <= 0.0 || n == 0 {
        return CountInterval::exact(0);
    }
    if p >= 1.0 {
        return CountInterval::exact(n);
    }
    // Weights relative to the mode, by the ratio of neighbours, until they no longer matter; then normalised.
    let mode = (((n + 1) as f64) * p).floor().min(n as f64) as u64;
    let odds = p / (1.0 - p);
    let mut below = vec![];
    let (mut weight, mut k) = (1.0, mode);
    while k > 0 && weight > 1e-30 {
        weight *= k as f64 / ((n - k + 1) as f64 * odds);
        k -= 1;
        below.push(weight);
    }
    let first = k;
    let mut weights: Vec<f64> = below.into_iter().rev().collect();
    weights.push(1.0);
    let (mut weight, mut k) = (1.0, mode);
    while k < n && weight > 1e-30 {
        weight *= (n - k) as f64 * odds / (k + 1) as f64;
        k += 1;
        weights.push(weight);
    }
    cut(first, &weights, n as f64 * p)
}

/// `n` packets through a Gilbert-Elliott chain that begins in its stationary state. Its variance is the binomial one
/// times (1 + ρ)/(1 − ρ) for large `n`, ρ = 1 − p − r, when all is lost in the bad state and nothing in the good one.
#[must_use]
pub fn bursty(n: u64, chain: &Chain) -> CountInterval {
    let Chain { to_bad, to_good, bad_loss, good_loss } = *chain;
    let stationary_bad = to_bad / (to_bad + to_good);
    // probability[k] of k losses so far, by the state that the next packet will find.
    let mut good = vec![1.0 - stationary_bad];
    let mut bad = vec![stationary_bad];
    // Counts below `first` have become impossible to any purpose and are left out.
    let mut first = 0u64;
    for _ in 0..n {
        let most = good.len();
        let mut next_good = vec![0.0; most + 1];
        let mut next_bad = vec![0.0; most + 1];
        for k in 0..most {
            let lost = (good[k] * good_loss, bad[k] * bad_loss);
            let kept = (good[k] - lost.0, bad[k] - lost.1);
            for (k, (from_good, from_bad)) in [(k, kept), (k + 1, lost)] {
                next_good[k] += from_good * (1.0 - to_bad) + from_bad * to_good;
                next_bad[k] += from_good * to_bad + from_bad * (1.0 - to_good);
            }
        }
        let negligible = |g: &[f64], b: &[f64], k: usize| g[k] + b[k] < 1e-30;
        while next_good.len() > 1 && negligible(&next_good, &next_bad, next_good.len() - 1) {
            next_good.pop();
            next_bad.pop();
        }
        let skip =
            (0..next_good.len() - 1).find(|&k| !negligible(&next_good, &next_bad, k)).unwrap_or(0);
        first += skip as u64;
        good = next_good.split_off(skip);
        bad = next_bad.split_off(skip);
    }
    let weights: Vec<f64> = good.iter().zip(&bad).map(|(g, b)| g + b).collect();
    let share = stationary_bad * bad_loss + (1.0 - stationary_bad) * good_loss;
    cut(first, &weights, n as f64 * share)
}

/// Cuts half of [`OUTSIDE`] off either end of a distribution given by weights of the counts from `first` on.
fn cut(first: u64, weights: &[f64], mean: f64) -> CountInterval {
    let total: f64 = weights.iter().sum();
    let tail = |weights: &mut dyn Iterator<Item = &f64>| {
        let mut sum = 0.0;
        weights
            .take_while(|weight| {
                sum += **weight / total;
                sum <= OUTSIDE / 2.0
            })
            .count() as u64
    };
    let low = first + tail(&mut weights.iter());
    let last = first + weights.len() as u64 - 1;
    CountInterval { mean, low, high: last - tail(&mut weights.iter().rev()) }
}

/// How many of `n` packets a loss law drops. `None` when there is no law.
#[must_use]
pub fn losses(n: u64, law: &Loss) -> Option<CountInterval> {
    if let Some(percentage) = law.percentage {
        return Some(independent(n, percentage / 100.0));
    }
    if let Some(nth) = law.every_nth {
        return Some(CountInterval::exact(n / nth.max(1)));
    }
    law.gilbert_elliott.as_ref().map(|model| bursty(n, &model.chain()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::impairment::Laws;

    fn chain(loss: &str) -> Chain {
        loss.parse::<Laws>().unwrap().loss.unwrap().gilbert_elliott.unwrap().chain()
    }

    #[test]
    fn small_binomials_by_hand() {
        // All ten of ten have probability 10⁻¹⁰ at 10 %, nine or more 9.1·10⁻⁹: the bound is nine.
        assert_eq!(independent(10, 0.1), CountInterval { mean: 1.0, low: 0, high: 9 });
        assert_eq!(independent(10, 0.9), CountInterval { mean: 9.0, low: 1, high: 10 });
        assert_eq!(independent(10, 0.0), CountInterval::exact(0));
        assert_eq!(independent(10, 1.0), CountInterval::exact(10));
        assert_eq!(independent(0, 0.5), CountInterval::exact(0));
    }

    #[test]
    fn large_binomials_are_about_six_deviations_wide() {
        // 10⁻⁹ outside is 6.109 deviations of a normal distribution.
        let i = independent(1_000_000, 0.5);
        let width = (i.high - i.low) as f64 / 2.0 / 500.0;
        assert!((width - 6.109).abs() < 0.01, "{width}");
        assert!(i.holds(i.low) && !i.holds(i.low - 1) && i.holds(i.high) && !i.holds(i.high + 1));
    }

    #[test]
    fn a_chain_without_memory_is_a_binomial() {
        // p + r = 1: the next state does not depend on the last.
        let memoryless = Chain { to_bad: 0.02, to_good: 0.98, bad_loss: 1.0, good_loss: 0.0 };
        let (a, b) = (bursty(5000, &memoryless), independent(5000, 0.02));
        assert_eq!((a.low, a.high), (b.low, b.high));
    }

    #[test]
    fn bursts_widen_the_interval_by_the_laws_own_variance() {
        let n = 20_000;
        let c = chain("loss 5% run 4");
        let rho = 1.0 - c.to_bad - c.to_good;
        let factor = (1.0 + rho) / (1.0 - rho);
        assert!((factor - 6.6).abs() < 0.01, "{factor}");
        let deviation = (n as f64 * 0.05 * 0.95 * factor).sqrt();
        let i = bursty(n, &c);
        assert!((i.mean - 1000.0).abs() < 1e-6);
        let half = (i.high - i.low) as f64 / 2.0;
        assert!((half / deviation - 6.109).abs() < 0.15, "{}", half / deviation);
        // Bursts are skewed: more room above than below.
        assert!(i.high as f64 - i.mean > i.mean - i.low as f64);
        let plain = independent(n, 0.05);
        assert!(i.low < plain.low && i.high > plain.high);
    }

    #[test]
    fn a_count_that_is_fixed_has_no_room() {
        let every: Laws = "loss every 100".parse().unwrap();
        assert_eq!(losses(1050, &every.loss.unwrap()), Some(CountInterval::exact(10)));
        let only_copies: Laws = "duplicate 1%".parse().unwrap();
        assert_eq!(losses(1050, &only_copies.loss.unwrap()), None);
    }
}
