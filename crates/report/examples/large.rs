//! Time to write the page of an hour of 16 flows, and its size: `cargo run --release -p weir-report --example large`.
// A benchmark program: a panic may end it.
#![allow(clippy::unwrap_used)]

#[path = "../tests/all/support/mod.rs"]
mod support;

use std::time::Instant;

fn main() {
    let json = weir_report::json_line(&support::large(16, 3600));
    let started = Instant::now();
    let record = serde_json::from_str(&json).unwrap();
    let read = started.elapsed();
    let page = weir_report::page::html(&weir_report::page::of_run(&record));
    println!(
        "record {} bytes read in {:.3} s, page of {} bytes written in {:.3} s",
        json.len(),
        read.as_secs_f64(),
        page.len(),
        (started.elapsed() - read).as_secs_f64()
    );
}
