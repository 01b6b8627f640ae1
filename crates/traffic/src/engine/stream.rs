//! The worker of streams, either direction, on non-blocking sockets.

mod echo;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, Mutex};

use weir_flow::{AlignedBytes, BusyTimes, Limits, NextSend, Sending, StreamPool, StreamReceiving};
use weir_model::content::Content;
use weir_model::plan::Alignment;
use weir_model::record::{LimitedBy, TcpSample};
use weir_net::clock::{Clock, set_timer_slack};
use weir_net::poll::{Events as PollEvents, Interest};
use weir_net::tcp::{MemFile, TcpInfo};
use weir_net::waiting::{SPIN_NS, spin_until};

use super::worker::{INBOX, Inbox, LOST};
use super::{ContentKey, Events, FlowEvent, content_key, lock, sender_total};
use crate::framing::Framer;
use crate::server::SharedFile;
use crate::transport::StreamSocket;

/// Housekeeping: TCP information, intervals.
const TICK_NS: u64 = 50_000_000;
/// Interval at which TCP information is stored.
const SAMPLE_NS: u64 = 250_000_000;
/// Maximum number of samples of a flow; above it, every other one is dropped and the interval doubles.
const MAX_SAMPLES: usize = 2400;
/// Maximum number of cached contents, up to 17 MiB each.
const MAX_POOLS: usize = 16;
/// Bytes per read: source and destination together fit a processor's second-level cache.
const READ_BYTES: usize = 64 << 10;
/// Bytes per read where the kernel discards the data.
const DISCARD_BYTES: usize = 256 << 10;
/// Bytes that one flow of several sends before the others are served. Longer turns fill the socket's buffer, and its data
/// leaves the cache before it is received (measured on two processors: 16 MiB cost a sixth of the rate with 16 streams;
/// 256 KiB and more an eighth with 8 streams that iperf3 receives).
const SHARED_TURN_BYTES: usize = 128 << 10;
/// The same of a receiver, and of a flow that is alone: some milliseconds at the rates that reach it. Where receivers take
/// shorter turns, the data is no longer in the cache (measured with 16 streams: 4 MiB cost a tenth of the rate, 1 MiB a
/// quarter).
const TURN_BYTES: usize = 16 << 20;
/// Bytes of either without copies, where the cache does not matter: the shorter turn was faster (16 streams, 25 rounds: 1.06
/// against 1.02 of iperf3's rate).
const TURN_BYTES_UNCOPIED: usize = 4 << 20;

/// TCP information over time.
#[derive(Debug, Default)]
pub(crate) struct TcpSamples {
    pub(crate) samples: Vec<TcpSample>,
    every_ns: u64,
    next_ns: u64,
    last: Option<TcpInfo>,
}

/// The role of a stream.
pub(crate) enum StreamRole {
    Send {
        state: Arc<Mutex<Sending>>,
        content: Content,
        seed: u64,
        zero_copy: bool,
        align: Option<Alignment>,
        samples: Arc<Mutex<TcpSamples>>,
        /// It leaves its direction open when it has finished.
        stays_open: bool,
        /// Each write begins with a header of the session protocol.
        framing: Option<Mutex<Framer>>,
        /// What comes back, if the receiver sends it back: the flow has finished sending when all of it has arrived.
        echo: Option<Arc<Mutex<StreamReceiving>>>,
    },
    Receive {
        state: Arc<Mutex<StreamReceiving>>,
        /// It reads at most this many bytes at a time, and at most [`READ_BYTES`].
        read_bytes: usize,
        discard: bool,
        align: Option<Alignment>,
        /// It sends back what it receives.
        echoes: bool,
        /// What it receives is stored there.
        file: Option<SharedFile>,
    },
}

/// A stream.
pub(crate) struct StreamFlow {
    pub(crate) id: u32,
    pub(crate) socket: Arc<dyn StreamSocket>,
    pub(crate) role: StreamRole,
    pub(crate) events: Events,
}

impl Drop for StreamFlow {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.events.send(FlowEvent::Failed(self.id, LOST.into()));
            let done = match &self.role {
                StreamRole::Send { state, .. } => {
                    let mut state = lock(state);
                    state.stop();
                    FlowEvent::SenderDone(sender_total(self.id, &state))
                }
                StreamRole::Receive { .. } => FlowEvent::ReceiverDone(self.id),
            };
            let _ = self.events.send(done);
        }
    }
}

