//! The WebSockets of a session: bytes between the kernel and the session's logic.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::content::{Feed, frame_bytes};
use super::frame::{self, Event, Frames, Kind, close};
use super::message::{self, Phase, ToPage};
use super::record::{self, Facts, Load, Tcp};
use super::serve::{Inner, Visitor};
use super::session::{Act, Counts, Machine, Outcome};
use crate::app::lock;

const SUBPROTOCOL: &str = "weir.speed.v1";
/// Longest frame on a data connection: none is kept, so that this only refuses nonsense.
const MOST_DATA: u64 = 16 << 20;
/// Bytes that may come outside of an upload, of all data connections together: what a page and its kernel held at the end of
/// one.
const MOST_STRAY: u64 = 64 << 20;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
const READ_CONTROL_BYTES: usize = 8 << 10;
/// Bytes that may wait unsent in the kernel behind the window: more would go out long after a phase is over.
const UNSENT_BYTES: u32 = 128 << 10;
/// A control connection that does not take a message within this time is dropped.
const WRITE_TIME: Duration = Duration::from_secs(2);
/// Time for the browser to complete an upgrade, or a close.
const TURN_TIME: Duration = Duration::from_secs(2);
/// Reads or writes of a data connection before others have their turn.
const TURN: usize = 8;

/// What data connections are to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    Nothing,
    /// Until so many bytes are counted.
    Phase(Phase, u64),
    Over,
}

/// What the connections of a session share.
#[derive(Debug)]
pub(super) struct Session {
    run: watch::Sender<Run>,
    sent: AtomicU64,
    received: AtomicU64,
    /// Came outside of an upload.
    stray: AtomicU64,
    attached: AtomicUsize,
    /// Of downloads that have ended.
    tcp: Mutex<Tcp>,
}

impl Session {
    fn counts(&self) -> Counts {
        Counts {
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
        }
    }
}

