//! What came back of the datagrams that were sent in each of the latest intervals.

use std::collections::VecDeque;

use weir_model::progress::EchoInterval;
use weir_stats::DelaySummary;

use super::delay_record;
use crate::intervals::IntervalClock;

/// Maximum number of intervals that wait for their echoes. With more, the oldest are reported early.
const MAX_WAITING: usize = 1024;
/// Maximum number of cells of a reported distribution.
const MAX_CELLS: usize = 1024;

/// Echoes of the datagrams of one interval.
#[derive(Debug, Clone, Default)]
struct Echoes {
    packets: u64,
    round_trips: DelaySummary,
}

/// Echoes by the interval in which their datagrams were sent, of intervals that were not reported yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Returned {
    /// Number of the first waiting interval.
    first: usize,
    waiting: VecDeque<Echoes>,
}

impl Returned {
    fn at(&mut self, index: usize) -> Option<&mut Echoes> {
        let place = index.checked_sub(self.first).filter(|place| *place < MAX_WAITING)?;
        if self.waiting.len() <= place {
            self.waiting.resize_with(place + 1, Echoes::default);
        }
        self.waiting.get_mut(place)
    }

    /// Counts the first echo of a datagram that was sent in interval `index`.
    pub(super) fn count(&mut self, index: usize) {
        if let Some(echoes) = self.at(index) {
            echoes.packets += 1;
        }
    }

    /// Counts its round trip.
    pub(super) fn time(&mut self, index: usize, round_trip_ns: i64) {
        if let Some(echoes) = self.at(index) {
            echoes.round_trips.record(round_trip_ns);
        }
    }

    /// Whether the first waiting interval, in which `sent` datagrams were sent, is complete or must not wait any longer.
    pub(super) fn is_ready(&self, sent: u64, is_late: bool) -> bool {
        let back = self.waiting.front().map_or(0, |echoes| echoes.packets);
        is_late || back >= sent || self.waiting.len() == MAX_WAITING
    }

    /// The number of the first waiting interval.
    pub(super) fn next(&self) -> usize {
        self.first
    }

    /// Takes the first waiting interval, in which `sent` datagrams were sent.
    pub(super) fn take(&mut self, id: u32, sent: u64, clock: &IntervalClock) -> EchoInterval {
        let echoes = self.waiting.pop_front().unwrap_or_default();
        let start_ns = clock.start_offset_ns(self.first);
        let end_ns = clock.end_offset_ns(self.first).unwrap_or(start_ns);
        self.first += 1;
        let cells = echoes.round_trips.histogram();
        let cells = cells.cells().map(|(_, high, count)| (high, count));
        let cells: Vec<(u64, u64)> = cells.take(MAX_CELLS + 1).collect();
        EchoInterval {
            id,
            start_seconds: start_ns as f64 / 1e9,
            end_seconds: end_ns as f64 / 1e9,
            sent_packets: sent,
            received_packets: echoes.packets,
            lost_packets: sent.saturating_sub(echoes.packets),
            round_trip: delay_record(&echoes.round_trips, None),
            round_trip_cells: if cells.len() > MAX_CELLS { vec![] } else { cells },
            clock_error_seconds: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: IntervalClock = IntervalClock { start_ns: 0, interval_ns: 1000, omit_ns: 0 };

    #[test]
    fn echoes_belong_to_the_interval_in_which_their_datagrams_were_sent() {
        let mut returned = Returned::default();
        for (index, round_trip_ns) in [(0, 500), (2, 700), (0, 900)] {
            returned.count(index);
            returned.time(index, round_trip_ns);
        }
        assert!(returned.is_ready(2, false) && !returned.is_ready(3, false));
        assert!(returned.is_ready(3, true));
        let first = returned.take(7, 3, &CLOCK);
        assert_eq!((first.id, first.sent_packets, first.received_packets), (7, 3, 2));
        assert_eq!((first.lost_packets, first.end_seconds), (1, 1e-6));
        assert_eq!(first.round_trip_cells, [(500, 1), (900, 1)]);
        assert_eq!(first.round_trip.map(|delay| delay.count), Some(2));
        // Too late for the first interval.
        returned.count(0);
        let second = returned.take(7, 2, &CLOCK);
        assert_eq!((second.lost_packets, second.round_trip), (2, None));
        assert_eq!(returned.take(7, 1, &CLOCK).lost_packets, 0);
    }

    #[test]
    fn memory_is_limited() {
        let mut returned = Returned::default();
        returned.count(MAX_WAITING);
        returned.count(usize::MAX);
        assert!(returned.waiting.is_empty());
        returned.count(MAX_WAITING - 1);
        assert!(returned.is_ready(1, false));
        for value in 0..=MAX_CELLS as i64 {
            returned.time(0, value);
        }
        let full = returned.take(1, 0, &CLOCK);
        assert!(full.round_trip_cells.is_empty() && full.round_trip.is_some());
    }
}
