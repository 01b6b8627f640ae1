//! The wait of a worker with one flow whose messages follow each other quickly: in the receive call, which saves the call of
//! the poller before it. With a time to spin, it polls the socket without sleeping.

use std::collections::HashMap;
use std::time::Duration;

use weir_net::poll::Interest;
use weir_net::socket::set_waiting;
use weir_net::udp::RecvMode;

use super::{Context, Link, Side, Slot, next_due, serve};

/// Longest wait of a receive; a command for the worker waits as long.
const PATIENCE_NS: u64 = 5_000_000;
/// A wait of the poller up to this is a short one, and after so many in a row the worker waits in the receive call.
const SHORT_NS: u64 = 1_000_000;
const SHORT_WAITS: u32 = 16;
/// Receive calls between two looks at the clock while the socket is polled.
const POLLS: u32 = 16;
/// Bytes of the longest message that is sent while calls wait: the socket has room for it, so that its send does not wait.
const MAX_MESSAGE_BYTES: usize = 16 << 10;

/// Whether a worker waits in the receive call of its only flow.
pub(super) struct Lone {
    /// The flow whose socket is set to wait.
    waiting: Option<u64>,
    /// Short waits in a row.
    short: u32,
    /// How long the flow's socket is polled before the worker sleeps.
    spin_ns: u64,
}

impl Lone {
    pub(super) fn new(spin_ns: u64) -> Self {
        Lone { waiting: None, short: 0, spin_ns }
    }

    /// The poller has returned after `waited_ns`, with an event of a flow or without.
    pub(super) fn woke(&mut self, waited_ns: u64, has_event: bool) {
        self.short =
            if has_event && waited_ns <= SHORT_NS { self.short.saturating_add(1) } else { 0 };
    }

    /// Waits for messages of the only flow, and serves it. False if the poller is to wait.
    pub(super) fn serve(&mut self, flows: &mut HashMap<u64, Slot>, context: &mut Context) -> bool {
        let now = context.clock.monotonic_ns();
        let free_ns = next_due(flows, context).map_or(u64::MAX, |at| at.saturating_sub(now));
        let mut each = flows.iter_mut();
        let only = match (each.next(), each.next()) {
            (Some((token, slot)), None) if may_wait(slot) => Some((*token, slot)),
            _ => None,
        };
        let Some((token, slot)) = only.filter(|_| free_ns > PATIENCE_NS.max(self.spin_ns)) else {
            self.leave(flows, context);
            return false;
        };
        if self.spin_ns > 0 {
            let until = now + self.spin_ns;
            while context.clock.monotonic_ns() < until {
                for _ in 0..POLLS {
                    if has_served(token, slot, context, RecvMode::DontWait) || slot.done {
                        return true;
                    }
                }
            }
            return false;
        }
        if self.waiting.is_none() {
            let limit = Some(Duration::from_nanos(PATIENCE_NS));
            let socket = slot.flow.link.as_socket().filter(|_| self.short >= SHORT_WAITS);
            let Some(socket) = socket.filter(|socket| set_waiting(*socket, limit).is_ok()) else {
                return false;
            };
            // The poller would note each message: a sixth of the processor time.
            let _ = context.inbox.poller.remove(socket);
            self.waiting = Some(token);
        }
        let is_served = has_served(token, slot, context, RecvMode::WaitForOne);
        if !is_served || slot.done {
            self.short = 0;
            self.leave(flows, context);
        }
        true
    }

    /// The poller waits again.
    fn leave(&mut self, flows: &HashMap<u64, Slot>, context: &Context) {
        let Some(token) = self.waiting.take() else { return };
        let Some(slot) = flows.get(&token) else { return };
        let Some(socket) = slot.flow.link.as_socket() else { return };
        // It succeeded the other way round; a socket that is left waiting delays a command by its limit.
        let _ = set_waiting(socket, None);
        if !slot.done {
            let _ = context.inbox.poller.add(socket, token, slot.interest);
        }
    }
}

/// Reads from the socket and serves the flow; whether anything was read.
fn has_served(token: u64, slot: &mut Slot, context: &mut Context, mode: RecvMode) -> bool {
    slot.has_read = false;
    slot.alone = Some(mode);
    serve(token, slot, true, context);
    slot.alone = None;
    slot.has_read
}

/// Whether nothing but an incoming message has this flow served, and its sends don't wait.
fn may_wait(slot: &Slot) -> bool {
    let flow = &slot.flow;
    let dials = matches!(flow.side, Side::Client { dial: Some(_), .. });
    let can_wait = match &flow.link {
        Link::Stream(_) => flow.request > 0,
        Link::Datagrams { socket, .. } => socket.can_wait(),
        Link::Absent(_) => false,
    };
    can_wait
        && !dials
        && !slot.done
        && slot.left == 0
        && slot.interest == Interest::READ
        && slot.unanswered.is_empty()
        && slot.connections.is_empty()
        && flow.request.max(flow.response) <= MAX_MESSAGE_BYTES
}
