//! A result as a file states it, and the record made of it.

use std::time::Duration;

use sha2::{Digest, Sha256};
use weir_flow::assemble::{run_seconds, totals};
use weir_model::plan::PeerName;
use weir_model::record::{Flow, IMPORTED, RUN_SCHEMA, Record, TOOL_VERSION};
use weir_model::warning::{Severity, Warning};

use crate::ReadError;
use crate::text::shortened;

/// Maximum number of flows of a result.
pub(crate) const MAX_FLOWS: usize = 10_000;

/// Maximum number of results of a file.
const MAX_RESULTS: usize = 10_000;

/// Refuses a file with more than [`MAX_RESULTS`] results.
pub(crate) fn bounded(results: &[Reading<'_>]) -> Result<(), ReadError> {
    match results.len() > MAX_RESULTS {
        true => Err(ReadError::new("file", format!("at most {MAX_RESULTS} results"))),
        false => Ok(()),
    }
}

/// One result of a file.
#[derive(Debug, Default)]
pub(crate) struct Reading<'a> {
    /// Plan, hosts, flows, intervals and status; what identifies it and the sums are added.
    pub record: Record,
    /// Version of the tool.
    pub version: Option<String>,
    /// Start of the test, milliseconds since 1970.
    pub started_ms: Option<u64>,
    /// The part of the file that states it.
    pub text: &'a [u8],
}

impl Reading<'_> {
    /// The complete record. Its id depends on `text` and on nothing else.
    pub(crate) fn record(self, tool: &str, modified_ms: u64) -> Record {
        let mut record = self.record;
        let hash = Sha256::digest(self.text);
        let hash = u64::from_be_bytes(std::array::from_fn(|n| hash[n]));
        record.id = match self.started_ms {
            Some(ms) => {
                let second = weir_runs::new_run_id(Duration::from_millis(ms), 0);
                format!("{}-{:012x}", &second[..15], hash & 0xffff_ffff_ffff)
            }
            None => format!("{tool}-{:012x}", hash & 0xffff_ffff_ffff),
        };
        record.schema = RUN_SCHEMA.into();
        record.started_at = weir_runs::rfc3339(self.started_ms.unwrap_or(modified_ms));
        record.peer = tool.into();
        let is_tool = |peer: &&PeerName| peer.label() == tool;
        let named = PeerName::ALL.iter().find(is_tool).copied();
        record.plan.peer = named.unwrap_or(record.plan.peer);
        record.seed = record.plan.seed;
        record.seconds = run_seconds(&record.flows);
        record.total = totals(&record.flows);
        record.labels.insert(IMPORTED.into(), tool.into());
        if let Some(version) = self.version {
            record.labels.insert(TOOL_VERSION.into(), shortened(&version, 100));
        }
        if self.started_ms.is_none() {
            let text = "the imported file does not state when the test started: the start is the time of the file";
            record.warnings.push(Warning::new("start-unknown", Severity::Info, text));
        }
        record
    }
}

/// Numbers the flows and names those without a name.
pub(crate) fn numbered(flows: &mut [Flow]) {
    for (n, flow) in flows.iter_mut().enumerate() {
        flow.id = n as u32 + 1;
        if flow.name.is_empty() {
            flow.name = format!("{}-{}", flow.transport.label(), n + 1);
        }
    }
}

/// An amount over a time; absent without a time.
pub(crate) fn per_second(amount: u64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| amount as f64 / seconds)
}
