//! The packets of a log of D-ITG as one end's report: the arithmetic of a receiver, applied to packets that another program logged.
//!
//! A log has no date, names neither the transport nor the end that wrote it, and may have several tests. Its figures are
//! those of ITGDec where no packet was duplicated or reordered: rates are over the time from the first to the last packet, and
//! delays are as the clocks of the two ends have them. The time of day starts again at midnight, which ITGDec does not consider.

use std::collections::HashMap;
use std::net::IpAddr;

use weir_model::plan::{ConnectionFields, Family, HeaderFormat, PeerName, Plan, Transport};
use weir_model::record::{
    Delay, DelayVariation, Histogram, IntervalCount, Receiver, Record, Sender, Status,
};
use weir_model::report::{EndReport, FlowReport};
use weir_model::units::ByteSize;
use weir_model::warning::{Severity, Warning};
use weir_stats::{DelaySummary, Ipdv, Jitter, SequenceConfig, SequenceTracker};
use weir_wire::ditg_log::Entry;
use weir_wire::header::ditg::DAY_NS;

use crate::assemble::{Parts, assemble};
use crate::receive::{ReceiveCount, delay_record, set_loss_periods, set_reordering};
use crate::{IntervalClock, IntervalLog};

/// Maximum number of flows of a log.
const MAX_FLOWS: usize = 10_000;
/// Maximum time from the first to the last packet, ns: 30 days.
const MAX_SPAN_NS: i64 = 30 * DAY;
/// Maximum number of rows, intervals × flows: longer logs have longer intervals.
const MAX_ROWS: u64 = 100_000;
/// Limits of the bitmap of a flow's numbers.
const MIN_WINDOW_BYTES: usize = 1 << 10;
const MAX_WINDOW_BYTES: usize = 8 << 20;
const SECOND_NS: u64 = 1_000_000_000;
const DAY: i64 = DAY_NS as i64;

/// Why packets are no log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DitgLogError {
    /// More flows than this.
    #[error("more than {0} flows")]
    Flows(usize),
    /// The times are too far apart.
    #[error("more than {} days from the first to the last packet", MAX_SPAN_NS / DAY)]
    Span,
}

/// What distinguishes the flows of a log: number, source, destination.
type Key = (u32, (IpAddr, u16), (IpAddr, u16));

/// A packet. Times are since the first entry of the log, ns.
#[derive(Debug, Clone, Copy)]
struct Packet {
    flow: u32,
    number: u32,
    sent_ns: i64,
    received_ns: i64,
    size_bytes: u32,
}

/// Collects the packets of a log, in the order of their entries.
#[derive(Debug, Default)]
pub struct DitgLog {
    flows: HashMap<Key, u32>,
    /// Maximum number of flows; absent: that of any log.
    max_flows: Option<usize>,
    keys: Vec<Key>,
    packets: Vec<Packet>,
    /// The time of arrival of the last entry: of the day, and since the first entry.
    last: Option<(u64, i64)>,
    /// The earliest and the latest arrival.
    bounds: [i64; 2],
    /// Time of day of the first entry.
    first_of_day_ns: u64,
}

/// The difference of two times of day that are less than half a day apart.
fn of_day(to_ns: u64, from_ns: u64) -> i64 {
    let ahead = (to_ns as i64 - from_ns as i64).rem_euclid(DAY);
    if ahead > DAY / 2 { ahead - DAY } else { ahead }
}

impl DitgLog {
    /// An empty log of at most `flows` flows, and of at most 10 000.
    #[must_use]
    pub fn with_max_flows(flows: usize) -> DitgLog {
        DitgLog { max_flows: Some(flows.min(MAX_FLOWS)), ..DitgLog::default() }
    }

    /// Adds the next entry.
    ///
    /// # Errors
    /// [`DitgLogError`]; what was added before is unchanged.
    pub fn push(&mut self, entry: &Entry) -> Result<(), DitgLogError> {
        let (of_day_ns, at_ns) = self.last.unwrap_or((entry.received_ns, 0));
        let received_ns = at_ns + of_day(entry.received_ns, of_day_ns);
        let bounds = [self.bounds[0].min(received_ns), self.bounds[1].max(received_ns)];
        if bounds[1] - bounds[0] > MAX_SPAN_NS {
            return Err(DitgLogError::Span);
        }
        let key = (entry.flow, entry.source, entry.destination);
        let max_flows = self.max_flows.unwrap_or(MAX_FLOWS);
        let flow = match self.flows.get(&key) {
            Some(flow) => *flow,
            None if self.keys.len() >= max_flows => return Err(DitgLogError::Flows(max_flows)),
            None => {
                let flow = self.keys.len() as u32;
                self.flows.insert(key, flow);
                self.keys.push(key);
                flow
            }
        };
        if self.last.is_none() {
            self.first_of_day_ns = entry.received_ns;
        }
        self.last = Some((entry.received_ns, received_ns));
        self.bounds = bounds;
        self.packets.push(Packet {
            flow,
            number: entry.number,
            sent_ns: received_ns + of_day(entry.sent_ns, entry.received_ns),
            received_ns,
            size_bytes: entry.size_bytes,
        });
        Ok(())
    }

