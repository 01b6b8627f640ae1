//! The server: many clients at the same time, each with a control connection of its own and one test on it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use weir_model::plan::Plan;
use weir_net::tcp::{TcpListener, TcpOptions};
use weir_net::thread::lock;
use weir_traffic::session::{self, Load, Share, WorkerConfig, Workers};
use weir_traffic::{Limits, ServerEvent, Stop, TrafficError};

use super::codec::{self, Parameters};
use super::control::{Control, ControlError};
use super::level::{ENDING, LAST_END};
use super::served::Session;
use super::settings;
use crate::ports::{Ports, Registry};
use crate::{ServeConfig, Server, serving};

/// Time for a refused client to read why.
const FAREWELL: Duration = Duration::from_secs(1);

/// State shared by the sessions.
pub(super) struct Shared {
    pub(super) workers: Workers,
    pub(super) limits: Limits,
    pub(super) stop: Stop,
    pub(super) ports: Ports,
    events: mpsc::UnboundedSender<ServerEvent>,
    load: Arc<Load>,
    next_session: AtomicU64,
    /// Of each host with a session: held by the one whose data is about to arrive.
    turns: Mutex<HashMap<IpAddr, Arc<tokio::sync::Mutex<()>>>>,
}

/// The turn of a session to await its data.
pub(super) type Turn = tokio::sync::OwnedMutexGuard<()>;

impl Shared {
    fn refused(&self, peer: SocketAddr, reason: impl Into<String>) {
        let event = ServerEvent::Refused { peer: peer.into(), reason: reason.into() };
        self.report(event);
    }

    pub(super) fn report(&self, event: ServerEvent) {
        let _ = self.events.send(event);
    }

    pub(super) fn session(&self) -> u64 {
        self.next_session.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits for the turn of a session with a host. Data does not name its session, so that sessions of one host await theirs
    /// one after the other.
    pub(super) async fn turn(&self, host: IpAddr) -> Turn {
        let mutex = {
            let mut turns = lock(&self.turns);
            turns.retain(|_, mutex| Arc::strong_count(mutex) > 1);
            turns.entry(host).or_default().clone()
        };
        mutex.lock_owned().await
    }
}

/// The server before it runs.
struct Nuttcp {
    streams: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    workers: WorkerConfig,
    limits: Limits,
    /// The ports of data, which other servers of this process may have too.
    ports: Arc<Registry>,
}

/// Listens for clients.
pub(super) fn open(config: &ServeConfig) -> Result<Box<dyn Server>, TrafficError> {
    let (streams, addresses) = session::listen_streams(&config.bind, config.port)?;
    Ok(Box::new(Nuttcp {
        streams,
        addresses,
        workers: config.workers.clone(),
        limits: config.limits.clone(),
        ports: config.ports.registry()?,
    }))
}

impl Server for Nuttcp {
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
    server: Nuttcp,
    stop: &Stop,
    observe: &mut dyn FnMut(ServerEvent),
) -> Result<(), TrafficError> {
    let (events, inbox) = mpsc::unbounded_channel();
    let workers = Workers::start(&server.workers)?;
    let (limits, load) = (server.limits, Arc::<Load>::default());
    let ports = Ports::new(server.ports, workers.clone(), load.clone(), &limits);
    let shared = Arc::new(Shared {
        workers,
        limits,
        stop: stop.clone(),
        ports,
        events,
        load,
        next_session: AtomicU64::new(getrandom::u32().unwrap_or_default().into()),
        turns: Mutex::default(),
    });
    let accepting = shared.clone();
    let listening = serving::accept(server.streams, move |stream, peer| {
        tokio::spawn(client(Control::new(stream), peer, accepting.clone()));
    })?;
    let has_sessions = || shared.load.sessions.load(Ordering::Acquire) > 0;
    serving::until_stopped(inbox, listening, stop, has_sessions, observe).await;
    Ok(())
}

/// Reads what a client asks for; `None`: it has not greeted.
async fn asked(control: &mut Control) -> Result<Option<String>, ControlError> {
    let greeting = control.line().await?;
    if codec::greeted(&greeting).is_none() {
        return Ok(None);
    }
    control.send(&codec::hello()).await?;
    control.line().await.map(Some)
}

/// Serves a client.
async fn client(mut control: Control, peer: SocketAddr, shared: Arc<Shared>) {
    let half_open = Share::take(&shared.load, |l| &l.half_open, 1, shared.limits.half_open);
    if half_open.is_none() {
        return;
    }
    let patience = Duration::from_secs(shared.limits.hello_seconds);
    let asked = match tokio::time::timeout(patience, asked(&mut control)).await {
        Ok(Ok(asked)) => asked.ok_or("error scanning parameters"),
        Ok(Err(ControlError::Line)) => Err("error scanning parameters"),
        _ => return,
    };
    let parameters = asked.map_err(str::to_owned).and_then(|line| Parameters::parse(&line));
    let is_sender = parameters.as_ref().is_ok_and(|parameters| !parameters.client_sends);
    let admitted = parameters.and_then(|parameters| {
        let plan = settings::plan(&parameters, shared.limits.session_seconds)?;
        let plan = Plan { host: Some(peer.ip().to_canonical().to_string()), ..plan };
        let most = shared.limits.sessions;
        let sessions = Share::take(&shared.load, |l| &l.sessions, 1, most);
        let sessions = sessions.ok_or_else(|| format!("{most} sessions are open"))?;
        let most = shared.limits.flows;
        let flows = Share::take(&shared.load, |l| &l.flows, parameters.streams.into(), most);
        let flows = flows.ok_or_else(|| format!("more than {most} flows would be open"))?;
        Ok((parameters, plan, [sessions, flows]))
    });
    drop(half_open);
    let (parameters, plan, shares) = match admitted {
        Ok(admitted) => admitted,
        Err(reason) => return refuse(control, is_sender, reason, peer, &shared).await,
    };
    let keepalive = TcpOptions { nodelay: true, ..serving::watched() };
    let Ok(mut control) = control.with_options(&keepalive) else { return };
    let Some(local) = control.local() else { return };
    let session = Session::new(parameters, plan, peer, local, &shared);
    match session.run(&mut control).await {
        // The client reads what was sent, and closes.
        Ok(None) => control.close(FAREWELL).await,
        Ok(Some(rest)) => {
            tokio::select! {
                () = control.close(ENDING * LAST_END.into()) => {}
                () = rest.send() => {}
            }
        }
        Err(reason) => return refuse(control, is_sender, reason, peer, &shared).await,
    }
    drop(shares);
}

/// Refuses a client, for the reason `reason`.
async fn refuse(
    mut control: Control,
    is_sender: bool,
    reason: String,
    peer: SocketAddr,
    shared: &Shared,
) {
    let sent = control.send(&codec::refusal(&reason, is_sender)).await;
    shared.refused(peer, reason);
    if sent.is_ok() {
        control.close(FAREWELL).await;
    }
}
