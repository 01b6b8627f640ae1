//! `weir.mesh/1`: which agents measure each other, and how.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::document::{self, DocumentError};
use crate::units::{RateLimit, SendRate, Span};

/// The schema name.
pub const MESH_SCHEMA: &str = "weir.mesh/1";

/// Maximum number of listed pairs.
const MAX_PAIRS: usize = 10_000;
/// Maximum number of rolling windows.
const MAX_WINDOWS: usize = 8;
const MINUTE: Span = Span::from_seconds(60);
const DAY: Span = Span::from_seconds(86_400);

/// A mesh of agents that are measured continuously.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mesh {
    /// `weir.mesh/1`.
    #[schemars(extend("const" = "weir.mesh/1"))]
    pub schema: String,
    /// Its name: 1 to 63 letters, digits and hyphens. Figures are stored under it.
    pub name: String,
    /// Agents: names and labels KEY=VALUE, separated by commas, or `all`.
    #[serde(default = "all")]
    pub agents: String,
    /// A star: this agent and each other one are a pair. Absent: all pairs, unless `pairs` lists some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<String>,
    /// Pairs of agents by their names: the one that probes, and the one that replies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<(String, String)>,
    /// The label whose value is the address of an agent. Agents without it are reached at the first global address of their
    /// interfaces.
    #[serde(default = "address_label")]
    pub address_label: String,
    /// The probes of each pair.
    #[serde(default)]
    pub probes: Probes,
    /// Lengths of the rolling windows, whole seconds from 10 s to 1 d, at most 8.
    #[serde(default = "windows")]
    pub windows: Vec<Span>,
    /// When a change is marked.
    #[serde(default)]
    pub changes: Changes,
    /// Throughput bursts; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursts: Option<Bursts>,
}

fn all() -> String {
    "all".into()
}

fn address_label() -> String {
    "address".into()
}

fn windows() -> Vec<Span> {
    [60, 600, 3600].map(Span::from_seconds).into()
}

/// UDP datagrams that the far agent sends back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Probes {
    /// Probes per second of each pair, 1 to 1000.
    #[schemars(range(min = 1, max = 1000))]
    pub per_second: u32,
    /// Payload of a probe, 32 to 1400 bytes.
    #[schemars(range(min = 32, max = 1400))]
    pub payload_bytes: u32,
    /// A probe that has not come back after this time is lost, 100 ms to 10 s.
    pub loss_threshold: Span,
}

impl Default for Probes {
    fn default() -> Self {
        Probes { per_second: 10, payload_bytes: 64, loss_threshold: Span::from_seconds(2) }
    }
}

/// When a change of a pair's figures is marked: the figure of a window differs from that of the window before it by more than the
/// threshold, and by more than chance explains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Changes {
    /// Length of each of the two windows, whole seconds from 10 s to 1 h.
    pub window: Span,
    /// Threshold of the median round trip: percent of the window before, 1 to 1000.
    pub round_trip_percentage: f64,
    /// Smaller changes of the median round trip are not marked, 0 to 10 s.
    pub round_trip_minimum: Span,
    /// Threshold of the loss: percentage points, 0.01 to 100.
    pub loss_percentage: f64,
}

impl Default for Changes {
    fn default() -> Self {
        Changes {
            window: MINUTE,
            round_trip_percentage: 10.0,
            round_trip_minimum: Span(100_000),
            loss_percentage: 1.0,
        }
    }
}

/// Throughput bursts: in each period one burst in each direction of each pair. No two run at the same time at one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// From the start of a round of bursts to the start of the next one, 1 min to 1 d. A round that takes longer delays the next one.
    pub every: Span,
    /// Duration of a burst, 1 s to 60 s.
    #[serde(default = "burst_duration")]
    pub duration: Span,
    /// Send UDP at this rate, bit/s; absent: TCP, as fast as the path takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<SendRate>,
}

fn burst_duration() -> Span {
    Span::from_seconds(5)
}

fn refused(field: &str, given: impl Into<String>, accepted: &str) -> ModelError {
    ModelError::Field { field: field.into(), given: given.into(), accepted: accepted.into() }
}

