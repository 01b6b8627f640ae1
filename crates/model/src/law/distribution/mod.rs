//! Laws that several quantities share (payload sizes, intervals, delays, other times, numbers of packets): random
//! distributions and sequences of values. A new one is a file here and a line in the lists of `law/mod.rs`, `plan/size`,
//! `plan/spacing` and `impairment/delay`.
//!
//! A law states a *source* of values, in bytes, nanoseconds or packets, and the bounds within which they are clamped. Everything
//! else (its check, its moments after clamping, its draws) follows from these.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use weir_laws::{Draws, clamped_moments, open_unit_interval};

use crate::ModelError;
use crate::law::{Law, Words, refuse};

mod alternate;
mod cauchy;
mod constant;
mod decreasing;
mod exponential;
mod gamma;
mod histogram;
mod increasing;
mod list;
mod log_normal;
mod mixture;
mod normal;
mod pareto;
mod poisson;
mod quantiles;
mod student;
mod table;
mod uniform;
mod values;
mod weibull;

pub(crate) use alternate::Alternate;
pub(crate) use cauchy::Cauchy;
pub(crate) use constant::Constant;
pub(crate) use decreasing::Decreasing;
pub(crate) use exponential::Exponential;
pub(crate) use gamma::Gamma;
pub(crate) use histogram::Histogram;
pub(crate) use increasing::Increasing;
pub(crate) use log_normal::LogNormal;
pub(crate) use mixture::Mixture;
pub(crate) use normal::Normal;
pub(crate) use pareto::Pareto;
pub(crate) use poisson::Poisson;
pub(crate) use quantiles::Quantiles;
pub(crate) use student::Student;
pub(crate) use table::Table;
pub(crate) use uniform::Uniform;
pub(crate) use values::Values;
pub(crate) use weibull::Weibull;

/// Maximum number of tables that the laws of a document draw from, of about 50 KiB each.
pub(crate) const MAX_TABLES: usize = 32;

/// What a law draws: bytes, a time or a number of packets.
pub trait Quantity:
    Copy
    + PartialEq
    + PartialOrd
    + fmt::Debug
    + fmt::Display
    + FromStr<Err = ModelError>
    + Serialize
    + DeserializeOwned
    + JsonSchema
    + Send
    + Sync
    + 'static
{
    /// The lower bound if a law states none, in bytes or ns.
    const MIN: f64;
    /// The upper bound if a law states none.
    const MAX: f64;
    /// The largest accepted parameter.
    const LIMIT: Self;
    /// Whether the rate gives the scale of a law that states none.
    const IS_RATED: bool;
    /// Whether a law without a mean needs a maximum.
    const NEEDS_MEAN: bool = true;
    /// Its default step: 1 byte, 1 ms or 1 packet.
    const STEP: Self;
    /// The choice of laws of this quantity.
    type Choice: Clone + PartialEq + fmt::Debug + fmt::Display + FromStr<Err = ModelError>;
    /// A running law of that choice.
    type Running: Clone + PartialEq + fmt::Debug;

    /// In bytes or ns.
    fn value(self) -> f64;
    /// An example: the one of bytes or of times.
    fn example(bytes: &'static str, time: &'static str) -> &'static str;
    /// Starts a part of a mixture.
    fn start(part: &Self::Choice) -> Self::Running;
    /// A value of a part of a mixture, in bytes or ns.
    fn draw(part: &Self::Running, draws: &mut Draws) -> f64;
    /// Whether a law may be a part of a mixture: it has a mean of its own, and its values do not depend on those before.
    fn may_be_part(part: &Self::Choice) -> bool;
    /// Whether values of a part above its maximum are possible, which it does not state.
    fn has_default_maximum(part: &Self::Choice) -> bool;
    /// Whether values of a part below its minimum are possible, which it does not state.
    fn has_default_minimum(part: &Self::Choice) -> bool;
    /// The moments of a part of a mixture.
    fn part_moments(part: &Self::Choice) -> Option<Moments>;
    /// The number of tables of a law.
    fn tables(law: &Self::Choice) -> usize;
    /// The bounds of a part of a mixture that its draws can exceed.
    fn part_clamp(part: &Self::Choice) -> Clamp;
}

