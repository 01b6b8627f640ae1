//! The worker that sends datagrams: paced flows by absolute deadlines, unlimited ones in turn.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, Mutex};

use weir_flow::{
    Asked, Class, Demand, FEW_SEGMENTS, NextSend, PayloadRing, Sending, segments_per_message,
};
use weir_model::content::Content;
use weir_net::clock::{Clock, set_timer_slack};
use weir_net::poll::Events as PollEvents;
use weir_net::thread::set_normal;
use weir_net::udp::{SendBatch, SendFault};
use weir_net::waiting::{SPIN_NS, Woken, wait_until};
use weir_wire::header::Header;

use super::echo::AwaitedEcho;
use super::priority::Priority;
use super::worker::{Inbox, LOST};
use super::{ContentKey, Events, FlowEvent, content_key, lock, sender_total};
use crate::transport::DatagramSocket;

/// Delay before a send is retried after a full queue or buffer.
const RETRY_NS: u64 = 50_000;
/// Datagrams per call without segmentation: few, since they share one send time.
const PLAIN_BATCH: usize = 8;
/// Maximum number of frames per call of a program.
const FRAMES: u32 = 256;
/// Delay before the next frames after the interface's queue was full: less than a full one takes to empty.
const FRAME_RETRY_NS: u64 = 20_000;
/// Super-packets per call.
const MESSAGES: usize = 16;
/// Maximum number of cached payload rings, at most half a MiB each.
const MAX_RINGS: usize = 64;
/// A flow has failed after this long without a route to the receiver.
const UNREACHABLE_NS: u64 = 3_000_000_000;
/// Start of the error of such a flow.
pub(crate) const NO_ROUTE: &str = "no route to the receiver";
/// The same at the end of its duration: a shorter outage may be a flapping route.
const BRIEF_NS: u64 = 500_000_000;
/// A server stops sending when the receiver's feedback has been missing for this many of its periods.
const MISSING_FEEDBACK: u64 = 4;

/// A flow that sends datagrams.
pub(crate) struct SendFlow {
    pub(crate) id: u32,
    pub(crate) socket: Arc<dyn DatagramSocket>,
    pub(crate) state: Arc<Mutex<Sending>>,
    pub(crate) content: Content,
    pub(crate) seed: u64,
    /// Maximum number of datagrams of one super-packet; 1: each leaves on its own. Lowered when the system refuses.
    pub(crate) max_segments: usize,
    /// Proof that the receiver still wants data; required by a server.
    pub(crate) proof: Option<Proof>,
    /// Payloads of its own, where it sends data of a file or has a prefix.
    pub(crate) own_ring: Option<PayloadRing>,
    /// What each payload begins with after its header; empty: nothing.
    pub(crate) prefix: Vec<u8>,
    /// What comes back of its datagrams, if the receiver sends them back.
    pub(crate) echo: Option<Arc<AwaitedEcho>>,
    /// Since when the system has had no route to the receiver, and its first error.
    pub(crate) unreachable: Option<(u64, std::io::Error)>,
    /// Its next wake-up is a retry, which does not justify a long spin.
    pub(crate) is_retrying: bool,
    pub(crate) events: Events,
}

/// Feedback that proves that a receiver still wants data.
pub(crate) struct Proof {
    /// When the last feedback arrived.
    pub(crate) alive: Arc<AtomicU64>,
    /// The interval of feedback.
    pub(crate) period_ns: u64,
}

impl Proof {
    /// How long feedback has been missing, ns, if that is too long.
    fn missing(&self, now: u64) -> Option<u64> {
        let missing = now.saturating_sub(self.alive.load(Ordering::Relaxed));
        (missing > MISSING_FEEDBACK * self.period_ns).then_some(missing)
    }

    /// Whether feedback has been missing for too long.
    pub(super) fn is_missing(&self, now: u64) -> bool {
        self.missing(now).is_some()
    }
}

impl Drop for SendFlow {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = lock(&self.state);
            state.stop();
            let total = sender_total(self.id, &state);
            drop(state);
            let _ = self.events.send(FlowEvent::Failed(self.id, LOST.into()));
            let _ = self.events.send(FlowEvent::SenderDone(total));
        }
    }
}

pub(super) enum Command {
    Add(u64, Box<SendFlow>),
    Poke(u64),
    Remove(u64),
    /// Panics, as a bug would.
    #[cfg(test)]
    Panic,
}

struct Slot {
    flow: Box<SendFlow>,
    demand: Demand,
    /// The time of its valid heap entry; others are stale.
    at: u64,
}

/// Flows with the same payload and header share one ring: headers are written just before sending, and the kernel copies.
pub(super) type Rings = HashMap<(usize, Header, ContentKey, u64), PayloadRing>;

