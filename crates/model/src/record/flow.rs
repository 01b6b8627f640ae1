//! Results of one flow from both ends.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Crossing, Echo, ReceivedFile, Transactions};
use crate::law::distribution::Clamp;
use crate::plan::{self, Direction, Family, Size, TransportName, VoiceCodec};
use crate::units::SendRate;

record! {
    /// One flow, with the figures of its sender and receiver.
    Flow {
        /// Number, from 1.
        id: u32,
        /// Name.
        name: String,
        /// The server of this flow, as the plan names it, with its port unless that is 9347; present if the test had
        /// several servers.
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// Transport.
        transport: TransportName,
        /// The transport that carried it, if it fell back because the peer or the path did not support its own.
        #[serde(skip_serializing_if = "Option::is_none")]
        carried_by: Option<TransportName>,
        /// IP version.
        #[serde(skip_serializing_if = "Option::is_none")]
        family: Option<Family>,
        /// Who sends.
        direction: Direction,
        /// The sender's address and port, as seen from the side that ran the command.
        source: String,
        /// The receiver's address and port.
        destination: String,
        /// Payload of a datagram or a write; the mean of its law if sizes vary.
        payload_bytes: u64,
        /// The law of payload sizes, if they vary.
        #[serde(skip_serializing_if = "Option::is_none")]
        payload_law: Option<Size>,
        /// The law of the intervals between packets, if they vary by a law.
        #[serde(skip_serializing_if = "Option::is_none")]
        spacing_law: Option<plan::Spacing>,
        /// What the law of payload sizes gives.
        #[serde(skip_serializing_if = "Option::is_none")]
        payload_draws: Option<SizeDraws>,
        /// What the law of the intervals gives.
        #[serde(skip_serializing_if = "Option::is_none")]
        spacing_draws: Option<TimeDraws>,
        /// The sending side.
        #[serde(skip_serializing_if = "Option::is_none")]
        sender: Option<Sender>,
        /// The receiving side, whose figures are the result.
        #[serde(skip_serializing_if = "Option::is_none")]
        receiver: Option<Receiver>,
        /// Transactions, if the flow consists of them: the sender sends requests.
        #[serde(skip_serializing_if = "Option::is_none")]
        transactions: Option<Transactions>,
        /// What came back, if the server sent back what it received.
        #[serde(skip_serializing_if = "Option::is_none")]
        echo: Option<Echo>,
        /// The file in which the server stored what it received, if the plan asked for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        received_file: Option<ReceivedFile>,
        /// Round trip of this flow, if it was measured: of datagrams that the server sent back.
        #[serde(skip_serializing_if = "Option::is_none")]
        round_trip: Option<Delay>,
        /// TCP information of the sending side.
        #[serde(skip_serializing_if = "Option::is_none")]
        tcp: Option<Tcp>,
        /// TCP information over time, of the sending side.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tcp_samples: Vec<TcpSample>,
        /// Codec of the voice that it imitates.
        #[serde(skip_serializing_if = "Option::is_none")]
        voice_codec: Option<VoiceCodec>,
        /// Quality of that voice, if loss and delay are known.
        #[serde(skip_serializing_if = "Option::is_none")]
        voice: Option<Voice>,
        /// Time from connect to established.
        #[serde(skip_serializing_if = "Option::is_none")]
        connect_seconds: Option<f64>,
    }
}

record! {
    /// What a law of sizes gives. The actual mean is beside it in the results: it differs by chance.
    SizeDraws {
        /// Mean of the law, after clamping.
        mean_bytes: f64,
        /// Smaller draws become this. Absent if none is smaller. Of a mixture: the smallest such bound of its parts.
        #[serde(skip_serializing_if = "Option::is_none")]
        clamp_min_bytes: Option<u64>,
        /// Larger draws become this. Absent if none is larger. Of a mixture: the largest such bound of its parts.
        #[serde(skip_serializing_if = "Option::is_none")]
        clamp_max_bytes: Option<u64>,
    }
}

