//! Copies frames from the receive rings of all queues into slabs.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use weir_net::clock::Clock;

use super::ring::Ring;
use super::umem::Umem;
use super::{Shared, TRANSMIT_FRAMES, TransmitParts, address, bind, offsets};
use crate::checksum::complete_if_partial;
use crate::error::{Error, Result};
use crate::link::{Receive, ReceiveStatistics, Received};
use crate::slabs::Slabs;
use crate::sys::{self, Device};

/// One receive queue: its socket, its memory, its rings.
pub(super) struct Queue {
    fd: OwnedFd,
    umem: Arc<Umem>,
    receive: Ring<libc::xdp_desc>,
    fill: Ring<u64>,
    /// Number of chunks that belong to the receiving half.
    chunks: u32,
    transmit: Option<TransmitParts>,
}

impl Queue {
    /// Opens and binds the sockets of a queue, which also sends if asked to. The error `EINVAL` means that the queue does not exist.
    pub(super) fn open(
        device: &Device,
        queue: u32,
        sends: bool,
        chunk_bytes: u32,
        frames: u32,
        flags: u16,
    ) -> io::Result<Self> {
        let fd = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0)?;
        let transmit_chunks = if sends { TRANSMIT_FRAMES } else { 0 };
        let umem = Arc::new(Umem::new(chunk_bytes, frames + transmit_chunks)?);
        umem.register(&fd)?;
        let set = |fd: &OwnedFd, name, value: u32| sys::set_option(fd, libc::SOL_XDP, name, &value);
        set(&fd, libc::XDP_UMEM_FILL_RING, frames)?;
        set(&fd, libc::XDP_UMEM_COMPLETION_RING, TRANSMIT_FRAMES)?;
        set(&fd, libc::XDP_RX_RING, frames)?;
        let laid = offsets(&fd)?;
        let mut fill =
            Ring::new(&fd, laid.fr, frames, libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t)?;
        let receive = Ring::new(&fd, laid.rx, frames, libc::XDP_PGOFF_RX_RING)?;
        for chunk in 0..frames {
            fill.push(u64::from(chunk) * u64::from(chunk_bytes));
        }
        fill.publish();
        bind(&fd, &address(device, queue, flags | libc::XDP_USE_NEED_WAKEUP, 0))?;
        let transmit = if sends {
            let completion = Ring::new(
                &fd,
                laid.cr,
                TRANSMIT_FRAMES,
                libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t,
            )?;
            let sender = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0)?;
            set(&sender, libc::XDP_TX_RING, TRANSMIT_FRAMES)?;
            let laid = offsets(&sender)?;
            let ring = Ring::new(&sender, laid.tx, TRANSMIT_FRAMES, libc::XDP_PGOFF_TX_RING)?;
            bind(&sender, &address(device, queue, libc::XDP_SHARED_UMEM, fd.as_raw_fd() as u32))?;
            let free = (frames..frames + transmit_chunks)
                .map(|chunk| u64::from(chunk) * u64::from(chunk_bytes))
                .collect();
            Some(TransmitParts { fd: sender, umem: umem.clone(), transmit: ring, completion, free })
        } else {
            None
        };
        Ok(Queue { fd, umem, receive, fill, chunks: frames, transmit })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn take_transmit_parts(&mut self) -> Option<TransmitParts> {
        self.transmit.take()
    }

    /// Receives up to `most` frames.
    #[inline]
    fn recv(
        &mut self,
        slabs: &mut Slabs,
        most: usize,
        now_ns: u64,
        statistics: &mut ReceiveStatistics,
        out: &mut Vec<Received>,
    ) -> usize {
        let count = self.receive.available().min(u32::try_from(most).unwrap_or(u32::MAX));
        for _ in 0..count {
            let frame = self.receive.pop();
            // SAFETY: the kernel passed the chunk with the descriptor; it is returned by the fill ring
            // below, when the slice is no longer used. The sending half has other chunks.
            let bytes = unsafe { self.umem.bytes(frame.addr, frame.len as usize) };
            store(bytes, frame.options, now_ns, slabs, statistics, out);
            // There is room: the ring has as many entries as there are chunks, and this one is in no ring.
            self.fill.push(self.umem.chunk_of(frame.addr));
        }
        if count > 0 {
            self.receive.consume();
            self.fill.publish();
            // Conservation: every chunk that was read has been returned, so each is in a ring or with the
            // kernel.
            debug_assert_eq!(
                self.fill.position().wrapping_sub(self.receive.position()),
                self.chunks,
                "a chunk of the receiving half was lost"
            );
        }
        count as usize
    }
}

