//! Bursts of fixed length, once or repeatedly.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{LossMoments, LossRule};
use crate::ModelError;
use crate::law::{Law, Running, Words, is_default, refuse};

/// A burst of a fixed number of lost packets, once or repeatedly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// Number of consecutively lost packets, at least 1.
    #[schemars(example = 5)]
    pub length: u64,
    /// Number of packets before the first burst. Absent: 0.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(example = 1000)]
    pub after: u64,
    /// Number of packets from the start of a burst to the start of the next, above `length`. Absent: there is one burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 10000)]
    pub every: Option<u64>,
}

impl Law for Burst {
    const SHORT_FORMS: &'static [&'static str] = &["burst N [after N] [every N]"];
    type Running = Counted;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        if !words.took("burst") {
            return Ok(None);
        }
        let length = words.value()?;
        let after = if words.took("after") { words.value()? } else { 0 };
        let every = if words.took("every") { Some(words.value()?) } else { None };
        Ok(Some(Self { length, after, every }))
    }

    fn short(&self) -> Option<String> {
        let mut text = format!("burst {}", self.length);
        if self.after > 0 {
            text += &format!(" after {}", self.after);
        }
        if let Some(every) = self.every {
            text += &format!(" every {every}");
        }
        Some(text)
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        if self.length == 0 {
            return refuse(at, "length", 0, "1 or more");
        }
        if let Some(every) = self.every.filter(|every| *every <= self.length) {
            return refuse(at, "every", every, "above length");
        }
        Ok(())
    }

    fn start(&self) -> Counted {
        let Self { length, after, every } = *self;
        Counted { length, every, packet: 0, start: after }
    }
}

/// Packet n (from 0) is lost when start ≤ n < start + length. With a repetition the start then moves on by it. Uses no draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    length: u64,
    every: Option<u64>,
    /// Number of the next packet, from 0.
    packet: u64,
    /// Number of the first packet of the current or the next burst.
    start: u64,
}

impl Running for Counted {
    type Outcome = bool;

    #[inline]
    fn next(&mut self, _: &mut Draws) -> bool {
        let packet = self.packet;
        self.packet += 1;
        if let Some(every) = self.every
            && packet >= self.start
            && packet - self.start >= every
        {
            self.start = packet;
        }
        packet >= self.start && packet - self.start < self.length
    }
}

impl LossRule for Burst {
    /// There is no long run of a single burst.
    fn moments(&self) -> Option<LossMoments> {
        let mean = self.length as f64 / self.every? as f64;
        Some(LossMoments { mean, variance: 0.0, burst: Some(self.length as f64) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agree_with_the_law, lost_packets, refused};

    #[test]
    fn packets_are_lost_by_their_number() {
        assert_eq!(lost_packets("loss burst 3 after 2", 100), [3, 4, 5]);
        assert_eq!(lost_packets("loss burst 2", 100), [1, 2]);
        assert_eq!(lost_packets("loss burst 2 after 1 every 5", 13), [2, 3, 7, 8, 12, 13]);
        assert_eq!(lost_packets("loss burst(length=2, after=1, every=5)", 8), [2, 3, 7, 8]);
        agree_with_the_law("loss burst 3 every 40");
    }

    #[test]
    fn parameters_are_checked() {
        assert_eq!(refused("loss burst 0"), "loss.burst.length");
        assert_eq!(refused("loss burst 5 every 5"), "loss.burst.every");
    }
}
