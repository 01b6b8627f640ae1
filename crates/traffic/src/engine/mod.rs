//! The threads that move data: as many workers of each kind as processors, each with many flows. One flow and ten
//! thousand use the same code.
//!
//! A worker owns the sockets that it waits for. A flow's counters are behind a mutex that is hardly ever contended,
//! so that intervals can be read while the test runs.

mod echo;
mod gathering;
mod priority;
mod receive;
mod send;
mod stream;
#[cfg(test)]
mod tests;
mod transact;
mod transfers;
mod worker;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use weir_flow::{Asked, Sending};
use weir_model::content::Content;
use weir_model::warning::{Severity, Warning};
use weir_net::clock::Clock;
pub(crate) use weir_net::thread::lock;
use weir_wire::control::SenderTotal;

pub(crate) use echo::{AwaitedEcho, EchoBack, EchoRole};
pub(crate) use priority::{asked, check as check_scheduling};
pub(crate) use receive::{ReceiveFlow, count};
pub(crate) use send::{NO_ROUTE, Proof, SendFlow};
pub(crate) use stream::{StreamFlow, StreamRole, TcpSamples};
pub(crate) use transact::{
    Accepted, Dial, Dialling, Framed, Link, Messages, Ports, Side, TransactFlow, TransferRole,
};
pub(crate) use transfers::TransferCounts;
use worker::Worker;

use crate::TrafficError;

/// What a worker reports to the session of a flow, by the flow's number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowEvent {
    /// The sender has finished.
    SenderDone(SenderTotal),
    /// The receiver has accounted for everything, or has waited long enough for the rest.
    ReceiverDone(u32),
    /// A message among the data announces the end of the far sender ([`Signal::End`](crate::session::Signal::End)).
    SenderEnded(u32),
    /// The flow can't continue, with the reason.
    Failed(u32, String),
    /// A data connection or UDP flow of the server has arrived.
    Ready(u32),
}

/// Channel of flow events.
pub(crate) type Events = tokio::sync::mpsc::UnboundedSender<FlowEvent>;

/// Longest time that a datagram waits to be read; a longer one by the stamps is a step of the clock.
const MAX_WAIT_NS: u64 = 1_000_000_000;

/// Width of a bracket from which on the clocks are read again: the thread was preempted.
const WIDE_NS: u64 = 1_000;

/// When a datagram with this stamp of the kernel arrived, by the monotonic clock; `None` after a step of the clock.
pub(crate) fn arrived_ns(clock: &Clock, kernel_realtime_ns: u64) -> Option<u64> {
    let bracket = clock.bracket_within(WIDE_NS);
    let waited = bracket.realtime_ns.checked_sub(clock.kernel_stamp_ns(kernel_realtime_ns));
    let waited = waited.filter(|waited| *waited < MAX_WAIT_NS)?;
    Some((bracket.before_ns + bracket.width_ns() / 2).saturating_sub(waited))
}

/// Totals that a sender reports at its end.
fn sender_total(flow: u32, state: &Sending) -> SenderTotal {
    let (packets, bytes) = state.total();
    let omitted_packets = state.omitted_packets();
    SenderTotal { flow, packets, bytes, omitted_packets, end_ns: state.end_offset_ns() }
}

/// Key of a payload content in the workers' caches: kind and parameter.
pub(crate) type ContentKey = (u8, u128);

fn content_key(content: Content) -> ContentKey {
    match content {
        Content::Random => (0, 0),
        Content::Zeros => (1, 0),
        Content::Ascii => (2, 0),
        Content::Ratio(ratio) => (3, ratio.to_bits().into()),
        Content::Prbs(prbs) => (4, prbs.order().into()),
        Content::File => (u8::MAX, 0),
        Content::Pattern(pattern) => {
            let bytes = pattern.bytes();
            let value = bytes.iter().fold(0, |value, &byte| value << 8 | u128::from(byte));
            (4 + bytes.len() as u8, value)
        }
    }
}

/// The worker that serves a flow, and the flow's token there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkerSlot {
    role: Role,
    worker: usize,
    token: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Send,
    Receive,
    Stream,
    Transact,
}

/// Warnings that concern the host's clocks, raised by the workers.
pub(crate) type Notes = Arc<Mutex<Vec<Warning>>>;

/// All workers.
pub(crate) struct Engine {
    senders: Vec<Worker<send::Command>>,
    receivers: Vec<Worker<receive::Command>>,
    streams: Vec<Worker<stream::Command>>,
    transactions: Vec<Worker<transact::Command>>,
    /// The next flow's token.
    next: AtomicUsize,
    /// Flows of each role so far. A flow may have a sender and a receiver: one count for both would give all senders
    /// the same worker.
    placed: [AtomicUsize; 4],
    clock: Clock,
    notes: Notes,
}

impl Engine {
    /// Starts as many workers of each kind as there are processors: those of `cpus`, else those of this process.
    pub(crate) fn start(
        cpus: Option<&[usize]>,
        asked: impl Into<Asked>,
        clock: Clock,
    ) -> Result<Engine, TrafficError> {
        let own = || weir_net::thread::allowed_cpus().map_or(1, |c| c.len());
        Engine::new(cpus.map_or_else(own, <[usize]>::len), cpus, asked, clock)
    }

