//! Two ends' reports assembled into one record: sums, sides, link usage, ledger and each warning at its bound.

use weir_flow::assemble::{NATIVE_PEER, Parts, assemble};
use weir_flow::{IntervalClock, PeerReports};
use weir_model::plan::{
    CatchUp, Connection, Direction, Family, FlowSpec, HeaderFormat, Plan, TransportName,
};
use weir_model::record::{
    CpuEnd, Crossing, Delay, Host, Interface, IntervalCount, Receiver, Record, Sender, Spacing,
    Status, Tcp,
};
use weir_model::report::{EndReport, FlowReport};
use weir_model::units::{ByteSize, SendRate, Span};
use weir_model::warning::{Severity, Warning};

/// A test of `connections` in which each flow went well: 1000 packets of 1000 bytes in one second.
struct Test {
    parts: Parts,
}

impl Test {
    fn of(connections: Vec<Connection>) -> Test {
        let plan = Plan { connections, ..Plan::default() };
        plan.check().unwrap();
        let specs = plan.flows(Family::Ipv4, 1500);
        let mut parts = Parts {
            plan,
            family: Family::Ipv4,
            local: EndReport::default(),
            remote: Some(EndReport::default()),
            peer: NATIVE_PEER.into(),
            one_sided: false,
            peer_reports: PeerReports::default(),
            clock: None,
            intervals: IntervalClock { start_ns: 5, interval_ns: 1_000_000_000, omit_ns: 0 },
            intervals_shown: 0,
            status: Status::Complete,
            end_reason: "done".into(),
            nominal: None,
            latency: None,
            loss_threshold_ns: 2_000_000_000,
            control_bytes: 77,
            path_mtu_bytes: None,
            specs: vec![],
        };
        for spec in &specs {
            let (near, far) = (("near:1", "far:2"), ("far:2", "near:1"));
            let report = |(local, remote): (&str, &str)| FlowReport {
                id: spec.id,
                local: local.into(),
                remote: remote.into(),
                ..FlowReport::default()
            };
            let (mut local, mut remote) = (report(near), report(far));
            let (sends, receives) = match spec.connection.direction {
                Direction::Forward => (&mut local, &mut remote),
                Direction::Reverse => (&mut remote, &mut local),
            };
            sends.sender = Some(Sender {
                bytes: 1_000_000,
                packets: 1000,
                seconds: 1.0,
                bits_per_second: Some(8e6),
                packets_per_second: Some(1000.0),
                asked_packets_per_second: spec.packets_per_second(),
                ..Sender::default()
            });
            receives.receiver = Some(Receiver {
                bytes: 1_000_000,
                packets: 1000,
                seconds: 0.999,
                bits_per_second: Some(8e6),
                packets_per_second: Some(1000.0),
                lost_packets: Some(0),
                crossing: Some(Crossing::PerPacket),
                ..Receiver::default()
            });
            parts.local.flows.push(local);
            parts.remote.as_mut().unwrap().flows.push(remote);
        }
        parts.specs = specs;
        Test { parts }
    }

    fn udp() -> Test {
        Test::of(vec![connection(TransportName::Udp, Direction::Forward)])
    }

    fn tcp() -> Test {
        let mut t = Test::of(vec![connection(TransportName::Tcp, Direction::Forward)]);
        let tcp = Tcp { mss_bytes: 1448, rtt_seconds: Some(0.1), ..Tcp::default() };
        t.parts.local.flows[0].tcp = Some(tcp);
        t
    }

    fn remote(&mut self) -> &mut EndReport {
        self.parts.remote.as_mut().unwrap()
    }

    fn sender(&mut self) -> &mut Sender {
        self.parts.local.flows[0].sender.as_mut().unwrap()
    }

    fn receiver(&mut self) -> &mut Receiver {
        self.remote().flows[0].receiver.as_mut().unwrap()
    }

    fn tcp_info(&mut self) -> &mut Tcp {
        self.parts.local.flows[0].tcp.as_mut().unwrap()
    }

    fn spec(&mut self) -> &mut FlowSpec {
        &mut self.parts.specs[0]
    }

    fn record(&self) -> Record {
        assemble(self.parts.clone())
    }

    /// Warnings after `change`, by code and severity.
    fn with(mut self, change: impl FnOnce(&mut Test)) -> Vec<(String, Severity)> {
        change(&mut self);
        self.record().warnings.into_iter().map(|w| (w.code, w.severity)).collect()
    }
}

fn connection(transport: TransportName, direction: Direction) -> Connection {
    Connection {
        transport: transport.into(),
        direction,
        payload: Some(ByteSize(1000).into()),
        rate: Some("1000pps".parse().unwrap()),
        duration: Some(Span::from_seconds(1)),
        ..Connection::default()
    }
}

fn one(code: &str, severity: Severity) -> Vec<(String, Severity)> {
    vec![(code.into(), severity)]
}

fn busy(core: f64, steal: f64) -> Option<CpuEnd> {
    Some(CpuEnd { busiest_core_ratio: Some(core), steal_ratio: steal, ..CpuEnd::default() })
}

#[test]
fn a_good_test_has_no_warning() {
    assert_eq!(Test::udp().with(|_| {}), []);
    assert_eq!(Test::tcp().with(|_| {}), []);
}

