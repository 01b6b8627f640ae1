//! The interval of counts that a law produces with probability 1 − 10⁻⁹ or more.
//!
//! Nothing is approximated by a normal distribution: 10⁻⁹ is far out in the tails, where bursts and small means are not
//! normal.

use super::{Loss, LossChain, LossProcess};

/// Maximum probability of a count outside the interval, both tails together.
pub const OUTSIDE: f64 = 1e-9;

/// A count with its mean: inclusive bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CountInterval {
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
    pub fn holds(&self, count: u64) -> bool {
        (self.low..=self.high).contains(&count)
    }

    /// A constant count.
    #[must_use]
    pub fn exact(count: u64) -> Self {
        Self { mean: count as f64, low: count, high: count }
    }

    /// `n` independent packets, each with probability `p`: the binomial distribution.
    #[must_use]
    pub fn independent(n: u64, p: f64) -> Self {
        if p <= 0.0 || n == 0 {
            return Self::exact(0);
        }
        if p >= 1.0 {
            return Self::exact(n);
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

    /// The packets that a loss law drops of `n`, the first of which starts the law. `None` if its counts have no simple form.
    #[must_use]
    pub fn of_losses(n: u64, law: &Loss) -> Option<Self> {
        Some(match law.process()? {
            LossProcess::Periodic(nth) => Self::exact(n / nth.max(1)),
            LossProcess::Chain(chain) => match chain.loss[..] {
                [probability] => Self::independent(n, probability),
                _ => Marked::losses(&chain).interval(n, n as f64 * chain.moments().mean),
            },
        })
    }

    /// The bursts of losses among `n` packets, the first of which starts the law. `None` as for
    /// [`of_losses`](Self::of_losses).
    #[must_use]
    pub fn of_bursts(n: u64, law: &Loss) -> Option<Self> {
        let LossProcess::Chain(chain) = law.process()? else {
            return Self::of_losses(n, law).map(|losses| match losses.low == n {
                true => Self::exact(n.min(1)),
                false => losses,
            });
        };
        let moments = chain.moments();
        let mean = moments.burst.map_or(0.0, |burst| n as f64 * moments.mean / burst);
        Some(Marked::bursts(&chain).interval(n, mean))
    }
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

type Matrix = Vec<Vec<f64>>;

/// A Markov chain of which some steps are counted.
struct Marked {
    /// The probability of each state before the first step.
    start: Vec<f64>,
    /// The probabilities of steps that are not counted, and of those that are.
    steps: [Matrix; 2],
}

/// The range of exponents that bounds are searched in: for 10⁻⁷ and less the mean of the count is 10¹⁴.
const EXPONENTS: [f64; 2] = [1e-7, 50.0];

impl Marked {
    /// Counts the losses of a chain.
    fn losses(chain: &LossChain) -> Self {
        let part = |loss: fn(f64) -> f64| {
            let row = |(step, of): (&Vec<f64>, &f64)| step.iter().map(|p| p * loss(*of)).collect();
            chain.step.iter().zip(&chain.loss).map(row).collect()
        };
        Self {
            start: chain.stationary.clone(),
            steps: [part(|loss| 1.0 - loss), part(|loss| loss)],
        }
    }

    /// Counts the losses of a chain that follow a packet that is not lost. States with the last packet lost come after those
    /// with the last packet not lost.
    fn bursts(chain: &LossChain) -> Self {
        let n = chain.loss.len();
        let mut steps = [vec![vec![0.0; 2 * n]; 2 * n], vec![vec![0.0; 2 * n]; 2 * n]];
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let (step, loss) = (chain.step[i][j], chain.loss[i]);
            for before in [i, i + n] {
                steps[0][before][j] = step * (1.0 - loss);
                steps[usize::from(before == i)][before][j + n] = step * loss;
            }
        }
        let start = chain.stationary.iter().copied().chain(vec![0.0; n]).collect();
        Self { start, steps }
    }

    /// ln E exp(`exponent` · count) of `n` steps.
    fn log_moment(&self, exponent: f64, n: u64) -> f64 {
        let factor = libm::exp(exponent);
        let rows = self.steps[0].iter().zip(&self.steps[1]);
        let row = |(plain, counted): (&Vec<f64>, &Vec<f64>)| {
            plain.iter().zip(counted).map(|(plain, counted)| plain + counted * factor).collect()
        };
        let mut power: Matrix = rows.map(row).collect();
        let mut state = vec![self.start.clone()];
        // The logarithms of what was divided out of `power` and `state`.
        let (mut of_power, mut of_state, mut left) = (0.0, 0.0, n);
        while left > 0 {
            if left & 1 == 1 {
                state = product(&state, &power);
                of_state += of_power + normalise(&mut state);
            }
            power = product(&power, &power);
            of_power = 2.0 * of_power + normalise(&mut power);
            left >>= 1;
        }
        of_state + libm::log(state[0].iter().sum())
    }

    /// The interval of the count of `n` steps, by Chernoff's bound: P(count ≥ x) ≤ E exp(u·count)/exp(u·x) for any u > 0, and the
    /// same below with −u.
    fn interval(&self, n: u64, mean: f64) -> CountInterval {
        let room = libm::log(2.0 / OUTSIDE);
        let high = minimum(|u| (self.log_moment(u, n) + room) / u);
        let low = -minimum(|u| (self.log_moment(-u, n) + room) / u);
        // The casts saturate.
        let high = ((high.ceil() - 1.0).max(0.0) as u64).min(n);
        CountInterval { mean, low: ((low.floor() + 1.0).max(0.0) as u64).min(high), high }
    }
}

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let entry = |row: &Vec<f64>, j: usize| row.iter().zip(b).map(|(x, of)| x * of[j]).sum();
    a.iter().map(|row| (0..b.len()).map(|j| entry(row, j)).collect()).collect()
}

