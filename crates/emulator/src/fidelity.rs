//! The verdict on a flow: whether what was realised can come from its laws.
//!
//! Random figures are judged by bounds that their law exceeds with a probability of 10⁻⁹ at most: counts by
//! [`CountInterval`], moments of delays by Bernstein's inequality.

use serde::{Deserialize, Serialize};
use weir_model::impairment::{CountInterval, Counters, Laws, OUTSIDE, Stage};

use crate::lateness::Delays;

/// Fewest packets that are judged: fewer fit almost any law.
pub(crate) const MIN_PACKETS: u64 = 100;

/// Fraction of packets more than 1 ms late up to which the host is not the limit.
const LATE_RATIO: f64 = 0.01;

/// Sequences of packets that a law judges for itself (ordinary packets and control traffic), each of which may start or end
/// within a burst or a count.
const SEQUENCES: u64 = 2;

/// The verdict on a flow in one direction, for the current period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorFidelity")]
pub struct Fidelity {
    /// The verdict.
    pub verdict: FidelityVerdict,
    /// The figures that were judged. A law without a bound for its figures is not judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<JudgedFigure>,
}

/// A verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "EmulatorVerdict")]
#[serde(rename_all = "kebab-case")]
pub enum FidelityVerdict {
    /// All judged figures are within their bounds.
    AsAsked,
    /// No figure was judged: fewer than 100 packets, a trigger, or laws without bounds.
    NotJudged,
    /// A figure is outside of its bounds.
    Differs,
    /// Packets were dropped without a law, or more than 1 % left more than 1 ms late: the host or its links were the limit.
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
    /// Its value: packets, bursts or seconds.
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
    /// Packets that left more than 1 ms after their deadline.
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
            FidelityFigure::LatePackets => "late packets",
            FidelityFigure::UnplannedDroppedPackets => "packets dropped unplanned",
        }
    }

    /// Whether its value is a time.
    #[must_use]
    pub const fn is_time(self) -> bool {
        matches!(self, FidelityFigure::DelayMeanSeconds | FidelityFigure::DelayDeviationSeconds)
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
/// unplanned. `link_dropped` are packets of the direction that no flow counts.
pub(crate) fn judge(
    laws: &Laws,
    counters: &Counters,
    delays: &Delays,
    link_dropped: u64,
) -> Option<Fidelity> {
    let received = counters.received_packets;
    let unplanned = counters.unplanned_dropped_packets + link_dropped;
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
        figures.extend(delay(laws, delays).into_iter().flatten());
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
    Some(Fidelity { verdict, figures })
}

/// Whether all stages with laws before `stage` are in `before`.
fn follows_only(laws: &Laws, stage: Stage, before: &[Stage]) -> bool {
    let earlier = laws.stages().into_iter().take_while(|one| *one != stage);
    earlier.into_iter().all(|one| before.contains(&one) || !laws.has(one))
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

/// The moments of planned delays, if nothing else delays packets and their draws are independent.
fn delay(laws: &Laws, delays: &Delays) -> Option<[JudgedFigure; 2]> {
    let law = laws.delay.as_ref()?;
    let others = [Stage::Rate, Stage::Reorder, Stage::Batch];
    let delays_copies = laws.duplicate.as_ref().is_some_and(|law| law.delay.is_some());
    if delays_copies || others.into_iter().any(|stage| laws.has(stage)) {
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
    let reach = (longest - mean).max(mean - shortest);
    // Whole nanoseconds.
    let room = 1.0 + bernstein(deviation, reach, count);
    // (X − mean)² is at most reach², and its variance at most (reach · deviation)².
    let of_squares = bernstein(reach * deviation, reach * reach, count);
    let variance = deviation * deviation;
    let low = (variance - of_squares - room * room).max(0.0).sqrt() - 1.0;
    let high = (variance + of_squares).sqrt() + 1.0;
    let bounds = |low: f64, high: f64| [low.max(0.0) / 1e9, high / 1e9];
    let mean_bounds = bounds(mean - room, mean + room);
    Some([
        JudgedFigure::new(FidelityFigure::DelayMeanSeconds, planned_mean / 1e9, mean_bounds),
        JudgedFigure::new(
            FidelityFigure::DelayDeviationSeconds,
            planned_deviation / 1e9,
            bounds(low, high),
        ),
    ])
}

/// How far the mean of `count` independent values is from theirs, except with probability [`OUTSIDE`]; each is at most `reach` from
/// it (Bernstein's inequality).
fn bernstein(deviation: f64, reach: f64, count: u64) -> f64 {
    let (room, count) = ((2.0 / OUTSIDE).ln(), count as f64);
    deviation * (2.0 * room / count).sqrt() + 2.0 * reach * room / (3.0 * count)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        (0..count).for_each(|n| delays.record(0, planned(n), planned(n) + late_ns));
        delays
    }

    fn verdict(text: &str, counters: &Counters, delays: &Delays) -> Option<FidelityVerdict> {
        judge(&text.parse().unwrap(), counters, delays, 0).map(|fidelity| fidelity.verdict)
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
        assert_eq!(of("rate 1M, loss 10%, order rate loss", 100_000, 0, 0), NotJudged);
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
        let fidelity = judge(&laws, &many, &on_time, 3).unwrap();
        assert_eq!(fidelity.verdict, FidelityVerdict::HostLimited);
        let first = fidelity.figures[0];
        assert_eq!(first.figure, FidelityFigure::UnplannedDroppedPackets);
        assert!(first.value == 3.0 && !first.is_within && fidelity.figures.len() == 3);
        assert_eq!(verdict("delay 5ms", &many, &on_time), Some(FidelityVerdict::AsAsked));
    }
}
