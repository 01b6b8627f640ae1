//! Previews of laws: what a flow's laws do to packets, by the engine on the virtual clock with the configuration's
//! seed.

use std::collections::BTreeMap;

use weir_impair::{Disposition, FLAG_REORDERED, Verdict};
use weir_model::impairment::{Delay, Impairment, Laws, OTHER, OrderPolicy};
use weir_model::plan::Direction;
use weir_sim::{Ingress, SimError};

use crate::problem::Problem;
use crate::types::{
    DelayFigure, DifferenceReason, Preview, PreviewDelay, PreviewDifference, PreviewRequest,
};

/// Maximum number of packets.
pub(crate) const MAX_PACKETS: u32 = 100_000;
/// Bins of the histogram.
const BINS: usize = 60;
/// Points of the distribution function.
const CDF_POINTS: usize = 101;
/// Difference between a delay law and its outcome from which it is reported, as a fraction.
const DIFFERENCE: f64 = 0.05;
/// Maximum number of dispositions that are spelt out.
const MAX_FATES: usize = 2000;

/// Computes a preview.
///
/// # Errors
/// An invalid configuration, an unknown flow, numbers out of range.
pub(crate) fn preview(request: &PreviewRequest) -> Result<Preview, Problem> {
    if !(1..=MAX_PACKETS).contains(&request.packets) {
        return Err(Problem::field("/packets", request.packets.to_string(), "1 to 100000"));
    }
    if !(14..=65_535).contains(&request.size_bytes) {
        return Err(Problem::field("/size_bytes", request.size_bytes.to_string(), "14 to 65535"));
    }
    if !(1e-6..=10.0).contains(&request.interval_seconds) {
        let given = request.interval_seconds.to_string();
        return Err(Problem::field("/interval_seconds", given, "0.000001 to 10"));
    }
    request.configuration.check().map_err(|e| Problem::of_model("/configuration", &e))?;
    let (mut alone, mut notes) = alone(&request.configuration, &request.flow)?;
    if alone.timeline.take().is_some() {
        notes.push("the timeline is not previewed: these are the laws of the file".into());
    }
    if remove_triggers(&mut alone, request) {
        notes.push("the trigger is not previewed: the laws apply to all packets".into());
    }
    let step_ns = (request.interval_seconds * 1e9).round() as u64;
    let packets = u64::from(request.packets);
    let ingress = || {
        (0..packets).map(|i| Ingress {
            at_ns: i * step_ns,
            length_bytes: request.size_bytes,
            is_control: false,
        })
    };
    let direction = match request.direction {
        Direction::Forward => weir_laws::Direction::Forward,
        Direction::Reverse => weir_laws::Direction::Reverse,
    };
    let predict = |configuration: &Impairment| {
        weir_sim::predict(configuration, &request.flow, direction, ingress()).map_err(refused)
    };
    let dispositions = predict(&alone)?;
    let laws = if request.flow == OTHER {
        alone.other.laws(request.direction)
    } else {
        alone
            .flows
            .iter()
            .find(|f| f.name == request.flow)
            .map(|f| f.laws(request.direction))
            .unwrap_or_default()
    };
    if laws.content.is_some() {
        notes.push("changes of content need the packets' bytes and are not previewed".into());
    }
    let stopped = alone.flows.iter().any(|f| f.name == request.flow && !f.run.0);
    if stopped {
        notes.push("the flow is stopped: its packets are forwarded unchanged".into());
    }
    let mut shown = summed(request, &dispositions, laws.to_string(), notes);
    if let Some(delay) = laws.delay.as_ref().filter(|_| !stopped) {
        let unshaped = Laws { rate: None, ..laws.clone() };
        let mut law = unshaped.clone();
        law.delay = Some(Delay { order: OrderPolicy::Allow, ..delay.clone() });
        let of = |laws| predict(&with(&alone, request, laws)).map(|all| delays_of(&all));
        let (ordered, asked) = (of(unshaped)?, of(law)?);
        let outcome = delays_of(&dispositions);
        let range = range_of(outcome.iter().chain(&asked));
        shown.differences = differences(&asked, &ordered, &outcome);
        shown.delay = self::delay(outcome, range);
        shown.asked_delay = self::delay(asked, range);
    }
    Ok(shown)
}

