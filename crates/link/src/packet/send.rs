//! Frames out, many by one `sendmmsg`, past the queueing discipline.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::error::{Error, Result};
use crate::link::{Transmit, TransmitStatistics};
use crate::slabs::{Handle, Slabs};
use crate::sys::{self, Device};
use weir_net::clock::Clock;

/// How long nothing is taken before the carrier is asked for, and between two such questions.
const STUCK_NS: u64 = 1_000_000;

/// Frames by one call: beyond some dozens the call itself no longer matters.
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

/// Nothing has been taken for some time.
#[derive(Clone, Copy)]
struct Stuck {
    /// When the carrier is to be asked for.
    ask_ns: u64,
    has_carrier: bool,
}

// SAFETY: the raw pointers inside point into the heap blocks of the transmitter's own boxes, which stay where they are
// when it moves, and into slabs, where they are followed only during the call of `send` that borrows those.
unsafe impl Send for PacketTransmitter {}

/// What the kernel made of a batch.
enum Outcome {
    Sent(usize),
    /// The first was not taken for now.
    Full,
    /// The first will never be taken.
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

    /// Whether what is not taken is refused rather than tried again: an interface that is up without a carrier drops
    /// what is sent past its queueing discipline, and answers as a driver that has no room.
    #[cold]
    fn is_unplugged(&mut self) -> bool {
        let now = Clock::System.monotonic_ns();
        let mut stuck = self.stuck.unwrap_or(Stuck { ask_ns: now + STUCK_NS, has_carrier: true });
        if now >= stuck.ask_ns {
            stuck.has_carrier = self.device.has_carrier(self.fd.as_fd());
            stuck.ask_ns = now + STUCK_NS;
        }
        self.stuck = Some(stuck);
        !stuck.has_carrier
    }

    fn send_batch(&mut self, slabs: &Slabs, frames: &[Handle]) -> Outcome {
        for (vector, &frame) in self.vectors.iter_mut().zip(frames) {
            let bytes = slabs.bytes(frame);
            // Only read by the kernel.
            *vector =
                libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        }
        // Again each time: a box that moves with `self` keeps its block, but the compiler cannot know.
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
            // ENOBUFS: the driver, or the far end of a veth, had no room and the frame is still ours alone; or there is
            // no carrier.
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => Outcome::Full,
            // Too long, too short, no frame at all; the interface is down, as a cable that was pulled.
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
                Outcome::Sent(0) | Outcome::Full if self.is_unplugged() => {
                    // As a cable that was pulled: nothing old is to come out when it is put back.
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
                    for &frame in &batch[..n] {
                        self.statistics.bytes += slabs.len_of(frame) as u64;
                    }
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