/// The methods of [`Quantity`] on parts of a mixture, for a choice of all shared laws.
macro_rules! parts_of_choice {
    ($choice:ty) => {
        fn start(part: &$choice) -> Self::Running {
            part.start()
        }

        fn may_be_part(part: &$choice) -> bool {
            part.rule().is_independent()
        }

        fn has_default_maximum(part: &$choice) -> bool {
            part.rule().has_default_maximum()
        }

        fn has_default_minimum(part: &$choice) -> bool {
            part.rule().has_default_minimum()
        }

        fn part_clamp(part: &$choice) -> crate::law::distribution::Clamp {
            part.rule().clamp()
        }

        fn part_moments(part: &$choice) -> Option<crate::law::distribution::Moments> {
            Some(part.moments())
        }

        fn tables(law: &$choice) -> usize {
            law.tables()
        }
    };
}
pub(crate) use parts_of_choice;

/// Moments and bounds of a law after clamping, in bytes or ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
}

impl Moments {
    /// Of values with their probabilities, which have the sum 1.
    fn of_weighted(values: impl Iterator<Item = (f64, f64)> + Clone) -> Self {
        let mean = values.clone().map(|(value, p)| p * value).sum();
        let variance: f64 =
            values.clone().map(|(value, p)| p * (value - mean) * (value - mean)).sum();
        let all = values.map(|(value, _)| value);
        Self {
            min: all.clone().fold(f64::INFINITY, f64::min),
            max: all.fold(0.0, f64::max),
            mean,
            deviation: variance.sqrt(),
        }
    }

    /// Of ranges `(low, high, probability)`, uniform within each; the probabilities have the sum 1.
    fn of_ranges(ranges: impl Iterator<Item = (f64, f64, f64)> + Clone) -> Self {
        let mean = ranges.clone().map(|(low, high, p)| p * (low + high) / 2.0).sum();
        // The variance within a range, and of its middle.
        let variance = |(low, high, p): (f64, f64, f64)| {
            let (width, off) = (high - low, (low + high) / 2.0 - mean);
            p * (width * width / 12.0 + off * off)
        };
        Self {
            min: ranges.clone().map(|(low, ..)| low).fold(f64::INFINITY, f64::min),
            max: ranges.clone().map(|(_, high, _)| high).fold(0.0, f64::max),
            mean,
            deviation: ranges.map(variance).sum::<f64>().sqrt(),
        }
    }
}

/// The bounds that a law's draws can exceed, and to which they are clamped; in bytes, ns or packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clamp {
    /// Smaller draws become this; absent: none is smaller.
    pub min: Option<f64>,
    /// Larger draws become this; absent: none is larger.
    pub max: Option<f64>,
}

impl Clamp {
    /// Of draws that become 0 where they are below it; `lowest` is the lowest.
    pub(crate) fn at_zero(lowest: f64) -> Self {
        Clamp { min: (lowest < 0.0).then_some(0.0), max: None }
    }

    /// Of draws without a highest one that become a maximum.
    pub(crate) fn at_max(max: Option<f64>) -> Self {
        Clamp { min: None, max }
    }

    /// The outermost bounds of several laws.
    pub(crate) fn outermost(parts: impl Iterator<Item = Clamp> + Clone) -> Self {
        Clamp {
            min: parts.clone().filter_map(|part| part.min).reduce(f64::min),
            max: parts.filter_map(|part| part.max).reduce(f64::max),
        }
    }
}

/// Where the values of a law come from.
pub trait Source: Clone + PartialEq + fmt::Debug {
    /// The value of packet `index`, in bytes or ns; `draws` are those of its position.
    fn value(&self, index: u64, draws: &mut Draws) -> f64;
    /// Its moments within bounds.
    fn moments(&self, low: f64, high: f64) -> Moments;
}

/// The quantile function of a continuous distribution.
pub trait Quantile: Clone + PartialEq + fmt::Debug {
    /// The value that a variable is below with probability `p` (or above, for all `p`).
    fn at(&self, p: f64) -> f64;
}

