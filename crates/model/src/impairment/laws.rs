//! The laws of one direction of a flow: what is to happen to its packets, stage by stage.
//!
//! A slot with a choice of laws is a table with one of them set, so that a file reads
//! `loss = { percentage = 1 }` and a field that does not exist is refused by name.
//!
//! Forms are made from the schemas of these types alone. Beside JSON Schema's own words they say by `x-one-of` which
//! properties exclude each other (the laws of a slot, in the order in which they are offered), by `x-stage` which stage a
//! slot belongs to, and by `examples` values that are accepted together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::value::QueueLimit;
use crate::ModelError;
use crate::units::{BitRate, Span};

/// Longest delay that a law may state.
pub const MAX_DELAY: Span = Span::from_seconds(3600);
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

/// The slot of loss and duplication. At most one loss law is set.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("x-one-of" = ["percentage", "every_nth", "gilbert_elliott"]))]
pub struct Loss {
    /// Each packet is lost alone with this probability, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 1)]
    pub percentage: Option<f64>,
    /// Every n-th packet is lost, the n-th first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 100)]
    pub every_nth: Option<u64>,
    /// Bursty loss: a two-state Markov chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gilbert_elliott: Option<GilbertElliott>,
    /// Duplication. It is asked of packets that were not lost: a lost packet leaves no copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<Duplicate>,
}

/// The Gilbert-Elliott model, by wanted mean loss and mean burst length, or by its four probabilities.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("examples" = [{ "loss_percentage": 1, "mean_run": 3 }, { "good_to_bad_percentage": 1, "bad_to_good_percentage": 30 }]))]
pub struct GilbertElliott {
    /// Mean loss in percent, all of it in the bad state. Together with `mean_run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 1)]
    pub loss_percentage: Option<f64>,
    /// Mean length of a loss burst, packets, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 3)]
    pub mean_run: Option<f64>,
    /// Probability p of going from good to bad, in percent, asked for each packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 1)]
    pub good_to_bad_percentage: Option<f64>,
    /// Probability r of going from bad to good, in percent. Absent: all that p leaves (100 − p).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 30)]
    pub bad_to_good_percentage: Option<f64>,
    /// Loss in the bad state, 1 − h, in percent. Absent: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 100)]
    pub bad_loss_percentage: Option<f64>,
    /// Loss in the good state, 1 − k, in percent. Absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 0)]
    pub good_loss_percentage: Option<f64>,
}

/// The four probabilities of a [`GilbertElliott`] model, each 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chain {
    /// p: from good to bad.
    pub to_bad: f64,
    /// r: from bad to good.
    pub to_good: f64,
    /// 1 − h: loss in the bad state.
    pub bad_loss: f64,
    /// 1 − k: loss in the good state.
    pub good_loss: f64,
}

impl GilbertElliott {
    /// The four probabilities. From wanted loss l and mean run B: r = 1/B, p = l/(B(1 − l)).
    #[must_use]
    pub fn chain(&self) -> Chain {
        if let (Some(loss), Some(run)) = (self.loss_percentage, self.mean_run) {
            let l = loss / 100.0;
            return Chain {
                to_bad: l / (run * (1.0 - l)),
                to_good: 1.0 / run,
                bad_loss: 1.0,
                good_loss: 0.0,
            };
        }
        let part = |value: Option<f64>, default: f64| value.unwrap_or(default) / 100.0;
        let p = self.good_to_bad_percentage.unwrap_or(0.0);
        Chain {
            to_bad: p / 100.0,
            to_good: part(self.bad_to_good_percentage, 100.0 - p),
            bad_loss: part(self.bad_loss_percentage, 100.0),
            good_loss: part(self.good_loss_percentage, 0.0),
        }
    }
}

/// Duplication: one copy, right behind its original, with draws of its own in the later stages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Duplicate {
    /// Probability for each packet, in percent.
    #[schemars(example = 1)]
    pub percentage: f64,
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

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
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

/// The slot of delay and jitter. Exactly one law is set. Negative draws become 0.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("x-one-of" = ["constant", "uniform", "normal", "exponential"]))]
pub struct Delay {
    /// The same delay for each packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = "20ms")]
    pub constant: Option<Span>,
    /// Uniform between two bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uniform: Option<Uniform>,
    /// Normal (Gaussian).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normal: Option<Normal>,
    /// Exponential, from a least delay on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exponential: Option<Exponential>,
    /// What may happen to the order of packets.
    pub order: OrderPolicy,
}

/// A uniform delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Uniform {
    /// Least delay.
    #[schemars(example = "10ms")]
    pub min: Span,
    /// Greatest delay.
    #[schemars(example = "30ms")]
    pub max: Span,
}

/// A normal delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Normal {
    /// Mean delay.
    #[schemars(example = "20ms")]
    pub mean: Span,
    /// Standard deviation.
    #[schemars(example = "5ms")]
    pub deviation: Span,
}

/// An exponential delay: `min` and an exponential part of mean `mean` − `min`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exponential {
    /// Mean delay, `min` included, before `max` cuts it.
    #[schemars(example = "20ms")]
    pub mean: Span,
    /// Least delay. Absent: 0.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(example = "10ms")]
    pub min: Span,
    /// Greatest delay: longer draws become this. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = "100ms")]
    pub max: Option<Span>,
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

fn refuse(at: &str, field: &str, given: String, accepted: &str) -> Result<(), ModelError> {
    let field = if field.is_empty() { at.into() } else { format!("{at}.{field}") };
    Err(ModelError::Field { field, given, accepted: accepted.into() })
}

