//! Timelines: laws that change at given times, once or in a loop.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Impairment, Laws, OTHER, reading, refuse, series};
use crate::ModelError;
use crate::document;
use crate::units::Span;

/// Maximum number of changes of a timeline.
pub const MAX_TIMELINE_CHANGES: usize = 10_000;
/// Maximum number of changes multiplied by the number of flows.
const MAX_CHANGED_FLOWS: usize = 1_000_000;
/// Its field in an impairment.
const FIELD: &str = "timeline";
/// Shortest loop at the given speed: each change costs the packet path time.
const MIN_LOOP_NS: u64 = 10_000_000;

/// Changes of laws at given times since the start of the emulator, or since this timeline was set.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = crate::schema::in_order::<Timeline>)]
pub struct Timeline {
    /// Length of a loop, after the last change: the laws of the file apply again, and the timeline starts again. Absent:
    /// it is played once, and the last laws stay.
    #[serde(rename = "loop", skip_serializing_if = "Option::is_none")]
    pub period: Option<Span>,
    /// Playback speed, 0.001 to 1000: all times are divided by it. Absent: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001, max = 1000.0), example = 2)]
    pub speed: Option<f64>,
    /// The changes, in the order of their times.
    #[serde(rename = "change")]
    pub changes: Vec<TimelineChange>,
}

/// Laws that replace those of a flow at a time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(transform = reading::and_both, transform = crate::schema::in_order::<TimelineChange>)]
pub struct TimelineChange {
    /// Time since the start of the loop.
    pub at: Span,
    /// Name of the flow. Absent: packets that no filter matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// A preset that replaces the laws; laws of the same change have precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Laws from A to B. Absent: unchanged.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(schema_with = "reading::one_way", title = "A to B")]
    pub a_to_b: Option<Laws>,
    /// Laws from B to A. Absent: unchanged.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(schema_with = "reading::one_way", title = "B to A")]
    pub b_to_a: Option<Laws>,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Laws>, D::Error> {
    <Laws as Deserialize>::deserialize(deserializer).map(Some)
}

impl Timeline {
    /// A time of the timeline at its speed, ns.
    fn scaled(&self, span: Span) -> u64 {
        match self.speed {
            None => span.0,
            Some(speed) => (span.0 as f64 / speed).round() as u64,
        }
    }

    /// Times of the changes at its speed, ns since the start of the loop.
    #[must_use]
    pub fn times_ns(&self) -> Vec<u64> {
        self.changes.iter().map(|change| self.scaled(change.at)).collect()
    }

    /// Length of a loop at its speed, ns.
    #[must_use]
    pub fn period_ns(&self) -> Option<u64> {
        self.period.map(|period| self.scaled(period))
    }

    /// A timeline from the text of a file: CSV as [`Timeline::from_csv`] reads it, or TOML or JSON with the fields of a timeline,
    /// or an impairment with one. What depends on the impairment is checked with it.
    ///
    /// # Errors
    /// [`ModelError::Field`] or [`ModelError::Document`] naming the line or the field.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        if series::is_csv(text) {
            return Self::from_csv(text);
        }
        let tree = document::tree(text)?;
        Ok(document::read(tree.get(FIELD).unwrap_or(&tree))?)
    }

    /// The fields of the timeline in TOML, with a line for each change and its laws in one line.
    #[must_use]
    pub fn to_lines(&self) -> String {
        let quoted = |text: String| toml::Value::String(text).to_string();
        let mut out = String::new();
        if let Some(period) = self.period {
            let _ = writeln!(out, "loop = {}", quoted(period.to_string()));
        }
        if let Some(speed) = self.speed {
            let _ = writeln!(out, "speed = {speed}");
        }
        out += "change = [\n";
        for TimelineChange { at, flow, profile, a_to_b, b_to_a } in &self.changes {
            let [there, back] = [a_to_b, b_to_a].map(|laws| laws.as_ref().map(Laws::to_string));
            let laws = match (there, back) {
                (Some(there), Some(back)) if there == back => vec![("both", Some(there))],
                (there, back) => vec![("a_to_b", there), ("b_to_a", back)],
            };
            let _ = write!(out, "  {{ at = {}", quoted(at.to_string()));
            let names = [("flow", flow.clone()), ("profile", profile.clone())];
            for (field, text) in names.into_iter().chain(laws) {
                if let Some(text) = text {
                    let _ = write!(out, ", {field} = {}", quoted(text));
                }
            }
            out += " },\n";
        }
        out += "]\n";
        out
    }

    fn check(&self, config: &Impairment) -> Result<(), ModelError> {
        if self.speed.is_some_and(|speed| !(0.001..=1000.0).contains(&speed)) {
            let given = self.speed.unwrap_or_default().to_string();
            return refuse("timeline.speed".into(), &given, "0.001 to 1000");
        }
        let count = self.changes.len();
        if count > MAX_TIMELINE_CHANGES || count * (config.flows.len() + 1) > MAX_CHANGED_FLOWS {
            let given = format!("{count} changes of {} flows", config.flows.len() + 1);
            let accepted = "at most 10000 changes, and 1000000 divided by the number of flows";
            return refuse("timeline.change".into(), &given, accepted);
        }
        // Filters do not change, and are checked once.
        let mut state = Impairment { timeline: None, filter_groups: vec![], ..config.clone() };
        for flow in &mut state.flows {
            (flow.filter, flow.filter_a, flow.filter_b) = (None, None, None);
            flow.filter_groups = vec![];
        }
        let mut before = Span(0);
        for (i, change) in self.changes.iter().enumerate() {
            let at = format!("timeline.change[{i}]");
            if change.at < before {
                let accepted = format!("{before} or later: the time of the change before");
                return refuse(format!("{at}.at"), &change.at.to_string(), &accepted);
            }
            before = change.at;
            if change.profile.is_none() && change.a_to_b.is_none() && change.b_to_a.is_none() {
                return refuse(at, "nothing to change", "both, a_to_b, b_to_a or profile");
            }
            for (field, laws) in [("a_to_b", &change.a_to_b), ("b_to_a", &change.b_to_a)] {
                if let Some(laws) = laws {
                    laws.check(&format!("{at}.{field}"))?;
                }
            }
            super::check_profile(&at, change.profile.as_deref())?;
            if !change.make(&mut state) {
                let given = change.flow.as_deref().unwrap_or_default();
                return refuse(format!("{at}.flow"), given, "names of flows of this file");
            }
            // What is shared by an aggregate, or too much in all.
            if let Err(ModelError::Field { field, given, accepted }) = state.check() {
                return refuse(at, &format!("{field}: {given}"), &accepted);
            }
        }
        if let Some(period) = self.period
            && (period <= before || self.scaled(period) < MIN_LOOP_NS)
        {
            let accepted = "later than the last change, and at least 10ms at the speed";
            return refuse("timeline.loop".into(), &period.to_string(), accepted);
        }
        Ok(())
    }
}

