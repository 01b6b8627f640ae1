//! The slot of content: changes of bits and bytes, and clearing of the ECN field.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slot::Slot;
use super::value::{whole, word_serde};
use crate::ModelError;
use crate::hex;
use crate::law::Words;
use crate::law::{check_percentage, is_default, refuse};

/// Maximum number of bits, bytes or pairs of bytes that are changed in a packet, except by bit errors.
pub const MAX_CHANGES: u32 = 64;
/// Maximum ratio of bit errors: with more, nearly every byte is wrong.
const MAX_BIT_ERROR_RATIO: f64 = 0.1;
/// Maximum offset and length of the changed bytes.
pub(super) const MAX_OFFSET: u32 = 65_535;

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

    /// Reads `REGION[+OFFSET]`.
    pub(super) fn with_offset(text: &str) -> Option<(Self, u32)> {
        let (region, offset) = text.split_once('+').unwrap_or((text, "0"));
        Some((REGIONS.into_iter().find(|one| one.name() == region)?, whole(offset)?))
    }
}

/// Bytes to set, with a mask of the bits that are set: `2e/fc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BytePattern {
    value: Arc<[u8]>,
    mask: Arc<[u8]>,
}

const PATTERN_FORM: &str = "bytes as hexadecimal digits, optionally with a mask: 00ff or 2e/fc";

impl BytePattern {
    /// Each byte with its mask.
    pub fn bytes(&self) -> impl Iterator<Item = (u8, u8)> {
        self.value.iter().copied().zip(self.mask.iter().copied())
    }
}

impl FromStr for BytePattern {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad =
            || ModelError::Value { what: "bytes", given: text.into(), accepted: PATTERN_FORM };
        let read = |digits: &str| hex::decode(digits).map(Arc::from).ok_or_else(bad);
        let word = text.trim();
        let is_short = word.len() <= 2 * 2 * MAX_CHANGES as usize + 1;
        let (value, mask): (Arc<[u8]>, Arc<[u8]>) = match word.split_once('/').filter(|_| is_short)
        {
            Some((value, mask)) => (read(value)?, read(mask)?),
            None if is_short => {
                let value: Arc<[u8]> = read(word)?;
                let mask = value.iter().map(|_| 0xff).collect();
                (value, mask)
            }
            None => return Err(bad()),
        };
        if value.len() != mask.len() || !(1..=MAX_CHANGES as usize).contains(&value.len()) {
            return Err(bad());
        }
        Ok(Self { value, mask })
    }
}

impl fmt::Display for BytePattern {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&hex::encode(&self.value))?;
        if self.mask.iter().any(|mask| *mask != 0xff) {
            write!(f, "/{}", hex::encode(&self.mask))?;
        }
        Ok(())
    }
}

word_serde!(
    BytePattern,
    "bytes as hexadecimal digits, optionally with a mask: 00ff or 2e/fc",
    ["00ff", "2e/fc"]
);

/// What is changed in a packet.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// This number of bits is flipped, at different random positions.
    Flip(u32),
    /// This number of bytes gets other, random values, at different random positions.
    Random(u32),
    /// This number of pairs of neighbouring bytes is swapped, at different random positions.
    Swap(u32),
    /// These bytes are set from the first position on.
    Set(BytePattern),
    /// Each bit is flipped with this probability.
    BitErrors(f64),
}

/// The slot of content: changes of bits and bytes, and clearing of the ECN field. At most one change is set.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// Percentage of packets that are changed. A packet without bytes in the region is not changed.
    #[schemars(example = 1)]
    pub percentage: f64,
    /// Number of bits that are flipped in each of these packets, 1 to 64, at different random positions. Without another change: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 1)]
    pub flip_bits: Option<u32>,
    /// Number of bytes that get other, random values in each of these packets, 1 to 64, at different random positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 4)]
    pub random_bytes: Option<u32>,
    /// Number of pairs of neighbouring bytes that are swapped in each of these packets, 1 to 64, at different random positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 1)]
    pub swap_bytes: Option<u32>,
    /// Bytes that are set in each of these packets, from the first byte of the region and offset on: up to 64, as hexadecimal digits, optionally with a mask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = "b8/fc")]
    pub set: Option<BytePattern>,
    /// Probability that a bit is flipped, for each bit of these packets, above 0 to 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 1e-6)]
    pub bit_error_ratio: Option<f64>,
    /// What happens to checksums. `checksum` needs `flip_bits`.
    #[serde(default)]
    pub checksum: Checksum,
    /// Where bytes may be changed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub region: Region,
    /// Number of bytes from the start of the region to the first byte that may be changed.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(example = 8)]
    pub offset: u32,
    /// Number of bytes that may be changed, from there on, at least 1. Absent: to the end of the packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 4)]
    pub length: Option<u32>,
    /// Percentage of packets whose ECN field is cleared, as some routers do (bleaching). Packets that are not ECN-capable are not changed.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(title = "Cleared ECN field", example = 100)]
    pub bleach_ecn_percentage: f64,
}

