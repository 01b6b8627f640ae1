//! The report of an emulator: counters, requested and realised laws, lateness, alarms.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use weir_impair::{Peaks, TimelineStatus, TriggerStatus};
use weir_model::impairment::{Counters, Impairment, Laws, TriggerCondition, TriggerState};
use weir_model::plan::Direction;
use weir_model::record::{ImpairedFlow, ImpairmentUse, Lateness};

use crate::alarm::{Alarm, AlarmThresholds};
use crate::fidelity::{Fidelity, lost_by_law};
use crate::recording::RecordingReport;

/// The schema's name.
pub const REPORT_SCHEMA: &str = "weir.impair-report/1";

/// The whole report, so far or final.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorReport")]
pub struct Report {
    /// [`REPORT_SCHEMA`].
    pub schema: String,
    /// Interface A, interface B.
    pub interfaces: [String; 2],
    /// The types of the links, A first, and why.
    pub links: Vec<String>,
    /// Time since the start, s.
    pub seconds: f64,
    /// Why it ended; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<String>,
    /// Requested and realised, as in a record.
    pub impairment: ImpairmentReport,
    /// Totals of each direction, A to B first; their flows are in `impairment`.
    pub directions: Vec<DirectionReport>,
    /// Configurations that were applied, the first included.
    pub configurations: Vec<AppliedConfiguration>,
    /// Alarms so far, without those that a user has cleared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<Alarm>,
    /// Thresholds above which alarms are raised; absent for a capture, which has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm_thresholds: Option<AlarmThresholds>,
    /// The packet trace, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_trace: Option<PacketTraceReport>,
    /// Captures and logs: those that are running, and the latest that have ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recordings: Vec<RecordingReport>,
    /// Features that were unavailable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Report {
    /// The emulator's part in a run, as in its record: counters between an earlier report and this one, or since the
    /// start without one.
    ///
    /// Minimum and maximum delay and the lateness of a flow cover the time since the start: they are omitted for a
    /// flow that had sent packets before.
    #[must_use]
    pub fn used_since(&self, before: Option<&Report>) -> ImpairmentUse {
        let earlier = |flow: &FlowReport| {
            let all = before.into_iter().flat_map(|report| &report.impairment.flows);
            all.into_iter().find(|old| (&old.name, old.direction) == (&flow.name, flow.direction))
        };
        let flows = self.impairment.flows.iter().map(|flow| {
            let old = earlier(flow);
            let old_counters = old.map(|old| by_name::<u64>(&old.counters)).unwrap_or_default();
            let mut counters = by_name::<u64>(&flow.counters);
            for (name, count) in &mut counters {
                *count = count.saturating_sub(old_counters.get(name).copied().unwrap_or(0));
            }
            let is_fresh = old.is_none_or(|old| old.counters.received_packets == 0);
            let realised =
                if is_fresh { flow.realised } else { realised_since(flow, old, &counters) };
            ImpairedFlow {
                name: flow.name.clone(),
                direction: flow.direction,
                asked: flow.asked.clone(),
                realised: by_name(&realised),
                lateness: flow.lateness.as_ref().filter(|_| is_fresh).map(|late| Lateness {
                    count: late.count,
                    p50_seconds: late.p50_seconds,
                    p99_seconds: late.p99_seconds,
                    max_seconds: late.max_seconds,
                }),
                counters,
            }
        });
        let is_new = |number: u64| {
            before.is_some_and(|report| report.configurations.iter().all(|c| c.number < number))
        };
        let changes =
            self.configurations.iter().filter(|c| c.is_change && is_new(c.number)).count() as u64;
        let cpu = |report: &Report| -> u64 {
            report.directions.iter().map(|direction| direction.link.cpu_nanoseconds).sum()
        };
        let cpu_nanoseconds = cpu(self).saturating_sub(before.map_or(0, cpu));
        ImpairmentUse {
            config: self.impairment.config.clone(),
            changes: (changes > 0).then_some(changes),
            client_side: None,
            cpu_seconds: Some(cpu_nanoseconds as f64 / 1e9),
            flows: flows.collect(),
        }
    }

