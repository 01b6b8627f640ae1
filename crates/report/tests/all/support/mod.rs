//! Hand-written records of realistic runs, for the golden tests.
// Not every test uses each helper; a helper that fails is a failed test.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_model::plan::{Connection, Direction, Family, Plan, Shape, Transport, TransportName};
use weir_model::record::*;
use weir_model::units::{BitRate, ByteSize, Seed, Span};
use weir_model::warning::{Severity, Warning};

/// A processor that is the busier the higher its number is.
fn core(core: u32) -> CoreUse {
    CoreUse {
        core,
        user_ratio: 0.001 * f64::from(core),
        system_ratio: 0.02 * f64::from(core),
        irq_ratio: 0.002,
        steal_ratio: 0.0,
    }
}

/// Compares with a committed file; `WEIR_BLESS=1` rewrites it.
#[track_caller]
pub(crate) fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    if committed != text {
        let at = committed.lines().zip(text.lines()).position(|(a, b)| a != b);
        let at = at.unwrap_or(committed.lines().count().min(text.lines().count()));
        panic!(
            "{name} differs at line {}:\n  committed: {:?}\n  now:       {:?}\nlook at the change, then run with WEIR_BLESS=1 and commit",
            at + 1,
            committed.lines().nth(at),
            text.lines().nth(at)
        );
    }
}

fn host(name: &str) -> Host {
    Host {
        host: name.into(),
        version: "0.1.0".into(),
        os: "Linux".into(),
        kernel: "6.12.0".into(),
        cpu: CpuFacts {
            model: "Example CPU".into(),
            cores: 8,
            governor: Some("performance".into()),
            cache_bytes: BTreeMap::new(),
        },
        memory_bytes: Some(16 << 30),
        ..Default::default()
    }
}

fn base(id: &str, connections: Vec<Connection>) -> Record {
    Record {
        schema: RUN_SCHEMA.into(),
        id: id.into(),
        version: "0.1.0".into(),
        build: Build { commit: None, target: "x86_64-unknown-linux-gnu".into() },
        started_at: "2026-11-21T20:30:09.125Z".into(),
        seconds: 10.0,
        end_reason: "all flows done".into(),
        command: vec!["weir".into(), "test".into(), "198.18.0.2".into()],
        plan: Plan { host: Some("198.18.0.2".into()), connections, ..Default::default() },
        seed: Seed(7),
        peer: "weir".into(),
        local: Some(host("alpha")),
        remote: Some(host("beta")),
        ..Default::default()
    }
}

fn delay(count: u64, min: f64, p50: f64, p99: f64, max: f64, error: Option<f64>) -> Delay {
    Delay {
        count,
        min_seconds: min,
        mean_seconds: p50 * 1.05,
        p50_seconds: Some(p50),
        p90_seconds: Some(p50 * 1.4),
        p99_seconds: Some(p99),
        max_seconds: max,
        error_seconds: error,
        ..Default::default()
    }
}

fn count(bytes: u64, packets: u64, seconds: f64) -> IntervalCount {
    IntervalCount {
        bytes,
        packets,
        bits_per_second: Some(bytes as f64 * 8.0 / seconds),
        packets_per_second: Some(packets as f64 / seconds),
        ..Default::default()
    }
}

fn sums(bytes: u64, packets: u64, seconds: f64) -> Sums {
    let c = count(bytes, packets, seconds);
    Sums {
        bytes,
        packets,
        seconds,
        bits_per_second: c.bits_per_second,
        packets_per_second: c.packets_per_second,
        ..Default::default()
    }
}

