//! Packet sockets of Linux (`packet(7)`), one for each flow.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use socket2::{SockFilter, SockRef};

use super::options::set_buffer;
use super::sockopt::{self, retry};
use super::udp::UdpSocket;
use crate::error::{Context, Result};
use crate::ethernet::{EthernetOptions, FLOW_BYTES, FrameMatch, HEADER_BYTES};
use crate::udp::SocketMemory;

/// `PACKET_IGNORE_OUTGOING` of linux/if_packet.h.
pub(super) const PACKET_IGNORE_OUTGOING: i32 = 23;
/// Maximum number of frames dropped when the peer is set: they arrived by the filter before.
const MAX_STRAYS: usize = 1024;

/// A packet socket of one flow. Its calls never wait.
#[derive(Debug)]
pub struct EthernetSocket {
    socket: UdpSocket,
    send: Option<[u8; FLOW_BYTES]>,
}

impl AsFd for EthernetSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for EthernetSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Opens a non-blocking packet socket, `SOCK_RAW` or `SOCK_DGRAM`.
pub(super) fn packet_socket(kind: i32) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: a plain system call. Without a protocol it receives nothing before it is bound.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whether this process may open a packet socket.
///
/// # Errors
/// The system's answer: without CAP_NET_RAW `PermissionDenied`.
pub fn try_ethernet() -> io::Result<()> {
    packet_socket(libc::SOCK_RAW).map(drop)
}

impl EthernetSocket {
    /// Opens, sets and binds a socket. Fails at the first setting that the system refuses, and names it.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn open(options: &EthernetOptions) -> Result<EthernetSocket> {
        let object = options.name.as_str();
        let fd = packet_socket(libc::SOCK_RAW).context("open a packet socket on", object)?;
        let borrowed = fd.as_fd();
        // On loopback, and on the way out, this socket would see the flow's own frames.
        sockopt::set(borrowed, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            .context("ignore own frames (Linux 4.20) on", object)?;
        SockRef::from(&fd)
            .attach_filter(&filter(&options.receive))
            .context("set SO_ATTACH_FILTER on", object)?;
        if let Some(bytes) = options.send_buffer {
            set_buffer(borrowed, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes)
                .context("set SO_SNDBUF on", object)?;
        }
        if let Some(bytes) = options.receive_buffer {
            set_buffer(borrowed, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes)
                .context("set SO_RCVBUF on", object)?;
        }
        if let Some(priority) = options.priority {
            sockopt::set(borrowed, libc::SOL_SOCKET, libc::SO_PRIORITY, i32::from(priority))
                .context("set SO_PRIORITY on", object)?;
        }
        if options.timestamps {
            let wanted = libc::SOF_TIMESTAMPING_RX_SOFTWARE
                | libc::SOF_TIMESTAMPING_SOFTWARE
                | libc::SOF_TIMESTAMPING_RX_HARDWARE
                | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
            sockopt::set(borrowed, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, wanted)
                .context("set SO_TIMESTAMPING on", object)?;
        }
        bind(borrowed, options.interface, options.ethertype)
            .context("bind a packet socket to", object)?;
        Ok(EthernetSocket { socket: fd.into(), send: options.send })
    }

    /// Sets the peer: from now on frames that start with `receive` are received, and `send` starts sent ones. Frames that
    /// arrived before are dropped.
    ///
    /// # Errors
    /// The system's answer.
    pub fn set_peer(
        &mut self,
        receive: [u8; FLOW_BYTES],
        send: [u8; FLOW_BYTES],
    ) -> io::Result<()> {
        SockRef::from(&self.socket).attach_filter(&filter(&FrameMatch::exactly(receive)))?;
        for _ in 0..MAX_STRAYS {
            if self.recv_frame(&mut [0]).is_err() {
                break;
            }
        }
        self.send = Some(send);
        Ok(())
    }

    /// The header of a frame with this payload.
    #[inline]
    pub(crate) fn header(&self, payload_bytes: usize) -> io::Result<[u8; HEADER_BYTES]> {
        let flow = self.send.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let length = u16::try_from(payload_bytes)
            .map_err(|_| io::Error::from_raw_os_error(libc::EMSGSIZE))?;
        let mut header = [0; HEADER_BYTES];
        header[..FLOW_BYTES].copy_from_slice(flow);
        header[FLOW_BYTES..].copy_from_slice(&length.to_be_bytes());
        Ok(header)
    }

