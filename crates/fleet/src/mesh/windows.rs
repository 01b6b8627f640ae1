//! Rolling windows of a pair.

use std::collections::VecDeque;

use weir_model::watch::WindowFigures;

use super::PairSum;

/// Parts of a window: it ends with the latest second, and its start moves by whole parts.
const PARTS: u64 = 60;

/// The rolling windows of a pair.
#[derive(Debug, Clone)]
pub struct Windows(Vec<Window>);

#[derive(Debug, Clone)]
struct Window {
    seconds: u64,
    /// Length of a part, s.
    part: u64,
    /// Numbers of parts, and their sums.
    parts: VecDeque<(u64, PairSum)>,
}

impl Windows {
    /// Windows of these lengths, s.
    #[must_use]
    pub fn new(seconds: impl IntoIterator<Item = u64>) -> Windows {
        let window = |seconds: u64| {
            let part = seconds.div_ceil(PARTS).max(1);
            Window { seconds: seconds.max(1), part, parts: VecDeque::new() }
        };
        let mut windows: Vec<Window> = seconds.into_iter().map(window).collect();
        windows.sort_by_key(|window| window.seconds);
        Windows(windows)
    }

    /// Adds a second, by its number since any fixed time. Seconds arrive in order; one before the latest counts with that.
    pub fn add(&mut self, second: u64, sum: &PairSum) {
        for window in &mut self.0 {
            let number = second / window.part;
            match window.parts.back_mut() {
                Some((latest, part)) if *latest >= number => part.add(sum),
                _ => window.parts.push_back((number, sum.clone())),
            }
            window.expire(second);
        }
    }

    /// The figures of the windows that end with `second`, from short to long.
    pub fn figures(&mut self, second: u64) -> Vec<WindowFigures> {
        let figures = |window: &mut Window| {
            window.expire(second);
            let mut sum = PairSum::default();
            window.parts.iter().for_each(|(_, part)| sum.add(part));
            WindowFigures { window_seconds: window.seconds as f64, figures: sum.figures() }
        };
        self.0.iter_mut().map(figures).collect()
    }
}

impl Window {
    /// Removes parts that start before the window that ends with `second`.
    fn expire(&mut self, second: u64) {
        let start = second.saturating_add(1).saturating_sub(self.seconds);
        while self.parts.front().is_some_and(|(number, _)| number * self.part < start) {
            self.parts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sum::tests::second;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_window_has_its_last_seconds() {
        let mut windows = Windows::new([600, 10]);
        for at in 0..1000 {
            windows.add(at, &second(10, &[at + 1]));
        }
        let [short, long] = windows.figures(999).try_into().unwrap();
        assert_eq!((short.window_seconds, short.figures.covered_seconds), (10.0, 10.0));
        let round_trip = short.figures.round_trip.unwrap();
        assert_eq!((round_trip.count, round_trip.max_seconds), (10, 1000e-9));
        assert_eq!(round_trip.min_seconds, 991e-9);
        assert_eq!((long.window_seconds, long.figures.covered_seconds), (600.0, 600.0));
        // Time without measurements empties it.
        let later = windows.figures(1005);
        assert_eq!(later[0].figures.covered_seconds, 4.0);
        assert_eq!(windows.figures(5000)[1].figures, Default::default());
    }

    proptest! {
        #[test]
        fn the_start_is_within_one_part(length in 10u64..2000, last in 0u64..5000) {
            let mut windows = Windows::new([length]);
            for at in 0..=last {
                windows.add(at, &second(1, &[5]));
            }
            let covered = windows.figures(last)[0].figures.covered_seconds as u64;
            let full = length.min(last + 1);
            prop_assert!(covered <= full && covered + length.div_ceil(PARTS) > full, "{covered} {full}");
        }
    }
}
