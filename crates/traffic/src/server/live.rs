//! Live figures: a server's reports of intervals while a test runs.
//!
//! An interval is reported when every flow has counted it, or a little later without the stragglers, which follow
//! once they have counted it. Of many slow flows only the sum is reported, with the number of flows. Figures beyond
//! the control budget ([`weir_flow::budget`]) are left to the final report.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use weir_flow::IntervalClock;
use weir_flow::budget::ControlBudget;
use weir_model::plan::TransportName;
use weir_model::record::IntervalCount;
use weir_wire::control::{LiveCount, ServerMessage};

/// Delay of live figures after the end of an interval, so that everything that arrived in it has been read.
const GRACE_NS: u64 = 60_000_000;
/// Delay before flows that have not counted an interval are checked again.
const RETRY_NS: u64 = 30_000_000;
/// Maximum wait for stragglers, after which the available figures are sent.
const PATIENCE_NS: u64 = 250_000_000;
/// Flows that have not counted an interval by now are in the final report only.
const LAST_NS: u64 = 10_000_000_000;
/// Maximum number of intervals with figures still to send.
const MAX_OWED: usize = 64;
/// Whether a count is a sender's, its flow's transport and number, and the count.
pub(super) type Count = (bool, TransportName, u32, IntervalCount);

/// An interval that has not been reported completely.
#[derive(Debug)]
struct Owed {
    index: usize,
    end_ns: u64,
    reported: HashSet<u32>,
    /// The sum was reported, of this number of flows.
    summed: Option<u32>,
    /// The available figures were sent without the stragglers.
    begun: bool,
    /// Credit that it has earned so far, bytes.
    earned: f64,
}

/// Reported intervals, and those still to report.
#[derive(Debug)]
pub(super) struct Live {
    intervals: Option<IntervalClock>,
    next: usize,
    owed: VecDeque<Owed>,
    budget: ControlBudget,
    /// Bytes of the control connection that have been charged.
    charged: u64,
    /// When to check again.
    pub(super) at: Option<Instant>,
}

impl Live {
    /// Without live figures.
    pub(super) fn none() -> Live {
        let budget = ControlBudget::default();
        Live { intervals: None, next: 0, owed: VecDeque::new(), budget, charged: 0, at: None }
    }

