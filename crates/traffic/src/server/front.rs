//! The thread at the UDP port: it receives hellos, opens a connected socket on the same port for each flow with a
//! valid tag, and answers clock probes. Data never passes here.
//!
//! A connected socket for each flow, instead of one socket demultiplexed by address in user space, keeps each flow's
//! overflow count exact and gives it its own buffer. ARCHITECTURE.md says when flows get their own ports instead.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;

use tokio::sync::mpsc;
use weir_net::clock::Clock;
use weir_net::poll::{Events, Interest, Poller, Waker};
use weir_net::udp::{RecvBatch, RecvMode, UdpOptions, UdpSocket};
use weir_stats::{ClockReading, RealtimeMap};
use weir_wire::datagram::{ControlDatagram, DatagramKind, LEN, claimed_session};

use super::Stranger;
use super::session::Session;
use crate::TrafficError;
use crate::engine::{Engine, lock};
use crate::transport::{AwaitedFrames, DatagramSocket};

const INBOX: u64 = 0;
/// Maximum number of datagrams drained from a new socket: its peer may already be flooding it.
const MAX_STRAYS: usize = 1024;
/// Sessions by number.
pub(crate) type Registry = Arc<Mutex<HashMap<u64, Weak<Session>>>>;

enum Command {
    /// A dedicated socket of a flow, on which its hello arrives.
    Dedicated { session: Weak<Session>, flow: u32, socket: UdpSocket },
    /// The socket of a flow of frames, on which its hello arrives.
    Frames(Awaited),
}

/// A flow of frames that waits for its hello.
struct Awaited {
    session: Weak<Session>,
    flow: u32,
    socket: AwaitedFrames,
}

enum Role {
    /// The shared port.
    Shared { port: u16 },
    /// A flow's own port, waiting for its hello.
    Dedicated { session: Weak<Session>, flow: u32 },
    /// A session's probes.
    Probes { session: Weak<Session> },
}

