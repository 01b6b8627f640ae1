//! The laws of one direction of a flow: what is to happen to its packets, stage by stage.
//!
//! A slot with a choice of laws is a table with one of them set (`loss/`, `delay/`), so that a file reads
//! `loss = { percentage = 1 }` and a field that does not exist is refused by name.
//!
//! Forms are made from the schemas of these types alone. Beside JSON Schema's own words they say by `x-one-of` which
//! properties exclude each other (the laws of a slot, in the order in which they are offered), by `x-stage` which stage a
//! slot belongs to, and by `examples` values that are accepted together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::delay::{Delay, MAX_DELAY};
use super::law::{check_percentage, is_default, refuse};
use super::loss::Loss;
use super::value::QueueLimit;
use crate::ModelError;
use crate::units::BitRate;

/// Framing bytes for each packet beyond its network layer: Ethernet header and check sequence.
pub const DEFAULT_OVERHEAD_BYTES: u32 = 18;
/// Most bits that are flipped in one packet.
pub const MAX_FLIP_BITS: u32 = 64;

/// The stages of the path through the emulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Loss and duplication.
    Loss,
    /// Rate and queue.
    Rate,
    /// Delay and jitter.
    Delay,
    /// Change of content.
    Content,
}

impl Stage {
    /// The order that holds unless a flow names another. Duplicates use capacity, lost packets don't.
    pub const DEFAULT_ORDER: [Stage; 4] = [Stage::Loss, Stage::Rate, Stage::Delay, Stage::Content];

    /// The stage's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Loss => "loss",
            Stage::Rate => "rate",
            Stage::Delay => "delay",
            Stage::Content => "content",
        }
    }
}

/// The laws of one direction of a flow; an absent slot does nothing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
pub struct Laws {
    /// Loss and duplication.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-stage" = Stage::Loss))]
    pub loss: Option<Loss>,
    /// Rate and queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-stage" = Stage::Rate))]
    pub rate: Option<Rate>,
    /// Delay and jitter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-stage" = Stage::Delay))]
    pub delay: Option<Delay>,
    /// Change of content.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-stage" = Stage::Content))]
    pub content: Option<Content>,
    /// Order of the stages, each at most once; those not named follow in their usual order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Vec<Stage>>,
}

/// Duplication: one copy, right behind its original, with draws of its own in the later stages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Duplicate {
    /// Probability for each packet, in percent.
    #[schemars(example = 1)]
    pub percentage: f64,
}

impl Duplicate {
    pub(super) fn check(&self, at: &str) -> Result<(), ModelError> {
        check_percentage(at, "percentage", self.percentage)
    }
}

/// What happens when the queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// What arrives is dropped.
    #[default]
    TailDrop,
}

/// A link of a limited rate with a queue before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Rate in bit/s, framing overhead included.
    pub bits: BitRate,
    /// How much may wait: a time, a size or packets. Absent: the larger of 250 ms at the rate and 16 full frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueLimit>,
    /// What a full queue does.
    #[serde(default, skip_serializing_if = "is_default")]
    pub discipline: Discipline,
    /// Bytes for each packet beyond its network layer, 0 to 1000. Absent: 18, Ethernet header and check sequence; 38 with preamble and gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 38)]
    pub overhead_bytes: Option<u32>,
}

impl Rate {
    /// Framing bytes for each packet beyond its network layer.
    #[must_use]
    pub fn overhead(&self) -> u32 {
        self.overhead_bytes.unwrap_or(DEFAULT_OVERHEAD_BYTES)
    }

    /// The queue's limit, the default resolved. 250 ms at 20 kbit/s would be less than one frame.
    #[must_use]
    pub fn queue_limit(&self) -> QueueLimit {
        let full_frames = 16 * u64::from(1500 + self.overhead());
        let default =
            || QueueLimit::Bytes(crate::units::ByteSize((self.bits.0 / 32).max(full_frames)));
        self.queue.unwrap_or_else(default)
    }
}