/// Draws from a continuous distribution: the quantile of draw 0 in the open interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Inverse<F>(pub(crate) F);

/// Probability of the draws nearest to 0 and to 1.
pub(crate) const FURTHEST: f64 = f64::EPSILON / 2.0;

impl<F: Quantile> Source for Inverse<F> {
    #[inline]
    fn value(&self, _: u64, draws: &mut Draws) -> f64 {
        self.0.at(open_unit_interval(draws.bits()))
    }

    fn moments(&self, low: f64, high: f64) -> Moments {
        let (mean, deviation) = clamped_moments(|p| self.0.at(p), low, high);
        let tail = FURTHEST;
        let ends = [tail, 1.0 - tail].map(|p| self.0.at(p).clamp(low, high));
        Moments { min: ends[0].min(ends[1]), max: ends[0].max(ends[1]), mean, deviation }
    }
}

/// A law by its source and bounds.
pub trait Distribution: Serialize + DeserializeOwned + JsonSchema {
    /// Its short one-line forms.
    const SHORT_FORMS: &'static [&'static str] = &[];
    /// Whether its one argument is a list.
    const IS_LIST: bool = false;
    /// Whether its values depend on nothing but their own draws.
    const IS_INDEPENDENT: bool = true;
    /// Whether a value is a monotone function of draw 0 alone.
    const IS_ONE_DRAW: bool = true;
    /// Whether values outside of default bounds are possible, and clamped.
    const IS_CLAMPED: bool = true;
    /// Bytes or a time.
    type Quantity: Quantity;
    /// Its source.
    type Source: Source;

    /// Reads one of its short forms.
    ///
    /// # Errors
    /// As `Law::read_short`.
    fn read_short(_: &mut Words<'_>) -> Result<Option<Self>, ModelError> {
        Ok(None)
    }

    /// Its short form.
    fn short(&self) -> Option<String> {
        None
    }

    /// Checks the parameters without the bounds.
    ///
    /// # Errors
    /// [`ModelError::Field`] naming the first one that can't be run.
    fn check_source(&self, at: &str) -> Result<(), ModelError>;

    /// The source of checked parameters.
    fn source(&self) -> Self::Source;

    /// The bounds that it states.
    fn bounds(&self) -> Bounds<Self::Quantity> {
        Bounds { min: None, max: None }
    }

    /// The mean after clamping that its values are scaled to.
    fn clamped_mean(&self) -> Option<Self::Quantity> {
        None
    }

    /// Where its source is kept once it was made.
    fn prepared(&self) -> &Prepared<Self::Source>;

    /// The mean at scale 1, if the rate gives the scale.
    fn unit_mean(&self) -> Option<f64> {
        None
    }

    /// Whether its mean exists without a maximum.
    fn has_mean(&self) -> bool {
        true
    }

    /// Whether its variance exists without a maximum.
    fn has_variance(&self) -> bool {
        true
    }

    /// The number of tables that it draws from, about 50 KiB each.
    fn tables(&self) -> usize {
        0
    }

    /// Its source and moments, made once.
    fn started(&self) -> &Arc<Started<Self::Source>> {
        self.prepared().0.get_or_init(|| {
            let source = self.source();
            let (low, high) = self.range();
            let target = self.clamped_mean().map(Self::Quantity::value);
            // Unreachable means are refused before a law runs.
            let factor = target.and_then(|mean| factor(&source, low, high, mean)).unwrap_or(1.0);
            let moments = scaled_moments(&source, factor, low, high);
            let drawn = scaled_moments(&source, factor, f64::NEG_INFINITY, f64::INFINITY);
            let clamp = Clamp {
                min: (drawn.min < low).then_some(low),
                max: (drawn.max > high).then_some(high),
            };
            // The numeric mean is not exact to more than thousandths of a byte or nanosecond.
            let numeric = || (moments.mean * 1000.0).round() / 1000.0;
            let mean = self.unit_mean().unwrap_or_else(numeric);
            Arc::new(Started { source, factor, moments: Moments { mean, ..moments }, clamp })
        })
    }

    /// The bounds that its draws can exceed.
    fn clamp(&self) -> Clamp {
        self.started().clamp
    }

    /// Whether values above the maximum are possible, which it does not state.
    fn has_default_maximum(&self) -> bool {
        Self::IS_CLAMPED && self.bounds().max.is_none()
    }

    /// Whether values below the minimum are possible, which it does not state.
    fn has_default_minimum(&self) -> bool {
        Self::IS_CLAMPED && self.bounds().min.is_none()
    }

    /// The bounds in effect, in bytes or ns.
    fn range(&self) -> (f64, f64) {
        if self.unit_mean().is_some() || !Self::IS_CLAMPED {
            return (0.0, f64::INFINITY);
        }
        let Bounds { min, max } = self.bounds();
        let low = min.map_or(Self::Quantity::MIN, |min| min.value());
        (low, max.map_or(Self::Quantity::MAX, |max| max.value()).max(low))
    }
}