impl From<&Size> for SizeDraws {
    fn from(law: &Size) -> Self {
        // Bounds are whole bytes.
        let Clamp { min, max } = law.clamp();
        SizeDraws {
            mean_bytes: law.moments().mean_bytes,
            clamp_min_bytes: min.map(|bytes| bytes as u64),
            clamp_max_bytes: max.map(|bytes| bytes as u64),
        }
    }
}

record! {
    /// What a law of times gives. The actual mean is beside it in the results: it differs by chance.
    TimeDraws {
        /// Mean of the law, after clamping, or by the rate that determines it. Absent if the rate was changed.
        #[serde(skip_serializing_if = "Option::is_none")]
        mean_seconds: Option<f64>,
        /// Smaller draws become this. Absent if none is smaller. Of a mixture and of phases: the smallest such bound of their
        /// parts.
        #[serde(skip_serializing_if = "Option::is_none")]
        clamp_min_seconds: Option<f64>,
        /// Larger draws become this. Absent if none is larger. Of a mixture and of phases: the largest such bound of their
        /// parts.
        #[serde(skip_serializing_if = "Option::is_none")]
        clamp_max_seconds: Option<f64>,
    }
}

impl From<&plan::Spacing> for TimeDraws {
    fn from(law: &plan::Spacing) -> Self {
        let seconds = |ns: f64| ns / 1e9;
        let Clamp { min, max } = law.clamp();
        TimeDraws {
            mean_seconds: law.moments().mean_ns.map(seconds),
            clamp_min_seconds: min.map(seconds),
            clamp_max_seconds: max.map(seconds),
        }
    }
}

record! {
    /// A change of a flow's rate while it sent.
    RateChange {
        /// When, since the start of the test.
        at_seconds: f64,
        /// The rate from then on; `0` is unlimited.
        rate: SendRate,
    }
}

record! {
    /// Figures of a sender.
    Sender {
        /// Payload bytes handed to the network.
        bytes: u64,
        /// Datagrams, writes to a stream, requests, or transfers that were started.
        packets: u64,
        /// From the first send to the end of sending.
        seconds: f64,
        /// First send (or the end of the omitted time), since the start of the test on this end's clock.
        #[serde(skip_serializing_if = "Option::is_none")]
        start_seconds: Option<f64>,
        /// End of sending, on the same clock: the planned end if sending lasted until then, else the last send.
        #[serde(skip_serializing_if = "Option::is_none")]
        end_seconds: Option<f64>,
        /// Payload rate; absent if there is no duration (at most one packet).
        #[serde(skip_serializing_if = "Option::is_none")]
        bits_per_second: Option<f64>,
        /// Packet rate; absent when the payload rate is.
        #[serde(skip_serializing_if = "Option::is_none")]
        packets_per_second: Option<f64>,
        /// Actual mean payload of a datagram or a write, if sizes vary.
        #[serde(skip_serializing_if = "Option::is_none")]
        mean_payload_bytes: Option<f64>,
        /// Actual mean interval between packets, if intervals vary by their law or with the size.
        #[serde(skip_serializing_if = "Option::is_none")]
        mean_spacing_seconds: Option<f64>,
        /// System calls for sending.
        #[serde(skip_serializing_if = "Option::is_none")]
        io_calls: Option<u64>,
        /// `gso`, `sendmmsg`, `send`, `write`, `sendfile`, or `xdp` (frames sent by an XDP program).
        method: String,
        /// Mean number of datagrams that one call sent back to back (engine `xdp`). Above 1 a paced sender kept to the times of its calls, not to those of single datagrams.
        #[serde(skip_serializing_if = "Option::is_none")]
        mean_call_packets: Option<f64>,
        /// Maximum number of them.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_call_packets: Option<u32>,
        /// Mean number of datagrams per super-packet; above 1 they leave coalesced.
        #[serde(skip_serializing_if = "Option::is_none")]
        segments_per_message: Option<f64>,
        /// Slots of a paced sender.
        #[serde(skip_serializing_if = "Option::is_none")]
        intended_slots: Option<u64>,
        /// Slots skipped because the backlog exceeded 100 ms or the N slots of `burst:N` or because the policy is `none`, and slots not yet served when sending ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        missed_slots: Option<u64>,
        /// Slots served more than one period late.
        #[serde(skip_serializing_if = "Option::is_none")]
        late_slots: Option<u64>,
        /// Requested rate, packets per second; the mean over the time of sending if it was changed meanwhile, absent if it was unlimited for a part of that.
        #[serde(skip_serializing_if = "Option::is_none")]
        asked_packets_per_second: Option<f64>,
        /// Changes of the rate while it sent.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        rate_changes: Vec<RateChange>,
        /// Spacing accuracy of a paced sender.
        #[serde(skip_serializing_if = "Option::is_none")]
        spacing: Option<Spacing>,
        /// The sender's checksum covers this many bytes of each datagram, from its header on, as its socket reports; 0: all. Present for transports with a partial checksum.
        #[serde(skip_serializing_if = "Option::is_none")]
        checksum_coverage_bytes: Option<u16>,
        /// Socket send buffer granted by the kernel.
        #[serde(skip_serializing_if = "Option::is_none")]
        buffer_bytes: Option<u64>,
        /// Times that sending waited, because the socket or a queue below it was full (ttcp: sleeps).
        #[serde(skip_serializing_if = "Option::is_none")]
        sleeps: Option<u64>,
        /// Total time of these waits.
        #[serde(skip_serializing_if = "Option::is_none")]
        sleep_seconds: Option<f64>,
        /// Datagrams refused because the receiver's host reported that nothing listens on the port (ICMP port unreachable),
        /// and repeated; absent for none.
        #[serde(skip_serializing_if = "Option::is_none")]
        refused_sends: Option<u64>,
        /// Scheduling class of the thread that sent datagrams: `fifo` when all of them were sent under real-time scheduling (SCHED_FIFO), else `normal`.
        #[serde(skip_serializing_if = "Option::is_none")]
        scheduling: Option<String>,
        /// Present where this end was unreachable before it reported: the figures are those that it had reported while the test ran, until this time since the start of the test. Later ones are unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        reported_until_seconds: Option<f64>,
    }
}

