//! The content of payloads: its name in a plan, and its bytes.

mod bytes;
mod prbs;

pub use bytes::fill;

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ModelError;

pub use prbs::Prbs;

/// The forms of a content, for errors and schemas.
const ACCEPTED: &str = "random, zeros, ascii, ratio:R with R from 1 to 1000 (compressible by about R), pattern:HEX of 1 to 16 bytes, prbs:N with N of 9, 11, 15, 20, 23, 29 or 31, or file (the bytes of a file that the client reads)";

/// The content of payloads.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Content {
    /// Seeded pseudo-random bytes: incompressible.
    #[default]
    Random,
    /// Zero bytes.
    Zeros,
    /// Printable ASCII ramp from 0x20, as ttcp sends it.
    Ascii,
    /// Compressible by about this ratio (at least 1): `ratio:4`.
    Ratio(f64),
    /// Repeated bytes: `pattern:cafe`.
    Pattern(Pattern),
    /// Pseudo-random bits of bit error testers: `prbs:15`.
    Prbs(Prbs),
    /// Bytes that the client reads from a file: `file`. A plan does not name the file, so that a document can't make a
    /// host read and send one.
    File,
}

/// A pattern of 1 to 16 bytes, as that of `ping -p`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pattern {
    bytes: [u8; 16],
    len: u8,
}

impl Pattern {
    /// A pattern of these bytes; `None` unless there are 1 to 16.
    #[must_use]
    pub fn new(pattern: &[u8]) -> Option<Pattern> {
        let mut bytes = [0; 16];
        if pattern.is_empty() {
            return None;
        }
        bytes.get_mut(..pattern.len())?.copy_from_slice(pattern);
        Some(Pattern { bytes, len: pattern.len() as u8 })
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Content {
    /// Number of bytes after which it repeats; `None` if it never does.
    #[must_use]
    pub fn period_bytes(self) -> Option<u64> {
        match self {
            Content::Pattern(pattern) => Some(pattern.bytes().len() as u64),
            // Odd numbers of bits: the bytes repeat after as many bytes.
            Content::Prbs(prbs) => Some((1 << prbs.order()) - 1),
            _ => None,
        }
    }

    /// Reads `ratio:R`, `pattern:HEX` or `prbs:N`.
    fn with_parameter(text: &str) -> Option<Content> {
        let (form, value) = text.split_once(':')?;
        match form {
            "ratio" => {
                let ratio = value.parse().ok().filter(|r| (1.0..=1000.0).contains(r));
                ratio.map(Content::Ratio)
            }
            "pattern" => Pattern::new(&crate::hex::decode(value)?).map(Content::Pattern),
            "prbs" => Prbs::of_order(value.parse().ok()?).map(Content::Prbs),
            _ => None,
        }
    }
}

impl FromStr for Content {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        match text {
            "random" => return Ok(Content::Random),
            "zeros" => return Ok(Content::Zeros),
            "ascii" => return Ok(Content::Ascii),
            "file" => return Ok(Content::File),
            _ => {}
        }
        Content::with_parameter(text).ok_or(ModelError::Value {
            what: "content",
            given: text.into(),
            accepted: ACCEPTED,
        })
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Content::Random => f.write_str("random"),
            Content::Zeros => f.write_str("zeros"),
            Content::Ascii => f.write_str("ascii"),
            Content::Ratio(r) => write!(f, "ratio:{r}"),
            Content::Pattern(pattern) => {
                write!(f, "pattern:{}", crate::hex::encode(pattern.bytes()))
            }
            Content::Prbs(prbs) => write!(f, "prbs:{}", prbs.order()),
            Content::File => f.write_str("file"),
        }
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(crate::document::refused)
    }
}

impl JsonSchema for Content {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Content".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": ACCEPTED,
            "examples": ["random", "zeros", "ascii", "ratio:2.5", "pattern:cafe", "prbs:15"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for text in ["random", "zeros", "ascii", "ratio:2.5", "pattern:00ff", "prbs:31", "file"] {
            assert_eq!(text.parse::<Content>().unwrap().to_string(), text);
        }
        let long = format!("pattern:{}", "00".repeat(17));
        for bad in [
            "",
            "ratio:",
            "ratio:0.5",
            "ratio:nan",
            "noise",
            "pattern:",
            "pattern:0",
            "pattern:xy",
            &long,
            "prbs:",
            "prbs:16",
            "prbs:-9",
        ] {
            assert!(bad.parse::<Content>().is_err(), "{bad}");
        }
    }
}
