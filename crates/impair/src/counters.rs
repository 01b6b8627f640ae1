//! What a flow has seen in one direction.

/// Counts since the engine was made. received + duplicated = sent + lost + queue_dropped +
/// unplanned_dropped + those that are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came.
    pub received_packets: u64,
    /// Bytes of their frames, without check sequence.
    pub received_bytes: u64,
    /// Packets sent on, copies included.
    pub sent_packets: u64,
    /// Bytes of their frames.
    pub sent_bytes: u64,
    /// Packets dropped by a loss law.
    pub lost_packets: u64,
    /// Copies made.
    pub duplicated_packets: u64,
    /// Packets sent on after a delay law held them back.
    pub delayed_packets: u64,
    /// Packets sent on with changed content; those whose change was found to change nothing are taken back.
    pub modified_packets: u64,
    /// Packets sent on after a later one of their flow (RFC 4737 §3.3); copies are not asked.
    pub reordered_packets: u64,
    /// Packets marked with ECN Congestion Experienced; no law of today does.
    pub marked_packets: u64,
    /// Packets that found the planned queue full.
    pub queue_dropped_packets: u64,
    /// Packets dropped because the memory for held packets was used up, or left behind at the end.
    pub unplanned_dropped_packets: u64,
}

/// Frames of one direction that passed outside the laws: [`Role::Arp`](crate::Role::Arp) and those behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exempt {
    /// Frames.
    pub packets: u64,
    /// Their bytes, without check sequence.
    pub bytes: u64,
}

impl Counters {
    /// The counters with their names, in the order in which they are shown.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 12] {
        [
            ("received_packets", self.received_packets),
            ("received_bytes", self.received_bytes),
            ("sent_packets", self.sent_packets),
            ("sent_bytes", self.sent_bytes),
            ("lost_packets", self.lost_packets),
            ("duplicated_packets", self.duplicated_packets),
            ("delayed_packets", self.delayed_packets),
            ("modified_packets", self.modified_packets),
            ("reordered_packets", self.reordered_packets),
            ("marked_packets", self.marked_packets),
            ("queue_dropped_packets", self.queue_dropped_packets),
            ("unplanned_dropped_packets", self.unplanned_dropped_packets),
        ]
    }
}
