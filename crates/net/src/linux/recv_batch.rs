//! Many messages by one `recvmmsg`, with what the kernel reports with each.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

use super::address::{RAW_ADDRESS_LEN, RawAddress};
use super::control_message::parse_ancillary;
use super::ethernet::EthernetSocket;
use super::sockopt::retry;
use super::udp::UdpSocket;
use crate::ethernet::{FLOW_BYTES, HEADER_BYTES};
use crate::udp::{RecvMessage, RecvMode};

/// Room for all control messages that Weir requests: stamps (64), GRO (24), overflow (24), TOS (24), TTL (24), and
/// spare.
const CONTROL_WORDS: usize = 32;

/// Message buffers of at least this size are separated by [`SPREAD`].
const LARGE: usize = 16 << 10;
/// Not a multiple of a page: messages that start 64 KiB apart would share the same few sets of a processor's caches,
/// and evict each other.
const SPREAD: usize = 20_544;

/// Room for a batch of received messages, allocated once.
pub struct RecvBatch {
    headers: Vec<libc::mmsghdr>,
    // Reached by the kernel through the headers' pointers.
    vectors: Vec<libc::iovec>,
    /// Of messages with headers, allocated when the first are received: the header of each, and its vector with that of the
    /// payload.
    headed: Vec<([u8; MAX_FRONT], [libc::iovec; 2])>,
    /// What the received messages have in front.
    front: Front,
    addresses: Vec<RawAddress>,
    controls: Vec<[u64; CONTROL_WORDS]>,
    slab: Vec<u8>,
    bytes_each: usize,
    stride: usize,
    received: usize,
}

/// Most bytes of the header of a message.
const MAX_FRONT: usize = 32;
const _: () = assert!(MAX_FRONT >= HEADER_BYTES);

/// What received messages have in front of their payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Front {
    Nothing,
    /// The header of a frame, which states its length.
    Frame,
    /// This many bytes.
    Skipped(usize),
}

impl Front {
    fn bytes(self) -> usize {
        match self {
            Front::Nothing => 0,
            Front::Frame => HEADER_BYTES,
            Front::Skipped(bytes) => bytes,
        }
    }
}

// SAFETY: the raw pointers inside point only into the heap blocks of the batch's own vectors, which
// are never resized and stay where they are when the batch moves.
unsafe impl Send for RecvBatch {}

impl std::fmt::Debug for RecvBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecvBatch")
            .field("capacity", &self.headers.len())
            .field("bytes_each", &self.bytes_each)
            .field("received", &self.received)
            .finish()
    }
}

