use super::*;
use weir_model::plan::{Connection, Plan};
use weir_model::record::{IntervalFlow, Receiver, Sender, Tcp};

/// A test of 1 s with an interval of 0.5 s.
fn record(text: &str) -> Record {
    let plan = Plan::parse(&format!("schema = \"weir.plan/1\"\nhost = \"h\"\n{text}")).unwrap();
    let datagrams = plan.connections[0].transport.datagrams();
    let flow = |(index, connection): (usize, &Connection)| {
        let ends = ["127.0.0.1:42150", "127.0.0.1:5001"];
        let [source, destination] = match connection.direction {
            Direction::Forward => ends,
            Direction::Reverse => [ends[1], ends[0]],
        };
        Flow {
            id: index as u32 + 1,
            transport: connection.transport.name(),
            direction: connection.direction,
            source: source.into(),
            destination: destination.into(),
            sender: Some(Sender {
                bytes: 1_310_720,
                packets: 896,
                seconds: 1.0016,
                ..Sender::default()
            }),
            receiver: Some(Receiver {
                bytes: 1_300_000,
                packets: 890,
                seconds: 1.0015,
                lost_packets: datagrams.then_some(5),
                reordered_packets: Some(2),
                jitter_seconds: Some(0.000_003),
                ..Receiver::default()
            }),
            tcp: (!datagrams).then(|| Tcp {
                retransmits: 7,
                rtt_seconds: Some(0.000_2),
                ..Tcp::default()
            }),
            ..Flow::default()
        }
    };
    let connections =
        plan.connections.iter().flat_map(|c| std::iter::repeat_n(c, c.count as usize));
    let flows: Vec<Flow> = connections.enumerate().map(flow).collect();
    let count = || {
        Some(IntervalCount {
            bytes: 657_408,
            packets: 447,
            retransmits: Some(5),
            cwnd_bytes: Some(1_964_032),
            rtt_seconds: Some(0.000_14),
            lost_packets: Some(1),
            jitter_seconds: Some(0.000_006),
            ..IntervalCount::default()
        })
    };
    Record {
        intervals: vec![Interval {
            end_seconds: 0.5,
            flows: flows
                .iter()
                .map(|flow| IntervalFlow { id: flow.id, sender: count(), receiver: count() })
                .collect(),
            ..Interval::default()
        }],
        flows,
        plan,
        ..Record::default()
    }
}

fn text_with(record: &Record, options: Iperf2Options) -> String {
    Iperf2Text::of_record(record, options, 1, &|end| format!("t{end:.1}")).unwrap()
}

fn text(record: &Record) -> String {
    text_with(record, Iperf2Options::default())
}

// The expected texts are what iperf 2.1.8 prints of such tests.

#[test]
fn a_stream_is_printed_as_iperf_prints_it() {
    let expected = "\
[  1] local 127.0.0.1 port 42150 connected with 127.0.0.1 port 5001
[ ID] Interval       Transfer     Bandwidth
[  1] 0.0000-0.5000 sec   642 KBytes  10.5 Mbits/sec
[  1] 0.0000-1.0016 sec  1.25 MBytes  10.5 Mbits/sec
";
    assert_eq!(text(&record("[[connection]]")), expected);
    let reverse = text(&record("[[connection]]\ndirection = \"reverse\""));
    let lines: Vec<&str> = reverse.lines().collect();
    assert!(lines[0].ends_with("connected with 127.0.0.1 port 5001 (reverse)"), "{reverse}");
    assert_eq!(lines[2], "[ *1] 0.0000-0.5000 sec   642 KBytes  10.5 Mbits/sec");
}

