//! The ports of data, with one listener or socket for each address and port. Servers of one process that have the same port share it: a port
//! is closed when none needs it any more.
//!
//! A port receives the data of flows that clients have announced, each on a control connection, and that of servers whose clients
//! announce nothing. `whose.rs` decides between them.

mod flows;
mod inlet;
mod port;
mod streams;
mod whose;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_model::plan::{FlowSpec, Plan};
use weir_net::poll::Poller;
use weir_net::tcp::TcpListener;
use weir_net::thread::lock;
use weir_net::udp::{Membership, UdpSocket};
use weir_traffic::session::{self, Load, Workers};
use weir_traffic::{Limits, TrafficError};

pub(crate) use flows::{Arrived, FIRST, Rules, Waiting, intervals};
pub(crate) use inlet::{Copies, Inlet, Read};
pub(crate) use whose::Claim;

use flows::{Announced, Owner};
use port::{Port, Shared, Socket, State};

use crate::serving;

/// How long the listener of a port may take to close.
const CLOSING: Duration = Duration::from_millis(100);

/// The ports that the servers of a process share; clones are the same ones.
#[derive(Clone, Default)]
pub struct SharedPorts(Arc<Mutex<Weak<Registry>>>);

impl std::fmt::Debug for SharedPorts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedPorts").finish_non_exhaustive()
    }
}

impl SharedPorts {
    /// The open ports; without any, their threads are started.
    ///
    /// # Errors
    /// [`TrafficError::System`].
    pub(crate) fn registry(&self) -> Result<Arc<Registry>, TrafficError> {
        let mut shared = lock(&self.0);
        if let Some(registry) = shared.upgrade() {
            return Ok(registry);
        }
        let registry = Registry::start()?;
        *shared = Arc::downgrade(&registry);
        Ok(registry)
    }
}

/// A server whose clients announce nothing.
pub(crate) struct Receiver {
    /// What it recognizes: streams, and datagrams; absent: its data has no header.
    pub(crate) claims: Option<[Claim; 2]>,
    /// Limits of connections that have not sent enough to be recognized.
    pub(crate) limits: Limits,
    /// Serves a connection, of which nothing has been read.
    pub(crate) on_stream: Box<dyn Fn(std::net::TcpStream, SocketAddr) + Send + Sync>,
    pub(crate) datagrams: Arc<Mutex<dyn Sources>>,
}

/// The sources of datagrams of a server.
pub(crate) trait Sources: Send {
    /// Whether the datagrams of a source that arrive at `now_ns` of the workers' clock are of a session of this server.
    fn has(&self, from: SocketAddr, now_ns: u64) -> bool;

