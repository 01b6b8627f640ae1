use super::*;
use std::io::{Read, Write};
use weir_model::record::Delay;

fn metrics() -> (MeshMetrics, SocketAddr) {
    let mut exporter = MeshMetrics::new("core");
    let address = exporter.serve("127.0.0.1:0".parse().unwrap(), vec![]).unwrap();
    let delay = Delay { count: 2, mean_seconds: 0.375, ..Delay::default() };
    let figures = PairFigures {
        sent_packets: 3,
        received_packets: 2,
        lost_packets: 1,
        round_trip: Some(delay),
        forward_delay_seconds: Some(0.125),
        ..PairFigures::default()
    };
    let cells = [(250_000_000, 1), (500_000_000, 1)];
    for at in [100.0, 101.0] {
        exporter.second(("a", "b"), at, &figures, cells.into_iter());
    }
    exporter.agent("a", AgentState::Connected);
    exporter.agent("b", AgentState::Gone);
    exporter.burst(&BurstLine {
        from: "a".into(),
        to: "b".into(),
        transport: "tcp".into(),
        bits_per_second: Some(1e6),
        ..BurstLine::default()
    });
    (exporter, address)
}

fn answer(address: SocketAddr, accept: &str) -> (String, Vec<u8>) {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = vec![];
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    (String::from_utf8(bytes[..end].to_vec()).unwrap(), bytes[end + 4..].to_vec())
}

#[test]
fn text_has_sums_latest_figures_and_a_classic_histogram() {
    let (_metrics, address) = metrics();
    let (head, body) = answer(address, "*/*");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    let body = String::from_utf8(body).unwrap();
    let pair = r#"mesh="core",from="a",to="b""#;
    for line in [
        format!("weir_mesh_sent_packets_total{{{pair}}} 6"),
        format!("weir_mesh_lost_packets_total{{{pair}}} 2"),
        format!("weir_mesh_round_trip_seconds_bucket{{{pair},le=\"0.25\"}} 2"),
        format!("weir_mesh_round_trip_seconds_bucket{{{pair},le=\"0.5\"}} 4"),
        format!("weir_mesh_round_trip_seconds_bucket{{{pair},le=\"+Inf\"}} 4"),
        format!("weir_mesh_round_trip_seconds_sum{{{pair}}} 1.5"),
        format!("weir_mesh_forward_delay_seconds{{{pair}}} 0.125"),
        format!("weir_mesh_latest_timestamp_seconds{{{pair}}} 101"),
        format!("weir_mesh_burst_bits_per_second{{{pair},transport=\"tcp\"}} 1000000"),
        r#"weir_mesh_agent_connected{mesh="core",agent="a"} 1"#.into(),
        r#"weir_mesh_agent_connected{mesh="core",agent="b"} 0"#.into(),
    ] {
        assert!(body.lines().any(|found| found == line), "{line}\n{body}");
    }
    // Not measured.
    assert!(!body.contains("weir_mesh_return_delay_seconds"), "{body}");
    assert!(!body.contains("weir_mesh_arrived_packets_total"), "{body}");
}

#[test]
fn protocol_buffers_have_lengths_and_a_native_histogram() {
    let (_metrics, address) = metrics();
    let accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,text/plain;q=0.3";
    let (head, mut body) = answer(address, accept);
    assert!(head.contains(protobuf::MEDIA_TYPE), "{head}");
    let mut names = vec![];
    while !body.is_empty() {
        let (mut length, mut at) = (0_usize, 0);
        loop {
            length |= usize::from(body[at] & 0x7f) << (7 * at);
            at += 1;
            if body[at - 1] < 0x80 {
                break;
            }
        }
        let family = body[at..at + length].to_vec();
        body.drain(..at + length);
        assert_eq!(family[0], 0x0a);
        names.push(String::from_utf8(family[2..2 + usize::from(family[1])].to_vec()).unwrap());
        if names.last().unwrap() == "weir_mesh_round_trip_seconds" {
            // Buckets end at 2^-2 and 2^-1: offsets -16 and 7, each of one bucket, with 2 and the difference 0.
            let spans = [0x62, 0x04, 0x08, 0x1f, 0x10, 0x01, 0x62, 0x04, 0x08, 0x0e, 0x10, 0x01];
            let deltas = [0x68, 0x04, 0x68, 0x00];
            let expected = [&spans[..], &deltas].concat();
            assert!(family.ends_with(&expected), "{family:x?}");
        }
    }
    assert!(names.contains(&"weir_mesh_round_trip_seconds".to_owned()), "{names:?}");
    assert!(!names.contains(&"weir_mesh_return_delay_seconds".to_owned()), "{names:?}");
}

#[test]
fn a_collector_gets_exponential_histograms() {
    let (metrics, _) = metrics();
    let families = lock(&metrics.state).families();
    let series: Vec<Series<'_>> = families.iter().map(Family::series).collect();
    let body = request(&series, &[], [std::time::SystemTime::now(); 2]).unwrap();
    let all = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let named = |name: &str| all.iter().find(|metric| metric["name"] == name).unwrap();
    let point = &named("weir_mesh_round_trip_seconds")["exponentialHistogram"]["dataPoints"][0];
    assert_eq!(
        (&point["count"], &point["sum"], &point["scale"]),
        (&"4".into(), &1.5.into(), &3.into())
    );
    // Values of 2^-2 and 2^-1: the buckets that end there have indexes -17 and -9.
    assert_eq!(point["positive"]["offset"], -17);
    let counts = point["positive"]["bucketCounts"].as_array().unwrap();
    assert_eq!(counts.len(), 9);
    assert_eq!((&counts[0], &counts[1], &counts[8]), (&"2".into(), &"0".into(), &"2".into()));
    let sent = &named("weir_mesh_sent_packets")["sum"];
    assert_eq!(
        (&sent["isMonotonic"], &sent["dataPoints"][0]["asDouble"]),
        (&true.into(), &6.0.into())
    );
    assert!(named("weir_mesh_forward_delay_seconds")["gauge"].is_object());
}
