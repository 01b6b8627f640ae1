//! Test vectors of laws, compared with `docs/randomness.md`. `WEIR_BLESS=1` prints them.

use weir_laws::{Direction, DrawPosition, Philox, flow_hash, slot};
use weir_model::impairment::{DelayLaw, Laws, LossLaw};

const PACKETS: u64 = 6;
const LOSS_PACKETS: u64 = 48;

fn position(slot: u8, packet: u64) -> DrawPosition {
    DrawPosition { flow: flow_hash("voice"), direction: Direction::Forward, slot, packet }
}

fn outcome(text: &str) -> String {
    let philox = Philox::new(7);
    let laws: Laws = text.parse().expect("a law of the documentation");
    if let Some(mut law) = laws.delay.as_ref().and_then(DelayLaw::of) {
        let draw =
            |packet| law.draw_ns(&mut position(slot::DELAY, packet).draws(&philox)).to_string();
        return (0..PACKETS).map(draw).collect::<Vec<_>>().join(" ");
    }
    let mut law = laws.loss.as_ref().and_then(LossLaw::of).expect("a loss law");
    let mut lost = |packet| law.lost(&mut position(slot::LOSS, packet).draws(&philox));
    (0..LOSS_PACKETS).map(|packet| if lost(packet) { '1' } else { '0' }).collect()
}

#[test]
fn documented_vectors_match() {
    let page = include_str!("../../../../docs/randomness.md");
    let mut seen = 0;
    for line in page.lines().filter(|l| l.starts_with("| `delay") || l.starts_with("| `loss")) {
        let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [_, law, documented, _] = cells[..] else { panic!("{line}") };
        assert_eq!(outcome(law), documented, "{law}");
        seen += 1;
    }
    assert_eq!(seen, 11);
}

#[test]
fn print_them() {
    if std::env::var_os("WEIR_BLESS").is_some() {
        for law in [
            "loss 20%",
            "loss 20% run 4",
            "loss every 10",
            "loss four_state(p13_percentage=10, p31_percentage=25, p32_percentage=25, p23_percentage=50, p14_percentage=5)",
            "delay 40ms ±5ms normal",
            "delay 1ms ±5ms normal",
            "delay 20ms ±10ms uniform",
            "delay 20ms ±20ms exponential",
            "delay 20ms ±20ms exponential most 10ms",
            "delay pareto(scale=10ms, shape=3)",
            "delay pareto(max=12ms, scale=10ms, shape=1)",
        ] {
            println!("| `{law}` | `{}` |", outcome(law));
        }
    }
}
