//! The thread of one direction: receives, applies the laws, sends, and waits for the next frame or deadline.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;

use weir_flow::{Class, Demand, WakeupLatency, Waking, waking};
use weir_impair::{ImpairError, Prepared, Retired};
use weir_link::{Receive, ReceiveStatistics, Transmit};
use weir_model::impairment::Impairment;
use weir_net::clock::{Clock, set_timer_slack, thread_cpu_ns};
use weir_net::poll::{Events, Interest, Poller, Waker};
use weir_net::thread::{allowed_cpus, lock, set_name, set_normal, try_fifo};

use crate::config::{Scheduling, is_timed};
use crate::datapath::{Datapath, MAX};
use crate::drops::Drops;
use crate::error::EmulatorError;
use crate::recording::Recorder;
use crate::report::LinkReport;
use crate::sharing::{Handed, Inbox, Owners, Passed, Receiving};
use crate::snapshot::Snapshot;

const FRAMES: u64 = 0;
const ORDERS: u64 = 1;
/// How long before a deadline a thread wakes to spin, unless it learned otherwise or spins too much under SCHED_FIFO.
const SPIN_NS: u64 = 60_000;
/// Interval of checking the load, the packet trace and the counters.
const TICK_NS: u64 = 50_000_000;
/// Ticks between two readings of the kernel's drop counters.
const TICKS_BETWEEN_COUNTERS: u32 = 10;
/// How long to wait for room in a full link.
const FULL_NS: u64 = 20_000;
/// CPU use, spinning apart, above which a thread leaves SCHED_FIFO, so that it starves no other thread; it returns below half of it.
const FIFO_LOAD: f64 = 0.6;
/// Frames looked for in a receive ring at the end: more than any ring of the kernel holds.
const MAX_LEFT: u64 = 1 << 22;
/// As paced senders of tests.
pub(crate) const FIFO_PRIORITY: u8 = 10;
/// Number of processors from which on a real-time thread may spin for as many deadlines as there are.
const SPINNING_CPUS: usize = 3;

/// An order to a direction.
// Orders are few; a boxed configuration would be freed on the data path.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Order {
    /// Another configuration, and whether anything in it depends on the arrival time.
    Configure {
        prepared: Prepared,
        owners: Owners,
        timed: bool,
        number: u64,
        reply: SyncSender<Result<Applied, ImpairError>>,
    },
    /// A copy of the counters.
    Report(SyncSender<Snapshot>),
    /// A new period of counting for a flow, or for all; answers whether there is such a flow.
    Reset { flow: Option<String>, reply: SyncSender<bool> },
    /// Triggers a flow, or all, by command; answers how many triggers waited for one.
    Trigger { flow: Option<String>, reply: SyncSender<usize> },
    /// Starts a capture or log.
    Record { recorder: Recorder, reply: SyncSender<()> },
    /// Ends captures and logs by their ids; the receiver of the answer closes them.
    EndRecordings { ids: Vec<u64>, reply: SyncSender<Vec<Recorder>> },
    /// Includes a flow in the packet trace, or excludes it; answers whether there is such a flow.
    Trace { flow: Option<String>, on: bool, reply: SyncSender<bool> },
    /// Starts counting dropped datagrams for this watch.
    Watch { id: u64, reply: SyncSender<()> },
    /// The datagrams dropped since a watch started, with the names of the flows by number.
    Drops { id: u64, reply: SyncSender<(Drops, Vec<String>)> },
    /// Ends a watch.
    Unwatch(u64),
    /// Sends a frame of the emulator itself.
    Send(Vec<u8>),
    /// Receives no more, and ends when all queued packets have left, or at this time.
    Drain { until_ns: u64 },
}

/// A configuration was applied.
pub(crate) struct Applied {
    pub(crate) at_ns: u64,
    /// The former configuration, to be dropped by the receiver of the answer.
    _before: (Retired, Arc<Impairment>),
}

