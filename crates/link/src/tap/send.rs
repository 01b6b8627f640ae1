//! Writes frames, and the segments of a train that leave in a row as one super-packet.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use super::Tap;
use crate::error::Result;
use crate::link::{Transmit, TransmitStatistics};
use crate::segment::VnetHeader;
use crate::slabs::{Handle, Slabs};
use crate::train::{MAX_HEADER_BYTES, Run};

pub(super) struct TapTransmitter {
    tap: Arc<Tap>,
    refused: Vec<u32>,
    statistics: TransmitStatistics,
}

/// Result of writing a frame or super-packet.
enum Outcome {
    Sent,
    /// It was not accepted for now.
    Full,
    /// It will never be accepted.
    Refused,
    Failed(io::Error),
}

impl TapTransmitter {
    pub(super) fn new(tap: Arc<Tap>) -> Self {
        TapTransmitter { tap, refused: Vec::new(), statistics: TransmitStatistics::default() }
    }

    /// Writes one packet: its description with the first bytes, and the others.
    fn write(&self, head: &[u8], rest: &[u8]) -> Outcome {
        // The kernel only reads them.
        let vector = |bytes: &[u8]| libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let vectors = [vector(head), vector(rest)];
        // SAFETY: both vectors point to bytes that are borrowed through the call.
        let n = unsafe { libc::writev(self.tap.fd.as_raw_fd(), vectors.as_ptr(), 2) };
        if n >= 0 {
            return Outcome::Sent;
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR) => Outcome::Full,
            // The device is down, which is like an unplugged cable; or the frame is too short or the kernel can't segment it.
            Some(libc::EIO | libc::EINVAL) => Outcome::Refused,
            _ => Outcome::Failed(error),
        }
    }
}

impl Transmit for TapTransmitter {
    fn send(&mut self, slabs: &Slabs, frames: &[Handle]) -> Result<usize> {
        self.refused.clear();
        let mut taken = 0;
        // Until there segments are written singly: their super-packet was refused.
        let mut singly_until = 0;
        while taken < frames.len() {
            let most = if taken < singly_until { 1 } else { frames.len() };
            let (outcome, count) = match Run::at_start(slabs, &frames[taken..], most) {
                Some(run) => {
                    let mut head = [0; VnetHeader::LEN + MAX_HEADER_BYTES];
                    let len = run.write_head(&mut head);
                    (self.write(&head[..len], run.payload()), run.count)
                }
                None => (self.write(&[0; VnetHeader::LEN], slabs.bytes(frames[taken])), 1),
            };
            match outcome {
                Outcome::Sent => {
                    self.statistics.super_packets += u64::from(count > 1);
                    self.statistics.frames += count as u64;
                    taken += count;
                }
                Outcome::Full => {
                    self.statistics.times_full += 1;
                    break;
                }
                Outcome::Refused if count > 1 => singly_until = taken + count,
                Outcome::Refused => {
                    self.refused.push(taken as u32);
                    self.statistics.refused += 1;
                    taken += 1;
                }
                Outcome::Failed(error) => return Err(self.tap.error("send on", error)),
            }
        }
        Ok(taken)
    }

    fn refused(&self) -> &[u32] {
        &self.refused
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.tap.fd.as_fd()
    }

    fn statistics(&self) -> TransmitStatistics {
        self.statistics
    }
}