/// Removes all triggers; returns whether the previewed laws had one.
fn remove_triggers(alone: &mut Impairment, request: &PreviewRequest) -> bool {
    let flows = alone.flows.iter_mut();
    let all = flows.map(|flow| (flow.name.as_str(), [&mut flow.a_to_b, &mut flow.b_to_a]));
    let other = (OTHER, [&mut alone.other.a_to_b, &mut alone.other.b_to_a]);
    let mut found = false;
    for (name, laws) in all.chain([other]) {
        let directions = [Direction::Forward, Direction::Reverse];
        for (laws, direction) in laws.into_iter().zip(directions) {
            let had_one = laws.trigger.take().is_some();
            found |= had_one && name == request.flow && direction == request.direction;
        }
    }
    found
}

/// The configuration with other laws in the direction of the preview.
fn with(alone: &Impairment, request: &PreviewRequest, laws: Laws) -> Impairment {
    let mut made = alone.clone();
    let (profile, a_to_b, b_to_a) = match made.flows.iter_mut().find(|f| f.name == request.flow) {
        Some(flow) => (&mut flow.profile, &mut flow.a_to_b, &mut flow.b_to_a),
        None => (&mut made.other.profile, &mut made.other.a_to_b, &mut made.other.b_to_a),
    };
    *profile = None;
    match request.direction {
        Direction::Forward => *a_to_b = laws,
        Direction::Reverse => *b_to_a = laws,
    }
    made
}

/// Delays of the packets that left, ns, ascending.
fn delays_of(dispositions: &[Disposition]) -> Vec<u64> {
    let sent = dispositions.iter().filter(|f| f.verdict == Verdict::Forwarded);
    let mut delays: Vec<u64> = sent.map(|f| f.at_ns.saturating_sub(f.arrived_ns)).collect();
    delays.sort_unstable();
    delays
}

fn range_of<'a>(delays: impl Iterator<Item = &'a u64>) -> [u64; 2] {
    delays.fold([u64::MAX, 0], |[min, max], d| [min.min(*d), max.max(*d)])
}

/// Mean and standard deviation, s; absent without a packet.
fn moments(delays_ns: &[u64]) -> Option<[f64; 2]> {
    let n = delays_ns.len() as f64;
    // Whole nanoseconds, so that constant delays have no deviation.
    let mean = delays_ns.iter().map(|d| u128::from(*d)).sum::<u128>() as f64 / n;
    let square = delays_ns.iter().map(|d| (*d as f64 - mean).powi(2)).sum::<f64>() / n;
    (n > 0.0).then_some([mean / 1e9, square.sqrt() / 1e9])
}

/// Where the outcome differs from the law: `ordered` is the law with its order policy, but without a rate.
fn differences(asked: &[u64], ordered: &[u64], outcome: &[u64]) -> Vec<PreviewDifference> {
    let (Some(asked), Some(ordered), Some(outcome)) =
        (moments(asked), moments(ordered), moments(outcome))
    else {
        return vec![];
    };
    // Of constant laws, a small difference is not worth a warning.
    let floor = 0.001 * asked[0].max(1e-6);
    let figures = [DelayFigure::Mean, DelayFigure::Deviation].into_iter().enumerate();
    figures
        .filter(|(i, _)| (outcome[*i] - asked[*i]).abs() > (DIFFERENCE * asked[*i]).max(floor))
        .map(|(i, figure)| {
            let by_order = (ordered[i] - asked[i]).abs() >= (outcome[i] - ordered[i]).abs();
            let reason = if by_order { DifferenceReason::Order } else { DifferenceReason::Queue };
            PreviewDifference {
                figure,
                asked_seconds: asked[i],
                outcome_seconds: outcome[i],
                reason,
            }
        })
        .collect()
}

fn refused(error: SimError) -> Problem {
    Problem::new(axum::http::StatusCode::UNPROCESSABLE_ENTITY, error.to_string()).with(
        crate::problem::FieldError {
            field: "/configuration".into(),
            given: Some("laws that the engine supports".into()),
            accepted: Some(error.to_string()),
            message: error.to_string(),
        },
    )
}

