//! Output of netperf 2.7.

use weir_exchange::read;
use weir_model::plan::Direction::{Forward, Reverse};
use weir_model::plan::{PeerName, Shape};

use super::{content, has_warning, is_near, one, receiver, sender, try_read};

#[test]
fn tables_of_streams() {
    let record = one("netperf/tcp_stream.txt");
    assert_eq!(
        (record.plan.peer, record.plan.host.as_deref()),
        (PeerName::Netperf, Some("192.0.2.1"))
    );
    let flow = &record.flows[0];
    assert_eq!((flow.direction, flow.payload_bytes), (Forward, 16_384));
    let arrived = receiver(flow);
    assert_eq!((arrived.seconds, arrived.bits_per_second), (1.0, Some(18_653.41e6)));
    // Computed of both.
    assert_eq!(arrived.bytes, 2_331_676_250);
    assert!(flow.sender.is_none(), "the throughput is the receiver's");

    // In KBytes of 1024.
    let flow = &one("netperf/tcp_maerts.txt").flows[0];
    assert_eq!((flow.direction, &*flow.source), (Reverse, "192.0.2.1"));
    let rate = receiver(flow).bits_per_second.unwrap();
    assert!(is_near(rate, 2_234_417.25 * 1024.0 * 8.0, 1e-12), "{rate}");
    let rate = receiver(&one("netperf/tcp_stream_cpu.txt").flows[0]).bits_per_second;
    assert_eq!(rate, Some(25.6e9));
    assert_eq!(receiver(&one("netperf/tcp_stream_v2.txt").flows[0]).seconds, 1.0);
}

#[test]
fn datagrams_have_both_ends() {
    let flow = &one("netperf/udp_stream.txt").flows[0];
    assert_eq!((flow.transport.label(), flow.payload_bytes), ("udp", 1400));
    assert_eq!((sender(flow).packets, sender(flow).bytes), (222_803, 222_803 * 1400));
    let arrived = receiver(flow);
    assert_eq!((arrived.packets, arrived.lost_packets), (216_375, Some(6428)));
    assert_eq!(arrived.bits_per_second, Some(2423.21e6));

    let flow = &one("netperf/omni_udp.csv").flows[0];
    assert_eq!((sender(flow).packets, receiver(flow).packets), (143_744, 93_086));
    assert_eq!(receiver(flow).lost_packets, Some(143_744 - 93_086));
}

#[test]
fn transactions() {
    let record = one("netperf/tcp_rr.txt");
    let transactions = record.flows[0].transactions.as_ref().unwrap();
    assert_eq!((transactions.shape, transactions.outstanding), (Shape::Rr, Some(1)));
    assert_eq!((transactions.request_bytes, transactions.response_bytes), (Some(1), Some(200)));
    assert_eq!((transactions.completed, transactions.seconds), (18_668, 1.0));
    assert_eq!(transactions.transactions_per_second, Some(18_668.48));
    assert_eq!(record.plan.connections[0].shape, Shape::Rr);
    let rate = |name: &str| {
        let record = one(name);
        let flow = &record.flows[0];
        let transactions = flow.transactions.clone().unwrap();
        (flow.transport.label(), transactions.shape, transactions.transactions_per_second.unwrap())
    };
    assert_eq!(rate("netperf/tcp_rr_cpu.txt"), ("tcp", Shape::Rr, 19_836.47));
    assert_eq!(rate("netperf/tcp_crr.txt"), ("tcp", Shape::Crr, 12_840.72));
    assert_eq!(rate("netperf/udp_rr.txt"), ("udp", Shape::Rr, 25_880.52));
    for (name, rate) in [("omni_rr.csv", 73_866.183), ("omni_rr.txt", 69_731.844)] {
        let record = one(&format!("netperf/{name}"));
        let transactions = record.flows[0].transactions.as_ref().unwrap();
        assert_eq!(transactions.transactions_per_second, Some(rate), "{name}");
        let time = transactions.response_time.as_ref().unwrap();
        assert_eq!((time.min_seconds, time.p50_seconds), (12e-6, Some(13e-6)), "{name}");
        assert!(time.p99_seconds.is_some() && time.p99_9_seconds.is_none());
        assert!(transactions.response_time_deviation_seconds.is_some());
        assert_eq!(record.command[0], "netperf");
    }
}

