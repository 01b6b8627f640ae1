//! Two clocks brought together: the peer's with ours, and REALTIME with MONOTONIC.

mod fit;
mod probe;
mod realtime;

#[cfg(test)]
mod tests;

pub use fit::ClockFit;
pub use probe::{ClockEstimator, ClockStep, Probe};
pub use realtime::{ClockReading, RealtimeMap};
