//! Child processes by the standard library: no signals to groups, and no request to end.

use std::path::PathBuf;
use std::process::{Child, Command};

use super::{native, unsupported};
use crate::error::Result;

pub use native::has_ended;

/// Not available: kills it.
pub fn terminate(child: &mut Child) {
    let _ = child.kill();
}

/// Not available: kills the leader alone.
pub fn terminate_group(leader: &mut Child) {
    terminate(leader);
}

/// Not available: kills the leader alone.
pub fn kill_group(leader: &mut Child) {
    terminate(leader);
}

/// Keeps a terminal's signals from a command's process.
///
/// # Errors
/// None.
pub fn lead_session(command: &mut Command) -> Result<()> {
    native::lead_group(command);
    Ok(())
}

/// Not available.
pub fn die_with_starter(_command: &mut Command) -> Result<()> {
    unsupported("start", "a process that ends with its starter")
}

/// The file of this program by its name.
pub fn own_program() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| "weir".into())
}

/// Not available.
pub fn boot_id() -> Option<String> {
    None
}

/// Not available.
pub fn process_start_time(_pid: u32) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_seen_without_waiting_for_it() {
        let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert!(!has_ended(&child));
        terminate(&mut child);
        while !has_ended(&child) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(has_ended(&child) && child.wait().unwrap().code().is_none());
    }
}
