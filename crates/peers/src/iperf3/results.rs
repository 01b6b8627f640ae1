//! Reports of this end as iperf3's results, and iperf3's results as the report of the far end.

use weir_model::plan::{Direction, FlowSpec, TransportName};
use weir_model::record::{Receiver, Sender, Tcp};
use weir_model::report::{EndReport, FlowReport};
use weir_model::units::Span;

use weir_traffic::session::SenderTotal;

use super::codec::{Results, StreamResult, stream_id};

/// The results of this end. `specs` are in the order in which the streams were opened; `omitted_packets` are of this
/// end's senders, by flow. `seconds`: duration without the omitted time.
pub(super) fn of_report(
    specs: &[FlowSpec],
    report: &EndReport,
    omitted_packets: impl Fn(u32) -> u64,
    seconds: f64,
) -> Results {
    let stream = |(index, spec): (usize, &FlowSpec)| {
        let flow = report.flows.iter().find(|flow| flow.id == spec.id);
        let id = stream_id(index);
        let Some(flow) = flow else { return StreamResult { id, ..StreamResult::default() } };
        let is_datagrams = spec.connection.transport.datagrams();
        match (&flow.sender, &flow.receiver) {
            (Some(sender), _) => StreamResult {
                id,
                bytes: sender.bytes,
                retransmits: flow.tcp.as_ref().map(|tcp| tcp.retransmits),
                packets: if is_datagrams { sender.packets + omitted_packets(spec.id) } else { 0 },
                omitted_packets: Some(omitted_packets(spec.id)),
                omitted_lost: Some(0),
                seconds: Some(seconds.max(sender.seconds)),
                ..StreamResult::default()
            },
            (None, Some(receiver)) => {
                let lost = receiver.lost_packets.unwrap_or(0);
                StreamResult {
                    id,
                    bytes: receiver.bytes,
                    jitter_seconds: receiver.jitter_seconds.unwrap_or(0.0),
                    lost,
                    packets: if is_datagrams { receiver.packets + lost } else { 0 },
                    omitted_lost: Some(0),
                    omitted_packets: Some(0),
                    seconds: Some(seconds.max(receiver.seconds)),
                    ..StreamResult::default()
                }
            }
            _ => StreamResult { id, ..StreamResult::default() },
        }
    };
    let tcp = |flow: &FlowReport| flow.tcp.clone();
    let sends = report.flows.iter().any(|flow| flow.sender.is_some());
    Results {
        cpu_percent: report.cpu.as_ref().map_or([0.0; 3], |cpu| {
            let (user, system) = (cpu.process_user_ratio, cpu.process_system_ratio);
            [user + system, user, system].map(|ratio| 100.0 * ratio)
        }),
        has_retransmits: sends.then(|| report.flows.iter().any(|flow| flow.tcp.is_some())),
        congestion: report.flows.iter().find_map(tcp).map(|tcp| tcp.congestion_control),
        output: None,
        streams: specs.iter().enumerate().map(stream).collect(),
    }
}

/// The report of the far end of flows that `near` reports. What it did not state is absent: iperf3 has no CPU time of its
/// host, and counts no writes to a stream.
pub(super) fn to_report(
    specs: &[FlowSpec],
    results: &Results,
    near: &EndReport,
    omit: Span,
) -> EndReport {
    let flow = |(index, spec): (usize, &FlowSpec)| {
        let stream = stream_of(results, index, spec, omit)?;
        let name = spec.connection.transport.name();
        let report = FlowReport { id: spec.id, ..FlowReport::default() };
        Some(match spec.connection.direction {
            Direction::Reverse => FlowReport {
                sender: Some(sender(&stream, name)),
                tcp: tcp(spec.id, &stream, results, near),
                ..report
            },
            Direction::Forward => FlowReport { receiver: Some(receiver(&stream, name)), ..report },
        })
    };
    EndReport { flows: specs.iter().enumerate().filter_map(flow).collect(), ..EndReport::default() }
}

