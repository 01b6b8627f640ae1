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
#[derive(Debug, Default)]
pub(super) struct History {
    /// Rates of the last intervals, bit/s; the newest is last.
    rates: VecDeque<f64>,
    /// Mean one-way delays of the intervals, or their last round trips where there is no delay, seconds.
    delays: VecDeque<f64>,
    /// The newest interval.
    pub(super) sender: Option<IntervalCount>,
    /// The newest interval.
    pub(super) receiver: Option<IntervalCount>,
    /// Packets received, and known as lost, since the start.
    pub(super) received_packets: u64,
    pub(super) lost_packets: Option<i64>,
}

impl History {
    /// Adds an interval.
    pub(super) fn add(&mut self, flow: &IntervalFlow) {
        let shown = flow.receiver.as_ref().or(flow.sender.as_ref());
        keep(&mut self.rates, shown.and_then(|c| c.bits_per_second).unwrap_or(0.0), CURVE);
        if let Some(delay) = delay(flow) {
            keep(&mut self.delays, delay, DELAYS);
        }
        if let Some(receiver) = &flow.receiver {
            self.received_packets += receiver.packets;
            let lost = receiver.lost_packets.and_then(|n| i64::try_from(n).ok());
            let change = lost.map(|n| n + receiver.earlier_lost_packets.unwrap_or(0));
            if let Some(change) = change {
                self.lost_packets = Some(self.lost_packets.unwrap_or(0) + change);
            }
        }
        self.sender.clone_from(&flow.sender);
        self.receiver.clone_from(&flow.receiver);
    }

    /// The rate of the newest interval: the receiver's if known, else the sender's.
    pub(super) fn rate(&self) -> Option<f64> {
        self.receiver.as_ref().or(self.sender.as_ref())?.bits_per_second
    }

    /// Loss since the start, 0 to 1.
    pub(super) fn loss(&self) -> Option<f64> {
        let lost = self.lost_packets?.max(0) as f64;
        let sent = lost + self.received_packets as f64;
        (sent > 0.0).then(|| lost / sent)
    }

    /// The last rates as bars from zero to the largest of them.
    pub(super) fn sparkline(&self, width: usize) -> String {
        let shown = || self.rates.iter().skip(self.rates.len().saturating_sub(width));
        let most = shown().copied().fold(0.0, f64::max);
        let bar = |rate: &f64| match most > 0.0 && *rate > 0.0 {
            true => BARS[((rate / most * 8.0).ceil() as usize).clamp(1, 8) - 1],
            false => ' ',
        };
        shown().map(bar).collect()
    }

    /// How many delays are in each of `bins` equal steps from the smallest to the largest; `None` without two different delays.
    pub(super) fn histogram(&self, bins: usize) -> Option<(f64, f64, Vec<u64>)> {
        let least = self.delays.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.delays.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if bins == 0 || least.partial_cmp(&most) != Some(std::cmp::Ordering::Less) {
            return None;
        }
        let mut counts = vec![0; bins];
        for delay in &self.delays {
            let place = (delay - least) / (most - least) * bins as f64;
            counts[(place as usize).min(bins - 1)] += 1;
        }
        Some((least, most, counts))
    }
}

/// The delay that an interval shows: the mean one-way delay, else the round trip at its end.
fn delay(flow: &IntervalFlow) -> Option<f64> {
    let one_way = flow.receiver.as_ref().and_then(|c| c.mean_delay_seconds);
    one_way.or_else(|| flow.sender.as_ref()?.rtt_seconds)
}

fn keep(values: &mut VecDeque<f64>, value: f64, most: usize) {
    if values.len() == most {
        values.pop_front();
    }
    values.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(rate: f64, lost: u64, earlier: i64, delay: f64) -> IntervalFlow {
        let receiver = IntervalCount {
            packets: 8,
            bits_per_second: Some(rate),
            lost_packets: Some(lost),
            earlier_lost_packets: Some(earlier),
            mean_delay_seconds: Some(delay),
            ..IntervalCount::default()
        };
        IntervalFlow { id: 1, receiver: Some(receiver), ..IntervalFlow::default() }
    }

    #[test]
    fn losses_of_earlier_intervals_are_corrected() {
        let mut history = History::default();
        assert_eq!(history.loss(), None);
        history.add(&interval(1e6, 4, 0, 0.01));
        assert_eq!(history.loss(), Some(4.0 / 12.0));
        history.add(&interval(1e6, 0, -4, 0.01));
        assert_eq!(history.loss(), Some(0.0));
    }

    #[test]
    fn a_sparkline_ends_with_the_newest_and_starts_at_zero() {
        let mut history = History::default();
        for rate in [8e6, 0.0, 1e6, 4e6] {
            history.add(&interval(rate, 0, 0, 0.01));
        }
        assert_eq!(history.sparkline(9), "█ ▁▄");
        assert_eq!(history.sparkline(2), "▂█");
        assert_eq!(History::default().sparkline(4), "");
    }

    #[test]
    fn a_histogram_counts_every_delay_once() {
        let mut history = History::default();
        history.add(&interval(1e6, 0, 0, 0.010));
        assert_eq!(history.histogram(4), None);
        for delay in [0.010, 0.012, 0.018] {
            history.add(&interval(1e6, 0, 0, delay));
        }
        assert_eq!(history.histogram(4), Some((0.010, 0.018, vec![2, 1, 0, 1])));
        assert_eq!(history.histogram(0), None);
    }
}
