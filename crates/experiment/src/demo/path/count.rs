//! The interval of counts that a law produces with probability 1 − 10⁻⁹.
//!
//! The distributions are exact, not normal approximations: 10⁻⁹ is far out in the tails, where bursts and small means
//! are not normal.

use weir_model::impairment::{Loss, LossChain, LossProcess};

/// Probability outside the interval, both tails together.
pub(crate) const OUTSIDE: f64 = 1e-9;

/// A count with its mean: inclusive bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CountInterval {
    /// The law's mean.
    pub mean: f64,
    /// Minimum count.
    pub low: u64,
    /// Maximum count.
    pub high: u64,
}

impl CountInterval {
    /// Whether the law can produce this count.
    #[must_use]
    pub(crate) fn holds(&self, count: u64) -> bool {
        (self.low..=self.high).contains(&count)
    }

    /// A constant count.
    #[must_use]
    pub(crate) fn exact(count: u64) -> Self {
        Self { mean: count as f64, low: count, high: count }
    }
}

/// `n` independent packets, each with probability `p`: the binomial distribution.
#[must_use]
pub(crate) fn independent(n: u64, p: f64) -> CountInterval {
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

/// `n` packets through a chain that starts in its stationary state.
#[must_use]
pub(crate) fn chained(n: u64, chain: &LossChain) -> CountInterval {
    let states = chain.loss.len();
    // weights[k][state]: the probability of k losses so far, by the state of the next packet. Counts below `first`
    // have negligible probability and are dropped.
    let mut weights = vec![chain.stationary.clone()];
    let mut first = 0u64;
    for _ in 0..n {
        let mut next = vec![vec![0.0; states]; weights.len() + 1];
        for (k, by_state) in weights.iter().enumerate() {
            for (state, weight) in by_state.iter().enumerate() {
                let lost = weight * chain.loss[state];
                for (to, step) in chain.step[state].iter().enumerate() {
                    next[k][to] += (weight - lost) * step;
                    next[k + 1][to] += lost * step;
                }
            }
        }
        let is_negligible = |by_state: &Vec<f64>| by_state.iter().sum::<f64>() < 1e-30;
        while next.len() > 1 && next.last().is_some_and(is_negligible) {
            next.pop();
        }
        let skip = next[..next.len() - 1].iter().take_while(|one| is_negligible(one)).count();
        first += skip as u64;
        weights = next.split_off(skip);
    }
    let weights: Vec<f64> = weights.iter().map(|by_state| by_state.iter().sum()).collect();
    let mean: f64 = chain.stationary.iter().zip(&chain.loss).map(|(p, loss)| p * loss).sum();
    cut(first, &weights, n as f64 * mean)
}

/// Removes half of [`OUTSIDE`] from each end of a distribution; `weights` are those of the counts from `first` on.
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

/// The number of `n` packets that a loss law drops. `None` without a law, or if its counts have no simple form.
#[must_use]
pub(crate) fn losses(n: u64, law: &Loss) -> Option<CountInterval> {
    Some(match law.process()? {
        LossProcess::Periodic(nth) => CountInterval::exact(n / nth.max(1)),
        LossProcess::Chain(chain) => match chain.loss[..] {
            [probability] => independent(n, probability),
            _ => chained(n, &chain),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::impairment::Laws;

    fn chain(loss: &str) -> LossChain {
        match loss.parse::<Laws>().unwrap().loss.unwrap().process() {
            Some(LossProcess::Chain(chain)) => chain,
            other => panic!("{loss}: {other:?}"),
        }
    }

    #[test]
    fn small_binomials_by_hand() {
        // Ten of ten have probability 10⁻¹⁰ at 10 %, nine or more 9.1·10⁻⁹: the bound is nine.
        assert_eq!(independent(10, 0.1), CountInterval { mean: 1.0, low: 0, high: 9 });
        assert_eq!(independent(10, 0.9), CountInterval { mean: 9.0, low: 1, high: 10 });
        assert_eq!(independent(10, 0.0), CountInterval::exact(0));
        assert_eq!(independent(10, 1.0), CountInterval::exact(10));
        assert_eq!(independent(0, 0.5), CountInterval::exact(0));
    }

    #[test]
    fn large_binomials_are_about_six_deviations_wide() {
        // 10⁻⁹ outside is 6.109 standard deviations of a normal distribution.
        let i = independent(1_000_000, 0.5);
        let width = (i.high - i.low) as f64 / 2.0 / 500.0;
        assert!((width - 6.109).abs() < 0.01, "{width}");
        assert!(i.holds(i.low) && !i.holds(i.low - 1) && i.holds(i.high) && !i.holds(i.high + 1));
    }

    #[test]
    fn a_chain_without_memory_is_a_binomial() {
        // p + r = 1: the next state does not depend on the last.
        let memoryless = chain("loss ge 2% to-good 98%");
        let (a, b) = (chained(5000, &memoryless), independent(5000, 0.02));
        assert_eq!((a.low, a.high), (b.low, b.high));
    }

    #[test]
    fn bursts_widen_the_interval_by_the_laws_own_variance() {
        let n = 20_000;
        let c = chain("loss 5% run 4");
        let rho = 1.0 - c.step[0][1] - c.step[1][0];
        let factor = (1.0 + rho) / (1.0 - rho);
        assert!((factor - 6.6).abs() < 0.01, "{factor}");
        let deviation = (n as f64 * 0.05 * 0.95 * factor).sqrt();
        let i = chained(n, &c);
        assert!((i.mean - 1000.0).abs() < 1e-6);
        let half = (i.high - i.low) as f64 / 2.0;
        assert!((half / deviation - 6.109).abs() < 0.15, "{}", half / deviation);
        // Bursts are skewed: more room above than below.
        assert!(i.high as f64 - i.mean > i.mean - i.low as f64);
        let plain = independent(n, 0.05);
        assert!(i.low < plain.low && i.high > plain.high);
    }

    #[test]
    fn a_chain_of_four_states_has_an_interval_of_its_own_variance() {
        let text = "loss four_state(p13_percentage=1, p31_percentage=30, p32_percentage=20, p23_percentage=50, p14_percentage=0.1)";
        let n = 20_000;
        let law = text.parse::<Laws>().unwrap().loss.unwrap();
        let (i, moments) = (losses(n, &law).unwrap(), law.moments().unwrap());
        assert!((i.mean - n as f64 * moments.mean).abs() < 1e-6);
        let half = (i.high - i.low) as f64 / 2.0;
        let deviations = half / (n as f64 * moments.variance).sqrt();
        assert!((deviations - 6.109).abs() < 0.2, "{deviations}");
        let plain = independent(n, moments.mean);
        assert!(i.low < plain.low && i.high > plain.high);
    }

    #[test]
    fn a_count_that_is_fixed_has_no_room() {
        let every: Laws = "loss every 100".parse().unwrap();
        assert_eq!(losses(1050, &every.loss.unwrap()), Some(CountInterval::exact(10)));
        let only_copies: Laws = "duplicate 1%".parse().unwrap();
        assert_eq!(only_copies.loss, None);
    }
}