/// The word before the percentage of cleared ECN fields.
const BLEACH: &str = "bleach-ecn";

impl Content {
    /// The changes that exclude each other, in display order.
    const CHANGES: [&'static str; 5] =
        ["flip_bits", "random_bytes", "swap_bytes", "set", "bit_error_ratio"];

    fn changes(&self) -> Vec<Change> {
        [
            self.flip_bits.map(Change::Flip),
            self.random_bytes.map(Change::Random),
            self.swap_bytes.map(Change::Swap),
            self.set.clone().map(Change::Set),
            self.bit_error_ratio.map(Change::BitErrors),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// What is changed.
    #[must_use]
    pub fn change(&self) -> Change {
        self.changes().pop().unwrap_or(Change::Flip(1))
    }

    /// Fraction of packets that are changed in the long run; `None` if it depends on the packets.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let depends =
            matches!(self.change(), Change::BitErrors(_) | Change::Set(_) | Change::Swap(_));
        (!depends && self.bleach_ecn_percentage == 0.0).then(|| self.percentage / 100.0)
    }

    /// Reads `REGION[+OFFSET][:LENGTH]`.
    fn read_place(&mut self, word: &str) -> Option<()> {
        let (place, length) = match word.split_once(':') {
            Some((place, length)) => (place, Some(length.parse().ok()?)),
            None => (word, None),
        };
        (self.region, self.offset) = Region::with_offset(place)?;
        self.length = length;
        Some(())
    }

    /// The change in one line, with its place; empty for one flipped bit anywhere in the payload.
    fn change_text(&self) -> String {
        let mut text = match self.change() {
            Change::Flip(1) => String::new(),
            Change::Flip(n) => format!(" flip {n}"),
            Change::Random(n) => format!(" random {n}"),
            Change::Swap(n) => format!(" swap {n}"),
            Change::Set(pattern) => format!(" set {pattern}"),
            Change::BitErrors(ratio) => format!(" ber {ratio:e}"),
        };
        if self.region != Region::default() || self.offset != 0 || self.length.is_some() {
            text += &format!(" at {}", self.region.name());
        }
        if self.offset != 0 {
            text += &format!("+{}", self.offset);
        }
        if let Some(length) = self.length {
            text += &format!(":{length}");
        }
        text
    }
}

impl Slot for Content {
    const TERM: &'static str = "corrupt";
    const OTHER_NAMES: &'static [&'static str] = &["corruption", "ber"];

    fn is_stateless(&self) -> bool {
        true
    }

    fn form() -> &'static str {
        "corrupt P% [repair|leave|checksum] [flip N|random N|swap N|set HEX[/MASK]|ber RATIO] [at l2|l3|l4|payload[+OFFSET][:LENGTH]] [bleach-ecn P%], or corrupt bleach-ecn P%"
    }

    fn read(words: &mut Words) -> Result<Self, ModelError> {
        let mut content = Self::default();
        if words.took(BLEACH) {
            content.bleach_ecn_percentage = words.percent()?;
            return Ok(content);
        }
        content.percentage = words.percent()?;
        content.checksum = words.took_one(&CHECKSUMS, Checksum::name).unwrap_or_default();
        if words.took("flip") {
            content.flip_bits = Some(words.value()?).filter(|bits| *bits != 1);
        } else if words.took("random") {
            content.random_bytes = Some(words.value()?);
        } else if words.took("swap") {
            content.swap_bytes = Some(words.value()?);
        } else if words.took("set") {
            content.set = Some(words.value()?);
        } else if words.took("ber") {
            content.bit_error_ratio = Some(words.value()?);
        }
        if words.took("at") {
            let word = words.next()?;
            content.read_place(word).ok_or_else(|| words.bad())?;
        }
        if words.took(BLEACH) {
            content.bleach_ecn_percentage = words.percent()?;
        }
        Ok(content)
    }

