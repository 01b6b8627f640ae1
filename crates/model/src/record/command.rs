//! Commands of the user around a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When a command ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CommandTime {
    /// Before the test.
    #[default]
    Before,
    /// After the test.
    After,
}

record! {
    /// A command that ran on this host before or after the test (`--before`, `--after`).
    SurroundingCommand {
        /// When it ran.
        when: CommandTime,
        /// The command, for the shell.
        command: String,
        /// Its exit code; absent if a signal ended it or it could not start.
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// How long it ran.
        seconds: f64,
        /// Its standard output and standard error in the order of arrival, at most 64 KiB.
        output: String,
        /// Whether it printed more than that.
        is_truncated: bool,
    }
}
