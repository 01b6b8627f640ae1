//! The verdict on a flow: whether what was realised can come from its laws.
//!
//! Random figures are judged by bounds that their law exceeds with a probability of 10⁻⁹ at most: counts by
//! [`CountInterval`], moments of delays by Chernoff's bound of the mean of X and of (X − µ)², with their moment generating functions
//! by the law's quantile function (H. Chernoff, "A measure of asymptotic efficiency for tests of a hypothesis based on the sum of
//! observations", 1952). Of a law that takes several draws for a delay, the function is Bennett's for the variance and the range of
//! these (G. Bennett, "Probability inequalities for the sum of independent random variables", 1962).

use serde::{Deserialize, Serialize};
use weir_impair::ETHERNET_HEADER;
use weir_model::impairment::{CountInterval, Counters, Laws, LinkRate, OUTSIDE, Stage};

use crate::lateness::Delays;

/// Fewest packets that are judged: fewer fit almost any law.
pub(crate) const MIN_PACKETS: u64 = 100;

/// Fraction of late packets up to which the host is not the limit.
const LATE_RATIO: f64 = 0.01;

/// Values of θ for which Chernoff's bound is computed at most.
const STEPS: usize = 12;

/// Sequences of packets that a law judges for itself (ordinary packets and control traffic), each of which may start or end
/// within a burst or a count.
const SEQUENCES: u64 = 2;

/// Bytes of the longest packet.
const LONGEST_PACKET: u64 = 65_535;

/// What a flow did in one direction in the current period.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observed<'a> {
    pub(crate) counters: &'a Counters,
    pub(crate) delays: &'a Delays,
    /// Packets that were queued at the start of the period, and that are now.
    pub(crate) queued_packets: [u64; 2],
    /// Packets of the direction that were lost in its links, which no flow counts.
    pub(crate) link_dropped_packets: u64,
    /// Lateness from which packets were counted as late, ns.
    pub(crate) late_limit_ns: u64,
    /// Length of the period, s.
    pub(crate) seconds: f64,
}

/// The verdict on a flow in one direction, for the current period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorFidelity")]
pub struct Fidelity {
    /// The verdict.
    pub verdict: FidelityVerdict,
    /// The figures that were judged. A law without a bound for its figures is not judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<JudgedFigure>,
    /// The stages with laws none of whose figures was judged, in their order: the verdict says nothing about these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_judged: Vec<Stage>,
    /// Lateness from which a packet counts as late here, s: by the host's calibration, else 0.001.
    pub late_limit_seconds: f64,
}

/// A verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorVerdict")]
#[serde(rename_all = "kebab-case")]
pub enum FidelityVerdict {
    /// All judged figures are within their bounds. `figures` and `not_judged` say what that covers.
    AsAsked,
    /// No figure was judged: fewer than 100 packets, a trigger, or laws without bounds.
    NotJudged,
    /// A figure is outside of its bounds.
    Differs,
    /// Packets were dropped without a law, or more than 1 % left later than `late_limit_seconds`: the host or its links were the
    /// limit.
    HostLimited,
}

impl FidelityVerdict {
    /// Its name in text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FidelityVerdict::AsAsked => "as asked",
            FidelityVerdict::NotJudged => "not judged",
            FidelityVerdict::Differs => "differs",
            FidelityVerdict::HostLimited => "host-limited",
        }
    }
}

/// A figure of a flow that was judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorJudgedFigure")]
pub struct JudgedFigure {
    /// Which.
    pub figure: FidelityFigure,
    /// Its value: packets, bursts, seconds or bit/s.
    pub value: f64,
    /// Minimum that its law accounts for.
    pub min: f64,
    /// Maximum that its law accounts for.
    pub max: f64,
    /// Whether the value is within these bounds.
    pub is_within: bool,
}

/// A figure that can be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorFidelityFigure")]
#[serde(rename_all = "snake_case")]
pub enum FidelityFigure {
    /// Packets that the loss law dropped.
    LostPackets,
    /// Bursts of losses.
    LossBursts,
    /// Copies.
    DuplicatedPackets,
    /// Mean of the planned delays: deadline minus arrival.
    DelayMeanSeconds,
    /// Standard deviation of the planned delays.
    DelayDeviationSeconds,
    /// Mean rate on the link, with framing, bit/s: of it the law gives the maximum alone, since a link may be idle.
    MaxBitsPerSecond,
    /// Packets that left after a later one of their flow.
    ReorderedPackets,
    /// Packets that left later than their deadline by more than `late_limit_seconds`.
    LatePackets,
    /// Packets dropped without a law, by the flow or before any flow had them.
    UnplannedDroppedPackets,
}