/// A count of `packets` of 1000 bytes, and ten lost.
fn reported(packets: u64) -> IntervalCount {
    IntervalCount {
        bytes: 1000 * packets,
        packets,
        lost_packets: Some(10),
        ..IntervalCount::default()
    }
}

/// A test of `count` flows whose peer became unreachable after two of three seconds; `peer_reports` are its reports
/// of the first.
fn unreachable_peer(count: u32, peer_reports: Vec<(u32, IntervalCount)>, of: u32) -> Record {
    let mut t =
        Test::of(vec![Connection { count, ..connection(TransportName::Udp, Direction::Forward) }]);
    t.parts.remote = None;
    t.parts.status = Status::Partial;
    let clock = t.parts.intervals;
    t.parts.peer_reports.take(&clock, 0, peer_reports, of);
    for flow in &mut t.parts.local.flows {
        flow.intervals = vec![reported(400), reported(400), reported(200)];
        let sender = flow.sender.as_mut().unwrap();
        (sender.seconds, sender.start_seconds, sender.end_seconds) = (2.5, Some(0.0), Some(2.5));
    }
    t.record()
}

#[test]
fn an_unreachable_peer_leaves_what_it_had_reported() {
    let record = unreachable_peer(1, vec![(1, reported(390))], 0);
    let r = record.flows[0].receiver.as_ref().unwrap();
    assert_eq!((r.packets, r.lost_packets, r.reported_until_seconds), (390, Some(10), Some(1.0)));
    assert_eq!(r.bits_per_second, Some(3.12e6), "over the time that it reported");
    let sum = record.total.forward.as_ref().unwrap().receiver.as_ref().unwrap();
    assert_eq!((sum.packets, sum.bits_per_second, sum.end_seconds), (390, Some(3.12e6), Some(1.0)));
    let rows: Vec<_> = record.intervals.iter().map(|i| i.total.forward.as_ref().unwrap()).collect();
    assert_eq!(rows.len(), 3);
    assert_eq!((rows[0].receiver.as_ref().unwrap().packets, rows[0].flows), (390, None));
    assert_eq!(
        (&rows[1].receiver, rows[1].flows, rows[1].receiver_flows),
        (&None, Some(1), Some(0))
    );
    assert!(record.intervals[1].flows[0].receiver.is_none(), "not known is not zero");
    assert_eq!(record.loss_ledger, None);
    assert!(record.warnings.iter().any(|w| w.code == "end-lost"), "{:?}", record.warnings);
    assert!(!record.warnings.iter().any(|w| w.code == "nothing-arrived"));
}

#[test]
fn an_unreachable_peer_that_reported_sums_leaves_a_sum() {
    let record = unreachable_peer(3, vec![(0, reported(780))], 2);
    assert!(record.flows.iter().all(|f| f.receiver.is_none()));
    let sum = record.total.forward.as_ref().unwrap().receiver.as_ref().unwrap();
    assert_eq!((sum.packets, sum.bits_per_second), (780, Some(6.24e6)));
    let first = record.intervals[0].total.forward.as_ref().unwrap();
    assert_eq!(first.receiver.as_ref().unwrap().packets, 780);
    assert_eq!(
        (first.flows, first.sender_flows, first.receiver_flows),
        (Some(3), Some(3), Some(2))
    );
}

/// The protocols of some tools have no report: then none is missing, and the record states why there is one end only.
#[test]
fn a_peer_without_reports_misses_none() {
    let mut t = Test::udp();
    t.parts.remote = None;
    (t.parts.peer, t.parts.one_sided) = ("netcat".into(), true);
    let record = t.record();
    assert_eq!((record.peer.as_str(), record.flows[0].receiver.is_none()), ("netcat", true));
    let warnings: Vec<_> = record.warnings.iter().map(|w| (&*w.code, w.severity)).collect();
    assert_eq!(warnings, [("one-sided", Severity::Info)]);
    assert!(!record.is_loss_known(Direction::Forward));
}

/// Killed before its first report of the flow, or where intervals were not requested: all arrivals are numbered
/// without a gap, and yet it is unknown how much more was sent.
#[test]
fn an_unreachable_sender_that_reported_nothing_leaves_no_loss() {
    let mut t = Test::of(vec![connection(TransportName::Udp, Direction::Reverse)]);
    assert!(t.record().warnings.is_empty() && t.record().is_loss_known(Direction::Reverse));
    t.parts.remote = None;
    t.parts.status = Status::Partial;
    let record = t.record();
    let flow = &record.flows[0];
    assert!(flow.sender.is_none() && flow.receiver.as_ref().unwrap().lost_packets == Some(0));
    assert!(flow.peer_report_missing() && !record.is_loss_known(Direction::Reverse));
    let warnings: Vec<_> = record.warnings.iter().map(|w| (&*w.code, w.flow)).collect();
    assert_eq!(warnings, [("end-lost", Some(1))]);
    assert!(record.warnings[0].text.contains("sender"), "{:?}", record.warnings);
    // A stream's receiver needs no sender's count.
    let mut t = Test::of(vec![connection(TransportName::Tcp, Direction::Reverse)]);
    t.parts.remote = None;
    assert!(t.record().warnings.iter().all(|w| w.code != "end-lost"));
}

