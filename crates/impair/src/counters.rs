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

/// Largest values of a flow in one direction since the last [`Engine::restart_peaks`](crate::Engine::restart_peaks). Those of
/// several workers have a maximum, not a sum: each has a queue and bursts of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Consecutive packets that the loss law dropped.
    pub loss_burst_packets: u64,
    /// Packets in the rate's queue as a packet of the flow joined it, that one included and those in transmission excluded. 0 if the
    /// queue is limited by time.
    pub queue_packets: u64,
    /// Their bytes, with framing.
    pub queue_bytes: u64,
    /// Time in the queue of a rate without AQM, ns.
    pub queue_wait_ns: u64,
}

impl Peaks {
    /// The larger values of both.
    #[must_use]
    pub fn max(self, other: Peaks) -> Peaks {
        Peaks {
            loss_burst_packets: self.loss_burst_packets.max(other.loss_burst_packets),
            queue_packets: self.queue_packets.max(other.queue_packets),
            queue_bytes: self.queue_bytes.max(other.queue_bytes),
            queue_wait_ns: self.queue_wait_ns.max(other.queue_wait_ns),
        }
    }
}
