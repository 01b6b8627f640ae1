//! The slot of rate and queue: a link of a limited rate.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::background::Background;
use super::delay::MAX_DELAY;
use super::delivery::{DeliveryTrace, LinkRate, TRACE_OVERHEAD_BYTES};
use super::queue::Aqm;
use super::slot::Slot;
use super::value::{QueueLimit, whole, word_serde};
use crate::ModelError;
use crate::law::Words;
use crate::law::refuse;
use crate::units::{BitRate, ByteSize};

/// Default framing bytes of a packet in addition to its network layer: Ethernet header and check sequence.
pub(crate) const DEFAULT_OVERHEAD_BYTES: u32 = 18;

/// Maximum size of a token bucket.
const MAX_BURST_BYTES: u64 = 1 << 30;

/// Cells of a link: packets are cut into pieces of equal size, the last of which is padded. ATM has cells of 48 bytes with a header
/// of 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cells {
    /// Bytes of a packet in each cell.
    pub payload: u32,
    /// Header of a cell in bytes.
    pub header: u32,
}

const CELLS_FORM: &str = "bytes of a packet and of the header in each cell, such as 48+5 (ATM)";

impl FromStr for Cells {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let parts = text.split_once('+').map(|(payload, header)| (whole(payload), whole(header)));
        match parts {
            Some((Some(payload), Some(header))) => Ok(Self { payload, header }),
            _ => Err(ModelError::Value { what: "cells", given: text.into(), accepted: CELLS_FORM }),
        }
    }
}

impl fmt::Display for Cells {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}+{}", self.payload, self.header)
    }
}

word_serde!(
    Cells,
    "bytes of a packet and of the header in each cell, such as 48+5 (ATM)",
    ["48+5"]
);

/// What a link adds to packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    overhead: u32,
    cells: Option<Cells>,
}

impl Framing {
    /// Framing bytes alone, without cells.
    pub(super) const fn of_overhead(overhead: u32) -> Self {
        Self { overhead, cells: None }
    }

    /// The minimum of bytes on the link of `packets` with this many bytes of network layer together: of full cells.
    #[must_use]
    pub fn min_bytes(self, packets: u64, network_bytes: u64) -> u64 {
        let framed = network_bytes.saturating_add(packets.saturating_mul(self.overhead.into()));
        let Some(Cells { payload, header }) = self.cells else { return framed };
        let (payload, header) = (u128::from(payload.max(1)), u128::from(header));
        u64::try_from(u128::from(framed) * (payload + header) / payload).unwrap_or(u64::MAX)
    }

    /// The bytes on the link of a packet with this many bytes of network layer, which may be negative for frames without one.
    #[inline]
    #[must_use]
    pub fn bytes(self, network_bytes: i64) -> u32 {
        let framed = (network_bytes + i64::from(self.overhead)).max(0) as u64;
        let on_link = match self.cells {
            // A checked configuration has cells of 1 byte or more.
            Some(Cells { payload, header }) => {
                let cells = framed.div_ceil(u64::from(payload.max(1)));
                cells.saturating_mul(u64::from(payload) + u64::from(header))
            }
            None => framed,
        };
        u32::try_from(on_link).unwrap_or(u32::MAX)
    }
}

/// A link of a limited rate with a queue before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = crate::schema::in_order::<Rate>)]
pub struct Rate {
    /// Rate in bit/s, framing overhead included; or a trace of delivery opportunities as in mahimahi, at each of which up to 1504 bytes
    /// leave.
    #[schemars(title = "Rate", extend("x-unit" = "bit/s"))]
    pub bits: LinkRate,
    /// Bytes that may leave without waiting after a pause, 1 to 1G: the bucket of a shaper, which the rate fills. A packet for which
    /// it has too few tokens waits for them. Absent: none, as on a link, where each packet takes its time of transmission. Not with a
    /// trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = "32K")]
    pub burst: Option<ByteSize>,
    /// Rate in bit/s at which the bytes of a burst leave, more than `bits`. Only with `burst`. Absent: immediately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Peak rate", example = "100M")]
    pub peak: Option<BitRate>,
    /// Limit of the queue: a time, a size or packets. Absent: the larger of 250 ms at the rate and 16 full
    /// frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Queue limit")]
    pub queue: Option<QueueLimit>,
    /// Active queue management. Absent: packets that find it full are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "AQM")]
    pub aqm: Option<Aqm>,
    /// Load of other traffic on the link. Absent: none. Not with an AQM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Background load")]
    pub background: Option<Background>,
    /// Framing bytes of each packet in addition to its network layer, 0 to 1000. Absent: 18, Ethernet header
    /// and check sequence; with a trace 4, as in mahimahi. 38 includes preamble and gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 38)]
    pub overhead_bytes: Option<u32>,
    /// Cells into which packets, with their framing bytes, are cut. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = "48+5")]
    pub cells: Option<Cells>,
}

impl Rate {
    /// A link of mahimahi with its default queue, which has no limit of its own.
    #[must_use]
    pub fn of_mahimahi(trace: DeliveryTrace) -> Self {
        Rate {
            bits: LinkRate::Trace(trace),
            burst: None,
            peak: None,
            queue: Some(QueueLimit::Bytes(ByteSize(1 << 40))),
            aqm: None,
            background: None,
            overhead_bytes: None,
            cells: None,
        }
    }

    /// Framing bytes of each packet in addition to its network layer.
    #[must_use]
    pub fn overhead(&self) -> u32 {
        let default = match &self.bits {
            LinkRate::Constant(_) => DEFAULT_OVERHEAD_BYTES,
            LinkRate::Trace(_) => TRACE_OVERHEAD_BYTES,
        };
        self.overhead_bytes.unwrap_or(default)
    }

