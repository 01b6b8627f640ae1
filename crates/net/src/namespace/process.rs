//! Other processes, by descriptor: a pid alone may be reused between a check and an action.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use super::{Error, NetNamespace, raw};

/// A process pinned by a pidfd (Linux 5.3).
#[derive(Debug)]
pub struct Process {
    pid: u32,
    fd: OwnedFd,
}

impl Process {
    /// Opens the process `pid` if it is alive and started at `start_time` (see
    /// [`process_start_time`]); `None` when it has ended or another process has the number now.
    pub fn open(pid: u32, start_time: u64) -> Result<Option<Self>, Error> {
        let named = |source| Error::new("open", format!("process {pid}"), source);
        let Ok(raw_pid) = libc::pid_t::try_from(pid) else { return Ok(None) };
        if raw_pid == 0 {
            return Ok(None);
        }
        // SAFETY: pidfd_open takes no pointers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, raw_pid, 0) };
        if fd < 0 {
            let error = io::Error::last_os_error();
            // EINVAL: the number belongs to a thread that leads no process.
            return match error.raw_os_error() {
                Some(libc::ESRCH | libc::EINVAL) => Ok(None),
                _ => Err(named(error)),
            };
        }
        // SAFETY: just opened and owned by no one else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
        // Checked only now that the descriptor pins the process.
        Ok((process_start_time(pid) == Some(start_time)).then_some(Self { pid, fd }))
    }

    /// Sends a signal; a process that has ended meanwhile is no error.
    pub fn signal(&self, signal: i32) -> Result<(), Error> {
        // SAFETY: a null siginfo is allowed.
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.fd.as_raw_fd(),
                signal,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        if result < 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::ESRCH) {
                return Err(Error::new("signal", format!("process {}", self.pid), error));
            }
        }
        Ok(())
    }

    /// Waits until the process has ended; false when it has not within `timeout`.
    pub fn wait(&self, timeout: Duration) -> Result<bool, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut poll =
                libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let milliseconds = left.as_millis().min(60_000) as libc::c_int;
            // SAFETY: one pollfd, which lives through the call.
            let ready = unsafe { libc::poll(&raw mut poll, 1, milliseconds) };
            if ready > 0 {
                return Ok(true);
            }
            if ready < 0 && raw::errno() != libc::EINTR {
                return Err(Error::last("wait for", format!("process {}", self.pid)));
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }
}

/// Signals every process of the group that `leader` leads (setpgid(2)). A group that no longer exists is no error.
///
/// Meant for a child that leads a group of its own and has not been reaped: until then its number, and that of its
/// group, can't be another's.
pub(crate) fn signal_group(leader: u32, signal: i32) -> Result<(), Error> {
    let named = |source| Error::new("signal", format!("process group {leader}"), source);
    let group = libc::pid_t::try_from(leader).unwrap_or(0);
    if group <= 1 {
        // 0 is the caller's own group, and -1 stands for every process.
        return Err(named(io::Error::from(io::ErrorKind::InvalidInput)));
    }
    // SAFETY: kill takes no pointers; the number is above 1, so that one group and nothing else is meant.
    if unsafe { libc::kill(-group, signal) } < 0 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ESRCH) {
            return Err(named(error));
        }
    }
    Ok(())
}

/// When a process started, in clock ticks since boot (proc_pid_stat(5), field 22); `None` when it is
/// gone or a zombie. With the pid it names a process uniquely within one boot.
pub fn process_start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_start_time(&stat)
}

