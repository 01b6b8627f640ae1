//! The exponential distribution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Bounds, Distribution, Inverse, Prepared, Quantile, Quantity, check_scale, distribution,
};
use crate::ModelError;
use crate::law::Words;

distribution! {
    /// Exponential values. Of intervals: arrivals of a Poisson process (RFC 2330, section 11.1.1).
    Exponential: Inverse<Decay> {
        /// Mean before clamping, above 0. Absent: of intervals, given by the rate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(example = Q::example("500", "1ms"))]
        mean: Option<Q>,
    }

    const SHORT_FORMS: &'static [&'static str] = if Q::IS_RATED { &["exponential"] } else { &[] };

    fn read_short(words: &mut Words<'_>) -> Result<Option<Self>, ModelError> {
        if !Q::IS_RATED || !words.took("exponential") {
            return Ok(None);
        }
        Ok(Some(Self {
            mean: None,
            min: None,
            max: None,
            clamped_mean: None,
            prepared: Prepared::default(),
        }))
    }

    fn short(&self) -> Option<String> {
        let has_others = self.mean.is_some() || self.clamped_mean.is_some();
        let is_short = Q::IS_RATED && !has_others && self.min.is_none() && self.max.is_none();
        is_short.then(|| "exponential".into())
    }

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        check_scale(at, "mean", self.mean)
    }

    fn source(&self) -> Self::Source {
        Inverse(Decay { mean: self.mean.map_or(1.0, Q::value) })
    }

    fn unit_mean(&self) -> Option<f64> {
        self.mean.is_none().then_some(1.0)
    }
}

/// −mean·ln p, which falls with p.
#[derive(Clone, Debug, PartialEq)]
pub struct Decay {
    mean: f64,
}

impl Quantile for Decay {
    #[inline]
    fn at(&self, p: f64) -> f64 {
        -self.mean * libm::log(p)
    }
}