impl Flow {
    /// Whether the report of an end is missing because its peer was unreachable. The loss of the whole flow
    /// is then unknown: datagrams may have arrived after the receiver's last report, or been sent after the
    /// last number that arrived. The flow's loss figures cover what was reported.
    #[must_use]
    pub fn peer_report_missing(&self) -> bool {
        let is_absent = self.sender.is_none() || self.receiver.is_none();
        self.transport.datagrams() && is_absent
            || self.sender.as_ref().is_some_and(|s| s.reported_until_seconds.is_some())
            || self.receiver.as_ref().is_some_and(|r| r.reported_until_seconds.is_some())
    }
}

record! {
    /// Quality of voice by the E-model (ITU-T G.107).
    Voice {
        /// Codec.
        codec: VoiceCodec,
        /// Transmission rating factor R, 0 to 93.2.
        r_factor: f64,
        /// Mean opinion score of a conversation, estimated from R (MOS-CQE): 1 to 4.5.
        mos: f64,
        /// Delay from mouth to ear: codec, path and jitter buffer.
        delay_seconds: f64,
        /// The path's part of it, of the fastest packet.
        path_delay_seconds: f64,
        /// How the path's part was measured.
        path_delay_from: PathDelaySource,
        /// Depth of the jitter buffer.
        jitter_buffer_seconds: f64,
        /// Packets that the decoder lacked, lost or discarded, of those sent.
        missing_ratio: f64,
        /// Mean length of the loss periods ÷ that of independent losses of the same ratio (BurstR), 1 to 8.
        burst_ratio: f64,
    }
}

/// How the delay of a path was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PathDelaySource {
    /// One-way delay: the clocks are related well enough.
    #[default]
    OneWayDelay,
    /// Half of the shortest idle round trip.
    HalfRoundTrip,
}

