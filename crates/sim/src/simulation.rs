//! The simulation: flows of a plan through the emulator, in the order of time.
//!
//! The flows are open loops: a sender does not react to its receiver. The delay of the path around the
//! emulator is constant. So the sends are the only events: each packet enters the engine of its direction,
//! which keeps its own order of time, and a packet that the engine forwards arrives a constant time later,
//! in order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use weir_flow::assemble::{NATIVE_PEER, Parts, assemble};
use weir_flow::{
    IntervalClock, NextSend, PayloadRing, PeerReports, Receiving, SenderClock, Sending,
};
use weir_impair::{Hops, Meta, Verdict};
use weir_laws::Direction as Way;
use weir_model::impairment::Impairment;
use weir_model::plan::{Direction, Family, FlowSpec, Plan};
use weir_model::record::{ClockRelation, Status, TimeSource};
use weir_model::report::{EndReport, FlowReport};
use weir_wire::header::TagKey;
use weir_wire::packets;

use crate::frame::{self, A, B, Host};
use crate::{FlowCounters, Outcome, SimError};

/// Start of the test on the virtual clock.
const START_NS: u64 = 1_000_000_000;
/// Default loss threshold.
const LOSS_THRESHOLD_NS: u64 = 2_000_000_000;
/// First client port of flows that name none; the flow's id is added.
const FIRST_CLIENT_PORT: u16 = 40_000;
/// Path MTU that determines a plan's default payload.
const PATH_MTU_BYTES: u32 = 1500;

/// A plan's flows through an impairment.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    /// UDP flows over IPv4, paced, with a limit. Its seed is that of the payloads.
    pub plan: Plan,
    /// The emulator's laws, with a seed of their own. Forward is from A, which runs the test, to B.
    pub impairment: Impairment,
    /// Delay from each sender to the emulator, ns.
    pub before_ns: u64,
    /// Delay from the emulator to each receiver, ns.
    pub after_ns: u64,
}

/// One flow with both ends.
struct Flow {
    spec: FlowSpec,
    sending: Sending,
    receiving: Receiving,
    ring: PayloadRing,
    ports: (u16, u16),
}

impl Flow {
    fn way(&self) -> Way {
        way(self.spec.connection.direction)
    }
}

const fn way(direction: Direction) -> Way {
    match direction {
        Direction::Forward => Way::Forward,
        Direction::Reverse => Way::Reverse,
    }
}

const fn hosts(way: Way) -> (Host, Host) {
    match way {
        Way::Forward => (A, B),
        Way::Reverse => (B, A),
    }
}

/// A frame in the emulator, with its content before any damage.
#[derive(Default)]
struct Slot {
    frame: Vec<u8>,
    flow: u32,
    sequence: u64,
    /// Number of dispositions still expected.
    owed: u32,
}

