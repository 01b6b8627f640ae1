//! The rings that AF_XDP shares with the kernel: one side produces, the other consumes.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys::Mapping;

/// One end of a ring of `T`. `T` is `u64` (addresses: fill, completion) or `libc::xdp_desc` (frames: receive, send),
/// both plain integers. Counters run freely; the low bits are the index of the entry.
#[derive(Debug)]
pub(super) struct Ring<T> {
    map: Mapping,
    offsets: libc::xdp_ring_offset,
    mask: u32,
    /// This side's counter, ahead of its published value.
    ours: u32,
    /// The other side's counter as last read.
    theirs: u32,
    entries: std::marker::PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// Maps a ring of `size` entries, a power of two, with the kernel's layout.
    pub(super) fn new(
        fd: &OwnedFd,
        offsets: libc::xdp_ring_offset,
        size: u32,
        page_offset: libc::off_t,
    ) -> io::Result<Self> {
        let len = offsets.desc as usize + size as usize * size_of::<T>();
        let map = Mapping::new(Some(fd.as_raw_fd()), len, page_offset)?;
        let ring = Ring {
            map,
            offsets,
            mask: size - 1,
            ours: 0,
            theirs: 0,
            entries: std::marker::PhantomData,
        };
        Ok(ring)
    }

    pub(super) fn size(&self) -> u32 {
        self.mask + 1
    }

    #[inline]
    fn counter(&self, offset: u64) -> &AtomicU32 {
        let at = self.map.at(offset as usize, 4).cast::<u32>();
        // SAFETY: a counter of the ring, aligned by the kernel, in a mapping that lives as long as `self`;
        // both sides access it only atomically.
        unsafe { AtomicU32::from_ptr(at) }
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        self.counter(self.offsets.producer)
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        self.counter(self.offsets.consumer)
    }

    /// Whether the kernel needs a wake-up.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.counter(self.offsets.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    #[inline]
    fn place(&self, counter: u32) -> *mut T {
        let offset = self.offsets.desc as usize + (counter & self.mask) as usize * size_of::<T>();
        self.map.at(offset, size_of::<T>()).cast()
    }

    /// Number of entries that this end has pushed or popped, wrapping.
    pub(super) fn position(&self) -> u32 {
        self.ours
    }

    // Functions of a producer.

    /// Number of free entries; exact only if fewer than `wanted` seemed free.
    #[inline]
    pub(super) fn room(&mut self, wanted: u32) -> u32 {
        let free = self.size() - self.ours.wrapping_sub(self.theirs);
        if free >= wanted {
            return free;
        }
        self.theirs = self.consumer().load(Ordering::Acquire);
        self.size() - self.ours.wrapping_sub(self.theirs)
    }

    /// Writes the next entry; the caller has checked that there is [`Ring::room`].
    #[inline]
    pub(super) fn push(&mut self, entry: T) {
        // SAFETY: within the mapping (checked by `place`), aligned by the kernel's layout, and owned by
        // this side: the other side reads it only once the counter is published.
        unsafe { self.place(self.ours).write(entry) };
        self.ours = self.ours.wrapping_add(1);
    }

    /// Publishes the pushed entries to the kernel.
    #[inline]
    pub(super) fn publish(&mut self) {
        self.producer().store(self.ours, Ordering::Release);
    }

    /// Number of pushed entries that the kernel has not consumed. It consumes them in order.
    #[inline]
    pub(super) fn outstanding(&mut self) -> u32 {
        self.theirs = self.consumer().load(Ordering::Acquire);
        self.ours.wrapping_sub(self.theirs)
    }

    // Functions of a consumer.

    /// Entries that can be read.
    #[inline]
    pub(super) fn available(&mut self) -> u32 {
        if self.theirs == self.ours {
            self.theirs = self.producer().load(Ordering::Acquire);
        }
        self.theirs.wrapping_sub(self.ours)
    }

    /// Reads the next entry; the caller has checked that one is [`Ring::available`].
    #[inline]
    pub(super) fn pop(&mut self) -> T {
        // SAFETY: within the mapping, aligned, and written by the kernel before it published its counter (acquired by
        // `available`); the kernel writes it again only once this side's counter is published. Any bytes
        // are a valid `T`.
        let entry = unsafe { self.place(self.ours).read() };
        self.ours = self.ours.wrapping_add(1);
        entry
    }

    /// Returns the entries that were read to the kernel.
    #[inline]
    pub(super) fn consume(&mut self) {
        self.consumer().store(self.ours, Ordering::Release);
    }
}
