//! Records of runs as they come out, written by hand: the material of the golden tests.

use std::collections::BTreeMap;

use weir_model::plan::{Connection, Direction, Family, Plan, Transport};
use weir_model::record::*;
use weir_model::units::{BitRate, ByteSize, Seed, Span};
use weir_model::warning::{Severity, Warning};

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
        },
        memory_bytes: 16 << 30,
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

/// One paced UDP flow, forward, that lost 12 of 10 000 packets; everything that can be measured was.
pub(crate) fn udp_loss() -> Record {
    let payload = 1472;
    let (sent, lost, seconds) = (10_000u64, 12u64, 10.0);
    let got = sent - lost;
    let flow = Flow {
        id: 1,
        name: "udp-forward".into(),
        transport: Transport::Udp,
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
            crossing: Some("cut".into()),
            segments_per_message: Some(1.0),
            lost_packets: Some(lost),
            loss_ratio: Some(lost as f64 / sent as f64),
            late_packets: Some(0),
            duplicate_packets: Some(3),
            reordered_packets: Some(1),
            reordering_extent_max: Some(2),
            corrupted_packets: Some(0),
            loss_runs: Some(BTreeMap::from([("1".into(), 6), ("2".into(), 1), ("4".into(), 1)])),
            ambiguous: Some(false),
            jitter_seconds: Some(5.2e-6),
            delay_variation: Some(DelayVariation {
                pdv_p99_seconds: Some(4.0e-5),
                ipdv_p99_seconds: Some(6.1e-5),
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
                forward: Some(IntervalEnds { sender: Some(sent), receiver: Some(received) }),
                reverse: None,
            },
        }
    };
    // The last interval is as a live one is: the other end's figures are not there yet.
    let mut live = interval(2, 0);
    live.flows[0].receiver = None;
    Record {
        plan: Plan {
            title: Some("Line to the annex, \"east\"".into()),
            host: Some("198.18.0.2".into()),
            nominal: Some(BitRate(100_000_000)),
            omit: Span::from_seconds(1),
            connections: vec![Connection {
                transport: Transport::Udp,
                rate: "1000pps".parse().ok(),
                payload: Some(ByteSize(payload)),
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
                user_ratio: 0.02,
                system_ratio: 0.04,
                irq_ratio: 0.001,
                steal_ratio: 0.012,
                process_user_ratio: 0.05,
                process_system_ratio: 0.06,
                busiest_core_ratio: Some(0.21),
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

/// Four TCP connections each way.
pub(crate) fn tcp_bidir() -> Record {
    let mut flows = vec![];
    let mut interval = Interval { end_seconds: 1.0, ..Default::default() };
    for id in 1..=8u32 {
        let direction = if id <= 4 { Direction::Forward } else { Direction::Reverse };
        let bytes = 1_000_000_000 + u64::from(id) * 37_000_000;
        let tcp = Tcp {
            retransmits: u64::from(id % 3),
            mss_bytes: 1448,
            rtt_seconds: 2.1e-4 * f64::from(id),
            min_rtt_seconds: Some(3e-5),
            cwnd_bytes: 1_310_720,
            congestion_control: "cubic".into(),
            receive_window_limited_ratio: Some(0.0),
            send_buffer_limited_ratio: Some(0.125),
            retransmitted_bytes: Some(u64::from(id % 3) * 1448),
            timestamps: Some(true),
            ..Default::default()
        };
        let mut sent = count(bytes / 10, 760, 1.0);
        sent.retransmits = Some(tcp.retransmits);
        sent.cwnd_bytes = Some(tcp.cwnd_bytes);
        sent.rtt_seconds = Some(tcp.rtt_seconds);
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
            transport: Transport::Tcp,
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

/// A test whose server went away: one flow has its sender's figures, one has nothing; hostile names.
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
                transport: Transport::Udp,
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
                transport: Transport::Tcp,
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
            transport: Transport::Udp,
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
                crossing: Some(if id <= 500 { "cut" } else { "merged" }.into()),
                lost_packets: Some(lost),
                loss_runs: (lost > 0).then(|| BTreeMap::from([("1".into(), lost)])),
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
    });
    Record {
        flows,
        intervals: vec![interval],
        total: Totals { forward: Some(total), reverse: None },
        ..base(
            "20261121-203500-0003e8",
            vec![Connection {
                transport: Transport::Udp,
                count: 1000,
                rate: "100pps".parse().ok(),
                payload: Some(ByteSize(160)),
                ..Default::default()
            }],
        )
    }
}