fn percentage(at: &str, field: &str, value: f64) -> Result<(), ModelError> {
    // A NaN is in no range.
    if (0.0..=100.0).contains(&value) {
        return Ok(());
    }
    refuse(at, field, value.to_string(), "0 to 100 percent")
}

impl Loss {
    fn check(&self, at: &str) -> Result<(), ModelError> {
        let set =
            [self.percentage.is_some(), self.every_nth.is_some(), self.gilbert_elliott.is_some()];
        let laws = set.iter().filter(|set| **set).count();
        if laws > 1 {
            let given = format!("{laws} loss laws");
            return refuse(at, "", given, "one of percentage, every_nth, gilbert_elliott");
        }
        if laws == 0 && self.duplicate.is_none() {
            return refuse(
                at,
                "",
                "no law".into(),
                "percentage, every_nth, gilbert_elliott or duplicate",
            );
        }
        if let Some(value) = self.percentage {
            percentage(at, "percentage", value)?;
        }
        if self.every_nth == Some(0) {
            return refuse(at, "every_nth", "0".into(), "1 or more");
        }
        if let Some(model) = &self.gilbert_elliott {
            model.check(&format!("{at}.gilbert_elliott"))?;
        }
        if let Some(duplicate) = &self.duplicate {
            percentage(&format!("{at}.duplicate"), "percentage", duplicate.percentage)?;
        }
        Ok(())
    }
}

impl GilbertElliott {
    fn check(&self, at: &str) -> Result<(), ModelError> {
        const FORM: &str =
            "loss_percentage with mean_run, or good_to_bad_percentage and those of its kind";
        let by_chain = [
            self.good_to_bad_percentage,
            self.bad_to_good_percentage,
            self.bad_loss_percentage,
            self.good_loss_percentage,
        ];
        match (self.loss_percentage, self.mean_run) {
            (Some(loss), Some(run)) if by_chain.iter().all(Option::is_none) => {
                if !(0.0..100.0).contains(&loss) {
                    return refuse(at, "loss_percentage", loss.to_string(), "0 to below 100");
                }
                if !(1.0..=1e9).contains(&run) {
                    return refuse(at, "mean_run", run.to_string(), "1 to 1000000000");
                }
                if self.chain().to_bad > 1.0 {
                    return refuse(
                        at,
                        "mean_run",
                        run.to_string(),
                        "at least loss/(100 − loss), which this loss requires",
                    );
                }
                Ok(())
            }
            (None, None) if self.good_to_bad_percentage.is_some() => {
                for (field, value) in [
                    ("good_to_bad_percentage", by_chain[0]),
                    ("bad_to_good_percentage", by_chain[1]),
                    ("bad_loss_percentage", by_chain[2]),
                    ("good_loss_percentage", by_chain[3]),
                ] {
                    percentage(at, field, value.unwrap_or(0.0))?;
                }
                let chain = self.chain();
                if chain.to_bad + chain.to_good == 0.0 {
                    return refuse(at, "", "no transitions".into(), "p + r above 0");
                }
                Ok(())
            }
            _ => refuse(at, "", "an incomplete or mixed set".into(), FORM),
        }
    }
}

impl Rate {
    fn check(&self, at: &str) -> Result<(), ModelError> {
        if !(1..=1_000_000_000_000).contains(&self.bits.0) {
            return refuse(at, "bits", self.bits.to_string(), "1 bit/s to 1T");
        }
        if self.overhead() > 1000 {
            return refuse(at, "overhead_bytes", self.overhead().to_string(), "0 to 1000");
        }
        if let Some(QueueLimit::Time(span)) = self.queue
            && span > MAX_DELAY
        {
            return refuse(at, "queue", span.to_string(), "up to 1h");
        }
        Ok(())
    }
}

impl Delay {
    fn check(&self, at: &str) -> Result<(), ModelError> {
        let set = [
            self.constant.is_some(),
            self.uniform.is_some(),
            self.normal.is_some(),
            self.exponential.is_some(),
        ];
        let laws = set.iter().filter(|set| **set).count();
        if laws != 1 {
            let given = format!("{laws} delay laws");
            return refuse(at, "", given, "one of constant, uniform, normal, exponential");
        }
        let within = |field: &str, span: Span| {
            if span <= MAX_DELAY {
                return Ok(());
            }
            refuse(at, field, span.to_string(), "up to 1h")
        };
        if let Some(span) = self.constant {
            within("constant", span)?;
        }
        if let Some(Uniform { min, max }) = self.uniform {
            within("uniform.max", max)?;
            if min > max {
                return refuse(at, "uniform.min", min.to_string(), "at most max");
            }
        }
        if let Some(Normal { mean, deviation }) = self.normal {
            within("normal.mean", mean)?;
            within("normal.deviation", deviation)?;
        }
        if let Some(Exponential { mean, min, max }) = self.exponential {
            within("exponential.mean", mean)?;
            within("exponential.max", max.unwrap_or_default())?;
            if min > mean {
                return refuse(at, "exponential.min", min.to_string(), "at most the mean");
            }
            if max.is_some_and(|max| max < min) {
                let given = max.unwrap_or_default().to_string();
                return refuse(at, "exponential.max", given, "at least min");
            }
        }
        Ok(())
    }
}

impl Content {
    fn check(&self, at: &str) -> Result<(), ModelError> {
        percentage(at, "percentage", self.percentage)?;
        if !(1..=MAX_FLIP_BITS).contains(&self.flip_bits) {
            return refuse(at, "flip_bits", self.flip_bits.to_string(), "1 to 64");
        }
        Ok(())
    }
}
