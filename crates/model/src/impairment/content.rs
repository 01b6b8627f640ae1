//! The slot of content: bit flips.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slot::Slot;
use crate::ModelError;
use crate::law::Words;
use crate::law::{check_percentage, is_default, refuse};

/// Maximum number of bits flipped in one packet.
pub const MAX_FLIP_BITS: u32 = 64;

const CHECKSUMS: [Checksum; 3] = [Checksum::Repair, Checksum::Leave, Checksum::Checksum];
const REGIONS: [Region; 4] = [Region::L2, Region::L3, Region::L4, Region::Payload];

/// What happens to checksums when content is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Checksum {
    /// They are updated, so that the damaged packet is accepted.
    Repair,
    /// They stay as they were: the receiver drops the packet.
    #[default]
    Leave,
    /// Only the checksum is damaged.
    Checksum,
}

impl Checksum {
    /// Its name in documents and laws.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Checksum::Repair => "repair",
            Checksum::Leave => "leave",
            Checksum::Checksum => "checksum",
        }
    }
}

/// The first byte that may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Region {
    /// The whole frame.
    L2,
    /// From the network header on.
    L3,
    /// From the transport header on.
    L4,
    /// The transport's payload.
    #[default]
    Payload,
}

impl Region {
    /// Its name in documents and laws.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Region::L2 => "l2",
            Region::L3 => "l3",
            Region::L4 => "l4",
            Region::Payload => "payload",
        }
    }
}

/// The slot of content: bit flips.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// Percentage of packets that are changed. A packet without bytes in the region is not changed.
    #[schemars(example = 1)]
    pub percentage: f64,
    /// Bits flipped in each of these packets, 1 to 64, at different random positions.
    #[serde(default = "one")]
    pub flip_bits: u32,
    /// What happens to checksums.
    #[serde(default)]
    pub checksum: Checksum,
    /// Where bits may be flipped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub region: Region,
}

fn one() -> u32 {
    1
}

impl Slot for Content {
    const TERM: &'static str = "corrupt";
    const OTHER_NAMES: &'static [&'static str] = &["corruption", "ber"];

    fn form() -> &'static str {
        "corrupt P% [repair|leave|checksum] [flip N] [at l2|l3|l4|payload]"
    }

    fn read(words: &mut Words) -> Result<Self, ModelError> {
        let percentage = words.percent()?;
        let checksum = words.took_one(&CHECKSUMS, Checksum::name).unwrap_or_default();
        let flip_bits = if words.took("flip") { words.value()? } else { 1 };
        let region = if words.took("at") {
            words.took_one(&REGIONS, Region::name).ok_or_else(|| words.bad())?
        } else {
            Region::default()
        };
        Ok(Content { percentage, flip_bits, checksum, region })
    }

    fn text(&self) -> String {
        let mut text = format!("corrupt {}% {}", self.percentage, self.checksum.name());
        if self.flip_bits != 1 {
            text += &format!(" flip {}", self.flip_bits);
        }
        if self.region != Region::default() {
            text += &format!(" at {}", self.region.name());
        }
        text
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_percentage(at, "percentage", self.percentage)?;
        if !(1..=MAX_FLIP_BITS).contains(&self.flip_bits) {
            return refuse(at, "flip_bits", self.flip_bits, "1 to 64");
        }
        Ok(())
    }
}
