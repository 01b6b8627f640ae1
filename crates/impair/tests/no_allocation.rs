//! Checks with a counting allocator that the packet path does not allocate once it is warm.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use weir_impair::Engine;
use weir_laws::Direction;
use weir_model::impairment::Impairment;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed to the system's allocator unchanged; counting does not access its memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A UDP datagram to a port, in an Ethernet frame.
fn frame(port: u16) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 9]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 26, 0, 0]);
    frame.extend([7; 18]);
    frame
}

#[test]
fn a_warm_engine_does_not_allocate() {
    let file = r#"
        schema = "weir.impair/1"
        [[flow]]
        name = "a"
        filter = { destination_port = 1 }
        a_to_b = { loss = { gilbert_elliott = { loss_percentage = 5, mean_run = 4 } }, rate = { bits = "1G" }, delay = { normal = { mean = "2ms", deviation = "1ms" }, order = "allow" } }
        [[flow]]
        name = "b"
        filter = { destination_port = 2 }
        a_to_b = { loss = { percentage = 1 }, duplicate = { percentage = 5 }, delay = { exponential = { mean = "2ms" } }, content = { percentage = 5, checksum = "repair" } }
        [[flow]]
        name = "c"
        filter = { destination_port = 3 }
        a_to_b = { rate = { bits = "50M", queue = "20packets" }, delay = { constant = "3ms" } }
        [[flow]]
        name = "d"
        filter = { destination_port = 4 }
        a_to_b = "loss outage(interval=exponential(mean=30ms), duration=1ms) ecn, delay gamma(shape=2, scale=1ms) smooth half-life 5ms, corrupt bleach-ecn 50%"
        [[flow]]
        name = "e"
        filter = { destination_port = 5 }
        a_to_b = "loss gap(mixture(exponential(mean=9):1, poisson(mean=5):1)), delay mixture(exponential(mean=4ms):3, histogram(1ms..2ms:1, 3ms..4ms:1):1)"
        [[flow]]
        name = "f"
        filter = { destination_port = 6 }
        a_to_b = "loss list(packets=3 7-9, every=20), delay values(1ms, 2ms, 3ms) allow"
        [[flow]]
        name = "g"
        filter = { destination_port = 7 }
        a_to_b = "duplicate 20% copies 2 after exponential(mean=1ms), reorder 20% by 4packets, batch 3 within 5ms"
        [[flow]]
        name = "h"
        filter = { destination_port = 8 }
        a_to_b = "reorder every 3 by 2packets ahead, batch every 1ms packets 300, corrupt 50% repair set 00ff"
        [other]
        a_to_b = { delay = { uniform = { min = "1ms", max = "2ms" }, order = "max" } }
    "#;
    let config = Impairment::parse(file).expect("the file above");
    let mut engine = Engine::new(&config, Direction::Forward).expect("as checked");
    let frames: Vec<Vec<u8>> = (0..10).map(frame).collect();
    let mut metas = Vec::with_capacity(32);
    let mut dispositions = Vec::with_capacity(4096);
    let mut now = 0u64;
    let mut queued = 0;
    let mut run = |rounds: u32, engine: &mut Engine| {
        for round in 0..rounds {
            metas.clear();
            dispositions.clear();
            for i in 0..32 {
                now += 1_000;
                metas.push(engine.meta(i, now, &frames[((i + round) % 10) as usize]));
            }
            engine.step(now, &metas, &mut dispositions);
            queued = queued.max(engine.held_packets());
        }
    };
    run(10_000, &mut engine);
    let before = ALLOCATIONS.with(Cell::get);
    run(10_000, &mut engine);
    let after = ALLOCATIONS.with(Cell::get);
    assert!(before > 0, "nothing was counted");
    assert!(queued > 1000, "only {queued} packets were queued");
    assert_eq!(after - before, 0, "allocations in 320 000 packets");
}
