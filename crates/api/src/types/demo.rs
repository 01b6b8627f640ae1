//! The demo.

use schemars::JsonSchema;
use serde::Serialize;

use super::{AnyJson, State};

/// The running or latest demo of this server: two hosts in network namespaces, real tests between them, and the
/// requested, realised and measured values.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct DemoState {
    /// Its state; absent before the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// When it was requested, RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<String>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Progress messages, latest last, 200 lines at most.
    pub progress: Vec<String>,
    /// Its result, `weir.demo/1` (docs/formats.md): `verdict`, rows on a plain link in `clean`, rows with the
    /// emulator in the middle in `paths`. Absent if it did not finish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<AnyJson>,
    /// Exit code: 0 every row passed, 1 one failed, 5 the host was too busy to decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
