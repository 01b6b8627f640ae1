//! The declarations of all metrics. Their order is that of tables, comparisons and docs.

use super::{Better, Carrier, Definition, End, Fold, Group, InInterval, Line, Read, Unit};
use crate::record::{CpuEnd, Flow, IntervalCount, Pages, Record, ServiceDemand, Side};

/// Defaults that most metrics share.
const PLAIN: Definition = Definition {
    name: "",
    label: "",
    key: "",
    unit: Unit::Count,
    source: "",
    definition: "",
    limits: "",
    group: Group::Packets,
    end: End::Both,
    carrier: Carrier::All,
    better: Better::Neither,
    path: "",
    also: &[],
    read: Read::Run(|_| None),
    echo_label: None,
    transfer_label: None,
    applies: |_| true,
    interval: None,
    line: None,
    is_compared: false,
    is_rare: false,
    is_signed: false,
    is_lower_bound: false,
    is_additive: false,
    is_headline: false,
    is_p99: false,
    needs_both_ends: false,
};

/// A count of datagrams at the receiver.
const DATAGRAMS: Definition = Definition {
    end: End::Receiver,
    carrier: Carrier::Datagrams,
    better: Better::Lower,
    is_compared: true,
    ..PLAIN
};

/// A count that is 0 on a sound path.
const RARE: Definition = Definition { is_compared: false, is_rare: true, ..DATAGRAMS };

/// A time measured by the receiver of datagrams.
const TIME: Definition = Definition { unit: Unit::Seconds, group: Group::Variation, ..DATAGRAMS };

/// TCP information of the sender.
const TCP: Definition = Definition {
    group: Group::Tcp,
    end: End::Sender,
    carrier: Carrier::TcpInfo,
    better: Better::Lower,
    ..PLAIN
};

/// A figure of a voice connection.
const VOICE: Definition = Definition {
    group: Group::Voice,
    applies: |f| f.voice_codec.is_some(),
    needs_both_ends: true,
    is_compared: true,
    ..DATAGRAMS
};

/// Bursts of losses and the gaps between them.
const BURSTS: Definition = Definition {
    source: "RFC 3611 section 4.7.2",
    group: Group::Bursts,
    limits: "Of the whole test. Late packets count as lost, like discarded ones in RFC 3611. Without a burst, burst density and duration are absent, where RFC 3611 reports 0.",
    needs_both_ends: true,
    is_rare: true,
    ..DATAGRAMS
};

/// A figure of what comes back of an echoed flow, measured by its client.
const ECHO: Definition =
    Definition { end: End::Sender, applies: |f| f.echo.is_some(), is_compared: true, ..PLAIN };

/// A figure of transactions, measured by their client.
const TRANSACTIONS: Definition = Definition {
    group: Group::Transactions,
    end: End::Sender,
    applies: |f| f.transactions.is_some(),
    ..PLAIN
};

/// A count of transactions that is 0 on a sound path.
const FAILURES: Definition =
    Definition { better: Better::Lower, is_compared: true, is_rare: true, ..TRANSACTIONS };

/// A figure of transfers.
const TRANSFERS: Definition = Definition {
    applies: |f| f.transactions.as_ref().is_some_and(|t| t.transfers.is_some()),
    ..TRANSACTIONS
};

/// A figure of pages.
const PAGES: Definition = Definition { applies: |f| pages(f).is_some(), ..TRANSACTIONS };

fn pages(flow: &Flow) -> Option<&Pages> {
    flow.transactions.as_ref()?.transfers.as_ref()?.pages.as_ref()
}

/// A time of transactions.
const RESPONSES: Definition = Definition {
    unit: Unit::Seconds,
    group: Group::Delay,
    better: Better::Lower,
    is_compared: true,
    ..TRANSACTIONS
};

/// A ratio to the nominal rate of the link.
const USAGE: Definition = Definition {
    unit: Unit::Ratio,
    group: Group::Run,
    better: Better::Higher,
    is_lower_bound: true,
    // Of tests that share the link.
    is_additive: true,
    limits: "As exact as the nominal rate. Computed for equal packet sizes, not counted.",
    ..PLAIN
};

/// CPU time of a host for a unit of work.
const DEMAND: Definition = Definition {
    unit: Unit::Seconds,
    group: Group::Run,
    better: Better::Lower,
    source: "netperf",
    limits: "The work of other programs is included, and the kernel accounts in ticks: short runs are coarse. Absent where both ends run under one kernel, and in a test of streams and transactions.",
    ..PLAIN
};

/// Duration of a flow and its system calls.
const CALLS: Definition = Definition { unit: Unit::Seconds, group: Group::Volume, ..PLAIN };

/// Duration and calls of the receiver.
fn receive_calls(flow: &Flow) -> Option<(f64, f64)> {
    let receiver = flow.receiver.as_ref()?;
    Some((receiver.seconds, number(receiver.io_calls)?))
}

/// Duration and calls of the sender.
fn send_calls(flow: &Flow) -> Option<(f64, f64)> {
    let sender = flow.sender.as_ref()?;
    Some((sender.seconds, number(sender.io_calls)?))
}

/// Rates of the receiver and the sender.
fn received_of_sent(flow: &Flow) -> Option<(f64, f64)> {
    Some((flow.receiver.as_ref()?.bits_per_second?, flow.sender.as_ref()?.bits_per_second?))
}

/// Bit errors and bits that were compared.
fn compared_bits(flow: &Flow) -> Option<(f64, f64)> {
    let receiver = flow.receiver.as_ref()?;
    Some((number(receiver.bit_errors)?, 8.0 * number(receiver.verified_bytes)?))
}

fn over(value: f64, by: f64) -> Option<f64> {
    (by > 0.0).then(|| value / by)
}

fn number(value: Option<u64>) -> Option<f64> {
    value.map(|n| n as f64)
}

/// A count of the receiver, summed over flows.
macro_rules! received {
    ($field:ident) => {
        Read::Flow(|f| number(f.receiver.as_ref()?.$field), Fold::Sum)
    };
}

/// A value of an interval that has its own field.
macro_rules! in_interval {
    ($field:ident, $get:expr) => {
        Some(InInterval { field: stringify!($field), get: $get, is_last_value: false })
    };
    (last $field:ident, $get:expr) => {
        Some(InInterval { field: stringify!($field), get: $get, is_last_value: true })
    };
}

const fn line(label: &'static str, text: &'static str) -> Option<Line> {
    Some(Line { label, text })
}

fn loss_in_interval(count: &IntervalCount) -> Option<f64> {
    let lost = count.lost_packets? as f64;
    let sent = lost + count.packets as f64;
    (sent > 0.0).then(|| lost / sent)
}

fn busy(end: Option<&CpuEnd>) -> Option<f64> {
    end.map(|e| e.user_ratio + e.system_ratio + e.irq_ratio)
}

/// CPU time of an end for each KiB of payload.
fn per_kib(record: &Record, end: Side) -> Option<f64> {
    match record.service_demand(end)? {
        ServiceDemand::Kib(seconds) => Some(seconds),
        ServiceDemand::Transaction(_) => None,
    }
}

/// CPU time of an end for each transaction.
fn per_transaction(record: &Record, end: Side) -> Option<f64> {
    match record.service_demand(end)? {
        ServiceDemand::Transaction(seconds) => Some(seconds),
        ServiceDemand::Kib(_) => None,
    }
}

fn usage(record: &Record, get: fn(&crate::record::LinkUsage) -> f64) -> Option<f64> {
    record.link_usage.as_ref().map(get)
}

/// Processor time of the emulator's threads per second of sending.
fn emulator_busy(record: &Record) -> Option<f64> {
    let omitted = record.plan.omit.seconds();
    over(record.impairment.as_ref()?.cpu_seconds?, record.seconds + omitted)
}

