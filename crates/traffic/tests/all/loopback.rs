//! A client and a server in one process over loopback: every shape of test, and the faults that need no namespace.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_flow::Sizes;
use weir_model::plan::{
    Connection, DataPorts, Direction, Family, HeaderFormat, Plan, Switch, TransportName, UdpOptions,
};
use weir_model::progress::FlowState;
use weir_model::record::{Crossing, Record, Status};
use weir_model::units::{ByteSize, Seed, Span};
use weir_net::clock::Clock;
use weir_traffic::{
    ClientConfig, Event, Failure, Key, ServerConfig, ServerEvent, Stop, StopReason, run, serve,
};
use weir_wire::packets::{PacketLogReader, RecordKind};

struct Server {
    address: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<Result<(), weir_traffic::TrafficError>>>,
}

impl Server {
    fn start(config: ServerConfig) -> Server {
        let (sender, receiver) = mpsc::channel();
        let stop = Stop::new();
        let inner = stop.clone();
        let config = ServerConfig { bind: vec!["127.0.0.1".parse().unwrap()], port: 0, ..config };
        let thread = std::thread::spawn(move || {
            serve(config, inner, &mut |event| {
                if let ServerEvent::Listening { addresses, .. } = event {
                    sender.send(addresses[0].ip().unwrap()).unwrap();
                }
            })
        });
        let address = receiver.recv_timeout(Duration::from_secs(10)).unwrap();
        Server { address, stop, thread: Some(thread) }
    }

    fn test(&self, plan: Plan) -> Result<Record, Failure> {
        run(self.config(plan), Stop::new(), &mut |_| {})
    }

