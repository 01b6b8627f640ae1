//! Sends frames with `sendmmsg`, bypassing the queueing discipline.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::error::{Error, Result};
use crate::link::{Transmit, TransmitStatistics};
use crate::slabs::{Handle, Slabs};
use crate::sys::{self, Device};
use weir_net::clock::Clock;

/// Time without progress before the carrier is queried, and between two such queries.
const STUCK_NS: u64 = 1_000_000;

/// Frames per call: beyond some dozens the cost of the call no longer matters.
const BATCH: usize = 64;

pub(super) struct PacketTransmitter {
    fd: OwnedFd,
    device: Device,
    messages: Box<[libc::mmsghdr; BATCH]>,
    vectors: Box<[libc::iovec; BATCH]>,
    refused: Vec<u32>,
    statistics: TransmitStatistics,
    stuck: Option<Stuck>,
}

/// State while the interface accepts no frames.
#[derive(Clone, Copy)]
struct Stuck {
    /// Time of the next query of the carrier.
    query_ns: u64,
    has_carrier: bool,
}

// SAFETY: the raw pointers point into the transmitter's own boxes, whose heap blocks do not move with it,
// and into slabs, where they are dereferenced only during the call of `send` that borrows those.
unsafe impl Send for PacketTransmitter {}

/// Result of sending a batch.
enum Outcome {
    Sent(usize),
    /// The first frame was not accepted for now.
    Full,
    /// The first frame will never be accepted.
    Refused,
    Failed(io::Error),
}

impl PacketTransmitter {
    pub(super) fn open(device: Device) -> Result<Self> {
        let failed = |operation| {
            let name = device.name.clone();
            move |source| Error::system(operation, name, source)
        };
        // Protocol 0, before and after binding: this socket receives nothing.
        let fd = sys::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0)
            .map_err(failed("open a packet socket on"))?;
        sys::bind(&fd, &super::address(device.index, 0))
            .map_err(failed("bind a packet socket to"))?;
        sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)
            .map_err(failed("send past the queueing discipline of"))?;
        sys::set_buffer(&fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, 8 << 20);
        let vector = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: mmsghdr is integers and raw pointers, for which zero (null) is a value.
        let message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let mut vectors = Box::new([vector; BATCH]);
        let mut messages = Box::new([message; BATCH]);
        for (message, vector) in messages.iter_mut().zip(vectors.iter_mut()) {
            message.msg_hdr.msg_iov = std::ptr::from_mut(vector);
            message.msg_hdr.msg_iovlen = 1;
        }
        Ok(PacketTransmitter {
            fd,
            device,
            messages,
            vectors,
            refused: Vec::new(),
            statistics: TransmitStatistics::default(),
            stuck: None,
        })
    }

    /// Whether frames that are not accepted must be refused rather than retried. An interface that is up
    /// without a carrier drops frames that bypass its queueing discipline, with the same error as a driver
    /// without room.
    #[cold]
    fn lacks_carrier(&mut self) -> bool {
        let now = Clock::System.monotonic_ns();
        let mut stuck = self.stuck.unwrap_or(Stuck { query_ns: now + STUCK_NS, has_carrier: true });
        if now >= stuck.query_ns {
            stuck.has_carrier = self.device.has_carrier(self.fd.as_fd());
            stuck.query_ns = now + STUCK_NS;
        }
        self.stuck = Some(stuck);
        !stuck.has_carrier
    }

    fn send_batch(&mut self, slabs: &Slabs, frames: &[Handle]) -> Outcome {
        for (vector, &frame) in self.vectors.iter_mut().zip(frames) {
            let bytes = slabs.bytes(frame);
            // The kernel only reads it.
            *vector =
                libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        }
        // Set again each time: a box keeps its heap block when `self` moves, but the compiler may not
        // assume that.
        for (message, vector) in self.messages.iter_mut().zip(self.vectors.iter_mut()) {
            message.msg_hdr.msg_iov = std::ptr::from_mut(vector);
        }
        // SAFETY: the first `frames.len()` messages each have one vector that points to the bytes of a frame, borrowed
        // from `slabs` through the call.
        let n = unsafe {
            libc::sendmmsg(
                self.fd.as_raw_fd(),
                self.messages.as_mut_ptr(),
                frames.len() as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        if n >= 0 {
            return Outcome::Sent(n as usize);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // ENOBUFS: the driver or the far end of a veth had no room and did not take the frame; or there
            // is no carrier.
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => Outcome::Full,
            // The frame is too long, too short or invalid; or the interface is down, which is like an
            // unplugged cable.
            Some(libc::EMSGSIZE | libc::EINVAL | libc::ENETDOWN) => Outcome::Refused,
            _ => Outcome::Failed(error),
        }
    }
}

impl Transmit for PacketTransmitter {
    fn send(&mut self, slabs: &Slabs, frames: &[Handle]) -> Result<usize> {
        self.refused.clear();
        let mut taken = 0;
        while taken < frames.len() {
            let batch = &frames[taken..frames.len().min(taken + BATCH)];
            match self.send_batch(slabs, batch) {
                Outcome::Sent(0) | Outcome::Full if self.lacks_carrier() => {
                    // Like an unplugged cable: no old frames are sent when it is plugged in again.
                    self.refused.extend(taken as u32..frames.len() as u32);
                    self.statistics.refused += (frames.len() - taken) as u64;
                    taken = frames.len();
                }
                Outcome::Sent(0) | Outcome::Full => {
                    self.statistics.times_full += 1;
                    break;
                }
                Outcome::Sent(n) => {
                    self.stuck = None;
                    self.statistics.frames += n as u64;
                    taken += n;
                }
                Outcome::Refused => {
                    self.refused.push(taken as u32);
                    self.statistics.refused += 1;
                    taken += 1;
                }
                Outcome::Failed(error) => {
                    self.device.check(self.fd.as_fd())?;
                    return Err(Error::system("send on", self.device.name.clone(), error));
                }
            }
        }
        Ok(taken)
    }

    fn refused(&self) -> &[u32] {
        &self.refused
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn statistics(&self) -> TransmitStatistics {
        self.statistics
    }
}