impl FidelityFigure {
    /// Its name in text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FidelityFigure::LostPackets => "lost packets",
            FidelityFigure::LossBursts => "loss bursts",
            FidelityFigure::DuplicatedPackets => "duplicated packets",
            FidelityFigure::DelayMeanSeconds => "mean delay",
            FidelityFigure::DelayDeviationSeconds => "standard deviation of the delay",
            FidelityFigure::MaxBitsPerSecond => "maximum rate",
            FidelityFigure::ReorderedPackets => "reordered packets",
            FidelityFigure::LatePackets => "late packets",
            FidelityFigure::UnplannedDroppedPackets => "packets dropped unplanned",
        }
    }

    /// The stage whose law it judges; `None`: the host.
    const fn stage(self) -> Option<Stage> {
        match self {
            FidelityFigure::LostPackets | FidelityFigure::LossBursts => Some(Stage::Loss),
            FidelityFigure::DuplicatedPackets => Some(Stage::Duplicate),
            FidelityFigure::DelayMeanSeconds | FidelityFigure::DelayDeviationSeconds => {
                Some(Stage::Delay)
            }
            FidelityFigure::MaxBitsPerSecond => Some(Stage::Rate),
            FidelityFigure::ReorderedPackets => Some(Stage::Reorder),
            FidelityFigure::LatePackets | FidelityFigure::UnplannedDroppedPackets => None,
        }
    }

    /// Whether its value is a time.
    #[must_use]
    pub const fn is_time(self) -> bool {
        matches!(self, FidelityFigure::DelayMeanSeconds | FidelityFigure::DelayDeviationSeconds)
    }

    /// Whether its value is a rate.
    #[must_use]
    pub const fn is_rate(self) -> bool {
        matches!(self, FidelityFigure::MaxBitsPerSecond)
    }
}

impl JudgedFigure {
    fn new(figure: FidelityFigure, value: f64, [min, max]: [f64; 2]) -> Self {
        JudgedFigure { figure, value, min, max, is_within: (min..=max).contains(&value) }
    }

    /// A count of packets, by the law's interval.
    fn count(figure: FidelityFigure, count: u64, law: CountInterval) -> Self {
        let room = if law.low == law.high && law.low == 0 { 0 } else { SEQUENCES };
        let bounds = [law.low.saturating_sub(room), law.high + room].map(|bound| bound as f64);
        Self::new(figure, count as f64, bounds)
    }
}

/// Judges the packets of a period. `None` for a flow without laws, or without packets, from which nothing was dropped
/// unplanned.
pub(crate) fn judge(laws: &Laws, observed: &Observed) -> Option<Fidelity> {
    let Observed { counters, delays, .. } = *observed;
    let received = counters.received_packets;
    let unplanned = counters.unplanned_dropped_packets + observed.link_dropped_packets;
    if received == 0 || laws.is_empty() && unplanned == 0 {
        return None;
    }
    let late = delays.late_packets as f64;
    let most_late = (LATE_RATIO * delays.planned.count as f64).floor();
    let host = [
        JudgedFigure::new(FidelityFigure::UnplannedDroppedPackets, unplanned as f64, [0.0; 2]),
        JudgedFigure::new(FidelityFigure::LatePackets, late, [0.0, most_late]),
    ];
    let mut figures = Vec::new();
    if received >= MIN_PACKETS && laws.trigger.is_none() {
        figures.extend(losses(laws, counters).into_iter().flatten());
        figures.extend(copies(laws, counters));
        figures.extend(maximum_rate(laws, observed));
        figures.extend(delay(laws, observed));
        figures.extend(reordered(laws, observed));
    }
    let limits = host.iter().filter(|figure| !figure.is_within);
    let is_limited = unplanned > 0 || received >= MIN_PACKETS && limits.clone().count() > 0;
    let verdict = match () {
        () if is_limited => FidelityVerdict::HostLimited,
        () if figures.iter().any(|figure| !figure.is_within) => FidelityVerdict::Differs,
        () if figures.is_empty() => FidelityVerdict::NotJudged,
        () => FidelityVerdict::AsAsked,
    };
    if is_limited {
        figures.splice(0..0, limits.copied());
    }
    let is_judged = |stage| figures.iter().any(|one| one.figure.stage() == Some(stage));
    let stages = laws.stages().into_iter();
    let not_judged = stages.filter(|stage| laws.has(*stage) && !is_judged(*stage)).collect();
    let late_limit_seconds = observed.late_limit_ns as f64 / 1e9;
    Some(Fidelity { verdict, figures, not_judged, late_limit_seconds })
}

