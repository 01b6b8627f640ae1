//! A delay that oscillates as a sine.

super::cycle::cyclic_delay! {
    /// A delay that follows a sine between two bounds, from the minimum on.
    Sine;
    /// min + (max − min)·(1 − cos(2π·t/cycle))/2, with t the time since the first packet. Uses no draws.
    Swing;
    8.0f64.sqrt();
    |at_ns: u64, cycle_ns: u64| {
        let phase = at_ns as f64 / cycle_ns as f64;
        (1.0 - libm::cos(2.0 * core::f64::consts::PI * phase)) / 2.0
    }
}
