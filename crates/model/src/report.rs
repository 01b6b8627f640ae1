//! What one end of a test hands over when it is done. Two of them make a [`crate::record::Record`].

use serde::{Deserialize, Serialize};

use crate::plan::TransportName;
use crate::record::{CpuEnd, Histogram, Host, IntervalCount, Receiver, Sender, Tcp, TcpSample};
use crate::warning::Warning;

/// One end's part of one flow.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EndFlowReport")]
#[serde(default)]
pub struct FlowReport {
    /// Flow number.
    pub id: u32,
    /// This end's address and port.
    pub local: String,
    /// The other end's, as seen from here.
    pub remote: String,
    /// When it sent: what it did.
    pub sender: Option<Sender>,
    /// When it received: what it saw.
    pub receiver: Option<Receiver>,
    /// The transport that carried a stream which fell back from its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carried_by: Option<TransportName>,
    /// TCP information.
    pub tcp: Option<Tcp>,
    /// TCP information over time.
    pub tcp_samples: Vec<TcpSample>,
    /// Distributions.
    pub histograms: Vec<Histogram>,
    /// Time from connect to established.
    pub connect_seconds: Option<f64>,
    /// This flow's intervals, index 0 is the first interval of the test; absent ones counted nothing.
    pub intervals: Vec<IntervalCount>,
    /// Resolution of the receive times.
    pub time_resolution_seconds: Option<f64>,
    /// `user`, `kernel`, or `kernel+user` where some messages came without a kernel stamp.
    pub time_source: Option<String>,
    /// Why it ended early, if it did.
    pub error: Option<String>,
}

/// Everything but the flows of one end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct EndReport {
    /// The host.
    pub host: Option<Host>,
    /// CPU use.
    pub cpu: Option<CpuEnd>,
    /// Warnings raised here.
    pub warnings: Vec<Warning>,
    /// The flows.
    pub flows: Vec<FlowReport>,
}
