//! Live figures: what a server tells of each interval while a test runs.
//!
//! An interval is told when every flow has counted it, or a little later without the stragglers, which follow when they
//! have. Of many slow flows only the sum is told, and says of how many it is.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use weir_flow::IntervalClock;
use weir_model::record::IntervalCount;
use weir_wire::control::ServerMessage;

/// Live figures of an interval go out this long after its end, when what arrived in it has been read.
const GRACE_NS: u64 = 60_000_000;
/// Flows that have not counted an interval are looked at again after this time.
const RETRY_NS: u64 = 30_000_000;
/// Then they are waited for no longer, and what there is goes out.
const PATIENCE_NS: u64 = 250_000_000;
/// Those that have not counted it by now are in the report alone.
const LAST_NS: u64 = 10_000_000_000;
/// Intervals of which something is owed.
const MOST_OWED: usize = 64;
/// Live figures may take this share of the measured rate (design: 1 %).
const BUDGET: f64 = 0.01;
/// What was saved of it pays for small messages in intervals in which little or nothing came: a receiver that counts
/// nothing is to be heard all the same. So much is there at the start, and so much is saved at most.
const SAVED: f64 = 4096.0;
/// Messages up to this size are small.
const SMALL: f64 = 1024.0;

/// One flow's count, and whether it is a sender's.
pub(super) type Count = (bool, u32, IntervalCount);

/// An interval of which something has not been told.
#[derive(Debug)]
struct Owed {
    index: usize,
    end_ns: u64,
    told: HashSet<u32>,
    /// The sum was told, of so many flows.
    summed: Option<u32>,
    /// What there was went out without the stragglers.
    begun: bool,
}

/// What has been told, and when there is more to tell.
#[derive(Debug)]
pub(super) struct Live {
    intervals: Option<IntervalClock>,
    next: usize,
    owed: VecDeque<Owed>,
    saved: f64,
    /// When to look again.
    pub(super) at: Option<Instant>,
}

impl Live {
    /// Nothing is to be told.
    pub(super) fn none() -> Live {
        Live { intervals: None, next: 0, owed: VecDeque::new(), saved: SAVED, at: None }
    }

    /// The intervals begin.
    pub(super) fn start(&mut self, intervals: IntervalClock, now_ns: u64) {
        self.intervals = Some(intervals);
        self.schedule(now_ns);
    }

    fn schedule(&mut self, now_ns: u64) {
        let next =
            self.intervals.and_then(|c| c.end_ns(self.next)).map(|e| e.saturating_add(GRACE_NS));
        let again = (!self.owed.is_empty()).then(|| now_ns + RETRY_NS);
        self.at = next
            .into_iter()
            .chain(again)
            .min()
            .map(|at| Instant::now() + Duration::from_nanos(at.saturating_sub(now_ns)));
    }

    /// What is to be told at `now_ns`. `receivers`: how many flows this end receives. `count` gives all flows' counts of
    /// an interval, those left out that have not closed it.
    pub(super) fn due(
        &mut self,
        now_ns: u64,
        receivers: u32,
        count: impl Fn(usize) -> Vec<Count>,
    ) -> Vec<ServerMessage> {
        while let Some(end_ns) = self.intervals.and_then(|c| c.end_ns(self.next))
            && end_ns.saturating_add(GRACE_NS) <= now_ns
        {
            let (told, summed) = (HashSet::new(), None);
            self.owed.push_back(Owed { index: self.next, end_ns, told, summed, begun: false });
            self.next += 1;
            if self.owed.len() > MOST_OWED {
                self.owed.pop_front();
            }
        }
        let mut out = vec![];
        for mut owed in std::mem::take(&mut self.owed) {
            let counts = count(owed.index);
            let counted = counts.iter().filter(|(sends, ..)| !sends).count() as u32;
            let late_ns = now_ns - owed.end_ns;
            let is_whole = counted >= receivers;
            let is_last = is_whole || late_ns >= LAST_NS;
            if is_last || (!owed.begun && late_ns >= PATIENCE_NS) {
                owed.begun = true;
                out.extend(self.message(&mut owed, counts));
            }
            if !is_last {
                self.owed.push_back(owed);
            }
        }
        self.schedule(now_ns);
        out
    }