/// All metrics.
pub const METRICS: &[Definition] = &[
    Definition {
        name: "throughput",
        label: "Throughput",
        key: "throughput_bits_per_second",
        unit: Unit::BitsPerSecond,
        definition: "Payload bytes × 8 received per second, over the time from the first to the last arrival or the sender's time of sending, whichever is longer; of several flows, over the time in which any of them ran. Headers are not included.",
        limits: "n datagrams span n − 1 gaps. Absent where there is no duration, such as for a single datagram.",
        group: Group::Volume,
        end: End::Receiver,
        better: Better::Higher,
        path: "receiver.bits_per_second",
        read: Read::Flow(
            |f| f.receiver.as_ref()?.bits_per_second,
            Fold::Total(|s| s.bits_per_second),
        ),
        interval: in_interval!(bits_per_second, |c| c.bits_per_second),
        is_compared: true,
        is_lower_bound: true,
        is_headline: true,
        ..PLAIN
    },
    Definition {
        name: "sent_throughput",
        label: "Sent throughput",
        key: "sent_throughput_bits_per_second",
        unit: Unit::BitsPerSecond,
        definition: "Payload bytes × 8 sent per second, over the time of sending.",
        limits: "What the system accepted: a full send buffer counts as sent.",
        group: Group::Volume,
        end: End::Sender,
        path: "sender.bits_per_second",
        read: Read::Flow(
            |f| f.sender.as_ref()?.bits_per_second,
            Fold::Total(|s| s.bits_per_second),
        ),
        interval: in_interval!(bits_per_second, |c| c.bits_per_second),
        is_compared: true,
        is_lower_bound: true,
        ..PLAIN
    },
    Definition {
        name: "packet_rate",
        label: "Packet rate",
        key: "packets_per_second",
        unit: Unit::PacketsPerSecond,
        definition: "Datagrams received per second, over the same time as the throughput. Coalesced and per-packet rates are not comparable.",
        limits: "As the throughput.",
        group: Group::Volume,
        better: Better::Higher,
        path: "receiver.packets_per_second",
        read: Read::Flow(|f| f.receiver.as_ref()?.packets_per_second, Fold::Sum),
        interval: in_interval!(packets_per_second, |c| c.packets_per_second),
        is_compared: true,
        is_lower_bound: true,
        is_headline: true,
        ..DATAGRAMS
    },
    Definition {
        name: "sent_packet_rate",
        label: "Sent packet rate",
        key: "sent_packets_per_second",
        unit: Unit::PacketsPerSecond,
        definition: "Datagrams sent per second, over the time of sending.",
        limits: "As the sent throughput.",
        group: Group::Volume,
        end: End::Sender,
        better: Better::Neither,
        path: "sender.packets_per_second",
        read: Read::Flow(|f| f.sender.as_ref()?.packets_per_second, Fold::Sum),
        interval: in_interval!(packets_per_second, |c| c.packets_per_second),
        is_compared: false,
        is_lower_bound: true,
        ..DATAGRAMS
    },
    Definition {
        name: "received_ratio",
        label: "Received of sent",
        key: "received_ratio",
        unit: Unit::Ratio,
        definition: "Throughput ÷ sent throughput: the fraction of the sent rate that the path carries.",
        limits: "Packets that are still queued when sending ends arrive later and lower it, although they are not lost.",
        group: Group::Volume,
        better: Better::Higher,
        read: Read::Flow(
            |f| received_of_sent(f).and_then(|(a, b)| over(a, b)),
            Fold::Quotient(received_of_sent),
        ),
        needs_both_ends: true,
        is_compared: false,
        ..DATAGRAMS
    },
    Definition {
        name: "bytes",
        label: "Payload",
        key: "bytes",
        unit: Unit::Bytes,
        definition: "Payload bytes received, duplicates excluded.",
        limits: "Exact.",
        group: Group::Volume,
        end: End::Receiver,
        better: Better::Higher,
        path: "receiver.bytes",
        read: Read::Flow(
            |f| number(Some(f.receiver.as_ref()?.bytes)),
            Fold::Total(|s| number(Some(s.bytes))),
        ),
        interval: in_interval!(bytes, |c| number(Some(c.bytes))),
        is_lower_bound: true,
        ..PLAIN
    },
    Definition {
        name: "sent_bytes",
        label: "Payload sent",
        key: "sent_bytes",
        unit: Unit::Bytes,
        definition: "Payload bytes that the sender's system accepted.",
        limits: "Exact.",
        group: Group::Volume,
        end: End::Sender,
        path: "sender.bytes",
        read: Read::Flow(
            |f| number(Some(f.sender.as_ref()?.bytes)),
            Fold::Total(|s| number(Some(s.bytes))),
        ),
        interval: in_interval!(bytes, |c| number(Some(c.bytes))),
        is_lower_bound: true,
        ..PLAIN
    },
    Definition {
        name: "duration",
        label: "Duration",
        key: "duration_seconds",
        definition: "Time from the first arrival to the last; of the flow that took longest.",
        limits: "Without the time in which the first data was under way.",
        end: End::Receiver,
        path: "receiver.seconds",
        read: Read::Flow(|f| Some(f.receiver.as_ref()?.seconds), Fold::Largest),
        ..CALLS
    },
    Definition {
        name: "sent_duration",
        label: "Duration of sending",
        key: "sent_duration_seconds",
        definition: "Time during which the sender sent; of the flow that took longest.",
        limits: "Ends when the sender's system has accepted the last data, which may still be in its buffer.",
        end: End::Sender,
        path: "sender.seconds",
        read: Read::Flow(|f| Some(f.sender.as_ref()?.seconds), Fold::Largest),
        ..CALLS
    },
    Definition {
        name: "io_calls",
        label: "Receive calls",
        key: "io_calls",
        unit: Unit::Count,
        definition: "System calls that received data.",
        limits: "Exact. One call may receive many datagrams.",
        end: End::Receiver,
        path: "receiver.io_calls",
        read: Read::Flow(|f| number(f.receiver.as_ref()?.io_calls), Fold::Sum),
        ..CALLS
    },
    Definition {
        name: "sent_io_calls",
        label: "Send calls",
        key: "sent_io_calls",
        unit: Unit::Count,
        definition: "System calls that sent data.",
        limits: "Exact. One call may send many datagrams.",
        end: End::Sender,
        path: "sender.io_calls",
        read: Read::Flow(|f| number(f.sender.as_ref()?.io_calls), Fold::Sum),
        ..CALLS
    },
    Definition {
        name: "sent_time_per_call",
        label: "Time per send call",
        key: "sent_time_per_call_seconds",
        definition: "Duration ÷ send calls, as ttcp prints it.",
        limits: "Includes the time between calls.",
        end: End::Sender,
        read: Read::Flow(
            |f| send_calls(f).and_then(|(seconds, calls)| over(seconds, calls)),
            Fold::Quotient(send_calls),
        ),
        ..CALLS
    },
    Definition {
        name: "sent_calls_per_second",
        label: "Send calls per second",
        key: "sent_calls_per_second",
        unit: Unit::Count,
        definition: "Send calls ÷ duration.",
        limits: "Of several flows: all calls over the sum of their durations.",
        end: End::Sender,
        read: Read::Flow(
            |f| send_calls(f).and_then(|(seconds, calls)| over(calls, seconds)),
            Fold::Quotient(|f| send_calls(f).map(|(seconds, calls)| (calls, seconds))),
        ),
        ..CALLS
    },
    Definition {
        name: "sleeps",
        label: "Sleeps",
        key: "sleeps",
        unit: Unit::Count,
        definition: "Times that sending waited, because the socket or a queue below it was full.",
        limits: "Waits for the next slot of a paced flow are not counted.",
        end: End::Sender,
        path: "sender.sleeps",
        read: Read::Flow(|f| number(f.sender.as_ref()?.sleeps), Fold::Sum),
        ..CALLS
    },
    Definition {
        name: "sleep_time",
        label: "Time asleep",
        key: "sleep_seconds",
        definition: "Total time of the sleeps: from a full socket or queue to the next accepted send.",
        limits: "Includes the sender's own wait for the processor. Of several flows: the largest.",
        end: End::Sender,
        path: "sender.sleep_seconds",
        read: Read::Flow(|f| f.sender.as_ref()?.sleep_seconds, Fold::Largest),
        ..CALLS
    },
    Definition {
        name: "time_per_call",
        label: "Time per receive call",
        key: "time_per_call_seconds",
        definition: "Duration ÷ receive calls, as ttcp prints it.",
        limits: "Includes the time between calls.",
        end: End::Receiver,
        read: Read::Flow(
            |f| receive_calls(f).and_then(|(seconds, calls)| over(seconds, calls)),
            Fold::Quotient(receive_calls),
        ),
        ..CALLS
    },
    Definition {
        name: "calls_per_second",
        label: "Receive calls per second",
        key: "calls_per_second",
        unit: Unit::Count,
        definition: "Receive calls ÷ duration.",
        limits: "Of several flows: all calls over the sum of their durations.",
        end: End::Receiver,
        read: Read::Flow(
            |f| receive_calls(f).and_then(|(seconds, calls)| over(calls, seconds)),
            Fold::Quotient(|f| receive_calls(f).map(|(seconds, calls)| (calls, seconds))),
        ),
        ..CALLS
    },
    Definition {
        name: "packets",
        label: "Packets received",
        key: "packets",
        definition: "Distinct datagrams received within the loss threshold.",
        limits: "Exact. Each datagram is in exactly one counter: received, duplicate, late, implausible or unreadable.",
        better: Better::Higher,
        path: "receiver.packets",
        read: Read::Flow(|f| number(Some(f.receiver.as_ref()?.packets)), Fold::Sum),
        interval: in_interval!(packets, |c| number(Some(c.packets))),
        is_compared: false,
        is_lower_bound: true,
        ..DATAGRAMS
    },
    Definition {
        name: "sent_packets",
        label: "Packets sent",
        key: "sent_packets",
        definition: "Datagrams that the sender's system accepted.",
        limits: "Exact.",
        end: End::Sender,
        better: Better::Neither,
        path: "sender.packets",
        read: Read::Flow(|f| number(Some(f.sender.as_ref()?.packets)), Fold::Sum),
        interval: in_interval!(packets, |c| number(Some(c.packets))),
        is_compared: false,
        is_lower_bound: true,
        ..DATAGRAMS
    },
    Definition {
        name: "payload_size",
        label: "Payload per packet",
        key: "payload_bytes",
        unit: Unit::Bytes,
        definition: "Payload bytes of each datagram. Packet rates of different sizes are not comparable.",
        limits: "Exact.",
        group: Group::Volume,
        end: End::Sender,
        better: Better::Neither,
        read: Read::Flow(|f| number(Some(f.payload_bytes)), Fold::Largest),
        is_compared: false,
        ..DATAGRAMS
    },
    Definition {
        name: "loss",
        label: "Loss",
        key: "loss_ratio",
        unit: Unit::Ratio,
        source: "RFC 7680",
        definition: "Lost ÷ sent packets, over all flows. A packet that has not arrived within the loss threshold is lost; if it arrives later it remains lost and also counts as late.",
        limits: "As lost packets.",
        path: "receiver.loss_ratio",
        read: Read::Flow(
            |f| f.receiver.as_ref()?.loss_ratio,
            Fold::Quotient(|f| {
                let lost = f.receiver.as_ref()?.lost_packets?;
                Some((lost as f64, f.sender.as_ref()?.packets as f64))
            }),
        ),
        interval: Some(InInterval { field: "", get: loss_in_interval, is_last_value: false }),
        is_headline: true,
        needs_both_ends: true,
        ..DATAGRAMS
    },
    Definition {
        name: "lost_packets",
        label: "Lost",
        key: "lost_packets",
        source: "RFC 7680",
        definition: "Sent − received packets.",
        limits: "Exact once the sender's final count is known; without it, losses at the end are not seen. Unknown where an end of a flow did not report.",
        path: "receiver.lost_packets",
        read: received!(lost_packets),
        interval: in_interval!(lost_packets, |c| number(c.lost_packets)),
        is_compared: false,
        needs_both_ends: true,
        ..DATAGRAMS
    },
    Definition {
        name: "burst_density",
        label: "Burst density",
        key: "burst_density_ratio",
        unit: Unit::Ratio,
        definition: "Fraction of the packets within bursts that were lost. A burst is the longest sequence that begins and ends with a lost packet and has fewer than 16 (Gmin) consecutive received packets; a single lost packet is not a burst.",
        path: "receiver.burst_density_ratio",
        also: &["receiver.bursts", "receiver.burst_packets", "receiver.burst_lost_packets"],
        read: Read::Flow(
            |f| f.receiver.as_ref()?.burst_density_ratio,
            Fold::Quotient(|f| {
                let r = f.receiver.as_ref()?;
                Some((r.burst_lost_packets? as f64, r.burst_packets? as f64))
            }),
        ),
        line: line("Bursts", "burst density {}"),
        ..BURSTS
    },
    Definition {
        name: "gap_density",
        label: "Gap density",
        key: "gap_density_ratio",
        unit: Unit::Ratio,
        definition: "Fraction of the packets outside of bursts that were lost. Gaps are the packets before, between and after bursts.",
        path: "receiver.gap_density_ratio",
        also: &["receiver.gaps", "receiver.gap_packets", "receiver.gap_lost_packets"],
        read: Read::Flow(
            |f| f.receiver.as_ref()?.gap_density_ratio,
            Fold::Quotient(|f| {
                let r = f.receiver.as_ref()?;
                Some((r.gap_lost_packets? as f64, r.gap_packets? as f64))
            }),
        ),
        line: line("Bursts", "gap density {}"),
        ..BURSTS
    },
    Definition {
        name: "burst_duration",
        label: "Burst duration, mean",
        key: "burst_seconds",
        unit: Unit::Seconds,
        definition: "Mean duration of bursts: the packets of a burst × the sender's mean time between packets.",
        limits: "Estimated as RFC 3611 allows: exact for a sender with even spacing. Of the whole test; absent if there is no burst or the end of sending is unknown.",
        path: "receiver.burst_seconds",
        read: Read::Flow(
            |f| f.receiver.as_ref()?.burst_seconds,
            Fold::Quotient(|f| {
                let r = f.receiver.as_ref()?;
                let seconds = if r.bursts? == 0 { 0.0 } else { r.burst_seconds? };
                Some((seconds * r.bursts? as f64, r.bursts? as f64))
            }),
        ),
        // Without losses a flow has no durations.
        applies: |f| f.receiver.as_ref().is_none_or(|r| r.lost_packets != Some(0)),
        line: line("Bursts", "mean burst {}"),
        ..BURSTS
    },
    Definition {
        name: "gap_duration",
        label: "Gap duration, mean",
        key: "gap_seconds",
        unit: Unit::Seconds,
        definition: "Mean duration of gaps: the packets of a gap × the sender's mean time between packets.",
        limits: "As the burst duration.",
        better: Better::Higher,
        path: "receiver.gap_seconds",
        read: Read::Flow(
            |f| f.receiver.as_ref()?.gap_seconds,
            Fold::Quotient(|f| {
                let r = f.receiver.as_ref()?;
                let seconds = if r.gaps? == 0 { 0.0 } else { r.gap_seconds? };
                Some((seconds * r.gaps? as f64, r.gaps? as f64))
            }),
        ),
        // Without losses a flow has no durations.
        applies: |f| f.receiver.as_ref().is_none_or(|r| r.lost_packets != Some(0)),
        line: line("Bursts", "mean gap {}"),
        ..BURSTS
    },
    Definition {
        name: "late_packets",
        label: "Late",
        key: "late_packets",
        source: "RFC 7680",
        definition: "Packets that arrived after the loss threshold. They also count as lost.",
        limits: "`ambiguous` if a packet was older than the bitmap: it may be a duplicate.",
        path: "receiver.late_packets",
        read: received!(late_packets),
        line: line("Arrivals", "{} late"),
        is_compared: false,
        ..DATAGRAMS
    },
    Definition {
        name: "duplicate_packets",
        label: "Duplicate",
        key: "duplicate_packets",
        source: "RFC 5560",
        definition: "Further copies of packets that had already arrived.",
        limits: "As late packets.",
        path: "receiver.duplicate_packets",
        read: received!(duplicate_packets),
        interval: in_interval!(duplicate_packets, |c| number(c.duplicate_packets)),
        line: line("Arrivals", "{} duplicate"),
        ..DATAGRAMS
    },
    Definition {
        name: "reordered_packets",
        label: "Reordered",
        key: "reordered_packets",
        source: "RFC 4737",
        definition: "Packets that arrived within the loss threshold, after a packet that was sent later (Type-P-Reordered).",
        limits: "Exact unless `ambiguous`. Coalesced receiving (GRO) may itself restore or change the order.",
        path: "receiver.reordered_packets",
        read: received!(reordered_packets),
        interval: in_interval!(reordered_packets, |c| number(c.reordered_packets)),
        line: line("Arrivals", "{} reordered"),
        ..DATAGRAMS
    },
    Definition {
        name: "reordering_extent",
        label: "Reordering extent, maximum",
        key: "reordering_extent_max",
        source: "RFC 4737 section 4.2.2",
        definition: "Largest number of arrivals from the first packet with a higher number to a reordered packet. Duplicates are not counted as arrivals.",
        limits: "Of the whole test. Exact while at most 1024 gaps are open; beyond that, extents are lower bounds and are counted as such.",
        path: "receiver.reordering_extent_max",
        also: &["receiver.reordering_extents", "receiver.reordering_extent_bounds"],
        read: Read::Flow(|f| number(f.receiver.as_ref()?.reordering_extent_max), Fold::Largest),
        // A flow without reordering has no extents.
        applies: |f| f.receiver.as_ref().is_none_or(|r| r.reordering_extent_max.is_some()),
        ..RARE
    },
    Definition {
        name: "reordering_extent_mean",
        label: "Reordering extent, mean",
        key: "reordering_extent_mean",
        source: "RFC 4737 section 4.2.2",
        definition: "Mean reordering extent.",
        limits: "As the maximum.",
        path: "receiver.reordering_extent_mean",
        read: Read::Flow(|f| f.receiver.as_ref()?.reordering_extent_mean, Fold::Largest),
        applies: |f| f.receiver.as_ref().is_none_or(|r| r.reordering_extent_mean.is_some()),
        ..RARE
    },
    Definition {
        name: "corrupted_packets",
        label: "Corrupted",
        key: "corrupted_packets",
        definition: "Datagrams whose keyed tag does not match their header (payloads of 16 B or more), that are shorter than sent, or, with `verify`, whose payload differs.",
        limits: "A datagram with a damaged header has no known number: it also counts as lost (`unreadable_packets`), in the ledger's row *damaged header*. Below 16 B there is no tag: a damaged number is taken for another one unless it is implausible. UDP checksums drop most damaged datagrams before Weir sees them.",
        path: "receiver.corrupted_packets",
        also: &["receiver.unreadable_packets"],
        read: received!(corrupted_packets),
        line: line("Arrivals", "{} corrupted"),
        ..DATAGRAMS
    },
    Definition {
        name: "ce_packets",
        label: "CE marks",
        key: "ce_packets",
        source: "RFC 3168 section 5",
        definition: "Datagrams that arrived with the ECN codepoint CE (congestion experienced), of those sent as ECN-capable (`ecn`, or ECN bits in `tos`).",
        limits: "Duplicates are counted. The codepoints of arrived datagrams are counted only if they were sent as ECN-capable.",
        path: "receiver.ecn.ce_packets",
        also: &[
            "receiver.ecn.not_ect_packets",
            "receiver.ecn.ect0_packets",
            "receiver.ecn.ect1_packets",
        ],
        read: Read::Flow(
            |f| number(Some(f.receiver.as_ref()?.ecn.as_ref()?.ce_packets)),
            Fold::Sum,
        ),
        applies: |f| f.receiver.as_ref().is_none_or(|r| r.ecn.is_some()),
        ..RARE
    },
    Definition {
        name: "implausible_packets",
        label: "Implausible",
        key: "implausible_packets",
        definition: "Datagrams with a number that the sender can't have used. They are not counted as received.",
        limits: "Above zero means corruption or datagrams of another source. The ledger's row *implausible number* is a bound: datagrams of another source are not among the missing ones.",
        path: "receiver.implausible_packets",
        read: received!(implausible_packets),
        line: line("Arrivals", "{} with an implausible number"),
        ..RARE
    },
    Definition {
        name: "forced_packets",
        label: "Declared lost early",
        key: "forced_packets",
        definition: "Packets counted as lost before the loss threshold, because the receiver's bitmap had reached its maximum size.",
        limits: "Of the whole test. Above zero sets `ambiguous`: the loss threshold was shorter than configured.",
        path: "receiver.forced_packets",
        read: received!(forced_packets),
        line: line("Arrivals", "{} declared lost early"),
        ..RARE
    },
    Definition {
        name: "truncated_packets",
        label: "Truncated",
        key: "truncated_packets",
        definition: "Datagrams that arrived shorter than sent.",
        limits: "Exact.",
        path: "receiver.truncated_packets",
        read: received!(truncated_packets),
        line: line("Arrivals", "{} truncated"),
        ..RARE
    },
    Definition {
        name: "bit_errors",
        label: "Bit errors",
        key: "bit_errors",
        definition: "Bits that differ from the seeded payload, with `verify`.",
        limits: "The header is covered by the tag; its bit errors are not counted.",
        path: "receiver.bit_errors",
        read: Read::Flow(|f| number(f.receiver.as_ref()?.bit_errors), Fold::Sum),
        carrier: Carrier::All,
        line: line("Arrivals", "{} bit errors"),
        ..RARE
    },
    Definition {
        name: "bit_error_ratio",
        label: "Bit-error ratio",
        key: "bit_error_ratio",
        unit: Unit::Ratio,
        definition: "Bit errors ÷ bits that were compared with the seeded payload, with `verify`.",
        limits: "Of the payload that arrived: headers, lost and truncated datagrams are not compared. Checksums drop most damaged packets before they arrive, so it is not the ratio of the line.",
        also: &["receiver.verified_bytes"],
        read: Read::Flow(
            |f| compared_bits(f).and_then(|(errors, bits)| over(errors, bits)),
            Fold::Quotient(compared_bits),
        ),
        applies: |f| f.receiver.as_ref().is_none_or(|r| r.verified_bytes.is_some()),
        carrier: Carrier::All,
        ..RARE
    },
    Definition {
        name: "socket_drops",
        label: "Socket drops",
        key: "socket_dropped_packets",
        definition: "Datagrams dropped at the receiver's socket, because its buffer was full or the checksum was wrong (SK_MEMINFO).",
        limits: "The kernel counts a coalesced super-packet once.",
        path: "receiver.socket_dropped_packets",
        read: received!(socket_dropped_packets),
        ..RARE
    },
    Definition {
        name: "undelivered_bytes",
        label: "Not delivered",
        key: "undelivered_bytes",
        unit: Unit::Bytes,
        definition: "Bytes that the sender of a stream had written but that had not arrived when the receiver stopped waiting: after 10 s without a byte (or the loss threshold, if longer), 120 s after the end of sending at most.",
        limits: "A value above zero raises a warning (`not-drained`): the receiver's figures lack these bytes. After an interrupt the wait is shorter. Datagram flows that were still receiving when waiting ended raise the warning `receiving-unfinished`: later arrivals count as lost.",
        path: "receiver.undelivered_bytes",
        read: received!(undelivered_bytes),
        carrier: Carrier::Streams,
        ..RARE
    },
    Definition {
        name: "jitter",
        label: "Jitter",
        key: "jitter_seconds",
        source: "RFC 3550 section 6.4.1",
        definition: "Interarrival jitter: smoothed difference of consecutive transit times, J += (|D| − J)/16 over arrivals. The value at the end of the run or interval, not an average.",
        limits: "D in integer ns, J in IEEE double precision, in that order of operations: reproducible to the last digit. Includes the noise of receive timestamps. In coalesced mode it is measured between batches.",
        path: "receiver.jitter_seconds",
        read: Read::Flow(|f| f.receiver.as_ref()?.jitter_seconds, Fold::Largest),
        interval: in_interval!(last jitter_seconds, |c| c.jitter_seconds),
        is_headline: true,
        ..TIME
    },
    Definition {
        name: "join_latency",
        label: "Join latency",
        key: "join_latency_seconds",
        source: "as group join delay, RFC 2432",
        definition: "From the receiver's request to join a multicast group until the first packet of the flow arrives. Only of a receiver that joins while the flow is sent.",
        limits: "Includes up to one interval between packets. If the group already reached the receiving host or its network, because another program there or another host is a member, it is not the time that routers and switches need to forward the group.",
        group: Group::Delay,
        path: "receiver.membership.join_latency_seconds",
        read: Read::Flow(
            |f| f.receiver.as_ref()?.membership.as_ref()?.join_latency_seconds,
            Fold::Largest,
        ),
        is_compared: false,
        ..TIME
    },
    Definition {
        name: "pdv_mean",
        label: "PDV, mean",
        key: "pdv_mean_seconds",
        source: "RFC 5481 section 4.2",
        definition: "Mean packet delay variation: delay − minimum delay.",
        limits: "Independent of the clocks' offset, not of their drift: 1 ppm is 1 µs per second of the run.",
        path: "receiver.delay_variation.pdv_mean_seconds",
        read: Read::Flow(
            |f| f.receiver.as_ref()?.delay_variation.as_ref()?.pdv_mean_seconds,
            Fold::Largest,
        ),
        is_compared: false,
        ..TIME
    },
    Definition {
        name: "pdv_p99",
        label: "PDV, p99",
        key: "pdv_p99_seconds",
        source: "RFC 5481 section 4.2",
        definition: "99th percentile of packet delay variation: delay − minimum delay.",
        limits: "As the mean PDV.",
        path: "receiver.delay_variation.pdv_p99_seconds",
        read: Read::Flow(
            |f| f.receiver.as_ref()?.delay_variation.as_ref()?.pdv_p99_seconds,
            Fold::Largest,
        ),
        is_p99: true,
        ..TIME
    },
    Definition {
        name: "ipdv_mean",
        label: "IPDV, mean",
        key: "ipdv_mean_seconds",
        source: "RFC 5481 section 4.1",
        definition: "Mean absolute difference between the delays of consecutive packets that both arrived, in order of sending.",
        limits: "As the p99 of IPDV.",
        path: "receiver.delay_variation.ipdv_mean_seconds",
        read: Read::Flow(
            |f| f.receiver.as_ref()?.delay_variation.as_ref()?.ipdv_mean_seconds,
            Fold::Largest,
        ),
        is_compared: false,
        ..TIME
    },
    Definition {
        name: "ipdv_p99",
        label: "IPDV, p99",
        key: "ipdv_p99_seconds",
        source: "RFC 5481 section 4.1",
        definition: "99th percentile of the absolute difference between the delays of consecutive packets that both arrived, in order of sending (RFC 3393).",
        limits: "Over all pairs of consecutive numbers that both arrived, however far they were reordered. Offset and drift cancel. A delay is stored until its neighbours have arrived or are lost, within a window of at most 524 288 packets (and 1024 per stored delay). Pairs outside it are counted as omitted; the figure is then a lower bound, with a warning (`ipdv-censored`).",
        path: "receiver.delay_variation.ipdv_p99_seconds",
        also: &[
            "receiver.delay_variation.ipdv_pairs",
            "receiver.delay_variation.ipdv_omitted_pairs",
        ],
        read: Read::Flow(
            |f| f.receiver.as_ref()?.delay_variation.as_ref()?.ipdv_p99_seconds,
            Fold::Largest,
        ),
        is_compared: false,
        is_signed: true,
        is_p99: true,
        ..TIME
    },
    Definition {
        name: "one_way_delay",
        label: "One-way delay",
        key: "one_way_delay",
        source: "RFC 7679",
        definition: "Time received − time actually sent, with the clocks related as stated; ± bounds the error of that relation. A percentile q needs at least 10/(1 − q) samples.",
        limits: "Minimum, mean and maximum are exact except for the error of the clocks. Negative values are kept and counted: any of them proves that the clock relation is wrong.",
        group: Group::Delay,
        path: "receiver.one_way_delay",
        read: Read::Flows(|f| f.receiver.as_ref()?.one_way_delay.as_ref(), |_| None),
        interval: in_interval!(mean_delay_seconds, |c| c.mean_delay_seconds),
        is_signed: true,
        ..TIME
    },
    Definition {
        name: "delay_from_intended",
        label: "Delay from intended time",
        key: "one_way_delay_from_intended",
        source: "RFC 7679",
        definition: "One-way delay from the scheduled send time. It includes the sender's own lateness, which avoids coordinated omission.",
        limits: "As the one-way delay.",
        group: Group::Delay,
        path: "receiver.one_way_delay_from_intended",
        read: Read::Flows(|f| f.receiver.as_ref()?.one_way_delay_from_intended.as_ref(), |_| None),
        applies: |f| f.receiver.as_ref().is_some_and(|r| r.one_way_delay_from_intended.is_some()),
        is_compared: false,
        is_signed: true,
        ..TIME
    },
    Definition {
        name: "transaction_rate",
        label: "Transactions per second",
        echo_label: Some("Replies per second"),
        transfer_label: Some("Transfers per second"),
        key: "transactions_per_second",
        unit: Unit::TransactionsPerSecond,
        source: "netperf",
        definition: "Completed transactions per second, from the first request to the end of sending or the last response, whichever is later. A transaction is one request and its response (RR), a connection with a request and a response (CRR), a connection that is opened and closed (CC), or a connection that carries a volume (transfer).",
        limits: "Without a rate, each request waits for the response to an earlier one: the rate is then the number of transactions in progress ÷ the mean response time, and a pause of the server lowers it without showing in the response times of requests that were not sent (coordinated omission).",
        better: Better::Higher,
        path: "transactions.transactions_per_second",
        read: Read::Flow(|f| f.transactions.as_ref()?.transactions_per_second, Fold::Sum),
        interval: in_interval!(transactions_per_second, |c| c.transactions_per_second),
        is_compared: true,
        is_lower_bound: true,
        is_headline: true,
        ..TRANSACTIONS
    },
    Definition {
        name: "transactions",
        label: "Transactions",
        echo_label: Some("Replies"),
        transfer_label: Some("Transfers"),
        key: "transactions",
        definition: "Completed transactions.",
        limits: "Exact. Without those of an omitted start.",
        better: Better::Higher,
        path: "transactions.completed",
        read: Read::Flow(|f| number(Some(f.transactions.as_ref()?.completed)), Fold::Sum),
        interval: in_interval!(transactions, |c| number(c.transactions)),
        is_lower_bound: true,
        ..TRANSACTIONS
    },
    Definition {
        name: "failed_transactions",
        label: "Failed transactions",
        echo_label: Some("Unanswered requests"),
        transfer_label: Some("Failed transfers"),
        key: "failed_transactions",
        definition: "Transactions without a whole response: none within the loss threshold, or the connection was refused, reset or closed, or the request was due but not sent. The record has them by reason.",
        limits: "A request on one stream fails only with the stream, since TCP retransmits. Response times are those of completed transactions.",
        path: "transactions.failed",
        also: &["transactions.failures"],
        read: Read::Flow(|f| number(Some(f.transactions.as_ref()?.failed)), Fold::Sum),
        ..FAILURES
    },
    Definition {
        name: "failed_connections",
        label: "Failed connections",
        key: "failed_connections",
        definition: "Failed transactions whose connection was not established.",
        limits: "Only of transactions with a connection each.",
        path: "transactions.failed_connections",
        read: Read::Flow(|f| number(f.transactions.as_ref()?.failed_connections), Fold::Sum),
        ..FAILURES
    },
    Definition {
        name: "late_responses",
        label: "Late responses",
        echo_label: Some("Late replies"),
        key: "late_responses",
        definition: "Responses in datagrams that arrived after the loss threshold. Their transactions failed.",
        limits: "Recognized for the last 4096 failed transactions of a flow; each response to an earlier request counts as late.",
        path: "transactions.late_responses",
        read: Read::Flow(|f| number(f.transactions.as_ref()?.late_responses), Fold::Sum),
        is_compared: false,
        ..FAILURES
    },
    Definition {
        name: "duplicate_responses",
        label: "Duplicate responses",
        echo_label: Some("Duplicate replies"),
        key: "duplicate_responses",
        definition: "Responses in datagrams to requests that had been answered.",
        limits: "Datagrams name their request by as many bytes as both hold, 8 at most: with 1 byte the number repeats after 256 requests.",
        path: "transactions.duplicate_responses",
        read: Read::Flow(|f| number(f.transactions.as_ref()?.duplicate_responses), Fold::Sum),
        is_compared: false,
        ..FAILURES
    },
    Definition {
        name: "reordered_responses",
        label: "Reordered responses",
        echo_label: Some("Reordered replies"),
        key: "reordered_responses",
        source: "RFC 4737",
        definition: "Responses in datagrams that arrived after the response to a later request.",
        limits: "Requests and responses can both change their order; which of them did is not known.",
        path: "transactions.reordered_responses",
        read: Read::Flow(|f| number(f.transactions.as_ref()?.reordered_responses), Fold::Sum),
        is_compared: false,
        ..FAILURES
    },
    Definition {
        name: "response_time",
        label: "Response time",
        echo_label: Some("Round trip"),
        transfer_label: Some("Completion time"),
        key: "response_time",
        source: "RFC 2681, between applications",
        definition: "Time from sending a request to the last byte of its response, at the client. With a connection for each transaction: from the start of connecting to the close by the server. Of a transfer it is the completion time (flow completion time, FCT): until the client has the last byte, or the server's confirmation that it has.",
        limits: "Between the system calls of the client, so that it includes both hosts' stacks, wake-ups and the server's work. Completed transactions only.",
        path: "transactions.response_time",
        read: Read::Flows(|f| f.transactions.as_ref()?.response_time.as_ref(), |_| None),
        is_headline: true,
        ..RESPONSES
    },
    Definition {
        name: "response_time_deviation",
        label: "Standard deviation of the response time",
        echo_label: Some("Standard deviation of the round trip"),
        transfer_label: Some("Standard deviation of the completion time"),
        key: "response_time_deviation_seconds",
        definition: "Sample standard deviation of the response time; of several flows the largest.",
        limits: "A few slow responses dominate it.",
        path: "transactions.response_time_deviation_seconds",
        group: Group::Transactions,
        read: Read::Flow(
            |f| f.transactions.as_ref()?.response_time_deviation_seconds,
            Fold::Largest,
        ),
        is_compared: false,
        ..RESPONSES
    },
    Definition {
        name: "response_time_from_scheduled",
        label: "Response time from schedule",
        echo_label: Some("Round trip from schedule"),
        transfer_label: Some("Completion time from schedule"),
        key: "response_time_from_scheduled",
        source: "RFC 2681, between applications",
        definition: "Response time from the scheduled time of the request, where requests are sent at a rate. It includes the time for which a request waited for its turn, which avoids coordinated omission.",
        limits: "As the response time.",
        path: "transactions.response_time_from_scheduled",
        read: Read::Flows(
            |f| f.transactions.as_ref()?.response_time_from_scheduled.as_ref(),
            |_| None,
        ),
        applies: |f| {
            f.transactions.as_ref().is_some_and(|t| t.response_time_from_scheduled.is_some())
        },
        is_compared: false,
        ..RESPONSES
    },
    Definition {
        name: "setup_time",
        label: "Connection set-up time",
        key: "setup_time",
        definition: "Time from the start of connecting to an established connection, where each transaction has one.",
        limits: "As the client's program sees it: the kernel may have established the connection earlier.",
        path: "transactions.setup_time",
        read: Read::Flows(|f| f.transactions.as_ref()?.setup_time.as_ref(), |_| None),
        applies: |f| f.transactions.as_ref().is_some_and(|t| t.setup_time.is_some()),
        ..RESPONSES
    },
    Definition {
        name: "transfer_goodput",
        label: "Goodput of transfers",
        key: "transfer_goodput_bits_per_second",
        unit: Unit::BitsPerSecond,
        definition: "Volume of completed transfers ÷ the time of the transactions.",
        limits: "Without the bytes of transfers that failed or did not finish, which the throughput includes.",
        better: Better::Higher,
        path: "transactions.transfers.goodput_bits_per_second",
        read: Read::Flow(
            |f| f.transactions.as_ref()?.transfers.as_ref()?.goodput_bits_per_second,
            Fold::Sum,
        ),
        is_compared: true,
        is_lower_bound: true,
        ..TRANSFERS
    },
    Definition {
        name: "unfinished_transfers",
        label: "Unfinished transfers",
        key: "unfinished_transfers",
        definition: "Transfers that were still running at the end: the loss threshold after the time of sending, they are ended. They are neither completed nor failed.",
        limits: "Long transfers are more likely among them, so that the completion times of a short test are those of the shorter ones.",
        better: Better::Lower,
        path: "transactions.transfers.unfinished",
        read: Read::Flow(
            |f| number(Some(f.transactions.as_ref()?.transfers.as_ref()?.unfinished)),
            Fold::Sum,
        ),
        is_rare: true,
        ..TRANSFERS
    },
    Definition {
        name: "transfers_with_loss",
        label: "Transfers with loss",
        key: "transfers_with_loss",
        definition: "Completed transfers over UDP of which at least one datagram was lost: the server did not have it four set-up times (10 ms to 1 s) after its first count.",
        limits: "A datagram that arrives later than that counts as lost here, and as reordered or late in the flow's loss.",
        better: Better::Lower,
        path: "transactions.transfers.with_loss",
        read: Read::Flow(
            |f| number(f.transactions.as_ref()?.transfers.as_ref()?.with_loss),
            Fold::Sum,
        ),
        is_rare: true,
        ..TRANSFERS
    },
    Definition {
        name: "transfers_not_started",
        label: "Transfers not started",
        key: "transfers_not_started",
        definition: "Transfers that were due by the law of starts while the maximum number of concurrent ones was running. They are not delayed but left out.",
        limits: "Exact. Their volumes are drawn and left out, so that the others keep theirs.",
        better: Better::Lower,
        path: "transactions.transfers.not_started",
        read: Read::Flow(
            |f| number(Some(f.transactions.as_ref()?.transfers.as_ref()?.not_started)),
            Fold::Sum,
        ),
        is_rare: true,
        ..TRANSFERS
    },
    Definition {
        name: "concurrent_transfers",
        label: "Concurrent transfers",
        key: "mean_concurrent_transfers",
        definition: "Mean number of transfers at the same time, over time from the first start to the end of the last one.",
        limits: "Includes those that set up their connection, and those over UDP that wait for missing datagrams.",
        path: "transactions.transfers.mean_concurrent",
        read: Read::Flow(
            |f| f.transactions.as_ref()?.transfers.as_ref()?.mean_concurrent,
            Fold::Sum,
        ),
        ..TRANSFERS
    },
    Definition {
        name: "page_load_time",
        label: "Page load time",
        key: "page_load_time",
        definition: "Time from the start of connecting for the first object of a page to the end of its last object: the first one by itself, then the others on a limited number of connections.",
        limits: "Loaded pages only: read it with the failed and unfinished ones. Objects follow the first one immediately, each on a new connection, so that a browser's parsing, rendering and reuse of connections are not in it.",
        path: "transactions.transfers.pages.load_time",
        read: Read::Flows(|f| pages(f)?.load_time.as_ref(), |_| None),
        applies: |f| pages(f).is_some(),
        is_headline: true,
        ..RESPONSES
    },
    Definition {
        name: "page_rate",
        label: "Pages per second",
        key: "pages_per_second",
        definition: "Loaded pages ÷ the time of the transactions.",
        limits: "Users pause between pages, so that it depends on their pauses and number.",
        better: Better::Higher,
        path: "transactions.transfers.pages.pages_per_second",
        also: &["transactions.transfers.pages.mean_objects"],
        read: Read::Flow(|f| pages(f)?.pages_per_second, Fold::Sum),
        ..PAGES
    },
    Definition {
        name: "pages",
        label: "Pages loaded",
        key: "pages",
        definition: "Pages of which all objects arrived.",
        limits: "Exact. Without those of an omitted start.",
        better: Better::Higher,
        path: "transactions.transfers.pages.loaded",
        read: Read::Flow(|f| number(Some(pages(f)?.loaded)), Fold::Sum),
        ..PAGES
    },
    Definition {
        name: "failed_pages",
        label: "Failed pages",
        key: "failed_pages",
        definition: "Pages of which an object failed.",
        limits: "Exact. If the first object fails, the others are not transferred.",
        better: Better::Lower,
        path: "transactions.transfers.pages.failed",
        read: Read::Flow(|f| number(Some(pages(f)?.failed)), Fold::Sum),
        is_compared: true,
        is_rare: true,
        ..PAGES
    },
    Definition {
        name: "unfinished_pages",
        label: "Unfinished pages",
        key: "unfinished_pages",
        definition: "Pages that were still loading at the end of the test, with objects that were not started or did not finish.",
        limits: "Slow pages are more likely among them, so that the load times of a short test are those of the faster ones.",
        better: Better::Lower,
        path: "transactions.transfers.pages.unfinished",
        read: Read::Flow(|f| number(Some(pages(f)?.unfinished)), Fold::Sum),
        is_rare: true,
        ..PAGES
    },
    Definition {
        name: "echo_throughput",
        label: "Echo throughput",
        key: "echo_bits_per_second",
        unit: Unit::BitsPerSecond,
        definition: "Payload bytes × 8 per second that came back from a server that sends back what it receives, over the time from the first to the last of them or the sender's time of sending, whichever is longer.",
        limits: "At most the rate at which the data reached the server; less if datagrams are cut.",
        group: Group::Volume,
        better: Better::Higher,
        path: "echo.bits_per_second",
        also: &[
            "echo.bytes",
            "echo.packets",
            "echo.seconds",
            "echo.packets_per_second",
            "echo.most_bytes",
            "echo.undelivered_bytes",
        ],
        read: Read::Flow(|f| f.echo.as_ref()?.bits_per_second, Fold::Sum),
        ..ECHO
    },
    Definition {
        name: "echo_loss",
        label: "Echo loss",
        key: "echo_loss_ratio",
        unit: Unit::Ratio,
        source: "RFC 2681",
        definition: "Sent datagrams whose echo did not arrive within the loss threshold ÷ sent datagrams. The sequence numbers that the server counted separate losses forward from those on the path back.",
        limits: "Echoes that the server's system did not accept are counted on their own. Without the server's report the direction is unknown.",
        better: Better::Lower,
        carrier: Carrier::Datagrams,
        path: "echo.loss_ratio",
        also: &[
            "echo.lost_packets",
            "echo.lost_forward_packets",
            "echo.unsent_packets",
            "echo.late_packets",
            "echo.duplicate_packets",
            "echo.reordered_packets",
            "echo.corrupted_packets",
            "echo.bit_errors",
            "echo.socket_dropped_packets",
        ],
        read: Read::Flow(
            |f| f.echo.as_ref()?.loss_ratio,
            Fold::Quotient(|f| {
                let lost = f.echo.as_ref()?.lost_packets?;
                Some((lost as f64, f.sender.as_ref()?.packets as f64))
            }),
        ),
        ..ECHO
    },
    Definition {
        name: "echo_lost_back",
        label: "Echoes lost back",
        key: "echo_lost_back_packets",
        definition: "Datagrams that reached the server, but whose echo did not reach the client: sent − received by the client − lost forward − not accepted by the server's system.",
        limits: "Exact in numbers of datagrams; those that the client's socket dropped are among them.",
        better: Better::Lower,
        carrier: Carrier::Datagrams,
        path: "echo.lost_back_packets",
        read: Read::Flow(|f| number(f.echo.as_ref()?.lost_back_packets), Fold::Sum),
        needs_both_ends: true,
        ..ECHO
    },
    Definition {
        name: "round_trip",
        label: "Round trip",
        key: "round_trip",
        unit: Unit::Seconds,
        definition: "Round trip of the flow: from sending a datagram to the receive stamp of its echo (RFC 2681), where the server sends back what it receives; for a TCP stream, the mean of the kernel's smoothed estimate while it sent.",
        limits: "An echo includes the time that the server takes to send it back. For TCP the kernel's estimate, sampled every 50 ms.",
        group: Group::Delay,
        better: Better::Lower,
        path: "round_trip",
        read: Read::Flows(|f| f.round_trip.as_ref(), |f| f.tcp.as_ref()?.rtt_seconds),
        applies: |f| f.round_trip.is_some() || f.tcp.is_some(),
        ..PLAIN
    },
    Definition {
        name: "r_factor",
        label: "R factor",
        key: "r_factor",
        source: "ITU-T G.107",
        definition: "Transmission rating factor of the E-model with its default parameters: R = Ro − Is − Id − Ie,eff. Id is of the delay from mouth to ear; Ie,eff of the codec (ITU-T G.113 Appendix I), the packets that the decoder lacks, and their burst ratio.",
        limits: "0 to 93.2, for narrow-band telephones. An estimate for planning, not a listening test. Echo is that of the default telephone (TELR 65 dB). Discards count as loss periods of their own. A flow without a rating makes the figure of the run absent.",
        better: Better::Higher,
        path: "voice.r_factor",
        also: &["voice_codec", "voice.codec", "voice.burst_ratio", "voice.jitter_buffer_seconds"],
        read: Read::Flow(|f| Some(f.voice.as_ref()?.r_factor), Fold::Smallest),
        ..VOICE
    },
    Definition {
        name: "mos",
        label: "MOS",
        key: "mos",
        source: "ITU-T G.107 Annex B",
        definition: "Mean opinion score of a conversation (MOS-CQE), computed from R: 1 (bad) to 4.5.",
        limits: "As the R factor. Below R = 6.5, where the formula falls below 1, it is 1.",
        better: Better::Higher,
        path: "voice.mos",
        read: Read::Flow(|f| Some(f.voice.as_ref()?.mos), Fold::Smallest),
        ..VOICE
    },
    Definition {
        name: "voice_delay",
        label: "Mouth-to-ear delay",
        key: "voice_delay_seconds",
        unit: Unit::Seconds,
        source: "ITU-T G.114",
        definition: "Frames of a packet + processing, look-ahead and concealment of the codec (Annex A.2) + delay of the fastest packet + depth of the jitter buffer. Clocks that agree within 10 ms give the one-way delay; otherwise it is half of the shortest idle round trip, and `path_delay_from` says so.",
        limits: "The buffer is fixed: it plays each packet at the delay of the fastest one + its depth. Half a round trip is wrong on asymmetric paths.",
        path: "voice.delay_seconds",
        also: &["voice.path_delay_seconds", "voice.path_delay_from"],
        read: Read::Flow(|f| Some(f.voice.as_ref()?.delay_seconds), Fold::Largest),
        ..VOICE
    },
    Definition {
        name: "voice_missing",
        label: "Missing at the decoder",
        key: "voice_missing_ratio",
        unit: Unit::Ratio,
        source: "RFC 3611 section 4.7.1",
        definition: "Packets lost on the path or discarded by the jitter buffer ÷ packets sent.",
        limits: "As loss and discards.",
        path: "voice.missing_ratio",
        read: Read::Flow(|f| Some(f.voice.as_ref()?.missing_ratio), Fold::Largest),
        ..VOICE
    },
    Definition {
        name: "discarded",
        label: "Discarded by the jitter buffer",
        key: "discarded_packets",
        source: "RFC 3611 section 4.7.1",
        definition: "Packets of a voice connection whose delay exceeds that of the fastest packet by more than the depth of the jitter buffer. They arrived, and are not counted as lost.",
        limits: "Exact up to 256 packets; then to 1/1024 of the depth. Without a send time in the header it is absent.",
        path: "receiver.discarded_packets",
        read: received!(discarded_packets),
        is_compared: false,
        ..VOICE
    },
    Definition {
        name: "retransmits",
        label: "Retransmitted segments",
        key: "retransmits",
        definition: "TCP segments retransmitted by the sender (TCP_INFO).",
        limits: "Segments retransmitted after the end of sending count in the last interval.",
        path: "tcp.retransmits",
        read: Read::Flow(|f| number(Some(f.tcp.as_ref()?.retransmits)), Fold::Sum),
        interval: in_interval!(retransmits, |c| number(c.retransmits)),
        is_compared: true,
        group: Group::Packets,
        ..TCP
    },
    Definition {
        name: "retransmitted_bytes",
        label: "Retransmitted bytes",
        key: "retransmitted_bytes",
        unit: Unit::Bytes,
        definition: "Bytes retransmitted by the sender (TCP_INFO).",
        limits: "As the retransmitted segments.",
        path: "tcp.retransmitted_bytes",
        read: Read::Flow(|f| number(f.tcp.as_ref()?.retransmitted_bytes), Fold::Sum),
        ..TCP
    },
    Definition {
        name: "ce_segments",
        label: "CE marks acknowledged",
        key: "ce_segments",
        source: "RFC 3168 section 6.1",
        definition: "TCP segments that the receiver acknowledged as marked CE, as the sender's kernel counts them (TCP_INFO), if ECN was negotiated.",
        limits: "With classic ECN the echo lasts until the sender reduces its window, so that this is an upper bound of the marks. Whether ECN is negotiated depends on net.ipv4.tcp_ecn of both ends, not on the socket.",
        path: "tcp.ce_segments",
        read: Read::Flow(|f| number(f.tcp.as_ref()?.ce_segments), Fold::Sum),
        applies: |f| f.tcp.as_ref().is_none_or(|t| t.ce_segments.is_some()),
        ..TCP
    },
    Definition {
        name: "tcp_round_trip",
        label: "TCP round trip, mean",
        key: "tcp_rtt_seconds",
        unit: Unit::Seconds,
        definition: "Smoothed round trip of the sender's kernel (TCP_INFO): mean of samples every 50 ms while the flow sent. In an interval, the last value.",
        limits: "The kernel's estimate. Absent if a flow sent for less time than a sample takes.",
        path: "tcp.rtt_seconds",
        read: Read::Flow(|f| f.tcp.as_ref()?.rtt_seconds, Fold::Largest),
        interval: in_interval!(last rtt_seconds, |c| c.rtt_seconds),
        is_compared: true,
        ..TCP
    },
    Definition {
        name: "tcp_min_round_trip",
        label: "TCP round trip, minimum",
        key: "tcp_min_rtt_seconds",
        unit: Unit::Seconds,
        definition: "Smallest round trip that the sender's kernel measured (TCP_INFO).",
        limits: "The kernel's value, over the life of the connection.",
        path: "tcp.min_rtt_seconds",
        read: Read::Flow(|f| f.tcp.as_ref()?.min_rtt_seconds, Fold::Largest),
        ..TCP
    },
    Definition {
        name: "tcp_max_round_trip",
        label: "TCP round trip, maximum",
        key: "tcp_max_rtt_seconds",
        unit: Unit::Seconds,
        definition: "Largest sample of the kernel's smoothed round trip (TCP_INFO).",
        limits: "As the mean.",
        path: "tcp.max_rtt_seconds",
        read: Read::Flow(|f| f.tcp.as_ref()?.max_rtt_seconds, Fold::Largest),
        ..TCP
    },
    Definition {
        name: "congestion_window",
        label: "Congestion window, mean",
        key: "tcp_cwnd_bytes",
        unit: Unit::Bytes,
        definition: "Congestion window of the sender's kernel (TCP_INFO): mean of samples every 50 ms while the flow sent. In an interval, the last value.",
        limits: "As the TCP round trip.",
        better: Better::Neither,
        path: "tcp.cwnd_bytes",
        read: Read::Flow(|f| number(f.tcp.as_ref()?.cwnd_bytes), Fold::Largest),
        interval: in_interval!(last cwnd_bytes, |c| number(c.cwnd_bytes)),
        ..TCP
    },
    Definition {
        name: "max_congestion_window",
        label: "Congestion window, maximum",
        key: "tcp_max_cwnd_bytes",
        unit: Unit::Bytes,
        definition: "Largest sample of the congestion window (TCP_INFO).",
        limits: "As the mean.",
        better: Better::Neither,
        path: "tcp.max_cwnd_bytes",
        read: Read::Flow(|f| number(f.tcp.as_ref()?.max_cwnd_bytes), Fold::Largest),
        ..TCP
    },
    Definition {
        name: "receive_window_limited",
        label: "Limited by the receive window",
        key: "tcp_receive_window_limited_ratio",
        unit: Unit::Ratio,
        definition: "Part of the time with data in flight or waiting in which the receiver's window limited sending (TCP_INFO: tcpi_rwnd_limited ÷ tcpi_busy_time).",
        limits: "By the kernel's clock of 1 ms or 4 ms; the omitted time is included.",
        path: "tcp.receive_window_limited_ratio",
        also: &["tcp_samples.limited_by"],
        read: Read::Flow(|f| f.tcp.as_ref()?.receive_window_limited_ratio, Fold::Largest),
        ..TCP
    },
    Definition {
        name: "send_buffer_limited",
        label: "Limited by the send buffer",
        key: "tcp_send_buffer_limited_ratio",
        unit: Unit::Ratio,
        definition: "The same of the send buffer (tcpi_sndbuf_limited ÷ tcpi_busy_time).",
        limits: "As that of the receive window.",
        path: "tcp.send_buffer_limited_ratio",
        read: Read::Flow(|f| f.tcp.as_ref()?.send_buffer_limited_ratio, Fold::Largest),
        ..TCP
    },
    Definition {
        name: "connect_time",
        label: "Connect time",
        key: "connect_seconds",
        unit: Unit::Seconds,
        definition: "From the start of the TCP handshake to its end.",
        limits: "User-space timestamps.",
        end: End::Both,
        path: "connect_seconds",
        read: Read::Flow(|f| f.connect_seconds, Fold::Largest),
        carrier: Carrier::Streams,
        ..TCP
    },
    Definition {
        name: "late_slots",
        label: "Late slots",
        key: "late_slots",
        definition: "Slots of a paced sender that were served more than one period late.",
        limits: "Exact; over the whole test, omitted time included.",
        group: Group::Pacing,
        end: End::Sender,
        better: Better::Lower,
        path: "sender.late_slots",
        read: Read::Flow(|f| number(f.sender.as_ref()?.late_slots), Fold::Sum),
        // Unpaced senders have no slots.
        applies: |f| f.sender.as_ref().is_none_or(|s| s.late_slots.is_some()),
        ..PLAIN
    },
    Definition {
        name: "missed_slots",
        label: "Missed slots",
        key: "missed_slots",
        definition: "Slots of a paced sender that were skipped because the backlog exceeded 100 ms or the N slots of `burst:N`, because the policy is `none`, or because sending ended first.",
        limits: "Exact; over the whole test, omitted time included.",
        group: Group::Pacing,
        end: End::Sender,
        better: Better::Lower,
        path: "sender.missed_slots",
        also: &["sender.intended_slots", "sender.asked_packets_per_second"],
        read: Read::Flow(|f| number(f.sender.as_ref()?.missed_slots), Fold::Sum),
        applies: |f| f.sender.as_ref().is_none_or(|s| s.missed_slots.is_some()),
        is_compared: true,
        ..PLAIN
    },
    Definition {
        name: "idle_round_trip",
        label: "Round trip, idle",
        key: "idle_round_trip",
        unit: Unit::Seconds,
        source: "RFC 2681",
        definition: "Answer received − probe sent − the delay of the answer at the other host, before the load.",
        limits: "Probes are timestamped by the kernel on arrival and in user space when sent.",
        group: Group::Run,
        better: Better::Lower,
        path: "latency.idle",
        read: Read::RunDelay(|r| r.latency.as_ref()?.idle.as_ref()),
        is_compared: true,
        ..PLAIN
    },
    Definition {
        name: "loaded_round_trip",
        label: "Round trip, loaded",
        key: "loaded_round_trip",
        unit: Unit::Seconds,
        source: "RFC 2681",
        definition: "As the idle round trip, while the flows send.",
        limits: "As the idle round trip.",
        group: Group::Run,
        better: Better::Lower,
        path: "latency.loaded",
        read: Read::RunDelay(|r| r.latency.as_ref()?.loaded.as_ref()),
        is_compared: true,
        ..PLAIN
    },
    Definition {
        name: "responsiveness",
        label: "Round trips per minute",
        key: "responsiveness_per_minute",
        unit: Unit::PerMinute,
        definition: "60 s ÷ mean loaded round trip.",
        limits: "Network round trips only: no time of protocols or applications is included.",
        group: Group::Run,
        better: Better::Higher,
        path: "latency.responsiveness_per_minute",
        read: Read::Run(|r| r.latency.as_ref()?.responsiveness_per_minute),
        is_compared: true,
        ..PLAIN
    },
    Definition {
        name: "payload_usage",
        label: "Link usage, payload",
        key: "payload_usage_ratio",
        definition: "Payload rate ÷ nominal rate of the link.",
        path: "link_usage.payload_ratio",
        read: Read::Run(|r| usage(r, |u| u.payload_ratio)),
        ..USAGE
    },
    Definition {
        name: "ip_usage",
        label: "Link usage, IP",
        key: "ip_usage_ratio",
        definition: "Rate with transport and IP headers ÷ nominal rate; of Ethernet frames without IP, with what is behind Ethernet's header.",
        path: "link_usage.ip_ratio",
        read: Read::Run(|r| usage(r, |u| u.ip_ratio)),
        ..USAGE
    },
    Definition {
        name: "ethernet_usage",
        label: "Link usage, Ethernet",
        key: "ethernet_usage_ratio",
        definition: "Rate with Ethernet headers and FCS ÷ nominal rate.",
        path: "link_usage.ethernet_ratio",
        read: Read::Run(|r| usage(r, |u| u.ethernet_ratio)),
        ..USAGE
    },
    Definition {
        name: "ethernet_rate",
        label: "Rate, Ethernet",
        key: "ethernet_bits_per_second",
        unit: Unit::BitsPerSecond,
        definition: "Rate with Ethernet headers and FCS: that of the MAC level.",
        limits: "Computed for equal packet sizes, not counted. Needs the nominal rate of the link, but not its value.",
        also: &["link_usage.ethernet_ratio", "link_usage.nominal_bits_per_second"],
        read: Read::Run(|r| usage(r, |u| u.ethernet_ratio * u.nominal_bits_per_second as f64)),
        ..USAGE
    },
    Definition {
        name: "link_usage",
        label: "Link usage, wire",
        key: "link_usage_ratio",
        definition: "Rate on the wire, preamble and gap included, ÷ nominal rate.",
        path: "link_usage.wire_ratio",
        read: Read::Run(|r| usage(r, |u| u.wire_ratio)),
        is_compared: true,
        ..USAGE
    },
    Definition {
        name: "local_cpu",
        label: "CPU, this side",
        key: "local_cpu_ratio",
        unit: Unit::Ratio,
        definition: "Busy fraction of all processors of this host during sending.",
        limits: "The kernel accounts in ticks: short runs are coarse.",
        group: Group::Run,
        better: Better::Lower,
        read: Read::Run(|r| busy(r.cpu.as_ref()?.local.as_ref())),
        is_compared: true,
        ..PLAIN
    },
    Definition {
        name: "remote_cpu",
        label: "CPU, other side",
        key: "remote_cpu_ratio",
        unit: Unit::Ratio,
        definition: "Busy fraction of all processors of the other host during sending.",
        limits: "As this side's.",
        group: Group::Run,
        better: Better::Lower,
        read: Read::Run(|r| busy(r.cpu.as_ref()?.remote.as_ref())),
        is_compared: true,
        ..PLAIN
    },
    Definition {
        name: "local_service_demand",
        label: "CPU time per KiB, this side",
        key: "local_service_demand_seconds",
        definition: "Service demand as netperf defines it: CPU time of all processors of this host during sending (user, kernel, interrupts) ÷ KiB of payload that arrived.",
        read: Read::Run(|r| per_kib(r, Side::Local)),
        ..DEMAND
    },
    Definition {
        name: "remote_service_demand",
        label: "CPU time per KiB, other side",
        key: "remote_service_demand_seconds",
        definition: "As this side's, of the other host.",
        read: Read::Run(|r| per_kib(r, Side::Remote)),
        ..DEMAND
    },
    Definition {
        name: "local_transaction_demand",
        label: "CPU time per transaction, this side",
        key: "local_transaction_demand_seconds",
        definition: "CPU time of all processors of this host during sending ÷ completed transactions.",
        read: Read::Run(|r| per_transaction(r, Side::Local)),
        ..DEMAND
    },
    Definition {
        name: "remote_transaction_demand",
        label: "CPU time per transaction, other side",
        key: "remote_transaction_demand_seconds",
        definition: "As this side's, of the other host.",
        read: Read::Run(|r| per_transaction(r, Side::Remote)),
        ..DEMAND
    },
    Definition {
        name: "emulator_cpu",
        label: "CPU, emulator",
        key: "emulator_cpu_ratio",
        unit: Unit::Ratio,
        definition: "Processor time of the threads of the emulator on the path, from before the test to its end, ÷ time of sending. 100 % is one processor; two threads reach 200 %.",
        limits: "Includes other traffic of the emulator, and the little that it does before and after sending. Interrupts are not included.",
        group: Group::Run,
        better: Better::Lower,
        read: Read::Run(emulator_busy),
        ..PLAIN
    },
];
