//! The server: many clients at the same time, each with a control connection of its own and one test at a time on it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use weir_model::record::Status;
use weir_net::tcp::{TcpListener, TcpOptions};
use weir_traffic::session::{self, Load, Share, WorkerConfig, Workers};
use weir_traffic::{Limits, ServerEvent, Stop, TrafficError};

use super::codec::{self, Form, Message, Request, Response, errno, flag, kind};
use super::control::{Control, ControlError};
use super::served::{Test, results};
use super::{cpu, data, settings};
use crate::{ServeConfig, Server, serving};

/// State shared by the sessions.
pub(super) struct Shared {
    pub(super) workers: Workers,
    pub(super) limits: Limits,
    pub(super) stop: Stop,
    bound: Vec<std::net::IpAddr>,
    events: mpsc::UnboundedSender<ServerEvent>,
    load: Arc<Load>,
    next_session: AtomicU64,
    /// What a client must send first; absent: nothing.
    passphrase: Option<String>,
}

/// The server before it runs.
struct Netperf {
    streams: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    bound: Vec<std::net::IpAddr>,
    workers: WorkerConfig,
    limits: Limits,
    passphrase: Option<String>,
}

/// Listens for clients.
pub(super) fn open(config: &ServeConfig) -> Result<Box<dyn Server>, TrafficError> {
    let (streams, addresses) = session::listen_streams(&config.bind, config.port)?;
    Ok(Box::new(Netperf {
        streams,
        addresses,
        bound: config.bind.clone(),
        workers: config.workers.clone(),
        limits: config.limits.clone(),
        passphrase: config.passphrase.clone(),
    }))
}

impl Server for Netperf {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.clone()
    }

    fn run(
        self: Box<Self>,
        stop: &Stop,
        observe: &mut dyn FnMut(ServerEvent),
    ) -> Result<(), TrafficError> {
        crate::runtime()?.block_on(serve(*self, stop, observe))
    }
}

async fn serve(
    server: Netperf,
    stop: &Stop,
    observe: &mut dyn FnMut(ServerEvent),
) -> Result<(), TrafficError> {
    let (events, inbox) = mpsc::unbounded_channel();
    let shared = Arc::new(Shared {
        workers: Workers::start(&server.workers)?,
        limits: server.limits,
        stop: stop.clone(),
        bound: server.bound,
        events,
        load: Arc::default(),
        passphrase: server.passphrase,
        next_session: AtomicU64::new(getrandom::u32().unwrap_or_default().into()),
    });
    let accepting = shared.clone();
    let listening = serving::accept(server.streams, move |stream, peer| {
        tokio::spawn(client(Control::new(stream), peer, accepting.clone()));
    })?;
    let has_sessions = || shared.load.sessions.load(Ordering::Acquire) > 0;
    serving::until_stopped(inbox, listening, stop, has_sessions, observe).await;
    Ok(())
}

impl Shared {
    fn refused(&self, peer: SocketAddr, reason: impl Into<String>) {
        let event = ServerEvent::Refused { peer: peer.into(), reason: reason.into() };
        let _ = self.events.send(event);
    }
}

/// Serves a client until it closes the control connection.
async fn client(mut control: Control, peer: SocketAddr, shared: Arc<Shared>) {
    let half_open = Share::take(&shared.load, |l| &l.half_open, 1, shared.limits.half_open);
    if half_open.is_none() {
        return;
    }
    let patience = Duration::from_secs(shared.limits.hello_seconds);
    let Ok(mut message) = control.owed(patience).await else { return };
    if let Some(passphrase) = &shared.passphrase {
        if !message.has_passphrase(passphrase) {
            return shared.refused(peer, "no passphrase, or another one");
        }
        match control.owed(patience).await {
            Ok(next) => message = next,
            Err(_) => return,
        }
    }
    let share = Share::take(&shared.load, |l| &l.sessions, 1, shared.limits.sessions);
    let Some(_share) = share else {
        shared.refused(peer, format!("{} sessions are open", shared.limits.sessions));
        let _ = control.send(&Message::new(kind::OMNI_RESPONSE, errno::AGAIN)).await;
        return;
    };
    drop(half_open);
    let keepalive = TcpOptions { nodelay: true, ..serving::watched() };
    let Ok(mut control) = control.with_options(&keepalive) else { return };
    let silence = Duration::from_secs(shared.limits.silence_seconds);
    loop {
        if answer(&message, &mut control, peer, &shared).await.is_err() {
            return;
        }
        let next = tokio::select! {
            next = control.owed(silence) => next,
            _ = shared.stop.asked(1) => return,
        };
        match next {
            Ok(next) => message = next,
            Err(_) => return,
        }
    }
}

