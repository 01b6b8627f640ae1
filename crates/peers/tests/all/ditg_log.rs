//! The log server of D-ITG: logs of Debian's ITGSend and ITGRecv, and clients that misbehave.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weir_model::record::{Record, Status};
use weir_traffic::{Limits, ServerEvent};

use crate::common::{LIMIT, Program, Serving, served};

/// Bytes of an announcement of a log, and of an entry.
const ANNOUNCEMENT: usize = 204;
const ENTRY: usize = 144;

fn start(program: &str, arguments: &str) -> Child {
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace()).current_dir(std::env::temp_dir());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn has_ditg(name: &str) -> bool {
    let found = Command::new("ITGSend").arg("-h").stdout(Stdio::null()).status().is_ok();
    if !found {
        assert!(std::env::var_os("CI").is_none());
        println!("SKIPPED {name}: no ITGSend");
    }
    found
}

fn wait(mut program: Program) {
    let until = Instant::now() + LIMIT;
    while program.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "the program does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_log_of_itgsend_becomes_a_record() {
    if !has_ditg("a_log_of_itgsend_becomes_a_record") {
        return;
    }
    // ITGSend knows no other port of a log server.
    let logs = Serving::at("ditg-log", "127.0.0.51", 9001, Limits::default());
    let server = Serving::start("ditg", "127.0.0.51", Limits::default());
    for protocol in ["UDP", "TCP"] {
        let flags = format!(
            "-a 127.0.0.51 -Sdp {} -T UDP -C 500 -c 200 -z 300 -l own.log -L 127.0.0.51 {protocol}",
            server.port()
        );
        wait(Program(start("ITGSend", &flags)));
        let far = served(&server);
        let record = served(&logs);
        assert_eq!((record.status, record.peer.as_str()), (Status::Complete, "ditg"), "{protocol}");
        assert!(record.end_reason.contains("own.log"), "{}", record.end_reason);
        let [flow] = &record.flows[..] else { panic!("{} flows", record.flows.len()) };
        let sent = flow.sender.as_ref().unwrap();
        assert_eq!((sent.packets, sent.bytes), (300, 60_000), "{protocol}");
        assert_eq!(far.flows[0].receiver.as_ref().unwrap().packets, 300);
        assert!(flow.destination.starts_with("127.0.0.51:"));
    }
}

