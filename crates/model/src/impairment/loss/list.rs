//! Loss of given packets, by their numbers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{LossMoments, LossRule};
use crate::ModelError;
use crate::impairment::value::PacketNumbers;
use crate::law::{Law, Running, refuse};

/// Loss of given packets, by their numbers, once or repeatedly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "List of packets")]
pub struct List {
    /// Numbers of the lost packets, the first packet is 1.
    #[schemars(example = "3 7 10-20")]
    pub packets: PacketNumbers,
    /// Number of packets after which the list starts again, at least its last number. Absent: it is used once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 100)]
    pub every: Option<u64>,
}

impl Law for List {
    type Running = Listed;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        let last = self.packets.last();
        if let Some(every) = self.every.filter(|every| *every < last) {
            return refuse(at, "every", every, &format!("{last} or more, the last number"));
        }
        Ok(())
    }

    fn start(&self) -> Listed {
        let ranges = self.packets.0.clone().into();
        Listed { ranges, every: self.every.unwrap_or(u64::MAX), packet: 0, at: 0 }
    }
}

/// Packet n, counted from 1, is lost if it is listed; with a repetition, counted from 1 again after each `every` packets. Uses
/// no draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// First and last numbers, rising.
    ranges: Box<[(u64, u64)]>,
    every: u64,
    /// Number of the last packet.
    packet: u64,
    /// Index of the first range that has not passed.
    at: usize,
}

impl Running for Listed {
    type Outcome = bool;

    #[inline]
    fn next(&mut self, _: &mut Draws) -> bool {
        if self.packet == self.every {
            (self.packet, self.at) = (0, 0);
        }
        self.packet += 1;
        while self.ranges.get(self.at).is_some_and(|range| range.1 < self.packet) {
            self.at += 1;
        }
        self.ranges.get(self.at).is_some_and(|range| range.0 <= self.packet)
    }
}

impl LossRule for List {
    /// There is no long run of a list that is used once.
    fn moments(&self) -> Option<LossMoments> {
        let count: u64 = self.packets.0.iter().map(|(low, high)| high - low + 1).sum();
        let mean = count as f64 / self.every? as f64;
        Some(LossMoments { mean, variance: 0.0, burst: None })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agree_with_the_law, lost_packets, refused};
    use crate::impairment::Laws;

    #[test]
    fn listed_packets_are_lost() {
        assert_eq!(lost_packets("loss list(packets=3 7 10-12)", 100), [3, 7, 10, 11, 12]);
        assert_eq!(lost_packets("loss list(packets=1 4, every=4)", 10), [1, 4, 5, 8, 9]);
        agree_with_the_law("loss list(every=50, packets=1 4-9)");
        let laws: Laws = "loss list(packets=1  4-9, every=50)".parse().unwrap();
        assert_eq!(laws.to_string(), "loss list(every=50, packets=1 4-9)");
    }

    #[test]
    fn parameters_are_checked() {
        for packets in ["0", "7 3", "5-3", "1-4 4", "", "x"] {
            assert_eq!(refused(&format!("loss list(packets={packets})")), "loss.list.packets");
        }
        assert_eq!(refused("loss list(packets=1 9, every=8)"), "loss.list.every");
    }
}
