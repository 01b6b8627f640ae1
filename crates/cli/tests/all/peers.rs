//! iperf3, ping and Weir measure the same lab, and their results agree within their spread.
//!
//! The tools measure alternately, several times, so that a disturbance of the machine affects both. The difference between
//! them must be within the range of their figures, or within the error of the mean.

use crate::common;
use common::{Bench, Running};
use serde_json::Value;

/// Runs iperf3 from host a to host b and returns its result.
fn iperf3(bench: &Bench, words: &[&str]) -> Value {
    let mut command = bench.lab.command("b", "iperf3").unwrap();
    // Unbuffered, so that its first line shows that it listens.
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

/// Maximum number of attempts, since iperf3 on a busy machine may lose or not send packets on a path without loss.
const MAX_ATTEMPTS: usize = 6;

#[test]
fn a_paced_rate_is_iperf3s() {
    let Some(mut bench) = Bench::alone("a_paced_rate_is_iperf3s", &["iperf3"]) else { return };
    bench.serve(&[]);
    // Its socket has the default buffer, which overflows when a busy machine stalls, at 10 Mbit/s for 100 ms: retry then.
    let words = ["-u", "-b", "10M", "-l", "1400", "-t", "2"];
    // Nor does it make up for packets that a stall at the end prevented.
    let whole = |sum: &Value| {
        number(&sum["lost_packets"]) < 0.01 * number(&sum["packets"])
            && number(&sum["bits_per_second"]) > 0.99 * 10e6
    };
    let mut sums = (0..MAX_ATTEMPTS).map(|_| iperf3(&bench, &words)["end"]["sum"].clone());
    let theirs = sums.find(whole).expect("iperf3 lost or kept back 1 % each time");
    drop(sums);
    // Weir skips and counts slots that a busy machine makes it miss: allow the same number, with the same number of attempts.
    let mut missed = vec![];
    let record = (0..MAX_ATTEMPTS).map(|_| bench.test(&words)).find(|record| {
        let sender = record.flows[0].sender.as_ref().unwrap();
        missed.push((sender.missed_slots.unwrap(), sender.packets));
        missed.last().is_some_and(|(missed, sent)| (*missed as f64) < 0.01 * *sent as f64)
    });
    let record = record.unwrap_or_else(|| panic!("1 % of the slots missed each time: {missed:?}"));
    let ours = record.total.forward.as_ref().unwrap().receiver.as_ref().unwrap();
    assert_eq!(ours.lost_packets, Some(0));
    let sender = record.flows[0].sender.as_ref().unwrap();
    // The skipped slots are not an error of the pacing.
    let slots = sender.packets + sender.missed_slots.unwrap();
    let ours = ours.bits_per_second.unwrap() * slots as f64 / sender.packets as f64;
    let theirs = number(&theirs["bits_per_second"]);
    assert!((ours / theirs - 1.0).abs() < 0.01, "weir {ours}, iperf3 {theirs} bit/s: {sender:?}");
}

/// Minimum number of rounds.
const ROUNDS: usize = 3;

/// Maximum number of rounds, for a busy machine on which the figures scatter.
const MAX_ROUNDS: usize = 40;

/// The median.
fn median(figures: &[f64]) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The difference between maximum and minimum.
fn spread(figures: &[f64]) -> f64 {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    figures.iter().copied().fold(0.0, f64::max) - least
}

/// An upper bound of how far the mean of ratios is from 1: its distance plus three standard errors.
fn distance_at_most(ratios: &[f64]) -> f64 {
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let variance = ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean - 1.0).abs() + 3.0 * (variance / n).sqrt()
}

/// TCP through a path of 50 Mbit/s in both directions, so that the path is the limit. The tools must agree within 5 %; on a
/// busy machine, where figures scatter, that takes more rounds. A figure that is wrong by 5 % passes only if the mean is
/// three standard errors off.
#[test]
fn tcp_through_a_narrow_path_is_iperf3s() {
    let Some(mut bench) = Bench::alone("tcp_through_a_narrow_path_is_iperf3s", &["iperf3", "tc"])
    else {
        return;
    };
    for host in ["a", "b"] {
        let narrow = "qdisc add dev eth0 root tbf rate 50mbit burst 32k latency 50ms";
        bench.tool(host, "tc", &narrow.split(' ').collect::<Vec<_>>());
    }
    bench.serve(&[]);
    for direction in [&[][..], &["-R"]] {
        let mut figures: Vec<[f64; 2]> = vec![];
        loop {
            // Without the first second, in which the queue fills.
            let words = [&["-t", "2", "-O", "1"], direction].concat();
            let theirs = &iperf3(&bench, &words)["end"]["sum_received"]["bits_per_second"];
            let total = bench.test(&words).total;
            let ours = total.forward.or(total.reverse).unwrap().receiver.unwrap().bits_per_second;
            figures.push([ours.unwrap(), number(theirs)]);
            let ratios: Vec<f64> = figures.iter().map(|[ours, theirs]| ours / theirs).collect();
            if ratios.len() >= ROUNDS && distance_at_most(&ratios) <= 0.05 {
                break;
            }
            assert!(ratios.len() < MAX_ROUNDS, "{direction:?}: weir and iperf3 {figures:?}");
        }
    }
}

#[test]
fn the_idle_round_trip_is_pings() {
    let Some(mut bench) = Bench::alone("the_idle_round_trip_is_pings", &["ping"]) else { return };
    bench.serve(&[]);
    let (mut medians, mut ours, mut theirs) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let record = bench.test(&["-t", "100ms", "-b", "1M"]);
        let idle = record.latency.as_ref().unwrap().idle.as_ref().unwrap();
        medians.extend(idle.p50_seconds);
        ours.extend([idle.min_seconds, idle.max_seconds]);
        let text = bench.tool("a", "ping", &["-n", "-c", "40", "-i", "0.005", &bench.b()]);
        let times = text.lines().filter_map(|l| l.split_once("time=")?.1.split(' ').next());
        let times: Vec<f64> = times.map(|t| t.parse::<f64>().unwrap() / 1e3).collect();
        assert_eq!(times.len(), 40, "{text}");
        theirs.extend(times);
    }
    // ping's times include its own system call; ours are from the kernel's stamps on both hosts.
    let (apart, own) = (median(&medians) - median(&theirs), spread(&ours) + spread(&theirs));
    assert!(apart.abs() <= own, "weir {medians:?} in {ours:?}, ping {theirs:?} s");
    // On such a short path the spread is as large as the time itself.
    let ratio = median(&medians) / median(&theirs);
    assert!((0.2..5.0).contains(&ratio), "weir {medians:?}, ping {theirs:?} s");
}
