//! Size laws: payload bytes of each packet. A new one is a file here and a line in the list below.
//!
//! A size depends only on the packet's number, so that both ends know it: laws have no state.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use crate::ModelError;
use crate::law::{Law, Running, choice_of_laws, refuse};
use crate::units::ByteSize;

/// Moments and bounds of a size law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeMoments {
    /// Minimum, bytes.
    pub min_bytes: u64,
    /// Maximum, bytes.
    pub max_bytes: u64,
    /// Mean, bytes.
    pub mean_bytes: f64,
    /// Standard deviation, bytes.
    pub deviation_bytes: f64,
}

/// Properties of a size law.
trait SizeRule {
    /// Its moments and bounds.
    fn moments(&self) -> SizeMoments;
}

choice_of_laws! {
    /// The law of payload sizes.
    Size("payload"): SizeRule;
    /// A running size law: bytes of the next packet.
    SizeLaw -> u64;
    {
        constant: Constant,
        uniform: Uniform,
    }
}

impl Size {
    /// Its moments and bounds.
    #[must_use]
    pub fn moments(&self) -> SizeMoments {
        self.rule().moments()
    }

    /// Whether all packets have the same size.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        let SizeMoments { min_bytes, max_bytes, .. } = self.moments();
        min_bytes == max_bytes
    }

    /// Checks the law against the minimum and maximum payload of `of`; `at` is its path.
    pub(super) fn check(
        &self,
        at: &str,
        of: &str,
        least: u64,
        most: u64,
    ) -> Result<(), ModelError> {
        self.check_parameters(at)?;
        let SizeMoments { min_bytes, max_bytes, .. } = self.moments();
        if min_bytes < least || max_bytes > most {
            let accepted = format!("{least} to {} bytes for {of}", ByteSize(most));
            return refuse(at, "", self, &accepted);
        }
        if min_bytes == 0 && max_bytes > 0 {
            return refuse(at, "", self, "sizes from 1 byte on: an empty datagram has no number");
        }
        Ok(())
    }
}

impl From<ByteSize> for Size {
    fn from(bytes: ByteSize) -> Self {
        Size::Constant(Constant(bytes))
    }
}
