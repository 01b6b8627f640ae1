//! Figures of a record by name: what expectations compare and sweeps tabulate.
//!
//! A figure that the record does not hold is absent, never zero. Over several flows, rates and counts are sums, a loss
//! ratio is of all packets, and jitter and delay are those of the worst flow: the greatest, or for `min` the least. It is
//! absent as soon as one of the flows that could have it has not: a sum of some, or the worst of some, is another figure.
//! Packets are datagrams: reads and writes of a stream are none. Comparisons of runs and reports take their figures of
//! several flows from here.

use std::fmt;
use std::str::FromStr;

use super::Unit;
use crate::ModelError;
use crate::plan::{Direction, Transport};
use crate::record::{Delay, DirectionTotal, Flow, Latency, Record, Sums};

/// What a figure is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Whether it is a distribution, of which a statistic is asked (`p99`, `mean`).
    pub is_distribution: bool,
    /// What it is, in words.
    pub help: &'static str,
}

const fn figure(name: &'static str, unit: Unit, help: &'static str) -> Quantity {
    Quantity { name, unit, is_distribution: false, help }
}

const fn distribution(name: &'static str, help: &'static str) -> Quantity {
    Quantity { name, unit: Unit::Seconds, is_distribution: true, help }
}

/// All quantities.
pub const QUANTITIES: &[Quantity] = &[
    figure("throughput", Unit::BitsPerSecond, "payload rate at the receiver"),
    figure("sent_throughput", Unit::BitsPerSecond, "payload rate at the sender"),
    figure("packet_rate", Unit::PacketsPerSecond, "packets per second at the receiver"),
    figure("sent_packet_rate", Unit::PacketsPerSecond, "packets per second at the sender"),
    figure("bytes", Unit::Bytes, "payload that arrived"),
    figure("packets", Unit::Count, "packets that arrived"),
    figure("sent_packets", Unit::Count, "packets that were sent"),
    figure("loss", Unit::Ratio, "lost / sent (RFC 7680)"),
    figure(
        "lost_packets",
        Unit::Count,
        "packets that did not come within the loss threshold (RFC 7680)",
    ),
    figure("late_packets", Unit::Count, "packets that came after the loss threshold"),
    figure("duplicate_packets", Unit::Count, "further copies (RFC 5560)"),
    figure("reordered_packets", Unit::Count, "packets below the next expected number (RFC 4737)"),
    figure("corrupted_packets", Unit::Count, "packets with a bad tag, bit errors or truncation"),
    figure("retransmits", Unit::Count, "TCP segments retransmitted"),
    figure("missed_slots", Unit::Count, "slots that the paced sender skipped"),
    figure("jitter", Unit::Seconds, "interarrival jitter (RFC 3550)"),
    figure("pdv_p99", Unit::Seconds, "99th percentile of delay less least delay (RFC 5481)"),
    figure(
        "ipdv_p99",
        Unit::Seconds,
        "99th percentile of the difference of consecutive delays (RFC 5481)",
    ),
    distribution("one_way_delay", "one-way delay from the actual send time (RFC 7679)"),
    distribution("round_trip", "round trip of the flow"),
    distribution("idle_round_trip", "round trip before the load (RFC 2681)"),
    distribution("loaded_round_trip", "round trip under load (RFC 2681)"),
    figure("responsiveness", Unit::PerMinute, "60 s / mean loaded round trip"),
    figure("connect_time", Unit::Seconds, "from connect to established"),
    figure("payload_usage", Unit::Ratio, "payload rate / nominal rate of the link"),
    figure("ip_usage", Unit::Ratio, "rate with IP headers / nominal rate"),
    figure("ethernet_usage", Unit::Ratio, "rate with Ethernet headers / nominal rate"),
    figure("link_usage", Unit::Ratio, "rate on the wire, preamble and gap included / nominal rate"),
    figure("local_cpu", Unit::Ratio, "busy share of this side's processors"),
    figure("remote_cpu", Unit::Ratio, "busy share of the other side's processors"),
];

/// A statistic of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Statistic {
    Min,
    Mean,
    P50,
    P90,
    P99,
    P99_9,
    P99_99,
    P99_999,
    Max,
}

