//! macOS, BSD: the calls that the standard library and socket2 do not have.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::clock::ProcessCpu;
use crate::socket::BorrowedSocket;

/// A socket by its number, as in a poll.
pub(crate) type RawSocket = std::os::fd::RawFd;
/// An entry of a poll.
pub(crate) type PollEntry = libc::pollfd;

pub(crate) const READABLE: i16 = libc::POLLIN;
pub(crate) const WRITABLE: i16 = libc::POLLOUT;
pub(crate) const ERROR: i16 = libc::POLLERR;
pub(crate) const HANG_UP: i16 = libc::POLLHUP;
pub(crate) const CLOSED: i16 = libc::POLLNVAL;

pub(crate) fn raw(socket: BorrowedSocket<'_>) -> RawSocket {
    socket.as_raw_fd()
}

pub(crate) fn entry(socket: RawSocket, events: i16) -> PollEntry {
    libc::pollfd { fd: socket, events, revents: 0 }
}

/// Waits until an entry has an event, at most `timeout_ms` (forever: −1).
pub(crate) fn poll(entries: &mut [PollEntry], timeout_ms: i32) -> io::Result<()> {
    let count = entries.len() as libc::nfds_t;
    // SAFETY: `entries` is writable for `count` entries through the call.
    match unsafe { libc::poll(entries.as_mut_ptr(), count, timeout_ms) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Whether a non-blocking connect has started.
pub(crate) fn is_connecting(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINPROGRESS)
}

pub(crate) fn hostname() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: `name` is writable for its length.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) } != 0;
    let length = name.iter().position(|byte| *byte == 0).filter(|_| !failed).unwrap_or(0);
    String::from_utf8_lossy(&name[..length]).into_owned()
}

/// Whether a child has ended, without waiting for it.
pub fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    id.is_none_or(|id| !matches!(waitid(WaitId::Pid(id), options), Ok(None)))
}

pub(crate) fn lead_group(command: &mut Command) {
    command.process_group(0);
}

fn cpu(clock: libc::clockid_t) -> ProcessCpu {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid, exclusively borrowed timespec for the duration of the call.
    unsafe { libc::clock_gettime(clock, &raw mut t) };
    // All of it as user time: the clock does not separate the two.
    ProcessCpu { user_ns: t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64, system_ns: 0 }
}

pub(crate) fn process_cpu() -> ProcessCpu {
    cpu(libc::CLOCK_PROCESS_CPUTIME_ID)
}

pub(crate) fn thread_cpu() -> ProcessCpu {
    cpu(libc::CLOCK_THREAD_CPUTIME_ID)
}