/// Copies a descriptor's frame into a slot.
#[inline]
fn store(
    bytes: &[u8],
    options: u32,
    ingress_ns: u64,
    slabs: &mut Slabs,
    statistics: &mut ReceiveStatistics,
    out: &mut Vec<Received>,
) {
    // Frames in several chunks were not requested, and a part is not a frame. Check this before allocating
    // a slot, which would never be released.
    let is_part = options & libc::XDP_PKT_CONTD != 0;
    match if is_part { None } else { slabs.allocate(bytes.len()) } {
        None if is_part => statistics.unusable += 1,
        None => statistics.slab_drops += 1,
        Some((handle, to)) => {
            to.copy_from_slice(bytes);
            if complete_if_partial(to) {
                statistics.checksums_completed += 1;
            }
            statistics.frames += 1;
            out.push(Received { handle, len: bytes.len() as u32, ingress_ns });
        }
    }
}

pub(super) struct XdpReceiver {
    queues: Vec<Queue>,
    /// First queue of the next call, so that no queue starves another.
    next: usize,
    /// All queues' sockets behind one descriptor, when there are several.
    epoll: Option<OwnedFd>,
    statistics: ReceiveStatistics,
    /// Whether the kernel copies frames into the chunks, rather than the card.
    copies: bool,
    shared: Arc<Shared>,
}

impl XdpReceiver {
    pub(super) fn new(queues: Vec<Queue>, copies: bool, shared: Arc<Shared>) -> Result<Self> {
        let epoll = if queues.len() > 1 { Some(gather(&queues, &shared.device)?) } else { None };
        let statistics = ReceiveStatistics::default();
        Ok(XdpReceiver { queues, next: 0, epoll, statistics, copies, shared })
    }
}

fn gather(queues: &[Queue], device: &Device) -> Result<OwnedFd> {
    let failed = || Error::last("gather the queues of", device.name.clone());
    // SAFETY: takes an integer only.
    let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if fd < 0 {
        return Err(failed());
    }
    // SAFETY: the descriptor is new and has no other owner.
    let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
    for queue in queues {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: `event` lives through the call; both descriptors are open.
        let rc = unsafe {
            libc::epoll_ctl(
                epoll.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                queue.fd.as_raw_fd(),
                &raw mut event,
            )
        };
        if rc < 0 {
            return Err(failed());
        }
    }
    Ok(epoll)
}

impl Receive for XdpReceiver {
    fn recv(&mut self, slabs: &mut Slabs, most: usize, out: &mut Vec<Received>) -> Result<usize> {
        let mut taken = 0;
        // Frames have no stamps: all arrived before this reading.
        let now_ns = Clock::System.monotonic_ns();
        let count = self.queues.len();
        for step in 0..count {
            let at = (self.next + step) % count;
            taken += self.queues[at].recv(slabs, most - taken, now_ns, &mut self.statistics, out);
            if self.queues[at].fill.needs_wakeup() {
                wake(&self.queues[at].fd);
            }
            if taken == most {
                self.next = (at + 1) % count;
                break;
            }
        }
        if taken == 0 {
            for queue in &self.queues {
                if let Some(error) = sys::pending_error(&queue.fd) {
                    self.shared.device.check(self.shared._promiscuous.as_fd())?;
                    if error != libc::ENETDOWN {
                        let source = io::Error::from_raw_os_error(error);
                        let name = self.shared.device.name.clone();
                        return Err(Error::system("receive on", name, source));
                    }
                }
            }
        }
        Ok(taken)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.epoll {
            Some(epoll) => epoll.as_fd(),
            None => self.queues[0].fd.as_fd(),
        }
    }