#[test]
fn keywords_and_csv() {
    let record = one("netperf/omni_send.txt");
    let flow = &record.flows[0];
    assert_eq!((sender(flow).bytes, receiver(flow).bytes), (1_759_395_840, 1_759_400_751));
    let tcp = flow.tcp.as_ref().unwrap();
    assert_eq!((tcp.retransmits, tcp.mss_bytes, &*tcp.congestion_control), (14, 65_483, "bbr"));
    assert!(!has_warning(&record, "transport-unknown"));
    // The default selection does not name the transport.
    for name in ["omni_default.csv", "omni_default.txt"] {
        let record = one(&format!("netperf/{name}"));
        assert!(has_warning(&record, "transport-unknown"), "{name}");
        assert_eq!(record.flows[0].payload_bytes, 16_384);
    }
    let mut selected =
        b"Throughput,Throughput Units,Elapsed Time (sec),Protocol,Direction,Command Line\n"
            .to_vec();
    selected.extend(content("netperf/selected.csv"));
    let record = read(&selected, None, 0).unwrap().swap_remove(0);
    assert_eq!(receiver(&record.flows[0]).bits_per_second, Some(17_807.70e6));
    assert_eq!(
        record.command.last().map(String::as_str),
        Some("THROUGHPUT,THROUGHPUT_UNITS,ELAPSED_TIME,PROTOCOL,DIRECTION,COMMAND_LINE")
    );
}

#[test]
fn interim_results_are_rows() {
    let record = one("netperf/interim.txt");
    // 1795970257.073 less 0.627 s.
    assert_eq!(record.started_at, "2026-11-29T16:37:36.446Z");
    assert_eq!(record.intervals.len(), 4);
    let row = record.intervals[1].flows[0].sender.as_ref().unwrap();
    assert_eq!(row.bits_per_second, Some(26_136.39e6));
    assert!(!has_warning(&record, "start-unknown"));

    let record = one("netperf/interim_keyval.txt");
    assert_eq!((record.intervals.len(), record.flows[0].direction), (4, Reverse));
    let row = record.intervals[3].flows[0].receiver.as_ref().unwrap();
    assert_eq!(row.bits_per_second, Some(25_210.07e6));
    assert_eq!(record.flows[0].tcp.as_ref().unwrap().retransmits, 3, "the sender's");

    let record = one("netperf/rr_interim.txt");
    let row = record.intervals[0].flows[0].sender.as_ref().unwrap();
    assert_eq!((row.transactions, row.transactions_per_second), (Some(17_590), Some(22_435.69)));
}

#[test]
fn several_results_and_refusals() {
    let text = |name: &str| String::from_utf8(content(&format!("netperf/{name}"))).unwrap();
    let all =
        ["tcp_stream.txt", "omni_rr.csv", "omni_send.txt", "interim_keyval.txt", "udp_stream.txt"];
    assert_eq!(read(all.map(text).concat().as_bytes(), None, 0).unwrap().len(), 5);
    // A table without its banner does not state its unit.
    assert_eq!(try_read("netperf/no_banner.txt").unwrap_err().field.as_deref(), Some("FILE"));
    let read = |text: String| read(text.as_bytes(), None, 0).unwrap_err();
    let error = read(text("tcp_stream.txt").replace("TCP STREAM", "SCTP STREAM"));
    assert_eq!(error.line, Some(1), "{error}");
    let error = read(text("omni_rr.csv").replace("TCP,Send|Recv,", "TCP,"));
    assert_eq!(error.line, Some(3), "{error}");
    let error =
        read(text("omni_send.txt").replace("THROUGHPUT_UNITS=10^6", "THROUGHPUT_UNITS=10^7"));
    assert_eq!(error.field.as_deref(), Some("THROUGHPUT_UNITS"));
    let error = read(text("omni_send.txt").replace("ELAPSED_TIME=1.00", "ELAPSED_TIME=x"));
    assert_eq!(error.field.as_deref(), Some("ELAPSED_TIME"));
}
