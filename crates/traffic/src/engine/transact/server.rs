//! The server's end: responses to requests, on a stream, in datagrams, or on a connection for each.

use std::io;
use std::sync::Arc;

use weir_net::poll::Interest;

use super::{Connection, Context, Link, Outcome, Side, Slot, TURN, WRITE_BYTES, transfer};
use super::{FlowEvent, lock};
use crate::server::Share;
use crate::signals::Signal;
use crate::transport::StreamSocket;

/// Bytes of responses that a client may leave unread before its further requests are not read. The last one may exceed it.
const MAX_OWED: u64 = 1 << 20;
/// Writes to one stream before the others are served.
const WRITES: usize = 64;

/// A connection of one transaction whose preface was admitted, or that came to a port of its flow.
pub(crate) struct Accepted {
    /// Its part of the server's limit of flows, released before the client sees the close.
    pub(crate) _share: Share,
    pub(crate) socket: Arc<dyn StreamSocket>,
    /// It ends when no part of its request arrives, and none of its response is taken, for this long.
    pub(crate) patience_ns: u64,
}

/// A connection of one transaction that is being served.
pub(super) struct Serving {
    pub(super) accepted: Accepted,
    /// Bytes of the request that have arrived.
    have: usize,
    /// Bytes of the response that are still to be written, once the request is complete.
    left: Option<usize>,
    interest: Option<Interest>,
    /// When the connection or a part of the request arrived, or a part of the response was written.
    last_ns: u64,
}

impl Serving {
    /// Whether the client has sent and read nothing for too long.
    pub(super) fn is_silent(&self, now_ns: u64) -> bool {
        now_ns >= self.last_ns.saturating_add(self.accepted.patience_ns)
    }
}

/// Serves a stream.
pub(super) fn stream(slot: &mut Slot, is_readable: bool, context: &mut Context) -> Outcome {
    let (Side::Server(state), Link::Stream(socket)) = (&slot.flow.side, &slot.flow.link) else {
        return Outcome::Done;
    };
    let (request, response) = (slot.flow.request as u64, slot.flow.response as u64);
    let mut state = lock(state);
    let (mut may_read, mut reads, mut writes) = (is_readable, 0, 0);
    let pool = context.shared.pool(&slot.flow);
    loop {
        let mut now = None;
        while request > 0 && slot.have >= request && slot.left < MAX_OWED {
            slot.have -= request;
            slot.left = slot.left.saturating_add(response);
            let now = *now.get_or_insert_with(|| context.clock.monotonic_ns());
            state.on_read(request as usize, None, now);
        }
        let mut is_full = false;
        while slot.left > 0 && !is_full {
            if writes == WRITES {
                return Outcome::TurnOver;
            }
            writes += 1;
            let length = slot.left.min(response).min(WRITE_BYTES as u64) as usize;
            match socket.send(pool.at(0, length)) {
                Ok(sent) => slot.left -= sent as u64,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => is_full = true,
                Err(e) => return Outcome::Failed(format!("writing to the stream: {e}")),
            }
        }
        let has_request = request > 0 && slot.have >= request;
        if has_request && slot.left < MAX_OWED {
            continue;
        }
        if has_request || slot.left >= MAX_OWED {
            return Outcome::Blocked { reads: false, at: u64::MAX };
        }
        if !may_read || reads == TURN {
            break;
        }
        reads += 1;
        let buffer = &mut context.shared.buffer;
        match socket.recv(buffer) {
            Ok(0) => {
                state.on_end();
                let _ = slot.flow.events.send(FlowEvent::ReceiverDone(slot.flow.id));
                return Outcome::Done;
            }
            // Where each transaction has a connection, this one carries nothing.
            Ok(_) if request == 0 => return Outcome::Failed("data on an idle connection".into()),
            Ok(n) => {
                slot.has_read = true;
                slot.have += n as u64;
                may_read = n == buffer.len();
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => may_read = false,
            Err(e) => return Outcome::Failed(format!("reading from the stream: {e}")),
        }
    }
    match slot.left {
        // The poller reports what is left of the input.
        0 => Outcome::Later(u64::MAX),
        _ => Outcome::Blocked { reads: true, at: u64::MAX },
    }
}

/// Serves datagrams. A response that is longer than its request is sent only while the client proves that it is there.
pub(super) fn datagrams(slot: &mut Slot, is_readable: bool, context: &mut Context) -> Outcome {
    let pool = context.shared.pool(&slot.flow);
    let (request, response, number) = (slot.flow.request, slot.flow.response, slot.flow.number);
    let (Side::Server(state), Link::Datagrams { socket, signals, proof }) =
        (&slot.flow.side, &mut slot.flow.link)
    else {
        return Outcome::Done;
    };
    let mut state = lock(state);
    let (events, id) = (&slot.flow.events, slot.flow.id);
    // The number of a request that is to be answered.
    let mut on_datagram = |data: &[u8], now: u64| {
        let signal = signals.classify(&**socket, data, now);
        if signal == Signal::End {
            let _ = events.send(FlowEvent::SenderEnded(id));
        }
        if signal != Signal::Data || data.len() != request {
            return None;
        }
        match number {
            0 => state.on_read(request, None, now),
            _ => state.on_request(&data[..number], request, now),
        }
        let is_proved =
            response <= request || proof.as_ref().is_none_or(|proof| !proof.is_missing(now));
        let mut bytes = [0; 8];
        bytes[..number].copy_from_slice(&data[..number]);
        is_proved.then_some(bytes)
    };
    let mut may_read = is_readable;
    if let Some(mode) = slot.alone {
        let buffer = &mut context.shared.buffer;
        // Reading a pending ICMP error clears it.
        let Ok(bytes) = socket.recv_one(buffer, mode) else { return Outcome::Nothing };
        slot.has_read = true;
        let now = context.clock.monotonic_ns();
        slot.unanswered.extend(on_datagram(&buffer[..bytes], now));
        may_read = false;
    }
    let (batch, datagram) = context.shared.batch(request.max(response));
    datagram.clear();
    datagram.extend_from_slice(pool.at(0, response));
    for _ in 0..TURN {
        while let Some(bytes) = slot.unanswered.front() {
            datagram[..number].copy_from_slice(&bytes[..number]);
            match socket.send_control(datagram) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return Outcome::Blocked { reads: false, at: u64::MAX };
                }
                // A datagram that can't be sent is one that may be lost.
                Ok(_) | Err(_) => slot.unanswered.pop_front(),
            };
        }
        if !may_read {
            break;
        }
        let got = match socket.recv_batch(batch) {
            Ok(got) => got,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
            // Reading a pending ICMP error clears it.
            Err(_) => continue,
        };
        slot.has_read = true;
        let now = context.clock.monotonic_ns();
        let messages = batch.messages();
        slot.unanswered.extend(messages.filter_map(|message| on_datagram(message.data, now)));
        may_read = got == batch.capacity();
        if !may_read && slot.unanswered.is_empty() {
            break;
        }
    }
    match slot.unanswered.is_empty() {
        true => Outcome::Later(u64::MAX),
        false => Outcome::TurnOver,
    }
}