/// Whether all stages with laws before `stage` are in `before`.
fn follows_only(laws: &Laws, stage: Stage, before: &[Stage]) -> bool {
    let earlier = laws.stages().into_iter().take_while(|one| *one != stage);
    earlier.into_iter().all(|one| before.contains(&one) || !laws.has(one))
}

/// Whether all stages with laws behind `stage` are in `behind`.
fn precedes_only(laws: &Laws, stage: Stage, behind: &[Stage]) -> bool {
    let later = laws.stages().into_iter().skip_while(|one| *one != stage).skip(1);
    later.into_iter().all(|one| behind.contains(&one) || !laws.has(one))
}

/// Packets that the loss law dropped.
pub(crate) fn lost_by_law(counters: &Counters) -> u64 {
    let others = counters.policed_packets + counters.too_long_packets;
    counters.lost_packets.saturating_sub(others)
}

/// The losses and their bursts, if the law judges each received packet.
fn losses(laws: &Laws, counters: &Counters) -> Option<[JudgedFigure; 2]> {
    let law = laws.loss.as_ref().filter(|law| !law.ecn)?;
    if !follows_only(laws, Stage::Loss, &[]) {
        return None;
    }
    let received = counters.received_packets;
    let lost = CountInterval::of_losses(received, law)?;
    let bursts = CountInterval::of_bursts(received, law)?;
    Some([
        JudgedFigure::count(FidelityFigure::LostPackets, lost_by_law(counters), lost),
        JudgedFigure::count(FidelityFigure::LossBursts, counters.loss_bursts, bursts),
    ])
}

/// The copies, if each packet has one at most.
fn copies(laws: &Laws, counters: &Counters) -> Option<JudgedFigure> {
    let probability = laws.duplicate.as_ref()?.probability()?;
    if !follows_only(laws, Stage::Duplicate, &[Stage::Loss]) {
        return None;
    }
    let packets = counters.received_packets.saturating_sub(lost_by_law(counters));
    let copies = CountInterval::independent(packets, probability);
    let figure = FidelityFigure::DuplicatedPackets;
    Some(JudgedFigure::count(figure, counters.duplicated_packets, copies))
}

/// The rate on the link, if it is constant, nothing was queued before the period, and packets leave the emulator as they leave the
/// link. The link's unused time is not counted, so that there is no minimum.
fn maximum_rate(laws: &Laws, observed: &Observed) -> Option<JudgedFigure> {
    let law = laws.rate.as_ref()?;
    let LinkRate::Constant(rate) = law.bits else { return None };
    let delays_more =
        [Stage::Delay, Stage::Reorder, Stage::Batch].into_iter().any(|one| laws.has(one));
    let follows = [Stage::Loss, Stage::Police, Stage::Content];
    let [queued_before, _] = observed.queued_packets;
    if delays_more || queued_before > 0 || !precedes_only(laws, Stage::Rate, &follows) {
        return None;
    }
    let Counters { sent_packets, sent_bytes, .. } = *observed.counters;
    let network_bytes = sent_bytes.saturating_sub(sent_packets * u64::from(ETHERNET_HEADER));
    let bits = |bytes: u64| 8.0 * bytes as f64;
    let sent = bits(law.framing().min_bytes(sent_packets, network_bytes));
    let burst = law.burst.map_or(0, |burst| burst.0) + law.framing().min_bytes(1, LONGEST_PACKET);
    // A virtual clock stops at the last arrival, and what was queued then leaves later.
    let seconds = observed.seconds + observed.delays.max_ns as f64 / 1e9;
    let most = rate.0 as f64 * seconds + bits(burst);
    let [value, most] = [sent, most].map(|bits| bits / observed.seconds);
    (observed.seconds > 0.0)
        .then(|| JudgedFigure::new(FidelityFigure::MaxBitsPerSecond, value, [0.0, most]))
}

