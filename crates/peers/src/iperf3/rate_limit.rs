//! The limit of the rate of a test at the server (`--server-bitrate-limit`).

use std::collections::VecDeque;
use std::str::FromStr;

use weir_flow::IntervalClock;
use weir_model::record::Interval;
use weir_model::units::BitRate;
use weir_traffic::session::{End, Workers};

use super::codec::Parameters;
use crate::shown::Shown;

/// Time over which the rate is averaged unless it is given, s.
const SECONDS: usize = 5;
/// Maximum of it, s.
const MAX_SECONDS: usize = 60;
/// What is accepted as a limit.
const ACCEPTED: &str = "bits per second such as 10M or 0 (no limit), and optionally the seconds of the mean, 1 to 60: 10M/5";

/// The maximum rate of a test, all streams and both directions together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TotalRateLimit {
    /// Bits of payload per second; 0: no limit.
    bits_per_second: u64,
    /// Time over which the rate is averaged, s.
    seconds: usize,
}

impl FromStr for TotalRateLimit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (rate, seconds) = match text.split_once('/') {
            Some((rate, seconds)) => (rate, seconds.parse().map_err(|_| ACCEPTED)?),
            None => (text, SECONDS),
        };
        let bits_per_second = match rate {
            "0" => 0,
            rate => rate.parse::<BitRate>().map_err(|_| ACCEPTED)?.0,
        };
        match (1..=MAX_SECONDS).contains(&seconds) {
            true => Ok(TotalRateLimit { bits_per_second, seconds }),
            false => Err(ACCEPTED),
        }
    }
}

impl TotalRateLimit {
    /// Why a test is refused before it starts: it would exceed the limit.
    pub(super) fn refusal(self, parameters: &Parameters) -> Option<String> {
        let directions = if parameters.bidirectional { 2 } else { 1 };
        let streams = parameters.parallel.max(1).saturating_mul(directions);
        let total = parameters.rate.saturating_mul(streams);
        let limit = self.bits_per_second;
        (limit > 0 && total > limit).then(|| {
            format!("a rate of {total} bit/s, all streams together: the limit is {limit} bit/s")
        })
    }
}

/// The rate of a running test.
pub(super) struct TotalRate {
    limit: TotalRateLimit,
    shown: Shown,
    /// Bytes of the last intervals, of a second each, as many as the mean has.
    bytes: VecDeque<u64>,
}

impl TotalRate {
    pub(super) fn new(limit: Option<TotalRateLimit>, intervals: IntervalClock) -> Option<Self> {
        let limit = limit.filter(|limit| limit.bits_per_second > 0)?;
        Some(TotalRate { limit, shown: Shown::new(intervals), bytes: VecDeque::new() })
    }

    /// Waits until the mean rate exceeds the limit; returns the reason to end the test.
    pub(super) async fn exceeded(&mut self, workers: &Workers, end: &End) -> String {
        loop {
            let interval = self.shown.next(workers, end).await;
            if let Some(mean) = self.next(&interval) {
                let limit = self.limit.bits_per_second;
                return format!("a rate of {mean} bit/s: the limit is {limit} bit/s");
            }
        }
    }

    /// Counts an interval; the mean, bit/s, if it exceeds the limit.
    fn next(&mut self, interval: &Interval) -> Option<u64> {
        let ends = interval.flows.iter().flat_map(|flow| [&flow.sender, &flow.receiver]);
        let bytes = ends.flatten().fold(0_u64, |sum, count| sum.saturating_add(count.bytes));
        self.bytes.push_back(bytes);
        if self.bytes.len() > self.limit.seconds {
            self.bytes.pop_front();
        }
        if self.bytes.len() < self.limit.seconds {
            return None;
        }
        let sum = self.bytes.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
        let mean = sum.saturating_mul(8) / self.limit.seconds as u64;
        (mean > self.limit.bits_per_second).then_some(mean)
    }
}

/// Waits for [`TotalRate::exceeded`]; never without a limit.
pub(super) async fn exceeded(rate: &mut Option<TotalRate>, workers: &Workers, end: &End) -> String {
    match rate {
        Some(rate) => rate.exceeded(workers, end).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::record::{IntervalCount, IntervalFlow};

    fn limit(text: &str) -> TotalRateLimit {
        text.parse().unwrap()
    }

    #[test]
    fn a_limit_is_a_rate_and_the_seconds_of_its_mean() {
        let of = |bits_per_second, seconds| TotalRateLimit { bits_per_second, seconds };
        assert_eq!((limit("10M"), limit("1G/60")), (of(10_000_000, 5), of(1_000_000_000, 60)));
        assert_eq!(limit("0"), of(0, 5));
        for bad in ["", "fast", "10M/", "10M/0", "10M/61", "10M/0.5", "-1", "/5"] {
            assert_eq!(bad.parse::<TotalRateLimit>(), Err(ACCEPTED), "{bad}");
        }
    }

    #[test]
    fn what_a_client_states_is_of_all_streams() {
        let parameters = |rate, parallel, bidirectional| Parameters {
            rate,
            parallel,
            bidirectional,
            ..Parameters::default()
        };
        let refused = |p| limit("10M").refusal(&p).is_some();
        assert!(!refused(parameters(10_000_000, 1, false)) && !refused(parameters(0, 9, true)));
        assert!(refused(parameters(10_000_001, 1, false)));
        assert!(
            refused(parameters(6_000_000, 2, false)) && refused(parameters(6_000_000, 1, true))
        );
        assert!(refused(parameters(u64::MAX, u64::MAX, true)));
        assert!(limit("0").refusal(&parameters(u64::MAX, 9, true)).is_none());
    }

    #[test]
    fn a_burst_within_the_mean_is_accepted() {
        let clock = IntervalClock { start_ns: 0, interval_ns: 1_000_000_000, omit_ns: 0 };
        let mut rate = TotalRate::new(Some(limit("8k/2")), clock).unwrap();
        let mut next = |sent: u64, received: u64| {
            let count = |bytes| Some(IntervalCount { bytes, ..IntervalCount::default() });
            let [sender, receiver] = [count(sent), count(received)];
            let flow = IntervalFlow { sender, receiver, ..IntervalFlow::default() };
            rate.next(&Interval { flows: vec![flow], ..Interval::default() })
        };
        assert_eq!([next(1000, 900), next(0, 100), next(1000, 900)], [None; 3]);
        assert_eq!(next(0, 101), Some(8004));
        assert_eq!(next(u64::MAX, 1), Some(u64::MAX / 2));
        assert!(TotalRate::new(Some(limit("0")), clock).is_none());
        assert!(TotalRate::new(None, clock).is_none());
    }
}
