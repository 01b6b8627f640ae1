//! What was measured of a pair in some time, in a form that can be added up.

use weir_model::progress::EchoInterval;
use weir_model::record::{Delay, IntervalCount};
use weir_model::watch::PairFigures;
use weir_stats::Histogram;

/// Maximum number of probes in one interval; more are not plausible.
const MAX_PROBES: u64 = 1_000_000;
/// Largest plausible delay, s.
const MAX_DELAY_SECONDS: f64 = 3600.0;

/// A sum of values and their number.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    fn of(mean: f64, count: u64) -> Mean {
        Mean { sum: mean * count as f64, count }
    }

    fn add(&mut self, other: &Mean) {
        self.sum += other.sum;
        self.count = self.count.saturating_add(other.count);
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// Figures of a pair over some time. Sums over shorter times add up to that of the whole.
#[derive(Debug, Clone, Default)]
pub struct PairSum {
    covered_seconds: f64,
    sent: u64,
    received: u64,
    arrived: Option<u64>,
    lost_forward: Option<i64>,
    /// Round trips, ns.
    round_trips: Histogram,
    round_trip: Mean,
    min_round_trip_seconds: Option<f64>,
    forward: Mean,
    back: Mean,
    one_way_error_seconds: Option<f64>,
}

fn is_plausible(seconds: f64) -> bool {
    seconds.is_finite() && seconds.abs() <= MAX_DELAY_SECONDS
}

impl PairSum {
    /// The sum of one interval of an echo. `arrived`: what the far agent counted in the interval, if that is known. `None`: an agent
    /// has sent figures that can't be.
    #[must_use]
    pub fn of_interval(echo: &EchoInterval, arrived: Option<&IntervalCount>) -> Option<PairSum> {
        let seconds = echo.end_seconds - echo.start_seconds;
        let cells: u64 =
            echo.round_trip_cells.iter().fold(0, |sum: u64, cell| sum.saturating_add(cell.1));
        let is_possible = seconds > 0.0
            && seconds <= MAX_DELAY_SECONDS
            && echo.sent_packets <= MAX_PROBES
            && echo.received_packets <= echo.sent_packets
            && cells <= echo.received_packets;
        if !is_possible {
            return None;
        }
        let mut sum = PairSum {
            covered_seconds: seconds,
            sent: echo.sent_packets,
            received: echo.received_packets,
            ..PairSum::default()
        };
        let round_trip = echo.round_trip.as_ref().filter(|delay| {
            [delay.min_seconds, delay.mean_seconds, delay.max_seconds]
                .into_iter()
                .all(|seconds| is_plausible(seconds) && seconds >= 0.0)
        });
        if let Some(delay) = round_trip {
            sum.round_trip = Mean::of(delay.mean_seconds, delay.count.min(echo.received_packets));
            sum.min_round_trip_seconds = Some(delay.min_seconds);
            for &(ns, count) in &echo.round_trip_cells {
                sum.round_trips.record_n(ns, count);
            }
        }
        let Some(arrived) = arrived.filter(|count| count.packets <= MAX_PROBES) else {
            return Some(sum);
        };
        sum.arrived = Some(arrived.packets);
        sum.lost_forward = arrived.lost_packets.map(|lost| {
            let limit = |lost: i64| lost.clamp(-(MAX_PROBES as i64), MAX_PROBES as i64);
            let lost = limit(i64::try_from(lost).unwrap_or(i64::MAX));
            lost + limit(arrived.earlier_lost_packets.unwrap_or(0))
        });
        let delay = arrived.mean_delay_seconds.filter(|seconds| is_plausible(*seconds));
        if let Some(delay) = delay {
            sum.forward = Mean::of(delay, arrived.packets);
            sum.one_way_error_seconds =
                echo.clock_error_seconds.filter(|seconds| is_plausible(*seconds));
            // With a loss, the two means are of different probes.
            if let Some(mean) = sum.round_trip.mean()
                && sum.received == sum.sent
                && sum.arrived == Some(sum.sent)
            {
                sum.back = Mean::of(mean - delay, sum.received);
            }
        }
        Some(sum)
    }

    /// Adds the sum of another time.
    pub fn add(&mut self, other: &PairSum) {
        fn larger<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
            if a > b { a } else { b }
        }
        let known = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        self.covered_seconds += other.covered_seconds;
        self.sent = self.sent.saturating_add(other.sent);
        self.received = self.received.saturating_add(other.received);
        self.arrived = known(self.arrived, other.arrived);
        self.lost_forward = match (self.lost_forward, other.lost_forward) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        self.round_trips.merge(&other.round_trips);
        self.round_trip.add(&other.round_trip);
        let minimums = self.min_round_trip_seconds.into_iter().chain(other.min_round_trip_seconds);
        self.min_round_trip_seconds = minimums.reduce(f64::min);
        self.forward.add(&other.forward);
        self.back.add(&other.back);
        self.one_way_error_seconds =
            larger(self.one_way_error_seconds, other.one_way_error_seconds);
    }

    /// Probes sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Probes lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sent - self.received
    }

    /// Time covered, s.
    #[must_use]
    pub fn covered_seconds(&self) -> f64 {
        self.covered_seconds
    }

    /// The round trips, ns.
    #[must_use]
    pub fn round_trips(&self) -> &Histogram {
        &self.round_trips
    }

    /// Sum of the round trips, s.
    #[must_use]
    pub fn round_trip_sum_seconds(&self) -> f64 {
        self.round_trip.sum
    }

    /// The figures.
    #[must_use]
    pub fn figures(&self) -> PairFigures {
        let quantile = |q| self.round_trips.quantile(q).map(|ns| ns as f64 / 1e9);
        let round_trip = || {
            Some(Delay {
                count: self.round_trip.count,
                min_seconds: self.min_round_trip_seconds?,
                mean_seconds: self.round_trip.mean()?,
                p50_seconds: quantile(0.5),
                p90_seconds: quantile(0.9),
                p99_seconds: quantile(0.99),
                p99_9_seconds: quantile(0.999),
                p99_99_seconds: quantile(0.9999),
                p99_999_seconds: quantile(0.99999),
                max_seconds: self.round_trips.max()? as f64 / 1e9,
                ..Delay::default()
            })
        };
        PairFigures {
            covered_seconds: self.covered_seconds,
            sent_packets: self.sent,
            received_packets: self.received,
            lost_packets: self.lost(),
            loss_ratio: (self.sent > 0).then(|| self.lost() as f64 / self.sent as f64),
            arrived_packets: self.arrived,
            lost_forward_packets: self.lost_forward.map(|lost| lost.max(0) as u64),
            round_trip: round_trip(),
            forward_delay_seconds: self.forward.mean(),
            return_delay_seconds: self.back.mean(),
            one_way_error_seconds: self.one_way_error_seconds,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A second in which these probes came back, of `sent`.
    pub(crate) fn second(sent: u64, round_trips_ns: &[u64]) -> PairSum {
        PairSum::of_interval(&interval(sent, round_trips_ns), None).unwrap()
    }

    fn interval(sent: u64, round_trips_ns: &[u64]) -> EchoInterval {
        let count = round_trips_ns.len() as u64;
        let seconds = |ns: u64| ns as f64 / 1e9;
        let round_trip = (count > 0).then(|| Delay {
            count,
            min_seconds: seconds(*round_trips_ns.iter().min().unwrap()),
            mean_seconds: seconds(round_trips_ns.iter().sum()) / count as f64,
            max_seconds: seconds(*round_trips_ns.iter().max().unwrap()),
            ..Delay::default()
        });
        EchoInterval {
            start_seconds: 0.0,
            end_seconds: 1.0,
            sent_packets: sent,
            received_packets: count,
            lost_packets: sent - count,
            round_trip,
            round_trip_cells: round_trips_ns.iter().map(|ns| (*ns, 1)).collect(),
            clock_error_seconds: Some(1e-6),
            ..EchoInterval::default()
        }
    }

    proptest! {
        #[test]
        fn sums_of_parts_are_that_of_the_whole(parts in prop::collection::vec(prop::collection::vec(1u64..1 << 30, 0..30), 1..20)) {
            let mut sum = PairSum::default();
            for part in &parts {
                sum.add(&second(part.len() as u64 + 1, part));
            }
            let all: Vec<u64> = parts.concat();
            let figures = sum.figures();
            prop_assert_eq!(figures.sent_packets, (all.len() + parts.len()) as u64);
            prop_assert_eq!(figures.lost_packets, parts.len() as u64);
            prop_assert_eq!(figures.covered_seconds, parts.len() as f64);
            let whole = second(all.len() as u64, &all).figures();
            match (figures.round_trip, whole.round_trip) {
                (Some(sum), Some(whole)) => {
                    prop_assert_eq!((sum.count, sum.min_seconds), (whole.count, whole.min_seconds));
                    prop_assert_eq!((sum.p50_seconds, sum.max_seconds), (whole.p50_seconds, whole.max_seconds));
                    prop_assert!((sum.mean_seconds - whole.mean_seconds).abs() < 1e-9);
                }
                (sum, whole) => prop_assert_eq!(sum, whole),
            }
        }
    }

    #[test]
    fn what_was_not_measured_is_absent() {
        let figures = second(3, &[]).figures();
        assert_eq!((figures.loss_ratio, figures.round_trip), (Some(1.0), None));
        assert_eq!((figures.arrived_packets, figures.forward_delay_seconds), (None, None));
        assert_eq!(PairSum::default().figures().loss_ratio, None);
        // Below 20 round trips there is no median.
        assert_eq!(second(2, &[5, 7]).figures().round_trip.unwrap().p50_seconds, None);
    }

    #[test]
    fn one_way_delays_are_those_of_the_two_directions() {
        let arrived = IntervalCount {
            packets: 2,
            lost_packets: Some(0),
            mean_delay_seconds: Some(0.004),
            ..IntervalCount::default()
        };
        let echo = interval(2, &[10_000_000, 12_000_000]);
        let figures = PairSum::of_interval(&echo, Some(&arrived)).unwrap().figures();
        assert_eq!((figures.arrived_packets, figures.lost_forward_packets), (Some(2), Some(0)));
        assert_eq!(figures.forward_delay_seconds, Some(0.004));
        assert!((figures.return_delay_seconds.unwrap() - 0.007).abs() < 1e-12);
        assert_eq!(figures.one_way_error_seconds, Some(1e-6));
        let lossy = interval(3, &[10_000_000, 12_000_000]);
        let figures = PairSum::of_interval(&lossy, Some(&arrived)).unwrap().figures();
        assert_eq!((figures.lost_packets, figures.return_delay_seconds), (1, None));
    }

    #[test]
    fn impossible_figures_of_an_agent_are_refused() {
        let good = interval(2, &[5, 7]);
        let changes: [fn(&mut EchoInterval); 5] = [
            |echo| echo.sent_packets = u64::MAX,
            |echo| echo.received_packets = 3,
            |echo| echo.end_seconds = f64::NAN,
            |echo| echo.end_seconds = 0.0,
            |echo| echo.round_trip_cells = vec![(1, u64::MAX), (2, u64::MAX)],
        ];
        for change in changes {
            let mut bad = good.clone();
            change(&mut bad);
            assert!(PairSum::of_interval(&bad, None).is_none());
        }
        let mut odd = good;
        odd.round_trip.as_mut().unwrap().mean_seconds = f64::INFINITY;
        let sum = PairSum::of_interval(&odd, None).unwrap();
        assert_eq!(sum.figures().round_trip, None);
    }
}
