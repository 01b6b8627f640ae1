//! Names of the stages of the loss ledger in the record.

/// A queueing discipline or filter of an end.
pub const QDISC: &str = "qdisc";
/// The outgoing interface.
pub const CARD_TX: &str = "card tx";
/// The full queue of the sender's interface, which refused frames of XDP.
pub const INTERFACE_QUEUE: &str = "interface queue full";
/// A loss law of the emulator.
pub const EMULATOR_PLANNED: &str = "emulator planned";
/// The queue of a rate law.
pub const EMULATOR_QUEUE: &str = "emulator queue";
/// A content law after which the checksum was wrong, so that the receiver's kernel drops the datagram.
pub const EMULATOR_DAMAGED: &str = "emulator damaged";
/// The emulator, but not one of its laws.
pub const EMULATOR_UNPLANNED: &str = "emulator unplanned";
/// The emulator's links, before or after its laws.
pub const EMULATOR_LINKS: &str = "emulator links";
/// A wrong UDP checksum at the receiver, of unknown origin.
pub const DAMAGED: &str = "damaged on the path";
/// The incoming interface.
pub const CARD_RX: &str = "card rx";
/// The kernel's backlog queue.
pub const SOFTNET: &str = "softnet";
/// A full socket buffer.
pub const SOCKET_OVERFLOW: &str = "socket overflow";
/// Arrival after the loss threshold.
pub const LATE: &str = "late";
/// A header with a wrong tag or size, so that the number is unknown.
pub const DAMAGED_HEADER: &str = "damaged header";
/// A sequence number that the sender cannot have used.
pub const IMPLAUSIBLE_NUMBER: &str = "implausible number";
