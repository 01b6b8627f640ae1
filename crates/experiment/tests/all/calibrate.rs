//! A calibration from end to end, short: that each figure is there and possible, never how good it is.
#![cfg(target_os = "linux")]

use weir_experiment::calibrate::{Calibration, Options, calibrate};
use weir_net::namespace::effective_user_id;

fn short(lab: bool) -> Calibration {
    let options =
        Options { lab, wakeups: 30, slow_packets: 400, fast_packets: 500, rate_ns: 20_000_000 };
    let mut steps = 0;
    let found = calibrate("id", "2026-11-21T20:30:09.125Z", &options, &mut |_| steps += 1).unwrap();
    assert!(steps >= 5);
    assert!(found.figures.values().all(|v| v.is_finite()), "{:?}", found.figures);
    found
}

fn has(found: &Calibration, names: &[&str]) {
    for name in names {
        assert!(found.figures.contains_key(*name), "{name} is not in {:?}", found.figures);
    }
}

#[test]
fn over_loopback() {
    let found = short(false);
    has(
        &found,
        &[
            "clock_read_seconds",
            "clock_resolution_seconds",
            "stamp_mapping_error_seconds",
            "wakeup_late_p50_seconds",
            "wakeup_late_max_seconds",
            "loopback_one_way_delay_p50_seconds",
            "loopback_stamp_to_read_p50_seconds",
            "loopback_spacing_1000pps_seconds",
            "loopback_spacing_50000pps_seconds",
            "missed_slots_50000pps_ratio",
            "loopback_udp_per_packet_packets_per_second",
            "loopback_udp_send_cost_seconds",
            "loopback_tcp_bits_per_second",
        ],
    );
    // Too few samples for a 99th percentile: absent, not guessed.
    assert!(found.figures.keys().all(|name| !name.contains("p99") && !name.starts_with("lab_")));
    // A time can't be read before the kernel has the packet, nor a wake-up come early.
    assert!(found.figures["loopback_stamp_to_read_p50_seconds"] > 0.0);
    assert!(found.figures["wakeup_late_p50_seconds"] >= 0.0);
    let reference = found.to_reference();
    assert_eq!((reference.id.as_str(), reference.noise_floor), ("id", found.figures));
}

#[test]
fn between_two_hosts() {
    if effective_user_id() != 0 {
        eprintln!("SKIPPED between_two_hosts: needs root");
        return;
    }
    let found = short(true);
    if found.warnings.iter().any(|w| w.code == "loopback-only") {
        assert!(std::env::var_os("CI").is_none(), "{:?}", found.warnings);
        eprintln!("SKIPPED between_two_hosts: {:?}", found.warnings);
        return;
    }
    has(
        &found,
        &[
            "lab_one_way_delay_p50_seconds",
            "lab_spacing_1000pps_seconds",
            "lab_udp_per_packet_packets_per_second",
            "lab_tcp_bits_per_second",
            "loopback_one_way_delay_p50_seconds",
        ],
    );
    assert!(!found.figures.contains_key("loopback_tcp_bits_per_second"));
}
