//! Test vectors of laws, compared with `docs/randomness.md`.

use weir_laws::{Direction, DrawPosition, Philox, flow_hash, slot};
use weir_model::impairment::{Laws, LossLaw, PacketFacts, RunningDelay};

const PACKETS: u64 = 6;
const LOSS_PACKETS: u64 = 48;

fn position(slot: u8, packet: u64) -> DrawPosition {
    DrawPosition { flow: flow_hash("voice"), direction: Direction::Forward, slot, packet }
}

/// Packets of 1000 bytes, one every 10 ms.
fn facts(packet: u64) -> PacketFacts {
    PacketFacts { elapsed_ns: packet * 10_000_000, bytes: 1000 }
}

fn outcome(text: &str) -> String {
    let philox = Philox::new(7);
    let laws: Laws = text.parse().expect("a law of the documentation");
    if let Some(mut law) = laws.delay.as_ref().and_then(RunningDelay::of) {
        let draw = |packet| {
            law.draw_ns(&facts(packet), &mut position(slot::DELAY, packet).draws(&philox))
                .to_string()
        };
        return (0..PACKETS).map(draw).collect::<Vec<_>>().join(" ");
    }
    let mut law = laws.loss.as_ref().and_then(LossLaw::of).expect("a loss law");
    let mut lost =
        |packet| law.lost(&facts(packet), &mut position(slot::LOSS, packet).draws(&philox));
    (0..LOSS_PACKETS).map(|packet| if lost(packet) { '1' } else { '0' }).collect()
}

/// `WEIR_BLESS=1` rewrites them.
#[test]
fn documented_vectors_match() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/randomness.md");
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let is_vector = |line: &str| line.starts_with("| `delay") || line.starts_with("| `loss");
    let current = |line: &str| match line.split('`').nth(1).filter(|_| is_vector(line)) {
        Some(law) => format!("| `{law}` | `{}` |\n", outcome(law)),
        None => format!("{line}\n"),
    };
    assert!(page.lines().filter(|line| is_vector(line)).count() > 20);
    if std::env::var_os("WEIR_BLESS").is_some() {
        let now: String = page.lines().map(current).collect();
        std::fs::write(PAGE, now).expect("the page is writable");
        return;
    }
    for line in page.lines().filter(|line| is_vector(line)) {
        assert_eq!(current(line).trim_end(), line, "WEIR_BLESS=1 rewrites the vectors");
    }
}
