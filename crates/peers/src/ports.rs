//! The ports of data. Each is opened for the flows that were announced for it, of any number of clients, and closed when none
//! needs it any more.
//!
//! Data is taken only from hosts that have announced a flow for the port: from any other one it is dropped, or its connection
//! closed. What is sent back goes to these hosts alone.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use weir_flow::IntervalClock;
use weir_model::plan::{FlowSpec, Plan};
use weir_net::poll::{Events, Interest, Poller};
use weir_net::tcp::TcpStream;
use weir_net::thread::lock;
use weir_net::udp::{RecvBatch, RecvMode, UdpSocket};
use weir_traffic::TrafficError;
use weir_traffic::session::{self, Arrival, End, Load, Share, Signals, Workers};

use crate::{serving, sessions};

/// How often the thread checks whether it must stop.
const LOOK_NS: u64 = 100_000_000;
/// Receive calls on one socket before the other sockets are served.
const TURN: usize = 8;
/// Messages per receive call.
const MESSAGES: usize = 16;
/// Receive calls that empty a socket when a flow begins, so that its datagrams are counted in the order of their arrival.
const DRAINS: usize = 64;
/// Maximum number of datagrams that these calls store.
const MAX_WAITING: usize = 1024;
/// The flow of a session whose end reports this host.
pub(crate) const FIRST: u32 = 1;
/// Pause between two looks for what the system does not announce.
const PAUSE: Duration = Duration::from_millis(5);

/// Most bytes at the beginning of a stream by which its flow is found.
const MAX_IDENTITY: usize = 32;

/// How a protocol's data begins.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Bytes at the beginning of a stream that must have arrived, and how many more its session wants if they have; 0: data of
    /// the host is the flow's that waits longest.
    pub(crate) identity_bytes: [usize; 2],
    /// The number of the flow in its data.
    pub(crate) number: fn(&[u8]) -> Option<u32>,
    /// Whether a datagram may be the first of a flow.
    pub(crate) begins: fn(&[u8]) -> bool,
    /// When the data of a flow with this first datagram begins, ns.
    pub(crate) start_ns: fn(&Read) -> u64,
    /// Gives a datagram, which arrived on another socket than its flow's, to the flow. The flag: the flow is an echo.
    pub(crate) deliver: fn(&End, u32, bool, &Read),
}

/// A flow whose data has not arrived.
pub(crate) struct Waiting {
    /// The host that announced it.
    pub(crate) client: IpAddr,
    /// Its number, as the client has chosen it; absent: its data carries none.
    pub(crate) number: Option<u32>,
    pub(crate) rules: Rules,
    /// The protocol's messages among its datagrams.
    pub(crate) signals: Option<Box<dyn Signals>>,
    /// Duration of its intervals, ns.
    pub(crate) interval_ns: u64,
    pub(crate) plan: Plan,
    pub(crate) spec: FlowSpec,
    /// When the first data of its session arrived, by the workers' clock, ns; 0 before.
    pub(crate) start_ns: Arc<AtomicU64>,
    pub(crate) arrived: UnboundedSender<Arrived>,
}

/// The first data of a flow.
pub(crate) enum Arrived {
    Datagrams(u32, Arc<End>),
    /// The connection of a stream, and the beginning of its data, which is still to be read.
    Stream(u32, TcpStream, Vec<u8>),
    Failed(u32, String),
}

/// A read datagram, and when it arrived.
pub(crate) type Read = (Vec<u8>, Arrival);

impl Waiting {
    /// Whether data that begins with these bytes is this flow's. `is_exact`: it says so itself.
    fn is(&self, client: IpAddr, data: &[u8], is_exact: bool) -> bool {
        self.client == client
            && self.number.is_some() == is_exact
            && (!is_exact || (self.rules.number)(data) == self.number)
    }
}