/// The reordered packets, if the law moves each one behind a number of others, independently, and nothing else changes the order.
/// Not if those that are queued, or may have left after the law's timeout, leave its minimum at 0.
fn reordered(laws: &Laws, observed: &Observed) -> Option<JudgedFigure> {
    let Observed { counters, delays, .. } = *observed;
    let law = laws.reorder.as_ref()?;
    let probability = law.probability()?;
    let constant_ns = match &laws.delay {
        Some(law) if law.is_constant() => law.moments()?.mean_ns?,
        Some(_) => return None,
        None => 0.0,
    };
    let changes_order = laws.duplicate.is_some()
        || laws.batch.is_some()
        || counters.added_fragments > 0
        || laws.rate.as_ref().is_some_and(|law| law.aqm.is_some());
    if changes_order || !precedes_only(laws, Stage::Reorder, &[Stage::Delay, Stage::Content]) {
        return None;
    }
    let dropped = counters.lost_packets + counters.queue_dropped_packets;
    let packets = counters.received_packets.saturating_sub(dropped);
    let selected = CountInterval::independent(packets, probability);
    // A packet that leaves after the timeout waited for that long.
    let (mean_ns, _) = delays.planned.moments()?;
    let waited_ns = (mean_ns - constant_ns).max(0.0) * delays.planned.count as f64;
    let timeouts = (waited_ns / law.timeout.0 as f64) as u64;
    let [queued_before, queued] = observed.queued_packets;
    let low = selected.low.saturating_sub(queued + timeouts);
    let is_judged = low > 0 || selected.low == 0;
    let interval = CountInterval { low, high: selected.high + queued_before, ..selected };
    let figure = FidelityFigure::ReorderedPackets;
    is_judged.then(|| JudgedFigure::count(figure, counters.reordered_packets, interval))
}

/// The moments of planned delays, if nothing else delays packets and their draws are independent. The standard deviation
/// is not judged as long as its law accounts for any smaller one. Queued packets have draws, and no figures yet.
fn delay(laws: &Laws, observed: &Observed) -> Vec<JudgedFigure> {
    delay_bounds(laws, observed).into_iter().flatten().flatten().collect()
}

fn delay_bounds(laws: &Laws, observed: &Observed) -> Option<[Option<JudgedFigure>; 2]> {
    let Observed { counters, delays, queued_packets: [_, queued], .. } = *observed;
    let law = laws.delay.as_ref()?;
    let others = [Stage::Rate, Stage::Reorder, Stage::Batch];
    let delays_copies = laws.duplicate.as_ref().is_some_and(|law| law.delay.is_some());
    // The fragments of a packet share its draws.
    let is_fragmented = counters.added_fragments > 0;
    if delays_copies || is_fragmented || others.into_iter().any(|stage| laws.has(stage)) {
        return None;
    }
    let moments = law.moments()?;
    let (mean, deviation) = (moments.mean_ns?, moments.deviation_ns?);
    let [shortest, longest] = law.independent_range_ns()?;
    let count = delays.planned.count;
    let (planned_mean, planned_deviation) = delays.planned.moments()?;
    if count < MIN_PACKETS {
        return None;
    }
    let variance = deviation * deviation;
    let reach = (longest - mean).max(mean - shortest);
    let values = law.weighted_ns();
    let drawn = count + queued;
    let [shorter, longer] =
        offsets(values.as_deref(), |x| x - mean, variance, [shortest - mean, longest - mean])
            .map(|offsets| most(&offsets, drawn));
    // The mean of (X − mean)² is the variance, and its own variance at most (reach · deviation)².
    let squares = |x: f64| (x - mean) * (x - mean) - variance;
    let range = [-variance, reach * reach - variance];
    let [less, more] = offsets(values.as_deref(), squares, reach * reach * variance, range)
        .map(|offsets| most(&offsets, drawn));
    // Of all that were drawn, the queued ones may be the longest or the shortest.
    let [count, drawn, queued] = [count, drawn, queued].map(|packets| packets as f64);
    let low = (drawn * (mean - shorter) - queued * longest) / count - 1.0;
    let high = (drawn * (mean + longer) - queued * shortest) / count + 1.0;
    // The variance about their own mean is less, by the square of how far it is off.
    let off = planned_mean.clamp(low, high) - mean;
    let least = (drawn * (variance - less) - queued * reach * reach) / count - off * off;
    let greatest = drawn * (variance + more) / count - off * off;
    let figure = |figure, value: f64, [min, max]: [f64; 2]| {
        JudgedFigure::new(figure, value / 1e9, [min.max(0.0) / 1e9, max / 1e9])
    };
    // Whole nanoseconds.
    let of_deviation = [least.max(0.0).sqrt() - 1.0, greatest.max(0.0).sqrt() + 1.0];
    let is_judged = least > 0.0 || variance == 0.0;
    Some([
        Some(figure(FidelityFigure::DelayMeanSeconds, planned_mean, [low, high])),
        is_judged.then(|| {
            figure(FidelityFigure::DelayDeviationSeconds, planned_deviation, of_deviation)
        }),
    ])
}

