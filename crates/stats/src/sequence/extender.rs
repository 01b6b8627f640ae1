//! Extends narrow sequence numbers (8, 16 or 32 bits on the wire) to 64 bits.

/// Extends narrow numbers by nearest match to the next one expected (as RFC 3711 section 3.3.1 does for RTP).
#[derive(Debug, Clone)]
pub struct SequenceExtender {
    bits: u32,
    next: u64,
    ambiguous: bool,
}

/// One extended number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extended {
    /// The 64-bit sequence number.
    pub sequence: u64,
    /// The flow may have moved by more than half the number space since the last packet, so that this number, and
    /// all after it, may be off by a multiple of the space.
    pub ambiguous: bool,
}

impl SequenceExtender {
    /// An extender for numbers of `bits` bits, clamped to 1 to 63.
    pub fn new(bits: u32) -> Self {
        Self { bits: bits.clamp(1, 63), next: 0, ambiguous: false }
    }

    /// Extends `narrow` (higher bits are ignored). The result affects later numbers only after
    /// [`accept`](Self::accept): a refused number may be damaged and does not show the flow's position.
    ///
    /// `packets_since_last` is the number of packets the sender may have sent since the last arrival: time since
    /// then × expected rate. With half the number space or more, nearest match can be wrong. Pass 0 when unknown:
    /// then only a step of at least a quarter of the space is flagged.
    #[inline]
    pub fn extend(&self, narrow: u64, packets_since_last: u64) -> Extended {
        let space = self.space();
        let half = space / 2;
        let ahead = narrow.wrapping_sub(self.next) & (space - 1);
        // Below `half` the number lies ahead, else behind. At the start there is nothing behind.
        let sequence = if ahead < half || self.next < space - ahead {
            self.next.saturating_add(ahead)
        } else {
            self.next - (space - ahead)
        };
        let step = sequence.abs_diff(self.next);
        let ambiguous = packets_since_last >= half || step >= (space / 4).max(1);
        Extended { sequence, ambiguous: self.ambiguous || ambiguous }
    }

    /// Accepts an extended number as the flow's position. If it was ambiguous, so are all later ones.
    #[inline]
    pub fn accept(&mut self, extended: Extended) {
        self.ambiguous = extended.ambiguous;
        self.next = self.next.max(extended.sequence.saturating_add(1));
    }

    /// Size of the number space.
    pub fn space(&self) -> u64 {
        1u64 << self.bits
    }

    /// Whether any number so far was ambiguous.
    pub fn is_ambiguous(&self) -> bool {
        self.ambiguous
    }
}
