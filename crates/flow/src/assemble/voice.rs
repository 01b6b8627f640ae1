//! Quality of voice connections, from the loss and delay of their flows.

use weir_model::plan::{FlowSpec, VoiceCodec};
use weir_model::record::{Flow, Latency, PathDelaySource, Receiver, Voice};
use weir_stats::{VoicePath, burst_ratio, mean_opinion_score};

/// Maximum error of the clocks with which a one-way delay is used. The E-model's rating changes by less than 1.5 for it.
const MAX_CLOCK_ERROR_SECONDS: f64 = 0.010;

/// The quality of a voice connection; absent if loss or delay are unknown, or if nothing was sent.
pub(super) fn voice(spec: &FlowSpec, flow: &Flow, latency: Option<&Latency>) -> Option<Voice> {
    let codec = spec.connection.voice?;
    let jitter_buffer_seconds = spec.connection.jitter_buffer()?.seconds();
    // It is unknown whether packets that only a missing report would show were lost.
    let received = flow.receiver.as_ref().filter(|_| !flow.peer_report_missing())?;
    let (path_delay_seconds, path_delay_from) = path_delay(received, latency)?;
    let header = spec.connection.header.before_media_bytes();
    let media_bytes = spec.payload_bytes().saturating_sub(header);
    let delay_seconds =
        codec.delay_ns(media_bytes) as f64 / 1e9 + path_delay_seconds + jitter_buffer_seconds;
    let (missing_ratio, burst_ratio) = missing(received)?;
    let r_factor = rated(codec, delay_seconds, missing_ratio, burst_ratio)?;
    Some(Voice {
        codec,
        r_factor,
        mos: mean_opinion_score(r_factor),
        delay_seconds,
        path_delay_seconds,
        path_delay_from,
        jitter_buffer_seconds,
        missing_ratio,
        burst_ratio,
    })
}

fn rated(codec: VoiceCodec, delay_seconds: f64, loss_ratio: f64, burst_ratio: f64) -> Option<f64> {
    let facts = codec.facts();
    let delay_ms = 1e3 * delay_seconds;
    VoicePath { ie: facts.ie, bpl: facts.bpl, loss_ratio, burst_ratio, delay_ms }.r_factor()
}

/// The delay of the fastest packet: one-way if the clocks allow it, else half of the shortest idle round trip.
fn path_delay(received: &Receiver, latency: Option<&Latency>) -> Option<(f64, PathDelaySource)> {
    let one_way = received.one_way_delay.as_ref();
    let is_close = |error: f64| error <= MAX_CLOCK_ERROR_SECONDS;
    if let Some(delay) = one_way.filter(|delay| delay.error_seconds.is_some_and(is_close)) {
        return Some((delay.min_seconds.max(0.0), PathDelaySource::OneWayDelay));
    }
    let idle = latency?.idle.as_ref()?;
    Some((idle.min_seconds / 2.0, PathDelaySource::HalfRoundTrip))
}

/// The ratio of packets that the decoder lacks, and the burst ratio of the lost ones. Discards count as independent.
fn missing(received: &Receiver) -> Option<(f64, f64)> {
    let (lost, discarded) = (received.lost_packets?, received.discarded_packets?);
    let sent = received.packets.saturating_add(lost);
    if sent == 0 {
        return None;
    }
    let missing = lost.saturating_add(discarded.min(received.packets));
    let periods = received.loss_periods.iter().flatten().map(|(_, count)| *count);
    let periods = periods.fold(0, u64::saturating_add);
    Some((missing as f64 / sent as f64, burst_ratio(lost, periods, sent)))
}

#[cfg(test)]
mod tests {
    use weir_model::plan::{Connection, Family, HeaderFormat, Plan, Transport};
    use weir_model::record::{Delay, Sender};
    use weir_model::units::{ByteSize, Span};

    use super::*;

    fn spec() -> FlowSpec {
        let connection = Connection {
            transport: Transport::udp(),
            voice: Some(VoiceCodec::G729a),
            jitter_buffer: Some(Span(40_000_000)),
            header: HeaderFormat::Rtp,
            payload: Some(ByteSize(32).into()),
            ..Connection::default()
        };
        let plan = Plan { connections: vec![connection], ..Plan::default() };
        plan.flows(Family::Ipv4, 1500).remove(0)
    }

    fn delay(min_seconds: f64, error_seconds: f64) -> Option<Delay> {
        Some(Delay {
            count: 9,
            min_seconds,
            error_seconds: Some(error_seconds),
            ..Delay::default()
        })
    }

    fn flow(error_seconds: f64) -> Flow {
        let receiver = Receiver {
            packets: 980,
            lost_packets: Some(20),
            discarded_packets: Some(30),
            loss_periods: Some([("2".to_owned(), 10)].into()),
            one_way_delay: delay(0.05, error_seconds),
            ..Receiver::default()
        };
        Flow {
            transport: Transport::udp().name(),
            sender: Some(Sender::default()),
            receiver: Some(receiver),
            ..Flow::default()
        }
    }

    #[test]
    fn delay_is_that_of_codec_path_and_buffer() {
        let voice = voice(&spec(), &flow(0.001), None).unwrap();
        // Two frames of 10 ms and 5 ms of look-ahead.
        assert!((voice.delay_seconds - (0.025 + 0.05 + 0.04)).abs() < 1e-12);
        assert_eq!(voice.path_delay_from, PathDelaySource::OneWayDelay);
        assert!((voice.missing_ratio - 0.05).abs() < 1e-12);
        assert!((voice.burst_ratio - 2.0 * 0.98).abs() < 1e-12);
        let expected = VoicePath {
            ie: 11.0,
            bpl: 19.0,
            loss_ratio: 0.05,
            burst_ratio: 1.96,
            delay_ms: 1e3 * voice.delay_seconds,
        };
        assert_eq!(Some(voice.r_factor), expected.r_factor());
        assert_eq!(voice.mos, mean_opinion_score(voice.r_factor));
    }

    #[test]
    fn uncertain_clocks_leave_half_the_round_trip() {
        let latency = Latency { idle: delay(0.030, 0.0), ..Latency::default() };
        let of = |error, latency| voice(&spec(), &flow(error), latency);
        let half = of(0.011, Some(&latency)).unwrap();
        assert_eq!(half.path_delay_from, PathDelaySource::HalfRoundTrip);
        assert!((half.path_delay_seconds - 0.015).abs() < 1e-12);
        assert_eq!(of(0.011, None), None);
    }

    #[test]
    fn unknown_losses_have_no_rating() {
        let without = |change: fn(&mut Receiver)| {
            let mut flow = flow(0.0);
            change(flow.receiver.as_mut().unwrap());
            voice(&spec(), &flow, None)
        };
        assert!(without(|_| ()).is_some());
        assert_eq!(without(|r| r.lost_packets = None), None);
        assert_eq!(without(|r| r.discarded_packets = None), None);
        assert_eq!(without(|r| r.reported_until_seconds = Some(1.0)), None);
        assert_eq!(without(|r| (r.packets, r.lost_packets) = (0, Some(0))), None);
        let mut plain = spec();
        plain.connection.voice = None;
        assert_eq!(voice(&plain, &flow(0.0), None), None);
    }
}
