//! Rows of intervals, made of the flows' counts.

use weir_flow::assemble::sum;
use weir_model::plan::Direction;
use weir_model::record::{
    Flow, Interval, IntervalCount, IntervalEnds, IntervalFlow, IntervalTotals,
};

/// Maximum number of rows of a result.
pub(crate) const MAX_ROWS: usize = 200_000;

/// A row. `counts` refer to `flows` by their number; a flow's rates are those that its count has. Sums are over the time of
/// the row; that of a single flow has its rates.
pub(crate) fn row(
    (start_seconds, end_seconds): (f64, f64),
    omitted: bool,
    counts: Vec<IntervalFlow>,
    flows: &[Flow],
) -> Interval {
    let flow_of = |count: &IntervalFlow| flows.get((count.id as usize).checked_sub(1)?);
    let total = |direction: Direction| {
        let of_direction: Vec<(&Flow, &IntervalFlow)> = counts
            .iter()
            .filter_map(|count| Some((flow_of(count)?, count)))
            .filter(|(flow, _)| flow.direction == direction)
            .collect();
        // A round trip alone adds nothing to a sum.
        let is_counted = |count: &&IntervalCount| {
            let alone =
                IntervalCount { rtt_seconds: count.rtt_seconds, ..IntervalCount::default() };
            count.rtt_seconds.is_none() || **count != alone
        };
        let end = |of: fn(&IntervalFlow) -> Option<&IntervalCount>| {
            let counts = of_direction
                .iter()
                .filter_map(|(flow, c)| Some((flow.transport, of(c).filter(is_counted)?)));
            let seconds = end_seconds - start_seconds;
            match counts.clone().collect::<Vec<_>>().as_slice() {
                [] => None,
                [(_, one)] => Some((*one).clone()),
                _ => sum(counts).map(|sum| over(sum, seconds)),
            }
        };
        let ends = IntervalEnds {
            sender: end(|c| c.sender.as_ref()),
            receiver: end(|c| c.receiver.as_ref()),
            ..IntervalEnds::default()
        };
        (ends != IntervalEnds::default()).then_some(ends)
    };
    let total =
        IntervalTotals { forward: total(Direction::Forward), reverse: total(Direction::Reverse) };
    Interval { start_seconds, end_seconds, omitted, flows: counts, total }
}

/// A count with its rates over a time.
pub(crate) fn over(mut count: IntervalCount, seconds: f64) -> IntervalCount {
    let rate = |amount: u64| (seconds > 0.0).then(|| amount as f64 / seconds);
    count.bits_per_second = rate(count.bytes).map(|bytes| 8.0 * bytes);
    count.packets_per_second = rate(count.packets).filter(|_| count.packets > 0);
    count.transactions_per_second = count.transactions.and_then(rate);
    count
}
