//! A port, what it is used for, and who gets its datagrams.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use weir_net::poll::{Events, Interest, Poller};
use weir_net::tcp::TcpListener;
use weir_net::thread::lock;
use weir_net::udp::UdpSocket;
use weir_traffic::TrafficError;
use weir_traffic::session::{Load, Workers};

use super::flows::Flows;
use super::inlet::{Inlet, Queue, Read};
use super::whose::{Claim, Whose, whose};
use super::{Receiver, not_at, streams};

/// How often the thread of datagrams checks whether it must stop.
const LOOK_NS: u64 = 100_000_000;
/// Receive calls on one socket before the other sockets are served.
const TURN: usize = 8;
/// What arrives at a port.
pub(super) enum Socket {
    Datagrams(UdpSocket, Workers),
    Streams,
}

/// An open port.
pub(super) struct Port {
    pub(super) at: SocketAddr,
    pub(super) token: u64,
    pub(super) socket: Socket,
    pub(super) state: Mutex<State>,
}

/// What a port is used for.
#[derive(Default)]
pub(super) struct State {
    pub(super) flows: Flows,
    pub(super) receivers: Vec<(u64, Arc<Receiver>)>,
    /// How many need the port.
    pub(super) users: usize,
    /// Those of them that do not receive yet. Until then nothing is read: it may be theirs.
    pub(super) starting: usize,
    pub(super) is_open: bool,
    /// The listener, until it is open.
    pub(super) listener: Option<TcpListener>,
    pub(super) accepting: Option<streams::Accepting>,
    /// Connections of no known server.
    pub(super) undecided: Arc<Load>,
}

impl Port {
    pub(super) fn is_datagrams(&self) -> bool {
        matches!(self.socket, Socket::Datagrams(..))
    }
}

/// The open ports, and what the threads know.
pub(super) struct Shared {
    pub(super) poller: Poller,
    pub(super) open: Mutex<HashMap<(SocketAddr, bool), Arc<Port>>>,
    pub(super) next: AtomicU64,
    pub(super) is_ending: AtomicBool,
    /// Where connections are accepted.
    pub(super) tasks: tokio::runtime::Handle,
}

impl State {
    /// A server will receive here.
    pub(super) fn await_receiver(&mut self, _: u64) {
        self.starting += 1;
    }
}

impl Shared {
    /// Begins to read a port, unless a server that has it has not started yet.
    pub(super) fn open(
        self: &Arc<Self>,
        port: &Arc<Port>,
        state: &mut State,
    ) -> Result<(), TrafficError> {
        if state.is_open || state.starting > 0 {
            return Ok(());
        }
        match &port.socket {
            Socket::Datagrams(socket, _) => {
                self.poller.add(socket, port.token, Interest::READ).map_err(not_at(port.at))?;
            }
            Socket::Streams => {
                let Some(listener) = state.listener.take() else { return Ok(()) };
                let accepting = streams::accept(&self.tasks, listener, port);
                state.accepting = Some(accepting.map_err(not_at(port.at))?);
            }
        }
        state.is_open = true;
        Ok(())
    }

    /// Receives datagrams until the registry is dropped.
    pub(super) fn receive(&self) {
        let mut events = Events::new(64);
        let mut queue = Queue::new();
        while !self.is_ending.load(Ordering::Acquire) {
            let _ = self.poller.wait(&mut events, Some(LOOK_NS));
            for event in events.iter() {
                let port = lock(&self.open).values().find(|p| p.token == event.token).cloned();
                if let Some(port) = port
                    && let Socket::Datagrams(socket, workers) = &port.socket
                {
                    let mut inlet = Inlet { at: port.at, socket, workers, queue: &mut queue };
                    port.read(&mut inlet);
                }
            }
        }
    }
}

impl Port {
    /// Handles the datagrams on the socket of the port.
    fn read(&self, inlet: &mut Inlet<'_>) {
        for _ in 0..TURN {
            let is_empty = inlet.read();
            while let Some((from, read)) = inlet.queue.next() {
                self.take(inlet, from, read);
            }
            if is_empty {
                break;
            }
        }
    }

    /// Gives a datagram to its session, or to the server that it is for.
    fn take(&self, inlet: &mut Inlet<'_>, from: SocketAddr, read: Read) {
        let client = from.ip().to_canonical();
        let mut state = lock(&self.state);
        if state.flows.deliver(from, &read) {
            return;
        }
        let receivers = state.receivers.clone();
        let has = |receiver: &Receiver| lock(&receiver.datagrams).has(from, read.1.at_ns);
        let owner = receivers.iter().position(|(_, receiver)| has(receiver));
        let claims: Vec<Option<Claim>> = receivers
            .iter()
            .map(|(_, receiver)| receiver.claims.map(|[_, datagram]| datagram))
            .collect();
        let whose = match owner {
            Some(index) => Whose::Server(index),
            None => whose(state.flows.awaits(client, &read.0), &claims, &read.0, true),
        };
        match whose {
            Whose::Announced => {
                let announced = state.flows.take(client, &read.0);
                drop(state);
                let begun = announced.and_then(|announced| announced.begin(inlet, from, read));
                if let Some(begun) = begun {
                    lock(&self.state).flows.begun(from, &begun);
                    begun.report();
                }
            }
            Whose::Server(index) if owner.is_some() || !state.flows.is_late(from, &read) => {
                drop(state);
                lock(&receivers[index].1.datagrams).take(inlet, from, read);
            }
            _ => {}
        }
    }
}
