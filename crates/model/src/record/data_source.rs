//! The file that a client sent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kind of file was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataSourceKind {
    /// The bytes of any file (`--content file:PATH`).
    #[default]
    File,
    /// The UDP datagrams of a capture (`--replay`).
    Capture,
}

record! {
    /// A file that the client sent.
    DataSource {
        /// What kind of file it is.
        kind: DataSourceKind,
        /// Its name, as given.
        name: String,
        /// Bytes that were read to be sent: those of the file, or the payloads of the capture's datagrams.
        bytes: u64,
        /// Datagrams of the capture that were read to be sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        packets: Option<u64>,
        /// Time from the first of them to the last, as captured.
        #[serde(skip_serializing_if = "Option::is_none")]
        seconds: Option<f64>,
        /// The speed of the replay: `original`, a factor such as `2x`, a rate, or `top`.
        #[serde(skip_serializing_if = "Option::is_none")]
        speed: Option<String>,
        /// Datagrams that were lengthened with zeros, because the data header had no room in them.
        #[serde(skip_serializing_if = "Option::is_none")]
        lengthened_packets: Option<u64>,
        /// Datagrams that the capture had truncated: the missing bytes were sent as zeros.
        #[serde(skip_serializing_if = "Option::is_none")]
        truncated_packets: Option<u64>,
        /// Datagrams with a time before that of the datagram in front of them, which were sent directly after it.
        #[serde(skip_serializing_if = "Option::is_none")]
        stepped_back_packets: Option<u64>,
        /// Packets of the capture that were not sent, by what they are.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        left_out_packets: BTreeMap<String, u64>,
    }
}