/// Properties of a law, whatever its quantity.
pub(crate) trait Rule {
    /// Its moments after clamping.
    fn moments(&self) -> Moments;
    /// Whether its values depend on nothing but their own draws.
    fn is_independent(&self) -> bool;
    /// Whether values above the maximum are possible, which it does not state.
    fn has_default_maximum(&self) -> bool;
    /// Whether values below the minimum are possible, which it does not state.
    fn has_default_minimum(&self) -> bool;
    /// The bounds that its draws can exceed.
    fn clamp(&self) -> Clamp;
    /// The number of tables that it draws from.
    fn tables(&self) -> usize;
}

impl<D: Distribution> Rule for D {
    fn moments(&self) -> Moments {
        self.started().moments
    }

    fn is_independent(&self) -> bool {
        D::IS_INDEPENDENT
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

    fn tables(&self) -> usize {
        Distribution::tables(self) + usize::from(self.clamped_mean().is_some())
    }
}

/// Factors by which values may be multiplied for a mean after clamping.
const FACTORS: (f64, f64) = (1e-6, 1e6);

/// The moments of values that are multiplied by `factor`, then clamped.
fn scaled_moments(source: &impl Source, factor: f64, low: f64, high: f64) -> Moments {
    let of = source.moments(low / factor, high / factor);
    Moments {
        min: of.min * factor,
        max: of.max * factor,
        mean: of.mean * factor,
        deviation: of.deviation * factor,
    }
}

/// The factor of a source's values for a mean after clamping; `None` if there is none. Both ends of a test compute it, so
/// that it uses exact operations only.
fn factor(source: &impl Source, low: f64, high: f64, mean: f64) -> Option<f64> {
    // The mean grows with the factor, since no bound is below 0.
    let mean_of = |factor| scaled_moments(source, factor, low, high).mean;
    let (mut below, mut above) = FACTORS;
    if mean_of(below) > mean || mean_of(above) < mean {
        return None;
    }
    for _ in 0..40 {
        let middle = (below * above).sqrt();
        if mean_of(middle) < mean { below = middle } else { above = middle }
    }
    Some(above)
}

/// The bounds that a law states.
#[derive(Clone, Copy)]
pub struct Bounds<Q> {
    /// Minimum: smaller values become this.
    pub min: Option<Q>,
    /// Maximum: larger values become this.
    pub max: Option<Q>,
}

/// Declares a continuous law with its bounds: its fields, and what [`Distribution`] needs.
macro_rules! distribution {
    (
        $(#[$doc:meta])*
        $name:ident: $source:ty {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
        $($body:tt)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, bound = "Q: Quantity")]
        #[schemars(bound = "Q: Quantity", transform = super::require_scale::<Q>)]
        pub struct $name<Q: Quantity> {
            $($(#[$field_doc])* pub $field: $type,)*
            /// Smaller values become this. Absent: 32 bytes, the full data header; for times 0.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub min: Option<Q>,
            /// Larger values become this. Absent: 65 507 bytes; for times 1 h.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub max: Option<Q>,
            /// Mean after clamping: values are multiplied by the factor that results in it, then clamped. Absent: 1.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub clamped_mean: Option<Q>,
            #[serde(skip)]
            prepared: Prepared<$source>,
        }

        impl<Q: Quantity> Distribution for $name<Q> {
            type Quantity = Q;
            type Source = $source;

            fn bounds(&self) -> Bounds<Q> {
                Bounds { min: self.min, max: self.max }
            }

            fn clamped_mean(&self) -> Option<Q> {
                self.clamped_mean
            }

            fn prepared(&self) -> &Prepared<$source> {
                &self.prepared
            }

            $($body)*
        }
    };
}
use distribution;

/// The source of a law and its moments, made when first needed: a table takes up to 12 ms. No part of the law's value.
#[derive(Clone)]
pub struct Prepared<S>(OnceLock<Arc<Started<S>>>);

/// A source, the factor of its values, and their moments after clamping.
#[derive(Clone, Debug, PartialEq)]
pub struct Started<S> {
    source: S,
    factor: f64,
    pub(crate) moments: Moments,
    clamp: Clamp,
}

impl<S> Default for Prepared<S> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<S> PartialEq for Prepared<S> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<S> fmt::Debug for Prepared<S> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("..")
    }
}

impl<D> Law for D
where
    D: Distribution,
    Drawn<D::Source, D::Quantity>: crate::law::Running,
{
    const SHORT_FORMS: &'static [&'static str] = <D as Distribution>::SHORT_FORMS;
    const IS_LIST: bool = <D as Distribution>::IS_LIST;
    type Running = Drawn<D::Source, D::Quantity>;

