//! The latest figures of a mesh, which a view of it shows.

use weir_model::watch::{PairFigures, SecondLine};

/// The latest figures of a pair: those of the shortest rolling window, or of the latest second in a mesh without windows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LatestPair {
    /// The agent that probes.
    pub from: String,
    /// The agent that replies.
    pub to: String,
    /// Start of the latest second, s since 1970.
    pub at_unix_seconds: f64,
    /// Length of the window, s; 1 for the latest second alone.
    pub window_seconds: f64,
    /// Probes sent in the window.
    pub sent_packets: u64,
    /// Lost / sent.
    pub loss_ratio: Option<f64>,
    /// Median round trip.
    pub round_trip_p50_seconds: Option<f64>,
    /// Mean round trip.
    pub round_trip_mean_seconds: Option<f64>,
    /// Mean one-way delay to the agent that replies.
    pub forward_delay_seconds: Option<f64>,
    /// Mean delay of the way back.
    pub return_delay_seconds: Option<f64>,
    /// Bound of the error of both one-way delays.
    pub one_way_error_seconds: Option<f64>,
    /// Probes sent in the latest second.
    pub last_sent_packets: u64,
    /// Probes of the latest second that did not come back.
    pub last_lost_packets: u64,
}

impl LatestPair {
    /// That of a pair whose latest second this is.
    #[must_use]
    pub fn of(second: &SecondLine) -> LatestPair {
        let (window_seconds, figures) = match second.windows.first() {
            Some(window) => (window.window_seconds, &window.figures),
            None => (1.0, &second.figures),
        };
        let PairFigures { round_trip, .. } = figures;
        LatestPair {
            from: second.from.clone(),
            to: second.to.clone(),
            at_unix_seconds: second.at_unix_seconds,
            window_seconds,
            sent_packets: figures.sent_packets,
            loss_ratio: figures.loss_ratio,
            round_trip_p50_seconds: round_trip.as_ref().and_then(|delay| delay.p50_seconds),
            round_trip_mean_seconds: round_trip.as_ref().map(|delay| delay.mean_seconds),
            forward_delay_seconds: figures.forward_delay_seconds,
            return_delay_seconds: figures.return_delay_seconds,
            one_way_error_seconds: figures.one_way_error_seconds,
            last_sent_packets: second.figures.sent_packets,
            last_lost_packets: second.figures.lost_packets,
        }
    }
}

/// The latest burst from one agent to another.
#[derive(Debug, Clone, PartialEq)]
pub struct LatestBurst {
    /// The agent that sent.
    pub from: String,
    /// The agent that received.
    pub to: String,
    /// When its result arrived, s since 1970.
    pub at_unix_seconds: f64,
    /// Payload rate at the receiver; absent if the burst failed.
    pub bits_per_second: Option<f64>,
}

/// A mesh that has figures.
#[derive(Debug, Clone, PartialEq)]
pub struct MeshSummary {
    /// Its name.
    pub name: String,
    /// Start of the latest second of any pair, s since 1970.
    pub at_unix_seconds: Option<f64>,
    /// Agents whose state is known.
    pub agents: u64,
    /// Those of them that are connected.
    pub connected_agents: u64,
    /// Pairs that have figures.
    pub pairs: u64,
}