/// One paced forward UDP flow that lost 12 of 10 000 packets, with every possible figure.
pub(crate) fn udp_loss() -> Record {
    let payload = 1472;
    let (sent, lost, seconds) = (10_000u64, 12u64, 10.0);
    let got = sent - lost;
    let flow = Flow {
        id: 1,
        name: "udp-forward".into(),
        transport: TransportName::Udp,
        family: Some(Family::Ipv4),
        source: "198.18.0.1:40000".into(),
        destination: "198.18.0.2:9347".into(),
        payload_bytes: payload,
        sender: Some(Sender {
            bytes: sent * payload,
            packets: sent,
            seconds,
            bits_per_second: Some((sent * payload * 8) as f64 / seconds),
            packets_per_second: Some(1000.0),
            io_calls: Some(sent),
            method: "send".into(),
            intended_slots: Some(10_000),
            missed_slots: Some(0),
            late_slots: Some(3),
            asked_packets_per_second: Some(1000.0),
            spacing: Some(Spacing {
                intended_seconds: 1e-3,
                deviation_seconds: 4.6e-6,
                p50_seconds: 1e-7,
                p01_seconds: Some(-2.1e-6),
                p99_seconds: Some(4.1e-5),
                max_seconds: 1.52e-3,
            }),
            buffer_bytes: Some(425_984),
            scheduling: Some("fifo".into()),
            ..Default::default()
        }),
        receiver: Some(Receiver {
            bytes: got * payload,
            packets: got,
            seconds: 9.999,
            bits_per_second: Some((got * payload * 8) as f64 / 9.999),
            packets_per_second: Some(got as f64 / 9.999),
            io_calls: Some(9_970),
            method: "recvmmsg".into(),
            crossing: Some(Crossing::PerPacket),
            segments_per_message: Some(1.0),
            lost_packets: Some(lost),
            loss_ratio: Some(lost as f64 / sent as f64),
            late_packets: Some(0),
            duplicate_packets: Some(3),
            reordered_packets: Some(1),
            implausible_packets: Some(0),
            forced_packets: Some(0),
            reordering_extent_mean: Some(2.0),
            reordering_extent_max: Some(2),
            reordering_extents: Some(BTreeMap::from([("2".into(), 1)])),
            corrupted_packets: Some(0),
            loss_periods: Some(BTreeMap::from([("1".into(), 6), ("2".into(), 1), ("4".into(), 1)])),
            bursts: Some(2),
            burst_packets: Some(6),
            burst_lost_packets: Some(6),
            burst_density_ratio: Some(1.0),
            burst_seconds: Some(0.003),
            gaps: Some(3),
            gap_packets: Some(sent - 6),
            gap_lost_packets: Some(6),
            gap_density_ratio: Some(6.0 / (sent - 6) as f64),
            gap_seconds: Some(3.331),
            ambiguous: Some(false),
            jitter_seconds: Some(5.2e-6),
            delay_variation: Some(DelayVariation {
                pdv_mean_seconds: Some(9.0e-6),
                pdv_p99_seconds: Some(4.0e-5),
                ipdv_mean_seconds: Some(1.3e-5),
                ipdv_p99_seconds: Some(6.1e-5),
                ipdv_pairs: Some(got - 9),
                ipdv_omitted_pairs: Some(0),
            }),
            one_way_delay: Some(delay(got, 8e-6, 1.2e-5, 5.4e-5, 1.3e-3, Some(1e-6))),
            one_way_delay_from_intended: Some(delay(got, 8e-6, 1.3e-5, 6.9e-5, 2.9e-3, Some(1e-6))),
            time_unit: Some("packet".into()),
            socket_dropped_packets: Some(8),
            buffer_bytes: Some(4 << 20),
            ..Default::default()
        }),
        ..Default::default()
    };
    let interval = |n: u32, lost: u64| {
        let mut received = count((1000 - lost) * payload, 1000 - lost, 1.0);
        received.lost_packets = Some(lost);
        received.jitter_seconds = Some(5.2e-6 + f64::from(n) * 1e-7);
        received.mean_delay_seconds = Some(1.3e-5);
        let sent = count(1000 * payload, 1000, 1.0);
        Interval {
            start_seconds: f64::from(n),
            end_seconds: f64::from(n + 1),
            omitted: false,
            flows: vec![IntervalFlow {
                id: 1,
                sender: Some(sent.clone()),
                receiver: Some(received.clone()),
            }],
            total: IntervalTotals {
                forward: Some(IntervalEnds {
                    sender: Some(sent),
                    receiver: Some(received),
                    ..Default::default()
                }),
                reverse: None,
            },
        }
    };
    // The last interval is like a live one: the other end's figures have not arrived yet.
    let mut live = interval(2, 0);
    live.flows[0].receiver = None;
    Record {
        plan: Plan {
            title: Some("Line to the annex, \"east\"".into()),
            host: Some("198.18.0.2".into()),
            nominal: Some(BitRate(100_000_000)),
            omit: Span::from_seconds(1),
            connections: vec![Connection {
                transport: Transport::udp(),
                rate: "1000pps".parse().ok(),
                payload: Some(ByteSize(payload).into()),
                duration: Some(Span::from_seconds(10)),
                ..Default::default()
            }],
            ..Default::default()
        },
        labels: BTreeMap::from([("site".into(), "annex".into())]),
        clock: Some(ClockRelation {
            method: "ntp".into(),
            source: Some("probes".into()),
            offset_seconds: -1.25e-3,
            skew_ratio: 2.3e-6,
            error_seconds: 1e-6,
            samples: 64,
            min_round_trip_seconds: Some(2e-6),
        }),
        time_source: Some(TimeSource {
            send: "user".into(),
            receive: "kernel".into(),
            resolution_seconds: 1e-9,
        }),
        total: Totals {
            forward: Some(DirectionTotal {
                sender: Some(Sums { missed_slots: Some(0), ..sums(sent * payload, sent, seconds) }),
                receiver: Some(Sums {
                    lost_packets: Some(lost),
                    loss_ratio: Some(lost as f64 / sent as f64),
                    late_packets: Some(0),
                    duplicate_packets: Some(3),
                    reordered_packets: Some(1),
                    corrupted_packets: Some(0),
                    ..sums(got * payload, got, 9.999)
                }),
            }),
            reverse: None,
        },
        flows: vec![flow],
        intervals: vec![interval(0, 8), interval(1, 4), live],
        latency: Some(Latency {
            method: "udp".into(),
            idle: Some(delay(50, 2e-5, 2.4e-5, 9e-5, 1.2e-4, None)),
            loaded: Some(delay(1000, 2.1e-5, 3.1e-5, 2.2e-4, 1.4e-3, None)),
            sent: 1052,
            lost: 2,
            responsiveness_per_minute: Some(1.84e6),
        }),
        cpu: Some(CpuUse {
            local: Some(CpuEnd {
                seconds: 10.0,
                waiting_seconds: Some(2.0),
                waiting_process_ratio: Some(0.004),
                user_ratio: 0.02,
                system_ratio: 0.04,
                irq_ratio: 0.001,
                steal_ratio: 0.012,
                process_user_ratio: 0.05,
                process_system_ratio: 0.06,
                busiest_core_ratio: Some(0.21),
                cores: (0..10).map(core).collect(),
            }),
            remote: Some(CpuEnd { user_ratio: 0.01, system_ratio: 0.02, ..Default::default() }),
        }),
        link_usage: Some(LinkUsage {
            nominal_bits_per_second: 100_000_000,
            source: "stated".into(),
            payload_ratio: 0.1176,
            ip_ratio: 0.1198,
            ethernet_ratio: 0.1213,
            wire_ratio: 0.1229,
            direction: Direction::Forward,
        }),
        loss_ledger: Some(LossLedger {
            rows: vec![
                LedgerRow {
                    stage: "socket overflow".into(),
                    packets: 8,
                    source: "SO_RXQ_OVFL".into(),
                    kind: "exact".into(),
                    side: Some("remote".into()),
                },
                LedgerRow {
                    stage: "softnet".into(),
                    packets: 0,
                    source: "/proc/net/softnet_stat".into(),
                    kind: "bound".into(),
                    side: Some("remote".into()),
                },
            ],
            remainder_packets: 4,
            missing_packets: 12,
        }),
        calibration: Some(CalibrationRef {
            id: "c-20261120".into(),
            at: "2026-11-20T09:00:00Z".into(),
            noise_floor: BTreeMap::from([
                ("delay_p50_seconds".into(), 1.1e-5),
                ("spacing_deviation_seconds".into(), 4.1e-6),
                ("rate_error_ratio".into(), 2e-4),
            ]),
        }),
        control_bytes: Some(18_230),
        omitted_seconds: Some(1.0),
        loss_threshold_seconds: Some(2.0),
        warnings: vec![
            Warning::new(
                "socket-overflow",
                Severity::Warning,
                "the receiver's socket buffer was full 8 times: these packets were lost in the receiving host, not on the path. Raise net.core.rmem_max there and give --window 16M",
            )
            .for_flow(1)
            .with_value(8.0, 0.0),
            Warning::new("late-slots", Severity::Info, "3 of 10000 slots were late"),
        ],
        ..base("20261121-203009-ab12cd", vec![])
    }
}

