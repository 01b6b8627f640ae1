//! Quality of voice connections, from the loss and delay of their flows.

use weir_model::plan::{FlowSpec, VoiceCodec};
use weir_model::record::{Delay, Flow, Latency, PathDelaySource, Receiver, Voice};
use weir_model::warning::{Severity, Warning};
use weir_stats::{VoicePath, burst_ratio, mean_opinion_score};

/// Maximum error of the clocks with which a one-way delay is used. The E-model's rating changes by less than 1.5 for it.
const MAX_CLOCK_ERROR_SECONDS: f64 = 0.010;

/// Why a voice connection has no rating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unrated {
    NoReport,
    NothingSent,
    NoLoss,
    NoDelay,
    NoDiscards,
    OmittedLoss,
    NoLossPeriods,
}

impl Unrated {
    /// The warning that a flow has no rating.
    pub(super) fn warning(self, flow: u32) -> Warning {
        let reason = match self {
            Unrated::NoReport => "the receiver's final report is missing",
            Unrated::NothingSent => "no packets were sent",
            Unrated::NoLoss => "the number of lost packets is unknown",
            Unrated::NoDelay => "neither a one-way delay nor an idle round trip was measured",
            Unrated::NoDiscards => {
                "the delays of packets are unknown, so that those too late for the jitter buffer are"
            }
            Unrated::OmittedLoss => {
                "packets were lost in the omitted time, and loss periods are of the whole test"
            }
            Unrated::NoLossPeriods => {
                "the sequence numbers are ambiguous, so that loss periods are unknown"
            }
        };
        let text = format!("voice: no R factor and no MOS: {reason}");
        Warning::new("voice-not-rated", Severity::Warning, text).for_flow(flow)
    }
}

/// The quality of a voice connection; `None` for another connection. `is_whole`: no time was omitted.
pub(super) fn voice(
    spec: &FlowSpec,
    flow: &Flow,
    latency: Option<&Latency>,
    is_whole: bool,
) -> Option<Result<Voice, Unrated>> {
    let codec = spec.connection.voice?;
    let buffer = spec.connection.jitter_buffer()?.seconds();
    Some(voice_of(codec, buffer, spec, flow, latency, is_whole))
}