    /// What the link adds to packets.
    #[must_use]
    pub fn framing(&self) -> Framing {
        Framing { overhead: self.overhead(), cells: self.cells }
    }

    /// The queue's limit, with the default resolved: 250 ms at the mean rate, but at least 16 frames, as 250 ms at 20 kbit/s is
    /// less than one.
    #[must_use]
    pub fn queue_limit(&self) -> QueueLimit {
        let full_frames = 16 * u64::from(1500 + self.overhead());
        let default = || {
            QueueLimit::Bytes(crate::units::ByteSize((self.bits.mean().0 / 32).max(full_frames)))
        };
        self.queue.unwrap_or_else(default)
    }
}

static FORM: LazyLock<String> = LazyLock::new(|| {
    format!(
        "rate R [burst B [peak R]] [queue T|B|Npackets] [AQM|background P% [run N]] [overhead N] [cells N+N], such as rate 10M, rate 2.5G or rate 100Mbit (bits per second), or trace(MS …) [once] instead of R, with AQM one of {}, then its parameters, such as codel target 5ms ecn",
        Aqm::NAMES.join(", ")
    )
});

impl Slot for Rate {
    const TERM: &'static str = "rate";
    const OTHER_NAMES: &'static [&'static str] = &[
        "bandwidth",
        "bw",
        "throughput",
        "shape",
        "shaper",
        "tbf",
        "aqm",
        "red",
        "pie",
        "codel",
        "fq_codel",
        "dualpi2",
        "background",
        "load",
        "trace",
        "mahimahi",
    ];
    const IS_SHARED: bool = true;

    fn form() -> &'static str {
        &FORM
    }

    fn read(words: &mut Words) -> Result<Self, ModelError> {
        let bits = match words.took("trace") {
            true => {
                let milliseconds = words.take_arguments().ok_or_else(|| words.bad())?;
                LinkRate::of_trace(milliseconds, words.took("once"))?
            }
            false => LinkRate::Constant(words.value()?),
        };
        let burst = if words.took("burst") { Some(words.value()?) } else { None };
        let peak = if words.took("peak") { Some(words.value()?) } else { None };
        let queue = if words.took("queue") { Some(words.value()?) } else { None };
        let aqm = Aqm::read(words)?;
        let background =
            if words.took("background") { Some(Background::read(words)?) } else { None };
        let overhead_bytes = if words.took("overhead") { Some(words.value()?) } else { None };
        let cells = if words.took("cells") { Some(words.value()?) } else { None };
        Ok(Rate { bits, burst, peak, queue, aqm, background, overhead_bytes, cells })
    }

    fn text(&self) -> String {
        let mut text = format!("rate {}", self.bits);
        if let Some(burst) = &self.burst {
            text += &format!(" burst {burst}");
        }
        if let Some(peak) = &self.peak {
            text += &format!(" peak {peak}");
        }
        if let Some(queue) = &self.queue {
            text += &format!(" queue {queue}");
        }
        if let Some(aqm) = &self.aqm {
            text += &format!(" {}", aqm.text());
        }
        if let Some(background) = &self.background {
            text += &format!(" {}", background.text());
        }
        if let Some(overhead) = &self.overhead_bytes {
            text += &format!(" overhead {overhead}");
        }
        if let Some(cells) = &self.cells {
            text += &format!(" cells {cells}");
        }
        text
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        if let LinkRate::Constant(bits) = self.bits {
            check_rate(at, "bits", bits)?;
        }
        if let Some(burst) = self.burst {
            check_burst(at, "burst", burst)?;
            if self.bits.trace().is_some() {
                return refuse(at, "burst", burst, "no burst together with a trace");
            }
        }
        if let Some(peak) = self.peak {
            check_rate(at, "peak", peak)?;
            if self.burst.is_none() || peak <= self.bits.mean() {
                return refuse(at, "peak", peak, "a rate above `bits`, together with `burst`");
            }
        }
        if let Some(aqm) = &self.aqm {
            aqm.check(&format!("{at}.aqm"))?;
        }
        if let Some(background) = &self.background {
            background.check(&format!("{at}.background"))?;
            if self.aqm.is_some() {
                return refuse(
                    at,
                    "background",
                    background.text(),
                    "no background load together with an AQM",
                );
            }
        }
        check_overhead(at, self.overhead())?;
        if let Some(cells) = self.cells
            && (!(1..=10_000).contains(&cells.payload) || cells.header > 1000)
        {
            return refuse(at, "cells", cells, "1 to 10000 bytes and a header of 0 to 1000");
        }
        if let Some(QueueLimit::Time(span)) = self.queue
            && span > MAX_DELAY
        {
            return refuse(at, "queue", span, "up to 1h");
        }
        Ok(())
    }
}

pub(super) fn check_rate(at: &str, field: &'static str, rate: BitRate) -> Result<(), ModelError> {
    match rate.0 {
        1..=1_000_000_000_000 => Ok(()),
        _ => refuse(at, field, rate, "1 bit/s to 1T"),
    }
}

pub(super) fn check_burst(
    at: &str,
    field: &'static str,
    burst: ByteSize,
) -> Result<(), ModelError> {
    match burst.0 {
        1..=MAX_BURST_BYTES => Ok(()),
        _ => refuse(at, field, burst, "1 to 1G"),
    }
}

pub(super) fn check_overhead(at: &str, bytes: u32) -> Result<(), ModelError> {
    match bytes {
        0..=1000 => Ok(()),
        _ => refuse(at, "overhead_bytes", bytes, "0 to 1000"),
    }
}
