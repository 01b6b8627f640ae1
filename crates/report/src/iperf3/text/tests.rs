use super::*;
use weir_model::plan::{Connection, Plan};
use weir_model::record::{IntervalEnds, IntervalFlow, IntervalTotals, SERVED, Tcp};

/// A test of 2 s with one interval of 1 s.
fn record(text: &str) -> Record {
    let plan = Plan::parse(&format!("schema = \"weir.plan/1\"\nhost = \"h\"\n{text}")).unwrap();
    let datagrams = plan.connections[0].transport.datagrams();
    let flow = |(index, connection): (usize, &Connection)| Flow {
        id: index as u32 + 1,
        transport: connection.transport.name(),
        direction: connection.direction,
        source: "127.0.0.1:37030".into(),
        destination: "127.0.0.1:5201".into(),
        payload_bytes: 131_072,
        sender: Some(Sender { bytes: 2_621_440, packets: 39, seconds: 2.0, ..Sender::default() }),
        receiver: Some(Receiver {
            bytes: 2_621_440,
            packets: 38,
            seconds: 2.004,
            lost_packets: Some(1),
            jitter_seconds: Some(0.000_008),
            ..Receiver::default()
        }),
        tcp: (!datagrams).then(Tcp::default),
        ..Flow::default()
    };
    let connections =
        plan.connections.iter().flat_map(|c| std::iter::repeat_n(c, c.count as usize));
    let flows: Vec<Flow> = connections.enumerate().map(flow).collect();
    let count = || {
        Some(IntervalCount {
            bytes: 655_360,
            packets: 20,
            bits_per_second: Some(5_242_880.0),
            retransmits: Some(0),
            cwnd_bytes: Some(1_174_405),
            lost_packets: Some(0),
            jitter_seconds: Some(0.000_033),
            ..IntervalCount::default()
        })
    };
    let ends =
        || Some(IntervalEnds { sender: count(), receiver: count(), ..IntervalEnds::default() });
    Record {
        intervals: vec![Interval {
            end_seconds: 1.0,
            flows: flows
                .iter()
                .map(|flow| IntervalFlow { id: flow.id, sender: count(), receiver: count() })
                .collect(),
            total: IntervalTotals { forward: ends(), reverse: ends() },
            ..Interval::default()
        }],
        flows,
        plan,
        ..Record::default()
    }
}

fn text(record: &Record) -> String {
    Iperf3Text::of_record(record, Iperf3Options::default()).unwrap()
}

// The expected texts are what iperf3 3.12 printed of such tests.

#[test]
fn a_stream_is_printed_as_iperf3_prints_it() {
    let expected = "\
[  5] local 127.0.0.1 port 37030 connected to 127.0.0.1 port 5201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec   640 KBytes  5.24 Mbits/sec    0   1.12 MBytes       \n\
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-2.00   sec  2.50 MBytes  10.5 Mbits/sec    0             sender
[  5]   0.00-2.00   sec  2.50 MBytes  10.5 Mbits/sec                  receiver
";
    assert_eq!(text(&record("[[connection]]\nduration = \"2s\"")), expected);
}

#[test]
fn several_streams_have_sums() {
    let mut two = record("[[connection]]\ncount = 2");
    two.intervals.push(two.intervals[0].clone());
    let all = text(&two);
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(
        lines[3],
        "[  5]   0.00-1.00   sec   640 KBytes  5.24 Mbits/sec    0   1.12 MBytes       "
    );
    assert!(lines[4].starts_with("[  7]   0.00-1.00   sec"));
    assert!(lines[5].starts_with("[SUM]   0.00-1.00   sec   640 KBytes"));
    assert_eq!(lines[6], SEPARATOR.trim_end());
    let sums: Vec<&&str> = lines.iter().filter(|line| line.starts_with("[SUM]")).collect();
    assert_eq!(
        *sums[2],
        "[SUM]   0.00-2.00   sec  5.00 MBytes  21.0 Mbits/sec    0             sender"
    );
    assert_eq!(
        *sums[3],
        "[SUM]   0.00-2.00   sec  5.00 MBytes  20.9 Mbits/sec                  receiver"
    );
}

