//! One-way delay between hosts that share no clock: the stated error bound holds, whatever the clocks and the path do.
//!
//! The true delay of every packet is known, since both clocks are derived from one: the packet log has each packet's send
//! time by the sender's clock and its arrival by the receiver's, and the test itself sets the relation of the two clocks.

use crate::common;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use common::{Bench, Running, has_tools, recompute, until};
use serde_json::Value;
use weir_model::plan::{Connection, Direction, Plan, Transport};
use weir_model::record::{Receiver, Record};
use weir_model::units::{ByteSize, Span};
use weir_net::clock::{Clock, InjectedClock};
use weir_net::reference::{TimeBound, TimeService};
use weir_traffic::{
    ClientConfig, Event, ServerConfig, ServerEvent, Stop, StopReason, TrafficError, run, serve,
};

/// Send and arrival time of each packet in a log, ns, by the clocks of the two ends.
fn times(log: &Path) -> Vec<(u64, u64)> {
    let recomputed = recompute(log);
    let column = |name: &str| -> Vec<u64> {
        let ns = |v: &Value| v.as_str().unwrap().parse().unwrap();
        recomputed[name].as_array().unwrap().iter().map(ns).collect()
    };
    column("sent_ns").into_iter().zip(column("arrivals_ns")).collect()
}

fn receiver(record: &Record) -> &Receiver {
    record.flows[0].receiver.as_ref().unwrap()
}

/// Asserts that minimum, mean and maximum of the measured delays differ from the true ones by at most the stated error plus
/// `grain_ns`, the accuracy of the true delays.
#[track_caller]
fn bound_holds(record: &Record, true_ns: &[i64], grain_ns: f64) {
    let delay = receiver(record).one_way_delay.as_ref().unwrap();
    // This includes packets that arrived before the receiver knew the relation of the clocks.
    assert_eq!(delay.count as usize, true_ns.len());
    let error = delay.error_seconds.unwrap();
    let mean = true_ns.iter().sum::<i64>() as f64 / true_ns.len() as f64;
    for (name, measured, truly_ns) in [
        ("least", delay.min_seconds, *true_ns.iter().min().unwrap() as f64),
        ("mean", delay.mean_seconds, mean),
        ("greatest", delay.max_seconds, *true_ns.iter().max().unwrap() as f64),
    ] {
        let off = (measured - truly_ns / 1e9).abs();
        assert!(
            off <= error + grain_ns / 1e9,
            "{name}: measured {measured}, truly {} s: off by {off}, stated {error} ({:?})",
            truly_ns / 1e9,
            record.clock
        );
    }
    // RFC 5905: probes can't bound the offset more tightly than half a round trip.
    let clock = record.clock.as_ref().unwrap();
    assert_eq!(clock.method, "ntp");
    let by_probes = clock.source.as_deref() == Some("probes");
    assert!(!by_probes || error >= clock.min_round_trip_seconds.unwrap() / 2.0, "{clock:?}");
}

const AHEAD: i64 = 1000;

/// True delays, corrected for a receiver's clock that is [`AHEAD`] of the sender's.
fn true_delays(log: &Path) -> Vec<i64> {
    let ahead = AHEAD * 1_000_000_000;
    times(log).into_iter().map(|(sent, came)| came as i64 - ahead - sent as i64).collect()
}

#[test]
fn a_time_namespace_1000_s_ahead_is_found_within_its_bound() {
    let test = "a_time_namespace_1000_s_ahead_is_found_within_its_bound";
    let Some(mut bench) = Bench::alone(test, &["python3"]) else { return };
    let log = bench.file("packets");
    bench.serve_ahead(AHEAD, &["--packet-log", log.to_str().unwrap()]);
    let record = bench.test(&["-u", "-b", "500pps", "-l", "200", "-t", "1"]);
    bench.stop_server();
    let clock = record.clock.as_ref().unwrap();
    let off = (clock.offset_seconds - AHEAD as f64).abs();
    assert!(off <= clock.error_seconds, "{clock:?}");
    assert!(clock.samples >= 10 && clock.skew_ratio.abs() < 1e-4, "{clock:?}");
    bound_holds(&record, &true_delays(&log), 0.0);
    // The difference of the clocks causes no loss and no warning.
    assert_eq!(receiver(&record).lost_packets, Some(0));
    assert!(record.warnings.iter().all(|w| w.code != "clock-stepped"), "{:?}", record.warnings);
}

