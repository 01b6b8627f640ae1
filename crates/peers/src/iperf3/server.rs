//! The server: many clients at the same time.
//!
//! A TCP connection begins with a cookie. One that a session awaits is a stream of it; any other names a new session. The hello
//! of a UDP stream names none, so of the sessions with one address a single one at a time awaits such streams.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use weir_flow::IntervalClock;
use weir_model::plan::{FlowSpec, Plan};
use weir_model::record::{Record, Status};
use weir_model::report::EndReport;
use weir_net::tcp::{TcpListener, TcpOptions, TcpStream};
use weir_net::thread::lock;
use weir_net::udp::{UdpOptions, UdpSocket};
use weir_traffic::session::{
    self, DatagramSocket, End, FlowEvent, Load, SenderTotal, Share, Signal, Signals, WorkerConfig,
    Workers,
};
use weir_traffic::{Limits, ServerEvent, Stop, Stranger, TrafficError};

use super::auth::{self, Logins};
use super::codec::{self, Cookie, Parameters, Results, State, number};
use super::control::{Control, ControlError, PATIENCE};
use super::rate_limit::{self, TotalRate, TotalRateLimit};
use super::{results, settings};
use crate::serving::{self, sends};
use crate::sessions::{self, TICK};
use crate::{Describe, ServeConfig, Server};

/// Silence that ends what is still under way when the client has stopped sending.
const QUIET_NS: u64 = 250_000_000;
/// Most time for what is still under way.
const DRAIN: Duration = Duration::from_secs(10);
/// Time beyond its stated duration that a session may take.
const GRACE: Duration = Duration::from_secs(60);
/// Time for the client to end the session after the results, or after the server has stated why it ends the test.
const FAREWELL: Duration = Duration::from_secs(3);
/// Datagrams of other sources that are read from a new socket.
const MAX_STRAYS: usize = 64;

/// The source of a hello, and the reply to it.
type Greeting = (SocketAddr, [u8; codec::HELLO_BYTES]);

/// State shared by the sessions.
struct Shared {
    workers: Workers,
    limits: Limits,
    logins: Option<Arc<Logins>>,
    rate_limit: Option<TotalRateLimit>,
    describe: Option<Describe>,
    stop: Stop,
    events: mpsc::UnboundedSender<ServerEvent>,
    load: Arc<Load>,
    next_session: AtomicU64,
    /// Sessions that await TCP streams.
    awaiting: Mutex<HashMap<Cookie, mpsc::Sender<TcpStream>>>,
    /// Sessions that await UDP streams, by the client's address.
    greeted: Mutex<HashMap<IpAddr, mpsc::Sender<Greeting>>>,
    /// Turns of the sessions of an address to await UDP streams.
    turns: Mutex<HashMap<IpAddr, Weak<tokio::sync::Mutex<()>>>>,
}

impl Shared {
    fn turn(&self, address: IpAddr) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = lock(&self.turns);
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = turns.get(&address).and_then(Weak::upgrade).unwrap_or_default();
        turns.insert(address, Arc::downgrade(&turn));
        turn
    }

    /// Hands the hello of a UDP stream to the session that awaits it, if there is one.
    fn greet(&self, from: SocketAddr, datagram: &[u8]) {
        let Some(reply) = codec::reply_to(datagram) else { return };
        let address = from.ip().to_canonical();
        let greeted = lock(&self.greeted).get(&address).cloned();
        // Its room is as large as the number of streams that it awaits.
        if let Some(session) = greeted {
            let _ = session.try_send((from, reply));
        }
    }
}

/// Removes an entry of a table of awaiting sessions.
struct Awaiting<'a, K: std::hash::Hash + Eq, V>(&'a Mutex<HashMap<K, V>>, K);

impl<K: std::hash::Hash + Eq, V> Drop for Awaiting<'_, K, V> {
    fn drop(&mut self) {
        lock(self.0).remove(&self.1);
    }
}