#[test]
fn a_final_report_replaces_earlier_ones() {
    let mut t = Test::udp();
    let clock = t.parts.intervals;
    t.parts.peer_reports.take(&clock, 0, [(1, reported(3))], 0);
    let record = t.record();
    let r = record.flows[0].receiver.as_ref().unwrap();
    assert_eq!((r.packets, r.reported_until_seconds), (1000, None));
    assert!(record.loss_ledger.is_some());
}

#[test]
fn stolen_time_is_reported_above_two_percent() {
    assert_eq!(Test::udp().with(|t| t.parts.local.cpu = busy(0.1, 0.02)), []);
    for local in [true, false] {
        let warnings = Test::udp().with(|t| {
            let end = if local { &mut t.parts.local } else { t.remote() };
            end.cpu = busy(0.1, 0.021);
        });
        assert_eq!(warnings, one("cpu-stolen", Severity::Warning));
    }
}

#[test]
fn a_busy_processor_limits_unpaced_flows() {
    let unlimited = || {
        let mut t = Test::udp();
        t.spec().rate = SendRate::UNLIMITED;
        t
    };
    assert_eq!(unlimited().with(|t| t.parts.local.cpu = busy(0.94, 0.0)), []);
    let sender = one("sender-cpu-bound", Severity::Warning);
    assert_eq!(unlimited().with(|t| t.parts.local.cpu = busy(0.96, 0.0)), sender);
    let receiver = one("receiver-cpu-bound", Severity::Warning);
    assert_eq!(unlimited().with(|t| t.remote().cpu = busy(0.96, 0.0)), receiver);
    // Streams that lost segments: the processor is one of two possible limits, and the run is not host-limited.
    let stream = |retransmits: u64| {
        let mut t = Test::of(vec![connection(TransportName::Tcp, Direction::Forward)]);
        t.spec().rate = SendRate::UNLIMITED;
        t.sender().bytes = 100_000_000;
        t.parts.local.flows[0].tcp = Some(Tcp { retransmits, mss_bytes: 1448, ..Tcp::default() });
        t.with(|t| t.parts.local.cpu = busy(0.96, 0.0))
    };
    assert_eq!(stream(5), sender);
    assert_eq!(stream(50), one("sender-cpu-bound", Severity::Info));
    // A paced flow was not limited unless slots were missed; nor is it unlimited because its sender's report is
    // missing.
    let lost = Test::udp().with(|t| {
        t.remote().cpu = busy(1.0, 0.0);
        t.sender().asked_packets_per_second = None;
    });
    assert!(lost.iter().all(|w| !w.0.ends_with("cpu-bound")), "{lost:?}");
    assert_eq!(Test::udp().with(|t| t.parts.local.cpu = busy(1.0, 0.0)), []);
    let short = Test::udp().with(|t| {
        t.parts.local.cpu = busy(1.0, 0.0);
        t.sender().intended_slots = Some(10);
        t.sender().missed_slots = Some(1);
    });
    assert_eq!(short[0].0, "sender-cpu-bound");
    // The end that only receives has no slots to miss: the other end missed them.
    let theirs = Test::udp().with(|t| {
        t.remote().cpu = busy(1.0, 0.0);
        t.sender().intended_slots = Some(10);
        t.sender().missed_slots = Some(1);
    });
    assert!(theirs.iter().all(|w| w.0 == "missed-slots"), "{theirs:?}");
}

#[test]
fn a_processor_saturated_by_others_is_reported() {
    let text = |own: f64| {
        let mut t = Test::udp();
        t.spec().rate = SendRate::UNLIMITED;
        t.parts.local.cpu = busy(1.0, 0.0);
        t.parts.local.cpu.as_mut().unwrap().process_system_ratio = own;
        t.record().warnings[0].text.clone()
    };
    // Its own fraction is named only if others used the rest.
    assert!(text(0.1).contains("10 %"), "{}", text(0.1));
    assert!(!text(0.9).contains("90 %"), "{}", text(0.9));
}

#[test]
fn datagram_warnings_state_what_affected_them() {
    assert_eq!(Test::udp().with(|t| t.receiver().socket_dropped_packets = Some(0)), []);
    assert_eq!(
        Test::udp().with(|t| t.receiver().socket_dropped_packets = Some(1)),
        one("socket-overflow", Severity::Warning)
    );
    let counted =
        |name: &str| Some(Host { counters: [(name.into(), 1)].into(), ..Host::default() });
    assert_eq!(
        Test::udp().with(|t| {
            t.receiver().socket_dropped_packets = Some(1);
            t.remote().host = counted("udp_checksum_errors");
        }),
        one("checksum-errors", Severity::Warning)
    );
    assert_eq!(Test::tcp().with(|t| t.remote().host = counted("udp_checksum_errors")), []);
    assert_eq!(
        Test::udp().with(|t| t.receiver().crossing = Some(Crossing::Coalesced)),
        one("coalesced", Severity::Info)
    );
    assert_eq!(Test::udp().with(|t| t.receiver().ambiguous = Some(false)), []);
    assert_eq!(
        Test::udp().with(|t| t.receiver().ambiguous = Some(true)),
        one("ambiguous-sequence", Severity::Info)
    );
    assert_eq!(
        Test::udp().with(|t| t.receiver().packets = 0),
        one("nothing-arrived", Severity::Error)
    );
    for (got, warned) in [(4095, true), (4096, false), (8192, false)] {
        let warnings = Test::udp().with(|t| {
            t.spec().connection.window = Some(ByteSize(4096));
            t.receiver().buffer_bytes = Some(got);
        });
        assert_eq!(warnings.len(), usize::from(warned), "{got}: {warnings:?}");
    }
}

