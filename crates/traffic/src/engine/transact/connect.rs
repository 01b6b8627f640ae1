//! The client's end where each transaction has a connection of its own.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex};

use weir_flow::{Failure, NextSend, StreamPool, Transacting};
use weir_model::plan::{FlowSpec, SourceAddresses};
use weir_net::poll::Interest;
use weir_net::tcp::{TcpOptions, TcpStream};
use weir_wire::preface::DATA_LEN;

use super::client::finish;
use super::transfer::Fetching;
use super::{
    Connection, Context, Dialling, Link, Outcome, RETRY_NS, Side, Slot, WRITE_BYTES, lock,
};
use crate::Address;
use crate::transport::{StreamSocket, StreamTransport};

/// How connections are made.
pub(crate) struct Dial {
    pub(crate) transport: &'static dyn StreamTransport,
    pub(crate) spec: FlowSpec,
    pub(crate) server: Address,
    pub(crate) options: TcpOptions,
    /// Addresses and ports from which connections are made in turn, if the plan states several.
    pub(crate) sources: Option<SourceAddresses>,
    pub(crate) ports: Option<(u16, u16)>,
    /// Turn of the next connection.
    pub(crate) turn: u64,
    /// Shows the server to which flow a connection belongs; absent where the port does.
    pub(crate) preface: Option<[u8; DATA_LEN]>,
}

/// Number of ports that are tried for a connection: others may be in use.
pub(super) const MAX_TRIES: u64 = 64;

impl Dial {
    /// Starts to connect from the next address and port. The addresses change first, so that connections in succession
    /// have different ones.
    fn connect(&mut self) -> weir_net::Result<TcpStream> {
        let addresses = u64::from(self.sources.map_or(1, SourceAddresses::count));
        let ports = self.ports.map_or(1, |(first, last)| u64::from(last.saturating_sub(first)) + 1);
        let mut tries = (addresses * ports).min(MAX_TRIES);
        loop {
            if let Some(bind) = &mut self.options.bind {
                if let Some(sources) = self.sources {
                    bind.set_ip(sources.in_turn(self.turn));
                }
                if let Some((first, _)) = self.ports {
                    bind.set_port(first + (self.turn / addresses % ports) as u16);
                }
                self.turn += 1;
            }
            let started = self.transport.start_connect(self.server, &self.options);
            tries -= 1;
            match &started {
                Err(e) if tries > 0 && reason(kind(e)) == Failure::NoPort => {}
                _ => return started,
            }
        }
    }
}

/// The connection of one transaction.
pub(super) struct Dialled {
    pub(super) socket: Arc<dyn StreamSocket>,
    number: u64,
    is_connected: bool,
    /// Bytes of preface and request that were written, and of the response that have arrived.
    sent: usize,
    have: usize,
    interest: Option<Interest>,
    /// What it carries, if that is a volume of its own.
    transfer: Option<Fetching>,
}

/// What a connection waits for, or how its transaction ended.
pub(super) enum Progress {
    Waits(Interest),
    Answered,
    Failed(Failure),
}

/// Opens connections that are due.
pub(super) fn serve(
    token: u64,
    slot: &mut Slot,
    is_readable: bool,
    context: &mut Context,
) -> Outcome {
    let Side::Client { state, .. } = &slot.flow.side else { return Outcome::Done };
    let state = state.clone();
    let idle = match &slot.flow.link {
        Link::Stream(idle) => Some(idle.clone()),
        Link::Datagrams { .. } | Link::Absent(_) => None,
    };
    if let Some(idle) = idle.as_ref().filter(|_| is_readable) {
        match idle.recv(&mut context.shared.buffer) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            _ => return Outcome::Failed("the server closed the flow".into()),
        }
    }
    for _ in 0..64 {
        let now = context.clock.monotonic_ns();
        match next(slot, &state, now, context) {
            NextSend::At(at) => return Outcome::Later(at),
            NextSend::Now(_) => {}
            NextSend::Done => {
                finish(slot, &mut lock(&state), now);
                return match idle.map_or(Ok(()), |idle| idle.half_close()) {
                    Ok(()) => Outcome::Done,
                    Err(e) => Outcome::Failed(format!("closing the flow: {e}")),
                };
            }
        }
        let Side::Client { dial: Some(Dialling::Streams(dial)), .. } = &mut slot.flow.side else {
            return Outcome::Done;
        };
        let number = lock(&state).sent(now);
        let transfer = slot.flow.transfers.zip(dial.preface.as_ref());
        let transfer = transfer
            .map(|(role, preface)| Fetching::new(role, lock(&state).volume(number), preface));
        match dial.connect() {
            Ok(stream) => {
                let socket = dial.transport.socket(&dial.spec, stream);
                let dialled = Dialled {
                    socket,
                    number,
                    is_connected: false,
                    sent: 0,
                    have: 0,
                    interest: None,
                    transfer,
                };
                let connection = context.shared.connection_token(token);
                slot.connections.insert(connection, Connection::Dialled(dialled));
                advance(slot, connection, context);
            }
            Err(e) => {
                lock(&state).failed(number, reason(kind(&e)));
                return Outcome::Later(now + RETRY_NS);
            }
        }
    }
    Outcome::TurnOver
}