/// Orders for a direction.
pub(crate) struct Mailbox {
    /// `None` once the direction has ended.
    orders: Mutex<Option<VecDeque<Order>>>,
    waiting: AtomicBool,
    abort: AtomicBool,
    /// Packets that other workers of the direction pass to this one.
    inbox: Inbox,
    waker: Waker,
}

impl Mailbox {
    /// Passes an order; an order to a direction that has ended is dropped, and its answer never arrives.
    pub(crate) fn post(&self, order: Order) {
        if let Some(orders) = &mut *lock(&self.orders) {
            orders.push_back(order);
        }
        self.waiting.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Waiting callers get an error instead of an answer. Returns the number of packets that were not taken.
    fn close(&self) -> u64 {
        *lock(&self.orders) = None;
        self.inbox.close()
    }

    /// Passes packets from another worker.
    fn hand_over(&self, packets: &mut Handed) -> Passed {
        let passed = self.inbox.put(packets);
        if passed == (Passed::Taken { wakes: true }) {
            self.waker.wake();
        }
        passed
    }

    /// Ends the direction at its next turn.
    pub(crate) fn abort(&self) {
        self.abort.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// Marks the direction as ended when dropped, also after a panic.
struct Over {
    mailbox: Arc<Mailbox>,
    status: Arc<DirectionStatus>,
}

impl Drop for Over {
    fn drop(&mut self) {
        self.mailbox.close();
        self.status.ended.store(true, Ordering::Release);
    }
}

/// Status of a direction that is readable without an order.
#[derive(Debug, Default)]
pub(crate) struct DirectionStatus {
    pub(crate) held_bytes: AtomicU64,
    pub(crate) memory_bytes: AtomicU64,
    pub(crate) unplanned_packets: AtomicU64,
    pub(crate) late_packets: AtomicU64,
    pub(crate) clock_steps: AtomicU64,
    /// Frames without room in the slabs.
    pub(crate) memory_dropped_packets: AtomicU64,
    /// CPU use of the thread, 1/1000 of a processor.
    pub(crate) load_permille: AtomicU64,
    pub(crate) fifo: AtomicBool,
    pub(crate) ended: AtomicBool,
}

/// The result of a direction.
pub(crate) struct DirectionResult {
    pub(crate) snapshot: Snapshot,
    pub(crate) error: Option<EmulatorError>,
}

/// The workers of a direction by number, once they run.
pub(crate) type Workers = Arc<OnceLock<Vec<Arc<Mailbox>>>>;

/// The parts of a worker of a direction.
pub(crate) struct DirectionParts {
    pub(crate) name: String,
    pub(crate) datapath: Datapath,
    pub(crate) config: Arc<Impairment>,
    /// When the emulator started.
    pub(crate) started_ns: u64,
    pub(crate) from: Box<dyn Receive>,
    /// Frames that the receive ring may hold.
    pub(crate) ring_frames: u64,
    pub(crate) to: Box<dyn Transmit>,
    pub(crate) scheduling: Scheduling,
    pub(crate) status: Arc<DirectionStatus>,
    /// Number of this worker.
    pub(crate) worker: u8,
    /// All workers of this direction.
    pub(crate) workers: Workers,
    /// Those of the other direction: they send messages to where packets of this one come from.
    pub(crate) opposite: Workers,
    pub(crate) receiving: Receiving,
}

/// A running worker.
pub(crate) struct Running {
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) thread: JoinHandle<DirectionResult>,
}

/// Starts the thread.
pub(crate) fn spawn(parts: DirectionParts) -> Result<Running, EmulatorError> {
    let failed = |operation| move |source| EmulatorError::System { operation, source };
    let poller = Poller::new().map_err(failed("wait for frames"))?;
    let waker = Waker::new(&poller, ORDERS).map_err(failed("make a waker"))?;
    poller.add(parts.from.fd(), FRAMES, Interest::READ).map_err(failed("wait for frames"))?;
    let mailbox = Arc::new(Mailbox {
        orders: Mutex::new(Some(VecDeque::new())),
        waiting: AtomicBool::new(false),
        abort: AtomicBool::new(false),
        inbox: Inbox::new(),
        waker,
    });
    let own = mailbox.clone();
    let thread = std::thread::Builder::new()
        .name(format!("weir-{}", parts.name))
        .spawn(move || Worker::new(parts, own, poller).run())
        .map_err(failed("start a thread"))?;
    Ok(Running { mailbox, thread })
}

/// The end was requested.
struct Draining {
    /// Deadline.
    until_ns: u64,
    /// Reads of the receive ring that may still be needed to empty it of what was there at the request.
    looks: u64,
}

struct Worker {
    parts: DirectionParts,
    mailbox: Arc<Mailbox>,
    poller: Poller,
    events: Events,
    clock: Clock,
    timed: bool,
    can_fifo: bool,
    fifo: bool,
    cpus: usize,
    /// How long before a deadline the thread wakes to spin.
    latency: WakeupLatency,
    /// The last deadline that it waited for, and the number of them since the last tick.
    waited_for: (u64, u32),
    /// The last turn, if it spun, and the time spent spinning since the last tick, ns.
    spun: (Option<u64>, u64),
    draining: Option<Draining>,
    next_tick_ns: u64,
    ticks: u32,
    /// Frames in the receive ring at the end.
    left_behind: u64,
    /// The receiving link's counters when last read.
    received: ReceiveStatistics,
    /// Monotonic and CPU time at the last tick.
    last_tick: (u64, u64),
    /// Room for packets from other workers.
    handed: Handed,
}

impl Worker {
    fn new(parts: DirectionParts, mailbox: Arc<Mailbox>, poller: Poller) -> Self {
        Worker {
            timed: is_timed(&parts.config),
            can_fifo: parts.scheduling == Scheduling::Auto,
            parts,
            mailbox,
            poller,
            events: Events::new(4),
            clock: Clock::System,
            fifo: false,
            cpus: allowed_cpus().map_or(1, |cpus| cpus.len()),
            latency: WakeupLatency::new(Waking::normal(SPIN_NS)),
            waited_for: (0, 0),
            spun: (None, 0),
            draining: None,
            next_tick_ns: 0,
            ticks: 0,
            left_behind: 0,
            received: ReceiveStatistics::default(),
            last_tick: (0, 0),
            handed: Handed::default(),
        }
    }

    fn run(mut self) -> DirectionResult {
        let _over = Over { mailbox: self.mailbox.clone(), status: self.parts.status.clone() };
        set_name(&format!("weir-{}", self.parts.name));
        // If refused, sleeps are late by the default slack, which the lateness shows.
        let _ = set_timer_slack(1);
        let now = self.clock.monotonic_ns();
        self.parts.datapath.arm(self.parts.started_ns);
        self.last_tick = (now, thread_cpu_ns());
        self.next_tick_ns = now + TICK_NS;
        self.schedule(0.0);
        let error = self.work().err();
        self.parts.datapath.abandon();
        self.leave_behind();
        self.parts.to.finish();
        self.left_behind += self.mailbox.close() + self.parts.datapath.drop_untaken();
        let snapshot = self.snapshot();
        self.parts.datapath.close_records();
        self.publish(0.0);
        DirectionResult { snapshot, error: error.map(EmulatorError::from) }
    }

    fn work(&mut self) -> weir_link::Result<()> {
        loop {
            if self.mailbox.waiting.swap(false, Ordering::Acquire) {
                self.obey();
            }
            if self.mailbox.abort.load(Ordering::Acquire) {
                return Ok(());
            }
            let accepts = self.accept();
            let taken = self.take_in()?;
            let now = self.clock.monotonic_ns();
            let due = self.parts.datapath.next_deadline_ns().is_some_and(|at| at <= now);
            if taken > 0 || due || accepts {
                self.parts.datapath.judge(now);
                self.post_messages();
            }
            self.pass_on();
            if self.parts.datapath.waiting() > 0 {
                let clock = &self.clock;
                self.parts
                    .datapath
                    .send_out(self.parts.to.as_mut(), &mut || clock.monotonic_ns())?;
            }
            if now >= self.next_tick_ns {
                self.tick(now);
            }
            if let Some(Draining { until_ns, looks }) = self.draining {
                if looks == 0 && self.parts.datapath.untaken() == 0 {
                    self.parts.receiving.end();
                }
                let datapath = &self.parts.datapath;
                let is_empty = self.parts.receiving.is_over()
                    && !self.mailbox.inbox.has_some()
                    && datapath.held_packets() == 0
                    && datapath.waiting() == 0;
                if now >= until_ns || is_empty {
                    return Ok(());
                }
            }
            if taken == 0 && !accepts {
                self.wait(now);
            } else {
                self.spun.0 = None;
            }
        }
    }

    /// Takes packets from other workers, unless too much waits to leave; returns whether there were any.
    fn accept(&mut self) -> bool {
        if !self.mailbox.inbox.has_some() || self.parts.datapath.is_link_full() {
            return false;
        }
        self.mailbox.inbox.take(&mut self.handed);
        self.parts.datapath.accept(&mut self.handed);
        true
    }

    /// Passes packets to the workers that judge them, as far as these have room.
    fn pass_on(&mut self) {
        let Some(workers) = self.parts.workers.get() else { return };
        for (worker, packets) in self.parts.datapath.outgoing() {
            if let Passed::Ended(lost) = workers[worker].hand_over(packets) {
                self.left_behind += lost;
            }
        }
    }

    /// Passes messages to senders to the direction that sends to them.
    fn post_messages(&mut self) {
        for frame in self.parts.datapath.take_messages() {
            if let Some(opposite) = self.parts.opposite.get() {
                opposite[usize::from(self.parts.worker)].post(Order::Send(frame));
            }
        }
    }

    /// Receives frames; once the end was requested, those that had arrived by then.
    fn take_in(&mut self) -> weir_link::Result<usize> {
        let datapath = &mut self.parts.datapath;
        if self.draining.as_ref().is_some_and(|draining| draining.looks == 0) {
            return Ok(0);
        }
        let is_full = datapath.is_full();
        let taken = datapath.take_in(self.parts.from.as_mut())?;
        if let Some(draining) = &mut self.draining
            && !is_full
        {
            // Fewer than the maximum: the ring was empty.
            draining.looks = if taken < MAX { 0 } else { draining.looks - 1 };
        }
        Ok(taken)
    }

    /// Counts the frames in the receive ring at the end that will not be received.
    fn leave_behind(&mut self) {
        for _ in 0..self.looks() {
            match self.parts.datapath.discard(self.parts.from.as_mut()) {
                Ok((entries, frames)) => {
                    self.left_behind += frames as u64;
                    if entries < MAX {
                        return;
                    }
                }
                // The interface was removed, with the frames in its ring.
                Err(_) => return,
            }
        }
    }

    /// Number of reads that cover the whole ring.
    fn looks(&self) -> u64 {
        self.parts.ring_frames.min(MAX_LEFT) / MAX as u64 + 1
    }

    /// Waits for a frame, an order, a deadline or the tick.
    fn wait(&mut self, now: u64) {
        let mut until = self.next_tick_ns;
        if let Some(draining) = &self.draining {
            until = until.min(draining.until_ns);
        }
        let is_waiting = self.parts.datapath.waiting() > 0 || self.parts.datapath.untaken() > 0;
        if is_waiting {
            until = until.min(now + FULL_NS);
        }
        let spin_ns = self.latency.spin_ns();
        if let Some(deadline) = self.parts.datapath.next_deadline_ns() {
            if self.waited_for.0 != deadline {
                self.waited_for = (deadline, self.waited_for.1 + 1);
            }
            if deadline <= now + spin_ns {
                // So near that a sleep would miss it: spin, watching the ring.
                self.spun.1 += self.spun.0.map_or(0, |before| now.saturating_sub(before));
                self.spun.0 = Some(now);
                std::hint::spin_loop();
                return;
            }
            until = until.min(deadline - spin_ns);
        }
        self.spun.0 = None;
        let ns = until.saturating_sub(now);
        if ns == 0 {
            return;
        }
        match self.poller.wait(&mut self.events, Some(ns)) {
            Ok(0) => self.latency.woke(self.clock.monotonic_ns().saturating_sub(until)),
            Ok(_) => {
                for event in self.events.iter() {
                    if event.token == ORDERS {
                        self.mailbox.waker.clear();
                    }
                }
            }
            // If polling fails, sleep, so as not to spin without end.
            Err(_) => self.clock.sleep_until(until.min(now + 1_000_000)),
        }
        // The link or another worker is full, and the ring is left alone although readable: let others run.
        if is_waiting {
            std::thread::yield_now();
        }
    }

    fn obey(&mut self) {
        let orders = match &mut *lock(&self.mailbox.orders) {
            Some(orders) => std::mem::take(orders),
            None => return,
        };
        for order in orders {
            match order {
                Order::Configure { prepared, owners, timed, number, reply } => {
                    let now = self.clock.monotonic_ns();
                    let config = prepared.config().clone();
                    let done = self.parts.datapath.configure(prepared, owners, number, now).map(
                        |retired| {
                            self.timed = timed;
                            let before = std::mem::replace(&mut self.parts.config, config);
                            self.schedule(0.0);
                            Applied { at_ns: now, _before: (retired, before) }
                        },
                    );
                    let _ = reply.try_send(done);
                }
                Order::Report(reply) => {
                    self.parts.datapath.flush_records();
                    let snapshot = self.snapshot();
                    let _ = reply.try_send(snapshot);
                }
                Order::Reset { flow, reply } => {
                    let now = self.clock.monotonic_ns();
                    let _ = reply.try_send(self.parts.datapath.reset(flow.as_deref(), now));
                }
                Order::Trigger { flow, reply } => {
                    let now = self.clock.monotonic_ns();
                    let _ = reply.try_send(self.parts.datapath.trigger(flow.as_deref(), now));
                }
                Order::Trace { flow, on, reply } => {
                    let _ = reply.try_send(self.parts.datapath.trace(flow.as_deref(), on));
                }
                Order::Record { recorder, reply } => {
                    self.parts.datapath.recorders().add(recorder);
                    let _ = reply.try_send(());
                }
                Order::EndRecordings { ids, reply } => {
                    let recorders = self.parts.datapath.recorders();
                    let removed = ids.iter().filter_map(|id| recorders.remove(*id)).collect();
                    let _ = reply.try_send(removed);
                }
                Order::Watch { id, reply } => {
                    self.parts.datapath.watch(id);
                    let _ = reply.try_send(());
                }
                Order::Drops { id, reply } => {
                    let datapath = &self.parts.datapath;
                    let _ =
                        reply.try_send((datapath.drops(id).unwrap_or_default(), datapath.names()));
                }
                Order::Send(frame) => {
                    let now = self.clock.monotonic_ns();
                    self.parts.datapath.send_message(&frame, now);
                }
                Order::Unwatch(id) => self.parts.datapath.unwatch(id),
                Order::Drain { until_ns } => {
                    if self.draining.is_none() {
                        // If it fails, the poller simply does not wait for it.
                        let _ = self.poller.remove(self.parts.from.fd());
                        self.draining = Some(Draining { until_ns, looks: self.looks() });
                    }
                }
            }
        }
    }

    fn tick(&mut self, now: u64) {
        let cpu = thread_cpu_ns();
        let wall = now.saturating_sub(self.last_tick.0).max(1);
        let load = cpu.saturating_sub(self.last_tick.1) as f64 / wall as f64;
        self.last_tick = (now, cpu);
        self.next_tick_ns = now + TICK_NS;
        // Spinning is limited by itself, and says nothing about the work.
        let spun = std::mem::take(&mut self.spun.1) as f64 / wall as f64;
        self.schedule((load - spun).max(0.0));
        self.limit_spinning(wall);
        self.parts.datapath.flush_records();
        self.publish(load);
    }

    /// Takes real-time priority while deadlines matter and the work, a fraction of a processor, leaves time to others.
    fn schedule(&mut self, work: f64) {
        let wanted = self.timed
            && self.can_fifo
            && if self.fifo { work < FIFO_LOAD } else { work < FIFO_LOAD / 2.0 };
        if wanted && !self.fifo {
            self.fifo = try_fifo(FIFO_PRIORITY).is_ok();
            self.can_fifo = self.fifo;
        } else if !wanted && self.fifo {
            self.fifo = set_normal().is_err();
        }
    }

    /// Spins no more under SCHED_FIFO than leaves processor time to others, by the number of deadlines since the last tick,
    /// which was `wall_ns` ago.
    fn limit_spinning(&mut self, wall_ns: u64) {
        let deadlines = std::mem::take(&mut self.waited_for.1);
        let before = self.latency.waking();
        if !self.fifo {
            self.latency.limit(Waking::normal(SPIN_NS));
            return;
        }
        // Without deadlines nothing is known of their number.
        if deadlines == 0 && before.class == Class::Fifo {
            return;
        }
        let per_second = f64::from(deadlines.max(1)) * 1e9 / wall_ns as f64;
        let demand = Demand { processors: 0.0, wakeups_per_second: per_second };
        let wanted = waking(weir_flow::Scheduling::Auto, demand, self.cpus, SPIN_NS);
        self.latency.limit(match wanted.class {
            Class::Fifo => wanted,
            Class::Normal if self.cpus >= SPINNING_CPUS => Waking { class: Class::Fifo, ..wanted },
            Class::Normal => Waking { class: Class::Fifo, min_spin_ns: 0, max_spin_ns: 0 },
        });
    }

    fn publish(&mut self, load: f64) {
        let status = &self.parts.status;
        let set = |to: &AtomicU64, value| to.store(value, Ordering::Relaxed);
        set(&status.held_bytes, self.parts.datapath.memory_used_bytes());
        set(&status.memory_bytes, self.parts.config.memory_bytes());
        set(&status.late_packets, self.parts.datapath.late_packets());
        set(&status.load_permille, (load * 1000.0) as u64);
        status.fifo.store(self.fifo, Ordering::Relaxed);
        if self.ticks.is_multiple_of(TICKS_BETWEEN_COUNTERS) {
            let link = self.link();
            let unplanned = self.parts.datapath.unplanned_packets() + link.unplanned_packets();
            set(&self.parts.status.unplanned_packets, unplanned);
            set(&self.parts.status.clock_steps, link.clock_steps);
            set(&self.parts.status.memory_dropped_packets, link.memory_dropped_packets);
        }
        self.ticks = self.ticks.wrapping_add(1);
    }

    fn link(&mut self) -> LinkReport {
        // A removed interface may not answer: the last answer is used.
        self.received = self.parts.from.statistics().unwrap_or(self.received);
        let received = self.received;
        let sent = self.parts.to.statistics();
        LinkReport {
            kernel_dropped_packets: received.kernel_drops,
            oversized_packets: received.oversized,
            memory_dropped_packets: received.slab_drops + self.parts.datapath.unaccepted(),
            unusable_packets: received.unusable,
            refused_packets: sent.refused,
            driver_dropped_packets: sent.dropped,
            left_behind_packets: self.left_behind,
            super_packets: received.super_packets,
            sent_super_packets: sent.super_packets,
            times_full: sent.times_full,
            clock_steps: received.clock_steps,
            cpu_nanoseconds: thread_cpu_ns(),
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        let link = self.link();
        let times_ns = [self.parts.started_ns, self.clock.monotonic_ns()];
        // Changes that are due although no packet has arrived since.
        self.parts.datapath.follow_timeline(times_ns[1], &mut []);
        let mut snapshot = self.parts.datapath.snapshot(self.parts.config.clone(), link, times_ns);
        snapshot.held_packets += self.mailbox.inbox.packets();
        snapshot
    }
}