/// A stream that its window holds back misses slots on any host.
#[test]
fn missed_slots_of_a_stream_are_no_limit_of_the_host() {
    let warnings = Test::tcp().with(|t| {
        t.sender().intended_slots = Some(100);
        t.sender().missed_slots = Some(50);
    });
    assert_eq!(warnings, one("missed-slots", Severity::Info));
}

#[test]
fn the_severity_of_missed_slots_follows_their_fraction() {
    for (missed, expected) in [
        (0, vec![]),
        (1, one("missed-slots", Severity::Info)),
        (10, one("missed-slots", Severity::Info)),
        (11, one("missed-slots", Severity::Warning)),
    ] {
        let warnings = Test::udp().with(|t| {
            t.sender().intended_slots = Some(10_000);
            t.sender().missed_slots = Some(missed);
        });
        assert_eq!(warnings, expected, "{missed}");
    }
    let mut t = Test::udp();
    t.sender().intended_slots = Some(10);
    t.sender().missed_slots = Some(5);
    assert!(!t.record().warnings[0].text.contains("none"));
    t.spec().connection.catch_up = CatchUp::None;
    assert!(t.record().warnings[0].text.contains("none"), "the policy");
}

#[test]
fn kernel_pacing_is_doubtful_for_udp_only() {
    let rate = || Some("1M".parse().unwrap());
    let info = one("kernel-pacing", Severity::Info);
    let slots = |t: &mut Test| {
        t.sender().intended_slots = Some(10);
        t.sender().missed_slots = Some(0);
        t.spec().connection.transport.ip_mut().unwrap().kernel_pacing = rate();
    };
    assert_eq!(Test::udp().with(slots), info);
    assert_eq!(Test::tcp().with(slots), []);
}

#[test]
fn a_window_below_rate_times_round_trip_is_warned_of() {
    // 8192 bytes over 40 ms are 1.64 Mbit/s. Received bit/s, requested, limited by window and by buffer.
    let limited = |received: f64, asked: Option<&str>, window: f64, buffer: f64| {
        Test::tcp().with(|t| {
            t.receiver().bits_per_second = Some(received);
            t.spec().rate = asked.map_or(SendRate::UNLIMITED, |rate| rate.parse().unwrap());
            t.spec().connection.window = Some(ByteSize(8192));
            let tcp = t.tcp_info();
            (tcp.min_rtt_seconds, tcp.rtt_seconds) = (Some(0.04), Some(0.041));
            tcp.receive_window_limited_ratio = Some(window);
            tcp.send_buffer_limited_ratio = Some(buffer);
        })
    };
    let warned = one("window-limited", Severity::Warning);
    // Neither cause alone passes the bound, together they do.
    assert_eq!(limited(1.2e6, Some("10M"), 0.41, 0.21), warned);
    assert_eq!(limited(0.8e6, None, 0.41, 0.21), warned);
    assert_eq!(limited(0.8e6, None, 0.31, 0.19), []);
    // Less is enough at window / round trip; without any waiting it is chance.
    assert_eq!(limited(1.5e6, Some("10M"), 0.34, 0.0), warned);
    assert_eq!(limited(1.5e6, Some("10M"), 0.1, 0.0), []);
    // The requested rate is reached.
    assert_eq!(limited(1.5e6, Some("1500k"), 0.41, 0.21), []);
    let unasked = Test::tcp().with(|t| {
        t.spec().rate = SendRate::UNLIMITED;
        t.tcp_info().receive_window_limited_ratio = Some(0.9);
    });
    assert_eq!(unasked, []);
    let mut t = Test::tcp();
    t.parts.nominal = Some((100_000_000, "given".into()));
    t.spec().rate = SendRate::UNLIMITED;
    t.spec().connection.window = Some(ByteSize(65_536));
    t.tcp_info().receive_window_limited_ratio = Some(0.9);
    let text = &t.record().warnings[0].text;
    // 64 KiB and 100 Mbit/s over 100 ms.
    assert!(text.contains("5.24 Mbit/s") && text.contains("1250000 bytes"), "{text}");
    // The window in force, if it is known.
    t.tcp_info().send_window_bytes = Some(80_000);
    let text = &t.record().warnings[0].text;
    assert!(text.contains("6.40 Mbit/s"), "{text}");
}

#[test]
fn datagrams_above_the_path_mtu_are_noted_as_fragments() {
    let fragments = |payload: u64, family: Family, mtu: Option<u32>| {
        let mut t = Test::udp();
        t.spec().size = ByteSize(payload).into();
        t.parts.family = family;
        t.parts.path_mtu_bytes = mtu;
        let warnings = t.record().warnings;
        warnings.iter().find(|w| w.code == "fragmented").and_then(|w| w.value)
    };
    use Family::{Ipv4, Ipv6};
    assert_eq!(fragments(8000, Ipv4, Some(1500)), Some(6.0));
    assert_eq!(
        [fragments(1472, Ipv4, Some(1500)), fragments(1473, Ipv4, Some(1500))],
        [None, Some(2.0)]
    );
    assert_eq!(
        [fragments(1452, Ipv6, Some(1500)), fragments(1453, Ipv6, Some(1500))],
        [None, Some(2.0)]
    );
    assert_eq!([fragments(8000, Ipv4, Some(9000)), fragments(8000, Ipv4, None)], [None, None]);
}