    fn read_short(words: &mut Words<'_>) -> Result<Option<Self>, ModelError> {
        Distribution::read_short(words)
    }

    fn short(&self) -> Option<String> {
        Distribution::short(self)
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        self.check_source(at)?;
        let Bounds { min, max } = self.bounds();
        for (field, bound) in [("min", min), ("max", max)] {
            let Some(bound) = bound else { continue };
            if bound > D::Quantity::LIMIT {
                return refuse(at, field, bound, &format!("up to {}", D::Quantity::LIMIT));
            }
            if self.unit_mean().is_some() {
                return refuse(
                    at,
                    field,
                    bound,
                    "a law with its scale: without it the rate gives the mean",
                );
            }
        }
        if let Some(max) = max.filter(|max| max.value() <= 0.0) {
            return refuse(at, "max", max, "above 0");
        }
        let low = min.map_or(D::Quantity::MIN, |min| min.value());
        match (min, max) {
            (_, Some(max)) if max.value() < low => refuse(at, "max", max, "at least min"),
            (Some(min), None) if min.value() > D::Quantity::MAX => {
                refuse(at, "max", "nothing", "a maximum, at least min")
            }
            (_, None)
                if D::Quantity::NEEDS_MEAN && !self.has_mean() && self.unit_mean().is_none() =>
            {
                refuse(at, "max", "nothing", "max=VALUE, without which this law has no mean")
            }
            _ => check_clamped_mean(self, at),
        }
    }

    fn start(&self) -> Self::Running {
        let (low, high) = self.range();
        Drawn { started: Arc::clone(self.started()), low, high, index: 0, quantity: PhantomData }
    }
}

/// A running law: a value of its source within its bounds.
pub struct Drawn<S, Q> {
    started: Arc<Started<S>>,
    low: f64,
    high: f64,
    /// Number of the next value, for laws of intervals.
    index: u64,
    quantity: PhantomData<Q>,
}

impl<S, Q> Clone for Drawn<S, Q> {
    fn clone(&self) -> Self {
        Drawn { started: Arc::clone(&self.started), quantity: PhantomData, ..*self }
    }
}

impl<S: PartialEq, Q> PartialEq for Drawn<S, Q> {
    fn eq(&self, other: &Self) -> bool {
        (&self.started, self.low, self.high, self.index)
            == (&other.started, other.low, other.high, other.index)
    }
}

impl<S: fmt::Debug, Q> fmt::Debug for Drawn<S, Q> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Drawn").field("started", &self.started).finish_non_exhaustive()
    }
}

impl<S: Source, Q> Drawn<S, Q> {
    /// Value number `index`, in bytes or ns.
    #[inline]
    pub(crate) fn value(&self, index: u64, draws: &mut Draws) -> f64 {
        (self.started.source.value(index, draws) * self.started.factor).clamp(self.low, self.high)
    }

