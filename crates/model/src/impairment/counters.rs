//! The emulator's counters: each is declared once, in the list below, with its stage and its meaning.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
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

macro_rules! counters {
    ($($name:ident, $stage:expr, $meaning:literal;)*) => {
        /// What a flow has seen in one direction. received + duplicated = sent + lost + queue_dropped +
        /// unplanned_dropped + those that are held.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Counters {
            $(#[doc = $meaning] pub $name: u64,)*
        }

        /// All counters, in the order in which they are shown.
        pub const COUNTERS: [Counter; [$(stringify!($name)),*].len()] =
            [$(Counter { name: stringify!($name), stage: $stage, meaning: $meaning }),*];

        impl Counters {
            /// The values with their names, in the order in which they are shown.
            #[must_use]
            pub fn named(&self) -> [(&'static str, u64); COUNTERS.len()] {
                [$((stringify!($name), self.$name)),*]
            }

            /// What was counted since `base`, an earlier state of the same counters.
            #[must_use]
            pub fn since(&self, base: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(base.$name),)* }
            }
        }
    };
}

counters! {
    received_packets, None, "Packets that came.";
    received_bytes, None, "Bytes of their frames, without check sequence.";
    sent_packets, None, "Packets sent on, copies included.";
    sent_bytes, None, "Bytes of their frames.";
    lost_packets, Some(Stage::Loss), "Packets dropped by a loss law.";
    duplicated_packets, Some(Stage::Duplicate), "Copies made.";
    delayed_packets, Some(Stage::Delay), "Packets sent on after a delay law held them back.";
    modified_packets, Some(Stage::Content), "Packets sent on with changed content.";
    reordered_packets, Some(Stage::Delay), "Packets sent on after a later one of their flow (RFC 4737, section 3.3); copies are not asked.";
    marked_packets, Some(Stage::Rate), "Packets marked with ECN Congestion Experienced; no law of today does.";
    queue_dropped_packets, Some(Stage::Rate), "Packets that found the planned queue full.";
    unplanned_dropped_packets, None, "Lost by the emulator itself, not by a law: the memory for held packets was used up, or it ended.";
}

/// Each counter with its meaning, and its stage as `x-stage` where it has one; `required` tells the order in which they
/// are shown.
impl JsonSchema for Counters {
    fn schema_name() -> Cow<'static, str> {
        "EmulatorCounters".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let properties: Map<String, Value> =
            COUNTERS.iter().map(|one| (one.name.to_owned(), one.schema())).collect();
        let names: Vec<&str> = COUNTERS.iter().map(|one| one.name).collect();
        json_schema!({
            "description": "What the emulator counts of each flow and direction. received + duplicated = sent + lost + queue dropped + unplanned + held.",
            "type": "object",
            "properties": properties,
            "required": names,
        })
    }
}
