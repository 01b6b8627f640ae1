//! Sends frames with `sendmmsg`, bypassing the queueing discipline.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::error::{Error, Result};
use crate::link::{Transmit, TransmitStatistics};
use crate::segment::VnetHeader;
use crate::slabs::{Handle, Slabs};
use crate::sys::{self, Device};
use crate::train::{MAX_HEADER_BYTES, Run};
use weir_net::clock::Clock;

/// Time without progress before the carrier is queried, and between two such queries.
const STUCK_NS: u64 = 1_000_000;

/// Frames per call: beyond some dozens the cost of the call no longer matters.
const BATCH: usize = 64;

/// Super-packets in a row that the interface may refuse before it gets their segments only: it may not segment, or have no room.
const MAX_REFUSED_TRAINS: u32 = 64;
/// Ethernet's header.
const ETHERNET_BYTES: usize = 14;

/// Room for the description and headers of a train.
type Head = [u8; VnetHeader::LEN + MAX_HEADER_BYTES];

pub(super) struct PacketTransmitter {
    fd: OwnedFd,
    /// Another socket, for trains: its packets start with their description.
    trains: OwnedFd,
    device: Device,
    messages: Box<[libc::mmsghdr; BATCH]>,
    vectors: Box<[[libc::iovec; 2]; BATCH]>,
    heads: Box<[Head; BATCH]>,
    /// Frames of each message.
    counts: [u16; BATCH],
    /// The longest frame that may be a segment of a super-packet, bytes; 0: none may.
    max_segment_bytes: usize,
    refused_trains: u32,
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

/// Whether the interface segments super-packets, of which the packet socket accepts no others.
fn device_segments(interface: &str) -> bool {
    const NEEDED: [&str; 4] =
        ["tx-scatter-gather", "tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-udp-segmentation"];
    let offloads = weir_net::interface::offloads(interface).unwrap_or_default();
    let is_on = |name: &str| offloads.iter().any(|offload| offload.active && offload.name == name);
    NEEDED.into_iter().all(is_on)
}

impl PacketTransmitter {
    pub(super) fn open(device: Device, mtu_bytes: u32) -> Result<Self> {
        let failed = |operation| {
            let name = device.name.clone();
            move |source| Error::system(operation, name, source)
        };
        let socket = || -> Result<OwnedFd> {
            // Protocol 0, before and after binding: this socket receives nothing.
            let fd = sys::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0)
                .map_err(failed("open a packet socket on"))?;
            sys::bind(&fd, &super::address(device.index, 0))
                .map_err(failed("bind a packet socket to"))?;
            sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)
                .map_err(failed("send past the queueing discipline of"))?;
            sys::set_buffer(&fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, 8 << 20);
            Ok(fd)
        };
        let (fd, trains) = (socket()?, socket()?);
        sys::set_option(&trains, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)
            .map_err(failed("enable offload information on"))?;
        let segments = device_segments(&device.name);
        let vector = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: mmsghdr is integers and raw pointers, for which zero (null) is a value.
        let message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        Ok(PacketTransmitter {
            fd,
            trains,
            device,
            messages: Box::new([message; BATCH]),
            vectors: Box::new([[vector; 2]; BATCH]),
            heads: Box::new([[0; VnetHeader::LEN + MAX_HEADER_BYTES]; BATCH]),
            counts: [0; BATCH],
            max_segment_bytes: if segments { mtu_bytes as usize + ETHERNET_BYTES } else { 0 },
            refused_trains: 0,
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

    /// Sends no more super-packets after many in a row of which only the segments were accepted.
    fn learn(&mut self, is_train: bool, singly: bool) {
        if is_train {
            self.refused_trains = 0;
        } else if singly {
            self.refused_trains += 1;
            if self.refused_trains == MAX_REFUSED_TRAINS {
                self.max_segment_bytes = 0;
            }
        }
    }

    /// Makes messages of the frames at the start that go to the same socket, super-packets of the segments in a row of a
    /// train unless `singly`; returns how many messages, and whether they are for the socket for trains.
    fn prepare(&mut self, slabs: &Slabs, frames: &[Handle], singly: bool) -> (usize, bool) {
        let of_trains = frames.first().is_some_and(|frame| frame.is_segment());
        let (mut made, mut at) = (0, 0);
        self.counts[0] = 0;
        while made < BATCH && at < frames.len() && frames[at].is_segment() == of_trains {
            let vectors = &mut self.vectors[made];
            // The kernel only reads them.
            let vector = |bytes: &[u8]| libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            };
            let mut count = 1;
            if of_trains {
                let most = if singly { 1 } else { usize::from(u16::MAX) };
                let Some(mut run) = Run::at_start(slabs, &frames[at..], most) else { break };
                if run.segment_bytes() > self.max_segment_bytes {
                    run.count = 1;
                }
                count = run.count;
                let head = &mut self.heads[made];
                let len = run.write_head(head);
                *vectors = [vector(&head[..len]), vector(run.payload())];
            } else {
                vectors[0] = vector(slabs.bytes(frames[at]));
            }
            let message = &mut self.messages[made].msg_hdr;
            // Set again each time: a box keeps its heap block when `self` moves, but the compiler may not
            // assume that.
            message.msg_iov = vectors.as_mut_ptr();
            message.msg_iovlen = if of_trains { 2 } else { 1 };
            self.counts[made] = count as u16;
            made += 1;
            at += count;
        }
        (made, of_trains)
    }

    /// Sends the messages that were prepared.
    fn send_prepared(&mut self, messages: usize, of_trains: bool) -> Outcome {
        let fd = if of_trains { &self.trains } else { &self.fd };
        // SAFETY: the first `messages` messages have one or two vectors each that point to the bytes of a frame or train, which
        // the caller has borrowed from its slabs since it prepared them, and to heads of `self`.
        let n = unsafe {
            libc::sendmmsg(
                fd.as_raw_fd(),
                self.messages.as_mut_ptr(),
                messages as libc::c_uint,
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
        let mut singly = false;
        while taken < frames.len() {
            let (messages, of_trains) = self.prepare(slabs, &frames[taken..], singly);
            let outcome = self.send_prepared(messages, of_trains);
            let is_train = self.counts[0] > 1;
            if is_train && matches!(outcome, Outcome::Sent(0) | Outcome::Full | Outcome::Refused) {
                // The interface may have no room, or refuse super-packets: their segments tell.
                singly = true;
                continue;
            }
            match outcome {
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
                    let counts = &self.counts[..n];
                    let count: usize = counts.iter().map(|count| usize::from(*count)).sum();
                    let trains = counts.iter().filter(|count| **count > 1).count();
                    self.statistics.super_packets += trains as u64;
                    self.statistics.frames += count as u64;
                    taken += count;
                    self.learn(is_train, singly);
                    singly = false;
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
