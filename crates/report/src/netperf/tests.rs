use weir_model::plan::Plan;
use weir_model::record::{Delay, Flow, Receiver, Record, Sender, Tcp, Transactions};

use super::*;

/// A test of one second.
fn record(text: &str) -> Record {
    let plan = Plan::parse(&format!("schema = \"weir.plan/1\"\nhost = \"h\"\n{text}")).unwrap();
    let connection = &plan.connections[0];
    let has_transactions = connection.shape.has_data();
    let flow = Flow {
        id: 1,
        transport: connection.transport.name(),
        direction: connection.direction,
        source: "127.0.0.1:37030".into(),
        destination: "127.0.0.1:40000".into(),
        payload_bytes: 16_384,
        sender: Some(Sender {
            bytes: 125_000_000,
            packets: 7_630,
            seconds: 1.0,
            buffer_bytes: Some(4_194_304),
            ..Sender::default()
        }),
        receiver: Some(Receiver {
            bytes: 120_000_000,
            packets: 7_000,
            seconds: 1.0,
            ..Receiver::default()
        }),
        transactions: has_transactions.then(|| Transactions {
            shape: connection.shape,
            completed: 20_000,
            request_bytes: Some(100),
            response_bytes: Some(200),
            seconds: 2.0,
            response_time: Some(Delay {
                min_seconds: 0.000_010,
                mean_seconds: 0.000_050,
                p99_seconds: Some(0.000_090),
                max_seconds: 0.001,
                ..Delay::default()
            }),
            ..Transactions::default()
        }),
        tcp: (!connection.transport.datagrams()).then(|| Tcp {
            mss_bytes: 1448,
            retransmits: 3,
            congestion_control: "cubic".into(),
            ..Tcp::default()
        }),
        ..Flow::default()
    };
    Record { flows: vec![flow], plan, ..Record::default() }
}

fn cpu() -> NetperfHostCpu {
    NetperfHostCpu {
        busy: 50.0,
        user: 10.0,
        processors: 2,
        peak_id: 1,
        ..NetperfHostCpu::default()
    }
}

fn ends(with_cpu: bool) -> (NetperfEnd, NetperfEnd) {
    let local = NetperfEnd {
        buffers: [Some(16_384), Some(131_072)],
        cpu: with_cpu.then(cpu),
        ..NetperfEnd::default()
    };
    let remote = NetperfEnd {
        buffers: [Some(16_384), Some(131_072)],
        final_buffers: [Some(2_000_000), Some(6_000_000)],
        sizes: [Some(16_384), Some(131_072)],
        calls: [Some(8_000), Some(7_000)],
        bytes: [Some(121_000_000), Some(120_000_000)],
        retransmits: Some(0),
        tos: Some(184),
        ..NetperfEnd::default()
    };
    (local, remote)
}

fn options(kind: NetperfKind) -> NetperfOptions {
    NetperfOptions { kind, verbosity: 1, headings: true, ..NetperfOptions::default() }
}

fn printed(options: &NetperfOptions, text: &str, with_cpu: bool) -> String {
    let (local, remote) = ends(with_cpu);
    let figures = NetperfFigures::of(&record(text), local, remote).unwrap();
    let options = NetperfOptions { cpu: with_cpu, ..options.clone() };
    options.results(&NetperfSummary::of(&options, &[figures]).unwrap())
}

const RR: &str = "[[connection]]\nshape = \"rr\"";
const UDP: &str = "[[connection]]\ntransport = \"udp\"\nrate = \"0\"";
const REVERSE: &str = "[[connection]]\ndirection = \"reverse\"";

// The expected texts are those of netperf 2.7.1 with these figures.

#[test]
fn a_stream_has_the_table_of_its_direction() {
    let expected = "\
Recv   Send    Send                          
Socket Socket  Message  Elapsed              
Size   Size    Size     Time     Throughput  
bytes  bytes   bytes    secs.    10^6bits/sec  

131072  16384  16384    1.00      960.00   
";
    assert_eq!(printed(&options(NetperfKind::TcpStream), "[[connection]]", false), expected);
    let text = printed(&options(NetperfKind::TcpMaerts), REVERSE, false);
    assert!(text.ends_with("\n131072  16384  16384    1.00      960.00   \n"), "{text}");
    let text = printed(&options(NetperfKind::TcpStream), "[[connection]]", true);
    assert!(
        text.ends_with("bytes  bytes   bytes    secs.    10^6bits/s  % S      % U      us/KB   us/KB\n\n131072  16384  16384    1.00        960.00   50.00    -1.00    8.192   -1.000 \n"),
        "{text}"
    );
}

