//! MGEN's messages over loopback: against Weir's own server, and against mgen in both roles.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{ChildStdout, Command, Stdio};

use weir_model::record::{Record, Status};
use weir_traffic::{Limits, ServerEvent, Stop};

use crate::common::{Program, Serving, received, run, sent, served};

/// Starts mgen with these events; `None`: it is not installed.
fn mgen(
    name: &str,
    options: &[&str],
    events: &[&str],
) -> Option<(Program, BufReader<ChildStdout>)> {
    let events = events.iter().flat_map(|event| ["event", event]);
    let started = Command::new("mgen")
        .args(options)
        .arg("flush")
        .args(events)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = started else {
        println!("SKIPPED {name}: no mgen");
        return None;
    };
    let output = BufReader::new(child.stdout.take().unwrap());
    Some((Program(child), output))
}

/// The value of `key` in a line of mgen's log.
fn value<'a>(line: &'a str, key: &str) -> &'a str {
    let start = line.find(&format!(" {key}>")).unwrap() + key.len() + 2;
    line[start..].split_whitespace().next().unwrap()
}

fn test(to: SocketAddr, connections: &str) -> Record {
    run("mgen", to, connections, Stop::new(), &mut |_| {}).unwrap()
}

/// The lost datagrams and the duplicates of a server's session. Linux may reorder the datagrams of a sender that
/// moves to another CPU.
fn losses(record: &Record) -> (Option<u64>, Option<u64>) {
    let receiver = record.flows[0].receiver.as_ref().unwrap();
    (receiver.lost_packets, receiver.duplicate_packets)
}

#[test]
fn weir_counts_what_weir_sends() {
    let server = Serving::start("mgen", "127.0.0.1", Limits::default());
    let flow = |name: u32, more: &str| {
        format!(
            "[[connection]]\nname = \"{name}\"\ntransport = \"udp\"\npackets = 300\nrate = \"3000pps\"\n{more}\n"
        )
    };
    // Sizes that vary, and a message without a checksum.
    let connections =
        flow(7, "payload = \"100..900\"") + &flow(9, "payload = 28\nheader = \"mgen\"");
    let record = test(server.address, &connections);
    assert_eq!((record.peer.as_str(), record.status), ("mgen", Status::Complete));
    assert!(record.warnings.iter().any(|warning| warning.code == "one-sided"));
    let bytes = [sent(&record.flows[0]), sent(&record.flows[1])];
    assert_eq!((bytes[0].1, bytes[1]), (300, (300 * 28, 300)));
    let mut sessions = [served(&server), served(&server)];
    sessions.sort_by_key(|session| session.flows[0].name.clone());
    for (session, (name, bytes)) in sessions.iter().zip(["7", "9"].into_iter().zip(bytes)) {
        assert_eq!((session.flows[0].name.as_str(), received(&session.flows[0])), (name, bytes));
        assert_eq!(losses(session), (Some(0), Some(0)));
        let receiver = session.flows[0].receiver.as_ref().unwrap();
        assert_eq!(receiver.unreadable_packets, Some(0));
        // The relation of the clocks is unknown.
        assert!(receiver.jitter_seconds.is_some() && receiver.one_way_delay.is_none());
        assert_eq!(session.status, Status::Complete);
    }
}

/// A message without a checksum.
fn message(flow: u32, number: u32) -> Vec<u8> {
    let mut bytes = vec![0, 40, 2, 8];
    bytes.extend(flow.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend([0x13, 0x88, 1, 4, 127, 0, 0, 1]);
    bytes.resize(40, 0);
    bytes
}

#[test]
fn flows_of_one_source_are_sessions_with_their_own_losses() {
    let server = Serving::start("mgen", "127.0.0.1", Limits::default());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address).unwrap();
    // A thread that moves to another CPU overtakes what waits in the first one's receive queue.
    let cpus = weir_net::thread::allowed_cpus().unwrap();
    weir_net::thread::pin_to_cpu(cpus[0]).unwrap();
    for number in 0..200 {
        // Flow 1 loses a tenth. Flow 2 is joined at 5000, and one message is from before that.
        if number % 10 != 4 {
            socket.send(&message(1, number)).unwrap();
        }
        let late = if number == 100 { 4999 } else { 5000 + number };
        socket.send(&message(2, late)).unwrap();
        // Messages that state another length than they have.
        let mut changed = message(1, number);
        changed.push(0);
        socket.send(&changed).unwrap();
        if number % 50 == 49 {
            // Until what was sent has been read, so that no buffer overflows.
            std::thread::yield_now();
        }
    }
    let mut sessions = [served(&server), served(&server)];
    sessions.sort_by_key(|session| session.flows[0].name.clone());
    assert_eq!(received(&sessions[0].flows[0]).1, 180);
    assert_eq!(sessions[0].flows[0].receiver.as_ref().unwrap().unreadable_packets, Some(200));
    assert_eq!(losses(&sessions[0]), (Some(20), Some(0)));
    assert_eq!(received(&sessions[1].flows[0]).1, 199);
    assert_eq!(losses(&sessions[1]), (Some(1), Some(0)));
    for session in &sessions {
        assert_eq!(session.flows[0].receiver.as_ref().unwrap().reordered_packets, Some(0));
    }
}

