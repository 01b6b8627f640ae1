//! The one live stream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_emulator::{Alarm, Report};
use weir_model::record::Interval;
use weir_model::warning::Warning;

use super::{State, number};

/// What a reader wants to hear of.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EventsQuery {
    /// Kinds separated by commas, of `tests`, `experiments`, `emulators`, `clients`, `calibration`, `demo`, `documents`; one object as
    /// `KIND:ID`. Absent: all.
    pub topics: Option<String>,
    /// Of which objects samples are wanted, in the same words. Absent: of all in `topics`. An emulator with a keepalive timeout goes on
    /// while somebody reads samples of it.
    pub samples: Option<String>,
    /// Samples of one object at most so often a second, 0.1 to 20. Absent: 10.
    #[serde(deserialize_with = "number")]
    #[schemars(range(min = 0.1, max = 20))]
    pub rate: Option<f64>,
}

/// A kind of object.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ObjectKind {
    /// A test.
    Tests,
    /// An experiment.
    Experiments,
    /// An emulator.
    Emulators,
    /// A session of the answering side.
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
    reason = "it tells the schema; the stream is written without it"
)]
#[serde(tag = "event", content = "data", rename_all = "lowercase")]
pub enum StreamEvent {
    /// The first one.
    Hello(Hello),
    /// An object's life moved on.
    State(StateEvent),
    /// The latest figures of an object.
    Sample(Box<SampleEvent>),
    /// A test warns.
    Warning(WarningEvent),
    /// An emulator's alarm began or passed.
    Alarm(AlarmEvent),
    /// Somebody changed a document.
    Edited(DocumentChange),
}

/// The first event of a stream.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Hello {
    /// The server's instance, as `GET /system` tells it: another one means that the server was restarted.
    pub instance: String,
    /// Version of Weir.
    pub version: String,
    /// Time now, RFC 3339, UTC.
    pub at: String,
    /// Samples of one object come at most so often a second.
    pub rate: f64,
}

/// An object's life moved on. A reader that was slow gets the latest state only.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StateEvent {
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
    /// What it does, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// The latest figures of an object. There is one slot for each object and reader: who is slow gets the newest.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SampleEvent {
    /// What kind of object.
    pub kind: ObjectKind,
    /// Its id.
    pub id: String,
    /// Number of the sample, from 1, of this object.
    pub sequence: u64,
    /// Samples that this reader did not get since the last one.
    pub skipped: u64,
    /// When it came to the server, RFC 3339, UTC.
    pub at: String,
    /// A test's interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// An emulator's report; its histograms are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulator: Option<Report>,
}

/// A test warns.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WarningEvent {
    /// What kind of object.
    pub kind: ObjectKind,
    /// Its id.
    pub id: String,
    /// The warning.
    pub warning: Warning,
}

/// An emulator's alarm began or passed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AlarmEvent {
    /// The emulator.
    pub id: String,
    /// The alarm.
    pub alarm: Alarm,
}

/// Somebody changed a document.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DocumentChange {
    /// Its path behind `/api/v1/`: `plans/NAME`, `emulators/ID/configuration`, `runs/ID/tags`.
    pub document: String,
    /// Address of who did.
    pub by: String,
    /// The new entity tag; absent when it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// When, RFC 3339, UTC.
    pub at: String,
}
