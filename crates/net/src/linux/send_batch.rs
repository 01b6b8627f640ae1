//! Many datagrams by one `sendmmsg`, each possibly segmented by the kernel or the card.

use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

use super::address::RawAddress;
use super::ethernet::EthernetSocket;
use super::sockopt::retry;
use super::udp::UdpSocket;
use crate::ethernet::HEADER_BYTES;
use crate::udp::{ICMP_HEADER_BYTES, SendMode, Sent};

/// Room for one control message of two bytes, aligned as the kernel requires.
const CONTROL_WORDS: usize = 4;

/// Room for a batch of messages, allocated once. Filled and sent through [`SendBatch::fill`].
pub struct SendBatch {
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
    addresses: Vec<RawAddress>,
    controls: Vec<[u64; CONTROL_WORDS]>,
    /// Of messages with headers, allocated when the first are sent: the header of each, and its vector with that of the payload.
    frames: Vec<([u8; HEADER_BYTES], [libc::iovec; 2])>,
}

// SAFETY: the raw pointers inside point into the heap blocks of the batch's own vectors, which are never
// resized and stay where they are when the batch moves, or into buffers that are
// borrowed for as long as a `Filling` exists and are never followed without one.
unsafe impl Send for SendBatch {}

impl std::fmt::Debug for SendBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendBatch").field("capacity", &self.headers.len()).finish()
    }
}

impl SendBatch {
    /// Room for `messages` messages, at most 1024: the kernel accepts no more in one call.
    pub fn new(messages: usize) -> Self {
        let n = messages.clamp(1, 1024);
        // SAFETY: mmsghdr is integers and raw pointers, for which zero (null) is a value.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let vector = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        SendBatch {
            headers: vec![header; n],
            vectors: vec![vector; n],
            addresses: vec![RawAddress::zeroed(); n],
            controls: vec![[0; CONTROL_WORDS]; n],
            frames: vec![],
        }
    }

    /// Starts a new batch; what was pushed is borrowed until it is dropped. Allocates nothing.
    #[inline]
    pub fn fill<'b>(&mut self) -> Filling<'_, 'b> {
        Filling { batch: self, filled: 0, sent: 0, buffers: PhantomData }
    }
}

/// A batch being filled and sent.
#[derive(Debug)]
pub struct Filling<'a, 'b> {
    batch: &'a mut SendBatch,
    filled: usize,
    sent: usize,
    buffers: PhantomData<&'b [u8]>,
}

