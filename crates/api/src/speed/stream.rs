//! The data connections of a session: frames go out during a download, and what comes during an upload is counted.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::watch;

use super::content::{OutgoingFrame, frame_bytes};
use super::frame::{self, Event, Frames, MessageKind};
use super::message::Phase;
use super::record::Tcp;
use super::serve::Inner;
use super::session::Counts;
use crate::app::lock;

/// Longest frame: none is kept, so that this only refuses nonsense.
const MAX_DATA: u64 = 16 << 20;
/// Bytes that may come outside of an upload, of all data connections together: what a page and its kernel held at the end of
/// one.
const MAX_STRAY: u64 = 64 << 20;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes that may wait unsent in the kernel behind the window: more would go out long after a phase is over.
const UNSENT_BYTES: u32 = 128 << 10;
/// Reads or writes before others have their turn.
const TURN: usize = 8;

/// What data connections are to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    Nothing,
    /// Until so many bytes are counted.
    Phase(Phase, u64),
    Over,
}

/// What the connections of a session share.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) run: watch::Sender<Run>,
    sent: AtomicU64,
    received: AtomicU64,
    /// Came outside of an upload.
    stray: AtomicU64,
    /// Data connections that came.
    pub(super) attached: AtomicUsize,
    /// Of downloads that have ended.
    pub(super) tcp: Mutex<Tcp>,
}

impl Session {
    pub(super) fn new() -> Session {
        Session {
            run: watch::Sender::new(Run::Nothing),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            stray: AtomicU64::new(0),
            attached: AtomicUsize::new(0),
            tcp: Mutex::default(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
        }
    }
}

/// What the kernel knows of a connection, through a second descriptor of it.
pub(super) fn info(tcp: &TcpStream) -> Option<weir_net::tcp::TcpInfo> {
    let twin = socket2::SockRef::from(tcp).try_clone().ok()?;
    weir_net::tcp::TcpStream::from(std::net::TcpStream::from(twin)).info().ok()
}

/// One data connection: writes frames during a download, counts what comes during an upload.
pub(super) async fn data(
    inner: &Inner,
    session: &Session,
    tcp: &TcpStream,
    mut early: Vec<u8>,
    number: usize,
) -> io::Result<()> {
    let socket = socket2::SockRef::from(tcp);
    weir_net::socket::limit_unsent(tcp, UNSENT_BYTES);
    // What is unsent when the session ends is to be forgotten by the kernel too, not sent to a reader that takes its time.
    let _ = socket.set_linger(Some(Duration::ZERO));
    let mut run = session.run.subscribe();
    let mut data = Data {
        session,
        frames: Frames::new(false, MAX_DATA),
        feed: OutgoingFrame::new(number),
        owed: vec![],
    };
    let mut now = *run.borrow_and_update();
    data.take(&mut early, now)?;
    let mut buffer = vec![0; READ_BYTES];
    let mut began: Option<(Instant, u64, Option<weir_net::tcp::TcpInfo>)> = None;
    let mut sent = 0u64;
    loop {
        let next = *run.borrow_and_update();
        if next != now {
            let was = matches!(now, Run::Phase(Phase::Download, _));
            match began.take() {
                Some((_, _, then)) if was => note(session, then, info(tcp)),
                _ => {}
            }
            if matches!(next, Run::Phase(Phase::Download, _)) {
                began = Some((Instant::now(), sent, info(tcp)));
            }
            now = next;
        }
        let may_send = matches!(now, Run::Phase(Phase::Download, until) if session.sent.load(Ordering::Relaxed) < until);
        let may_read = !matches!(now, Run::Phase(Phase::Upload, until) if session.received.load(Ordering::Relaxed) >= until);
        if now == Run::Over {
            return Ok(());
        }
        let writes = may_send || data.feed.is_within() || !data.owed.is_empty();
        tokio::select! {
            changed = run.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
            }
            ready = tcp.readable(), if may_read => {
                ready?;
                for _ in 0..TURN {
                    match tcp.try_read(&mut buffer) {
                        Ok(0) => return Ok(()),
                        Ok(n) => data.take(&mut buffer[..n], now)?,
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                        Err(e) => return Err(e),
                    }
                }
            }
            ready = tcp.writable(), if writes => {
                ready?;
                for _ in 0..TURN {
                    if !data.feed.is_within() {
                        if !data.owed.is_empty() {
                            // A pong is 127 bytes at most: a buffer that has room takes it whole, or the connection ends.
                            let owed = std::mem::take(&mut data.owed);
                            if tcp.try_write(&owed)? != owed.len() {
                                return Ok(());
                            }
                        }
                        if !may_send {
                            break;
                        }
                        let rate = began.as_ref().map_or(0.0, |(at, before, _)| {
                            (sent - before) as f64 / at.elapsed().as_secs_f64().max(0.01)
                        });
                        data.feed.begin(frame_bytes(rate));
                    }
                    let [head, payload] = data.feed.pieces(&inner.pool);
                    match tcp.try_write_vectored(&[io::IoSlice::new(head), io::IoSlice::new(payload)]) {
                        Ok(n) => {
                            let payload = data.feed.wrote(n) as u64;
                            sent += payload;
                            session.sent.fetch_add(payload, Ordering::Relaxed);
                        }
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                        Err(e) => return Err(e),
                    }
                }
            }
        }
    }
}

/// Adds what a download took of a connection.
fn note(
    session: &Session,
    then: Option<weir_net::tcp::TcpInfo>,
    now: Option<weir_net::tcp::TcpInfo>,
) {
    let Some((then, now)) = then.zip(now) else { return };
    let since = |f: fn(&weir_net::tcp::TcpInfo) -> Option<u64>| {
        f(&now).unwrap_or(0).saturating_sub(f(&then).unwrap_or(0))
    };
    let mut tcp = lock(&session.tcp);
    tcp.busy_us += since(|i| i.busy_us);
    tcp.window_limited_us += since(|i| i.receive_window_limited_us);
    tcp.retransmits += since(|i| Some(i.total_retransmits.into()));
}

struct Data<'a> {
    session: &'a Session,
    frames: Frames,
    feed: OutgoingFrame,
    /// A pong that is to be sent behind the frame under way; only the latest ping needs one (RFC 6455, section 5.5.3).
    owed: Vec<u8>,
}

impl Data<'_> {
    fn take(&mut self, mut bytes: &mut [u8], run: Run) -> io::Result<()> {
        while !bytes.is_empty() {
            let refused = |_| io::Error::from(io::ErrorKind::InvalidData);
            let (used, event) = self.frames.take(bytes).map_err(refused)?;
            match event {
                Some(Event::Data { kind: MessageKind::Binary, from, to, .. }) => {
                    let came = (to - from) as u64;
                    if matches!(run, Run::Phase(Phase::Upload, _)) {
                        self.session.received.fetch_add(came, Ordering::Relaxed);
                    } else if self.session.stray.fetch_add(came, Ordering::Relaxed) > MAX_STRAY {
                        return Err(io::ErrorKind::QuotaExceeded.into());
                    }
                }
                Some(Event::Ping(payload)) => self.owed = frame::pong(&payload),
                Some(Event::Pong) | None => {}
                Some(Event::Data { kind: MessageKind::Text, .. } | Event::Close(_)) => {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            }
            bytes = &mut bytes[used..];
        }
        Ok(())
    }
}