/// Requests and responses over UDP, of which two failed, and connections at a rate.
pub(crate) fn transactions() -> Record {
    let mut record = base(
        "20261121-203113-00beef",
        vec![
            Connection {
                transport: Transport::udp(),
                shape: Shape::Rr,
                outstanding: Some(4),
                ..Connection::default()
            },
            Connection {
                shape: Shape::Crr,
                rate: Some("1000pps".parse().unwrap()),
                request: Some(ByteSize(100)),
                response: Some(ByteSize(1000)),
                ..Connection::default()
            },
        ],
    );
    let flow = |id, name: &str, transport, each: u64, completed: u64, measured| Flow {
        id,
        name: name.into(),
        transport,
        family: Some(Family::Ipv4),
        source: "198.18.0.1:50001".into(),
        destination: "198.18.0.2:9347".into(),
        payload_bytes: each,
        sender: Some(Sender {
            bytes: each * completed,
            packets: completed,
            seconds: 10.0,
            bits_per_second: Some((each * completed) as f64 * 0.8),
            packets_per_second: Some(completed as f64 / 10.0),
            method: "request".into(),
            ..Default::default()
        }),
        receiver: Some(Receiver {
            bytes: each * completed,
            packets: completed,
            seconds: 10.0,
            bits_per_second: Some((each * completed) as f64 * 0.8),
            method: "respond".into(),
            ..Default::default()
        }),
        transactions: Some(measured),
        ..Default::default()
    };
    let rr = Transactions {
        shape: Shape::Rr,
        request_bytes: Some(8),
        response_bytes: Some(8),
        outstanding: Some(4),
        completed: 400_000,
        failed: 2,
        failures: [("timeout".to_owned(), 2)].into(),
        late_responses: Some(1),
        duplicate_responses: Some(0),
        reordered_responses: Some(0),
        invalid_responses: Some(0),
        timeout_seconds: Some(2.0),
        seconds: 10.0,
        transactions_per_second: Some(40_000.0),
        response_time: Some(delay(400_000, 8e-5, 1e-4, 1.9e-4, 2.1e-3, None)),
        response_time_deviation_seconds: Some(1.3e-5),
        ..Default::default()
    };
    let crr = Transactions {
        shape: Shape::Crr,
        request_bytes: Some(100),
        response_bytes: Some(1000),
        completed: 10_000,
        failed_connections: Some(0),
        timeout_seconds: Some(2.0),
        seconds: 10.0,
        transactions_per_second: Some(1000.0),
        response_time: Some(delay(10_000, 1.5e-4, 2e-4, 3.9e-4, 2.5e-3, None)),
        response_time_deviation_seconds: Some(2.3e-5),
        response_time_from_scheduled: Some(delay(10_000, 1.6e-4, 2.1e-4, 4.9e-4, 2.9e-3, None)),
        setup_time: Some(delay(10_000, 5e-5, 7e-5, 1e-4, 1.1e-3, None)),
        ..Default::default()
    };
    record.flows = vec![
        flow(1, "udp-rr-1", TransportName::Udp, 8, 400_000, rr),
        flow(2, "tcp-crr-2", TransportName::Tcp, 100, 10_000, crr),
    ];
    let counts = [count(320_000, 40_000, 1.0), count(100_000, 1000, 1.0)];
    let of = |(id, received): (u32, &IntervalCount)| IntervalFlow {
        id,
        sender: Some(IntervalCount {
            transactions: Some(received.packets),
            transactions_per_second: received.packets_per_second,
            ..received.clone()
        }),
        receiver: Some(received.clone()),
    };
    let sum = count(420_000, 41_000, 1.0);
    let sent = IntervalCount {
        transactions: Some(41_000),
        transactions_per_second: Some(41_000.0),
        ..sum.clone()
    };
    let ends = IntervalEnds { sender: Some(sent), receiver: Some(sum), ..IntervalEnds::default() };
    record.intervals = vec![Interval {
        end_seconds: 1.0,
        flows: (1..).zip(&counts).map(of).collect(),
        total: IntervalTotals { forward: Some(ends), reverse: None },
        ..Default::default()
    }];
    record.total.forward = Some(DirectionTotal {
        sender: Some(sums(4_200_000, 410_000, 10.0)),
        receiver: Some(sums(4_200_000, 410_000, 10.0)),
    });
    record.histograms =
        vec![histogram(1, "response_time", (1..40).map(|n| (80_000 + n * 3000, 50 - n)))];
    record
}