/// The server before it runs.
struct Iperf3 {
    streams: Vec<TcpListener>,
    datagrams: Vec<UdpSocket>,
    bound: Vec<SocketAddr>,
    /// Clients that another server gives away.
    guests: Option<mpsc::Receiver<Stranger>>,
    workers: WorkerConfig,
    limits: Limits,
    logins: Option<Arc<Logins>>,
    rate_limit: Option<TotalRateLimit>,
    describe: Option<Describe>,
}

/// Clients that wait to be taken from another server.
const GUESTS: usize = 1024;

/// A server of the clients that another server's port receives.
pub(super) fn guests(config: &ServeConfig) -> (mpsc::Sender<Stranger>, Box<dyn Server>) {
    let (sender, guests) = mpsc::channel(GUESTS);
    let server = Iperf3 {
        streams: vec![],
        datagrams: vec![],
        bound: vec![],
        guests: Some(guests),
        workers: config.workers.clone(),
        limits: config.limits.clone(),
        logins: config.logins.clone(),
        rate_limit: config.rate_limit,
        describe: config.describe,
    };
    (sender, Box::new(server))
}

/// Listens for clients.
pub(super) fn open(config: &ServeConfig) -> Result<Box<dyn Server>, TrafficError> {
    let (streams, bound) = session::listen_streams(&config.bind, config.port)?;
    let listening = |address: &SocketAddr| {
        let options = UdpOptions {
            reuse_port: true,
            v6_only: address.is_ipv6(),
            nonblocking: true,
            ..UdpOptions::bind(*address)
        };
        UdpSocket::open(&options).map_err(|error| TrafficError::Listen {
            address: (*address).into(),
            reason: error.to_string(),
        })
    };
    Ok(Box::new(Iperf3 {
        datagrams: bound.iter().map(listening).collect::<Result<_, _>>()?,
        streams,
        bound,
        guests: None,
        workers: config.workers.clone(),
        limits: config.limits.clone(),
        logins: config.logins.clone(),
        rate_limit: config.rate_limit,
        describe: config.describe,
    }))
}

impl Server for Iperf3 {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.bound.clone()
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
    server: Iperf3,
    stop: &Stop,
    observe: &mut dyn FnMut(ServerEvent),
) -> Result<(), TrafficError> {
    let (events, inbox) = mpsc::unbounded_channel();
    let mut guests = server.guests;
    // Without a client there are no workers.
    let mut first = None;
    if let Some(guests) = &mut guests {
        let client = async {
            loop {
                match guests.recv().await {
                    Some(guest) if !is_client(&guest) => {}
                    guest => return guest,
                }
            }
        };
        first = tokio::select! {
            guest = client => guest,
            _ = stop.asked(1) => return Ok(()),
        };
    }
    let shared = Arc::new(Shared {
        workers: Workers::start(&server.workers)?,
        limits: server.limits,
        logins: server.logins,
        rate_limit: server.rate_limit,
        describe: server.describe,
        stop: stop.clone(),
        events,
        load: Arc::default(),
        next_session: AtomicU64::new(getrandom::u32().unwrap_or_default().into()),
        awaiting: Mutex::default(),
        greeted: Mutex::default(),
        turns: Mutex::default(),
    });
    let accepting = shared.clone();
    let mut listening = serving::accept(server.streams, move |stream, peer| {
        tokio::spawn(greeting(Control::new(stream), peer, accepting.clone()));
    })?;
    for socket in server.datagrams {
        let socket =
            tokio::net::UdpSocket::from_std(socket.into()).map_err(serving::not_listening)?;
        listening.spawn(hear(socket, shared.clone()));
    }
    if let Some(guests) = guests {
        listening.spawn(receive(first, guests, shared.clone()));
    }
    let has_sessions = || shared.load.sessions.load(Ordering::Acquire) > 0;
    serving::until_stopped(inbox, listening, stop, has_sessions, observe).await;
    Ok(())
}

