//! Counters of an engine. Those of its flows are in `weir_model`.

pub use weir_model::impairment::Counters;

/// Frames of one direction that were exempt from the laws: [`Role::Arp`](crate::Role::Arp) and the roles after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exempt {
    /// Frames.
    pub packets: u64,
    /// Their bytes, without check sequence.
    pub bytes: u64,
}
