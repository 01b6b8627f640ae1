//! The live event stream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_emulator::{Alarm, Report};
use weir_model::record::Interval;
use weir_model::warning::Warning;

use super::{State, number};

macro_rules! topic {
    () => {
        "(tests|experiments|emulators|clients|calibration|demo|documents)(:[^,]*)?"
    };
}

/// Topics separated by commas.
const TOPICS: &str = concat!("^ *(", topic!(), ")? *(, *(", topic!(), ")? *)*$");

/// The subscription of a reader.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EventsQuery {
    /// Kinds separated by commas: `tests`, `experiments`, `emulators`, `clients`, `calibration`, `demo`, `documents`;
    /// one object as `KIND:ID`. Absent: all.
    #[schemars(regex(pattern = TOPICS))]
    pub topics: Option<String>,
    /// Objects whose samples are sent, in the same form. Absent: all of `topics`. Reading samples of an emulator
    /// restarts its keepalive timeout.
    #[schemars(regex(pattern = TOPICS))]
    pub samples: Option<String>,
    /// Maximum number of samples per object and second, 0.1 to 20. Absent: 10.
    #[serde(deserialize_with = "number")]
    #[schemars(range(min = 0.1, max = 20))]
    pub rate: Option<f64>,
}

/// A kind of object.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ObjectKind {
    /// A test.
    Tests,
    /// An experiment.
    Experiments,
    /// An emulator.
    Emulators,
    /// A session of the test server.
    Clients,
    /// The calibration.
    Calibration,
    /// The demo.
    Demo,
    /// A document: a plan (`plans/NAME`), an emulator's configuration (`emulators/ID/configuration`), a run's tags.
    Documents,
}

/// An event of the stream: its `event` line is the tag, its `data` line is the content.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[allow(
    clippy::large_enum_variant,
    dead_code,
    reason = "it defines the schema; the stream is written without it"
)]
#[serde(tag = "event", content = "data", rename_all = "lowercase")]
pub(crate) enum StreamEvent {
    /// The first one.
    Hello(Hello),
    /// The state of an object changed.
    State(StateEvent),
    /// The latest figures of an object.
    Sample(Box<SampleEvent>),
    /// A test warns.
    Warning(WarningEvent),
    /// An emulator's alarm was raised, was acknowledged or has passed.
    Alarm(AlarmEvent),
    /// A document was changed.
    Edited(DocumentChange),
}

/// The first event of a stream.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Hello {
    /// The server's instance, as in `GET /system`: another one means that the server was restarted.
    pub instance: String,
    /// Version of Weir.
    pub version: String,
    /// Time now, RFC 3339, UTC.
    pub at: String,
    /// Maximum number of samples per object and second.
    pub rate: f64,
}

/// The state of an object changed. A slow reader gets the latest state only.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct StateEvent {
    /// What kind of object.
    pub kind: ObjectKind,
    /// Its id.
    pub id: String,
    /// Its state.
    pub state: State,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The run that it became.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Its current action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// The latest figures of an object. A slow reader gets the newest only.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SampleEvent {
    /// What kind of object.
    pub kind: ObjectKind,
    /// Its id.
    pub id: String,
    /// Number of the sample of this object, from 1.
    pub sequence: u64,
    /// Samples skipped for this reader since the previous one.
    pub skipped: u64,
    /// When the server received it, RFC 3339, UTC.
    pub at: String,
    /// A test's interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// An emulator's report, without histograms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulator: Option<Report>,
}

/// A test warns.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct WarningEvent {
    /// What kind of object.
    pub kind: ObjectKind,
    /// Its id.
    pub id: String,
    /// The warning.
    pub warning: Warning,
}

/// An emulator's alarm was raised, was acknowledged or has passed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct AlarmEvent {
    /// The emulator.
    pub id: String,
    /// The alarm.
    pub alarm: Alarm,
}

/// A document was changed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct DocumentChange {
    /// Its path relative to `/api/v1/`: `plans/NAME`, `emulators/ID/configuration`, `runs/ID/tags`.
    pub document: String,
    /// Address of the client that changed it.
    pub by: String,
    /// The new entity tag; absent if it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// When, RFC 3339, UTC.
    pub at: String,
}
