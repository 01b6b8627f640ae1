//! Measurements of known impairments: loss by nftables, and a queue of tbf.

use crate::common;
use std::collections::BTreeMap;

use common::{Bench, run};
use serde_json::Value;
use weir_model::record::Record;

/// Rules that drop some of the data datagrams (8 + 200 bytes) as they reach host b, and count both all and the dropped.
fn rules(which: &str) -> String {
    format!(
        "table inet weir {{
            counter seen {{}}
            counter dropped {{}}
            chain input {{
                type filter hook input priority 0;
                udp dport 9347 udp length 208 counter name seen {which} counter name dropped drop
            }}
        }}"
    )
}

const LOSSY: [&str; 8] = ["-u", "-b", "4000pps", "-l", "200", "--loss-threshold", "1s", "-k"];

/// Sent, received and lost packets of the only flow, after checks that hold for any loss.
fn counts(record: &Record) -> (u64, u64, u64) {
    let (sender, receiver) =
        (record.flows[0].sender.as_ref().unwrap(), record.flows[0].receiver.as_ref().unwrap());
    let lost = receiver.lost_packets.unwrap();
    assert_eq!(sender.packets, receiver.packets + lost);
    let ratio = lost as f64 / sender.packets as f64;
    assert!((receiver.loss_ratio.unwrap() - ratio).abs() < 1e-12);
    assert_eq!(receiver.ambiguous, Some(false));
    assert_eq!((receiver.late_packets, receiver.duplicate_packets), (Some(0), Some(0)));
    assert_eq!((receiver.reordered_packets, receiver.corrupted_packets), (Some(0), Some(0)));
    let by_interval: u64 =
        record.intervals.iter().filter_map(|i| i.flows[0].receiver.as_ref()?.lost_packets).sum();
    assert_eq!(by_interval, lost);
    (sender.packets, receiver.packets, lost)
}

fn runs(record: &Record) -> BTreeMap<u64, u64> {
    let runs = record.flows[0].receiver.as_ref().unwrap().loss_periods.as_ref().unwrap();
    runs.iter().map(|(length, count)| (length.parse().unwrap(), *count)).collect()
}

/// A packet filter's drops are in no counter that Weir reads: the ledger must leave them as its remainder.
fn is_left_as_remainder(record: &Record, lost: u64) {
    let ledger = record.loss_ledger.as_ref().unwrap();
    assert_eq!(ledger.missing_packets, lost as i64);
    assert_eq!((ledger.remainder_packets, &ledger.rows), (lost as i64, &vec![]));
}

