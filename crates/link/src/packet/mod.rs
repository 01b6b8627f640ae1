//! TPACKET_V2: a packet socket with a memory-mapped receive ring, and another one for sending.
//!
//! V2 wakes the reader for every frame, V3 only for every block. With each frame the kernel reports its
//! time of arrival, the VLAN tag that it stripped, and (by `PACKET_VNET_HDR`) a partial checksum and how to
//! segment a super-packet.
//!
//! After the packet socket a frame would reach this host's own stack. A two-instruction program on the
//! interface's ingress (tcx) drops it there, if the kernel permits loading it. It is detached with the
//! link.

mod group;
mod receive;
mod ring;
mod send;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::bpf;
use crate::error::{Error, Result};
use crate::link::{Description, Link, Mode, StampSource};
use crate::options::LinkOptions;
use crate::slabs::Slabs;
use crate::sys::{self, Device};
use receive::PacketReceiver;
use ring::Ring;
use send::PacketTransmitter;

const DEFAULT_RING_FRAMES: u32 = 8192;
/// Ethernet's header and two VLAN tags.
const LINK_HEADER_BYTES: u32 = 22;

fn address(index: u32, protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

/// Puts the interface into promiscuous mode as long as the socket is open.
pub(crate) fn be_promiscuous(fd: &OwnedFd, device: &Device) -> Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: device.index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
        .map_err(|e| Error::system("receive everything on", device.name.clone(), e))
}

/// Opens packet links on an interface of the calling thread's network namespace. Several divide what arrives among them by a
/// hash of addresses and ports, so that each connection arrives at one of them.
pub(crate) fn open(
    device: &Device,
    mtu_bytes: u32,
    options: &LinkOptions,
    count: u32,
) -> Result<Vec<Link>> {
    let mut notes = Vec::new();
    let longest = (mtu_bytes + LINK_HEADER_BYTES).min(Slabs::MAX_FRAME_BYTES as u32);
    let sockets = (0..count).map(|_| receiving_socket(device, longest, options));
    let sockets = sockets.collect::<Result<Vec<_>>>()?;
    let guard = match bpf::drop_at_ingress(device.index) {
        Ok(guard) => Some(Arc::new(guard)),
        Err(error) => {
            notes.push(format!("this host's network stack sees the frames too ({error})"));
            None
        }
    };
    let bind = |fd: &OwnedFd| {
        sys::bind(fd, &address(device.index, libc::ETH_P_ALL as u16))
            .map_err(|source| Error::system("bind a packet socket to", device.name.clone(), source))
    };
    match &sockets[..] {
        [(only, _)] => bind(only)?,
        all => group::join(all.iter().map(|(fd, _)| fd), device, bind)?,
    }
    let link = |(fd, ring): (OwnedFd, Ring)| {
        let ring_frames = ring.frames();
        let transmitter = PacketTransmitter::open(device.clone(), mtu_bytes)?;
        let (device, guard) = (device.clone(), guard.clone());
        let interface = device.name.clone();
        let receiver = PacketReceiver::new(fd, ring, device, options.clock.clone(), guard)?;
        Ok(Link {
            receiver: Box::new(receiver),
            transmitter: Box::new(transmitter),
            description: Description {
                interface,
                mode: Mode::Packet,
                reason: None,
                stamps: StampSource::Kernel,
                queues: 1,
                ring_frames,
                max_frame_bytes: longest,
                notes: notes.clone(),
            },
        })
    };
    sockets.into_iter().map(link).collect()
}

/// A socket with a ring to receive with, not bound to the interface yet.
fn receiving_socket(
    device: &Device,
    longest: u32,
    options: &LinkOptions,
) -> Result<(OwnedFd, Ring)> {
    let failed = |operation| {
        let name = device.name.clone();
        move |source| Error::system(operation, name, source)
    };
    // Protocol 0: nothing arrives before the ring exists and the socket is bound.
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK;
    let fd = sys::socket(libc::AF_PACKET, kind, 0).map_err(failed("open a packet socket on"))?;
    let set = |name: i32, value: i32, operation| {
        sys::set_option(&fd, libc::SOL_PACKET, name, &value).map_err(failed(operation))
    };
    set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32, "set TPACKET_V2 on")?;
    set(libc::PACKET_VNET_HDR, 1, "enable offload information on")?;
    // Otherwise frames sent here would be received and sent back. Kernels older than 4.20 are refused.
    set(libc::PACKET_IGNORE_OUTGOING, 1, "ignore own frames (Linux 4.20) on")?;
    // A frame longer than its slot in the ring is read by a system call.
    set(libc::PACKET_COPY_THRESH, 1, "enable long frames on")?;
    sys::set_buffer(&fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, 64 << 20);
    let frames = options.ring_frames.unwrap_or(DEFAULT_RING_FRAMES);
    let ring = Ring::new(&fd, frames, longest).map_err(failed("create a receive ring for"))?;
    be_promiscuous(&fd, device)?;
    Ok((fd, ring))
}