#[test]
fn the_record_names_the_scheduling_class() {
    let test = "the_record_names_the_scheduling_class";
    let Some(mut bench) = Bench::alone(test, &[]) else { return };
    bench.serve_ahead(AHEAD, &["--scheduling", "normal"]);
    let class = |bench: &Bench, more: &[&str]| {
        let paced = ["-u", "-l", "200", "-k", "50", "--scheduling"];
        let record = bench.test(&[&paced[..], more].concat());
        record.flows[0].sender.as_ref().unwrap().scheduling.clone().unwrap()
    };
    assert_eq!(class(&bench, &["normal", "-b", "1000pps"]), "normal");
    assert_eq!(class(&bench, &["auto", "-b", "0"]), "normal");
    // The server has a different setting.
    assert_eq!(class(&bench, &["auto", "-b", "1000pps", "-R"]), "normal");
    // Some control groups refuse it even to root; then `fifo` is refused too.
    let granted = std::thread::spawn(|| weir_net::thread::try_fifo(10).is_ok()).join().unwrap();
    let auto = class(&bench, &["auto", "-b", "1000pps"]);
    assert_eq!(auto, if granted { "fifo" } else { "normal" });
    let asked = ["-u", "-k", "50", "-b", "1000pps", "--scheduling", "fifo"];
    let status = bench.test_command(&asked).status().unwrap();
    assert_eq!(status.code(), Some(if granted { 0 } else { 4 }));
    bench.stop_server();
}

#[test]
fn an_asymmetric_path_stays_within_the_bound() {
    let test = "an_asymmetric_path_stays_within_the_bound";
    let Some(mut bench) = Bench::alone(test, &["tc", "python3"]) else { return };
    let log = bench.file("packets");
    bench.serve_ahead(AHEAD, &["--packet-log", log.to_str().unwrap()]);
    // A bulk transfer with a small window fills a queue of that size in one direction, without loss; the other direction
    // stays empty. Probes can't detect that, so the offset is wrong by half the queue.
    let shape = "qdisc add dev eth0 root tbf rate 8mbit burst 3kb latency 1s";
    bench.tool("a", "tc", &shape.split(' ').collect::<Vec<_>>());
    // It runs without probes, which also shows that a test can start without a relation of the clocks. It is killed when
    // the test is done, which may take long on a busy host. A quarter of a second is queued, so that the queue does not run
    // empty while such a host delays the transfer.
    let bulk = ["-t", "60", "-w", "256K", "-C", "cubic", "--no-latency", "--json"];
    let bulk = Running::start(bench.test_command(&bulk));
    until("a queue stands", || {
        let text = bench.tool("a", "tc", &["-s", "-j", "qdisc", "show", "dev", "eth0"]);
        let qdisc: Value = serde_json::from_str(&text).unwrap();
        qdisc[0]["backlog"].as_u64().unwrap() > 10_000
    });
    let record = bench.test(&["-u", "-b", "100pps", "-l", "64", "-t", "1"]);
    drop(bulk);
    bench.stop_server();
    let clock = record.clock.as_ref().unwrap();
    let off = (clock.offset_seconds - AHEAD as f64).abs();
    assert!(off > 0.002, "the path was not asymmetric: {clock:?}");
    assert!(off <= clock.error_seconds, "{clock:?}");
    bound_holds(&record, &true_delays(&log), 0.0);
}

