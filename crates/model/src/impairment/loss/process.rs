//! Loss laws as random processes, with their moments in closed form.

/// The random process of a loss law.
#[derive(Clone, Debug, PartialEq)]
pub enum LossProcess {
    /// Every *n*-th packet is lost, starting with the *n*-th: nothing is random.
    Periodic(u64),
    /// Losses by the states of a Markov chain.
    Chain(LossChain),
}

/// A Markov chain that makes a step for each packet, with a probability of loss in each of its states. The
/// first packet has the stationary distribution. Probabilities are 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct LossChain {
    /// Fraction of packets in each state.
    pub stationary: Vec<f64>,
    /// `step[i][j]`: the probability of state *j* for the packet after one in state *i*.
    pub step: Vec<Vec<f64>>,
    /// The probability of loss in each state.
    pub loss: Vec<f64>,
}

/// Moments of a loss law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossMoments {
    /// Fraction of packets lost in the long run, 0 to 1.
    pub mean: f64,
    /// Variance of the number lost among *n* packets, over *n*, for large *n*. Bursts make it more than the
    /// binomial mean·(1 − mean).
    pub variance: f64,
    /// Mean burst length: consecutively lost packets (the length of a loss period, RFC 3357). Absent if no
    /// packet is lost, or all are.
    pub burst: Option<f64>,
}

impl LossProcess {
    /// Losses that do not depend on each other.
    #[must_use]
    pub(crate) fn independent(probability: f64) -> Self {
        LossProcess::Chain(LossChain {
            stationary: vec![1.0],
            step: vec![vec![1.0]],
            loss: vec![probability],
        })
    }

    /// Its moments.
    #[must_use]
    pub(crate) fn moments(&self) -> LossMoments {
        match self {
            LossProcess::Periodic(n) => {
                let mean = 1.0 / (*n).max(1) as f64;
                LossMoments { mean, variance: 0.0, burst: (*n > 1).then_some(1.0) }
            }
            LossProcess::Chain(chain) => chain.moments(),
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl LossChain {
    /// With f = loss − mean, the covariances of a packet with all later ones add up to Σ πᵢ·lossᵢ·(gᵢ − fᵢ), where g
    /// solves (I − P + 1πᵀ)·g = f (Kemeny and Snell, "Finite Markov Chains", 1960, section 4.3).
    pub(super) fn moments(&self) -> LossMoments {
        let n = self.loss.len();
        let mean = dot(&self.stationary, &self.loss);
        let off: Vec<f64> = self.loss.iter().map(|loss| loss - mean).collect();
        let row = |i: usize| {
            let entry = |j: usize| f64::from(i == j) - self.step[i][j] + self.stationary[j];
            (0..n).map(entry).collect::<Vec<f64>>()
        };
        let sums = solve((0..n).map(row).collect(), off.clone());
        let later = |i: usize| self.stationary[i] * self.loss[i] * (sums[i] - off[i]);
        let covariance: f64 = (0..n).map(later).sum();
        // A burst ends where a lost packet is followed by one that is not.
        let again = |i: usize| self.stationary[i] * self.loss[i] * dot(&self.step[i], &self.loss);
        let ends = mean - (0..n).map(again).sum::<f64>();
        LossMoments {
            mean,
            variance: mean * (1.0 - mean) + 2.0 * covariance,
            burst: (mean > 0.0 && ends > 0.0).then(|| mean / ends),
        }
    }
}

/// Solves a system of linear equations by elimination with pivots. A row without a pivot leaves its variable at 0.
fn solve(mut rows: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let n = right.len();
    for column in 0..n {
        let size = |row: &usize| rows[*row][column].abs();
        let pivot = (column..n).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(column);
        rows.swap(column, pivot);
        right.swap(column, pivot);
        if rows[column][column] == 0.0 {
            continue;
        }
        for row in column + 1..n {
            let factor = rows[row][column] / rows[column][column];
            let (above, below) = rows.split_at_mut(row);
            below[0].iter_mut().zip(&above[column]).for_each(|(one, pivot)| *one -= factor * pivot);
            right[row] -= factor * right[column];
        }
    }
    let mut out = vec![0.0; n];
    for row in (0..n).rev() {
        let known = dot(&rows[row][row + 1..], &out[row + 1..]);
        if rows[row][row] != 0.0 {
            out[row] = (right[row] - known) / rows[row][row];
        }
    }
    out
}
