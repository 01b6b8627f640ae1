//! The server: many clients at the same time, each with a signalling connection of its own and any number of flows on it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use weir_net::tcp::{TcpListener, TcpOptions};
use weir_traffic::session::{self, Load, Share, WorkerConfig, Workers};
use weir_traffic::{Limits, ServerEvent, Stop, TrafficError};

use super::codec::{self, Message, Reply};
use super::control::{Control, ControlError};
use super::icmp;
use super::served::Session;
use crate::ports::{Ports, Registry};
use crate::{ServeConfig, Server, serving};

/// State shared by the sessions.
pub(super) struct Shared {
    pub(super) workers: Workers,
    pub(super) limits: Limits,
    pub(super) stop: Stop,
    pub(super) bound: Vec<IpAddr>,
    pub(super) ports: Ports,
    pub(super) load: Arc<Load>,
    pub(super) icmp: Arc<icmp::Open>,
    events: mpsc::UnboundedSender<ServerEvent>,
    next_session: AtomicU64,
}

impl Shared {
    pub(super) fn refused(&self, peer: SocketAddr, reason: impl Into<String>) {
        let event = ServerEvent::Refused { peer: peer.into(), reason: reason.into() };
        self.report(event);
    }

    pub(super) fn report(&self, event: ServerEvent) {
        let _ = self.events.send(event);
    }

    pub(super) fn session(&self) -> u64 {
        self.next_session.fetch_add(1, Ordering::Relaxed)
    }
}

/// The server before it runs.
struct Ditg {
    streams: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    bound: Vec<IpAddr>,
    workers: WorkerConfig,
    limits: Limits,
}

/// Listens for clients.
pub(super) fn open(config: &ServeConfig) -> Result<Box<dyn Server>, TrafficError> {
    let (streams, addresses) = session::listen_streams(&config.bind, config.port)?;
    Ok(Box::new(Ditg {
        streams,
        addresses,
        bound: config.bind.clone(),
        workers: config.workers.clone(),
        limits: config.limits.clone(),
    }))
}

impl Server for Ditg {
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
    server: Ditg,
    stop: &Stop,
    observe: &mut dyn FnMut(ServerEvent),
) -> Result<(), TrafficError> {
    let (events, inbox) = mpsc::unbounded_channel();
    let workers = Workers::start(&server.workers)?;
    let (limits, load) = (server.limits, Arc::<Load>::default());
    let ports = Ports::new(Registry::start()?, workers.clone(), load.clone(), &limits);
    let shared = Arc::new(Shared {
        workers,
        limits,
        stop: stop.clone(),
        bound: server.bound,
        ports,
        load,
        icmp: Arc::default(),
        events,
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

/// Serves a client until it closes the session.
async fn client(mut control: Control, peer: SocketAddr, shared: Arc<Shared>) {
    let half_open = Share::take(&shared.load, |l| &l.half_open, 1, shared.limits.half_open);
    if half_open.is_none() {
        return;
    }
    let patience = Duration::from_secs(shared.limits.hello_seconds);
    match tokio::time::timeout(patience, control.message()).await {
        Ok(Ok(Message::Connect)) => {}
        _ => return,
    }
    let most = shared.limits.sessions;
    // ITGSend takes any answer for a consent: closing is the only refusal.
    let Some(_share) = Share::take(&shared.load, |l| &l.sessions, 1, most) else {
        return shared.refused(peer, format!("{most} sessions are open"));
    };
    drop(half_open);
    let keepalive = TcpOptions { nodelay: true, ..serving::watched() };
    let Ok(mut control) = control.with_options(&keepalive) else { return };
    let Some(local) = control.local() else { return };
    if control.send(&Reply::Connected.to_bytes()).await.is_err() {
        return;
    }
    Session::new(peer, local, &shared).run(&mut control).await;
}

/// What the end of a signalling connection means, for people.
pub(super) fn reason(error: &ControlError) -> String {
    match error {
        ControlError::Closed => "the client closed the signalling connection".into(),
        ControlError::Unknown(unknown) if codec::is_remote_log(*unknown) => {
            "a log at another host (ITGSend -X)".into()
        }
        other => other.to_string(),
    }
}
