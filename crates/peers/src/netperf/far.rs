//! The server's results as the report of the far end.

use weir_model::plan::{Direction, FlowSpec, Shape};
use weir_model::record::{Receiver, Sender, Tcp};
use weir_model::report::{EndReport, FlowReport};

use super::codec::Results;

/// The report of the far end of a flow that `near` reports. What the server did not state is absent.
pub(super) fn to_report(spec: &FlowSpec, results: &Results, near: &EndReport) -> EndReport {
    let own = near.flows.iter().find(|flow| flow.id == spec.id);
    let seconds = f64::from(results.seconds);
    let per_second = |amount: u64| (seconds > 0.0).then(|| amount as f64 / seconds);
    let connection = &spec.connection;
    let is_datagrams = connection.transport.datagrams();
    let report = FlowReport { id: spec.id, ..FlowReport::default() };
    let flow = match (connection.shape, connection.direction) {
        (Shape::Stream, Direction::Reverse) => FlowReport {
            sender: Some(Sender {
                bytes: results.sent_bytes,
                packets: results.send_calls.into(),
                seconds,
                bits_per_second: per_second(results.sent_bytes.saturating_mul(8)),
                packets_per_second: per_second(results.send_calls.into()),
                io_calls: Some(results.send_calls.into()),
                buffer_bytes: results.send_buffer.map(u64::from),
                ..Sender::default()
            }),
            tcp: results.retransmits.map(|retransmits| Tcp {
                retransmits: retransmits.into(),
                mss_bytes: own.and_then(|own| own.tcp.as_ref()).map_or(0, |tcp| tcp.mss_bytes),
                congestion_control: results.congestion.clone().unwrap_or_default(),
                ..Tcp::default()
            }),
            ..report
        },
        (Shape::Stream, Direction::Forward) => {
            // A call for each datagram.
            let packets = if is_datagrams { results.receive_calls.into() } else { 0 };
            let sent = own.and_then(|own| own.sender.as_ref()).filter(|_| is_datagrams);
            let lost = sent.map(|sent| sent.packets.saturating_sub(packets));
            let sent = sent.map_or(0, |sent| sent.packets);
            FlowReport {
                receiver: Some(Receiver {
                    bytes: results.received_bytes,
                    packets,
                    seconds,
                    bits_per_second: per_second(results.received_bytes.saturating_mul(8)),
                    packets_per_second: is_datagrams.then(|| per_second(packets)).flatten(),
                    lost_packets: lost,
                    loss_ratio: lost.filter(|_| sent > 0).map(|lost| lost as f64 / sent as f64),
                    io_calls: Some(results.receive_calls.into()),
                    buffer_bytes: results.receive_buffer.map(u64::from),
                    ..Receiver::default()
                }),
                ..report
            }
        }
        _ => FlowReport {
            receiver: Some(Receiver {
                bytes: results.received_bytes,
                packets: results.transactions.into(),
                seconds,
                bits_per_second: per_second(results.received_bytes.saturating_mul(8)),
                packets_per_second: per_second(results.transactions.into()),
                io_calls: Some(results.receive_calls.into()),
                buffer_bytes: results.receive_buffer.map(u64::from),
                ..Receiver::default()
            }),
            ..report
        },
    };
    EndReport { flows: vec![flow], ..EndReport::default() }
}
