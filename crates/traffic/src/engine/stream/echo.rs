//! Echoes of streams: the client sends and reads what comes back, the server sends back what it reads.

use std::io;

use weir_flow::{Drain, StreamReceiving};
use weir_net::clock::Clock;
use weir_wire::control::SenderTotal;

use super::super::{FlowEvent, lock};
use super::{
    Outcome, READ_BYTES, Shared, Slot, StreamRole, TURN_BYTES, end_early, send as send_data,
};

/// The state of an echo at one end.
#[derive(Default)]
pub(super) struct Progress {
    /// The client's sender has finished with this total, which is reported when everything has come back.
    total: Option<SenderTotal>,
    /// Bytes that the server has read and its socket had no room for, and how many of them were sent since.
    unsent: Vec<u8>,
    sent: usize,
    /// The server has read the end of the stream.
    has_ended: bool,
}

impl Progress {
    /// Whether nothing is left to be sent back.
    pub(super) fn is_empty(&self) -> bool {
        self.sent == self.unsent.len()
    }

    /// The client's sender has finished at `now_ns`: what is missing of the echo is awaited.
    pub(super) fn sent(&mut self, total: SenderTotal, echo: &mut StreamReceiving, now_ns: u64) {
        self.total = Some(total);
        echo.set_sent_total(total.bytes);
        echo.drain(Drain::stream(now_ns, 0));
    }

    /// The client's total, if waiting for the echo ends now.
    pub(super) fn given_up(
        &mut self,
        echo: &mut StreamReceiving,
        now_ns: u64,
    ) -> Option<SenderTotal> {
        match self.total.is_some() && echo.is_over(now_ns) {
            true => self.total.take(),
            false => None,
        }
    }
}

/// Serves the client's end: it reads what has come back first, so that the server has room for more.
pub(super) fn send(slot: &mut Slot, shared: &mut Shared, clock: &Clock) -> Outcome {
    let StreamRole::Send { state, align, echo: Some(echo), .. } = &slot.flow.role else {
        return Outcome::Done;
    };
    let mut back = lock(echo);
    let buffer = shared.reads.of(READ_BYTES, *align);
    let mut turn = 0;
    while turn < TURN_BYTES {
        let failure = match slot.flow.socket.recv(buffer) {
            Ok(0) => {
                back.on_end();
                if let Some(total) = slot.echo.total.take() {
                    let _ = slot.flow.events.send(FlowEvent::SenderDone(total));
                    return Outcome::Done;
                }
                "the server closed the stream".into()
            }
            Ok(n) => {
                turn += n;
                back.on_read(n, Some(&buffer[..n]), clock.monotonic_ns());
                if n == READ_BYTES {
                    continue;
                }
                break;
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
            Err(e) => format!("reading from the stream: {e}"),
        };
        match slot.echo.total.take() {
            Some(total) => {
                let _ = slot.flow.events.send(FlowEvent::SenderDone(total));
            }
            None => end_early(&slot.flow, &mut lock(state), clock.monotonic_ns()),
        }
        return Outcome::Failed(failure);
    }
    drop(back);
    match slot.echo.total {
        Some(_) => Outcome::Later(u64::MAX),
        None => send_data(slot, shared, clock),
    }
}

/// Serves the server's end. While its socket has no room, it does not read: the client's sender waits.
pub(super) fn receive(slot: &mut Slot, shared: &mut Shared, clock: &Clock) -> Outcome {
    let StreamRole::Receive { state, align, .. } = &slot.flow.role else { return Outcome::Done };
    let (flow, progress) = (&slot.flow, &mut slot.echo);
    let buffer = shared.reads.of(READ_BYTES, *align);
    let mut state = lock(state);
    let mut turn = 0;
    while turn < TURN_BYTES {
        while !progress.is_empty() {
            match flow.socket.send(&progress.unsent[progress.sent..]) {
                Ok(sent) => progress.sent += sent,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Outcome::Blocked,
                Err(e) => return Outcome::Failed(format!("sending back the stream: {e}")),
            }
        }
        progress.unsent.clear();
        progress.sent = 0;
        if progress.has_ended {
            state.on_end();
            let closed = flow.socket.half_close();
            let _ = flow.events.send(FlowEvent::ReceiverDone(flow.id));
            return match closed {
                Ok(()) => Outcome::Done,
                Err(e) => Outcome::Failed(format!("closing the stream: {e}")),
            };
        }
        match flow.socket.recv(buffer) {
            Ok(0) => progress.has_ended = true,
            Ok(n) => {
                turn += n;
                state.on_read(n, Some(&buffer[..n]), clock.monotonic_ns());
                progress.unsent.extend_from_slice(&buffer[..n]);
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Outcome::Blocked,
            Err(e) => return Outcome::Failed(format!("reading from the stream: {e}")),
        }
    }
    Outcome::TurnOver
}