pub(super) fn work(inbox: &Inbox<Command>, clock: &Clock, asked: Asked) {
    let _ = set_timer_slack(1);
    let mut flows: HashMap<u64, Slot> = HashMap::new();
    let mut heap: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
    let mut rings = Rings::new();
    let mut batch = SendBatch::new(MESSAGES.max(PLAIN_BATCH));
    let mut events = PollEvents::new(4);
    // A thread that starts again after a panic may still have its old class.
    let _ = set_normal();
    let mut priority = Priority::new(asked);
    let mut changed = false;
    loop {
        loop {
            match inbox.commands.try_recv() {
                Ok(Command::Add(token, mut flow)) => {
                    let demand = prepare(&mut flow, &mut rings);
                    flows.insert(token, Slot { flow, demand, at: 0 });
                    heap.push(Reverse((0, token)));
                    changed = true;
                }
                Ok(Command::Poke(token)) => {
                    if let Some(slot) = flows.get_mut(&token) {
                        // Its rate may be another.
                        let demand = lock(&slot.flow.state).demand();
                        changed |= demand != slot.demand;
                        slot.demand = demand;
                        slot.at = 0;
                        heap.push(Reverse((0, token)));
                    }
                }
                Ok(Command::Remove(token)) => {
                    changed |= flows.remove(&token).is_some();
                    if flows.is_empty() {
                        rings.clear();
                        heap.clear();
                    }
                }
                #[cfg(test)]
                Ok(Command::Panic) => panic!("asked to"),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        let now = clock.monotonic_ns();
        if std::mem::take(&mut changed) {
            let mut demand = Demand::default();
            flows.values().for_each(|slot| demand += slot.demand);
            priority.set(demand, now);
        }
        priority.watch(now);
        let Some(Reverse((at, token))) = heap.peek().copied() else {
            wait(inbox, &mut events);
            continue;
        };
        if flows.get(&token).is_none_or(|s| s.at != at) {
            heap.pop();
            continue;
        }
        if at > now {
            if at == u64::MAX {
                wait(inbox, &mut events);
            } else {
                let is_retry = flows.get(&token).is_some_and(|slot| slot.flow.is_retrying);
                let most = if is_retry { SPIN_NS } else { u64::MAX };
                let spin_ns = priority.spin_ns().min(most);
                match wait_until(clock, &inbox.poller, &mut events, at, spin_ns) {
                    Woken::Event => {
                        inbox.waker.clear();
                    }
                    Woken::Due { late_ns: Some(late_ns), .. } => priority.woke(late_ns),
                    Woken::Due { late_ns: None, .. } => {}
                }
            }
            continue;
        }
        heap.pop();
        let Some(slot) = flows.get_mut(&token) else { continue };
        let next = serve(&mut slot.flow, &mut rings, &mut batch, priority.class(), now, clock);
        match next {
            Some(at) => {
                slot.at = at;
                heap.push(Reverse((at, token)));
                if at > now + 10_000 && at != u64::MAX && priority.class() == Class::Normal {
                    // Let a receiver on the same processor run between packets. Under SCHED_FIFO sleeping does that:
                    // this call yields only to threads of the same priority.
                    std::thread::yield_now();
                }
            }
            None => {
                flows.remove(&token);
                changed = true;
            }
        }
    }
}

/// Waits for the inbox.
fn wait(inbox: &Inbox<Command>, events: &mut PollEvents) {
    if inbox.poller.wait(events, None).unwrap_or(0) > 0 {
        inbox.waker.clear();
    }
}

/// When a flow that has sent wants to be served again: a paced one at its next deadline; an unlimited one queues behind
/// those that are due.
fn next_due(state: &mut Sending, now: u64) -> u64 {
    match state.is_paced().then(|| state.next(now)) {
        Some(NextSend::At(at)) => at,
        _ => now,
    }
}

/// Fills the payloads of a new flow, if there is room for them, so that its first datagram does not wait for that; returns
/// the flow's demand.
pub(super) fn prepare(flow: &mut SendFlow, rings: &mut Rings) -> Demand {
    let state = lock(&flow.state);
    if rings.len() < MAX_RINGS {
        ring(&state, flow.content, flow.seed, &flow.prefix, &mut flow.own_ring, rings);
    }
    state.demand()
}

/// The payloads of a flow.
fn ring<'a>(
    state: &Sending,
    content: Content,
    seed: u64,
    prefix: &[u8],
    own: &'a mut Option<PayloadRing>,
    rings: &'a mut Rings,
) -> &'a mut PayloadRing {
    let payload = state.payload();
    let header = state.header();
    let new =
        || PayloadRing::new(content, seed, payload).with_prefix(header.carries().bytes, prefix);
    if state.supply().is_some() || !prefix.is_empty() {
        return own.get_or_insert_with(new);
    }
    let key = (payload, header, content_key(content), seed);
    // A cache: sessions choose their seeds, and a busy worker would collect rings forever.
    if rings.len() >= MAX_RINGS && !rings.contains_key(&key) {
        rings.clear();
    }
    rings.entry(key).or_insert_with(new)
}

