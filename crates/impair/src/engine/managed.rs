//! Managed queues. Which packet leaves next, and whether one is dropped, is decided when the link is free; a packet that an
//! earlier stage has passed ahead of time reaches the queue at its own time.

use std::collections::VecDeque;

use weir_model::impairment::{
    Aqm, FqCodel, Law, Managed, Rate, RunningCodel, RunningDualPi2, RunningPie, RunningRed,
};

use super::*;
use crate::key::{FragmentPlace, Key};
use crate::pool::List;
use crate::queue::{Limit, Transmitter};

/// Packets that one overflow of a flow's queue drops at most (RFC 8290, section 4.1).
const OVERFLOW_PACKETS: usize = 64;

/// One of the queues of a link.
#[derive(Debug)]
struct Queue {
    list: List,
    packets: usize,
    bytes: u64,
}

/// The queue of a flow of FQ-CoDel.
#[derive(Debug)]
struct Share {
    codel: RunningCodel,
    /// Bytes that it may still send in this round.
    deficit: i64,
    /// Whether it is in one of the lists.
    is_active: bool,
}

/// FQ-CoDel: the queues that have packets, or had some recently.
#[derive(Debug)]
struct Shares {
    law: FqCodel,
    shares: Vec<Share>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
}

impl Shares {
    /// The link has looked for a packet in vain: no queue is in a list any more.
    fn are_empty(&mut self) {
        for number in self.new.drain(..).chain(self.old.drain(..)) {
            let share = &mut self.shares[number as usize];
            share.is_active = false;
            share.codel.is_empty();
        }
    }
}

#[derive(Debug)]
enum Manager {
    HeadDrop,
    Red(RunningRed),
    Pie(RunningPie),
    Codel(RunningCodel),
    FqCodel(Shares),
    DualPi2(RunningDualPi2),
}

/// A link of a limited rate with a managed queue.
#[derive(Debug)]
pub(crate) struct ManagedLink {
    pub(crate) transmitter: Transmitter,
    limit: Limit,
    manager: Manager,
    queues: Vec<Queue>,
    packets: usize,
    bytes: u64,
    /// Whether a timer is set for the time at which the link is free.
    has_timer: bool,
}

/// The low-latency queue of DualPI2; the classic one is the first.
const LOW_LATENCY: u32 = 1;

impl ManagedLink {
    pub(crate) fn new(config: &Rate) -> Option<Self> {
        let Aqm { red, pie, codel, fq_codel, dualpi2, .. } = config.aqm.as_ref()?;
        let (manager, queues) = if let Some(law) = red {
            (Manager::Red(law.start()), 1)
        } else if let Some(law) = pie {
            (Manager::Pie(law.start()), 1)
        } else if let Some(law) = codel {
            (Manager::Codel(law.start()), 1)
        } else if let Some(law) = fq_codel {
            let share = || Share { codel: law.start(), deficit: 0, is_active: false };
            let shares = (0..law.flows).map(|_| share()).collect();
            let [new, old] = [(); 2].map(|()| VecDeque::with_capacity(law.flows as usize));
            (Manager::FqCodel(Shares { law: law.clone(), shares, new, old }), law.flows)
        } else if let Some(law) = dualpi2 {
            (Manager::DualPi2(law.start()), 2)
        } else {
            (Manager::HeadDrop, 1)
        };
        let empty = |_| Queue { list: List::EMPTY, packets: 0, bytes: 0 };
        Some(Self {
            transmitter: Transmitter::new(config),
            limit: Limit::of(config),
            manager,
            queues: (0..queues).map(empty).collect(),
            packets: 0,
            bytes: 0,
            has_timer: false,
        })
    }

    /// This link, which starts another transmission at `t` at the earliest.
    pub(crate) fn busy_until(mut self, t: u64, now: u64) -> Self {
        self.transmitter.start_after(t, now);
        self
    }

    /// When the queued packets will have been sent, if none is dropped.
    pub(crate) fn free_at(&self) -> u64 {
        self.transmitter.ends(self.bytes)
    }

    /// Memory of its queues.
    pub(crate) fn table_bytes(&self) -> u64 {
        let each = match &self.manager {
            Manager::FqCodel(_) => size_of::<Queue>() + size_of::<Share>() + 2 * size_of::<u32>(),
            _ => size_of::<Queue>(),
        };
        (self.queues.len() * each) as u64
    }

