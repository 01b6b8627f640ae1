//! Packets are queued until there are enough of them, and leave together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{BatchRule, Release};
use crate::ModelError;
use crate::law::{Deciding, Law, PacketFacts, Words, refuse};
use crate::units::Span;

/// Packets are queued until a number of them has arrived or a time has passed, and then leave together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Accumulate {
    /// Number of packets of a batch, 2 to 1 000 000.
    #[schemars(example = 10)]
    pub packets: u64,
    /// Maximum time that the first packet of a batch waits, above 0, up to 60 s.
    #[schemars(example = "50ms")]
    pub timeout: Span,
}

impl Law for Accumulate {
    const SHORT_FORMS: &'static [&'static str] = &["N within T"];
    type Running = Filling;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        let Ok(packets) = words.next()?.parse() else { return Ok(None) };
        if !words.took("within") {
            return Err(words.bad());
        }
        let timeout = words.next().and_then(|word| words.span(word))?;
        Ok(Some(Self { packets, timeout }))
    }

    fn short(&self) -> Option<String> {
        Some(format!("{} within {}", self.packets, self.timeout))
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        if !(2..=1_000_000).contains(&self.packets) {
            return refuse(at, "packets", self.packets, "2 to 1000000");
        }
        if self.timeout.0 == 0 || self.timeout > Span::from_seconds(60) {
            return refuse(at, "timeout", self.timeout, "above 0, up to 60s");
        }
        Ok(())
    }

    fn start(&self) -> Filling {
        Filling { packets: self.packets, timeout_ns: self.timeout.0, queued: 0, until_ns: 0 }
    }
}

/// A batch ends with its last packet, or at the time of its first one plus the timeout. Uses no draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Filling {
    packets: u64,
    timeout_ns: u64,
    /// Packets of the current batch.
    queued: u64,
    /// End of the current batch.
    until_ns: u64,
}

impl Deciding for Filling {
    type Outcome = Release;

    #[inline]
    fn decide(&mut self, packet: &PacketFacts, _: &mut Draws) -> Release {
        if self.queued == 0 || packet.elapsed_ns >= self.until_ns {
            self.queued = 0;
            self.until_ns = packet.elapsed_ns.saturating_add(self.timeout_ns);
        }
        self.queued += 1;
        if self.queued < self.packets {
            return Release::Before(self.until_ns);
        }
        self.queued = 0;
        Release::Complete
    }
}

impl BatchRule for Accumulate {}

#[cfg(test)]
mod tests {
    use super::super::tests::{refused, releases};
    use super::Release::{Before, Complete};

    #[test]
    fn a_batch_ends_by_number_or_time() {
        let got = releases("batch 3 within 10us", [0, 1, 2, 3, 4, 10_003, 10_004, 10_005]);
        let (second, third) = (Before(10_003), Before(20_003));
        assert_eq!(
            got,
            [Before(10_000), Before(10_000), Complete, second, second, third, third, Complete]
        );
    }

    #[test]
    fn parameters_are_checked() {
        assert_eq!(refused("batch 1 within 1ms"), "batch.accumulate.packets");
        assert_eq!(refused("batch 2 within 0s"), "batch.accumulate.timeout");
        assert_eq!(refused("batch accumulate(packets=2, timeout=61s)"), "batch.accumulate.timeout");
    }
}