/// Takes a connection of one transaction.
pub(super) fn accept(flow: u64, slot: &mut Slot, accepted: Accepted, context: &mut Context) {
    let Side::Server(state) = &slot.flow.side else { return };
    if slot.flow.transfers.is_some() {
        transfer::accept(flow, slot, accepted, context);
        return;
    }
    if slot.flow.request == 0 {
        // Connect and close: the server closes first, so that the client's port is free immediately.
        lock(state).on_read(0, None, context.clock.monotonic_ns());
        return;
    }
    let token = context.shared.connection_token(flow);
    let last_ns = context.clock.monotonic_ns();
    let serving = Serving { accepted, have: 0, left: None, interest: None, last_ns };
    slot.connections.insert(token, Connection::Accepted(serving));
    advance(slot, token, context);
}

/// Reads the request of a connection, writes the response and closes.
pub(super) fn advance(slot: &mut Slot, token: u64, context: &mut Context) {
    let (request, response) = (slot.flow.request, slot.flow.response);
    let pool = context.shared.pool(&slot.flow);
    let Some(Connection::Accepted(serving)) = slot.connections.get_mut(&token) else { return };
    let Side::Server(state) = &slot.flow.side else { return };
    let socket = &*serving.accepted.socket;
    let wanted = loop {
        let Some(left) = &mut serving.left else {
            let buffer = &mut context.shared.buffer;
            let most = buffer.len().min(request - serving.have);
            match socket.recv(&mut buffer[..most]) {
                // The client gave up.
                Ok(0) => break None,
                Ok(n) => {
                    serving.have += n;
                    serving.last_ns = context.clock.monotonic_ns();
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break Some(Interest::READ),
                Err(_) => break None,
            }
            if serving.have == request {
                lock(state).on_read(request, None, context.clock.monotonic_ns());
                serving.left = Some(response);
            }
            continue;
        };
        if *left == 0 {
            // Closed by the server first, so that the client's port is free immediately.
            break None;
        }
        match socket.send(pool.at(0, (*left).min(WRITE_BYTES))) {
            Ok(sent) => {
                *left -= sent;
                serving.last_ns = context.clock.monotonic_ns();
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => break Some(Interest::WRITE),
            Err(_) => break None,
        }
    };
    if !wait_for(&*serving.accepted.socket, token, wanted, &mut serving.interest, context) {
        slot.connections.remove(&token);
        context.shared.owners.remove(&token);
    }
}

/// Waits for `wanted` on an accepted connection's socket. False if it is to be closed: nothing is wanted, or the poller
/// refuses it, which then no longer has it.
pub(super) fn wait_for(
    socket: &dyn StreamSocket,
    token: u64,
    wanted: Option<Interest>,
    interest: &mut Option<Interest>,
    context: &Context,
) -> bool {
    let poller = &context.inbox.poller;
    let is_waiting = match (wanted, *interest) {
        (None, _) => false,
        (Some(wanted), None) => poller.add(socket, token, wanted).is_ok(),
        (Some(wanted), Some(now)) if wanted != now => poller.modify(socket, token, wanted).is_ok(),
        (Some(_), Some(_)) => true,
    };
    if is_waiting {
        *interest = wanted;
    } else if interest.is_some() {
        let _ = poller.remove(socket);
    }
    is_waiting
}
