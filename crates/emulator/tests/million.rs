//! A million small packets held take no more than 300 MiB, everything counted.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // a helper outside #[test] that can't go on is a failed test

mod counting;

use std::sync::atomic::Ordering::Relaxed;

use counting::{frame, link, live_bytes, until};
use weir_emulator::{Emulator, EmulatorConfig};
use weir_model::impairment::Impairment;

const PACKETS: u64 = 1_000_000;

#[test]
fn a_million_small_packets_held_take_at_most_300_mib() {
    for laws in [
        "delay 1h",
        "delay 1h ±1s normal allow",
        "delay 1h ±1s normal",
        "delay 1h, rate 1G queue 1h",
    ] {
        let before = live_bytes();
        let (a, gives) = link("A", vec![frame(1)]);
        let (b, _takes) = link("B", vec![]);
        let config = EmulatorConfig::new("A", "B", Impairment::of_both(laws.parse().unwrap()));
        let emulator = Emulator::between([a, b], config).unwrap();
        gives.to_give.store(PACKETS, Relaxed);
        let held = || emulator.report().unwrap().directions[0].held_packets;
        until("all are in", || gives.to_give.load(Relaxed) == 0 && held() == PACKETS);
        let taken = live_bytes() - before;
        // The counter sees the queued packets: at least the frames' own bytes.
        assert!(taken > 60 * PACKETS, "{laws}: {taken}");
        assert!(taken <= 300 << 20, "{laws}: {} MiB", taken >> 20);
        let report = emulator.report().unwrap();
        assert_eq!(report.directions[0].unplanned_dropped_packets, 0, "{laws}");
        emulator.remote().abort();
        drop(emulator);
    }
}
