//! The sockets that a job's standard output and error are connected to.

use std::io;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// Two listening sockets, whose files go with it.
#[derive(Debug)]
pub(super) struct Sockets {
    out: UnixListener,
    err: UnixListener,
    paths: [PathBuf; 2],
}

impl Drop for Sockets {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Sockets {
    /// Listens in a directory by two names.
    pub(super) fn listen(directory: &Path, names: &[String; 2]) -> io::Result<Sockets> {
        let paths = [directory.join(&names[0]), directory.join(&names[1])];
        let (out, err) = (UnixListener::bind(&paths[0])?, UnixListener::bind(&paths[1])?);
        Ok(Sockets { out, err, paths })
    }

    /// Waits until both are connected.
    pub(super) async fn accept(&self) -> io::Result<(UnixStream, UnixStream)> {
        let ((out, _), (err, _)) = tokio::try_join!(self.out.accept(), self.err.accept())?;
        Ok((out, err))
    }
}
