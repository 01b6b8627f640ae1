//! The slot of the policer: packets beyond a rate and a burst are dropped or marked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rate::{DEFAULT_OVERHEAD_BYTES, Framing, check_burst, check_overhead, check_rate};
use super::slot::Slot;
use crate::ModelError;
use crate::law::Words;
use crate::units::{BitRate, ByteSize};

/// A policer: a token bucket that holds a burst and is filled at a rate. A packet takes tokens for its bytes; without enough of
/// them it is dropped, and takes none. Nothing is delayed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = crate::schema::in_order::<Police>)]
pub struct Police {
    /// Rate in bit/s at which the bucket is filled, framing overhead included: the committed information rate (CIR).
    #[schemars(title = "Rate")]
    pub bits: BitRate,
    /// Size of the bucket, 1 byte to 1G: the committed burst size (CBS). Longer packets, with their framing bytes, never pass.
    #[schemars(title = "Burst", example = "32K")]
    pub burst: ByteSize,
    /// `true`: ECN-capable packets are marked Congestion Experienced instead of dropped (RFC 3168).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(title = "Mark instead of drop (ECN)", example = true)]
    pub ecn: bool,
    /// Framing bytes of each packet in addition to its network layer, 0 to 1000. Absent: 18, Ethernet header
    /// and check sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 38)]
    pub overhead_bytes: Option<u32>,
}

impl Police {
    /// The bytes of packets that are counted.
    #[must_use]
    pub fn framing(&self) -> Framing {
        Framing::of_overhead(self.overhead_bytes.unwrap_or(DEFAULT_OVERHEAD_BYTES))
    }
}

impl Slot for Police {
    const TERM: &'static str = "police";
    const OTHER_NAMES: &'static [&'static str] = &["policer", "policing", "cir"];
    const IS_SHARED: bool = true;

    fn form() -> &'static str {
        "police R burst B [ecn] [overhead N], such as police 10M burst 32K (bits per second and bytes)"
    }

    fn read(words: &mut Words) -> Result<Self, ModelError> {
        let bits = words.value()?;
        if !words.took("burst") {
            return Err(words.bad());
        }
        let burst = words.value()?;
        let ecn = words.took("ecn");
        let overhead_bytes = if words.took("overhead") { Some(words.value()?) } else { None };
        Ok(Police { bits, burst, ecn, overhead_bytes })
    }

    fn text(&self) -> String {
        let mut text = format!("police {} burst {}", self.bits, self.burst);
        if self.ecn {
            text += " ecn";
        }
        if let Some(overhead) = self.overhead_bytes {
            text += &format!(" overhead {overhead}");
        }
        text
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_rate(at, "bits", self.bits)?;
        check_burst(at, self.burst)?;
        check_overhead(at, self.overhead_bytes.unwrap_or(DEFAULT_OVERHEAD_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use crate::ModelError;
    use crate::impairment::Laws;

    #[test]
    fn forms_are_read_and_written() {
        for (given, printed) in [
            ("police 10M burst 32K", "police 10M burst 32K"),
            ("police 10Mbit burst 1500 ecn overhead 14", "police 10M burst 1500 ecn overhead 14"),
            ("rate 9M police 10M burst 4K loss 1%", "loss 1%, police 10M burst 4K, rate 9M"),
        ] {
            let laws: Laws = given.parse().unwrap_or_else(|error| panic!("{given}: {error}"));
            assert_eq!(laws.to_string(), printed);
            assert_eq!(printed.parse::<Laws>().unwrap(), laws, "{printed}");
        }
    }

    #[test]
    fn parameters_are_checked() {
        for (given, refused) in [
            ("police 0 burst 1K", "impairment.police.bits"),
            ("police 2T burst 1K", "impairment.police.bits"),
            ("police 1M burst 0", "impairment.police.burst"),
            ("police 1M burst 2G", "impairment.police.burst"),
            ("police 1M burst 1K overhead 1001", "impairment.police.overhead_bytes"),
        ] {
            let Err(ModelError::Field { field, .. }) = given.parse::<Laws>() else {
                panic!("{given}")
            };
            assert_eq!(field, refused, "{given}");
        }
        for given in ["police 1M", "police burst 1K", "police 1M burst", "police 1M 1K"] {
            assert!(matches!(given.parse::<Laws>(), Err(ModelError::Value { .. })), "{given}");
        }
    }
}
