//! The emulator's counters: each is declared once, in the list below, with its stage and its meaning.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Stage;

/// A counter of one flow in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// Name in reports and records.
    pub name: &'static str,
    /// What happened to its packets, in a word.
    pub label: &'static str,
    /// The stage that counts it; `None` for counters that belong to no law.
    pub stage: Option<Stage>,
    /// What is counted.
    pub meaning: &'static str,
}

impl Counter {
    /// The schema of its value: label and meaning, and its stage, if any, as `x-stage`.
    #[must_use]
    pub(crate) fn schema(&self) -> Value {
        let mut of = json!({
            "title": self.label, "description": self.meaning, "format": "uint64", "minimum": 0, "type": "integer",
        });
        if let Some(stage) = self.stage {
            of["x-stage"] = stage.name().into();
        }
        of
    }
}

macro_rules! counters {
    ($($name:ident, $label:literal, $stage:expr, $meaning:literal;)*) => {
        /// Counters of a flow in one direction: received + duplicated + added fragments = sent + lost + queue_dropped +
        /// unplanned_dropped + queued.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Counters {
            $(#[doc = $meaning] pub $name: u64,)*
        }

        /// All counters, in the order in which they are shown.
        pub const COUNTERS: [Counter; [$(stringify!($name)),*].len()] =
            [$(Counter { name: stringify!($name), label: $label, stage: $stage, meaning: $meaning }),*];

        impl Counters {
            /// The values with their names, in the order in which they are shown.
            #[must_use]
            pub fn named(&self) -> [(&'static str, u64); COUNTERS.len()] {
                [$((stringify!($name), self.$name)),*]
            }

            /// Packets that are queued now; of counters since the start.
            #[must_use]
            pub fn queued_packets(&self) -> u64 {
                let came = self.received_packets + self.duplicated_packets + self.added_fragments;
                let gone = self.sent_packets
                    + self.lost_packets
                    + self.queue_dropped_packets
                    + self.unplanned_dropped_packets;
                came.saturating_sub(gone)
            }

            /// The sum of both.
            #[must_use]
            pub fn plus(&self, other: &Self) -> Self {
                Self { $($name: self.$name + other.$name,)* }
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
    received_packets, "received", None, "Packets received.";
    received_bytes, "received", None, "Bytes of received frames, without check sequence.";
    sent_packets, "sent", None, "Packets forwarded, copies included.";
    sent_bytes, "sent", None, "Bytes of forwarded frames, without check sequence.";
    lost_packets, "lost", Some(Stage::Loss), "Packets dropped by a loss law, a policer or an MTU limit.";
    loss_bursts, "loss bursts", Some(Stage::Loss), "Bursts of losses: consecutive packets that the loss law dropped (loss periods, RFC 3357).";
    policed_packets, "policed", Some(Stage::Police), "Of the lost packets: those that a policer dropped.";
    yellow_packets, "yellow", Some(Stage::Police), "Packets that a policer with two buckets found yellow: beyond the first, within the second.";
    red_packets, "red", Some(Stage::Police), "Packets that a policer found red: beyond its buckets; dropped, marked or forwarded.";
    remarked_packets, "DSCP set", Some(Stage::Police), "IP packets that a policer gave a DSCP.";
    too_long_packets, "too long", Some(Stage::Mtu), "Of the lost packets: those longer than the MTU limit.";
    too_big_messages, "ICMP too big", Some(Stage::Mtu), "ICMP messages to the senders of packets longer than the MTU limit.";
    added_fragments, "fragments added", Some(Stage::Mtu), "Fragments of packets longer than the MTU limit, one less than those of each packet.";
    duplicated_packets, "duplicated", Some(Stage::Duplicate), "Copies made.";
    delayed_packets, "delayed", Some(Stage::Delay), "Packets forwarded after a delay by a delay law.";
    clamped_packets, "delay clamped", Some(Stage::Delay), "Packets whose delay is 0 or a bound of the law because the law clamps what it draws.";
    batched_packets, "batched", Some(Stage::Batch), "Packets forwarded after waiting in a batch or for a time slot.";
    modified_packets, "corrupted", Some(Stage::Content), "Packets forwarded with changed content.";
    reordered_packets, "reordered", Some(Stage::Reorder), "Packets forwarded after a later one of their flow (RFC 4737, section 3.3), copies excluded.";
    marked_packets, "marked", Some(Stage::Loss), "Packets marked with ECN Congestion Experienced by a loss law, a policer or an AQM, instead of dropped.";
    queue_dropped_packets, "queue-dropped", Some(Stage::Rate), "Packets dropped because the planned queue was full, or by its AQM.";
    aqm_dropped_packets, "AQM-dropped", Some(Stage::Rate), "Of the packets dropped by the queue: those that its AQM dropped. The others found it full.";
    unplanned_dropped_packets, "dropped unplanned", None, "Packets dropped by the emulator itself, not by a law: the memory for queued packets was exhausted, or the emulator was stopped.";
}

/// Each counter with its meaning, and its stage, if any, as `x-stage`. The order of `required` is that in which
/// they are shown.
impl JsonSchema for Counters {
    fn schema_name() -> Cow<'static, str> {
        "EmulatorCounters".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let properties: Map<String, Value> =
            COUNTERS.iter().map(|one| (one.name.to_owned(), one.schema())).collect();
        let names: Vec<&str> = COUNTERS.iter().map(|one| one.name).collect();
        json_schema!({
            "description": "Counters of each flow and direction of the emulator. received + duplicated + added fragments = sent + lost + queue dropped + unplanned + queued.",
            "type": "object",
            "properties": properties,
            "required": names,
        })
    }
}
