//! Child processes, by pidfd and process group.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::error::{Error, Result};
use crate::namespace::{ChildSetup, Process, signal_group};

pub use crate::namespace::{boot_id, process_start_time};

/// Whether a child has ended. Does not reap it, so that its process id and its group's stay reserved.
pub fn has_ended(child: &Child) -> bool {
    // Not by /proc, which needs a descriptor: a process that has none left would take every child for ended.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    id.is_none_or(|id| !matches!(waitid(WaitId::Pid(id), options), Ok(None)))
}

/// Asks a child that was not reaped to end (SIGTERM); kills it if that fails.
pub fn terminate(child: &mut Child) {
    let pid = child.id();
    // Not reaped yet: the process id is its own.
    let process = process_start_time(pid).and_then(|at| Process::open(pid, at).ok().flatten());
    if process.is_none_or(|process| process.signal(libc::SIGTERM).is_err()) {
        let _ = child.kill();
    }
}

/// Asks the group of a leader that was not reaped to end (SIGTERM).
pub fn terminate_group(leader: &mut Child) {
    let _ = signal_group(leader.id(), libc::SIGTERM);
}

/// Kills the group of a leader that was not reaped: until then the number of its group is its own.
pub fn kill_group(leader: &mut Child) {
    let _ = signal_group(leader.id(), libc::SIGKILL);
}

/// Makes a command's process the leader of a session of its own, out of reach of the terminal's signals.
///
/// # Errors
/// None in practice: nothing is asked of the system until the command is started.
pub fn lead_session(command: &mut Command) -> Result<()> {
    let failed = |e: crate::namespace::Error| Error::system(e.operation, e.object, e.source);
    ChildSetup::new().new_session().apply(command).map_err(failed)
}

/// Kills a command's process when the *thread* that started it ends (PR_SET_PDEATHSIG).
///
/// # Errors
/// As [`lead_session`].
pub fn die_with_starter(command: &mut Command) -> Result<()> {
    let failed = |e: crate::namespace::Error| Error::system(e.operation, e.object, e.source);
    ChildSetup::new().parent_death_signal(libc::SIGKILL).apply(command).map_err(failed)
}

/// The file of the running program, even if its name leads to another file now.
pub fn own_program() -> PathBuf {
    let running = Path::new("/proc/self/exe");
    match running.exists() {
        true => running.into(),
        false => std::env::current_exe().unwrap_or_else(|_| "weir".into()),
    }
}
