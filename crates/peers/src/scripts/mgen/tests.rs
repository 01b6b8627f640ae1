use weir_model::plan::{Connection, HeaderFormat, Plan};
use weir_model::units::Span;

use super::*;

/// A script that clones no capture.
fn read_alone(text: &str, to: Destination) -> Result<Script, ModelError> {
    read(text, to, &mut |_| Err("a file".into()))
}

fn plan(text: &str) -> Plan {
    read_alone(text, Destination::Script).unwrap().plan
}

/// The one connection of a script whose first line is an ON event with these options.
fn connection(options: &str) -> Connection {
    let text = format!("0 ON 1 UDP DST 192.0.2.1/5000 {options}\n5 OFF 1");
    let mut plan = plan(&text);
    assert_eq!(plan.connections.len(), 1);
    plan.connections.remove(0)
}

/// Line, word and given value of the error of a script.
fn error(text: &str) -> (usize, String, String) {
    match read_alone(text, Destination::Script).unwrap_err() {
        ModelError::Document(error) => (error.line.unwrap(), error.field, error.given),
        other => panic!("{text}: {other}"),
    }
}

#[test]
fn an_event_is_a_connection_with_its_options() {
    let script = "TXBUFFER 65536\nTOS 4\nCHECKSUM\n\
        1.5 on 7 udp src 5001 dst 192.0.2.1/5000 per [10.5 1024] ttl 3 data [CAFE]\n\
        4 OFF 7";
    let plan = plan(script);
    assert_eq!(plan.peer.label(), "mgen");
    let [c] = &plan.connections[..] else { panic!("{plan:?}") };
    assert_eq!((c.name.as_str(), c.host.as_deref(), c.port), ("7", Some("192.0.2.1"), Some(5000)));
    assert_eq!((c.client_port(), c.tos()), (Some(5001), Some(4)));
    let ip = c.transport.ip().unwrap();
    assert_eq!((ip.ttl, c.window.map(|window| window.0)), (Some(3), Some(65_536)));
    assert_eq!((c.start_after, c.duration), (Span(1_500_000_000), Some(Span(2_500_000_000))));
    assert_eq!(c.rate, Some("10.5pps".parse().unwrap()));
    assert_eq!(c.payload, Some("1024".parse().unwrap()));
    assert_eq!(
        (c.header, c.content.to_string()),
        (HeaderFormat::MgenChecked, "pattern:cafe".into())
    );
    // A message without room for a checksum and for what MGEN has before it.
    assert_eq!(connection("PERIODIC [1 28]").header, HeaderFormat::Mgen);
}

#[test]
fn patterns_are_rates_and_laws() {
    for (pattern, rate, law) in [
        ("PERIODIC [10 100]", Some("10pps"), "constant"),
        ("PERIODIC [-1 100]", Some("0"), "constant"),
        ("POISSON [10 100]", Some("10pps"), "exponential"),
        ("JITTER [10 100 0.5]", None, "uniform(min=50ms, max=150ms)"),
        ("JITTER [10 100 0]", Some("10pps"), "constant"),
        (
            "BURST [REGULAR 10 PERIODIC [10 100] FIXED 4]",
            None,
            "on_off(on=4s, period=10s, interval=100ms)",
        ),
        (
            "BURST [REG 2 POISSON [10 100] FIX 1]",
            None,
            "on_off(on=1s, period=2s, interval=exponential(mean=100ms))",
        ),
        // One burst follows another.
        ("BURST [REGULAR 4 PERIODIC [10 100] FIXED 4]", Some("10pps"), "constant"),
        (
            "BURST [RANDOM 10 PERIODIC [10 100] FIXED 10]",
            None,
            "on_off(on=10s, period=exponential(mean=10s), interval=100ms)",
        ),
        (
            "BURST [RANDOM 10 PERIODIC [10 100] EXP 5]",
            None,
            "on_off(on=exponential(mean=5s), period=exponential(mean=10s), interval=100ms)",
        ),
        (
            "BURST [REGULAR 3 POISSON [10 100] EXPONENTIAL 5]",
            None,
            "on_off(on=exponential(mean=5s), period=3s, interval=exponential(mean=100ms))",
        ),
        ("BURST [REGULAR 0 PERIODIC [10 100] EXP 5]", Some("10pps"), "constant"),
    ] {
        let c = connection(pattern);
        assert_eq!(c.rate, rate.map(|rate| rate.parse().unwrap()), "{pattern}");
        let spacing = match law {
            "constant" => Default::default(),
            law => law.parse().unwrap(),
        };
        assert_eq!(c.spacing, spacing, "{pattern}");
    }
    assert_eq!(connection("PERIODIC [1 100:200]").payload, Some("100..200".parse().unwrap()));
}