#[test]
fn datagrams_have_their_losses() {
    let udp = "[[connection]]\ntransport = \"udp\"\nrate = \"1M\"";
    let all = text(&record(udp));
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines[1], "[ ID] Interval           Transfer     Bitrate         Total Datagrams");
    assert_eq!(lines[2], "[  5]   0.00-1.00   sec   640 KBytes  5.24 Mbits/sec  20  ");
    assert_eq!(
        lines[4],
        "[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams"
    );
    assert_eq!(
        lines[5],
        "[  5]   0.00-2.00   sec  2.50 MBytes  10.5 Mbits/sec  0.000 ms  0/39 (0%)  sender"
    );
    assert_eq!(
        lines[6],
        "[  5]   0.00-2.00   sec  2.50 MBytes  10.5 Mbits/sec  0.008 ms  1/39 (2.6%)  receiver"
    );
    let all = text(&record(&format!("{udp}\ndirection = \"reverse\"")));
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines[0], "Reverse mode, remote host h is sending");
    assert_eq!(
        lines[3],
        "[  5]   0.00-1.00   sec   640 KBytes  5.24 Mbits/sec  0.033 ms  0/20 (0%)  "
    );
}

#[test]
fn both_directions_have_their_role() {
    let all = text(&record("[[connection]]\n[[connection]]\ndirection = \"reverse\""));
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines[2], "[ ID][Role] Interval           Transfer     Bitrate         Retr  Cwnd");
    assert!(lines[3].starts_with(
        "[  5][TX-C]   0.00-1.00   sec   640 KBytes  5.24 Mbits/sec    0   1.12 MBytes"
    ));
    assert_eq!(
        lines[4],
        "[  7][RX-C]   0.00-1.00   sec   640 KBytes  5.24 Mbits/sec                  "
    );
    let udp = "transport = \"udp\"\nrate = \"1M\"";
    let both = format!("[[connection]]\n{udp}\n[[connection]]\n{udp}\ndirection = \"reverse\"");
    let all = text(&record(&both));
    assert!(
        all.contains(
            "[  5][TX-C]   0.00-1.00   sec   640 KBytes  5.24 Mbits/sec            20  \n"
        )
    );
}

#[test]
fn a_server_prints_its_own_end() {
    let mut served = record("[[connection]]\ndirection = \"reverse\"");
    served.labels.insert(SERVED.into(), "iperf3".into());
    let all = text(&served);
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines[0], "Accepted connection from h, port 37030");
    assert_eq!(lines[1], "[  5] local 127.0.0.1 port 5201 connected to 127.0.0.1 port 37030");
    assert_eq!(lines[2], "[ ID] Interval           Transfer     Bitrate");
    assert_eq!(
        lines.last(),
        Some(&"[  5]   0.00-2.00   sec  2.50 MBytes  10.5 Mbits/sec                  receiver")
    );
    assert!(!all.contains("sender"));
}

#[test]
fn titles_units_and_omitted_time() {
    let mut omitted = record("title = \"a\\u001bb\"\nomit = \"1s\"\n[[connection]]");
    omitted.intervals[0].omitted = true;
    let mut second = omitted.intervals[0].clone();
    (second.start_seconds, second.end_seconds, second.omitted) = (1.0, 2.0, false);
    omitted.intervals.push(second);
    let options = Iperf3Options { unit: "K".parse().unwrap(), verbose: true };
    let all = Iperf3Text::of_record(&omitted, options).unwrap();
    assert!(all.lines().all(|line| !line.contains('\u{1b}') && line.contains(":  ")));
    let rows: Vec<&str> = all.lines().filter(|line| line.contains("-1.00 ")).collect();
    assert!(rows[0].ends_with("640 KBytes/sec    0   1.12 MBytes       (omitted)"));
    assert!(rows[1].contains("  0.00-1.00   sec   640 KBytes   640 KBytes/sec    0"));
    assert!(all.contains("omitting 1 seconds, 10 second test, tos 0"));
    assert!("x".parse::<Iperf3Unit>().is_err());
}

#[test]
fn percentages_have_two_digits() {
    for (lost, of, expected) in [
        (0, 9, "0%"),
        (1, 39, "2.6%"),
        (1, 3, "33%"),
        (9, 9, "100%"),
        (1, 1000, "0.1%"),
        (37, 100_000, "0.037%"),
    ] {
        assert_eq!(percentage(lost, of), expected);
    }
}
