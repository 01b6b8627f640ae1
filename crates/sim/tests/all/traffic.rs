//! Traffic profiles on a virtual clock: what is sent has the published means, and voice is rated by what arrives.

use weir_model::impairment::{Impairment, Other};
use weir_model::plan::{
    Connection, Direction, Family, HeaderFormat, Plan, TrafficProfile, Transport, VoiceCodec,
};
use weir_model::record::{Flow, PathDelaySource};
use weir_model::units::{ByteSize, Seed, Span};
use weir_sim::Simulation;
use weir_stats::{VoicePath, burst_ratio, mean_opinion_score};

/// Standard deviations outside of which a normal value lies with probability 10⁻⁹.
const DEVIATIONS: f64 = 6.11;

fn flows(plan: Plan, laws: &str, before_ns: u64) -> Vec<Flow> {
    let laws = laws.parse().unwrap();
    let other = Other { a_to_b: laws, ..Other::default() };
    let impairment = Impairment { seed: Seed(3), other, ..Impairment::default() };
    Simulation { plan, impairment, before_ns, after_ns: 0 }.run().unwrap().record.flows
}

/// Of datagrams: the simulation has no streams.
#[test]
fn senders_have_the_means_of_their_profiles() {
    const PACKETS: u64 = 20_000;
    let mut simulated = 0;
    for profile in TrafficProfile::all() {
        let mut plan = profile.plan().unwrap();
        if plan.connections.iter().any(|c| !c.transport.datagrams()) {
            continue;
        }
        plan.seed = Seed(11);
        for connection in &mut plan.connections {
            (connection.duration, connection.packets) = (None, Some(PACKETS));
        }
        let expected = plan.flows(Family::Ipv4, 1500);
        for (flow, expected) in flows(plan, "none", 1_000_000).into_iter().zip(expected) {
            let name = format!("{}, {}", profile.name, flow.name);
            let sender = flow.sender.unwrap();
            assert_eq!(sender.packets, PACKETS, "{name}");
            let size = expected.size.moments();
            let mean = sender.bytes as f64 / PACKETS as f64;
            let room = DEVIATIONS * size.deviation_bytes / (PACKETS as f64).sqrt() + 1e-9;
            assert!((mean - size.mean_bytes).abs() <= room, "{name}: {mean} bytes");
            let spacing = expected.connection.spacing.moments();
            let interval = 1.0 / expected.packets_per_second().unwrap();
            let sending = sender.end_seconds.unwrap() - sender.start_seconds.unwrap();
            let mean = sending / (PACKETS - 1) as f64;
            let room = DEVIATIONS * spacing.variation / (PACKETS as f64).sqrt() + 1e-4;
            assert!((mean / interval - 1.0).abs() <= room, "{name}: {mean} s, not {interval} s");
            simulated += 1;
        }
    }
    assert!(simulated >= 20, "{simulated}");
}

fn call(codec: VoiceCodec, payload: u64, buffer_ms: u64) -> Plan {
    let connection = Connection {
        transport: Transport::udp(),
        direction: Direction::Forward,
        header: HeaderFormat::Rtp,
        payload: Some(ByteSize(payload).into()),
        spacing: "20ms".parse().unwrap(),
        packets: Some(5000),
        voice: Some(codec),
        jitter_buffer: Some(Span(buffer_ms * 1_000_000)),
        ..Connection::default()
    };
    Plan { connections: vec![connection], ..Plan::default() }
}

