//! Prints draws of laws, one a line: `draws "LAWS" PACKETS [SEED]` prints delays in ns, or 1 for a lost packet
//! and 0 for others. `scripts/laws_scipy.py` compares them with scipy.

use std::io::Write;

use weir_laws::{Direction, DrawPosition, Philox, flow_hash, slot};
use weir_model::impairment::{Laws, LossLaw, PacketFacts, RunningDelay};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let laws: Laws = arguments.next().ok_or("usage: draws LAWS PACKETS [SEED]")?.parse()?;
    let packets: u64 = arguments.next().ok_or("how many packets?")?.parse()?;
    let philox = Philox::new(arguments.next().map_or(Ok(1), |seed| seed.parse())?);
    let position = |slot, packet| DrawPosition {
        flow: flow_hash("other"),
        direction: Direction::Forward,
        slot,
        packet,
    };
    // One every 10 ms.
    let facts = |packet| PacketFacts { elapsed_ns: packet * 10_000_000, bytes: 1000 };
    let mut loss = laws.loss.as_ref().and_then(LossLaw::of);
    let mut delay = laws.delay.as_ref().and_then(RunningDelay::of);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for packet in 0..packets {
        if let Some(law) = &mut delay {
            let mut draws = position(slot::DELAY, packet).draws(&philox);
            writeln!(out, "{}", law.draw_ns(&facts(packet), &mut draws))?;
        } else if let Some(law) = &mut loss {
            let lost = law.lost(&facts(packet), &mut position(slot::LOSS, packet).draws(&philox));
            writeln!(out, "{}", u8::from(lost))?;
        }
    }
    Ok(())
}