/// Whether a connection begins as one of a client does.
fn is_client(guest: &Stranger) -> bool {
    matches!(guest, Stranger::Stream { begun, .. } if Cookie::may_begin(begun))
}

/// Receives the clients that another server gives away.
async fn receive(
    mut next: Option<Stranger>,
    mut guests: mpsc::Receiver<Stranger>,
    shared: Arc<Shared>,
) {
    while let Some(guest) = next {
        match guest {
            Stranger::Stream { .. } if !is_client(&guest) => {}
            Stranger::Datagram { from, bytes } => shared.greet(from, &bytes),
            Stranger::Stream { stream, peer, begun } => {
                if let Ok(stream) = tokio::net::TcpStream::from_std(stream.into()) {
                    tokio::spawn(greeting(Control::begun(stream, begun), peer, shared.clone()));
                }
            }
        }
        next = guests.recv().await;
    }
}

/// Hears the hellos of UDP streams.
async fn hear(socket: tokio::net::UdpSocket, shared: Arc<Shared>) {
    // A longer datagram is no hello.
    let mut bytes = [0; codec::HELLO_BYTES + 1];
    loop {
        match socket.recv_from(&mut bytes).await {
            Ok((length, from)) => shared.greet(from, &bytes[..length]),
            // Reading a pending ICMP error clears it.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

/// Reads the cookie of a connection, which is a stream of a session or a session of its own.
async fn greeting(mut control: Control, peer: SocketAddr, shared: Arc<Shared>) {
    let half_open = Share::take(&shared.load, |l| &l.half_open, 1, shared.limits.half_open);
    if half_open.is_none() {
        return;
    }
    let patience = Duration::from_secs(shared.limits.hello_seconds);
    let Ok(Ok(bytes)) = tokio::time::timeout(patience, control.cookie()).await else { return };
    let Some(cookie) = Cookie::parse(&bytes) else { return };
    let awaiting = lock(&shared.awaiting).get(&cookie).cloned();
    if let Some(session) = awaiting {
        if let Ok(stream) = control.into_stream() {
            let _ = session.try_send(stream);
        }
        return;
    }
    let share = Share::take(&shared.load, |l| &l.sessions, 1, shared.limits.sessions);
    let Some(_share) = share else {
        let reason = format!("{} sessions are open", shared.limits.sessions);
        let _ = shared.events.send(ServerEvent::Refused { peer: peer.into(), reason });
        let _ = control.send_state(State::AccessDenied).await;
        return;
    };
    drop(half_open);
    let keepalive = TcpOptions { nodelay: true, ..serving::watched() };
    let Ok(mut control) = control.with_options(&keepalive) else { return };
    let session = shared.next_session.fetch_add(1, Ordering::Relaxed);
    let agreed = tokio::select! {
        agreed = agree(&mut control, cookie, peer, &shared) => agreed,
        _ = shared.stop.asked(1) => {
            let _ = control.send_state(State::ServerTerminate).await;
            return;
        }
    };
    let agreed = match agreed {
        Ok(agreed) => agreed,
        Err(reason) => {
            let _ = shared.events.send(ServerEvent::Refused { peer: peer.into(), reason });
            return;
        }
    };
    let flows = agreed.specs.len();
    let opened = ServerEvent::SessionOpened { session, peer: peer.into(), flows };
    let _ = shared.events.send(opened);
    let (report, record) = agreed.run(&mut control, peer, &shared).await;
    let _ = shared.events.send(ServerEvent::SessionClosed {
        session,
        peer: peer.into(),
        reason: record.end_reason.clone(),
        report: Some(Box::new(report)),
        record: Some(Box::new(record)),
    });
}

/// A session whose streams are open.
struct Agreed {
    peer: SocketAddr,
    plan: Plan,
    parameters: Parameters,
    specs: Vec<FlowSpec>,
    end: End,
    _flows: Share,
}

/// Agrees on the parameters and opens the streams. The error is the reason of a refusal.
async fn agree(
    control: &mut Control,
    cookie: Cookie,
    peer: SocketAddr,
    shared: &Shared,
) -> Result<Agreed, String> {
    let text = |error: ControlError| error.to_string();
    control.send_state(State::ParamExchange).await.map_err(text)?;
    let json = control.json(codec::MAX_PARAMETERS).await.map_err(text)?;
    let read = Parameters::parse(&json).map_err(|error| format!("parameters: {error}"));
    if let (Some(logins), Ok(parameters)) = (&shared.logins, &read) {
        let user = user(logins, parameters.token.clone()).await;
        if user.is_none() {
            let _ = control.send_error(number::ACCESS).await;
            return Err("no credentials of a known user, or of another time".into());
        }
    }
    let planned = read.map(|parameters| {
        let plan = settings::plan(&parameters, shared.limits.session_seconds);
        plan.map(|plan| (parameters, plan))
    });
    let (parameters, plan) = match planned {
        Ok(Ok(planned)) => planned,
        Ok(Err(refused)) => {
            let _ = control.send_error(refused.number).await;
            return Err(refused.text);
        }
        Err(text) => {
            let _ = control.send_error(number::PARAMETERS).await;
            return Err(text);
        }
    };
    if let Some(text) = shared.rate_limit.and_then(|limit| limit.refusal(&parameters)) {
        let _ = control.send_error(number::TOTAL_RATE).await;
        return Err(text);
    }
    let plan = Plan { host: Some(peer.ip().to_canonical().to_string()), ..plan };
    let specs = plan.flows(crate::family(peer), session::path_mtu_bytes(peer.ip()));
    let amount = specs.len() as u64;
    let share = Share::take(&shared.load, |l| &l.flows, amount, shared.limits.flows);
    let Some(flows) = share else {
        let _ = control.send_state(State::AccessDenied).await;
        return Err(format!("{amount} flows would exceed {}", shared.limits.flows));
    };
    let mut end =
        End::new(&shared.workers, &sessions::counted(&plan), true).with_host(peer.ip(), None);
    let udp = specs.iter().any(|spec| spec.connection.transport.datagrams());
    match udp {
        true => open_datagrams(control, &plan, &specs, peer, shared, &mut end).await?,
        false => open_streams(control, &specs, cookie, shared, &mut end).await?,
    }
    Ok(Agreed { peer, plan, parameters, specs, end, _flows: flows })
}

/// The user whose credentials a token shows. Decryption takes long enough to delay other sessions, so it has its own thread.
async fn user(logins: &Arc<Logins>, token: Option<String>) -> Option<String> {
    let (logins, token) = (logins.clone(), token?);
    let checking = move || logins.user(&token, auth::now_seconds());
    tokio::task::spawn_blocking(checking).await.ok().flatten()
}

/// The next stream of a session, unless the client is gone. `opened`: how many there are, and are to be.
async fn awaited<T>(
    control: &mut Control,
    arriving: &mut mpsc::Receiver<T>,
    (opened, all): (usize, usize),
) -> Result<T, String> {
    tokio::select! {
        arrived = tokio::time::timeout(PATIENCE, arriving.recv()) => match arrived {
            Ok(Some(stream)) => Ok(stream),
            _ => Err(format!("{opened} of {all} streams were opened")),
        },
        // It owes no state now.
        state = control.state() => Err(match state {
            Ok(state) => format!("the client sent {state:?} after {opened} of {all} streams"),
            Err(error) => format!("the client: {error}"),
        }),
    }
}

async fn open_streams(
    control: &mut Control,
    specs: &[FlowSpec],
    cookie: Cookie,
    shared: &Shared,
    end: &mut End,
) -> Result<(), String> {
    let (sender, mut streams) = mpsc::channel(specs.len().max(1));
    lock(&shared.awaiting).insert(cookie, sender);
    let _awaiting = Awaiting(&shared.awaiting, cookie);
    control.send_state(State::CreateStreams).await.map_err(|error| error.to_string())?;
    for (index, spec) in specs.iter().enumerate() {
        let opened = (index, specs.len());
        let stream = awaited(control, &mut streams, opened).await?;
        session::accepted_stream(spec, sends(spec), &stream).map_err(|error| error.to_string())?;
        end.stream(spec, sends(spec), stream).map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn open_datagrams(
    control: &mut Control,
    plan: &Plan,
    specs: &[FlowSpec],
    peer: SocketAddr,
    shared: &Shared,
    end: &mut End,
) -> Result<(), String> {
    let address = peer.ip().to_canonical();
    let turn = shared.turn(address);
    let waiting = tokio::time::timeout(PATIENCE * 4, turn.lock()).await;
    let Ok(_turn) = waiting else {
        return Err("other sessions of this address were opening their streams".into());
    };
    let local = control.local().ok_or("the connection has no address")?;
    let (sender, mut hellos) = mpsc::channel(specs.len().max(1));
    lock(&shared.greeted).insert(address, sender);
    let _greeted = Awaiting(&shared.greeted, address);
    control.send_state(State::CreateStreams).await.map_err(|error| error.to_string())?;
    let mut known = HashSet::new();
    for (index, spec) in specs.iter().enumerate() {
        let (from, reply) = loop {
            let (from, reply) = awaited(control, &mut hellos, (index, specs.len())).await?;
            // A repeated hello was under way when its socket was opened.
            if known.insert(from) {
                break (from, reply);
            }
        };
        let opened = session::open_datagrams(plan, spec, sends(spec), Some(local), Some(from));
        let socket = opened.map_err(|error| error.to_string())?;
        rescue(&socket, from, shared);
        let _ = socket.send(&reply);
        end.datagrams(spec, sends(spec), socket, Some(Box::new(HelloAgain)));
    }
    Ok(())
}

/// Hands on the hellos of others that arrived on a socket before it was connected.
fn rescue(socket: &UdpSocket, own: SocketAddr, shared: &Shared) {
    let mut bytes = [0; codec::HELLO_BYTES + 1];
    for _ in 0..MAX_STRAYS {
        match socket.recv_from(&mut bytes) {
            Ok((length, from)) if from != own => shared.greet(from, &bytes[..length]),
            Ok(_) => {}
            Err(_) => break,
        }
    }
}

/// A repeated hello means that its reply was lost.
#[derive(Debug)]
struct HelloAgain;

impl Signals for HelloAgain {
    fn classify(&mut self, socket: &dyn DatagramSocket, bytes: &[u8], _: u64) -> Signal {
        if bytes.len() != codec::HELLO_BYTES {
            return Signal::Data;
        }
        if let Some(reply) = codec::reply_to(bytes) {
            let _ = socket.send_control(&reply);
        }
        Signal::Message
    }
}

/// How a session ended.
struct Ended {
    status: Status,
    reason: String,
    /// The client's results.
    theirs: Option<Results>,
}

/// Sends the reason for the end of a test and waits until the client leaves: one that finds its streams closed before it reads the
/// reason reports that instead.
async fn dismiss(control: &mut Control, number: i32) {
    if control.send_error(number).await.is_ok() {
        let _ = tokio::time::timeout(FAREWELL, control.state()).await;
    }
}

impl Ended {
    fn partial(reason: impl Into<String>) -> Self {
        Ended { status: Status::Partial, reason: reason.into(), theirs: None }
    }
}

impl Agreed {
    /// Runs the test; returns this end's report and the record.
    async fn run(
        self,
        control: &mut Control,
        peer: SocketAddr,
        shared: &Shared,
    ) -> (EndReport, Record) {
        let mut ended = None;
        for state in [State::TestStart, State::TestRunning] {
            if let Err(error) = control.send_state(state).await {
                ended.get_or_insert(Ended::partial(error.to_string()));
            }
        }
        let intervals = sessions::intervals(shared.workers.now_ns(), self.plan.omit.0);
        self.end.start(intervals);
        let ended = match ended {
            Some(ended) => ended,
            None => self.until_end(control, shared, intervals).await,
        };
        self.end.stop();
        let near = self.end.finish();
        let far = ended
            .theirs
            .map(|theirs| results::to_report(&self.specs, &theirs, &near, self.plan.omit));
        let (name, ends) = (super::PROTOCOL.name, (near.clone(), far));
        let ended = sessions::Ended::new(ended.status, ended.reason);
        let record = sessions::record(name, self.plan, self.specs, peer, ends, intervals, ended);
        (near, Record { control_bytes: Some(control.bytes), ..record })
    }

    /// Runs until the client ends the test, is gone, or a limit is reached.
    async fn until_end(
        &self,
        control: &mut Control,
        shared: &Shared,
        intervals: IntervalClock,
    ) -> Ended {
        let longest = Duration::from_secs(shared.limits.session_seconds);
        let stated = self.parameters.time.saturating_add(self.parameters.omit);
        let longest = match self.parameters.time {
            0 => longest,
            _ => longest.min(Duration::from_secs(stated).saturating_add(GRACE)),
        };
        let over = Instant::now() + longest;
        let receives = self.specs.iter().any(|spec| !sends(spec));
        let silence = Duration::from_secs(shared.limits.silence_seconds);
        let mut totals: Vec<SenderTotal> = vec![];
        let mut receiving: HashSet<u32> =
            self.specs.iter().filter(|spec| !sends(spec)).map(|spec| spec.id).collect();
        let mut rate = TotalRate::new(shared.rate_limit, intervals);
        let mut ticks = tokio::time::interval_at(Instant::now() + TICK, TICK);
        loop {
            tokio::select! {
                state = control.state() => match state {
                    Ok(State::TestEnd) => break,
                    Ok(State::ClientTerminate) => return Ended {
                        status: Status::Interrupted,
                        ..Ended::partial("the client was interrupted")
                    },
                    Ok(other) => return Ended::partial(format!("the client sent {other:?}")),
                    Err(error) => return Ended::partial(format!("the client: {error}")),
                },
                event = self.end.event() => match event {
                    FlowEvent::SenderDone(total) => totals.push(total),
                    FlowEvent::ReceiverDone(id) => drop(receiving.remove(&id)),
                    FlowEvent::Failed(_, text) => {
                        // The client may have ended the test: then this is its end.
                        match tokio::time::timeout(TICK, control.state()).await {
                            Ok(Ok(State::TestEnd)) => break,
                            _ => return Ended::partial(text),
                        }
                    }
                    _ => {}
                },
                _ = ticks.tick() => {
                    if Instant::now() >= over {
                        dismiss(control, number::EXPIRED).await;
                        return Ended::partial("the session reached the limit of its time");
                    }
                    let last_ns = self.end.last_arrival_ns().max(intervals.start_ns);
                    let silent = shared.workers.now_ns().saturating_sub(last_ns);
                    if receives && Duration::from_nanos(silent) > silence {
                        let _ = control.send_state(State::ServerTerminate).await;
                        return Ended::partial(format!("nothing arrived for {} s", silence.as_secs()));
                    }
                }
                text = rate_limit::exceeded(&mut rate, &shared.workers, &self.end) => {
                    dismiss(control, number::TOTAL_RATE).await;
                    return Ended::partial(text);
                }
                reason = shared.stop.asked(1) => {
                    let _ = control.send_state(State::ServerTerminate).await;
                    return Ended {
                        status: Status::Interrupted,
                        ..Ended::partial(reason.text())
                    };
                }
            }
        }
        self.end.stop();
        match self.exchange(control, shared, intervals, (totals, receiving)).await {
            Ok(theirs) => Ended {
                status: Status::Complete,
                reason: "the client finished".into(),
                theirs: Some(theirs),
            },
            Err(error) => Ended::partial(format!("results: {error}")),
        }
    }

    /// Ends the streams on which this end sends: iperf3's client reads whole blocks until then, and only afterwards sends its
    /// results.
    async fn end_sending(&self, totals: &mut Vec<SenderTotal>, receiving: &mut HashSet<u32>) {
        let mut sending: HashSet<u32> =
            self.specs.iter().filter(|spec| sends(spec)).map(|spec| spec.id).collect();
        for total in totals.iter() {
            sending.remove(&total.flow);
        }
        let stopping = async {
            while !sending.is_empty() {
                match self.end.event().await {
                    FlowEvent::ReceiverDone(id) => drop(receiving.remove(&id)),
                    FlowEvent::SenderDone(total) => {
                        sending.remove(&total.flow);
                        totals.push(total);
                    }
                    FlowEvent::Failed(id, _) => {
                        receiving.remove(&id);
                        sending.remove(&id);
                    }
                    _ => {}
                }
            }
        };
        let _ = tokio::time::timeout(DRAIN, stopping).await;
        let sending = self.specs.iter().filter(|spec| sends(spec));
        sending.for_each(|spec| self.end.half_close(spec.id));
    }

    /// The record of a test that has just ended.
    fn record(&self, near: &EndReport, theirs: &Results, intervals: IntervalClock) -> Record {
        let far = results::to_report(&self.specs, theirs, near, self.plan.omit);
        let ended = sessions::Ended::new(Status::Complete, "");
        let (plan, specs) = (self.plan.clone(), self.specs.clone());
        let ends = (near.clone(), Some(far));
        sessions::record(super::PROTOCOL.name, plan, specs, self.peer, ends, intervals, ended)
    }

    /// Exchanges the results: what the client sent is known before this end reports what arrived.
    async fn exchange(
        &self,
        control: &mut Control,
        shared: &Shared,
        intervals: IntervalClock,
        (mut totals, mut receiving): (Vec<SenderTotal>, HashSet<u32>),
    ) -> Result<Results, ControlError> {
        self.end_sending(&mut totals, &mut receiving).await;
        control.send_state(State::ExchangeResults).await?;
        let json = control.json(codec::MAX_CLIENT_RESULTS).await?;
        let theirs = Results::parse(&json)
            .map_err(|error| ControlError::Message { what: "results", error })?;
        self.end.drain(QUIET_NS);
        let known = results::totals(&self.specs, &theirs, self.plan.omit);
        known.for_each(|total| self.end.expect(&total, QUIET_NS));
        let waiting = async {
            while !receiving.is_empty() {
                if let FlowEvent::ReceiverDone(id) | FlowEvent::Failed(id, _) =
                    self.end.event().await
                {
                    receiving.remove(&id);
                }
            }
        };
        let _ = tokio::time::timeout(DRAIN, waiting).await;
        let near = self.end.finish();
        let omitted = |flow| {
            totals.iter().find(|total| total.flow == flow).map_or(0, |total| total.omitted_packets)
        };
        let seconds = theirs.streams.iter().find_map(|stream| stream.seconds).unwrap_or(0.0);
        let ours = results::of_report(&self.specs, &near, omitted, seconds);
        let describe = shared.describe.filter(|_| self.parameters.wants_output);
        let output =
            describe.and_then(|describe| describe(&self.record(&near, &theirs, intervals)));
        let ours = Results { output, ..ours };
        control.send_json(&ours.to_json()).await?;
        control.send_state(State::DisplayResults).await?;
        // Old clients close the connection instead.
        let _ = tokio::time::timeout(FAREWELL, control.state()).await;
        Ok(theirs)
    }
}
