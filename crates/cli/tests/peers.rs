//! iperf3 and ping on the same lab: they and Weir measure the same network.
//!
//! Bounds are wide where the machine decides (TCP, round trips) and narrow where the plan does (a paced rate).
#![allow(clippy::unwrap_used)] // a helper outside #[test] that can't go on is a failed test

mod common;

use common::{Bench, Running};
use serde_json::Value;

/// Runs iperf3 from host a to host b and gives its result.
fn iperf3(bench: &Bench, words: &[&str]) -> Value {
    let mut command = bench.lab.command("b", "iperf3").unwrap();
    // Unbuffered, so that its first line tells that it listens.
    let (log, port) = (bench.file("iperf3.log"), "5201");
    let _ = std::fs::remove_file(&log);
    command.args(["-s", "-1", "-p", port, "--forceflush", "--logfile"]).arg(&log);
    let server = Running::start(command);
    common::until("iperf3 listens", || {
        std::fs::read_to_string(&log).unwrap_or_default().contains("Server listening")
    });
    let text = bench.tool("a", "iperf3", &[&["-c", &bench.b(), "-p", port, "-J"], words].concat());
    assert!(server.finish().status.success());
    serde_json::from_str(&text).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

#[test]
fn a_paced_rate_is_iperf3s() {
    let Some(mut bench) = Bench::up("a_paced_rate_is_iperf3s", &["iperf3"]) else { return };
    bench.serve(&[]);
    let words = ["-u", "-b", "50M", "-l", "1400", "-t", "2"];
    let theirs = &iperf3(&bench, &words)["end"]["sum"];
    let record = bench.test(&words);
    let total = record.total.forward.as_ref().unwrap();
    let ours = total.receiver.as_ref().unwrap();
    assert_eq!(ours.lost_packets, Some(0));
    // Its socket has the default buffer, which a stall of a busy machine fills.
    let (lost, all) = (number(&theirs["lost_packets"]), number(&theirs["packets"]));
    assert!(lost < 0.01 * all, "iperf3 lost {lost} of {all}");
    // A slot that a busy machine made us miss is skipped and counted; iperf3 sends it late.
    let sender = record.flows[0].sender.as_ref().unwrap();
    let slots = sender.packets + sender.missed_slots.unwrap();
    let ours = ours.bits_per_second.unwrap() * slots as f64 / sender.packets as f64;
    let theirs = number(&theirs["bits_per_second"]);
    assert!((ours / theirs - 1.0).abs() < 0.01, "weir {ours}, iperf3 {theirs} bit/s: {sender:?}");
}

#[test]
fn tcp_is_of_iperf3s_order() {
    let Some(mut bench) = Bench::up("tcp_is_of_iperf3s_order", &["iperf3"]) else { return };
    bench.serve(&[]);
    for direction in [&[][..], &["-R"]] {
        let words = [&["-t", "1"], direction].concat();
        let theirs = number(&iperf3(&bench, &words)["end"]["sum_received"]["bits_per_second"]);
        let record = bench.test(&words);
        let total = [record.total.forward.as_ref(), record.total.reverse.as_ref()];
        let total = total.into_iter().flatten().next().unwrap();
        let (sent, received) = (total.sender.as_ref().unwrap(), total.receiver.as_ref().unwrap());
        assert_eq!(sent.bytes, received.bytes);
        let ratio = received.bits_per_second.unwrap() / theirs;
        assert!((1.0 / 3.0..3.0).contains(&ratio), "{words:?}: {ratio} of iperf3's {theirs}");
    }
}

#[test]
fn the_idle_round_trip_is_pings() {
    let Some(mut bench) = Bench::up("the_idle_round_trip_is_pings", &["ping"]) else { return };
    bench.serve(&[]);
    let record = bench.test(&["-t", "100ms", "-b", "1M"]);
    let ours = record.latency.as_ref().unwrap().idle.as_ref().unwrap();
    let text = bench.tool("a", "ping", &["-n", "-c", "40", "-i", "0.005", &bench.b()]);
    let mut theirs: Vec<f64> = text
        .lines()
        .filter_map(|l| l.split_once("time=")?.1.split(' ').next()?.parse().ok())
        .collect();
    assert_eq!(theirs.len(), 40, "{text}");
    theirs.sort_by(f64::total_cmp);
    let (ours, theirs) = (ours.p50_seconds.unwrap(), theirs[20] / 1e3);
    assert!((0.2..5.0).contains(&(ours / theirs)), "weir {ours}, ping {theirs} s");
}
