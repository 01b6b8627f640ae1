//! The control connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_net::tcp::TcpOptions;
use weir_traffic::TrafficError;

use super::codec::{MESSAGE_BYTES, Message};

/// How long the peer may take to read a message.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why a message did not arrive, or was not sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum ControlError {
    #[error("the connection was closed")]
    Closed,
    #[error("{0}")]
    Io(io::Error),
    #[error("nothing arrived for {} s", .0.as_secs())]
    Silent(Duration),
}

impl From<io::Error> for ControlError {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match error.kind() {
            UnexpectedEof | ConnectionReset | BrokenPipe => ControlError::Closed,
            _ => ControlError::Io(error),
        }
    }
}

impl ControlError {
    /// The error of a test with `peer`, in a phase of it.
    pub(super) fn during(self, peer: SocketAddr, during: &'static str) -> TrafficError {
        TrafficError::Lost { address: peer.into(), during, reason: self.to_string() }
    }
}

/// A control connection.
#[derive(Debug)]
pub(super) struct Control {
    stream: TcpStream,
    buffer: [u8; MESSAGE_BYTES],
    /// Bytes of a message that have arrived.
    have: usize,
    /// Bytes of both directions.
    pub(super) bytes: u64,
}

impl Control {
    pub(super) fn new(stream: TcpStream) -> Self {
        let _ = stream.set_nodelay(true);
        Control { stream, buffer: [0; MESSAGE_BYTES], have: 0, bytes: 0 }
    }

    /// The same with options of the socket, as far as the system has them.
    pub(super) fn with_options(self, options: &TcpOptions) -> io::Result<Self> {
        let stream: weir_net::tcp::TcpStream = self.stream.into_std()?.into();
        let _ = stream.set_options(options);
        Ok(Control { stream: TcpStream::from_std(stream.into())?, ..self })
    }

    /// The next message, however long it takes. Nothing is lost if it is dropped.
    pub(super) async fn message(&mut self) -> Result<Message, ControlError> {
        while self.have < MESSAGE_BYTES {
            match self.stream.read(&mut self.buffer[self.have..]).await? {
                0 => return Err(ControlError::Closed),
                read => {
                    self.have += read;
                    self.bytes += read as u64;
                }
            }
        }
        self.have = 0;
        Ok(Message::parse(&self.buffer))
    }

    /// The next message, which the peer owes within `patience`.
    pub(super) async fn owed(&mut self, patience: Duration) -> Result<Message, ControlError> {
        let message = tokio::time::timeout(patience, self.message());
        message.await.map_err(|_| ControlError::Silent(patience))?
    }

    pub(super) async fn send(&mut self, message: &Message) -> Result<(), ControlError> {
        let bytes = message.to_bytes();
        let write = self.stream.write_all(&bytes);
        tokio::time::timeout(PATIENCE, write)
            .await
            .map_err(|_| ControlError::Silent(PATIENCE))??;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.stream.local_addr().ok()
    }
}