/// Refuses a length of time outside of a range.
fn within(
    field: &str,
    span: Span,
    least: Span,
    most: Span,
    accepted: &str,
) -> Result<(), ModelError> {
    match (least..=most).contains(&span) {
        true => Ok(()),
        false => Err(refused(field, span.to_string(), accepted)),
    }
}

fn is_whole(span: Span) -> bool {
    span.0.is_multiple_of(1_000_000_000)
}

impl Mesh {
    /// Reads a mesh from TOML, or from JSON if it starts with `{`, and checks it.
    ///
    /// # Errors
    /// [`ModelError`] with line, or with the path of the field, what was given and what is accepted.
    pub fn parse(text: &str) -> Result<Mesh, ModelError> {
        let of = |error: Box<DocumentError>| ModelError::from(error.of(MESH_SCHEMA));
        let tree = document::tree(text).map_err(of)?;
        let mesh: Mesh = document::read(&tree).map_err(|error| of(error.located(text)))?;
        mesh.check().map_err(|error| DocumentError::of_check(error, MESH_SCHEMA, text))?;
        Ok(mesh)
    }

    fn check(&self) -> Result<(), ModelError> {
        if self.schema != MESH_SCHEMA {
            return Err(refused("schema", format!("'{}'", self.schema), MESH_SCHEMA));
        }
        let is_name = self.name.len() <= 63
            && self.name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && self.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_name {
            let accepted = "1 to 63 letters, digits and hyphens, a letter or digit first";
            return Err(refused("name", format!("'{}'", self.name), accepted));
        }
        self.check_pairs()?;
        self.probes.check()?;
        let accepted = "whole seconds from 10s to 1d";
        for (at, window) in self.windows.iter().enumerate() {
            let field = format!("windows[{at}]");
            within(&field, *window, Span::from_seconds(10), DAY, accepted)?;
            if !is_whole(*window) {
                return Err(refused(&field, window.to_string(), accepted));
            }
        }
        if self.windows.len() > MAX_WINDOWS {
            return Err(refused("windows", self.windows.len().to_string(), "at most 8 windows"));
        }
        self.changes.check()?;
        self.bursts.as_ref().map_or(Ok(()), Bursts::check)
    }

    fn check_pairs(&self) -> Result<(), ModelError> {
        if self.hub.is_some() && !self.pairs.is_empty() {
            let accepted = "one of hub and pairs";
            return Err(refused("pairs", "both hub and pairs", accepted));
        }
        if self.pairs.len() > MAX_PAIRS {
            let accepted = "at most 10000 pairs";
            return Err(refused("pairs", self.pairs.len().to_string(), accepted));
        }
        let mut seen = BTreeSet::new();
        for (at, (from, to)) in self.pairs.iter().enumerate() {
            let field = format!("pairs[{at}]");
            let given = format!("{from}, {to}");
            if from == to {
                return Err(refused(&field, given, "two different agents"));
            }
            if !seen.insert((from.min(to), from.max(to))) {
                let accepted = "each pair once: probes measure both directions";
                return Err(refused(&field, given, accepted));
            }
        }
        Ok(())
    }
}

impl Probes {
    fn check(&self) -> Result<(), ModelError> {
        if !(1..=1000).contains(&self.per_second) {
            let given = self.per_second.to_string();
            return Err(refused("probes.per_second", given, "1 to 1000"));
        }
        if !(32..=1400).contains(&self.payload_bytes) {
            let given = self.payload_bytes.to_string();
            return Err(refused("probes.payload_bytes", given, "32 to 1400"));
        }
        let (least, most) = (Span(100_000_000), Span::from_seconds(10));
        within("probes.loss_threshold", self.loss_threshold, least, most, "100ms to 10s")
    }
}

impl Changes {
    fn check(&self) -> Result<(), ModelError> {
        let accepted = "whole seconds from 10s to 1h";
        let (least, most) = (Span::from_seconds(10), Span::from_seconds(3600));
        within("changes.window", self.window, least, most, accepted)?;
        if !is_whole(self.window) {
            return Err(refused("changes.window", self.window.to_string(), accepted));
        }
        let field = "changes.round_trip_minimum";
        within(field, self.round_trip_minimum, Span(0), Span::from_seconds(10), "0s to 10s")?;
        let percentages = [
            ("changes.round_trip_percentage", self.round_trip_percentage, 1.0, 1000.0, "1 to 1000"),
            ("changes.loss_percentage", self.loss_percentage, 0.01, 100.0, "0.01 to 100"),
        ];
        for (field, given, least, most, accepted) in percentages {
            if !(least..=most).contains(&given) {
                return Err(refused(field, given.to_string(), accepted));
            }
        }
        Ok(())
    }
}