fn voice_of(
    codec: VoiceCodec,
    jitter_buffer_seconds: f64,
    spec: &FlowSpec,
    flow: &Flow,
    latency: Option<&Latency>,
    is_whole: bool,
) -> Result<Voice, Unrated> {
    // It is unknown whether packets that only a missing report would show were lost.
    let received = flow.receiver.as_ref().filter(|_| !flow.peer_report_missing());
    let received = received.ok_or(Unrated::NoReport)?;
    let (missing_ratio, burst_ratio) = missing(received, is_whole)?;
    let (path_delay_seconds, path_delay_from) =
        path_delay(received, latency).ok_or(Unrated::NoDelay)?;
    let header = spec.connection.header.before_media_bytes();
    let media_bytes = spec.payload_bytes().saturating_sub(header);
    let delay_seconds =
        codec.delay_ns(media_bytes) as f64 / 1e9 + path_delay_seconds + jitter_buffer_seconds;
    let r_factor =
        rated(codec, delay_seconds, missing_ratio, burst_ratio).ok_or(Unrated::NoDelay)?;
    Ok(Voice {
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
    // A delay below minus the error contradicts the clocks' relation.
    let is_valid = |delay: &&Delay| {
        delay
            .error_seconds
            .is_some_and(|error| error <= MAX_CLOCK_ERROR_SECONDS && delay.min_seconds >= -error)
    };
    if let Some(delay) = received.one_way_delay.as_ref().filter(is_valid) {
        return Some((delay.min_seconds.max(0.0), PathDelaySource::OneWayDelay));
    }
    let idle = latency?.idle.as_ref()?;
    Some((idle.min_seconds / 2.0, PathDelaySource::HalfRoundTrip))
}

/// The ratio of packets that the decoder lacks, and their burst ratio. Each discarded packet counts as a loss period.
fn missing(received: &Receiver, is_whole: bool) -> Result<(f64, f64), Unrated> {
    let lost = received.lost_packets.ok_or(Unrated::NoLoss)?;
    let sent = received.packets.saturating_add(lost);
    if sent == 0 {
        return Err(Unrated::NothingSent);
    }
    let discarded = match received.packets {
        0 => 0,
        packets => received.discarded_packets.ok_or(Unrated::NoDiscards)?.min(packets),
    };
    let periods = loss_periods(received, lost, is_whole)?;
    let missing = lost.saturating_add(discarded);
    let burst_ratio = burst_ratio(missing, periods.saturating_add(discarded), sent);
    Ok((missing as f64 / sent as f64, burst_ratio))
}

/// The number of loss periods, if they are those of the `lost` packets.
fn loss_periods(received: &Receiver, lost: u64, is_whole: bool) -> Result<u64, Unrated> {
    let (mut periods, mut packets, mut is_exact) = (0u64, 0u64, true);
    for (length, count) in received.loss_periods.iter().flatten() {
        periods = periods.saturating_add(*count);
        match length.parse::<u64>() {
            Ok(length) => packets = packets.saturating_add(length.saturating_mul(*count)),
            // Those of all other lengths.
            Err(_) => is_exact = false,
        }
    }
    match (is_whole, is_exact) {
        (true, false) => Ok(periods),
        (_, true) if packets == lost => Ok(periods),
        (true, true) => Err(Unrated::NoLossPeriods),
        (false, _) => Err(Unrated::OmittedLoss),
    }
}

#[cfg(test)]
mod tests {
    use weir_model::plan::{Connection, Family, HeaderFormat, Plan, Transport};
    use weir_model::record::Sender;
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
        let voice = rating(&flow(0.001), None).unwrap();
        // Two frames of 10 ms, the processing of one, and 5 ms of look-ahead.
        assert!((voice.delay_seconds - (0.035 + 0.05 + 0.04)).abs() < 1e-12);
        assert_eq!(voice.path_delay_from, PathDelaySource::OneWayDelay);
        assert!((voice.missing_ratio - 0.05).abs() < 1e-12);
        // 10 loss periods and 30 discards.
        assert!((voice.burst_ratio - 50.0 / 40.0 * 0.95).abs() < 1e-12);
        let expected = VoicePath {
            ie: 11.0,
            bpl: 19.0,
            loss_ratio: 0.05,
            burst_ratio: voice.burst_ratio,
            delay_ms: 1e3 * voice.delay_seconds,
        };
        assert_eq!(Some(voice.r_factor), expected.r_factor());
        assert_eq!(voice.mos, mean_opinion_score(voice.r_factor));
    }

    #[test]
    fn uncertain_clocks_leave_half_the_round_trip() {
        let latency = Latency { idle: delay(0.030, 0.0), ..Latency::default() };
        let of = |error, latency| rating(&flow(error), latency);
        let half = of(0.011, Some(&latency)).unwrap();
        assert_eq!(half.path_delay_from, PathDelaySource::HalfRoundTrip);
        assert!((half.path_delay_seconds - 0.015).abs() < 1e-12);
        assert_eq!(of(0.011, None), Err(Unrated::NoDelay));
        let at = |min_seconds| {
            let mut flow = flow(0.001);
            flow.receiver.as_mut().unwrap().one_way_delay = delay(min_seconds, 0.001);
            let voice = rating(&flow, Some(&latency)).unwrap();
            (voice.path_delay_from, voice.path_delay_seconds)
        };
        assert_eq!(at(-0.0009), (PathDelaySource::OneWayDelay, 0.0));
        assert_eq!(at(-0.0011), (PathDelaySource::HalfRoundTrip, 0.015), "contradicts the error");
    }

    fn received(change: impl Fn(&mut Receiver)) -> Flow {
        let mut flow = flow(0.0);
        change(flow.receiver.as_mut().unwrap());
        flow
    }

    fn rating(flow: &Flow, latency: Option<&Latency>) -> Result<Voice, Unrated> {
        voice(&spec(), flow, latency, true).unwrap()
    }

    #[test]
    fn unknown_losses_have_no_rating() {
        let without = |change: fn(&mut Receiver)| rating(&received(change), None).err();
        assert_eq!(without(|_| ()), None);
        assert_eq!(without(|r| r.lost_packets = None), Some(Unrated::NoLoss));
        assert_eq!(without(|r| r.discarded_packets = None), Some(Unrated::NoDiscards));
        assert_eq!(without(|r| r.reported_until_seconds = Some(1.0)), Some(Unrated::NoReport));
        assert_eq!(without(|r| r.loss_periods = None), Some(Unrated::NoLossPeriods));
        let nothing = without(|r| (r.packets, r.lost_packets) = (0, Some(0)));
        assert_eq!(nothing, Some(Unrated::NothingSent));
        let mut plain = spec();
        plain.connection.voice = None;
        assert_eq!(voice(&plain, &flow(0.0), None, true), None);
        let warning = Unrated::NoLoss.warning(3);
        assert_eq!((&*warning.code, warning.flow), ("voice-not-rated", Some(3)));
    }

    #[test]
    fn a_flow_without_arrivals_is_rated() {
        let flow = received(|r| {
            (r.packets, r.lost_packets, r.discarded_packets) = (0, Some(500), None);
            r.loss_periods = Some([("500".to_owned(), 1)].into());
            r.one_way_delay = None;
        });
        let latency = Latency { idle: delay(0.030, 0.0), ..Latency::default() };
        let voice = rating(&flow, Some(&latency)).unwrap();
        assert_eq!((voice.missing_ratio, voice.burst_ratio), (1.0, 1.0));
        assert_eq!(voice.path_delay_from, PathDelaySource::HalfRoundTrip);
        let lost = VoicePath {
            ie: 11.0,
            bpl: 19.0,
            loss_ratio: 1.0,
            burst_ratio: 1.0,
            delay_ms: 1e3 * voice.delay_seconds,
        };
        assert_eq!(Some(voice.r_factor), lost.r_factor());
        assert_eq!(rating(&flow, None), Err(Unrated::NoDelay));
    }

    #[test]
    fn discards_are_independent_of_loss_periods() {
        let of = |discarded| {
            let flow = received(|r| {
                (r.packets, r.lost_packets) = (9995, Some(5));
                r.discarded_packets = Some(discarded);
                r.loss_periods = Some([("5".to_owned(), 1)].into());
            });
            rating(&flow, None).unwrap()
        };
        assert!((of(0).burst_ratio - 5.0 * 0.9995).abs() < 1e-12);
        // 505 packets in 501 periods: less than independent losses have, 1.
        assert_eq!((of(500).missing_ratio, of(500).burst_ratio), (0.0505, 1.0));
    }

    #[test]
    fn losses_of_the_omitted_time_leave_no_rating() {
        let of = |lost, is_whole| {
            let flow = received(|r| r.lost_packets = Some(lost));
            voice(&spec(), &flow, None, is_whole).unwrap().err()
        };
        // 20 packets in loss periods.
        assert_eq!((of(20, true), of(20, false)), (None, None));
        assert_eq!(of(15, false), Some(Unrated::OmittedLoss));
        let other_lengths = |is_whole| {
            let periods = Some([("2".to_owned(), 8), ("more".to_owned(), 2)].into());
            let flow = received(|r| r.loss_periods = periods.clone());
            voice(&spec(), &flow, None, is_whole).unwrap().err()
        };
        assert_eq!(other_lengths(true), None);
        assert_eq!(other_lengths(false), Some(Unrated::OmittedLoss));
    }
}
