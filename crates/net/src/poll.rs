//! Waiting for many sockets concurrently.

pub use crate::sys::poll::{Events, Poller, Waker};

/// What to wait for. Errors and hang-ups are always reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Something can be read, or the peer has closed.
    pub readable: bool,
    /// Something can be written.
    pub writable: bool,
    /// Report only changes (edge-triggered): read or write until `WouldBlock` after each event.
    pub edge: bool,
}

impl Interest {
    /// Waits for input.
    pub const READ: Interest = Interest { readable: true, writable: false, edge: false };
    /// Waits for room to write.
    pub const WRITE: Interest = Interest { readable: false, writable: true, edge: false };
}

/// An event of a descriptor that was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The token given with the descriptor.
    pub token: u64,
    /// Something can be read (or a read would report the end or an error).
    pub readable: bool,
    /// Something can be written.
    pub writable: bool,
    /// The descriptor has a pending error, or its error queue an entry.
    pub error: bool,
    /// The peer has closed its sending side, or both.
    pub hang_up: bool,
}