/// `GET /speed/v1`: a control connection, or with `session` one for data.
pub(super) async fn door(State(inner): State<Arc<Inner>>, mut request: Request) -> Response {
    if request.method() != Method::GET {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let key = match check(request.headers()) {
        Ok(key) => key,
        Err(refusal) => return refusal,
    };
    let Some(visitor) = request.extensions().get::<Visitor>().cloned() else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let joined = match request.uri().query().unwrap_or("") {
        "" => None,
        query => {
            let session = query
                .strip_prefix("session=")
                .and_then(|id| lock(&inner.sessions).get(id).cloned());
            let Some(session) = session else {
                return (StatusCode::FORBIDDEN, "there is no such session\n").into_response();
            };
            let number = session.attached.fetch_add(1, Ordering::Relaxed);
            // One that leaves gives no place back: a page has no reason to come again.
            if number >= inner.config.limits.streams {
                return (StatusCode::FORBIDDEN, "the session has all its connections\n")
                    .into_response();
            }
            Some((session, number))
        }
    };
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(Ok(upgraded)) = tokio::time::timeout(TURN_TIME, upgrade).await else { return };
        // The connection was made of this type in `serve`.
        let Ok(parts) = upgraded.downcast::<TokioIo<TcpStream>>() else { return };
        let (tcp, early) = (parts.io.into_inner(), parts.read_buf.to_vec());
        match joined {
            None => control(inner, tcp, early, visitor).await,
            Some((session, number)) => {
                // An error is the browser's end of the connection; the control connection tells of the test's.
                let _ = data(&inner, &session, &tcp, early, number).await;
                drop(visitor);
            }
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    if let Ok(accept) = HeaderValue::from_str(&frame::accept(&key)) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

/// The handshake's headers (RFC 6455, section 4.2.1), and that no other site's page asks.
fn check(headers: &HeaderMap) -> Result<String, Response> {
    let text = |name| headers.get(name).and_then(|v: &HeaderValue| v.to_str().ok()).unwrap_or("");
    let lists = |name, word: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|v: &HeaderValue| v.to_str().ok())
            .any(|v| v.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
    };
    if !lists(header::UPGRADE, "websocket") || !lists(header::CONNECTION, "upgrade") {
        let needs = [(header::UPGRADE, "websocket"), (header::CONNECTION, "upgrade")];
        return Err((StatusCode::UPGRADE_REQUIRED, needs, "a WebSocket is here\n").into_response());
    }
    if text(header::SEC_WEBSOCKET_VERSION) != "13" {
        let needs = [(header::SEC_WEBSOCKET_VERSION, "13")];
        return Err((StatusCode::UPGRADE_REQUIRED, needs, "version 13 is spoken\n").into_response());
    }
    let bad = |words: &'static str| Err((StatusCode::BAD_REQUEST, words).into_response());
    if !lists(header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL) {
        return bad("the subprotocol is weir.speed.v1\n");
    }
    let key = text(header::SEC_WEBSOCKET_KEY);
    if !frame::is_key(key) {
        return bad("Sec-WebSocket-Key has to be 16 bytes in base64\n");
    }
    // A browser always tells it; what is no browser has nobody to be misused.
    if let Some(origin) = headers.get(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or("");
        let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        let host = text(header::HOST);
        if host.is_empty() || own.is_none_or(|own| !own.eq_ignore_ascii_case(host)) {
            let words = "asked by a page of another site\n";
            return Err((StatusCode::FORBIDDEN, words).into_response());
        }
    }
    Ok(key.to_owned())
}

/// 128 random bits, to be put into a URL.
fn secret() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

/// A test that is entered in the book, until this is dropped.
struct Entered {
    inner: Arc<Inner>,
    visitor: Visitor,
    id: String,
    session: Arc<Session>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.session.run.send_replace(Run::Over);
        lock(&self.inner.sessions).remove(&self.id);
        lock(&self.inner.book).leave(self.visitor.network());
    }
}

async fn control(inner: Arc<Inner>, mut tcp: TcpStream, early: Vec<u8>, visitor: Visitor) {
    let now = inner.now_ns();
    let entered = lock(&inner.book).enter(visitor.network(), &inner.config.limits, now);
    if let Err(busy) = entered {
        let (retry_after_seconds, text) = (busy.retry_after_seconds, busy.text);
        let words = ToPage::Busy { retry_after_seconds, text }.to_text();
        let bytes = [frame::text(&words), frame::close_frame(close::BUSY, "busy")].concat();
        return farewell(tcp, &bytes).await;
    }
    let session = Arc::new(Session {
        run: watch::Sender::new(Run::Nothing),
        sent: AtomicU64::new(0),
        received: AtomicU64::new(0),
        stray: AtomicU64::new(0),
        attached: AtomicUsize::new(0),
        tcp: Mutex::default(),
    });
    let Some(id) = secret() else {
        lock(&inner.book).leave(visitor.network());
        return farewell(tcp, &frame::close_frame(1011, "no randomness")).await;
    };
    lock(&inner.sessions).insert(id.clone(), session.clone());
    let entered = Entered { inner: inner.clone(), visitor, id, session };
    let mut control = Control {
        machine: Machine::new(inner.config.limits, now),
        frames: Frames::new(true, message::MOST_BYTES),
        text: vec![],
        started_at: crate::clock::now(),
        start: Instant::now(),
        before: None,
        download: None,
        upload: None,
        entered,
    };
    let bytes = match control.converse(&mut tcp, early).await {
        Err(End::Said(code, reason)) => frame::close_frame(code, reason),
        Err(End::Gone) | Ok(()) => return,
    };
    drop(control);
    farewell(tcp, &bytes).await;
}

/// Says a last word, and waits a moment for the peer to take it: closed at once with something unread, it would be lost.
async fn farewell(mut tcp: TcpStream, bytes: &[u8]) {
    let last = async {
        if tcp.write_all(bytes).await.is_err() || tcp.shutdown().await.is_err() {
            return;
        }
        let mut sink = [0; 4096];
        for _ in 0..64 {
            if tcp.readable().await.is_err() || matches!(tcp.try_read(&mut sink), Ok(0)) {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(TURN_TIME, last).await;
}

/// Why a control connection ends.
enum End {
    Gone,
    Said(u16, &'static str),
}

impl From<frame::Violation> for End {
    fn from(violation: frame::Violation) -> End {
        End::Said(violation.code, violation.reason)
    }
}

/// Processor time at the begin of a phase.
struct Before {
    at: Instant,
    phase: Phase,
    thread_ns: u64,
    cores: Option<weir_net::counters::CpuUsage>,
}

struct Control {
    entered: Entered,
    machine: Machine,
    frames: Frames,
    /// The message that is arriving, at most [`message::MOST_BYTES`].
    text: Vec<u8>,
    started_at: String,
    start: Instant,
    before: Option<Before>,
    download: Option<Load>,
    upload: Option<Load>,
}

impl Control {
    async fn converse(&mut self, tcp: &mut TcpStream, mut early: Vec<u8>) -> Result<(), End> {
        let inner = self.entered.inner.clone();
        let hello = self.machine.hello(&inner.config.version, &self.entered.id);
        write(tcp, &frame::text(&hello.to_text())).await?;
        self.take(tcp, &mut early).await?;
        let mut buffer = vec![0; READ_CONTROL_BYTES];
        loop {
            let now = inner.now_ns();
            let acts = self.machine.on_time(now, self.entered.session.counts());
            self.perform(tcp, acts).await?;
            let wake = inner.start + Duration::from_nanos(self.machine.next_ns(now));
            tokio::select! {
                ready = tcp.readable() => {
                    ready.map_err(|_| End::Gone)?;
                    match tcp.try_read(&mut buffer) {
                        Ok(0) => return Err(End::Gone),
                        Ok(n) => self.take(tcp, &mut buffer[..n]).await?,
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                        Err(_) => return Err(End::Gone),
                    }
                }
                () = tokio::time::sleep_until(wake.into()) => {}
            }
        }
    }

    /// Takes bytes that came.
    async fn take(&mut self, tcp: &mut TcpStream, mut bytes: &mut [u8]) -> Result<(), End> {
        while !bytes.is_empty() {
            let (used, event) = self.frames.take(bytes)?;
            match event {
                Some(Event::Data { kind: Kind::Binary, .. }) => {
                    return Err(End::Said(close::UNSUPPORTED, "data on the control connection"));
                }
                Some(Event::Data { from, to, ends, .. }) => {
                    self.text.extend_from_slice(&bytes[from..to]);
                    if ends {
                        let text = std::mem::take(&mut self.text);
                        let text = std::str::from_utf8(&text)
                            .map_err(|_| End::Said(close::NOT_UTF8, "a text is not UTF-8"))?;
                        let (now, counts) =
                            (self.entered.inner.now_ns(), self.entered.session.counts());
                        let acts = self.machine.on_message(now, message::read(text), counts);
                        self.perform(tcp, acts).await?;
                    }
                }
                Some(Event::Ping(payload)) => write(tcp, &frame::pong(&payload)).await?,
                Some(Event::Close(_)) => return Err(End::Said(close::NORMAL, "")),
                Some(Event::Pong) | None => {}
            }
            bytes = &mut bytes[used..];
        }
        Ok(())
    }

    async fn perform(&mut self, tcp: &mut TcpStream, acts: Vec<Act>) -> Result<(), End> {
        for act in acts {
            match act {
                Act::Say(message) => write(tcp, &frame::text(&message.to_text())).await?,
                Act::Run(Some((phase, until))) => {
                    self.before = Some(Before {
                        at: Instant::now(),
                        phase,
                        thread_ns: weir_net::clock::thread_cpu_ns(),
                        cores: weir_net::counters::cpu_times().ok(),
                    });
                    self.entered.session.run.send_replace(Run::Phase(phase, until));
                }
                Act::Run(None) => {
                    self.entered.session.run.send_replace(Run::Nothing);
                    self.look();
                }
                Act::Keep(outcome) => {
                    let told = self.keep(outcome).await;
                    write(tcp, &frame::text(&told.to_text())).await?;
                }
                Act::Close(code, reason) => return Err(End::Said(code, reason)),
            }
        }
        Ok(())
    }

    /// Notes what the phase that has ended took of the processors.
    fn look(&mut self) {
        let Some(before) = self.before.take() else { return };
        let wall = before.at.elapsed().as_nanos().max(1) as f64;
        let thread = weir_net::clock::thread_cpu_ns().saturating_sub(before.thread_ns);
        let busiest =
            before.cores.zip(weir_net::counters::cpu_times().ok()).and_then(|(then, now)| {
                let share = now.cores.iter().filter_map(|(id, core)| {
                    let (_, before) = then.cores.iter().find(|(other, _)| other == id)?;
                    let all =
                        core.total_ns().checked_sub(before.total_ns()).filter(|all| *all > 0)?;
                    Some(core.busy_ns().saturating_sub(before.busy_ns()) as f64 / all as f64)
                });
                share.reduce(f64::max)
            });
        let load = Load { thread_ratio: thread as f64 / wall, busiest_core_ratio: busiest };
        match before.phase {
            Phase::Download => self.download = Some(load),
            Phase::Upload => self.upload = Some(load),
        }
    }

    async fn keep(&self, outcome: Outcome) -> ToPage {
        let not_kept = |text: &str| ToPage::NotKept { text: text.into() };
        let Some(link_id) = secret() else { return not_kept("There is no randomness for a link.") };
        let (inner, visitor) = (&self.entered.inner, &self.entered.visitor);
        let canonical = |a: SocketAddr| SocketAddr::new(a.ip().to_canonical(), a.port());
        let browser = canonical(visitor.address);
        let facts = Facts {
            run_id: crate::clock::new_id(),
            link_id: link_id.clone(),
            started_at: self.started_at.clone(),
            version: inner.config.version.clone(),
            seconds: self.start.elapsed().as_secs_f64(),
            server: canonical(visitor.here),
            browser: (!inner.config.anonymous).then_some(browser),
            is_ipv6: browser.is_ipv6(),
            seed: inner.seed,
            streams: inner.config.limits.streams,
            phase_seconds: inner.config.limits.phase_seconds,
            host: None,
            download: self.download,
            upload: self.upload,
            tcp: *lock(&self.entered.session.tcp),
        };
        let place = inner.config.place.clone();
        let kept = tokio::task::spawn_blocking(move || {
            let record = record::record(&outcome, &Facts { host: host(&facts.version), ..facts });
            weir_runs::Store::open_at(&place)?.insert(&record)
        });
        match kept.await {
            Ok(Ok(())) => ToPage::Kept { url: format!("/?result={link_id}"), id: link_id },
            // Why is this host's affair, not a visitor's.
            Ok(Err(_)) | Err(_) => not_kept("The server could not store it."),
        }
    }
}

async fn write(tcp: &mut TcpStream, bytes: &[u8]) -> Result<(), End> {
    match tokio::time::timeout(WRITE_TIME, tcp.write_all(bytes)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(End::Gone),
    }
}

/// This host, for the record.
fn host(version: &str) -> Option<weir_model::record::Host> {
    let facts = weir_net::host::host().ok()?;
    Some(weir_model::record::Host {
        host: facts.hostname,
        version: version.into(),
        os: facts.os,
        kernel: facts.kernel,
        cpu: weir_model::record::CpuFacts {
            model: facts.cpu_model.unwrap_or_default(),
            cores: facts.cpu_cores,
            governor: facts.governor,
        },
        memory_bytes: facts.memory_bytes.unwrap_or(0),
        virtual_machine: facts.virtualisation,
        clocksource: facts.clocksource,
        ..Default::default()
    })
}

/// What the kernel knows of a connection, through a second descriptor of it.
fn info(tcp: &TcpStream) -> Option<weir_net::tcp::TcpInfo> {
    let twin = socket2::SockRef::from(tcp).try_clone().ok()?;
    weir_net::tcp::TcpStream::from(std::net::TcpStream::from(twin)).info().ok()
}

/// One data connection: writes frames during a download, counts what comes during an upload.
async fn data(
    inner: &Inner,
    session: &Session,
    tcp: &TcpStream,
    mut early: Vec<u8>,
    number: usize,
) -> io::Result<()> {
    let socket = socket2::SockRef::from(tcp);
    let _ = socket.set_tcp_notsent_lowat(UNSENT_BYTES);
    // What is unsent when the session ends is to be forgotten by the kernel too, not sent to a reader that takes its time.
    let _ = socket.set_linger(Some(Duration::ZERO));
    let mut run = session.run.subscribe();
    let mut data = Data {
        session,
        frames: Frames::new(false, MOST_DATA),
        feed: Feed::new(number),
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
    feed: Feed,
    /// A pong that is to be sent behind the frame under way; only the latest ping needs one (RFC 6455, section 5.5.3).
    owed: Vec<u8>,
}

impl Data<'_> {
    fn take(&mut self, mut bytes: &mut [u8], run: Run) -> io::Result<()> {
        while !bytes.is_empty() {
            let refused = |_| io::Error::from(io::ErrorKind::InvalidData);
            let (used, event) = self.frames.take(bytes).map_err(refused)?;
            match event {
                Some(Event::Data { kind: Kind::Binary, from, to, .. }) => {
                    let came = (to - from) as u64;
                    if matches!(run, Run::Phase(Phase::Upload, _)) {
                        self.session.received.fetch_add(came, Ordering::Relaxed);
                    } else if self.session.stray.fetch_add(came, Ordering::Relaxed) > MOST_STRAY {
                        return Err(io::ErrorKind::QuotaExceeded.into());
                    }
                }
                Some(Event::Ping(payload)) => self.owed = frame::pong(&payload),
                Some(Event::Pong) | None => {}
                Some(Event::Data { kind: Kind::Text, .. } | Event::Close(_)) => {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            }
            bytes = &mut bytes[used..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(change: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("host", "speed.example:9350"),
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", "weir.speed.v1"),
            ("origin", "http://speed.example:9350"),
        ]
        .iter()
        .chain(change)
        {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn status(change: &[(&'static str, &'static str)]) -> u16 {
        check(&headers(change)).map_or_else(|refusal| refusal.status().as_u16(), |_| 101)
    }

    #[test]
    fn a_handshake_is_what_the_rfc_asks_and_from_our_page() {
        assert_eq!(status(&[]), 101);
        assert_eq!(
            status(&[("origin", "https://SPEED.example:9350")]),
            101,
            "behind a proxy with TLS"
        );
        assert_eq!(status(&[("sec-websocket-protocol", "other, weir.speed.v1")]), 101);
        assert_eq!(status(&[("upgrade", "h2c")]), 426);
        assert_eq!(status(&[("connection", "close")]), 426);
        assert_eq!(status(&[("sec-websocket-version", "8")]), 426);
        assert_eq!(status(&[("sec-websocket-key", "short")]), 400);
        assert_eq!(status(&[("sec-websocket-protocol", "weir.speed.v2")]), 400);
        for foreign in
            ["http://evil.example", "null", "http://speed.example", "ftp://speed.example:9350", ""]
        {
            assert_eq!(status(&[("origin", foreign)]), 403, "{foreign}");
        }
    }

    #[test]
    fn secrets_are_long_and_fit_a_link() {
        let (a, b) = (secret().unwrap(), secret().unwrap());
        assert_eq!((a.len(), b.len()), (22, 22));
        assert_ne!(a, b);
    }
}
