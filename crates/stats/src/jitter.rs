//! Interarrival jitter as RFC 3550 defines it.

/// Interarrival jitter, RFC 3550 sections 6.4.1 and A.8, over packets in order of arrival.
///
/// For each packet the transit is R = received − sent, a 64-bit integer of nanoseconds; D is the difference
/// between this transit and the previous one. The exact arithmetic, in IEEE 754 double precision with round
/// to nearest: `J = J + (|D| − J) / 16`, where |D| is converted to double first, then one subtraction, one
/// division, one addition, in that order, none fused. J starts at 0 and the first packet only sets the
/// transit. Sender's and receiver's clock may differ by any constant.
///
/// For coalesced batches call it once a batch, with the batch's first packet: the figure is then jitter between
/// batches.
///
/// ```
/// let mut jitter = weir_stats::Jitter::new();
/// jitter.on_packet(0, 1_000);
/// jitter.on_packet(1_000, 2_160);
/// assert_eq!(jitter.ns(), Some(10.0));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Jitter {
    jitter_ns: f64,
    transit_ns: i64,
    packets: u64,
}

impl Jitter {
    /// A jitter without packets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a packet sent at `sent_ns` (sender's clock) that arrived at `received_ns` (receiver's clock).
    #[inline]
    pub fn on_packet(&mut self, sent_ns: u64, received_ns: u64) {
        let transit_ns = received_ns.wrapping_sub(sent_ns) as i64;
        if self.packets > 0 {
            let difference = transit_ns.wrapping_sub(self.transit_ns).unsigned_abs() as f64;
            self.jitter_ns += (difference - self.jitter_ns) / 16.0;
        }
        self.transit_ns = transit_ns;
        self.packets += 1;
    }

    /// The jitter in ns; absent below two packets.
    pub fn ns(&self) -> Option<f64> {
        (self.packets > 1).then_some(self.jitter_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_transit_has_no_jitter_whatever_the_clocks() {
        let mut jitter = Jitter::new();
        assert_eq!(jitter.ns(), None);
        for packet in 0..100u64 {
            // The receiver's clock is behind the sender's by more than the delay.
            jitter.on_packet(5_000_000_000 + packet * 1000, 100 + packet * 1000);
        }
        assert_eq!(jitter.ns(), Some(0.0));
    }

    #[test]
    fn alternating_transit_tends_to_its_step() {
        let mut jitter = Jitter::new();
        for packet in 0..1000u64 {
            jitter.on_packet(packet * 1000, packet * 1000 + 50 + (packet % 2) * 160);
        }
        let ns = jitter.ns().unwrap();
        assert!((ns - 160.0).abs() < 1e-9, "{ns}");
    }
}
