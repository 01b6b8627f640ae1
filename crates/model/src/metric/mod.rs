//! The metrics of a record: each is declared once, in [`METRICS`].
//!
//! A declaration holds a metric's name, unit, definition and source, the end and the transports that have it,
//! how it is read from a flow, and how it is folded over several flows. Expectations, comparisons, reports,
//! the web page and the table in docs/METHODOLOGY.md all use it.
//!
//! To add a metric: compute it (`weir-stats`), give it a field in the record, fill that field (`weir-flow`), and declare
//! it in `declared.rs`.

mod declared;
mod document;
mod fold;
mod statistic;
mod unit;

use schemars::JsonSchema;
use serde::Serialize;

use crate::plan::TransportName;
use crate::record::{Delay, Flow, IntervalCount, Record, Sums};

pub use declared::METRICS;
#[cfg(test)]
pub(crate) use document::methodology_table;
pub use document::{MetricEntry, metric_entries};
pub use fold::largest;
pub use statistic::Statistic;
pub use unit::Unit;

/// Which values of a metric are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Higher values.
    Higher,
    /// Lower values.
    Lower,
    /// Neither is better.
    Neither,
}

/// A group of metrics, which reports show in one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// Rates and amounts of data.
    Volume,
    /// Packets by disposition: lost, late, duplicate, corrupted.
    Packets,
    /// Bursts of losses and the gaps between them.
    Bursts,
    /// Delays and round trips.
    Delay,
    /// Variation of delay.
    Variation,
    /// TCP information of the sender.
    Tcp,
    /// Quality of voice.
    Voice,
    /// Slots of a paced sender.
    Pacing,
    /// Transactions: requests and responses, or connections.
    Transactions,
    /// The path and the hosts, not a flow.
    Run,
}

impl Group {
    /// Its name in the metadata of metrics and in the directories of `weir runs export --parquet`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Group::Volume => "volume",
            Group::Packets => "packets",
            Group::Bursts => "bursts",
            Group::Delay => "delay",
            Group::Variation => "variation",
            Group::Tcp => "tcp",
            Group::Voice => "voice",
            Group::Pacing => "pacing",
            Group::Transactions => "transactions",
            Group::Run => "run",
        }
    }
}

/// The end of a flow that measures a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The sender.
    Sender,
    /// The receiver.
    Receiver,
    /// Both, or the run as a whole.
    Both,
}

/// The transports whose flows have a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// Flows of datagrams.
    Datagrams,
    /// Streams.
    Streams,
    /// Flows whose kernel reports TCP_INFO.
    TcpInfo,
    /// All flows.
    All,
}

/// How a metric is folded over several flows. The result is absent if a flow that could have the metric has
/// no value.
#[derive(Clone, Copy)]
pub enum Fold {
    /// The sum.
    Sum,
    /// The largest value: the worst flow's.
    Largest,
    /// The smallest value, where that is the worst flow's.
    Smallest,
    /// The quotient of two sums over the flows: a ratio over all packets, or a mean over all events.
    Quotient(fn(&Flow) -> Option<(f64, f64)>),
    /// From the record's sums of a direction, whose rates cover the time in which any flow ran.
    Total(fn(&Sums) -> Option<f64>),
}

/// How a metric is read from a record.
#[derive(Clone, Copy)]
pub enum Read {
    /// One figure of each flow.
    Flow(fn(&Flow) -> Option<f64>, Fold),
    /// A statistic of each flow's distribution. The second function returns the mean of a flow without a
    /// distribution.
    Flows(fn(&Flow) -> Option<&Delay>, fn(&Flow) -> Option<f64>),
    /// One figure of the run.
    Run(fn(&Record) -> Option<f64>),
    /// A distribution of the run.
    RunDelay(fn(&Record) -> Option<&Delay>),
}

/// A metric's value in one interval of one end.
#[derive(Clone, Copy)]
pub struct InInterval {
    /// Field of [`IntervalCount`]; empty if it is computed from several fields.
    pub field: &'static str,
    /// The value.
    pub get: fn(&IntervalCount) -> Option<f64>,
    /// Whether it is the value at the end of the interval, not one over its duration.
    pub is_last_value: bool,
}

/// A value in the details of the text report.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    /// Label of the line. Metrics with the same label share a line.
    pub label: &'static str,
    /// Its text, in which `{}` is the value. Values of 0 are omitted.
    pub text: &'static str,
}

