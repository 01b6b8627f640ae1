//! The content of payloads: its name in a plan, and its bytes.

mod bytes;

pub use bytes::fill;

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ModelError;

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
}

impl FromStr for Content {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        match text {
            "random" => return Ok(Content::Random),
            "zeros" => return Ok(Content::Zeros),
            "ascii" => return Ok(Content::Ascii),
            _ => {}
        }
        text.strip_prefix("ratio:")
            .and_then(|r| r.parse::<f64>().ok())
            .filter(|r| (1.0..=1000.0).contains(r))
            .map(Content::Ratio)
            .ok_or(ModelError::Value {
                what: "content",
                given: text.into(),
                accepted: "random, zeros, ascii or ratio:R with R from 1 to 1000",
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
            "description": "random, zeros, ascii or ratio:R (compressible by about R)",
            "examples": ["random", "zeros", "ascii", "ratio:2.5"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for text in ["random", "zeros", "ascii", "ratio:2.5"] {
            assert_eq!(text.parse::<Content>().unwrap().to_string(), text);
        }
        for bad in ["", "ratio:", "ratio:0.5", "ratio:nan", "noise"] {
            assert!(bad.parse::<Content>().is_err(), "{bad}");
        }
    }
}