/// The configuration with a link for this flow alone, if it shares one.
fn alone(configuration: &Impairment, flow: &str) -> Result<(Impairment, Vec<String>), Problem> {
    let mut alone = configuration.clone();
    let shared: Vec<_> = std::mem::take(&mut alone.aggregates);
    if flow == OTHER {
        return Ok((alone, vec![]));
    }
    let Some(this) = alone.flows.iter_mut().find(|f| f.name == flow) else {
        let names: Vec<&str> = configuration.flows.iter().map(|f| f.name.as_str()).collect();
        let accepted = [&names[..], &[OTHER]].concat().join(", ");
        return Err(Problem::field("/flow", flow, accepted));
    };
    let Some(aggregate) = shared.iter().find(|a| a.flows.iter().any(|f| f == flow)) else {
        return Ok((alone, vec![]));
    };
    this.a_to_b = this.a_to_b.over(&aggregate.a_to_b);
    this.b_to_a = this.b_to_a.over(&aggregate.b_to_a);
    let others = aggregate.flows.len() - 1;
    Ok((
        alone,
        vec![format!("it shares its link with {others} more, which send nothing in this preview")],
    ))
}

fn summed(
    request: &PreviewRequest,
    dispositions: &[Disposition],
    laws: String,
    notes: Vec<String>,
) -> Preview {
    let packets = u64::from(request.packets);
    let count = |verdict| dispositions.iter().filter(|f| f.verdict == verdict).count() as u64;
    let mut what = vec![b'.'; request.packets as usize];
    for disposition in dispositions {
        let mark = match disposition.verdict {
            Verdict::Lost => b'x',
            Verdict::QueueDropped | Verdict::Unplanned => b'q',
            Verdict::Copied => b'2',
            Verdict::Forwarded => continue,
        };
        if let Some(place) = usize::try_from(disposition.index).ok().and_then(|i| what.get_mut(i)) {
            // The disposition of the packet itself has precedence over that of its copy.
            if disposition.copy == 0 || *place == b'.' {
                *place = mark;
            }
        }
    }
    let mut loss_periods: BTreeMap<u32, u64> = BTreeMap::new();
    let mut run = 0;
    for mark in what.iter().chain(std::iter::once(&b'.')) {
        match mark {
            b'x' => run += 1,
            _ if run > 0 => {
                *loss_periods.entry(run).or_default() += 1;
                run = 0;
            }
            _ => {}
        }
    }
    what.truncate(MAX_FATES);
    let sent: Vec<&Disposition> =
        dispositions.iter().filter(|f| f.verdict == Verdict::Forwarded).collect();
    let first = sent.iter().map(|f| f.at_ns).min();
    let last = sent.iter().map(|f| f.at_ns).max();
    let span = first.zip(last).map(|(a, b)| (b - a) as f64 / 1e9).filter(|s| *s > 0.0);
    let bytes: u64 = sent.iter().skip(1).map(|f| u64::from(f.length)).sum();
    let lost = count(Verdict::Lost);
    Preview {
        packets,
        interval_seconds: request.interval_seconds,
        size_bytes: request.size_bytes,
        sent_packets: sent.len() as u64,
        lost_packets: lost,
        loss_ratio: lost as f64 / packets as f64,
        queue_dropped_packets: count(Verdict::QueueDropped) + count(Verdict::Unplanned),
        duplicated_packets: count(Verdict::Copied),
        reordered_packets: sent.iter().filter(|f| f.flags & FLAG_REORDERED != 0).count() as u64,
        loss_periods,
        dispositions: String::from_utf8(what).unwrap_or_default(),
        delay: {
            let delays = delays_of(dispositions);
            let range = range_of(delays.iter());
            delay(delays, range)
        },
        asked_delay: None,
        differences: vec![],
        sent_bits_per_second: span.map(|s| bytes as f64 * 8.0 / s),
        laws,
        notes,
    }
}

