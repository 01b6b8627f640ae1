//! Unix sockets, where the system has them.

#[cfg_attr(not(unix), path = "absent.rs")]
mod unix;

use std::path::PathBuf;

pub(crate) use unix::Listener;

/// The file of a listening socket; it is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
