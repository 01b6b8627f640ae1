//! The control connection: framed JSON over TCP, in the clear or inside Noise NNpsk0, with every byte counted.
//!
//! Reading is cancel-safe: what has arrived stays in the decoder, so that it can be used in a `select!`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::Instant;
use weir_net::thread::lock;
use weir_wire::control::{self, Message};
use weir_wire::frame::{FrameDecoder, FrameError, PREFIX_LEN, TRAILER_LEN, encode_frame};

use crate::key::Key;
use crate::report_timeout::{TimedOut, Waiting};

/// The handshake: two messages, both sides proved by the pre-shared key, forward secret.
const NOISE_PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Mixed into the handshake, so that another protocol's bytes can't be replayed here.
const PROLOGUE: &[u8] = b"weir control 1";
/// Largest Noise message.
const NOISE_MAX: usize = 65_535;
/// Bytes read from a connection per call.
const READ_BYTES: usize = 16 << 10;
/// Bytes of a report that may be unsent in the kernel.
const UNSENT_BYTES: u32 = 16 << 10;
/// Bytes of a Noise tag.
const NOISE_TAG: usize = 16;

/// Code of a refusal: a message was corrupted on the path.
pub(crate) const DAMAGED: &str = "damaged";

/// Why a control connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    #[error("it was closed")]
    Closed,
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Message(#[from] control::MessageError),
    #[error("the key does not match")]
    Key,
    #[error("an encrypted message was damaged")]
    Crypto,
    #[error("it did not read what was sent in time")]
    NotTaken(TimedOut),
}

impl ChannelError {
    /// Whether bytes were changed on the path.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, ChannelError::Frame(FrameError::Damaged))
    }
}