/// The running front.
pub(crate) struct Front {
    commands: Option<Sender<Command>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Front {
    /// Opens the UDP port on `addresses` and starts the thread.
    pub(crate) fn start(
        addresses: &[SocketAddr],
        registry: Registry,
        engine: Arc<Engine>,
        strangers: Option<mpsc::Sender<Stranger>>,
    ) -> Result<Front, TrafficError> {
        let failed = |e| TrafficError::system("starting the UDP front", e);
        let poller = Poller::new().map_err(failed)?;
        let waker = Waker::new(&poller, INBOX).map_err(failed)?;
        let mut sockets = HashMap::new();
        let mut next = 1;
        for address in addresses {
            let options = UdpOptions {
                reuse_port: true,
                v6_only: address.is_ipv6(),
                nonblocking: true,
                receive_buffer: Some(4 << 20),
                timestamps: true,
                ..UdpOptions::bind(*address)
            };
            let socket = UdpSocket::open(&options).map_err(|e| TrafficError::Listen {
                address: (*address).into(),
                reason: super::why_not(&e),
            })?;
            poller.add(&socket, next, Interest::READ).map_err(failed)?;
            sockets.insert(next, (socket, Role::Shared { port: address.port() }));
            next += 1;
        }
        let (commands, receiver) = channel();
        let inbox = (poller, waker.clone(), receiver);
        let thread = std::thread::Builder::new()
            .name("weir-front".into())
            .spawn(move || {
                Loop {
                    registry,
                    engine,
                    strangers,
                    sockets,
                    frames: HashMap::new(),
                    next,
                    stamps: None,
                    refit_ns: 0,
                    clean_ns: 0,
                }
                .run(inbox.0, inbox.1, inbox.2)
            })
            .map_err(failed)?;
        Ok(Front { commands: Some(commands), waker, thread: Some(thread) })
    }

    /// Adds a flow of `session` that waits for its hello on its own port.
    pub(crate) fn await_dedicated(&self, session: &Arc<Session>, flow: u32, socket: UdpSocket) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(Command::Dedicated {
                session: Arc::downgrade(session),
                flow,
                socket,
            });
            self.waker.wake();
        }
    }

    /// Adds a flow of `session` that waits for its hello in a frame.
    pub(crate) fn await_frames(&self, session: &Arc<Session>, flow: u32, socket: AwaitedFrames) {
        if let Some(commands) = &self.commands {
            let session = Arc::downgrade(session);
            let _ = commands.send(Command::Frames(Awaited { session, flow, socket }));
            self.waker.wake();
        }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.commands = None;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Loop {
    registry: Registry,
    engine: Arc<Engine>,
    /// Takes short datagrams of the shared port.
    strangers: Option<mpsc::Sender<Stranger>>,
    sockets: HashMap<u64, (UdpSocket, Role)>,
    frames: HashMap<u64, Awaited>,
    next: u64,
    stamps: Option<RealtimeMap>,
    refit_ns: u64,
    clean_ns: u64,
}

impl Loop {
    fn run(mut self, poller: Poller, waker: Waker, commands: Receiver<Command>) {
        let mut events = Events::new(64);
        let mut batch = RecvBatch::new(32, 2048);
        loop {
            // Wakes regularly to drop the sockets of sessions that have ended.
            let _ = poller.wait(&mut events, Some(1_000_000_000));
            self.refit();
            loop {
                match commands.try_recv() {
                    Ok(Command::Dedicated { session, flow, socket }) => {
                        self.add(&poller, socket, Role::Dedicated { session, flow });
                    }
                    Ok(Command::Frames(awaited)) => {
                        if poller.add(&awaited.socket, self.next, Interest::READ).is_ok() {
                            self.frames.insert(self.next, awaited);
                            self.next += 1;
                        }
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            let mut hellos = VecDeque::new();
            for event in events.iter() {
                if event.token == INBOX {
                    waker.clear();
                    continue;
                }
                if self.frames.contains_key(&event.token) {
                    self.read_frames(&poller, event.token);
                    continue;
                }
                self.read(event.token, &mut batch, &mut hellos);
            }
            while let Some((token, bytes, from)) = hellos.pop_front() {
                self.hello(&poller, token, &bytes, from, &mut hellos);
            }
            // By time and not when idle: a busy server is never idle.
            let now = self.engine.clock().monotonic_ns();
            if now >= self.clean_ns {
                self.clean_ns = now + 1_000_000_000;
                self.sockets.retain(|_, (_, role)| match role {
                    Role::Shared { .. } => true,
                    Role::Dedicated { session, .. } | Role::Probes { session } => {
                        session.strong_count() > 0
                    }
                });
                self.frames.retain(|_, awaited| awaited.session.strong_count() > 0);
            }
        }
    }

    fn add(&mut self, poller: &Poller, socket: UdpSocket, role: Role) {
        if poller.add(&socket, self.next, Interest::READ).is_ok() {
            self.sockets.insert(self.next, (socket, role));
            self.next += 1;
        }
    }

    fn refit(&mut self) {
        let clock = self.engine.clock();
        let now = clock.monotonic_ns();
        if now < self.refit_ns {
            return;
        }
        self.refit_ns = now + 1_000_000_000;
        let b = clock.bracket();
        let reading = ClockReading {
            monotonic_before_ns: b.before_ns,
            realtime_ns: b.realtime_ns,
            monotonic_after_ns: b.after_ns,
        };
        match &mut self.stamps {
            Some(map) => {
                let _ = map.refit(reading);
            }
            None => self.stamps = RealtimeMap::new(reading).ok(),
        }
    }

    /// Reads a socket: answers probes immediately and collects hellos.
    fn read(
        &mut self,
        token: u64,
        batch: &mut RecvBatch,
        hellos: &mut VecDeque<(u64, [u8; LEN], SocketAddr)>,
    ) {
        let Some((socket, role)) = self.sockets.get(&token) else { return };
        // Bounded, so that a flood on one socket can't starve the others.
        for _ in 0..8 {
            let got = match batch.recv(socket, RecvMode::DontWait) {
                Ok(got) => got,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => continue,
            };
            for message in batch.messages() {
                let Ok(bytes) = <[u8; LEN]>::try_from(message.data) else {
                    if let (Some(strangers), Role::Shared { .. }, Ok(bytes)) =
                        (&self.strangers, role, message.data.try_into())
                    {
                        let from = message.from;
                        let _ = strangers.try_send(Stranger::Datagram { from, bytes });
                    }
                    continue;
                };
                match role {
                    Role::Probes { session } => {
                        let Some(session) = session.upgrade() else { continue };
                        let Ok(d) = ControlDatagram::decode(&bytes, &session.datagram_key) else {
                            continue;
                        };
                        let clock = self.engine.clock();
                        answer(
                            socket,
                            &d,
                            &session,
                            clock,
                            message.kernel_realtime_ns,
                            self.stamps.as_ref(),
                        );
                    }
                    _ => hellos.push_back((token, bytes, message.from)),
                }
            }
            if got < batch.capacity() {
                return;
            }
        }
    }

    /// Reads the socket of a flow of frames until its hello. Only frames from the client's MAC address arrive there.
    fn read_frames(&mut self, poller: &Poller, token: u64) {
        for _ in 0..MAX_STRAYS {
            let Some(Awaited { session, flow, socket }) = self.frames.get(&token) else { return };
            let (Some(session), flow) = (session.upgrade(), *flow) else { return };
            let Ok(read) = socket.read() else { return };
            let Some((bytes, from)) = read else { continue };
            let Ok(hello) = ControlDatagram::decode(&bytes, &session.datagram_key) else {
                continue;
            };
            let is_hello = hello.kind == DatagramKind::Hello
                && (hello.session, hello.flow) == (session.facts.session, flow)
                && session.is_awaited(flow);
            if !is_hello {
                continue;
            }
            let Some(Awaited { socket, .. }) = self.frames.remove(&token) else { return };
            let _ = poller.remove(&socket);
            match socket.connect(from) {
                Ok(socket) => {
                    let ack = ControlDatagram { kind: DatagramKind::HelloAck, ..hello };
                    let _ = socket.send_control(&ack.encode(&session.datagram_key));
                    session.attach_frames(&self.engine, flow, socket);
                }
                Err(error) => session.fail(flow, format!("server: {error}")),
            }
            return;
        }
    }

    /// Handles a hello on the shared port or on a flow's own. A datagram without a valid tag gets no answer at all.
    fn hello(
        &mut self,
        poller: &Poller,
        token: u64,
        bytes: &[u8; LEN],
        from: SocketAddr,
        more: &mut VecDeque<(u64, [u8; LEN], SocketAddr)>,
    ) {
        let Some(session) = claimed_session(bytes)
            .and_then(|id| lock(&self.registry).get(&id).and_then(Weak::upgrade))
        else {
            return;
        };
        let Ok(hello) = ControlDatagram::decode(bytes, &session.datagram_key) else { return };
        if hello.kind != DatagramKind::Hello || !session.is_from_peer(from) {
            return;
        }
        let ack =
            ControlDatagram { kind: DatagramKind::HelloAck, ..hello }.encode(&session.datagram_key);
        match self.sockets.get(&token) {
            Some((_, Role::Dedicated { session: owner, flow }))
                if *flow == hello.flow && Weak::as_ptr(owner) == Arc::as_ptr(&session) =>
            {
                let Some((socket, _)) = self.sockets.remove(&token) else { return };
                let _ = poller.remove(&socket);
                if session.has_many_ports(hello.flow) && session.is_awaited(hello.flow) {
                    let _ = socket.send_to(&ack, from);
                    session.attach_transfers(&self.engine, hello.flow, Arc::new(socket));
                    return;
                }
                if socket.connect(from).is_ok() && session.is_awaited(hello.flow) {
                    // What others sent before is no data of the flow.
                    let mut stray = [0; 1];
                    if (0..=MAX_STRAYS).all(|_| socket.recv_from(&mut stray).is_ok()) {
                        let text = "server: others send to the port of the flow";
                        return session.fail(hello.flow, text.into());
                    }
                    let _ = socket.send(&ack);
                    session.attach_udp(&self.engine, hello.flow, socket);
                }
            }
            Some((_, Role::Shared { port })) => {
                let port = *port;
                let probes = hello.flow == 0;
                let wanted = match probes {
                    true => session.take_probe_socket(),
                    false => session.is_awaited_on_shared_port(hello.flow),
                };
                if !wanted {
                    return;
                }
                let socket = match session.connected_socket(hello.flow, port, from) {
                    Ok(socket) => socket,
                    Err(_) if probes => return,
                    Err(error) => return session.fail(hello.flow, format!("server: {error}")),
                };
                // Between bind and connect, hellos of others may have arrived on the new socket.
                let mut stray = [0; LEN + 1];
                for _ in 0..MAX_STRAYS {
                    let Ok((n, stranger)) = socket.recv_from(&mut stray) else { break };
                    if let (true, Some(bytes)) =
                        (n == LEN && stranger != from, stray.first_chunk::<LEN>())
                    {
                        more.push_back((token, *bytes, stranger));
                    }
                }
                let _ = socket.send(&ack);
                if probes {
                    self.add(poller, socket, Role::Probes { session: Arc::downgrade(&session) });
                } else {
                    session.attach_udp(&self.engine, hello.flow, socket);
                }
            }
            _ => {}
        }
    }
}

/// Answers a probe: with a reply as long as the request, and only to a holder of the session's key.
fn answer(
    socket: &UdpSocket,
    probe: &ControlDatagram,
    session: &Session,
    clock: &Clock,
    stamp: Option<u64>,
    map: Option<&RealtimeMap>,
) {
    let now = clock.monotonic_ns();
    let kind = match probe.kind {
        DatagramKind::Probe => DatagramKind::ProbeReply,
        // The acknowledgement of this hello was lost.
        DatagramKind::Hello => DatagramKind::HelloAck,
        _ => return,
    };
    let t2_ns = match (stamp, map) {
        (Some(stamp), Some(map)) => map.to_monotonic(clock.kernel_stamp_ns(stamp)).min(now),
        _ => now,
    };
    let reply = ControlDatagram { kind, t2_ns, t3_ns: clock.monotonic_ns(), ..*probe };
    let _ = socket.send(&reply.encode(&session.datagram_key));
}