impl Bursts {
    fn check(&self) -> Result<(), ModelError> {
        within("bursts.every", self.every, MINUTE, DAY, "1m to 1d")?;
        let (least, most) = (Span::from_seconds(1), MINUTE);
        within("bursts.duration", self.duration, least, most, "1s to 60s")?;
        match self.rate {
            Some(rate) if !matches!(rate.limit, RateLimit::Bits(bits) if bits.0 > 0) => {
                Err(refused("bursts.rate", rate.to_string(), "bits per second such as 10M"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "schema = \"weir.mesh/1\"\nname = \"core\"\n";

    #[test]
    fn a_name_is_enough() {
        let mesh = Mesh::parse(HEAD).unwrap();
        assert_eq!((mesh.agents.as_str(), mesh.address_label.as_str()), ("all", "address"));
        assert_eq!((mesh.probes.per_second, mesh.probes.payload_bytes), (10, 64));
        assert_eq!(mesh.windows, [60, 600, 3600].map(Span::from_seconds));
        assert_eq!((mesh.hub, mesh.bursts), (None, None));
    }

    #[test]
    fn every_field_is_read() {
        let text = "pairs = [[\"a\", \"b\"], [\"a\", \"c\"]]\nwindows = [\"30s\"]\nagents = \"site=x\"\n\
                    address_label = \"ip\"\n\
                    [probes]\nper_second = 20\npayload_bytes = 100\nloss_threshold = \"1s\"\n\
                    [changes]\nwindow = \"30s\"\nround_trip_percentage = 5\n\
                    round_trip_minimum = \"1ms\"\nloss_percentage = 0.5\n\
                    [bursts]\nevery = \"10m\"\nduration = \"2s\"\nrate = \"10M\"\n";
        let mesh = Mesh::parse(&format!("{HEAD}{text}")).unwrap();
        assert_eq!(mesh.pairs.len(), 2);
        assert_eq!(mesh.bursts.as_ref().unwrap().duration, Span::from_seconds(2));
        let json = serde_json::to_string(&mesh).unwrap();
        assert_eq!(Mesh::parse(&json).unwrap(), mesh);
    }

    #[test]
    fn values_are_refused_by_their_field() {
        for (text, field) in [
            ("hub = \"a\"\npairs = [[\"a\", \"b\"]]", "pairs"),
            ("pairs = [[\"a\", \"a\"]]", "pairs[0]"),
            ("pairs = [[\"a\", \"b\"], [\"b\", \"a\"]]", "pairs[1]"),
            ("windows = [\"1m\", \"5s\"]", "windows[1]"),
            ("windows = [\"10.5s\"]", "windows[0]"),
            ("windows = [10, 11, 12, 13, 14, 15, 16, 17, 18]", "windows"),
            ("probes = { per_second = 0 }", "probes.per_second"),
            ("probes = { payload_bytes = 31 }", "probes.payload_bytes"),
            ("probes = { loss_threshold = \"1ms\" }", "probes.loss_threshold"),
            ("changes = { window = \"1s\" }", "changes.window"),
            ("changes = { loss_percentage = 0 }", "changes.loss_percentage"),
            ("changes = { round_trip_percentage = 2000 }", "changes.round_trip_percentage"),
            ("bursts = { every = \"1s\" }", "bursts.every"),
            ("bursts = { every = \"1m\", duration = \"2m\" }", "bursts.duration"),
            ("bursts = { every = \"1m\", rate = \"10pps\" }", "bursts.rate"),
            ("color = 1", "color"),
        ] {
            let error = Mesh::parse(&format!("{HEAD}{text}")).unwrap_err();
            let ModelError::Document(error) = error else { panic!("{text}: {error}") };
            assert_eq!(error.field, field, "{text}");
        }
        let other = Mesh::parse("schema = \"weir.mesh/1\"\nname = \"a b\"").unwrap_err();
        assert!(matches!(other, ModelError::Document(error) if error.field == "name"));
    }
}
