//! The emulator's counters for programs that show them: names, stages and meanings, as a schema.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::Stage;

/// A counter of one flow in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// Its name in reports and records.
    pub name: &'static str,
    /// The stage that counts it; `None` for the ends of the path and for what no law does.
    pub stage: Option<Stage>,
    /// What is counted.
    pub meaning: &'static str,
}

const fn counter(name: &'static str, stage: Option<Stage>, meaning: &'static str) -> Counter {
    Counter { name, stage, meaning }
}

impl Counter {
    /// The schema of its value: its meaning, and its stage as `x-stage` where it has one.
    #[must_use]
    pub fn schema(&self) -> Value {
        let mut of = json!({
            "description": self.meaning, "format": "uint64", "minimum": 0, "type": "integer",
        });
        if let Some(stage) = self.stage {
            of["x-stage"] = stage.name().into();
        }
        of
    }
}

/// All counters, in the order in which they are shown.
pub const COUNTERS: [Counter; 12] = [
    counter("received_packets", None, "Packets that came."),
    counter("received_bytes", None, "Bytes of their frames, without check sequence."),
    counter("sent_packets", None, "Packets sent on, copies included."),
    counter("sent_bytes", None, "Bytes of their frames."),
    counter("lost_packets", Some(Stage::Loss), "Packets dropped by a loss law."),
    counter("duplicated_packets", Some(Stage::Loss), "Copies made."),
    counter(
        "delayed_packets",
        Some(Stage::Delay),
        "Packets sent on after a delay law held them back.",
    ),
    counter("modified_packets", Some(Stage::Content), "Packets sent on with changed content."),
    counter(
        "reordered_packets",
        Some(Stage::Delay),
        "Packets sent on after a later one of their flow; copies are not asked.",
    ),
    counter(
        "marked_packets",
        Some(Stage::Rate),
        "Packets marked with ECN Congestion Experienced; no law of today does.",
    ),
    counter(
        "queue_dropped_packets",
        Some(Stage::Rate),
        "Packets that found the planned queue full.",
    ),
    counter(
        "unplanned_dropped_packets",
        None,
        "Lost by the emulator itself, not by a law: the memory for held packets was used up, or it ended.",
    ),
];

/// The schema of [`COUNTERS`]: each with its meaning, and its stage as `x-stage` where it has one; `required` tells
/// the order in which they are shown.
#[derive(Debug, Clone, Copy)]
pub struct Counters;

impl JsonSchema for Counters {
    fn schema_name() -> Cow<'static, str> {
        "Counters".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let properties: Map<String, Value> =
            COUNTERS.iter().map(|one| (one.name.to_owned(), one.schema())).collect();
        let names: Vec<&str> = COUNTERS.iter().map(|one| one.name).collect();
        json_schema!({
            "description": "What the emulator counts of each flow and direction.",
            "type": "object",
            "properties": properties,
            "required": names,
        })
    }
}