/// Echo requests to two hosts.
pub(crate) fn echo() -> Record {
    let mut record = transactions();
    let to = |host: &str| Connection {
        host: Some(host.into()),
        transport: Transport::Icmp(Default::default()),
        shape: Shape::Rr,
        rate: Some("1000pps".parse().unwrap()),
        ..Connection::default()
    };
    let hosts = ["198.18.0.2", "198.18.0.3"];
    record.plan.connections = hosts.map(to).into();
    (record.peer, record.remote) = ("icmp".into(), None);
    for ((flow, name), host) in record.flows.iter_mut().zip(["icmp-rr-1", "icmp-rr-2"]).zip(hosts) {
        (flow.name, flow.transport, flow.host) =
            (name.into(), TransportName::Icmp, Some(host.into()));
        (flow.payload_bytes, flow.receiver) = (56, None);
        let measured = flow.transactions.as_mut().unwrap();
        measured.shape = Shape::Rr;
        (measured.request_bytes, measured.response_bytes) = (Some(56), Some(56));
        measured.outstanding = None;
        measured.setup_time = None;
    }
    for interval in &mut record.intervals {
        interval.flows.iter_mut().for_each(|flow| flow.receiver = None);
        interval.total.forward.as_mut().unwrap().receiver = None;
    }
    record.total.forward.as_mut().unwrap().receiver = None;
    let server = |host: &str| Server { name: host.into(), ..Server::default() };
    record.servers = hosts.map(server).into();
    record
}