/// One direction of the emulator, with its queued frames.
struct Emulator {
    way: Way,
    hops: Hops,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Simulation {
    /// Runs the simulation.
    ///
    /// # Errors
    /// [`SimError`] if the plan or the impairment is invalid, or a flow can't be simulated: TCP, without a rate, or
    /// without a limit.
    pub fn run(&self) -> Result<Outcome, SimError> {
        self.plan.check()?;
        let threshold = self.plan.loss_threshold.map_or(LOSS_THRESHOLD_NS, |t| t.0);
        let clock = IntervalClock {
            start_ns: START_NS,
            interval_ns: self.plan.interval.0,
            omit_ns: self.plan.omit.0,
        };
        let mut flows = self.flows(clock, threshold)?;
        let flow_by_ports: HashMap<(Way, (u16, u16)), usize> =
            flows.iter().enumerate().map(|(i, f)| ((f.way(), f.ports), i)).collect();
        let mut emulators = [self.emulator(Way::Forward)?, self.emulator(Way::Reverse)?];
        let mut far_side = FarSide {
            after_ns: self.after_ns,
            flow_by_ports,
            packet_trace: vec![],
            received: vec![],
            stack_dropped: 0,
            last_ns: START_NS,
        };

        let mut sends: BinaryHeap<Reverse<(u64, usize)>> =
            (0..flows.len()).map(|i| Reverse((START_NS, i))).collect();
        while let Some(Reverse((now, i))) = sends.pop() {
            far_side.last_ns = far_side.last_ns.max(now);
            match flows[i].sending.next(now) {
                NextSend::Done => flows[i].sending.finish(now),
                NextSend::At(at) => sends.push(Reverse((at.max(now), i))),
                NextSend::Now(count) => {
                    for _ in 0..count {
                        let emulator = &mut emulators[flows[i].way() as usize];
                        let (handle, at) = emulator.take(&mut flows[i], now, self.before_ns);
                        emulator.enter(0, handle, at, &mut far_side, &mut flows);
                    }
                    sends.push(Reverse((now, i)));
                }
            }
        }
        for emulator in &mut emulators {
            while let Some(next) = emulator.hops.next_deadline_ns() {
                emulator.advance(next, &mut far_side, &mut flows);
            }
        }
        let end = far_side.last_ns.saturating_add(threshold);
        for flow in &mut flows {
            flow.receiving.set_sent_total(flow.sending.total().0);
            flow.sending.end_offset_ns().into_iter().for_each(|e| flow.receiving.set_sender_end(e));
            flow.receiving.finish(end);
        }
        let counters = emulators.iter().flat_map(Emulator::counters).collect();
        Ok(Outcome {
            record: self.record(&flows, clock, threshold),
            packet_trace: far_side.packet_trace,
            received: far_side.received,
            counters,
            stack_dropped_packets: far_side.stack_dropped,
        })
    }

    fn flows(&self, clock: IntervalClock, threshold: u64) -> Result<Vec<Flow>, SimError> {
        let mut flows = vec![];
        for spec in self.plan.flows(Family::Ipv4, PATH_MTU_BYTES) {
            let refuse =
                |given, accepted| Err(SimError::Flow { flow: spec.name.clone(), given, accepted });
            let c = &spec.connection;
            if !c.transport.datagrams() {
                return refuse("is TCP", "UDP: a stream's behaviour is the kernel's");
            }
            if c.shape.has_transactions() {
                return refuse("consists of transactions", "a stream of datagrams");
            }
            if c.echo.is_some() {
                return refuse("is echoed", "a stream of datagrams in one direction");
            }
            if self.plan.family == Some(Family::Ipv6) {
                return refuse("is over IPv6", "IPv4");
            }
            if !spec.is_paced() {
                return refuse("has no rate", "a rate: sending takes no time on a virtual clock");
            }
            if spec.duration_ns.is_none() && c.packets.is_none() && c.bytes.is_none() {
                return refuse("has no end", "a duration, packets or bytes");
            }
            if !c.autostart {
                return refuse("waits for a command", "a flow that starts by itself");
            }
            if spec.max_payload() > frame::MAX_PAYLOAD {
                return refuse("is longer than a packet", "up to 65507 bytes of payload");
            }
            let key = TagKey::for_flow(&[0; 16], spec.id);
            let ring = PayloadRing::new(c.content, self.plan.seed.0, spec.max_payload() as usize);
            let mut sending = Sending::new(&spec, key.clone(), clock.omit_ns, false);
            let verify = c.verify.then(|| Arc::new(ring.clone()));
            let mut receiving = Receiving::new(&spec, key, threshold, verify);
            receiving.set_clock(SenderClock::default());
            receiving.start(clock);
            sending.start(START_NS + c.start_after.0, clock);
            let client =
                c.client_port().unwrap_or_else(|| FIRST_CLIENT_PORT.wrapping_add(spec.id as u16));
            let ports = match c.direction {
                Direction::Forward => (client, self.plan.server_port()),
                Direction::Reverse => (self.plan.server_port(), client),
            };
            flows.push(Flow { spec, sending, receiving, ring, ports });
        }
        Ok(flows)
    }

    fn emulator(&self, way: Way) -> Result<Emulator, SimError> {
        let mut hops = Hops::new(&self.impairment, way)?;
        hops.arm(0);
        Ok(Emulator { way, hops, slots: vec![], free: vec![] })
    }

    fn record(
        &self,
        flows: &[Flow],
        intervals: IntervalClock,
        threshold: u64,
    ) -> weir_model::record::Record {
        let (mut local, mut remote) = (EndReport::default(), EndReport::default());
        for flow in flows {
            let (from, to) = hosts(flow.way());
            let source = format!("{}:{}", from.address, flow.ports.0);
            let destination = format!("{}:{}", to.address, flow.ports.1);
            let sender = FlowReport {
                id: flow.spec.id,
                local: source.clone(),
                remote: destination.clone(),
                sender: Some(flow.sending.report("simulated", None)),
                intervals: flow.sending.interval_counts(),
                ..FlowReport::default()
            };
            let receiver = FlowReport {
                id: flow.spec.id,
                local: destination,
                remote: source,
                receiver: Some(flow.receiving.report("simulated", None, None)),
                intervals: flow.receiving.interval_counts(),
                histograms: flow.receiving.histograms(flow.spec.id),
                ..FlowReport::default()
            };
            let (near, far) = match flow.spec.connection.direction {
                Direction::Forward => (sender, receiver),
                Direction::Reverse => (receiver, sender),
            };
            local.flows.push(near);
            remote.flows.push(far);
        }
        let mut record = assemble(Parts {
            plan: self.plan.clone(),
            specs: flows.iter().map(|f| f.spec.clone()).collect(),
            family: Family::Ipv4,
            local,
            remote: Some(remote),
            peer: NATIVE_PEER.into(),
            one_sided: false,
            peer_reports: PeerReports::default(),
            clock: Some(ClockRelation { method: "shared".into(), ..ClockRelation::default() }),
            intervals,
            intervals_shown: 0,
            status: Status::Complete,
            end_reason: "done".into(),
            nominal: self.plan.nominal.map(|rate| (rate.0, "plan".into())),
            latency: None,
            loss_threshold_ns: threshold,
            control_bytes: 0,
            path_mtu_bytes: None,
        });
        record.time_source = Some(TimeSource {
            send: "virtual".into(),
            receive: "virtual".into(),
            resolution_seconds: 1e-9,
        });
        record
    }
}

/// The path behind the emulator, and the logs.
struct FarSide {
    after_ns: u64,
    flow_by_ports: HashMap<(Way, (u16, u16)), usize>,
    packet_trace: Vec<(packets::Record, packets::Judged)>,
    received: Vec<packets::Record>,
    stack_dropped: u64,
    last_ns: u64,
}

impl Emulator {
    /// A slot for a frame.
    fn slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        })
    }

    /// The next packet of a flow, sent at `now`, and when it arrives at the emulator.
    fn take(&mut self, flow: &mut Flow, now: u64, before_ns: u64) -> (u32, u64) {
        let handle = self.slot();
        let slot = &mut self.slots[handle as usize];
        slot.flow = flow.spec.id;
        slot.sequence = flow.sending.total().0;
        slot.owed = 1;
        let size = flow.sending.size(0);
        let (payload, _) = flow.sending.fill(&mut flow.ring, 1, now);
        let (from, to) = hosts(self.way);
        frame::write(&mut slot.frame, from, to, flow.ports, &payload[..size]);
        flow.sending.sent(1, 1, now);
        flow.sending.called(1);
        (handle, now.saturating_add(before_ns))
    }

    /// A packet enters the hop of this turn, or leaves after the last one.
    fn enter(
        &mut self,
        turn: usize,
        handle: u32,
        at: u64,
        far_side: &mut FarSide,
        flows: &mut [Flow],
    ) {
        if turn == self.hops.count() {
            far_side.arrive(self.way, &self.slots[handle as usize].frame, at, flows);
            return self.free.push(handle);
        }
        let place = self.hops.place_of_turn(turn);
        let mut meta = self.hops.engine(place).meta(handle, at, &self.slots[handle as usize].frame);
        let is_taken = self.hops.takes(place, &mut meta);
        self.step(turn, at, is_taken.then_some(meta).as_slice(), far_side, flows);
        if !is_taken {
            self.enter(turn + 1, handle, at, far_side, flows);
        }
    }

    /// Releases what is due in all hops.
    fn advance(&mut self, now: u64, far_side: &mut FarSide, flows: &mut [Flow]) {
        for turn in 0..self.hops.count() {
            self.step(turn, now, &[], far_side, flows);
        }
    }

    /// Passes packets through the hop of this turn, logs their dispositions and passes those that it forwards on.
    fn step(
        &mut self,
        turn: usize,
        now: u64,
        metas: &[Meta],
        far_side: &mut FarSide,
        flows: &mut [Flow],
    ) {
        let place = self.hops.place_of_turn(turn);
        let mut dispositions = vec![];
        self.hops.step(place, now, metas, &mut dispositions);
        // Changes are valid until the next step, so all are made before a packet passes on.
        let mut forwarded = vec![];
        for mut disposition in dispositions {
            let slot = &mut self.slots[disposition.handle as usize];
            if disposition.verdict == Verdict::Copied {
                slot.owed += 1;
                continue;
            }
            let leaves = disposition.verdict == Verdict::Forwarded;
            // A frame of its own, as a copy of the packet may still leave. A fragment is no datagram: the receiver's stack drops it.
            let mut frame = leaves.then(|| match disposition.part() {
                Some(part) => part.of(&slot.frame).unwrap_or_default(),
                None => slot.frame.clone(),
            });
            if let (Some(edit), Some(frame)) =
                (self.hops.engine(place).edit(&disposition), &mut frame)
                && !edit.apply(frame)
            {
                self.hops.engine_mut(place).unmodified(&mut disposition);
            }
            let judged = packets::Judged {
                asked_ns: leaves.then_some(disposition.at_ns),
                native_sequence: Some(slot.sequence),
                native_flow: slot.flow,
            };
            far_side.packet_trace.extend(
                disposition
                    .record(self.way, Some(disposition.at_ns))
                    .map(|record| (record, judged)),
            );
            slot.owed -= 1;
            let (flow, sequence) = (slot.flow, slot.sequence);
            if slot.owed == 0 {
                self.free.push(disposition.handle);
            }
            if let Some(frame) = frame {
                let handle = self.slot();
                self.slots[handle as usize] = Slot { frame, flow, sequence, owed: 1 };
                forwarded.push((handle, disposition.at_ns));
            }
        }
        for (handle, at) in forwarded {
            self.enter(turn + 1, handle, at, far_side, flows);
        }
    }

    fn counters(&self) -> Vec<FlowCounters> {
        let direction = match self.way {
            Way::Forward => Direction::Forward,
            Way::Reverse => Direction::Reverse,
        };
        let of = |status: weir_impair::FlowStatus<'_>| FlowCounters {
            direction,
            number: status.number,
            name: status.name.into(),
            counters: status.counters,
        };
        self.hops.flows().map(of).collect()
    }
}

impl FarSide {
    fn arrive(&mut self, way: Way, frame: &[u8], left_ns: u64, flows: &mut [Flow]) {
        let at = left_ns.saturating_add(self.after_ns);
        self.last_ns = self.last_ns.max(at);
        let (_, to) = hosts(way);
        let found = frame::accept(to, frame)
            .and_then(|(ports, payload)| Some((*self.flow_by_ports.get(&(way, ports))?, payload)));
        let Some((i, payload)) = found else {
            self.stack_dropped += 1;
            return;
        };
        let Flow { spec, receiving, .. } = &mut flows[i];
        let received = &mut self.received;
        receiving.on_message(payload, None, at, |logged| {
            received.push(logged.record(spec.id, spec.connection.direction, at, false));
        });
        receiving.called(1);
    }
}

#[cfg(test)]
mod tests;
