//! What is measured, as pure arithmetic: sequence accounting, jitter, delay, clock fit, histograms, link usage.

mod delay;
mod histogram;
mod jitter;
mod sequence;

pub use delay::{DelaySummary, Ipdv, Time32Unwrapper};
pub use histogram::{Histogram, samples_needed};
pub use jitter::Jitter;
pub use sequence::{
    Arrival, Arrivals, CountSummary, CountTracker, Extended, LossRuns, ReorderExtent,
    SequenceConfig, SequenceCounts, SequenceExtender, SequenceSummary, SequenceTracker,
};