/// Answers a message.
async fn answer(
    message: &Message,
    control: &mut Control,
    peer: SocketAddr,
    shared: &Shared,
) -> Result<(), ControlError> {
    match message.kind {
        kind::DEBUG_ON | kind::DEBUG_OFF => control.send(&Message::new(kind::DEBUG_OK, 0)).await,
        kind::CPU_CALIBRATE => {
            let processors = cpu::processors();
            let rate = processors.map_or(0.0, |_| cpu::IDLE_RATE);
            control.send(&codec::calibration(rate, processors.unwrap_or(0))).await
        }
        // It is for servers that expect one.
        kind::PASSPHRASE => Ok(()),
        kind::OMNI | kind::TCP_CC => {
            let (form, request) = match message.kind {
                kind::OMNI => (Form::Omni, Request::parse(message)),
                _ => (Form::TcpCc, Request::parse_tcp_cc(message)),
            };
            match request.and_then(|request| opened(request, control, peer, shared)) {
                Ok(test) => test_with(test, form, control, peer, shared).await,
                Err(refused) => {
                    shared.refused(peer, refused.text);
                    control.send(&form.refusal(refused.number)).await
                }
            }
        }
        other => {
            shared.refused(peer, format!("a request of type {other}"));
            control.send(&Message::new(0, errno::UNKNOWN)).await
        }
    }
}

/// Opens what a request asks for.
fn opened(
    mut request: Request,
    control: &Control,
    peer: SocketAddr,
    shared: &Shared,
) -> Result<Test, codec::Refused> {
    // As at netserver: the results state the one in use.
    request.congestion.take_if(|name| weir_net::tcp::try_congestion_control(name).is_err());
    let client = peer.ip().to_canonical();
    let local = control.local().ok_or_else(|| codec::Refused {
        number: errno::ADDRESS,
        text: "the connection has no address".into(),
    })?;
    if let Some(stated) = request.client_address.filter(|stated| *stated != client)
        && request.direction == codec::Direction::Send
        && request.protocol == codec::Protocol::Udp
    {
        return codec::refuse(errno::ADDRESS, format!("datagrams to {stated}"));
    }
    let plan = settings::plan(&request, shared.limits.session_seconds)?;
    let flows = Share::take(&shared.load, |l| &l.flows, 1, shared.limits.flows);
    let Some(flows) = flows else {
        return codec::refuse(errno::AGAIN, format!("{} flows are open", shared.limits.flows));
    };
    let at = data::place(&request, local, &shared.bound)?;
    Test::open(request, plan, at, peer, flows, &shared.workers)
}

/// Runs a test and sends its results.
async fn test_with(
    test: Test,
    form: Form,
    control: &mut Control,
    peer: SocketAddr,
    shared: &Shared,
) -> Result<(), ControlError> {
    let before = control.bytes;
    control.send(&form.response(&response(&test))).await?;
    let session = shared.next_session.fetch_add(1, Ordering::Relaxed);
    let opened = ServerEvent::SessionOpened { session, peer: peer.into(), flows: 1 };
    let _ = shared.events.send(opened);
    let done = test.run(control, shared).await;
    let sent = match done.ended.status {
        Status::Complete => control.send(&form.results(&results(&done))).await,
        // The connection is closed: the client reports that.
        _ => Err(ControlError::Closed),
    };
    let (report, record) = done.into_record(peer, control.bytes - before);
    let _ = shared.events.send(ServerEvent::SessionClosed {
        session,
        peer: peer.into(),
        reason: record.end_reason.clone(),
        report: Some(Box::new(report)),
        record: Some(Box::new(record)),
    });
    sent
}

/// What this end uses for a test.
fn response(test: &Test) -> Response {
    let request = &test.request;
    let connection = &test.spec.connection;
    let [send_buffer, receive_buffer] = test.socket.buffers();
    let measures = request.flags & flag::MEASURE_CPU != 0 && cpu::processors().is_some();
    let size = |bytes: u64| u32::try_from(bytes).ok();
    let (send_size, receive_size) = match request.direction {
        codec::Direction::Send => (size(test.spec.max_payload()), request.receive_size),
        codec::Direction::Receive => (request.send_size, size(test.spec.max_payload())),
        codec::Direction::Exchange => {
            (size(connection.response_bytes()), size(connection.request_bytes()))
        }
        codec::Direction::Connect => (request.send_size, request.receive_size),
    };
    let mut flags = 0;
    flags |= if measures { flag::MEASURE_CPU } else { 0 };
    flags |= if connection.no_delay() { flag::NO_DELAY } else { 0 };
    Response {
        receive_buffer,
        send_buffer,
        receive_size,
        send_size,
        flags,
        cpu_rate: if measures { cpu::IDLE_RATE } else { 0.0 },
        data_port: test.socket.port(),
        priority: request.priority,
        tos: request.tos,
    }
}