/// Takes the flow of some data out of those that wait.
fn take(waiting: &mut Vec<(u64, Waiting)>, client: IpAddr, data: &[u8]) -> Option<Waiting> {
    let at = |is_exact| waiting.iter().position(|(_, w)| w.is(client, data, is_exact));
    let index = at(true).or_else(|| at(false))?;
    Some(waiting.remove(index).1)
}

/// The intervals of a session whose first data arrived at `at_ns`, or before.
pub(crate) fn intervals(start_ns: &AtomicU64, at_ns: u64, interval_ns: u64) -> IntervalClock {
    let first = start_ns.compare_exchange(0, at_ns, Ordering::AcqRel, Ordering::Acquire);
    IntervalClock { start_ns: first.err().unwrap_or(at_ns), interval_ns, omit_ns: 0 }
}

/// A source of datagrams whose flow has begun: its number, whether it is an echo, how it takes datagrams, and its end; a
/// finished one no longer upgrades.
type Known = (u32, bool, fn(&End, u32, bool, &Read), Weak<End>);

/// The flows of a port.
#[derive(Default)]
struct Flows {
    waiting: Vec<(u64, Waiting)>,
    known: HashMap<SocketAddr, Known>,
    /// How many need the port.
    users: usize,
}

impl Flows {
    /// What identifies the streams of the flows that a host has announced; `None`: it has announced none.
    fn identity_bytes(&self, client: IpAddr) -> Option<[usize; 2]> {
        let own = self.waiting.iter().filter(|(_, waiting)| waiting.client == client);
        own.map(|(_, waiting)| waiting.rules.identity_bytes).max()
    }
}

enum Socket {
    Datagrams(UdpSocket),
    /// The task that accepts connections.
    Streams(tokio::task::AbortHandle),
}

/// An open port.
struct Port {
    at: SocketAddr,
    token: u64,
    socket: Socket,
    flows: Mutex<Flows>,
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Socket::Streams(task) = &self.socket {
            task.abort();
        }
    }
}

/// The open ports of a server.
pub(crate) struct Ports {
    poller: Poller,
    open: Mutex<HashMap<(SocketAddr, bool), Arc<Port>>>,
    next: AtomicU64,
    is_ending: AtomicBool,
    workers: Workers,
    load: Arc<Load>,
    half_open: u64,
    patience: Duration,
}

/// A flow's part in a port, which is given back when it is dropped.
pub(crate) struct Lease {
    ports: Arc<Ports>,
    port: Arc<Port>,
    client: IpAddr,
    id: u64,
}

impl Lease {
    pub(crate) fn port(&self) -> u16 {
        self.port.at.port()
    }

    /// The host that announced the flow.
    pub(crate) fn client(&self) -> IpAddr {
        self.client
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let is_datagrams = matches!(self.port.socket, Socket::Datagrams(_));
        let mut open = lock(&self.ports.open);
        let mut flows = lock(&self.port.flows);
        flows.waiting.retain(|(id, _)| *id != self.id);
        flows.known.retain(|_, (.., end)| end.strong_count() > 0);
        flows.users -= 1;
        if flows.users == 0 {
            open.remove(&(self.port.at, is_datagrams));
            if let Socket::Datagrams(socket) = &self.port.socket {
                let _ = self.ports.poller.remove(socket);
            }
        }
    }
}