#[test]
fn a_change_of_the_rate_is_a_step_and_any_other_a_connection() {
    let script = "0 ON 1 UDP DST 192.0.2.1/5000 PERIODIC [10 100]\n\
        2 MOD 1 PERIODIC [20 100]\n\
        3 MOD 1 PERIODIC [0 100]\n\
        5 MOD 1 PERIODIC [20 100]\n\
        6 MOD 1 TOS 16\n\
        7 MOD 1 POISSON [5 200]\n\
        9 OFF 1\n\
        12 ON 1 UDP DST 192.0.2.1/5000 PERIODIC [1 100] COUNT 3";
    let plan = plan(script);
    let parts: Vec<_> = plan
        .connections
        .iter()
        .map(|c| (c.name.as_str(), c.start_after.0 / 1_000_000_000, c.duration, c.packets))
        .collect();
    let seconds = |n| Some(Span::from_seconds(n));
    assert_eq!(
        parts,
        [
            ("1", 0, seconds(3), None),
            ("1.2", 5, seconds(1), None),
            ("1.3", 6, seconds(1), None),
            ("1.4", 7, seconds(2), None),
            ("1.5", 12, None, Some(3)),
        ]
    );
    assert_eq!(plan.connections[0].rate_schedule, Some("2s:20pps".parse().unwrap()));
    assert_eq!((plan.connections[1].tos(), plan.connections[2].tos()), (None, Some(16)));
}

#[test]
fn a_count_ends_a_flow_if_its_off_does_not() {
    let ends = |options: &str| {
        let c = connection(options);
        (c.duration, c.packets)
    };
    let duration = Some(Span::from_seconds(5));
    assert_eq!(ends("PERIODIC [1 100] COUNT 5"), (None, Some(5)));
    assert_eq!(ends("PERIODIC [1 100] COUNT 6"), (duration, None));
    assert_eq!(ends("PERIODIC [1 100] COUNT -1"), (duration, None));
    // What is left of it applies after a change.
    let text = "0 ON 1 UDP DST 192.0.2.1/5000 PERIODIC [10 100] COUNT 30\n2 MOD 1 TOS 4\n9 OFF 1";
    let plan = plan(text);
    let parts: Vec<_> = plan.connections.iter().map(|c| (c.duration, c.packets)).collect();
    assert_eq!(parts, [(Some(Span::from_seconds(2)), None), (None, Some(10))]);
}

#[test]
fn an_offset_leaves_out_what_is_before_it() {
    let script = "OFFSET 4\n0 ON 1 UDP DST 192.0.2.1/5000 PERIODIC [10 100]\n3 OFF 1\n\
        0 ON 2 UDP DST 192.0.2.1/5000 PERIODIC [10 100]\n6 OFF 2\n\
        5 ON 3 UDP DST 192.0.2.1/5000 PERIODIC [10 100]\n6 OFF 3";
    let plan = plan(script);
    let parts: Vec<_> = plan
        .connections
        .iter()
        .map(|c| (c.name.as_str(), c.start_after.0 / 1_000_000, c.duration.unwrap().0 / 1_000_000))
        .collect();
    assert_eq!(parts, [("2", 0, 2000), ("3", 1000, 1000)]);
}

