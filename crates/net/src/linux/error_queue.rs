//! The error queue of a socket: ICMP errors with their senders, and the completions of zero-copy sends.

use crate::udp::{ErrorOrigin, QueuedError};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use super::control_message::{ControlMessages, u32_at};
use super::sockopt::retry;

/// Reads `struct sock_extended_err` and the address behind it.
pub(crate) fn parse_extended_error(data: &[u8]) -> Option<QueuedError> {
    let offender = data.get(16..).and_then(|rest| {
        let family = u16::from_ne_bytes([*rest.first()?, *rest.get(1)?]);
        match i32::from(family) {
            libc::AF_INET => {
                let octets: [u8; 4] = rest.get(4..8)?.try_into().ok()?;
                Some(IpAddr::V4(Ipv4Addr::from(octets)))
            }
            libc::AF_INET6 => {
                let octets: [u8; 16] = rest.get(8..24)?.try_into().ok()?;
                Some(IpAddr::V6(Ipv6Addr::from(octets)))
            }
            _ => None,
        }
    });
    let origin = match *data.get(4)? {
        libc::SO_EE_ORIGIN_LOCAL => ErrorOrigin::Local,
        libc::SO_EE_ORIGIN_ICMP => ErrorOrigin::Icmp,
        libc::SO_EE_ORIGIN_ICMP6 => ErrorOrigin::Icmp6,
        5 => ErrorOrigin::ZeroCopy,
        other => ErrorOrigin::Other(other),
    };
    Some(QueuedError {
        errno: i32::try_from(u32_at(data, 0)?).ok()?,
        origin,
        icmp_type: *data.get(5)?,
        icmp_code: *data.get(6)?,
        info: u32_at(data, 8)?,
        data: u32_at(data, 12)?,
        offender,
        quoted: None,
    })
}

/// Takes one entry from the error queue, `None` when it is empty. Never waits.
pub(crate) fn read(fd: BorrowedFd<'_>) -> io::Result<Option<QueuedError>> {
    // The kernel returns the payload of the refused datagram.
    let mut payload = [0_u8; 64];
    let mut control = [0_u64; 32];
    let mut vector = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
    // SAFETY: msghdr is integers and raw pointers, for which zero (null) is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the message points to locals of the given lengths, which live through the call.
    let result = retry(|| unsafe {
        libc::recvmsg(fd.as_raw_fd(), &raw mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
    });
    let quoted_bytes = match result {
        Ok(n) => n,
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(e) => return Err(e),
    };
    let quoted = payload.get(..quoted_bytes).and_then(|bytes| bytes.first_chunk()).copied();
    #[allow(clippy::unnecessary_cast)]
    let len = (message.msg_controllen as usize).min(size_of_val(&control));
    // SAFETY: the words of `control` are initialised and may be read as bytes; the length is within them.
    let bytes = unsafe { std::slice::from_raw_parts(control.as_ptr().cast::<u8>(), len) };
    let found = ControlMessages::new(bytes)
        .filter(|m| {
            matches!(
                (m.level, m.kind),
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
            )
        })
        .find_map(|m| parse_extended_error(m.data));
    found.map_or_else(
        || Err(io::ErrorKind::InvalidData.into()),
        |e| Ok(Some(QueuedError { quoted, ..e })),
    )
}
