//! Checks with a counting allocator that frames pass a warm link without an allocation.
#![cfg(target_os = "linux")]

#[allow(dead_code)]
mod path;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use path::{RawSocket, path};
use weir_link::{Handle, LinkOptions, Mode, Slabs};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: every call is passed to the system's allocator unchanged; counting does not access its memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn frame(len: usize) -> Vec<u8> {
    let mut frame = vec![7; len];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame
}

#[test]
fn a_warm_link_does_not_allocate() {
    for mode in [Mode::Packet, Mode::XdpNative, Mode::XdpGeneric] {
        let Some(path) = path("a_warm_link_does_not_allocate", 1500) else { return };
        let mut a = path.link("A", mode, &LinkOptions::default()).expect("A");
        let mut b = path.link("B", mode, &LinkOptions::default()).expect("B");
        let source = RawSocket::open(&path.a, "ea");
        let frames = [frame(60), frame(600), frame(1514)];
        let mut slabs = Slabs::new(8 << 20);
        let mut received = Vec::with_capacity(64);
        let mut handles: Vec<Handle> = Vec::with_capacity(64);
        let mut passed = 0;
        let mut pass = |frames: &[Vec<u8>], rounds: u32| {
            for _ in 0..rounds {
                for frame in frames {
                    source.send(frame).expect("send");
                }
                let mut missing = frames.len();
                while missing > 0 {
                    received.clear();
                    missing -= a.receiver.recv(&mut slabs, 64, &mut received).expect("recv");
                    handles.clear();
                    handles.extend(received.iter().map(|frame| frame.handle));
                    let mut sent = 0;
                    while sent < handles.len() {
                        sent += b.transmitter.send(&slabs, &handles[sent..]).expect("send");
                    }
                    passed += sent;
                    handles.iter().for_each(|handle| slabs.release(*handle));
                }
                a.receiver.statistics().expect("statistics");
            }
        };
        pass(&frames, 1000);
        let before = ALLOCATIONS.with(Cell::get);
        pass(&frames, 1000);
        let after = ALLOCATIONS.with(Cell::get);
        assert!(before > 0, "nothing was counted");
        assert_eq!(passed, 6000, "{mode}");
        assert_eq!(after - before, 0, "{mode}: allocations in 3000 frames");
    }
}
