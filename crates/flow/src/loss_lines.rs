//! Losses in the lines of a running test.
//!
//! What an interval lost is known only when later datagrams arrive: after an outage, losses belong to intervals whose
//! lines have been shown. The next line states them as a correction, so that lines and corrections add up to the total.

use std::collections::HashMap;

use weir_model::plan::Direction;
use weir_model::record::{Interval, IntervalCount, IntervalEnds};

/// The sums of losses and corrections in the lines shown so far.
#[derive(Debug, Clone, Default)]
pub struct LossLines {
    flows: HashMap<u32, i64>,
    totals: [i64; 2],
    /// The last forward total: its number of flows, and their losses up to the end of its interval.
    last_forward: Option<(u32, i64)>,
    /// The far end has sent a sum instead of its flows' figures.
    has_sums: bool,
    /// The omitted start is over; its lines are accounted for separately.
    is_counted: bool,
}

fn signed(packets: u64) -> i64 {
    i64::try_from(packets).unwrap_or(i64::MAX)
}

fn set(count: &mut IntervalCount, earlier: i64) {
    count.earlier_lost_packets = (earlier != 0).then_some(earlier);
}

impl LossLines {
    /// Adds to an interval, before it is shown, the losses of earlier intervals that have become known. `summed`: its
    /// received total is the far end's own sum of this number of flows.
    pub fn correct(
        &mut self,
        interval: &mut Interval,
        direction: impl Fn(u32) -> Direction,
        summed: Option<u32>,
    ) {
        if !interval.omitted && !self.is_counted {
            *self = LossLines { is_counted: true, ..LossLines::default() };
        }
        let mut corrections = [0; 2];
        let mut forward_flows = 0;
        for flow in &mut interval.flows {
            let Some(r) = &mut flow.receiver else { continue };
            forward_flows += u32::from(direction(flow.id) == Direction::Forward);
            let Some(lost) = r.lost_packets.map(signed) else { continue };
            let shown = self.flows.entry(flow.id).or_default();
            let before = r.lost_before_packets.map_or(*shown, signed);
            let earlier = before.saturating_sub(*shown);
            *shown = before.saturating_add(lost);
            set(r, earlier);
            let of = &mut corrections[usize::from(direction(flow.id) == Direction::Reverse)];
            *of = earlier.saturating_add(*of);
        }
        let ends = [&mut interval.total.forward, &mut interval.total.reverse];
        for ((i, ends), mut earlier) in ends.into_iter().enumerate().zip(corrections) {
            let Some(r) = ends.as_mut().and_then(|e| e.receiver.as_mut()) else { continue };
            let Some(lost) = r.lost_packets.map(signed) else { continue };
            if i == 0 {
                let of = summed.unwrap_or(forward_flows);
                let before = r.lost_before_packets.map(signed);
                self.has_sums |= summed.is_some();
                if self.has_sums {
                    // Flows' own baselines lack the losses that sums have stated. Totals of different flows are not
                    // compared.
                    earlier = match (self.last_forward, before) {
                        (Some((flows, shown)), Some(before)) if flows == of => {
                            before.saturating_sub(shown)
                        }
                        _ => 0,
                    };
                }
                self.last_forward = before.map(|before| (of, before.saturating_add(lost)));
            }
            set(r, earlier);
            self.totals[i] = self.totals[i].saturating_add(lost).saturating_add(earlier);
        }
        without_reported(interval);
    }

    /// Adds to the first interval that is shown from the record the losses that the lines before it lack. `shown`:
    /// their intervals in the record.
    pub fn finish(&self, first: &mut Interval, shown: &[Interval]) {
        if first.omitted || !self.is_counted {
            return;
        }
        let mut known: HashMap<u32, i64> = HashMap::new();
        let mut totals: [Option<i64>; 2] = [None; 2];
        for interval in shown.iter().filter(|i| !i.omitted) {
            for flow in &interval.flows {
                let lost = flow.receiver.as_ref().and_then(|r| r.lost_packets);
                let Some(lost) = lost.map(signed) else { continue };
                let sum = known.entry(flow.id).or_default();
                *sum = sum.saturating_add(lost);
            }
            for (sum, ends) in
                totals.iter_mut().zip([&interval.total.forward, &interval.total.reverse])
            {
                let receiver = ends.as_ref().and_then(|e| e.receiver.as_ref());
                if let Some(lost) = receiver.and_then(|r| r.lost_packets).map(signed) {
                    *sum = Some(sum.unwrap_or(0).saturating_add(lost));
                }
            }
        }
        for flow in &mut first.flows {
            // Without losses in the record, those of the lines have no correction.
            if let (Some(r), Some(known)) = (&mut flow.receiver, known.get(&flow.id)) {
                let stated = self.flows.get(&flow.id).copied().unwrap_or(0);
                set(r, known.saturating_sub(stated));
            }
        }
        for (i, ends) in
            [&mut first.total.forward, &mut first.total.reverse].into_iter().enumerate()
        {
            if let (Some(IntervalEnds { receiver: Some(r), .. }), Some(known)) = (ends, totals[i]) {
                set(r, known.saturating_sub(self.totals[i]));
            }
        }
    }
}

/// Removes the figures that only the control connection carries.
pub fn without_reported(interval: &mut Interval) {
    let flows = interval.flows.iter_mut().flat_map(|f| [&mut f.sender, &mut f.receiver]);
    let totals = [&mut interval.total.forward, &mut interval.total.reverse].into_iter().flatten();
    let totals = totals.flat_map(|e| [&mut e.sender, &mut e.receiver]);
    for count in flows.chain(totals).flatten() {
        count.lost_before_packets = None;
    }
}

#[cfg(test)]
mod tests {
    use weir_model::record::{IntervalFlow, IntervalTotals};