/// The totals of the far end's senders, as far as they are known: iperf3 does not state the bytes that a stream omits.
pub(super) fn totals<'a>(
    specs: &'a [FlowSpec],
    results: &'a Results,
    omit: Span,
) -> impl Iterator<Item = SenderTotal> + use<'a> {
    specs.iter().enumerate().filter_map(move |(index, spec)| {
        let is_sent = spec.connection.direction == Direction::Reverse;
        let is_known = omit.0 == 0 || spec.connection.transport.datagrams();
        let stream = stream_of(results, index, spec, omit).filter(|_| is_sent && is_known)?;
        Some(SenderTotal {
            flow: spec.id,
            packets: stream.packets,
            bytes: stream.bytes,
            omitted_packets: stream.omitted_packets.unwrap_or(0),
            end_ns: None,
        })
    })
}

/// The results of the stream at `index`. Before 3.14, iperf3 counts datagrams of the omitted time and does not state how many:
/// the bytes, which it counts without them, tell.
fn stream_of(results: &Results, index: usize, spec: &FlowSpec, omit: Span) -> Option<StreamResult> {
    let id = stream_id(index);
    let stream = *results.streams.iter().find(|stream| stream.id == id)?;
    if omit.0 == 0 || stream.omitted_packets.is_some() {
        return Some(stream);
    }
    let counted = stream.bytes / spec.payload_bytes().max(1);
    Some(StreamResult { omitted_packets: Some(stream.packets.saturating_sub(counted)), ..stream })
}

fn per_second(amount: u64, seconds: Option<f64>) -> Option<f64> {
    seconds.filter(|seconds| *seconds > 0.0).map(|seconds| amount as f64 / seconds)
}

fn sender(stream: &StreamResult, name: TransportName) -> Sender {
    // Of a stream, iperf3 counts no writes.
    let packets = if name.datagrams() { counted(stream) } else { 0 };
    Sender {
        bytes: stream.bytes,
        packets,
        seconds: stream.seconds.unwrap_or(0.0),
        bits_per_second: per_second(stream.bytes.saturating_mul(8), stream.seconds),
        packets_per_second: name.datagrams().then(|| per_second(packets, stream.seconds)).flatten(),
        ..Sender::default()
    }
}

/// Datagrams without the omitted time.
fn counted(stream: &StreamResult) -> u64 {
    stream.packets.saturating_sub(stream.omitted_packets.unwrap_or(0))
}

fn receiver(stream: &StreamResult, name: TransportName) -> Receiver {
    let receiver = Receiver {
        bytes: stream.bytes,
        seconds: stream.seconds.unwrap_or(0.0),
        bits_per_second: per_second(stream.bytes.saturating_mul(8), stream.seconds),
        ..Receiver::default()
    };
    if !name.datagrams() {
        return receiver;
    }
    let lost = match (stream.omitted_lost, stream.omitted_packets) {
        (Some(omitted), _) => Some(stream.lost.saturating_sub(omitted)),
        // Which of them were lost in the omitted time is not known.
        (None, Some(1..)) if stream.lost > 0 => None,
        (None, _) => Some(stream.lost),
    };
    let expected = counted(stream);
    let packets = match lost {
        Some(lost) => expected.saturating_sub(lost),
        None => expected,
    };
    let ratio = |lost| (expected > 0).then(|| lost as f64 / expected as f64);
    Receiver {
        packets,
        packets_per_second: per_second(packets, stream.seconds),
        lost_packets: lost,
        loss_ratio: lost.and_then(ratio),
        jitter_seconds: Some(stream.jitter_seconds),
        ..receiver
    }
}

/// What a sender of a stream states about its connection, with the segment size that this end knows.
fn tcp(flow: u32, stream: &StreamResult, results: &Results, near: &EndReport) -> Option<Tcp> {
    let retransmits = stream.retransmits?;
    let near = near.flows.iter().find(|report| report.id == flow)?.tcp.as_ref()?;
    Some(Tcp {
        retransmits,
        mss_bytes: near.mss_bytes,
        congestion_control: results.congestion.clone().unwrap_or_default(),
        ..Tcp::default()
    })
}
