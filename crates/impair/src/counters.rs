//! What an engine counts beside the counters of flows, which `weir_model` lists.

pub use weir_model::impairment::Counters;

/// Frames of one direction that passed outside the laws: [`Role::Arp`](crate::Role::Arp) and those behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exempt {
    /// Frames.
    pub packets: u64,
    /// Their bytes, without check sequence.
    pub bytes: u64,
}
