//! Metric expressions, which expectations compare and sweeps tabulate.
//!
//! An expression such as `p99 one_way_delay of voice` names a declared metric ([`crate::metric`]), a statistic
//! if it is a distribution, and the flows. A figure that is not in the record is absent, never zero.

use std::fmt;
use std::str::FromStr;

use crate::ModelError;
use crate::metric::{Definition, Fold, METRICS, Read, Statistic, Unit};
use crate::plan::{Direction, TransportName};
use crate::record::{Flow, Record};

/// The flows that a metric covers.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    All,
    Direction(Direction),
    Flow(String),
}

impl Scope {
    fn has(&self, flow: &Flow) -> bool {
        match self {
            Scope::All => true,
            Scope::Direction(direction) => flow.direction == *direction,
            Scope::Flow(name) => flow.name == *name,
        }
    }
}

/// One figure of a record: `[statistic] quantity [of forward|reverse|FLOW]`. A leading `sum` adds the figures
/// of all tests of a parallel step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    definition: &'static Definition,
    statistic: Option<Statistic>,
    scope: Scope,
    is_sum: bool,
}

impl Metric {
    /// Whether it is a sum over the tests of a parallel step; each of their records has a part
    /// ([`Metric::part`]).
    #[must_use]
    pub(crate) fn is_sum(&self) -> bool {
        self.is_sum
    }

    /// The summand: the figure of one test.
    #[must_use]
    pub fn part(&self) -> Metric {
        Metric { is_sum: false, ..self.clone() }
    }

    /// The sum of this figure over concurrent tests; absent for ratios, times and maxima, which do not add up.
    #[must_use]
    pub fn summed(&self) -> Option<Metric> {
        self.definition.adds_up().then(|| Metric { is_sum: true, ..self.clone() })
    }

