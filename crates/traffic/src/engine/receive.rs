//! The worker that receives datagrams: data of receiving flows, and messages from the peers of sending flows.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, Mutex};

use weir_flow::Receiving;
use weir_model::plan::Direction;
use weir_net::clock::{Clock, set_timer_slack};
use weir_net::poll::{Events as PollEvents, Interest};
use weir_net::udp::RecvBatch;
use weir_stats::{ClockReading, RealtimeMap};

use super::echo::EchoRole;
use super::gathering::{GATHER, Gathering, Round};
use super::transfers::TransferCounts;
use super::worker::{INBOX, Inbox, LOST};
use super::{Events, FlowEvent, Notes, clock_step, lock};
use crate::log::PacketLog;
use crate::signals::{Signal, Signals};
use crate::transport::{DatagramSocket, FlowCounts};

/// Housekeeping: intervals, overdue packets, feedback.
const TICK_NS: u64 = 50_000_000;
/// How long after the end of an interval the counts of a program are read: the program has then seen that end.
const AFTER_INTERVAL_NS: u64 = 1_000_000;
/// Interval at which the realtime clock is related to the monotonic one again.
const REFIT_NS: u64 = 1_000_000_000;
/// Deviation of the realtime clock above which it is checked for a step before a batch's stamps are used.
const STEP_NS: u64 = 1_000_000;
/// Messages read per call.
const LARGE_MESSAGES: usize = 16;
const SMALL_MESSAGES: usize = 64;
/// Payloads up to this size use the small batch, whose buffers stay in the cache.
const SMALL_BYTES: usize = 2048;
/// Maximum number of sockets that one wait reports; above it, some sockets with datagrams are not reported.
const MAX_READY: usize = 4096;
/// Calls for one socket before the other sockets are served.
const TURN: usize = 16;

/// A flow that receives datagrams, or a sending flow that receives only its peer's messages.
pub(crate) struct ReceiveFlow {
    pub(crate) id: u32,
    pub(crate) socket: Arc<dyn DatagramSocket>,
    pub(crate) state: Option<Arc<Mutex<Receiving>>>,
    /// Largest datagram expected.
    pub(crate) payload: usize,
    pub(crate) coalesced: bool,
    /// Messages of the session protocol among the data; `None`: all datagrams are data.
    pub(crate) signals: Option<Box<dyn Signals>>,
    pub(crate) events: Events,
    pub(crate) log: Option<PacketLog>,
    pub(crate) direction: Direction,
    /// What it does about echoes, if the flow has any.
    pub(crate) echo: Option<EchoRole>,
    /// What it counts for transfers, if these are its data.
    pub(crate) transfers: Option<TransferCounts>,
}

impl ReceiveFlow {
    /// What is reported once the receiver has finished.
    fn done(&self) -> Option<FlowEvent> {
        match &self.echo {
            Some(EchoRole::Await(echo)) => echo.over().map(FlowEvent::SenderDone),
            Some(EchoRole::Back(_)) | None => Some(FlowEvent::ReceiverDone(self.id)),
        }
    }
}

impl Drop for ReceiveFlow {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.events.send(FlowEvent::Failed(self.id, LOST.into()));
            if self.state.is_some()
                && let Some(done) = self.done()
            {
                let _ = self.events.send(done);
            }
        }
    }
}

pub(super) enum Command {
    Add(u64, Box<ReceiveFlow>),
    Poke(u64),
    Remove(u64),
    /// Panics, as a bug would.
    #[cfg(test)]
    Panic,
}

struct Slot {
    flow: Box<ReceiveFlow>,
    done: bool,
    /// Its socket may hold datagrams that arrived before the last wait.
    behind: bool,
    /// Data arrived on its socket that is counted by a program.
    has_strays: bool,
}

/// Converts kernel stamps to monotonic time.
#[derive(Default)]
struct Stamps {
    map: Option<RealtimeMap>,
    next_refit: u64,
}

impl Stamps {
    /// Relates the clocks again when a refit is due.
    fn refit(&mut self, clock: &Clock, now: u64, notes: &Notes) {
        if now >= self.next_refit {
            self.refit_now(clock, now, notes);
        }
    }

    /// Checks whether the realtime clock is where it should be at `now`, at the cost of one reading of it. If not,
    /// relates the clocks again; `false`: it was stepped, and stamps from before and after can't be distinguished and
    /// must not be used.
    fn check(&mut self, clock: &Clock, now: u64, notes: &Notes) -> bool {
        let Some(map) = &self.map else { return true };
        // A difference above `STEP_NS` may also mean that this thread was preempted between its two readings: then no
        // step is found.
        if map.to_monotonic(clock.realtime_ns()).abs_diff(now) <= STEP_NS {
            return true;
        }
        !self.refit_now(clock, now, notes)
    }

