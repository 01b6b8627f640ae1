//! Packets per second through an emulator between links in memory, with one and with two threads of one direction: how the
//! throughput grows with threads. `cargo run --release -p weir-emulator --example threads [LAWS]`

#[cfg(target_os = "linux")]
#[allow(clippy::unwrap_used, reason = "a part of tests")]
#[path = "../tests/counting/mod.rs"]
mod counting;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};
    use weir_emulator::{Emulator, EmulatorConfig, Scheduling};
    use weir_model::impairment::Impairment;

    const PACKETS: u64 = 8_000_000;
    let laws = std::env::args().nth(1).unwrap_or_else(|| "none".into());
    let frame = |port: u8| {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 46, 0, 7, 0, 0];
        frame.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x30, 0x39, 0x30, port, 0, 26, 0, 0]);
        frame.resize(60, 0);
        frame
    };
    let impairment = Impairment::of_both(laws.parse()?);
    let run = |threads: u64| -> Result<(f64, u64), weir_emulator::EmulatorError> {
        let config = EmulatorConfig {
            scheduling: Scheduling::Normal,
            ..EmulatorConfig::new("A", "B", impairment.clone())
        };
        let mut links = Vec::new();
        let mut ends = Vec::new();
        for thread in 0..threads {
            let (a, given) = counting::link("A", vec![frame(thread as u8)]);
            let (b, sent) = counting::link("B", vec![]);
            links.push([a, b]);
            ends.push((given, sent));
        }
        let emulator = Emulator::between_several(links, config)?;
        let start = Instant::now();
        for (given, _) in &ends {
            given.to_give.store(PACKETS / threads, Ordering::Relaxed);
        }
        loop {
            let report = emulator.report()?;
            let direction = &report.directions[0];
            if direction.received_packets >= PACKETS && direction.held_packets == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let rate = PACKETS as f64 / start.elapsed().as_secs_f64();
        let lost = emulator.finish("done").report.directions[0].unplanned_dropped_packets;
        Ok((rate, lost))
    };
    for _ in 0..3 {
        let (one, _) = run(1)?;
        let (two, lost) = run(2)?;
        let (one_m, two_m, ratio) = (one / 1e6, two / 1e6, two / one);
        println!(
            "{laws}: 1 thread {one_m:.2} M/s, 2 threads {two_m:.2} M/s ({lost} lost), ratio {ratio:.2}"
        );
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {}
