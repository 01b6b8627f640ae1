//! The arithmetic of measurement: sequences, delay, jitter, clocks, link usage and comparisons.
//!
//! Nothing here has a clock, a socket or a thread: the caller passes times as `u64` nanoseconds, and the
//! same calls return the same figures on any machine. Each metric is defined, with source, unit and error,
//! at its type and in docs/METHODOLOGY.md. An unknown figure is absent, never zero.
//!
//! - Accounting by sequence number: [`SequenceTracker`], with [`SequenceExtender`] for numbers of fewer
//!   bits.
//! - Times of packets: [`Jitter`], [`DelaySummary`], [`Ipdv`], [`Spacing`]; [`Histogram`] under them.
//! - Clocks: [`ClockEstimator`] and its [`ClockFit`] for the peer's, [`RealtimeMap`] for the kernel's stamps,
//!   [`Time32Unwrapper`] for short headers, [`DayUnwrapper`] for times of day.
//! - Volume: [`LinkShape`].
//! - Voice by the E-model: [`VoicePath`].
//! - Repetitions: [`Sample`]; [`compare`] tests whether two sets of figures differ and computes effective
//!   sample sizes and the saturation point of a sweep.
//!
//! ```
//! use weir_stats::{Arrival, DelaySummary, Jitter, SequenceConfig, SequenceTracker};
//!
//! let mut sequence = SequenceTracker::new(SequenceConfig::default());
//! let (mut jitter, mut delay) = (Jitter::new(), DelaySummary::new());
//! for (number, sent_ns, received_ns) in [(0, 1_000, 51_000), (2, 3_000, 53_400), (1, 2_000, 53_900)] {
//!     if !matches!(sequence.on_packet(number, received_ns), Arrival::Duplicate | Arrival::Implausible) {
//!         jitter.on_packet(sent_ns, received_ns);
//!         delay.record(received_ns as i64 - sent_ns as i64);
//!     }
//! }
//! let summary = sequence.finish(Some(4), 60_000);
//! assert_eq!((summary.counts.received, summary.counts.lost, summary.counts.reordered), (3, 1, 1));
//! assert_eq!(delay.min_ns(), Some(50_000));
//! ```

mod ci;
mod clock;
pub mod compare;
mod delay;
mod error;
mod hdr;
mod histogram;
mod jitter;
mod linkusage;
mod sequence;
mod signed;
mod spacing;
mod voice;

#[doc(hidden)]
pub mod fuzz;

pub use ci::{Sample, student_t_quantile};
pub use clock::{ClockEstimator, ClockFit, ClockReading, ClockStep, Probe, RealtimeMap};
pub use delay::{DayUnwrapper, DelaySummary, Ipdv, Time32Unwrapper};
pub use error::StatsError;
pub use histogram::Histogram;
pub use jitter::Jitter;
pub use linkusage::{LinkBytes, LinkFamily, LinkShape, LinkTransport};
pub use sequence::{
    Arrival, Arrivals, Extended, LossPeriods, ReorderExtent, SequenceConfig, SequenceCounts,
    SequenceExtender, SequenceSummary, SequenceTracker,
};
pub use spacing::Spacing;
pub use voice::{VoicePath, burst_ratio, mean_opinion_score};
