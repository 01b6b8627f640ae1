//! Size laws: payload bytes of each packet. A new one is a file here and a line in the list below; one that intervals
//! have as well is a file in `law/distribution/`.
//!
//! A size depends only on the packet's number, so that both ends know it: laws have no state.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use crate::ModelError;
use crate::law::distribution::{Clamp, Distribution, Drawn, Moments, Quantity, Source};
use crate::law::{Law, Stateless, choice_of_laws, refuse};
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

    /// Whether a packet's size depends on nothing but its own draws.
    fn is_independent(&self) -> bool {
        true
    }

    /// The number of tables that it draws from.
    fn tables(&self) -> usize {
        0
    }

    /// Whether values above the maximum are possible, which it does not state.
    fn has_default_maximum(&self) -> bool {
        false
    }

    /// Whether values below the minimum are possible, which it does not state.
    fn has_default_minimum(&self) -> bool {
        false
    }

    /// The bounds that its draws can exceed, bytes.
    fn clamp(&self) -> Clamp {
        Clamp::default()
    }
}

impl<D: Distribution<Quantity = ByteSize>> SizeRule for D {
    fn moments(&self) -> SizeMoments {
        let Moments { min, max, mean, deviation } = self.started().moments;
        SizeMoments {
            min_bytes: whole(min),
            max_bytes: whole(max),
            mean_bytes: mean,
            deviation_bytes: deviation,
        }
    }

    fn is_independent(&self) -> bool {
        D::IS_INDEPENDENT
    }

    fn tables(&self) -> usize {
        Distribution::tables(self) + usize::from(self.clamped_mean().is_some())
    }

    fn has_default_maximum(&self) -> bool {
        Distribution::has_default_maximum(self)
    }

    fn has_default_minimum(&self) -> bool {
        Distribution::has_default_minimum(self)
    }

    fn clamp(&self) -> Clamp {
        Distribution::clamp(self)
    }
}

/// Rounded to whole bytes.
#[inline]
fn whole(bytes: f64) -> u64 {
    // The cast saturates at both ends and truncates, which is a floor here.
    (bytes + 0.5) as u64
}

impl<S: Source> Stateless for Drawn<S, ByteSize> {
    type Outcome = u64;

    #[inline]
    fn at(&self, draws: &mut Draws) -> u64 {
        whole(self.value(draws.packet(), draws))
    }
}

choice_of_laws! {
    /// The law of payload sizes.
    Size("payload"): SizeRule;
    /// A running size law: bytes of a packet.
    SizeLaw: at(&) -> u64;
    {
        constant: Constant,
        uniform: Uniform,
        recorded: Recorded,
    }
    of ByteSize {
        exponential: Exponential,
        pareto: Pareto,
        cauchy: Cauchy,
        normal: Normal,
        log_normal: LogNormal,
        poisson: Poisson,
        gamma: Gamma,
        weibull: Weibull,
        student: Student,
        alternate: Alternate,
        increasing: Increasing,
        decreasing: Decreasing,
        histogram: Histogram,
        quantiles: Quantiles,
        table: Table,
        mixture: Mixture,
        values: Values,
    }
}

impl Size {
    /// Its moments and bounds.
    #[must_use]
    pub fn moments(&self) -> SizeMoments {
        self.rule().moments()
    }

    /// The bounds that its draws can exceed, and to which they are clamped, bytes. Of a mixture: the outermost of its parts.
    #[must_use]
    pub(crate) fn clamp(&self) -> Clamp {
        self.rule().clamp()
    }

    /// Whether all packets have the same size.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        let SizeMoments { min_bytes, max_bytes, .. } = self.moments();
        min_bytes == max_bytes
    }

    /// Whether only the sender knows the size of each packet.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        matches!(self, Size::Recorded(_))
    }

    /// Sizes that only the sender knows, up to `max_bytes`.
    pub(super) fn known_to_sender(min_bytes: u64, max_bytes: u64) -> Size {
        let (min, max, mean) = (ByteSize(min_bytes), ByteSize(max_bytes), max_bytes as f64);
        Size::Recorded(Recorded { min, max, mean, deviation: 0.0 })
    }

    /// The number of tables that it draws from.
    pub(super) fn tables(&self) -> usize {
        self.rule().tables()
    }

    /// Whether it may be a part of a mixture.
    pub(super) fn may_be_part(&self) -> bool {
        self.rule().is_independent()
    }

    /// Its moments, if it may be a part of a mixture.
    pub(super) fn part_moments(&self) -> Option<Moments> {
        let SizeMoments { min_bytes, max_bytes, mean_bytes, deviation_bytes } = self.moments();
        self.rule().is_independent().then_some(Moments {
            min: min_bytes as f64,
            max: max_bytes as f64,
            mean: mean_bytes,
            deviation: deviation_bytes,
        })
    }

    /// Whether values above the maximum are possible, which it does not state.
    pub(super) fn has_default_maximum(&self) -> bool {
        self.rule().has_default_maximum()
    }

    /// Whether values below the minimum are possible, which it does not state.
    pub(super) fn has_default_minimum(&self) -> bool {
        self.rule().has_default_minimum()
    }

    /// Checks the law of the volumes of transfers, up to `most` bytes; `at` is its path.
    pub(crate) fn check_volume(&self, at: &str, most: u64) -> Result<(), ModelError> {
        self.check(at, "a transfer", 1, most)?;
        // The default is that of datagrams, which would cut a tail that the user means.
        if self.has_default_maximum() {
            let accepted = "a law with its maximum, such as exponential(mean=100K, max=1G)";
            return refuse(at, "", self, accepted);
        }
        Ok(())
    }

    /// Checks a law of numbers of objects, 1 to `most`; `at` is its path.
    pub(super) fn check_count(&self, at: &str, most: u64) -> Result<(), ModelError> {
        self.check_parameters(at)?;
        let SizeMoments { min_bytes, max_bytes, .. } = self.moments();
        // The default bounds are those of datagrams.
        if self.has_default_maximum() || self.has_default_minimum() {
            let accepted = "a law with its bounds, such as exponential(mean=20, min=1, max=200)";
            return refuse(at, "", self, accepted);
        }
        if min_bytes < 1 || max_bytes > most {
            return refuse(at, "", self, &format!("1 to {most} objects"));
        }
        Ok(())
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

impl Quantity for ByteSize {
    /// The full data header fits, so that everything is measured.
    const MIN: f64 = 32.0;
    /// The largest datagram of IPv4.
    const MAX: f64 = 65_507.0;
    /// That of the volume of a transfer; a payload has the limits of its transport.
    const LIMIT: Self = ByteSize(1 << 40);
    const IS_RATED: bool = false;
    const STEP: Self = ByteSize(1);
    type Choice = Size;
    type Running = SizeLaw;

    fn value(self) -> f64 {
        self.0 as f64
    }

    fn example(bytes: &'static str, _: &'static str) -> &'static str {
        bytes
    }

    fn start(part: &Size) -> SizeLaw {
        part.start()
    }

    fn draw(part: &SizeLaw, draws: &mut Draws) -> f64 {
        part.at(draws) as f64
    }

    fn has_default_maximum(part: &Size) -> bool {
        part.has_default_maximum()
    }

    fn has_default_minimum(part: &Size) -> bool {
        part.has_default_minimum()
    }

    fn may_be_part(part: &Size) -> bool {
        part.may_be_part()
    }

    fn part_moments(part: &Size) -> Option<Moments> {
        part.part_moments()
    }

    fn tables(law: &Size) -> usize {
        law.tables()
    }

    fn part_clamp(part: &Size) -> Clamp {
        part.clamp()
    }
}
