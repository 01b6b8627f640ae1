//! Sums over flows and over time: totals, intervals, histograms, latency, link usage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Delay, LimitedBy};
use crate::plan::Direction;

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
        /// From the first flow's start to the last one's end; rates are totals over this time.
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
        /// Datagrams with an implausible number.
        #[serde(skip_serializing_if = "Option::is_none")]
        implausible_packets: Option<u64>,
        /// Segments retransmitted.
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
        /// Whether it is omitted from the totals (`-O`).
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        omitted: bool,
        /// Figures of each flow.
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
        /// Flows that ran. This and the next two fields are present only if figures of some flows were missing, so that `sender` or `receiver` is the sum of fewer flows than ran.
        #[serde(skip_serializing_if = "Option::is_none")]
        flows: Option<u32>,
        /// Number of flows in the sum `sender`.
        #[serde(skip_serializing_if = "Option::is_none")]
        sender_flows: Option<u32>,
        /// Number of flows in the sum `receiver`.
        #[serde(skip_serializing_if = "Option::is_none")]
        receiver_flows: Option<u32>,
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
    /// Figures of one end in one interval.
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
        /// Lost packets, in the interval in which they would have arrived: numbers missing between two arrivals are spread evenly over the time between the two.
        #[serde(skip_serializing_if = "Option::is_none")]
        lost_packets: Option<u64>,
        /// In the lines of a running test: change, since the previous line, of the known losses in earlier intervals; negative if missing datagrams arrived after all. These and the losses of all lines add up to the known losses. Never in a record, whose intervals are final.
        #[serde(skip_serializing_if = "Option::is_none")]
        earlier_lost_packets: Option<i64>,
        /// In live figures: known losses in earlier intervals, with those of the omitted start apart. Not serialized.
        #[serde(skip)]
        lost_before_packets: Option<u64>,
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
        /// Segments retransmitted.
        #[serde(skip_serializing_if = "Option::is_none")]
        retransmits: Option<u64>,
        /// Congestion window at the end of the interval.
        #[serde(skip_serializing_if = "Option::is_none")]
        cwnd_bytes: Option<u64>,
        /// Smoothed round trip at the end of the interval.
        #[serde(skip_serializing_if = "Option::is_none")]
        rtt_seconds: Option<f64>,
        /// What limited the TCP stream for most of the interval. Absent in sums.
        #[serde(skip_serializing_if = "Option::is_none")]
        limited_by: Option<LimitedBy>,
        /// Transactions completed.
        #[serde(skip_serializing_if = "Option::is_none")]
        transactions: Option<u64>,
        /// Transactions completed per second.
        #[serde(skip_serializing_if = "Option::is_none")]
        transactions_per_second: Option<f64>,
    }
}

record! {
    /// A distribution, encoded.
    Histogram {
        /// Flow number.
        #[serde(skip_serializing_if = "Option::is_none")]
        flow: Option<u32>,
        /// Metric, in nanoseconds.
        metric: String,
        /// `hdr-v2`: HdrHistogram V2, base64.
        encoding: String,
        /// The bytes.
        data: String,
    }
}

record! {
    /// Round trips measured alongside the test (RFC 2681), idle and loaded.
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
        /// Probes that were not answered.
        lost: u64,
        /// 60 / mean loaded round trip (responsiveness in round trips per minute).
        #[serde(skip_serializing_if = "Option::is_none")]
        responsiveness_per_minute: Option<f64>,
    }
}

record! {
    /// Use of a nominal rate at four levels.
    LinkUsage {
        /// The nominal rate.
        nominal_bits_per_second: u64,
        /// Source of the nominal rate: `stated` or the interface's name.
        source: String,
        /// Payload.
        payload_ratio: f64,
        /// With transport and IP headers; without IP the payload of frames.
        ip_ratio: f64,
        /// With Ethernet header and FCS (18 B).
        ethernet_ratio: f64,
        /// With preamble and gap (20 B).
        wire_ratio: f64,
        /// Direction of the usage (the busier one if both ran).
        direction: Direction,
    }
}

record! {
    /// Round trips in the order of the probes.
    RoundTripSeries {
        /// Phase: `idle`, `download` or `upload`.
        phase: String,
        /// The round trips.
        seconds: Vec<f64>,
    }
}
