//! Delay laws: nanoseconds drawn for each packet. A new one needs a file here and a line in the list below.
//!
//! Transcendental functions are those of `libm` in plain Rust and square roots those of IEEE 754, so that a
//! draw is the same number on any machine. A draw below zero becomes zero.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::slot::Slot;
use crate::ModelError;
use crate::law::Words;
use crate::law::{Law, Running, Stated, forms, refuse, slot_of_laws};
use crate::units::Span;

/// Maximum delay of a law.
pub(crate) const MAX_DELAY: Span = Span::from_seconds(3600);

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
    /// No packet leaves before its predecessor. The order is preserved, the mean delay is larger.
    Max,
}

const POLICIES: [OrderPolicy; 3] = [OrderPolicy::Allow, OrderPolicy::FifoRelease, OrderPolicy::Max];
const POLICY_NAMES: [&str; 3] = [POLICIES[0].name(), POLICIES[1].name(), POLICIES[2].name()];

impl OrderPolicy {
    /// Its name in documents and laws.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            OrderPolicy::Allow => "allow",
            OrderPolicy::FifoRelease => "fifo-release",
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
    }
    {
        /// How the order of packets is treated.
        pub order: OrderPolicy,
    }
}

static FORM: LazyLock<String> = LazyLock::new(|| {
    let laws = forms("delay", &Delay::SHORT_FORMS, &Delay::NAMES);
    let policies = POLICY_NAMES.join("|");
    format!("{laws}; then [{policies}]; such as delay 20ms, delay 20ms ±5ms or delay 100us..2ms")
});

impl Delay {
    /// The law's moments; `None` without a law.
    #[must_use]
    pub fn moments(&self) -> Option<DelayMoments> {
        self.rule().map(DelayRule::moments)
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

    fn check(&self, at: &str) -> Result<(), ModelError> {
        let stated = self.stated();
        let [(name, law)] = stated[..] else {
            let given = format!("{} delay laws", stated.len());
            return refuse(at, "", given, &format!("one of {}", Self::NAMES.join(", ")));
        };
        law.check(&format!("{at}.{name}"))
    }

    fn form() -> &'static str {
        &FORM
    }

    fn read(words: &mut Words) -> Result<Self, ModelError> {
        words.may_follow(&POLICY_NAMES);
        let law = Self::read_law(words)?;
        let order = words.took_one(&POLICIES, OrderPolicy::name).unwrap_or_default();
        Ok(Delay { order, ..law })
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
        text
    }
}

fn check_span(at: &str, field: &str, span: Span) -> Result<(), ModelError> {
    if span <= MAX_DELAY {
        return Ok(());
    }
    refuse(at, field, span, "up to 1h")
}

/// Rounds to the nearest nanosecond; values below zero and NaN become zero.
#[inline]
fn round_ns(value: f64) -> u64 {
    // The cast saturates at both ends and truncates, which is a floor here.
    (value + 0.5) as u64
}

#[cfg(test)]
mod tests;
