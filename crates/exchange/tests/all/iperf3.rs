//! JSON of iperf3 3.12 and 3.21.

use weir_exchange::{Format, read};
use weir_model::plan::Direction::{Forward, Reverse};
use weir_model::plan::PeerName;
use weir_model::record::{Record, Status};
use weir_model::units::{RateLimit, Span};

use super::{content, has_warning, is_near, one, receiver, sender, try_read};

#[test]
fn streams_with_an_omitted_start() {
    let record = one("iperf3/tcp_parallel.json");
    assert_eq!(record.labels["tool-version"], "3.12");
    assert!(record.id.starts_with("20261129-162123-"), "{}", record.id);
    assert_eq!(record.started_at, "2026-11-29T16:21:23.000Z");
    let plan = &record.plan;
    assert_eq!((plan.peer, plan.port), (PeerName::Iperf3, Some(5201)));
    assert_eq!(plan.title.as_deref(), Some("two streams"));
    assert_eq!(plan.omit, Span::from_seconds(1));
    let connection = &plan.connections[0];
    assert_eq!((connection.count, connection.duration), (2, Some(Span::from_seconds(2))));
    let rate = connection.rate.unwrap().limit;
    assert!(matches!(rate, RateLimit::Bits(bits) if bits.0 == 20_000_000), "{rate:?}");
    assert_eq!(record.flows.len(), 2);
    let flow = &record.flows[1];
    assert_eq!((flow.id, flow.direction), (2, Forward));
    assert_eq!((&*flow.source, &*flow.destination), ("127.0.0.1:33178", "127.0.0.1:5201"));
    assert_eq!((sender(flow).bytes, receiver(flow).bytes), (4_980_736, 4_980_736));
    assert_eq!((sender(flow).seconds, receiver(flow).seconds), (1.999_958, 2.000_099));
    let tcp = flow.tcp.as_ref().unwrap();
    assert_eq!((tcp.retransmits, tcp.rtt_seconds), (0, Some(0.000_119)));
    assert_eq!((tcp.mss_bytes, &*tcp.congestion_control), (32_768, "bbr"));
    // The rows go on after the omitted start, where iperf3 counts from 0 again.
    let rows: Vec<(f64, f64, bool)> =
        record.intervals.iter().map(|r| (r.start_seconds, r.end_seconds, r.omitted)).collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0], (0.0, 1.000_081, true));
    assert!(!rows[1].2 && is_near(rows[1].0, 1.000_122, 1e-9) && rows[2].1 > 2.99, "{rows:?}");
    assert_eq!(record.omitted_seconds, Some(1.000_081));
    let sum = record.intervals[1].total.forward.as_ref().unwrap().sender.as_ref().unwrap();
    assert_eq!((sum.bytes, sum.retransmits), (4_980_736, Some(0)));
    let first = record.intervals[1].flows[0].sender.as_ref().unwrap();
    assert_eq!((first.cwnd_bytes, first.rtt_seconds), (Some(1_178_694), Some(0.000_126)));
    let total = record.total.forward.as_ref().unwrap().receiver.as_ref().unwrap();
    assert_eq!(total.bytes, 9_961_472);
    assert!(is_near(total.bits_per_second.unwrap(), 39_843_915.7, 1e-4), "{total:?}");
    assert!(record.cpu.is_none() && record.warnings.is_empty(), "{:?}", record.warnings);
    assert_eq!(record.local.as_ref().map(|host| host.host.as_str()), Some("client"));
}

#[test]
fn streams_from_the_server_and_both_ways() {
    let record = one("iperf3/tcp_reverse.json");
    assert_eq!(record.flows[0].direction, Reverse);
    assert_eq!(record.flows[0].source, "127.0.0.1:5201");
    assert_eq!(record.plan.connections[0].direction, Reverse);
    assert!(record.intervals[0].flows[0].sender.is_none());
    assert!(record.intervals[0].total.reverse.as_ref().unwrap().receiver.is_some());

    let record = one("iperf3/bidir.json");
    let directions: Vec<_> = record.flows.iter().map(|flow| flow.direction).collect();
    assert_eq!(directions, [Forward, Reverse]);
    assert_eq!(record.plan.connections.len(), 2);
    let totals = (&record.total.forward, &record.total.reverse);
    assert!(totals.0.as_ref().unwrap().receiver.is_some() && totals.1.is_some());
}