    /// Handles a datagram that arrived on the socket of a port.
    fn take(&mut self, inlet: &mut Inlet<'_>, from: SocketAddr, read: Read);
}

/// The open ports, with one thread for the connections and one for the datagrams of all of them.
pub(crate) struct Registry {
    shared: Arc<Shared>,
    ending: Option<tokio::sync::oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Release);
        self.ending = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A failure of the system.
fn failed(source: std::io::Error) -> TrafficError {
    TrafficError::System { operation: "receiving".into(), source }
}

/// An address that can't be used.
fn not_at(at: SocketAddr) -> impl Fn(std::io::Error) -> TrafficError {
    move |reason| TrafficError::Listen { address: at.into(), reason: reason.to_string() }
}

impl Registry {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`TrafficError::System`].
    pub(crate) fn start() -> Result<Arc<Registry>, TrafficError> {
        let runtime = crate::runtime()?;
        let shared = Arc::new(Shared {
            poller: Poller::new().map_err(failed)?,
            open: Mutex::default(),
            next: AtomicU64::new(1),
            is_ending: AtomicBool::new(false),
            tasks: runtime.handle().clone(),
        });
        let (ending, ended) = tokio::sync::oneshot::channel::<()>();
        // On an error the thread that has started ends with the registry.
        let own = shared.clone();
        let mut registry = Registry { shared, ending: Some(ending), threads: vec![] };
        let mut spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.into());
            thread.spawn(run).map(|thread| registry.threads.push(thread)).map_err(failed)
        };
        let streams = move || drop(runtime.block_on(ended));
        spawn("weir-streams", Box::new(streams))?;
        spawn("weir-datagrams", Box::new(move || own.receive()))?;
        Ok(Arc::new(registry))
    }

    /// Adds a user to the port that receives what arrives at `at`, or to a new one that `bind` opens.
    fn join(
        self: &Arc<Self>,
        at: SocketAddr,
        is_datagrams: bool,
        bind: impl FnOnce() -> Result<Bound, TrafficError>,
        add: impl FnOnce(&mut State, u64),
    ) -> Result<Use, TrafficError> {
        let next = || self.shared.next.fetch_add(1, Ordering::Relaxed);
        let id = next();
        let mut open = lock(&self.shared.open);
        let any: IpAddr = match at {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let known = [at, SocketAddr::new(any, at.port())];
        let known = known.iter().find_map(|at| open.get(&(*at, is_datagrams)).cloned());
        let port = match known {
            Some(port) => port,
            None => {
                let (socket, listener, at) = bind()?;
                let state = Mutex::new(State { listener, ..State::default() });
                let port = Arc::new(Port { at, token: next(), socket, state });
                open.insert((at, is_datagrams), port.clone());
                port
            }
        };
        let mut state = lock(&port.state);
        add(&mut state, id);
        state.users += 1;
        drop(state);
        drop(open);
        Ok(Use { registry: self.clone(), port, id })
    }

    /// Opens `port` of these addresses for a server, for TCP and UDP; no address: all IPv4 and IPv6 addresses, and port 0: one that
    /// the system chooses. `plan`: that of datagrams.
    ///
    /// # Errors
    /// [`TrafficError::Listen`]: a port is in use elsewhere, or an address is none of this host.
    pub(crate) fn listen(
        self: &Arc<Self>,
        bind: &[IpAddr],
        port: u16,
        workers: &Workers,
        plan: &Plan,
    ) -> Result<Listening, TrafficError> {
        let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let wanted = if bind.is_empty() { &any[..] } else { bind };
        let wanted = wanted.iter().map(|ip| SocketAddr::new(*ip, port));
        let is_open = |at: &SocketAddr| lock(&self.shared.open).contains_key(&(*at, false));
        let (shared, others): (Vec<SocketAddr>, Vec<SocketAddr>) = wanted.partition(is_open);
        let own: Vec<IpAddr> = others.iter().map(SocketAddr::ip).collect();
        let (listeners, own) = match (shared.is_empty(), bind.is_empty() || own.is_empty()) {
            (true, _) => session::listen_streams(bind, port)?,
            // All addresses that this host has.
            (false, true) => (vec![], vec![]),
            (false, false) => session::listen_streams(&own, port)?,
        };
        let mut listening = Listening { uses: vec![], addresses: [shared, own.clone()].concat() };
        let mut listeners: HashMap<SocketAddr, TcpListener> =
            own.into_iter().zip(listeners).collect();
        for at in listening.addresses.clone() {
            let listener = listeners.remove(&at);
            let in_use = || not_at(at)(std::io::ErrorKind::AddrInUse.into());
            let bind = || Ok((Socket::Streams, Some(listener.ok_or_else(in_use)?), at));
            listening.uses.push(self.join(at, false, bind, State::await_receiver)?);
            let bind = || {
                let spec = plan.flows(crate::family(at), u32::MAX).swap_remove(0);
                let opened = session::open_datagrams(plan, &spec, false, Some(at), None);
                let socket = opened.map_err(|error| TrafficError::Listen {
                    address: at.into(),
                    reason: error.to_string(),
                })?;
                Ok((Socket::Datagrams(socket, workers.clone()), None, at))
            };
            listening.uses.push(self.join(at, true, bind, State::await_receiver)?);
        }
        Ok(listening)
    }

    /// Joins a multicast group on `port` of UDP; 0: one that the system chooses. `plan`: that of datagrams.
    ///
    /// # Errors
    /// [`TrafficError::Listen`]: the port is in use elsewhere, or no interface receives the group.
    pub(crate) fn listen_group(
        self: &Arc<Self>,
        group: &Membership,
        port: u16,
        workers: &Workers,
        plan: &Plan,
    ) -> Result<Listening, TrafficError> {
        let at = session::group_address(group, port);
        let spec = plan.flows(crate::family(at), u32::MAX).swap_remove(0);
        let opened = session::open_group(plan, &spec, group, port, None);
        let socket = opened.map_err(|error| TrafficError::Listen {
            address: at.into(),
            reason: error.to_string(),
        })?;
        let at = socket.local_addr().map_err(not_at(at))?;
        let mut listening = self.adopt(vec![], vec![(socket, at)], workers)?;
        listening.addresses.push(at);
        Ok(listening)
    }

    /// Receives on sockets that are open already, each of a port that no other server has.
    ///
    /// # Errors
    /// [`TrafficError::System`].
    pub(crate) fn adopt(
        self: &Arc<Self>,
        streams: Vec<TcpListener>,
        datagrams: Vec<(UdpSocket, SocketAddr)>,
        workers: &Workers,
    ) -> Result<Listening, TrafficError> {
        let mut listening = Listening { uses: vec![], addresses: vec![] };
        for listener in streams {
            let at = listener.local_addr().map_err(failed)?;
            let bind = || Ok((Socket::Streams, Some(listener), at));
            listening.uses.push(self.join(at, false, bind, State::await_receiver)?);
        }
        for (socket, at) in datagrams {
            let bind = || Ok((Socket::Datagrams(socket, workers.clone()), None, at));
            listening.uses.push(self.join(at, true, bind, State::await_receiver)?);
        }
        Ok(listening)
    }
}