/// The declaration of a metric.
#[derive(Clone, Copy)]
pub struct Definition {
    /// Name in expectations, sweeps and columns of experiments.
    pub name: &'static str,
    /// Heading in reports and on the page.
    pub label: &'static str,
    /// The same of echo requests, where the field's term differs from that of transactions.
    pub echo_label: Option<&'static str>,
    /// The same of transfers.
    pub transfer_label: Option<&'static str>,
    /// Name in comparisons, ending in the unit; for a distribution the stem, followed by statistic and unit.
    pub key: &'static str,
    /// Unit.
    pub unit: Unit,
    /// The standard that defines it; empty: Weir's own definition.
    pub source: &'static str,
    /// Its definition, in one or two sentences.
    pub definition: &'static str,
    /// Its error and limits of validity.
    pub limits: &'static str,
    /// Its group in reports.
    pub group: Group,
    /// The end that measures it.
    pub end: End,
    /// The transports that have it.
    pub carrier: Carrier,
    /// Which values are better.
    pub better: Better,
    /// Path of the value in the flow, or in the record for a metric of the run; empty if it has no field of
    /// its own.
    pub path: &'static str,
    /// Further fields that belong to it.
    pub also: &'static [&'static str],
    /// How it is read and folded.
    pub read: Read,
    /// Whether a flow of a fitting transport can have it; other flows are ignored by folds.
    pub applies: fn(&Flow) -> bool,
    /// Its value in an interval.
    pub interval: Option<InInterval>,
    /// Its line in the text report.
    pub line: Option<Line>,
    /// Whether comparisons of runs include it.
    pub is_compared: bool,
    /// Whether reports omit it if it is 0 in all flows.
    pub is_rare: bool,
    /// Whether it may be negative, as delays are if clocks are off.
    pub is_signed: bool,
    /// Whether a busy host can only lower it, so that a reached value is certain.
    pub is_lower_bound: bool,
    /// Whether a metric of the run adds up over concurrent tests.
    pub is_additive: bool,
    /// Whether tables of experiments show it first.
    pub is_headline: bool,
    /// Whether it is a 99th percentile over packets, which needs 1000 of them.
    pub is_p99: bool,
    /// Whether it is unknown if an end of a flow did not report.
    pub needs_both_ends: bool,
}

/// Whether these flows, of which there are some, consist of transfers.
#[must_use]
pub fn are_transfers<'a>(flows: impl IntoIterator<Item = &'a Flow>) -> bool {
    let has_transfers =
        |flow: &Flow| flow.transactions.as_ref().is_some_and(|t| t.transfers.is_some());
    let mut flows = flows.into_iter().peekable();
    flows.peek().is_some() && flows.all(has_transfers)
}

/// Whether these flows, of which there are some, are echo requests and their replies.
#[must_use]
pub fn are_echo<'a>(flows: impl IntoIterator<Item = &'a Flow>) -> bool {
    let mut flows = flows.into_iter().peekable();
    let is_echo = |flow: &Flow| flow.transport.echoes() && flow.transactions.is_some();
    flows.peek().is_some() && flows.all(is_echo)
}

impl std::fmt::Debug for Definition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Definition").field(&self.name).finish()
    }
}

impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Definition {}

impl Definition {
    /// The definition with this name.
    #[must_use]
    pub(crate) fn named(name: &str) -> Option<&'static Definition> {
        METRICS.iter().find(|m| m.name == name)
    }

    /// The heading of its values in these flows.
    #[must_use]
    pub fn label_of<'a>(
        &self,
        flows: impl IntoIterator<Item = &'a Flow, IntoIter: Clone>,
    ) -> &'static str {
        let flows = flows.into_iter();
        let of_echo = self.echo_label.filter(|_| are_echo(flows.clone()));
        let of_transfers = || self.transfer_label.filter(|_| are_transfers(flows));
        of_echo.or_else(of_transfers).unwrap_or(self.label)
    }

    /// Whether it is a distribution, with statistics such as `p99` and `mean`.
    #[must_use]
    pub fn is_distribution(&self) -> bool {
        matches!(self.read, Read::Flows(..) | Read::RunDelay(_))
    }

    /// Whether it belongs to the whole run, not to flows.
    #[must_use]
    pub fn is_of_run(&self) -> bool {
        matches!(self.read, Read::Run(_) | Read::RunDelay(_))
    }

    /// Whether flows of a transport have it.
    #[must_use]
    pub(crate) fn applies_to(&self, transport: TransportName) -> bool {
        match self.carrier {
            Carrier::Datagrams => transport.datagrams(),
            Carrier::Streams => !transport.datagrams(),
            Carrier::TcpInfo => transport.tcp_info(),
            Carrier::All => true,
        }
    }

    /// Whether a flow can have it.
    #[must_use]
    pub(crate) fn is_of(&self, flow: &Flow) -> bool {
        self.applies_to(flow.transport) && (self.applies)(flow)
    }

    /// The value of one flow (the mean of a distribution); absent if it was not measured or is unknown.
    #[must_use]
    pub fn of_flow(&self, flow: &Flow) -> Option<f64> {
        if !self.is_of(flow) || self.needs_both_ends && flow.peer_report_missing() {
            return None;
        }
        match self.read {
            Read::Flow(get, _) => get(flow),
            Read::Flows(get, mean) => match get(flow) {
                Some(delay) => Some(delay.mean_seconds),
                None => mean(flow),
            },
            Read::Run(_) | Read::RunDelay(_) => None,
        }
    }

    /// Whether it is a rate.
    #[must_use]
    pub(crate) fn is_rate(&self) -> bool {
        matches!(
            self.unit,
            Unit::BitsPerSecond | Unit::PacketsPerSecond | Unit::TransactionsPerSecond
        )
    }
}

/// The metric whose value in an interval is this field, as `end` measures it; absent for fields that are no metric.
#[must_use]
pub fn metric_of_interval_field(field: &str, end: End) -> Option<&'static Definition> {
    METRICS.iter().find(|m| {
        let is_field = m.interval.as_ref().is_some_and(|i| i.field == field);
        is_field && (m.end == end || m.end == End::Both)
    })
}

/// Whether `end` fills this field of an interval.
#[must_use]
pub(crate) fn is_interval_field_of(field: &str, end: End) -> bool {
    let mut ends = METRICS
        .iter()
        .filter(|m| m.interval.as_ref().is_some_and(|i| i.field == field))
        .map(|m| m.end)
        .peekable();
    ends.peek().is_none() || ends.any(|e| e == end || e == End::Both)
}

#[cfg(test)]
mod tests;
