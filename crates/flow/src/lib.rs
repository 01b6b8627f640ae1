//! A test without I/O: when to send, what to send next, how to account for an arrival, and how two ends' reports make
//! one record.
//!
//! Time, keys and bytes are arguments, so everything here runs under a virtual clock as well as on sockets.
//!
//! - [`Pacer`]: the schedule of a paced sender, with its catch-up policy.
//! - [`Sending`]: the sending side of a flow. Ask [`Sending::next`], [`Sending::fill`], send, report [`Sending::sent`].
//! - [`Sizes`]: the payload size of each packet.
//! - [`waking`]: the scheduling class of a sending thread, and how long it may spin.
//! - [`Receiving`]: the receiving side of a datagram flow; [`StreamReceiving`] of a stream.
//! - [`Transacting`]: the client's side of transactions; its requests are a [`Sending`].
//! - [`Drain`]: how long a receiver waits once its sender has finished.
//! - [`IntervalClock`]: the intervals, the same at both ends.
//! - [`budget`]: the budget of control traffic.
//! - [`DitgLog`]: packets that another program logged, as a record.
//! - [`attribute`]: adds an emulator on the path to the record.
//! - [`assemble`]: two [`weir_model::report::EndReport`]s become one [`weir_model::record::Record`].

pub mod assemble;
pub mod budget;
mod datagram_transfer;
mod ditg_log;
mod drain;
mod emulated;
#[doc(hidden)]
pub mod fuzz;
mod gaps;
mod intervals;
mod ledger;
mod limits;
mod loss_lines;
mod pacer;
mod pages;
mod payload;
mod peer_reports;
mod receive;
mod requests;
mod scheduling;
mod send;
mod sizes;
mod socket_drops;
mod stream;
mod supply;
mod transact;
mod transfers;
mod warnings;

pub use datagram_transfer::{Arrived, DatagramTransfer, DatagramTransfers, TransferStep};
pub use ditg_log::{DitgLog, DitgLogError};
pub use drain::{Drain, MAX_DRAIN_NS};
pub use emulated::{DroppedDatagrams, Emulated, attribute};
pub use intervals::{IntervalClock, IntervalLog, MAX_INTERVALS};
pub use limits::{BusyTimes, Limits};
pub use loss_lines::{LossLines, without_reported};
pub use pacer::{Due, MAX_BACKLOG_NS, Pacer};
pub use payload::{
    AlignedBytes, FEW_SEGMENTS, MAX_MESSAGE, MAX_SEGMENTS, PayloadRing, StreamPool,
    segments_per_message,
};
pub use peer_reports::{PeerInterval, PeerReports};
pub use receive::{
    Counted, Logged, MembershipReport, ReceiveCount, Receiving, SenderClock, Stated, delay_record,
};
pub use scheduling::{Asked, Class, Demand, Scheduling, WakeupLatency, Waking, waking};
pub use send::header_bytes;
pub use send::{NextSend, Numbering, SendCount, Sending};
pub use sizes::Sizes;
pub use stream::{StreamCount, StreamReceiving};
pub use supply::{Recording, Summary, Supply};
pub use transact::{Failure, Transacting};

#[cfg(test)]
mod simulated;
