//! What may be asked of a link.

use weir_net::clock::Clock;

use crate::link::Mode;

/// Which link is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkChoice {
    /// The best available for the purpose; the description gives the reason.
    Auto {
        /// Whether anything counts from the time of arrival: a delay or rate law. Then a link with the kernel's
        /// receive stamps is taken, else the fastest.
        receive_stamps: bool,
    },
    /// This one or an error.
    Mode(Mode),
}

/// How a link is to be opened.
#[derive(Clone, Debug, Default)]
pub struct LinkOptions {
    /// Frames each receive ring is to hold: a stall of this process no longer than they take to come in loses nothing.
    /// `None`: 8192 for a packet socket, 4096 a queue for AF_XDP. Rounded up as the kernel wants it.
    pub ring_frames: Option<u32>,
    /// By which the kernel's receive stamps are mapped to monotonic time; a test may give one that is stepped.
    pub clock: Clock,
}
