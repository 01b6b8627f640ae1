//! The final report of one end of a test. Two of them make a [`crate::record::Record`].

use serde::{Deserialize, Serialize};

use crate::plan::TransportName;
use crate::record::{
    CpuEnd, Histogram, Host, IntervalCount, ReceivedFile, Receiver, Sender, Tcp, TcpSample,
    Transactions,
};
use crate::warning::Warning;

/// One flow in the report of one end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EndFlowReport")]
#[serde(default)]
pub struct FlowReport {
    /// Flow number.
    pub id: u32,
    /// This end's address and port.
    pub local: String,
    /// The other end's address and port, as seen from this end.
    pub remote: String,
    /// Figures of the sender, if this end sent.
    pub sender: Option<Sender>,
    /// Figures of the receiver, if this end received.
    pub receiver: Option<Receiver>,
    /// Transactions, if this end sent the requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transactions: Option<Transactions>,
    /// What came back to this end of the data that it sent; its delays are round trips.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub echo: Option<Receiver>,
    /// Datagrams that this end was to send back, but its system did not accept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unechoed_packets: Option<u64>,
    /// The file in which this end stored what it received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_file: Option<ReceivedFile>,
    /// The transport that a stream fell back to.
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
    /// This flow's intervals; index 0 is the test's first interval, and missing ones have no counts.
    pub intervals: Vec<IntervalCount>,
    /// Resolution of the receive times.
    pub time_resolution_seconds: Option<f64>,
    /// `user`, `kernel`, or `kernel+user` if some messages came without a kernel timestamp.
    pub time_source: Option<String>,
    /// Reason for an early end, if there was one.
    pub error: Option<String>,
}

/// The report of one end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct EndReport {
    /// The host.
    pub host: Option<Host>,
    /// CPU use.
    pub cpu: Option<CpuEnd>,
    /// Warnings raised at this end.
    pub warnings: Vec<Warning>,
    /// The flows.
    pub flows: Vec<FlowReport>,
}
