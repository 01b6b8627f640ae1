//! Output of nuttcp 6.1.2.

use weir_exchange::read;
use weir_model::plan::Direction::Forward;
use weir_model::record::Status;

use super::{content, is_near, one, receiver, sender};

const MB: f64 = 1_048_576.0;

#[test]
fn a_stream_is_the_receivers() {
    for name in ["tcp", "tcp_interval", "tcp_parse"] {
        let record = one(&format!("nuttcp/{name}.txt"));
        let flow = &record.flows[0];
        assert_eq!((flow.direction, flow.transport.label()), (Forward, "tcp"), "{name}");
        assert!(flow.sender.is_none());
        assert_eq!(flow.tcp.as_ref().map(|tcp| tcp.retransmits), Some(0));
        assert!(flow.connect_seconds.is_some_and(|s| (0.00001..0.001).contains(&s)), "{name}");
    }
    let record = one("nuttcp/tcp_interval.txt");
    let arrived = receiver(&record.flows[0]);
    assert_eq!((arrived.bytes, arrived.seconds), ((4.8125 * MB) as u64, 2.02));
    assert_eq!(arrived.bits_per_second, Some(19_989_700.0));
    assert_eq!(record.intervals.len(), 4);
    let last = &record.intervals[3];
    assert_eq!((last.start_seconds, last.end_seconds), (1.5, 2.0));
    let row = last.flows[0].receiver.as_ref().unwrap();
    assert_eq!((row.bytes, row.bits_per_second), ((1.1875 * MB) as u64, Some(19_923_300.0)));
    assert_eq!(one("nuttcp/tcp_parse.txt").intervals.len(), 3);
    assert_eq!(one("nuttcp/running.txt").intervals.len(), 2, "running totals are no rows");
}

#[test]
fn losses_of_datagrams() {
    let record = one("nuttcp/udp_loss.txt");
    let flow = &record.flows[0];
    assert_eq!((flow.transport.label(), flow.payload_bytes), ("udp", 1400));
    assert_eq!((sender(flow).packets, sender(flow).bytes), (53_571, 53_571 * 1400));
    let arrived = receiver(flow);
    assert_eq!((arrived.packets, arrived.lost_packets), (30_455, Some(23_116)));
    assert_eq!(arrived.bytes, 30_455 * 1400);
    assert!(is_near(arrived.loss_ratio.unwrap(), 0.4315, 1e-3));

    let record = one("nuttcp/udp_loss_parse.txt");
    let lost: Vec<_> = record
        .intervals
        .iter()
        .map(|r| r.flows[0].receiver.as_ref().unwrap().lost_packets)
        .collect();
    assert_eq!(lost, [Some(10_102), Some(5503)]);
    let total = record.intervals[0].total.forward.as_ref().unwrap().receiver.as_ref().unwrap();
    assert_eq!(total.packets, 26_788 - 10_102);
    assert_eq!(one("nuttcp/udp_interval.txt").flows[0].payload_bytes, 1000);
    assert_eq!(one("nuttcp/udp_parse.txt").intervals.len(), 3);
}

#[test]
fn both_ends_with_details() {
    let record = one("nuttcp/verbose.txt");
    assert_eq!(record.labels["tool-version"], "6.1.2");
    assert_eq!(record.plan.host.as_deref(), Some("127.0.0.1"));
    let flow = &record.flows[0];
    assert_eq!(
        (sender(flow).bytes, receiver(flow).bytes),
        ((2.4375 * MB) as u64, (2.4375 * MB) as u64)
    );
    assert_eq!((flow.payload_bytes, flow.tcp.as_ref().unwrap().mss_bytes), (65_536, 32_741));
    assert!(is_near(receiver(flow).bits_per_second.unwrap(), 20_044_800.0, 1e-9));
}

#[test]
fn several_results_and_none() {
    let text = |name: &str| String::from_utf8(content(&format!("nuttcp/{name}.txt"))).unwrap();
    let all = ["tcp", "udp_loss_parse", "verbose", "verbose", "tcp_interval"].map(text).concat();
    let records = read(all.as_bytes(), None, 0).unwrap();
    let rows: Vec<usize> = records.iter().map(|record| record.intervals.len()).collect();
    assert_eq!(rows, [0, 2, 0, 0, 4]);
    // Stopped before the result.
    let rows = text("tcp_interval").lines().take(3).collect::<Vec<_>>().join("\n");
    let record = read(rows.as_bytes(), None, 0).unwrap().swap_remove(0);
    assert_eq!((record.status, record.intervals.len()), (Status::Partial, 3));
    assert_eq!(receiver(&record.flows[0]).bytes, (3.0 * 1.1875 * MB) as u64);
    let error = read(text("tcp").replace("2.4375 MB", "x MB").as_bytes(), None, 0).unwrap_err();
    assert_eq!(error.line, Some(1));
    let error =
        read(text("udp_parse").replace("drop=0", "drop=x").as_bytes(), None, 0).unwrap_err();
    assert_eq!(error.line, Some(1));
}
