//! A copy of a direction's counters, taken between two batches of packets, from which another thread makes the
//! report.

use std::collections::HashMap;
use std::sync::Arc;

use weir_impair::Peaks;
use weir_model::impairment::{Counters, Impairment, Laws, OTHER};
use weir_model::plan::Direction;

use crate::fidelity::{Observed, judge};
use crate::lateness::{Delays, Timing, seconds};
use crate::report::{
    AskedFigures, CurrentReport, DirectionReport, FlowReport, LinkReport, PeriodReason, Realised,
    TimelineReport, TriggerReport,
};

/// A flow of a direction.
#[derive(Debug)]
pub(crate) struct FlowSnapshot {
    pub(crate) name: String,
    pub(crate) hop: u8,
    pub(crate) active: bool,
    pub(crate) counters: Counters,
    pub(crate) timing: Timing,
    /// Whether its verdicts go to the packet trace; absent without one.
    pub(crate) traced: Option<bool>,
    pub(crate) period: Period,
    /// Its largest values since the emulator's start, and in the period.
    pub(crate) peaks: [Peaks; 2],
    pub(crate) trigger: Option<TriggerReport>,
}

/// Frames exempt from the laws.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExemptSnapshot {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) unplanned_packets: u64,
}

/// The current period of a flow's figures: when and why it started, and the counters then.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Period {
    /// `None`: with the emulator.
    pub(crate) start_ns: Option<u64>,
    pub(crate) reason: PeriodReason,
    pub(crate) base: Counters,
    pub(crate) delays: Delays,
}

impl Period {
    /// The figures of the period; `counters` are those since the emulator's start, and `link_dropped_packets` those lost in its links.
    fn report(
        &self,
        counters: &Counters,
        peaks: &Peaks,
        laws: &Laws,
        link_dropped_packets: u64,
        late_limit_ns: u64,
        [started_ns, now_ns]: [u64; 2],
    ) -> CurrentReport {
        let start_ns = self.start_ns.unwrap_or(started_ns);
        let queued_packets = [self.base, *counters].map(|at| at.queued_packets());
        let counters = counters.since(&self.base);
        let mut realised = Realised::of(&counters);
        realised.set_peaks(peaks);
        self.delays.realised(&mut realised);
        let (delays, seconds) = (&self.delays, seconds(now_ns.saturating_sub(start_ns)));
        let observed = Observed {
            counters: &counters,
            delays,
            queued_packets,
            link_dropped_packets,
            late_limit_ns,
            seconds,
        };
        CurrentReport {
            start_seconds: crate::lateness::seconds(start_ns.saturating_sub(started_ns)),
            seconds,
            reason: self.reason,
            counters,
            realised,
            fidelity: judge(laws, &observed),
        }
    }
}

#[cfg(target_os = "linux")]
impl FlowSnapshot {
    /// Adds the packets that another worker judged.
    fn merge(&mut self, other: FlowSnapshot) {
        self.counters = self.counters.plus(&other.counters);
        self.timing.merge(&other.timing);
        self.period.base = self.period.base.plus(&other.period.base);
        self.period.delays.merge(&other.period.delays);
        self.peaks = [0, 1].map(|i| self.peaks[i].max(other.peaks[i]));
        // The trigger that has seen packets is that of the owner.
        if other.counters.received_packets > 0 {
            self.trigger = other.trigger.or(self.trigger.take());
        }
    }
}

/// A direction.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) direction: Direction,
    /// In force.
    pub(crate) config: Arc<Impairment>,
    /// By number, Other first.
    pub(crate) flows: Vec<FlowSnapshot>,
    pub(crate) held_packets: u64,
    /// Packets and bytes that came in, and that have left, exempt frames excluded.
    pub(crate) received: (u64, u64),
    pub(crate) sent: (u64, u64),
    pub(crate) late_packets: u64,
    /// Lateness from which a packet counts as late in a verdict.
    pub(crate) late_limit_ns: u64,
    pub(crate) link: LinkReport,
    pub(crate) exempt: ExemptSnapshot,
    pub(crate) timeline: Option<TimelineReport>,
    /// When the emulator started, and when this was copied.
    pub(crate) times_ns: [u64; 2],
}

/// The laws of each running flow, by name: its own, and the shared rate and delay.
fn asked(config: &Impairment, direction: Direction) -> HashMap<&str, Laws> {
    let mut asked: HashMap<&str, Laws> = config
        .flows
        .iter()
        .filter(|flow| flow.run.0)
        .map(|flow| (flow.name.as_str(), flow.laws(direction)))
        .collect();
    for aggregate in &config.aggregates {
        let shared = match direction {
            Direction::Forward => &aggregate.a_to_b,
            Direction::Reverse => &aggregate.b_to_a,
        };
        for name in &aggregate.flows {
            // A stopped flow has none.
            if let Some(laws) = asked.get_mut(name.as_str()) {
                *laws = laws.over(shared);
            }
        }
    }
    asked.insert(OTHER, config.other.laws(direction));
    asked
}

