//! `weir.run/1`: the record of a run. Text, JSON, CSV, the web page and the report are views of it.
//!
//! Keys end in their SI unit. Parts that were not measured are absent, never zero. 64-bit seeds and
//! nanosecond timestamps are strings, since JSON numbers keep only 53 bits.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{Direction, Plan};
use crate::units::Seed;
use crate::warning::Warning;

macro_rules! record {
    ($(#[$m:meta])* $name:ident { $($(#[$fm:meta])* $field:ident : $ty:ty,)* }) => {
        $(#[$m])*
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        pub struct $name { $($(#[$fm])* pub $field: $ty,)* }
    };
}

mod command;
mod crossing;
mod data_source;
mod demand;
mod echo;
mod flow;
mod host;
mod path;
mod received_file;
pub mod stage;
mod total;
mod transactions;

pub use command::{CommandTime, SurroundingCommand};
pub use crossing::Crossing;
pub use data_source::{DataSource, DataSourceKind};
pub use demand::{ServiceDemand, Side};
pub use echo::Echo;
pub use flow::{
    Delay, DelayVariation, EcnCounts, Flow, LimitedBy, Membership, PathDelaySource, RateChange,
    Receiver, Sender, SizeDraws, Spacing, Tcp, TcpSample, TimeDraws, Voice,
};
pub use host::{
    Build, CalibrationRef, ClockRelation, CoreUse, CpuEnd, CpuFacts, CpuUse, Host, Interface,
    QdiscUse, Server, TimeSource,
};
pub use path::{
    ImpairedFlow, ImpairmentUse, Lateness, LedgerRow, LossLedger, Residual, Triangulation,
};
pub use received_file::ReceivedFile;
pub use total::{
    DirectionTotal, Histogram, Interval, IntervalCount, IntervalEnds, IntervalFlow, IntervalTotals,
    Latency, LinkUsage, RoundTripSeries, Sums, Totals,
};

pub use transactions::{Pages, Transactions, TransferClass, Transfers};

/// The schema name of a record.
pub const RUN_SCHEMA: &str = "weir.run/1";
/// Label of the result of another tool's client that this host served; its value is the tool.
pub const SERVED: &str = "served";
/// Label of a result that was imported from a file of another tool; its value is the tool.
pub const IMPORTED: &str = "imported";
/// Label with the version of the tool that measured an imported result, where its file states it.
pub const TOOL_VERSION: &str = "tool-version";

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The plan was carried out and both ends reported.
    #[default]
    Complete,
    /// A peer became unreachable; the record has the figures until then.
    Partial,
    /// Stopped by the user or a signal; the record has the figures until then.
    Interrupted,
}

record! {
    /// One run: the plan, the hosts, the measurements and their warnings.
    Record {
        /// `weir.run/1`.
        schema: String,
        /// Unique, sortable by time.
        id: String,
        /// Version of Weir that wrote this.
        version: String,
        /// The build of Weir.
        build: Build,
        /// Start, RFC 3339, UTC.
        started_at: String,
        /// Duration of the run from the first start to the last end of sending, without the omitted part.
        seconds: f64,
        /// How it ended.
        status: Status,
        /// Why it ended, in words.
        end_reason: String,
        /// The command line.
        command: Vec<String>,
        /// The plan, defaults included.
        plan: Plan,
        /// SHA-256 of the plan's canonical JSON.
        plan_sha256: String,
        /// Seed of all random values.
        seed: Seed,
        /// Free labels (`--label key=value`).
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        labels: BTreeMap<String, String>,
        /// The kind of peer: `weir`, or another tool.
        peer: String,
        /// The side that ran the command.
        #[serde(skip_serializing_if = "Option::is_none")]
        local: Option<Host>,
        /// The other side, if the test had one server.
        #[serde(skip_serializing_if = "Option::is_none")]
        remote: Option<Host>,
        /// The servers, if the test had several: what `remote`, `latency` and `cpu.remote` state for one.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        servers: Vec<Server>,
        /// Relation of the two clocks; with several servers that with the largest bound.
        #[serde(skip_serializing_if = "Option::is_none")]
        clock: Option<ClockRelation>,
        /// Sources of timestamps.
        #[serde(skip_serializing_if = "Option::is_none")]
        time_source: Option<TimeSource>,
        /// One entry for each flow.
        flows: Vec<Flow>,
        /// Sums for each direction that ran.
        total: Totals,
        /// Both ends' figures for each interval.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        intervals: Vec<Interval>,
        /// Distributions, encoded.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        histograms: Vec<Histogram>,
        /// Round trips measured alongside the test.
        #[serde(skip_serializing_if = "Option::is_none")]
        latency: Option<Latency>,
        /// Individual round trips, if they are few, as in a browser's speed test.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        round_trips: Vec<RoundTripSeries>,
        /// CPU use of both ends during the run.
        #[serde(skip_serializing_if = "Option::is_none")]
        cpu: Option<CpuUse>,
        /// Use of the nominal rate, for each direction that ran.
        #[serde(skip_serializing_if = "Option::is_none")]
        link_usage: Option<LinkUsage>,
        /// Loss ledger: where packets were lost.
        #[serde(skip_serializing_if = "Option::is_none")]
        loss_ledger: Option<LossLedger>,
        /// Configuration and counters of an emulator on the path.
        #[serde(skip_serializing_if = "Option::is_none")]
        impairment: Option<ImpairmentUse>,
        /// The emulator's packet trace and the receiver's packet log, joined packet by packet.
        #[serde(skip_serializing_if = "Option::is_none")]
        triangulation: Option<Triangulation>,
        /// The noise floor of this host, as `weir calibrate` stored it.
        #[serde(skip_serializing_if = "Option::is_none")]
        calibration: Option<CalibrationRef>,
        /// Bytes of control connection, probes and feedback, both directions.
        #[serde(skip_serializing_if = "Option::is_none")]
        control_bytes: Option<u64>,
        /// Time at the start that was left out of the totals.
        #[serde(skip_serializing_if = "Option::is_none")]
        omitted_seconds: Option<f64>,
        /// Loss threshold: time after which a packet counted as lost (RFC 7680).
        #[serde(skip_serializing_if = "Option::is_none")]
        loss_threshold_seconds: Option<f64>,
        /// The file that the client sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        data_source: Option<DataSource>,
        /// Commands of the user before and after the test.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        commands: Vec<SurroundingCommand>,
        /// Warnings about the result.
        warnings: Vec<Warning>,
        /// Expectations and whether they were met.
        #[serde(skip_serializing_if = "Option::is_none")]
        verdict: Option<Verdict>,
    }
}

record! {
    /// Expectations and whether they were met.
    Verdict {
        /// Whether all were met.
        passed: bool,
        /// Result of each expectation.
        expectations: Vec<Expectation>,
    }
}

record! {
    /// One expectation.
    Expectation {
        /// Its text.
        text: String,
        /// Whether it was met.
        passed: bool,
        /// The measured value.
        #[serde(skip_serializing_if = "Option::is_none")]
        measured: Option<f64>,
    }
}

impl Totals {
    /// The sums of a direction, if it ran.
    #[must_use]
    pub fn of(&self, direction: Direction) -> Option<&DirectionTotal> {
        match direction {
            Direction::Forward => self.forward.as_ref(),
            Direction::Reverse => self.reverse.as_ref(),
        }
    }
}

impl Record {
    /// The totals of a direction, if it ran.
    pub fn direction(&self, direction: Direction) -> Option<&DirectionTotal> {
        self.total.of(direction)
    }

    /// Whether both ends run under one kernel, whose host-wide counters both report.
    #[must_use]
    pub fn is_one_host(&self) -> bool {
        self.clock.as_ref().is_some_and(|clock| clock.method == "shared")
    }

    /// Whether both ends are in one network namespace, whose counters both report: then a test crosses loopback.
    #[must_use]
    pub fn is_one_namespace(&self) -> bool {
        let is_loopback = |host: &Option<Host>| {
            let interfaces = host.as_ref().map_or(&[][..], |host| &host.interfaces);
            !interfaces.is_empty() && interfaces.iter().all(|i| i.name == "lo")
        };
        self.is_one_host() && is_loopback(&self.local) && is_loopback(&self.remote)
    }

    /// Numbers of the flows whose sender is that of another flow, ascending. Of a stream to a group with several receivers,
    /// these are all flows but the one whose session saw most of it, since a session may have failed.
    #[must_use]
    pub fn sender_copies(&self) -> Vec<u32> {
        let sent = |f: &Flow| f.sender.as_ref().map(|s| s.packets);
        let mut copies = vec![];
        for stream in self.plan.shared_streams() {
            let of_stream = || self.flows.iter().filter(|f| stream.contains(&f.id));
            // The first of several with as many.
            let whole = of_stream().rev().max_by_key(|f| sent(f)).map(|f| f.id);
            copies.extend(of_stream().map(|f| f.id).filter(|id| Some(*id) != whole));
        }
        copies.sort_unstable();
        copies
    }

    /// Whether a direction's total loss covers the whole run: both ends of all its datagram flows reported
    /// ([`Flow::peer_report_missing`]).
    #[must_use]
    pub fn is_loss_known(&self, direction: Direction) -> bool {
        let mut flows = self.flows.iter().filter(|f| f.direction == direction);
        flows.all(|f| !f.transport.datagrams() || !f.peer_report_missing())
    }
}
