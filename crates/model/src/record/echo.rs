//! What came back of a flow that the server echoed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

record! {
    /// What the server sent back and the client received. Its round trips are those of the flow.
    Echo {
        /// Payload bytes that came back, without duplicates.
        bytes: u64,
        /// Echoes that came back, without duplicates, or reads from the stream.
        packets: u64,
        /// From the first to the last of them.
        seconds: f64,
        /// Payload rate over `seconds`, or over the sender's if that is longer.
        #[serde(skip_serializing_if = "Option::is_none")]
        bits_per_second: Option<f64>,
        /// Packet rate over the same time.
        #[serde(skip_serializing_if = "Option::is_none")]
        packets_per_second: Option<f64>,
        /// Maximum bytes of each datagram that the server sent back; absent if it sent back all.
        #[serde(skip_serializing_if = "Option::is_none")]
        most_bytes: Option<u64>,
        /// Sent datagrams whose echo did not arrive within the loss threshold.
        #[serde(skip_serializing_if = "Option::is_none")]
        lost_packets: Option<u64>,
        /// Of these, datagrams that did not reach the server, by its own count.
        #[serde(skip_serializing_if = "Option::is_none")]
        lost_forward_packets: Option<u64>,
        /// Of these, echoes that the server's system did not accept for sending.
        #[serde(skip_serializing_if = "Option::is_none")]
        unsent_packets: Option<u64>,
        /// Of these, echoes that were lost on the path back: the rest. Absent without the server's report.
        #[serde(skip_serializing_if = "Option::is_none")]
        lost_back_packets: Option<u64>,
        /// Lost echoes / datagrams sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        loss_ratio: Option<f64>,
        /// Copies of an echo, also those of a datagram that was duplicated on its path to the server.
        #[serde(skip_serializing_if = "Option::is_none")]
        duplicate_packets: Option<u64>,
        /// Echoes with a number below the next expected one (RFC 4737), in whichever direction that happened.
        #[serde(skip_serializing_if = "Option::is_none")]
        reordered_packets: Option<u64>,
        /// Echoes that arrived after the loss threshold; also counted as lost.
        #[serde(skip_serializing_if = "Option::is_none")]
        late_packets: Option<u64>,
        /// Echoes with a bad tag, bit errors or truncation.
        #[serde(skip_serializing_if = "Option::is_none")]
        corrupted_packets: Option<u64>,
        /// Bits that differed from the seeded payload, if it was verified.
        #[serde(skip_serializing_if = "Option::is_none")]
        bit_errors: Option<u64>,
        /// Echoes that the client's socket had no room for; also counted as lost on the path back.
        #[serde(skip_serializing_if = "Option::is_none")]
        socket_dropped_packets: Option<u64>,
        /// Bytes of the stream that had not come back when the client stopped waiting; 0 if all did.
        #[serde(skip_serializing_if = "Option::is_none")]
        undelivered_bytes: Option<u64>,
    }
}