impl Snapshot {
    #[cfg(target_os = "linux")]
    /// Adds the snapshot of another worker of the same direction.
    pub(crate) fn merge(mut self, other: Snapshot) -> Snapshot {
        let mut more = other.flows.into_iter();
        for (flow, other) in self.flows.iter_mut().zip(more.by_ref()) {
            flow.merge(other);
        }
        // Those of a configuration that only the other one has yet.
        self.flows.extend(more);
        self.held_packets += other.held_packets;
        self.received.0 += other.received.0;
        self.received.1 += other.received.1;
        self.sent.0 += other.sent.0;
        self.sent.1 += other.sent.1;
        self.late_packets += other.late_packets;
        self.link.add(&other.link);
        self.exempt.packets += other.exempt.packets;
        self.exempt.bytes += other.exempt.bytes;
        self.exempt.unplanned_packets += other.exempt.unplanned_packets;
        self
    }

    pub(crate) fn report(self) -> DirectionReport {
        let Snapshot {
            direction,
            config,
            held_packets,
            received,
            sent,
            late_packets,
            late_limit_ns,
            link,
            exempt,
            timeline,
            times_ns,
            ..
        } = self;
        let asked = asked(&config, direction);
        let flows: Vec<FlowReport> = self
            .flows
            .into_iter()
            .map(|flow| {
                let mut realised = Realised::of(&flow.counters);
                realised.set_peaks(&flow.peaks[0]);
                let mut delays = flow.timing.earlier;
                delays.merge(&flow.period.delays);
                delays.realised(&mut realised);
                let none = Laws::default();
                let asked = asked.get(flow.name.as_str()).unwrap_or(&none);
                let link_dropped = link.unplanned_packets();
                let [_, peaks] = &flow.peaks;
                FlowReport {
                    direction,
                    current: flow.period.report(
                        &flow.counters,
                        peaks,
                        asked,
                        link_dropped,
                        late_limit_ns,
                        times_ns,
                    ),
                    hop: flow.hop,
                    active: flow.active,
                    counters: flow.counters,
                    asked: asked.brief(),
                    asked_figures: AskedFigures::of(asked),
                    realised,
                    lateness: flow.timing.lateness(),
                    traced: flow.traced,
                    trigger: flow.trigger,
                    name: flow.name,
                }
            })
            .collect();
        let unplanned = flows.iter().map(|flow| flow.counters.unplanned_dropped_packets);
        DirectionReport {
            direction,
            received_packets: received.0,
            received_bytes: received.1,
            sent_packets: sent.0.saturating_sub(link.driver_dropped_packets),
            sent_bytes: sent.1,
            unplanned_dropped_packets: unplanned.sum::<u64>()
                + exempt.unplanned_packets
                + link.unplanned_packets(),
            exempt_packets: exempt.packets,
            exempt_bytes: exempt.bytes,
            held_packets,
            late_packets,
            link,
            timeline,
            flows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_a_member_of_an_aggregate_is_what_it_shares_too() {
        let text = r#"
            schema = "weir.impair/1"
            [[flow]]
            name = "a"
            a_to_b = { loss = { percentage = 1 } }
            b_to_a = { rate = { bits = "3M" } }
            [[flow]]
            name = "b"
            run = false
            [[flow]]
            name = "c"
            [[aggregate]]
            flows = ["a", "b"]
            a_to_b = { rate = { bits = "1M" }, delay = { constant = "5ms" } }
        "#;
        let config = Impairment::parse(text).unwrap();
        let there = asked(&config, Direction::Forward);
        assert_eq!(there["a"].to_string(), "loss 1%, rate 1M, delay 5ms");
        assert!(!there.contains_key("b") && there["c"].is_empty() && there[OTHER].is_empty());
        assert_eq!(asked(&config, Direction::Reverse)["a"].to_string(), "rate 3M");
        let figures = AskedFigures::of(&there["a"]);
        assert!((figures.loss_ratio.unwrap() - 0.01).abs() < 1e-12);
        assert_eq!(figures.bits_per_second, Some(1_000_000));
        assert_eq!(figures.delay_mean_seconds, Some(0.005));
        assert_eq!(figures.delay_deviation_seconds, Some(0.0));
        assert_eq!(AskedFigures::of(&there["c"]), AskedFigures::default());
    }
}