#[test]
fn transactions_have_a_rate() {
    let expected = "\
Local /Remote
Socket Size   Request  Resp.   Elapsed  Trans.
Send   Recv   Size     Size    Time     Rate         
bytes  Bytes  bytes    bytes   secs.    per sec   

16384  131072 100      200     2.00     10000.00   
16384  131072
";
    assert_eq!(printed(&options(NetperfKind::TcpRr), RR, false), expected);
    let details = NetperfOptions { verbosity: 2, ..options(NetperfKind::TcpRr) };
    let text = printed(&details, RR, false);
    assert!(text.contains("   100.000   10000.000 8.000     16.000\n"), "{text}");
    let band = NetperfOptions { unit: Some("K".parse().unwrap()), ..options(NetperfKind::TcpRr) };
    let text = printed(&band, RR, false);
    assert!(text.contains("KBytes/sec   \n"), "{text}");
}

#[test]
fn datagrams_have_a_line_for_each_end() {
    let text = printed(&options(NetperfKind::UdpStream), UDP, false);
    let expected = "
 16384   16384   1.00         7630      0    1000.00
131072           1.00         7000            960.00

";
    assert!(text.ends_with(expected), "{text}");
    let brief = NetperfOptions { verbosity: 0, ..options(NetperfKind::UdpStream) };
    assert_eq!(printed(&brief, UDP, false), "1000.00\n");
}

#[test]
fn a_brief_result_is_a_number_with_its_brand() {
    let brief = NetperfOptions {
        verbosity: 0,
        headings: false,
        brand: Some("tag".into()),
        ..options(NetperfKind::TcpStream)
    };
    assert_eq!(printed(&brief, "[[connection]]", false), " 960.00 tag\n");
    assert_eq!(printed(&brief, "[[connection]]", true), " 8.192 S tag\n");
}

#[test]
fn selected_names_have_their_values() {
    let selection = NetperfSelection::parse(
        "THROUGHPUT,throughput_units,BOGUS,PROTOCOL,DIRECTION,REMOTE_SOCKET_TOS,LOCAL_CONG_CONTROL,\
         LOCAL_TRANSPORT_RETRANS,REMOTE_RECV_CALLS,LSS_SIZE_END,MIN_LATENCY,RESULT_BRAND,LOCAL_SYSNAME,\
         RSR_SIZE_REQ,REMOTE_BYTES_PER_RECV;DEST_PORT,ELAPSED_TIME",
    );
    let form = NetperfForm::Keyval(selection.clone());
    let text = printed(
        &NetperfOptions { form, ..options(NetperfKind::TcpStream) },
        "[[connection]]",
        false,
    );
    let expected = "THROUGHPUT=960.00\nTHROUGHPUT_UNITS=10^6bits/s\nPROTOCOL=TCP\nDIRECTION=Send\n\
        REMOTE_SOCKET_TOS=0xb8\nLOCAL_CONG_CONTROL=cubic\nLOCAL_TRANSPORT_RETRANS=3\n\
        REMOTE_RECV_CALLS=7000\nLSS_SIZE_END=4194304\nMIN_LATENCY=-1\nLOCAL_SYSNAME=Deprecated\n\
        RSR_SIZE_REQ=-1\nREMOTE_BYTES_PER_RECV=17142.86\nDEST_PORT=40000\nELAPSED_TIME=1.00\n";
    assert_eq!(text, expected);
    let short = || NetperfSelection::parse("THROUGHPUT,BOGUS,P99_LATENCY;PROTOCOL");
    let csv = NetperfOptions { form: NetperfForm::Csv(short()), ..options(NetperfKind::TcpRr) };
    let expected = "Throughput,,99th Percentile Latency Microseconds,Protocol\n10000.00,,90,TCP\n";
    assert_eq!(printed(&csv, RR, false), expected);
    let form = NetperfForm::Columns(NetperfSelection::parse("ELAPSED_TIME,THROUGHPUT;PROTOCOL"));
    let columns = NetperfOptions { form, ..options(NetperfKind::TcpRr) };
    let expected = "\
Elapsed Throughput 
Time               
(sec)              
                   
2.00    10000.00   

Protocol 
         
         
         
TCP      
";
    assert_eq!(printed(&columns, RR, false), expected);
}

