//! Transactions on a stream whose messages have a header of a session protocol, one at a time: the server sends back each
//! request, after a time that the protocol states, with its header changed.

use std::io;

use weir_net::clock::Clock;

use super::{Context, FlowEvent, Link, Outcome, Side, Slot, TURN, lock};
use crate::framing::Framing;

/// The messages of a flow.
pub(crate) struct Framed {
    framing: Box<dyn Framing>,
    /// Time between a request and its response, ns.
    hold_ns: u64,
    /// The current message.
    message: Vec<u8>,
    /// How many there were.
    number: u64,
    /// When the response is due, once its request is complete.
    due_ns: Option<u64>,
}

impl Framed {
    /// `begun`: what was read of the first request.
    pub(crate) fn new(framing: Box<dyn Framing>, hold_ns: u64, begun: Vec<u8>) -> Box<Self> {
        Box::new(Framed { framing, hold_ns, message: begun, number: 0, due_ns: None })
    }

    /// Bytes of the current message.
    pub(super) fn length(&self) -> usize {
        self.message.len()
    }

    /// Makes the next request from the content of the flow's messages.
    pub(super) fn begin(&mut self, content: &[u8], clock: &Clock) {
        self.message.clear();
        self.message.extend_from_slice(content);
        self.write_header(clock);
    }

    fn write_header(&mut self, clock: &Clock) {
        let length = self.message.len();
        let header = self.framing.header_bytes().min(length);
        self.framing.write(self.number, length, clock.realtime_ns(), &mut self.message[..header]);
        self.number += 1;
    }

    /// The last `left` bytes of the current message.
    pub(super) fn rest(&self, left: usize) -> &[u8] {
        &self.message[self.message.len().saturating_sub(left)..]
    }
}

/// Serves a stream.
pub(super) fn serve(slot: &mut Slot, is_readable: bool, context: &mut Context) -> Outcome {
    let flow = &mut *slot.flow;
    let (Side::Server(state), Link::Stream(socket), Some(framed)) =
        (&flow.side, &flow.link, &mut flow.framed)
    else {
        return Outcome::Done;
    };
    let mut state = lock(state);
    let mut may_read = is_readable;
    for _ in 0..TURN {
        while slot.left > 0 {
            match socket.send(framed.rest(slot.left as usize)) {
                Ok(sent) => slot.left -= sent as u64,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return Outcome::Blocked { reads: false, at: u64::MAX };
                }
                Err(e) => return Outcome::Failed(format!("writing to the stream: {e}")),
            }
        }
        if let Some(due) = framed.due_ns {
            // While a response is held, the poller reports the end of the stream alone.
            if slot.is_paused && is_readable {
                // A reset is a failure, not an end.
                if let Ok(Some(error)) = socket.take_error() {
                    return Outcome::Failed(format!("reading from the stream: {error}"));
                }
                state.on_end();
                let _ = flow.events.send(FlowEvent::ReceiverDone(flow.id));
                return Outcome::Done;
            }
            if context.clock.monotonic_ns() < due {
                return Outcome::Paused(due);
            }
            framed.due_ns = None;
            framed.write_header(context.clock);
            slot.left = framed.message.len() as u64;
            slot.have = 0;
            continue;
        }
        let request = flow.request;
        if slot.have == request as u64 {
            let now = context.clock.monotonic_ns();
            state.on_read(request, None, now);
            framed.framing.arrived(context.clock.realtime_ns());
            framed.due_ns = Some(now.saturating_add(framed.hold_ns));
            continue;
        }
        if !may_read {
            // The poller reports what is left of the input.
            return Outcome::Later(u64::MAX);
        }
        framed.message.resize(request, 0);
        match socket.recv(&mut framed.message[slot.have as usize..]) {
            Ok(0) => {
                state.on_end();
                let _ = flow.events.send(FlowEvent::ReceiverDone(flow.id));
                return Outcome::Done;
            }
            Ok(n) => {
                slot.has_read = true;
                slot.have += n as u64;
                // The socket may wait for more: the response comes first, and the poller reports what is left.
                may_read = false;
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => may_read = false,
            Err(e) => return Outcome::Failed(format!("reading from the stream: {e}")),
        }
    }
    Outcome::TurnOver
}
