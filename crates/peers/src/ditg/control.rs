//! The signalling connection, at either end.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use weir_net::tcp::TcpOptions;
use weir_traffic::TrafficError;

use super::codec::{MAX_MESSAGE, Message, Read, Reply, Unknown};
use crate::buffered::Buffered;

/// Why a message did not arrive, or was not sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum ControlError {
    #[error("the connection was closed")]
    Closed,
    #[error("{0}")]
    Io(io::Error),
    #[error("nothing arrived for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("a message of type {}", .0.0)]
    Unknown(Unknown),
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
        let address = peer.into();
        match self {
            ControlError::Unknown(_) => {
                TrafficError::Protocol { address, reason: self.to_string() }
            }
            _ => TrafficError::Lost { address, during, reason: self.to_string() },
        }
    }
}

/// A signalling connection.
#[derive(Debug)]
pub(super) struct Control(Buffered<MAX_MESSAGE>);

impl Control {
    pub(super) fn new(stream: TcpStream) -> Self {
        Control(Buffered::new(stream))
    }

    /// The same with options of the socket, as far as the system has them.
    pub(super) fn with_options(self, options: &TcpOptions) -> io::Result<Self> {
        self.0.with_options(options).map(Control)
    }

    /// Bytes of both directions.
    pub(super) fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// The next message of a sender, however long it takes. Nothing is lost if it is dropped.
    pub(super) async fn message(&mut self) -> Result<Message, ControlError> {
        self.next(Message::parse).await
    }

    /// The next message of a receiver, which it owes within `patience`.
    pub(super) async fn owed(&mut self, patience: Duration) -> Result<Reply, ControlError> {
        let reply = tokio::time::timeout(patience, self.next(Reply::parse));
        reply.await.map_err(|_| ControlError::Silent(patience))?
    }

    /// The next message of a receiver, however long it takes.
    pub(super) async fn reply(&mut self) -> Result<Reply, ControlError> {
        self.next(Reply::parse).await
    }

    async fn next<T>(&mut self, parse: fn(&[u8]) -> Read<T>) -> Result<T, ControlError> {
        loop {
            if let Some((message, length)) = parse(&self.0.buffer).map_err(ControlError::Unknown)? {
                self.0.buffer.drain(..length);
                return Ok(message);
            }
            self.0.more().await?;
        }
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), ControlError> {
        Ok(self.0.send(bytes).await.map_err(ControlError::Silent)??)
    }

    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.0.local()
    }
}
