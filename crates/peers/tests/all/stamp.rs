//! STAMP and TWAMP Light over loopback: against a reflector written with the standard library alone, and against Weir's own.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use weir_model::plan::{ConnectionFields, HeaderFormat, PeerName, TransportName};
use weir_model::record::{Record, Status};
use weir_model::units::ByteSize;
use weir_net::clock::InjectedClock;
use weir_peers::{Protocol, ServeConfig};
use weir_traffic::session::WorkerConfig;
use weir_traffic::{ClientConfig, Limits, Stop, StopReason, TrafficError};
use weir_wire::hmac::HmacKey;

use crate::common::{LIMIT, Serving, config};
use crate::reflected::{end, loopback, plan, run, serving, totals};

const PACKETS: u64 = 300;

/// A flow of `PACKETS` test packets.
fn fields() -> ConnectionFields {
    ConnectionFields {
        transport: TransportName::Udp,
        packets: Some(PACKETS),
        rate: Some("3000pps".parse().unwrap()),
        ..ConnectionFields::default()
    }
}

fn test(to: SocketAddr, fields: ConnectionFields) -> Record {
    run(plan(PeerName::Stamp, to, vec![fields.into()]), to).unwrap()
}

/// What a reflector does with a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Answered,
    /// Lost on the path to the reflector.
    LostForward,
    /// Its reply is lost on the path back.
    LostBack,
}

/// A reflector as RFC 8762 describes it, which numbers its replies itself if it `counts`, and keeps each packet for `dwell`.
fn reference(
    counts: bool,
    dwell: Duration,
    verdict: impl Fn(u32) -> Verdict + Send + 'static,
) -> SocketAddr {
    let socket = UdpSocket::bind((loopback(false), 0)).unwrap();
    let address = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    std::thread::spawn(move || {
        let (started, mut bytes, mut next) = (Instant::now(), [0; 2048], 0_u32);
        let now = || {
            let since = started.elapsed() + Duration::from_secs(1000);
            let fraction = (u64::from(since.subsec_nanos()) << 32) / 1_000_000_000;
            ((since.as_secs() << 32) + fraction).to_be_bytes()
        };
        while let Ok((n, from)) = socket.recv_from(&mut bytes) {
            let received = now();
            let packet = &bytes[..n];
            // The format of the test packet.
            assert!(n >= 44 && packet[12..14] != [0, 0] && packet[14..44] == [0; 30]);
            let verdict = verdict(u32::from_be_bytes(packet[..4].try_into().unwrap()));
            if verdict == Verdict::LostForward {
                continue;
            }
            std::thread::sleep(dwell);
            let mut reply = packet.to_vec();
            if counts {
                reply[..4].copy_from_slice(&next.to_be_bytes());
            }
            next += 1;
            reply[12..14].copy_from_slice(&[0, 1]);
            reply[16..24].copy_from_slice(&received);
            reply[24..38].copy_from_slice(&packet[..14]);
            reply[40] = 64;
            reply[4..12].copy_from_slice(&now());
            if verdict == Verdict::Answered {
                let _ = socket.send_to(&reply, from);
            }
        }
    });
    address
}

#[test]
fn replies_come_back_from_any_reflector() {
    for bytes in [44, 45, 48, 400] {
        let to = reference(true, Duration::ZERO, |_| Verdict::Answered);
        let size = Some(ByteSize(bytes).into());
        let record = test(to, ConnectionFields { payload: size, ..fields() });
        assert_eq!((record.status, &*record.peer), (Status::Complete, "stamp"));
        let flow = &record.flows[0];
        let echo = flow.echo.as_ref().unwrap();
        assert_eq!((echo.packets, echo.bytes), (PACKETS, PACKETS * bytes));
        let lost = [echo.lost_packets, echo.lost_forward_packets, echo.lost_back_packets];
        assert_eq!(lost, [Some(0); 3]);
        let round_trip = flow.round_trip.as_ref().unwrap();
        assert!(round_trip.mean_seconds > 0.0 && round_trip.mean_seconds < 1.0);
        // The plan of the record runs again.
        weir_peers::check(&ClientConfig::new(record.plan.clone(), "127.0.0.1")).unwrap();
        // Nothing relates the clocks.
        assert!(flow.receiver.is_none());
    }
}

