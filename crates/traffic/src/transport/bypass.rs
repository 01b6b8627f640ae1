//! Datagrams that pass below the socket layer: the parts of a socket's flow that a program in the kernel does.

use std::io;

use weir_flow::{Counted, Stated};
use weir_stats::DelaySummary;

/// The counter of a flow whose datagrams end in a program.
pub trait FlowCounts: Send + Sync {
    /// How the program receives, as the record names it.
    fn method(&self) -> &'static str;

    /// States what the counter must know.
    ///
    /// # Errors
    /// The system's refusal.
    fn state(&self, stated: Stated) -> io::Result<()>;

    /// The counts now, and those at the end of the stated interval if a datagram has arrived since.
    ///
    /// # Errors
    /// The system's refusal.
    fn read(&self) -> io::Result<(Counted, Option<Counted>)>;

    /// The delays so far; `None` if there are none.
    ///
    /// # Errors
    /// The system's refusal.
    fn delays(&self) -> io::Result<Option<DelaySummary>>;
}
