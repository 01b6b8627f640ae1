//! Conditions on bytes at an offset.

use std::fmt;
use std::str::FromStr;

use crate::ModelError;
use crate::impairment::content::{BytePattern, MAX_OFFSET, Region};
use crate::impairment::value::word_serde;

/// Bytes at an offset from the start of a layer, with a mask of the bits that must be equal: `2e/fc at l3+1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BytesAt {
    /// The bytes and their mask.
    pub pattern: BytePattern,
    /// The layer.
    pub region: Region,
    /// Bytes from its start, 0 to 65535.
    pub offset: u32,
}

const BYTES_FORM: &str = "up to 64 bytes as hexadecimal digits, optionally with a mask, and where they are: 0a at l3+9, 40/f0 at l4+12, 00ff at l2 or 16 at payload";

impl FromStr for BytesAt {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad = || ModelError::Value { what: "bytes", given: text.into(), accepted: BYTES_FORM };
        let mut words = text.split_whitespace();
        let (Some(pattern), Some("at"), Some(place), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(bad());
        };
        let pattern = pattern.parse().map_err(|_| bad())?;
        let (region, offset) = Region::with_offset(place).ok_or_else(bad)?;
        if offset > MAX_OFFSET {
            return Err(bad());
        }
        Ok(BytesAt { pattern, region, offset })
    }
}

impl fmt::Display for BytesAt {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} at {}", self.pattern, self.region.name())?;
        match self.offset {
            0 => Ok(()),
            offset => write!(f, "+{offset}"),
        }
    }
}

word_serde!(BytesAt, BYTES_FORM, ["0a at l3+9", "40/f0 at l4+12", "16 at payload"]);