    /// Whether nothing is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.packets == 0 && !self.has_timer
    }

    /// The queue of a packet.
    fn queue_of(&self, class: u32) -> u32 {
        match &self.manager {
            Manager::FqCodel(shares) => (class >> ECN_BITS) % shares.law.flows,
            Manager::DualPi2(_) if RunningDualPi2::is_low_latency(ecn_of(class)) => LOW_LATENCY,
            _ => 0,
        }
    }

    /// Whether there is no room for a packet that arrives at `t`. An idle link accepts any.
    fn is_full(&self, t: u64, framed: u32) -> bool {
        match self.limit {
            _ if self.packets == 0 && t >= self.transmitter.free_at() => false,
            Limit::Time(most) => self.free_at().saturating_sub(t) > most,
            Limit::Bytes(most) => self.bytes + u64::from(framed) > most,
            Limit::Packets(most) => self.packets >= most,
        }
    }

    /// Whether a packet that arrives at `t` would never leave: the trace of the link ends before.
    fn has_ended(&mut self, t: u64, framed: u32) -> bool {
        if self.packets == 0 {
            self.transmitter.next_start(t);
        }
        self.transmitter.never_leaves(self.bytes + u64::from(framed))
    }

    /// Decides for a packet that arrives at `t`.
    fn arrives(
        &mut self,
        t: u64,
        pool: &Pool<Waiting>,
        is_capable: bool,
        draws: &mut Draws,
    ) -> Managed {
        let free_at = self.transmitter.free_at();
        let is_idle = self.packets == 0 && t >= free_at;
        let (bytes, transmitter) = (self.bytes, &self.transmitter);
        match &mut self.manager {
            Manager::HeadDrop => Managed::Pass,
            // An idle link has looked for a packet in vain.
            Manager::Codel(codel) => {
                if is_idle {
                    codel.is_empty();
                }
                Managed::Pass
            }
            Manager::FqCodel(shares) => {
                if is_idle {
                    shares.are_empty();
                }
                Managed::Pass
            }
            Manager::Red(red) => {
                let idle_ns = if is_idle { t - free_at } else { 0 };
                red.arrives(bytes, transmitter.bytes_in(idle_ns), is_capable, draws)
            }
            Manager::Pie(pie) => {
                pie.advance(t, |at| transmitter.wait(at, bytes));
                pie.arrives(bytes, is_capable, draws)
            }
            Manager::DualPi2(dual) => {
                dual.advance(t, oldest(&self.queues, pool));
                Managed::Pass
            }
        }
    }

    /// Adds a packet to its queue.
    fn push(&mut self, node: u32, framed: u32, class: u32, pool: &mut Pool<Waiting>) {
        let number = self.queue_of(class);
        let queue = &mut self.queues[number as usize];
        pool.push_back(&mut queue.list, node);
        queue.packets += 1;
        queue.bytes += u64::from(framed);
        self.packets += 1;
        self.bytes += u64::from(framed);
        if let Manager::FqCodel(shares) = &mut self.manager {
            let share = &mut shares.shares[number as usize];
            if !share.is_active {
                share.is_active = true;
                share.deficit = shares.law.quantum.0 as i64;
                shares.new.push_back(number);
            }
        }
    }

    /// Removes the oldest packet of a queue. The packet stays in the pool.
    fn pop(&mut self, number: u32, pool: &mut Pool<Waiting>) -> Option<u32> {
        let queue = &mut self.queues[number as usize];
        let node = pool.pop_front(&mut queue.list)?;
        let framed = u64::from(self.transmitter.framed(pool.get(node).packet.length));
        queue.packets -= 1;
        queue.bytes -= framed;
        self.packets -= 1;
        self.bytes -= framed;
        Some(node)
    }

    /// The next packet of the link, which is free at `t`, and what happens to it; `None` if there is none. `draws`: those of a packet.
    fn next<'d>(
        &mut self,
        t: u64,
        pool: &mut Pool<Waiting>,
        draws: impl Fn(&Packet) -> Draws<'d>,
    ) -> Option<(u32, Managed)> {
        let both_wait = self.queues.iter().all(|queue| queue.packets > 0);
        let number = match &mut self.manager {
            Manager::FqCodel(_) => return self.next_of_shares(t, pool),
            Manager::DualPi2(dual) => {
                dual.advance(t, oldest(&self.queues, pool));
                let serves_low_latency = match both_wait {
                    true => dual.serves_low_latency(),
                    false => self.queues[0].packets == 0,
                };
                u32::from(serves_low_latency) * LOW_LATENCY
            }
            _ => 0,
        };
        let Some(node) = self.pop(number, pool) else {
            if let Manager::Codel(codel) = &mut self.manager {
                codel.is_empty();
            }
            return None;
        };
        let Waiting { time, packet, .. } = pool.get(node);
        let waited_ns = t.saturating_sub(*time);
        let left = &self.queues[number as usize];
        let managed = match &mut self.manager {
            Manager::Codel(codel) => {
                codel.leaves(t, waited_ns, left.bytes, packet.flags & CAPABLE != 0)
            }
            Manager::DualPi2(dual) => {
                let (ecn, is_last) = (ecn_of(packet.class), left.packets == 0);
                let managed = dual.leaves(ecn, waited_ns, is_last, &mut draws(packet));
                if both_wait && managed != Managed::Drop {
                    dual.served(number == LOW_LATENCY, self.transmitter.framed(packet.length));
                }
                managed
            }
            _ => Managed::Pass,
        };
        Some((node, managed))
    }

    /// The next packet of FQ-CoDel (RFC 8290, section 4.2).
    fn next_of_shares(&mut self, t: u64, pool: &mut Pool<Waiting>) -> Option<(u32, Managed)> {
        loop {
            let Manager::FqCodel(shares) = &mut self.manager else { return None };
            let is_new = !shares.new.is_empty();
            let number = if is_new { shares.new.pop_front()? } else { shares.old.pop_front()? };
            let share = &mut shares.shares[number as usize];
            if share.deficit <= 0 {
                share.deficit += shares.law.quantum.0 as i64;
                shares.old.push_back(number);
                continue;
            }
            let node = self.pop(number, pool);
            let left_bytes = self.queues[number as usize].bytes;
            let Manager::FqCodel(shares) = &mut self.manager else { return None };
            let share = &mut shares.shares[number as usize];
            let Some(node) = node else {
                share.codel.is_empty();
                // A new queue passes the old ones first, so that a sparse flow is not new with each of its packets.
                if is_new && !shares.old.is_empty() {
                    shares.old.push_back(number);
                } else {
                    share.is_active = false;
                }
                continue;
            };
            let Waiting { time, packet, .. } = pool.get(node);
            let is_capable = packet.flags & CAPABLE != 0;
            let managed = share.codel.leaves(t, t.saturating_sub(*time), left_bytes, is_capable);
            if managed != Managed::Drop {
                share.deficit -= i64::from(self.transmitter.framed(packet.length));
            }
            let list = if is_new { &mut shares.new } else { &mut shares.old };
            list.push_front(number);
            return Some((node, managed));
        }
    }

    /// The queue of which packets are dropped when there is no room, and how many at most; `None` if it is the arriving packet.
    fn overflow(&self) -> Option<(u32, usize)> {
        match &self.manager {
            Manager::HeadDrop => Some((0, 1)),
            Manager::FqCodel(_) => {
                let fattest = self.queues.iter().zip(0..).max_by_key(|(queue, _)| queue.bytes);
                let (queue, number) = fattest?;
                Some((number, (queue.packets / 2).clamp(1, OVERFLOW_PACKETS)))
            }
            _ => None,
        }
    }
}