#[test]
fn losses_have_a_direction_where_the_reflector_counts() {
    let verdict = |number| match number % 50 {
        10 | 11 => Verdict::LostForward,
        20 => Verdict::LostBack,
        _ => Verdict::Answered,
    };
    let losses = |record: Record| {
        let echo = record.flows[0].echo.clone().unwrap();
        [echo.lost_packets, echo.lost_forward_packets, echo.lost_back_packets]
    };
    let counting = test(reference(true, Duration::ZERO, verdict), fields());
    assert_eq!(losses(counting), [Some(18), Some(12), Some(6)]);
    let other = test(reference(false, Duration::ZERO, verdict), fields());
    assert_eq!(losses(other), [Some(18), None, None]);
}

#[test]
fn the_time_at_the_reflector_is_no_part_of_the_round_trip() {
    let dwell = Duration::from_millis(300);
    let to = reference(true, dwell, |_| Verdict::Answered);
    let rate = Some("2pps".parse().unwrap());
    let record = test(to, ConnectionFields { packets: Some(3), rate, ..fields() });
    let round_trip = record.flows[0].round_trip.as_ref().unwrap();
    assert_eq!(round_trip.count, 3);
    assert!(round_trip.min_seconds > 0.0 && round_trip.min_seconds < dwell.as_secs_f64() / 2.0);
}

#[test]
fn weir_answers_itself_over_both_ip_versions() {
    for peer in [PeerName::Stamp, PeerName::TwampLight] {
        for is_v6 in [false, true] {
            let server = serving(peer, loopback(is_v6));
            let to = server.address;
            let connections = vec![
                ConnectionFields { name: "a".into(), ..fields() }.into(),
                ConnectionFields {
                    name: "b".into(),
                    count: 2,
                    payload: Some("uniform(min=60, max=900)".parse().unwrap()),
                    spacing: "exponential".parse().unwrap(),
                    ..fields()
                }
                .into(),
            ];
            let record = run(plan(peer, to, connections), to).unwrap();
            assert_eq!((&*record.peer, record.flows.len()), (peer.label(), 3));
            for flow in &record.flows {
                let echo = flow.echo.as_ref().unwrap();
                assert_eq!((echo.packets, echo.lost_packets), (PACKETS, Some(0)), "{peer}");
                assert_eq!(echo.bytes, flow.sender.as_ref().unwrap().bytes);
            }
            assert_eq!(totals(&end(server)), (3 * PACKETS, 3 * PACKETS, 0));
        }
    }
}

#[test]
fn authenticated_mode_needs_the_same_key_at_both_ends() {
    let key = |secret: &str| Some(HmacKey::new(secret.as_bytes()));
    let peer = PeerName::Stamp;
    let hmac = key("both know it");
    let config = ServeConfig { hmac, ..config("127.0.0.1", 0, Limits::default()) };
    let server = Serving::of(peer.label(), config);
    let to = server.address;
    let test = |hmac, fields: ConnectionFields| {
        let plan = plan(peer, to, vec![fields.into()]);
        let config = ClientConfig { hmac, ..ClientConfig::new(plan, to.ip().to_string()) };
        weir_peers::run(config, Stop::new(), &mut |_| {})
    };
    let record = test(key("both know it"), fields()).unwrap();
    let flow = &record.flows[0];
    assert_eq!(record.plan.connections[0].header, HeaderFormat::StampHmac);
    let echo = flow.echo.as_ref().unwrap();
    assert_eq!((echo.packets, echo.bytes), (PACKETS, 112 * PACKETS));
    assert_eq!((echo.lost_packets, echo.corrupted_packets), (Some(0), Some(0)));
    assert!(flow.round_trip.is_some());
    // Another key, and none.
    let few = || ConnectionFields { packets: Some(5), ..fields() };
    for hmac in [key("another"), None] {
        let failure = test(hmac, few()).unwrap_err();
        assert!(matches!(failure.error, TrafficError::Lost { .. }), "{:?}", failure.error);
    }
    assert_eq!(totals(&end(server)), (PACKETS + 10, PACKETS, 0));
    // Other peers have no such key.
    let plan = plan(PeerName::TwampLight, ([127, 0, 0, 1], 7).into(), vec![fields().into()]);
    let config = ClientConfig { hmac: key("a"), ..ClientConfig::new(plan, "127.0.0.1") };
    let refused = weir_peers::check(&config);
    assert!(matches!(refused, Err(TrafficError::Input { field: "hmac_key_file", .. })));
}

