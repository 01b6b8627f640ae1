//! The result of a simulation: the same kinds of evidence as a real run in a lab.

use weir_impair::Counters;
use weir_model::plan::Direction;
use weir_model::record::Record;
use weir_wire::packets;

/// The emulator's counters for a flow in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowCounters {
    /// Direction.
    pub direction: Direction,
    /// Number in the packet trace, 0 is Other.
    pub number: u32,
    /// Name.
    pub name: String,
    /// Its counters.
    pub counters: Counters,
}

/// The result of a simulation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Both ends' figures, without those of a host (identity, start time, CPU time).
    pub record: Record,
    /// The emulator's packet trace as in `weir.packets/1`, in the order of each direction's decisions. Departures are
    /// exactly as planned.
    pub packet_trace: Vec<(packets::Record, packets::Judged)>,
    /// The receivers' packet logs, in the order of arrival of each direction.
    pub received: Vec<packets::Record>,
    /// The emulator's counters.
    pub counters: Vec<FlowCounters>,
    /// Frames that arrived and that the receiving host's stack dropped: damaged, or for no flow.
    pub stack_dropped_packets: u64,
}