/// For how long the oldest packet of all queues has waited at a time.
fn oldest(queues: &[Queue], pool: &Pool<Waiting>) -> impl Fn(u64) -> u64 + use<> {
    let heads = queues.iter().filter(|queue| !queue.list.is_empty());
    let since = heads.map(|queue| pool.get(queue.list.head()).time).min();
    move |at| since.map_or(0, |since| at.saturating_sub(since))
}

/// Bits of a packet's class that are its ECN field; the others are a hash of its addresses, ports and protocol.
const ECN_BITS: u32 = 2;

fn ecn_of(class: u32) -> u8 {
    (class & ((1 << ECN_BITS) - 1)) as u8
}

/// The class of a packet: what managed queues tell packets apart by. All fragments of a datagram have that of packets without ports.
pub(super) fn class_of(key: &Key) -> u32 {
    let mix = |hash: u64, word: u64| {
        // The finalizer of SplitMix64.
        let mut z = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let addresses = [key.source, key.destination].into_iter();
    let hash = addresses.fold(0, |hash, ip| mix(mix(hash, ip as u64), (ip >> 64) as u64));
    let ports = if key.fragment == FragmentPlace::Whole { key.ports } else { 0 };
    let hash = mix(hash, u64::from(ports) << 16 | u64::from(key.protocol));
    (hash as u32) << ECN_BITS | u32::from(key.ecn) & ((1 << ECN_BITS) - 1)
}

impl Engine {
    /// Passes a packet to the managed link of its path at the present time.
    pub(super) fn offer(
        &mut self,
        number: u32,
        mut packet: Packet,
        t: u64,
        dispositions: &mut Vec<Disposition>,
    ) {
        let position = self.position(&packet, slot::RATE);
        let Some(link) = &mut self.paths[number as usize].managed else { return };
        let framed = link.transmitter.framed(packet.length);
        if link.has_ended(t, framed) {
            return self.drop(packet, t, Verdict::QueueDropped, dispositions);
        }
        let mut draws = position.draws_of_copy(&self.philox, packet.copy);
        let is_capable = packet.flags & CAPABLE != 0;
        let managed = link.arrives(t, &self.pool, is_capable, &mut draws);
        if managed == Managed::Drop {
            return self.drop_managed(packet, t, dispositions);
        }
        while let Some(link) = &mut self.paths[number as usize].managed
            && link.is_full(t, framed)
        {
            let Some((queue, packets)) = link.overflow().filter(|_| link.packets > 0) else {
                return self.drop(packet, t, Verdict::QueueDropped, dispositions);
            };
            for _ in 0..packets {
                let Some(link) = &mut self.paths[number as usize].managed else { return };
                let Some(node) = link.pop(queue, &mut self.pool) else { break };
                let oldest = self.free(node);
                self.drop(oldest, t, Verdict::QueueDropped, dispositions);
            }
        }
        if managed == Managed::Mark {
            self.mark(&mut packet);
        }
        let Some(node) = self.hold(packet, t, dispositions) else { return };
        let Some(link) = &mut self.paths[number as usize].managed else { return };
        link.push(node, framed, packet.class, &mut self.pool);
        if !link.has_timer {
            self.serve_link(number, t, false, dispositions);
        }
        let Some(link) = &self.paths[number as usize].managed else { return };
        let peaks = &mut self.flows[packet.flow as usize].peaks;
        peaks.queue_packets = peaks.queue_packets.max(link.packets as u64);
        peaks.queue_bytes = peaks.queue_bytes.max(link.bytes);
    }

    /// Sends the next packet of a managed link, if it is free at `t`, and sets the timer for the one after it. `has_waited`: as [`Transmitter::send`].
    fn serve_link(
        &mut self,
        number: u32,
        t: u64,
        has_waited: bool,
        dispositions: &mut Vec<Disposition>,
    ) {
        while let Some(link) = &mut self.paths[number as usize].managed
            && link.transmitter.is_ready(t, has_waited)
        {
            let draws = |packet: &Packet| {
                let position = position(&self.flows, self.direction, packet, slot::RATE);
                position.draws_of_copy(&self.philox, packet.copy)
            };
            let Some((node, managed)) = link.next(t, &mut self.pool, draws) else { return };
            let mut packet = self.free(node);
            if managed == Managed::Drop {
                self.drop_managed(packet, t, dispositions);
                continue;
            }
            if managed == Managed::Mark {
                self.mark(&mut packet);
            }
            let Some(link) = &mut self.paths[number as usize].managed else { return };
            let framed = link.transmitter.framed(packet.length);
            let sent = link.transmitter.serve(t, framed, has_waited);
            if self.flows[packet.flow as usize].path == number {
                self.run(packet, sent, dispositions);
            } else {
                // Packets of the flow's new path may have been planned already.
                self.pass_at(packet, sent, dispositions);
            }
        }
        let Some(link) = &mut self.paths[number as usize].managed else { return };
        if link.packets > 0 && !link.has_timer {
            link.has_timer = true;
            let time = link.transmitter.next_start(t);
            self.number += 1;
            self.schedule(time, FIRES | LINK | number);
        }
    }

    /// The managed link of a path is free.
    pub(super) fn link_is_free(&mut self, timer: Timer, dispositions: &mut Vec<Disposition>) {
        let number = timer.item & !(FIRES | LINK);
        if let Some(link) = &mut self.paths[number as usize].managed {
            link.has_timer = false;
        }
        self.serve_link(number, timer.time, true, dispositions);
    }

    /// Drops the packets of a managed link as unplanned.
    pub(super) fn abandon_link(&mut self, item: u32, dispositions: &mut Vec<Disposition>) {
        let number = item & !(FIRES | LINK);
        let queues = self.paths[number as usize].managed.as_ref().map_or(0, |l| l.queues.len());
        for queue in 0..queues as u32 {
            while let Some(link) = &mut self.paths[number as usize].managed
                && let Some(node) = link.pop(queue, &mut self.pool)
            {
                let packet = self.free(node);
                self.drop(packet, self.clock_ns, Verdict::Unplanned, dispositions);
            }
        }
        if let Some(link) = &mut self.paths[number as usize].managed {
            link.has_timer = false;
        }
    }

    fn drop_managed(&mut self, packet: Packet, t: u64, dispositions: &mut Vec<Disposition>) {
        self.flows[packet.flow as usize].counters.aqm_dropped_packets += 1;
        self.drop(packet, t, Verdict::QueueDropped, dispositions);
    }

    fn mark(&mut self, packet: &mut Packet) {
        packet.flags |= FLAG_MARKED;
        self.flows[packet.flow as usize].counters.marked_packets += 1;
    }
}
