//! Windows: the calls that the standard library and socket2 do not have.

use std::io;
use std::os::windows::io::{AsRawHandle, AsRawSocket};
use std::os::windows::process::CommandExt;
use std::process::{Child, Command};

use windows_sys::Win32::Foundation::{FILETIME, HANDLE, WAIT_OBJECT_0};
use windows_sys::Win32::Networking::WinSock::{
    POLLERR, POLLHUP, POLLNVAL, POLLRDNORM, POLLWRNORM, SOCKET_ERROR, WSAPOLLFD, WSAPoll,
};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, GetCurrentProcess, GetCurrentThread, GetProcessTimes, GetThreadTimes,
    WaitForSingleObject,
};

use crate::clock::ProcessCpu;
use crate::socket::BorrowedSocket;

/// A socket by its number, as in a poll.
pub(crate) type RawSocket = std::os::windows::io::RawSocket;
/// An entry of a poll.
pub(crate) type PollEntry = WSAPOLLFD;

pub(crate) const READABLE: i16 = POLLRDNORM;
pub(crate) const WRITABLE: i16 = POLLWRNORM;
pub(crate) const ERROR: i16 = POLLERR;
pub(crate) const HANG_UP: i16 = POLLHUP;
pub(crate) const CLOSED: i16 = POLLNVAL;

pub(crate) fn raw(socket: BorrowedSocket<'_>) -> RawSocket {
    socket.as_raw_socket()
}

pub(crate) fn entry(socket: RawSocket, events: i16) -> PollEntry {
    WSAPOLLFD { fd: socket as usize, events, revents: 0 }
}

/// Waits until an entry has an event, at most `timeout_ms` (forever: −1). Before Windows 10 version 2004 a failed connect
/// is not reported.
pub(crate) fn poll(entries: &mut [PollEntry], timeout_ms: i32) -> io::Result<()> {
    let count = u32::try_from(entries.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `entries` is writable for `count` entries through the call.
    match unsafe { WSAPoll(entries.as_mut_ptr(), count, timeout_ms) } {
        SOCKET_ERROR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Whether a non-blocking connect has started.
pub(crate) fn is_connecting(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

pub(crate) fn hostname() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// Whether a child has ended, without waiting for it.
pub fn has_ended(child: &Child) -> bool {
    // SAFETY: the handle is open as long as `child` is.
    unsafe { WaitForSingleObject(child.as_raw_handle() as HANDLE, 0) == WAIT_OBJECT_0 }
}

pub(crate) fn lead_group(command: &mut Command) {
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
}

/// CPU time of a process or a thread.
fn cpu(times: impl FnOnce(&mut [FILETIME; 4]) -> i32) -> ProcessCpu {
    let mut read = [FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 }; 4];
    if times(&mut read) == 0 {
        return ProcessCpu::default();
    }
    // In units of 100 ns: creation, exit, kernel, user.
    let [.., system_ns, user_ns] =
        read.map(|t| (u64::from(t.dwHighDateTime) << 32 | u64::from(t.dwLowDateTime)) * 100);
    ProcessCpu { user_ns, system_ns }
}

pub(crate) fn process_cpu() -> ProcessCpu {
    // SAFETY: the pseudo handle is always valid, and each pointer is to a FILETIME of its own.
    cpu(|[created, ended, kernel, user]| unsafe {
        GetProcessTimes(GetCurrentProcess(), created, ended, kernel, user)
    })
}

pub(crate) fn thread_cpu() -> ProcessCpu {
    // SAFETY: as in `process_cpu`.
    cpu(|[created, ended, kernel, user]| unsafe {
        GetThreadTimes(GetCurrentThread(), created, ended, kernel, user)
    })
}
