//! What is known when a test starts: the header is made of it, and the lines of intervals refer to it.

use serde::{Deserialize, Serialize};
use weir_model::plan::{Direction, FlowSpec, Plan, Size, Spacing, TransportName};
use weir_model::record::{Flow, Record};

/// What a line about a flow needs to know of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct FlowMeta {
    /// Flow number.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Transport.
    pub transport: TransportName,
    /// Who sends.
    pub direction: Direction,
    /// The sender's address and port, where known: not when a test starts.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The receiver's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub destination: String,
    /// Payload of a datagram or of a write; the mean of its law where sizes vary.
    pub payload_bytes: u64,
    /// The law of payload sizes, where they vary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_law: Option<Size>,
    /// The law of the intervals between packets, where they vary by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spacing_law: Option<Spacing>,
    /// Rate asked for, as it was understood (`10M`, `50000pps`, `0`: unlimited); empty where unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rate: String,
}

impl From<&Flow> for FlowMeta {
    fn from(flow: &Flow) -> Self {
        FlowMeta {
            id: flow.id,
            name: flow.name.clone(),
            transport: flow.transport,
            direction: flow.direction,
            source: flow.source.clone(),
            destination: flow.destination.clone(),
            payload_bytes: flow.payload_bytes,
            payload_law: flow.payload_law.clone(),
            spacing_law: flow.spacing_law.clone(),
            rate: String::new(),
        }
    }
}

impl From<&FlowSpec> for FlowMeta {
    fn from(spec: &FlowSpec) -> Self {
        FlowMeta {
            id: spec.id,
            name: spec.name.clone(),
            transport: spec.connection.transport.name(),
            direction: spec.connection.direction,
            payload_bytes: spec.payload_bytes(),
            payload_law: Some(spec.size.clone()).filter(|size| !size.is_constant()),
            spacing_law: Some(spec.connection.spacing.clone()).filter(|law| !law.is_constant()),
            rate: spec.rate.to_string(),
            ..Default::default()
        }
    }
}

/// A test that starts: the header's content and the data of the `start` event.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Start {
    /// Id that the run will have.
    pub id: String,
    /// Version of Weir.
    pub version: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// Name of this host, where known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The plan as understood.
    pub plan: Plan,
    /// The flows that it expands to.
    pub flows: Vec<FlowMeta>,
}

impl From<&Record> for Start {
    fn from(record: &Record) -> Self {
        Start {
            id: record.id.clone(),
            version: record.version.clone(),
            started_at: record.started_at.clone(),
            host: record.local.as_ref().map(|l| l.host.clone()).unwrap_or_default(),
            plan: record.plan.clone(),
            flows: record.flows.iter().map(FlowMeta::from).collect(),
        }
    }
}

/// A direction of an emulator, named by its interfaces: which direction of the run that is depends on the client's side.
pub(crate) fn emulator_direction(direction: weir_model::plan::Direction) -> &'static str {
    match direction {
        weir_model::plan::Direction::Forward => "A to B",
        weir_model::plan::Direction::Reverse => "B to A",
    }
}
