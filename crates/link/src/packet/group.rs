//! Several sockets on one interface, each of which receives part of what arrives (`PACKET_FANOUT`).

use std::os::fd::OwnedFd;

use socket2::{SockFilter, SockRef};

use crate::error::{Error, Result};
use crate::sys::{self, Device};

/// Where the type of a packet is, for a filter (`SKF_AD_OFF + SKF_AD_PKTTYPE`).
const PACKET_TYPE: u32 = 0xffff_f000 + 4;
/// The whole packet, as a filter's verdict.
const ALL: u32 = u32::MAX;

const NOTHING: [SockFilter; 1] = [step(libc::BPF_RET, 0, 0, 0)];
/// What did not leave by this interface: a group does not heed `PACKET_IGNORE_OUTGOING`.
const INCOMING: [SockFilter; 4] = [
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, PACKET_TYPE),
    step(libc::BPF_JMP | libc::BPF_JEQ, 0, 1, libc::PACKET_OUTGOING as u32),
    step(libc::BPF_RET, 0, 0, 0),
    step(libc::BPF_RET, 0, 0, ALL),
];

const fn step(code: u32, jt: u8, jf: u8, k: u32) -> SockFilter {
    SockFilter::new(code as u16, jt, jf, k)
}

/// Binds sockets and makes them a group. Until all are in it they receive nothing, so that no packet is received twice.
pub(super) fn join<'a>(
    sockets: impl Iterator<Item = &'a OwnedFd> + Clone,
    device: &Device,
    bind: impl Fn(&OwnedFd) -> Result<()>,
) -> Result<()> {
    let failed = |operation| {
        let name = device.name.clone();
        move |source| Error::system(operation, name, source)
    };
    let mut number = None;
    for fd in sockets.clone() {
        SockRef::from(fd)
            .attach_filter(&NOTHING)
            .map_err(failed("attach a filter to a packet socket of"))?;
        bind(fd)?;
        // The first one is given the number of a new group.
        let how = match number {
            None => (libc::PACKET_FANOUT_HASH | libc::PACKET_FANOUT_FLAG_UNIQUEID) << 16,
            Some(number) => libc::PACKET_FANOUT_HASH << 16 | number,
        };
        sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_FANOUT, &how)
            .map_err(failed("make a group of packet sockets on"))?;
        if number.is_none() {
            let group = sys::get_option(fd, libc::SOL_PACKET, libc::PACKET_FANOUT, 0_u32)
                .map_err(failed("read the group of packet sockets on"))?;
            number = Some(group & 0xffff);
        }
    }
    for fd in sockets {
        SockRef::from(fd)
            .attach_filter(&INCOMING)
            .map_err(failed("attach a filter to a packet socket of"))?;
    }
    Ok(())
}
