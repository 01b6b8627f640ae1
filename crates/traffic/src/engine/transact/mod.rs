//! The worker of transactions: the client's requests, the server's responses, and a connection for each transaction where
//! the shape demands one. What is sent next, and how long it took, is [`Transacting`]'s; sockets are here.

mod client;
mod connect;
mod datagrams;
mod echo;
mod framed;
mod lone;
mod server;
#[cfg(test)]
mod tests;
mod transfer;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, Mutex};

use weir_flow::{Failure, MAX_MESSAGE, PayloadRing, StreamPool, StreamReceiving, Transacting};
use weir_model::content::Content;
use weir_net::clock::{Clock, set_timer_slack};
use weir_net::poll::{Events as PollEvents, Interest};
use weir_net::socket::AsSocket;
use weir_net::udp::{RecvBatch, RecvMode};
use weir_net::waiting::{SPIN_NS, spin_until};

pub(crate) use connect::Dial;
pub(crate) use datagrams::Ports;
pub(crate) use framed::Framed;
use lone::Lone;
pub(crate) use server::Accepted;
pub(crate) use transfer::TransferRole;

use super::worker::{INBOX, Inbox, LOST};
use super::{ContentKey, Events, FlowEvent, Proof, content_key, lock, sender_total};
use crate::signals::Signals;
use crate::transport::{DatagramSocket, StreamSocket};

/// Housekeeping: intervals, timed messages, the end of a server's wait.
const TICK_NS: u64 = 50_000_000;
/// Bytes per read of a stream.
const READ_BYTES: usize = 64 << 10;
/// Datagrams per call, and calls for one socket before the others are served.
const BATCH: usize = 8;
const TURN: usize = 16;
/// Datagrams up to this size use the small batch, whose buffers stay in the cache.
const SMALL_BYTES: usize = 2048;
/// Delay before a failed send or connect is repeated.
const RETRY_NS: u64 = 1_000_000;
/// Maximum number of cached contents, 192 KiB each.
const MAX_POOLS: usize = 16;
/// Maximum number of cached payload rings, at most half a MiB each.
const MAX_RINGS: usize = 16;
/// Bytes per write, and of a content: no datagram is longer.
const WRITE_BYTES: usize = 64 << 10;
/// First token of the connections of single transactions; those of flows count from 1.
const FIRST_CONNECTION: u64 = 1 << 48;

/// The socket of a flow; where each transaction has a connection, the one that stays open for the whole flow.
pub(crate) enum Link {
    Stream(Arc<dyn StreamSocket>),
    Datagrams {
        socket: Arc<dyn DatagramSocket>,
        signals: Box<dyn Signals>,
        /// Proof that the client still wants responses that are longer than their requests; required by a server.
        proof: Option<Proof>,
    },
    /// None: each transaction has a connection, and the flow none of its own. The addresses of this end and of the peer.
    Absent([String; 2]),
}

/// What a flow's messages are exchanged on, and their headers where a session protocol has them.
pub(crate) struct Messages {
    pub(crate) link: Link,
    pub(crate) framed: Option<Box<Framed>>,
}

impl From<Link> for Messages {
    fn from(link: Link) -> Self {
        Messages { link, framed: None }
    }
}

impl Link {
    fn as_socket(&self) -> Option<&dyn AsSocket> {
        match self {
            Link::Stream(socket) => Some(&**socket),
            Link::Datagrams { socket, .. } => Some(&**socket),
            Link::Absent(_) => None,
        }
    }
}

/// The end of a flow.
pub(crate) enum Side {
    Client {
        state: Arc<Mutex<Transacting>>,
        /// How a connection is made for each transaction.
        dial: Option<Dialling>,
    },
    Server(Arc<Mutex<StreamReceiving>>),
}

/// How transactions get a socket each.
pub(crate) enum Dialling {
    Streams(Box<Dial>),
    Datagrams(Box<Ports>),
}