/// A socket that is only watched for its end.
const NO_INTEREST: Interest = Interest { readable: false, writable: false, edge: false };

pub(super) enum Command {
    Add(u64, Box<StreamFlow>),
    Poke(u64),
    Remove(u64),
    /// Panics, as a bug would.
    #[cfg(test)]
    Panic,
}

struct Slot {
    flow: Box<StreamFlow>,
    /// The time of its valid heap entry.
    at: u64,
    /// The planned end of a sender that has been without room, which is in the heap too.
    ends_at: u64,
    /// Remaining bytes of a started write.
    left: usize,
    /// A part of that write was accepted.
    is_partial: bool,
    interest: Interest,
    done: bool,
    /// What there is of an echo, at either end.
    echo: echo::Progress,
}

struct Shared {
    pools: HashMap<(ContentKey, u64, usize, Option<Alignment>), StreamPool>,
    files: HashMap<(ContentKey, u64), Arc<MemFile>>,
    /// Buffers of reads, and of writes whose content is not aligned in its pool.
    reads: Buffer,
    writes: Buffer,
    /// The worker has one flow.
    is_alone: bool,
}

/// A buffer, replaced when a flow needs a longer one or another alignment.
struct Buffer {
    bytes: AlignedBytes,
    align: Option<Alignment>,
}

impl Buffer {
    fn empty() -> Buffer {
        Buffer { bytes: AlignedBytes::new(0, None), align: None }
    }

    fn of(&mut self, length: usize, align: Option<Alignment>) -> &mut [u8] {
        if self.bytes.len() < length || align.is_some() && align != self.align {
            *self = Buffer { bytes: AlignedBytes::new(length, align), align };
        }
        &mut self.bytes[..length]
    }
}

/// Maximum length of the file that zero-copy sending takes from, which is a multiple of the content's period.
const FILE_BYTES: usize = 8 << 20;