#[test]
fn a_log_of_itgrecv_becomes_a_record() {
    if !has_ditg("a_log_of_itgrecv_becomes_a_record") {
        return;
    }
    let logs = Serving::at("ditg-log", "127.0.0.52", 9001, Limits::default());
    let receiver = SocketAddr::from(([127, 0, 0, 52], 19_052));
    let _program = Program(start("ITGRecv", "-Sp 19052"));
    let until = Instant::now() + LIMIT;
    while TcpStream::connect(receiver).is_err() {
        assert!(Instant::now() < until, "ITGRecv does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Over TCP, ITGRecv 2.8.1 closes the connection of its own ITGLog, too.
    let flags = "-a 127.0.0.52 -Sdp 19052 -T UDP -C 500 -c 200 -z 300 -x far.log -X 127.0.0.52 UDP";
    wait(Program(start("ITGSend", flags)));
    let record = served(&logs);
    assert_eq!(record.status, Status::Complete);
    let arrived = record.flows[0].receiver.as_ref().unwrap();
    assert_eq!((arrived.packets, arrived.bytes, arrived.lost_packets), (300, 60_000, Some(0)));
    assert!(arrived.one_way_delay.as_ref().unwrap().count == 300);
}

/// A client that has announced a log, and the port of its entries.
fn announced(server: &Serving, protocol: u32) -> (TcpStream, SocketAddr) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut ready = [0];
    stream.read_exact(&mut ready).unwrap();
    assert_eq!(ready, [1]);
    stream.write_all(&announcement(protocol)).unwrap();
    let mut port = [0; 4];
    stream.read_exact(&mut port).unwrap();
    let port = u16::try_from(u32::from_be_bytes(port)).unwrap();
    (stream, SocketAddr::new(server.address.ip(), port))
}

fn announcement(protocol: u32) -> [u8; ANNOUNCEMENT] {
    let mut bytes = [0; ANNOUNCEMENT];
    bytes[..4].copy_from_slice(&protocol.to_le_bytes());
    bytes[4..9].copy_from_slice(b"x.log");
    bytes
}

/// An entry as it is sent, of flow 1.
fn entry(number: u32, second: u32) -> Vec<u8> {
    entry_of(1, number, second)
}

fn entry_of(flow: u32, number: u32, second: u32) -> Vec<u8> {
    let words = [flow, number, 4000, 8999, second, 0, second, 5, 100_u32];
    let mut out: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    for address in ["192.0.2.1", "192.0.2.2"] {
        let mut field = [0; 46];
        field[..address.len()].copy_from_slice(address.as_bytes());
        out.extend(field);
    }
    out.resize(ENTRY, 0);
    out
}

fn packets(record: &Record) -> u64 {
    record.flows.iter().map(|flow| flow.receiver.as_ref().unwrap().packets).sum()
}

fn has_warning(record: &Record, code: &str) -> bool {
    record.warnings.iter().any(|warning| warning.code == code)
}

#[test]
fn entries_are_taken_from_the_client_alone() {
    let server = Serving::start("ditg-log", "127.0.0.53", Limits::default());
    let (mut control, data) = announced(&server, 2);
    let own = UdpSocket::bind("127.0.0.1:0").unwrap();
    let other = UdpSocket::bind("127.0.0.54:0").unwrap();
    other.send_to(&entry(7, 10), data).unwrap();
    own.send_to(&[entry(1, 10), entry(2, 11)].concat(), data).unwrap();
    // No second of a day, and no whole entry.
    own.send_to(&entry(3, 90_000), data).unwrap();
    own.send_to(&entry(4, 12)[..100], data).unwrap();
    own.send_to(&[], data).unwrap();
    own.send_to(&entry(5, 13), data).unwrap();
    control.write_all(&announcement(256)).unwrap();
    let record = served(&server);
    assert_eq!((record.status, packets(&record)), (Status::Complete, 3));
    assert!(has_warning(&record, "entries-invalid") && has_warning(&record, "log-over-udp"));
    assert_eq!(record.flows[0].receiver.as_ref().unwrap().lost_packets, Some(2));
}

#[test]
fn a_stream_of_entries_may_be_cut_anywhere() {
    let server = Serving::start("ditg-log", "127.0.0.55", Limits::default());
    let (mut control, data) = announced(&server, 1);
    let mut stream = TcpStream::connect(data).unwrap();
    stream.set_nodelay(true).unwrap();
    for part in [entry(1, 1), entry(2, 2), entry(3, 3)].concat().chunks(37) {
        stream.write_all(part).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    control.write_all(&announcement(256)).unwrap();
    // It is read to its end, which follows.
    stream.write_all(&entry(4, 4)).unwrap();
    drop(stream);
    let record = served(&server);
    assert_eq!((record.status, packets(&record)), (Status::Complete, 4));
    assert!(!has_warning(&record, "log-over-udp"));
}

#[test]
fn a_log_of_too_many_flows_is_cut_off() {
    let server = Serving::start("ditg-log", "127.0.0.57", Limits::default());
    let (mut control, data) = announced(&server, 1);
    let mut stream = TcpStream::connect(data).unwrap();
    let entries: Vec<u8> = (1..=257).chain([1]).flat_map(|flow| entry_of(flow, 1, 10)).collect();
    stream.write_all(&entries).unwrap();
    drop(stream);
    control.write_all(&announcement(256)).unwrap();
    let record = served(&server);
    assert_eq!((record.status, record.flows.len()), (Status::Partial, 256));
    assert_eq!(packets(&record), 256, "nothing is stored after the limit");
    assert!(record.end_reason.contains("256 flows"), "{}", record.end_reason);
}

#[test]
fn a_stopped_server_reports_what_arrived() {
    let server = Serving::start("ditg-log", "127.0.0.58", Limits::default());
    let (_control, data) = announced(&server, 1);
    let mut stream = TcpStream::connect(data).unwrap();
    stream.write_all(&entry(1, 10)).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    server.stop.request(weir_traffic::StopReason::Terminated);
    let record = served(&server);
    assert_eq!((record.status, packets(&record)), (Status::Interrupted, 1));
}

#[test]
fn clients_that_vanish_or_ask_for_nothing() {
    let limits = Limits { sessions: 1, hello_seconds: 1, ..Limits::default() };
    let server = Serving::start("ditg-log", "127.0.0.56", limits);
    let refused = || loop {
        if let ServerEvent::Refused { reason, .. } = server.events.recv_timeout(LIMIT).unwrap() {
            return reason;
        }
    };
    let (control, data) = announced(&server, 2);
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&entry(1, 1), data).unwrap();
    // A second one, and one that is silent.
    let mut second = TcpStream::connect(server.address).unwrap();
    second.write_all(&announcement(1)).unwrap();
    assert!(refused().starts_with("1 "));
    let mut silent = TcpStream::connect(server.address).unwrap();
    silent.set_read_timeout(Some(LIMIT)).unwrap();
    let mut all = vec![];
    silent.read_to_end(&mut all).unwrap();
    assert_eq!(all, [1], "closed after the time for the announcement");
    drop(control);
    let record = served(&server);
    assert_eq!((record.status, packets(&record)), (Status::Partial, 1));
    // The place is free again.
    let mut wrong = TcpStream::connect(server.address).unwrap();
    wrong.write_all(&announcement(9)).unwrap();
    assert!(refused().contains('9'));
    announced(&server, 1);
}