#[test]
fn datagrams_have_the_servers_report() {
    let udp = "[[connection]]\ntransport = \"udp\"\nrate = \"10M\"";
    let expected = "\
[  1] local 127.0.0.1 port 42150 connected with 127.0.0.1 port 5001
[ ID] Interval       Transfer     Bandwidth
[  1] 0.0000-0.5000 sec   642 KBytes  10.5 Mbits/sec
[  1] 0.0000-1.0016 sec  1.25 MBytes  10.5 Mbits/sec
[  1] Sent 896 datagrams
[  1] Server Report:
[ ID] Interval       Transfer     Bandwidth        Jitter   Lost/Total Datagrams
[  1] 0.0000-1.0015 sec  1.24 MBytes  10.4 Mbits/sec   0.003 ms 5/895 (0.56%)
";
    assert_eq!(text(&record(udp)), expected);
    let mut served = record(&format!("{udp}\ndirection = \"reverse\""));
    served.labels.insert(SERVED.into(), "iperf2".into());
    let expected = "\
[  4] local 127.0.0.1 port 42150 connected with 127.0.0.1 port 5001
[ ID] Interval       Transfer     Bandwidth        Jitter   Lost/Total Datagrams
[  4] 0.0000-0.5000 sec   642 KBytes  10.5 Mbits/sec   0.006 ms 1/448 (0.22%)
[  4] 0.0000-1.0015 sec  1.24 MBytes  10.4 Mbits/sec   0.003 ms 5/895 (0.56%)
";
    let options = Iperf2Options::default();
    assert_eq!(Iperf2Text::of_record(&served, options, 4, &|_| String::new()).unwrap(), expected);
}

#[test]
fn several_streams_and_both_directions_have_sums() {
    let all = text(&record("[[connection]]\ncount = 2"));
    let lines: Vec<&str> = all.lines().collect();
    assert!(lines[1].starts_with("[  2] local "), "{all}");
    assert_eq!(lines[5], "[SUM] 0.0000-0.5000 sec  1.25 MBytes  21.0 Mbits/sec");
    assert_eq!(lines[8], "[SUM] 0.0000-1.0016 sec  2.50 MBytes  20.9 Mbits/sec");
    let sums = Iperf2Options { sum_only: true, ..Iperf2Options::default() };
    let all = text_with(&record("[[connection]]\ncount = 2"), sums);
    assert_eq!(all.lines().filter(|line| line.contains("sec")).count(), 2, "{all}");
    let both = text(&record("[[connection]]\n[[connection]]\ndirection = \"reverse\""));
    let lines: Vec<&str> = both.lines().collect();
    assert!(lines[0].ends_with(" (full-duplex)") && lines[1].starts_with("[ ID]"), "{both}");
    assert!(lines[2].starts_with("[  1]") && lines[3].starts_with("[ *1]"), "{both}");
}

#[test]
fn directions_with_sockets_of_their_own_have_sums_of_their_own() {
    let options = Iperf2Options { calls_back: true, ..Iperf2Options::default() };
    let both = |count: u32| {
        let one = format!("[[connection]]\ncount = {count}\n");
        text_with(&record(&format!("{one}{one}direction = \"reverse\"")), options)
    };
    let all = both(2);
    let sums: Vec<&str> = all.lines().filter(|line| line.starts_with("[SUM]")).collect();
    let expected = [
        "[SUM] 0.0000-0.5000 sec  1.25 MBytes  21.0 Mbits/sec",
        "[SUM] 0.0000-0.5000 sec  1.25 MBytes  21.0 Mbits/sec",
        "[SUM] 0.0000-1.0016 sec  2.50 MBytes  20.9 Mbits/sec",
        "[SUM] 0.0000-1.0015 sec  2.48 MBytes  20.8 Mbits/sec",
    ];
    assert_eq!(sums, expected, "{all}");
    assert!(!both(1).contains("[SUM]"));
}

#[test]
fn rows_of_round_trips_count_both_ways() {
    let options = Iperf2Options { csv: true, ..Iperf2Options::default() };
    let all = text_with(
        &record("[[connection]]\nshape = \"rr\"\nrequest = 100\nresponse = 100"),
        options,
    );
    let bytes: Vec<&str> = all.lines().map(|line| line.split(',').nth(7).unwrap()).collect();
    assert_eq!(bytes, ["1314816", "2621440"], "{all}");
}