#[test]
fn calls_are_rated_by_loss_and_delay() {
    for (codec, payload, laws) in [
        (VoiceCodec::G711Plc, 172, "none"),
        (VoiceCodec::G711, 172, "loss 1%, delay 100ms"),
        (VoiceCodec::G711Plc, 172, "loss 3% run 3, delay 50ms"),
        (VoiceCodec::G729a, 32, "loss 2%, delay 200ms"),
    ] {
        let flow = flows(call(codec, payload, 40), laws, 5_000_000).remove(0);
        let (voice, received) = (flow.voice.unwrap(), flow.receiver.unwrap());
        assert_eq!(voice.path_delay_from, PathDelaySource::OneWayDelay, "{laws}");
        assert_eq!(received.discarded_packets, Some(0), "{laws}");
        assert_eq!(voice.missing_ratio, received.loss_ratio.unwrap(), "{laws}");
        let path_ms = 5.0
            + laws
                .split("delay ")
                .nth(1)
                .map_or(0.0, |d| d.trim_end_matches("ms").parse().unwrap());
        assert!((voice.path_delay_seconds * 1e3 - path_ms).abs() < 0.1, "{laws}");
        let (frames_ms, facts) = (codec.delay_ns(payload - 12) as f64 / 1e6, codec.facts());
        let delay_ms = frames_ms + path_ms + 40.0;
        assert!((voice.delay_seconds * 1e3 - delay_ms).abs() < 0.1, "{laws}");
        let (lost, periods) = (received.lost_packets.unwrap(), received.loss_periods);
        let periods = periods.iter().flatten().map(|(_, count)| count).sum();
        assert_eq!(voice.burst_ratio, burst_ratio(lost, periods, 5000), "{laws}");
        // Runs of 3 are nearly three times as long as those of independent losses.
        assert_eq!(voice.burst_ratio > 1.5, laws.contains("run 3"), "{laws}");
        let rated = VoicePath {
            ie: facts.ie,
            bpl: facts.bpl,
            loss_ratio: voice.missing_ratio,
            burst_ratio: voice.burst_ratio,
            delay_ms: voice.delay_seconds * 1e3,
        };
        assert_eq!(Some(voice.r_factor), rated.r_factor(), "{laws}");
        assert_eq!(voice.mos, mean_opinion_score(voice.r_factor), "{laws}");
    }
}

#[test]
fn packets_too_late_for_the_jitter_buffer_are_missing() {
    // Delays of 20 to 100 ms, as drawn: a quarter exceeds the minimum by more than 60 ms.
    let of = |buffer_ms| {
        let flow =
            flows(call(VoiceCodec::G711Plc, 172, buffer_ms), "delay 60ms ±40ms uniform allow", 0);
        let (voice, received) = (flow[0].voice.clone().unwrap(), flow[0].receiver.clone().unwrap());
        assert_eq!(received.lost_packets, Some(0));
        let discarded = received.discarded_packets.unwrap();
        assert_eq!(voice.missing_ratio, discarded as f64 / 5000.0);
        (discarded as f64, voice.mos)
    };
    let (discarded, mos) = of(60);
    let deviation = (5000.0_f64 * 0.25 * 0.75).sqrt();
    assert!((discarded - 1250.0).abs() <= DEVIATIONS * deviation, "{discarded}");
    let (none, better) = of(81);
    assert_eq!(none, 0.0);
    assert!(better > mos);
}

#[test]
fn a_simulated_path_has_hops() {
    let run = |second: &str| {
        let text = format!(
            "schema = 'weir.impair/1'\nother = {{ a_to_b = 'delay 10ms, loss every 10' }}\n\
             [[flow]]\nname = 'far'\nhop = 2\na_to_b = '{second}'\nfilter = {{ protocol = 'udp' }}\n"
        );
        let impairment = Impairment::parse(&text).unwrap();
        let plan = call(VoiceCodec::G711, 172, 40);
        let outcome = Simulation { plan, impairment, before_ns: 0, after_ns: 0 }.run().unwrap();
        outcome.record.flows[0].receiver.clone().unwrap()
    };
    let (one, two) = (run("none"), run("delay 20ms, loss every 9"));
    assert_eq!((one.lost_packets, two.lost_packets), (Some(500), Some(500 + 500)));
    let delay =
        |flow: &weir_model::record::Receiver| flow.one_way_delay.as_ref().unwrap().min_seconds;
    assert!((delay(&two) - delay(&one) - 0.02).abs() < 1e-9, "{} {}", delay(&one), delay(&two));
}
