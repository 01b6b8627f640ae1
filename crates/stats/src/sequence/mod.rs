//! Exact accounting of a flow's sequence numbers: received, duplicate, late, reordered and lost packets.

mod config;
mod extender;
mod intervals;
mod loss_periods;
mod reorder;
mod tracker;
mod window;

#[cfg(test)]
mod tests;

pub use config::SequenceConfig;
pub use extender::{Extended, SequenceExtender};
pub use loss_periods::LossPeriods;
pub use reorder::ReorderExtent;
pub use tracker::{Arrival, Arrivals, SequenceCounts, SequenceSummary, SequenceTracker};
