//! The client's end of transfers of datagrams: a socket for each, with a port of its own. When it sends what is
//! [`DatagramTransfer`]'s; what the server answers arrives on the same socket.

use std::cmp::Reverse;
use std::io;

use weir_flow::{
    Arrived, DatagramTransfer, Failure, NextSend, PayloadRing, Transacting, TransferStep,
};
use weir_model::plan::FlowSpec;
use weir_net::clock::Clock;
use weir_net::poll::Interest;
use weir_net::udp::{RecvMode, SendFault, UdpOptions, UdpSocket};
use weir_wire::datagram::{ControlDatagram, DatagramKey, DatagramKind, LEN};

use super::client::finish;
use super::connect::{MAX_TRIES, close, kind, next, reason};
use super::{Connection, Context, Dialling, Link, Outcome, RETRY_NS, Side, Slot, TURN, lock};

/// Messages of the server that are read before the transfer goes on.
const MAX_MESSAGES: usize = 16;

/// How the sockets of transfers are opened, and what is said on them.
pub(crate) struct Ports {
    /// The flow of their datagrams.
    pub(crate) spec: FlowSpec,
    pub(crate) options: UdpOptions,
    /// Ports that are used in turn, if the plan states a range.
    pub(crate) range: Option<(u16, u16)>,
    pub(crate) turn: u64,
    pub(crate) key: DatagramKey,
    pub(crate) session: u64,
}

impl Ports {
    /// Opens a socket from the next port.
    fn open(&mut self) -> weir_net::Result<UdpSocket> {
        let Some((first, last)) = self.range else { return UdpSocket::open(&self.options) };
        let count = u64::from(last.saturating_sub(first)) + 1;
        let mut tries = count.min(MAX_TRIES);
        loop {
            self.options.bind.set_port(first + (self.turn % count) as u16);
            self.turn += 1;
            tries -= 1;
            match UdpSocket::open(&self.options) {
                Err(e) if tries > 0 && reason(kind(&e)) == Failure::NoPort => {}
                opened => return opened,
            }
        }
    }

    fn message(&self, kind: DatagramKind, number: u64, count: u64) -> [u8; LEN] {
        let (session, flow) = (self.session, self.spec.id);
        let new = ControlDatagram::new(kind, session, flow, number);
        ControlDatagram { t1_ns: count, ..new }.encode(&self.key)
    }
}

/// One transfer.
pub(super) struct Sent {
    pub(super) socket: UdpSocket,
    pub(super) number: u64,
    transfer: DatagramTransfer,
    /// When it is served next; `u64::MAX` if that is not in the flow's timers.
    at_ns: u64,
}

/// Starts transfers that are due, and continues those that are.
pub(super) fn serve(
    token: u64,
    slot: &mut Slot,
    is_readable: bool,
    context: &mut Context,
) -> Outcome {
    let (Side::Client { state, .. }, Link::Datagrams { socket, .. }) =
        (&slot.flow.side, &slot.flow.link)
    else {
        return Outcome::Done;
    };
    let (state, idle) = (state.clone(), socket.clone());
    if is_readable {
        // The socket of the flow itself has said its hello and carries nothing else.
        let buffer = &mut context.shared.buffer;
        for _ in 0..MAX_MESSAGES {
            if idle.recv_one(buffer, RecvMode::DontWait).is_err() {
                break;
            }
        }
    }
    for _ in 0..TURN {
        let now = context.clock.monotonic_ns();
        let Some(Reverse((at, connection))) = slot.timers.peek().copied() else { break };
        if at > now {
            break;
        }
        slot.timers.pop();
        // An entry of a transfer that was served since then, or is over, is void.
        if let Some(Connection::Sent(sent)) = slot.connections.get_mut(&connection)
            && sent.at_ns == at
        {
            sent.at_ns = u64::MAX;
            advance(slot, connection, context);
        }
    }
    for _ in 0..TURN {
        let now = context.clock.monotonic_ns();
        match next(slot, &state, now, context) {
            NextSend::At(at) => {
                let due = slot.timers.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
                return Outcome::Later(at.min(due));
            }
            NextSend::Now(_) => {}
            NextSend::Done => {
                finish(slot, &mut lock(&state), now);
                return Outcome::Done;
            }
        }
        if let Err(later) = start(token, slot, now, context) {
            return later;
        }
    }
    Outcome::TurnOver
}

/// Starts a transfer. The error is what to do if there is no socket for it.
fn start(token: u64, slot: &mut Slot, now: u64, context: &mut Context) -> Result<(), Outcome> {
    let Side::Client { state, dial } = &mut slot.flow.side else { return Err(Outcome::Done) };
    let Some(Dialling::Datagrams(ports)) = dial else { return Err(Outcome::Done) };
    let connection = context.shared.connection_token(token);
    let opened = ports.open().map_err(|e| reason(kind(&e))).and_then(|socket| {
        let added = context.inbox.poller.add(&socket, connection, Interest::READ);
        added.map(|()| socket).map_err(|_| Failure::Error)
    });
    // Once it has a socket, or failed to get one, it counts as started.
    let (number, volume) = {
        let mut state = lock(state);
        let number = state.sent(now);
        (number, state.volume(number))
    };
    match opened {
        Ok(socket) => {
            let payload = ports.spec.max_payload() as usize;
            let rate = ports.spec.connection.transfer_rate().0;
            let transfer = DatagramTransfer::new(volume, payload, rate, now);
            let sent = Sent { socket, number, transfer, at_ns: u64::MAX };
            slot.connections.insert(connection, Connection::Sent(Box::new(sent)));
            advance(slot, connection, context);
            Ok(())
        }
        Err(why) => {
            context.shared.owners.remove(&connection);
            lock(state).failed(number, why);
            let due = slot.timers.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
            Err(Outcome::Later(due.min(now + RETRY_NS)))
        }
    }
}