pub(super) fn work(inbox: &Inbox<Command>, clock: &Clock) {
    let _ = set_timer_slack(1);
    let mut flows: HashMap<u64, Slot> = HashMap::new();
    let mut heap: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
    let mut events = PollEvents::new(256);
    let mut shared = Shared {
        pools: HashMap::new(),
        files: HashMap::new(),
        reads: Buffer::empty(),
        writes: Buffer::empty(),
        is_alone: true,
    };
    let mut next_tick = 0u64;
    loop {
        shared.is_alone = flows.len() <= 1;
        let now = clock.monotonic_ns();
        let mut timeout = if flows.is_empty() { None } else { Some(next_tick.saturating_sub(now)) };
        while let Some(Reverse((at, token))) = heap.peek().copied() {
            if flows.get(&token).is_some_and(|s| s.is_due_at(at)) {
                timeout = Some(
                    timeout.unwrap_or(u64::MAX).min(at.saturating_sub(now).saturating_sub(SPIN_NS)),
                );
                break;
            }
            heap.pop();
        }
        let _ = inbox.poller.wait(&mut events, timeout);
        for event in events.iter() {
            if event.token == INBOX {
                inbox.waker.clear();
                continue;
            }
            let Some(slot) = flows.get_mut(&event.token) else { continue };
            if slot.done {
                // A finished stream is removed, since its hang-up would be reported forever.
                let _ = inbox.poller.remove(&*slot.flow.socket);
                continue;
            }
            if matches!(slot.flow.role, StreamRole::Send { echo: None, .. })
                && !event.writable
                && (event.error || event.hang_up)
            {
                // It waits for a deadline and not for room: the end of the connection would be reported forever.
                broken(slot, clock);
                let _ = inbox.poller.remove(&*slot.flow.socket);
                continue;
            }
            serve(event.token, slot, &mut shared, &mut heap, inbox, clock);
            if !heap.is_empty() {
                // Paced streams must not wait for the turns of all others.
                serve_due(&mut flows, &mut shared, &mut heap, inbox, clock, 0);
            }
        }
        loop {
            match inbox.commands.try_recv() {
                Ok(Command::Add(token, flow)) => {
                    let interest = Interest { readable: flow.reads(), ..NO_INTEREST };
                    if let Err(e) = inbox.poller.add(&*flow.socket, token, interest) {
                        let _ = flow.events.send(FlowEvent::Failed(
                            flow.id,
                            format!("waiting for the stream: {e}"),
                        ));
                        continue;
                    }
                    let slot = Slot {
                        flow,
                        at: u64::MAX,
                        ends_at: u64::MAX,
                        left: 0,
                        is_partial: false,
                        interest,
                        done: false,
                        echo: echo::Progress::default(),
                    };
                    let slot = flows.entry(token).insert_entry(slot).into_mut();
                    serve(token, slot, &mut shared, &mut heap, inbox, clock);
                    next_tick = 0;
                }
                Ok(Command::Poke(token)) => {
                    if let Some(slot) = flows.get_mut(&token).filter(|s| !s.done) {
                        serve(token, slot, &mut shared, &mut heap, inbox, clock);
                    }
                }
                Ok(Command::Remove(token)) => {
                    if let Some(slot) = flows.remove(&token) {
                        let _ = inbox.poller.remove(&*slot.flow.socket);
                    }
                    if flows.is_empty() {
                        shared.pools.clear();
                        shared.files.clear();
                        shared.writes = Buffer::empty();
                        heap.clear();
                    }
                }
                #[cfg(test)]
                Ok(Command::Panic) => panic!("asked to"),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        serve_due(&mut flows, &mut shared, &mut heap, inbox, clock, SPIN_NS);
        let now = clock.monotonic_ns();
        if now >= next_tick {
            next_tick = now + TICK_NS;
            for slot in flows.values_mut() {
                tick(slot, now);
            }
        }
    }
}

/// Serves streams that are due, and spins for those due within `spin_ns`.
fn serve_due(
    flows: &mut HashMap<u64, Slot>,
    shared: &mut Shared,
    heap: &mut BinaryHeap<Reverse<(u64, u64)>>,
    inbox: &Inbox<Command>,
    clock: &Clock,
    spin_ns: u64,
) {
    while let Some(Reverse((at, token))) = heap.peek().copied() {
        if at > clock.monotonic_ns() + spin_ns {
            break;
        }
        heap.pop();
        let Some(slot) = flows.get_mut(&token).filter(|s| s.is_due_at(at) && !s.done) else {
            continue;
        };
        spin_until(clock, at);
        if slot.at == at {
            slot.at = u64::MAX;
        }
        serve(token, slot, shared, heap, inbox, clock);
    }
}

/// Serves a flow until its socket is full or empty, its turn is over, or its next deadline.
fn serve(
    token: u64,
    slot: &mut Slot,
    shared: &mut Shared,
    heap: &mut BinaryHeap<Reverse<(u64, u64)>>,
    inbox: &Inbox<Command>,
    clock: &Clock,
) {
    let outcome = match &slot.flow.role {
        StreamRole::Send { echo: Some(_), .. } => echo::send(slot, shared, clock),
        StreamRole::Send { .. } => send(slot, shared, clock),
        StreamRole::Receive { echoes: true, .. } => echo::receive(slot, shared, clock),
        StreamRole::Receive { .. } => receive(slot, shared, clock),
    };
    let reads = slot.flow.reads();
    let waits = |writable| match slot.flow.role {
        StreamRole::Send { .. } => Interest { readable: reads, writable, edge: false },
        // Input is not read while there is no room to send it back.
        StreamRole::Receive { .. } => {
            let is_full = !slot.echo.is_empty();
            Interest { readable: !is_full, writable: is_full, edge: false }
        }
    };
    match outcome {
        Outcome::Later(at) => {
            // A stream that also reads is served more often than it is due.
            if slot.at != at && at != u64::MAX {
                heap.push(Reverse((at, token)));
            }
            slot.at = at;
            let interest = waits(false);
            set_interest(slot, token, inbox, interest);
        }
        Outcome::Blocked | Outcome::TurnOver => {
            // A receiver that never makes room must not delay the end of the test.
            if let Some(end) = slot.flow.planned_end_ns().filter(|end| *end != slot.ends_at) {
                slot.ends_at = end;
                heap.push(Reverse((end, token)));
            }
            let interest = waits(true);
            set_interest(slot, token, inbox, interest);
        }
        Outcome::Done => slot.done = true,
        Outcome::Failed(text) => {
            slot.done = true;
            let _ = slot.flow.events.send(FlowEvent::Failed(slot.flow.id, text));
        }
    }
    if slot.done {
        let _ = inbox.poller.remove(&*slot.flow.socket);
    }
}

/// Fails a sender whose connection ended while it waited.
fn broken(slot: &mut Slot, clock: &Clock) {
    let StreamRole::Send { state, .. } = &slot.flow.role else { return };
    let reason = match slot.flow.socket.take_error() {
        Ok(Some(e)) => e.to_string(),
        _ => "it was closed by the receiver".into(),
    };
    slot.done = true;
    end_early(&slot.flow, &mut lock(state), clock.monotonic_ns());
    let text = format!("the stream broke: {reason}");
    let _ = slot.flow.events.send(FlowEvent::Failed(slot.flow.id, text));
}

/// Ends a sender that can't continue, and reports what it has sent.
fn end_early(flow: &StreamFlow, state: &mut Sending, now: u64) {
    state.stop();
    state.finish(now);
    let _ = flow.events.send(FlowEvent::SenderDone(sender_total(flow.id, state)));
}

enum Outcome {
    /// Nothing to do before this time.
    Later(u64),
    /// The socket is full or empty.
    Blocked,
    /// There is more to do.
    TurnOver,
    Done,
    Failed(String),
}

/// Sets what the poller waits for: room to write only while a sender has data. A system call is made only on a
/// change: a busy sender stays registered.
fn set_interest(slot: &mut Slot, token: u64, inbox: &Inbox<Command>, interest: Interest) {
    if slot.interest != interest {
        slot.interest = interest;
        let _ = inbox.poller.modify(&*slot.flow.socket, token, interest);
    }
}

fn send(slot: &mut Slot, shared: &mut Shared, clock: &Clock) -> Outcome {
    let flow = &slot.flow;
    let StreamRole::Send {
        state, content, seed, zero_copy, align, stays_open, framing, echo, ..
    } = &flow.role
    else {
        return Outcome::Done;
    };
    let mut state = lock(state);
    let most = state.payload();
    let supply = state.supply().cloned();
    let mut turn = 0;
    let turn_limit = match (*zero_copy, shared.is_alone) {
        (true, _) => TURN_BYTES_UNCOPIED,
        (false, true) => TURN_BYTES,
        (false, false) => SHARED_TURN_BYTES,
    };
    while turn < turn_limit {
        let now = clock.monotonic_ns();
        let next = match framing {
            // A receiver of frames could not use a part of one.
            Some(_) if slot.left > 0 => NextSend::Now(1),
            _ => state.next(now),
        };
        match next {
            NextSend::At(at) => return Outcome::Later(at),
            NextSend::Done => {
                // Covers streams shorter than the time between two samples.
                if let Some(info) = flow.socket.info() {
                    note(&mut state, &info);
                }
                state.finish(now);
                let closed = if *stays_open { Ok(()) } else { flow.socket.half_close() };
                let total = sender_total(flow.id, &state);
                if let (Some(echo), Ok(())) = (echo, &closed) {
                    slot.echo.sent(total, &mut lock(echo), now);
                    return Outcome::Later(u64::MAX);
                }
                let _ = flow.events.send(FlowEvent::SenderDone(total));
                return match closed {
                    Ok(()) => Outcome::Done,
                    Err(e) => Outcome::Failed(format!("closing the stream: {e}")),
                };
            }
            NextSend::Now(_) => {}
        }
        let begins = slot.left == 0;
        if begins {
            slot.left = state.write_length();
        }
        let position = state.position();
        let mut offered = slot.left;
        let result = if let Some(supply) = &supply {
            let part = supply.at(position, slot.left);
            offered = part.len();
            flow.socket.send(part)
        } else if *zero_copy {
            let file = match file(shared, *content, *seed) {
                Ok(file) => file,
                Err(e) => return Outcome::Failed(format!("memory for zero-copy sending: {e}")),
            };
            let offset = position % file.len();
            let left = usize::try_from(file.len() - offset).unwrap_or(usize::MAX);
            flow.socket.send_file(&file, offset, slot.left.min(left))
        } else {
            let key = (content_key(*content), *seed, most, *align);
            // A cache: sessions choose their seeds, and a busy worker would collect pools forever.
            if shared.pools.len() >= MAX_POOLS && !shared.pools.contains_key(&key) {
                shared.pools.clear();
            }
            let pool = shared
                .pools
                .entry(key)
                .or_insert_with(|| StreamPool::aligned(*content, *seed, most, *align));
            if let Some(framer) = framing {
                let mut framer = lock(framer);
                if begins {
                    framer.begin(state.total().0, slot.left, (pool, position), clock);
                }
                flow.socket.send(framer.rest(slot.left))
            } else {
                let bytes = pool.at(position, slot.left);
                match align.filter(|a| !slot.is_partial && a.padding(bytes.as_ptr().addr()) > 0) {
                    None => flow.socket.send(bytes),
                    Some(_) => {
                        let buffer = shared.writes.of(most, *align);
                        let aligned = &mut buffer[..bytes.len()];
                        aligned.copy_from_slice(bytes);
                        flow.socket.send(aligned)
                    }
                }
            }
        };
        match result {
            Ok(sent) => {
                slot.left -= sent;
                slot.is_partial = slot.left > 0;
                turn += sent;
                state.wrote(sent, slot.left == 0, now);
                state.called(1);
                if sent < offered && !*zero_copy {
                    // The socket is full: another call would only return an error.
                    state.waits(now);
                    return Outcome::Blocked;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                state.called(1);
                state.waits(now);
                return Outcome::Blocked;
            }
            Err(e) => {
                end_early(flow, &mut state, now);
                return Outcome::Failed(format!("writing to the stream: {e}"));
            }
        }
    }
    Outcome::TurnOver
}

fn file(shared: &mut Shared, content: Content, seed: u64) -> io::Result<Arc<MemFile>> {
    if let Some(file) = shared.files.get(&(content_key(content), seed)) {
        return Ok(file.clone());
    }
    if shared.files.len() >= MAX_POOLS {
        shared.files.clear();
    }
    let pool = StreamPool::new(content, seed, FILE_BYTES);
    let file = Arc::new(MemFile::new(pool.whole_periods(FILE_BYTES))?);
    shared.files.insert((content_key(content), seed), file.clone());
    Ok(file)
}

fn receive(slot: &mut Slot, shared: &mut Shared, clock: &Clock) -> Outcome {
    let flow = &slot.flow;
    let StreamRole::Receive { state, read_bytes, discard, align, file, .. } = &flow.role else {
        return Outcome::Done;
    };
    let buffer = shared.reads.of(READ_BYTES.min(*read_bytes), *align);
    let mut turn = 0;
    let mut state = lock(state);
    let turn_limit = if *discard { TURN_BYTES_UNCOPIED } else { TURN_BYTES };
    while turn < turn_limit {
        let discards = *discard && !state.wants_bytes();
        let (most, result) = if discards {
            (DISCARD_BYTES, flow.socket.recv_discard(DISCARD_BYTES))
        } else {
            (buffer.len(), flow.socket.recv(buffer))
        };
        match result {
            Ok(0) => {
                state.on_end();
                let _ = flow.events.send(FlowEvent::ReceiverDone(flow.id));
                return Outcome::Done;
            }
            Ok(n) => {
                turn += n;
                state.on_read(n, (!discards).then(|| &buffer[..n]), clock.monotonic_ns());
                if let Some(file) = file {
                    // A slow disk slows down the sender, as a slow program would.
                    lock(file).write(&buffer[..n]);
                }
                if n < most {
                    // It is empty now: the poller reports when there is more.
                    return Outcome::Blocked;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Outcome::Blocked,
            Err(e) => return Outcome::Failed(format!("reading from the stream: {e}")),
        }
    }
    Outcome::TurnOver
}

fn note(state: &mut Sending, info: &TcpInfo) {
    state.note_tcp(
        u64::from(info.total_retransmits),
        u64::from(info.cwnd_segments) * u64::from(info.send_mss_bytes),
        u64::from(info.rtt_us) * 1000,
    );
    if let Some(times) = busy_times(info) {
        state.note_busy(times);
    }
}

fn busy_times(info: &TcpInfo) -> Option<BusyTimes> {
    Some(BusyTimes {
        busy_us: info.busy_us?,
        receive_window_us: info.receive_window_limited_us?,
        send_buffer_us: info.send_buffer_limited_us?,
        is_application_limited: info.delivery_rate_app_limited,
    })
}

/// Handles intervals, samples of TCP information, and the end of a receiver's wait.
fn tick(slot: &mut Slot, now: u64) {
    let flow = &slot.flow;
    match &flow.role {
        StreamRole::Send { state, samples, echo, .. } => {
            if let Some(echo) = echo
                && let Some(total) = slot.echo.given_up(&mut lock(echo), now)
            {
                slot.done = true;
                let _ = flow.events.send(FlowEvent::SenderDone(total));
            }
            let mut state = lock(state);
            let info = flow.socket.info();
            info.iter().for_each(|info| note(&mut state, info));
            // A blocked sender is not served, but its intervals end.
            state.advance(now.saturating_sub(TICK_NS));
            if let Some(info) = info {
                // The kernel's figures of a stream that has finished sending say nothing of the path.
                if let Some(start) = state.log.start_ns()
                    && now >= start
                    && !state.has_finished()
                {
                    lock(samples).add(now - start, info);
                }
            }
        }
        StreamRole::Receive { state, .. } => {
            let mut state = lock(state);
            state.advance(now.saturating_sub(TICK_NS));
            if !slot.done && state.is_over(now) {
                slot.done = true;
                let _ = flow.events.send(FlowEvent::ReceiverDone(flow.id));
            }
        }
    }
}

impl TcpSamples {
    fn add(&mut self, at_ns: u64, info: TcpInfo) {
        if at_ns < self.next_ns {
            return;
        }
        if self.samples.len() >= MAX_SAMPLES {
            let mut n = 0;
            self.samples.retain(|_| {
                n += 1;
                n % 2 == 1
            });
            self.every_ns *= 2;
        }
        self.every_ns = self.every_ns.max(SAMPLE_NS);
        self.next_ns = at_ns + self.every_ns;
        self.samples.push(TcpSample {
            at_seconds: at_ns as f64 / 1e9,
            rtt_seconds: f64::from(info.rtt_us) / 1e6,
            rttvar_seconds: f64::from(info.rttvar_us) / 1e6,
            cwnd_bytes: u64::from(info.cwnd_segments) * u64::from(info.send_mss_bytes),
            retransmits: u64::from(info.total_retransmits),
            delivery_bits_per_second: info.delivery_rate_bytes_per_second.map(|r| 8.0 * r as f64),
            pacing_bits_per_second: info
                .pacing_rate_bytes_per_second
                .filter(|r| *r != u64::MAX)
                .map(|r| 8.0 * r as f64),
            limited_by: limited_by(self.last.as_ref(), &info),
        });
        self.last = Some(info);
    }
}

impl Slot {
    /// Whether a heap entry with this time is valid.
    fn is_due_at(&self, at: u64) -> bool {
        self.at == at || self.ends_at == at
    }
}

impl StreamFlow {
    /// When a sender ends by its duration.
    fn planned_end_ns(&self) -> Option<u64> {
        match &self.role {
            StreamRole::Send { state, .. } => {
                Some(lock(state).end_ns()).filter(|end| *end < u64::MAX)
            }
            StreamRole::Receive { .. } => None,
        }
    }

    /// Whether this end reads the stream.
    fn reads(&self) -> bool {
        matches!(self.role, StreamRole::Receive { .. } | StreamRole::Send { echo: Some(_), .. })
    }
}

/// What limited the stream since the sample before.
fn limited_by(before: Option<&TcpInfo>, now: &TcpInfo) -> Option<LimitedBy> {
    let mut limits = Limits::default();
    limits.add(&busy_times(before?)?, &busy_times(now)?);
    limits.limited_by()
}