    /// Relates the clocks; whether the realtime clock was stepped since the last time.
    fn refit_now(&mut self, clock: &Clock, now: u64, notes: &Notes) -> bool {
        self.next_refit = now + REFIT_NS;
        let b = clock.bracket();
        let reading = ClockReading {
            monotonic_before_ns: b.before_ns,
            realtime_ns: b.realtime_ns,
            monotonic_after_ns: b.after_ns,
        };
        match &mut self.map {
            Some(map) => {
                if let Ok(Some(step)) = map.refit(reading) {
                    lock(notes).push(clock_step(step.by_ns));
                    return true;
                }
            }
            None => self.map = RealtimeMap::new(reading).ok(),
        }
        false
    }
}

pub(super) fn work(inbox: &Inbox<Command>, clock: &Clock, notes: &Notes) {
    let _ = set_timer_slack(1);
    let mut flows: HashMap<u64, Slot> = HashMap::new();
    let mut events = PollEvents::new(MAX_READY);
    let mut stamps = Stamps::default();
    let mut small: Option<RecvBatch> = None;
    let mut large: Option<RecvBatch> = None;
    let mut next_tick = 0u64;
    let mut gathering = Gathering::default();
    loop {
        let timeout = if flows.is_empty() {
            None
        } else {
            Some(next_tick.saturating_sub(clock.monotonic_ns()))
        };
        let before = clock.monotonic_ns();
        let _ = inbox.poller.wait(&mut events, timeout);
        stamps.refit(clock, before, notes);
        let all_named = events.iter().len() < MAX_READY;
        let mut round = Round::default();
        for event in events.iter() {
            if event.token == INBOX {
                inbox.waker.clear();
                continue;
            }
            let Some(slot) = flows.get_mut(&event.token) else { continue };
            let is_small = !slot.flow.coalesced && slot.flow.payload <= SMALL_BYTES;
            let batch = if is_small {
                small.get_or_insert_with(|| RecvBatch::new(SMALL_MESSAGES, SMALL_BYTES))
            } else {
                large.get_or_insert_with(|| RecvBatch::new(LARGE_MESSAGES, 65_536))
            };
            slot.behind = !receive(slot, batch, clock, &mut stamps, notes, &mut round);
        }
        loop {
            match inbox.commands.try_recv() {
                Ok(Command::Add(token, flow)) => {
                    if let Err(e) = inbox.poller.add(&*flow.socket, token, Interest::READ) {
                        let _ = flow.events.send(FlowEvent::Failed(
                            flow.id,
                            format!("waiting for datagrams: {e}"),
                        ));
                        continue;
                    }
                    flows.insert(
                        token,
                        Slot { flow, done: false, behind: false, has_strays: false },
                    );
                    next_tick = 0;
                }
                Ok(Command::Poke(token)) => {
                    if let Some(slot) = flows.get_mut(&token) {
                        let wanted = tick(slot, clock.monotonic_ns(), None);
                        next_tick = next_tick.min(wanted);
                    }
                }
                Ok(Command::Remove(token)) => {
                    if let Some(slot) = flows.remove(&token) {
                        let _ = inbox.poller.remove(&*slot.flow.socket);
                    }
                }
                #[cfg(test)]
                Ok(Command::Panic) => panic!("asked to"),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        let now = clock.monotonic_ns();
        if now >= next_tick {
            next_tick = now + TICK_NS;
            for slot in flows.values_mut() {
                // If the socket was drained, everything that arrived before the wait has been read.
                let read_until = (all_named && !slot.behind).then_some(before);
                next_tick = next_tick.min(tick(slot, now, read_until));
            }
        }
        if gathering.is_worth(&round, before) {
            std::thread::sleep(GATHER);
        }
    }
}

/// Reads a socket until it is empty or its turn is over; returns whether it is empty.
fn receive(
    slot: &mut Slot,
    batch: &mut RecvBatch,
    clock: &Clock,
    stamps: &mut Stamps,
    notes: &Notes,
    round: &mut Round,
) -> bool {
    let flow = &mut slot.flow;
    for _ in 0..TURN {
        let got = match flow.socket.recv_batch(batch) {
            Ok(got) => got,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
            // Reading a pending ICMP error clears it.
            Err(_) => continue,
        };
        // A datagram that is to come back must not wait for others.
        if !matches!(flow.echo, Some(EchoRole::Back(_))) {
            round.messages += got as u64;
        }
        let now = clock.monotonic_ns();
        let has_stamps = stamps.check(clock, now, notes);
        let map = stamps.map.as_ref().filter(|_| has_stamps);
        let mut state = flow.state.as_ref().map(|s| lock(s));
        if let Some(state) = &mut state {
            state.called(1);
        }
        let mut log = flow.log.as_ref().map(|l| lock(l));
        let mut echoed: Vec<&[u8]> = vec![];
        for message in batch.messages() {
            if let Some(transfers) = &mut flow.transfers
                && !transfers.is_data(message.data, message.from, now)
            {
                continue;
            }
            if message.segment_size.is_none()
                && let Some(signals) = &mut flow.signals
            {
                match signals.classify(&*flow.socket, message.data, now) {
                    Signal::Data => {}
                    Signal::Last => {
                        let _ = flow.events.send(FlowEvent::SenderEnded(flow.id));
                    }
                    Signal::Message => continue,
                    Signal::End => {
                        let _ = flow.events.send(FlowEvent::SenderEnded(flow.id));
                        continue;
                    }
                }
            }
            if let Some(EchoRole::Back(_)) = &flow.echo {
                echoed.extend(message.datagrams());
            }
            let Some(state) = &mut state else { continue };
            let at = match (message.kernel_realtime_ns, map) {
                // Not later than now: a stamp from before a step of the clock may be.
                (Some(stamp), Some(map)) => map.to_monotonic(clock.kernel_stamp_ns(stamp)).min(now),
                _ => {
                    state.timed_by_reading();
                    round.timed_by_reading += 1;
                    now
                }
            };
            // Requested only of datagrams that are sent as ECN-capable.
            if let Some(tos) = message.tos {
                state.note_ecn(tos, message.datagrams().count() as u64, at);
            }
            let coalesced =
                message.segment_size.is_some_and(|s| usize::from(s) < message.data.len());
            let segment = message.segment_size.map(usize::from);
            let (id, direction) = (flow.id, flow.direction);
            match (&mut log, &mut flow.transfers) {
                (None, None) => state.on_message(message.data, segment, at, |_| {}),
                (log, transfers) => state.on_message(message.data, segment, at, |l| {
                    if let Some(log) = log {
                        // A full disk is reported when the log is flushed; the test continues.
                        log.write(&l.record(id, direction, at, coalesced));
                    }
                    if let Some(transfers) = transfers {
                        transfers.counted(&l, message.from.port(), now);
                    }
                }),
            }
        }
        if let Some(state) = &state
            && state.strays() > 0
            && !slot.has_strays
        {
            slot.has_strays = true;
            let text = "datagrams of this flow arrive on another interface than that of the XDP program, and are not counted";
            let _ = flow.events.send(FlowEvent::Failed(flow.id, text.into()));
        }
        if let Some(state) = &state
            && !slot.done
            && state.is_complete()
        {
            slot.done = true;
            flow.done().into_iter().for_each(|done| {
                let _ = flow.events.send(done);
            });
        }
        drop(state);
        if let Some(EchoRole::Back(echo)) = &mut flow.echo {
            echo.send(&*flow.socket, &echoed);
        }
        if got < batch.capacity() {
            return true;
        }
    }
    false
}

/// Handles intervals, overdue packets and timed messages of one flow. Everything that arrived before `read_until` has
/// been read. Returns when it wants the next tick at the latest.
fn tick(slot: &mut Slot, now: u64, read_until: Option<u64>) -> u64 {
    let flow = &mut slot.flow;
    if let Some(signals) = &mut flow.signals {
        signals.tick(&*flow.socket, now);
    }
    let Some(state) = &flow.state else { return u64::MAX };
    let mut state = lock(state);
    let mut wanted = u64::MAX;
    if let Some(counter) = flow.socket.counter() {
        match count(counter, &mut state, now) {
            Ok(interval_end) => wanted = interval_end.saturating_add(AFTER_INTERVAL_NS),
            Err(error) => {
                let _ = flow.events.send(FlowEvent::Failed(flow.id, error.to_string()));
            }
        }
    } else if let Some(until) = read_until {
        state.advance(until);
    }
    if !slot.done && state.is_over(now) {
        slot.done = true;
        flow.done().into_iter().for_each(|done| {
            let _ = flow.events.send(done);
        });
    }
    wanted
}

/// Takes the counts of a flow whose data ends in a program; returns the end of its current interval.
pub(crate) fn count(counter: &dyn FlowCounts, state: &mut Receiving, now: u64) -> io::Result<u64> {
    let (counted, at_interval_end) = counter.read()?;
    state.take_counts(&counted, at_interval_end.as_ref(), now);
    let stated = state.stated(now);
    counter.state(stated)?;
    Ok(stated.interval_end_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::{IntervalClock, PayloadRing, Sending};
    use weir_model::plan::{Connection, Family, Plan, Transport};
    use weir_net::clock::InjectedClock;
    use weir_net::udp::{UdpOptions, UdpSocket};
    use weir_wire::header::TagKey;

    #[test]
    fn a_step_of_the_realtime_clock_is_noticed_at_the_next_batch() {
        let injected = InjectedClock::new();
        let (clock, notes) = (injected.clock(), Notes::default());
        let mut stamps = Stamps::default();
        assert!(stamps.check(&clock, clock.monotonic_ns(), &notes), "nothing to compare with yet");
        stamps.refit(&clock, clock.monotonic_ns(), &notes);
        assert!(stamps.check(&clock, clock.monotonic_ns(), &notes));
        for step_ns in [3_000_000_000i64, -5_000_000_000, 2_000_000] {
            injected.step_realtime_ns(step_ns);
            let before = lock(&notes).len();
            assert!(!stamps.check(&clock, clock.monotonic_ns(), &notes), "{step_ns}");
            assert_eq!(lock(&notes).len(), before + 1);
            // From now on stamps are right again, long before the next refit.
            assert!(stamps.check(&clock, clock.monotonic_ns(), &notes), "{step_ns}");
            let map = stamps.map.as_ref().unwrap();
            let (a, b) = (clock.monotonic_ns(), map.to_monotonic(clock.realtime_ns()));
            assert!(b + 100_000 >= a && b <= clock.monotonic_ns() + 100_000, "{a} {b}");
            assert_eq!(lock(&notes).len(), before + 1);
        }
    }

    /// Receives five datagrams on a socket with or without kernel stamps; returns the reported time source, and how
    /// many were timed by reading.
    fn source(timestamps: bool) -> (Option<&'static str>, Option<u64>) {
        let connection = Connection { transport: Transport::udp(), ..Connection::default() };
        let plan = Plan { connections: vec![connection], ..Plan::default() };
        let spec = plan.flows(Family::Ipv4, 1500).remove(0);
        let key = TagKey::for_flow(&[7; 16], spec.id);
        let local = "127.0.0.1:0".parse().unwrap();
        let options = UdpOptions { timestamps, nonblocking: true, ..UdpOptions::bind(local) };
        let socket = Arc::new(UdpSocket::open(&options).unwrap());
        let sender = UdpSocket::open(&UdpOptions::connect(socket.local_addr().unwrap())).unwrap();
        let state = Arc::new(Mutex::new(Receiving::new(&spec, key.clone(), 1_000_000_000, None)));
        let (events, _kept) = tokio::sync::mpsc::unbounded_channel();
        let mut slot = Slot {
            flow: Box::new(ReceiveFlow {
                id: spec.id,
                socket,
                state: Some(state.clone()),
                payload: spec.max_payload() as usize,
                coalesced: false,
                signals: None,
                events,
                log: None,
                direction: Direction::Forward,
                echo: None,
                transfers: None,
            }),
            done: false,
            behind: false,
            has_strays: false,
        };
        let clock = Clock::System;
        let (mut stamps, notes) = (Stamps::default(), Notes::default());
        stamps.refit(&clock, clock.monotonic_ns(), &notes);
        let mut ring = PayloadRing::new(Default::default(), 1, spec.max_payload() as usize);
        let mut sending = Sending::new(&spec, key.clone(), 0, false);
        sending.start(0, IntervalClock { start_ns: 0, interval_ns: 0, omit_ns: 0 });
        let mut batch = RecvBatch::new(SMALL_MESSAGES, SMALL_BYTES);
        for _ in 0..5 {
            let now = clock.monotonic_ns();
            let (bytes, count) = sending.fill(&mut ring, 1, now);
            sender.send(bytes).unwrap();
            sending.sent(count, 1, now);
        }
        // Loopback delivers before the send returns.
        receive(&mut slot, &mut batch, &clock, &mut stamps, &notes, &mut Round::default());
        let state = lock(&state);
        let report = state.report("recvmmsg", None, None);
        assert_eq!(report.packets, 5);
        (state.time_source(), report.user_timed_messages)
    }

    #[test]
    fn the_time_source_reports_messages_without_a_kernel_stamp() {
        assert_eq!(source(false), (Some("user"), Some(5)));
        // The kernel may start to stamp a little late; stamped and other messages add up anyway.
        let (named, user) = source(true);
        let expected = match user {
            Some(0) => "kernel",
            Some(5) => "user",
            _ => "kernel+user",
        };
        assert_eq!(named, Some(expected));
    }
}
