//! The protocol between the web server and its launcher: typed orders and answers.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_jobs::Job;

/// Longest order.
pub(super) const MAX_ORDER_BYTES: u64 = weir_jobs::MAX_JOB_BYTES;

/// A host or the middle of a lab.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LabNode {
    pub(crate) lab: String,
    pub(crate) node: String,
}

/// An order of the web server. Socket names are relative to the shared directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Order {
    /// Start a job.
    Start {
        job: Box<Job>,
        /// In this namespace of a lab; absent: in the launcher's own.
        at: Option<LabNode>,
        /// Write its events to this file of the runtime directory: a detached job outlives the launcher.
        log: Option<String>,
    },
    /// Stop an emulator, whichever program started it.
    EndEmulator { id: String },
    /// Stop a job that was started here.
    Stop { pid: u32 },
}

impl Order {
    /// Starts a job in the launcher's namespace.
    pub(crate) fn job(job: Job) -> Order {
        Order::Start { job: Box::new(job), at: None, log: None }
    }
}

/// An order with its number and the sockets for the job's output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NumberedOrder {
    pub(super) number: u64,
    pub(super) order: Order,
    /// Names of listening sockets for standard output and standard error; absent: discarded.
    pub(super) output: Option<[String; 2]>,
}

/// A message of the launcher. Tagged, since the fields alone would be ambiguous.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum LauncherMessage {
    /// An order was carried out; with the process that it started.
    Done { number: u64, pid: Option<u32> },
    /// An order failed.
    Refused { number: u64, error: String },
    /// A process ended.
    Exited { exited: u32, code: Option<i32>, signal: Option<i32> },
}

/// The name of an emulator's log file in the runtime directory.
pub(crate) fn log_name(id: &str) -> String {
    format!("impair-{id}.log")
}

/// The directory of packet traces, next to the runs.
pub(crate) const PACKET_TRACES: &str = "emulators";

/// The name of an emulator's packet trace there.
pub(crate) fn packet_trace_name(id: &str) -> String {
    format!("{id}.packets")
}

/// Accepts letters, digits, `-`, `_` and `.`; neither a flag nor a path.
pub(crate) fn word(text: &str, most: usize) -> Result<String, String> {
    let right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty()
        || text.len() > most
        || text.starts_with(['-', '.'])
        || !text.chars().all(right)
    {
        return Err(format!("{text:?}: letters, digits, '-', '_' and '.', at most {most}"));
    }
    Ok(text.into())
}

/// A name in the shared directory.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "for the launcher"))]
pub(super) fn inside(directory: &Path, name: &str) -> Result<PathBuf, String> {
    let path = Path::new(name);
    match path.components().collect::<Vec<_>>()[..] {
        [Component::Normal(_)] => Ok(directory.join(path)),
        _ => Err(format!("{name:?} is no name in the shared directory")),
    }
}

/// A refusal in the launcher's message.
pub(super) fn parse_word(line: &str) -> Option<LauncherMessage> {
    weir_model::document::parse_json(line.as_bytes()).ok()
}

/// Parses an order.
pub(super) fn numbered_line(numbered: &NumberedOrder) -> String {
    format!("{}\n", json!(numbered))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_read_as_what_it_is() {
        for word in [
            LauncherMessage::Refused { number: 7, error: "no".into() },
            LauncherMessage::Done { number: 7, pid: None },
            LauncherMessage::Done { number: 7, pid: Some(9) },
            LauncherMessage::Exited { exited: 9, code: None, signal: Some(9) },
        ] {
            let line = serde_json::to_string(&word).unwrap();
            assert_eq!(parse_word(&line), Some(word), "{line}");
        }
    }

    #[test]
    fn orders_that_are_not_known_are_not_read() {
        for line in [
            r#"{"number":1,"order":{"order":"shell","line":"id"},"output":null}"#,
            r#"{"number":1,"order":{"order":"stop","pid":1,"extra":1},"output":null}"#,
            r#"{"number":1,"order":{"order":"stop","pid":1},"output":null,"more":1}"#,
        ] {
            assert!(
                weir_model::document::parse_json::<NumberedOrder>(line.as_bytes()).is_err(),
                "{line}"
            );
        }
    }
}