    /// Frames that a direction's links lost since an earlier report, before or after a flow counted them.
    #[must_use]
    pub fn link_dropped_since(&self, before: &Report) -> [u64; 2] {
        let of = |report: &Report, i: usize| {
            report.directions.get(i).map_or(0, |d| d.link.unplanned_packets())
        };
        [0, 1].map(|i| of(self, i).saturating_sub(of(before, i)))
    }
}

/// Ratios of the counters since an earlier report, and the mean delay of the packets sent since.
fn realised_since(
    flow: &FlowReport,
    old: Option<&FlowReport>,
    counters: &BTreeMap<String, u64>,
) -> Realised {
    let count = |name: &str| counters.get(name).copied().unwrap_or(0);
    let mut realised = Realised::of(&Counters {
        received_packets: count("received_packets"),
        sent_packets: count("sent_packets"),
        lost_packets: count("lost_packets"),
        loss_bursts: count("loss_bursts"),
        policed_packets: count("policed_packets"),
        too_long_packets: count("too_long_packets"),
        duplicated_packets: count("duplicated_packets"),
        modified_packets: count("modified_packets"),
        reordered_packets: count("reordered_packets"),
        ..Counters::default()
    });
    let sum = |flow: &FlowReport| {
        let count = flow.lateness.as_ref()?.count as f64;
        Some((count, flow.realised.delay_mean_seconds? * count))
    };
    if let (Some((n, all)), Some((old_n, old_all))) = (sum(flow), old.and_then(sum))
        && n > old_n
    {
        realised.delay_mean_seconds = Some((all - old_all) / (n - old_n));
    }
    realised
}

/// The fields of a flat structure of numbers.
fn by_name<T: serde::de::DeserializeOwned>(fields: &impl Serialize) -> BTreeMap<String, T> {
    let value = serde_json::to_value(fields).and_then(serde_json::from_value);
    value.unwrap_or_default()
}

/// Requested and realised laws.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorImpairment")]
pub struct ImpairmentReport {
    /// The configuration in force.
    pub config: Impairment,
    /// Each flow and direction; Other first, A to B first.
    pub flows: Vec<FlowReport>,
}

/// One flow in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorFlow")]
pub struct FlowReport {
    /// Name; `other` for packets that no filter matches.
    pub name: String,
    /// `forward` is A to B.
    pub direction: Direction,
    /// Hop that it is in, from 1.
    pub hop: u8,
    /// Whether the configuration in force has it.
    pub active: bool,
    /// What it saw.
    pub counters: Counters,
    /// Its laws in one line; long lists end with `…`.
    pub asked: String,
    /// The figures that its laws ask for.
    #[serde(default)]
    pub asked_figures: AskedFigures,
    /// Its counters.
    pub realised: Realised,
    /// The same figures since these laws were applied, or since a later reset.
    pub current: CurrentReport,
    /// Departure minus deadline; absent if nothing left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<LatenessReport>,
    /// Whether its verdicts go to the packet trace; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<bool>,
    /// Its trigger; absent if its laws are always applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<TriggerReport>,
}

/// The trigger of a flow and direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorTrigger")]
pub struct TriggerReport {
    /// Whether the laws are applied now.
    pub state: TriggerState,
    /// Number of times that the laws have been applied, the current one included.
    pub applications: u64,
    /// The condition that changes the state next; absent if none will.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<TriggerCondition>,
}

/// A trigger with its flow, in the answer to `show`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowTrigger {
    /// Name of the flow.
    pub name: String,
    /// `forward` is A to B.
    pub direction: Direction,
    /// Its trigger.
    #[serde(flatten)]
    pub trigger: TriggerReport,
}

impl TriggerReport {
    pub(crate) fn new(status: TriggerStatus, condition: Option<&TriggerCondition>) -> Self {
        let TriggerStatus { state, applications } = status;
        TriggerReport { state, applications, condition: condition.cloned() }
    }
}