const STATISTICS: &[(&str, Statistic)] = &[
    ("min", Statistic::Min),
    ("mean", Statistic::Mean),
    ("median", Statistic::P50),
    ("p50", Statistic::P50),
    ("p90", Statistic::P90),
    ("p99", Statistic::P99),
    ("p99.9", Statistic::P99_9),
    ("p99.99", Statistic::P99_99),
    ("p99.999", Statistic::P99_999),
    ("max", Statistic::Max),
];

impl Statistic {
    /// Samples that a percentile needs: 10 / (1 − q).
    fn least_samples(self) -> Option<u64> {
        match self {
            Statistic::Min | Statistic::Mean | Statistic::Max => None,
            Statistic::P50 => Some(20),
            Statistic::P90 => Some(100),
            Statistic::P99 => Some(1000),
            Statistic::P99_9 => Some(10_000),
            Statistic::P99_99 => Some(100_000),
            Statistic::P99_999 => Some(1_000_000),
        }
    }

    fn of(self, delay: &Delay) -> Option<f64> {
        match self {
            Statistic::Min => Some(delay.min_seconds),
            Statistic::Mean => Some(delay.mean_seconds),
            Statistic::P50 => delay.p50_seconds,
            Statistic::P90 => delay.p90_seconds,
            Statistic::P99 => delay.p99_seconds,
            Statistic::P99_9 => delay.p99_9_seconds,
            Statistic::P99_99 => delay.p99_99_seconds,
            Statistic::P99_999 => delay.p99_999_seconds,
            Statistic::Max => Some(delay.max_seconds),
        }
    }
}

/// Of which flows.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    All,
    Direction(Direction),
    Flow(String),
}

/// One figure of a record: `[statistic] quantity [of forward|reverse|FLOW]`; with `sum` before it, of all tests of a parallel
/// step together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    quantity: &'static Quantity,
    statistic: Option<Statistic>,
    scope: Scope,
    is_sum: bool,
}

impl Metric {
    /// Whether it is a sum over the tests of a parallel step, whose records each hold a part ([`Metric::part`]).
    #[must_use]
    pub fn is_sum(&self) -> bool {
        self.is_sum
    }

    /// What a sum adds up: the figure of one test.
    #[must_use]
    pub fn part(&self) -> Metric {
        Metric { is_sum: false, ..self.clone() }
    }

    /// The sum of this figure over tests at the same time; absent where it does not add up: shares and times.
    #[must_use]
    pub fn summed(&self) -> Option<Metric> {
        let adds_up = matches!(
            self.quantity.unit,
            Unit::BitsPerSecond | Unit::PacketsPerSecond | Unit::Bytes | Unit::Count
        );
        adds_up.then(|| Metric { is_sum: true, ..self.clone() })
    }

