//! Delay laws: nanoseconds drawn for each packet. A new one needs a file here and a line in the list below.
//!
//! Transcendental functions are those of `libm` in plain Rust and square roots those of IEEE 754, so that a
//! draw is the same number on any machine. A draw below zero becomes zero.

mod correlation;
mod cycle;

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::{Direction, DrawPosition, Draws, Philox};

use super::slot::Slot;
use super::time::Time;
use crate::ModelError;
use crate::law::distribution::{Clamp, Distribution, Moments};
use crate::law::{Deciding, Law, PacketFacts, Stated, Words, forms, refuse, slot_of_laws};
use crate::units::Span;

pub use correlation::RunningDelay;

/// Maximum delay of a law.
pub(crate) const MAX_DELAY: Span = Span::from_seconds(3600);

/// Probability of the lowest draw in the open unit interval.
const LOWEST: f64 = f64::EPSILON;
/// Probability from which on a law's values are weighted finely.
const FINE_FROM: f64 = 1.0 / 65_536.0;

/// Moments of a delay law, with draws below zero as zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelayMoments {
    /// Mean in ns; absent if the law has none.
    pub mean_ns: Option<f64>,
    /// Standard deviation in ns; absent if the law has none.
    pub deviation_ns: Option<f64>,
}

impl DelayMoments {
    fn of(mean_ns: f64, deviation_ns: f64) -> Self {
        Self { mean_ns: Some(mean_ns), deviation_ns: Some(deviation_ns) }
    }

    /// From the first two moments about zero.
    fn of_powers(first: f64, second: f64) -> Self {
        Self::of(first, (second - first * first).max(0.0).sqrt())
    }
}

/// Properties of a delay law.
trait DelayRule {
    /// Its moments.
    fn moments(&self) -> DelayMoments;
    /// Whether every packet has the same delay, so that the order can't change.
    fn is_constant(&self) -> bool {
        false
    }
    /// Which draws its delays need.
    fn draws(&self) -> Drawing {
        Drawing::One
    }
    /// Whether the delay is a function of time alone.
    fn follows_time(&self) -> bool {
        false
    }
    /// The shortest and longest delay that it can draw, in ns.
    fn range(&self) -> [f64; 2] {
        [0.0, MAX_DELAY.0 as f64]
    }
    /// The bounds that its draws can exceed, in ns: longer and shorter draws become these.
    fn clamp(&self) -> Clamp {
        Clamp::default()
    }
    /// The number of tables that it draws from.
    fn tables(&self) -> usize {
        0
    }
}

/// The draws that a law needs for a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drawing {
    /// None: a delay follows from the time or from the packets before.
    Nothing,
    /// One, of which the delay is a monotone function.
    One,
    /// Several.
    Several,
}

impl<D: Distribution<Quantity = Time>> DelayRule for D {
    fn moments(&self) -> DelayMoments {
        let Moments { mean, deviation, .. } = self.started().moments;
        let is_bounded = self.bounds().max.is_some();
        DelayMoments {
            mean_ns: (is_bounded || self.has_mean()).then_some(mean),
            deviation_ns: (is_bounded || self.has_variance()).then_some(deviation),
        }
    }

    fn draws(&self) -> Drawing {
        match (D::IS_INDEPENDENT, D::IS_ONE_DRAW) {
            (false, _) => Drawing::Nothing,
            (true, true) => Drawing::One,
            (true, false) => Drawing::Several,
        }
    }

    fn range(&self) -> [f64; 2] {
        let Moments { min, max, .. } = self.started().moments;
        [min, max]
    }

    fn clamp(&self) -> Clamp {
        Distribution::clamp(self)
    }

    fn tables(&self) -> usize {
        Distribution::tables(self) + usize::from(self.clamped_mean().is_some())
    }
}

/// How a delay law treats the order of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OrderPolicy {
    /// Packets may overtake each other; each has exactly the delay drawn for it.
    Allow,
    /// At each drawn departure time the packet that has waited longest leaves. Order and mean delay are preserved, the standard deviation is smaller.
    #[default]
    FifoRelease,
    /// The delay varies smoothly in time, with the half-life of the correlation, and no packet leaves before its predecessor. The order is preserved, and mean and standard deviation nearly, if the half-life is long.
    Smooth,
    /// No packet leaves before its predecessor. The order is preserved, the mean delay is larger.
    Max,
}

const POLICIES: [OrderPolicy; 4] =
    [OrderPolicy::Allow, OrderPolicy::FifoRelease, OrderPolicy::Smooth, OrderPolicy::Max];
const CORRELATION: &str = "correlation";
const HALF_LIFE: &str = "half-life";
/// What may follow a law.
const FOLLOWING: [&str; 6] = [
    POLICIES[0].name(),
    POLICIES[1].name(),
    POLICIES[2].name(),
    POLICIES[3].name(),
    CORRELATION,
    HALF_LIFE,
];

