//! The columns of a list of runs, taken from a record when it is stored.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_model::plan::Direction;
use weir_model::record::{Record, Status};

/// One run in a list; `S` is `&str` while a list is read ([`crate::Store::each`]).
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RunRow<S = String> {
    /// Id.
    pub id: S,
    /// RFC 3339.
    pub started_at: S,
    /// Title, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<S>,
    /// The peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<S>,
    /// Number and transport of its flows: `4 tcp, 1 udp`.
    pub transport: S,
    /// Received rate, forward.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_bits_per_second: Option<f64>,
    /// Received rate, reverse.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reverse_bits_per_second: Option<f64>,
    /// Lost / sent over all flows that report it; absent if the report of an end is missing. Of a test of ICMP echo:
    /// requests without a reply / requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_ratio: Option<f64>,
    /// Number of warnings.
    pub warnings: u64,
    /// `complete`, `partial` or `interrupted`.
    pub status: S,
    /// Version of Weir.
    pub version: S,
}

impl RunRow<&str> {
    /// The row with owned texts.
    pub(crate) fn to_owned(&self) -> RunRow {
        RunRow {
            id: self.id.into(),
            started_at: self.started_at.into(),
            title: self.title.map(Into::into),
            host: self.host.map(Into::into),
            transport: self.transport.into(),
            forward_bits_per_second: self.forward_bits_per_second,
            reverse_bits_per_second: self.reverse_bits_per_second,
            loss_ratio: self.loss_ratio,
            warnings: self.warnings,
            status: self.status.into(),
            version: self.version.into(),
        }
    }
}

impl From<&Record> for RunRow {
    fn from(record: &Record) -> Self {
        let received = |total: &Option<weir_model::record::DirectionTotal>| {
            total
                .as_ref()?
                .receiver
                .as_ref()
                .and_then(|r| r.bits_per_second)
                .filter(|r| r.is_finite())
        };
        let (mut lost, mut sent) = (0u64, 0u64);
        for receiver in record.flows.iter().filter_map(|f| f.receiver.as_ref()) {
            if let Some(n) = receiver.lost_packets {
                lost = lost.saturating_add(n);
                sent = sent.saturating_add(n).saturating_add(receiver.packets);
            }
        }
        for requests in record.flows.iter().filter(|f| f.transport.echoes()) {
            if let Some(t) = &requests.transactions {
                lost = lost.saturating_add(t.failed);
                sent = sent.saturating_add(t.failed).saturating_add(t.completed);
            }
        }
        // A plan of echo requests has nothing else.
        let is_echo = record.flows.iter().any(|f| f.transport.echoes() && f.transactions.is_some());
        let is_known = sent > 0
            && (is_echo
                || [Direction::Forward, Direction::Reverse]
                    .iter()
                    .all(|d| record.is_loss_known(*d)));
        let servers: Vec<&str> = record.servers.iter().map(|s| s.name.as_str()).collect();
        let host = match servers.is_empty() {
            true => record.plan.host.clone().filter(|h| !h.is_empty()),
            false => Some(servers.join(", ")),
        };
        RunRow {
            id: record.id.clone(),
            started_at: record.started_at.clone(),
            title: record.plan.title.clone(),
            host: host.or_else(|| record.remote.as_ref().map(|r| r.host.clone())),
            transport: transports(record),
            forward_bits_per_second: received(&record.total.forward),
            reverse_bits_per_second: received(&record.total.reverse),
            loss_ratio: is_known.then(|| lost as f64 / sent as f64),
            warnings: record.warnings.len() as u64,
            status: match record.status {
                Status::Complete => "complete",
                Status::Partial => "partial",
                Status::Interrupted => "interrupted",
            }
            .into(),
            version: record.version.clone(),
        }
    }
}

/// The transports that ran or, if nothing did, those planned.
fn transports(record: &Record) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for flow in &record.flows {
        *counts.entry(flow.transport.label()).or_default() += 1;
    }
    if record.flows.is_empty() {
        for connection in &record.plan.connections {
            *counts.entry(connection.transport.label()).or_default() += u64::from(connection.count);
        }
    }
    counts.iter().map(|(name, n)| format!("{n} {name}")).collect::<Vec<_>>().join(", ")
}