/// Four TCP connections in each direction.
pub(crate) fn tcp_bidir() -> Record {
    let mut flows = vec![];
    let mut interval = Interval { end_seconds: 1.0, ..Default::default() };
    for id in 1..=8u32 {
        let direction = if id <= 4 { Direction::Forward } else { Direction::Reverse };
        let bytes = 1_000_000_000 + u64::from(id) * 37_000_000;
        let tcp = Tcp {
            retransmits: u64::from(id % 3),
            mss_bytes: 1448,
            rtt_seconds: Some(2.1e-4 * f64::from(id)),
            min_rtt_seconds: Some(3e-5),
            max_rtt_seconds: Some(3.2e-4 * f64::from(id)),
            cwnd_bytes: Some(1_310_720),
            max_cwnd_bytes: Some(2_621_440),
            congestion_control: "cubic".into(),
            receive_window_limited_ratio: Some(0.0),
            send_buffer_limited_ratio: Some(0.125),
            retransmitted_bytes: Some(u64::from(id % 3) * 1448),
            timestamps: Some(true),
            ..Default::default()
        };
        let mut sent = count(bytes / 10, 760, 1.0);
        sent.retransmits = Some(tcp.retransmits);
        sent.cwnd_bytes = tcp.cwnd_bytes;
        sent.rtt_seconds = tcp.rtt_seconds;
        interval.flows.push(IntervalFlow {
            id,
            sender: Some(sent),
            receiver: Some(count(bytes / 10 - 65_536, 900, 1.0)),
        });
        let ends = ["198.18.0.1:50001", "198.18.0.2:9347"];
        let (source, destination) =
            if direction == Direction::Forward { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
        flows.push(Flow {
            id,
            name: format!("tcp-{direction}-{}", (id - 1) % 4 + 1),
            transport: TransportName::Tcp,
            family: Some(Family::Ipv4),
            direction,
            source: source.into(),
            destination: destination.into(),
            payload_bytes: 131_072,
            sender: Some(Sender {
                bytes,
                packets: bytes / 131_072,
                seconds: 10.0,
                bits_per_second: Some(bytes as f64 * 0.8),
                packets_per_second: Some(bytes as f64 / 1_310_720.0),
                method: "write".into(),
                ..Default::default()
            }),
            receiver: Some(Receiver {
                bytes,
                packets: bytes / 110_000,
                seconds: 10.01,
                bits_per_second: Some(bytes as f64 * 8.0 / 10.01),
                packets_per_second: Some(bytes as f64 / 1_101_100.0),
                method: "copy".into(),
                ..Default::default()
            }),
            tcp: Some(tcp),
            connect_seconds: Some(4.1e-5),
            ..Default::default()
        });
    }
    let total = |direction| {
        let bytes = flows
            .iter()
            .filter(|f| f.direction == direction)
            .filter_map(|f| f.sender.as_ref())
            .map(|s| s.bytes)
            .sum();
        DirectionTotal {
            sender: Some(Sums { retransmits: Some(4), ..sums(bytes, bytes / 131_072, 10.0) }),
            receiver: Some(sums(bytes, bytes / 110_000, 10.01)),
        }
    };
    let (forward, reverse) = (total(Direction::Forward), total(Direction::Reverse));
    let share = |t: &DirectionTotal| IntervalEnds {
        sender: None,
        receiver: t.receiver.as_ref().map(|s| count(s.bytes / 10, s.packets / 10, 1.0)),
        ..Default::default()
    };
    interval.total =
        IntervalTotals { forward: Some(share(&forward)), reverse: Some(share(&reverse)) };
    Record {
        intervals: vec![interval],
        total: Totals { forward: Some(forward), reverse: Some(reverse) },
        clock: Some(ClockRelation {
            method: "shared".into(),
            error_seconds: 1e-9,
            ..Default::default()
        }),
        flows,
        ..base(
            "20261121-203112-00beef",
            vec![
                Connection { count: 4, ..Default::default() },
                Connection { count: 4, direction: Direction::Reverse, ..Default::default() },
            ],
        )
    }
}

/// A test whose server became unreachable: one flow has only its sender's figures, one has none; with hostile names.
pub(crate) fn partial() -> Record {
    Record {
        status: Status::Partial,
        end_reason: "the server at 198.18.0.2 port 9347 closed the control connection after 3.2 s"
            .into(),
        seconds: 3.2,
        remote: None,
        clock: Some(ClockRelation {
            method: "ntp".into(),
            source: Some("chrony and ntp-kernel".into()),
            offset_seconds: 1_000.000_02,
            error_seconds: 7.5e-4,
            samples: 31,
            min_round_trip_seconds: Some(0.0312),
            ..Default::default()
        }),
        flows: vec![
            Flow {
                id: 1,
                name: "=HYPERLINK(\"http://example.invalid\",\"x\")".into(),
                transport: TransportName::Udp,
                source: "198.18.0.1:40000".into(),
                destination: "198.18.0.2:9347".into(),
                payload_bytes: 160,
                sender: Some(Sender {
                    bytes: 512_000,
                    packets: 3200,
                    seconds: 3.2,
                    bits_per_second: Some(1_280_000.0),
                    packets_per_second: Some(1000.0),
                    method: "send".into(),
                    ..Default::default()
                }),
                ..Default::default()
            },
            Flow {
                id: 2,
                name: "bell\u{7}\u{1b}[2J".into(),
                transport: TransportName::Tcp,
                ..Default::default()
            },
        ],
        total: Totals {
            forward: Some(DirectionTotal {
                sender: Some(sums(512_000, 3200, 3.2)),
                receiver: None,
            }),
            reverse: None,
        },
        warnings: vec![Warning::new(
            "peer-lost",
            Severity::Error,
            "the other end's figures are missing: loss, delay and the received rate are unknown",
        )],
        ..base("20261121-203240-000001", vec![Connection::default()])
    }
}

/// A thousand paced UDP flows.
pub(crate) fn thousand() -> Record {
    let mut flows = vec![];
    let mut interval = Interval { end_seconds: 1.0, ..Default::default() };
    for id in 1..=1000u32 {
        let n = u64::from(id);
        let lost = u64::from(id.is_multiple_of(100));
        let wobble = 1.0 + f64::from(id * 7919 % 1000) / 500.0;
        interval.flows.push(IntervalFlow {
            id,
            sender: Some(count(16_000, 100, 1.0)),
            receiver: Some(IntervalCount {
                lost_packets: Some(lost),
                ..count(16_000 - lost * 160, 100 - lost, 1.0)
            }),
        });
        flows.push(Flow {
            id,
            name: format!("voice-{id}"),
            transport: TransportName::Udp,
            source: format!("198.18.0.1:{}", 20_000 + id),
            destination: "198.18.0.2:9347".into(),
            payload_bytes: 160,
            sender: Some(Sender {
                bytes: 160_000,
                packets: 1000,
                seconds: 10.0,
                bits_per_second: Some(128_000.0),
                packets_per_second: Some(if id == 7 { 95.0 } else { 100.0 }),
                asked_packets_per_second: Some(100.0),
                method: "sendmmsg".into(),
                intended_slots: Some(1000),
                missed_slots: Some(0),
                late_slots: Some(n % 2),
                spacing: Some(Spacing {
                    intended_seconds: 0.01,
                    deviation_seconds: 6e-6 * wobble,
                    ..Default::default()
                }),
                ..Default::default()
            }),
            receiver: Some(Receiver {
                bytes: 160_000 - lost * 160,
                packets: 1000 - lost,
                seconds: 10.0,
                bits_per_second: Some(128_000.0),
                packets_per_second: Some(100.0),
                method: "recvmmsg".into(),
                crossing: Some(if id <= 500 { Crossing::PerPacket } else { Crossing::Coalesced }),
                lost_packets: Some(lost),
                loss_periods: (lost > 0).then(|| BTreeMap::from([("1".into(), lost)])),
                reordered_packets: Some(u64::from(id == 5)),
                jitter_seconds: Some(4e-6 * wobble),
                one_way_delay: Some(delay(
                    1000,
                    9e-6,
                    1.1e-5 * wobble,
                    9e-5 * wobble,
                    2e-3 * wobble,
                    Some(1e-6),
                )),
                ..Default::default()
            }),
            ..Default::default()
        });
    }
    let total = DirectionTotal {
        sender: Some(sums(160_000_000, 1_000_000, 10.0)),
        receiver: Some(Sums { lost_packets: Some(10), ..sums(159_998_400, 999_990, 10.0) }),
    };
    interval.total.forward = Some(IntervalEnds {
        sender: Some(count(16_000_000, 100_000, 1.0)),
        receiver: Some(IntervalCount { lost_packets: Some(10), ..count(15_998_400, 99_990, 1.0) }),
        ..Default::default()
    });
    Record {
        flows,
        intervals: vec![interval],
        total: Totals { forward: Some(total), reverse: None },
        ..base(
            "20261121-203500-0003e8",
            vec![Connection {
                transport: Transport::udp(),
                count: 1000,
                rate: "100pps".parse().ok(),
                payload: Some(ByteSize(160).into()),
                ..Default::default()
            }],
        )
    }
}

/// An encoded distribution of a record, from delays in ns with their counts.
fn histogram(flow: u32, metric: &str, delays: impl Iterator<Item = (u64, u64)>) -> Histogram {
    use base64::Engine as _;
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    let mut h = hdrhistogram::Histogram::<u64>::new_with_bounds(1, (1 << 48) - 1, 3).unwrap();
    delays.for_each(|(ns, count)| h.record_n(ns, count).unwrap());
    let mut bytes = vec![];
    V2Serializer::new().serialize(&h, &mut bytes).unwrap();
    Histogram {
        flow: Some(flow),
        metric: metric.into(),
        encoding: "hdr-v2".into(),
        data: base64::engine::general_purpose::STANDARD.encode(bytes),
    }
}

/// Reproducible pseudo-random numbers, 0 to 999.
fn wobble(n: u64) -> u64 {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 1000
}

/// Forward datagrams through an emulator with a reverse TCP stream, half a minute, with every field of a record.
pub(crate) fn everything() -> Record {
    let mut record = udp_loss();
    let stream = Flow { id: 2, name: "bulk".into(), ..tcp_bidir().flows[4].clone() };
    record.id = "20261122-081500-e0e0e0".into();
    record.started_at = "2026-11-22T08:15:00.000Z".into();
    record.seconds = 30.0;
    record.plan.title = Some("Voice beside a bulk transfer".into());
    record.plan_sha256 = "5f2b".repeat(16);
    record.command =
        ["weir", "test", "198.18.0.2", "--plan", "voice and bulk.toml"].map(String::from).to_vec();
    record.build.commit = Some("0123abcd".into());
    let receiver = record.flows[0].receiver.as_mut().unwrap();
    receiver.one_way_delay = Some(delay(9_988, 4.0e-2, 4.05e-2, 4.37e-2, 4.6e-2, Some(1e-5)));
    receiver.one_way_delay_from_intended =
        Some(delay(9_988, 4.0e-2, 4.06e-2, 4.41e-2, 4.7e-2, Some(1e-5)));
    record.flows.push(stream.clone());
    record.total.reverse = Some(DirectionTotal {
        sender: Some(Sums {
            retransmits: Some(7),
            ..sums(stream.sender.as_ref().unwrap().bytes, 8000, 30.0)
        }),
        receiver: Some(sums(stream.receiver.as_ref().unwrap().bytes, 9000, 30.0)),
    });
    let samples = (0..120u64).map(|n| TcpSample {
        at_seconds: n as f64 / 4.0,
        rtt_seconds: 2e-3 + wobble(n) as f64 * 1e-6,
        rttvar_seconds: 1e-4,
        cwnd_bytes: 400_000 + (n % 40) * 20_000,
        retransmits: n / 17,
        limited_by: Some(if n % 5 == 0 { LimitedBy::Application } else { LimitedBy::Congestion }),
        ..Default::default()
    });
    record.flows[1].tcp_samples = samples.collect();
    record.intervals = (0..30u64)
        .map(|n| {
            let lost = if n % 7 == 3 { wobble(n) / 100 } else { 0 };
            let mut received = count((1000 - lost) * 1472, 1000 - lost, 1.0);
            received.lost_packets = Some(lost);
            received.jitter_seconds = Some(5e-6 + wobble(n + 100) as f64 * 1e-9);
            // For two seconds no datagram had a time stamp.
            received.mean_delay_seconds =
                (!(12..14).contains(&n)).then(|| 4.0e-2 + wobble(n + 50) as f64 * 1e-6);
            let sent = count(1_472_000, 1000, 1.0);
            let back = count(90_000_000 + wobble(n) * 20_000, 900, 1.0);
            let mut pushed = count(90_100_000 + wobble(n) * 20_000, 800, 1.0);
            pushed.retransmits = Some(u64::from(n % 4 == 1));
            let ends = |s: &IntervalCount, r: &IntervalCount| {
                Some(IntervalEnds {
                    sender: Some(s.clone()),
                    receiver: Some(r.clone()),
                    ..Default::default()
                })
            };
            Interval {
                start_seconds: n as f64,
                end_seconds: (n + 1) as f64,
                omitted: n == 0,
                total: IntervalTotals {
                    forward: ends(&sent, &received),
                    reverse: ends(&pushed, &back),
                },
                flows: vec![
                    IntervalFlow { id: 1, sender: Some(sent), receiver: Some(received) },
                    IntervalFlow { id: 2, sender: Some(pushed), receiver: Some(back) },
                ],
            }
        })
        .collect();
    let delays = |shift: u64| {
        (0..2000u64).map(move |n| {
            (40_000_000 + shift + wobble(n) * wobble(n + 1) * (1 + n % 13), 1 + n % 3)
        })
    };
    record.histograms = vec![
        histogram(1, "one_way_delay", delays(0)),
        histogram(1, "one_way_delay_from_intended", delays(400_000)),
    ];
    let impaired = |direction, asked: &str, lost: u64| ImpairedFlow {
        name: "other".into(),
        direction,
        counters: BTreeMap::from([
            ("received_packets".into(), 10_000),
            ("lost_packets".into(), lost),
            ("queue_dropped_packets".into(), 0),
            ("unplanned_dropped_packets".into(), 0),
            ("duplicated_packets".into(), 3),
            ("reordered_packets".into(), 1),
        ]),
        asked: asked.into(),
        realised: BTreeMap::from([
            ("loss_ratio".into(), lost as f64 / 10_000.0),
            ("delay_mean_seconds".into(), 0.04004),
            ("delay_min_seconds".into(), 0.04),
            ("delay_max_seconds".into(), 0.0413),
        ]),
        lateness: Some(Lateness {
            count: 9_988,
            p50_seconds: Some(1.1e-5),
            p99_seconds: Some(6e-5),
            max_seconds: 4.1e-4,
        }),
    };
    record.impairment = Some(ImpairmentUse {
        config: Default::default(),
        changes: None,
        client_side: Some("a".into()),
        cpu_seconds: Some(3.75),
        flows: vec![
            impaired(Direction::Forward, "loss 0.1%, delay 40ms", 12),
            impaired(Direction::Reverse, "delay 1ms", 0),
        ],
    });
    record.triangulation = Some(Triangulation {
        matched_packets: 10_003,
        disagreeing_packets: 0,
        predicted_dispositions: 10_003,
        unpredicted_dispositions: 0,
        residual: Some(Residual {
            count: 9_988,
            min_seconds: -2e-6,
            p50_seconds: 1.4e-5,
            p99_seconds: 7.7e-5,
            max_seconds: 9.1e-4,
        }),
    });
    record.verdict = Some(Verdict {
        passed: false,
        expectations: vec![
            Expectation { text: "loss <= 0.2 %".into(), passed: true, measured: Some(0.0012) },
            Expectation {
                text: "p99 one_way_delay < 41 ms".into(),
                passed: false,
                measured: Some(0.0437),
            },
        ],
    });
    for host in [&mut record.local, &mut record.remote].into_iter().flatten() {
        host.interfaces = vec![Interface {
            name: "eth0".into(),
            driver: Some("ixgbe".into()),
            speed_bits_per_second: Some(10_000_000_000),
            mtu_bytes: Some(1500),
            offloads: BTreeMap::from([
                ("tx-udp-segmentation".into(), true),
                ("rx-gro-hw".into(), false),
            ]),
            qdisc: Some("fq_codel".into()),
            ..Default::default()
        }];
        host.sysctls = BTreeMap::from([("net.core.rmem_max".into(), "212992".into())]);
        host.virtual_machine = Some("kvm".into());
        host.clocksource = Some("tsc".into());
    }
    record
}

/// `intervals` seconds of `flows` paced flows: the size that a page must support.
pub(crate) fn large(flows: u32, intervals: u32) -> Record {
    let mut record = thousand();
    record.flows.truncate(flows as usize);
    record.id = "20261122-081600-1a49e0".into();
    record.seconds = f64::from(intervals);
    record.intervals = (0..intervals)
        .map(|n| {
            let of = |id: u32| {
                let w = wobble(u64::from(n) * 31 + u64::from(id));
                let mut received = count(15_000 + w, 100 - w % 5, 1.0);
                received.lost_packets = Some(w % 5);
                received.jitter_seconds = Some(5e-6 + w as f64 * 1e-9);
                received.mean_delay_seconds = Some(1e-3 + w as f64 * 1e-6);
                (count(16_000, 100, 1.0), received)
            };
            let sum = count(16_000 * u64::from(flows), 100 * u64::from(flows), 1.0);
            Interval {
                start_seconds: f64::from(n),
                end_seconds: f64::from(n + 1),
                flows: (1..=flows)
                    .map(|id| {
                        let (sender, receiver) = of(id);
                        IntervalFlow { id, sender: Some(sender), receiver: Some(receiver) }
                    })
                    .collect(),
                total: IntervalTotals {
                    forward: Some(IntervalEnds {
                        sender: Some(sum.clone()),
                        receiver: Some(IntervalCount {
                            lost_packets: Some(wobble(u64::from(n)) % 40),
                            ..sum
                        }),
                        ..Default::default()
                    }),
                    reverse: None,
                },
                ..Default::default()
            }
        })
        .collect();
    let delays = |id: u32| {
        (0..5000u64).map(move |n| (900_000 + wobble(n + u64::from(id)) * wobble(n) * 7, 700))
    };
    record.histograms = (1..=flows).map(|id| histogram(id, "one_way_delay", delays(id))).collect();
    record
}