/// The position of a direction in the timeline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorTimeline")]
pub struct TimelineReport {
    /// Number of loops that have started, the current one included.
    pub loops: u64,
    /// Number of changes made in this loop.
    pub changes: u64,
    /// Time since the start of this loop, s, multiplied by the speed, and so comparable with the times of the changes.
    pub position_seconds: f64,
}

impl From<TimelineStatus> for TimelineReport {
    fn from(status: TimelineStatus) -> Self {
        let TimelineStatus { loops, changes, position_ns } = status;
        TimelineReport { loops, changes: changes as u64, position_seconds: position_ns / 1e9 }
    }
}

/// What the laws of a flow and direction ask for, as figures that can be compared with [`Realised`] ones; absent without
/// a law, and with a trigger, which applies them to a part of the packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorAsked")]
pub struct AskedFigures {
    /// Mean loss, of received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_ratio: Option<f64>,
    /// Mean length of a burst of losses, packets (RFC 3357, loss period).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_burst_mean_packets: Option<f64>,
    /// Copies, of the packets that are not lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_ratio: Option<f64>,
    /// Moved behind a later packet by a reorder law, of sent; absent if it depends on the spacing of packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordered_ratio: Option<f64>,
    /// Changed, of sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ratio: Option<f64>,
    /// The rate that its packets may use, framing included; of a trace the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits_per_second: Option<u64>,
    /// Mean of the delay law, s; absent if the law has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_mean_seconds: Option<f64>,
    /// Standard deviation of the delay law, s; absent if the law has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_deviation_seconds: Option<f64>,
}

impl AskedFigures {
    pub(crate) fn of(laws: &Laws) -> Self {
        if laws.trigger.is_some() {
            return AskedFigures::default();
        }
        let delay = laws.delay.as_ref().and_then(|law| law.moments());
        let loss = laws.loss.as_ref().filter(|law| !law.ecn);
        AskedFigures {
            loss_ratio: loss.and_then(|law| law.mean()),
            loss_burst_mean_packets: loss.and_then(|law| law.moments()?.burst),
            duplicate_ratio: laws.duplicate.as_ref().map(|law| law.mean()),
            reordered_ratio: laws.reorder.as_ref().and_then(|law| law.mean()),
            modified_ratio: laws.content.as_ref().and_then(|law| law.mean()),
            bits_per_second: laws.rate.as_ref().map(|law| law.bits.mean().0),
            delay_mean_seconds: delay.and_then(|m| m.mean_ns).map(|ns| ns / 1e9),
            delay_deviation_seconds: delay.and_then(|m| m.deviation_ns).map(|ns| ns / 1e9),
        }
    }
}

/// Figures of one flow and direction for the current period. A period starts with the emulator, when other laws are
/// applied to the flow in this direction, and at a reset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorCurrent")]
pub struct CurrentReport {
    /// Start of the period, s since the start of the emulator.
    pub start_seconds: f64,
    /// Length of the period so far, s.
    pub seconds: f64,
    /// Why the period started.
    pub reason: PeriodReason,
    /// Counted in the period. A packet that was queued at its start counts when it leaves.
    pub counters: Counters,
    /// Ratios of these counters, and delays of packets that arrived in the period.
    pub realised: Realised,
    /// Whether this can come from the laws; absent without laws and without packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fidelity: Option<Fidelity>,
}

/// Why a period of counting started.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[schemars(rename = "EmulatorPeriodReason")]
#[serde(rename_all = "snake_case")]
pub enum PeriodReason {
    /// The emulator started.
    #[default]
    Start,
    /// Other laws were applied to the flow.
    Laws,
    /// The counters were reset.
    Reset,
}

