//! Figures over time of what runs, for clients that come later than its samples.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use weir_emulator::Report;
use weir_model::record::{Interval, IntervalCount};

use crate::types::{
    EmulatorCounts, EmulatorFlowCounts, FlowSumSoFar, SumSoFar, SumsSoFar, TestHistory,
};

/// Memory of one history; the oldest figures are dropped.
const MAX_BYTES: usize = 8 << 20;
/// Minimum time between two reports of an emulator's history, s.
const STEP_SECONDS: f64 = 0.5;

/// Figures as JSON, written once for the stream and the history.
#[derive(Debug, Clone)]
pub(crate) struct Written(Arc<RawValue>);

impl Written {
    pub(crate) fn of<T: Serialize>(figures: &T) -> Option<Written> {
        let text = serde_json::to_string(figures).ok()?;
        RawValue::from_string(text).ok().map(|raw| Written(raw.into()))
    }
}

impl Serialize for Written {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The newest figures of one object with their times, s.
#[derive(Debug, Default)]
struct Ring {
    entries: VecDeque<(f64, Written)>,
    bytes: usize,
}

impl Ring {
    fn push(&mut self, at_seconds: f64, figures: Written) {
        self.bytes += figures.0.get().len();
        self.entries.push_back((at_seconds, figures));
        while self.bytes > MAX_BYTES
            && let Some((_, oldest)) = self.entries.pop_front()
        {
            self.bytes -= oldest.0.get().len();
        }
    }

    fn after(&self, seconds: f64) -> Vec<Written> {
        let from = self.entries.partition_point(|(at, _)| *at <= seconds);
        self.entries.range(from..).map(|(_, figures)| figures.clone()).collect()
    }

    fn newest(&self) -> Option<f64> {
        self.entries.back().map(|(at, _)| *at)
    }
}

/// The intervals of a running test, and the sums of all of them.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    ring: Ring,
    end_seconds: f64,
    flows: BTreeMap<u32, SumSoFar>,
    directions: [Option<SumSoFar>; 2],
    is_counted: bool,
}

impl Intervals {
    pub(crate) fn push(&mut self, interval: &Interval, written: Written) {
        self.ring.push(interval.end_seconds, written);
        self.end_seconds = interval.end_seconds;
        // Those of the omitted start count until the first other one.
        if !interval.omitted && !self.is_counted {
            self.is_counted = true;
            self.flows.clear();
            self.directions = [None, None];
        }
        let seconds = interval.end_seconds - interval.start_seconds;
        for flow in &interval.flows {
            let sum = self.flows.entry(flow.id).or_default();
            add(sum, seconds, flow.sender.as_ref(), flow.receiver.as_ref());
        }
        let totals = [&interval.total.forward, &interval.total.reverse];
        for (sum, ends) in self.directions.iter_mut().zip(totals) {
            if let Some(ends) = ends {
                let sum = sum.get_or_insert_default();
                add(sum, seconds, ends.sender.as_ref(), ends.receiver.as_ref());
            }
        }
    }

    /// The intervals that ended later than `seconds`.
    pub(crate) fn after(&self, seconds: f64) -> TestHistory {
        let [forward, reverse] = self.directions;
        TestHistory {
            intervals: self.ring.after(seconds),
            sums: SumsSoFar {
                end_seconds: self.end_seconds,
                flows: self.flows.iter().map(|(&id, &sum)| FlowSumSoFar { id, sum }).collect(),
                forward,
                reverse,
            },
        }
    }

    /// Drops the intervals: the record has them.
    pub(crate) fn clear(&mut self) {
        self.ring = Ring::default();
    }
}

fn add(
    sum: &mut SumSoFar,
    seconds: f64,
    sender: Option<&IntervalCount>,
    receiver: Option<&IntervalCount>,
) {
    if sender.is_none() && receiver.is_none() {
        return;
    }
    sum.sent_packets += sender.map_or(0, |count| count.packets);
    let Some(received) = receiver else {
        // The far end withheld its figures.
        sum.partial = true;
        return;
    };
    sum.seconds += seconds;
    // The rate covers the sending time only.
    let bits = received.bits_per_second.map(|rate| rate * seconds);
    sum.received_bits += bits.unwrap_or(received.bytes as f64 * 8.0);
    sum.received_bytes += received.bytes;
    sum.received_packets += received.packets;
    if let Some(lost) = received.lost_packets {
        let lost = lost as i64 + received.earlier_lost_packets.unwrap_or(0);
        sum.lost_packets = Some(sum.lost_packets.unwrap_or(0) + lost);
    }
}

