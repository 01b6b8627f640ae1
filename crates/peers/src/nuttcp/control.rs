//! The control connection: lines of text.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_net::tcp::TcpOptions;
use weir_traffic::TrafficError;

use super::codec::MAX_LINE;
use crate::buffered::Buffered;

/// Why a line did not arrive, or was not sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum ControlError {
    #[error("the connection was closed")]
    Closed,
    #[error("the connection was reset")]
    Reset,
    #[error("{0}")]
    Io(io::Error),
    #[error("nothing arrived for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("a line that is not text, or longer than {MAX_LINE} bytes")]
    Line,
}

impl From<io::Error> for ControlError {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match error.kind() {
            UnexpectedEof => ControlError::Closed,
            ConnectionReset | BrokenPipe => ControlError::Reset,
            _ => ControlError::Io(error),
        }
    }
}

impl ControlError {
    /// The error of a test with `peer`, in a phase of it.
    pub(super) fn during(self, peer: SocketAddr, during: &'static str) -> TrafficError {
        let address = peer.into();
        match self {
            ControlError::Line => TrafficError::Protocol { address, reason: self.to_string() },
            _ => TrafficError::Lost { address, during, reason: self.to_string() },
        }
    }
}

/// A control connection.
#[derive(Debug)]
pub(super) struct Control(Buffered<MAX_LINE>);

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

    /// The next line without its end, however long it takes. Nothing is lost if it is dropped.
    pub(super) async fn line(&mut self) -> Result<String, ControlError> {
        loop {
            if let Some(end) = self.0.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.0.buffer.drain(..=end).collect();
                let line = String::from_utf8(line).map_err(|_| ControlError::Line)?;
                return Ok(line.trim_end().to_owned());
            }
            if self.0.buffer.len() >= MAX_LINE {
                return Err(ControlError::Line);
            }
            self.0.more().await?;
        }
    }

    /// The next line, which the peer owes within `patience`.
    pub(super) async fn owed(&mut self, patience: Duration) -> Result<String, ControlError> {
        let line = tokio::time::timeout(patience, self.line());
        line.await.map_err(|_| ControlError::Silent(patience))?
    }

    pub(super) async fn send(&mut self, text: &str) -> Result<(), ControlError> {
        Ok(self.0.send(text.as_bytes()).await.map_err(ControlError::Silent)??)
    }

    /// Closes this end's direction.
    pub(super) async fn half_close(&mut self) {
        // An error is that of the next read.
        let _ = self.0.stream.shutdown().await;
    }

    /// Closes this end's direction, and waits for the peer to close its own.
    pub(super) async fn close(mut self, patience: Duration) {
        let closing = async {
            let _ = self.0.stream.shutdown().await;
            let mut bytes = [0; 64];
            while self.0.stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
        };
        let _ = tokio::time::timeout(patience, closing).await;
    }

    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.0.local()
    }
}
