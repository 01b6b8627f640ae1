//! The declarations as documents: entries for the API and the page, and the table in docs/METHODOLOGY.md.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Better, Carrier, Definition, End, Fold, Group, METRICS, Read, Unit};

/// A metric's entry in the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Metric")]
pub struct MetricEntry {
    /// Name in expectations, sweeps and experiments.
    pub name: &'static str,
    /// Heading.
    pub label: &'static str,
    /// Unit of its values, as in the suffix of keys.
    pub unit: &'static str,
    /// The standard that defines it; absent if none does.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub source: &'static str,
    /// Its definition.
    pub definition: &'static str,
    /// How it is computed over several flows.
    pub several_flows: &'static str,
    /// The group that it is shown in.
    pub group: Group,
    /// The end that measures it.
    pub end: End,
    /// The flows that have it.
    pub carrier: Carrier,
    /// Which values are better.
    pub better: Better,
    /// Path of its value (of a distribution: of its object) in a flow of `weir.run/1`, or in the record
    /// itself for metrics of the group `run`; absent if it is not a field.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub path: &'static str,
    /// Whether it is a distribution, with a value for each statistic.
    pub distribution: bool,
    /// Whether tables omit it if it is 0 in all flows.
    pub rare: bool,
    /// Whether tables of experiments show it first.
    pub headline: bool,
    /// Whether comparisons of runs include it.
    pub compared: bool,
    /// Whether it is unknown where an end of the flow did not report.
    pub needs_both_ends: bool,
}

impl From<&Definition> for MetricEntry {
    fn from(m: &Definition) -> Self {
        MetricEntry {
            name: m.name,
            label: m.label,
            unit: m.unit.key(),
            source: m.source,
            definition: m.definition,
            several_flows: m.several_flows(),
            group: m.group,
            end: m.end,
            carrier: m.carrier,
            better: m.better,
            path: m.path,
            distribution: m.is_distribution(),
            rare: m.is_rare,
            headline: m.is_headline,
            compared: m.is_compared,
            needs_both_ends: m.needs_both_ends,
        }
    }
}

/// All metrics, in the order of [`METRICS`].
#[must_use]
pub fn metric_entries() -> Vec<MetricEntry> {
    METRICS.iter().map(MetricEntry::from).collect()
}

impl Definition {
    /// How it is computed over several flows, in words.
    #[must_use]
    pub(crate) fn several_flows(&self) -> &'static str {
        match self.read {
            Read::Run(_) | Read::RunDelay(_) => "of the run",
            Read::Flow(_, Fold::Sum) => "sum",
            Read::Flow(_, Fold::Largest) => "largest",
            Read::Flow(_, Fold::Smallest) => "smallest",
            Read::Flow(_, Fold::Quotient(_)) => "over all flows",
            Read::Flow(_, Fold::Total(_)) if self.is_rate() => "sum over their common time",
            Read::Flow(_, Fold::Total(_)) => "sum",
            Read::Flows(..) => "largest; for minima the smallest",
        }
    }

    /// The record's fields that hold it: key of the object, field.
    #[cfg(test)]
    pub(crate) fn fields(&self) -> Vec<(&'static str, &'static str)> {
        let split = |path: &'static str| {
            let (object, field) = path.rsplit_once('.').unwrap_or(("flows", path));
            (object.rsplit('.').next().unwrap_or(object), field)
        };
        let paths = std::iter::once(&self.path).chain(self.also).filter(|path| !path.is_empty());
        let mut out: Vec<_> = paths.map(|path| split(path)).collect();
        if self.is_distribution() {
            let fields = [
                "count",
                "min_seconds",
                "mean_seconds",
                "max_seconds",
                "error_seconds",
                "negative_samples",
                "standard_deviation_seconds",
            ];
            let (_, object) = split(self.path);
            out = fields.map(|field| (object, field)).to_vec();
        }
        if let Some(interval) = self.interval.as_ref().filter(|i| !i.field.is_empty()) {
            let object = if self.end == End::Sender { "sender" } else { "receiver" };
            out.push((object, interval.field));
        }
        out.dedup();
        out
    }

    /// Its row of the table in docs/METHODOLOGY.md.
    #[cfg(test)]
    fn row(&self) -> String {
        let source = match self.source {
            "" => String::new(),
            source => format!("{source}: "),
        };
        let of = match (self.carrier, self.end) {
            (Carrier::Datagrams, End::Sender) => "datagrams, sender",
            (Carrier::Datagrams, _) => "datagrams, receiver",
            (Carrier::Streams, End::Receiver) => "streams, receiver",
            (Carrier::Streams, _) => "streams, sender",
            (Carrier::TcpInfo, End::Receiver) => "TCP, receiver",
            (Carrier::TcpInfo, _) => "TCP, sender",
            (Carrier::All, End::Sender) => "all, sender",
            (Carrier::All, End::Receiver) => "all, receiver",
            (Carrier::All, End::Both) => "all",
        };
        let of = if self.is_of_run() { "run" } else { of };
        let fields: Vec<String> = self.fields().iter().map(|(o, f)| format!("{o}.{f}")).collect();
        let interval = match &self.interval {
            Some(i) if i.is_last_value => " In an interval: the last value.",
            _ => "",
        };
        let cells = [
            &format!("`{}`", self.name),
            self.label,
            &format!("{source}{}", self.definition),
            self.unit.symbol(),
            of,
            self.several_flows(),
            &fields.join(", "),
            &format!("{}{interval}", self.limits),
        ]
        .map(|cell| cell.replace('|', "\\|"));
        format!("| {} |\n", cells.join(" | "))
    }
}

/// The table of metrics in docs/METHODOLOGY.md.
#[cfg(test)]
#[must_use]
pub(crate) fn methodology_table() -> String {
    let mut out = String::from(
        "| metric | label | definition | unit | of | several flows | fields | error, and when not to trust it |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    METRICS.iter().for_each(|m| out += &m.row());
    out
}

impl Unit {
    /// The unit as a suffix of JSON keys.
    #[must_use]
    pub(crate) fn key(self) -> &'static str {
        match self {
            Unit::BitsPerSecond => "bits_per_second",
            Unit::PacketsPerSecond => "packets_per_second",
            Unit::TransactionsPerSecond => "transactions_per_second",
            Unit::Seconds => "seconds",
            Unit::Ratio => "ratio",
            Unit::Bytes => "bytes",
            Unit::Count => "count",
            Unit::PerMinute => "per_minute",
        }
    }

    /// Its symbol.
    #[cfg(test)]
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Unit::BitsPerSecond => "bit/s",
            Unit::PacketsPerSecond => "packets/s",
            Unit::TransactionsPerSecond => "transactions/s",
            Unit::Seconds => "s",
            Unit::Ratio => "ratio",
            Unit::Bytes => "B",
            Unit::Count => "-",
            Unit::PerMinute => "1/min",
        }
    }
}
