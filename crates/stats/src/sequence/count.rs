//! Flows too small for a sequence number (0-byte datagrams): only totals can be known.

/// Counts arrivals of a flow whose packets carry no number.
#[derive(Debug, Clone, Default)]
pub struct CountTracker {
    received: u64,
}

/// What a count alone can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountSummary {
    /// Packets received, copies included: they can't be told apart.
    pub received: u64,
    /// Sent − received: exact only if the path made no copies; a lower bound otherwise. 0 when more came than were
    /// sent.
    pub lost: u64,
    /// Copies that certainly came: received − sent, when positive.
    pub surplus: u64,
    /// Always true: a copy hides a loss.
    pub ambiguous: bool,
}

impl CountTracker {
    /// A tracker that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// `packets` more have come.
    #[inline]
    pub fn on_packets(&mut self, packets: u64) {
        self.received = self.received.saturating_add(packets);
    }

    /// Packets received so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Whether as many came as were sent.
    pub fn is_complete(&self, sent_total: u64) -> bool {
        self.received >= sent_total
    }

    /// Reconciles with the sender's final count.
    pub fn finish(&self, sent_total: u64) -> CountSummary {
        CountSummary {
            received: self.received,
            lost: sent_total.saturating_sub(self.received),
            surplus: self.received.saturating_sub(sent_total),
            ambiguous: true,
        }
    }
}
