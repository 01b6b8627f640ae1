//! A control connection whose messages are taken out of what has arrived.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_net::tcp::TcpOptions;

/// How long the peer may take to read a message.
const PATIENCE: Duration = Duration::from_secs(10);

/// A control connection of messages of at most `MAX` bytes.
#[derive(Debug)]
pub(crate) struct Buffered<const MAX: usize> {
    pub(crate) stream: TcpStream,
    /// What has arrived and was not taken: several messages may arrive together.
    pub(crate) buffer: Vec<u8>,
    /// Bytes of both directions.
    pub(crate) bytes: u64,
}

impl<const MAX: usize> Buffered<MAX> {
    pub(crate) fn new(stream: TcpStream) -> Self {
        let _ = stream.set_nodelay(true);
        Buffered { stream, buffer: Vec::with_capacity(MAX), bytes: 0 }
    }

    /// The same with options of the socket, as far as the system has them.
    pub(crate) fn with_options(self, options: &TcpOptions) -> io::Result<Self> {
        let stream: weir_net::tcp::TcpStream = self.stream.into_std()?.into();
        let _ = stream.set_options(options);
        Ok(Buffered { stream: TcpStream::from_std(stream.into())?, ..self })
    }

    /// Waits for more bytes. Nothing is lost if it is dropped.
    ///
    /// # Errors
    /// Those of the system; `UnexpectedEof`: the peer has closed.
    pub(crate) async fn more(&mut self) -> io::Result<()> {
        let mut bytes = [0; MAX];
        match self.stream.read(&mut bytes).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                self.buffer.extend_from_slice(&bytes[..read]);
                self.bytes += read as u64;
                Ok(())
            }
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// How long the peer did not read it; within, those of the system.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<io::Result<()>, Duration> {
        let write = tokio::time::timeout(PATIENCE, self.stream.write_all(bytes));
        let written = write.await.map_err(|_| PATIENCE)?;
        if written.is_ok() {
            self.bytes += bytes.len() as u64;
        }
        Ok(written)
    }

    pub(crate) fn local(&self) -> Option<SocketAddr> {
        self.stream.local_addr().ok()
    }
}
