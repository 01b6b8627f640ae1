//! The file in which the server stored what it received.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

record! {
    /// A file at the server with the bytes of a stream, in their order.
    ReceivedFile {
        /// Its name, chosen by the server.
        name: String,
        /// Bytes in it.
        bytes: u64,
        /// SHA-256 of these bytes, hexadecimal.
        sha256: String,
        /// The server keeps it after the session. Otherwise it is removed then.
        is_kept: bool,
        /// Why bytes that arrived are missing in it: a limit of the server, or the error of its file system.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Whether it has exactly the bytes that the client sent, by their SHA-256. Absent if the client did not finish.
        #[serde(skip_serializing_if = "Option::is_none")]
        is_whole: Option<bool>,
        /// Bytes that the client has fetched back, if it asked for them: their SHA-256 is that of the file.
        #[serde(skip_serializing_if = "Option::is_none")]
        fetched_bytes: Option<u64>,
    }
}
