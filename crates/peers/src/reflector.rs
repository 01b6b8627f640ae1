//! Datagram sockets that answer each request with at most one reply to its source, without sessions.
//!
//! The source of a request is not verified, so a reply is never longer than its request, each address gets a limited number
//! ([`AddressLimits`]), and requests from ports of services are ignored: another reflector there would answer without end.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use weir_net::clock::Clock;
use weir_net::poll::{Events, Interest, Poller};
use weir_net::udp::{RecvBatch, RecvMessage, RecvMode, SendBatch, SendMode, UdpOptions, UdpSocket};
use weir_traffic::{ServerEvent, TrafficError};

use crate::limit::AddressLimits;

/// Requests from lower ports are ignored.
pub(crate) const FIRST_CLIENT_PORT: u16 = 1024;
/// Messages per system call.
const MESSAGES: usize = 32;
/// Receive calls on one socket before the other sockets are served.
const TURN: usize = 8;
/// How often the thread checks whether it must stop, ns.
const LOOK_NS: u64 = 100_000_000;
/// Buffer of each socket in each direction, bytes.
const BUFFER_BYTES: usize = 4 << 20;

/// Makes replies.
pub(crate) trait Reflect: Send + 'static {
    /// Writes the reply to `request` into `reply`, which is empty; returns whether there is one. A reply that is longer than
    /// the request is not sent.
    fn reply(&mut self, request: &RecvMessage<'_>, reply: &mut Vec<u8>) -> bool;
}

/// Counts of a reflector.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: AtomicU64,
    pub(crate) replies: AtomicU64,
    pub(crate) limited: AtomicU64,
    pub(crate) unsent: AtomicU64,
}

impl Counts {
    /// The event with the totals so far.
    pub(crate) fn event(&self) -> ServerEvent {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ServerEvent::Reflected {
            requests: of(&self.requests),
            replies: of(&self.replies),
            limited: of(&self.limited),
            unsent: of(&self.unsent),
        }
    }
}

/// A bound socket and its address.
type Bound = (UdpSocket, SocketAddr);

/// Opens sockets on `port` of the addresses `bind`; empty: all IPv4 and IPv6 addresses. With port 0 the system chooses one
/// port for all.
///
/// # Errors
/// [`TrafficError::Listen`].
pub(crate) fn listen(bind: &[IpAddr], port: u16) -> Result<Vec<Bound>, TrafficError> {
    let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let addresses = if bind.is_empty() { &any } else { bind };
    let mut sockets: Vec<Bound> = vec![];
    for ip in addresses {
        let port = sockets.first().map_or(port, |(_, bound)| bound.port());
        let options = UdpOptions {
            v6_only: ip.is_ipv6(),
            nonblocking: true,
            timestamps: true,
            receive_tos_ttl: true,
            receive_buffer: Some(BUFFER_BYTES),
            send_buffer: Some(BUFFER_BYTES),
            ..UdpOptions::bind(SocketAddr::new(*ip, port))
        };
        let opened = UdpSocket::open(&options).map_err(|error| error.to_string());
        let bound = opened.and_then(|socket| {
            let local = socket.local_addr().map_err(|error| error.to_string())?;
            Ok((socket, local))
        });
        match bound {
            Ok(bound) => sockets.push(bound),
            // A host without IPv6 is served over IPv4.
            Err(_) if bind.is_empty() && ip.is_ipv6() => {}
            Err(reason) => {
                let address = SocketAddr::new(*ip, port).into();
                return Err(TrafficError::Listen { address, reason });
            }
        }
    }
    Ok(sockets)
}

