//! The server on a Unix socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::{Share, Shared, connection};
use crate::local::{self, SocketFile};
use crate::{Address, TrafficError};

/// A listening Unix socket; dropping it removes its file.
pub(super) struct Listener {
    listener: local::Listener,
    path: PathBuf,
    _file: SocketFile,
}

impl Listener {
    /// Listens at `path`. A stale socket there is replaced.
    pub(super) fn open(path: &Path) -> Result<Listener, TrafficError> {
        let (listener, file) =
            local::Listener::bind(path, false).map_err(|e| TrafficError::Listen {
                address: Address::unix(&path.to_string_lossy()),
                reason: e.to_string(),
            })?;
        Ok(Listener { listener, path: path.into(), _file: file })
    }

    /// The address that it listens on.
    pub(super) fn address(&self) -> Address {
        Address::unix(&self.path.to_string_lossy())
    }

    /// Accepts connections as the TCP listeners do; all streams are handled alike from here on.
    pub(super) async fn accept(self, shared: Arc<Shared>, closed: mpsc::UnboundedSender<()>) {
        loop {
            match self.listener.accept().await {
                Ok(stream) => {
                    let most = shared.config.limits.half_open;
                    let Some(share) = Share::take(&shared.load, |l| &l.half_open, 1, most) else {
                        continue;
                    };
                    let (shared, closed) = (shared.clone(), Some(closed.clone()));
                    tokio::spawn(connection(stream, self.address(), shared, share, closed));
                }
                // Out of descriptors, or a connection that was closed already: continue after a moment.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }
}