/// The reports of a running emulator, reduced to what its curves need.
#[derive(Debug, Default)]
pub(crate) struct Reports(Ring);

impl Reports {
    pub(crate) fn push(&mut self, report: &Report) {
        let is_due = self.0.newest().is_none_or(|last| report.seconds - last >= STEP_SECONDS);
        if !is_due {
            return;
        }
        let flows = report.impairment.flows.iter().map(|flow| EmulatorFlowCounts {
            name: flow.name.clone(),
            direction: flow.direction,
            received_packets: flow.counters.received_packets,
            lost_packets: flow.counters.lost_packets,
            sent_packets: flow.counters.sent_packets,
            sent_bytes: flow.counters.sent_bytes,
            delay_mean_seconds: flow.realised.delay_mean_seconds,
        });
        let counts = EmulatorCounts { seconds: report.seconds, flows: flows.collect() };
        if let Some(written) = Written::of(&counts) {
            self.0.push(report.seconds, written);
        }
    }

    /// Those later than `seconds`.
    pub(crate) fn after(&self, seconds: f64) -> Vec<Written> {
        self.0.after(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn interval(end: f64, omitted: bool, receiver: Option<Value>) -> Interval {
        let ends = json!({
            "sender": { "bytes": 2000, "packets": 20 },
            "receiver": receiver,
        });
        let mut flow = ends.clone();
        flow["id"] = 1.into();
        let value = json!({
            "start_seconds": end - 1.0, "end_seconds": end, "omitted": omitted,
            "flows": [flow], "total": { "forward": ends },
        });
        weir_model::document::read(&value).unwrap()
    }

    fn push(history: &mut Intervals, interval: &Interval) {
        history.push(interval, Written::of(interval).unwrap());
    }

    #[test]
    fn sums_are_of_all_intervals_and_the_list_of_the_later_ones() {
        let mut history = Intervals::default();
        let received = |lost: u64, earlier: i64| {
            Some(json!({ "bytes": 1000, "packets": 10, "bits_per_second": 8000.0,
                "lost_packets": lost, "earlier_lost_packets": earlier }))
        };
        push(&mut history, &interval(1.0, true, received(10, 0)));
        push(&mut history, &interval(2.0, false, received(10, 0)));
        push(&mut history, &interval(3.0, false, received(5, -3)));
        push(&mut history, &interval(4.0, false, None));
        let answer = history.after(2.0);
        assert_eq!(answer.intervals.len(), 2);
        let first: Value = serde_json::to_value(&answer.intervals[0]).unwrap();
        assert_eq!(first["end_seconds"], 3.0);
        let sum = answer.sums.forward.unwrap();
        assert_eq!((sum.received_packets, sum.sent_packets), (20, 60), "without the omitted start");
        assert_eq!((sum.seconds, sum.received_bits), (2.0, 16_000.0));
        assert_eq!((sum.lost_packets, sum.partial), (Some(12), true));
        assert_eq!(answer.sums.flows[0].sum.received_packets, 20);
        assert_eq!(answer.sums.end_seconds, 4.0);
        assert!(answer.sums.reverse.is_none());
        history.clear();
        let left = history.after(0.0);
        assert!(left.intervals.is_empty() && left.sums.forward.is_some());
        assert_eq!(left.sums.end_seconds, 4.0);
    }

    #[test]
    fn the_oldest_figures_make_room() {
        let mut ring = Ring::default();
        let long = "x".repeat(1 << 20);
        for n in 0..20 {
            ring.push(f64::from(n), Written::of(&long).unwrap());
        }
        assert!(ring.bytes <= MAX_BYTES);
        assert_eq!(ring.entries.len(), 7, "with the quotation marks 7 of them fit");
        assert_eq!(ring.after(17.0).len(), 2);
        assert_eq!(ring.entries.front().map(|(at, _)| *at), Some(13.0));
    }
}
