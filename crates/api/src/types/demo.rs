//! The demo.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AnyJson, State};

/// A demo to be run, as `weir demo` does.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DemoRequest {
    /// Seconds that each test through the emulator sends, 1 to 60. Absent: 1, with which the whole takes about a minute.
    #[schemars(range(min = 1, max = 60))]
    pub seconds: Option<u32>,
    /// The rows with the emulator in the middle on the virtual clock: no network, no rights, nothing kept.
    pub simulate: bool,
}

/// The demo of this server that runs or was the latest: two hosts made of network namespaces, real tests between them, and what
/// was asked beside what was realised and what was measured.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DemoState {
    /// How far it is; absent before the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// When it was asked for, RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<String>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// What it said on its way, latest last, 200 lines at most.
    pub progress: Vec<String>,
    /// Its result, `weir.demo/1` (docs/formats.md): `verdict`, rows on a plain link in `clean`, rows with the emulator in the middle in
    /// `paths`. Absent for one that did not come to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<AnyJson>,
    /// Exit code of its program: 0 every row holds, 1 one does not, 5 the host was too busy to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
