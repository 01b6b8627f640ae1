//! Relations between clocks: the peer's to ours, and REALTIME to MONOTONIC.

mod fit;
mod probe;
mod realtime;

#[cfg(test)]
mod tests;

pub use fit::ClockFit;
pub use probe::{ClockEstimator, ClockStep, Probe};
pub use realtime::{ClockReading, RealtimeMap};
