//! AF_XDP without a compiler or library: frames are passed between the driver (or the bottom of the network
//! stack) and memory shared with this process, bypassing the rest of the stack.
//!
//! Each receive queue has a socket with its own memory. A program on the interface redirects each frame to
//! the socket of its queue. A separate socket on the first queue of a link sends, with that queue's memory: polling a
//! socket that can send also drives its sending, which would hide dropped frames.

mod receive;
mod ring;
mod send;
mod umem;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::bpf::{Attachment, SocketMap};
use crate::error::{Error, Result};
use crate::link::{Description, Link, Mode, StampSource};
use crate::options::LinkOptions;
use crate::packet;
use crate::sys::{self, Device};
use receive::{Queue, XdpReceiver};
use ring::Ring;
use send::XdpTransmitter;
use umem::Umem;

/// Maximum MTU: a page minus the bytes that drivers need before and after a frame (veth's value).
pub(crate) const MAX_MTU_BYTES: u32 = 3506;
const DEFAULT_RING_FRAMES: u32 = 4096;
/// Maximum number of frames being sent.
const TRANSMIT_FRAMES: u32 = 2048;
/// Bytes that the kernel leaves free before each frame (`XDP_PACKET_HEADROOM`).
const HEADROOM_BYTES: u32 = 256;
/// Ethernet's header and two VLAN tags.
const LINK_HEADER_BYTES: u32 = 22;
/// Maximum number of queues, which one thread has to serve.
const MAX_QUEUES: u32 = 64;
/// Maximum number of retries of binding: a queue that was in use is free again within a second.
const BUSY_TRIES: u32 = 100;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// State shared by all sockets of an interface.
#[derive(Debug)]
struct Shared {
    device: Device,
    /// Puts the interface into promiscuous mode, which AF_XDP does not.
    _promiscuous: OwnedFd,
    /// Dropped before the sockets, so that no frame is redirected to a socket that is being closed.
    _program: Attachment,
    _map: SocketMap,
}

/// Flags of binding for a mode, and whether the program runs in the driver.
fn binding(mode: Mode) -> Option<(u16, bool)> {
    match mode {
        Mode::XdpZeroCopy => Some((libc::XDP_ZEROCOPY, true)),
        Mode::XdpNative => Some((libc::XDP_COPY, true)),
        Mode::XdpGeneric => Some((libc::XDP_COPY, false)),
        Mode::Packet | Mode::Tap | Mode::Memory => None,
    }
}

