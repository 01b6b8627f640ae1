//! The slot of content: bit flips, and clearing of the ECN field.

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

/// The slot of content: bit flips, and clearing of the ECN field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// Percentage of packets with flipped bits. A packet without bytes in the region is not changed.
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
    /// Percentage of packets whose ECN field is cleared, as some routers do (bleaching). Packets that are not ECN-capable are not changed.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(title = "Cleared ECN field", example = 100)]
    pub bleach_ecn_percentage: f64,
}

/// The word before the percentage of cleared ECN fields.
const BLEACH: &str = "bleach-ecn";

impl Content {
    /// One bit flipped in a percentage of packets, with the default of everything else.
    #[must_use]
    pub fn flips(percentage: f64) -> Self {
        Content {
            percentage,
            flip_bits: one(),
            checksum: Checksum::default(),
            region: Region::default(),
            bleach_ecn_percentage: 0.0,
        }
    }
}

fn one() -> u32 {
    1
}

impl Slot for Content {
    const TERM: &'static str = "corrupt";
    const OTHER_NAMES: &'static [&'static str] = &["corruption", "ber"];

    fn form() -> &'static str {
        "corrupt P% [repair|leave|checksum] [flip N] [at l2|l3|l4|payload] [bleach-ecn P%], or corrupt bleach-ecn P%"
    }

    fn read(words: &mut Words) -> Result<Self, ModelError> {
        if words.took(BLEACH) {
            let bleach_ecn_percentage = words.percent()?;
            return Ok(Content { bleach_ecn_percentage, ..Content::flips(0.0) });
        }
        let percentage = words.percent()?;
        let checksum = words.took_one(&CHECKSUMS, Checksum::name).unwrap_or_default();
        let flip_bits = if words.took("flip") { words.value()? } else { 1 };
        let region = if words.took("at") {
            words.took_one(&REGIONS, Region::name).ok_or_else(|| words.bad())?
        } else {
            Region::default()
        };
        let bleach_ecn_percentage = if words.took(BLEACH) { words.percent()? } else { 0.0 };
        Ok(Content { percentage, flip_bits, checksum, region, bleach_ecn_percentage })
    }

    fn text(&self) -> String {
        let bleach = format!("{BLEACH} {}%", self.bleach_ecn_percentage);
        let flips = Content { bleach_ecn_percentage: 0.0, ..self.clone() };
        if flips == Content::flips(0.0) && self.bleach_ecn_percentage > 0.0 {
            return format!("corrupt {bleach}");
        }
        let mut text = format!("corrupt {}% {}", self.percentage, self.checksum.name());
        if self.flip_bits != 1 {
            text += &format!(" flip {}", self.flip_bits);
        }
        if self.region != Region::default() {
            text += &format!(" at {}", self.region.name());
        }
        if self.bleach_ecn_percentage > 0.0 {
            text += &format!(" {bleach}");
        }
        text
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_percentage(at, "percentage", self.percentage)?;
        check_percentage(at, "bleach_ecn_percentage", self.bleach_ecn_percentage)?;
        if !(1..=MAX_FLIP_BITS).contains(&self.flip_bits) {
            return refuse(at, "flip_bits", self.flip_bits, "1 to 64");
        }
        Ok(())
    }
}
