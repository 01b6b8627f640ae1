//! The server on a Unix socket.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::{Share, Shared, connection};
use crate::{Address, TrafficError};

/// A listening Unix socket; its file goes with it.
pub(super) struct Listener {
    listener: tokio::net::UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Listens at `path`. A socket there that no server answers on is replaced.
    pub(super) fn open(path: &Path) -> Result<Listener, TrafficError> {
        let is_stale = |e: &std::io::Error| {
            e.kind() == std::io::ErrorKind::AddrInUse
                && UnixStream::connect(path)
                    .is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused)
        };
        let opened = match tokio::net::UnixListener::bind(path) {
            Err(e) if is_stale(&e) => {
                std::fs::remove_file(path).and_then(|()| tokio::net::UnixListener::bind(path))
            }
            opened => opened,
        };
        let address = Address::unix(&path.to_string_lossy());
        let listener =
            opened.map_err(|e| TrafficError::Listen { address, reason: e.to_string() })?;
        Ok(Listener { listener, path: path.into() })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> Address {
        Address::unix(&self.path.to_string_lossy())
    }

    /// Takes connections, as the listeners of TCP do: from here on a stream is a stream.
    pub(super) async fn accept(self, shared: Arc<Shared>, closed: mpsc::UnboundedSender<()>) {
        loop {
            let accepted = match self.listener.accept().await {
                Ok((stream, _)) => stream.into_std(),
                Err(e) => Err(e),
            };
            let stream = accepted.and_then(|stream| {
                TcpStream::from_std(std::net::TcpStream::from(OwnedFd::from(stream)))
            });
            match stream {
                Ok(stream) => {
                    let most = shared.config.limits.half_open;
                    let Some(share) = Share::take(&shared.load, |l| &l.half_open, 1, most) else {
                        continue;
                    };
                    let (shared, closed) = (shared.clone(), Some(closed.clone()));
                    tokio::spawn(connection(stream, self.address(), shared, share, closed));
                }
                // Out of descriptors, or a connection that was gone: go on in a moment.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