impl Dialling {
    fn ports(&self) -> Option<&Ports> {
        match self {
            Dialling::Streams(_) => None,
            Dialling::Datagrams(ports) => Some(ports),
        }
    }
}

/// A flow of transactions.
pub(crate) struct TransactFlow {
    pub(crate) id: u32,
    pub(crate) link: Link,
    pub(crate) side: Side,
    pub(crate) content: Content,
    pub(crate) seed: u64,
    /// Bytes of a request and of a response.
    pub(crate) request: usize,
    pub(crate) response: usize,
    /// Bytes of the number at the start of each datagram.
    pub(crate) number: usize,
    /// Where each connection carries a volume.
    pub(crate) transfers: Option<TransferRole>,
    /// The headers of messages on a stream, where a session protocol has them.
    pub(crate) framed: Option<Box<Framed>>,
    pub(crate) events: Events,
}

impl Drop for TransactFlow {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.events.send(FlowEvent::Failed(self.id, LOST.into()));
            let done = match &self.side {
                Side::Client { state, .. } => {
                    let mut state = lock(state);
                    state.stop();
                    FlowEvent::SenderDone(sender_total(self.id, state.sent_data()))
                }
                Side::Server(_) => FlowEvent::ReceiverDone(self.id),
            };
            let _ = self.events.send(done);
        }
    }
}

pub(super) enum Command {
    Add(u64, Box<TransactFlow>),
    /// A connection of a single transaction that the server has accepted.
    Accepted(u64, Box<Accepted>),
    Poke(u64),
    Remove(u64),
    /// Panics, as a bug would.
    #[cfg(test)]
    Panic,
}

/// What follows when a flow was served.
enum Outcome {
    /// Nothing has arrived for a worker that reads without the poller.
    Nothing,
    /// Nothing to send before this time.
    Later(u64),
    /// The socket has no room; the flow is served again when it has, or at this time. `reads`: input is read meanwhile.
    Blocked {
        reads: bool,
        at: u64,
    },
    /// Neither reads nor sends until this time.
    Paused(u64),
    /// The other sockets are served first.
    TurnOver,
    /// There is nothing more to do.
    Done,
    Failed(String),
}

struct Slot {
    flow: Box<TransactFlow>,
    /// The time of its valid heap entry.
    at: u64,
    /// What the poller waits for on the flow's socket.
    interest: Interest,
    done: bool,
    /// How it is read from without the poller: the worker waits in the receive call, or polls the socket.
    alone: Option<RecvMode>,
    /// Something was read since this was reset.
    has_read: bool,
    /// The poller reports only errors and the end.
    is_paused: bool,
    /// Bytes of a started request, or of responses, that are still to be written.
    left: u64,
    /// Bytes of an incomplete incoming message.
    have: u64,
    /// Numbers of datagrams that the socket had no room to answer.
    unanswered: VecDeque<[u8; 8]>,
    /// Since when the system has had no route to the server.
    unreachable_ns: Option<u64>,
    /// The connections of single transactions, by their tokens.
    connections: HashMap<u64, Connection>,
    /// When those of datagrams are served next.
    timers: Heap,
    /// What a client writes to each of them first: the preface, and the start of the request in the same segment.
    opening: Vec<u8>,
}

/// A connection of one transaction, at either end.
enum Connection {
    Dialled(connect::Dialled),
    Accepted(server::Serving),
    Transfer(transfer::Serving),
    Sent(Box<datagrams::Sent>),
}

type PoolKey = (ContentKey, u64, usize);

/// What all flows of a worker share.
struct Shared {
    pools: HashMap<PoolKey, Arc<StreamPool>>,
    /// The one used last.
    pool: Option<(PoolKey, Arc<StreamPool>)>,
    rings: HashMap<PoolKey, PayloadRing>,
    buffer: Vec<u8>,
    datagram: Vec<u8>,
    small: Option<RecvBatch>,
    large: Option<RecvBatch>,
    /// Flows of connections of single transactions.
    owners: HashMap<u64, u64>,
    next_connection: u64,
}