#[test]
fn without_a_relation_of_the_clocks_delay_is_absent() {
    let test = "without_a_relation_of_the_clocks_delay_is_absent";
    let Some(mut bench) = Bench::alone(test, &["nft"]) else { return };
    bench.serve_ahead(AHEAD, &[]);
    // Of the control datagrams only the flow's hello passes: no probe is answered.
    bench.nft(
        "b",
        "table inet weir {
            chain input {
                type filter hook input priority 0;
                udp dport 9347 udp length 72 numgen inc mod 100000 >= 1 drop
            }
        }",
    );
    let record = bench.test(&["-u", "-b", "500pps", "-l", "200", "-k", "50"]);
    assert_eq!(record.clock, None);
    let receiver = receiver(&record);
    assert_eq!((receiver.packets, receiver.lost_packets), (50, Some(0)));
    assert_eq!((&receiver.one_way_delay, &receiver.one_way_delay_from_intended), (&None, &None));
    assert!(record.histograms.iter().all(|h| !h.metric.starts_with("one_way")));
    // Jitter needs no relation of the clocks.
    assert!(receiver.jitter_seconds.is_some_and(|j| j < 1.0), "{receiver:?}");
}

/// A server in this process, on loopback, with its own clock.
struct Server {
    address: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<Result<(), TrafficError>>>,
}