#[test]
fn without_a_selection_names_are_those_of_the_test() {
    let kind = NetperfKind::Omni(NetperfExchange::Receive);
    let form = NetperfForm::Keyval(NetperfSelection::default());
    let text = printed(&NetperfOptions { form, ..options(kind) }, REVERSE, false);
    let names: Vec<&str> = text.lines().map(|line| line.split('=').next().unwrap()).collect();
    let expected = [
        "RSS_SIZE_END",
        "LSR_SIZE_END",
        "REMOTE_SEND_SIZE",
        "ELAPSED_TIME",
        "THROUGHPUT",
        "THROUGHPUT_UNITS",
    ];
    assert_eq!(names, expected);
    assert!(printed(&options(kind), REVERSE, true).contains("Elapsed"), "columns");
    assert_eq!(netperf_names().count(), 174);
    assert!(NetperfSelection::is_direct("mean_latency") && !NetperfSelection::is_direct("file"));
    // Every name has a value of one line.
    let form = NetperfForm::Keyval(NetperfSelection::parse("all"));
    let text = printed(&NetperfOptions { form, ..options(NetperfKind::TcpRr) }, RR, true);
    assert!(text.lines().all(|line| line.contains('=')), "{text}");
}

#[test]
fn interim_results_are_those_of_intervals_with_data() {
    let keyval = NetperfOptions {
        form: NetperfForm::Keyval(NetperfSelection::default()),
        ..options(NetperfKind::UdpRr)
    };
    let mut interim = NetperfInterim::new(&keyval);
    assert!(interim.counts_transactions());
    let expected = "NETPERF_INTERIM_RESULT[0]=1000.00\nNETPERF_UNITS[0]=Trans/s\n\
                    NETPERF_INTERVAL[0]=0.200\nNETPERF_ENDING[0]=1795970511.046\n";
    assert_eq!(interim.interval(200, 0.2, 1_795_970_511_046), expected);
    assert_eq!(interim.interval(0, 0.4, 1_795_970_511_246), "");
    let text = interim.interval(100, 0.6, 1_795_970_511_446);
    assert!(text.contains("[1]=250.00\n") && text.contains("INTERVAL[1]=0.400\n"), "{text}");
    let mut interim = NetperfInterim::new(&options(NetperfKind::TcpStream));
    let expected = "Interim result:  100.00 10^6bits/s over 0.200 seconds ending at 1.005\n";
    assert_eq!(interim.interval(2_500_000, 0.2, 1_005), expected);
}

#[test]
fn repeated_tests_have_a_mean_and_a_width() {
    let confidence = NetperfConfidence {
        level_percent: 95,
        width_percent: 5.0,
        runs: [3, 3],
        result_only: false,
    };
    let options =
        NetperfOptions { confidence: Some(confidence), ..options(NetperfKind::TcpStream) };
    let run = |seconds: f64| {
        let mut record = record("[[connection]]");
        record.flows[0].sender.as_mut().unwrap().seconds = seconds;
        let (local, remote) = ends(false);
        NetperfFigures::of(&record, local, remote).unwrap()
    };
    let summary = NetperfSummary::of(&options, &[run(1.0), run(2.0), run(3.0)]).unwrap();
    assert!(!summary.is_confident(&options));
    let text = options.results(&summary);
    assert!(text.starts_with("!!! WARNING\n"), "{text}");
    // 960, 480 and 320 Mbit/s.
    assert!(text.ends_with("    2.00      586.67   \n"), "{text}");
    let same = NetperfSummary::of(&options, &[run(1.0), run(1.0), run(1.0)]).unwrap();
    assert!(same.is_confident(&options));
    assert!(!options.results(&same).contains('!'));
    let banner = options.banner("h", "127.0.0.1".parse().unwrap(), None);
    assert_eq!(
        banner,
        "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h (127.0.0.1) port 0 AF_INET : +/-2.500% @ 95% conf.  : demo\n"
    );
}

#[test]
fn units_of_transactions_are_of_transactions_alone() {
    let of = |unit: &str, kind| NetperfUnit::of(Some(unit.parse().unwrap()), kind).name();
    assert_eq!(of("x", NetperfKind::TcpStream), "10^6bits");
    assert_eq!(of("x", NetperfKind::TcpCrr), "Trans");
    assert_eq!(of("g", NetperfKind::TcpRr), "10^9bits");
    assert_eq!(NetperfUnit::of(None, NetperfKind::UdpRr).name(), "Trans");
    assert!("t".parse::<NetperfUnit>().is_err() && "mm".parse::<NetperfUnit>().is_err());
}
