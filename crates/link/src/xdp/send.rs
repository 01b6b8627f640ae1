//! Sends frames by the transmit ring of queue 0.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use super::{Shared, TRANSMIT_FRAMES, TransmitParts};
use crate::error::{Error, Result};
use crate::link::{Transmit, TransmitStatistics};
use crate::slabs::{Handle, Slabs};

/// Frames per call: in copy mode the kernel sends 32.
const BATCH: usize = 32;

pub(super) struct XdpTransmitter {
    parts: TransmitParts,
    shared: Arc<Shared>,
    zero_copy: bool,
    refused: Vec<u32>,
    statistics: TransmitStatistics,
}

/// Result of a call that makes the kernel send.
enum Kick {
    Done,
    /// The device has no room; the frames stay in the ring.
    Full,
    /// One frame was consumed and then dropped.
    Dropped,
    Down,
    Failed(io::Error),
}

/// State of the frames in the ring.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drain {
    All,
    /// Some are still in the ring.
    Full,
    /// The interface is down. Frames in the ring, at most one batch, are sent when it is up again: they are
    /// not removed, because the kernel may have read them already.
    Down,
}

impl XdpTransmitter {
    pub(super) fn new(parts: TransmitParts, shared: Arc<Shared>, zero_copy: bool) -> Self {
        XdpTransmitter {
            parts,
            shared,
            zero_copy,
            refused: Vec::new(),
            statistics: TransmitStatistics::default(),
        }
    }

    /// Reclaims the chunks of sent frames.
    fn reap(&mut self) {
        let parts = &mut self.parts;
        let count = parts.completion.available();
        for _ in 0..count {
            let address = parts.completion.pop();
            // Aligned, because drivers may return an address within the chunk.
            parts.free.push(parts.umem.chunk_of(address));
        }
        if count > 0 {
            parts.completion.consume();
        }
        // Conservation: a chunk that is not free was pushed and has not been returned.
        debug_assert_eq!(
            parts.free.len() as u32
                + parts.transmit.position().wrapping_sub(parts.completion.position()),
            TRANSMIT_FRAMES,
            "a chunk of the sending half was lost"
        );
    }

    fn kick(&self) -> Kick {
        // SAFETY: a send of no bytes from no buffer to no address.
        let rc = unsafe {
            libc::sendto(
                self.parts.fd.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            )
        };
        if rc >= 0 {
            return Kick::Done;
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => Kick::Full,
            Some(libc::EBUSY) if self.zero_copy => Kick::Full,
            Some(libc::EBUSY) => Kick::Dropped,
            Some(libc::ENETDOWN) => Kick::Down,
            _ => Kick::Failed(error),
        }
    }

    /// Makes the kernel send the frames in the ring.
    fn drain(&mut self) -> Result<Drain> {
        let mut stuck = 0;
        loop {
            let before = self.parts.transmit.outstanding();
            if before == 0 {
                return Ok(Drain::All);
            }
            let kick = self.kick();
            if self.zero_copy {
                // The card sends them asynchronously.
                return Ok(if matches!(kick, Kick::Down) { Drain::Down } else { Drain::All });
            }
            let progress = self.parts.transmit.outstanding() < before;
            match kick {
                Kick::Dropped => self.statistics.dropped += 1,
                // The kernel stopped at its budget for one call, or for lack of room.
                Kick::Done | Kick::Full if progress => stuck = 0,
                Kick::Done | Kick::Full => {
                    // Sent frames without completion still occupy chunks. Try once more, then later.
                    stuck += 1;
                    if stuck == 2 {
                        return Ok(Drain::Full);
                    }
                    self.reap();
                }
                Kick::Down => return Ok(Drain::Down),
                Kick::Failed(error) => {
                    self.shared.device.check(self.shared._promiscuous.as_fd())?;
                    return Err(Error::system("send on", self.shared.device.name.clone(), error));
                }
            }
        }
    }
}

impl Transmit for XdpTransmitter {
    fn send(&mut self, slabs: &Slabs, frames: &[Handle]) -> Result<usize> {
        self.refused.clear();
        let longest = self.parts.umem.chunk_bytes() as usize;
        let mut taken = 0;
        // Frames left in the ring are sent first.
        let mut state = self.drain()?;
        while state == Drain::All && taken < frames.len() {
            if self.parts.free.len() < BATCH {
                self.reap();
            }
            let mut pushed = 0;
            while pushed < BATCH && taken < frames.len() {
                let bytes = slabs.bytes(frames[taken]);
                // A frame has at least its addresses and type.
                if bytes.len() > longest || bytes.len() < 14 {
                    self.refused.push(taken as u32);
                    self.statistics.refused += 1;
                    taken += 1;
                    continue;
                }
                if self.parts.transmit.room(1) == 0 {
                    break;
                }
                let Some(address) = self.parts.free.pop() else { break };
                // SAFETY: the chunk was in the sending half's free list, so in no ring and not with the kernel.
                unsafe { self.parts.umem.write(address, bytes) };
                self.parts.transmit.push(libc::xdp_desc {
                    addr: address,
                    len: bytes.len() as u32,
                    options: 0,
                });
                self.statistics.frames += 1;
                pushed += 1;
                taken += 1;
            }
            if pushed > 0 {
                self.parts.transmit.publish();
                state = self.drain()?;
            } else if taken < frames.len() {
                break;
            }
        }
        if state == Drain::Down {
            // Like an unplugged cable.
            self.refused.extend(taken as u32..frames.len() as u32);
            self.statistics.refused += (frames.len() - taken) as u64;
            taken = frames.len();
        }
        if taken < frames.len() {
            self.statistics.times_full += 1;
        }
        Ok(taken)
    }

    fn refused(&self) -> &[u32] {
        &self.refused
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.parts.fd.as_fd()
    }

    fn finish(&mut self) {
        // Try once more: the interface may have room again. After an error the frames stay in the ring.
        let _ = self.drain();
        // Frames were counted as sent when they were pushed, but the ring is lost with the socket. Sending
        // has ended, so they are subtracted only once.
        self.statistics.dropped += u64::from(self.parts.transmit.outstanding());
    }

    fn statistics(&self) -> TransmitStatistics {
        TransmitStatistics {
            frames: self.statistics.frames - self.statistics.dropped,
            ..self.statistics
        }
    }
}
