//! Where in memory the buffers of a stream start.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::units::ByteSize;

/// Maximum alignment, bytes.
const MAX_BYTES: u32 = 64 << 10;

/// The address at which buffers start: `offset` bytes after a multiple of `bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Alignment {
    bytes: u32,
    offset: u32,
}

impl Alignment {
    /// An alignment to `bytes`, a power of two up to 64K, plus `offset`, which is less than `bytes`; `None`: invalid.
    #[must_use]
    pub fn new(bytes: u32, offset: u32) -> Option<Alignment> {
        let is_valid = bytes.is_power_of_two() && bytes <= MAX_BYTES && offset < bytes;
        is_valid.then_some(Alignment { bytes, offset })
    }

    /// The alignment, bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.bytes as usize
    }

    /// Bytes behind the multiple.
    #[must_use]
    pub fn offset(self) -> usize {
        self.offset as usize
    }

    /// Bytes from `address` to the next address that has it, less than the alignment.
    #[must_use]
    pub fn padding(self, address: usize) -> usize {
        (self.offset as usize).wrapping_sub(address) & (self.bytes as usize - 1)
    }
}

impl std::str::FromStr for Alignment {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let (bytes, offset) = text.split_once('+').unwrap_or((text, "0"));
        let number = |text: &str| u32::try_from(text.parse::<ByteSize>().ok()?.0).ok();
        let parsed = number(bytes).zip(number(offset)).and_then(|(b, o)| Alignment::new(b, o));
        parsed.ok_or_else(|| ModelError::Value {
            what: "alignment",
            given: text.into(),
            accepted: "BYTES[+OFFSET]: a power of two up to 64K, and an offset below it, such as 4096+8",
        })
    }
}

impl std::fmt::Display for Alignment {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self.offset {
            0 => write!(f, "{}", self.bytes),
            offset => write!(f, "{}+{offset}", self.bytes),
        }
    }
}

impl Serialize for Alignment {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Alignment {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(crate::document::refused)
    }
}

impl JsonSchema for Alignment {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Alignment".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "BYTES[+OFFSET]: a power of two up to 64K, and an offset below it",
            "examples": ["4096", "4096+8"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_leads_to_the_offset() {
        for text in ["1", "64", "4096+8", "64K+65535"] {
            let alignment: Alignment = text.parse().unwrap();
            assert_eq!(alignment.to_string().parse::<Alignment>().unwrap(), alignment);
            for address in [0, 1, 8, 4095, 4096, 1 << 40, usize::MAX - 70_000] {
                let padding = alignment.padding(address);
                assert!(padding < alignment.bytes());
                let at = address + padding;
                assert_eq!(at % alignment.bytes(), alignment.offset as usize, "{text} {address}");
            }
        }
        for text in ["", "0", "3", "128K", "64+64", "64+", "+8", "-64"] {
            assert!(text.parse::<Alignment>().is_err(), "{text}");
        }
    }
}