impl RecvBatch {
    /// Room for `messages` (at most 1024) of `bytes_each` bytes. With `UDP_GRO` a message has up to 65 535 bytes;
    /// what does not fit is lost and marked.
    pub fn new(messages: usize, bytes_each: usize) -> Self {
        let n = messages.clamp(1, 1024);
        let bytes_each = bytes_each.max(1);
        let stride = if bytes_each < LARGE { bytes_each } else { bytes_each + SPREAD };
        let mut slab = vec![0_u8; n * stride];
        let mut addresses = vec![RawAddress::zeroed(); n];
        let mut controls = vec![[0_u64; CONTROL_WORDS]; n];
        let slab_start = slab.as_mut_ptr();
        let mut vectors: Vec<libc::iovec> = (0..n)
            .map(|i| {
                // SAFETY: `i * stride` and the `bytes_each` bytes behind it are inside the slab of `n * stride` bytes.
                let start = unsafe { slab_start.add(i * stride) };
                libc::iovec { iov_base: start.cast(), iov_len: bytes_each }
            })
            .collect();
        let (vector, address, control) =
            (vectors.as_mut_ptr(), addresses.as_mut_ptr(), controls.as_mut_ptr());
        let headers = (0..n)
            .map(|i| {
                // SAFETY: mmsghdr is integers and raw pointers, for which zero (null) is a value.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                // SAFETY: each array has `n` elements.
                unsafe {
                    header.msg_hdr.msg_iov = vector.add(i);
                    header.msg_hdr.msg_name = address.add(i).cast();
                    header.msg_hdr.msg_control = control.add(i).cast();
                }
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        RecvBatch {
            headers,
            vectors,
            headed: vec![],
            front: Front::Nothing,
            addresses,
            controls,
            slab,
            bytes_each,
            stride,
            received: 0,
        }
    }

    /// How many messages fit.
    pub fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Receives messages, which replace those of the last call; returns how many. After an error there are none.
    #[inline]
    pub fn recv(&mut self, socket: &UdpSocket, mode: RecvMode) -> io::Result<usize> {
        if self.front != Front::Nothing {
            self.front = Front::Nothing;
            for (header, vector) in self.headers.iter_mut().zip(&mut self.vectors) {
                header.msg_hdr.msg_iov = vector;
                header.msg_hdr.msg_iovlen = 1;
            }
        }
        self.recv_on(socket.as_raw_fd(), mode)
    }

    /// As [`RecvBatch::recv`], each message without its first `front` bytes, 32 at most; never waits. A shorter message has no
    /// data.
    pub fn recv_headed(&mut self, socket: &UdpSocket, front: usize) -> io::Result<usize> {
        self.expect(Front::Skipped(front.min(MAX_FRONT)));
        self.recv_on(socket.as_raw_fd(), RecvMode::DontWait)
    }

    /// As [`RecvBatch::recv`], each message the payload of one frame; never waits.
    pub fn recv_frames(&mut self, socket: &EthernetSocket) -> io::Result<usize> {
        self.expect(Front::Frame);
        self.recv_on(socket.as_raw_fd(), RecvMode::DontWait)
    }

    /// Makes room for what the next messages have in front.
    fn expect(&mut self, front: Front) {
        if self.headed.is_empty() {
            let place = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
            let vectors = self.vectors.iter();
            self.headed = vectors.map(|v| ([0; MAX_FRONT], [place, *v])).collect();
        }
        if std::mem::replace(&mut self.front, front) != front {
            for (message, (header, vectors)) in self.headers.iter_mut().zip(&mut self.headed) {
                vectors[0].iov_base = header.as_mut_ptr().cast();
                vectors[0].iov_len = front.bytes();
                message.msg_hdr.msg_iov = vectors.as_mut_ptr();
                message.msg_hdr.msg_iovlen = vectors.len() as _;
            }
        }
    }

    #[inline]
    fn recv_on(&mut self, socket: RawFd, mode: RecvMode) -> io::Result<usize> {
        // The kernel overwrites these, in as many headers as it fills.
        for header in &mut self.headers {
            let message = &mut header.msg_hdr;
            message.msg_namelen = RAW_ADDRESS_LEN;
            message.msg_controllen = (CONTROL_WORDS * 8) as _;
            message.msg_flags = 0;
            header.msg_len = 0;
        }
        self.received = 0;
        let flags = match mode {
            RecvMode::DontWait => libc::MSG_DONTWAIT,
            RecvMode::WaitForOne => libc::MSG_WAITFORONE,
        };
        let (headers, n) = (self.headers.as_mut_ptr(), self.headers.len() as libc::c_uint);
        // SAFETY: each header points to vectors, an address and a control buffer of this batch, of the lengths told;
        // `self` is exclusively borrowed, and every byte the kernel may write is plain data.
        let received = retry(|| unsafe {
            libc::recvmmsg(socket, headers, n, flags as _, std::ptr::null_mut()) as isize
        })?;
        self.received = received.min(self.headers.len());
        Ok(self.received)
    }

    /// The messages of the last [`RecvBatch::recv`].
    #[inline]
    pub fn messages(&self) -> RecvMessages<'_> {
        RecvMessages { batch: self, next: 0 }
    }

    fn message(&self, i: usize) -> RecvMessage<'_> {
        let header = &self.headers[i];
        let arrived = (header.msg_len as usize).saturating_sub(self.front.bytes());
        let (len, truncated) = if self.front == Front::Frame {
            let length = &self.headed[i].0[FLOW_BYTES..];
            let stated = usize::from(u16::from_be_bytes([length[0], length[1]]));
            // A frame may be padded, and the kernel drops those that are shorter than they state.
            let len = stated.min(arrived).min(self.bytes_each);
            (len, stated > len)
        } else {
            let len = arrived.min(self.bytes_each);
            (len, header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0)
        };
        let start = i * self.stride;
        // A narrower type with some C libraries.
        #[allow(clippy::unnecessary_cast)]
        let control_len = (header.msg_hdr.msg_controllen as usize).min(CONTROL_WORDS * 8);
        let control = &self.controls[i];
        // SAFETY: the words of `control` are initialised and may be read as bytes; the length is within them.
        let control =
            unsafe { std::slice::from_raw_parts(control.as_ptr().cast::<u8>(), control_len) };
        let ancillary = parse_ancillary(control);
        let from = self.addresses[i].get(header.msg_hdr.msg_namelen);
        RecvMessage {
            data: &self.slab[start..start + len],
            // The kernel names the sender of every UDP datagram; one without a sender gets the unspecified address.
            from: from.unwrap_or(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)),
            segment_size: ancillary.segment_size.filter(|&size| usize::from(size) < len),
            kernel_realtime_ns: ancillary.kernel_realtime_ns,
            hardware_ns: ancillary.hardware_ns,
            overflow_total: ancillary.overflow_total,
            tos: ancillary.tos,
            ttl: ancillary.ttl,
            truncated,
        }
    }
}

/// The messages of one receive.
#[derive(Clone, Debug)]
pub struct RecvMessages<'a> {
    batch: &'a RecvBatch,
    next: usize,
}

impl<'a> Iterator for RecvMessages<'a> {
    type Item = RecvMessage<'a>;

    #[inline]
    fn next(&mut self) -> Option<RecvMessage<'a>> {
        if self.next >= self.batch.received {
            return None;
        }
        self.next += 1;
        Some(self.batch.message(self.next - 1))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.batch.received - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for RecvMessages<'_> {}