/// The command name, field 2, may hold anything, also spaces and parentheses; it ends at the last `)`.
fn parse_start_time(stat: &[u8]) -> Option<u64> {
    let end = stat.iter().rposition(|&b| b == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    // `state` was field 3; field 22 is the nineteenth after it.
    fields.nth(18)?.parse().ok()
}

/// The kernel's identifier of this boot.
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

/// The effective user id of the calling process.
pub fn effective_user_id() -> u32 {
    // SAFETY: geteuid cannot fail.
    unsafe { libc::geteuid() }
}

/// Ends every process but the caller whose main thread is inside one of `namespaces`: SIGTERM, and SIGKILL to those
/// left after `grace`. Returns how many were signalled.
///
/// A process that the caller may not inspect (another user's) is left alone.
pub fn end_processes_in(namespaces: &[NetNamespace], grace: Duration) -> Result<usize, Error> {
    let mut ids = Vec::with_capacity(namespaces.len());
    for namespace in namespaces {
        let id = namespace.id()?;
        ids.push((id.device, id.inode));
    }
    let signalled = raw::signal_processes_in(&ids, libc::SIGTERM, None);
    if signalled == 0 {
        return Ok(0);
    }
    let started = Instant::now();
    // Signal 0 only counts. After the grace, two more seconds for SIGKILL to have its effect.
    while started.elapsed() < grace + Duration::from_secs(2) {
        let signal = if started.elapsed() < grace { 0 } else { libc::SIGKILL };
        if raw::signal_processes_in(&ids, signal, None) == 0 {
            break;
        }
        raw::sleep_milliseconds(5);
    }
    Ok(signalled)
}

/// SIGINT, SIGTERM and SIGHUP, blocked so that they can be waited for instead of ending the process.
#[derive(Debug)]
pub struct TerminationSignals {
    set: libc::sigset_t,
}

impl TerminationSignals {
    /// Blocks the three signals in the calling thread, and in threads it makes afterwards: call it
    /// before there are others.
    pub fn block() -> Self {
        // SAFETY: the set is initialised by sigemptyset before use; a null old set is allowed.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            Self { set }
        }
    }

    /// Waits for one of them and returns its number.
    pub fn wait(&self) -> i32 {
        loop {
            let mut signal = 0;
            // SAFETY: the set is initialised, `signal` is written before it is read.
            if unsafe { libc::sigwait(&raw const self.set, &raw mut signal) } == 0 {
                return signal;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_survives_hostile_command_names() {
        let stat = |name: &str, state: &str| {
            format!("7 ({name}) {state} 1 1 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 9\n")
        };
        assert_eq!(parse_start_time(stat("cat", "S").as_bytes()), Some(4242));
        assert_eq!(parse_start_time(stat(") S 1 (x) R", "S").as_bytes()), Some(4242));
        assert_eq!(parse_start_time(stat("gone", "Z").as_bytes()), None);
        assert_eq!(parse_start_time(b"7 (cut) S 1 2"), None);
        assert_eq!(parse_start_time(b""), None);
    }

    #[test]
    fn a_group_is_signalled_and_nothing_wider() {
        for leader in [0, 1, u32::MAX] {
            assert!(signal_group(leader, 0).is_err(), "{leader}");
        }
        let mut command = std::process::Command::new("sh");
        // The inner one holds the pipe: its end shows at the reader.
        command.args(["-c", "sleep 1000 & echo up; wait"]).stdout(std::process::Stdio::piped());
        super::super::ChildSetup::new().new_session().apply(&mut command).unwrap();
        let mut child = command.spawn().unwrap();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        signal_group(child.id(), libc::SIGKILL).unwrap();
        line.clear();
        assert_eq!(std::io::Read::read_to_string(&mut out, &mut line).unwrap(), 0);
        let group = child.id();
        child.wait().unwrap();
        assert!(signal_group(group, 0).is_ok(), "gone is no error");
    }

    #[test]
    fn a_reused_pid_is_not_opened() {
        let own = std::process::id();
        let start = process_start_time(own).unwrap();
        assert!(Process::open(own, start).unwrap().is_some());
        assert!(Process::open(own, start + 1).unwrap().is_none());
        assert!(Process::open(0, start).unwrap().is_none());
        assert!(Process::open(u32::MAX, start).unwrap().is_none());
    }
}