impl TimelineChange {
    /// Makes the change; `false` if the configuration has no such flow.
    pub fn make(&self, config: &mut Impairment) -> bool {
        let TimelineChange { flow, profile, a_to_b, b_to_a, .. } = self.clone();
        config.replace_laws(flow.as_deref(), profile, a_to_b, b_to_a)
    }
}

impl Impairment {
    /// Replaces laws of a flow (`None`: Other). A preset replaces all of them, in addition to which laws may be given; `None`
    /// leaves a direction unchanged. Returns `false` if there is no such flow.
    pub fn replace_laws(
        &mut self,
        flow: Option<&str>,
        profile: Option<String>,
        a_to_b: Option<Laws>,
        b_to_a: Option<Laws>,
    ) -> bool {
        let (own, forward, reverse) = match flow.filter(|name| *name != OTHER) {
            None => {
                let other = &mut self.other;
                (&mut other.profile, &mut other.a_to_b, &mut other.b_to_a)
            }
            Some(name) => match self.flows.iter_mut().find(|flow| flow.name == name) {
                Some(flow) => (&mut flow.profile, &mut flow.a_to_b, &mut flow.b_to_a),
                None => return false,
            },
        };
        if profile.is_some() {
            (*forward, *reverse) = (Laws::default(), Laws::default());
            *own = profile;
        } else if a_to_b.is_some() && b_to_a.is_some() {
            // A preset would fill the slots that the new laws leave empty.
            *own = None;
        }
        if let Some(laws) = a_to_b {
            *forward = laws;
        }
        if let Some(laws) = b_to_a {
            *reverse = laws;
        }
        true
    }

    /// The configuration without its timeline, and then after each of its changes.
    pub fn states(&self) -> impl Iterator<Item = Impairment> {
        let start = Impairment { timeline: None, ..self.clone() };
        let changes = self.timeline.clone().map(|timeline| timeline.changes).unwrap_or_default();
        let later = changes.into_iter().scan(start.clone(), |state, change| {
            change.make(state);
            Some(state.clone())
        });
        std::iter::once(start).chain(later)
    }