/// Offsets of a function of a law from its mean, with weights by which [`most`] judges how far the mean of many values may be below
/// and above it: the law's own, or without them one that stands for all offsets of a `variance` within a range (Bennett).
fn offsets(
    values: Option<&[(f64, f64)]>,
    offset: impl Fn(f64) -> f64,
    variance: f64,
    [lowest, highest]: [f64; 2],
) -> [Vec<(f64, f64)>; 2] {
    [(-1.0, -lowest), (1.0, highest)].map(|(side, reach)| match values {
        Some(values) => values.iter().map(|(x, weight)| (side * offset(*x), *weight)).collect(),
        None if reach > 0.0 => vec![(reach, variance / (reach * reach))],
        None => vec![],
    })
}

/// How far the mean of `count` independent values exceeds the law's, except with probability [`OUTSIDE`]/2: Chernoff's bound,
/// min over θ of (ln E exp(θ·offset) + ln(2/[`OUTSIDE`])/count)/θ. Each θ gives a bound, so that the minimum need not be exact.
fn most(offsets: &[(f64, f64)], count: u64) -> f64 {
    // Twice that probability is for weights that are a few percent off.
    let room = (4.0 / OUTSIDE).ln() / count as f64;
    let variance: f64 = offsets.iter().map(|(offset, weight)| weight * offset * offset).sum();
    if variance <= 0.0 {
        return 0.0;
    }
    let mut theta = (2.0 * room / variance).sqrt();
    let mut most = f64::INFINITY;
    for _ in 0..STEPS {
        // E exp(θ·offset) − 1 and its slope; the mean of the offsets is 0, whatever the weights make of it.
        let (mut part, mut slope) = (0.0, 0.0);
        for (offset, weight) in offsets {
            let grown = (theta * offset).exp_m1();
            part += weight * (grown - theta * offset);
            slope += weight * offset * grown;
        }
        let exponent = part.ln_1p();
        let bound = (exponent + room) / theta;
        let is_better = bound < most;
        if is_better {
            most = bound;
        }
        // At the minimum θ·slope − exponent is `room`, and elsewhere about as θ².
        let ratio = room / (theta * slope / (1.0 + part) - exponent);
        if (0.8..1.25).contains(&ratio) {
            break;
        }
        theta *= if ratio > 0.0 { ratio.sqrt().clamp(1.0 / 64.0, 64.0) } else { 1.0 / 64.0 };
    }
    most
}

#[cfg(test)]
mod tests {
    use weir_laws::{DrawPosition, Philox};
    use weir_model::impairment::{Delay, PacketFacts, RunningDelay};

    use super::*;
    use crate::lateness::LATE_NS;

    fn counters(received: u64, lost: u64, bursts: u64) -> Counters {
        Counters {
            received_packets: received,
            lost_packets: lost,
            loss_bursts: bursts,
            ..Counters::default()
        }
    }

    fn delays(count: u64, planned: impl Fn(u64) -> u64, late_ns: u64) -> Delays {
        let mut delays = Delays::default();
        let times = |n| [0, planned(n), planned(n) + late_ns];
        (0..count).for_each(|n| delays.record(times(n), LATE_NS));
        delays
    }

    /// In 10 s, with empty queues.
    fn observed<'a>(counters: &'a Counters, delays: &'a Delays) -> Observed<'a> {
        let (queued_packets, link_dropped_packets) = ([0; 2], 0);
        let late_limit_ns = LATE_NS;
        let seconds = 10.0;
        Observed { counters, delays, queued_packets, link_dropped_packets, late_limit_ns, seconds }
    }

    fn verdict(text: &str, counters: &Counters, delays: &Delays) -> Option<FidelityVerdict> {
        judge(&text.parse().unwrap(), &observed(counters, delays)).map(|fidelity| fidelity.verdict)
    }