    /// The number of the next value.
    #[inline]
    pub(crate) fn count(&mut self) -> u64 {
        let index = self.index;
        self.index = index.wrapping_add(1);
        index
    }

    /// The mean after clamping.
    #[inline]
    pub(crate) fn mean(&self) -> f64 {
        self.started.moments.mean
    }
}

/// Checks the mean after clamping.
fn check_clamped_mean<D: Distribution>(law: &D, at: &str) -> Result<(), ModelError> {
    const FIELD: &str = "clamped_mean";
    let Some(mean) = law.clamped_mean() else { return Ok(()) };
    check_positive(at, FIELD, mean)?;
    if law.unit_mean().is_some() {
        let accepted = "a law with its scale: without it the rate gives the mean";
        return refuse(at, FIELD, mean, accepted);
    }
    let (low, high) = law.range();
    let is_between = low < mean.value() && mean.value() < high;
    if !is_between || (law.started().moments.mean / mean.value() - 1.0).abs() > 1e-3 {
        let accepted = "a mean between the bounds, which multiples of the values can have";
        return refuse(at, FIELD, mean, accepted);
    }
    Ok(())
}

/// Checks a parameter that is a quantity.
fn check_quantity<Q: Quantity>(at: &str, field: &str, value: Q) -> Result<(), ModelError> {
    if value > Q::LIMIT {
        return refuse(at, field, value, &format!("up to {}", Q::LIMIT));
    }
    Ok(())
}

/// Checks a parameter that is a quantity above 0.
fn check_positive<Q: Quantity>(at: &str, field: &str, value: Q) -> Result<(), ModelError> {
    if value.value() <= 0.0 {
        return refuse(at, field, value, &format!("above 0, up to {}", Q::LIMIT));
    }
    check_quantity(at, field, value)
}

/// Checks a scale, which the rate gives if it is absent, where there is one.
fn check_scale<Q: Quantity>(at: &str, field: &str, value: Option<Q>) -> Result<(), ModelError> {
    match value {
        Some(value) => check_positive(at, field, value),
        None if Q::IS_RATED => Ok(()),
        None => {
            let example = Q::example("300", "5ms");
            refuse(at, field, "nothing", &format!("{field}=VALUE, such as {field}={example}"))
        }
    }
}

/// Names the parameter that gives the scale as required, unless a rate gives it.
fn require_scale<Q: Quantity>(schema: &mut Schema) {
    let has = |name: &str| schema.get("properties").is_some_and(|all| all.get(name).is_some());
    let scale = ["scale", "mean"].into_iter().find(|name| !Q::IS_RATED && has(name));
    let Some(scale) = scale else { return };
    let required = schema.ensure_object().entry("required").or_insert_with(|| json!([]));
    if let Some(required) =
        required.as_array_mut().filter(|all| !all.iter().any(|one| one == scale))
    {
        required.push(scale.into());
    }
}

/// Checks a parameter without a unit.
fn check_number(at: &str, field: &str, value: f64, low: f64, high: f64) -> Result<(), ModelError> {
    // A NaN is in no range.
    if (low..=high).contains(&value) {
        return Ok(());
    }
    refuse(at, field, value, &format!("{low} to {high}"))
}

/// Reads and writes a type in documents as its text.
macro_rules! as_text {
    ($type:ident, $expect:expr, $example:expr) => {
        impl<Q: Quantity> Serialize for $type<Q> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de, Q: Quantity> Deserialize<'de> for $type<Q> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(crate::document::refused)
            }
        }

        impl<Q: Quantity> JsonSchema for $type<Q> {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "description": $expect, "examples": [$example] })
            }
        }
    };
}
use as_text;

#[cfg(test)]
mod tests {
    use weir_laws::{Direction, DrawPosition, Philox, flow_hash, slot};

    use crate::law::distribution::Clamp;
    use crate::plan::{Size, Spacing};