/// What arrived is known of the sum: 55 886 600 B in datagrams of 1400 B.
#[test]
fn losses_of_datagrams() {
    let record = one("iperf3/udp_loss.json");
    let flow = &record.flows[0];
    assert_eq!((sender(flow).packets, sender(flow).bytes), (62_534, 87_547_600));
    let arrived = receiver(flow);
    assert_eq!((arrived.packets, arrived.bytes), (39_919, 55_886_600));
    assert_eq!((arrived.lost_packets, arrived.reordered_packets), (Some(22_602), Some(0)));
    assert!(is_near(arrived.loss_ratio.unwrap(), 0.361_435, 1e-5));
    assert!(is_near(arrived.jitter_seconds.unwrap(), 0.000_222_849, 1e-5));
    assert!(flow.tcp.is_none());
    // A client does not know the losses of an interval.
    let row = record.intervals[0].flows[0].sender.as_ref().unwrap();
    assert!(row.packets > 0 && row.lost_packets.is_none());

    // Of several streams the file has no sum of each: what was sent less what was lost.
    let record = one("iperf3/udp_loss_parallel.json");
    let arrived = receiver(&record.flows[1]);
    assert_eq!((arrived.packets, arrived.bytes), (28_769, 40_276_600));

    let record = one("iperf3/udp_reverse.json");
    let row = record.intervals[0].flows[0].receiver.as_ref().unwrap();
    assert_eq!((row.packets, row.lost_packets), (250, Some(0)));
    assert!(row.jitter_seconds.is_some());

    let record = one("iperf3/udp_bidir.json");
    let packets: Vec<u64> = record.flows.iter().map(|f| receiver(f).packets).collect();
    assert_eq!(packets, [500, 500]);
    assert!(record.intervals[0].flows[1].receiver.as_ref().unwrap().jitter_seconds.is_some());
}

/// A server's file has zeros where it does not know the client's figures.
#[test]
fn a_server_knows_its_own_end() {
    let record = one("iperf3/server.json");
    let flow = &record.flows[0];
    assert_eq!(flow.direction, Forward, "the server sent");
    assert!(flow.receiver.is_none() && sender(flow).bytes == 5_111_808);
    assert_eq!(record.labels["served"], "iperf3");
    assert!(has_warning(&record, "one-sided"));

    let record = one("iperf3/server_loss.json");
    let flow = &record.flows[0];
    assert_eq!((flow.direction, flow.sender.is_none()), (Reverse, true));
    assert_eq!(receiver(flow).packets, 39_919);
    let lost: u64 =
        record.intervals.iter().filter_map(|r| r.flows[0].receiver.as_ref()?.lost_packets).sum();
    assert!((22_600..=22_602).contains(&lost), "{lost}");
}

#[test]
fn incomplete_tests() {
    let record = one("iperf3/interrupted.json");
    assert_eq!(record.status, Status::Interrupted);
    assert!(record.flows[0].receiver.is_none() && record.flows[0].sender.is_some());
    assert!(!record.end_reason.is_empty());
    let error = try_read("iperf3/error.json").unwrap_err();
    assert_eq!(error.field.as_deref(), Some("error"));
}

#[test]
fn events_are_one_result() {
    let record = one("iperf3/stream.jsonl");
    assert_eq!((record.intervals.len(), record.flows.len()), (4, 1));
    assert_eq!(
        (record.labels["tool-version"].as_str(), record.plan.interval.0),
        ("3.21+", 500_000_000)
    );
    assert_eq!(record.started_at, "2026-11-29T16:43:44.743Z");
    let record = one("iperf3/stream_udp_bidir.jsonl");
    assert_eq!((record.flows.len(), record.plan.connections.len()), (2, 2));
    // Two streams of events one after the other, and a stop before the end of the second.
    let events = String::from_utf8(content("iperf3/stream.jsonl")).unwrap();
    assert_eq!(read(events.repeat(2).as_bytes(), None, 0).unwrap().len(), 2);
    let lines: Vec<&str> = events.lines().collect();
    let stopped = read(lines[..3].join("\n").as_bytes(), None, 0);
    assert_eq!(stopped.unwrap_err().field.as_deref(), Some("end.streams"));
}

/// What is read is written again with the same figures, by the writer for programs that read iperf3's JSON.
#[test]
fn what_is_written_is_read() {
    for name in ["tcp_parallel.json", "udp_loss.json", "bidir.json", "server.json", "stream.jsonl"]
    {
        let record = one(&format!("iperf3/{name}"));
        for format in ["iperf3", "iperf3-stream"] {
            let bytes = Format::find(format).unwrap().write(std::slice::from_ref(&record)).unwrap();
            let again = read(&bytes, None, 0).unwrap().swap_remove(0);
            let figures = |r: &Record| {
                let of = |f: &weir_model::record::Flow| {
                    let sent = f.sender.as_ref().map(|s| (s.bytes, s.packets));
                    let received =
                        f.receiver.as_ref().map(|r| (r.bytes, r.packets, r.lost_packets));
                    (f.direction, f.source.clone(), sent, received)
                };
                (r.flows.iter().map(of).collect::<Vec<_>>(), r.intervals.len(), r.plan.host.clone())
            };
            assert_eq!(figures(&again), figures(&record), "{name} as {format}");
        }
    }
}

#[test]
fn a_bad_field_is_named() {
    let text = String::from_utf8(content("iperf3/tcp_reverse.json")).unwrap();
    for (from, to, field) in [
        ("\"TCP\"", "\"SCTP\"", "start.test_start.protocol"),
        ("\"retransmits\":\t0", "\"retransmits\":\t[]", "end.streams[0].sender.retransmits"),
        ("\"port\":\t5201", "\"port\":\t\"x\"", "start.connecting_to.port"),
    ] {
        let error = read(text.replace(from, to).as_bytes(), None, 0).err().and_then(|e| e.field);
        assert_eq!(error.unwrap_or_default(), field, "{to}");
    }
    let error = read(&text.as_bytes()[..text.len() - 9], None, 0).unwrap_err();
    assert!(error.line.is_some(), "{error}");
}