impl OrderPolicy {
    /// Its name in documents and laws.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            OrderPolicy::Allow => "allow",
            OrderPolicy::FifoRelease => "fifo-release",
            OrderPolicy::Smooth => "smooth",
            OrderPolicy::Max => "max",
        }
    }
}

slot_of_laws! {
    /// The slot of delay and jitter. Exactly one law is set. Negative draws become 0.
    Delay("delay"): DelayRule;
    /// A running delay law.
    DelayLaw;
    /// The delay of the next packet in ns; `draws` are those of its position.
    draw_ns -> u64;
    {
        constant: Constant,
        uniform: Uniform,
        normal: Normal,
        exponential: Exponential,
        pareto: Pareto,
        pareto_normal: ParetoNormal,
        shifted_pareto: ShiftedPareto,
        step: Step,
        ramp: Ramp,
        sine: Sine,
        square: Square,
        saw: Saw,
    }
    of Time {
        cauchy: Cauchy,
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
    {
        /// How the order of packets is treated.
        pub order: OrderPolicy,
        /// Correlation of the delay of each packet with that of the packet before, in percent, 0 to below 100. The distribution stays that of the law.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(example = 25)]
        pub correlation_percentage: Option<f64>,
        /// Time after which the correlation of two delays is 50 %, at any packet rate. Instead of `correlation_percentage`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(example = "500ms")]
        pub half_life: Option<Span>,
    }
}

static FORM: LazyLock<String> = LazyLock::new(|| {
    let laws = forms("delay", &Delay::SHORT_FORMS, &Delay::NAMES);
    let policies = POLICIES.map(OrderPolicy::name).join("|");
    format!(
        "{laws}; then [{policies}] [{CORRELATION} P% | {HALF_LIFE} T]; such as delay 20ms, delay 20ms ±5ms or delay 100us..2ms"
    )
});

impl Delay {
    /// The law's moments; `None` without a law.
    #[must_use]
    pub fn moments(&self) -> Option<DelayMoments> {
        self.rule().map(DelayRule::moments)
    }

    /// Whether delays vary by chance or from packet to packet, and not only with time.
    #[must_use]
    pub fn varies_by_packet(&self) -> bool {
        self.moments().is_some_and(|moments| moments.deviation_ns != Some(0.0))
            && self.rule().is_some_and(|rule| !rule.follows_time())
    }

    /// The shortest and longest delay in ns that it can draw, if no delay depends on the time or on the packets before.
    #[must_use]
    pub fn independent_range_ns(&self) -> Option<[f64; 2]> {
        let is_correlated = self.correlation_percentage.is_some() || self.half_life.is_some();
        let rule = self.rule().filter(|_| !is_correlated)?;
        let is_independent = rule.draws() != Drawing::Nothing && !rule.follows_time();
        is_independent.then(|| rule.range())
    }

    /// Delays in ns with their probabilities, by which the mean of any function of a delay is a sum: those of the middles of parts
    /// of the unit interval, which are finer towards its ends. Of a law that jumps, the probability of a value is off by up to 3 %,
    /// or 25 % if it is rarer than 1 in 65 536.
    /// `None` as for [`independent_range_ns`](Self::independent_range_ns), and if a delay takes several draws.
    #[must_use]
    pub fn weighted_ns(&self) -> Option<Vec<(f64, f64)>> {
        self.independent_range_ns()?;
        if self.rule()?.draws() != Drawing::One {
            return None;
        }
        let mut law = DelayLaw::of(self)?;
        let philox = Philox::new(0);
        let position = DrawPosition { flow: 0, direction: Direction::Forward, slot: 0, packet: 0 };
        let mut values = vec![];
        let mut add = |below: f64, probability: f64| {
            // A draw of 64 bits, and the one as far from the other end.
            let bits = (below * 2f64.powi(64)) as u64;
            for bits in [bits, !bits] {
                let mut draws = position.draws(&philox);
                draws.bits();
                draws.replace_next(bits);
                let ns = law.draw_ns(&PacketFacts::default(), &mut draws);
                values.push((ns as f64, probability));
            }
        };
        add(0.0, LOWEST);
        let mut from = LOWEST;
        while from < 0.5 {
            let parts = if from < FINE_FROM { 2 } else { 16 };
            let part = from / f64::from(parts);
            (0..parts).for_each(|n| add(from + (f64::from(n) + 0.5) * part, part));
            from *= 2.0;
        }
        Some(values)
    }

    /// The minimum and maximum delay in ns that draws beyond them become; `None`: no draw is beyond.
    #[must_use]
    pub fn clamps_ns(&self) -> [Option<u64>; 2] {
        let clamp = self.rule().map(DelayRule::clamp).unwrap_or_default();
        [clamp.min, clamp.max].map(|bound| bound.map(round_ns))
    }

    /// The number of tables that its law draws from.
    pub(crate) fn tables(&self) -> usize {
        self.rule().map_or(0, DelayRule::tables)
    }

    /// Checks the correlation of the law `name`.
    fn check_correlation(&self, at: &str, name: &str) -> Result<(), ModelError> {
        let (field, given) = match (self.correlation_percentage, self.half_life) {
            (Some(percentage), None) => ("correlation_percentage", format!("{percentage}")),
            (None, Some(half_life)) => ("half_life", half_life.to_string()),
            (Some(_), Some(half_life)) => {
                return refuse(at, "half_life", half_life, "correlation_percentage or half_life");
            }
            (None, None) if self.order == OrderPolicy::Smooth => {
                let accepted = "half-life T such as half-life 500ms, which smooth needs";
                return refuse(at, "half_life", "nothing", accepted);
            }
            (None, None) => return Ok(()),
        };
        if self.order == OrderPolicy::Smooth && self.half_life.is_none() {
            return refuse(at, field, given, "half-life T with smooth");
        }
        if self.correlation_percentage.is_some_and(|p| !(0.0..100.0).contains(&p)) {
            return refuse(at, field, given, "0 to below 100 percent");
        }
        if let Some(half_life) = self.half_life {
            check_positive(at, "half_life", half_life)?;
        }
        if self.rule().is_none_or(|rule| rule.draws() != Drawing::One || rule.is_constant()) {
            let given = format!("{given} with {name}");
            return refuse(at, field, given, "a law with one random draw for each packet");
        }
        Ok(())
    }

    /// Whether every packet has the same delay.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.rule().is_none_or(DelayRule::is_constant)
    }
}