    /// Whether it has no packets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Number of its flows.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.keys.len()
    }

    /// The record of the packets, as one end logged them; what identifies it is added by the caller. Flows are listed as UDP.
    /// Without packets it has no flows.
    #[must_use]
    pub fn record(mut self, status: Status, end_reason: String) -> Record {
        // A stable sort: the packets of a flow stay in the order in which they were logged.
        self.packets.sort_by_key(|packet| packet.flow);
        let is_senders = !has_delays(&self.packets) && self.is_numbered_from_one();
        let span_ns = (self.bounds[1] - self.bounds[0]) as u64;
        let rows = MAX_ROWS / self.keys.len().max(1) as u64;
        let seconds = (span_ns / SECOND_NS).div_ceil(rows.max(1)).max(1);
        // Not at zero, so that a packet may have been sent before the first arrival.
        let start_ns = DAY_NS;
        let clock = IntervalClock { start_ns, interval_ns: seconds * SECOND_NS, omit_ns: 0 };
        let shift_ns = start_ns as i64 - self.bounds[0];
        let mut connections = vec![];
        let mut reports = vec![];
        let mut counts: HashMap<u32, u32> = HashMap::new();
        // Whether any flow has send times, and whether any has none: packets of ITGSend -p 1 may be in a log with others.
        let (mut timed, mut untimed) = (false, false);
        for (packets, key) in self.packets.chunk_by(|a, b| a.flow == b.flow).zip(&self.keys) {
            let count = counts.entry(key.0).or_default();
            *count += 1;
            connections.push(connection(key.0, *count, packets).into());
            let id = reports.len() as u32 + 1;
            let is_timed = has_delays(packets);
            timed |= is_timed;
            untimed |= !is_timed;
            reports.push(match is_senders {
                true => sent(id, packets, shift_ns, clock),
                false => received(id, packets, shift_ns, clock, is_timed),
            });
        }
        let is_ipv6 = self.keys.first().is_some_and(|(_, (address, _), _)| address.is_ipv6());
        let family = if is_ipv6 { Family::Ipv6 } else { Family::Ipv4 };
        let host = self.keys.first().map(|(_, _, (address, _))| address.to_string());
        let plan =
            Plan { peer: PeerName::Ditg, host, latency: false, connections, ..Plan::default() };
        let specs = plan.flows(family, u32::MAX);
        let report = EndReport { flows: reports, ..EndReport::default() };
        let (local, remote) = match is_senders {
            true => (report, None),
            false => (EndReport::default(), Some(report)),
        };
        let mut record = assemble(Parts {
            plan,
            specs,
            family,
            local,
            one_sided: true,
            remote,
            peer: PeerName::Ditg.label().into(),
            peer_reports: Default::default(),
            clock: None,
            intervals: clock,
            intervals_shown: 0,
            status,
            end_reason,
            nominal: None,
            latency: None,
            loss_threshold_ns: 0,
            control_bytes: 0,
            path_mtu_bytes: None,
        });
        for (flow, (_, source, destination)) in record.flows.iter_mut().zip(&self.keys) {
            let text = |end: &(IpAddr, u16)| std::net::SocketAddr::from(*end).to_string();
            (flow.source, flow.destination) = (text(source), text(destination));
            flow.family = Some(if source.0.is_ipv6() { Family::Ipv6 } else { Family::Ipv4 });
        }
        record.warnings.retain(|warning| warning.code != "one-sided");
        let untimed_text = match timed {
            true => "the log has no send times for some flows: their delays are unknown",
            false => "the log has no send times: delays are unknown",
        };
        let warnings = [
            (
                is_senders,
                "one-sided",
                "a log of the sender: what arrived, was lost and delayed is unknown",
            ),
            (
                !is_senders && timed,
                "clocks-unrelated",
                "the log does not relate the clocks of the two ends: one-way delays include their difference",
            ),
            (!is_senders && untimed, "no-send-times", untimed_text),
            (
                true,
                "transport-unknown",
                "the log does not name the transport: the flows are listed as UDP, which is D-ITG's default",
            ),
        ];
        for (_, code, text) in warnings.into_iter().filter(|(applies, ..)| *applies) {
            record.warnings.push(Warning::new(code, Severity::Info, text));
        }
        Record { control_bytes: None, loss_threshold_seconds: None, cpu: None, ..record }
    }

    /// Whether the packets of each flow are numbered from 1 without a gap, as a sender logs them.
    fn is_numbered_from_one(&self) -> bool {
        self.packets
            .chunk_by(|a, b| a.flow == b.flow)
            .all(|packets| (1..).zip(packets).all(|(number, packet)| packet.number == number))
    }
}