/// Serves a flow once; returns when it wants to be served again, or `None` when it is done.
fn serve(
    flow: &mut SendFlow,
    rings: &mut Rings,
    batch: &mut SendBatch,
    class: Class,
    now: u64,
    clock: &Clock,
) -> Option<u64> {
    let mut state = lock(&flow.state);
    if let Some(missing) = flow.proof.as_ref().and_then(|proof| proof.missing(now))
        && state.is_started()
    {
        state.stop();
        let seconds = missing as f64 / 1e9;
        let text = format!("no feedback from the receiver for {seconds:.0} s: sending was stopped");
        let _ = flow.events.send(FlowEvent::Failed(flow.id, text));
    }
    let count = match state.next(now) {
        NextSend::At(at) => return Some(at),
        NextSend::Done => {
            state.finish(clock.monotonic_ns());
            let total = Some(sender_total(flow.id, &state));
            let total = match &flow.echo {
                Some(echo) => total.and_then(|total| echo.finished(total, now)),
                None => total,
            };
            // First, so that the receiver learns how much was sent.
            if let Some(total) = total {
                let _ = flow.events.send(FlowEvent::SenderDone(total));
            }
            let lost = flow.unreachable.take();
            if let Some((since, error)) = lost.filter(|l| now.saturating_sub(l.0) > BRIEF_NS) {
                let seconds = now.saturating_sub(since) as f64 / 1e9;
                let text = format!("{NO_ROUTE} for the last {seconds:.1} s: {error}");
                let _ = flow.events.send(FlowEvent::Failed(flow.id, text));
            }
            return None;
        }
        NextSend::Now(count) => count,
    };
    if let Some(sent) = flow.socket.send_frames(count.min(FRAMES)) {
        match sent {
            Ok(0) => {
                state.waits(now);
                flow.is_retrying = true;
                return Some(now + FRAME_RETRY_NS);
            }
            Ok(count) => {
                flow.is_retrying = false;
                state.sent_frames(count, now);
                state.scheduled(class);
                return Some(next_due(&mut state, now));
            }
            Err(error) => {
                state.stop();
                let _ = flow.events.send(FlowEvent::Failed(flow.id, error.to_string()));
                return Some(now);
            }
        }
    }
    let payload = state.payload();
    let ring = ring(&state, flow.content, flow.seed, &flow.prefix, &mut flow.own_ring, rings);
    let segments = segments_per_message(payload, flow.max_segments);
    let most = if flow.max_segments > 1 { MESSAGES * segments } else { PLAIN_BATCH };
    let (bytes, count) = state.fill(ring, count.min(most as u32), now);
    let segment = (segments > 1).then_some(payload as u16);
    let mut filling = batch.fill();
    if payload == 0 || !state.has_one_size() {
        for i in 0..count as usize {
            let _ = filling.push(&bytes[i * payload..][..state.size(i)], None, None);
        }
    } else {
        for message in bytes.chunks(segments * payload) {
            // It has room: `most` is its capacity.
            let _ = filling.push(message, segment, None);
        }
    }
    let messages = filling.remaining();
    match flow.socket.send_batch(&mut filling) {
        Ok(sent) => {
            flow.unreachable = None;
            flow.is_retrying = false;
            let datagrams =
                if sent.messages == messages { count } else { (sent.messages * segments) as u32 };
            state.sent(datagrams, sent.messages as u32, now);
            state.called(1);
            state.scheduled(class);
            Some(next_due(&mut state, now))
        }
        Err(error) => match SendFault::of(&error) {
            SendFault::WouldBlock | SendFault::NoBuffers => {
                state.called(1);
                state.waits(now);
                flow.is_retrying = true;
                Some(now + RETRY_NS)
            }
            SendFault::SegmentationUnsupported | SendFault::Invalid if flow.max_segments > 1 => {
                // Older kernels segment fewer datagrams per send; some paths none.
                flow.max_segments = if flow.max_segments > FEW_SEGMENTS { FEW_SEGMENTS } else { 1 };
                Some(now)
            }
            SendFault::Unreachable => {
                state.called(1);
                flow.is_retrying = true;
                let since = flow.unreachable.get_or_insert((now, error)).0;
                if now.saturating_sub(since) <= UNREACHABLE_NS {
                    return Some(now + 10 * RETRY_NS);
                }
                state.stop();
                Some(now)
            }
            // The peer's socket is closed for now: the control connection shows whether it stays so.
            SendFault::Refused => {
                state.called(1);
                state.refused();
                flow.is_retrying = true;
                Some(now + 10 * RETRY_NS)
            }
            _ => {
                flow.unreachable = None;
                state.stop();
                let _ = flow.events.send(FlowEvent::Failed(
                    flow.id,
                    format!("sending {payload} bytes of payload: {error}"),
                ));
                Some(now)
            }
        },
    }
}