/// The thread that receives the first datagrams of flows; it ends when this is dropped.
pub(crate) struct Front {
    ports: Arc<Ports>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Front {
    fn drop(&mut self) {
        self.ports.is_ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Ports {
    /// Starts the thread. `half_open`: most data connections that have not said which flow they are, each of which has
    /// `patience` for that.
    ///
    /// # Errors
    /// [`TrafficError::System`].
    pub(crate) fn start(
        workers: Workers,
        load: Arc<Load>,
        half_open: u64,
        patience: Duration,
    ) -> Result<(Arc<Ports>, Front), TrafficError> {
        let failed =
            |source| TrafficError::System { operation: "receiving datagrams".into(), source };
        let ports = Arc::new(Ports {
            poller: Poller::new().map_err(failed)?,
            open: Mutex::default(),
            next: AtomicU64::new(1),
            is_ending: AtomicBool::new(false),
            workers,
            load,
            half_open,
            patience,
        });
        let run = ports.clone();
        let thread = std::thread::Builder::new().name("weir-datagrams".into());
        let thread = thread.spawn(move || run.receive()).map_err(failed)?;
        Ok((ports.clone(), Front { ports, thread: Some(thread) }))
    }

    /// Opens the port `at` for a flow, or adds the flow to it. With port 0 the system chooses.
    ///
    /// # Errors
    /// Those of the system: the port is in use, or no address of this host.
    pub(crate) fn open(
        self: &Arc<Self>,
        at: SocketAddr,
        waiting: Waiting,
    ) -> Result<Lease, TrafficError> {
        let is_datagrams = waiting.spec.connection.transport.datagrams();
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut open = lock(&self.open);
        let known = open.get(&(at, is_datagrams)).cloned();
        let port = match known {
            Some(port) => port,
            None => {
                let port = self.bind(at, &waiting, is_datagrams)?;
                open.insert((port.at, is_datagrams), port.clone());
                port
            }
        };
        let mut flows = lock(&port.flows);
        let client = waiting.client;
        flows.users += 1;
        flows.waiting.push((id, waiting));
        drop(flows);
        Ok(Lease { ports: self.clone(), port, client, id })
    }

    fn bind(
        self: &Arc<Self>,
        at: SocketAddr,
        waiting: &Waiting,
        is_datagrams: bool,
    ) -> Result<Arc<Port>, TrafficError> {
        let listening = |reason: std::io::Error| TrafficError::Listen {
            address: at.into(),
            reason: reason.to_string(),
        };
        let flows = Mutex::default();
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        if is_datagrams {
            if at.port() > 0 {
                // Sockets of this program share a port: those of another server here would get none of its datagrams.
                std::net::UdpSocket::bind(at).map_err(listening)?;
            }
            let (plan, spec) = (&waiting.plan, &waiting.spec);
            let socket = session::open_datagrams(plan, spec, false, Some(at), None)?;
            let at = socket.local_addr().map_err(listening)?;
            self.poller.add(&socket, token, Interest::READ).map_err(listening)?;
            return Ok(Arc::new(Port { at, token, socket: Socket::Datagrams(socket), flows }));
        }
        let listener = session::listen_flow(&waiting.spec, serving::sends(&waiting.spec), at)?;
        let at = listener.local_addr().map_err(listening)?;
        let listener = tokio::net::TcpListener::from_std(listener.into()).map_err(listening)?;
        Ok(Arc::new_cyclic(|port| {
            let accepting = self.clone().accept(listener, port.clone());
            let task = tokio::spawn(accepting).abort_handle();
            Port { at, token, socket: Socket::Streams(task), flows }
        }))
    }

    /// Accepts the connections of a port.
    async fn accept(self: Arc<Self>, listener: tokio::net::TcpListener, port: Weak<Port>) {
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    let Some(port) = port.upgrade() else { return };
                    let client = from.ip().to_canonical();
                    let known = lock(&port.flows).identity_bytes(client);
                    match known {
                        None => {}
                        Some([0, _]) => self.assign(stream, client, &port, &[]),
                        Some(wanted) => {
                            let port = Arc::downgrade(&port);
                            tokio::spawn(self.clone().identify(stream, client, port, wanted));
                        }
                    }
                }
                // Out of descriptors, or a connection that is gone already.
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Finds the flow of a connection by the beginning of its data.
    async fn identify(
        self: Arc<Self>,
        stream: tokio::net::TcpStream,
        client: IpAddr,
        port: Weak<Port>,
        [least, more]: [usize; 2],
    ) {
        let Some(_share) = Share::take(&self.load, |l| &l.half_open, 1, self.half_open) else {
            return;
        };
        let mut begun = [0; MAX_IDENTITY];
        let begun = &mut begun[..(least + more).min(MAX_IDENTITY)];
        let reading = async {
            loop {
                match stream.peek(begun).await {
                    Ok(0) | Err(_) => return 0,
                    Ok(read) if read >= least => return read,
                    Ok(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        };
        // A stream without data is one of no bytes.
        let read = tokio::time::timeout(self.patience, reading).await.unwrap_or(0);
        let Some(port) = port.upgrade() else { return };
        self.assign(stream, client, &port, &begun[..read]);
    }

    /// Gives a connection to its flow; without one it is closed.
    fn assign(&self, stream: tokio::net::TcpStream, client: IpAddr, port: &Port, begun: &[u8]) {
        let waiting = take(&mut lock(&port.flows).waiting, client, begun);
        if let Some(waiting) = waiting
            && let Ok(stream) = stream.into_std()
        {
            let stream = Arrived::Stream(waiting.spec.id, stream.into(), begun.to_vec());
            let _ = waiting.arrived.send(stream);
        }
    }

    /// Receives datagrams until the server ends.
    fn receive(&self) {
        let mut events = Events::new(64);
        let mut batch = RecvBatch::new(MESSAGES, 1 << 16);
        while !self.is_ending.load(Ordering::Acquire) {
            let _ = self.poller.wait(&mut events, Some(LOOK_NS));
            for event in events.iter() {
                let port = lock(&self.open).values().find(|p| p.token == event.token).cloned();
                if let Some(port) = port
                    && let Socket::Datagrams(socket) = &port.socket
                {
                    self.serve(&port, socket, &mut batch);
                }
            }
        }
    }

    /// Handles the datagrams on the socket of a port.
    fn serve(&self, port: &Port, socket: &UdpSocket, batch: &mut RecvBatch) {
        let mut queue = VecDeque::new();
        for _ in 0..TURN {
            let is_empty = self.read(socket, batch, &mut queue);
            while let Some((from, read)) = queue.pop_front() {
                let known = lock(&port.flows).known.get(&from).cloned();
                let upgraded = known.and_then(|(id, echoes, deliver, end)| {
                    Some((id, echoes, deliver, end.upgrade()?))
                });
                match upgraded {
                    Some((id, echoes, deliver, end)) => deliver(&end, id, echoes, &read),
                    None => self.begin(port, socket, from, read, batch, &mut queue),
                }
            }
            if is_empty {
                break;
            }
        }
    }

    /// Reads datagrams once; returns whether there are no more.
    fn read(
        &self,
        socket: &UdpSocket,
        batch: &mut RecvBatch,
        queue: &mut VecDeque<(SocketAddr, Read)>,
    ) -> bool {
        // Reading a pending ICMP error clears it.
        let Ok(got) = batch.recv(socket, RecvMode::DontWait) else { return true };
        let mut seen = vec![];
        for message in batch.messages() {
            let is_first = !seen.contains(&message.from);
            if is_first {
                seen.push(message.from);
            }
            let arrival = self.workers.arrival(message.kernel_realtime_ns, is_first);
            if queue.len() < MAX_WAITING {
                queue.push_back((message.from, (message.data.to_vec(), arrival)));
            }
        }
        got < batch.capacity()
    }

    /// Begins the flow of a datagram from a source without one. A datagram of no flow is dropped.
    fn begin(
        &self,
        port: &Port,
        socket: &UdpSocket,
        from: SocketAddr,
        first: Read,
        batch: &mut RecvBatch,
        queue: &mut VecDeque<(SocketAddr, Read)>,
    ) {
        let client = from.ip().to_canonical();
        let waiting = {
            let mut flows = lock(&port.flows);
            let begins = |waiting: &Waiting| (waiting.rules.begins)(&first.0);
            let waits = flows.waiting.iter().any(|(_, w)| w.client == client && begins(w));
            waits.then(|| take(&mut flows.waiting, client, &first.0)).flatten()
        };
        let Some(waiting) = waiting else { return };
        let Waiting { plan, spec, start_ns, arrived, rules, signals, interval_ns, .. } = waiting;
        let own = match session::open_datagrams(&plan, &spec, false, Some(port.at), Some(from)) {
            Ok(own) => own,
            Err(error) => {
                let _ = arrived.send(Arrived::Failed(spec.id, error.to_string()));
                return;
            }
        };
        // From now on the source's datagrams arrive on its own socket, on which those of any source may have arrived before.
        for socket in [socket, &own] {
            for _ in 0..DRAINS {
                if self.read(socket, batch, queue) {
                    break;
                }
            }
        }
        let mut early = vec![first];
        for (source, read) in std::mem::take(queue) {
            match source == from {
                true => early.push(read),
                false => queue.push_back((source, read)),
            }
        }
        early.sort_by_key(|(_, arrival)| arrival.at_ns);
        let echoes = spec.connection.echo.is_some();
        let mut end = End::new(&self.workers, &sessions::counted(&plan), true);
        if spec.id == FIRST {
            end = end.with_host(client, None);
        }
        end.datagrams(&spec, false, own, signals);
        end.start(intervals(&start_ns, (rules.start_ns)(&early[0]), interval_ns));
        for read in &early {
            (rules.deliver)(&end, spec.id, echoes, read);
        }
        let end = Arc::new(end);
        let known = (spec.id, echoes, rules.deliver, Arc::downgrade(&end));
        lock(&port.flows).known.insert(from, known);
        let _ = arrived.send(Arrived::Datagrams(spec.id, end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        identity_bytes: [4, 0],
        number: |data| data.first_chunk().map(|number| u32::from_be_bytes(*number)),
        begins: |_| true,
        start_ns: |(_, arrival)| arrival.at_ns,
        deliver: |_, _, _, _| {},
    };

    fn waiting(client: &str, number: Option<u32>) -> Waiting {
        let text = "schema = \"weir.plan/1\"\n[[connection]]\ntransport = \"udp\"";
        let plan = Plan::parse(text).unwrap();
        let spec = plan.flows(weir_model::plan::Family::Ipv4, 1500).swap_remove(0);
        let (arrived, _) = tokio::sync::mpsc::unbounded_channel();
        let client = client.parse().unwrap();
        Waiting {
            client,
            number,
            rules: RULES,
            signals: None,
            interval_ns: 1,
            plan,
            spec,
            start_ns: Arc::default(),
            arrived,
        }
    }

    #[test]
    fn data_is_of_the_flow_that_its_host_announced_with_its_number() {
        let mut all: Vec<(u64, Waiting)> = [
            waiting("192.0.2.1", None),
            waiting("192.0.2.2", Some(2)),
            waiting("192.0.2.1", Some(2)),
        ]
        .into_iter()
        .map(|waiting| (0, waiting))
        .collect();
        let of = |number: u32| [number.to_be_bytes(), [0; 4]].concat();
        let mut took = |client: &str, data: &[u8]| {
            let waiting = take(&mut all, client.parse().unwrap(), data)?;
            Some((waiting.client.to_string(), waiting.number))
        };
        assert_eq!(took("192.0.2.3", &of(1)), None);
        assert_eq!(took("192.0.2.2", &of(1)), None);
        assert_eq!(took("192.0.2.1", &of(2)), Some(("192.0.2.1".into(), Some(2))));
        // What carries no number may be any data.
        assert_eq!(took("192.0.2.1", &of(2)), Some(("192.0.2.1".into(), None)));
        assert_eq!(took("192.0.2.1", &of(2)), None);
        assert_eq!(took("192.0.2.2", &of(2)), Some(("192.0.2.2".into(), Some(2))));
    }

    #[test]
    fn the_intervals_of_a_session_begin_with_its_first_data() {
        let start = AtomicU64::new(0);
        assert_eq!(intervals(&start, 70, 1).start_ns, 70);
        assert_eq!(intervals(&start, 90, 1).start_ns, 70);
    }
}