    #[test]
    fn losses_and_bursts_are_judged_by_the_law() {
        use FidelityVerdict::{AsAsked, Differs, NotJudged};
        let of = |text: &str, received, lost, bursts| {
            verdict(text, &counters(received, lost, bursts), &Delays::default()).unwrap()
        };
        assert_eq!(of("loss 10%", 100_000, 10_000, 9_000), AsAsked);
        assert_eq!(of("loss 10%", 100_000, 11_000, 9_900), Differs);
        // As many losses, in longer bursts.
        assert_eq!(of("loss 10%", 100_000, 10_000, 2_500), Differs);
        assert_eq!(of("loss 10% run 4", 100_000, 10_000, 2_500), AsAsked);
        assert_eq!(of("loss 10% run 4", 100_000, 10_000, 9_000), Differs);
        assert_eq!(of("loss every 100", 100_050, 1_001, 1_000), AsAsked);
        assert_eq!(of("loss every 100", 100_000, 1_010, 1_010), Differs);
        assert_eq!(of("loss 10%", 99, 0, 0), NotJudged);
        assert_eq!(of("loss 10%, trigger after 5packets", 100_000, 0, 0), NotJudged);
        // The law does not judge each packet, or has no bounds.
        assert_eq!(of("batch 2 within 1ms, loss 10%, order batch loss", 100_000, 0, 0), NotJudged);
        assert_eq!(of("delay 1ms, loss 10%, order delay loss", 100_000, 0, 0), NotJudged);
        assert_eq!(of("loss schedule(down=20ms..40ms)", 100_000, 0, 0), NotJudged);
        let none = Counters::default();
        assert_eq!(verdict("loss 10%", &none, &Delays::default()), None);
        assert_eq!(verdict("none", &counters(1000, 0, 0), &Delays::default()), None);
    }

    #[test]
    fn planned_delays_are_judged_by_the_law() {
        use FidelityVerdict::{AsAsked, Differs, NotJudged};
        let of = |text: &str, planned: fn(u64) -> u64| {
            let delays = delays(10_000, planned, 20_000);
            verdict(text, &counters(10_000, 0, 0), &delays).unwrap()
        };
        assert_eq!(of("delay 40ms", |_| 40_000_000), AsAsked);
        assert_eq!(of("delay 40ms", |_| 40_000_100), Differs);
        // A uniform delay, evenly spread, and one half as wide.
        let text = "delay 10ms ±5ms uniform allow";
        assert_eq!(of(text, |n| 5_000_000 + n * 1_000), AsAsked);
        assert_eq!(of(text, |n| 7_500_000 + n * 500), Differs);
        assert_eq!(of(text, |n| 5_500_000 + n * 1_000), Differs);
        let correlated = "delay 10ms ±5ms uniform allow correlation 50%";
        for text in ["delay sine(min=1ms, max=2ms, cycle=1s)", correlated, "delay 40ms, rate 1M"] {
            assert_eq!(of(text, |_| 1), NotJudged, "{text}");
        }
    }

    /// Delays of a law, as drawn.
    fn drawn(law: &Delay, seed: u64, packets: u64) -> Vec<u64> {
        let (philox, mut law) = (Philox::new(seed), RunningDelay::of(law).unwrap());
        let at = |packet| DrawPosition {
            flow: 1,
            direction: weir_laws::Direction::Forward,
            slot: weir_laws::slot::DELAY,
            packet,
        };
        let draw = |n| law.draw_ns(&PacketFacts::default(), &mut at(n).draws(&philox));
        (0..packets).map(draw).collect()
    }

    /// The judged figures of planned delays.
    fn judged(laws: &Laws, planned: &[u64], queued: u64) -> Vec<JudgedFigure> {
        let delays = delays(planned.len() as u64, |n| planned[n as usize], 0);
        let counters = Counters::default();
        let queued_packets = [0, queued];
        delay(laws, &Observed { queued_packets, ..observed(&counters, &delays) })
    }

    /// Laws of each kind, and the number of packets by which half of their standard deviation is noticed.
    const LAWS: [(&str, u64); 14] = [
        ("10ms ±10ms normal", 150),
        ("40ms ±5ms normal", 150),
        ("10ms ±5ms uniform", 150),
        ("30ms ±10ms exponential", 300),
        ("30ms ±10ms exponential most 45ms", 150),
        ("40ms ±5ms pareto", 4000),
        ("40ms ±5ms paretonormal", 2000),
        ("pareto(scale=10ms, shape=2.5)", 10_000),
        ("gamma(shape=2, scale=5ms)", 200),
        ("log_normal(mean=10ms, deviation=10ms)", 300),
        ("student(degrees=5, location=40ms, scale=2ms)", 1000),
        ("table(1ms:9, 20ms:1)", 1000),
        ("histogram(10ms..20ms:9, 20ms..80ms:1)", 1000),
        ("mixture(exponential(mean=4ms):3, 10ms:2, 5ms..9ms:1)", 200_000),
    ];