    pub(super) fn check_timeline(&self) -> Result<(), ModelError> {
        self.timeline.as_ref().map_or(Ok(()), |timeline| timeline.check(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = r#"
        schema = "weir.impair/1"
        other = { profile = "3g-good" }
        [[flow]]
        name = "x"
        both = "loss 1%"
        [[flow]]
        name = "y"
        [[aggregate]]
        flows = ["y"]
        a_to_b = { rate = { bits = "1M" } }
        [timeline]
    "#;

    fn parsed(text: &str) -> Result<Impairment, ModelError> {
        Impairment::parse(&format!("{START}{text}"))
    }

    #[test]
    fn changes_add_up() {
        let text = r#"
            loop = "1m"
            speed = 2
            change = [
                { at = "10s", flow = "x", a_to_b = "delay 5ms" },
                { at = "10s", both = "none" },
                { at = "20s", flow = "x", both = "rate 1M" },
                { at = "30s", profile = "dsl", b_to_a = "none" },
            ]
        "#;
        let config = parsed(text).unwrap();
        let timeline = config.timeline.as_ref().unwrap();
        assert_eq!(timeline.times_ns(), [5, 5, 10, 15].map(|s| s * 1_000_000_000));
        assert_eq!(timeline.period_ns(), Some(30_000_000_000));
        let laws: Vec<[String; 3]> = config
            .states()
            .map(|state| {
                assert!(state.timeline.is_none());
                let flow = &state.flows[0];
                let other = state.other.profile.unwrap_or_default();
                [flow.a_to_b.to_string(), flow.b_to_a.to_string(), other]
            })
            .collect();
        assert_eq!(
            laws,
            [
                ["loss 1%", "loss 1%", "3g-good"],
                ["delay 5ms", "loss 1%", "3g-good"],
                ["delay 5ms", "loss 1%", ""],
                ["rate 1M", "rate 1M", ""],
                ["rate 1M", "rate 1M", "dsl"],
            ]
        );
        let text = config.to_toml().unwrap();
        assert_eq!(Impairment::parse(&text).unwrap(), config, "{text}");
    }

    #[test]
    fn an_invalid_timeline_is_refused_by_its_field() {
        for (text, field) in [
            ("speed = 0", "timeline.speed"),
            ("speed = nan", "timeline.speed"),
            ("change = [{ at = \"1s\" }]", "timeline.change[0]"),
            (
                "change = [{ at = \"1s\", flow = \"z\", both = \"none\" }]",
                "timeline.change[0].flow",
            ),
            ("change = [{ at = \"1s\", profile = \"z\" }]", "timeline.change[0].profile"),
            ("change = [{ at = \"1s\", both = \"loss 101%\" }]", "timeline.change[0]"),
            (
                "change = [{ at = \"2s\", both = \"none\" }, { at = \"1s\", both = \"none\" }]",
                "timeline.change[1].at",
            ),
            // The rate of an aggregate is shared.
            (
                "change = [{ at = \"1s\", flow = \"y\", a_to_b = \"rate 1M\" }]",
                "timeline.change[0]",
            ),
            ("loop = \"1s\"\nchange = [{ at = \"1s\", both = \"none\" }]", "timeline.loop"),
            ("loop = \"1s\"\nspeed = 1000", "timeline.loop"),
        ] {
            let refusal = crate::Refusal::from(&parsed(text).unwrap_err());
            assert!(refusal.field.as_ref().unwrap().starts_with(field), "{text}: {refusal:?}");
        }
    }

    #[test]
    fn a_timeline_is_read_from_any_file_and_printed_in_lines() {
        let lines = "loop = \"60s\"\nspeed = 0.5\nchange = [\n  \
            { at = \"10s\", flow = \"a \\\"b\\\"\", both = \"loss 5%, delay 80ms\" },\n  \
            { at = \"20s\", profile = \"dsl\", b_to_a = \"none\" },\n]\n";
        let timeline = Timeline::parse(lines).unwrap();
        assert_eq!(timeline.changes[0].flow.as_deref(), Some("a \"b\""));
        assert_eq!(Timeline::parse(&timeline.to_lines()).as_ref(), Ok(&timeline));
        let config = Impairment { timeline: Some(timeline.clone()), ..Impairment::default() };
        for text in [
            serde_json::to_string(&timeline).unwrap(),
            config.to_toml().unwrap(),
            format!("[timeline]\n{lines}"),
        ] {
            assert_eq!(Timeline::parse(&text).as_ref(), Ok(&timeline), "{text}");
        }
        let series = Timeline::parse("# a link\ntime,a_to_b.rate\n0,1M\n2,\n").unwrap();
        assert_eq!(
            series.to_lines(),
            "change = [\n  { at = \"0s\", a_to_b = \"rate 1M\" },\n  { at = \"2s\", a_to_b = \"none\" },\n]\n"
        );
        for (text, field) in [("time,x\n", "line 1, column"), ("speed = 1\nhaste = 2", "haste")] {
            let refusal = crate::Refusal::from(&Timeline::parse(text).unwrap_err());
            assert_eq!(refusal.field.as_deref(), Some(field), "{text}");
        }
    }

    #[test]
    fn the_size_of_a_timeline_is_limited() {
        let with = |changes: usize, flows: usize| {
            let change = TimelineChange { b_to_a: Some(Laws::default()), ..Default::default() };
            let flow = |i| super::super::ImpairFlow { name: format!("f{i}"), ..Default::default() };
            let timeline = Timeline { changes: vec![change; changes], ..Timeline::default() };
            Impairment {
                timeline: Some(timeline),
                flows: (0..flows).map(flow).collect(),
                ..Impairment::default()
            }
        };
        assert!(with(MAX_TIMELINE_CHANGES, 0).check().is_ok());
        assert!(with(MAX_TIMELINE_CHANGES + 1, 0).check().is_err());
        assert!(with(MAX_TIMELINE_CHANGES, 100).check().is_err());
    }
}
