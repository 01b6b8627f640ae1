//! Unix sockets. A connected one is used as a `TcpStream`: only calls common to all stream sockets are made on it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{TcpStream, UnixListener};
use weir_net::local::connect;

/// The file of a listening socket. It is removed when this is dropped, unless another server has replaced it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    id: Option<(u64, u64)>,
}

impl SocketFile {
    fn new(path: &Path) -> SocketFile {
        SocketFile { path: path.into(), id: id_of(path) }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.id.is_some() && id_of(&self.path) == self.id {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn id_of(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener(UnixListener);

impl Listener {
    /// Listens at `path`; with `is_private` for this user alone. A stale socket there is replaced.
    pub(crate) fn bind(path: &Path, is_private: bool) -> io::Result<(Listener, SocketFile)> {
        let is_stale = |e: &io::Error| {
            e.kind() == io::ErrorKind::AddrInUse
                // A connect to a file that is no socket is refused as well.
                && std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket())
                && connect(path)
                    .is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
        };
        let listener = match UnixListener::bind(path) {
            Err(e) if is_stale(&e) => {
                std::fs::remove_file(path)?;
                UnixListener::bind(path)
            }
            bound => bound,
        }?;
        let file = SocketFile::new(path);
        if is_private {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        }
        Ok((Listener(listener), file))
    }

    /// Accepts the next connection.
    pub(crate) async fn accept(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.0.accept().await?;
        TcpStream::from_std(OwnedFd::from(stream.into_std()?).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_socket_without_a_server_is_replaced() {
        let dir = std::env::temp_dir().join(format!("weir-local-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let path = dir.join("socket");
        let (listener, file) = Listener::bind(&path, true).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let in_use = Listener::bind(&path, false).unwrap_err();
        assert_eq!(in_use.kind(), io::ErrorKind::AddrInUse);
        // The server has ended and left its file.
        drop(listener);
        std::mem::forget(file);
        let (_listener, file) = Listener::bind(&path, false).unwrap();
        // Another server has taken the path over; both sockets exist, so that they have different inodes.
        std::fs::rename(&path, dir.join("earlier")).unwrap();
        let (_other, others) = Listener::bind(&path, false).unwrap();
        drop(file);
        assert!(path.exists());
        drop(others);
        assert!(!path.exists());
        std::fs::write(&path, "text").unwrap();
        assert!(Listener::bind(&path, false).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
