//! The command interface of D-ITG's sender: who is obeyed, and where flows go.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use weir_model::record::Status;
use weir_peers::{Managers, ServeConfig};
use weir_traffic::{Limits, ServerEvent};

use crate::common::{LIMIT, Serving, config, received, sent, served};

/// A server at `bind` that obeys 127.0.0.61 and 127.0.0.71, and sends to the receivers of these tests.
fn manager(bind: &str, limits: Limits) -> Serving {
    let list = |text: &str| text.parse().unwrap();
    let managers = Managers {
        from: list("127.0.0.61,127.0.0.71"),
        to: list("127.0.0.62,127.0.0.68,127.0.0.69"),
    };
    let config = ServeConfig { managers: Some(managers), ..config(bind, 0, limits) };
    Serving::of("ditg-manager", config)
}

fn client(at: &str) -> UdpSocket {
    let socket = UdpSocket::bind((at, 0)).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
}

/// The next reply: its type, its length, and its text.
fn reply(socket: &UdpSocket) -> (u8, usize, String) {
    let mut buffer = [0; 2000];
    let (bytes, _) = socket.recv_from(&mut buffer).unwrap();
    (buffer[0], bytes, String::from_utf8_lossy(&buffer[8..bytes]).into_owned())
}

fn refused(server: &Serving) -> String {
    loop {
        if let ServerEvent::Refused { reason, .. } = server.events.recv_timeout(LIMIT).unwrap() {
            return reason;
        }
    }
}

#[test]
fn a_command_of_a_manager_is_a_flow_to_a_receiver() {
    let receiver = Serving::start("ditg", "127.0.0.62", Limits::default());
    let server = manager("127.0.0.63", Limits::default());
    let socket = client("127.0.0.61");
    for (transport, most) in [("UDP", 300), ("TCP", 200)] {
        let command = format!(
            "-a 127.0.0.62 -Sdp {} -T {transport} -C 1000 -c 100 -z {most}",
            receiver.port()
        );
        socket.send_to(command.as_bytes(), server.address).unwrap();
        let [started, ended] = [reply(&socket), reply(&socket)];
        let text = &command[..command.len() - 8];
        assert_eq!(started, (1, command.len(), text.to_owned()));
        assert_eq!(ended, (2, command.len(), text.to_owned()));
        let (near, far) = (served(&server), served(&receiver));
        assert_eq!((near.status, near.peer.as_str()), (Status::Complete, "ditg"));
        assert_eq!(sent(&near.flows[0]), (most * 100, most));
        assert_eq!(received(&far.flows[0]).0, most * 100);
    }
}

#[test]
fn others_are_not_obeyed_and_nothing_goes_elsewhere() {
    let receiver = Serving::start("ditg", "127.0.0.68", Limits::default());
    let other = Serving::start("ditg", "127.0.0.64", Limits::default());
    let server = manager("127.0.0.65", Limits { sessions: 1, ..Limits::default() });
    let command = |host: &str, to: &Serving, more: &str| {
        format!("-a {host} -Sdp {} -T UDP -C 100 -c 100 {more}", to.port())
    };
    // Another host, and a message that no manager sends.
    let stranger = client("127.0.0.66");
    stranger.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let valid = command("127.0.0.68", &receiver, "-z 5");
    stranger.send_to(valid.as_bytes(), server.address).unwrap();
    assert!(stranger.recv_from(&mut [0; 100]).is_err());
    let socket = client("127.0.0.61");
    socket.send_to(&[b' '; 2000], server.address).unwrap();
    // Another receiver, and one that does not exist.
    socket.send_to(command("127.0.0.64", &other, "-z 5").as_bytes(), server.address).unwrap();
    assert!(refused(&server).contains("127.0.0.64"));
    let unheard = "-a 127.0.0.68 -Sdp 1999 -T UDP -z 5";
    socket.send_to(unheard.as_bytes(), server.address).unwrap();
    refused(&server);
    socket.send_to(b"-a 127.0.0.68 -T ICMP", server.address).unwrap();
    assert!(refused(&server).contains("ICMP"));
    // As many as there may be.
    let long = command("127.0.0.68", &receiver, "-t 600000");
    socket.send_to(long.as_bytes(), server.address).unwrap();
    assert_eq!(reply(&socket).0, 1);
    socket.send_to(valid.as_bytes(), server.address).unwrap();
    assert!(refused(&server).contains("1 flows"));
    server.stop.request(weir_traffic::StopReason::Terminated);
    assert_eq!(served(&server).status, Status::Interrupted);
    let opened = |event: &ServerEvent| matches!(event, ServerEvent::SessionOpened { .. });
    other.stop.request(weir_traffic::StopReason::Terminated);
    assert_eq!(other.events.iter().filter(opened).count(), 0);
}

#[test]
fn a_flow_lasts_no_longer_than_a_session_may() {
    let receiver = Serving::start("ditg", "127.0.0.69", Limits::default());
    let server = manager("127.0.0.67", Limits { session_seconds: 1, ..Limits::default() });
    let socket = client("127.0.0.61");
    let command = format!("-a 127.0.0.69 -Sdp {} -T UDP -C 100 -c 100 -t 600000", receiver.port());
    socket.send_to(command.as_bytes(), server.address).unwrap();
    assert_eq!([reply(&socket).0, reply(&socket).0], [1, 2]);
    assert_eq!(served(&server).status, Status::Interrupted);
    assert!(received(&served(&receiver).flows[0]).1 > 0);
}

#[test]
fn a_manager_has_a_limited_number_of_commands() {
    let server = manager("127.0.0.72", Limits::default());
    let socket = client("127.0.0.61");
    let all = 40;
    for _ in 0..all {
        socket.send_to(b"-a 127.0.0.68 -T ICMP", server.address).unwrap();
    }
    // A command of another manager follows them.
    client("127.0.0.71").send_to(b"-a 127.0.0.68 -T SCTP", server.address).unwrap();
    let mut events = 0;
    while !refused(&server).contains("SCTP") {
        events += 1;
    }
    server.stop.request(weir_traffic::StopReason::Terminated);
    let totals = server.events.iter().find_map(|event| match event {
        ServerEvent::Reflected { requests, replies, limited, .. } => {
            Some((requests, replies, limited))
        }
        _ => None,
    });
    assert!((10..all).contains(&events), "{events}");
    assert_eq!(totals, Some((all + 1, 0, all - events)));
}

#[test]
fn a_flow_whose_receiver_does_not_close_it_has_a_record() {
    // A receiver that accepts a flow, and says nothing more.
    let data = UdpSocket::bind("127.0.0.68:0").unwrap();
    let listener = TcpListener::bind("127.0.0.68:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 1000];
        assert!(stream.read(&mut buffer).unwrap() > 0);
        stream.write_all(&[2]).unwrap();
        assert!(stream.read(&mut buffer).unwrap() > 0);
        let port = data.local_addr().unwrap().port().to_be_bytes();
        stream.write_all(&[&[5, 0, 0, 0, 1], &port[..]].concat()).unwrap();
        let _ = stream.read_to_end(&mut vec![]);
    });
    let server = manager("127.0.0.73", Limits::default());
    let socket = client("127.0.0.61");
    let command = format!("-a 127.0.0.68 -Sdp {port} -T UDP -C 100 -c 100 -t 600000");
    socket.send_to(command.as_bytes(), server.address).unwrap();
    assert_eq!(reply(&socket).0, 1);
    server.stop.request(weir_traffic::StopReason::Terminated);
    assert_eq!(served(&server).status, Status::Interrupted);
    receiver.join().unwrap();
}
