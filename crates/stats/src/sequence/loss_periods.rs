//! Loss periods (RFC 3357): numbers of consecutively lost packets. Bursts and gaps (RFC 3611 section
//! 4.7.2).

use std::collections::BTreeMap;

/// Minimum number of packets received between two bursts: Gmin of RFC 3611, its recommended value.
const MIN_GAP_PACKETS: u64 = 16;

/// Bursts of losses and the gaps between them (RFC 3611 section 4.7.2).
///
/// A burst is the longest sequence that starts and ends with a lost packet and has fewer than 16 (Gmin)
/// consecutive received packets. A lost packet with at least 16 received packets before and after it is
/// part of a gap; packets beyond the ends of the flow count as received. Every packet is in a burst or in a
/// gap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bursts {
    /// Number of bursts.
    pub bursts: u64,
    /// Packets in bursts, lost and received.
    pub burst_packets: u64,
    /// Packets lost in bursts.
    pub burst_lost: u64,
    /// Number of gaps.
    pub gaps: u64,
    /// Packets in gaps, lost and received.
    pub gap_packets: u64,
    /// Packets lost in gaps.
    pub gap_lost: u64,
    /// The burst or lone loss that the next loss may extend: first number, one above the last, lost packets.
    open: Option<(u64, u64, u64)>,
    /// One above the last number of the latest burst.
    end: u64,
}

impl Bursts {
    /// Fraction of the packets in bursts that were lost; absent without a burst.
    pub fn burst_density(&self) -> Option<f64> {
        (self.burst_packets > 0).then(|| self.burst_lost as f64 / self.burst_packets as f64)
    }

    /// Fraction of the packets in gaps that were lost; absent without a gap.
    pub fn gap_density(&self) -> Option<f64> {
        (self.gap_packets > 0).then(|| self.gap_lost as f64 / self.gap_packets as f64)
    }

    /// Mean length of a burst, packets; absent without a burst.
    pub fn mean_burst_packets(&self) -> Option<f64> {
        (self.bursts > 0).then(|| self.burst_packets as f64 / self.bursts as f64)
    }

    /// Mean length of a gap, packets; absent without a gap.
    pub fn mean_gap_packets(&self) -> Option<f64> {
        (self.gaps > 0).then(|| self.gap_packets as f64 / self.gaps as f64)
    }

    /// Records `length` lost packets from number `first` on.
    fn record(&mut self, first: u64, length: u64) {
        match &mut self.open {
            Some((_, end, lost)) if first - *end < MIN_GAP_PACKETS => {
                *end = first + length;
                *lost += length;
            }
            _ => {
                self.close();
                self.open = Some((first, first + length, length));
            }
        }
    }

    fn close(&mut self) {
        // A lone loss is part of a gap.
        if let Some((first, end, lost)) = self.open.take().filter(|(.., lost)| *lost > 1) {
            self.bursts += 1;
            self.burst_packets += end - first;
            self.burst_lost += lost;
            self.gaps += u64::from(first > self.end);
            self.end = end;
        }
    }

    /// Ends the flow, of which `sent` packets were sent and `lost` were lost.
    fn finish(&mut self, sent: u64, lost: u64) {
        self.close();
        self.gaps += u64::from(sent > self.end);
        self.gap_packets = sent - self.burst_packets;
        self.gap_lost = lost - self.burst_lost;
    }
}

/// Number of loss periods by length, for a bounded number of lengths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LossPeriods {
    /// Length in packets → number of loss periods of that length.
    pub lengths: BTreeMap<u64, u64>,
    /// Loss periods whose length found no free key in `lengths`.
    pub overflow_periods: u64,
    /// Packets lost in those loss periods.
    pub overflow_packets: u64,
    /// Bursts and gaps, once the flow has ended.
    pub bursts: Bursts,
    /// One above the last number of the latest loss period.
    end: u64,
}

impl LossPeriods {
    /// Packets lost in all loss periods together.
    pub(crate) fn packets(&self) -> u64 {
        self.lengths.iter().map(|(length, periods)| length * periods).sum::<u64>()
            + self.overflow_packets
    }

    /// Number of loss periods.
    pub(crate) fn periods(&self) -> u64 {
        self.lengths.values().sum::<u64>() + self.overflow_periods
    }

    /// Records the loss period of `length` packets from number `first` on. Periods are recorded in order,
    /// and at least one packet arrived between two of them.
    pub(super) fn record(&mut self, first: u64, length: u64, max_keys: usize) {
        debug_assert!(first > self.end || self.periods() == 0, "{first} after {}", self.end);
        self.end = first + length;
        self.bursts.record(first, length);
        if self.lengths.len() < max_keys || self.lengths.contains_key(&length) {
            *self.lengths.entry(length).or_default() += 1;
        } else {
            self.overflow_periods += 1;
            self.overflow_packets += length;
        }
    }