record! {
    /// Spacing error of a paced sender: actual minus intended gap.
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
    /// A receiver's membership of a multicast group, or its place in a broadcast network.
    Membership {
        /// Address and port to which the datagrams were sent.
        group: String,
        /// The only sender for which it joined (source-specific multicast).
        #[serde(skip_serializing_if = "Option::is_none")]
        source: Option<String>,
        /// Interface through which it received.
        #[serde(skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// When it joined, since the start of the test; absent if it had joined before.
        #[serde(skip_serializing_if = "Option::is_none")]
        joined_seconds: Option<f64>,
        /// When it left, since the start of the test; absent if it stayed until the end.
        #[serde(skip_serializing_if = "Option::is_none")]
        left_seconds: Option<f64>,
        /// From the request to join to the first packet; absent unless it joined while the flow was sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        join_latency_seconds: Option<f64>,
        /// From the request to leave to the last packet that still arrived at the interface; 0 if none did. Absent if that
        /// could not be observed (CAP_NET_RAW), or the sender had ended before.
        #[serde(skip_serializing_if = "Option::is_none")]
        leave_latency_seconds: Option<f64>,
        /// The leave latency is a lower bound: packets arrived until the sender ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        leave_latency_is_bound: Option<bool>,
        /// Packets sent while it was not a member, the omitted time included: neither received nor lost. Absent if it was a
        /// member all the time, or if it is unknown how many they are.
        #[serde(skip_serializing_if = "Option::is_none")]
        unjoined_packets: Option<u64>,
    }
}

impl Membership {
    /// Whether it covers only a part of the test.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.joined_seconds.is_some() || self.left_seconds.is_some() || self.is_unjoined()
    }

    /// Whether packets were sent while it was no member.
    fn is_unjoined(&self) -> bool {
        self.unjoined_packets.is_some_and(|packets| packets > 0)
    }

    /// Whether it never joined.
    #[must_use]
    pub fn never_joined(&self) -> bool {
        self.joined_seconds.is_none() && self.left_seconds.is_none() && self.is_unjoined()
    }
}

impl Receiver {
    /// Whether it was a member of the group for only a part of the test, so that its time is not the sender's.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.membership.as_ref().is_some_and(Membership::is_part)
    }
}

