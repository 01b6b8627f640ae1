//! The figures of one flow over the last intervals.

use std::collections::VecDeque;

use weir_model::record::{IntervalCount, IntervalFlow};

/// Intervals kept for curves.
const CURVE: usize = 240;

/// Intervals whose delays are kept for the histogram.
const DELAYS: usize = 3600;

/// The bars of a sparkline, from the lowest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What the view knows of a flow.
#[derive(Debug)]
pub(super) struct History {
    /// Whether its delay is the one-way delay of datagrams, not the round trip of a stream.
    has_one_way_delay: bool,
    /// Rates of the last intervals, bit/s; the newest is last.
    rates: VecDeque<Option<f64>>,
    /// The delays of the intervals that have one, seconds.
    delays: VecDeque<f64>,
    /// The newest interval; absent from the intervals of a flow that has finished.
    pub(super) sender: Option<IntervalCount>,
    pub(super) receiver: Option<IntervalCount>,
}

impl History {
    pub(super) fn new(has_one_way_delay: bool) -> History {
        History {
            has_one_way_delay,
            rates: VecDeque::new(),
            delays: VecDeque::new(),
            sender: None,
            receiver: None,
        }
    }

    /// Adds an interval.
    pub(super) fn add(&mut self, flow: IntervalFlow) {
        let delay = match self.has_one_way_delay {
            true => flow.receiver.as_ref().and_then(|c| c.mean_delay_seconds),
            false => flow.sender.as_ref().and_then(|c| c.rtt_seconds),
        };
        if let Some(delay) = delay {
            keep(&mut self.delays, delay, DELAYS);
        }
        (self.sender, self.receiver) = (flow.sender, flow.receiver);
        let rate = self.rate();
        keep(&mut self.rates, rate, CURVE);
    }

    /// The rate of the newest interval: the receiver's if known, else the sender's.
    pub(super) fn rate(&self) -> Option<f64> {
        self.receiver.as_ref().or(self.sender.as_ref())?.bits_per_second
    }

    /// Whether the rate is the sender's.
    pub(super) fn is_senders_rate(&self) -> bool {
        self.receiver.is_none() && self.sender.is_some()
    }

    /// Loss in the newest interval, 0 to 1.
    pub(super) fn loss(&self) -> Option<f64> {
        let receiver = self.receiver.as_ref()?;
        let lost = receiver.lost_packets? as f64;
        let sent = lost + receiver.packets as f64;
        (sent > 0.0).then(|| lost / sent)
    }

    /// The last rates as bars from zero to the largest of them.
    pub(super) fn sparkline(&self, width: usize) -> String {
        let shown = || self.rates.iter().skip(self.rates.len().saturating_sub(width));
        let largest = shown().copied().flatten().fold(0.0, f64::max);
        let bar = |rate: &Option<f64>| match rate {
            Some(rate) if *rate > 0.0 => {
                BARS[((rate / largest * 8.0).ceil() as usize).clamp(1, 8) - 1]
            }
            _ => ' ',
        };
        shown().map(bar).collect()
    }

    /// How many delays are in each of `bins` equal steps from the smallest to the largest; `None` without two different delays.
    pub(super) fn histogram(&self, bins: usize) -> Option<(f64, f64, Vec<u64>)> {
        let smallest = self.delays.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = self.delays.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if bins == 0 || smallest.partial_cmp(&largest) != Some(std::cmp::Ordering::Less) {
            return None;
        }
        let mut counts = vec![0; bins];
        for delay in &self.delays {
            let place = (delay - smallest) / (largest - smallest) * bins as f64;
            counts[(place as usize).min(bins - 1)] += 1;
        }
        Some((smallest, largest, counts))
    }
}

fn keep<T>(values: &mut VecDeque<T>, value: T, maximum: usize) {
    if values.len() == maximum {
        values.pop_front();
    }
    values.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(rate: Option<f64>, lost: u64, delay: f64) -> IntervalFlow {
        let receiver = IntervalCount {
            packets: 8,
            bits_per_second: rate,
            lost_packets: Some(lost),
            mean_delay_seconds: Some(delay),
            ..IntervalCount::default()
        };
        IntervalFlow { id: 1, receiver: Some(receiver), ..IntervalFlow::default() }
    }

    #[test]
    fn figures_are_those_of_the_newest_interval() {
        let mut history = History::new(true);
        assert_eq!((history.rate(), history.loss()), (None, None));
        history.add(interval(Some(1e6), 8, 0.01));
        assert_eq!((history.rate(), history.loss()), (Some(1e6), Some(0.5)));
        // A flow that has finished is in no interval.
        history.add(IntervalFlow::default());
        assert_eq!((history.rate(), history.loss()), (None, None));
    }

    #[test]
    fn a_sparkline_ends_with_the_newest_and_starts_at_zero() {
        let mut history = History::new(true);
        for rate in [Some(8e6), None, Some(0.0), Some(1e6), Some(4e6)] {
            history.add(interval(rate, 0, 0.01));
        }
        assert_eq!(history.sparkline(9), "█  ▁▄");
        assert_eq!(history.sparkline(2), "▂█");
        assert_eq!(History::new(true).sparkline(4), "");
    }

    #[test]
    fn a_histogram_counts_every_delay_once() {
        let mut history = History::new(true);
        history.add(interval(None, 0, 0.010));
        assert_eq!(history.histogram(4), None);
        for delay in [0.010, 0.012, 0.018] {
            history.add(interval(None, 0, delay));
        }
        assert_eq!(history.histogram(4), Some((0.010, 0.018, vec![2, 1, 0, 1])));
        assert_eq!(history.histogram(0), None);
        let mut stream = History::new(false);
        stream.add(interval(None, 0, 0.010));
        stream.add(interval(None, 0, 0.020));
        assert_eq!(stream.histogram(4), None, "one-way delay is not a round trip");
    }
}
