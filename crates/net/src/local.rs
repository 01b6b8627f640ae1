//! Connecting to Unix sockets, where the system has them.

use std::io;
use std::net::TcpStream;
use std::path::Path;

/// Connects to a Unix stream socket. The result has the type of a TCP stream, since it is used alike.
///
/// # Errors
/// Those of the system; `Unsupported` where it has no Unix sockets.
#[cfg(unix)]
pub fn connect(path: &Path) -> io::Result<TcpStream> {
    let stream = std::os::unix::net::UnixStream::connect(path)?;
    Ok(std::os::fd::OwnedFd::from(stream).into())
}

/// Connects to a Unix stream socket.
///
/// # Errors
/// `Unsupported`: this system has no Unix sockets.
#[cfg(not(unix))]
pub fn connect(_: &Path) -> io::Result<TcpStream> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "Unix sockets are not available on this system"))
}