record! {
    /// Figures of a receiver.
    Receiver {
        /// Payload bytes that arrived, without duplicates.
        bytes: u64,
        /// Datagrams that arrived, without duplicates, or reads from a stream.
        packets: u64,
        /// From the first to the last arrival.
        seconds: f64,
        /// First arrival (after the omitted time), since the start of the test on this end's clock.
        #[serde(skip_serializing_if = "Option::is_none")]
        start_seconds: Option<f64>,
        /// Last arrival, on the same clock.
        #[serde(skip_serializing_if = "Option::is_none")]
        end_seconds: Option<f64>,
        /// Payload rate over `seconds` (n datagrams span n − 1 gaps), or over the sender's `seconds` if they
        /// are longer; absent if there is no duration.
        #[serde(skip_serializing_if = "Option::is_none")]
        bits_per_second: Option<f64>,
        /// Packet rate over the same time.
        #[serde(skip_serializing_if = "Option::is_none")]
        packets_per_second: Option<f64>,
        /// System calls for receiving.
        #[serde(skip_serializing_if = "Option::is_none")]
        io_calls: Option<u64>,
        /// `gro`, `recvmmsg`, `copy`, `discard`, `xdp-native` or `xdp-generic` (counted by an XDP program in the driver or in the stack).
        method: String,
        /// Its membership of the group, if the flow was sent to one.
        #[serde(skip_serializing_if = "Option::is_none")]
        membership: Option<Membership>,
        /// How its datagrams crossed the path; absent for TCP and if none arrived.
        #[serde(skip_serializing_if = "Option::is_none")]
        crossing: Option<Crossing>,
        /// Mean number of datagrams per received message.
        #[serde(skip_serializing_if = "Option::is_none")]
        segments_per_message: Option<f64>,
        /// Datagrams that did not arrive within the loss threshold (RFC 7680).
        #[serde(skip_serializing_if = "Option::is_none")]
        lost_packets: Option<u64>,
        /// Lost / sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        loss_ratio: Option<f64>,
        /// Arrived, but too late for the jitter buffer of a voice connection (RFC 3611). Not counted as lost.
        #[serde(skip_serializing_if = "Option::is_none")]
        discarded_packets: Option<u64>,
        /// Arrived after the loss threshold; also counted as lost.
        #[serde(skip_serializing_if = "Option::is_none")]
        late_packets: Option<u64>,
        /// Datagrams with a number that the sender cannot have used: damaged, or from another source. Never counted as received.
        #[serde(skip_serializing_if = "Option::is_none")]
        implausible_packets: Option<u64>,
        /// Lost packets that were declared lost before the loss threshold, because the receiver's bitmap was at its maximum size.
        #[serde(skip_serializing_if = "Option::is_none")]
        forced_packets: Option<u64>,
        /// Duplicates (RFC 5560).
        #[serde(skip_serializing_if = "Option::is_none")]
        duplicate_packets: Option<u64>,
        /// Arrivals with a number below the next expected one (RFC 4737).
        #[serde(skip_serializing_if = "Option::is_none")]
        reordered_packets: Option<u64>,
        /// Mean reordering extent in packets (RFC 4737, section 4.2).
        #[serde(skip_serializing_if = "Option::is_none")]
        reordering_extent_mean: Option<f64>,
        /// Maximum reordering extent in packets.
        #[serde(skip_serializing_if = "Option::is_none")]
        reordering_extent_max: Option<u64>,
        /// Reordered packets by their extent: the key `8` counts extents from 8 to 15.
        #[serde(skip_serializing_if = "Option::is_none")]
        reordering_extents: Option<BTreeMap<String, u64>>,
        /// Extents that are lower bounds, because more gaps were open than the receiver tracks.
        #[serde(skip_serializing_if = "Option::is_none")]
        reordering_extent_bounds: Option<u64>,
        /// Datagrams with a bad tag, bit errors or truncation.
        #[serde(skip_serializing_if = "Option::is_none")]
        corrupted_packets: Option<u64>,
        /// Datagrams with an invalid header (bad tag or too short). Their numbers are unknown, so they also count as lost.
        #[serde(skip_serializing_if = "Option::is_none")]
        unreadable_packets: Option<u64>,
        /// ECN codepoints of the datagrams that arrived, if they were sent as ECN-capable.
        #[serde(skip_serializing_if = "Option::is_none")]
        ecn: Option<EcnCounts>,
        /// Bits that differed from the seeded payload, if it was verified.
        #[serde(skip_serializing_if = "Option::is_none")]
        bit_errors: Option<u64>,
        /// Bytes that were compared with the seeded payload, those of headers left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        verified_bytes: Option<u64>,
        /// Bytes of a stream that its sender had handed to its system but that had not arrived when the receiver stopped waiting; 0 if all arrived.
        #[serde(skip_serializing_if = "Option::is_none")]
        undelivered_bytes: Option<u64>,
        /// Datagrams that arrived shorter than sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        truncated_packets: Option<u64>,
        /// Loss periods (RFC 3357): length in packets → number of periods. The key `more` counts longer periods.
        #[serde(skip_serializing_if = "Option::is_none")]
        loss_periods: Option<BTreeMap<String, u64>>,
        /// Bursts of losses (RFC 3611): sequences that begin and end with a lost packet and do not contain 16 consecutive received ones.
        #[serde(skip_serializing_if = "Option::is_none")]
        bursts: Option<u64>,
        /// Packets in bursts, lost and received.
        #[serde(skip_serializing_if = "Option::is_none")]
        burst_packets: Option<u64>,
        /// Packets lost in bursts.
        #[serde(skip_serializing_if = "Option::is_none")]
        burst_lost_packets: Option<u64>,
        /// Fraction of the packets in bursts that were lost.
        #[serde(skip_serializing_if = "Option::is_none")]
        burst_density_ratio: Option<f64>,
        /// Mean duration of a burst: its packets × the sender's mean time between packets.
        #[serde(skip_serializing_if = "Option::is_none")]
        burst_seconds: Option<f64>,
        /// Gaps: the packets before, between and after bursts.
        #[serde(skip_serializing_if = "Option::is_none")]
        gaps: Option<u64>,
        /// Packets in gaps, lost and received.
        #[serde(skip_serializing_if = "Option::is_none")]
        gap_packets: Option<u64>,
        /// Packets lost in gaps.
        #[serde(skip_serializing_if = "Option::is_none")]
        gap_lost_packets: Option<u64>,
        /// Fraction of the packets in gaps that were lost.
        #[serde(skip_serializing_if = "Option::is_none")]
        gap_density_ratio: Option<f64>,
        /// Mean duration of a gap, computed as for bursts.
        #[serde(skip_serializing_if = "Option::is_none")]
        gap_seconds: Option<f64>,
        /// Some figures may be wrong or absent. If narrow numbers may have wrapped unseen, lost is sent minus arrived, and figures that depend on numbers are absent. If the bitmap was at its maximum size, late, duplicate and reordered packets may be confused.
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
        /// One-way delay from the scheduled send time.
        #[serde(skip_serializing_if = "Option::is_none")]
        one_way_delay_from_intended: Option<Delay>,
        /// Messages that arrived without a kernel timestamp and were timed when read: their times include the
        /// wait for the processor.
        #[serde(skip_serializing_if = "Option::is_none")]
        user_timed_messages: Option<u64>,
        /// What times refer to: `packet`, or `batch` if packets arrived coalesced.
        #[serde(skip_serializing_if = "Option::is_none")]
        time_unit: Option<String>,
        /// Dropped at the socket (SK_MEMINFO), because its buffer was full or the checksum was wrong. The loss ledger separates them by the counters of the network namespace.
        #[serde(skip_serializing_if = "Option::is_none")]
        socket_dropped_packets: Option<u64>,
        /// The receiver's socket drops datagrams whose checksum covers fewer bytes than this; 0: drops partly covered ones. Present for transports with a partial checksum.
        #[serde(skip_serializing_if = "Option::is_none")]
        checksum_coverage_bytes: Option<u16>,
        /// Socket receive buffer granted by the kernel.
        #[serde(skip_serializing_if = "Option::is_none")]
        buffer_bytes: Option<u64>,
        /// Present where this end was unreachable before it reported: the figures are those that it had reported while the test ran, until this time since the start of the test. Later ones are unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        reported_until_seconds: Option<f64>,
    }
}

