//! Loss by bit errors: longer frames are lost more often.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::{Chance, Draws};

use super::LossRule;
use crate::ModelError;
use crate::law::{Deciding, Law, PacketFacts, Words, refuse};

/// Loss by independent bit errors of this ratio, 0 to 1: a frame is lost if any of its bits is wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, title = "Bit errors", example = 1e-6)]
pub struct BitError(pub f64);

impl Law for BitError {
    const SHORT_FORMS: &'static [&'static str] = &["ber RATIO"];
    type Running = Bits;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        if !words.took("ber") {
            return Ok(None);
        }
        words.value().map(Self).map(Some)
    }

    fn short(&self) -> Option<String> {
        Some(format!("ber {:e}", self.0))
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        // A NaN is in no range.
        if (0.0..=1.0).contains(&self.0) {
            return Ok(());
        }
        refuse(at, "", self.0, "0 to 1, such as 1e-6")
    }

    fn start(&self) -> Bits {
        Bits { log_right: 8.0 * libm::log1p(-self.0) }
    }
}

/// Lost when draw 0 < 1 − (1 − b)^(8·L), with L the bytes of the frame without its check sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Bits {
    /// Logarithm of the probability that a byte is right.
    log_right: f64,
}

impl Bits {
    #[inline]
    fn chance(&self, bytes: u32) -> f64 {
        -libm::expm1(f64::from(bytes) * self.log_right)
    }
}

impl Deciding for Bits {
    type Outcome = bool;

    #[inline]
    fn decide(&mut self, packet: &PacketFacts, draws: &mut Draws) -> bool {
        Chance::new(self.chance(packet.bytes)).happens(draws.bits())
    }
}

/// The mean depends on the length of the packets.
impl LossRule for BitError {
    fn is_stateless(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{law, losses_of, refused};
    use crate::impairment::PacketFacts;

    #[test]
    fn the_ratio_depends_on_the_length() {
        let n = 300_000.0;
        for (bytes, ber, p) in [
            (1500u32, "1e-6", 1.0 - (1.0 - 1e-6f64).powi(12_000)),
            (60, "1e-4", 1.0 - (1.0 - 1e-4f64).powi(480)),
            (1, "0.1", 1.0 - 0.9f64.powi(8)),
        ] {
            let packet = PacketFacts { elapsed_ns: 0, bytes };
            let lost = losses_of(&mut law(&format!("loss ber {ber}")), 2, 300_000, |_| packet);
            let count = lost.iter().filter(|lost| **lost).count() as f64;
            let bound = 6.2 * (n * p * (1.0 - p)).sqrt();
            assert!((count - n * p).abs() < bound, "{bytes}: {count} of {}", n * p);
        }
        let packet = PacketFacts { elapsed_ns: 0, bytes: 60 };
        for (ber, all) in [("0", false), ("1", true)] {
            let lost = losses_of(&mut law(&format!("loss ber {ber}")), 2, 1000, |_| packet);
            assert!(lost.iter().all(|lost| *lost == all), "{ber}");
        }
    }

    #[test]
    fn parameters_are_checked() {
        assert_eq!(refused("loss ber 1.1"), "loss.bit_error");
        assert_eq!(refused("loss bit_error(-1)"), "loss.bit_error");
    }
}