#[test]
fn what_has_no_effect_is_noted_and_the_rest_refused_by_line_and_word() {
    let script = "START 13:30:00\n0 LISTEN UDP 5000-5002\nJOIN 224.1.2.3\n\
        ON 1 UDP DST host.example/5000 PERIODIC [1 100] INTERFACE eth0 QUEUE 5";
    let read = read_alone(script, Destination::Script).unwrap();
    let lines: Vec<usize> = read.notes.iter().map(|note| note.line).collect();
    // The last is that the flow has no end.
    assert_eq!(lines, [1, 2, 3, 4, 4, 4]);
    assert_eq!(read.plan.connections[0].duration, Some(Span(0)));
    let on = "ON 1 UDP DST 192.0.2.1/5000";
    for (text, expected) in [
        ("1 FOO 1", (1, "event", "FOO")),
        ("\n\nON x UDP", (3, "ON", "x")),
        ("ON 1 UDP PERIODIC [1 100]", (1, "DST", "missing")),
        ("ON 1 DST 192.0.2.1/5000 PERIODIC [1 100]", (1, "ON", "missing")),
        ("ON 1 TCP DST 192.0.2.1/5000 PERIODIC [1 75]", (1, "PERIODIC", "75")),
        ("ON 1 TCP DST 192.0.2.1/5000 PERIODIC [1 65536]", (1, "PERIODIC", "65536")),
        ("ON 1 SINK DST 192.0.2.1/5000 PERIODIC [1 100]", (1, "protocol", "SINK")),
        ("ON 1 UDP DST 224.1.2.3/5000 PERIODIC [1 100]", (1, "DST", "224.1.2.3/5000")),
        ("ON 1 UDP DST 192.0.2.1 PERIODIC [1 100]", (1, "DST", "192.0.2.1")),
        (&format!("{on} PERIODIC [1 27]"), (1, "PERIODIC", "27")),
        (&format!("{on} PERIODIC [1 8193]"), (1, "PERIODIC", "8193")),
        (&format!("{on} PERIODIC [x 100]"), (1, "PERIODIC", "x")),
        (&format!("{on} PERIODIC 1 100"), (1, "PERIODIC", "1 100")),
        (&format!("{on} JITTER [1 100 0.6]"), (1, "JITTER", "0.6")),
        (&format!("{on} CLONE [tcpdump f.pcap]"), (1, "CLONE", "f.pcap")),
        (&format!("{on} CLONE [pcapng f.pcap]"), (1, "CLONE", "pcapng")),
        (&format!("{on} CLONE [tcpdump f.pcap -2]"), (1, "CLONE", "-2")),
        (&format!("{on} BURST [RANDOM 10 PERIODIC [10 100] UNIFORM 5]"), (1, "BURST", "UNIFORM")),
        (
            &format!("{on} BURST [RANDOM 10 BURST [RANDOM 1 PERIODIC [1 100] FIXED 5] FIXED 5]"),
            (1, "BURST", "BURST"),
        ),
        (&format!("{on} PERIODIC [1 100] FOO"), (1, "option", "FOO")),
        (&format!("{on} PERIODIC [1 100] TOS 256"), (1, "TOS", "256")),
        (&format!("{on} PERIODIC [1 100] DATA [xy]"), (1, "DATA", "xy")),
        (&format!("{on} PERIODIC [1 100] LABEL 5"), (1, "LABEL", "5")),
        (&format!("{on} PERIODIC [1 100]\n1 {on} PERIODIC [1 100]"), (2, "ON", "1")),
        ("1 MOD 1 TOS 4", (1, "MOD", "1")),
        ("1 OFF 1", (1, "OFF", "1")),
        (&format!("{on} PERIODIC [1 100]\n1 MOD 1 SRC 5001"), (2, "SRC", "5001")),
        (&format!("{on} POISSON [1 100] COUNT 5\n1 OFF 1"), (1, "COUNT", "5")),
        (&format!("{on} POISSON [1 100] COUNT 5\n1 MOD 1 TOS 4"), (2, "MOD", "1")),
        ("INPUT more.mgn", (1, "INPUT", "more.mgn")),
        ("0 LISTEN UDP 5000", (1, "script", "no flow that sends")),
    ] {
        let (line, word, given) = expected;
        assert_eq!(error(text), (line, word.to_owned(), given.to_owned()), "{text}");
    }
}

#[test]
fn streams_go_to_the_scripts_destinations() {
    let script = "TXCHECKSUM\nON 1 TCP DST 192.0.2.1/5000 SRC 5001 PERIODIC [1 65535]\n5 OFF 1";
    let connection = &plan(script).connections[0];
    assert_eq!(connection.transport.name(), TransportName::Tcp);
    assert_eq!((connection.host.as_deref(), connection.port), (Some("192.0.2.1"), Some(5000)));
    assert_eq!(connection.client_port(), Some(5001));
    assert_eq!(connection.header, HeaderFormat::Native);
}

#[test]
fn the_flows_of_a_script_may_go_to_a_server_by_weirs_own_protocol() {
    let script = "ON 1 TCP DST 192.0.2.1/5000 SRC 5001 PERIODIC [1 100000]\n5 OFF 1\n\
        ON 2 UDP DST 192.0.2.2/5000 SRC 5001 PERIODIC [10 100]\n5 OFF 2";
    let plan = read_alone(script, Destination::Server).unwrap().plan;
    assert_eq!(plan.peer.label(), "weir");
    assert!(plan.connections.iter().all(|c| c.host.is_none() && c.client_port().is_none()));
    assert!(plan.connections.iter().all(|c| c.header == HeaderFormat::Native));
    let plan = Plan { host: Some("192.0.2.9".into()), ..plan };
    plan.check().unwrap();
}

