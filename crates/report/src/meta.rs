//! The facts known when a test starts, for the header and the lines of intervals.

use std::iter::repeat_n;

use serde::{Deserialize, Serialize};
use weir_model::plan::{
    Connection, Direction, FlowSpec, Plan, RateSchedule, Shape, Size, Spacing, TransportName,
};
use weir_model::record::{Flow, IMPORTED, Record, TOOL_VERSION};

/// A flow, as far as known when a test starts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct FlowMeta {
    /// Flow number.
    pub id: u32,
    /// Name.
    pub name: String,
    /// The server of the flow, if the test has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Transport.
    pub transport: TransportName,
    /// Who sends.
    pub direction: Direction,
    /// Shape of the traffic.
    #[serde(skip_serializing_if = "is_stream")]
    pub shape: Shape,
    /// The sender's address and port; unknown when a test starts.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The receiver's address and port; unknown when a test starts.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub destination: String,
    /// Payload of a datagram or of a write, bytes; the mean of the law if sizes vary.
    pub payload_bytes: u64,
    /// The law of payload sizes, if they vary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_law: Option<Size>,
    /// The law of the intervals between packets, if they vary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spacing_law: Option<Spacing>,
    /// The requested rate as understood (`10M`, `50000pps`, `0`: unlimited); empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rate: String,
    /// Changes of that rate while it sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_schedule: Option<RateSchedule>,
}

impl From<&Flow> for FlowMeta {
    fn from(flow: &Flow) -> Self {
        FlowMeta {
            id: flow.id,
            name: flow.name.clone(),
            host: flow.host.clone(),
            transport: flow.transport,
            direction: flow.direction,
            shape: flow.transactions.as_ref().map_or(Shape::Stream, |t| t.shape),
            source: flow.source.clone(),
            destination: flow.destination.clone(),
            payload_bytes: flow.payload_bytes,
            payload_law: flow.payload_law.clone(),
            spacing_law: flow.spacing_law.clone(),
            rate: String::new(),
            rate_schedule: None,
        }
    }
}

impl From<&FlowSpec> for FlowMeta {
    fn from(spec: &FlowSpec) -> Self {
        FlowMeta {
            id: spec.id,
            name: spec.name.clone(),
            host: spec.connection.host.clone(),
            transport: spec.connection.transport.name(),
            direction: spec.connection.direction,
            shape: spec.connection.shape,
            payload_bytes: spec.payload_bytes(),
            payload_law: Some(spec.size.clone()).filter(|size| !size.is_constant()),
            spacing_law: Some(spec.connection.intervals().clone()).filter(|law| !law.is_constant()),
            rate: spec.rate.to_string(),
            rate_schedule: spec.connection.rate_schedule.clone(),
            ..Default::default()
        }
    }
}

fn is_stream(shape: &Shape) -> bool {
    !shape.has_transactions()
}

impl FlowMeta {
    /// Whether its lines have TCP information, and whether they have losses of datagrams. Those of transactions have neither,
    /// except transfers that are sent as datagrams.
    pub fn kinds(&self) -> (bool, bool) {
        let is_stream = is_stream(&self.shape);
        let counts_datagrams = is_stream || self.shape.has_volumes();
        (is_stream && self.transport.tcp_info(), counts_datagrams && self.transport.datagrams())
    }
}

/// The start of a test: the content of the header and the data of the `start` event.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Start {
    /// Id that the run will have.
    pub id: String,
    /// Version of Weir.
    pub version: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// Name of this host, if known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The plan as understood.
    pub plan: Plan,
    /// The flows that it expands to.
    pub flows: Vec<FlowMeta>,
    /// The tool that measured an imported result. Its plan has what the tool's file states; the rest is unknown, not the
    /// default.
    #[serde(skip)]
    pub imported_from: Option<String>,
}

impl From<&Record> for Start {
    fn from(record: &Record) -> Self {
        let connections = connections_of(&record.plan);
        let is_imported = record.labels.contains_key(IMPORTED);
        Start {
            id: record.id.clone(),
            version: record.version.clone(),
            started_at: record.started_at.clone(),
            host: record.local.as_ref().map(|l| l.host.clone()).unwrap_or_default(),
            plan: record.plan.clone(),
            flows: record
                .flows
                .iter()
                .map(|flow| planned(flow, &connections, is_imported))
                .collect(),
            imported_from: imported_from(record),
        }
    }
}

/// The connections of a plan's flows, by their number.
fn connections_of(plan: &Plan) -> Vec<&Connection> {
    plan.connections.iter().flat_map(|c| repeat_n(c, c.count as usize)).collect()
}

/// The tool that measured an imported result, with its version.
pub(crate) fn imported_from(record: &Record) -> Option<String> {
    let tool = record.labels.get(IMPORTED)?;
    let version = record.labels.get(TOOL_VERSION).map(|version| format!(" {version}"));
    Some(format!("{tool}{}", version.unwrap_or_default()))
}

/// A flow with its rate of the plan. That of an imported result is unknown unless it is stated.
fn planned(flow: &Flow, connections: &[&Connection], is_imported: bool) -> FlowMeta {
    let connection = (flow.id as usize).checked_sub(1).and_then(|at| connections.get(at));
    match connection.filter(|c| c.direction == flow.direction && (c.rate.is_some() || !is_imported))
    {
        None => flow.into(),
        Some(c) => FlowMeta {
            rate: c.send_rate().to_string(),
            rate_schedule: c.rate_schedule.clone(),
            ..flow.into()
        },
    }
}

/// A direction of an emulator, named by its interfaces. Which direction of the run it is depends on the client's side.
pub(crate) fn emulator_direction(direction: weir_model::plan::Direction) -> &'static str {
    match direction {
        weir_model::plan::Direction::Forward => "A to B",
        weir_model::plan::Direction::Reverse => "B to A",
    }
}