    fn text(&self) -> String {
        let change = self.change_text();
        let bleach = format!(" {BLEACH} {}%", self.bleach_ecn_percentage);
        let has_bleach = self.bleach_ecn_percentage > 0.0;
        let is_plain = change.is_empty() && self.checksum == Checksum::default();
        if self.percentage == 0.0 && is_plain && has_bleach {
            return format!("corrupt{bleach}");
        }
        let bleach = if has_bleach { bleach.as_str() } else { "" };
        format!("corrupt {}% {}{change}{bleach}", self.percentage, self.checksum.name())
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_percentage(at, "percentage", self.percentage)?;
        check_percentage(at, "bleach_ecn_percentage", self.bleach_ecn_percentage)?;
        if self.changes().len() > 1 {
            let given = format!("{} changes", self.changes().len());
            return refuse(at, "", given, &format!("one of {}", Self::CHANGES.join(", ")));
        }
        let counts = [
            ("flip_bits", self.flip_bits),
            ("random_bytes", self.random_bytes),
            ("swap_bytes", self.swap_bytes),
        ];
        for (field, count) in counts {
            if let Some(count) = count.filter(|count| !(1..=MAX_CHANGES).contains(count)) {
                return refuse(at, field, count, "1 to 64");
            }
        }
        if let Some(ratio) = self.bit_error_ratio
            && !(ratio > 0.0 && ratio <= MAX_BIT_ERROR_RATIO)
        {
            return refuse(at, "bit_error_ratio", ratio, "above 0 to 0.1");
        }
        if self.checksum == Checksum::Checksum && !matches!(self.change(), Change::Flip(_)) {
            return refuse(at, "checksum", "checksum", "repair or leave, unless bits are flipped");
        }
        if self.offset > MAX_OFFSET {
            return refuse(at, "offset", self.offset, "0 to 65535");
        }
        match self.length.filter(|length| !(1..=MAX_OFFSET).contains(length)) {
            Some(length) => refuse(at, "length", length, "1 to 65535"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Change;
    use crate::impairment::{Impairment, Laws};
    use crate::{ModelError, Refusal};

    #[test]
    fn forms_are_read_and_written() {
        for (given, printed) in [
            ("corrupt 1%", "corrupt 1% leave"),
            ("corrupt 1% flip 1", "corrupt 1% leave"),
            ("corrupt 1% repair random 4 at l4", "corrupt 1% repair random 4 at l4"),
            ("corrupt 100% swap 2 at payload+4", "corrupt 100% leave swap 2 at payload+4"),
            ("corrupt 100% repair set B8/FC at l3+1:1", "corrupt 100% repair set b8/fc at l3+1:1"),
            ("corrupt 9% ber 1e-6 at l2:64", "corrupt 9% leave ber 1e-6 at l2:64"),
            ("corrupt bleach-ecn 5%", "corrupt bleach-ecn 5%"),
        ] {
            let laws: Laws = given.parse().unwrap_or_else(|error| panic!("{given}: {error}"));
            assert_eq!(laws.to_string(), printed);
            assert_eq!(printed.parse::<Laws>().unwrap(), laws, "{printed}");
        }
    }

    #[test]
    fn changes_exclude_each_other() {
        let read = |content: &str| {
            let text = format!("schema = \"weir.impair/1\"\nother.a_to_b.content = {content}");
            Impairment::parse(&text).map(|read| read.other.a_to_b.content.unwrap().change())
        };
        assert_eq!(read("{ percentage = 3 }").unwrap(), Change::Flip(1));
        assert_eq!(read("{ percentage = 3, swap_bytes = 2 }").unwrap(), Change::Swap(2));
        let error = read("{ percentage = 3, swap_bytes = 2, set = \"00\" }").unwrap_err();
        assert_eq!(Refusal::from(&error).field.as_deref(), Some("other.a_to_b.content"));
    }

    #[test]
    fn parameters_are_checked() {
        for (text, field) in [
            ("101%", "percentage"),
            ("1% flip 65", "flip_bits"),
            ("1% random 0", "random_bytes"),
            ("1% swap 65", "swap_bytes"),
            ("1% ber 0.2", "bit_error_ratio"),
            ("1% ber nan", "bit_error_ratio"),
            ("1% checksum random 1", "checksum"),
            ("1% at l2+65536", "offset"),
            ("1% at l2:0", "length"),
        ] {
            let error = format!("corrupt {text}").parse::<Laws>().unwrap_err();
            let ModelError::Field { field: refused, .. } = error else {
                panic!("{text}: {error:?}")
            };
            assert_eq!(refused, format!("impairment.content.{field}"), "{text}");
        }
        for text in ["set", "set abc", "set 12/1", "set xy", "set +1", "at l2+x", "at l5"] {
            assert!(format!("corrupt 1% {text}").parse::<Laws>().is_err(), "{text}");
        }
        let long = format!("corrupt 1% set {}", "00".repeat(65));
        assert!(long.parse::<Laws>().is_err());
    }
}