    /// Starts the workers: `count` of each kind, pinned to `cpus` in turn if given. `asked`: scheduling and spinning
    /// requested for senders of datagrams.
    pub(crate) fn new(
        count: usize,
        cpus: Option<&[usize]>,
        asked: impl Into<Asked>,
        clock: Clock,
    ) -> Result<Engine, TrafficError> {
        let cpu = |i: usize| cpus.filter(|c| !c.is_empty()).map(|c| c[i % c.len()]);
        let (notes, asked) = (Notes::default(), asked.into());
        let (mut senders, mut receivers) = (vec![], vec![]);
        let (mut streams, mut transactions) = (vec![], vec![]);
        for i in 0..count.max(1) {
            let c = clock.clone();
            senders.push(Worker::start(&format!("weir-tx-{i}"), cpu(i), move |inbox| {
                send::work(inbox, &c, asked)
            })?);
            let (c, n) = (clock.clone(), notes.clone());
            // Receivers are pinned in reverse order: with two processors, a flow's sender and receiver get one each.
            receivers.push(Worker::start(
                &format!("weir-rx-{i}"),
                cpu(count - 1 - i),
                move |inbox| receive::work(inbox, &c, &n),
            )?);
            let c = clock.clone();
            streams.push(Worker::start(&format!("weir-tcp-{i}"), cpu(i), move |inbox| {
                stream::work(inbox, &c)
            })?);
            let c = clock.clone();
            transactions.push(Worker::start(&format!("weir-rr-{i}"), cpu(i), move |inbox| {
                transact::work(inbox, &c, asked.spin_ns.unwrap_or(0))
            })?);
        }
        Ok(Engine {
            senders,
            receivers,
            streams,
            transactions,
            next: AtomicUsize::new(1),
            placed: Default::default(),
            clock,
            notes,
        })
    }

    /// The clock of the engine and its workers.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Warnings about this host's clocks so far; a session reports those raised since it started.
    pub(crate) fn notes(&self) -> Vec<Warning> {
        lock(&self.notes).clone()
    }

    fn slot(&self, role: Role) -> WorkerSlot {
        let token = self.next.fetch_add(1, Ordering::Relaxed) as u64;
        let placed = self.placed[role as usize].fetch_add(1, Ordering::Relaxed);
        WorkerSlot { role, worker: placed % self.senders.len(), token }
    }

    pub(crate) fn add_sender(&self, flow: SendFlow) -> WorkerSlot {
        let mut slot = self.slot(Role::Send);
        if flow.socket.send_frames(0).is_some() {
            // In turn by one thread: two would overrun the one queue of a virtual link.
            slot.worker = 0;
        }
        self.senders[slot.worker].tell(send::Command::Add(slot.token, Box::new(flow)));
        slot
    }

    pub(crate) fn add_receiver(&self, flow: ReceiveFlow) -> WorkerSlot {
        let slot = self.slot(Role::Receive);
        self.receivers[slot.worker].tell(receive::Command::Add(slot.token, Box::new(flow)));
        slot
    }

    /// Adds a stream. `leaves_room`: half of the workers serve such streams, since another program on this host has the
    /// other end.
    pub(crate) fn add_stream(&self, flow: StreamFlow, leaves_room: bool) -> WorkerSlot {
        let mut slot = self.slot(Role::Stream);
        if leaves_room {
            slot.worker %= self.streams.len().div_ceil(2);
        }
        self.streams[slot.worker].tell(stream::Command::Add(slot.token, Box::new(flow)));
        slot
    }

    pub(crate) fn add_transactions(&self, flow: TransactFlow) -> WorkerSlot {
        let slot = self.slot(Role::Transact);
        self.transactions[slot.worker].tell(transact::Command::Add(slot.token, Box::new(flow)));
        slot
    }

    /// Hands over a connection of one transaction to the worker of its flow.
    pub(crate) fn accept(&self, slot: WorkerSlot, accepted: Accepted) {
        let command = transact::Command::Accepted(slot.token, Box::new(accepted));
        self.transactions[slot.worker].tell(command);
    }

    /// Has the worker serve a flow whose state has changed.
    pub(crate) fn poke(&self, slot: WorkerSlot) {
        match slot.role {
            Role::Send => self.senders[slot.worker].tell(send::Command::Poke(slot.token)),
            Role::Receive => self.receivers[slot.worker].tell(receive::Command::Poke(slot.token)),
            Role::Stream => self.streams[slot.worker].tell(stream::Command::Poke(slot.token)),
            Role::Transact => {
                self.transactions[slot.worker].tell(transact::Command::Poke(slot.token));
            }
        }
    }

    /// Removes the flow; its socket closes when its last owner drops it.
    pub(crate) fn remove(&self, slot: WorkerSlot) {
        match slot.role {
            Role::Send => self.senders[slot.worker].tell(send::Command::Remove(slot.token)),
            Role::Receive => self.receivers[slot.worker].tell(receive::Command::Remove(slot.token)),
            Role::Stream => self.streams[slot.worker].tell(stream::Command::Remove(slot.token)),
            Role::Transact => {
                self.transactions[slot.worker].tell(transact::Command::Remove(slot.token));
            }
        }
    }
}

/// A step of the realtime clock, as a warning.
fn clock_step(by_ns: i64) -> Warning {
    Warning::new(
        "clock-stepped",
        Severity::Warning,
        format!(
            "the host's realtime clock was stepped by {:.6} s during the run: kernel receive stamps of packets read at that moment are off by as much, or not used",
            by_ns as f64 / 1e9
        ),
    )
    .with_value(by_ns as f64 / 1e9, 0.0)
}