/// What the flow does next. Closes the connections of transactions that have timed out, without leaving a port in TIME_WAIT.
pub(super) fn next(
    slot: &mut Slot,
    state: &Mutex<Transacting>,
    now: u64,
    context: &mut Context,
) -> NextSend {
    let (next, numbers) = {
        let mut state = lock(state);
        (state.next(now), state.take_timed_out())
    };
    if numbers.is_empty() {
        return next;
    }
    let numbers: HashSet<u64> = numbers.into_iter().collect();
    let is_over = |connection: &Connection| match connection {
        Connection::Dialled(dialled) => numbers.contains(&dialled.number),
        Connection::Sent(sent) => numbers.contains(&sent.number),
        Connection::Accepted(_) | Connection::Transfer(_) => false,
    };
    let over: Vec<u64> =
        slot.connections.iter().filter(|(_, c)| is_over(c)).map(|(token, _)| *token).collect();
    for token in over {
        close(slot, token, true, context);
    }
    next
}

pub(super) fn close(slot: &mut Slot, token: u64, reset: bool, context: &mut Context) {
    context.shared.owners.remove(&token);
    let Some(connection) = slot.connections.remove(&token) else { return };
    let is_waiting = match &connection {
        Connection::Dialled(dialled) => dialled.interest.is_some(),
        _ => true,
    };
    if is_waiting {
        let _ = context.inbox.poller.remove(connection.socket());
    }
    if let (true, Connection::Dialled(dialled)) = (reset, &connection) {
        dialled.socket.reset_on_close();
    }
}

/// Continues the transaction of a connection as far as its socket allows.
pub(super) fn advance(slot: &mut Slot, token: u64, context: &mut Context) {
    let pool = context.shared.pool(&slot.flow);
    let Some(Connection::Dialled(dialled)) = slot.connections.get_mut(&token) else { return };
    let Side::Client { state, dial: Some(Dialling::Streams(dial)) } = &slot.flow.side else {
        return;
    };
    let preface = dial.preface.map_or(0, |preface| preface.len());
    let was_connected = dialled.is_connected;
    let before = context.clock.monotonic_ns();
    let number = dialled.number;
    let mut progress = match &mut dialled.transfer {
        Some(transfer) => {
            let buffer = &mut context.shared.buffer;
            let clock = context.clock;
            transfer.advance(&*dialled.socket, &pool, buffer, |bytes| {
                lock(state).moved(number, bytes, clock.monotonic_ns());
            })
        }
        None => match dialled.write(&slot.opening, preface + slot.flow.request, &pool) {
            Progress::Answered => dialled.read(slot.flow.response, &mut context.shared.buffer),
            other => other,
        },
    };
    dialled.is_connected |= dialled.transfer.as_ref().is_some_and(Fetching::is_connected);
    let is_set_up = dialled.is_connected && !was_connected;
    let poller = &context.inbox.poller;
    if let Progress::Waits(wanted) = progress {
        let socket = &*dialled.socket;
        let waits = match dialled.interest {
            None => poller.add(socket, token, wanted),
            Some(now) if now != wanted => poller.modify(socket, token, wanted),
            Some(_) => Ok(()),
        };
        match waits {
            Ok(()) => dialled.interest = Some(wanted),
            Err(_) => progress = Progress::Failed(Failure::Error),
        }
    }
    let mut state = lock(state);
    if is_set_up {
        state.set_up(number, before);
    }
    let reset = match progress {
        Progress::Waits(_) => return,
        Progress::Answered => {
            state.answered(number, context.clock.monotonic_ns());
            false
        }
        Progress::Failed(why) => {
            state.failed(number, why);
            true
        }
    };
    drop(state);
    close(slot, token, reset, context);
}

impl Dialled {
    /// Writes preface and request, `all` bytes that begin with `opening`; `Answered` when they are written.
    fn write(&mut self, opening: &[u8], all: usize, pool: &StreamPool) -> Progress {
        while self.sent < all {
            let part = match opening.get(self.sent..) {
                Some(part) if !part.is_empty() => part,
                _ => pool.at(0, (all - self.sent).min(WRITE_BYTES)),
            };
            match self.socket.send(part) {
                Ok(sent) => {
                    self.is_connected = true;
                    self.sent += sent;
                }
                Err(e) if is_waiting(&e) => return Progress::Waits(Interest::WRITE),
                Err(e) => return Progress::Failed(reason(e.kind())),
            }
        }
        Progress::Answered
    }

    /// Reads the response until the server closes.
    fn read(&mut self, response: usize, buffer: &mut [u8]) -> Progress {
        loop {
            match self.socket.recv(buffer) {
                Ok(0) if self.have == response => return Progress::Answered,
                Ok(0) => return Progress::Failed(Failure::Closed),
                Ok(n) => {
                    self.have += n;
                    if self.have > response {
                        return Progress::Failed(Failure::Invalid);
                    }
                }
                Err(e) if is_waiting(&e) => return Progress::Waits(Interest::READ),
                Err(e) => return Progress::Failed(reason(e.kind())),
            }
        }
    }
}

pub(super) fn kind(e: &weir_net::Error) -> io::ErrorKind {
    e.raw_os_error().map_or(io::ErrorKind::Other, |code| io::Error::from_raw_os_error(code).kind())
}

pub(super) fn is_waiting(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
}

pub(super) fn reason(kind: io::ErrorKind) -> Failure {
    match kind {
        io::ErrorKind::ConnectionRefused => Failure::Refused,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Failure::Reset,
        io::ErrorKind::TimedOut => Failure::Timeout,
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => Failure::NoPort,
        _ => Failure::Error,
    }
}