/// Reads what the server has sent, and continues a transfer until it waits or its turn is over.
pub(super) fn advance(slot: &mut Slot, token: u64, context: &mut Context) {
    let Side::Client { state, dial } = &slot.flow.side else { return };
    let Some(ports) = dial.as_ref().and_then(Dialling::ports) else { return };
    let Some(Connection::Sent(sent)) = slot.connections.get_mut(&token) else { return };
    let ring = context.shared.ring(&slot.flow, ports.spec.max_payload() as usize);
    let progress = sent.step(ports, ring, &mut lock(state), context.clock);
    match progress {
        Progress::Waits(at) => {
            if at != sent.at_ns {
                sent.at_ns = at;
                slot.timers.push(Reverse((at, token)));
            }
            return;
        }
        Progress::Over(arrived) => {
            lock(state).transferred(sent.number, arrived, context.clock.monotonic_ns());
        }
        Progress::Failed(why) => lock(state).failed(sent.number, why),
    }
    close(slot, token, false, context);
}

/// What a transfer waits for, or how it ended.
enum Progress {
    Waits(u64),
    Over(Arrived),
    Failed(Failure),
}

impl Sent {
    fn step(
        &mut self,
        ports: &Ports,
        ring: &mut PayloadRing,
        state: &mut Transacting,
        clock: &Clock,
    ) -> Progress {
        if let Err(why) = self.read(ports, state, clock) {
            return Progress::Failed(why);
        }
        let mut was_too_long = false;
        for _ in 0..TURN {
            let now = clock.monotonic_ns();
            let result = match self.transfer.next(now) {
                TransferStep::At(at) => return Progress::Waits(at),
                TransferStep::Over(arrived) => return Progress::Over(arrived),
                TransferStep::Open => {
                    let first = state.sent_data().total().0;
                    let open = ports.message(DatagramKind::Open, self.number, first);
                    self.transfer.asked(now);
                    self.socket.send(&open)
                }
                TransferStep::End(datagrams) => {
                    let end = ports.message(DatagramKind::End, self.number, datagrams);
                    self.transfer.asked(now);
                    self.socket.send(&end)
                }
                TransferStep::Datagram(bytes) => {
                    let Some(datagrams) = state.datagrams_mut() else {
                        return Progress::Failed(Failure::Error);
                    };
                    datagrams.due(self.transfer.due_ns());
                    let (datagram, _) = datagrams.fill(ring, 1, now);
                    let result = self.socket.send(&datagram[..bytes]);
                    if result.is_ok() {
                        state.datagram(self.number, bytes, self.transfer.interval_ns(), now);
                        self.transfer.sent(bytes, now);
                    }
                    result
                }
            };
            match result.map_err(|e| (SendFault::of(&e), e)) {
                Ok(_) => {}
                // The first may be the report of a smaller path MTU, to which the kernel then fragments.
                Err((SendFault::MessageTooLong, _)) if !was_too_long => was_too_long = true,
                Err((SendFault::MessageTooLong, _)) => return Progress::Failed(Failure::TooBig),
                Err((_, e)) => match reason(e.kind()) {
                    // No room, or no route for the moment: a transfer that stays without one times out.
                    Failure::Error => return Progress::Waits(clock.monotonic_ns() + RETRY_NS),
                    why => return Progress::Failed(why),
                },
            }
        }
        Progress::Waits(clock.monotonic_ns())
    }

    /// Takes what the server has sent. The error is why the transfer can't go on.
    fn read(
        &mut self,
        ports: &Ports,
        state: &mut Transacting,
        clock: &Clock,
    ) -> Result<(), Failure> {
        let mut bytes = [0; LEN + 1];
        for _ in 0..MAX_MESSAGES {
            let n = match self.socket.recv(&mut bytes, RecvMode::DontWait) {
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // A smaller path MTU, of which an ICMP message reports: the next datagram is fragmented, or fails.
                Err(e) if SendFault::of(&e) == SendFault::MessageTooLong => continue,
                Err(e) => return Err(reason(e.kind())),
            };
            let now = clock.monotonic_ns();
            let Ok(message) = ControlDatagram::decode(&bytes[..n], &ports.key) else { continue };
            let about = (message.session, message.flow, message.sequence);
            if about != (ports.session, ports.spec.id, self.number) {
                continue;
            }
            match message.kind {
                DatagramKind::Opened if self.transfer.opened(now) => {
                    state.set_up(self.number, now);
                }
                DatagramKind::Refused => return Err(Failure::Refused),
                DatagramKind::Count => {
                    let ControlDatagram { t1_ns: age, t2_ns: arrived, t3_ns: bytes, .. } = message;
                    if !self.transfer.counted(age, arrived, bytes, now) {
                        return Err(Failure::Invalid);
                    }
                    state.rests(self.number, self.transfer.lost_at_ns().unwrap_or(now));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