    fn statistics(&mut self) -> Result<ReceiveStatistics> {
        let none = libc::xdp_statistics {
            rx_dropped: 0,
            rx_invalid_descs: 0,
            tx_invalid_descs: 0,
            rx_ring_full: 0,
            rx_fill_ring_empty_descs: 0,
            tx_ring_empty_descs: 0,
        };
        let (mut drops, mut oversized) = (0, 0);
        for queue in &self.queues {
            let read = sys::get_option(&queue.fd, libc::SOL_XDP, libc::XDP_STATISTICS, none)
                .map_err(|e| Error::system("read drops of", self.shared.device.name.clone(), e))?;
            let of_queue = drops_of(&read, self.copies);
            drops += of_queue.0;
            oversized += of_queue.1;
        }
        self.statistics.kernel_drops = drops;
        self.statistics.oversized = oversized;
        Ok(self.statistics)
    }
}

/// Frames that the kernel dropped for lack of room, and frames longer than a chunk.
fn drops_of(read: &libc::xdp_statistics, copies: bool) -> (u64, u64) {
    // In copy mode rx_dropped counts frames dropped because the fill ring was empty, which have a counter
    // of their own too, and frames that were too long. In zero-copy mode an empty fill ring does not yet
    // mean a drop.
    let unfilled =
        if copies { read.rx_dropped.min(read.rx_fill_ring_empty_descs) } else { read.rx_dropped };
    (unfilled + read.rx_ring_full + read.rx_invalid_descs, read.rx_dropped - unfilled)
}

/// Wakes the kernel when its ring has entries again.
fn wake(fd: &OwnedFd) {
    // SAFETY: a receive of no bytes into no buffer.
    unsafe { libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), 0, libc::MSG_DONTWAIT) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_are_too_long_are_distinguished_from_a_full_ring() {
        let read = |rx_dropped, rx_ring_full, rx_fill_ring_empty_descs| libc::xdp_statistics {
            rx_dropped,
            rx_invalid_descs: 0,
            tx_invalid_descs: 0,
            rx_ring_full,
            rx_fill_ring_empty_descs,
            tx_ring_empty_descs: 0,
        };
        assert_eq!(drops_of(&read(71, 0, 0), true), (0, 71));
        assert_eq!(drops_of(&read(71, 3, 70), true), (73, 1));
        assert_eq!(drops_of(&read(5, 0, 9), true), (5, 0));
        assert_eq!(drops_of(&read(5, 1, 900), false), (6, 0));
    }

    #[test]
    fn a_part_of_a_frame_takes_no_slot() {
        let (mut slabs, mut statistics) = (Slabs::new(8 << 20), ReceiveStatistics::default());
        let mut out = vec![];
        let mut put = |options, slabs: &mut Slabs| {
            store(&[7; 60], options, 5, slabs, &mut statistics, &mut out);
            (statistics, out.len())
        };
        let (counts, frames) = put(libc::XDP_PKT_CONTD, &mut slabs);
        assert_eq!((counts.unusable, counts.frames, frames), (1, 0, 0));
        assert_eq!(slabs.usage().packets, 0);
        let (counts, frames) = put(0, &mut slabs);
        assert_eq!((counts.unusable, counts.frames, frames), (1, 1, 1));
        assert_eq!(slabs.usage().packets, 1);
        assert_eq!(
            (slabs.bytes(out[0].handle), out[0].len, out[0].ingress_ns),
            (&[7; 60][..], 60, 5)
        );
    }
}
