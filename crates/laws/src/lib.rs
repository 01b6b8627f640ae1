//! Seeded randomness: counter-based generator, distributions. No clock, no global state.