record! {
    /// Datagrams that arrived by ECN codepoint (RFC 3168), duplicates included.
    EcnCounts {
        /// Not ECN-capable: the codepoint was erased on the path.
        not_ect_packets: u64,
        /// ECN-capable, ECT(0).
        ect0_packets: u64,
        /// ECN-capable, ECT(1).
        ect1_packets: u64,
        /// Congestion experienced.
        ce_packets: u64,
    }
}

record! {
    /// Variation of delay.
    DelayVariation {
        /// Mean of delay − minimum delay (RFC 5481 PDV).
        #[serde(skip_serializing_if = "Option::is_none")]
        pdv_mean_seconds: Option<f64>,
        /// 99th percentile of delay − minimum delay (RFC 5481 PDV).
        #[serde(skip_serializing_if = "Option::is_none")]
        pdv_p99_seconds: Option<f64>,
        /// Mean absolute difference between the delays of consecutive packets (RFC 5481 IPDV).
        #[serde(skip_serializing_if = "Option::is_none")]
        ipdv_mean_seconds: Option<f64>,
        /// 99th percentile of the absolute difference between the delays of consecutive packets (RFC 5481 IPDV).
        #[serde(skip_serializing_if = "Option::is_none")]
        ipdv_p99_seconds: Option<f64>,
        /// Pairs of consecutive packets in the IPDV figures.
        #[serde(skip_serializing_if = "Option::is_none")]
        ipdv_pairs: Option<u64>,
        /// Pairs of received consecutive packets that are missing from the IPDV figures, because they were reordered by more than the receiver stores. Above 0 the figures are censored: the largest differences are missing.
        #[serde(skip_serializing_if = "Option::is_none")]
        ipdv_omitted_pairs: Option<u64>,
    }
}