/// The figures of ascending delays; the histogram's bins cover `range`.
fn delay(delays_ns: Vec<u64>, [from, to]: [u64; 2]) -> Option<PreviewDelay> {
    let (min, max) = (*delays_ns.first()?, *delays_ns.last()?);
    let n = delays_ns.len();
    let seconds = |ns: u64| ns as f64 / 1e9;
    let [mean, deviation] = moments(&delays_ns)?;
    // The nearest-rank quantile.
    let quantile = |q: f64| {
        let rank = (q * n as f64).ceil().max(1.0) as usize;
        seconds(delays_ns[rank.min(n) - 1])
    };
    let bins = if from == to { 1 } else { BINS };
    let width = ((to - from) as f64 / bins as f64).max(1.0);
    let mut histogram_packets = vec![0; bins];
    for d in &delays_ns {
        histogram_packets[(((d - from) as f64 / width) as usize).min(bins - 1)] += 1;
    }
    let edges = (0..=bins).map(|i| (from as f64 + i as f64 * width) / 1e9).collect();
    let shares: Vec<f64> = (0..CDF_POINTS).map(|i| i as f64 / (CDF_POINTS - 1) as f64).collect();
    Some(PreviewDelay {
        mean_seconds: mean,
        deviation_seconds: deviation,
        min_seconds: seconds(min),
        p50_seconds: quantile(0.5),
        p90_seconds: quantile(0.9),
        p99_seconds: quantile(0.99),
        max_seconds: seconds(max),
        histogram_edges_seconds: edges,
        histogram_packets,
        cdf_seconds: shares.iter().map(|q| quantile(*q)).collect(),
        cdf_ratio: shares,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::impairment::Laws;

    fn request(laws: &str) -> PreviewRequest {
        let laws: Laws = laws.parse().unwrap();
        PreviewRequest {
            configuration: Impairment { seed: "0x7".parse().unwrap(), ..Impairment::of_both(laws) },
            flow: OTHER.into(),
            direction: Direction::Forward,
            packets: 10_000,
            interval_seconds: 0.001,
            size_bytes: 1000,
        }
    }

    #[test]
    fn a_trigger_and_a_timeline_are_left_out() {
        let plain = preview(&request("loss 5%")).unwrap();
        let mut triggered = request("loss 5%, trigger after 1h");
        let timeline = "time,loss\n0.001,100%";
        triggered.configuration.timeline =
            Some(weir_model::impairment::Timeline::from_csv(timeline).unwrap());
        let shown = preview(&triggered).unwrap();
        assert_eq!((shown.lost_packets, shown.notes.len()), (plain.lost_packets, 2));
        assert_eq!(plain.notes.len(), 0);
    }

    #[test]
    fn it_is_what_the_engine_does_to_a_run() {
        use weir_model::plan::{Connection, Plan, Transport};
        let request =
            PreviewRequest { packets: 2000, ..request("loss 3% run 2, delay 20ms ±5ms") };
        let shown = preview(&request).unwrap();
        let plan = Plan {
            connections: vec![Connection {
                transport: Transport::udp(),
                rate: Some("1000pps".parse().unwrap()),
                packets: Some(2000),
                ..Connection::default()
            }],
            ..Plan::default()
        };
        let run = weir_sim::Simulation {
            plan,
            impairment: request.configuration.clone(),
            before_ns: 0,
            after_ns: 0,
        }
        .run()
        .unwrap();
        let receiver = run.record.flows[0].receiver.as_ref().unwrap();
        assert_eq!(receiver.lost_packets, Some(shown.lost_packets));
        let measured = receiver.one_way_delay.as_ref().unwrap();
        let delay = shown.delay.unwrap();
        assert!((measured.max_seconds - delay.max_seconds).abs() < 1e-9);
        assert!((measured.min_seconds - delay.min_seconds).abs() < 1e-9);
        assert!((measured.mean_seconds - delay.mean_seconds).abs() < 1e-6);
    }

    #[test]
    fn counts_are_conserved_and_distributions_are_whole() {
        let shown = preview(&request("loss 10%, duplicate 2%, delay 10ms ±2ms")).unwrap();
        assert_eq!(
            shown.packets + shown.duplicated_packets,
            shown.sent_packets + shown.lost_packets + shown.queue_dropped_packets
        );
        let in_runs: u64 =
            shown.loss_periods.iter().map(|(length, n)| u64::from(*length) * n).sum();
        assert_eq!(in_runs, shown.lost_packets);
        assert!((0.09..0.11).contains(&shown.loss_ratio), "{}", shown.loss_ratio);
        let delay = shown.delay.unwrap();
        assert_eq!(delay.histogram_packets.iter().sum::<u64>(), shown.sent_packets);
        assert_eq!(delay.histogram_edges_seconds.len(), delay.histogram_packets.len() + 1);
        assert!(delay.cdf_seconds.windows(2).all(|w| w[0] <= w[1]));
        assert_eq!(
            (delay.cdf_seconds[0], delay.cdf_seconds[100]),
            (delay.min_seconds, delay.max_seconds)
        );
        assert_eq!(shown.dispositions.len(), MAX_FATES);
    }

    #[test]
    fn a_rate_shapes_and_its_queue_drops() {
        // 1000 B each ms are 8 Mbit/s; 4 Mbit/s are forwarded.
        let shown = preview(&request("rate 4M queue 20ms")).unwrap();
        assert!(shown.queue_dropped_packets > 4000, "{}", shown.queue_dropped_packets);
        let rate = shown.sent_bits_per_second.unwrap();
        assert!((3.9e6..4.1e6).contains(&rate), "{rate}");
    }

    #[test]
    fn a_preview_shows_where_the_outcome_differs_from_the_law() {
        use {DelayFigure::*, DifferenceReason::*};
        let found = |laws: &str| {
            let shown = preview(&request(laws)).unwrap();
            let asked = shown.asked_delay.clone().unwrap();
            let outcome = shown.delay.clone().unwrap();
            assert_eq!(asked.histogram_edges_seconds, outcome.histogram_edges_seconds);
            let differs: Vec<_> = shown.differences.iter().map(|d| (d.figure, d.reason)).collect();
            (differs, asked, outcome)
        };
        // 5 ms of jitter at 1 ms between packets: the order costs most of it.
        let (differs, asked, outcome) = found("delay 20ms ±5ms fifo-release");
        assert!(differs.contains(&(Deviation, Order)), "{differs:?}");
        assert!((asked.deviation_seconds - 0.005).abs() < 0.0005);
        assert!(outcome.deviation_seconds < 0.7 * asked.deviation_seconds);
        assert_eq!(found("delay 20ms ±5ms allow").0, []);
        let (differs, asked, _) = found("delay 20ms");
        assert_eq!((differs, asked.deviation_seconds), (vec![], 0.0));
        // 8 Mbit/s into 4 Mbit/s.
        let (differs, asked, outcome) = found("delay 20ms, rate 4M queue 50ms");
        assert!(differs.contains(&(Mean, Queue)), "{differs:?}");
        assert!(outcome.mean_seconds > asked.mean_seconds + 0.02);
        assert!(preview(&request("loss 1%")).unwrap().asked_delay.is_none());
    }

    #[test]
    fn a_flow_of_an_aggregate_has_its_laws() {
        let text = r#"
            schema = "weir.impair/1"
            [[flow]]
            name = "a"
            [[flow]]
            name = "b"
            [[aggregate]]
            flows = ["a", "b"]
            a_to_b = { delay = { constant = "7ms" } }
        "#;
        let configuration = Impairment::parse(text).unwrap();
        let request = PreviewRequest { configuration, flow: "a".into(), ..request("none") };
        let shown = preview(&request).unwrap();
        assert_eq!(shown.delay.unwrap().p50_seconds, 0.007);
        assert!(shown.notes[0].contains(" 1 "), "one other flow: {:?}", shown.notes);
        let error = preview(&PreviewRequest { flow: "c".into(), ..request }).unwrap_err();
        assert_eq!(error.errors[0].field, "/flow");
        assert_eq!(error.errors[0].accepted.as_deref(), Some("a, b, other"));
    }

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        for (wrong, field) in [
            (PreviewRequest { packets: 0, ..request("none") }, "/packets"),
            (PreviewRequest { packets: 100_001, ..request("none") }, "/packets"),
            (PreviewRequest { size_bytes: 1, ..request("none") }, "/size_bytes"),
            (PreviewRequest { interval_seconds: f64::NAN, ..request("none") }, "/interval_seconds"),
            (PreviewRequest { interval_seconds: 0.0, ..request("none") }, "/interval_seconds"),
        ] {
            assert_eq!(preview(&wrong).unwrap_err().errors[0].field, field);
        }
    }
}