    /// Starts the intervals. `control_bytes`: what the control connection has carried so far, which is not charged.
    pub(super) fn start(
        &mut self,
        intervals: IntervalClock,
        budget: ControlBudget,
        control_bytes: u64,
        now_ns: u64,
    ) {
        self.intervals = Some(intervals);
        self.budget = budget;
        self.charged = control_bytes;
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

    /// Messages to send at `now_ns`. `receivers`: number of flows that this end receives. `control_bytes`: all bytes
    /// of the control connection, both directions. `count` returns the counts of an interval of all flows that have
    /// closed it.
    pub(super) fn due(
        &mut self,
        now_ns: u64,
        receivers: u32,
        control_bytes: u64,
        count: impl Fn(usize) -> Vec<Count>,
    ) -> Vec<ServerMessage> {
        while let Some(end_ns) = self.intervals.and_then(|c| c.end_ns(self.next))
            && end_ns.saturating_add(GRACE_NS) <= now_ns
        {
            let (reported, summed) = (HashSet::new(), None);
            let index = self.next;
            self.owed.push_back(Owed {
                index,
                end_ns,
                reported,
                summed,
                begun: false,
                earned: 0.0,
            });
            self.next += 1;
            if self.owed.len() > MAX_OWED {
                self.owed.pop_front();
            }
        }
        // Messages made here are already charged, without the overhead of encryption and framing.
        self.budget.spend(control_bytes.saturating_sub(self.charged) as f64);
        self.charged = self.charged.max(control_bytes);
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

    /// The figures of an interval that are still to report, if the budget allows them.
    fn message(&mut self, owed: &mut Owed, counts: Vec<Count>) -> Option<ServerMessage> {
        let interval = owed.index as u32;
        let bytes = counts.iter().map(|(.., c)| c.bytes).fold(0, u64::saturating_add);
        let seconds = self.intervals.and_then(|c| c.seconds(owed.index)).unwrap_or(0.0);
        let earned = self.budget.allowed_bytes(seconds, bytes);
        self.budget.earn((earned - owed.earned).max(0.0), seconds);
        owed.earned = owed.earned.max(earned);
        let fresh = counts.iter().filter(|(.., id, _)| !owed.reported.contains(id));
        let flows: Vec<_> = fresh.map(|(.., id, c)| (*id, LiveCount::from(c))).collect();
        let received: Vec<_> = counts.iter().filter(|(sends, ..)| !sends).collect();
        let of = received.len() as u32;
        if flows.is_empty() {
            return None;
        }
        let mut message =
            owed.summed.is_none().then_some(ServerMessage::Live { interval, flows, of: 0 });
        let size = |m: &ServerMessage| weir_wire::control::encode(m).len();
        let budget = self.budget;
        let fits = |m: &ServerMessage| budget.allows(size(m) as f64);
        if message.as_ref().is_some_and(fits) {
            owed.reported.extend(counts.iter().map(|(.., id, _)| *id));
        } else {
            // Many slow flows: their sum costs little.
            let sum = weir_flow::assemble::sum(
                received.iter().map(|(_, transport, _, c)| (*transport, c)),
            );
            message = sum
                .filter(|_| owed.summed.is_none_or(|reported| reported < of))
                .map(|sum| vec![(0, LiveCount::from(&sum))])
                .map(|flows| ServerMessage::Live { interval, flows, of })
                .filter(fits);
            if message.is_some() {
                owed.summed = Some(of);
            }
        }
        let spent = message.as_ref().map_or(0, size);
        self.budget.spend(spent as f64);
        self.charged += spent as u64;
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::budget::StatedRate;
    use weir_model::plan::Plan;
    use weir_model::units::BitRate;

    const SECOND: u64 = 1_000_000_000;
    const GRACE: u64 = GRACE_NS;

    fn live() -> Live {
        live_of(None, SECOND)
    }

    fn live_of(stated_bits_per_second: Option<f64>, interval_ns: u64) -> Live {
        let mut live = Live::none();
        let intervals = IntervalClock { start_ns: 0, interval_ns, omit_ns: 0 };
        let nominal = stated_bits_per_second.map(|rate| BitRate(rate as u64));
        let plan = Plan { nominal, ..Plan::default() };
        let budget = ControlBudget::new(&StatedRate::of(&plan, &[]));
        live.start(intervals, budget, 0, 0);
        live
    }

    fn received(ids: std::ops::Range<u32>, bytes: u64) -> Vec<Count> {
        ids.map(|id| {
            (
                false,
                TransportName::Udp,
                id,
                IntervalCount { bytes, packets: 1, ..Default::default() },
            )
        })
        .collect()
    }

    /// Interval, flows, and the number of flows in a sum.
    fn reported(messages: Vec<ServerMessage>) -> Vec<(u32, Vec<u32>, u32)> {
        let reported = messages.into_iter().map(|m| match m {
            ServerMessage::Live { interval, flows, of } => {
                (interval, flows.iter().map(|(id, _)| *id).collect(), of)
            }
            other => panic!("{other:?}"),
        });
        reported.collect()
    }

    #[tokio::test]
    async fn stragglers_are_waited_for_and_follow_when_they_have_counted() {
        let mut live = live();
        let half = |_| received(1..3, 1 << 20);
        assert!(
            live.due(SECOND, 4, 0, |_| unreachable!()).is_empty(),
            "not before the grace is over"
        );
        assert!(live.due(SECOND + GRACE, 4, 0, half).is_empty());
        let at = SECOND + PATIENCE_NS;
        assert_eq!(reported(live.due(at, 4, 0, half)), [(0, vec![1, 2], 0)]);
        assert!(live.due(at + RETRY_NS, 4, 0, half).is_empty(), "nothing new");
        let all = |_| received(1..5, 1 << 20);
        assert_eq!(reported(live.due(at + 2 * RETRY_NS, 4, 0, all)), [(0, vec![3, 4], 0)]);
        assert!(live.owed.is_empty());
    }

    #[tokio::test]
    async fn a_flow_that_never_counts_is_given_up() {
        let mut live = live();
        let half = |index| if index == 0 { received(1..3, 1 << 20) } else { vec![] };
        let mut messages = vec![];
        for at in (0..13 * SECOND).step_by(100_000_000) {
            messages.extend(live.due(at, 4, 0, half));
        }
        assert_eq!(reported(messages), [(0, vec![1, 2], 0)]);
        assert!(live.owed.iter().all(|o| o.index > 0) && live.owed.len() < 12, "{live:?}");
    }

    #[tokio::test]
    async fn a_sum_states_its_number_of_flows_and_is_repeated_when_complete() {
        let mut live = live();
        let most = |_| received(1..400, 1000);
        let at = SECOND + PATIENCE_NS;
        assert_eq!(reported(live.due(at, 500, 0, most)), [(0, vec![0], 399)]);
        let all = |_| received(1..501, 1000);
        assert_eq!(reported(live.due(at + RETRY_NS, 500, 0, all)), [(0, vec![0], 500)]);
    }

    /// Runs intervals of `interval_ns` in which one flow receives `bytes`. Returns the number of reported intervals
    /// and the bytes of all messages.
    fn played(mut live: Live, interval_ns: u64, intervals: u64, bytes: u64) -> (usize, u64) {
        let count = |_| {
            let count = IntervalCount {
                bytes,
                packets: bytes / 172,
                lost_packets: Some(0),
                duplicate_packets: Some(0),
                reordered_packets: Some(0),
                jitter_seconds: Some(2.123_456_789e-5),
                mean_delay_seconds: Some(1.234_567_89e-5),
                ..Default::default()
            };
            vec![(false, TransportName::Udp, 1, count)]
        };
        let (mut reported, mut control_bytes) = (0, 0);
        for n in 1..=intervals {
            for message in live.due(n * interval_ns + GRACE, 1, control_bytes, count) {
                // As framed.
                control_bytes += weir_wire::control::encode(&message).len() as u64 + 4;
                reported += 1;
            }
        }
        (reported, control_bytes)
    }

    #[tokio::test]
    async fn a_voice_flow_is_reported_four_times_a_second_within_a_tenth_of_its_rate() {
        let quarter = SECOND / 4;
        let (reported, bytes) = played(live_of(Some(68_800.0), quarter), quarter, 400, 2150);
        assert_eq!(reported, 400);
        assert!(bytes as f64 * 8.0 / 100.0 <= 6880.0, "{bytes} bytes in 100 s");
    }

    #[tokio::test]
    async fn reports_stay_within_8_kbit_with_little_or_no_data() {
        for (interval_ns, bytes, least) in [(SECOND, 0, 300), (SECOND / 20, 10, 2000)] {
            let intervals = 300 * SECOND / interval_ns;
            let (reported, sent) =
                played(live_of(None, interval_ns), interval_ns, intervals, bytes);
            assert!(reported >= least, "{reported} of {intervals}");
            assert!(sent as f64 * 8.0 / 300.0 <= 8000.0 + 50.0, "{sent} bytes in 300 s");
        }
        // For a slow link with a stated rate, the bound is a tenth of that rate.
        let (reported, sent) = played(live_of(Some(2000.0), SECOND), SECOND, 300, 250);
        assert!(
            (20..300).contains(&reported) && sent as f64 * 8.0 / 300.0 <= 200.0,
            "{reported}: {sent}"
        );
    }

    #[tokio::test]
    async fn other_messages_of_the_connection_are_charged() {
        let mut live = live();
        let none = |_| received(1..2, 0);
        let reported = |live: &mut Live, second: u64, control_bytes| {
            live.due(second * SECOND + GRACE, 1, control_bytes, none).len()
        };
        assert_eq!(reported(&mut live, 1, 0), 1);
        assert_eq!(
            reported(&mut live, 2, 1_000_000),
            0,
            "the connection carried more than its part"
        );
        assert_eq!(reported(&mut live, 3, 1_000_000), 1, "the debt is paid");
    }
}