    /// The declaration of the metric.
    #[must_use]
    pub fn definition(&self) -> &'static Definition {
        self.definition
    }

    /// Its unit.
    #[must_use]
    pub fn unit(&self) -> Unit {
        self.definition.unit
    }

    /// The possible range of its mean: a ratio is 0 to 1; rates, counts and durations are not negative. Delays
    /// and their differences depend on the clocks' error and have no such bound.
    #[must_use]
    pub fn range(&self) -> (f64, f64) {
        match self.unit() {
            Unit::Ratio => (0.0, 1.0),
            _ if self.definition.is_signed => (f64::NEG_INFINITY, f64::INFINITY),
            _ => (0.0, f64::INFINITY),
        }
    }

    /// Whether a busy host can only lower it, so that a measured value is a lower bound: rates and transferred
    /// volume. Other figures are of little use if the load was not the requested one.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.definition.is_lower_bound
    }

    /// Whether it applies to flows of a transport.
    #[must_use]
    pub fn applies_to(&self, transport: TransportName) -> bool {
        self.definition.applies_to(transport)
    }

    /// The figure in its SI unit; absent if it is not in the record.
    #[must_use]
    pub fn of(&self, record: &Record) -> Option<f64> {
        match &self.scope {
            Scope::All => self.definition.of(record, None, self.statistic),
            Scope::Direction(direction) => {
                self.definition.of(record, Some(*direction), self.statistic)
            }
            Scope::Flow(name) => {
                let flows = record.flows.iter().filter(|f| f.name == *name);
                self.definition.of_flows(flows, self.statistic)
            }
        }
    }

    /// The figure over the concurrent tests of one run, in its SI unit: rates and counts are summed, ratios of packets
    /// are those of all packets, other figures are the worst. Absent if a record does not have it.
    #[must_use]
    pub fn over(&self, records: &[&Record]) -> Option<f64> {
        let of_each = || records.iter().map(|record| self.of(record));
        match (&self.definition.read, &self.scope) {
            _ if records.len() < 2 => of_each().next()?,
            (Read::Flow(_, Fold::Total(_)), Scope::All | Scope::Direction(_))
            | (Read::Run(_) | Read::RunDelay(_), _) => {
                self.definition.over_tests(self.statistic, of_each())
            }
            (Read::Flow(..) | Read::Flows(..), scope) => {
                let flows = records.iter().flat_map(|record| &record.flows);
                self.definition.of_flows(flows.filter(|f| scope.has(f)), self.statistic)
            }
        }
    }

    /// The reason if a percentile is absent because the record has too few samples; else `None`.
    #[must_use]
    pub fn shortage(&self, record: &Record) -> Option<String> {
        if self.of(record).is_some() {
            return None;
        }
        let flows = record.flows.iter().filter(|f| self.scope.has(f));
        self.definition.shortage(record, flows, self.statistic)
    }
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
                refuse("sum of a rate or a count: ratios, times and maxima do not add up".into())
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
        let definition = Definition::named(&name).ok_or_else(|| {
            let names: Vec<_> = METRICS.iter().map(|m| m.name).collect();
            let hint = super::nearest(&name, names.iter().copied())
                .map_or_else(String::new, |n| format!(" (did you mean {n}?)"));
            refuse(format!("{}{hint}", names.join(", ")))
        })?;
        let statistic = match statistic {
            None if definition.is_distribution() => Some(Statistic::Mean),
            None => None,
            Some(word) if definition.is_distribution() => {
                let names = || Statistic::names().join(", ");
                let found = Statistic::named(word);
                Some(
                    found
                        .ok_or_else(|| refuse(format!("{} before {}", names(), definition.name)))?,
                )
            }
            Some(_) => return Err(refuse(format!("{} without a statistic", definition.name))),
        };
        if definition.is_of_run() && scope != Scope::All {
            return Err(refuse(format!(
                "{} without 'of', because it is of the whole run",
                definition.name
            )));
        }
        Ok(Metric { definition, statistic, scope, is_sum: false })
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.is_sum {
            f.write_str("sum ")?;
        }
        if let Some(statistic) = self.statistic {
            write!(f, "{} ", statistic.name())?;
        }
        f.write_str(self.definition.name)?;
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
    use crate::record::{
        Delay, DirectionTotal, ImpairmentUse, Latency, LinkUsage, Receiver, Sender, Sums,
    };

    #[test]
    fn a_percentile_of_too_few_samples_reports_how_many_it_needs() {
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
            transport: TransportName::Udp,
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
    fn concurrent_tests_are_one_run() {
        let first = record();
        let mut second = record();
        for flow in &mut second.flows {
            let receiver = flow.receiver.as_mut().unwrap();
            receiver.lost_packets = Some(190);
            receiver.one_way_delay.as_mut().unwrap().p99_seconds = Some(0.2);
        }
        let usage = |ethernet_ratio| {
            let nominal_bits_per_second = 1_000_000_000;
            Some(LinkUsage { nominal_bits_per_second, ethernet_ratio, ..LinkUsage::default() })
        };
        let emulator = |cpu_seconds| {
            Some(ImpairmentUse { cpu_seconds: Some(cpu_seconds), ..ImpairmentUse::default() })
        };
        let first =
            Record { seconds: 2.0, link_usage: usage(0.25), impairment: emulator(1.0), ..first };
        let second =
            Record { seconds: 2.0, link_usage: usage(0.5), impairment: emulator(1.5), ..second };
        let over =
            |metric: &str, records: &[&Record]| metric.parse::<Metric>().unwrap().over(records);
        let both = [&first, &second];
        for (metric, wanted) in [
            ("sent_packets", 4000.0),
            ("lost_packets of voice", 200.0),
            ("loss", 440.0 / 4000.0),
            ("loss of video", 240.0 / 2000.0),
            ("p99 one_way_delay", 0.2),
            ("ethernet_usage", 0.75),
            ("ethernet_rate", 750e6),
            ("emulator_cpu", 0.75),
        ] {
            let found = over(metric, &both).unwrap();
            assert!((found - wanted).abs() < wanted * 1e-9, "{metric}: {found}");
            assert_eq!(over(metric, &[&first]), metric.parse::<Metric>().unwrap().of(&first));
        }
        let none = Record { link_usage: None, ..first.clone() };
        assert_eq!(over("ethernet_rate", &[&none, &second]), None);
        assert_eq!(over("loss", &[]), None);
    }

    #[test]
    fn only_rates_and_counts_can_be_summed() {
        let metric: Metric = "sum throughput of forward".parse().unwrap();
        assert!(metric.is_sum());
        assert_eq!(metric.to_string(), "sum throughput of forward");
        assert_eq!(metric.part().to_string(), "throughput of forward");
        assert_eq!(metric.part().summed(), Some(metric));
        for text in [
            "sum loss",
            "sum p99 one_way_delay",
            "sum reordering_extent",
            "sum payload_size",
            "sum congestion_window",
            "sum sum packets",
            "sum",
        ] {
            assert!(text.parse::<Metric>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_range_of_a_mean_depends_on_its_unit() {
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
            Flow { transport: TransportName::Tcp, name: "bulk".into(), ..mixed.flows[0].clone() };
        mixed.flows.push(stream);
        let of = |text: &str| text.parse::<Metric>().unwrap().of(&mixed);
        assert_eq!(of("loss"), Some(0.03), "writes of a stream are no packets");
        assert_eq!(of("packets of bulk"), None);
    }

    /// The loss that an unreachable peer had reported until then is not the loss of the run.
    #[test]
    fn the_loss_of_a_flow_with_an_unreachable_peer_is_unknown() {
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
        assert!(!sums.is_loss_known(Direction::Forward), "its receiver reported no flow");
    }

    /// A sender that became unreachable before its first report has no entry: packets after the last number
    /// that arrived are unknown, as after a partial report.
    #[test]
    fn the_loss_of_datagrams_without_a_senders_report_is_unknown() {
        let of = |record: &Record, text: &str| text.parse::<Metric>().unwrap().of(record);
        let mut cut = record();
        cut.flows[1].sender = None;
        assert!(cut.flows[1].peer_report_missing() && !cut.flows[0].peer_report_missing());
        assert!(!cut.is_loss_known(Direction::Forward) && cut.is_loss_known(Direction::Reverse));
        assert_eq!((of(&cut, "loss"), of(&cut, "lost_packets")), (None, None));
        assert_eq!(of(&cut, "lost_packets of voice"), Some(10.0), "both of its ends reported");
        let stream = Flow { transport: TransportName::Tcp, ..cut.flows[1].clone() };
        assert!(
            !stream.peer_report_missing(),
            "the receiver's figures of a stream are complete by themselves"
        );
    }

    #[test]
    fn a_figure_missing_from_one_flow_is_missing_from_their_sum() {
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
        // Streams have no jitter, which does not affect the jitter of datagrams.
        let mut mixed = record();
        mixed.flows[0].receiver.as_mut().unwrap().jitter_seconds = Some(0.5);
        mixed.flows[1].transport = TransportName::Tcp;
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
        let refusal = |text: &str| {
            let refusal = crate::Refusal::from(&text.parse::<Metric>().unwrap_err());
            format!("{:?} {:?}", refusal.given, refusal.accepted)
        };
        assert!(refusal("thruput").contains("throughput?"));
        assert!(refusal("p98 one_way_delay").contains("p99"));
        assert!(refusal("p99 loss").contains("without a statistic"));
        assert!(refusal("link_usage of voice").contains("whole run"));
    }
}