/// A peer's text made safe to show: of bounded length, and without control characters, which a terminal would obey.
pub(crate) fn clean(text: &str) -> String {
    const MAX: usize = 300;
    text.chars().take(MAX).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Bytes of control traffic, both directions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter(Arc<AtomicU64>);

impl Meter {
    pub(crate) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Both halves' cipher: Noise's counters make each direction independent.
type Cipher = Arc<std::sync::Mutex<snow::TransportState>>;

/// The reading half.
pub(crate) struct Reader {
    half: OwnedReadHalf,
    /// Frames of plain bytes.
    frames: FrameDecoder,
    /// Frames of encrypted messages, when there is a key.
    sealed: Option<(FrameDecoder, Cipher)>,
    meter: Meter,
    /// When the last bytes arrived, whether or not they completed a message.
    heard: Instant,
}

/// The writing half.
pub(crate) struct Writer {
    half: OwnedWriteHalf,
    cipher: Option<Cipher>,
    meter: Meter,
}

/// Opens a channel on a connection whose preface has been sent or read. With a key, runs the handshake first.
pub(crate) async fn open(
    mut stream: TcpStream,
    key: Option<&Key>,
    initiator: bool,
    limit: usize,
    meter: Meter,
) -> Result<(Reader, Writer), ChannelError> {
    // A Unix socket has no such option and does not need it.
    let _ = stream.set_nodelay(true);
    let cipher = match key {
        None => None,
        Some(key) => Some(Arc::new(std::sync::Mutex::new(
            handshake(&mut stream, key, initiator, &meter).await?,
        ))),
    };
    let (read, write) = stream.into_split();
    let reader = Reader {
        half: read,
        frames: FrameDecoder::new(limit),
        sealed: cipher.clone().map(|c| (FrameDecoder::new(NOISE_MAX), c)),
        meter: meter.clone(),
        heard: Instant::now(),
    };
    Ok((reader, Writer { half: write, cipher, meter }))
}

async fn handshake(
    stream: &mut TcpStream,
    key: &Key,
    initiator: bool,
    meter: &Meter,
) -> Result<snow::TransportState, ChannelError> {
    let builder = snow::Builder::new(NOISE_PATTERN.parse().map_err(|_| ChannelError::Crypto)?)
        .psk(0, key.bytes())
        .and_then(|b| b.prologue(PROLOGUE))
        .map_err(|_| ChannelError::Crypto)?;
    let mut state = if initiator { builder.build_initiator() } else { builder.build_responder() }
        .map_err(|_| ChannelError::Crypto)?;
    let mut out = [0; 256];
    if initiator {
        let n = state.write_message(&[], &mut out).map_err(|_| ChannelError::Crypto)?;
        write_small(stream, &out[..n], meter).await?;
    }
    let message = read_small(stream, meter).await?;
    state.read_message(&message, &mut out).map_err(|_| ChannelError::Key)?;
    if !initiator {
        let n = state.write_message(&[], &mut out).map_err(|_| ChannelError::Crypto)?;
        write_small(stream, &out[..n], meter).await?;
    }
    state.into_transport_mode().map_err(|_| ChannelError::Crypto)
}

async fn write_small(
    stream: &mut TcpStream,
    bytes: &[u8],
    meter: &Meter,
) -> Result<(), ChannelError> {
    let frame = encode_frame(bytes)?;
    meter.add(frame.len());
    Ok(stream.write_all(&frame).await?)
}

async fn read_small(stream: &mut TcpStream, meter: &Meter) -> Result<Vec<u8>, ChannelError> {
    // A handshake message of this pattern has 48 bytes; the bytes after it must not be consumed.
    let mut frames = FrameDecoder::new(128);
    let mut frame = vec![0; PREFIX_LEN];
    stream.read_exact(&mut frame).await.map_err(closed)?;
    frames.push(&frame);
    frames.next().map_err(unsealed)?;
    let [a, b, c, d, ..] = frame[..] else { return Err(ChannelError::Key) };
    frame = vec![0; u32::from_be_bytes([a, b, c, d]) as usize + TRAILER_LEN];
    stream.read_exact(&mut frame).await.map_err(closed)?;
    frames.push(&frame);
    meter.add(PREFIX_LEN + frame.len());
    frames.next().map_err(unsealed)?.ok_or(ChannelError::Key)
}

/// A frame too long for a handshake means that the other end has no key.
fn unsealed(error: FrameError) -> ChannelError {
    match error {
        FrameError::Damaged => error.into(),
        FrameError::TooLong { .. } => ChannelError::Key,
    }
}

fn closed(e: std::io::Error) -> ChannelError {
    match e.kind() {
        std::io::ErrorKind::UnexpectedEof => ChannelError::Closed,
        _ => ChannelError::Io(e),
    }
}

impl Reader {
    /// Sets the maximum size of an accepted message.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.frames.set_limit(limit);
    }

    /// When the last bytes arrived; before any, when the connection was opened.
    pub(crate) fn heard(&self) -> Instant {
        self.heard
    }

    /// The next message. Cancel-safe.
    pub(crate) async fn read<M: Message>(&mut self) -> Result<M, ChannelError> {
        loop {
            if let Some(frame) = self.frames.next()? {
                return Ok(control::decode(&frame)?);
            }
            if let Some((sealed, cipher)) = &mut self.sealed
                && let Some(message) = sealed.next()?
            {
                let mut plain = vec![0; message.len()];
                let mut cipher = lock(cipher);
                let n =
                    cipher.read_message(&message, &mut plain).map_err(|_| ChannelError::Crypto)?;
                self.frames.push(&plain[..n]);
                continue;
            }
            // Wait for readiness, then read into a stack buffer: thousands of silent connections hold no buffers.
            self.half.readable().await?;
            let mut buffer = [0; READ_BYTES];
            let n = match self.half.try_read(&mut buffer) {
                Ok(0) => return Err(ChannelError::Closed),
                Ok(n) => n,
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(e) => return Err(e.into()),
            };
            self.meter.add(n);
            self.heard = Instant::now();
            match &mut self.sealed {
                Some((sealed, _)) => sealed.push(&buffer[..n]),
                None => self.frames.push(&buffer[..n]),
            }
        }
    }
}

/// Closes a connection after a last message. Further input is read and dropped until the peer closes too, for at most
/// a second: closing with unread bytes sends a reset, which could cost the peer the message.
pub(crate) async fn linger(reader: &mut Reader, writer: &mut Writer) {
    let draining = async {
        let _ = writer.half.shutdown().await;
        let mut buffer = [0; 1024];
        while reader.half.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
    };
    let _ = tokio::time::timeout(std::time::Duration::from_secs(1), draining).await;
}

impl Writer {
    /// Sends a message. Not cancel-safe: part of it may have been sent.
    pub(crate) async fn write<M: Message>(&mut self, message: &M) -> Result<(), ChannelError> {
        let bytes = self.sealed(message)?;
        Ok(self.half.write_all(&bytes).await?)
    }

    /// Sends a message to a peer that may be slow: any progress restarts the timeout. Part of the message may have
    /// been sent when the timeout expires.
    pub(crate) async fn write_patiently<M: Message>(
        &mut self,
        message: &M,
        waiting: &mut Waiting,
    ) -> Result<(), ChannelError> {
        let bytes = self.sealed(message)?;
        // Else the system would accept megabytes immediately, without knowing whether the peer reads them.
        let stream: &TcpStream = self.half.as_ref();
        let _ = weir_net::tcp::limit_unsent(stream, UNSENT_BYTES);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let now = Instant::now();
            if let Some(over) = waiting.over(now) {
                return Err(ChannelError::NotTaken(over));
            }
            // The socket becomes writable only when a third of its buffer is free, which over a slow link takes
            // longer than the timeout. Acknowledged bytes therefore count as progress too.
            let before = self.unacknowledged();
            match tokio::time::timeout_at(waiting.look(now), self.half.write(rest)).await {
                Ok(Ok(0)) => return Err(ChannelError::Closed),
                Ok(Ok(n)) => {
                    rest = &rest[n..];
                    waiting.moved(Instant::now());
                }
                Ok(Err(e)) => return Err(e.into()),
                Err(_) if self.unacknowledged() < before => waiting.moved(Instant::now()),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Bytes not yet acknowledged by the peer; constant where the system does not report them.
    fn unacknowledged(&self) -> u32 {
        let stream: &TcpStream = self.half.as_ref();
        weir_net::tcp::unacknowledged_bytes(stream).unwrap_or(0)
    }

    /// The bytes of a message on the wire, counted.
    fn sealed<M: Message>(&self, message: &M) -> Result<Vec<u8>, ChannelError> {
        let frame = encode_frame(&control::encode(message))?;
        let bytes = match &self.cipher {
            None => frame,
            Some(cipher) => {
                let mut out = Vec::with_capacity(frame.len() + 64);
                let mut sealed = vec![0; NOISE_MAX];
                let mut cipher = lock(cipher);
                for part in frame.chunks(NOISE_MAX - NOISE_TAG) {
                    let n = cipher
                        .write_message(part, &mut sealed)
                        .map_err(|_| ChannelError::Crypto)?;
                    out.extend_from_slice(&encode_frame(&sealed[..n])?);
                }
                out
            }
        };
        self.meter.add(bytes.len());
        Ok(bytes)
    }
}
