//! The control connection: states, and JSON behind its length.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_net::tcp::TcpOptions;
use weir_traffic::TrafficError;

use super::codec::{self, MessageError, State};

/// How long the peer may take for a message that it owes.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// Why a message did not arrive.
#[derive(Debug, thiserror::Error)]
pub(super) enum ControlError {
    #[error("the connection was closed")]
    Closed,
    #[error("{0}")]
    Io(io::Error),
    #[error("nothing arrived for {} s", PATIENCE.as_secs())]
    Silent,
    #[error("{0} is no state of iperf3")]
    UnknownState(i8),
    #[error("a message of {given} bytes; accepted: 1 to {accepted}")]
    Length { given: u32, accepted: u32 },
    #[error("{what}: {error}")]
    Message { what: &'static str, error: MessageError },
}

impl From<io::Error> for ControlError {
    fn from(error: io::Error) -> Self {
        if is_closed(&error) { ControlError::Closed } else { ControlError::Io(error) }
    }
}

/// Whether an error means that the peer has closed the connection.
pub(super) fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe)
}

impl ControlError {
    /// The error of a test with `peer`, in a phase of it.
    pub(super) fn during(self, peer: SocketAddr, during: &'static str) -> TrafficError {
        let address = peer.into();
        match self {
            ControlError::Closed | ControlError::Io(_) | ControlError::Silent => {
                TrafficError::Lost { address, during, reason: self.to_string() }
            }
            _ => TrafficError::Protocol { address, reason: format!("{during}: {self}") },
        }
    }
}

/// A control connection.
#[derive(Debug)]
pub(super) struct Control {
    stream: TcpStream,
    /// What was read of the cookie before.
    begun: Vec<u8>,
    /// Bytes of both directions.
    pub(super) bytes: u64,
}

impl Control {
    pub(super) fn new(stream: TcpStream) -> Self {
        // States are single bytes.
        let _ = stream.set_nodelay(true);
        Control { stream, begun: vec![], bytes: 0 }
    }

    /// A connection of which something was read already.
    pub(super) fn begun(stream: TcpStream, begun: Vec<u8>) -> Self {
        Control { begun, ..Control::new(stream) }
    }

    /// The next state, however long it takes. Nothing is lost if it is dropped.
    pub(super) async fn state(&mut self) -> Result<State, ControlError> {
        let byte = self.stream.read_u8().await?;
        self.bytes += 1;
        State::parse(byte).ok_or(ControlError::UnknownState(i8::from_ne_bytes([byte])))
    }

    /// A state that the peer owes.
    pub(super) async fn owed_state(&mut self) -> Result<State, ControlError> {
        tokio::time::timeout(PATIENCE, self.state()).await.map_err(|_| ControlError::Silent)?
    }

    /// The numbers behind [`State::ServerError`]: iperf3's, and the system's.
    pub(super) async fn error_numbers(&mut self) -> Result<[i32; 2], ControlError> {
        let read = async { Ok([self.stream.read_i32().await?, self.stream.read_i32().await?]) };
        tokio::time::timeout(PATIENCE, read).await.map_err(|_| ControlError::Silent)?
    }

    /// A JSON message of at most `most` bytes.
    pub(super) async fn json(&mut self, most: u32) -> Result<Vec<u8>, ControlError> {
        let read = async {
            let length = self.stream.read_u32().await?;
            if length == 0 || length > most {
                return Err(ControlError::Length { given: length, accepted: most });
            }
            let mut json = Vec::new();
            // Memory follows what arrives.
            let got = (&mut self.stream).take(length.into()).read_to_end(&mut json).await?;
            match got == length as usize {
                true => Ok(json),
                false => Err(ControlError::Closed),
            }
        };
        let json =
            tokio::time::timeout(PATIENCE, read).await.map_err(|_| ControlError::Silent)??;
        self.bytes += 4 + json.len() as u64;
        Ok(json)
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), ControlError> {
        let write = self.stream.write_all(bytes);
        tokio::time::timeout(PATIENCE, write).await.map_err(|_| ControlError::Silent)??;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    pub(super) async fn send_state(&mut self, state: State) -> Result<(), ControlError> {
        self.send(&[state.byte()]).await
    }

    pub(super) async fn send_json(&mut self, json: &[u8]) -> Result<(), ControlError> {
        let length = u32::try_from(json.len()).unwrap_or(u32::MAX);
        self.send(&[&length.to_be_bytes(), json].concat()).await
    }

    /// Sends an error by iperf3's number.
    pub(super) async fn send_error(&mut self, number: i32) -> Result<(), ControlError> {
        let [a, b, c, d] = number.to_be_bytes();
        self.send(&[State::ServerError.byte(), a, b, c, d, 0, 0, 0, 0]).await
    }

    pub(super) async fn cookie(&mut self) -> Result<[u8; codec::COOKIE_BYTES], ControlError> {
        let mut cookie = [0; codec::COOKIE_BYTES];
        let have = self.begun.len().min(cookie.len());
        cookie[..have].copy_from_slice(&self.begun[..have]);
        self.stream.read_exact(&mut cookie[have..]).await?;
        Ok(cookie)
    }

    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.stream.local_addr().ok()
    }

    /// The same with options of the socket, as far as the system has them.
    pub(super) fn with_options(self, options: &TcpOptions) -> io::Result<Self> {
        let bytes = self.bytes;
        let stream = self.into_stream()?;
        let _ = stream.set_options(options);
        let stream = tokio::net::TcpStream::from_std(stream.into())?;
        Ok(Control { stream, begun: vec![], bytes })
    }

    /// The connection as one of the system, to become a stream of data.
    pub(super) fn into_stream(self) -> io::Result<weir_net::tcp::TcpStream> {
        Ok(self.stream.into_std()?.into())
    }
}