/// Realised ratios and delays; absent if nothing was received or sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorRealised")]
#[serde(default)]
pub struct Realised {
    /// Dropped by a loss law, of received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_ratio: Option<f64>,
    /// Mean length of a burst of losses by a loss law, packets (RFC 3357, loss period); with several threads in the packets of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_burst_mean_packets: Option<f64>,
    /// Length of the longest burst, packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_burst_max_packets: Option<u64>,
    /// Copied, of received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate_ratio: Option<f64>,
    /// Changed, of sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified_ratio: Option<f64>,
    /// Reordered, of sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reordered_ratio: Option<f64>,
    /// Minimum delay, s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_min_seconds: Option<f64>,
    /// Mean delay, s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_mean_seconds: Option<f64>,
    /// Greatest, s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_max_seconds: Option<f64>,
    /// Standard deviation of the delay, s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_deviation_seconds: Option<f64>,
    /// Maximum number of packets that waited in the queue of the flow's rate together, as one of the flow arrived. Absent if none
    /// waited, or the queue is limited by time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_max_packets: Option<u64>,
    /// Their maximum number of bytes, with framing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_max_bytes: Option<u64>,
    /// Maximum time in that queue, s; absent if none waited, or an AQM manages the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_max_seconds: Option<f64>,
}

impl Realised {
    pub(crate) fn of(counters: &Counters) -> Self {
        let share = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
        Realised {
            loss_ratio: share(lost_by_law(counters), counters.received_packets),
            loss_burst_mean_packets: share(lost_by_law(counters), counters.loss_bursts),
            duplicate_ratio: share(counters.duplicated_packets, counters.received_packets),
            modified_ratio: share(counters.modified_packets, counters.sent_packets),
            reordered_ratio: share(counters.reordered_packets, counters.sent_packets),
            ..Realised::default()
        }
    }

    /// Fills in the largest values.
    pub(crate) fn set_peaks(&mut self, peaks: &Peaks) {
        let some = |value: u64| (value > 0).then_some(value);
        self.loss_burst_max_packets = some(peaks.loss_burst_packets);
        self.queue_max_packets = some(peaks.queue_packets);
        self.queue_max_bytes = some(peaks.queue_bytes);
        self.queue_max_seconds = some(peaks.queue_wait_ns).map(|ns| ns as f64 / 1e9);
    }
}

/// Lateness: departure (when the kernel had taken the frame) minus deadline (arrival stamp plus the laws' delay).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorLateness")]
pub struct LatenessReport {
    /// Packets.
    pub count: u64,
    /// Median, s; absent below 20 packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_seconds: Option<f64>,
    /// 99th percentile, s; absent below 1000 packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_seconds: Option<f64>,
    /// Largest, s.
    pub max_seconds: f64,
    /// Encoding of the histogram in ns: `hdr-v2`.
    pub encoding: String,
    /// The histogram, base64.
    pub data: String,
}

/// Totals of a direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorDirection")]
pub struct DirectionReport {
    /// `forward` is A to B.
    pub direction: Direction,
    /// Packets judged.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets sent on.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets lost without a law: of flows, exempt frames and the link.
    pub unplanned_dropped_packets: u64,
    /// Frames exempt from the laws, not counted above: ARP, ICMPv6 neighbour discovery and frames to
    /// 01:80:C2:00:00:0X, unless the configuration includes them.
    pub exempt_packets: u64,
    /// Their bytes.
    pub exempt_bytes: u64,
    /// Packets held now.
    pub held_packets: u64,
    /// Packets that left more than 1 ms after their deadline.
    pub late_packets: u64,
    /// The link's own counters.
    pub link: LinkReport,
    /// The position in the timeline; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineReport>,
    /// Its flows; in a [`Report`] they are in `impairment`.
    #[serde(skip)]
    pub flows: Vec<FlowReport>,
}

