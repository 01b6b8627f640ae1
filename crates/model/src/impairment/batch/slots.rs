//! Packets leave in time slots, as on links with medium access in turns.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{BatchRule, Release};
use crate::ModelError;
use crate::impairment::time::{Timing, TimingLaw};
use crate::law::{Deciding, Law, PacketFacts, Words, refuse};
use crate::units::ByteSize;

/// Maximum number of slots that one packet passes. The mean interval is at least 0.1 ms, so that a silence of 0.2 s has no more.
const MAX_SLOTS: usize = 2000;

/// Packets wait for the next time slot; each slot takes a limited number of packets and bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slots {
    /// The law of the time from a slot to the next, at least 0.1 ms on average. The first slot is at the first packet.
    #[schemars(example = "10ms")]
    pub interval: Timing,
    /// Maximum number of packets in a slot, at least 1. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 4)]
    pub packets: Option<u64>,
    /// Maximum number of bytes in a slot, frames without check sequence. A longer frame has a slot of its own. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = "3000")]
    pub bytes: Option<ByteSize>,
}

impl Law for Slots {
    const SHORT_FORMS: &'static [&'static str] = &["every T [packets N] [bytes B]"];
    type Running = Turns;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        if !words.took("every") {
            return Ok(None);
        }
        let interval = words.value()?;
        let packets = if words.took("packets") { Some(words.value()?) } else { None };
        let bytes = if words.took("bytes") { Some(words.value()?) } else { None };
        Ok(Some(Self { interval, packets, bytes }))
    }

    /// Laws with parentheses have the general form.
    fn short(&self) -> Option<String> {
        let interval = self.interval.to_string();
        if interval.contains('(') {
            return None;
        }
        let mut text = format!("every {interval}");
        if let Some(packets) = self.packets {
            text += &format!(" packets {packets}");
        }
        if let Some(bytes) = self.bytes {
            text += &format!(" bytes {bytes}");
        }
        Some(text)
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        self.interval.check(&format!("{at}.interval"))?;
        if self.interval.moments().mean < 1e5 {
            return refuse(at, "interval", &self.interval, "at least 100us on average");
        }
        if self.packets == Some(0) {
            return refuse(at, "packets", 0, "1 or more");
        }
        if self.bytes.is_some_and(|bytes| bytes.0 == 0) {
            return refuse(at, "bytes", 0, "1 or more");
        }
        Ok(())
    }

    fn start(&self) -> Turns {
        Turns {
            law: self.interval.start(),
            most: [self.packets.unwrap_or(u64::MAX), self.bytes.map_or(u64::MAX, |bytes| bytes.0)],
            slot: 0,
            at_ns: 0,
            used: [0; 2],
        }
    }
}

/// Slot 0 is at time 0, and interval *n* between slots *n* and *n* + 1 has the draws of event *n* in place of a packet. A packet is in
/// the first slot from its time and that of the packet before on that has room.
#[derive(Clone, Debug, PartialEq)]
pub struct Turns {
    law: TimingLaw,
    /// Maximum number of packets and bytes in a slot.
    most: [u64; 2],
    /// Number of the current slot, and its time.
    slot: u64,
    at_ns: u64,
    /// Packets and bytes in it.
    used: [u64; 2],
}

impl Turns {
    fn next_slot(&mut self, draws: &Draws) {
        let interval = self.law.next(&mut draws.of_event(self.slot));
        self.at_ns = self.at_ns.saturating_add(interval);
        self.slot += 1;
        self.used = [0; 2];
    }
}

impl Deciding for Turns {
    type Outcome = Release;

    #[inline]
    fn decide(&mut self, packet: &PacketFacts, draws: &mut Draws) -> Release {
        for _ in 0..MAX_SLOTS {
            if self.at_ns >= packet.elapsed_ns {
                break;
            }
            self.next_slot(draws);
        }
        if self.at_ns < packet.elapsed_ns {
            // After a long silence the slots resume here, so that no packet takes long.
            self.at_ns = packet.elapsed_ns;
        }
        let bytes = u64::from(packet.bytes);
        let is_full = self.used[0] >= self.most[0]
            || self.used[0] > 0 && self.used[1].saturating_add(bytes) > self.most[1];
        if is_full {
            self.next_slot(draws);
        }
        self.used[0] += 1;
        self.used[1] = self.used[1].saturating_add(bytes);
        Release::At(self.at_ns)
    }
}

impl BatchRule for Slots {
    fn tables(&self) -> usize {
        self.interval.tables()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{refused, releases};
    use super::Release;

    const MS: u64 = 1_000_000;

    /// The slots of packets at these times, ms.
    fn slots(text: &str, times: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let all = releases(text, times.into_iter().map(|ms| ms * MS));
        let at = |release| match release {
            Release::At(ns) => ns / MS,
            other => panic!("{other:?}"),
        };
        all.into_iter().map(at).collect()
    }

    #[test]
    fn packets_wait_for_their_slot() {
        assert_eq!(slots("batch every 10ms", [0, 1, 9, 10, 11, 35]), [0, 10, 10, 10, 20, 40]);
        // Two in each slot; the others wait for later ones.
        assert_eq!(slots("batch every 10ms packets 2", [1, 2, 3, 4, 5, 60]), [10, 10, 20, 20, 30, 60]);
        // 100 bytes each.
        assert_eq!(slots("batch every 10ms bytes 250", [1, 2, 3, 4, 5]), [10, 10, 20, 20, 30]);
        assert_eq!(slots("batch every 10ms bytes 50", [1, 2, 3]), [10, 20, 30]);
    }

    #[test]
    fn slots_depend_on_the_seed_alone() {
        let text = "batch slots(interval=uniform(min=2ms, max=20ms), packets=3)";
        let many = slots(text, 0..2000);
        let few = slots(text, (0..200).map(|n| 10 * n));
        assert!(few.iter().enumerate().all(|(n, at)| *at <= many[10 * n]));
        assert!(few.iter().all(|at| many.contains(at)));
        // 200 slots or so in 2 s; 6.2 standard deviations of the mean interval.
        let mut different = many.clone();
        different.dedup();
        let mean = *different.last().unwrap() as f64 / (different.len() - 1) as f64;
        let bound = 6.2 * 18.0 / 12f64.sqrt() / (different.len() as f64).sqrt();
        assert!((mean - 11.0).abs() < bound, "{mean} ± {bound}");
    }

    #[test]
    fn a_long_silence_costs_little() {
        let got = releases("batch every 100us", [0, u64::MAX / 2]);
        assert_eq!(got[1], Release::At(u64::MAX / 2));
    }

    #[test]
    fn parameters_are_checked() {
        assert_eq!(refused("batch every 99us"), "batch.slots.interval");
        assert_eq!(refused("batch every 1ms packets 0"), "batch.slots.packets");
        assert_eq!(refused("batch every 1ms bytes 0"), "batch.slots.bytes");
    }
}