    #[test]
    fn draws_of_a_law_are_within_its_bounds() {
        for (text, half) in LAWS {
            let laws: Laws = format!("delay {text} allow").parse().unwrap();
            let law = laws.delay.as_ref().unwrap();
            let mean = law.moments().unwrap().mean_ns.unwrap();
            for (packets, seeds) in [(100, 20), (1000, 10), (10_000, 3), (100_000, 1)] {
                for seed in 0..seeds {
                    let mut planned = drawn(law, seed, packets);
                    let figures = judged(&laws, &planned, 0);
                    let all = figures.iter().all(|figure| figure.is_within);
                    assert!(all && !figures.is_empty(), "{text}, {packets}: {figures:?}");
                    // The longest tenth is still queued.
                    planned.sort_unstable();
                    let queued = packets / 10;
                    planned.truncate((packets - queued) as usize);
                    let figures = judged(&laws, &planned, queued);
                    let all = figures.iter().all(|figure| figure.is_within);
                    assert!(all, "{text}, {packets}, {queued} queued: {figures:?}");
                }
            }
            for seed in 0..5 {
                let halved = |ns: u64| (mean + (ns as f64 - mean) / 2.0).round() as u64;
                let planned: Vec<u64> = drawn(law, seed, half).into_iter().map(halved).collect();
                let figures = judged(&laws, &planned, 0);
                let is_noticed = figures.iter().any(|figure| !figure.is_within);
                assert!(is_noticed, "{text}, {half}: {figures:?}");
            }
        }
    }

    #[test]
    fn fragments_with_the_draws_of_their_packet_are_not_judged() {
        let laws: Laws = "mtu 576 fragment, delay 10ms ±5ms uniform allow".parse().unwrap();
        let delays = delays(10_000, |n| 5_000_000 + n * 1_000, 0);
        let whole = Counters::default();
        assert_eq!(delay(&laws, &observed(&whole, &delays)).len(), 2);
        let fragmented = Counters { added_fragments: 1, ..whole };
        assert_eq!(delay(&laws, &observed(&fragmented, &delays)), []);
    }

    #[test]
    fn a_rate_is_judged_by_its_maximum() {
        let of = |text: &str, sent_bytes, queued_before| {
            let counters = Counters { sent_packets: 1000, sent_bytes, ..counters(1000, 0, 0) };
            let delays = delays(1000, |_| 100_000_000, 0);
            let observed =
                Observed { queued_packets: [queued_before, 0], ..observed(&counters, &delays) };
            maximum_rate(&text.parse().unwrap(), &observed).map(|one| (one.value, one.is_within))
        };
        // 10 s and the 100 ms of the queue carry 1 262 500 bytes. The link has 4 bytes a packet more than the frame.
        let most = 1_262_500 + 65_535 + 18 - 4 * 1000;
        let rate = |bytes: u64| 8.0 * (bytes + 4000) as f64 / 10.0;
        assert_eq!(of("rate 1M", most, 0), Some((rate(most), true)));
        assert_eq!(of("rate 1M", most + 1, 0), Some((rate(most + 1), false)));
        assert_eq!(of("rate 1M", 100_000, 0), Some((rate(100_000), true)));
        let burst = most + 10_240;
        assert_eq!(of("rate 1M burst 10K", burst, 0), Some((rate(burst), true)));
        assert_eq!(of("rate 1M burst 10K", burst + 1, 0), Some((rate(burst + 1), false)));
        let framed = most + 4000 - 24_000 + 20;
        assert_eq!(of("rate 1M overhead 38", framed, 0).map(|of| of.1), Some(true));
        assert_eq!(of("rate 1M overhead 38", framed + 1, 0).map(|of| of.1), Some(false));
        // Cells of 53 bytes have 48 of packets.
        assert_eq!(of("rate 1M cells 48+5", most * 48 / 53, 0).map(|of| of.1), Some(true));
        assert_eq!(of("rate 1M cells 48+5", most * 49 / 53, 0).map(|of| of.1), Some(false));
        assert_eq!(of("rate 1M", most, 1), None);
        for text in ["rate 1M, delay 1ms", "rate 1M, duplicate 1%, order rate duplicate"] {
            assert_eq!(of(text, most, 0), None, "{text}");
        }
        assert!(of("rate 1M, duplicate 1%, loss 1%", most, 0).is_some());
    }