/// Of a law, the datagrams that it draws count, not its extreme.
#[test]
fn fragments_of_a_law_are_those_of_the_sizes_sent() {
    let of = |law: &str| {
        let mut t = Test::udp();
        t.spec().size = law.parse().unwrap();
        t.parts.family = Family::Ipv4;
        t.parts.path_mtu_bytes = Some(1500);
        let warnings = t.record().warnings;
        warnings.iter().find(|w| w.code == "fragmented").map(|w| (w.value.unwrap(), w.text.clone()))
    };
    assert_eq!(of("normal(mean=700, deviation=50)"), None, "its extreme would be 1 fragment too");
    assert_eq!(of("normal(mean=700, deviation=100)"), None, "8 standard deviations are 1500 bytes");
    let (most, text) = of("table(64:3, 4000:1)").unwrap();
    assert_eq!(most, 3.0);
    let fraction: f64 = text.split(' ').next().unwrap().parse().unwrap();
    assert!((20.0..30.0).contains(&fraction), "{text}");
}

#[test]
fn a_rate_below_one_packet_in_the_test_is_warned_of() {
    let of = |rate: &str, packets: u64| {
        Test::udp().with(|t| {
            t.sender().packets = packets;
            t.spec().rate = rate.parse().unwrap();
        })
    };
    assert_eq!(of("100", 1), one("rate-below-one-packet", Severity::Warning));
    assert_eq!(of("100M", 1), []);
    assert_eq!(of("100", 2), []);
}

#[test]
fn a_stalled_sender_is_warned_of() {
    let slots = |late: u64, pause: f64| {
        Test::udp().with(|t| {
            let s = t.sender();
            (s.intended_slots, s.missed_slots, s.late_slots) = (Some(4000), Some(0), Some(late));
            s.spacing = Some(Spacing { max_seconds: pause, ..Spacing::default() });
        })
    };
    assert_eq!(slots(1000, 0.049), one("late-slots", Severity::Warning));
    assert_eq!(slots(400, 0.049), []);
    // Wake-ups of some microseconds at a high rate.
    assert_eq!(slots(1000, 50e-6), []);
}

#[test]
fn a_header_without_send_time_is_stated() {
    let of = |format, payload: u64| {
        let mut t = Test::udp();
        t.spec().connection.header = format;
        t.spec().size = ByteSize(payload).into();
        t.with(|_| {})
    };
    let stated = one("header-limited", Severity::Info);
    for format in [HeaderFormat::Iperf3, HeaderFormat::Iperf3Wide, HeaderFormat::None] {
        assert_eq!(of(format, 1000), stated, "{format}");
    }
    assert_eq!(of(HeaderFormat::Native, 7), stated);
    assert_eq!(of(HeaderFormat::Native, 8), []);
    assert_eq!(Test::tcp().with(|t| t.spec().connection.header = HeaderFormat::None), []);
}

#[test]
fn why_sequence_numbers_are_ambiguous_is_stated() {
    let text = |payload: u64, late: u64, sent: u64| {
        let mut t = Test::udp();
        t.spec().size = ByteSize(payload).into();
        t.sender().packets = sent;
        let r = t.receiver();
        (r.ambiguous, r.late_packets) = (Some(true), Some(late));
        let warnings = t.record().warnings;
        warnings.into_iter().find(|w| w.code == "ambiguous-sequence").unwrap().text
    };
    let full = [text(64, 0, 1000), text(64, 1, 1000), text(64, 0, 999)];
    assert!(full.iter().all(|t| !t.contains("64")), "64 bits are not few: {full:?}");
    let all: std::collections::BTreeSet<_> =
        full.into_iter().chain([text(1, 0, 1000), text(2, 0, 1000), text(0, 0, 1000)]).collect();
    assert_eq!(all.len(), 6, "each cause has its own text: {all:?}");
    assert!(text(2, 0, 1000).contains("16 bits"), "{}", text(2, 0, 1000));
    // Figures that the receiver did not report can't be wrong.
    let consequence = |duplicates| {
        let mut t = Test::udp();
        let r = t.receiver();
        (r.ambiguous, r.duplicate_packets) = (Some(true), duplicates);
        t.record().warnings.remove(0).text
    };
    assert_ne!(consequence(None), consequence(Some(0)));
}

#[test]
fn more_than_a_line_can_carry_is_an_error() {
    // 1000 packets/s of 1000 + 28 + 38 bytes are 8.528 Mbit/s on the wire.
    let nominal = |n: u64| Test::udp().with(|t| t.parts.nominal = Some((n, "given".into())));
    assert_eq!(nominal(8_528_000), []);
    assert_eq!(nominal(8_527_500), []);
    assert_eq!(nominal(8_527_000), one("above-line-rate", Severity::Error));
}

