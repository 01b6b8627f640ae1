//! Statistics of a distribution.

use crate::record::Delay;

/// A statistic of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    /// The minimum.
    Min,
    /// The mean.
    Mean,
    /// The median.
    P50,
    /// The 90th percentile.
    P90,
    /// The 99th percentile.
    P99,
    /// The 99.9th percentile.
    P99_9,
    /// The 99.99th percentile.
    P99_99,
    /// The 99.999th percentile.
    P99_999,
    /// The maximum.
    Max,
}

/// Statistics by name; the last name of each is the canonical one.
const STATISTICS: &[(&str, Statistic)] = &[
    ("min", Statistic::Min),
    ("mean", Statistic::Mean),
    ("median", Statistic::P50),
    ("p50", Statistic::P50),
    ("p90", Statistic::P90),
    ("p99", Statistic::P99),
    ("p99.9", Statistic::P99_9),
    ("p99.99", Statistic::P99_99),
    ("p99.999", Statistic::P99_999),
    ("max", Statistic::Max),
];

impl Statistic {
    /// The statistics that comparisons of runs include.
    pub const COMPARED: [Statistic; 4] =
        [Statistic::Min, Statistic::Mean, Statistic::P50, Statistic::P99];

    /// The statistic with this name.
    #[must_use]
    pub(crate) fn named(name: &str) -> Option<Statistic> {
        STATISTICS.iter().find(|(n, _)| *n == name).map(|(_, s)| *s)
    }

    /// All names that [`Statistic::named`] accepts.
    #[must_use]
    pub(crate) fn names() -> Vec<&'static str> {
        STATISTICS.iter().map(|(name, _)| *name).collect()
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        STATISTICS.iter().rev().find(|(_, s)| *s == self).map_or("mean", |(name, _)| name)
    }

    /// Number of samples that a percentile q needs, 10 / (1 − q); absent for other statistics.
    #[must_use]
    pub(crate) fn min_samples(self) -> Option<u64> {
        match self {
            Statistic::Min | Statistic::Mean | Statistic::Max => None,
            Statistic::P50 => Some(20),
            Statistic::P90 => Some(100),
            Statistic::P99 => Some(1000),
            Statistic::P99_9 => Some(10_000),
            Statistic::P99_99 => Some(100_000),
            Statistic::P99_999 => Some(1_000_000),
        }
    }

    /// Its value in seconds; absent if the distribution has too few samples.
    #[must_use]
    pub(crate) fn of(self, delay: &Delay) -> Option<f64> {
        match self {
            Statistic::Min => Some(delay.min_seconds),
            Statistic::Mean => Some(delay.mean_seconds),
            Statistic::P50 => delay.p50_seconds,
            Statistic::P90 => delay.p90_seconds,
            Statistic::P99 => delay.p99_seconds,
            Statistic::P99_9 => delay.p99_9_seconds,
            Statistic::P99_99 => delay.p99_99_seconds,
            Statistic::P99_999 => delay.p99_999_seconds,
            Statistic::Max => Some(delay.max_seconds),
        }
    }
}