/// Whether packets have both times.
fn has_delays(packets: &[Packet]) -> bool {
    packets.iter().any(|packet| packet.sent_ns != packet.received_ns)
}

/// The connection of a flow: the `count`th of those with its number.
fn connection(number: u32, count: u32, packets: &[Packet]) -> ConnectionFields {
    let bytes: u64 = packets.iter().map(|packet| u64::from(packet.size_bytes)).sum();
    ConnectionFields {
        name: if count == 1 { number.to_string() } else { format!("{number}.{count}") },
        transport: Transport::udp().name(),
        header: HeaderFormat::Ditg,
        // The mean: sizes may vary.
        payload: Some(ByteSize(bytes / packets.len().max(1) as u64).into()),
        ..ConnectionFields::default()
    }
}

/// Time of a packet by the clock of the report, which does not run backwards.
fn at(packet_ns: i64, shift_ns: i64) -> u64 {
    packet_ns.saturating_add(shift_ns).max(0) as u64
}

/// Bytes and packets of an interval as the record has them.
fn rates(count: ReceiveCount, seconds: Option<f64>) -> IntervalCount {
    let whole = count.count(seconds, None);
    IntervalCount { duplicate_packets: None, reordered_packets: None, ..whole }
}

/// The report of a sender of these packets.
fn sent(id: u32, packets: &[Packet], shift_ns: i64, clock: IntervalClock) -> FlowReport {
    let mut log = IntervalLog::<ReceiveCount>::default();
    log.start(clock);
    let mut bytes = 0_u64;
    let mut last_ns = 0;
    let mut first_ns = None;
    for packet in packets {
        last_ns = at(packet.sent_ns, shift_ns).max(last_ns);
        first_ns.get_or_insert(last_ns);
        while log.is_due(last_ns) {
            log.close(|_| ());
        }
        log.current.packets += 1;
        log.current.bytes += u64::from(packet.size_bytes);
        bytes += u64::from(packet.size_bytes);
    }
    log.close(|_| ());
    let since = |ns: u64| ns.saturating_sub(clock.start_ns) as f64 / 1e9;
    let (start, end) = (since(first_ns.unwrap_or(last_ns)), since(last_ns));
    let per_second = |amount: u64| (end > start).then(|| amount as f64 / (end - start));
    let sender = Sender {
        bytes,
        packets: packets.len() as u64,
        seconds: end - start,
        start_seconds: Some(start),
        end_seconds: Some(end),
        bits_per_second: per_second(bytes.saturating_mul(8)),
        packets_per_second: per_second(packets.len() as u64),
        ..Sender::default()
    };
    let intervals =
        log.closed().iter().enumerate().map(|(n, count)| rates(*count, clock.seconds(n))).collect();
    FlowReport { id, sender: Some(sender), intervals, ..FlowReport::default() }
}