#[test]
fn delays_that_contradict_their_error_are_reported() {
    let delay = |min: f64, mean: f64, error: f64, negative: Option<u64>| {
        Test::udp().with(|t| {
            t.receiver().one_way_delay = Some(Delay {
                count: 10,
                min_seconds: min,
                mean_seconds: mean,
                error_seconds: Some(error),
                negative_samples: negative,
                ..Delay::default()
            });
        })
    };
    assert_eq!(delay(0.001, 0.002, 0.0005, None), []);
    assert_eq!(delay(-0.0004, 0.002, 0.0005, Some(1)), []);
    assert_eq!(delay(-0.0006, 0.002, 0.0005, Some(1)), one("clock-relation", Severity::Error));
    assert_eq!(delay(0.001, 0.002, 0.003, None), one("delay-error", Severity::Info));
}

#[test]
fn many_flows_with_one_warning_become_four() {
    for (flows, reported, more) in [(4u32, 4, None), (5, 4, Some(1)), (9, 4, Some(5))] {
        let mut c = connection(TransportName::Udp, Direction::Forward);
        c.count = flows;
        let mut t = Test::of(vec![c]);
        for f in &mut t.remote().flows {
            f.receiver.as_mut().unwrap().ambiguous = Some(true);
        }
        let warnings = t.record().warnings;
        assert_eq!(warnings.len(), reported, "{flows}");
        let last = &warnings.last().unwrap().text;
        assert!(more.is_none_or(|n| last.contains(&format!(" {n} more"))));
        assert_eq!(last.contains(" more"), more.is_some());
    }
}

#[test]
fn both_ends_warnings_are_kept() {
    let mut t = Test::udp();
    t.parts.local.warnings.push(Warning::new("here", Severity::Info, ""));
    t.remote().warnings.push(Warning::new("there", Severity::Info, ""));
    let codes: Vec<_> = t.record().warnings.into_iter().map(|w| w.code).collect();
    assert_eq!(codes, ["here", "there"]);
}

#[test]
fn a_reverse_flow_is_sent_by_the_far_end() {
    let mut t = Test::of(vec![
        connection(TransportName::Udp, Direction::Forward),
        connection(TransportName::Udp, Direction::Reverse),
    ]);
    t.remote().flows[1].sender.as_mut().unwrap().packets = 1234;
    t.remote().flows[1].sender.as_mut().unwrap().bytes = 1_234_000;
    let r = t.record();
    assert_eq!((r.flows[0].source.as_str(), r.flows[0].destination.as_str()), ("near:1", "far:2"));
    assert_eq!((r.flows[1].source.as_str(), r.flows[1].destination.as_str()), ("far:2", "near:1"));
    let (forward, reverse) = (r.total.forward.unwrap(), r.total.reverse.unwrap());
    assert_eq!(forward.sender.unwrap().packets, 1000);
    assert_eq!(reverse.sender.unwrap().packets, 1234);
    assert_eq!(reverse.receiver.unwrap().packets, 1000);
    assert_eq!((r.seconds, r.control_bytes, r.omitted_seconds), (1.0, Some(77), None));
    assert_eq!(r.loss_threshold_seconds, Some(2.0));
    assert_eq!(Test::tcp().record().loss_threshold_seconds, None);
}

#[test]
fn sums_are_of_every_flow_and_each_figure() {
    let mut c = connection(TransportName::Udp, Direction::Forward);
    c.count = 2;
    let mut t = Test::of(vec![c]);
    t.parts.local.flows[0].sender.as_mut().unwrap().missed_slots = Some(2);
    t.parts.local.flows[1].sender.as_mut().unwrap().missed_slots = Some(3);
    t.parts.local.flows[0].sender.as_mut().unwrap().seconds = 2.0;
    for (f, n) in t.remote().flows.iter_mut().zip([1u64, 10]) {
        let r = f.receiver.as_mut().unwrap();
        (r.lost_packets, r.late_packets, r.duplicate_packets) = (Some(n), Some(2 * n), Some(3 * n));
        (r.reordered_packets, r.corrupted_packets) = (Some(4 * n), Some(5 * n));
    }
    let total = t.record().total.forward.unwrap();
    let (s, r) = (total.sender.unwrap(), total.receiver.unwrap());
    assert_eq!((s.bytes, s.packets, s.missed_slots, s.seconds), (2_000_000, 2000, Some(5), 2.0));
    assert_eq!((r.lost_packets, r.late_packets), (Some(11), Some(22)));
    assert_eq!((r.duplicate_packets, r.reordered_packets), (Some(33), Some(44)));
    assert_eq!(r.corrupted_packets, Some(55));
    assert_eq!(r.loss_ratio, Some(11.0 / 2011.0));
}

#[test]
fn streams_add_retransmits_and_report_the_receivers_window() {
    let mut t = Test::tcp();
    t.tcp_info().retransmits = 7;
    t.tcp_info().receive_window_bytes = Some(1);
    t.remote().flows[0].tcp = Some(Tcp { receive_window_bytes: Some(9999), ..Tcp::default() });
    let r = t.record();
    assert_eq!(r.total.forward.unwrap().sender.unwrap().retransmits, Some(7));
    assert_eq!(r.flows[0].tcp.as_ref().unwrap().receive_window_bytes, Some(9999));
}

