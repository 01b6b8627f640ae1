//! `weir.run/1`: the one record of a run. Text, JSON, CSV, the page and the report are views of it.
//!
//! Keys end in their SI unit. A part that was not measured is absent, never zero. 64-bit seeds and nanosecond
//! stamps are strings, since JSON numbers keep only 53 bits.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::impairment::Impairment;
use crate::plan::{Direction, Family, Plan, Transport};
use crate::units::Seed;
use crate::warning::Warning;

/// The schema name of a record.
pub const RUN_SCHEMA: &str = "weir.run/1";

macro_rules! record {
    ($(#[$m:meta])* $name:ident { $($(#[$fm:meta])* $field:ident : $ty:ty,)* }) => {
        $(#[$m])*
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        pub struct $name { $($(#[$fm])* pub $field: $ty,)* }
    };
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// All that was planned was done and both ends reported.
    #[default]
    Complete,
    /// Something was lost on the way (a peer vanished); what was measured is here.
    Partial,
    /// Stopped by the user or a signal; what was measured is here.
    Interrupted,
}

record! {
    /// One run: what was asked, who ran it, what was measured, and what to think of it.
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
        /// Length of the run from first start to last end of sending, without the omitted part.
        seconds: f64,
        /// How it ended.
        status: Status,
        /// Why it ended, in words.
        end_reason: String,
        /// The command as it was given.
        command: Vec<String>,
        /// The plan as understood, defaults included.
        plan: Plan,
        /// SHA-256 of the plan's canonical JSON.
        plan_sha256: String,
        /// Seed of everything random.
        seed: Seed,
        /// Free labels (`--label key=value`).
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        labels: BTreeMap<String, String>,
        /// The kind of peer: `weir`, or another tool.
        peer: String,
        /// The side that ran the command.
        #[serde(skip_serializing_if = "Option::is_none")]
        local: Option<Host>,
        /// The other side.
        #[serde(skip_serializing_if = "Option::is_none")]
        remote: Option<Host>,
        /// How the two clocks were related.
        #[serde(skip_serializing_if = "Option::is_none")]
        clock: Option<ClockRelation>,
        /// Where times came from.
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
        /// Round trips beside the test.
        #[serde(skip_serializing_if = "Option::is_none")]
        latency: Option<Latency>,
        /// Round trips one by one, where they were few: those of a browser's speed test.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        round_trips: Vec<RoundTripSeries>,
        /// CPU use of both ends during the run.
        #[serde(skip_serializing_if = "Option::is_none")]
        cpu: Option<CpuUse>,
        /// Use of the nominal rate, for each direction that ran.
        #[serde(skip_serializing_if = "Option::is_none")]
        link_usage: Option<LinkUsage>,
        /// Every missing packet placed.
        #[serde(skip_serializing_if = "Option::is_none")]
        loss_ledger: Option<LossLedger>,
        /// What an emulator on the path was asked to do, and did.
        #[serde(skip_serializing_if = "Option::is_none")]
        impairment: Option<ImpairmentUse>,
        /// The emulator's journal and the receiver's packet log joined, packet by packet.
        #[serde(skip_serializing_if = "Option::is_none")]
        triangulation: Option<Triangulation>,
        /// The noise floor of this host, as `weir calibrate` stored it.
        #[serde(skip_serializing_if = "Option::is_none")]
        calibration: Option<CalibrationRef>,
        /// Bytes of control connection and clock probes, both directions.
        #[serde(skip_serializing_if = "Option::is_none")]
        control_bytes: Option<u64>,
        /// Time at the start that was left out of the totals.
        #[serde(skip_serializing_if = "Option::is_none")]
        omitted_seconds: Option<f64>,
        /// A packet was called lost after this time (RFC 7680).
        #[serde(skip_serializing_if = "Option::is_none")]
        loss_threshold_seconds: Option<f64>,
        /// Warnings that travel with the result.
        warnings: Vec<Warning>,
        /// Expectations and whether they were met.
        #[serde(skip_serializing_if = "Option::is_none")]
        verdict: Option<Verdict>,
    }
}

record! {
    /// The build of a program.
    Build {
        /// Commit, where known.
        #[serde(skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
        /// Target triple.
        target: String,
    }
}

record! {
    /// Facts of one host.
    Host {
        /// Host name.
        host: String,
        /// Weir's version there.
        version: String,
        /// Operating system.
        os: String,
        /// Kernel release.
        kernel: String,
        /// Processor.
        cpu: CpuFacts,
        /// Memory.
        memory_bytes: u64,
        /// The hypervisor, if any.
        #[serde(rename = "virtual", skip_serializing_if = "Option::is_none")]
        virtual_machine: Option<String>,
        /// The kernel's clock source.
        #[serde(skip_serializing_if = "Option::is_none")]
        clocksource: Option<String>,
        /// Kernel settings that bear on a network test.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        sysctls: BTreeMap<String, String>,
        /// The interfaces that carried the test.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        interfaces: Vec<Interface>,
        /// Host-wide protocol counters, after less before: `udp_receive_buffer_errors` and the like.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        counters: BTreeMap<String, u64>,
    }
}

record! {
    /// Facts of a processor.
    CpuFacts {
        /// Model name.
        model: String,
        /// Logical processors usable.
        cores: u32,
        /// Frequency governor.
        #[serde(skip_serializing_if = "Option::is_none")]
        governor: Option<String>,
    }
}

record! {
    /// Facts of one interface with its counters before and after.
    Interface {
        /// Name.
        name: String,
        /// Kernel driver.
        #[serde(skip_serializing_if = "Option::is_none")]
        driver: Option<String>,
        /// Link speed where the driver knows one.
        #[serde(skip_serializing_if = "Option::is_none")]
        speed_bits_per_second: Option<u64>,
        /// Maximum transmission unit.
        mtu_bytes: u32,
        /// Offloads by their ethtool names.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        offloads: BTreeMap<String, bool>,
        /// Queueing discipline at the root.
        #[serde(skip_serializing_if = "Option::is_none")]
        qdisc: Option<String>,
        /// Counters before the run, by the kernel's names.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        counters_before: BTreeMap<String, u64>,
        /// Counters after the run.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        counters_after: BTreeMap<String, u64>,
        /// What the outermost queueing disciplines did during the run (RTM_GETQDISC).
        #[serde(skip_serializing_if = "Vec::is_empty")]
        qdiscs: Vec<QdiscUse>,
    }
}

record! {
    /// Counters of one queueing discipline, after less before. What its children drop is in it.
    QdiscUse {
        /// Kind: `fq_codel`, `tbf`, `clsact`.
        kind: String,
        /// `egress`, or `filter` for the hooks of `ingress` and `clsact`.
        hook: String,
        /// Packets that left it.
        sent_packets: u64,
        /// Packets that it dropped.
        dropped_packets: u64,
    }
}

record! {
    /// How the clock of the remote side relates to the local one.
    ClockRelation {
        /// `shared`, `ntp` (by probes of ours, or by the ends' own NTP service) or `ptp`.
        method: String,
        /// What the stated error rests on: `probes`, or the time service of both ends, where that was tighter:
        /// `chrony`, `ntp-kernel`, or this end's and the other's joined by ` and `. Absent when shared.
        #[serde(skip_serializing_if = "Option::is_none")]
        source: Option<String>,
        /// Remote minus local at the start.
        offset_seconds: f64,
        /// Relative rate error of the remote clock.
        skew_ratio: f64,
        /// Bound of the error of a mapped time.
        error_seconds: f64,
        /// Probes that the fit rests on.
        samples: u64,
        /// Smallest round trip among them.
        #[serde(skip_serializing_if = "Option::is_none")]
        min_round_trip_seconds: Option<f64>,
    }
}

record! {
    /// Where times came from.
    TimeSource {
        /// Of sending: `user` or `kernel`.
        send: String,
        /// Of receiving: `user`, `kernel` or `card`; `kernel+user` where some messages came without a kernel stamp
        /// (`receiver.user_timed_messages` tells how many).
        receive: String,
        /// Resolution of the coarser of the two.
        resolution_seconds: f64,
    }
}

record! {
    /// One flow: what its sender did and what its receiver saw.
    Flow {
        /// Number, from 1.
        id: u32,
        /// Name.
        name: String,
        /// Transport.
        transport: Transport,
        /// IP version.
        #[serde(skip_serializing_if = "Option::is_none")]
        family: Option<Family>,
        /// Who sends.
        direction: Direction,
        /// The sender's address and port, as the side that ran the command knows it.
        source: String,
        /// The receiver's.
        destination: String,
        /// Payload of a datagram or of a write.
        payload_bytes: u64,
        /// The sending side.
        #[serde(skip_serializing_if = "Option::is_none")]
        sender: Option<Sender>,
        /// The receiving side: its figure is the result.
        #[serde(skip_serializing_if = "Option::is_none")]
        receiver: Option<Receiver>,
        /// Round trip of this flow where it has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        round_trip: Option<Delay>,
        /// TCP information at the end, of the sending side.
        #[serde(skip_serializing_if = "Option::is_none")]
        tcp: Option<Tcp>,
        /// TCP information over time, of the sending side.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tcp_samples: Vec<TcpSample>,
        /// Time from connect to established.
        #[serde(skip_serializing_if = "Option::is_none")]
        connect_seconds: Option<f64>,
    }
}

record! {
    /// What a sender did.
    Sender {
        /// Payload bytes handed to the network.
        bytes: u64,
        /// Datagrams, or writes of a stream.
        packets: u64,
        /// From the first send to the end of sending.
        seconds: f64,
        /// First send (or the end of the omitted time), since the start of the test on this end's clock.
        #[serde(skip_serializing_if = "Option::is_none")]
        start_seconds: Option<f64>,
        /// End of sending, on the same clock: the planned end where it went on until then, else the last send.
        #[serde(skip_serializing_if = "Option::is_none")]
        end_seconds: Option<f64>,
        /// Payload rate; absent where there is no time that it could be over (one packet, or none).
        #[serde(skip_serializing_if = "Option::is_none")]
        bits_per_second: Option<f64>,
        /// Packet rate; absent as the payload rate is.
        #[serde(skip_serializing_if = "Option::is_none")]
        packets_per_second: Option<f64>,
        /// System calls that sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        io_calls: Option<u64>,
        /// `gso`, `sendmmsg`, `send`, `write` or `sendfile`.
        method: String,
        /// Mean datagrams handed over as one super-packet; above 1 they leave merged.
        #[serde(skip_serializing_if = "Option::is_none")]
        segments_per_message: Option<f64>,
        /// Slots of a paced sender.
        #[serde(skip_serializing_if = "Option::is_none")]
        intended_slots: Option<u64>,
        /// Slots skipped because the backlog passed 100 ms or the policy is `none`.
        #[serde(skip_serializing_if = "Option::is_none")]
        missed_slots: Option<u64>,
        /// Slots served more than one period after their time.
        #[serde(skip_serializing_if = "Option::is_none")]
        late_slots: Option<u64>,
        /// Rate asked for, packets per second.
        #[serde(skip_serializing_if = "Option::is_none")]
        asked_packets_per_second: Option<f64>,
        /// Achieved spacing of a paced sender.
        #[serde(skip_serializing_if = "Option::is_none")]
        spacing: Option<Spacing>,
        /// Socket send buffer as it was got.
        #[serde(skip_serializing_if = "Option::is_none")]
        buffer_bytes: Option<u64>,
        /// Sends refused by a full queue below the socket (ENOBUFS), and retried.
        #[serde(skip_serializing_if = "Option::is_none")]
        queue_full: Option<u64>,
        /// Scheduling class of the thread that sent datagrams: `fifo` when all of them were sent under real-time scheduling (SCHED_FIFO), else `normal`.
        #[serde(skip_serializing_if = "Option::is_none")]
        scheduling: Option<String>,
    }
}

record! {
    /// How evenly a paced sender sent: actual gap less intended gap.
    Spacing {
        /// Intended gap.
        intended_seconds: f64,
        /// Half the range from the 16th to the 84th percentile of the error.
        deviation_seconds: f64,
        /// Median of the error.
        p50_seconds: f64,
        /// 1st percentile of the error (early).
        #[serde(skip_serializing_if = "Option::is_none")]
        p01_seconds: Option<f64>,
        /// 99th percentile of the error (late).
        #[serde(skip_serializing_if = "Option::is_none")]
        p99_seconds: Option<f64>,
        /// Largest absolute error.
        max_seconds: f64,
    }
}

record! {
    /// What a receiver saw.
    Receiver {
        /// Payload bytes that arrived (duplicates left out).
        bytes: u64,
        /// Datagrams that arrived (duplicates left out), or reads of a stream.
        packets: u64,
        /// From the first to the last arrival.
        seconds: f64,
        /// First arrival (after the omitted time), since the start of the test on this end's clock.
        #[serde(skip_serializing_if = "Option::is_none")]
        start_seconds: Option<f64>,
        /// Last arrival, on the same clock.
        #[serde(skip_serializing_if = "Option::is_none")]
        end_seconds: Option<f64>,
        /// Payload rate; absent where there is no time that it could be over (one packet, or none).
        #[serde(skip_serializing_if = "Option::is_none")]
        bits_per_second: Option<f64>,
        /// Packet rate; absent as the payload rate is.
        #[serde(skip_serializing_if = "Option::is_none")]
        packets_per_second: Option<f64>,
        /// System calls that received.
        #[serde(skip_serializing_if = "Option::is_none")]
        io_calls: Option<u64>,
        /// `gro`, `recvmmsg`, `copy` or `discard`.
        method: String,
        /// `merged` when super-packets reached the socket, `cut` when each datagram crossed on its own.
        #[serde(skip_serializing_if = "Option::is_none")]
        crossing: Option<String>,
        /// Mean datagrams for each message received.
        #[serde(skip_serializing_if = "Option::is_none")]
        segments_per_message: Option<f64>,
        /// Datagrams that did not come within the loss threshold (RFC 7680).
        #[serde(skip_serializing_if = "Option::is_none")]
        lost_packets: Option<u64>,
        /// Lost / sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        loss_ratio: Option<f64>,
        /// Came after the loss threshold: counted as lost, and here.
        #[serde(skip_serializing_if = "Option::is_none")]
        late_packets: Option<u64>,
        /// Further copies (RFC 5560).
        #[serde(skip_serializing_if = "Option::is_none")]
        duplicate_packets: Option<u64>,
        /// Sequence below the next expected (RFC 4737).
        #[serde(skip_serializing_if = "Option::is_none")]
        reordered_packets: Option<u64>,
        /// Largest reordering extent in packets (RFC 4737, section 4.2).
        #[serde(skip_serializing_if = "Option::is_none")]
        reordering_extent_max: Option<u64>,
        /// Bad tag, bit errors or truncation.
        #[serde(skip_serializing_if = "Option::is_none")]
        corrupted_packets: Option<u64>,
        /// Bits that differed from the seeded payload, when verified.
        #[serde(skip_serializing_if = "Option::is_none")]
        bit_errors: Option<u64>,
        /// Shorter than sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        truncated_packets: Option<u64>,
        /// Losses in a row: length → how often (RFC 3357). The key `more` gathers the rest.
        #[serde(skip_serializing_if = "Option::is_none")]
        loss_runs: Option<BTreeMap<String, u64>>,
        /// Runs, duplicates or reordering may be wrong (narrow sequences, or a window that was too small).
        #[serde(skip_serializing_if = "Option::is_none")]
        ambiguous: Option<bool>,
        /// Interarrival jitter (RFC 3550, section 6.4.1) at the end.
        #[serde(skip_serializing_if = "Option::is_none")]
        jitter_seconds: Option<f64>,
        /// Packet delay variation (RFC 5481).
        #[serde(skip_serializing_if = "Option::is_none")]
        delay_variation: Option<DelayVariation>,
        /// One-way delay from the actual send time (RFC 7679).
        #[serde(skip_serializing_if = "Option::is_none")]
        one_way_delay: Option<Delay>,
        /// One-way delay from the time at which the schedule meant to send.
        #[serde(skip_serializing_if = "Option::is_none")]
        one_way_delay_from_intended: Option<Delay>,
        /// Messages that came without a kernel stamp and were timed when they were read: their times hold the wait for
        /// the processor.
        #[serde(skip_serializing_if = "Option::is_none")]
        user_timed_messages: Option<u64>,
        /// What times are between: `packet`, or `batch` where packets arrived merged.
        #[serde(skip_serializing_if = "Option::is_none")]
        time_unit: Option<String>,
        /// Dropped by the socket's full buffer.
        #[serde(skip_serializing_if = "Option::is_none")]
        socket_dropped_packets: Option<u64>,
        /// Socket receive buffer as it was got.
        #[serde(skip_serializing_if = "Option::is_none")]
        buffer_bytes: Option<u64>,
    }
}

record! {
    /// Variation of delay.
    DelayVariation {
        /// 99th percentile of delay less minimum delay (RFC 5481 PDV).
        #[serde(skip_serializing_if = "Option::is_none")]
        pdv_p99_seconds: Option<f64>,
        /// 99th percentile of the absolute difference between consecutive packets (RFC 5481 IPDV).
        #[serde(skip_serializing_if = "Option::is_none")]
        ipdv_p99_seconds: Option<f64>,
    }
}

record! {
    /// A distribution of delays. A percentile q is absent below 10/(1−q) samples.
    Delay {
        /// Samples.
        count: u64,
        /// Smallest.
        min_seconds: f64,
        /// Mean.
        mean_seconds: f64,
        /// Median.
        #[serde(skip_serializing_if = "Option::is_none")]
        p50_seconds: Option<f64>,
        /// 90th percentile.
        #[serde(skip_serializing_if = "Option::is_none")]
        p90_seconds: Option<f64>,
        /// 99th percentile.
        #[serde(skip_serializing_if = "Option::is_none")]
        p99_seconds: Option<f64>,
        /// 99.9th percentile.
        #[serde(skip_serializing_if = "Option::is_none")]
        p99_9_seconds: Option<f64>,
        /// 99.99th percentile.
        #[serde(skip_serializing_if = "Option::is_none")]
        p99_99_seconds: Option<f64>,
        /// 99.999th percentile.
        #[serde(skip_serializing_if = "Option::is_none")]
        p99_999_seconds: Option<f64>,
        /// Largest.
        max_seconds: f64,
        /// Bound of the error of each of these figures.
        #[serde(skip_serializing_if = "Option::is_none")]
        error_seconds: Option<f64>,
        /// Samples below zero: the clock relation was off by more than its bound.
        #[serde(skip_serializing_if = "Option::is_none")]
        negative_samples: Option<u64>,
    }
}

record! {
    /// TCP information of the sending side at the end.
    Tcp {
        /// Segments sent again.
        retransmits: u64,
        /// Maximum segment size in use.
        mss_bytes: u32,
        /// Smoothed round trip.
        rtt_seconds: f64,
        /// Smallest round trip seen.
        #[serde(skip_serializing_if = "Option::is_none")]
        min_rtt_seconds: Option<f64>,
        /// Congestion window.
        cwnd_bytes: u64,
        /// Congestion control.
        congestion_control: String,
        /// Send window offered by the peer.
        #[serde(skip_serializing_if = "Option::is_none")]
        send_window_bytes: Option<u64>,
        /// Receive window of the receiver.
        #[serde(skip_serializing_if = "Option::is_none")]
        receive_window_bytes: Option<u64>,
        /// Bytes sent again.
        #[serde(skip_serializing_if = "Option::is_none")]
        retransmitted_bytes: Option<u64>,
        /// Share of busy time limited by the receiver's window.
        #[serde(skip_serializing_if = "Option::is_none")]
        receive_window_limited_ratio: Option<f64>,
        /// Share of busy time limited by the send buffer.
        #[serde(skip_serializing_if = "Option::is_none")]
        send_buffer_limited_ratio: Option<f64>,
        /// Whether timestamps were in use (12 bytes of options in each segment).
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamps: Option<bool>,
    }
}

record! {
    /// TCP information at one moment.
    TcpSample {
        /// Time since the start of the test.
        at_seconds: f64,
        /// Smoothed round trip.
        rtt_seconds: f64,
        /// Round-trip variation.
        rttvar_seconds: f64,
        /// Congestion window.
        cwnd_bytes: u64,
        /// Segments sent again so far.
        retransmits: u64,
        /// Delivery rate estimate.
        #[serde(skip_serializing_if = "Option::is_none")]
        delivery_bits_per_second: Option<f64>,
        /// Pacing rate.
        #[serde(skip_serializing_if = "Option::is_none")]
        pacing_bits_per_second: Option<f64>,
        /// What limited it since the last sample: `congestion`, `receive-window`, `send-buffer` or `application`.
        #[serde(skip_serializing_if = "Option::is_none")]
        limited_by: Option<String>,
    }
}

record! {
    /// Sums of one direction.
    DirectionTotal {
        /// All senders.
        #[serde(skip_serializing_if = "Option::is_none")]
        sender: Option<Sums>,
        /// All receivers.
        #[serde(skip_serializing_if = "Option::is_none")]
        receiver: Option<Sums>,
    }
}

record! {
    /// Sums over flows.
    Sums {
        /// Payload bytes.
        bytes: u64,
        /// Packets.
        packets: u64,
        /// From the first flow's start to the last one's end: rates are of everything over this time.
        seconds: f64,
        /// Start of the first flow, since the start of the test.
        #[serde(skip_serializing_if = "Option::is_none")]
        start_seconds: Option<f64>,
        /// End of the last flow.
        #[serde(skip_serializing_if = "Option::is_none")]
        end_seconds: Option<f64>,
        /// Payload rate; absent where there is no time that it could be over (one packet, or none).
        #[serde(skip_serializing_if = "Option::is_none")]
        bits_per_second: Option<f64>,
        /// Packet rate; absent as the payload rate is.
        #[serde(skip_serializing_if = "Option::is_none")]
        packets_per_second: Option<f64>,
        /// Lost.
        #[serde(skip_serializing_if = "Option::is_none")]
        lost_packets: Option<u64>,
        /// Lost / sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        loss_ratio: Option<f64>,
        /// Late.
        #[serde(skip_serializing_if = "Option::is_none")]
        late_packets: Option<u64>,
        /// Duplicates.
        #[serde(skip_serializing_if = "Option::is_none")]
        duplicate_packets: Option<u64>,
        /// Reordered.
        #[serde(skip_serializing_if = "Option::is_none")]
        reordered_packets: Option<u64>,
        /// Corrupted.
        #[serde(skip_serializing_if = "Option::is_none")]
        corrupted_packets: Option<u64>,
        /// Segments sent again.
        #[serde(skip_serializing_if = "Option::is_none")]
        retransmits: Option<u64>,
        /// Slots missed.
        #[serde(skip_serializing_if = "Option::is_none")]
        missed_slots: Option<u64>,
    }
}

record! {
    /// The directions that ran.
    Totals {
        /// This side sends.
        #[serde(skip_serializing_if = "Option::is_none")]
        forward: Option<DirectionTotal>,
        /// The other side sends.
        #[serde(skip_serializing_if = "Option::is_none")]
        reverse: Option<DirectionTotal>,
    }
}

record! {
    /// One interval.
    Interval {
        /// Start, since the start of the test.
        start_seconds: f64,
        /// End.
        end_seconds: f64,
        /// Left out of the totals (`-O`).
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        omitted: bool,
        /// Each flow's part.
        flows: Vec<IntervalFlow>,
        /// Sums for each direction.
        total: IntervalTotals,
    }
}

record! {
    /// The directions' sums of one interval.
    IntervalTotals {
        /// This side sends.
        #[serde(skip_serializing_if = "Option::is_none")]
        forward: Option<IntervalEnds>,
        /// The other side sends.
        #[serde(skip_serializing_if = "Option::is_none")]
        reverse: Option<IntervalEnds>,
    }
}

record! {
    /// Both ends of one direction in one interval.
    IntervalEnds {
        /// Sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        sender: Option<IntervalCount>,
        /// Received.
        #[serde(skip_serializing_if = "Option::is_none")]
        receiver: Option<IntervalCount>,
    }
}

record! {
    /// One flow in one interval.
    IntervalFlow {
        /// Flow number.
        id: u32,
        /// Sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        sender: Option<IntervalCount>,
        /// Received.
        #[serde(skip_serializing_if = "Option::is_none")]
        receiver: Option<IntervalCount>,
    }
}

record! {
    /// What one end counted in one interval.
    IntervalCount {
        /// Payload bytes.
        bytes: u64,
        /// Packets.
        packets: u64,
        /// Payload rate; absent where there is no time that it could be over (one packet, or none).
        #[serde(skip_serializing_if = "Option::is_none")]
        bits_per_second: Option<f64>,
        /// Packet rate; absent as the payload rate is.
        #[serde(skip_serializing_if = "Option::is_none")]
        packets_per_second: Option<f64>,
        /// Lost, attributed to the interval in which the gap was passed.
        #[serde(skip_serializing_if = "Option::is_none")]
        lost_packets: Option<u64>,
        /// Duplicates.
        #[serde(skip_serializing_if = "Option::is_none")]
        duplicate_packets: Option<u64>,
        /// Reordered.
        #[serde(skip_serializing_if = "Option::is_none")]
        reordered_packets: Option<u64>,
        /// Jitter at the end of the interval.
        #[serde(skip_serializing_if = "Option::is_none")]
        jitter_seconds: Option<f64>,
        /// Mean one-way delay.
        #[serde(skip_serializing_if = "Option::is_none")]
        mean_delay_seconds: Option<f64>,
        /// Segments sent again.
        #[serde(skip_serializing_if = "Option::is_none")]
        retransmits: Option<u64>,
        /// Congestion window.
        #[serde(skip_serializing_if = "Option::is_none")]
        cwnd_bytes: Option<u64>,
        /// Smoothed round trip.
        #[serde(skip_serializing_if = "Option::is_none")]
        rtt_seconds: Option<f64>,
    }
}

record! {
    /// A distribution, encoded.
    Histogram {
        /// Flow number.
        #[serde(skip_serializing_if = "Option::is_none")]
        flow: Option<u32>,
        /// Which metric, in nanoseconds.
        metric: String,
        /// `hdr-v2`: HdrHistogram V2, base64.
        encoding: String,
        /// The bytes.
        data: String,
    }
}

record! {
    /// Round trips beside the test (RFC 2681), idle and loaded.
    Latency {
        /// How they were measured: `udp` or `tcp` (over the control connection).
        method: String,
        /// Before the load.
        #[serde(skip_serializing_if = "Option::is_none")]
        idle: Option<Delay>,
        /// During the load.
        #[serde(skip_serializing_if = "Option::is_none")]
        loaded: Option<Delay>,
        /// Probes sent in the idle and in the loaded phase.
        sent: u64,
        /// Probes that never came back.
        lost: u64,
        /// 60 / mean loaded round trip (responsiveness in round trips per minute).
        #[serde(skip_serializing_if = "Option::is_none")]
        responsiveness_per_minute: Option<f64>,
    }
}

record! {
    /// Round trips in the order in which they were asked for.
    RoundTripSeries {
        /// Beside what: `idle`, `download` or `upload`.
        phase: String,
        /// Each one.
        seconds: Vec<f64>,
    }
}

record! {
    /// CPU use of both ends.
    CpuUse {
        /// This side.
        #[serde(skip_serializing_if = "Option::is_none")]
        local: Option<CpuEnd>,
        /// The other side.
        #[serde(skip_serializing_if = "Option::is_none")]
        remote: Option<CpuEnd>,
    }
}

record! {
    /// CPU use of one host, as shares of all its processors, and of Weir's process alone.
    CpuEnd {
        /// User mode.
        user_ratio: f64,
        /// Kernel mode.
        system_ratio: f64,
        /// Interrupts, hard and soft.
        irq_ratio: f64,
        /// Taken by the hypervisor.
        steal_ratio: f64,
        /// This process, in processors (1.0 is one core), user.
        process_user_ratio: f64,
        /// This process, system.
        process_system_ratio: f64,
        /// The busiest processor.
        #[serde(skip_serializing_if = "Option::is_none")]
        busiest_core_ratio: Option<f64>,
    }
}

record! {
    /// Use of a nominal rate at four levels.
    LinkUsage {
        /// The rate that it is measured against.
        nominal_bits_per_second: u64,
        /// Where the rate is from: `stated` or the interface's name.
        source: String,
        /// Payload.
        payload_ratio: f64,
        /// With transport and IP headers.
        ip_ratio: f64,
        /// With Ethernet header and FCS (18 B).
        ethernet_ratio: f64,
        /// With preamble and gap (20 B).
        wire_ratio: f64,
        /// The direction that it is for (the busier one when both ran).
        direction: Direction,
    }
}

record! {
    /// Every missing packet placed; sums are conserved.
    LossLedger {
        /// The places.
        rows: Vec<LedgerRow>,
        /// What could not be placed.
        remainder_packets: i64,
        /// Sent less received: what the rows and the remainder add up to.
        missing_packets: i64,
    }
}

impl LossLedger {
    /// Computes the remainder anew from what is missing and the rows: all that is counted exactly is placed; a bound may
    /// count other traffic, or fewer buffers than datagrams, and explains at most what is left.
    pub fn settle(&mut self) {
        let sum = |kind: &str| {
            self.rows.iter().filter(|r| r.kind == kind).map(|r| r.packets as i64).sum::<i64>()
        };
        let left = self.missing_packets - sum("exact");
        self.remainder_packets = if left > 0 { left - sum("bound").min(left) } else { left };
    }
}

record! {
    /// One place where packets were lost.
    LedgerRow {
        /// `application`, `qdisc`, `card tx`, `path`, `card rx`, `softnet`, `socket overflow`, `late`, …
        stage: String,
        /// Packets.
        packets: u64,
        /// The counter that tells it.
        source: String,
        /// `exact` or `bound`.
        kind: String,
        /// Which side: `local` or `remote`.
        #[serde(skip_serializing_if = "Option::is_none")]
        side: Option<String>,
    }
}

record! {
    /// An emulator's part in a run.
    ImpairmentUse {
        /// What was asked of it.
        config: Impairment,
        /// What each of its flows saw, in each direction.
        flows: Vec<ImpairedFlow>,
    }
}

record! {
    /// One flow of an emulator in one direction.
    ImpairedFlow {
        /// Name; `other` for what no filter matched.
        name: String,
        /// `forward` is A to B.
        direction: Direction,
        /// `received_packets`, `lost_packets`, `queue_dropped_packets`, `unplanned_dropped_packets` and the like.
        counters: BTreeMap<String, u64>,
        /// Its laws in one line.
        asked: String,
        /// Shares and delays as they came out, by names that end in their unit.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        realised: BTreeMap<String, f64>,
        /// Departure less deadline.
        #[serde(skip_serializing_if = "Option::is_none")]
        lateness: Option<Lateness>,
    }
}

record! {
    /// How late an emulator's packets left.
    Lateness {
        /// Packets.
        count: u64,
        /// Median; absent with few packets.
        #[serde(skip_serializing_if = "Option::is_none")]
        p50_seconds: Option<f64>,
        /// 99th percentile; absent with few packets.
        #[serde(skip_serializing_if = "Option::is_none")]
        p99_seconds: Option<f64>,
        /// Largest.
        max_seconds: f64,
    }
}

record! {
    /// Three opinions on each packet: what was asked, what an emulator did, what the receiver saw.
    Triangulation {
        /// Packets on whose fate emulator and receiver agree.
        matched_packets: u64,
        /// Packets on whose fate they do not.
        disagreeing_packets: u64,
        /// Fates, copies included, that are as predicted from laws, seed and times of entry.
        predicted_fates: u64,
        /// Fates that are not.
        unpredicted_fates: u64,
        /// Measured delay less the emulator's: the error of tool and hosts. An emulator's time of departure is read after
        /// the kernel took the frame, so that it may be negative.
        #[serde(skip_serializing_if = "Option::is_none")]
        residual: Option<Residual>,
    }
}

record! {
    /// Distribution of a difference of delays.
    Residual {
        /// Packets.
        count: u64,
        /// Least.
        min_seconds: f64,
        /// Median.
        p50_seconds: f64,
        /// 99th percentile, nearest rank.
        p99_seconds: f64,
        /// Greatest.
        max_seconds: f64,
    }
}

record! {
    /// The noise floor beside a result.
    CalibrationRef {
        /// Which calibration.
        id: String,
        /// When.
        at: String,
        /// Its figures by name, in seconds or ratios as the names end.
        noise_floor: BTreeMap<String, f64>,
    }
}

record! {
    /// Expectations and whether they were met.
    Verdict {
        /// All met.
        passed: bool,
        /// Each one.
        expectations: Vec<Expectation>,
    }
}

record! {
    /// One expectation.
    Expectation {
        /// As it was written.
        text: String,
        /// Met.
        passed: bool,
        /// What was measured.
        #[serde(skip_serializing_if = "Option::is_none")]
        measured: Option<f64>,
    }
}

impl Record {
    /// The total of a direction, if it ran.
    pub fn direction(&self, direction: Direction) -> Option<&DirectionTotal> {
        match direction {
            Direction::Forward => self.total.forward.as_ref(),
            Direction::Reverse => self.total.reverse.as_ref(),
        }
    }
}