/// The minimum and maximum number of successes in n trials, excluding a probability of `tail` at each end.
fn binomial_bounds(n: u64, p: f64, tail: f64) -> (u64, u64) {
    let mut probability = (1.0 - p).powi(n as i32);
    let (mut below, mut least) = (0.0, None);
    for k in 0..=n {
        below += probability;
        if least.is_none() && below > tail {
            least = Some(k);
        }
        if 1.0 - below < tail {
            return (least.unwrap_or(k), k);
        }
        probability *= (n - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
    }
    (least.unwrap_or(n), n)
}

#[test]
fn random_loss_equals_the_filters_counter() {
    let Some(mut bench) = Bench::alone("random_loss_equals_the_filters_counter", &["nft"]) else {
        return;
    };
    bench.serve(&[]);
    bench.nft("b", &rules("numgen random mod 100 < 5"));
    let record = bench.test(&[&LOSSY[..], &["4000"]].concat());
    let (sent, _, lost) = counts(&record);
    assert_eq!(sent, 4000);
    assert_eq!(bench.nft_counter("b", "inet", "seen").0, sent);
    assert_eq!(bench.nft_counter("b", "inet", "dropped").0, lost);
    let (least, most) = binomial_bounds(sent, 0.05, 1e-9);
    assert!(least > 100 && most < 320, "the bounds are too wide: {least} to {most}");
    assert!((least..=most).contains(&lost), "{lost} of {sent}, not {least} to {most}");
    assert_eq!(runs(&record).iter().map(|(length, count)| length * count).sum::<u64>(), lost);
    is_left_as_remainder(&record, lost);
}

#[test]
fn losing_every_tenth_gives_bursts_of_one() {
    let Some(mut bench) = Bench::alone("losing_every_tenth_gives_bursts_of_one", &["nft"]) else {
        return;
    };
    bench.serve(&[]);
    // The first datagram is lost, then every tenth.
    bench.nft("b", &rules("numgen inc mod 10 == 0"));
    let record = bench.test(&[&LOSSY[..], &["2000"]].concat());
    let (sent, received, lost) = counts(&record);
    assert_eq!((sent, received, lost), (2000, 1800, 200));
    assert_eq!(bench.nft_counter("b", "inet", "dropped").0, 200);
    assert_eq!(runs(&record), BTreeMap::from([(1, 200)]));
    is_left_as_remainder(&record, 200);
}

#[test]
fn runs_and_a_lost_tail_are_reported() {
    let Some(mut bench) = Bench::alone("runs_and_a_lost_tail_are_reported", &["nft"]) else {
        return;
    };
    bench.serve(&[]);
    // The last three of every twenty, hence also the last three of the 1000 sent.
    bench.nft("b", &rules("numgen inc mod 20 >= 17"));
    let record = bench.test(&[&LOSSY[..], &["1000"]].concat());
    assert_eq!(counts(&record), (1000, 850, 150));
    assert_eq!(runs(&record), BTreeMap::from([(3, 50)]));
    is_left_as_remainder(&record, 150);
}

/// Asserts that tbf on `side`'s eth0 dropped all lost packets, and that the ledger has the kernel's count.
fn is_placed_in_the_queue(record: &Record, side: &str, dropped: u64) {
    let ledger = record.loss_ledger.as_ref().unwrap();
    assert_eq!(ledger.rows.len(), 1, "{ledger:?}");
    let row = &ledger.rows[0];
    assert_eq!((row.stage.as_str(), row.kind.as_str()), ("qdisc", "bound"));
    assert_eq!(row.source, "qdisc tbf drops on eth0 (RTM_GETQDISC)");
    assert_eq!((row.side.as_deref(), row.packets), (Some(side), dropped));
    assert_eq!(ledger.remainder_packets, 0, "{ledger:?}");
}

#[test]
fn drops_of_a_short_queue_are_attributed_to_it_at_either_end() {
    let test = "drops_of_a_short_queue_are_attributed_to_it_at_either_end";
    let Some(mut bench) = Bench::alone(test, &["tc"]) else { return };
    bench.serve(&[]);
    let shape = "qdisc add dev eth0 root tbf rate 2mbit burst 4kb limit 6000";
    for (host, side, more) in [("a", "local", None), ("b", "remote", Some("-R"))] {
        bench.tool(host, "tc", &shape.split(' ').collect::<Vec<_>>());
        let words = ["-u", "-b", "4000pps", "-l", "500", "-k", "2000", "--loss-threshold", "1s"];
        let words: Vec<&str> = words.into_iter().chain(more).collect();
        let record = bench.test(&words);
        let text = bench.tool(host, "tc", &["-s", "-j", "qdisc", "show", "dev", "eth0"]);
        let qdisc: Value = serde_json::from_str(&text).unwrap();
        let (_, _, lost) = counts(&record);
        assert!(lost > 500, "{lost}");
        is_placed_in_the_queue(&record, side, qdisc[0]["drops"].as_u64().unwrap());
        bench.tool(host, "tc", &["qdisc", "del", "dev", "eth0", "root"]);
    }
}

/// Bytes of a full frame as counted by tbf: without frame check sequence.
const FRAME: f64 = 1514.0;
const RATE: f64 = 10e6;

#[test]
fn a_queue_of_tbf_shows_in_rate_delay_and_loss() {
    let Some(mut bench) = Bench::alone("a_queue_of_tbf_shows_in_rate_delay_and_loss", &["tc"])
    else {
        return;
    };
    bench.serve(&[]);
    let shape = "qdisc add dev eth0 root tbf rate 10mbit burst 32kb latency 400ms";
    bench.tool("a", "tc", &shape.split(' ').collect::<Vec<_>>());
    let words = ["-u", "-b", "20M", "-l", "1472", "-t", "4", "-i", "250ms"];
    let record = bench.test(&[&words[..], &["--gso", "off", "--loss-threshold", "1s"]].concat());
    let text = bench.tool("a", "tc", &["-s", "-j", "qdisc", "show", "dev", "eth0"]);
    let qdisc: Value = serde_json::from_str(&text).unwrap();
    let dropped = qdisc[0]["drops"].as_u64().unwrap();
    let (sender, receiver) =
        (record.flows[0].sender.as_ref().unwrap(), record.flows[0].receiver.as_ref().unwrap());

    // The rate, once the initial tokens are spent and the queue is full. The bucket holds 26 ms, so a longer stall of the
    // machine reduces the rate of one interval: take the median of many.
    let steady: Vec<_> =
        record.intervals.iter().filter(|i| i.start_seconds > 0.9 && i.end_seconds < 4.1).collect();
    assert!(steady.len() >= 11, "{}", steady.len());
    let rates = steady.iter().map(|i| {
        let packets = i.flows[0].receiver.as_ref().unwrap().packets;
        packets as f64 * FRAME * 8.0 / (i.end_seconds - i.start_seconds)
    });
    let mut rates: Vec<f64> = rates.collect();
    rates.sort_by(f64::total_cmp);
    let rate = rates[rates.len() / 2];
    assert!((rate / RATE - 1.0).abs() < 0.03, "{rates:?} bit/s through {RATE} bit/s");

    // The delay: near zero at first, later the whole queue of 400 ms plus the bucket.
    let delay = receiver.one_way_delay.as_ref().unwrap();
    let full = 0.4 + 32.0 * 1024.0 * 8.0 / RATE;
    assert!(delay.min_seconds < 0.1, "{delay:?}");
    assert!(delay.max_seconds > 0.3 && delay.max_seconds < full + 0.1, "{delay:?} {full}");
    let first = record.intervals[0].flows[0].receiver.as_ref().unwrap().mean_delay_seconds;
    let last = steady[steady.len() - 1].flows[0].receiver.as_ref().unwrap().mean_delay_seconds;
    assert!(last.unwrap() > 1.5 * first.unwrap(), "{first:?} {last:?}");

    // The loss: the queue's drops, which include probes.
    let lost = receiver.lost_packets.unwrap();
    let probes = record.latency.as_ref().unwrap();
    assert_eq!(sender.packets, receiver.packets + lost);
    assert!(lost > 200, "{lost}");
    assert!(dropped >= lost && dropped <= lost + probes.lost + 5, "{dropped} {lost} {probes:?}");

    is_placed_in_the_queue(&record, "local", dropped);

    // The round trip: idle without the queue, loaded with it.
    let (idle, loaded) = (probes.idle.as_ref().unwrap(), probes.loaded.as_ref().unwrap());
    assert!(idle.min_seconds < 0.1, "{idle:?}");
    assert!(loaded.max_seconds > 0.25, "{loaded:?}");
    assert!(loaded.mean_seconds > 5.0 * idle.mean_seconds, "{idle:?} {loaded:?}");
}

#[test]
fn processor_time_is_reported_separately_for_sending_and_waiting() {
    let test = "processor_time_is_reported_separately_for_sending_and_waiting";
    let Some(mut bench) = Bench::alone(test, &["nft"]) else { return };
    bench.serve(&[]);
    bench.nft("b", &rules("numgen inc mod 10 == 9"));
    let words = ["-u", "-b", "4000pps", "-l", "200", "--loss-threshold", "4s", "-k", "2000"];
    let record = bench.test(&words);
    assert_eq!(counts(&record), (2000, 1800, 200));
    let sent = record.flows[0].sender.as_ref().unwrap().seconds;
    let cpu = record.cpu.as_ref().unwrap();
    for end in [cpu.local.as_ref().unwrap(), cpu.remote.as_ref().unwrap()] {
        // The last datagram is declared lost after 4 s; both ends learn of the end of sending in far less than half of that.
        assert!(end.seconds >= 0.9 * sent && end.seconds < sent + 2.0, "{sent} {end:?}");
        assert!(end.waiting_seconds.unwrap() > 2.0, "{end:?}");
        assert!(end.waiting_process_ratio.is_some());
    }
}

#[test]
fn intervals_of_an_outage_add_up_to_the_loss() {
    let test = "intervals_of_an_outage_add_up_to_the_loss";
    let Some(mut bench) = Bench::alone(test, &["nft"]) else { return };
    bench.serve(&[]);
    // A second without arrivals: the lines of its intervals can't show the loss yet.
    bench.nft("b", &rules("numgen inc mod 4000 { 1000-2999 }"));
    let words = ["-u", "-b", "2000pps", "-l", "200", "-k", "4000", "-i", "0.25", "--json-stream"];
    let text = run(bench.test_command(&words)).good();
    let events: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let of = |event: &'static str| events.iter().filter(move |e| e["event"] == event);
    let record: Record = serde_json::from_value(of("end").next().unwrap()["data"].clone()).unwrap();
    assert_eq!(counts(&record), (4000, 2000, 2000));
    let lost = |counts: &Value| {
        let part = |name: &str| counts[name].as_i64().unwrap_or(0);
        assert_eq!(counts.get("lost_before_packets"), None, "{counts}");
        part("lost_packets") + part("earlier_lost_packets")
    };
    let lines: Vec<&Value> = of("interval").map(|e| &e["data"]).collect();
    assert!(lines.len() >= 8, "{lines:?}");
    let flow: i64 = lines.iter().map(|i| lost(&i["flows"][0]["receiver"])).sum();
    let total: i64 = lines.iter().map(|i| lost(&i["total"]["forward"]["receiver"])).sum();
    assert_eq!((flow, total), (2000, 2000), "{lines:?}");
}
