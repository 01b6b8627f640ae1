//! Every test of this crate in one program: one link instead of many.
// A helper that can't go on is a failed test; helpers are shared, and not every test uses each.
#![allow(dead_code, clippy::unwrap_used)]

use std::time::{Duration, Instant};

mod between;
mod clock;
mod recordings;
mod replay;
mod workers;

/// Ends a broken test; no good one comes near it.
const LIMIT: Duration = Duration::from_secs(30);

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
