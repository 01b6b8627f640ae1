//! What came back of an echoed flow, and in which direction the rest was lost.

use weir_model::plan::FlowSpec;
use weir_model::record::{Delay, Echo};
use weir_model::report::FlowReport;

/// The echo of a flow by the reports of the client, which counts what comes back, and of the server, which counts what
/// reached it.
///
/// An echo is missing because its datagram did not reach the server, because the server's system did not accept it, or
/// because it was lost on the path back. Numbers are counted once at each end, so that these add up whatever is duplicated.
pub(super) fn echo(
    spec: &FlowSpec,
    client: &FlowReport,
    server: Option<&FlowReport>,
) -> Option<Echo> {
    let back = client.echo.as_ref()?;
    let lost_forward = server.and_then(|server| server.receiver.as_ref()?.lost_packets);
    let unsent = server.and_then(|server| server.unechoed_packets);
    let lost_back = back.lost_packets.zip(lost_forward);
    Some(Echo {
        bytes: back.bytes,
        packets: back.packets,
        seconds: back.seconds,
        bits_per_second: back.bits_per_second,
        packets_per_second: back.packets_per_second,
        most_bytes: spec.connection.echo?.most_bytes().map(|bytes| bytes as u64),
        lost_packets: back.lost_packets,
        lost_forward_packets: lost_forward.filter(|_| back.lost_packets.is_some()),
        unsent_packets: unsent,
        lost_back_packets: lost_back
            .map(|(all, forward)| all.saturating_sub(forward).saturating_sub(unsent.unwrap_or(0))),
        loss_ratio: back.loss_ratio,
        duplicate_packets: back.duplicate_packets,
        reordered_packets: back.reordered_packets,
        late_packets: back.late_packets,
        corrupted_packets: back.corrupted_packets,
        bit_errors: back.bit_errors,
        socket_dropped_packets: back.socket_dropped_packets,
        undelivered_bytes: back.undelivered_bytes,
    })
}

/// The round trip of a client's echoes, which one clock has measured.
pub(super) fn round_trip(client: &FlowReport) -> Option<Delay> {
    let delay = client.echo.as_ref()?.one_way_delay.clone()?;
    Some(Delay { error_seconds: None, ..delay })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::plan::{Connection, Family, Plan, Transport};
    use weir_model::record::Receiver;

    fn counted(lost: u64) -> Option<Receiver> {
        Some(Receiver { lost_packets: Some(lost), ..Receiver::default() })
    }

    #[test]
    fn losses_are_those_of_the_directions() {
        let connection = Connection {
            transport: Transport::udp(),
            echo: Some("64".parse().unwrap()),
            ..Connection::default()
        };
        let plan = Plan { connections: vec![connection], ..Plan::default() };
        let spec = plan.flows(Family::Ipv4, 1500).remove(0);
        let client = FlowReport { echo: counted(9), ..FlowReport::default() };
        let server =
            FlowReport { receiver: counted(4), unechoed_packets: Some(2), ..FlowReport::default() };
        let both = echo(&spec, &client, Some(&server)).unwrap();
        assert_eq!((both.lost_packets, both.most_bytes), (Some(9), Some(64)));
        assert_eq!((both.lost_forward_packets, both.unsent_packets), (Some(4), Some(2)));
        assert_eq!(both.lost_back_packets, Some(3));
        // Without the server's report the direction is unknown.
        let one = echo(&spec, &client, None).unwrap();
        assert_eq!((one.lost_packets, one.lost_forward_packets), (Some(9), None));
        assert_eq!(one.lost_back_packets, None);
        assert_eq!(echo(&spec, &server, Some(&client)), None);
    }
}