/// Divides by the largest entry, and returns its logarithm.
fn normalise(matrix: &mut Matrix) -> f64 {
    let largest = matrix.iter().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
    matrix.iter_mut().flatten().for_each(|entry| *entry /= largest);
    libm::log(largest)
}

/// The minimum over [`EXPONENTS`] of a function with one: by the golden section, on a logarithmic scale.
fn minimum(of: impl Fn(f64) -> f64) -> f64 {
    const RATIO: f64 = 0.618_033_988_749_895;
    let [mut low, mut high] = EXPONENTS.map(libm::log);
    let of = |x: f64| of(libm::exp(x));
    let mut points = [high - RATIO * (high - low), low + RATIO * (high - low)];
    let mut values = points.map(&of);
    for _ in 0..30 {
        if values[0] < values[1] {
            high = points[1];
            points = [high - RATIO * (high - low), points[0]];
            values = [of(points[0]), values[0]];
        } else {
            low = points[0];
            points = [points[1], low + RATIO * (high - low)];
            values = [values[1], of(points[1])];
        }
    }
    values[0].min(values[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impairment::Laws;

    fn law(text: &str) -> Loss {
        text.parse::<Laws>().unwrap().loss.unwrap()
    }

    #[test]
    fn small_binomials_by_hand() {
        // Ten of ten have probability 10⁻¹⁰ at 10 %, nine or more 9.1·10⁻⁹: the bound is nine.
        let independent = CountInterval::independent;
        assert_eq!(independent(10, 0.1), CountInterval { mean: 1.0, low: 0, high: 9 });
        assert_eq!(independent(10, 0.9), CountInterval { mean: 9.0, low: 1, high: 10 });
        assert_eq!(independent(10, 0.0), CountInterval::exact(0));
        assert_eq!(independent(10, 1.0), CountInterval::exact(10));
        assert_eq!(independent(0, 0.5), CountInterval::exact(0));
    }

    #[test]
    fn large_binomials_are_about_six_deviations_wide() {
        // 10⁻⁹ outside is 6.109 standard deviations of a normal distribution.
        let i = CountInterval::independent(1_000_000, 0.5);
        let width = (i.high - i.low) as f64 / 2.0 / 500.0;
        assert!((width - 6.109).abs() < 0.01, "{width}");
        assert!(i.holds(i.low) && !i.holds(i.low - 1) && i.holds(i.high) && !i.holds(i.high + 1));
    }

    /// Standard deviations of half the interval.
    fn width(i: CountInterval, n: u64, variance: f64) -> f64 {
        (i.high - i.low) as f64 / 2.0 / (n as f64 * variance).sqrt()
    }

    /// Chernoff's bound has √(2·ln(2·10⁹)) standard deviations of a normal distribution.
    const BOUND: f64 = 6.545;

    #[test]
    fn a_chain_without_memory_is_slightly_wider_than_a_binomial() {
        // p + r = 1: the next state does not depend on the last.
        let chained = CountInterval::of_losses(5000, &law("loss ge 2% to-good 98%")).unwrap();
        let exact = CountInterval::independent(5000, 0.02);
        assert!(chained.low < exact.low && exact.low - chained.low < 6, "{chained:?} {exact:?}");
        assert!(
            chained.high > exact.high && chained.high - exact.high < 8,
            "{chained:?} {exact:?}"
        );
    }

    #[test]
    fn bursts_widen_the_interval_by_the_laws_own_variance() {
        let n = 20_000;
        let law = law("loss 5% run 4");
        let (i, moments) = (CountInterval::of_losses(n, &law).unwrap(), law.moments().unwrap());
        assert!((i.mean - 1000.0).abs() < 1e-6);
        let deviations = width(i, n, moments.variance);
        assert!((deviations - BOUND).abs() < 0.2, "{deviations}");
        // Bursts are skewed: more room above than below.
        assert!(i.high as f64 - i.mean > i.mean - i.low as f64);
        let plain = CountInterval::independent(n, 0.05);
        assert!(i.low < plain.low && i.high > plain.high);
    }

    #[test]
    fn a_chain_of_four_states_has_an_interval_of_its_own_variance() {
        let text = "loss four_state(p13_percentage=1, p31_percentage=30, p32_percentage=20, p23_percentage=50, p14_percentage=0.1)";
        let n = 20_000;
        let law = law(text);
        let (i, moments) = (CountInterval::of_losses(n, &law).unwrap(), law.moments().unwrap());
        assert!((i.mean - n as f64 * moments.mean).abs() < 1e-6);
        let deviations = width(i, n, moments.variance);
        assert!((deviations - BOUND).abs() < 0.25, "{deviations}");
        let plain = CountInterval::independent(n, moments.mean);
        assert!(i.low < plain.low && i.high > plain.high);
    }

    #[test]
    fn bursts_of_independent_losses_have_their_variance() {
        // A burst starts with p·(1 − p): the variance over n is pq(1 − 3pq).
        let (n, p) = (1_000_000, 0.1);
        let i = CountInterval::of_bursts(n, &law("loss 10%")).unwrap();
        let start = p * (1.0 - p);
        assert!((i.mean - n as f64 * start).abs() < 1e-6, "{i:?}");
        let deviations = width(i, n, start * (1.0 - 3.0 * start));
        assert!((deviations - BOUND).abs() < 0.05, "{deviations}");
        // The same loss in bursts of four has fewer than half as many.
        let long = CountInterval::of_bursts(n, &law("loss 10% run 4")).unwrap();
        assert!(long.high < i.low / 2 && (long.mean - 25_000.0).abs() < 1.0, "{long:?}");
    }

    #[test]
    fn few_packets_have_few_bursts() {
        for n in [0, 1, 2, 5] {
            let i = CountInterval::of_bursts(n, &law("loss 10% run 4")).unwrap();
            assert!(i.low == 0 && i.high <= n && i.holds(n.div_ceil(2)), "{n}: {i:?}");
        }
        assert_eq!(
            CountInterval::of_bursts(1000, &law("loss every 1")),
            Some(CountInterval::exact(1))
        );
        assert!(CountInterval::of_bursts(1000, &law("loss 100%")).unwrap().holds(1));
    }

    #[test]
    fn a_count_that_is_fixed_has_no_room() {
        let every = law("loss every 100");
        assert_eq!(CountInterval::of_losses(1050, &every), Some(CountInterval::exact(10)));
        assert_eq!(CountInterval::of_bursts(1050, &every), Some(CountInterval::exact(10)));
    }
}