impl Shared {
    fn new() -> Shared {
        Shared {
            pools: HashMap::new(),
            pool: None,
            rings: HashMap::new(),
            buffer: vec![0; READ_BYTES],
            datagram: vec![],
            small: None,
            large: None,
            owners: HashMap::new(),
            next_connection: 0,
        }
    }

    /// Up to [`WRITE_BYTES`] of the content of a flow's messages.
    fn pool(&mut self, flow: &TransactFlow) -> Arc<StreamPool> {
        let most = match flow.transfers {
            Some(_) => WRITE_BYTES,
            None => flow.request.max(flow.response).min(WRITE_BYTES),
        };
        let key = (content_key(flow.content), flow.seed, most);
        if let Some((_, pool)) = self.pool.as_ref().filter(|(last, _)| *last == key) {
            return pool.clone();
        }
        // A cache: sessions choose their seeds, and a busy worker would collect pools forever.
        if self.pools.len() >= MAX_POOLS && !self.pools.contains_key(&key) {
            self.pools.clear();
        }
        let new = || Arc::new(StreamPool::new(flow.content, flow.seed, most));
        let pool = self.pools.entry(key).or_insert_with(new).clone();
        self.pool = Some((key, pool.clone()));
        pool
    }

    /// The content of a flow's datagrams of `payload` bytes.
    fn ring(&mut self, flow: &TransactFlow, payload: usize) -> &mut PayloadRing {
        let key = (content_key(flow.content), flow.seed, payload);
        if self.rings.len() >= MAX_RINGS && !self.rings.contains_key(&key) {
            self.rings.clear();
        }
        let new = || PayloadRing::new(flow.content, flow.seed, payload);
        self.rings.entry(key).or_insert_with(new)
    }

    /// A batch for datagrams of up to `bytes`, and the buffer of those to send.
    fn batch(&mut self, bytes: usize) -> (&mut RecvBatch, &mut Vec<u8>) {
        let batch = match bytes <= SMALL_BYTES {
            true => self.small.get_or_insert_with(|| RecvBatch::new(BATCH, SMALL_BYTES)),
            false => self.large.get_or_insert_with(|| RecvBatch::new(BATCH, MAX_MESSAGE + 64)),
        };
        (batch, &mut self.datagram)
    }

    fn connection_token(&mut self, flow: u64) -> u64 {
        self.next_connection += 1;
        let token = FIRST_CONNECTION + self.next_connection;
        self.owners.insert(token, flow);
        token
    }
}

type Heap = BinaryHeap<Reverse<(u64, u64)>>;

/// What a worker needs to serve a flow.
struct Context<'w> {
    shared: Shared,
    heap: Heap,
    /// Room for the flows that are due: times and tokens.
    due: Vec<(u64, u64)>,
    inbox: &'w Inbox<Command>,
    clock: &'w Clock,
}

impl<'w> Context<'w> {
    fn new(inbox: &'w Inbox<Command>, clock: &'w Clock) -> Self {
        Context { shared: Shared::new(), heap: Heap::new(), due: vec![], inbox, clock }
    }
}