#[test]
fn mutated_scripts_are_read_or_refused() {
    let script = "TXBUFFER 1000\nTOS 4\n0.0 ON 1 UDP SRC 5001 DST 127.0.0.1/5000 PERIODIC [1 4096]\n\
        0.0 ON 3 UDP DST 127.0.0.1/5000 \\\nBURST [REGULAR 10.0 PERIODIC [10.0 256] FIXED 5.0]\n\
        ON 2 UDP DST [::1]/5000 JITTER [5 100:200 .5] COUNT 3 DATA [cafe]\n\
        4.0 MOD 1 POISSON [10 1024]\n10 OFF 1\n0 LISTEN UDP 5000-5001,6000";
    weir_laws::mutation::replay(
        &[script.as_bytes(), b"ON 1 UDP DST a/1 BURST [RANDOM 1 POISSON [9 99] FIX 1]"],
        5_000,
        crate::scripts::fuzz_mgen_script,
    );
}

/// The connection of a script that clones packets of these times (ms) and frames.
fn cloning(parameters: &str, packets: &[(u64, u64)], off: &str) -> Result<Connection, ModelError> {
    let text = format!("0 ON 1 UDP DST 192.0.2.1/5000 CLONE [tcpdump f.pcap{parameters}]{off}");
    let mut captures = |name: &str| {
        assert_eq!(name, "f.pcap");
        let packet =
            |&(ms, frame_bytes): &(u64, u64)| Captured { at_ns: ms * 1_000_000, frame_bytes };
        Ok(packets.iter().map(packet).collect())
    };
    read(&text, Destination::Script, &mut captures).map(|script| script.plan.connections[0].clone())
}

#[test]
fn a_clone_has_the_sizes_and_times_of_a_capture() {
    let packets = packets_in_disorder();
    let other_end = [(5, 142), (15, 242), (35, 1042), (30, 342)];
    let c = |parameters: &str| cloning(parameters, &packets, "").unwrap();
    let sizes = |c: &Connection| c.payload.as_ref().unwrap().to_string();
    let once = c(" 0");
    assert_eq!((once.packets, sizes(&once)), (Some(4), "values(100, 200, 1000)".into()));
    // The last is earlier than the one before it.
    assert_eq!(once.spacing, "values(10ms, 20ms, 0ns)".parse().unwrap());
    // The first packet is not repeated.
    assert_eq!((c(" [2]").packets, sizes(&c(" 2"))), (Some(10), "values(100, 200, 1000)".into()));
    for endless in ["", " -1"] {
        assert_eq!((c(endless).packets, c(endless).duration), (None, Some(Span(0))));
    }
    let again = cloning(" 1", &other_end, "").unwrap();
    assert_eq!(again.packets, Some(7));
    assert_eq!(sizes(&again), "values(100, 200, 1000, 300, 200, 1000, 300)");
    assert_eq!(cloning(" 0", &other_end, "").unwrap().packets, Some(4));
    assert!(cloning("", &other_end, "").is_err());
    // OFF ends it if it comes first; messages are sent at 0, 10, 30, 30, 40 ms.
    for (off, repeated, duration, packets) in [
        ("\n0.030 OFF 1", " 0", Some(Span(30_000_000)), None),
        ("\n0.031 OFF 1", " 0", None, Some(4)),
        ("\n0.040 OFF 1", " 1", Some(Span(40_000_000)), None),
        ("\n9 OFF 1", " -1", Some(Span::from_seconds(9)), None),
    ] {
        let c = cloning(repeated, &packets_in_disorder(), off).unwrap();
        assert_eq!((c.duration, c.packets), (duration, packets), "{off}");
    }
    assert_eq!(c(" 0] COUNT 3 DATA [CAFE").packets, Some(3));
    for bad in [&packets[..1], &[(1, 69), (2, 142)], &[(1, 142), (2, 8235)], &[(1, 142), (1, 142)]]
    {
        assert!(cloning(" 0", bad, "").is_err(), "{bad:?}");
    }
}

fn packets_in_disorder() -> [(u64, u64); 4] {
    [(5, 142), (15, 242), (35, 1042), (30, 142)]
}
