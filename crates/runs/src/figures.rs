//! The figures of a run that two runs are compared by, and how they came out over its intervals.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use weir_model::experiment::{Metric, greatest};
use weir_model::plan::Direction;
use weir_model::record::{Delay, Interval, IntervalCount, Record};

/// Which way a figure is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "DiffBetter")]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither by itself.
    Neither,
}

/// Figures by name, in the order of [`figures`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures(pub(crate) Vec<(String, Better, f64)>);

impl Figures {
    fn add(&mut self, name: impl Into<String>, better: Better, value: Option<f64>) {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            self.0.push((name.into(), better, value));
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(other, ..)| other == name).map(|(.., value)| *value)
    }
}

/// The figures of a whole run. What was not measured is not among them.
pub(crate) fn figures(record: &Record) -> Figures {
    use Better::{Higher, Lower, Neither};
    let mut out = Figures::default();
    for direction in [Direction::Forward, Direction::Reverse] {
        let Some(total) = record.direction(direction) else { continue };
        let name = |figure: &str| format!("{direction}_{figure}");
        if let Some(r) = &total.receiver {
            let count = |n: Option<u64>| n.map(|n| n as f64);
            out.add(name("throughput_bits_per_second"), Higher, r.bits_per_second);
            // Reads of a stream say nothing of the path.
            if r.lost_packets.is_some() {
                out.add(name("packets_per_second"), Higher, r.packets_per_second);
            }
            // What an end that was lost did not tell may have been lost, or not.
            if record.is_loss_known(direction) {
                out.add(name("loss_ratio"), Lower, r.loss_ratio);
            }
            out.add(name("duplicate_packets"), Lower, count(r.duplicate_packets));
            out.add(name("reordered_packets"), Lower, count(r.reordered_packets));
            out.add(name("corrupted_packets"), Lower, count(r.corrupted_packets));
        }
        if let Some(s) = &total.sender {
            out.add(name("sent_bits_per_second"), Neither, s.bits_per_second);
            out.add(name("retransmits"), Lower, s.retransmits.map(|n| n as f64));
            out.add(name("missed_slots"), Lower, s.missed_slots.map(|n| n as f64));
        }
        add_of_flows(&mut out, record, direction);
    }
    if let Some(latency) = &record.latency {
        for (phase, delay) in [("idle", &latency.idle), ("loaded", &latency.loaded)] {
            let of = |get: fn(&Delay) -> Option<f64>| delay.as_ref().and_then(get);
            out.add(
                format!("{phase}_round_trip_mean_seconds"),
                Lower,
                of(|d| Some(d.mean_seconds)),
            );
            out.add(format!("{phase}_round_trip_p50_seconds"), Lower, of(|d| d.p50_seconds));
            out.add(format!("{phase}_round_trip_p99_seconds"), Lower, of(|d| d.p99_seconds));
        }
        out.add("responsiveness_per_minute", Higher, latency.responsiveness_per_minute);
    }
    if let Some(cpu) = &record.cpu {
        for (end, used) in [("local", &cpu.local), ("remote", &cpu.remote)] {
            let busy = used.as_ref().map(|u| u.user_ratio + u.system_ratio + u.irq_ratio);
            out.add(format!("{end}_cpu_ratio"), Lower, busy);
        }
    }
    out.add("link_usage_wire_ratio", Higher, record.link_usage.as_ref().map(|u| u.wire_ratio));
    out.add("warnings", Lower, Some(record.warnings.len() as f64));
    out
}

/// Figures that flows have and sums have not, of several flows as expectations have them ([`Metric`]): those of the worst.
fn add_of_flows(out: &mut Figures, record: &Record, direction: Direction) {
    use Better::Lower;
    let name = |figure: &str| format!("{direction}_{figure}");
    for (figure, metric) in [
        ("jitter_seconds", "jitter"),
        ("one_way_delay_min_seconds", "min one_way_delay"),
        ("one_way_delay_mean_seconds", "mean one_way_delay"),
        ("one_way_delay_p50_seconds", "p50 one_way_delay"),
        ("one_way_delay_p99_seconds", "p99 one_way_delay"),
        ("delay_variation_pdv_p99_seconds", "pdv_p99"),
    ] {
        let metric = format!("{metric} of {direction}").parse::<Metric>();
        out.add(name(figure), Lower, metric.ok().and_then(|m| m.of(record)));
    }
    let flows = record.flows.iter().filter(|f| f.direction == direction);
    let round_trips = flows.filter_map(|f| f.tcp.as_ref()).map(|t| t.rtt_seconds);
    out.add(name("tcp_rtt_seconds"), Lower, greatest(round_trips));
}

/// Figures over the intervals of a run, by the name that the figure of the whole run has. The omitted part is left out,
/// and so is what is shorter than half an interval at the end.
pub(crate) fn series(record: &Record) -> BTreeMap<String, Vec<f64>> {
    let length = |i: &Interval| i.end_seconds - i.start_seconds;
    let kept = record.intervals.iter().filter(|i| !i.omitted);
    let longest = kept.clone().map(length).fold(0.0, f64::max);
    let mut out: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for interval in kept.filter(|i| length(i) >= longest / 2.0) {
        let directions =
            [("forward", &interval.total.forward), ("reverse", &interval.total.reverse)];
        for (direction, ends) in directions {
            let Some(count) = ends.as_ref().and_then(|e| e.receiver.as_ref()) else { continue };
            let mut add = |figure: &str, value: Option<f64>| {
                if let Some(value) = value.filter(|v| v.is_finite()) {
                    out.entry(format!("{direction}_{figure}")).or_default().push(value);
                }
            };
            add("throughput_bits_per_second", count.bits_per_second);
            add("loss_ratio", loss(count));
            add("one_way_delay_mean_seconds", count.mean_delay_seconds);
        }
    }
    out
}

/// Lost ÷ sent of an interval.
fn loss(count: &IntervalCount) -> Option<f64> {
    let lost = count.lost_packets? as f64;
    let sent = lost + count.packets as f64;
    (sent > 0.0).then(|| lost / sent)
}