    /// What has not been told of an interval, if the budget allows it.
    fn message(&mut self, owed: &mut Owed, counts: Vec<Count>) -> Option<ServerMessage> {
        let interval = owed.index as u32;
        let fresh = || counts.iter().filter(|(_, id, _)| !owed.told.contains(id));
        let bytes = fresh().map(|(.., c)| c.bytes).fold(0, u64::saturating_add);
        let budget = BUDGET * bytes as f64;
        let flows: Vec<_> = fresh().map(|(_, id, c)| (*id, c.clone())).collect();
        let received: Vec<_> = counts.iter().filter(|(sends, ..)| !sends).collect();
        let of = received.len() as u32;
        if flows.is_empty() {
            return None;
        }
        let mut message =
            owed.summed.is_none().then_some(ServerMessage::Live { interval, flows, of: 0 });
        let size = |m: &ServerMessage| weir_wire::control::encode(m).len() as f64;
        let fits = |size: f64| size <= budget || (size <= SMALL && size <= self.saved);
        if let Some(whole) = &message
            && fits(size(whole))
        {
            owed.told.extend(counts.iter().map(|(_, id, _)| *id));
        } else {
            // Many slow flows: their sum is had for little.
            let sum = weir_flow::assemble::sum(received.iter().map(|(.., c)| c));
            message = sum
                .filter(|_| owed.summed.is_none_or(|told| told < of))
                .map(|sum| ServerMessage::Live { interval, flows: vec![(0, sum)], of })
                .filter(|m| fits(size(m)));
            if message.is_some() {
                owed.summed = Some(of);
            }
        }
        let spent = message.as_ref().map_or(0.0, size);
        self.saved = (self.saved + budget - spent).clamp(0.0, SAVED);
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const GRACE: u64 = GRACE_NS;

    fn live() -> Live {
        let mut live = Live::none();
        live.start(IntervalClock { start_ns: 0, interval_ns: SECOND, omit_ns: 0 }, 0);
        live
    }

    fn received(ids: std::ops::Range<u32>, bytes: u64) -> Vec<Count> {
        ids.map(|id| (false, id, IntervalCount { bytes, packets: 1, ..Default::default() }))
            .collect()
    }

    /// Interval, flows, and of how many a sum is.
    fn told(messages: Vec<ServerMessage>) -> Vec<(u32, Vec<u32>, u32)> {
        let told = messages.into_iter().map(|m| match m {
            ServerMessage::Live { interval, flows, of } => {
                (interval, flows.iter().map(|(id, _)| *id).collect(), of)
            }
            other => panic!("{other:?}"),
        });
        told.collect()
    }

    #[tokio::test]
    async fn stragglers_are_waited_for_and_follow_when_they_have_counted() {
        let mut live = live();
        let half = |_| received(1..3, 1 << 20);
        assert!(live.due(SECOND, 4, |_| unreachable!()).is_empty(), "not before the grace is over");
        assert!(live.due(SECOND + GRACE, 4, half).is_empty());
        let at = SECOND + PATIENCE_NS;
        assert_eq!(told(live.due(at, 4, half)), [(0, vec![1, 2], 0)]);
        assert!(live.due(at + RETRY_NS, 4, half).is_empty(), "nothing new");
        let all = |_| received(1..5, 1 << 20);
        assert_eq!(told(live.due(at + 2 * RETRY_NS, 4, all)), [(0, vec![3, 4], 0)]);
        assert!(live.owed.is_empty());
    }

    #[tokio::test]
    async fn who_never_counts_is_given_up() {
        let mut live = live();
        let half = |index| if index == 0 { received(1..3, 1 << 20) } else { vec![] };
        let mut messages = vec![];
        for at in (0..13 * SECOND).step_by(100_000_000) {
            messages.extend(live.due(at, 4, half));
        }
        assert_eq!(told(messages), [(0, vec![1, 2], 0)]);
        assert!(live.owed.iter().all(|o| o.index > 0) && live.owed.len() < 12, "{live:?}");
    }

    #[tokio::test]
    async fn a_sum_says_of_how_many_flows_it_is_and_is_told_anew_when_it_is_whole() {
        let mut live = live();
        let most = |_| received(1..400, 1000);
        let at = SECOND + PATIENCE_NS;
        assert_eq!(told(live.due(at, 500, most)), [(0, vec![0], 399)]);
        let all = |_| received(1..501, 1000);
        assert_eq!(told(live.due(at + RETRY_NS, 500, all)), [(0, vec![0], 500)]);
    }

    #[tokio::test]
    async fn a_second_in_which_nothing_came_is_told_until_the_savings_are_spent() {
        let mut live = live();
        let none = |_| received(1..2, 0);
        let mut count = 0;
        for second in 1..200 {
            count += live.due(second * SECOND + GRACE, 1, none).len();
        }
        assert!((10..100).contains(&count), "{count}");
        // What was saved while much came is there when nothing does.
        let much = |_| received(1..2, 1 << 30);
        for second in [200, 201] {
            assert!(!live.due(second * SECOND + GRACE, 1, much).is_empty());
        }
        assert!(!live.due(202 * SECOND + GRACE, 1, none).is_empty());
    }
}