/// What happens to checksums when content is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Checksum {
    /// They are made right again: the damage arrives.
    Repair,
    /// They stay as they were: the receiver drops the packet.
    #[default]
    Leave,
    /// Nothing but the checksum is damaged.
    Checksum,
}

impl Checksum {
    /// The choice's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Checksum::Repair => "repair",
            Checksum::Leave => "leave",
            Checksum::Checksum => "checksum",
        }
    }
}

/// From where on bytes may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Region {
    /// The whole frame.
    L2,
    /// From the network header on.
    L3,
    /// From the transport header on.
    L4,
    /// The transport's payload.
    #[default]
    Payload,
}

impl Region {
    /// The region's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Region::L2 => "l2",
            Region::L3 => "l3",
            Region::L4 => "l4",
            Region::Payload => "payload",
        }
    }
}

/// The slot of content: bit flips.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// Share of packets that are changed, in percent. A packet with nothing in the region stays as it is.
    #[schemars(example = 1)]
    pub percentage: f64,
    /// Bits flipped in each of them, 1 to 64, at different random places.
    #[serde(default = "one")]
    pub flip_bits: u32,
    /// What happens to checksums.
    #[serde(default)]
    pub checksum: Checksum,
    /// Where bits may be flipped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub region: Region,
}

fn one() -> u32 {
    1
}

impl Laws {
    /// Whether no slot holds a law.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.loss.is_none() && self.rate.is_none() && self.delay.is_none() && self.content.is_none()
    }

    /// All four stages in the order that holds.
    #[must_use]
    pub fn stages(&self) -> [Stage; 4] {
        let named = self.order.iter().flatten().copied();
        let mut out = Stage::DEFAULT_ORDER;
        let mut len = 0;
        for stage in named.chain(Stage::DEFAULT_ORDER) {
            if !out[..len].contains(&stage) {
                out[len] = stage;
                len += 1;
            }
        }
        out
    }

    /// These laws, with the slots that they leave empty taken from `base`.
    #[must_use]
    pub fn over(&self, base: &Laws) -> Laws {
        Laws {
            loss: self.loss.clone().or_else(|| base.loss.clone()),
            rate: self.rate.clone().or_else(|| base.rate.clone()),
            delay: self.delay.clone().or_else(|| base.delay.clone()),
            content: self.content.clone().or_else(|| base.content.clone()),
            order: self.order.clone().or_else(|| base.order.clone()),
        }
    }

    /// Checks every slot; `at` is the path of these laws in the document.
    ///
    /// # Errors
    /// [`ModelError::Field`] naming the first field that can't be run.
    pub fn check(&self, at: &str) -> Result<(), ModelError> {
        if let Some(loss) = &self.loss {
            loss.check(&format!("{at}.loss"))?;
        }
        if let Some(rate) = &self.rate {
            rate.check(&format!("{at}.rate"))?;
        }
        if let Some(delay) = &self.delay {
            delay.check(&format!("{at}.delay"))?;
        }
        if let Some(content) = &self.content {
            content.check(&format!("{at}.content"))?;
        }
        if let Some(order) = &self.order {
            for (i, stage) in order.iter().enumerate() {
                if order[..i].contains(stage) {
                    let given = format!("{} twice", stage.name());
                    return refuse(at, "order", given, "each stage at most once");
                }
            }
        }
        Ok(())
    }
}

impl Rate {
    fn check(&self, at: &str) -> Result<(), ModelError> {
        if !(1..=1_000_000_000_000).contains(&self.bits.0) {
            return refuse(at, "bits", self.bits, "1 bit/s to 1T");
        }
        if self.overhead() > 1000 {
            return refuse(at, "overhead_bytes", self.overhead(), "0 to 1000");
        }
        if let Some(QueueLimit::Time(span)) = self.queue
            && span > MAX_DELAY
        {
            return refuse(at, "queue", span, "up to 1h");
        }
        Ok(())
    }
}

impl Content {
    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_percentage(at, "percentage", self.percentage)?;
        if !(1..=MAX_FLIP_BITS).contains(&self.flip_bits) {
            return refuse(at, "flip_bits", self.flip_bits, "1 to 64");
        }
        Ok(())
    }
}
