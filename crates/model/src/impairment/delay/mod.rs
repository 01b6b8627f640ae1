//! Delay laws: nanoseconds drawn for each packet. A new one is a file here and a line in the list below.
//!
//! Transcendental functions are `libm`'s in plain Rust and square roots IEEE 754's, so that a draw is the
//! same number on any machine. A draw below zero becomes zero.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::slot::Slot;
use crate::ModelError;
use crate::law::Words;
use crate::law::{Law, Running, Stated, forms, refuse, slot_of_laws};
use crate::units::Span;

/// Longest delay that a law may state.
pub const MAX_DELAY: Span = Span::from_seconds(3600);

/// What a delay law does on average, draws below zero taken as zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelayMoments {
    /// Mean in ns; absent where the law has none.
    pub mean_ns: Option<f64>,
    /// Standard deviation in ns; absent where the law has none.
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

/// What a delay law does, seen from outside.
trait DelayRule {
    /// What it does on average.
    fn moments(&self) -> DelayMoments;
    /// Whether every packet has the same delay, so that there is nothing to decide on their order.
    fn is_constant(&self) -> bool {
        false
    }
}

/// What a delay law may do to the order of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OrderPolicy {
    /// Packets overtake each other; each has exactly the delay drawn for it.
    Allow,
    /// When a drawn departure time comes, the packet that waits longest leaves. Order and mean delay are kept, the deviation shrinks.
    #[default]
    FifoRelease,
    /// No packet leaves before its predecessor: it waits for it. Order is kept, the mean grows.
    Max,
}

const POLICIES: [OrderPolicy; 3] = [OrderPolicy::Allow, OrderPolicy::FifoRelease, OrderPolicy::Max];
const POLICY_NAMES: [&str; 3] = [POLICIES[0].name(), POLICIES[1].name(), POLICIES[2].name()];

impl OrderPolicy {
    /// The policy's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
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
    /// A delay law at work.
    DelayLaw;
    /// The delay of the next packet in ns; `draws` are those of its place.
    draw_ns -> u64;
    {
        constant: Constant,
        uniform: Uniform,
        normal: Normal,
        exponential: Exponential,
        pareto: Pareto,
    }
    {
        /// What may happen to the order of packets.
        pub order: OrderPolicy,
    }
}

static FORM: LazyLock<String> = LazyLock::new(|| {
    let laws = forms("delay", &Delay::SHORT_FORMS, &Delay::NAMES);
    let policies = POLICY_NAMES.join("|");
    format!("{laws}; then [{policies}]; such as delay 20ms, delay 20ms ±5ms or delay 100us..2ms")
});

impl Delay {
    /// What the law does on average; `None` when there is none.
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
    const OTHER_NAMES: &'static [&'static str] = &["latency", "jitter", "reorder"];
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
        // A constant delay keeps order under every policy.
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

/// To the nearest nanosecond; below zero (and not a number) is zero.
#[inline]
fn round_ns(value: f64) -> u64 {
    // The cast saturates at both ends and truncates, which is a floor here.
    (value + 0.5) as u64
}

#[cfg(test)]
mod tests;