    use super::*;

    fn count(before: u64, lost: u64) -> IntervalCount {
        IntervalCount {
            lost_packets: Some(lost),
            lost_before_packets: Some(before),
            ..IntervalCount::default()
        }
    }

    fn ends(receiver: IntervalCount) -> Option<IntervalEnds> {
        Some(IntervalEnds { receiver: Some(receiver), ..IntervalEnds::default() })
    }

    /// An interval of flows 1.. of which each had lost (before, in it).
    fn interval(flows: &[(u64, u64)]) -> Interval {
        let flow = |(i, (before, lost)): (usize, &(u64, u64))| IntervalFlow {
            id: i as u32 + 1,
            receiver: Some(count(*before, *lost)),
            ..IntervalFlow::default()
        };
        let sum = |f: fn(&(u64, u64)) -> u64| flows.iter().map(f).sum();
        Interval {
            flows: flows.iter().enumerate().map(flow).collect(),
            total: IntervalTotals {
                forward: ends(count(sum(|f| f.0), sum(|f| f.1))),
                ..IntervalTotals::default()
            },
            ..Interval::default()
        }
    }

    fn earlier(i: &Interval) -> (Vec<Option<i64>>, Option<i64>) {
        let flows = i.flows.iter().map(|f| f.receiver.as_ref().unwrap().earlier_lost_packets);
        let total = i.total.forward.as_ref().unwrap().receiver.as_ref().unwrap();
        (flows.collect(), total.earlier_lost_packets)
    }

    fn correct(lines: &mut LossLines, mut i: Interval) -> Interval {
        lines.correct(&mut i, |_| Direction::Forward, None);
        i
    }

    #[test]
    fn lines_and_corrections_add_up_to_what_is_lost() {
        let mut lines = LossLines::default();
        let mut sum = 0;
        // An outage of two intervals; one datagram of them arrives after all.
        for (before, lost, expected) in
            [(0, 70, None), (70, 0, None), (70, 0, None), (769, 3, Some(699)), (771, 0, Some(-1))]
        {
            let line = correct(&mut lines, interval(&[(before, lost)]));
            assert_eq!(earlier(&line), (vec![expected], expected));
            assert_eq!(line.flows[0].receiver.as_ref().unwrap().lost_before_packets, None);
            sum += lost as i64 + expected.unwrap_or(0);
        }
        assert_eq!(sum, 771);
        let final_counts: Vec<_> = [70, 350, 348, 3, 2].map(|lost| interval(&[(0, lost)])).into();
        let mut last = interval(&[(0, 5)]);
        lines.finish(&mut last, &final_counts);
        assert_eq!(earlier(&last), (vec![Some(773 - 771)], Some(773 - 771)));
    }

    #[test]
    fn a_record_without_losses_corrects_none() {
        let mut lines = LossLines::default();
        correct(&mut lines, interval(&[(0, 7)]));
        let without = || {
            let mut i = interval(&[(0, 0)]);
            let total = i.total.forward.as_mut().unwrap().receiver.as_mut().unwrap();
            (total.lost_packets, total.lost_before_packets) = (None, None);
            i.flows[0].receiver = Some(total.clone());
            i
        };
        let mut last = without();
        lines.finish(&mut last, &[without()]);
        assert_eq!(earlier(&last), (vec![None], None));
    }

    #[test]
    fn a_line_without_a_flow_leaves_its_losses_to_the_next() {
        let mut lines = LossLines::default();
        correct(&mut lines, interval(&[(0, 5), (0, 1)]));
        correct(&mut lines, interval(&[(5, 2)]));
        let line = correct(&mut lines, interval(&[(7, 0), (9, 4)]));
        assert_eq!(earlier(&line), (vec![None, Some(8)], Some(8)));
    }

    #[test]
    fn the_omitted_start_is_accounted_for_separately() {
        let mut lines = LossLines::default();
        correct(&mut lines, Interval { omitted: true, ..interval(&[(0, 50)]) });
        let line = correct(&mut lines, interval(&[(0, 1)]));
        assert_eq!(earlier(&line), (vec![None], None));
    }

    #[test]
    fn totals_of_flows_and_sums_of_the_same_flows_are_compared() {
        let mut lines = LossLines::default();
        let mut sum = 0;
        for (is_sum, flows, expected) in [
            (false, [(0, 30), (0, 10)], None),
            (true, [(30, 36), (10, 10)], None),
            (false, [(67, 40), (20, 5)], Some(1)),
            (true, [(107, 3), (25, 1)], None),
            (true, [(110, 3), (28, 1)], Some(2)),
            (false, [(113, 0), (29, 1)], None),
        ] {
            let mut i = interval(&flows);
            if is_sum {
                i.flows.clear();
            }
            lines.correct(&mut i, |_| Direction::Forward, is_sum.then_some(2));
            assert_eq!(earlier(&i).1, expected);
            sum += flows.iter().map(|f| f.1 as i64).sum::<i64>() + expected.unwrap_or(0);
        }
        assert_eq!(sum, 143);
        let mut last = interval(&[(0, 0), (0, 0)]);
        lines.finish(&mut last, &[interval(&[(0, 113), (0, 30)])]);
        assert_eq!(earlier(&last).1, None);
    }

    #[test]
    fn sums_of_the_same_flows_are_compared() {
        let mut lines = LossLines::default();
        let mut sum = |before, lost, of| {
            let mut i = interval(&[]);
            i.total.forward = ends(count(before, lost));
            lines.correct(&mut i, |_| Direction::Forward, Some(of));
            earlier(&i).1
        };
        assert_eq!(
            [sum(0, 10, 5), sum(30, 1, 5), sum(12, 0, 2), sum(12, 1, 2)],
            [None, Some(20), None, None]
        );
    }
}