/// `spin_ns`: how long the socket of an only flow is polled before the worker sleeps.
pub(super) fn work(inbox: &Inbox<Command>, clock: &Clock, spin_ns: u64) {
    let _ = set_timer_slack(1);
    let mut flows: HashMap<u64, Slot> = HashMap::new();
    let mut events = PollEvents::new(256);
    let mut context = Context::new(inbox, clock);
    let mut next_tick = 0u64;
    let mut lone = Lone::new(spin_ns);
    loop {
        if !lone.serve(&mut flows, &mut context) {
            let before = clock.monotonic_ns();
            let timeout = timeout(before, &flows, &mut context, next_tick);
            let _ = inbox.poller.wait(&mut events, timeout);
            let waited = clock.monotonic_ns().saturating_sub(before);
            lone.woke(waited, events.iter().any(|event| event.token != INBOX));
            on_events(&events, &mut flows, &mut context);
        }
        loop {
            match inbox.commands.try_recv() {
                Ok(Command::Add(token, flow)) => {
                    add(token, flow, &mut flows, &mut context);
                    next_tick = 0;
                }
                Ok(Command::Accepted(token, accepted)) => {
                    if let Some(slot) = flows.get_mut(&token) {
                        server::accept(token, slot, *accepted, &mut context);
                    }
                }
                Ok(Command::Poke(token)) => {
                    if let Some(slot) = flows.get_mut(&token).filter(|slot| !slot.done) {
                        serve(token, slot, false, &mut context);
                    }
                }
                Ok(Command::Remove(token)) => {
                    if let Some(mut slot) = flows.remove(&token) {
                        retire(&mut slot, &mut context);
                    }
                    if flows.is_empty() {
                        context.shared.pools.clear();
                        context.shared.pool = None;
                        context.shared.rings.clear();
                        context.heap.clear();
                    }
                }
                #[cfg(test)]
                Ok(Command::Panic) => panic!("asked to"),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        serve_due(&mut flows, &mut context, SPIN_NS);
        let now = clock.monotonic_ns();
        if now >= next_tick {
            next_tick = now + TICK_NS;
            for slot in flows.values_mut() {
                tick(slot, now);
                close_silent(slot, now, &mut context);
            }
        }
    }
}

/// Serves the flows with events.
fn on_events(events: &PollEvents, flows: &mut HashMap<u64, Slot>, context: &mut Context) {
    for event in events.iter() {
        if event.token == INBOX {
            context.inbox.waker.clear();
            continue;
        }
        if let Some(owner) = context.shared.owners.get(&event.token).copied() {
            if let Some(slot) = flows.get_mut(&owner) {
                connection_event(owner, slot, event.token, context);
            }
            continue;
        }
        let Some(slot) = flows.get_mut(&event.token) else { continue };
        let is_readable = event.readable || event.error || event.hang_up;
        serve(event.token, slot, is_readable, context);
        if !context.heap.is_empty() {
            // Requests at a rate must not wait for the turns of all others.
            serve_due(flows, context, 0);
        }
    }
}

/// How long to wait for events: until the first deadline or the next housekeeping.
fn timeout(
    now: u64,
    flows: &HashMap<u64, Slot>,
    context: &mut Context,
    next_tick: u64,
) -> Option<u64> {
    if flows.is_empty() {
        return None;
    }
    let due = next_due(flows, context).map_or(u64::MAX, |at| at.saturating_sub(SPIN_NS));
    Some(due.min(next_tick).saturating_sub(now))
}

/// The first deadline of a flow.
fn next_due(flows: &HashMap<u64, Slot>, context: &mut Context) -> Option<u64> {
    while let Some(Reverse((at, token))) = context.heap.peek().copied() {
        if flows.get(&token).is_some_and(|slot| slot.at == at) {
            return Some(at);
        }
        context.heap.pop();
    }
    None
}

fn add(token: u64, flow: Box<TransactFlow>, flows: &mut HashMap<u64, Slot>, context: &mut Context) {
    let added = match flow.link.as_socket() {
        Some(socket) => context.inbox.poller.add(socket, token, Interest::READ),
        None => Ok(()),
    };
    if let Err(e) = added {
        let text = format!("waiting for messages: {e}");
        let _ = flow.events.send(FlowEvent::Failed(flow.id, text));
        return;
    }
    let opening = match &flow.side {
        Side::Client { dial: Some(Dialling::Streams(dial)), .. } => {
            let pool = context.shared.pool(&flow);
            let preface = dial.preface.as_ref().map_or(&[][..], |preface| &preface[..]);
            [preface, pool.at(0, flow.request.min(WRITE_BYTES))].concat()
        }
        _ => vec![],
    };
    let begun = flow.framed.as_ref().map_or(0, |framed| framed.length());
    let slot = Slot {
        opening,
        flow,
        at: u64::MAX,
        interest: Interest::READ,
        done: false,
        alone: None,
        has_read: false,
        is_paused: false,
        left: 0,
        have: begun as u64,
        unanswered: VecDeque::new(),
        unreachable_ns: None,
        connections: HashMap::new(),
        timers: Heap::new(),
    };
    serve(token, flows.entry(token).insert_entry(slot).into_mut(), false, context);
}

/// Serves flows that are due, and spins for those due within `spin_ns`. What is due again then waits for what the sockets have:
/// under load, messages of the peer would never be read.
fn serve_due(flows: &mut HashMap<u64, Slot>, context: &mut Context, spin_ns: u64) {
    let mut due = std::mem::take(&mut context.due);
    while let Some(Reverse((at, token))) = context.heap.peek().copied() {
        if at > context.clock.monotonic_ns() + spin_ns {
            break;
        }
        context.heap.pop();
        due.push((at, token));
    }
    for (at, token) in due.drain(..) {
        let Some(slot) = flows.get_mut(&token).filter(|s| s.at == at && !s.done) else { continue };
        spin_until(context.clock, at);
        slot.at = u64::MAX;
        serve(token, slot, false, context);
    }
    context.due = due;
}

/// Serves a flow until its socket is full or empty, its turn is over, or its next deadline.
fn serve(token: u64, slot: &mut Slot, is_readable: bool, context: &mut Context) {
    if slot.done {
        // Its hang-up would be reported forever.
        forget(&slot.flow.link, context);
        return;
    }
    let outcome = match (&slot.flow.side, &slot.flow.link) {
        (Side::Client { dial: Some(Dialling::Streams(_)), .. }, _) => {
            connect::serve(token, slot, is_readable, context)
        }
        (Side::Client { dial: Some(Dialling::Datagrams(_)), .. }, _) => {
            datagrams::serve(token, slot, is_readable, context)
        }
        (Side::Client { .. }, Link::Stream(_)) => client::stream(slot, is_readable, context),
        (Side::Client { .. }, Link::Datagrams { .. }) => {
            client::datagrams(slot, is_readable, context)
        }
        (Side::Server(_), Link::Stream(_)) if slot.flow.framed.is_some() => {
            framed::serve(slot, is_readable, context)
        }
        (Side::Server(_), Link::Stream(_)) => server::stream(slot, is_readable, context),
        (Side::Server(_), Link::Datagrams { .. }) => server::datagrams(slot, is_readable, context),
        // Its connections are served by themselves.
        (_, Link::Absent(_)) => Outcome::Later(u64::MAX),
    };
    slot.is_paused = matches!(outcome, Outcome::Paused(_));
    match outcome {
        Outcome::Nothing => {}
        Outcome::Paused(at) => {
            wake_at(at, token, slot, context);
            set_interest(slot, token, context, Interest::default());
        }
        Outcome::Later(at) => {
            wake_at(at, token, slot, context);
            set_interest(slot, token, context, Interest::READ);
        }
        Outcome::Blocked { reads, at } => {
            wake_at(at, token, slot, context);
            // Input that is not read would be reported without end.
            let interest = Interest { readable: reads, ..Interest::WRITE };
            set_interest(slot, token, context, interest);
        }
        Outcome::TurnOver => {
            // The poller reports what is left of incoming data; a sender continues in its next turn.
            slot.at = context.clock.monotonic_ns();
            context.heap.push(Reverse((slot.at, token)));
        }
        Outcome::Done => slot.done = true,
        Outcome::Failed(text) => {
            slot.done = true;
            end_early(&slot.flow, context.clock.monotonic_ns());
            let _ = slot.flow.events.send(FlowEvent::Failed(slot.flow.id, text));
        }
    }
    if slot.done {
        retire(slot, context);
    }
}

/// Serves the connection of one transaction.
fn connection_event(owner: u64, slot: &mut Slot, token: u64, context: &mut Context) {
    match slot.connections.get_mut(&token) {
        Some(Connection::Dialled(_)) => {
            connect::advance(slot, token, context);
            if !slot.done {
                // Another transaction may be due.
                serve(owner, slot, false, context);
            }
        }
        Some(Connection::Sent(_)) => {
            datagrams::advance(slot, token, context);
            if !slot.done {
                serve(owner, slot, false, context);
            }
        }
        Some(Connection::Accepted(_)) => server::advance(slot, token, context),
        Some(Connection::Transfer(_)) => transfer::serve(slot, token, context),
        None => {}
    }
}

/// Serves a flow at a time, unless it is served before.
fn wake_at(at: u64, token: u64, slot: &mut Slot, context: &mut Context) {
    // An earlier deadline that is set already wakes up in vain: timeouts move with each response.
    if at < slot.at {
        slot.at = at;
        context.heap.push(Reverse((at, token)));
    }
}

/// Sets what the poller waits for; a system call is made only on a change.
fn set_interest(slot: &mut Slot, token: u64, context: &Context, interest: Interest) {
    if slot.interest != interest {
        slot.interest = interest;
        if let Some(socket) = slot.flow.link.as_socket() {
            let _ = context.inbox.poller.modify(socket, token, interest);
        }
    }
}

/// Stops waiting for a flow's own socket.
fn forget(link: &Link, context: &Context) {
    if let Some(socket) = link.as_socket() {
        let _ = context.inbox.poller.remove(socket);
    }
}

/// Closes accepted connections whose request does not arrive.
fn close_silent(slot: &mut Slot, now: u64, context: &mut Context) {
    slot.connections.retain(|token, connection| {
        let is_silent = match &*connection {
            Connection::Dialled(_) | Connection::Sent(_) => false,
            Connection::Accepted(serving) => serving.is_silent(now),
            Connection::Transfer(serving) => serving.is_silent(now),
        };
        if !is_silent {
            return true;
        }
        context.shared.owners.remove(token);
        let _ = context.inbox.poller.remove(connection.socket());
        false
    });
}

/// Stops waiting for a flow's sockets, and closes the connections of its transactions.
fn retire(slot: &mut Slot, context: &mut Context) {
    forget(&slot.flow.link, context);
    for (token, connection) in slot.connections.drain() {
        context.shared.owners.remove(&token);
        let _ = context.inbox.poller.remove(connection.socket());
    }
}

impl Connection {
    fn socket(&self) -> &dyn AsSocket {
        match self {
            Connection::Dialled(dialled) => &*dialled.socket,
            Connection::Accepted(serving) => &*serving.accepted.socket,
            Connection::Transfer(serving) => serving.socket(),
            Connection::Sent(sent) => &sent.socket,
        }
    }
}

/// Ends a client that can't continue, and reports what it has sent.
fn end_early(flow: &TransactFlow, now: u64) {
    if let Side::Client { state, .. } = &flow.side {
        let mut state = lock(state);
        state.stop();
        state.fail_all(Failure::Closed);
        state.finish(now);
        let total = sender_total(flow.id, state.sent_data());
        let _ = flow.events.send(FlowEvent::SenderDone(total));
    }
}

/// Handles intervals, timed messages, and the end of a server's wait.
fn tick(slot: &mut Slot, now: u64) {
    let flow = &mut slot.flow;
    if let Link::Datagrams { socket, signals, .. } = &mut flow.link {
        signals.tick(&**socket, now);
    }
    match &flow.side {
        // A client that waits is not served, but its intervals end.
        Side::Client { state, .. } => lock(state).advance(now.saturating_sub(TICK_NS)),
        Side::Server(state) => {
            let mut state = lock(state);
            state.advance(now.saturating_sub(TICK_NS));
            if !slot.done && state.is_over(now) {
                slot.done = true;
                let _ = flow.events.send(FlowEvent::ReceiverDone(flow.id));
            }
        }
    }
}
