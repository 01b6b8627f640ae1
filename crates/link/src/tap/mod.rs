//! TAP: a network device of the kernel, of which this process is the wire.
//!
//! Frames that the host, or a bridge that the device is a port of, sends out of the device are read here, and frames that are
//! written here arrive at it. With each frame the kernel passes a `struct virtio_net_hdr`, so that checksums and the
//! segmentation of super-packets may be left to the reader, as with a packet socket. VLAN tags are in the frame. There is
//! no time of arrival: the time of reading takes its place.

mod receive;
mod send;

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use weir_net::interface::{self, CounterReader};
use weir_net::namespace::LinkControl;

use crate::error::{Error, Result};
use crate::link::{Description, Link, Mode, StampSource};
use crate::options::LinkOptions;
use crate::segment::VnetHeader;
use crate::slabs::Slabs;
use receive::TapReceiver;
use send::TapTransmitter;

const CLONE_DEVICE: &str = "/dev/net/tun";
/// Frames that the queue of a created device holds, as the ring of a packet socket.
const DEFAULT_RING_FRAMES: u32 = 8192;
const MODE: i32 = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
/// What the host may leave to the reader of its frames, and that from Linux 6.2 on.
const OFFLOADS: u32 = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
const UDP_OFFLOADS: u32 = libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// The device, and its name in errors.
#[derive(Debug)]
struct Tap {
    fd: OwnedFd,
    called: String,
}

/// Creates the TAP device `device` in the calling thread's network namespace and brings it up, or attaches to an existing
/// one that no program has open. A created device is removed with the link, also by SIGKILL; an existing one stays, up or
/// down as it was. `called` is the link's name in its description and in errors.
///
/// [`LinkOptions::ring_frames`] is the length of a created device's transmit queue; an existing one keeps its own.
///
/// # Errors
/// An invalid name, an interface that is not a TAP device, one with several queues or in use; no CAP_NET_ADMIN; no
/// `/dev/net/tun`; the kernel's refusal.
pub fn open_tap(device: &str, called: &str, options: &LinkOptions) -> Result<Link> {
    let refused = |reason: &str| Error::refused("open", called, reason);
    let failed = |operation| move |source| Error::system(operation, called, source);
    let fits = (1..libc::IFNAMSIZ).contains(&device.len());
    // The kernel would replace %d by a number.
    if !fits || device.contains(['%', '\0']) {
        return Err(refused("accepted: a name of 1 to 15 bytes without %"));
    }
    let fd = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(CLONE_DEVICE)
        .map_err(|error| io::Error::new(error.kind(), format!("{CLONE_DEVICE}: {error}")))
        .map_err(failed("open"))?
        .into();
    let attached = attach(&fd, device, libc::IFF_TUN_EXCL).map(|()| true);
    let exists = |error: &io::Error| error.raw_os_error() == Some(libc::EBUSY);
    let attached = match attached {
        Err(error) if exists(&error) => attach(&fd, device, 0).map(|()| false),
        other => other,
    };
    let created = attached.map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => refused("another program has it open"),
        Some(libc::EINVAL) => refused(why_invalid(device)),
        Some(libc::EPERM) => failed("open")(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "CAP_NET_ADMIN is required, or an existing TAP device that belongs to this user",
        )),
        _ => failed("open")(error),
    })?;
    // Another program may have left another size.
    let size = VnetHeader::LEN as libc::c_int;
    // SAFETY: TUNSETVNETHDRSZ reads an int, which lives through the call.
    answer(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const size) })
        .map_err(failed("enable offload information on"))?;
    let offload = |offloads: u32| {
        let offloads = libc::c_ulong::from(offloads);
        // SAFETY: TUNSETOFFLOAD takes its argument by value.
        answer(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) })
    };
    offload(OFFLOADS | UDP_OFFLOADS)
        .or_else(|_| offload(OFFLOADS))
        .map_err(failed("enable offloads on"))?;
    let mut notes = Vec::new();
    let control = LinkControl::open()?;
    if created {
        let ring_frames = options.ring_frames.unwrap_or(DEFAULT_RING_FRAMES);
        control.set_transmit_queue_length(device, ring_frames)?;
        control.set_up(device)?;
        notes.push("created, removed at the end".to_owned());
    } else {
        notes.push("an existing device, which stays".to_owned());
    }
    let ring_frames = control.transmit_queue_length(device)?;
    if !created && options.ring_frames.is_some_and(|wanted| wanted != ring_frames) {
        notes.push(format!("its transmit queue keeps its length of {ring_frames} frames"));
    }
    let counters = CounterReader::open(interface::interface(device)?.index)?;
    let tap = Arc::new(Tap { fd, called: called.to_owned() });
    let receiver = TapReceiver::new(tap.clone(), counters, options.clock.clone())?;
    Ok(Link {
        receiver: Box::new(receiver),
        transmitter: Box::new(TapTransmitter::new(tap)),
        description: Description {
            interface: called.to_owned(),
            mode: Mode::Tap,
            reason: None,
            stamps: StampSource::Reading,
            queues: 1,
            ring_frames,
            max_frame_bytes: Slabs::MAX_FRAME_BYTES as u32,
            notes,
        },
    })
}

/// Attaches the descriptor to a device, which is created if there is none.
fn attach(fd: &OwnedFd, device: &str, flags: i32) -> io::Result<()> {
    // SAFETY: ifreq is integers and a union of such and pointers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (MODE | flags) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes `request`, which lives through the call.
    answer(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })
}

fn answer(rc: libc::c_int) -> io::Result<()> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Why the kernel can't attach to an interface as a TAP device.
fn why_invalid(device: &str) -> &'static str {
    match interface::interface(device) {
        Ok(found) if found.kind.as_deref() != Some("tun") => {
            "an interface of this name exists and is not a TAP device"
        }
        Ok(found) if found.mac.is_none() => "it is a TUN device, which carries no Ethernet frames",
        Ok(_) => "it has several queues (multi_queue); accepted: a TAP device with one",
        Err(_) => "the kernel does not accept this name",
    }
}

impl Tap {
    /// The error of a read or a write that failed for good.
    fn error(&self, operation: &'static str, error: io::Error) -> Error {
        match error.raw_os_error() {
            // The descriptor has no device any more.
            Some(libc::EBADFD) => Error::Gone(self.called.clone()),
            _ => Error::system(operation, self.called.clone(), error),
        }
    }
}
