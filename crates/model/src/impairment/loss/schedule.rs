//! A link that is down at given times.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::LossRule;
use crate::ModelError;
use crate::impairment::value::Periods;
use crate::law::{Deciding, Law, PacketFacts, refuse};
use crate::units::Span;

/// A link that is down, so that all packets are lost, at given times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The times, since the first packet.
    #[schemars(example = "5s..6s 20s..22s")]
    pub down: Periods,
    /// Time after which the schedule starts again, at least its end. Absent: it is used once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = "60s")]
    pub every: Option<Span>,
}

impl Law for Schedule {
    type Running = Scheduled;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        let end = self.down.end();
        if let Some(every) = self.every.filter(|every| *every < end) {
            return refuse(at, "every", every, &format!("{end} or more, the end of the schedule"));
        }
        Ok(())
    }

    fn start(&self) -> Scheduled {
        let down = self.down.0.iter().map(|(from, to)| (from.0, to.0)).collect();
        Scheduled { down, every: self.every.map_or(u64::MAX, |every| every.0) }
    }
}

/// Down where from ≤ t < to, with t the time since the first packet, or its rest modulo the repetition. Uses no draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheduled {
    /// Start and end of each period, ns, rising.
    down: Box<[(u64, u64)]>,
    /// Above 0.
    every: u64,
}

impl Deciding for Scheduled {
    type Outcome = bool;

    #[inline]
    fn decide(&mut self, packet: &PacketFacts, _: &mut Draws) -> bool {
        let now = packet.elapsed_ns % self.every;
        let next = self.down.partition_point(|(_, to)| *to <= now);
        self.down.get(next).is_some_and(|(from, _)| *from <= now)
    }
}

impl LossRule for Schedule {
    /// The fraction of time, which is that of packets at equal intervals. There is no long run of a schedule that is used once.
    fn mean(&self) -> Option<f64> {
        let down: u64 = self.down.0.iter().map(|(from, to)| to.0 - from.0).sum();
        self.every.map(|every| down as f64 / every.0 as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{losses_every, refused};
    use crate::impairment::Laws;

    fn lost(text: &str) -> Vec<usize> {
        let lost = losses_every(text, 1, 1_000_000_000, 20);
        lost.iter().enumerate().filter(|(_, lost)| **lost).map(|(second, _)| second).collect()
    }

    #[test]
    fn the_link_is_down_as_scheduled() {
        assert_eq!(lost("loss schedule(down=5s..6s 9500ms..12s)"), [5, 10, 11]);
        assert_eq!(lost("loss schedule(down=2s..3s, every=8s)"), [2, 10, 18]);
        let laws: Laws = "loss schedule(down=1s..2s, every=8s)".parse().unwrap();
        assert_eq!(laws.loss.unwrap().mean(), Some(0.125));
    }

    #[test]
    fn parameters_are_checked() {
        for down in ["5s", "6s..5s", "5s..5s", "1s..3s 2s..4s", "", "1..2", "1s..2d"] {
            assert_eq!(refused(&format!("loss schedule(down={down})")), "loss.schedule.down");
        }
        assert_eq!(refused("loss schedule(down=1s..2s, every=1s)"), "loss.schedule.every");
    }
}
