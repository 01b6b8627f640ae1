//! Reads frames, one a call, and stores them in slabs.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use weir_net::clock::Clock;
use weir_net::interface::CounterReader;

use super::Tap;
use crate::error::Result;
use crate::link::{Receive, ReceiveStatistics, Received};
use crate::segment::VnetHeader;
use crate::slabs::Slabs;
use crate::store::{Facts, store_any, store_whole};

/// A frame with its header, and one byte more: what fills the buffer was truncated.
const BUFFER_BYTES: usize = VnetHeader::LEN + Slabs::MAX_FRAME_BYTES + 1;

pub(super) struct TapReceiver {
    tap: Arc<Tap>,
    clock: Clock,
    buffer: Box<[u8]>,
    counters: CounterReader,
    /// Frames that the device had dropped before.
    dropped_before: u64,
    statistics: ReceiveStatistics,
    /// Whether super-packets are kept whole.
    keeps_trains: bool,
}

impl TapReceiver {
    pub(super) fn new(tap: Arc<Tap>, mut counters: CounterReader, clock: Clock) -> Result<Self> {
        Ok(TapReceiver {
            tap,
            clock,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            dropped_before: counters.read()?.tx_dropped,
            counters,
            statistics: ReceiveStatistics::default(),
            keeps_trains: false,
        })
    }
}

impl Receive for TapReceiver {
    fn recv(&mut self, slabs: &mut Slabs, most: usize, out: &mut Vec<Received>) -> Result<usize> {
        let mut taken = 0;
        while taken < most {
            // SAFETY: the buffer is writable for its length.
            let n = unsafe {
                let buffer = self.buffer.as_mut_ptr().cast();
                libc::read(self.tap.fd.as_raw_fd(), buffer, self.buffer.len())
            };
            let Ok(n) = usize::try_from(n) else {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EAGAIN) => break,
                    Some(libc::EINTR) => continue,
                    // A super-packet that the header can't describe. The kernel has removed it.
                    Some(libc::EINVAL) => {
                        self.statistics.unusable += 1;
                        taken += 1;
                        continue;
                    }
                    _ => return Err(self.tap.error("receive on", error)),
                }
            };
            taken += 1;
            match self.buffer[..n].split_first_chunk() {
                Some((head, frame)) if n < BUFFER_BYTES => {
                    // Read for each frame: an earlier reading might be before its arrival.
                    let ingress_ns = self.clock.monotonic_ns();
                    let facts = Facts { ingress_ns, tag: None, vnet: VnetHeader::read(head) };
                    let store = if self.keeps_trains { store_whole } else { store_any };
                    store(frame, &facts, slabs, &mut self.statistics, out);
                }
                _ => self.statistics.unusable += 1,
            }
        }
        Ok(taken)
    }

    fn keep_trains(&mut self) {
        self.keeps_trains = true;
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.tap.fd.as_fd()
    }

    fn statistics(&mut self) -> Result<ReceiveStatistics> {
        let dropped = self.counters.read()?.tx_dropped;
        self.statistics.kernel_drops = dropped.saturating_sub(self.dropped_before);
        Ok(self.statistics)
    }
}
