//! The client's end: requests on a stream or in datagrams, and the responses to them.

use std::io;

use weir_flow::{Failure, NextSend, Transacting};

use weir_net::udp::SendFault;
use weir_wire::echo::MAX_HEADERS_BYTES;

use super::super::NO_ROUTE;
use super::echo;
use super::{Context, Link, Outcome, RETRY_NS, Side, Slot, TURN, WRITE_BYTES};
use super::{FlowEvent, lock, sender_total};
use crate::signals::Signal;
use crate::transport::DatagramSocket;

/// A flow has failed after this long without a route to the server.
const UNREACHABLE_NS: u64 = 3_000_000_000;

/// Ends a client whose transactions are over.
pub(super) fn finish(slot: &Slot, state: &mut Transacting, now: u64) {
    state.finish(now);
    let total = sender_total(slot.flow.id, state.sent_data());
    let _ = slot.flow.events.send(FlowEvent::SenderDone(total));
}

/// Serves a client on a stream.
pub(super) fn stream(slot: &mut Slot, is_readable: bool, context: &mut Context) -> Outcome {
    let (Side::Client { state, .. }, Link::Stream(socket)) = (&slot.flow.side, &slot.flow.link)
    else {
        return Outcome::Done;
    };
    let (state, socket) = (state.clone(), socket.clone());
    let mut state = lock(&state);
    let response = slot.flow.response as u64;
    if is_readable {
        for _ in 0..TURN {
            let buffer = &mut context.shared.buffer;
            match socket.recv(buffer) {
                Ok(0) => return Outcome::Failed("the server closed the stream".into()),
                Ok(n) => {
                    slot.has_read = true;
                    slot.have += n as u64;
                    let now = context.clock.monotonic_ns();
                    while slot.have >= response {
                        slot.have -= response;
                        if !state.answered_next(now) {
                            return Outcome::Failed("a response without a request".into());
                        }
                    }
                    if n < buffer.len() {
                        break;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Outcome::Failed(format!("reading from the stream: {e}")),
            }
        }
    }
    if slot.alone.is_some() && !slot.has_read {
        return Outcome::Nothing;
    }
    let pool = context.shared.pool(&slot.flow);
    loop {
        if slot.left == 0 {
            let now = context.clock.monotonic_ns();
            match state.next(now) {
                NextSend::At(at) => return Outcome::Later(at),
                NextSend::Now(_) => {
                    state.sent(now);
                    slot.left = slot.flow.request as u64;
                    if let Some(framed) = &mut slot.flow.framed {
                        framed.begin(pool.at(0, slot.flow.request), context.clock);
                    }
                }
                NextSend::Done => return end(slot, &mut state, now),
            }
        }
        state.sending.called(1);
        let bytes = match &slot.flow.framed {
            Some(framed) => framed.rest(slot.left as usize),
            None => pool.at(0, slot.left.min(WRITE_BYTES as u64) as usize),
        };
        match socket.send(bytes) {
            Ok(sent) => slot.left -= sent as u64,
            // A server that stops reading delays neither the end nor the limit of the wait after it.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let now = context.clock.monotonic_ns();
                match state.next(now) {
                    NextSend::At(at) => return Outcome::Blocked { reads: true, at },
                    NextSend::Now(_) => {
                        let at = state.sending.end_ns();
                        return Outcome::Blocked { reads: true, at };
                    }
                    NextSend::Done => return end(slot, &mut state, now),
                }
            }
            Err(e) => return Outcome::Failed(format!("writing to the stream: {e}")),
        }
    }
}

/// Ends a client on a stream.
fn end(slot: &Slot, state: &mut Transacting, now: u64) -> Outcome {
    finish(slot, state, now);
    let Link::Stream(socket) = &slot.flow.link else { return Outcome::Done };
    match socket.half_close() {
        Ok(()) => Outcome::Done,
        Err(e) => Outcome::Failed(format!("closing the stream: {e}")),
    }
}

/// Serves a client of datagrams.
pub(super) fn datagrams(slot: &mut Slot, is_readable: bool, context: &mut Context) -> Outcome {
    let request = slot.flow.request;
    let largest = request.max(slot.flow.response) + MAX_HEADERS_BYTES;
    let (Side::Client { state, .. }, Link::Datagrams { socket, signals, .. }) =
        (&slot.flow.side, &mut slot.flow.link)
    else {
        return Outcome::Done;
    };
    let (state, socket) = (state.clone(), socket.clone());
    let mut state = lock(&state);
    let echo_socket = socket.echo();
    if let Some(socket) = echo_socket.filter(|_| is_readable) {
        echo::on_errors(socket, &mut state);
    }
    if let Some(mode) = slot.alone {
        let buffer = &mut context.shared.buffer;
        // Reading a pending ICMP error clears it.
        let Ok(bytes) = socket.recv_one(buffer, mode) else { return Outcome::Nothing };
        slot.has_read = true;
        let now = context.clock.monotonic_ns();
        if signals.classify(&*socket, &buffer[..bytes], now) == Signal::Data {
            state.on_datagram(&buffer[..bytes], now);
        }
    } else if is_readable {
        let (batch, _) = context.shared.batch(largest);
        for _ in 0..TURN {
            let got = match socket.recv_batch(batch) {
                Ok(got) => got,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // Reading a pending ICMP error clears it.
                Err(_) => continue,
            };
            slot.has_read = true;
            let now = context.clock.monotonic_ns();
            for message in batch.messages() {
                if let Some(socket) = echo_socket {
                    echo::on_message(socket, &message, &mut state, context.clock);
                } else if signals.classify(&*socket, message.data, now) == Signal::Data {
                    state.on_datagram(message.data, now);
                }
            }
            if got < batch.capacity() {
                break;
            }
        }
    }
    let pool = context.shared.pool(&slot.flow);
    let datagram = &mut context.shared.datagram;
    datagram.clear();
    datagram.extend_from_slice(pool.at(0, request));
    for _ in 0..1024 {
        let now = context.clock.monotonic_ns();
        match state.next(now) {
            NextSend::At(at) => return Outcome::Later(at),
            NextSend::Now(_) => {}
            NextSend::Done => {
                finish(slot, &mut state, now);
                return Outcome::Done;
            }
        }
        state.write_number(state.next_number(), datagram);
        state.sending.called(1);
        match send(&*socket, datagram) {
            Ok(()) => {
                state.sent(now);
                slot.unreachable_ns = None;
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Outcome::Blocked { reads: true, at: state.sending.end_ns() };
            }
            Err(e) if echo_socket.is_some() && SendFault::of(&e) == SendFault::MessageTooLong => {
                let number = state.sent(now);
                state.failed(number, Failure::TooBig);
                return Outcome::Later(now + RETRY_NS);
            }
            Err(e) => {
                let since = *slot.unreachable_ns.get_or_insert(now);
                if now.saturating_sub(since) < UNREACHABLE_NS {
                    return Outcome::Later(now + RETRY_NS);
                }
                state.fail_all(Failure::Error);
                return Outcome::Failed(format!("{NO_ROUTE}: {e}"));
            }
        }
    }
    Outcome::TurnOver
}

/// Sends a datagram, again after an ICMP error for an earlier one.
fn send(socket: &dyn DatagramSocket, datagram: &[u8]) -> io::Result<()> {
    match socket.send_control(datagram) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => socket.send_control(datagram),
        // Of ICMP echo it may be any error, which is in the error queue as well.
        Err(e) if e.kind() != io::ErrorKind::WouldBlock && socket.echo().is_some() => {
            socket.send_control(datagram)
        }
        result => result,
    }
    .map(drop)
}