#[test]
fn enhanced_rows_have_writes_retransmits_and_window() {
    let options = Iperf2Options { enhanced: true, ..Iperf2Options::default() };
    let all = text_with(&record("[[connection]]"), options);
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(
        lines[2],
        "[  1] 0.0000-0.5000 sec   642 KBytes  10.5 Mbits/sec  447/0          5    1918K/140 us  9392"
    );
    let udp = "[[connection]]\ntransport = \"udp\"\nrate = \"10M\"";
    let all = text_with(&record(udp), options);
    assert!(all.contains("10.5 Mbits/sec  447/0      894 pps\n"), "{all}");
}

#[test]
fn csv_has_a_line_for_each_row() {
    let options = Iperf2Options { csv: true, ..Iperf2Options::default() };
    let udp = "[[connection]]\ntransport = \"udp\"\nrate = \"10M\"";
    let expected = "\
t0.5,127.0.0.1,42150,127.0.0.1,5001,1,0.0-0.5,657408,10518528
t1.0,127.0.0.1,42150,127.0.0.1,5001,1,0.0-1.0,1310720,10469010
t1.0,127.0.0.1,42150,127.0.0.1,5001,1,0.0-1.0,1300000,10384423,0.003,5,895,0.559,2
";
    assert_eq!(text_with(&record(udp), options), expected);
    let two = record("[[connection]]\ncount = 2");
    assert_eq!(text_with(&two, options).lines().count(), 4, "no sums");
    let sums = text_with(&two, Iperf2Options { sum_only: true, ..options });
    assert_eq!(sums.matches(",127.0.0.1,0,127.0.0.1,5001,-1,").count(), 2, "{sums}");
}

#[test]
fn units_and_banners() {
    let options = Iperf2Options { unit: "m".parse().unwrap(), ..Iperf2Options::default() };
    assert!(
        text_with(&record("[[connection]]"), options).contains("  0.63 MBytes  10.5 Mbits/sec")
    );
    let options = Iperf2Options { unit: "K".parse().unwrap(), ..Iperf2Options::default() };
    assert!(
        text_with(&record("[[connection]]"), options).contains("   642 KBytes  1284 KBytes/sec")
    );
    assert!("x".parse::<Iperf2Unit>().is_err() && "".parse::<Iperf2Unit>().is_err());
    let expected = "\
------------------------------------------------------------
Client connecting to h, TCP port 5001
TCP window size: 16.0 KByte (default)
------------------------------------------------------------
";
    let title = "Client connecting to h, TCP port 5001";
    assert_eq!(iperf2_banner(title, false, &[], Some(16_384), None), expected);
    let asked = iperf2_banner(title, true, &[], Some(131_072), Some(65_536));
    assert!(
        asked.contains("UDP buffer size:  128 KByte (WARNING: requested 64.0 KByte)\n"),
        "{asked}"
    );
    assert!(Iperf2Text::new(record("[[connection]]\nshape = \"crr\""), options, 1).is_err());
}

#[test]
fn streams_that_load_round_trips_have_rows_of_their_own() {
    let stream = "[[connection]]\ncount = 2";
    let text =
        format!("[[connection]]\nshape = \"rr\"\n{stream}\n{stream}\ndirection = \"reverse\"");
    let mut loaded = record(&text);
    loaded.flows[0].transactions = Some(Default::default());
    let all = self::text(&loaded);
    let ids = |part: &str| -> Vec<String> {
        let lines = all.lines().filter(|line| line.contains(part));
        lines
            .map(|line| line.split(']').next().unwrap().trim_matches(['[', ' ']).to_owned())
            .collect()
    };
    assert_eq!(ids("local"), ["1", "2", "3"], "{all}");
    assert_eq!(all.matches(" (full-duplex)\n").count(), 2, "{all}");
    assert_eq!(all.matches(" rps\n").count(), 2, "{all}");
    let rows = [["1", "2", "3", "*2", "*3", "SUM"]; 2].concat();
    assert_eq!(ids(" sec "), rows, "{all}");
    // Each block of rows has its heading.
    assert_eq!(all.matches("[ ID]").count(), 4, "{all}");
    // What loads the path counts once.
    let csv = text_with(&loaded, Iperf2Options { csv: true, ..Iperf2Options::default() });
    let bytes: Vec<&str> = csv.lines().map(|line| line.split(',').nth(7).unwrap()).collect();
    assert_eq!(bytes[..2], ["1314816", "657408"], "{csv}");
}
