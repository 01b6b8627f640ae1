//! What a simulation gives: the same kinds of evidence as a real run in a lab.

use weir_impair::Counters;
use weir_model::plan::Direction;
use weir_model::record::Record;
use weir_wire::packets;

/// What the emulator counted for a flow of its own in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowCounters {
    /// Direction.
    pub direction: Direction,
    /// Number in the packet trace, 0 is Other.
    pub number: u32,
    /// Name.
    pub name: String,
    /// What it counted.
    pub counters: Counters,
}

/// Everything that a simulation knows at its end.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Both ends' figures, without what only a host has (identity, start time, processor use).
    pub record: Record,
    /// The emulator's packet trace as `weir.packets/1` has it, in the order of each direction's decisions. Departures are
    /// exactly the asked ones.
    pub packet_trace: Vec<(packets::Record, packets::Judged)>,
    /// The receivers' packet logs, in the order of arrival of each direction.
    pub received: Vec<packets::Record>,
    /// The emulator's counters.
    pub counters: Vec<FlowCounters>,
    /// Frames that arrived and that the receiving host's stack dropped: damaged, or for no flow.
    pub stack_dropped_packets: u64,
}
