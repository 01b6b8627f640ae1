//! Prints the engine's cost in ns per packet: `engine_hot MODE [PACKETS]`, with a mode below, `all`, or laws in one line. Under callgrind, run it with two
//! numbers of packets: the difference excludes start and end.

use std::time::Instant;

use weir_impair::{Disposition, Engine, Meta};
use weir_laws::Direction;
use weir_model::impairment::{Filter, ImpairFlow, Impairment, Laws, Ranges};

/// Each stage that has a cost for every packet.
const MIX: &str = "loss 1%, rate 20G, delay 1ms ±100us normal fifo-release";

const MODES: [(&str, usize, &str); 13] = [
    ("mix", 0, MIX),
    ("mix-16", 16, MIX),
    ("mix-1000", 1000, MIX),
    ("none", 0, "none"),
    ("flows-16", 16, "none"),
    ("flows-1000", 1000, "none"),
    ("misses-16", 16, "none"),
    ("misses-1000", 1000, "none"),
    ("loss", 0, "loss 1%"),
    ("delay", 0, "delay 10ms"),
    ("rate", 0, "rate 10G"),
    ("jitter", 0, "delay 10ms ±1ms normal allow"),
    ("fifo", 0, "delay 10ms ±1ms normal fifo-release"),
];

/// A UDP frame of 60 bytes to a port and an address.
fn frame(port: u16, host: u8) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14..34]
        .copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, host, 10, 0, 0, 2]);
    frame[34..36].copy_from_slice(&9u16.to_be_bytes());
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame[38..40].copy_from_slice(&26u16.to_be_bytes());
    frame
}

fn engine(flows: usize, laws: &str, each: bool) -> Result<Engine, Box<dyn std::error::Error>> {
    let mut config = Impairment::of_both(laws.parse()?);
    let own = if each { config.other.a_to_b.clone() } else { Laws::default() };
    config.memory = Some("1G".parse()?);
    for n in 0..flows as u32 {
        config.flows.push(ImpairFlow {
            name: format!("flow-{n}"),
            filter: Some(Filter {
                destination_port: Some(Ranges(vec![(n + 1, n + 1)]).into()),
                destination: Some("10.0.0.0/24".parse()?),
                protocol: Some("udp".parse()?),
                ..Filter::default()
            }),
            a_to_b: own.clone(),
            ..ImpairFlow::default()
        });
    }
    Ok(Engine::new(&config, Direction::Forward)?)
}

fn run(
    mode: &str,
    flows: usize,
    laws: &str,
    packets: u64,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut engine = engine(flows, laws, mode.starts_with("mix"))?;
    let misses = mode.starts_with("misses");
    let frames: Vec<[u8; 60]> =
        (0..flows.max(1)).map(|n| frame(n as u16 + 1, (n / 250) as u8)).collect();
    let mut uncached: Vec<[u8; 60]> = (0..64).map(|n| frame(1, n as u8)).collect();
    let mut metas: Vec<Meta> = Vec::with_capacity(64);
    let mut dispositions: Vec<Disposition> = Vec::with_capacity(1 << 16);
    let (mut now, mut at, mut out) = (0u64, 0usize, 0usize);
    let start = Instant::now();
    for batch in 0..packets / 64 {
        metas.clear();
        dispositions.clear();
        for i in 0..64 {
            now += 1000;
            let frame = if misses {
                // Another source port each time, so that it is never cached.
                let frame = &mut uncached[i as usize];
                frame[34..36].copy_from_slice(&(batch as u16).to_be_bytes());
                frame[30..32].copy_from_slice(&[10, (batch >> 16) as u8]);
                &*frame
            } else {
                at = if at + 1 == frames.len() { 0 } else { at + 1 };
                &frames[at]
            };
            metas.push(engine.meta(i, now, frame));
        }
        engine.step(now, &metas, &mut dispositions);
        out += dispositions.len();
    }
    let ns = start.elapsed().as_nanos() as f64 / packets as f64;
    println!("{mode:12} {ns:7.1} ns/packet, {out} dispositions, {} queued", engine.held_packets());
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments.next().unwrap_or_else(|| "all".into());
    let packets = arguments.next().map_or(Ok(2_000_000), |n| n.parse())?;
    if wanted != "all" && !MODES.iter().any(|(mode, ..)| wanted == *mode) {
        return run(&wanted, 0, &wanted, packets);
    }
    for (mode, flows, laws) in MODES {
        if wanted == mode || wanted == "all" {
            run(mode, flows, laws, packets)?;
        }
    }
    Ok(())
}