    /// Sends one frame with this payload.
    ///
    /// # Errors
    /// The system's answer; `NotConnected` without a peer.
    pub fn send(&self, payload: &[u8]) -> io::Result<usize> {
        let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
        frame.extend_from_slice(&self.header(payload.len())?);
        frame.extend_from_slice(payload);
        self.socket.send(&frame).map(|sent| sent.saturating_sub(HEADER_BYTES))
    }

    /// Receives one frame from Ethernet's header on; returns how many bytes of it fitted into the buffer.
    ///
    /// # Errors
    /// The system's answer: `WouldBlock` if none has arrived.
    pub fn recv_frame(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: `buffer` is writable for its length through the call.
        retry(|| unsafe {
            libc::recv(self.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0)
        })
    }

    /// The socket's memory accounts and drop counter (`SO_MEMINFO`).
    ///
    /// # Errors
    /// The system's answer.
    pub fn socket_memory(&self) -> io::Result<SocketMemory> {
        self.socket.socket_memory()
    }

    /// Bytes of send buffer in effect.
    ///
    /// # Errors
    /// The system's answer.
    pub fn send_buffer(&self) -> io::Result<usize> {
        self.socket.send_buffer()
    }

    /// Bytes of receive buffer in effect.
    ///
    /// # Errors
    /// The system's answer.
    pub fn receive_buffer(&self) -> io::Result<usize> {
        self.socket.receive_buffer()
    }
}

/// Binds a packet socket to an interface and an EtherType.
pub(super) fn bind(fd: BorrowedFd<'_>, interface: u32, ethertype: u16) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain integers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ethertype.to_be();
    address.sll_ifindex = i32::try_from(interface).map_err(|_| io::ErrorKind::InvalidInput)?;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` is readable for `len` bytes through the call.
    let rc = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Accepts frames that are addressed to this host, start with the wanted bytes, and are as long as they state.
fn filter(wanted: &FrameMatch) -> Vec<SockFilter> {
    // Instructions of linux/bpf_common.h, and SKF_AD_OFF + SKF_AD_PKTTYPE of linux/filter.h.
    const LOAD_WORD: u16 = 0x20;
    const LOAD_HALF: u16 = 0x28;
    const LOAD_LENGTH: u16 = 0x80;
    const AND: u16 = 0x54;
    const ADD: u16 = 0x04;
    const TO_X: u16 = 0x07;
    const IS_EQUAL: u16 = 0x15;
    const IS_AT_LEAST_X: u16 = 0x3d;
    const RETURN: u16 = 0x06;
    const PACKET_TYPE: u32 = 0xffff_f004;
    const THIS_HOST: u32 = 0;
    let mut steps = vec![(LOAD_WORD, PACKET_TYPE), (IS_EQUAL, THIS_HOST)];
    let words = wanted.bytes.as_chunks::<4>().0.iter().zip(wanted.mask.as_chunks::<4>().0);
    for (at, (bytes, mask)) in (0u32..).step_by(4).zip(words) {
        let (bytes, mask) = (u32::from_be_bytes(*bytes), u32::from_be_bytes(*mask));
        steps.extend([(LOAD_WORD, at), (AND, mask), (IS_EQUAL, bytes & mask)]);
    }
    steps.extend([
        (LOAD_HALF, FLOW_BYTES as u32),
        (ADD, HEADER_BYTES as u32),
        (TO_X, 0),
        (LOAD_LENGTH, 0),
        (IS_AT_LEAST_X, 0),
        (RETURN, u32::MAX),
        (RETURN, 0),
    ]);
    // A comparison that fails leads to the last step, which drops the frame.
    let last = steps.len() - 1;
    let filter = steps.into_iter().enumerate().map(|(at, (code, k))| match code {
        IS_EQUAL | IS_AT_LEAST_X => SockFilter::new(code, 0, (last - at - 1) as u8, k),
        _ => SockFilter::new(code, 0, 0, k),
    });
    filter.collect()
}