    /// What it is of.
    #[must_use]
    pub fn quantity(&self) -> &'static Quantity {
        self.quantity
    }

    /// Its unit.
    #[must_use]
    pub fn unit(&self) -> Unit {
        self.quantity.unit
    }

    /// What its mean can't be below and can't be above: a share is 0 to 1, rates, counts and spans of time are not negative. Delays
    /// and their differences rest on clocks that are off by some error, and have no such end.
    #[must_use]
    pub fn range(&self) -> (f64, f64) {
        match self.quantity.unit {
            Unit::Ratio => (0.0, 1.0),
            Unit::Seconds if matches!(self.quantity.name, "one_way_delay" | "ipdv_p99") => {
                (f64::NEG_INFINITY, f64::INFINITY)
            }
            _ => (0.0, f64::INFINITY),
        }
    }

    /// Whether more of it is better, as with a rate; else less is, or neither.
    #[must_use]
    pub fn is_rate(&self) -> bool {
        matches!(self.quantity.unit, Unit::BitsPerSecond | Unit::PacketsPerSecond)
    }

    /// Whether a disturbance can only lower it, so that what was reached is proved: rates, and the volume that was carried. Nothing
    /// else says much of a path whose load was not the one asked for.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.is_rate()
            || matches!(self.quantity.name, "bytes" | "packets" | "sent_packets")
            || self.quantity.name.ends_with("_usage")
    }

    /// The figure, in its SI unit; absent when the record does not hold it.
    #[must_use]
    pub fn of(&self, record: &Record) -> Option<f64> {
        match self.quantity.name {
            "idle_round_trip" => return self.pick(record.latency.as_ref()?.idle.as_ref()?),
            "loaded_round_trip" => return self.pick(record.latency.as_ref()?.loaded.as_ref()?),
            "responsiveness" => return record.latency.as_ref()?.responsiveness_per_minute,
            "payload_usage" => return Some(record.link_usage.as_ref()?.payload_ratio),
            "ip_usage" => return Some(record.link_usage.as_ref()?.ip_ratio),
            "ethernet_usage" => return Some(record.link_usage.as_ref()?.ethernet_ratio),
            "link_usage" => return Some(record.link_usage.as_ref()?.wire_ratio),
            "local_cpu" | "remote_cpu" => {
                let cpu = record.cpu.as_ref()?;
                let local = self.quantity.name == "local_cpu";
                let end = if local { &cpu.local } else { &cpu.remote }.as_ref()?;
                return Some(end.user_ratio + end.system_ratio + end.irq_ratio);
            }
            _ => {}
        }
        if let Scope::Flow(name) = &self.scope {
            return self.of_flows(record.flows.iter().filter(|f| f.name == *name));
        }
        match self.of_totals(record) {
            Some(total) => total,
            None => self.of_flows(record.flows.iter().filter(|f| match self.scope {
                Scope::Direction(direction) => f.direction == direction,
                _ => true,
            })),
        }
    }

    /// Of the record's own sums, whose time is that of all flows; absent when the quantity is none of theirs.
    fn of_totals(&self, record: &Record) -> Option<Option<f64>> {
        let is_received = match self.quantity.name {
            "throughput" | "bytes" => true,
            "sent_throughput" | "missed_slots" => false,
            _ => return None,
        };
        let directions = || {
            let both = [Direction::Forward, Direction::Reverse].into_iter();
            both.filter(|d| !matches!(self.scope, Scope::Direction(only) if only != *d))
        };
        let is_whole =
            record.flows.iter().filter(|f| directions().any(|d| d == f.direction)).all(|f| {
                match is_received {
                    true => f.receiver.is_some(),
                    false => f.sender.is_some(),
                }
            });
        if !is_whole {
            return Some(None);
        }
        let totals: Vec<&DirectionTotal> =
            directions().filter_map(|d| record.direction(d)).collect();
        let received = |get: fn(&Sums) -> Option<f64>| {
            sum(totals.iter().map(|t| t.receiver.as_ref().and_then(get)))
        };
        let sent = |get: fn(&Sums) -> Option<f64>| {
            sum(totals.iter().map(|t| t.sender.as_ref().and_then(get)))
        };
        Some(match self.quantity.name {
            "throughput" => received(|s| s.bits_per_second),
            "bytes" => received(|s| Some(s.bytes as f64)),
            "sent_throughput" => sent(|s| s.bits_per_second),
            // Senders that do not pace have no slots.
            _ => totals
                .iter()
                .filter_map(|t| t.sender.as_ref()?.missed_slots)
                .map(|n| n as f64)
                .reduce(|a, b| a + b),
        })
    }

    /// The only transport whose flows have it; absent for those of both.
    #[must_use]
    pub fn transport(&self) -> Option<Transport> {
        match self.quantity.name {
            "packet_rate" | "sent_packet_rate" | "packets" | "sent_packets" | "loss"
            | "lost_packets" | "late_packets" | "duplicate_packets" | "reordered_packets"
            | "corrupted_packets" | "jitter" | "pdv_p99" | "ipdv_p99" | "one_way_delay" => {
                Some(Transport::Udp)
            }
            "retransmits" | "connect_time" => Some(Transport::Tcp),
            _ => None,
        }
    }

    fn of_flows<'a>(&self, flows: impl Iterator<Item = &'a Flow>) -> Option<f64> {
        let only = self.transport();
        let flows: Vec<&Flow> =
            flows.filter(|f| only.is_none_or(|only| f.transport == only)).collect();
        let each =
            |get: &dyn Fn(&Flow) -> Option<f64>| flows.iter().map(|f| get(f)).collect::<Vec<_>>();
        let total = |get: &dyn Fn(&Flow) -> Option<f64>| sum(each(get));
        let receiver = |get: fn(&crate::record::Receiver) -> Option<f64>| {
            total(&|f: &Flow| f.receiver.as_ref().and_then(get))
        };
        let sender = |get: fn(&crate::record::Sender) -> Option<f64>| {
            total(&|f: &Flow| f.sender.as_ref().and_then(get))
        };
        match self.quantity.name {
            "throughput" => receiver(|r| r.bits_per_second),
            "sent_throughput" => sender(|s| s.bits_per_second),
            "packet_rate" => receiver(|r| r.packets_per_second),
            "sent_packet_rate" => sender(|s| s.packets_per_second),
            "bytes" => receiver(|r| Some(r.bytes as f64)),
            "packets" => receiver(|r| Some(r.packets as f64)),
            "sent_packets" => sender(|s| Some(s.packets as f64)),
            // What an end that was lost did not tell may have been lost, or not.
            "lost_packets" | "loss" if flows.iter().any(|f| f.lost_an_end()) => None,
            "lost_packets" => receiver(|r| r.lost_packets.map(|n| n as f64)),
            "loss" => {
                let lost = receiver(|r| r.lost_packets.map(|n| n as f64))?;
                let sent = sender(|s| Some(s.packets as f64))?;
                (sent > 0.0).then(|| lost / sent)
            }
            "late_packets" => receiver(|r| r.late_packets.map(|n| n as f64)),
            "duplicate_packets" => receiver(|r| r.duplicate_packets.map(|n| n as f64)),
            "reordered_packets" => receiver(|r| r.reordered_packets.map(|n| n as f64)),
            "corrupted_packets" => receiver(|r| r.corrupted_packets.map(|n| n as f64)),
            "retransmits" => total(&|f| f.tcp.as_ref().map(|t| t.retransmits as f64)),
            "missed_slots" => sender(|s| s.missed_slots.map(|n| n as f64)),
            "jitter" => greatest(each(&|f| f.receiver.as_ref()?.jitter_seconds)),
            "pdv_p99" => {
                greatest(each(&|f| f.receiver.as_ref()?.delay_variation.as_ref()?.pdv_p99_seconds))
            }
            "ipdv_p99" => {
                greatest(each(&|f| f.receiver.as_ref()?.delay_variation.as_ref()?.ipdv_p99_seconds))
            }
            "connect_time" => greatest(each(&|f| f.connect_seconds)),
            "one_way_delay" => {
                self.extreme(each(&|f| self.pick(f.receiver.as_ref()?.one_way_delay.as_ref()?)))
            }
            "round_trip" => {
                // Flows that are not answered, and are no streams, have none.
                let with = flows.iter().filter(|f| f.round_trip.is_some() || f.tcp.is_some());
                let of_mean = self.statistic == Some(Statistic::Mean);
                let values = with.map(|f| match &f.round_trip {
                    Some(delay) => self.pick(delay),
                    None => f.tcp.as_ref().filter(|_| of_mean).and_then(|t| t.rtt_seconds),
                });
                self.extreme(values.collect())
            }
            _ => None,
        }
    }

    /// Why a percentile is absent from a record that has too few samples for it; `None` where that is not the reason.
    #[must_use]
    pub fn shortage(&self, record: &Record) -> Option<String> {
        let (statistic, unit) = match self.quantity.name {
            "pdv_p99" | "ipdv_p99" => (Statistic::P99, "packets"),
            "idle_round_trip" | "loaded_round_trip" => (self.statistic?, "answered probes"),
            _ => (self.statistic?, "packets"),
        };
        let needed = statistic.least_samples()?;
        if self.of(record).is_some() {
            return None;
        }
        let latency = |pick: fn(&Latency) -> Option<&Delay>| record.latency.as_ref().and_then(pick);
        let flows = record.flows.iter().filter(|f| match &self.scope {
            Scope::All => true,
            Scope::Direction(direction) => f.direction == *direction,
            Scope::Flow(name) => f.name == *name,
        });
        let count = match self.quantity.name {
            "idle_round_trip" => latency(|l| l.idle.as_ref())?.count,
            "loaded_round_trip" => latency(|l| l.loaded.as_ref())?.count,
            "round_trip" => flows.filter_map(|f| Some(f.round_trip.as_ref()?.count)).min()?,
            _ => flows
                .filter_map(|f| Some(f.receiver.as_ref()?.one_way_delay.as_ref()?.count))
                .min()?,
        };
        let name = STATISTICS.iter().find(|(_, s)| *s == statistic).map_or("", |(name, _)| *name);
        (count < needed).then(|| format!("{name} needs {needed} {unit}; there were {count}"))
    }

    fn pick(&self, delay: &Delay) -> Option<f64> {
        self.statistic.unwrap_or(Statistic::Mean).of(delay)
    }

    fn extreme(&self, values: Vec<Option<f64>>) -> Option<f64> {
        match self.statistic {
            Some(Statistic::Min) => least(values),
            _ => greatest(values),
        }
    }
}

