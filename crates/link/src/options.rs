//! Options of links.

use weir_net::clock::Clock;

use crate::link::Mode;

/// Choice of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkChoice {
    /// The best available one; the description contains the reason.
    Auto {
        /// Whether a delay or rate law needs times of arrival. Then a link with the kernel's receive stamps
        /// is chosen, else the fastest.
        receive_stamps: bool,
    },
    /// This mode, or an error.
    Mode(Mode),
}

/// Options for opening a link.
#[derive(Clone, Debug, Default)]
pub struct LinkOptions {
    /// Size of each receive ring, frames: the number that may arrive without loss while this process is stalled.
    /// `None`: 8192 for a packet socket, 4096 per queue for AF_XDP. Rounded up as the kernel requires.
    pub ring_frames: Option<u32>,
    /// Clock for mapping the kernel's receive stamps to monotonic time. Tests may use one with steps.
    pub clock: Clock,
}