/// The socket of a new port, its listener, and its address.
type Bound = (Socket, Option<TcpListener>, SocketAddr);

/// A use of a port, which ends when this is dropped.
struct Use {
    registry: Arc<Registry>,
    port: Arc<Port>,
    id: u64,
}

impl Drop for Use {
    fn drop(&mut self) {
        let shared = &self.registry.shared;
        let mut open = lock(&shared.open);
        let mut state = lock(&self.port.state);
        state.flows.remove(self.id);
        state.receivers.retain(|(id, _)| *id != self.id);
        state.users -= 1;
        if state.users > 0 {
            // The others no longer wait for this one; they report what fails.
            let _ = shared.open(&self.port, &mut state);
            return;
        }
        open.remove(&(self.port.at, self.port.is_datagrams()));
        if let Socket::Datagrams(socket, _) = &self.port.socket {
            let _ = shared.poller.remove(socket);
        }
        let accepting = state.accepting.take();
        drop((state, open));
        if let Some(accepting) = accepting {
            accepting.close(CLOSING);
        }
    }
}

/// The ports of a server whose clients announce nothing. It receives nothing before it starts.
pub(crate) struct Listening {
    uses: Vec<Use>,
    pub(crate) addresses: Vec<SocketAddr>,
}

/// The ports at which a server receives, until it is dropped.
pub(crate) struct Receiving(#[allow(dead_code, reason = "dropping it ends the uses")] Vec<Use>);

impl Listening {
    /// Begins to receive.
    ///
    /// # Errors
    /// [`TrafficError::System`].
    pub(crate) fn start(mut self, receiver: Receiver) -> Result<Receiving, TrafficError> {
        let receiver = Arc::new(receiver);
        let uses = std::mem::take(&mut self.uses);
        for Use { port, id, .. } in &uses {
            let mut state = lock(&port.state);
            state.receivers.push((*id, receiver.clone()));
            state.starting -= 1;
        }
        for Use { registry, port, .. } in &uses {
            registry.shared.open(port, &mut lock(&port.state))?;
        }
        Ok(Receiving(uses))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        for used in &self.uses {
            lock(&used.port.state).starting -= 1;
        }
    }
}

/// The ports of the flows of a server.
pub(crate) struct Ports {
    registry: Arc<Registry>,
    owner: Arc<Owner>,
}

/// A flow's use of a port.
pub(crate) struct Lease {
    used: Use,
}

impl Lease {
    pub(crate) fn port(&self) -> u16 {
        self.used.port.at.port()
    }
}

impl Ports {
    /// Ports of flows that these workers receive. `limits`: those of connections that have not said which flow they are.
    pub(crate) fn new(
        registry: Arc<Registry>,
        workers: Workers,
        load: Arc<Load>,
        limits: &Limits,
    ) -> Ports {
        let patience = Duration::from_secs(limits.hello_seconds);
        let owner = Arc::new(Owner { workers, load, half_open: limits.half_open, patience });
        Ports { registry, owner }
    }

    /// Opens the port `at` for a flow, or adds the flow to it. With port 0 the system chooses.
    ///
    /// # Errors
    /// Those of the system: the port is in use, or no address of this host.
    pub(crate) fn open(&self, at: SocketAddr, flow: Waiting) -> Result<Lease, TrafficError> {
        let is_datagrams = flow.spec.connection.transport.datagrams();
        let (plan, spec) = (flow.plan.clone(), flow.spec.clone());
        let bind = || self.bind(at, &plan, &spec);
        let owner = self.owner.clone();
        let add = |state: &mut State, id| state.flows.add(Announced { id, at, owner, flow });
        let used = self.registry.join(at, is_datagrams, bind, add)?;
        self.registry.shared.open(&used.port, &mut lock(&used.port.state))?;
        Ok(Lease { used })
    }

    fn bind(&self, at: SocketAddr, plan: &Plan, spec: &FlowSpec) -> Result<Bound, TrafficError> {
        if spec.connection.transport.datagrams() {
            if at.port() > 0 {
                // Sockets of this program share a port: those of another server here would get none of its datagrams.
                std::net::UdpSocket::bind(at).map_err(not_at(at))?;
            }
            let socket = session::open_datagrams(plan, spec, false, Some(at), None)?;
            let at = socket.local_addr().map_err(not_at(at))?;
            return Ok((Socket::Datagrams(socket, self.owner.workers.clone()), None, at));
        }
        let listener = session::listen_flow(spec, serving::sends(spec), at)?;
        let at = listener.local_addr().map_err(not_at(at))?;
        Ok((Socket::Streams, Some(listener), at))
    }
}