/// A figure of several flows that adds up; absent when one lacks it, or when there is none.
fn sum(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    values.into_iter().reduce(|a, b| Some(a? + b?)).flatten()
}

/// The greatest of several flows: their jitter, or their delay; absent when one lacks it, or when there is none.
pub fn greatest(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    values.into_iter().reduce(|a, b| Some(a?.max(b?))).flatten()
}

/// The least of several flows: their least delay; absent when one lacks it, or when there is none.
pub fn least(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    values.into_iter().reduce(|a, b| Some(a?.min(b?))).flatten()
}

impl FromStr for Metric {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let refuse = |accepted: String| ModelError::Field {
            field: "metric".into(),
            given: format!("'{text}'"),
            accepted,
        };
        if let Some(part) = text.trim_start().strip_prefix("sum ") {
            let part: Metric = part.parse()?;
            if part.is_sum {
                return Err(refuse("sum once".into()));
            }
            return part.summed().ok_or_else(|| {
                refuse("sum of a rate or a count: shares and times do not add up".into())
            });
        }
        let (head, scope) = match text.split_once(" of ") {
            Some((head, scope)) => (
                head.trim(),
                match scope.trim() {
                    "" => return Err(refuse("'of' with forward, reverse or a flow's name".into())),
                    "forward" => Scope::Direction(Direction::Forward),
                    "reverse" => Scope::Direction(Direction::Reverse),
                    name => Scope::Flow(name.into()),
                },
            ),
            None => (text.trim(), Scope::All),
        };
        let (statistic, name) = match head.split_once(' ') {
            Some((first, rest)) => (Some(first.trim()), rest.trim()),
            None => (None, head),
        };
        let name = name.replace([' ', '-'], "_");
        let quantity = QUANTITIES.iter().find(|q| q.name == name).ok_or_else(|| {
            let names: Vec<_> = QUANTITIES.iter().map(|q| q.name).collect();
            let hint = super::nearest(&name, names.iter().copied())
                .map_or_else(String::new, |n| format!(" (did you mean {n}?)"));
            refuse(format!("{}{hint}", names.join(", ")))
        })?;
        let statistic = match statistic {
            None if quantity.is_distribution => Some(Statistic::Mean),
            None => None,
            Some(word) if quantity.is_distribution => {
                let found = STATISTICS.iter().find(|(n, _)| *n == word);
                let names = STATISTICS.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", ");
                Some(found.ok_or_else(|| refuse(format!("{names} before {}", quantity.name)))?.1)
            }
            Some(_) => return Err(refuse(format!("{} without a statistic", quantity.name))),
        };
        let whole_run = matches!(quantity.unit, Unit::PerMinute)
            || quantity.name.ends_with("usage")
            || quantity.name.ends_with("cpu")
            || quantity.name.starts_with("idle")
            || quantity.name.starts_with("loaded");
        if whole_run && scope != Scope::All {
            return Err(refuse(format!("{} without 'of': it is of the whole run", quantity.name)));
        }
        Ok(Metric { quantity, statistic, scope, is_sum: false })
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.is_sum {
            f.write_str("sum ")?;
        }
        if let Some(statistic) = self.statistic {
            let name = STATISTICS.iter().find(|(n, s)| *s == statistic && *n != "median");
            write!(f, "{} ", name.map_or("mean", |(n, _)| n))?;
        }
        f.write_str(self.quantity.name)?;
        match &self.scope {
            Scope::All => Ok(()),
            Scope::Direction(direction) => write!(f, " of {direction}"),
            Scope::Flow(name) => write!(f, " of {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Receiver, Sender};

    #[test]
    fn a_percentile_of_too_few_samples_says_how_many_it_needs() {
        let delay = Delay { count: 400, p90_seconds: Some(0.1), ..Delay::default() };
        let receiver = Receiver { one_way_delay: Some(delay.clone()), ..Receiver::default() };
        let mut record = Record {
            flows: vec![Flow { receiver: Some(receiver), ..Flow::default() }],
            latency: Some(Latency {
                idle: Some(Delay { count: 24, ..delay }),
                ..Latency::default()
            }),
            ..Record::default()
        };
        let of = |record: &Record, metric: &str| metric.parse::<Metric>().unwrap().shortage(record);
        for (metric, needed, had) in [
            ("p99 one_way_delay", "1000 packets", "400"),
            ("p99.9 one_way_delay of forward", "10000 packets", "400"),
            ("ipdv_p99", "1000 packets", "400"),
            ("p99 idle_round_trip", "1000 answered probes", "24"),
        ] {
            let text = of(&record, metric).unwrap();
            assert!(text.contains(needed) && text.ends_with(had), "{text}");
        }
        for metric in ["p90 one_way_delay", "max one_way_delay", "p99 loaded_round_trip", "loss"] {
            assert_eq!(of(&record, metric), None, "{metric}");
        }
        record.flows.clear();
        assert_eq!(of(&record, "p99 one_way_delay"), None, "nothing measured it");
    }

    fn record() -> Record {
        let flow = |name: &str, delay: f64, lost: u64| Flow {
            name: name.into(),
            transport: Transport::Udp,
            sender: Some(Sender { packets: 1000, ..Sender::default() }),
            receiver: Some(Receiver {
                lost_packets: Some(lost),
                packets: 1000 - lost,
                one_way_delay: Some(Delay {
                    min_seconds: delay / 2.0,
                    p99_seconds: Some(delay),
                    ..Delay::default()
                }),
                ..Receiver::default()
            }),
            ..Flow::default()
        };
        let sums = |packets, lost| Some(Sums { packets, lost_packets: lost, ..Sums::default() });
        let total = DirectionTotal { sender: sums(2000, None), receiver: sums(1940, Some(60)) };
        let mut record = Record {
            flows: vec![flow("voice", 0.03, 10), flow("video", 0.05, 50)],
            ..Record::default()
        };
        record.total.forward = Some(total);
        record
    }

    #[test]
    fn sums_are_of_what_adds_up() {
        let metric: Metric = "sum throughput of forward".parse().unwrap();
        assert!(metric.is_sum());
        assert_eq!(metric.to_string(), "sum throughput of forward");
        assert_eq!(metric.part().to_string(), "throughput of forward");
        assert_eq!(metric.part().summed(), Some(metric));
        for text in ["sum loss", "sum p99 one_way_delay", "sum sum packets", "sum"] {
            assert!(text.parse::<Metric>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_mean_is_within_what_the_figure_can_be() {
        let range = |name: &str| name.parse::<Metric>().unwrap().range();
        for share in ["loss", "loss of reverse", "link_usage", "remote_cpu"] {
            assert_eq!(range(share), (0.0, 1.0), "{share}");
        }
        for positive in ["throughput", "sum packets", "jitter", "p99 round_trip", "pdv_p99"] {
            assert_eq!(range(positive), (0.0, f64::INFINITY), "{positive}");
        }
        // Clocks that are off make a delay negative.
        for any in ["mean one_way_delay", "ipdv_p99"] {
            assert_eq!(range(any), (f64::NEG_INFINITY, f64::INFINITY), "{any}");
        }
    }

    #[test]
    fn a_loss_ratio_is_of_all_packets_and_a_delay_of_the_worst_flow() {
        let of = |text: &str| text.parse::<Metric>().unwrap().of(&record());
        assert_eq!(of("loss"), Some(0.03));
        assert_eq!(of("loss of voice"), Some(0.01));
        assert_eq!(of("loss of forward"), Some(0.03));
        assert_eq!(of("loss of reverse"), None);
        assert_eq!(of("p99 one_way_delay"), Some(0.05));
        assert_eq!(of("min one_way_delay"), Some(0.015));
        assert_eq!(of("p99 one_way_delay of voice"), Some(0.03));
        assert_eq!(of("p99 one_way_delay of missing"), None);
        assert_eq!(of("p99.9 one_way_delay"), None, "not measured: absent");
        assert_eq!(of("throughput"), None);
        assert_eq!(of("sent_packets"), Some(2000.0));
        let mut mixed = record();
        let stream =
            Flow { transport: Transport::Tcp, name: "bulk".into(), ..mixed.flows[0].clone() };
        mixed.flows.push(stream);
        let of = |text: &str| text.parse::<Metric>().unwrap().of(&mixed);
        assert_eq!(of("loss"), Some(0.03), "writes of a stream are no packets");
        assert_eq!(of("packets of bulk"), None);
    }

    /// A peer that was lost had told of no loss until then: that is not the loss of the run.
    #[test]
    fn the_loss_of_a_flow_that_lost_an_end_is_not_known() {
        let of = |record: &Record, text: &str| text.parse::<Metric>().unwrap().of(record);
        let (mut forward, mut reverse) = (record(), record());
        forward.flows[1].receiver.as_mut().unwrap().reported_until_seconds = Some(3.0);
        reverse.flows[1].sender.as_mut().unwrap().reported_until_seconds = Some(3.0);
        for cut in [forward, reverse] {
            assert_eq!((of(&cut, "loss"), of(&cut, "lost_packets")), (None, None));
            assert_eq!(of(&cut, "loss of voice"), Some(0.01), "that flow's ends both reported");
            assert!(
                !cut.is_loss_known(Direction::Forward) && cut.is_loss_known(Direction::Reverse)
            );
        }
        assert!(record().is_loss_known(Direction::Forward));
        let mut sums = record();
        sums.flows[0].receiver = None;
        assert!(!sums.is_loss_known(Direction::Forward), "its receiver told sums at most");
    }

    /// A sender that was lost before its first word leaves no entry: what came behind the last number that arrived is no
    /// more known than where it had told something.
    #[test]
    fn the_loss_of_datagrams_whose_sender_told_nothing_is_not_known() {
        let of = |record: &Record, text: &str| text.parse::<Metric>().unwrap().of(record);
        let mut cut = record();
        cut.flows[1].sender = None;
        assert!(cut.flows[1].lost_an_end() && !cut.flows[0].lost_an_end());
        assert!(!cut.is_loss_known(Direction::Forward) && cut.is_loss_known(Direction::Reverse));
        assert_eq!((of(&cut, "loss"), of(&cut, "lost_packets")), (None, None));
        assert_eq!(of(&cut, "lost_packets of voice"), Some(10.0), "both of its ends reported");
        let stream = Flow { transport: Transport::Tcp, ..cut.flows[1].clone() };
        assert!(
            !stream.lost_an_end(),
            "of a stream the receiver's figures are whole by themselves"
        );
    }

    #[test]
    fn what_one_flow_lacks_all_together_lack() {
        let of = |record: &Record, text: &str| text.parse::<Metric>().unwrap().of(record);
        let mut some = record();
        let receiver = some.flows[1].receiver.as_mut().unwrap();
        receiver.lost_packets = None;
        receiver.one_way_delay = None;
        for text in ["loss", "lost_packets", "p99 one_way_delay", "min one_way_delay of forward"] {
            assert_eq!(of(&some, text), None, "{text}");
        }
        assert_eq!(of(&some, "loss of voice"), Some(0.01));
        assert_eq!(of(&some, "packets"), Some(1940.0));
        some.total.forward.as_mut().unwrap().receiver.as_mut().unwrap().bits_per_second = Some(8.0);
        assert_eq!(of(&some, "throughput"), Some(8.0));
        some.flows[1].receiver = None;
        assert_eq!(of(&some, "throughput"), None, "a sum of one of two");
        // Jitter of streams is none, and no reason to have none of datagrams.
        let mut mixed = record();
        mixed.flows[0].receiver.as_mut().unwrap().jitter_seconds = Some(0.5);
        mixed.flows[1].transport = Transport::Tcp;
        assert_eq!(of(&mixed, "jitter"), Some(0.5));
    }

    #[test]
    fn names_print_back_and_refusals_name_the_nearest() {
        for text in [
            "throughput",
            "p99 one_way_delay of voice",
            "loss of reverse",
            "p99.9 loaded_round_trip",
        ] {
            assert_eq!(text.parse::<Metric>().unwrap().to_string(), text);
        }
        assert_eq!(
            "median one-way-delay".parse::<Metric>().unwrap().to_string(),
            "p50 one_way_delay"
        );
        let refusal = |text: &str| text.parse::<Metric>().unwrap_err().to_string();
        assert!(refusal("thruput").contains("did you mean throughput?"), "{}", refusal("thruput"));
        assert!(refusal("p98 one_way_delay").contains("p99"));
        assert!(refusal("p99 loss").contains("without a statistic"));
        assert!(refusal("link_usage of voice").contains("whole run"));
    }
}