    /// Ends the flow, of which `sent` packets were sent.
    pub(super) fn finish(&mut self, sent: u64) {
        debug_assert!(self.end <= sent, "{} of {sent}", self.end);
        self.bursts.finish(sent, self.packets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bursts of a flow whose packets were received or lost as in `received`.
    fn bursts(received: &[bool]) -> Bursts {
        let mut periods = LossPeriods::default();
        let mut number = 0;
        for run in received.chunk_by(|a, b| a == b) {
            if !run[0] {
                periods.record(number, run.len() as u64, 256);
            }
            number += run.len() as u64;
        }
        periods.finish(number);
        periods.bursts
    }

    /// The pattern of RFC 3611 section 4.7.2: 64 packets, a gap of 23 with one loss, a burst of 12 with four, a gap of 29 with
    /// one. 0 is a lost packet, X a packet discarded as late, which is lost as well.
    #[test]
    fn the_example_of_rfc_3611() {
        let pattern = "11110111111111111111111\
                       X111X1011110\
                       111111111111111111X1111111111";
        let received: Vec<bool> = pattern.chars().map(|c| c == '1').collect();
        assert_eq!(received.len(), 64);
        let found = bursts(&received);
        assert_eq!((found.bursts, found.burst_packets, found.burst_lost), (1, 12, 4));
        assert_eq!((found.gaps, found.gap_packets, found.gap_lost), (2, 23 + 29, 2));
        // Burst density 33 %, gap density 4 %, at 10 ms a packet 120 ms of burst.
        assert_eq!(found.burst_density(), Some(4.0 / 12.0));
        assert_eq!(found.gap_density(), Some(2.0 / 52.0));
        assert_eq!(
            (found.mean_burst_packets(), found.mean_gap_packets()),
            (Some(12.0), Some(26.0))
        );
    }

    #[test]
    fn losses_at_the_ends_and_sixteen_packets_apart() {
        let lost = |numbers: &[usize], sent: usize| {
            bursts(&(0..sent).map(|n| !numbers.contains(&n)).collect::<Vec<_>>())
        };
        // 15 packets received between two losses: one burst of 17. 16 received: two lone losses in a gap.
        let near = lost(&[20, 36], 100);
        assert_eq!((near.bursts, near.burst_packets, near.gaps), (1, 17, 2));
        let far = lost(&[20, 37], 100);
        assert_eq!((far.bursts, far.gaps, far.gap_lost), (0, 1, 2));
        // Beyond the ends packets count as received.
        assert_eq!(lost(&[0], 100).bursts, 0);
        let ends = lost(&[0, 1, 98, 99], 100);
        assert_eq!((ends.bursts, ends.gaps, ends.gap_packets), (2, 1, 96));
        let all = lost(&[0, 1, 2], 3);
        assert_eq!((all.bursts, all.gaps, all.gap_density()), (1, 0, None));
        assert_eq!(lost(&[], 0), Bursts::default());
    }

    proptest! {
        /// Compares with the definition, applied to the flow packet by packet.
        #[test]
        fn bursts_are_as_defined(runs in prop::collection::vec((1usize..40, 1usize..4), 0..40), head in any::<bool>()) {
            let mut received = vec![];
            for (arrived, lost) in runs {
                received.extend(vec![true; arrived]);
                received.extend(vec![false; lost]);
            }
            if head {
                received.reverse();
            }
            let lost: Vec<usize> = (0..received.len()).filter(|n| !received[*n]).collect();
            let groups = lost.chunk_by(|a, b| b - a - 1 < MIN_GAP_PACKETS as usize);
            let expected: Vec<(usize, usize)> = groups
                .filter(|group| group.len() > 1)
                .map(|group| (group[group.len() - 1] - group[0] + 1, group.len()))
                .collect();
            let found = bursts(&received);
            prop_assert_eq!(found.bursts as usize, expected.len());
            prop_assert_eq!(found.burst_packets as usize, expected.iter().map(|e| e.0).sum::<usize>());
            prop_assert_eq!(found.burst_lost as usize, expected.iter().map(|e| e.1).sum::<usize>());
            prop_assert_eq!((found.burst_packets + found.gap_packets) as usize, received.len());
            prop_assert_eq!((found.burst_lost + found.gap_lost) as usize, lost.len());
            prop_assert!(found.gaps <= found.bursts + 1 && found.gaps + 1 >= found.bursts);
        }
    }
}