/// Opens AF_XDP links on an interface of the calling thread's network namespace. Several divide its queues among them.
pub(crate) fn open(
    device: &Device,
    mtu_bytes: u32,
    mode: Mode,
    options: &LinkOptions,
    links: u32,
) -> Result<Vec<Link>> {
    let refused = |reason: String| Error::refused("open AF_XDP on", device.name.clone(), reason);
    let Some((flags, in_driver)) = binding(mode) else {
        return Err(refused(format!("{mode} is not a mode of AF_XDP")));
    };
    if mtu_bytes > MAX_MTU_BYTES {
        return Err(refused(format!(
            "its MTU is {mtu_bytes} bytes, the maximum is {MAX_MTU_BYTES}"
        )));
    }
    let frame_bytes = mtu_bytes + LINK_HEADER_BYTES;
    let chunk_bytes = if frame_bytes + HEADROOM_BYTES <= 2048 { 2048 } else { 4096 };
    let ring_frames =
        options.ring_frames.unwrap_or(DEFAULT_RING_FRAMES).clamp(64, 1 << 16).next_power_of_two();

    let failed = |operation| {
        let name = device.name.clone();
        move |source| Error::system(operation, name, source)
    };
    let promiscuous = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)
        .map_err(failed("open a packet socket for"))?;
    packet::be_promiscuous(&promiscuous, device)?;

    let mut queues = Vec::new();
    for queue in 0..=MAX_QUEUES {
        match Queue::open(device, queue, queue < links, chunk_bytes, ring_frames, flags) {
            // Frames of a queue without a socket would be lost and not counted.
            Ok(_) if queue == MAX_QUEUES => {
                return Err(refused(format!("it has more than {MAX_QUEUES} queues")));
            }
            Ok(opened) => queues.push(opened),
            // There is no queue with this number.
            Err(e) if queue > 0 && e.raw_os_error() == Some(libc::EINVAL) => break,
            Err(e) => {
                return Err(Error::system(
                    "bind AF_XDP to",
                    format!("{} queue {queue}", device.name),
                    e,
                ));
            }
        }
    }
    let count = queues.len() as u32;
    if count < links {
        return Err(refused(format!(
            "it has {}, and {links} threads need one each",
            match count {
                1 => "1 queue".to_owned(),
                _ => format!("{count} queues"),
            }
        )));
    }
    let parts: Vec<TransmitParts> =
        queues.iter_mut().filter_map(Queue::take_transmit_parts).collect();

    let map = SocketMap::new(queues.len() as u32).map_err(failed("create a map of sockets for"))?;
    for (queue, socket) in queues.iter().enumerate() {
        map.set(queue as u32, socket.fd().as_raw_fd()).map_err(failed("enter a socket of"))?;
    }
    let program = map.attach(device.index, in_driver).map_err(|e| match e.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => refused("another XDP program is attached".into()),
        Some(libc::ERANGE) => {
            refused("its MTU, or that of its other end, is too large for its driver".into())
        }
        _ => failed("attach an XDP program to")(e),
    })?;
    let shared = Arc::new(Shared {
        device: device.clone(),
        _promiscuous: promiscuous,
        _program: program,
        _map: map,
    });
    let mut notes = Vec::new();
    if mode == Mode::XdpZeroCopy {
        notes.push("zero-copy is untested".to_owned());
    }
    if mode == Mode::XdpGeneric {
        notes.push(
            "super-packets of a local sender (tso, gso) are lost and counted as oversized"
                .to_owned(),
        );
    }
    // Queue n to link n modulo their number.
    let mut parted: Vec<Vec<Queue>> = parts.iter().map(|_| Vec::new()).collect();
    for (queue, number) in queues.into_iter().zip(0..) {
        parted[number % parts.len()].push(queue);
    }
    let link = |(parts, queues): (TransmitParts, Vec<Queue>)| {
        let count = queues.len() as u32;
        let receiver = XdpReceiver::new(queues, mode != Mode::XdpZeroCopy, shared.clone())?;
        let transmitter = XdpTransmitter::new(parts, shared.clone(), mode == Mode::XdpZeroCopy);
        Ok(Link {
            receiver: Box::new(receiver),
            transmitter: Box::new(transmitter),
            description: Description {
                interface: device.name.clone(),
                mode,
                reason: None,
                stamps: StampSource::Reading,
                queues: count,
                ring_frames,
                max_frame_bytes: frame_bytes,
                notes: notes.clone(),
            },
        })
    };
    parts.into_iter().zip(parted).map(link).collect()
}

/// Binds a socket. Retries while the kernel is still removing the previous user of the queue.
fn bind(fd: &OwnedFd, address: &libc::sockaddr_xdp) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match sys::bind(fd, address) {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && tries < BUSY_TRIES => {
                tries += 1;
                std::thread::sleep(BUSY_PAUSE);
            }
            other => return other,
        }
    }
}

fn address(device: &Device, queue: u32, flags: u16, umem_of: u32) -> libc::sockaddr_xdp {
    libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: device.index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: umem_of,
    }
}

fn offsets(fd: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    let none = || libc::xdp_ring_offset { producer: 0, consumer: 0, desc: 0, flags: 0 };
    let empty = libc::xdp_mmap_offsets { rx: none(), tx: none(), fr: none(), cr: none() };
    sys::get_option(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, empty)
}

/// Parts of a link's first queue that the sending half owns.
struct TransmitParts {
    fd: OwnedFd,
    umem: Arc<Umem>,
    transmit: Ring<libc::xdp_desc>,
    completion: Ring<u64>,
    free: Vec<u64>,
}