/// A running reflector, which ends when it is dropped.
pub(crate) struct Reflector {
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reflector {
    /// Starts the thread that answers the requests on `sockets` and counts them.
    ///
    /// # Errors
    /// [`TrafficError::System`].
    pub(crate) fn start(
        sockets: Vec<Bound>,
        clock: Clock,
        reflect: impl Reflect,
        counts: Arc<Counts>,
    ) -> Result<Reflector, TrafficError> {
        let failed =
            |source| TrafficError::System { operation: "receiving datagrams".into(), source };
        let poller = Poller::new().map_err(failed)?;
        for (token, (socket, _)) in (0..).zip(&sockets) {
            poller.add(socket, token, Interest::READ).map_err(failed)?;
        }
        let is_ending = Arc::new(AtomicBool::new(false));
        let mut thread = Thread {
            clock,
            reflect,
            limits: AddressLimits::new(),
            counts,
            received: RecvBatch::new(MESSAGES, 1 << 16),
            sending: SendBatch::new(MESSAGES),
            replies: vec![Vec::new(); MESSAGES],
        };
        let ending = is_ending.clone();
        let run = move || {
            let mut events = Events::new(16);
            while !ending.load(Ordering::Acquire) {
                let _ = poller.wait(&mut events, Some(LOOK_NS));
                for event in events.iter() {
                    thread.serve(&sockets[event.token as usize]);
                }
            }
        };
        let thread = std::thread::Builder::new().name("weir-reflector".into()).spawn(run);
        Ok(Reflector { is_ending, thread: Some(thread.map_err(failed)?) })
    }
}

impl Drop for Reflector {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Thread<R> {
    clock: Clock,
    reflect: R,
    limits: AddressLimits,
    counts: Arc<Counts>,
    received: RecvBatch,
    sending: SendBatch,
    /// Replies of a batch; their memory is used again.
    replies: Vec<Vec<u8>>,
}

impl<R: Reflect> Thread<R> {
    /// Answers the requests that wait at a socket.
    fn serve(&mut self, (socket, local): &Bound) {
        for _ in 0..TURN {
            // Reading a pending ICMP error clears it.
            let Ok(got) = self.received.recv(socket, RecvMode::DontWait) else { return };
            self.answer(socket, local.port());
            if got < self.received.capacity() {
                return;
            }
        }
    }

    /// Answers the requests of a batch that arrived at the port `own`.
    fn answer(&mut self, socket: &UdpSocket, own: u16) {
        let now_ns = self.clock.monotonic_ns();
        let mut targets = [None; MESSAGES];
        for ((request, reply), target) in
            self.received.messages().zip(&mut self.replies).zip(&mut targets)
        {
            self.counts.requests.fetch_add(1, Ordering::Relaxed);
            let port = request.from.port();
            if port < FIRST_CLIENT_PORT || port == own || request.truncated {
                continue;
            }
            reply.clear();
            if !self.reflect.reply(&request, reply) || reply.len() > request.data.len() {
                continue;
            }
            if !self.limits.permits(request.from.ip(), now_ns) {
                self.counts.limited.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            *target = Some(request.from);
        }
        let replies: Vec<(&[u8], SocketAddr)> = self
            .replies
            .iter()
            .zip(targets)
            .filter_map(|(reply, target)| Some((reply.as_slice(), target?)))
            .collect();
        let sent = send(socket, &mut self.sending, &replies);
        self.counts.replies.fetch_add(sent, Ordering::Relaxed);
        self.counts.unsent.fetch_add(replies.len() as u64 - sent, Ordering::Relaxed);
    }
}

/// Sends datagrams without waiting; returns how many the system accepted. One that it refuses, such as one to an address
/// without a route, does not affect the others.
fn send(socket: &UdpSocket, batch: &mut SendBatch, datagrams: &[(&[u8], SocketAddr)]) -> u64 {
    let (mut next, mut accepted) = (0, 0);
    while next < datagrams.len() {
        let mut filling = batch.fill();
        for (bytes, to) in &datagrams[next..] {
            // It has room for all of them.
            let _ = filling.push(bytes, None, Some(*to));
        }
        match filling.send(socket, SendMode::DontWait) {
            Ok(sent) if sent.messages > 0 => {
                next += sent.messages;
                accepted += sent.messages as u64;
            }
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => next += 1,
            _ => break,
        }
    }
    accepted
}