    /// Mean of drawn values, and that of the law.
    fn means(text: &str) -> (f64, f64) {
        const VALUES: u64 = 100_000;
        let size: Size = text.parse().unwrap();
        size.check_volume("volume", 1 << 40).unwrap();
        let (law, philox) = (size.start(), Philox::new(5));
        let at = |packet| DrawPosition {
            flow: flow_hash("a"),
            direction: Direction::Forward,
            slot: slot::SIZE,
            packet,
        };
        let sum: u64 = (0..VALUES).map(|n| law.at(&mut at(n).draws(&philox))).sum();
        (sum as f64 / VALUES as f64, size.moments().mean_bytes)
    }

    /// Whether a draw can exceed a bound depends on the law, not on whether the bound is stated.
    #[test]
    fn bounds_that_a_draw_can_exceed_are_known() {
        for (law, min, max) in [
            ("normal(mean=1000, deviation=600)", Some(32.0), None),
            ("normal(mean=1000, deviation=600, max=1400)", Some(32.0), Some(1400.0)),
            ("normal(mean=700, deviation=50, max=1400)", None, None),
            ("exponential(mean=700, min=64, max=1400, clamped_mean=600)", Some(64.0), Some(1400.0)),
            ("pareto(shape=3, scale=100)", None, Some(65_507.0)),
            ("poisson(mean=50)", Some(32.0), None),
            ("poisson(mean=5000)", None, None),
            ("64..1400", None, None),
            ("1400", None, None),
            (
                "mixture(normal(mean=300, deviation=200, min=100):1, normal(mean=300, deviation=200, min=50):1)",
                Some(50.0),
                None,
            ),
        ] {
            let clamp = law.parse::<Size>().unwrap().clamp();
            assert_eq!(clamp, Clamp { min, max }, "{law}");
        }
        for (law, min, max) in [
            ("normal(mean=10ms, deviation=5ms)", Some(0.0), None),
            ("exponential(mean=1ms)", None, None),
            ("exponential(mean=1h)", None, Some(3.6e12)),
            // The rate gives its scale, and nothing is clamped.
            ("exponential", None, None),
            ("on_off(on=1s, off=normal(mean=1s, deviation=1s), interval=20ms)", Some(0.0), None),
        ] {
            let clamp = law.parse::<Spacing>().unwrap().clamp();
            assert_eq!(clamp, Clamp { min, max }, "{law}");
        }
    }

    #[test]
    fn values_have_the_stated_mean_after_clamping() {
        for law in [
            "exponential(mean=700, min=64, max=1400, clamped_mean=600)",
            "normal(mean=700, deviation=2000, min=64, max=1400, clamped_mean=600)",
            "log_normal(mean=7758, deviation=126168, min=50, max=20000, clamped_mean=600)",
            "pareto(shape=1.1, scale=100, min=64, max=100000, clamped_mean=600)",
            "gamma(shape=0.5, scale=500, min=64, max=1400, clamped_mean=600)",
            "weibull(shape=0.5, scale=500, min=64, max=1400, clamped_mean=600)",
            "cauchy(location=500, scale=100, min=64, max=1400, clamped_mean=600)",
            "student(degrees=1, location=500, scale=100, min=64, max=1400, clamped_mean=600)",
            "poisson(mean=1000, unit=50, min=64, max=1400, clamped_mean=600)",
        ] {
            let (drawn, stated) = means(law);
            assert!((stated - 600.0).abs() < 0.01, "{law}: {stated}");
            assert!((drawn - 600.0).abs() < 25.0, "{law}: {drawn}");
        }
        let (_, without) = means("exponential(mean=700, min=64, max=1400)");
        assert!((without - 700.0).abs() > 50.0, "{without}");
    }

    #[test]
    fn a_mean_that_values_cannot_have_is_refused() {
        for bad in [
            "exponential(mean=700, min=64, max=1400, clamped_mean=64)",
            "exponential(mean=700, min=64, max=1400, clamped_mean=1400)",
            "exponential(mean=700, min=64, max=1400, clamped_mean=0)",
            // Half of the values are the minimum, whatever they are multiplied by.
            "normal(mean=1, deviation=100000, min=64, max=1400, clamped_mean=1000)",
        ] {
            let error = bad.parse::<Size>().unwrap_err().to_string();
            assert!(error.contains("clamped_mean"), "{bad}: {error}");
        }
    }
}
