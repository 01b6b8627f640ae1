//! `weir.watch/1`: the lines of a running watch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PairFigures;

/// The schema name of the lines.
pub const WATCH_SCHEMA: &str = "weir.watch/1";

/// A line of `weir fleet watch --json`. Times are those of the controller's clock, seconds since 1970.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum Line {
    /// The first line.
    Start(StartLine),
    /// An agent has appeared, or is gone.
    Agent(AgentLine),
    /// A second of a pair.
    Second(Box<SecondLine>),
    /// A throughput burst.
    Burst(BurstLine),
    /// A figure of a pair has changed.
    Change(ChangeLine),
}

impl Line {
    /// Its time, s since 1970.
    #[must_use]
    pub fn at_unix_seconds(&self) -> f64 {
        match self {
            Line::Start(line) => line.at_unix_seconds,
            Line::Agent(line) => line.at_unix_seconds,
            Line::Second(line) => line.at_unix_seconds,
            Line::Burst(line) => line.at_unix_seconds,
            Line::Change(line) => line.at_unix_seconds,
        }
    }
}

/// The first line of a watch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StartLine {
    /// `weir.watch/1`.
    #[schemars(extend("const" = "weir.watch/1"))]
    pub schema: String,
    /// The name of the mesh.
    pub mesh: String,
    /// Version of Weir that measures.
    pub version: String,
    /// When it started.
    pub at_unix_seconds: f64,
    /// Agents of the mesh that are known.
    pub agents: Vec<String>,
    /// Pairs that are measured: the agent that probes, and the one that replies.
    pub pairs: Vec<(String, String)>,
    /// Lengths of the rolling windows, s, from short to long.
    pub window_seconds: Vec<f64>,
}

/// Whether an agent of the mesh is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AgentState {
    /// It is connected.
    Connected,
    /// It was not seen for 50 s, was stopped, or no longer belongs to the mesh: its pairs pause until it is back.
    Gone,
    /// It can't be measured; the line states why.
    Unusable,
}

/// An agent of the mesh.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentLine {
    /// When that was noticed.
    pub at_unix_seconds: f64,
    /// Its name.
    pub agent: String,
    /// Its state from now on.
    pub state: AgentState,
    /// Its address, to which others send probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Why it can't be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A second of a pair, reported when its probes have come back or are given up.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SecondLine {
    /// Its start.
    pub at_unix_seconds: f64,
    /// The agent that probes.
    pub from: String,
    /// The agent that replies.
    pub to: String,
    /// Its figures.
    #[serde(flatten)]
    pub figures: PairFigures,
    /// Figures of the windows that end with it, from short to long.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<WindowFigures>,
}

/// A minute of a pair, as it is stored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Minute {
    /// Its start, s since 1970: a multiple of 60.
    pub at_unix_seconds: u64,
    /// The agent that probes.
    pub from: String,
    /// The agent that replies.
    pub to: String,
    /// Its figures; `covered_seconds` is less than 60 if measuring was interrupted.
    #[serde(flatten)]
    pub figures: PairFigures,
}

/// Figures of a rolling window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct WindowFigures {
    /// Length of the window.
    pub window_seconds: f64,
    /// Its figures; `covered_seconds` is less than its length until it is full.
    #[serde(flatten)]
    pub figures: PairFigures,
}

/// A throughput burst between two agents.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct BurstLine {
    /// When its result arrived.
    pub at_unix_seconds: f64,
    /// The agent that sends.
    pub from: String,
    /// The agent that receives.
    pub to: String,
    /// `tcp`, or `udp` at a stated rate.
    pub transport: String,
    /// Time of sending, s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Payload rate at the receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits_per_second: Option<f64>,
    /// Lost / sent, of UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_ratio: Option<f64>,
    /// Segments retransmitted, of TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// The id of its record, which the sending agent has stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Why it has no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A figure for which changes are marked.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ChangedFigure {
    /// The median round trip, s.
    RoundTrip,
    /// Lost / sent.
    Loss,
}

/// A change of a pair's figure: between two adjacent windows, by more than the threshold and than chance explains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeLine {
    /// The end of the first window and start of the second.
    pub at_unix_seconds: f64,
    /// The agent that probes.
    pub from: String,
    /// The agent that replies.
    pub to: String,
    /// The figure.
    pub figure: ChangedFigure,
    /// Its value in the window before.
    pub before: f64,
    /// Its value in the window after.
    pub after: f64,
    /// The change had to exceed this: the larger of the threshold and the noise.
    pub threshold: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        let (from, to) = ("a".to_owned(), "b".to_owned());
        let figures = PairFigures { sent_packets: 3, ..PairFigures::default() };
        let window = WindowFigures { window_seconds: 60.0, figures: figures.clone() };
        for line in [
            Line::Start(StartLine {
                schema: WATCH_SCHEMA.into(),
                mesh: "m".into(),
                version: "1".into(),
                at_unix_seconds: 0.5,
                agents: vec![from.clone()],
                pairs: vec![(from.clone(), to.clone())],
                window_seconds: vec![60.0],
            }),
            Line::Agent(AgentLine {
                at_unix_seconds: 0.5,
                agent: from.clone(),
                state: AgentState::Gone,
                address: None,
                reason: None,
            }),
            Line::Second(Box::new(SecondLine {
                at_unix_seconds: 0.5,
                from: from.clone(),
                to: to.clone(),
                figures,
                windows: vec![window],
            })),
            Line::Burst(BurstLine { from: from.clone(), to: to.clone(), ..BurstLine::default() }),
            Line::Change(ChangeLine {
                at_unix_seconds: 0.5,
                from,
                to,
                figure: ChangedFigure::RoundTrip,
                before: 0.1,
                after: 0.2,
                threshold: 0.05,
            }),
        ] {
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line, "{text}");
        }
    }
}
