//! Jitter and delay figures compared with an independent script: floating-point values must be equal.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::process::Command;

use weir_stats::{DelaySummary, Ipdv, Jitter, SequenceConfig, SequenceTracker};

/// SplitMix64: a fixed sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ (value >> 31)) % bound
    }
}

/// Packets in order of arrival: 2 % lost, a tail of long delays, some overtaken by up to 200 others.
fn packets() -> Vec<(u64, u64, u64)> {
    let mut random = Random(7);
    let mut packets: Vec<(u64, u64, u64)> = (0..5000u64)
        .filter_map(|number| {
            let sent = 9_000_000_000_000 + number * 100_000;
            let tail = if random.below(40) == 0 { random.below(20_000_000) } else { 0 };
            let delay = 1_000_000 + random.below(30_000) + tail;
            (random.below(50) != 0).then_some((number, sent, sent + delay))
        })
        .collect();
    packets.sort_by_key(|&(_, _, received)| received);
    packets
}

#[test]
fn the_script_agrees() {
    let packets = packets();
    let (mut jitter, mut delay, mut ipdv) = (Jitter::new(), DelaySummary::new(), Ipdv::new());
    let mut tracker = SequenceTracker::new(SequenceConfig::default());
    let mut list = String::new();
    for &(number, sent, received) in &packets {
        jitter.on_packet(sent, received);
        delay.record((received - sent) as i64);
        tracker.on_packet(number, received);
        ipdv.record(number, (received - sent) as i64, &tracker);
        writeln!(list, "{number},{sent},{received}").unwrap();
    }
    assert!(packets.is_sorted_by_key(|packet| packet.2) && !packets.is_sorted());

    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("recompute.csv");
    std::fs::write(&file, list).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recompute.py");
    let output = match Command::new("python3").arg(script).arg(&file).output() {
        Ok(output) => output,
        Err(error) if std::env::var_os("CI").is_none() => {
            eprintln!("SKIPPED the_script_agrees: python3: {error}");
            return;
        }
        Err(error) => panic!("python3: {error}"),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let theirs: HashMap<&str, &str> =
        text.lines().filter_map(|line| line.split_once(' ')).collect();
    let float = |name: &str| theirs[name].parse::<f64>().ok();
    let integer = |name: &str| theirs[name].parse::<i64>().unwrap();

    assert_eq!(jitter.ns(), float("jitter_ns"));
    assert_eq!(delay.min_ns(), Some(integer("min_ns")));
    assert_eq!(delay.max_ns(), Some(integer("max_ns")));
    assert_eq!(delay.mean_ns(), float("mean_ns"));
    assert_eq!(delay.pdv_mean_ns(), float("pdv_mean_ns"));
    assert_eq!(ipdv.count() as i64, integer("ipdv_count"));
    assert_eq!(ipdv.mean_ns(), float("ipdv_mean_ns"));
    // Percentiles come from cells of 1/1024 of the value (of the distance from the origin, for delays).
    for (ours, name) in [
        (delay.quantile_ns(0.99).unwrap(), "p99_ns"),
        (delay.pdv_quantile_ns(0.99).unwrap() as i64, "pdv_p99_ns"),
        (ipdv.quantile_ns(0.99).unwrap() as i64, "ipdv_p99_ns"),
    ] {
        let tolerance =
            if name == "p99_ns" { integer("pdv_p99_ns") } else { integer(name) } / 1024 + 1;
        assert!((ours - integer(name)).abs() <= tolerance, "{name}: {ours} for {}", integer(name));
    }
}