#[test]
fn link_usage_counts_headers_of_every_level() {
    let usage = |t: &mut Test| {
        t.parts.nominal = Some((100_000_000, "given".into()));
        t.record().link_usage.unwrap()
    };
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-12, "{a} is not {b}");
    let u = usage(&mut Test::udp());
    near(u.payload_ratio, 0.08);
    near(u.ip_ratio, 0.08224);
    near(u.ethernet_ratio, 0.08368);
    near(u.wire_ratio, 0.08528);
    let mut six = Test::udp();
    six.parts.family = Family::Ipv6;
    near(usage(&mut six).wire_ratio, 0.08688);
    // A stream of full segments of 1448 + 12 + 20 + 20 bytes in 1538 on the wire.
    near(usage(&mut Test::tcp()).wire_ratio, 0.08 * 1538.0 / 1448.0);
    let mut plain = Test::tcp();
    (plain.tcp_info().timestamps, plain.tcp_info().mss_bytes) = (Some(false), 1460);
    near(usage(&mut plain).wire_ratio, 0.08 * 1538.0 / 1460.0);
    // The busier direction is shown.
    let mut both = Test::of(vec![
        connection(TransportName::Udp, Direction::Forward),
        connection(TransportName::Udp, Direction::Reverse),
    ]);
    let slower = both.parts.local.flows[1].receiver.as_mut().unwrap();
    (slower.packets_per_second, slower.bits_per_second) = (Some(500.0), Some(4e6));
    assert_eq!(usage(&mut both).direction, Direction::Forward);
    let faster = both.parts.local.flows[1].receiver.as_mut().unwrap();
    (faster.packets_per_second, faster.bits_per_second) = (Some(2000.0), Some(16e6));
    both.remote().flows[1].sender.as_mut().unwrap().seconds = 0.5;
    assert_eq!(usage(&mut both).direction, Direction::Reverse);
}

/// A path that fails half-way: what arrived came at the full rate, and still is half of what was sent.
#[test]
fn rates_of_a_receiver_are_over_the_time_of_sending_where_that_is_longer() {
    for packets in [500, 1, 0] {
        let mut t = Test::udp();
        let rate = (packets > 1).then_some(1000.0);
        *t.receiver() = Receiver {
            bytes: packets * 1000,
            packets,
            seconds: packets.saturating_sub(1) as f64 / 1000.0,
            bits_per_second: rate.map(|r| 8e3 * r),
            packets_per_second: rate,
            lost_packets: Some(1000 - packets),
            ..Receiver::default()
        };
        let record = t.record();
        let flow = record.flows[0].receiver.as_ref().unwrap();
        let sum = record.total.forward.as_ref().unwrap().receiver.as_ref().unwrap();
        let wanted = packets as f64;
        assert_eq!(
            (flow.packets_per_second, flow.bits_per_second),
            (Some(wanted), Some(8e3 * wanted))
        );
        assert_eq!(
            (sum.packets_per_second, sum.bits_per_second),
            (Some(wanted), Some(8e3 * wanted))
        );
        // Without the sender's report only the arrivals are known.
        t.parts.local.flows[0].sender = None;
        assert_eq!(t.record().flows[0].receiver.as_ref().unwrap().packets_per_second, rate);
    }
}

fn count(packets: u64, lost: Option<u64>, retransmits: Option<u64>) -> IntervalCount {
    IntervalCount {
        bytes: packets * 1000,
        packets,
        bits_per_second: Some(8e3 * packets as f64),
        packets_per_second: Some(packets as f64),
        lost_packets: lost,
        retransmits,
        ..IntervalCount::default()
    }
}

#[test]
fn intervals_pair_both_ends_and_sum_each_direction() {
    let mut t = Test::of(vec![
        connection(TransportName::Udp, Direction::Forward),
        connection(TransportName::Udp, Direction::Reverse),
    ]);
    t.parts.intervals.omit_ns = 1_000_000_000;
    t.parts.plan.omit = Span::from_seconds(1);
    t.parts.local.flows[0].intervals = vec![count(10, None, Some(3)), count(11, None, Some(1))];
    t.remote().flows[0].intervals =
        vec![count(9, Some(1), None), count(9, Some(2), None), count(2, Some(0), None)];
    t.remote().flows[1].intervals = vec![count(5, None, None)];
    t.parts.local.flows[1].intervals = vec![count(4, Some(1), None)];
    let r = t.record();
    assert_eq!(r.omitted_seconds, Some(1.0));
    assert_eq!(r.intervals.len(), 3);
    assert_eq!(r.intervals.iter().map(|i| i.omitted).collect::<Vec<_>>(), [true, false, false]);
    let first = &r.intervals[0];
    let forward = first.total.forward.as_ref().unwrap();
    assert_eq!(forward.sender.as_ref().unwrap().packets, 10);
    assert_eq!(forward.sender.as_ref().unwrap().retransmits, Some(3));
    assert_eq!(forward.receiver.as_ref().unwrap().lost_packets, Some(1));
    let reverse = first.total.reverse.as_ref().unwrap();
    assert_eq!(reverse.sender.as_ref().unwrap().packets, 5);
    assert_eq!(reverse.receiver.as_ref().unwrap().packets, 4);
    assert_eq!(r.intervals[2].total.reverse, None);
    t.parts.intervals.interval_ns = 0;
    assert!(t.record().intervals.is_empty());
}

