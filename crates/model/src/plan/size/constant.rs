//! One size for all packets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{SizeMoments, SizeRule};
use crate::ModelError;
use crate::law::{Law, Stateless, Words};
use crate::units::ByteSize;

/// One size for all packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, example = "1460")]
pub struct Constant(pub ByteSize);

impl Law for Constant {
    const SHORT_FORMS: &'static [&'static str] = &["BYTES such as 1460 or 64K (K is 1024)"];
    type Running = Fixed;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        let word = words.next()?;
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        if !is_number || word.contains("..") || !words.is_law_complete() {
            return Ok(None);
        }
        word.parse().map(|size| Some(Self(size))).map_err(|_| words.bad())
    }

    fn short(&self) -> Option<String> {
        Some(self.0.to_string())
    }

    fn check(&self, _: &str) -> Result<(), ModelError> {
        Ok(())
    }

    fn start(&self) -> Fixed {
        Fixed(self.0.0)
    }
}

/// Uses no draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Fixed(u64);

impl Stateless for Fixed {
    type Outcome = u64;

    #[inline]
    fn at(&self, _: &mut Draws) -> u64 {
        self.0
    }
}

impl SizeRule for Constant {
    fn moments(&self) -> SizeMoments {
        let Self(ByteSize(bytes)) = *self;
        SizeMoments {
            min_bytes: bytes,
            max_bytes: bytes,
            mean_bytes: bytes as f64,
            deviation_bytes: 0.0,
        }
    }
}