impl<'b> Filling<'_, 'b> {
    /// Adds a message: `buffer` as one datagram, or cut into datagrams of `segment_size` bytes; to `to`, which must be
    /// given on an unconnected socket. Fails with `StorageFull` when the batch is full and with `InvalidInput` for a
    /// segment size of 0; the batch is then as before.
    #[inline]
    pub fn push(
        &mut self,
        buffer: &'b [u8],
        segment_size: Option<u16>,
        to: Option<SocketAddr>,
    ) -> io::Result<()> {
        let i = self.filled;
        let Some(header) = self.batch.headers.get_mut(i) else {
            return Err(io::ErrorKind::StorageFull.into());
        };
        if segment_size == Some(0) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let vector = &mut self.batch.vectors[i];
        vector.iov_base = buffer.as_ptr().cast_mut().cast();
        vector.iov_len = buffer.len();
        header.msg_len = 0;
        let message = &mut header.msg_hdr;
        message.msg_iov = vector;
        message.msg_iovlen = 1;
        match to {
            Some(to) => {
                let address = &mut self.batch.addresses[i];
                message.msg_namelen = address.set(to);
                message.msg_name = (&raw mut *address).cast();
            }
            None => {
                message.msg_name = std::ptr::null_mut();
                message.msg_namelen = 0;
            }
        }
        // A single segment needs no segmentation, and some routes refuse the request even then.
        match segment_size.filter(|&size| usize::from(size) < buffer.len()) {
            Some(size) => {
                let control = &mut self.batch.controls[i];
                message.msg_controllen = segment_control(control, size) as _;
                message.msg_control = control.as_mut_ptr().cast();
            }
            None => {
                message.msg_control = std::ptr::null_mut();
                message.msg_controllen = 0;
            }
        }
        self.filled += 1;
        Ok(())
    }

    /// Messages pushed and not yet accepted by the system.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.filled - self.sent
    }

    /// Whether no more fits.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.filled == self.batch.headers.len()
    }

    /// Passes the remaining messages to the system, which may accept fewer: call again for the rest. An error means
    /// that the first remaining message was not accepted (a later one's error shows at the next call). Nothing
    /// remaining: zero.
    #[inline]
    pub fn send(&mut self, socket: &UdpSocket, mode: SendMode) -> io::Result<Sent> {
        self.send_on(socket.as_raw_fd(), mode)
    }

    /// As [`Filling::send`], each message as the payload of one frame; never waits. Messages must have no segment size and no
    /// address.
    pub fn send_frames(&mut self, socket: &EthernetSocket) -> io::Result<Sent> {
        self.send_with(socket.as_raw_fd(), |payload| {
            socket.header(payload.len()).map(|header| (header, HEADER_BYTES))
        })
    }

    /// As [`Filling::send`], each message after the first `bytes` bytes of a header of its own; never waits. Messages must have
    /// no segment size and no address.
    pub fn send_headed(
        &mut self,
        socket: &UdpSocket,
        bytes: usize,
        header: impl Fn(&[u8]) -> [u8; ICMP_HEADER_BYTES],
    ) -> io::Result<Sent> {
        self.send_with(socket.as_raw_fd(), |payload| {
            let mut front = [0; HEADER_BYTES];
            front[..ICMP_HEADER_BYTES].copy_from_slice(&header(payload));
            Ok((front, bytes.min(ICMP_HEADER_BYTES)))
        })
    }

    /// Sends each message after the first bytes of a header, as many as `header` returns with it.
    fn send_with(
        &mut self,
        socket: RawFd,
        header: impl Fn(&[u8]) -> io::Result<([u8; HEADER_BYTES], usize)>,
    ) -> io::Result<Sent> {
        let batch = &mut *self.batch;
        if batch.frames.is_empty() {
            let vector = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
            batch.frames = vec![([0; HEADER_BYTES], [vector; 2]); batch.headers.len()];
        }
        for i in self.sent..self.filled {
            let payload = batch.vectors[i];
            // SAFETY: `push` made the vector of a slice that is borrowed for 'b, which outlives `self`.
            let bytes = unsafe {
                std::slice::from_raw_parts(payload.iov_base.cast::<u8>(), payload.iov_len)
            };
            let (place, vectors) = &mut batch.frames[i];
            let front_bytes;
            (*place, front_bytes) = header(bytes)?;
            let front = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: front_bytes };
            *vectors = [front, payload];
            let message = &mut batch.headers[i].msg_hdr;
            message.msg_iov = vectors.as_mut_ptr();
            message.msg_iovlen = vectors.len() as _;
        }
        self.send_on(socket, SendMode::DontWait)
    }

    #[inline]
    fn send_on(&mut self, socket: RawFd, mode: SendMode) -> io::Result<Sent> {
        let remaining = self.remaining();
        if remaining == 0 {
            return Ok(Sent { messages: 0 });
        }
        let first = self.batch.headers[self.sent..self.filled].as_mut_ptr();
        let flags = match mode {
            SendMode::DontWait => libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
            SendMode::AsSocket => libc::MSG_NOSIGNAL,
        };
        // SAFETY: `first` begins `remaining` headers, each filled by `push` or `send_with` with pointers to this batch's
        // own vectors, frame headers, addresses and controls, and to buffers borrowed for 'b, which outlives self. The
        // kernel only reads them.
        let messages = retry(|| unsafe {
            libc::sendmmsg(socket, first, remaining as libc::c_uint, flags) as isize
        })?;
        let messages = messages.min(remaining);
        self.sent += messages;
        Ok(Sent { messages })
    }
}

/// Writes the `UDP_SEGMENT` control message; returns its length.
#[inline]
pub(crate) fn segment_control(control: &mut [u64; CONTROL_WORDS], size: u16) -> usize {
    // SAFETY: CMSG_LEN and CMSG_SPACE only compute.
    let (len, space) = unsafe { (libc::CMSG_LEN(2) as usize, libc::CMSG_SPACE(2) as usize) };
    const { assert!(size_of::<libc::cmsghdr>() + 8 <= CONTROL_WORDS * 8) };
    let header = control.as_mut_ptr().cast::<libc::cmsghdr>();
    // SAFETY: the array is 8-aligned and holds a header and its data (asserted above); all of it is initialised.
    unsafe {
        (*header).cmsg_len = len as _;
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        libc::CMSG_DATA(header).cast::<u16>().write_unaligned(size);
    }
    space
}
