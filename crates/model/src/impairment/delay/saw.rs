//! A sawtooth delay.

super::cycle::cyclic_delay! {
    /// A delay that rises linearly from its minimum to its maximum in each cycle, and falls back at its end.
    Saw;
    /// min + (max − min)·(t mod cycle)/cycle, with t the time since the first packet. Uses no draws.
    Teeth;
    12.0f64.sqrt();
    |at_ns: u64, cycle_ns: u64| at_ns as f64 / cycle_ns as f64
}
