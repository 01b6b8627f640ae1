//! Every profile behaves as its laws say, in both directions concurrently: its delay and loss below its
//! rate, its rate above it.

use weir_model::impairment::profiles::PROFILES;
use weir_model::impairment::{Delay, Impairment, Laws, Loss, Other};
use weir_model::plan::{Connection, Direction, Plan, Transport};
use weir_model::units::{ByteSize, Seed};
use weir_sim::{Outcome, Simulation};
use weir_wire::packets::RecordKind;

/// Bytes of a datagram's payload, and of its IPv4 packet.
const PAYLOAD: u64 = 958;
const PACKET: u64 = PAYLOAD + 28;
/// Overhead of a link where its laws name none, bytes: Ethernet's header and check sequence.
const ETHERNET: u64 = 18;
const PACKETS: u64 = 4000;
const PATH_NS: u64 = 1_000_000;
/// Standard deviations outside of which a normal value lies with probability 10⁻⁹.
const DEVIATIONS: f64 = 6.11;
const WAYS: [Direction; 2] = [Direction::Forward, Direction::Reverse];

fn framed_bits(laws: &Laws) -> f64 {
    let overhead = laws.rate.as_ref().and_then(|rate| rate.overhead_bytes);
    (PACKET + overhead.map_or(ETHERNET, u64::from)) as f64 * 8.0
}

/// Sends `packets` each way at `share` of the law's rate (of 1000 packets per second without a rate).
fn run(profile: &str, laws: &[Laws; 2], share: f64, packets: u64) -> Outcome {
    let connections = WAYS.iter().zip(laws).map(|(&direction, laws)| {
        let most =
            laws.rate.as_ref().map_or(1000.0, |rate| rate.bits.mean().0 as f64 / framed_bits(laws));
        let bits = most * share * PAYLOAD as f64 * 8.0;
        Connection {
            transport: Transport::udp(),
            direction,
            rate: format!("{bits:.0}").parse().ok(),
            payload: Some(ByteSize(PAYLOAD).into()),
            packets: Some(packets),
            ..Connection::default()
        }
    });
    let plan = Plan { connections: connections.collect(), ..Plan::default() };
    let other = Other { profile: Some(profile.into()), ..Other::default() };
    let impairment = Impairment { seed: Seed(7), other, ..Impairment::default() };
    Simulation { plan, impairment, before_ns: PATH_NS, after_ns: 0 }.run().unwrap()
}

#[test]
fn every_profile_behaves_as_its_laws_say() {
    for profile in PROFILES {
        let laws = [profile.a_to_b(), profile.b_to_a()];
        let below = run(profile.name, &laws, 0.5, PACKETS);
        // Where delays vary, so many packets that the delays of the first and last are a small part of the
        // duration.
        let varies = laws.iter().any(|laws| laws.delay.as_ref().is_some_and(|d| !d.is_constant()));
        let above = run(profile.name, &laws, 2.0, if varies { 10 * PACKETS } else { PACKETS });
        for (way, laws) in WAYS.into_iter().zip(&laws) {
            let name = format!("{} {way:?}: {laws}", profile.name);
            let of_way = |kind: RecordKind| {
                let all = below.packet_trace.iter().filter(|(record, _)| record.kind == kind);
                all.filter(|(record, _)| record.direction == u8::from(way == Direction::Reverse))
                    .count() as u64
            };
            assert_eq!(of_way(RecordKind::QUEUE_DROPPED), 0, "{name}");
            let loss = laws.loss.as_ref().and_then(Loss::moments);
            let (share, variance) = loss.map_or((0.0, 0.0), |law| (law.mean, law.variance));
            let lost = of_way(RecordKind::LOST) as f64;
            let room = DEVIATIONS * (variance * PACKETS as f64).sqrt();
            assert!((lost - share * PACKETS as f64).abs() <= room, "{name}: {lost} lost");

            let own_ns = laws
                .rate
                .as_ref()
                .map_or(0.0, |r| framed_bits(laws) * 1e9 / r.bits.mean().0 as f64);
            let delay = laws.delay.as_ref().and_then(Delay::moments);
            let mean = delay.and_then(|law| law.mean_ns).unwrap_or(0.0);
            let deviation = delay.and_then(|law| law.deviation_ns).unwrap_or(0.0);
            let flow = |outcome: &Outcome| {
                let mut flows = outcome.record.flows.clone().into_iter();
                flows.find(|flow| flow.direction == way).and_then(|flow| flow.receiver).unwrap()
            };
            let measured = flow(&below).one_way_delay.unwrap().mean_seconds * 1e9;
            let expected = PATH_NS as f64 + own_ns + mean;
            // After an uneven delay two packets may be closer than one's transmission time: the second
            // waits for the first.
            let room = DEVIATIONS * deviation / (PACKETS as f64).sqrt()
                + 1_000.0
                + if deviation > 0.0 { own_ns } else { 0.0 };
            assert!((measured - expected).abs() <= room, "{name}: {measured} ns of {expected}");

            let Some(rate) = &laws.rate else { continue };
            let carried =
                flow(&above).bits_per_second.unwrap() * framed_bits(laws) / (PAYLOAD as f64 * 8.0);
            let expected = rate.bits.mean().0 as f64 * (1.0 - share);
            let apart = carried / expected - 1.0;
            assert!(
                apart.abs() < 0.02 + 2.0 * room_of(variance),
                "{name}: {carried} bit/s of {expected}"
            );
        }
    }
}

/// Tolerance for the fraction of packets that a loss law drops.
fn room_of(variance: f64) -> f64 {
    DEVIATIONS * (variance / PACKETS as f64).sqrt()
}