    #[test]
    fn reordered_packets_are_judged_by_the_law() {
        let of = |text: &str, reordered_packets, wait_ns: u64, queued_packets| {
            let counters = Counters { reordered_packets, ..counters(11_000, 1000, 1000) };
            let delays = delays(10_000, |_| wait_ns, 0);
            let observed = Observed { queued_packets, ..observed(&counters, &delays) };
            let figure = reordered(&text.parse().unwrap(), &observed);
            figure.map(|one| (one.min, one.max, one.is_within))
        };
        // 4 % of 10 000, ± 6 standard deviations of 19.6.
        let interval = CountInterval::independent(10_000, 0.04);
        let (low, high) = (interval.low as f64 - 2.0, interval.high as f64 + 2.0);
        assert_eq!(of("reorder 4%", 400, 0, [0; 2]), Some((low, high, true)));
        assert_eq!(of("reorder 4%", 270, 0, [0; 2]), Some((low, high, false)));
        assert_eq!(of("reorder 4%", 530, 0, [0; 2]), Some((low, high, false)));
        assert_eq!(of("delay 20ms, reorder 4%", 400, 20_000_000, [0; 2]), Some((low, high, true)));
        assert_eq!(of("rate 1G, reorder 4% by 3packets", 400, 0, [0; 2]), Some((low, high, true)));
        // What is queued may be selected, and what was queued counts when it leaves.
        assert_eq!(of("reorder 4%", 400, 0, [7, 9]), Some((low - 9.0, high + 7.0, true)));
        // 10 s of waiting may be 10 timeouts of 1 s, or 100 of 100 ms.
        assert_eq!(of("reorder 4%", 400, 1_000_000, [0; 2]), Some((low - 10.0, high, true)));
        let short = of("reorder 4% within 100ms", 400, 1_000_000, [0; 2]);
        assert_eq!(short, Some((low - 100.0, high, true)));
        assert_eq!(of("reorder 4% within 10ms", 400, 1_000_000, [0; 2]), None);
        for text in [
            "reorder 4% by 1ms",
            "reorder 4% ahead",
            "reorder 4% 20%",
            "reorder every 25",
            "reorder 4%, delay 10ms ±1ms",
            "reorder 4%, duplicate 1%",
            "reorder 4%, batch 2 within 1ms",
            "reorder 4%, batch 2 within 1ms, order batch reorder",
            "reorder 4%, rate 1M fq_codel",
            "reorder 4%, loss 1%, order reorder loss",
        ] {
            assert_eq!(of(text, 400, 0, [0; 2]), None, "{text}");
        }
    }

    #[test]
    fn stages_without_a_judged_figure_are_named() {
        let of = |text: &str, received| {
            let delays = delays(received, |_| 5_000_000, 0);
            let counters = counters(received, received / 10, received / 11);
            judge(&text.parse().unwrap(), &observed(&counters, &delays)).unwrap().not_judged
        };
        assert_eq!(of("loss 10%, delay 5ms", 1000), []);
        assert_eq!(of("loss 10%, delay 5ms", 99), [Stage::Loss, Stage::Delay]);
        let text = "loss 10%, delay 5ms, rate 1M, corrupt 1%, order content rate";
        assert_eq!(of(text, 1000), [Stage::Content, Stage::Rate, Stage::Loss, Stage::Delay]);
        let text = "loss 10%, delay 5ms, corrupt 1%";
        assert_eq!(of(text, 1000), [Stage::Content]);
    }

    #[test]
    fn drops_and_lateness_of_the_host_come_first() {
        let late = delays(1000, |_| 5_000_000, 2_000_000);
        let many = counters(1000, 0, 0);
        let limited = Some(FidelityVerdict::HostLimited);
        assert_eq!(verdict("delay 5ms", &many, &late), limited);
        assert_eq!(verdict("delay 9ms", &many, &late), limited);
        let on_time = delays(1000, |_| 5_000_000, 900_000);
        let dropped = Counters { unplanned_dropped_packets: 1, ..many };
        assert_eq!(verdict("delay 5ms", &dropped, &on_time), limited);
        assert_eq!(verdict("none", &dropped, &Delays::default()), limited);
        let laws = "delay 5ms".parse().unwrap();
        let lost_in_links = Observed { link_dropped_packets: 3, ..observed(&many, &on_time) };
        let fidelity = judge(&laws, &lost_in_links).unwrap();
        assert_eq!(fidelity.verdict, FidelityVerdict::HostLimited);
        let first = fidelity.figures[0];
        assert_eq!(first.figure, FidelityFigure::UnplannedDroppedPackets);
        assert!(first.value == 3.0 && !first.is_within && fidelity.figures.len() == 3);
        assert_eq!(fidelity.late_limit_seconds, 0.001);
        assert_eq!(verdict("delay 5ms", &many, &on_time), Some(FidelityVerdict::AsAsked));
    }
}
