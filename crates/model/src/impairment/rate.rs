//! The slot of rate and queue: a link of a limited rate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::delay::MAX_DELAY;
use super::slot::Slot;
use super::value::QueueLimit;
use crate::ModelError;
use crate::law::Words;
use crate::law::{is_default, refuse};
use crate::units::BitRate;

/// Default framing bytes of a packet in addition to its network layer: Ethernet header and check sequence.
pub(crate) const DEFAULT_OVERHEAD_BYTES: u32 = 18;

/// What happens when the queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// Arriving packets are dropped.
    #[default]
    TailDrop,
}

/// A link of a limited rate with a queue before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = crate::schema::in_order::<Rate>)]
pub struct Rate {
    /// Rate in bit/s, framing overhead included.
    #[schemars(title = "Rate")]
    pub bits: BitRate,
    /// Limit of the queue: a time, a size or packets. Absent: the larger of 250 ms at the rate and 16 full
    /// frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Queue limit")]
    pub queue: Option<QueueLimit>,
    /// Policy of a full queue.
    #[serde(default, skip_serializing_if = "is_default")]
    pub discipline: Discipline,
    /// Framing bytes of each packet in addition to its network layer, 0 to 1000. Absent: 18, Ethernet header
    /// and check sequence. 38 includes preamble and gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 38)]
    pub overhead_bytes: Option<u32>,
}

impl Rate {
    /// Framing bytes of each packet in addition to its network layer.
    #[must_use]
    pub fn overhead(&self) -> u32 {
        self.overhead_bytes.unwrap_or(DEFAULT_OVERHEAD_BYTES)
    }

    /// The queue's limit, with the default resolved: 250 ms, but at least 16 frames, as 250 ms at 20 kbit/s is
    /// less than one.
    #[must_use]
    pub fn queue_limit(&self) -> QueueLimit {
        let full_frames = 16 * u64::from(1500 + self.overhead());
        let default =
            || QueueLimit::Bytes(crate::units::ByteSize((self.bits.0 / 32).max(full_frames)));
        self.queue.unwrap_or_else(default)
    }
}

impl Slot for Rate {
    const TERM: &'static str = "rate";
    const OTHER_NAMES: &'static [&'static str] = &["bandwidth", "bw", "throughput"];
    const IS_SHARED: bool = true;

    fn form() -> &'static str {
        "rate R [queue T|B|Npackets] [overhead N], such as rate 10M, rate 2.5G or rate 100Mbit (bits per second)"
    }

    fn read(words: &mut Words) -> Result<Self, ModelError> {
        let bits = words.value()?;
        let queue = if words.took("queue") { Some(words.value()?) } else { None };
        let overhead_bytes = if words.took("overhead") { Some(words.value()?) } else { None };
        Ok(Rate { bits, queue, discipline: Discipline::TailDrop, overhead_bytes })
    }

    fn text(&self) -> String {
        let mut text = format!("rate {}", self.bits);
        if let Some(queue) = &self.queue {
            text += &format!(" queue {queue}");
        }
        if let Some(overhead) = &self.overhead_bytes {
            text += &format!(" overhead {overhead}");
        }
        text
    }

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