impl Server {
    fn start(clock: Clock, log: &Path) -> Server {
        let (sender, receiver) = mpsc::channel();
        let stop = Stop::new();
        let inner = stop.clone();
        let config = ServerConfig {
            bind: vec!["127.0.0.1".parse().unwrap()],
            port: 0,
            packet_log: Some(log.into()),
            clock,
            ..ServerConfig::default()
        };
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

    fn config(&self, direction: Direction, seconds: u64, log: &Path) -> ClientConfig {
        let connection = Connection {
            transport: Transport::udp(),
            direction,
            duration: Some(Span(seconds * 1_000_000_000)),
            rate: Some("500pps".parse().unwrap()),
            payload: Some(ByteSize(64).into()),
            ..Connection::default()
        };
        let plan = Plan {
            port: Some(self.address.port()),
            connections: vec![connection],
            interval: Span(500_000_000),
            ..Plan::default()
        };
        ClientConfig { packet_log: Some(log.into()), ..ClientConfig::new(plan, "127.0.0.1") }
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

/// Readings of the two clocks at one moment: the closest of many pairs.
fn pair(injected: &Clock) -> (u64, u64) {
    (0..1000)
        .map(|_| {
            let before = Clock::System.monotonic_ns();
            let there = injected.monotonic_ns();
            let width = Clock::System.monotonic_ns() - before;
            (width, before + width / 2, there)
        })
        .min()
        .map(|(_, here, there)| (here, there))
        .unwrap()
}

#[test]
fn the_bound_holds_with_100_ppm_of_skew() {
    if !has_tools("the_bound_holds_with_100_ppm_of_skew", &["python3"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let [there, here] = ["server", "client"].map(|n| directory.path().join(n));
    for (direction, skew_ppb) in [(Direction::Forward, 100_000), (Direction::Reverse, -100_000)] {
        let injected = InjectedClock::new();
        injected.set_monotonic_offset_ns(500_000_000_000);
        injected.set_skew_ppb(skew_ppb);
        let clock = injected.clock();
        let before = pair(&clock);
        let server = Server::start(clock.clone(), &there);
        let record = run(server.config(direction, 3, &here), Stop::new(), &mut |_| {}).unwrap();
        drop(server);
        let after = pair(&clock);

        // Convert the server's times to the client's clock by the line through the two pairs.
        let slope = (after.0 - before.0) as f64 / (after.1 - before.1) as f64;
        let to_client =
            |ns: u64| before.0 as i64 + ((ns as i64 - before.1 as i64) as f64 * slope) as i64;
        let log = if direction == Direction::Forward { &there } else { &here };
        let true_ns: Vec<i64> = times(log)
            .into_iter()
            .map(|(sent, came)| match direction {
                Direction::Forward => to_client(came) - sent as i64,
                Direction::Reverse => came as i64 - to_client(sent),
            })
            .collect();
        assert!(
            true_ns.iter().all(|d| *d > -2000),
            "the test's true delays are wrong: {true_ns:?}"
        );
        bound_holds(&record, &true_ns, 2000.0);
        let relation = record.clock.as_ref().unwrap();
        assert!((relation.offset_seconds - 500.0).abs() < 0.1, "{relation:?}");
        assert!(record.warnings.iter().all(|w| w.code != "clock-stepped"), "{:?}", record.warnings);
    }
}

#[test]
fn a_step_of_the_clock_during_a_test_is_reported_and_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let [there, here] = ["server", "client"].map(|n| directory.path().join(n));
    for step_seconds in [-3i64, 3] {
        let injected = InjectedClock::new();
        let server = Server::start(injected.clock(), &there);
        let mut stepped = false;
        let record = run(server.config(Direction::Forward, 3, &here), Stop::new(), &mut |event| {
            if let (Event::Interval(_), false) = (&event, stepped) {
                injected.step_realtime_ns(step_seconds * 1_000_000_000);
                stepped = true;
            }
        })
        .unwrap();
        drop(server);
        let steps: Vec<_> = record.warnings.iter().filter(|w| w.code == "clock-stepped").collect();
        let told =
            steps.iter().any(|w| w.value.is_some_and(|v| (v - step_seconds as f64).abs() < 0.01));
        assert!(told, "{step_seconds}: {:?}", record.warnings);

        // All packets are counted, whatever their times are.
        let receiver = receiver(&record);
        assert_eq!(receiver.lost_packets, Some(0));
        assert_eq!((receiver.late_packets, receiver.duplicate_packets), (Some(0), Some(0)));
        // Times are off by at most the step, and only for packets read around its detection.
        let delay = receiver.one_way_delay.as_ref().unwrap();
        assert!(delay.min_seconds > -3.5 && delay.max_seconds < 3.5, "{delay:?}");
        // 1500 packets: an error of 3 s during one second would show in both figures.
        assert!(delay.mean_seconds.abs() < 0.3, "{delay:?}");
        assert!(delay.p99_seconds.unwrap().abs() < 0.5, "{delay:?}");
        // The monotonic clocks, by which the hosts are related, did not step: the offset is still zero.
        let clock = record.clock.as_ref().unwrap();
        assert!(clock.offset_seconds.abs() <= clock.error_seconds, "{clock:?}");
        let loaded = record.latency.as_ref().unwrap().loaded.as_ref().unwrap();
        assert!(loaded.min_seconds > 0.0 && loaded.max_seconds < 2.0, "{loaded:?}");
    }
}

/// Runs a test between two ends with injected clocks and the reports of a time service about each.
fn with_services(
    directory: &Path,
    error_ns: u64,
    lie_ns: i64,
    direction: Direction,
) -> (Record, Vec<i64>) {
    let [there, here] = ["server", "client"].map(|n| directory.join(n));
    let (near, far) = (InjectedClock::new(), InjectedClock::new());
    far.set_monotonic_offset_ns(AHEAD * 1_000_000_000);
    let bound = TimeBound { service: TimeService::Chrony, error_ns, growth_ppb: 1 };
    near.set_time_bound(Some(bound));
    far.set_time_bound(Some(TimeBound { service: TimeService::NtpKernel, ..bound }));
    far.step_realtime_ns(lie_ns);
    let server = Server::start(far.clock(), &there);
    let mut config = server.config(direction, 1, &here);
    config.clock = near.clock();
    let record = run(config, Stop::new(), &mut |_| {}).unwrap();
    drop(server);
    let ahead = AHEAD * 1_000_000_000;
    let (log, shift) = match direction {
        Direction::Forward => (&there, -ahead),
        Direction::Reverse => (&here, ahead),
    };
    let delays = times(log).into_iter().map(|(sent, came)| came as i64 - sent as i64 + shift);
    (record, delays.collect())
}

#[test]
fn time_services_bound_the_delay_if_they_are_tighter_than_probes() {
    if !has_tools("time_services_bound_the_delay_if_they_are_tighter_than_probes", &["python3"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // Far below half a round trip over loopback, even if that is 2 µs.
    const BOUND_NS: u64 = 50;
    for direction in [Direction::Forward, Direction::Reverse] {
        let (record, delays) = with_services(directory.path(), BOUND_NS, 0, direction);
        let clock = record.clock.as_ref().unwrap();
        assert_eq!(clock.method, "ntp");
        assert_eq!(clock.source.as_deref(), Some("chrony and ntp-kernel"), "{clock:?}");
        // The two bounds, their growth, and the reading errors of four clocks.
        assert!(clock.error_seconds >= 2e-9 * BOUND_NS as f64, "{clock:?}");
        assert!(clock.error_seconds < clock.min_round_trip_seconds.unwrap() / 2.0, "{clock:?}");
        assert!((clock.offset_seconds - AHEAD as f64).abs() <= clock.error_seconds, "{clock:?}");
        bound_holds(&record, &delays, 0.0);
        assert!(record.warnings.iter().all(|w| w.code != "clock-reference"));

        // A service with a wider bound than that of the probes is not used.
        let (record, delays) = with_services(directory.path(), 1_000_000_000, 0, direction);
        assert_eq!(record.clock.as_ref().unwrap().source.as_deref(), Some("probes"));
        bound_holds(&record, &delays, 0.0);
    }
}

#[test]
fn a_time_service_that_contradicts_the_probes_is_reported_and_not_used() {
    if !has_tools(
        "a_time_service_that_contradicts_the_probes_is_reported_and_not_used",
        &["python3"],
    ) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // Its clock is 3 s off, while it states a bound of half a microsecond.
    let (record, delays) = with_services(directory.path(), 500, 3_000_000_000, Direction::Forward);
    let clock = record.clock.as_ref().unwrap();
    assert_eq!(clock.source.as_deref(), Some("probes"), "{clock:?}");
    assert!((clock.offset_seconds - AHEAD as f64).abs() <= clock.error_seconds, "{clock:?}");
    bound_holds(&record, &delays, 0.0);
    let told: Vec<_> = record.warnings.iter().filter(|w| w.code == "clock-reference").collect();
    assert_eq!(told.len(), 1, "{:?}", record.warnings);
    assert!(told[0].value.is_some_and(|v| (v + 3.0).abs() < 0.1), "{told:?}");
}

#[test]
fn a_test_starts_without_a_relation_of_the_clocks() {
    let directory = tempfile::tempdir().unwrap();
    let [there, here] = ["server", "client"].map(|n| directory.path().join(n));
    let injected = InjectedClock::new();
    injected.set_monotonic_offset_ns(500_000_000_000);
    let server = Server::start(injected.clock(), &there);
    for direction in [Direction::Forward, Direction::Reverse] {
        // TCP only, and no round trips measured: nothing probes the clocks.
        let mut config = server.config(direction, 1, &here);
        config.plan.latency = false;
        config.plan.connections[0] = Connection {
            transport: Transport::tcp(),
            payload: None,
            duration: Some(Span(300_000_000)),
            rate: Some("10M".parse().unwrap()),
            ..config.plan.connections[0].clone()
        };
        let record = run(config, Stop::new(), &mut |_| {}).unwrap();
        assert_eq!(record.clock, None);
        let sender = record.flows[0].sender.as_ref().unwrap();
        assert!(sender.bytes > 0 && sender.bytes == receiver(&record).bytes, "{sender:?}");
    }
}