fn interface(name: &str, before: &[(&str, u64)], after: &[(&str, u64)]) -> Interface {
    let map = |list: &[(&str, u64)]| list.iter().map(|(k, v)| ((*k).to_string(), *v)).collect();
    Interface {
        name: name.into(),
        mtu_bytes: Some(1500),
        counters_before: map(before),
        counters_after: map(after),
        ..Interface::default()
    }
}

#[test]
fn the_ledger_places_each_loss_on_its_side() {
    let mut t = Test::udp();
    {
        let r = t.receiver();
        (r.packets, r.lost_packets, r.late_packets) = (900, Some(100), Some(10));
        // Of the corrupted, two arrived with damaged content only.
        (r.socket_dropped_packets, r.corrupted_packets) = (Some(20), Some(7));
        r.unreadable_packets = Some(5);
    }
    let cards = interface("eth0", &[("rx_dropped", 1000)], &[("rx_dropped", 1030)]);
    let mut host = Host { interfaces: vec![cards], ..Host::default() };
    host.counters.insert("udp_receive_buffer_errors".into(), 20);
    host.counters.insert("softnet_dropped".into(), 4);
    host.counters.insert("softnet_processed".into(), 900);
    t.remote().host = Some(host);
    let ledger = t.record().loss_ledger.unwrap();
    let rows: Vec<_> = ledger
        .rows
        .iter()
        .map(|r| (r.stage.as_str(), r.packets, r.kind.as_str(), r.side.as_deref().unwrap()))
        .collect();
    assert_eq!(
        rows,
        [
            ("socket overflow", 20, "exact", "remote"),
            ("late", 10, "exact", "remote"),
            ("damaged header", 5, "exact", "remote"),
            ("card rx", 30, "bound", "remote"),
            ("softnet", 4, "bound", "remote"),
        ]
    );
    // 100 missing, 35 placed, at most 34 more by counters that see other traffic too.
    assert_eq!((ledger.missing_packets, ledger.remainder_packets), (100, 31));
    // More placed than missing is shown as it is.
    t.receiver().socket_dropped_packets = Some(200);
    let host = t.remote().host.as_mut().unwrap();
    host.counters.insert("udp_receive_buffer_errors".into(), 200);
    assert_eq!(t.record().loss_ledger.unwrap().remainder_packets, -115);
}

#[test]
fn the_ledger_of_an_omitted_start_uses_the_receivers_figure() {
    let mut t = Test::udp();
    t.parts.plan.omit = Span::from_seconds(1);
    (t.receiver().packets, t.receiver().lost_packets) = (1003, Some(2));
    assert_eq!(t.record().loss_ledger.unwrap().missing_packets, 2);
}

#[test]
fn there_is_no_ledger_when_an_end_did_not_report() {
    let mut c = connection(TransportName::Udp, Direction::Forward);
    c.count = 2;
    let mut t = Test::of(vec![c]);
    t.remote().flows[1].receiver = None;
    assert_eq!(t.record().loss_ledger, None);
    t.parts.remote = None;
    let r = t.record();
    assert_eq!((r.loss_ledger, r.total.forward.unwrap().receiver), (None, None));
}

#[test]
fn the_time_source_is_the_receivers_at_its_coarsest() {
    let mut c = connection(TransportName::Udp, Direction::Forward);
    c.count = 2;
    let mut t = Test::of(vec![c]);
    for (f, resolution) in t.remote().flows.iter_mut().zip([1e-9, 1e-6]) {
        f.time_source = Some("kernel".into());
        f.time_resolution_seconds = Some(resolution);
    }
    let source = t.record().time_source.unwrap();
    assert_eq!((source.receive.as_str(), source.resolution_seconds), ("kernel", 1e-6));
    assert_eq!(Test::udp().record().time_source, None);
}

#[test]
fn a_flow_without_packets_has_the_time_of_its_bytes() {
    // A stream whose writes were never complete: 1 000 000 bytes at 4 Mbit/s took two seconds.
    let mut t = Test::tcp();
    let s = t.sender();
    (s.packets, s.packets_per_second, s.bits_per_second) = (0, Some(0.0), Some(4e6));
    let sums = t.record().total.forward.unwrap().sender.unwrap();
    assert_eq!(sums.bits_per_second, Some(4e6));
}

#[test]
fn the_last_interval_ends_when_the_test_did() {
    for end in [0.98, 0.995, 1.0] {
        let mut t = Test::udp();
        t.parts.local.flows[0].intervals = vec![count(10, None, None)];
        t.sender().end_seconds = Some(end);
        let got = &t.record().intervals[0];
        assert!((got.end_seconds - end).abs() < 1e-9, "{end}: {got:?}");
        let rate = got.flows[0].sender.as_ref().unwrap().packets_per_second.unwrap();
        assert!((rate - 10.0 / end).abs() < 1e-9, "{end}: {rate}");
    }
}

#[test]
fn bytes_of_a_stream_that_never_arrived_are_reported() {
    let mut t = Test::tcp();
    t.receiver().undelivered_bytes = Some(412);
    let record = t.record();
    let [warning] = &record.warnings[..] else { panic!("{:?}", record.warnings) };
    assert_eq!((warning.code.as_str(), warning.severity), ("not-drained", Severity::Warning));
    assert_eq!((warning.value, warning.flow), (Some(412.0), Some(1)));
    t.receiver().undelivered_bytes = Some(0);
    assert_eq!(t.record().warnings, []);
}
