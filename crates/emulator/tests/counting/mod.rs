//! An allocator that counts, and a link that makes and takes frames without allocating.
// Each test file is a crate of its own and uses its part.
#![allow(unsafe_code, dead_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_link::{
    Description, Handle, Link, Mode, Receive, ReceiveStatistics, Received, Result, Slabs,
    StampSource, Transmit, TransmitStatistics,
};
use weir_net::clock::Clock;

thread_local! {
    /// Whether this thread's allocations are counted.
    static COUNTING: Cell<bool> = const { Cell::new(false) };
}

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);

struct Counting;

fn count(bytes: usize) {
    LIVE_BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
    // A thread that ends has none any more, and is not counted.
    if COUNTING.try_with(Cell::get).unwrap_or(false) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

fn discount(bytes: usize) {
    LIVE_BYTES.fetch_sub(bytes as u64, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator as it came; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        discount(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        discount(layout.size());
        count(size);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of the threads that were counted, while they were.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// Bytes allocated now, by all threads.
pub(crate) fn live_bytes() -> u64 {
    LIVE_BYTES.load(Ordering::Relaxed)
}

/// What a source does and a sink has seen.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Frames that the source has still to give.
    pub(crate) to_give: AtomicU64,
    pub(crate) given: AtomicU64,
    pub(crate) sent: AtomicU64,
    /// The thread that receives is counted while this is 1.
    pub(crate) counting: AtomicU64,
    /// `counting` as that thread last saw it.
    pub(crate) seen: AtomicU64,
}

/// A link that gives `frames` in turn, as fast as they are taken, and swallows what is sent. Without frames it only
/// swallows.
pub(crate) fn link(name: &str, frames: Vec<Vec<u8>>) -> (Link, Arc<Progress>) {
    let progress = Arc::new(Progress::default());
    let (bell, ringer) = UnixDatagram::pair().unwrap();
    if !frames.is_empty() {
        // Readable forever.
        ringer.send(&[0]).unwrap();
    }
    let bell = Arc::new((bell, ringer));
    let link = Link {
        receiver: Box::new(Source { frames, progress: progress.clone(), bell: bell.clone() }),
        transmitter: Box::new(Sink { progress: progress.clone(), bell }),
        description: Description {
            interface: name.into(),
            mode: Mode::Memory,
            reason: None,
            stamps: StampSource::Given,
            queues: 1,
            ring_frames: u32::MAX,
            max_frame_bytes: 1514,
            notes: Vec::new(),
        },
    };
    (link, progress)
}

struct Source {
    frames: Vec<Vec<u8>>,
    progress: Arc<Progress>,
    bell: Arc<(UnixDatagram, UnixDatagram)>,
}

impl Receive for Source {
    fn recv(&mut self, slabs: &mut Slabs, most: usize, out: &mut Vec<Received>) -> Result<usize> {
        let counting = self.progress.counting.load(Ordering::Relaxed);
        COUNTING.with(|on| on.set(counting == 1));
        self.progress.seen.store(counting, Ordering::Relaxed);
        let ingress_ns = Clock::System.monotonic_ns();
        let given = self.progress.given.load(Ordering::Relaxed);
        let count = self.progress.to_give.load(Ordering::Relaxed).min(most as u64);
        let mut taken = 0;
        for at in given..given + count {
            let frame = &self.frames[at as usize % self.frames.len()];
            let Some(handle) = slabs.insert(frame) else { continue };
            out.push(Received { handle, len: frame.len() as u32, ingress_ns });
            taken += 1;
        }
        self.progress.given.store(given + count, Ordering::Relaxed);
        self.progress.to_give.fetch_sub(count, Ordering::Relaxed);
        Ok(taken)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.bell.0.as_fd()
    }

    fn statistics(&mut self) -> Result<ReceiveStatistics> {
        Ok(ReceiveStatistics::default())
    }
}

struct Sink {
    progress: Arc<Progress>,
    bell: Arc<(UnixDatagram, UnixDatagram)>,
}

impl Transmit for Sink {
    fn send(&mut self, _: &Slabs, frames: &[Handle]) -> Result<usize> {
        self.progress.sent.fetch_add(frames.len() as u64, Ordering::Relaxed);
        Ok(frames.len())
    }

    fn refused(&self) -> &[u32] {
        &[]
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.bell.1.as_fd()
    }

    fn statistics(&self) -> TransmitStatistics {
        TransmitStatistics::default()
    }
}

/// A UDP datagram in an Ethernet frame of 60 bytes.
pub(crate) fn frame(port: u16) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 9]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 26, 0, 0]);
    frame.extend([7; 18]);
    frame
}

/// Waits for something that comes surely; the limit only ends a broken test.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed().as_secs() < 120, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