impl DelayVariation {
    /// The fraction of pairs that is missing from the IPDV figures; `None` if none is. If some are missing,
    /// the figures are censored.
    #[must_use]
    pub fn ipdv_omitted_ratio(&self) -> Option<f64> {
        let omitted = self.ipdv_omitted_pairs.filter(|n| *n > 0)? as f64;
        Some(omitted / (omitted + self.ipdv_pairs.unwrap_or(0) as f64))
    }
}

record! {
    /// A distribution of delays. A percentile q is absent below 10/(1−q) samples.
    Delay {
        /// Samples.
        count: u64,
        /// Minimum.
        min_seconds: f64,
        /// Mean.
        mean_seconds: f64,
        /// Standard deviation, where an imported result or log states it.
        #[serde(skip_serializing_if = "Option::is_none")]
        standard_deviation_seconds: Option<f64>,
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
        /// Maximum.
        max_seconds: f64,
        /// Bound of the error of each of these figures.
        #[serde(skip_serializing_if = "Option::is_none")]
        error_seconds: Option<f64>,
        /// Negative samples: the clock relation was off by more than its bound.
        #[serde(skip_serializing_if = "Option::is_none")]
        negative_samples: Option<u64>,
    }
}

record! {
    /// TCP information of the sending side: totals at the end, round trip and congestion window over the time of sending.
    Tcp {
        /// Segments retransmitted.
        retransmits: u64,
        /// Maximum segment size in use.
        mss_bytes: u32,
        /// Smoothed round trip, mean of samples while the flow sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        rtt_seconds: Option<f64>,
        /// Minimum round trip measured by the kernel.
        #[serde(skip_serializing_if = "Option::is_none")]
        min_rtt_seconds: Option<f64>,
        /// Maximum of the samples of the smoothed round trip.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_rtt_seconds: Option<f64>,
        /// Congestion window, mean of samples while the flow sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        cwnd_bytes: Option<u64>,
        /// Maximum of the samples of the congestion window.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_cwnd_bytes: Option<u64>,
        /// Congestion control.
        congestion_control: String,
        /// Window advertised by the peer.
        #[serde(skip_serializing_if = "Option::is_none")]
        send_window_bytes: Option<u64>,
        /// Receive window of the receiver.
        #[serde(skip_serializing_if = "Option::is_none")]
        receive_window_bytes: Option<u64>,
        /// Bytes retransmitted.
        #[serde(skip_serializing_if = "Option::is_none")]
        retransmitted_bytes: Option<u64>,
        /// Fraction of busy time limited by the receiver's window.
        #[serde(skip_serializing_if = "Option::is_none")]
        receive_window_limited_ratio: Option<f64>,
        /// Fraction of busy time limited by the send buffer.
        #[serde(skip_serializing_if = "Option::is_none")]
        send_buffer_limited_ratio: Option<f64>,
        /// Whether ECN was negotiated (RFC 3168), by net.ipv4.tcp_ecn of both ends.
        #[serde(skip_serializing_if = "Option::is_none")]
        ecn: Option<bool>,
        /// Segments that the receiver acknowledged as marked CE, if ECN was negotiated.
        #[serde(skip_serializing_if = "Option::is_none")]
        ce_segments: Option<u64>,
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
        /// Segments retransmitted so far.
        retransmits: u64,
        /// Delivery rate estimate.
        #[serde(skip_serializing_if = "Option::is_none")]
        delivery_bits_per_second: Option<f64>,
        /// Pacing rate.
        #[serde(skip_serializing_if = "Option::is_none")]
        pacing_bits_per_second: Option<f64>,
        /// What limited sending since the last sample.
        #[serde(skip_serializing_if = "Option::is_none")]
        limited_by: Option<LimitedBy>,
    }
}

/// What limited the rate of a TCP stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitedBy {
    /// Congestion control: the path.
    Congestion,
    /// The receiver's window.
    ReceiveWindow,
    /// The sender's socket buffer.
    SendBuffer,
    /// The sender itself: its requested rate, or its host.
    Application,
}

impl LimitedBy {
    /// Its name in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LimitedBy::Congestion => "congestion",
            LimitedBy::ReceiveWindow => "receive-window",
            LimitedBy::SendBuffer => "send-buffer",
            LimitedBy::Application => "application",
        }
    }
}