/// The report of a receiver of these packets.
fn received(
    id: u32,
    packets: &[Packet],
    shift_ns: i64,
    clock: IntervalClock,
    has_delays: bool,
) -> FlowReport {
    // What the log has arrived in time, whenever that was. Memory and time are in proportion to the packets, however far apart
    // their numbers are: the bitmap covers eight numbers per packet.
    let config = SequenceConfig {
        loss_threshold_ns: MAX_SPAN_NS as u64,
        max_window_bytes: packets.len().clamp(MIN_WINDOW_BYTES, MAX_WINDOW_BYTES),
        ..SequenceConfig::default()
    };
    let mut tracker = SequenceTracker::new(config);
    tracker.begins_at(clock.start_ns);
    let mut log = IntervalLog::<ReceiveCount>::default();
    log.start(clock);
    let (mut delay, mut ipdv, mut jitter) = (DelaySummary::new(), Ipdv::new(), Jitter::new());
    ipdv.limit(8 * packets.len());
    let mut squares = Squares::default();
    let mut sum = ReceiveCount::default();
    let mut first_ns = None;
    let mut last_ns = 0;
    // ITGSend's option for packets without metadata makes a log whose numbers are 0.
    let is_numbered = packets.iter().any(|packet| packet.number > 0);
    for (index, packet) in (0..).zip(packets) {
        last_ns = at(packet.received_ns, shift_ns).max(last_ns);
        first_ns.get_or_insert(last_ns);
        while log.is_due(last_ns) {
            tracker.mark_interval(log.next_end_ns());
            log.close(|count| count.jitter_ns = jitter.ns());
        }
        let number = match packet.number.checked_sub(1) {
            Some(number) if is_numbered => u64::from(number),
            _ => index,
        };
        let arrival = tracker.on_packet(number, last_ns);
        let size = u64::from(packet.size_bytes);
        let mut count = ReceiveCount::of(arrival, size);
        if count.packets > 0 && has_delays {
            let ns = packet.received_ns - packet.sent_ns;
            delay.record(ns);
            squares.record(ns);
            ipdv.record(number, ns, &tracker);
            jitter.on_packet(at(packet.sent_ns, shift_ns), at(packet.received_ns, shift_ns));
            (count.delay_sum_ns, count.delays) = (ns, 1);
        }
        sum.add(&count);
        log.current.add(&count);
    }
    tracker.mark_interval(log.next_end_ns());
    log.close(|count| count.jitter_ns = jitter.ns());
    let summary = tracker.finish(None, last_ns);
    let intervals = log.closed().iter().zip(&summary.interval_lost).enumerate();
    let intervals = intervals.map(|(n, (count, lost))| match is_numbered {
        true => count.count(clock.seconds(n), Some(*lost)),
        false => rates(*count, clock.seconds(n)),
    });
    let since = |ns: u64| ns.saturating_sub(clock.start_ns) as f64 / 1e9;
    let (start, end) = (since(first_ns.unwrap_or(last_ns)), since(last_ns));
    let per_second = |amount: u64| (end > start).then(|| amount as f64 / (end - start));
    let mut receiver = Receiver {
        bytes: sum.bytes,
        packets: sum.packets,
        seconds: end - start,
        start_seconds: Some(start),
        end_seconds: Some(end),
        bits_per_second: per_second(sum.bytes.saturating_mul(8)),
        packets_per_second: per_second(sum.packets),
        ..Receiver::default()
    };
    if is_numbered {
        let counts = &summary.counts;
        receiver.lost_packets = Some(counts.lost);
        receiver.loss_ratio = Some(counts.lost as f64 / summary.sent.max(1) as f64);
        receiver.duplicate_packets = Some(counts.duplicates);
        receiver.reordered_packets = Some(counts.reordered);
        // Only where numbers are further apart than a tracker remembers.
        receiver.late_packets = Some(counts.late).filter(|late| *late > 0);
        set_reordering(&mut receiver, &summary);
        set_loss_periods(&mut receiver, &summary);
    }
    if delay.count() > 0 {
        receiver.jitter_seconds = jitter.ns().map(|ns| ns / 1e9);
        receiver.one_way_delay = delay_record(&delay, None).map(|delay| Delay {
            standard_deviation_seconds: squares.standard_deviation_ns().map(|ns| ns / 1e9),
            negative_samples: None,
            ..delay
        });
        receiver.delay_variation = Some(DelayVariation {
            pdv_mean_seconds: delay.pdv_mean_ns().map(|ns| ns / 1e9),
            pdv_p99_seconds: delay.pdv_quantile_ns(0.99).map(|ns| ns as f64 / 1e9),
            ipdv_mean_seconds: ipdv.mean_ns().map(|ns| ns / 1e9),
            ipdv_p99_seconds: ipdv.quantile_ns(0.99).map(|ns| ns as f64 / 1e9),
            ipdv_pairs: Some(ipdv.count()),
            ipdv_omitted_pairs: Some(ipdv.omitted()),
        });
    }
    // The encoding has no negative values.
    let data = Some(&delay).filter(|delay| delay.count() > 0 && delay.negative() == 0);
    let histogram = data.and_then(DelaySummary::to_hdr_v2).map(|data| Histogram {
        flow: Some(id),
        metric: "one_way_delay".into(),
        encoding: "hdr-v2".into(),
        data,
    });
    FlowReport {
        id,
        receiver: Some(receiver),
        intervals: intervals.collect(),
        histograms: histogram.into_iter().collect(),
        ..FlowReport::default()
    }
}

/// Standard deviation of all values, as ITGDec computes it (÷ n), by Welford's method.
#[derive(Debug, Default)]
struct Squares {
    count: u64,
    mean: f64,
    sum: f64,
}

impl Squares {
    fn record(&mut self, value: i64) {
        self.count += 1;
        let value = value as f64;
        let ahead = value - self.mean;
        self.mean += ahead / self.count as f64;
        self.sum += ahead * (value - self.mean);
    }

    fn standard_deviation_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.sum / self.count as f64).max(0.0).sqrt())
    }
}
