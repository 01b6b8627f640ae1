//! A system without Unix sockets: each request is refused.

use std::io;
use std::path::Path;

use tokio::net::TcpStream;

/// A listening socket; there can't be one.
#[derive(Debug)]
pub(crate) enum Listener {}

/// The file of a listening socket; there can't be one.
#[derive(Debug)]
pub(crate) enum SocketFile {}

impl Listener {
    /// Always fails.
    pub(crate) fn bind(_path: &Path, _is_private: bool) -> io::Result<(Listener, SocketFile)> {
        let reason = "Unix sockets are not available on this system";
        Err(io::Error::new(io::ErrorKind::Unsupported, reason))
    }

    /// Never called.
    pub(crate) async fn accept(&self) -> io::Result<TcpStream> {
        match *self {}
    }
}