/// Counters of the links for a direction.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[schemars(rename = "EmulatorLink")]
pub struct LinkReport {
    /// Frames that the kernel dropped because the receive ring was full.
    pub kernel_dropped_packets: u64,
    /// Frames that the kernel dropped because they were too long for the link: mostly super-packets.
    #[serde(default)]
    pub oversized_packets: u64,
    /// Frames without memory.
    pub memory_dropped_packets: u64,
    /// Frames that could not be read completely.
    pub unusable_packets: u64,
    /// Frames that the outgoing interface refused; counted in their flows too.
    pub refused_packets: u64,
    /// Frames that the outgoing interface took and its driver dropped; counted as sent in their flows.
    pub driver_dropped_packets: u64,
    /// Frames left in the receive ring at the end.
    #[serde(default)]
    pub left_behind_packets: u64,
    /// Super-packets that arrived: frames coalesced by segmentation offload. Laws decide on each of their segments.
    pub super_packets: u64,
    /// Super-packets that left: consecutive segments that the laws did not separate.
    #[serde(default)]
    pub sent_super_packets: u64,
    /// Times that the outgoing link had no room.
    pub times_full: u64,
    /// Steps of the realtime clock, from the receive stamps.
    pub clock_steps: u64,
    /// CPU time of the direction's threads, ns.
    pub cpu_nanoseconds: u64,
}

impl LinkReport {
    #[cfg(target_os = "linux")]
    /// Adds what another worker of the direction counted.
    pub(crate) fn add(&mut self, other: &LinkReport) {
        self.kernel_dropped_packets += other.kernel_dropped_packets;
        self.oversized_packets += other.oversized_packets;
        self.memory_dropped_packets += other.memory_dropped_packets;
        self.unusable_packets += other.unusable_packets;
        self.refused_packets += other.refused_packets;
        self.driver_dropped_packets += other.driver_dropped_packets;
        self.left_behind_packets += other.left_behind_packets;
        self.super_packets += other.super_packets;
        self.sent_super_packets += other.sent_super_packets;
        self.times_full += other.times_full;
        // Each worker sees the same steps.
        self.clock_steps = self.clock_steps.max(other.clock_steps);
        self.cpu_nanoseconds += other.cpu_nanoseconds;
    }

    /// Packets lost without a law that no flow counts.
    #[must_use]
    pub fn unplanned_packets(&self) -> u64 {
        self.kernel_dropped_packets
            + self.oversized_packets
            + self.memory_dropped_packets
            + self.unusable_packets
            + self.driver_dropped_packets
            + self.left_behind_packets
    }
}

/// UDP datagrams that were dropped or damaged since a watch started: the answer to `drops` on the control socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DropsReport {
    /// By direction, flow and addresses. Control datagrams of the native protocol are not included.
    pub rows: Vec<DropsRow>,
    /// Later fragments of datagrams: they carry no ports.
    pub later_fragments: DropCounts,
    /// Dropped datagrams of address pairs beyond the limit of a watch, 16 384 for each direction.
    pub uncounted_packets: u64,
    /// Control datagrams of the native protocol that were damaged, A to B first.
    pub damaged_control_packets: [u64; 2],
}

/// Packets by what dropped or damaged them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropCounts {
    /// Dropped by a loss law.
    pub lost_packets: u64,
    /// Dropped by a full queue.
    pub queue_dropped_packets: u64,
    /// Dropped by the emulator itself.
    pub unplanned_dropped_packets: u64,
    /// Forwarded with a checksum that a content law left wrong.
    pub damaged_packets: u64,
}

/// Dropped and damaged datagrams of one flow between two addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropsRow {
    /// `forward` is A to B.
    pub direction: Direction,
    /// The emulator's flow.
    pub flow: String,
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// How many.
    #[serde(flatten)]
    pub packets: DropCounts,
}

/// A configuration that was applied.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorAppliedConfiguration")]
pub struct AppliedConfiguration {
    /// 0 for the initial one.
    pub number: u64,
    /// Whether it differs from the previous one.
    pub is_change: bool,
    /// When, in each direction, s since the start.
    pub at_seconds: [f64; 2],
}

/// The packet trace's counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorPacketTrace")]
pub struct PacketTraceReport {
    /// Its file.
    pub path: String,
    /// Records written.
    pub records: u64,
    /// Records dropped because of the queue, the disk or the limit.
    pub dropped_records: u64,
    /// Writing failed; nothing was written after that.
    pub failed: bool,
    /// Bytes so far, including the configurations; some may not be in the file yet.
    #[serde(default)]
    pub bytes: u64,
    /// Maximum; absent: limited by the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
}
