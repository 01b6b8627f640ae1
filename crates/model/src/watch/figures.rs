//! Figures of a pair of agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::Delay;

/// What was measured from one agent to another and back in some time. A figure is measured or absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PairFigures {
    /// Time that the figures cover, s; less than the time that they are of if measuring was interrupted.
    pub covered_seconds: f64,
    /// Probes sent.
    pub sent_packets: u64,
    /// Probes that came back within the loss threshold.
    pub received_packets: u64,
    /// Probes that did not: sent - received.
    pub lost_packets: u64,
    /// Lost / sent; absent if none was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_ratio: Option<f64>,
    /// Probes that arrived at the far agent, by its own count, in this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived_packets: Option<u64>,
    /// Probes lost on the path there, by gaps in the numbers that arrived. They are counted when a later probe arrives, so that
    /// those of an outage are counted after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_forward_packets: Option<u64>,
    /// Round trips, by the probing agent's clock, including the time that the far agent takes to reply. Percentiles are absent
    /// below 10 / (1 - q) samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<Delay>,
    /// Mean one-way delay there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_delay_seconds: Option<f64>,
    /// Mean round trip minus mean one-way delay there: the mean delay of the way back, including the time that the far agent
    /// takes to reply. Absent if probes were lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_delay_seconds: Option<f64>,
    /// Bound of the error of both one-way delays: that of the relation of the agents' clocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_way_error_seconds: Option<f64>,
}

impl PairFigures {
    /// The figures of several times together. Counts are sums, and means are weighted by the probes of their times. Percentiles
    /// and deviations are absent, unless there is one time only: those of parts do not give that of the whole.
    #[must_use]
    pub fn together(parts: &[PairFigures]) -> PairFigures {
        if let [one] = parts {
            return one.clone();
        }
        let sum = |of: fn(&PairFigures) -> u64| parts.iter().map(of).fold(0, u64::saturating_add);
        let known = |of: fn(&PairFigures) -> Option<u64>| {
            parts.iter().filter_map(of).reduce(u64::saturating_add)
        };
        let (sent, lost) = (sum(|part| part.sent_packets), sum(|part| part.lost_packets));
        let mean = |of: fn(&PairFigures) -> Option<f64>| {
            weighted(parts.iter().filter_map(|part| Some((of(part)?, part.received_packets))))
        };
        let errors = parts.iter().filter_map(|part| part.one_way_error_seconds);
        PairFigures {
            covered_seconds: parts.iter().map(|part| part.covered_seconds).sum(),
            sent_packets: sent,
            received_packets: sum(|part| part.received_packets),
            lost_packets: lost,
            loss_ratio: (sent > 0).then(|| lost as f64 / sent as f64),
            arrived_packets: known(|part| part.arrived_packets),
            lost_forward_packets: known(|part| part.lost_forward_packets),
            round_trip: round_trip(parts),
            forward_delay_seconds: mean(|part| part.forward_delay_seconds),
            return_delay_seconds: mean(|part| part.return_delay_seconds),
            one_way_error_seconds: errors.reduce(f64::max),
        }
    }
}

/// The mean of means with the numbers of their values.
fn weighted(means: impl Iterator<Item = (f64, u64)>) -> Option<f64> {
    let add =
        |(sum, count): (f64, f64), (mean, n): (f64, u64)| (sum + mean * n as f64, count + n as f64);
    let (sum, count) = means.fold((0.0, 0.0), add);
    (count > 0.0).then(|| sum / count)
}

fn round_trip(parts: &[PairFigures]) -> Option<Delay> {
    let all = || parts.iter().filter_map(|part| part.round_trip.as_ref());
    Some(Delay {
        count: all().map(|delay| delay.count).fold(0, u64::saturating_add),
        min_seconds: all().map(|delay| delay.min_seconds).reduce(f64::min)?,
        mean_seconds: weighted(all().map(|delay| (delay.mean_seconds, delay.count)))?,
        max_seconds: all().map(|delay| delay.max_seconds).reduce(f64::max)?,
        ..Delay::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(sent: u64, lost: u64, mean: f64) -> PairFigures {
        let round_trip = Delay {
            count: sent - lost,
            min_seconds: mean / 2.0,
            mean_seconds: mean,
            max_seconds: mean * 2.0,
            p50_seconds: Some(mean),
            ..Delay::default()
        };
        PairFigures {
            covered_seconds: 60.0,
            sent_packets: sent,
            received_packets: sent - lost,
            lost_packets: lost,
            loss_ratio: Some(lost as f64 / sent as f64),
            round_trip: Some(round_trip),
            forward_delay_seconds: Some(mean / 2.0),
            one_way_error_seconds: Some(mean / 100.0),
            ..PairFigures::default()
        }
    }

    #[test]
    fn times_are_added_up() {
        let parts = [part(600, 0, 0.01), part(400, 200, 0.05)];
        let whole = PairFigures::together(&parts);
        assert_eq!(
            (whole.sent_packets, whole.lost_packets, whole.loss_ratio),
            (1000, 200, Some(0.2))
        );
        assert_eq!((whole.covered_seconds, whole.one_way_error_seconds), (120.0, Some(0.0005)));
        assert!((whole.forward_delay_seconds.unwrap() - 0.01).abs() < 1e-12);
        assert_eq!((whole.return_delay_seconds, whole.arrived_packets), (None, None));
        let delay = whole.round_trip.unwrap();
        assert!((delay.mean_seconds - 0.02).abs() < 1e-12);
        assert_eq!((delay.count, delay.min_seconds, delay.max_seconds), (800, 0.005, 0.1));
        // The median of a part is not that of the whole.
        assert_eq!(delay.p50_seconds, None);
    }

    #[test]
    fn one_time_keeps_its_figures() {
        let one = part(10, 1, 0.5);
        assert_eq!(PairFigures::together(std::slice::from_ref(&one)), one);
        assert_eq!(PairFigures::together(&[]), PairFigures::default());
    }
}