#[test]
fn the_reflector_counts_per_session_and_ignores_what_is_no_test_packet() {
    let server = serving(PeerName::Stamp, loopback(false));
    let client = || {
        let socket = UdpSocket::bind((loopback(false), 0)).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket.connect(server.address).unwrap();
        socket
    };
    let (a, b) = (client(), client());
    for hostile in [&[][..], &[1; 43], b"GET / HTTP/1.1\r\n\r\n"] {
        a.send(hostile).unwrap();
    }
    let ask = |socket: &UdpSocket, packet: &[u8]| {
        socket.send(packet).unwrap();
        let mut reply = vec![0; 1 << 16];
        let n = socket.recv(&mut reply).unwrap();
        reply.truncate(n);
        assert_eq!(n, packet.len());
        assert_eq!(reply[24..38], packet[..14]);
        u32::from_be_bytes(reply[..4].try_into().unwrap())
    };
    // A number of the sender that is not the reflector's.
    let packet = [0xff; 44];
    let numbers = [(&a, 0), (&a, 1), (&b, 0), (&a, 2), (&b, 1)];
    for (socket, expected) in numbers {
        assert_eq!(ask(socket, &packet), expected);
    }
    // Another sender identifier is another session, and a TLV that is longer than its packet is no reason to be silent.
    let mut other = [0xff; 2000];
    other[14..16].copy_from_slice(&[1, 2]);
    assert_eq!(ask(&a, &other), 0);
    assert_eq!(totals(&end(server)), (9, 6, 0));
}

#[test]
fn each_address_has_a_limit_of_replies() {
    // The clock stands still, so that no allowance grows back.
    let clock = InjectedClock::new();
    clock.set_monotonic_offset_ns(i64::MIN);
    let config = ServeConfig {
        bind: vec![loopback(false)],
        port: 0,
        limits: Limits::default(),
        workers: WorkerConfig { clock: clock.clock(), ..WorkerConfig::default() },
        hmac: None,
        logins: None,
        rate_limit: None,
        passphrase: None,
        managers: None,
        describe: None,
        call_backs: weir_peers::CallBacks::Never,
        iperf2: Default::default(),
        ports: Default::default(),
    };
    let server = Protocol::find("stamp").unwrap().serve.unwrap()(&config).unwrap();
    let (stop, to) = (Stop::new(), server.addresses()[0]);
    let own = stop.clone();
    let thread = std::thread::spawn(move || {
        let mut events = vec![];
        server.run(&own, &mut |event| events.push(event)).unwrap();
        events
    });
    let ask = |socket: &UdpSocket| {
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket.send_to(&[1; 44], to).unwrap();
        socket.recv_from(&mut [0; 64]).unwrap();
    };
    let (first, second) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.2:0").unwrap());
    for _ in 0..2000 {
        ask(&first);
    }
    for _ in 0..10 {
        first.send_to(&[1; 44], to).unwrap();
    }
    // Another address is not affected. Its reply shows that the others have been read.
    ask(&second);
    first.set_nonblocking(true).unwrap();
    assert!(first.recv_from(&mut [0; 64]).is_err());
    stop.request(StopReason::Terminated);
    assert_eq!(totals(&thread.join().unwrap()), (2011, 2001, 10));
}

#[test]
fn what_a_reflector_lacks_is_refused_by_its_field() {
    let to = SocketAddr::new(loopback(false), 9);
    let refused = [
        ("transport", ConnectionFields { transport: TransportName::Tcp, ..fields() }),
        ("payload", ConnectionFields { payload: Some(ByteSize(43).into()), ..fields() }),
        ("header", ConnectionFields { header: HeaderFormat::Rtp, ..fields() }),
        ("verify", ConnectionFields { verify: true, ..fields() }),
        ("gro", ConnectionFields { gro: Some(weir_model::plan::Switch::On), ..fields() }),
        ("echo", ConnectionFields { echo: Some("64".parse().unwrap()), ..fields() }),
        (
            "direction",
            ConnectionFields { direction: weir_model::plan::Direction::Reverse, ..fields() },
        ),
    ];
    for (field, connection) in refused {
        let plan = plan(PeerName::Stamp, to, vec![connection.into()]);
        let checked = plan.check().map_err(TrafficError::from);
        let checked =
            checked.and_then(|()| weir_peers::check(&ClientConfig::new(plan.clone(), "127.0.0.1")));
        match checked {
            Err(TrafficError::Plan(weir_model::ModelError::Field { field: named, .. })) => {
                assert_eq!(named, format!("connection[0].{field}"));
            }
            other => panic!("{field}: {other:?}"),
        }
    }
}

#[test]
fn reflectors_are_served_only_by_name() {
    for peer in [PeerName::Stamp, PeerName::TwampLight] {
        assert!(Protocol::find(peer.label()).unwrap().is_served_by_name_only);
    }
}
