//! A delay that alternates between two values.

super::cycle::cyclic_delay! {
    /// A delay that is at its minimum for the first half of each cycle and at its maximum for the second.
    Square;
    /// min while t mod cycle < ⌈cycle/2⌉, else max, with t the time since the first packet. Uses no draws.
    Halves;
    2.0;
    |at_ns: u64, cycle_ns: u64| f64::from(u8::from(at_ns >= cycle_ns.div_ceil(2)))
}