#[test]
fn sessions_are_limited() {
    let server = Serving::start("mgen", "127.0.0.1", Limits { sessions: 1, ..Limits::default() });
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address).unwrap();
    for number in 0..20 {
        socket.send(&message(1, number)).unwrap();
        socket.send(&message(2, number)).unwrap();
    }
    let session = served(&server);
    assert_eq!((session.flows[0].name.as_str(), received(&session.flows[0]).1), ("1", 20));
    server.stop.request(weir_traffic::StopReason::Terminated);
    let more = server.events.iter().filter(|e| matches!(e, ServerEvent::SessionOpened { .. }));
    assert_eq!(more.count(), 0);
}

#[test]
fn mgen_logs_what_weir_sends() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("LISTEN UDP {port}");
    let Some((_mgen, mut log)) = mgen("mgen_logs_what_weir_sends", &[], &[&listen]) else { return };
    let mut line = String::new();
    while !line.contains("LISTEN") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0);
    }
    let to = SocketAddr::from(([127, 0, 0, 1], port));
    let record = test(
        to,
        "[[connection]]\nname = \"12\"\ntransport = \"udp\"\npackets = 50\nrate = \"1000pps\"\npayload = \"60..8192\"\ncontent = \"pattern:cafe\"",
    );
    assert_eq!(sent(&record.flows[0]).1, 50);
    let mut bytes = 0;
    for number in 0..50 {
        line.clear();
        log.read_line(&mut line).unwrap();
        assert!(line.contains(" RECV "), "{line}");
        let of = |key| value(&line, key);
        assert_eq!(
            (of("flow"), of("seq"), of("dst")),
            ("12", &*number.to_string(), &*format!("127.0.0.1/{port}"))
        );
        assert!(line.contains("data>2:CAFE") && line.contains("INVALID"), "{line}");
        bytes += of("size").parse::<u64>().unwrap();
    }
    assert_eq!(bytes, sent(&record.flows[0]).0);
}

#[test]
fn weir_counts_what_mgen_sends() {
    let server = Serving::start("mgen", "127.0.0.1", Limits::default());
    let port = server.address.port();
    let source = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let flow =
        |id: u32, pattern: &str| format!("ON {id} UDP DST 127.0.0.1/{port} SRC {source} {pattern}");
    let events = [flow(3, "PERIODIC [200 100] COUNT 40"), flow(4, "PERIODIC [100 28] COUNT 20")];
    let events = [events[0].as_str(), events[1].as_str()];
    let name = "weir_counts_what_mgen_sends";
    let Some(_mgen) = mgen(name, &["txchecksum"], &events) else { return };
    let mut sessions = [served(&server), served(&server)];
    sessions.sort_by_key(|session| session.flows[0].name.clone());
    for (session, expected) in sessions.iter().zip([("3", (4000, 40)), ("4", (560, 20))]) {
        let flow = &session.flows[0];
        assert_eq!((flow.name.as_str(), received(flow)), expected);
        assert_eq!(losses(session), (Some(0), Some(0)));
        assert_eq!(flow.receiver.as_ref().unwrap().unreadable_packets, Some(0));
    }
}

#[test]
fn weir_receives_streams_of_weir_and_of_mgen() {
    let server = Serving::start("mgen", "127.0.0.1", Limits::default());
    let record =
        test(server.address, "[[connection]]\nname = \"5\"\nbytes = \"100000\"\npayload = 3000");
    // Whole messages.
    assert_eq!(sent(&record.flows[0]), (102_000, 34));
    let far = served(&server);
    assert_eq!((far.status, received(&far.flows[0]).0), (Status::Complete, 102_000));
    let port = server.address.port();
    let event = format!("ON 3 TCP DST 127.0.0.1/{port} PERIODIC [200 1000] COUNT 40");
    let name = "weir_receives_streams_of_weir_and_of_mgen";
    let Some(_mgen) = mgen(name, &[], &[&event]) else { return };
    let far = served(&server);
    assert_eq!((far.status, received(&far.flows[0]).0), (Status::Complete, 40_000));
}

#[test]
fn mgen_logs_the_messages_of_a_stream() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("LISTEN TCP {port}");
    let name = "mgen_logs_the_messages_of_a_stream";
    let Some((_mgen, mut log)) = mgen(name, &[], &[&listen]) else { return };
    let mut line = String::new();
    while !line.contains("LISTEN") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0);
    }
    let to = SocketAddr::from(([127, 0, 0, 1], port));
    let record = test(
        to,
        "[[connection]]\nname = \"12\"\npackets = 50\nrate = \"1000pps\"\npayload = \"76..20000\"\ncontent = \"pattern:cafe\"",
    );
    assert_eq!(sent(&record.flows[0]).1, 50);
    let (mut number, mut bytes) = (0, 0);
    while number < 50 {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0);
        if !line.contains(" RECV ") {
            continue;
        }
        let of = |key| value(&line, key);
        let fields = (of("proto"), of("flow"), of("seq"), of("dst"));
        let to = format!("127.0.0.1/{port}");
        assert_eq!(fields, ("TCP", "12", &*number.to_string(), &*to));
        assert!(line.contains("data>2:CAFE"), "{line}");
        bytes += of("size").parse::<u64>().unwrap();
        number += 1;
    }
    assert_eq!(bytes, sent(&record.flows[0]).0);
}
