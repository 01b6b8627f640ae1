//! What is measured, as pure arithmetic: sequence accounting, jitter, delay, clock fit, histograms, link usage.

mod jitter;
mod sequence;

pub use jitter::Jitter;
pub use sequence::{
    Arrival, Arrivals, CountSummary, CountTracker, Extended, LossRuns, ReorderExtent,
    SequenceConfig, SequenceCounts, SequenceExtender, SequenceSummary, SequenceTracker,
};