    fn config(&self, plan: Plan) -> ClientConfig {
        let plan = Plan { port: Some(self.address.port()), ..plan };
        plan.check().unwrap();
        ClientConfig::new(plan, "127.0.0.1")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.request(StopReason::Terminated);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

fn connection(transport: TransportName) -> Connection {
    Connection {
        transport: transport.into(),
        duration: Some(Span(500_000_000)),
        ..Connection::default()
    }
}

fn plan(connections: Vec<Connection>) -> Plan {
    Plan { connections, interval: Span(100_000_000), ..Plan::default() }
}

#[test]
fn tcp_both_directions_counts_every_byte() {
    let server = Server::start(ServerConfig::default());
    let mut reverse = connection(TransportName::Tcp);
    reverse.direction = Direction::Reverse;
    let record = server.test(plan(vec![connection(TransportName::Tcp), reverse])).unwrap();
    assert_eq!(record.status, Status::Complete);
    assert_eq!(record.flows.len(), 2);
    for flow in &record.flows {
        let (s, r) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
        assert!(s.bytes > 0);
        assert_eq!(s.bytes, r.bytes, "flow {}", flow.id);
        assert!(flow.tcp.as_ref().unwrap().mss_bytes > 0);
        assert!(!flow.tcp_samples.is_empty());
    }
    assert!(record.intervals.len() >= 5, "{}", record.intervals.len());
    let by_interval: u64 = record
        .intervals
        .iter()
        .flat_map(|i| &i.flows)
        .filter(|f| f.id == 1)
        .filter_map(|f| f.receiver.as_ref())
        .map(|r| r.bytes)
        .sum();
    assert_eq!(by_interval, record.flows[0].receiver.as_ref().unwrap().bytes);
    assert_eq!(record.clock.as_ref().unwrap().method, "shared");
    assert!(record.latency.as_ref().unwrap().idle.is_some());
    assert!(record.cpu.as_ref().unwrap().remote.is_some());
}

#[test]
fn udp_of_every_header_size_both_ways() {
    let server = Server::start(ServerConfig::default());
    for payload in [0u64, 1, 2, 4, 8, 16, 32, 64, 1472, 65_507] {
        for direction in [Direction::Forward, Direction::Reverse] {
            let mut c = connection(TransportName::Udp);
            c.payload = Some(ByteSize(payload).into());
            c.rate = Some("500pps".parse().unwrap());
            c.packets = Some(100);
            c.duration = None;
            c.direction = direction;
            let record = server.test(plan(vec![c])).unwrap();
            let flow = &record.flows[0];
            let (s, r) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
            assert_eq!(s.packets, 100, "payload {payload} {direction}");
            assert_eq!(
                (r.packets, r.lost_packets),
                (100, Some(0)),
                "payload {payload} {direction}"
            );
            assert_eq!(r.one_way_delay.is_some(), payload >= 8, "payload {payload}");
            assert_eq!(r.corrupted_packets, (payload >= 16).then_some(0));
        }
    }
}

/// Raw payload, even of the size of control datagrams: the socket identifies the flow.
#[test]
fn without_a_header_datagrams_are_counted_and_streams_are_unchanged() {
    let server = Server::start(ServerConfig::default());
    let raw = |direction| Connection {
        header: HeaderFormat::None,
        payload: Some(ByteSize(64).into()),
        rate: Some("1000pps".parse().unwrap()),
        packets: Some(200),
        duration: None,
        direction,
        ..connection(TransportName::Udp)
    };
    let stream = Connection { header: HeaderFormat::None, ..connection(TransportName::Tcp) };
    let flows = vec![raw(Direction::Forward), raw(Direction::Reverse), stream];
    let record = server.test(plan(flows)).unwrap();
    for flow in &record.flows[..2] {
        let (s, r) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
        assert_eq!((s.packets, r.packets, r.bytes), (200, 200, 12_800));
        assert_eq!((r.lost_packets, r.ambiguous, r.jitter_seconds), (Some(0), Some(true), None));
        assert!(r.one_way_delay.is_none() && r.reordered_packets.is_none());
    }
    let (s, r) = (record.flows[2].sender.as_ref(), record.flows[2].receiver.as_ref());
    assert!(s.unwrap().bytes > 0 && s.unwrap().bytes == r.unwrap().bytes);
}

#[test]
fn unlimited_udp_is_coalesced_and_its_losses_are_explained() {
    let server = Server::start(ServerConfig::default());
    for gso in [Switch::Auto, Switch::Off] {
        let mut c = connection(TransportName::Udp);
        c.rate = Some("0".parse().unwrap());
        c.payload = Some(ByteSize(160).into());
        c.transport = UdpOptions { gso, ..UdpOptions::default() }.into();
        let record = server.test(plan(vec![c])).unwrap();
        let flow = &record.flows[0];
        let r = flow.receiver.as_ref().unwrap();
        assert_eq!(
            r.crossing,
            Some(if gso == Switch::Auto { Crossing::Coalesced } else { Crossing::PerPacket })
        );
        let sender = flow.sender.as_ref().unwrap();
        let segments = sender.segments_per_message.unwrap();
        assert_eq!(segments > 1.0, gso == Switch::Auto, "{segments}");
        let by_interval: u64 = record
            .intervals
            .iter()
            .flat_map(|i| &i.flows)
            .filter_map(|f| f.sender.as_ref())
            .map(|s| s.packets)
            .sum();
        assert_eq!(by_interval, sender.packets, "the last interval is closed too");
        let ledger = record.loss_ledger.as_ref().unwrap();
        assert_eq!(
            ledger.missing_packets,
            flow.sender.as_ref().unwrap().packets as i64 - r.packets as i64
        );
        if gso == Switch::Off {
            // Every datagram has its own socket buffer: the kernel's count is exact.
            assert_eq!(ledger.remainder_packets, 0, "{ledger:?}");
        }
    }
}

#[test]
fn a_packet_log_reports_each_arrival_and_its_direction() {
    let path = std::env::temp_dir().join(format!("weir-loopback-{}.log", std::process::id()));
    let server = Server::start(ServerConfig::default());
    let mut c = connection(TransportName::Udp);
    (c.packets, c.duration, c.direction) = (Some(20), None, Direction::Reverse);
    c.rate = Some("1000pps".parse().unwrap());
    c.payload = Some(ByteSize(100).into());
    let config = ClientConfig { packet_log: Some(path.clone()), ..server.config(plan(vec![c])) };
    run(config, Stop::new(), &mut |_| {}).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut log = PacketLogReader::new(&bytes[..]).unwrap();
    let mut sequence = 0;
    while let Some(r) = log.read().unwrap() {
        assert_eq!((r.sequence, r.flow, r.size_bytes), (sequence, 1, 100));
        assert_eq!((r.kind, r.copy, r.direction), (RecordKind::ARRIVED, 0, 1));
        assert!(r.time1_ns.unwrap() < r.time2_ns.unwrap(), "one clock: sent before it arrived");
        sequence += 1;
    }
    assert_eq!(sequence, 20);
}

/// Both ends know each size, whatever its law, and what was sent follows from the seed.
#[test]
fn every_law_is_sent_and_accounted_for() {
    const PACKETS: u64 = 300;
    let laws = [
        ("uniform(min=64, max=1400)", "1ms..3ms"),
        ("exponential(mean=500, max=1400)", "exponential(mean=2ms)"),
        ("pareto(shape=0.9, scale=100, max=1400)", "pareto(shape=3, scale=1ms)"),
        ("cauchy(location=700, scale=50, max=1400)", "cauchy(location=2ms, scale=100us, max=10ms)"),
        ("normal(mean=700, deviation=200, max=1400)", "normal(mean=2ms, deviation=500us)"),
        ("log_normal(mean=700, deviation=400, max=1400)", "log_normal(mean=2ms, deviation=1ms)"),
        ("poisson(mean=500)", "poisson(mean=2ms)"),
        ("gamma(shape=2, scale=300, max=1400)", "gamma(shape=2, scale=1ms)"),
        ("weibull(shape=1.5, scale=500, max=1400)", "weibull(shape=1.5, scale=2ms)"),
        (
            "student(degrees=4, location=700, scale=100, max=1400)",
            "student(degrees=4, location=2ms, scale=100us)",
        ),
        ("alternate(first=64, second=1400)", "alternate(first=1ms, second=3ms)"),
        ("increasing(start=64, end=1400, step=8)", "increasing(start=1ms, end=3ms, step=100us)"),
        (
            "decreasing(start=1400, end=64, step=8, at_end=bounce)",
            "decreasing(start=3ms, end=1ms, step=100us)",
        ),
        ("table(64:7, 576:4, 1472:1)", "table(1ms:9, 9ms:1)"),
        (
            "mixture(normal(mean=300, deviation=50):3, 1472:1)",
            "mixture(exponential(mean=1ms):3, 5ms:1)",
        ),
        ("values(64, 1400, 200)", "values(1ms, 2ms, 3ms)"),
        ("160", "on_off(on=20ms, off=exponential(mean=20ms), interval=1ms)"),
    ];
    let server = Server::start(ServerConfig::default());
    let connections = laws.map(|(size, spacing)| {
        let mut c = connection(TransportName::Udp);
        (c.packets, c.duration, c.direction) = (Some(PACKETS), None, Direction::Reverse);
        c.payload = Some(size.parse().unwrap());
        c.spacing = spacing.parse().unwrap();
        c.verify = true;
        c
    });
    let plan = Plan { seed: Seed(7), ..plan(connections.to_vec()) };
    let specs = plan.flows(Family::Ipv4, 1500);
    let record = run(server.config(plan), Stop::new(), &mut |_| {}).unwrap();
    assert_eq!(record.flows.len(), laws.len());
    for (flow, spec) in record.flows.iter().zip(&specs) {
        let (s, r) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
        let law = spec.size.to_string();
        assert_eq!((s.packets, r.packets, r.lost_packets), (PACKETS, PACKETS, Some(0)), "{law}");
        assert_eq!((s.bytes, r.bytes), (Sizes::of(spec).sum(0, PACKETS as u32), s.bytes), "{law}");
        assert_eq!((r.truncated_packets, r.bit_errors), (Some(0), Some(0)), "{law}");
        assert_eq!(s.mean_payload_bytes.is_some(), flow.payload_law.is_some(), "{law}");
        assert!(s.mean_spacing_seconds.is_some_and(|mean| mean > 0.0), "{law}");
    }
}

/// Arrivals have the sizes and intervals of their laws, determined by the seed alone.
#[test]
fn arrivals_follow_the_laws_of_size_and_interval() {
    const PACKETS: u64 = 2000;
    let path = std::env::temp_dir().join(format!("weir-laws-{}.log", std::process::id()));
    let server = Server::start(ServerConfig::default());
    let mut c = connection(TransportName::Udp);
    (c.packets, c.duration, c.direction) = (Some(PACKETS), None, Direction::Reverse);
    c.rate = Some("1000pps".parse().unwrap());
    c.payload = Some("uniform(min=64, max=1400)".parse().unwrap());
    c.spacing = "exponential".parse().unwrap();
    c.verify = true;
    let plan = Plan { seed: Seed(7), ..plan(vec![c]) };
    let sizes = Sizes::of(&plan.flows(Family::Ipv4, 1500)[0]);
    let config = ClientConfig { packet_log: Some(path.clone()), ..server.config(plan) };
    let record = run(config, Stop::new(), &mut |_| {}).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut log = PacketLogReader::new(&bytes[..]).unwrap();
    let mut arrivals = vec![];
    while let Some(r) = log.read().unwrap() {
        assert_eq!((u64::from(r.size_bytes), r.flags), (sizes.at(r.sequence) as u64, 0));
        arrivals.push(r.time2_ns.unwrap());
    }
    assert_eq!(arrivals.len() as u64, PACKETS);
    let flow = &record.flows[0];
    let (s, r) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
    assert_eq!((s.bytes, r.bytes), (sizes.sum(0, PACKETS as u32), s.bytes));
    assert_eq!((r.truncated_packets, r.bit_errors, r.lost_packets), (Some(0), Some(0), Some(0)));
    assert_eq!(flow.payload_law.as_ref().unwrap().to_string(), "64..1400");
    assert_eq!(flow.spacing_law.as_ref().unwrap().to_string(), "exponential");
    assert_eq!(s.mean_payload_bytes, Some(s.bytes as f64 / PACKETS as f64));
    // Two seconds of a Poisson process: a fraction e^−x of the intervals is longer than x means. A busy host moves some.
    let longer = |x: f64| {
        let gaps = arrivals.windows(2).map(|w| w[1].saturating_sub(w[0]) as f64 / 1e6);
        gaps.filter(|gap| *gap > x).count() as f64 / PACKETS as f64
    };
    for x in [1.0f64, 2.0] {
        assert!((longer(x) - (-x).exp()).abs() < 0.1, "{x}: {}", longer(x));
    }
    let equal = longer(0.9) - longer(1.1);
    assert!(equal < 0.3, "no even intervals: {equal}");
}

/// A stream's law of size applies to its writes.
#[test]
fn writes_of_a_stream_follow_their_law() {
    let server = Server::start(ServerConfig::default());
    let mut c = connection(TransportName::Tcp);
    (c.packets, c.duration, c.verify) = (Some(300), None, true);
    c.rate = Some("1000pps".parse().unwrap());
    c.payload = Some("100..20000".parse().unwrap());
    c.spacing = "exponential".parse().unwrap();
    let plan = plan(vec![c]);
    let sizes = Sizes::of(&plan.flows(Family::Ipv4, 1500)[0]);
    let record = server.test(plan).unwrap();
    let flow = &record.flows[0];
    let (s, r) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
    assert_eq!((s.packets, s.bytes), (300, sizes.sum(0, 300)));
    assert_eq!((r.bytes, r.bit_errors), (s.bytes, Some(0)));
}

#[test]
fn verified_payload_and_every_content() {
    let server = Server::start(ServerConfig::default());
    for content in ["random", "zeros", "ascii", "ratio:4"] {
        for transport in [TransportName::Udp, TransportName::Tcp] {
            let mut c = connection(transport);
            c.content = content.parse().unwrap();
            c.verify = true;
            c.duration = None;
            c.bytes = Some(ByteSize(3_000_000));
            c.rate = Some("200M".parse().unwrap());
            let record = server.test(plan(vec![c])).unwrap();
            let r = record.flows[0].receiver.as_ref().unwrap();
            assert_eq!(r.bit_errors, Some(0), "{content} {transport}");
            assert!(r.bytes >= 3_000_000);
            if transport == TransportName::Tcp {
                assert_eq!(r.bytes, 3_000_000);
            }
        }
    }
}

#[test]
fn many_flows_many_clients() {
    let server = Server::start(ServerConfig::default());
    let clients: Vec<_> = (0..4)
        .map(|i| {
            let mut c =
                connection(if i % 2 == 0 { TransportName::Udp } else { TransportName::Tcp });
            c.count = 20;
            c.rate = Some("100pps".parse().unwrap());
            c.payload = Some(ByteSize(200).into());
            c.duration = Some(Span(1_000_000_000));
            let config = server.config(plan(vec![c]));
            std::thread::spawn(move || run(config, Stop::new(), &mut |_| {}).unwrap())
        })
        .collect();
    for client in clients {
        let record = client.join().unwrap();
        assert_eq!(record.flows.len(), 20);
        for flow in &record.flows {
            let (s, r) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
            assert_eq!(s.bytes, r.bytes);
            assert!(s.packets + s.missed_slots.unwrap_or(0) >= 99, "{}", s.packets);
        }
    }
}

#[test]
fn a_key_is_mutual() {
    let key = Key::generate().unwrap();
    let server = Server::start(ServerConfig { key: Some(key.clone()), ..ServerConfig::default() });
    let mut c = connection(TransportName::Udp);
    c.packets = Some(10);
    c.duration = None;
    let with = |key: Option<Key>| {
        let config = ClientConfig { key, ..server.config(plan(vec![c.clone()])) };
        run(config, Stop::new(), &mut |_| {})
    };
    assert_eq!(with(Some(key)).unwrap().flows[0].receiver.as_ref().unwrap().packets, 10);
    let wrong = with(Some(Key::generate().unwrap())).unwrap_err();
    assert_eq!(wrong.error.exit_code(), 3);
    assert!(wrong.to_string().contains("key"), "{wrong}");
    let none = with(None).unwrap_err();
    assert_eq!(none.error.exit_code(), 3);
    assert!(none.to_string().contains("key"), "{none}");
    // A client with a key does not use a server without one.
    let open = Server::start(ServerConfig::default());
    let config =
        ClientConfig { key: Some(Key::generate().unwrap()), ..open.config(plan(vec![c.clone()])) };
    assert_eq!(run(config, Stop::new(), &mut |_| {}).unwrap_err().error.exit_code(), 3);
}

#[test]
fn dedicated_ports_carry_options_before_the_handshake() {
    let server = Server::start(ServerConfig::default());
    let mut c = connection(TransportName::Tcp);
    c.window = Some(ByteSize(8192));
    let record = server.test(plan(vec![c])).unwrap();
    let flow = &record.flows[0];
    assert!(
        !flow.destination.ends_with(&format!(":{}", server.address.port())),
        "{}",
        flow.destination
    );
    // The kernel doubles the requested size.
    assert_eq!(flow.receiver.as_ref().unwrap().buffer_bytes, Some(16_384));
    let mut u = connection(TransportName::Udp);
    (u.packets, u.duration) = (Some(50), None);
    u.payload = Some(ByteSize(100).into());
    let mut p = plan(vec![u]);
    p.data_ports = DataPorts::Dedicated;
    let record = server.test(p).unwrap();
    assert_eq!(record.flows[0].receiver.as_ref().unwrap().packets, 50);
    assert!(!record.flows[0].destination.ends_with(&format!(":{}", server.address.port())));
}

#[test]
fn interruption_keeps_what_was_measured() {
    let server = Server::start(ServerConfig::default());
    let mut c = connection(TransportName::Udp);
    c.duration = Some(Span::from_seconds(60));
    c.rate = Some("1000pps".parse().unwrap());
    let stop = Stop::new();
    let inner = stop.clone();
    let failure = run(server.config(plan(vec![c])), stop, &mut |event| {
        // A second request would give up the exchange of results.
        if matches!(event, Event::Interval(_)) && inner.reason().is_none() {
            inner.request(StopReason::Interrupted);
        }
    })
    .unwrap_err();
    assert_eq!(failure.error.exit_code(), 130);
    let record = failure.partial.unwrap();
    assert_eq!(record.status, Status::Interrupted);
    let flow = &record.flows[0];
    assert!(flow.sender.as_ref().unwrap().packets > 0);
    assert_eq!(flow.sender.as_ref().unwrap().packets, flow.receiver.as_ref().unwrap().packets);
}

#[test]
fn a_server_that_goes_away_leaves_a_partial_record() {
    let server = Server::start(ServerConfig::default());
    let mut c = connection(TransportName::Udp);
    c.duration = Some(Span::from_seconds(60));
    let stop = server.stop.clone();
    let failure = run(server.config(plan(vec![c])), Stop::new(), &mut |event| {
        if matches!(event, Event::Interval(_)) {
            stop.request(StopReason::Terminated);
        }
    })
    .unwrap_err();
    assert_eq!(failure.error.exit_code(), 3);
    let record = failure.partial.unwrap();
    assert_eq!(record.status, Status::Partial);
    assert!(record.flows[0].sender.as_ref().unwrap().packets > 0);
}

#[test]
fn a_missing_server_is_named() {
    let config = ClientConfig::new(
        Plan { port: Some(1), connections: vec![Connection::default()], ..Plan::default() },
        "127.0.0.1",
    );
    let e = run(config, Stop::new(), &mut |_| {}).unwrap_err();
    assert_eq!(e.error.exit_code(), 3);
    assert!(e.to_string().contains("127.0.0.1:1"), "{e}");
    let config = ClientConfig::new(
        Plan { connections: vec![Connection::default()], ..Plan::default() },
        "no-such-host.invalid",
    );
    let e = run(config, Stop::new(), &mut |_| {}).unwrap_err();
    assert_eq!(e.error.exit_code(), 3);
    assert!(e.to_string().contains("no-such-host.invalid"), "{e}");
}

#[test]
fn flows_one_after_another_are_summed_over_the_whole_time() {
    let server = Server::start(ServerConfig::default());
    for (transport, direction) in
        [(TransportName::Udp, Direction::Forward), (TransportName::Tcp, Direction::Reverse)]
    {
        let first = Connection {
            direction,
            rate: Some("4M".parse().unwrap()),
            payload: Some(ByteSize(1000).into()),
            ..connection(transport)
        };
        let second = Connection { start_after: Span(500_000_000), ..first.clone() };
        let record = server.test(plan(vec![first, second])).unwrap();
        let starts: Vec<_> = record
            .flows
            .iter()
            .map(|f| {
                let (s, r) = (f.sender.as_ref().unwrap(), f.receiver.as_ref().unwrap());
                (s.start_seconds.unwrap(), r.start_seconds.unwrap())
            })
            .collect();
        assert!(starts[0].0 < 0.5 && starts[1].0 >= 0.499, "{starts:?}");
        // Both ends have the same clock here, and nothing arrives before it is sent.
        assert!(starts[1].1 >= 0.499, "{starts:?}");
        let total = record.direction(direction).unwrap();
        let (sent, got) = (total.sender.as_ref().unwrap(), total.receiver.as_ref().unwrap());
        for sums in [sent, got] {
            let (start, end) = (sums.start_seconds.unwrap(), sums.end_seconds.unwrap());
            assert!((sums.seconds - (end - start)).abs() < 1e-9, "{sums:?}");
            assert!(sums.seconds > 0.9, "{sums:?}");
            let rate = 8.0 * sums.bytes as f64 / sums.seconds;
            assert!((sums.bits_per_second.unwrap() / rate - 1.0).abs() < 0.02, "{sums:?}");
        }
        assert!(record.seconds > 0.9, "{}", record.seconds);
        let last = record.intervals.last().unwrap();
        let end = sent.end_seconds.unwrap().max(got.end_seconds.unwrap());
        assert!((last.end_seconds - end).abs() < 1e-6, "{} {end}", last.end_seconds);
    }
}

#[test]
fn losses_of_many_slow_flows_are_shown_live_as_one_sum() {
    let server = Server::start(ServerConfig::default());
    let slow = Connection {
        count: 200,
        rate: Some("20pps".parse().unwrap()),
        payload: Some(ByteSize(100).into()),
        duration: Some(Span(2_200_000_000)),
        ..connection(TransportName::Udp)
    };
    let plan = Plan { interval: Span(500_000_000), ..plan(vec![slow]) };
    let mut summed = 0;
    let record = run(server.config(plan), Stop::new(), &mut |event| {
        let Event::Interval(interval) = event else { return };
        // Each flow's own count would be too much traffic.
        let is_live = interval.flows.iter().all(|f| f.receiver.is_none());
        if let (true, Some(ends)) = (is_live, &interval.total.forward) {
            let Some(got) = &ends.receiver else { return };
            summed += 1;
            assert!(got.lost_packets.is_some() && got.packets > 0, "{got:?}");
            assert!(got.bits_per_second.unwrap() > 0.0);
        }
    })
    .unwrap();
    assert_eq!(record.status, Status::Complete);
    assert!(summed > 0, "no sum was shown");
    assert!(record.intervals[1].flows.iter().all(|f| f.receiver.is_some()));
}

#[test]
fn a_nominal_rate_that_cannot_be_found_is_reported() {
    let server = Server::start(ServerConfig::default());
    let few = Connection { packets: Some(10), duration: None, ..connection(TransportName::Udp) };
    for (nominal_auto, expected) in [(true, 1), (false, 0)] {
        let config = ClientConfig { nominal_auto, ..server.config(plan(vec![few.clone()])) };
        let record = run(config, Stop::new(), &mut |_| {}).unwrap();
        assert_eq!(record.link_usage, None);
        let found = record.warnings.iter().filter(|w| w.code == "nominal-unknown").count();
        assert_eq!(found, expected, "{:?}", record.warnings);
    }
}

#[test]
fn samples_of_a_stream_end_with_its_sending() {
    let server = Server::start(ServerConfig::default());
    let long = Connection { duration: Some(Span(2_500_000_000)), ..connection(TransportName::Tcp) };
    let record = server.test(plan(vec![connection(TransportName::Tcp), long])).unwrap();
    let [short, long] = &record.flows[..] else { panic!("{} flows", record.flows.len()) };
    let last = |flow: &weir_model::record::Flow| flow.tcp_samples.last().unwrap().at_seconds;
    let end = short.sender.as_ref().unwrap().end_seconds.unwrap();
    assert!(last(short) <= end, "{} behind {end}", last(short));
    assert!(last(long) > end);
}

#[test]
fn waiting_for_a_flow_that_is_never_started_is_not_in_the_processor_time() {
    let server = Server::start(ServerConfig::default());
    let paced = |autostart| Connection {
        autostart,
        duration: Some(Span(300_000_000)),
        rate: Some("1M".parse().unwrap()),
        ..connection(TransportName::Udp)
    };
    let plan = plan(vec![paced(true), paced(false)]);
    let stop = Stop::new();
    let failure = run(server.config(plan), stop.clone(), &mut |event| {
        if let Event::Interval(interval) = event
            && interval.end_seconds >= 2.0
        {
            stop.request(StopReason::Interrupted);
        }
    });
    let record = failure.unwrap_err().partial.unwrap();
    let cpu = record.cpu.unwrap();
    for end in [&cpu.local, &cpu.remote] {
        let cpu = end.as_ref().unwrap();
        assert!(cpu.waiting_seconds.is_some_and(|waiting| cpu.seconds < waiting), "{cpu:?}");
    }
}

#[test]
fn live_figures_of_a_slow_flow_arrive_while_it_runs() {
    let server = Server::start(ServerConfig::default());
    let voice = Connection {
        duration: Some(Span(6_000_000_000)),
        rate: Some("50pps".parse().unwrap()),
        payload: Some(ByteSize(172).into()),
        ..connection(TransportName::Udp)
    };
    let plan = Plan { interval: Span(250_000_000), ..plan(vec![voice]) };
    let mut shown: std::collections::BTreeMap<u64, (bool, bool)> = Default::default();
    let mut states = vec![];
    let record = run(server.config(plan), Stop::new(), &mut |event| match event {
        Event::Interval(interval) | Event::Late(interval) => {
            let flow = &interval.flows[0];
            let at = (interval.end_seconds * 1000.0) as u64;
            shown.insert(at, (flow.sender.is_some(), flow.receiver.is_some()));
        }
        Event::Flows(changed) => states.extend(changed.iter().map(|flow| flow.state)),
        _ => {}
    });
    record.unwrap();
    // The last one may be the rest of a flow that ended within it.
    let whole: Vec<_> = shown.range(..=5750).collect();
    assert_eq!(whole.len(), 23);
    // 1 % of the rate alone would pay for 4 of these 23, the floor of 8 kbit/s pays for all. Two thirds separate the two,
    // and leave room for lines that other messages on the connection or a busy host hold back.
    let both = whole.iter().filter(|(_, both)| **both == (true, true)).count();
    assert!(both >= 16, "{shown:?}");
    assert_eq!(states, [FlowState::Started, FlowState::Finished]);
}

#[test]
fn control_traffic_of_a_slow_flow_stays_within_a_tenth_of_its_rate() {
    const RATE: f64 = 16e3;
    // Two short runs: what starting a test costs varies by a message.
    const SECONDS: [u64; 3] = [1, 1, 8];
    let server = Server::start(ServerConfig::default());
    let control_bytes = &|direction, seconds| {
        let slow = Connection {
            direction,
            duration: Some(Span::from_seconds(seconds)),
            rate: Some("16k".parse().unwrap()),
            // Without send times there is no distribution of delays, with which the report would grow.
            payload: Some(ByteSize(4).into()),
            ..connection(TransportName::Udp)
        };
        let plan = Plan { interval: Span(0), ..plan(vec![slow]) };
        // A clock of its own, so that the clocks have to be related.
        let clock = weir_net::clock::InjectedClock::new().clock();
        let config = ClientConfig { clock, ..server.config(plan) };
        run(config, Stop::new(), &mut |_| {}).unwrap().control_bytes.unwrap()
    };
    std::thread::scope(|scope| {
        let started = [Direction::Forward, Direction::Reverse].map(|direction| {
            let run = |seconds| scope.spawn(move || control_bytes(direction, seconds));
            (direction, SECONDS.map(run))
        });
        for (direction, runs) in started {
            // All have the same setup and report.
            let [short, other, long] = runs.map(|run| run.join().unwrap());
            let running = 8.0 * long.saturating_sub(short.max(other)) as f64;
            // A busy host has the long run send a message more than the short ones.
            let allowed = 0.1 * RATE * (SECONDS[2] - SECONDS[0]) as f64 + 8.0 * 100.0;
            assert!(running > 0.0 && running <= allowed, "{direction:?}: {running} of {allowed}");
        }
    });
}

/// Probes sent while waiting for the start, or for stragglers, do not count for the loaded path.
#[test]
fn the_loaded_round_trip_is_measured_only_while_flows_send() {
    let server = Server::start(ServerConfig::default());
    let short = Connection {
        duration: Some(Span(300_000_000)),
        rate: Some("1M".parse().unwrap()),
        ..connection(TransportName::Udp)
    };
    let start_at_ns = Clock::System.monotonic_ns() + 3_000_000_000;
    let config =
        ClientConfig { start_at_ns: Some(start_at_ns), ..server.config(plan(vec![short])) };
    let record = run(config, Stop::new(), &mut |_| {}).unwrap();
    let sender = record.flows[0].sender.as_ref().unwrap();
    let sending = sender.end_seconds.unwrap() - sender.start_seconds.unwrap_or(0.0);
    let loaded = record.latency.unwrap().loaded.map_or(0, |loaded| loaded.count);
    // One every 100 ms, and one that was due before.
    assert!(loaded as f64 <= 10.0 * sending + 3.0, "{loaded} in {sending} s");
}