impl Slot for Delay {
    const TERM: &'static str = "delay";
    const OTHER_NAMES: &'static [&'static str] = &["latency", "jitter"];
    const IS_SHARED: bool = true;

    fn is_stateless(&self) -> bool {
        // The other orders depend on the packet before.
        let is_ordered_alone = matches!(self.order, OrderPolicy::Allow | OrderPolicy::FifoRelease);
        let is_correlated = self.correlation_percentage.is_some() || self.half_life.is_some();
        self.is_constant()
            || is_ordered_alone
                && !is_correlated
                && self.rule().is_none_or(|rule| rule.draws() != Drawing::Nothing)
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        let stated = self.stated();
        let [(name, law)] = stated[..] else {
            let given = format!("{} delay laws", stated.len());
            return refuse(at, "", given, &format!("one of {}", Self::NAMES.join(", ")));
        };
        law.check(&format!("{at}.{name}"))?;
        self.check_correlation(at, name)
    }

    fn form() -> &'static str {
        &FORM
    }

    fn read(words: &mut Words) -> Result<Self, ModelError> {
        words.may_follow(&FOLLOWING);
        let mut slot = Self::read_law(words)?;
        loop {
            if let Some(order) = words.took_one(&POLICIES, OrderPolicy::name) {
                slot.order = order;
            } else if words.took(CORRELATION) {
                slot.correlation_percentage = Some(words.percent()?);
            } else if words.took(HALF_LIFE) {
                slot.half_life = Some(words.next().and_then(|word| words.span(word))?);
            } else {
                return Ok(slot);
            }
        }
    }

    fn text(&self) -> String {
        let mut text = "delay".to_string();
        for (name, law) in self.stated() {
            text += &format!(" {}", law.text(name));
        }
        // A constant delay preserves the order with every policy.
        if !self.is_constant() || self.order != OrderPolicy::default() {
            text += &format!(" {}", self.order.name());
        }
        if let Some(percentage) = self.correlation_percentage {
            text += &format!(" {CORRELATION} {percentage}%");
        }
        if let Some(half_life) = self.half_life {
            text += &format!(" {HALF_LIFE} {half_life}");
        }
        text
    }
}

fn check_span(at: &str, field: &str, span: Span) -> Result<(), ModelError> {
    if span <= MAX_DELAY {
        return Ok(());
    }
    refuse(at, field, span, "up to 1h")
}

fn check_positive(at: &str, field: &str, span: Span) -> Result<(), ModelError> {
    if span.0 > 0 {
        return check_span(at, field, span);
    }
    refuse(at, field, span, "above 0, up to 1h")
}

/// Checks a law that repeats.
fn check_cycle(at: &str, (min, max): (Span, Span), cycle: Span) -> Result<(), ModelError> {
    check_span(at, "max", max)?;
    if min > max {
        return refuse(at, "min", min, "at most max");
    }
    check_positive(at, "cycle", cycle)
}

/// Rounds to the nearest nanosecond; values below zero and NaN become zero.
#[inline]
pub(super) fn round_ns(value: f64) -> u64 {
    // The cast saturates at both ends and truncates, which is a floor here.
    (value + 0.5) as u64
}

#[cfg(test)]
mod tests;
