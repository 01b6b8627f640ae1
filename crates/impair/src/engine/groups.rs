//! Packets that wait for others or for a time of their own: delayed copies, reordering and batches.
//!
//! These stages act at a packet's own time. A packet that an earlier stage has passed ahead of time comes back at that time.

use super::*;

impl Engine {
    /// Passes a packet to the stage `here` again at time `t`.
    pub(super) fn come_back(
        &mut self,
        mut packet: Packet,
        here: Steps,
        t: u64,
        dispositions: &mut Vec<Disposition>,
    ) {
        packet.next = here;
        self.pass_at(packet, t, dispositions);
    }

    /// Passes a packet to its next stage at time `t`.
    pub(super) fn pass_at(
        &mut self,
        mut packet: Packet,
        t: u64,
        dispositions: &mut Vec<Disposition>,
    ) {
        packet.flags |= OWN_TIME;
        if let Some(node) = self.hold(packet, t, dispositions) {
            self.schedule(t, node);
        }
    }

    /// Delays a copy, which reaches the stage of duplication at time `t`, by that stage's law.
    pub(super) fn delay_copy(
        &mut self,
        packet: Packet,
        t: u64,
        dispositions: &mut Vec<Disposition>,
    ) {
        let position = self.position(&packet, slot::DUPLICATE);
        let mut draws = position.draws_of_copy(&self.philox, packet.copy);
        let stage = self.flows[packet.flow as usize].duplicate.as_mut();
        let law = stage.and_then(|stage| stage.delays.as_mut());
        let is_control = usize::from(packet.flags & FLAG_CONTROL != 0);
        let delay = law.map_or(0, |laws| laws[is_control].next(&mut draws));
        self.pass_at(packet, t.saturating_add(delay), dispositions);
    }

    /// Passes a packet through reordering at time `t`; returns whether it goes on.
    pub(super) fn reorder(
        &mut self,
        packet: &mut Packet,
        t: u64,
        dispositions: &mut Vec<Disposition>,
    ) -> bool {
        packet.flags |= OWN_TIME;
        let position = self.position(packet, slot::REORDER);
        let is_control = packet.flags & FLAG_CONTROL != 0;
        let flow = &mut self.flows[packet.flow as usize];
        let Some(stage) = &mut flow.reorder else { return true };
        let mut draws = position.draws_of_copy(&self.philox, packet.copy);
        let law = &mut stage.selects[usize::from(is_control)];
        let waits = law.lost(&PacketFacts::default(), &mut draws) != stage.ahead;
        let (ahead, timeout_ns) = (stage.ahead, stage.timeout_ns);
        let packets = match stage.distance {
            Distance::Packets(packets) => u64::from(packets),
            Distance::Time(time) if waits => {
                self.pass_at(*packet, t.saturating_add(time.0), dispositions);
                return false;
            }
            Distance::Time(_) => return true,
        };
        let places = &mut flow.places[usize::from(is_control)];
        if waits == ahead {
            places.passed += 1;
        }
        if waits {
            let leave_at = places.passed + packets;
            if self.join(GroupKind::Reorder, *packet, t.saturating_add(timeout_ns), dispositions) {
                let places = &mut self.flows[packet.flow as usize].places;
                places[usize::from(is_control)].leave_at.push_back(leave_at);
            }
            self.leave_places(packet.flow, is_control, t, dispositions);
            return false;
        }
        if places.leave_at.is_empty() {
            return true;
        }
        self.run(*packet, t, dispositions);
        self.leave_places(packet.flow, is_control, t, dispositions);
        false
    }

    /// Releases the packets of a flow that enough others have passed.
    fn leave_places(
        &mut self,
        flow: u32,
        is_control: bool,
        t: u64,
        dispositions: &mut Vec<Disposition>,
    ) {
        let place = GroupKind::Reorder.place(is_control);
        loop {
            let of = &mut self.flows[flow as usize];
            let places = &mut of.places[usize::from(is_control)];
            if places.leave_at.front().is_none_or(|at| *at > places.passed) {
                return;
            }
            places.leave_at.pop_front();
            let Some(node) = self.pool.pop_front(&mut of.groups[place].list) else { return };
            let packet = self.free(node);
            // A packet with an earlier stamp may have passed it.
            self.run(packet, t.max(packet.arrived_ns), dispositions);
        }
    }

    /// Passes a packet through the batches of its flow at time `t`; returns whether it goes on.
    pub(super) fn batch(
        &mut self,
        packet: &mut Packet,
        t: u64,
        dispositions: &mut Vec<Disposition>,
    ) -> bool {
        packet.flags |= OWN_TIME;
        let position = self.position(packet, slot::BATCH);
        let is_control = packet.flags & FLAG_CONTROL != 0;
        let Some(stage) = &mut self.flows[packet.flow as usize].batch else { return true };
        let mut draws = position.draws_of_copy(&self.philox, packet.copy);
        match stage.release(t, packet.length, is_control, &mut draws) {
            Release::At(until) if until <= t => true,
            Release::At(until) => {
                packet.flags |= BATCHED;
                self.pass_at(*packet, until, dispositions);
                false
            }
            Release::Before(until) => {
                packet.flags |= BATCHED;
                self.join(GroupKind::Batch, *packet, until, dispositions);
                false
            }
            Release::Complete => {
                let place = GroupKind::Batch.place(is_control);
                self.release_group(packet.flow, place, t, |_| true, dispositions);
                true
            }
        }
    }

    /// Adds a packet to a group of its flow, which it leaves at time `until` at the latest; returns whether there was memory.
    fn join(
        &mut self,
        kind: GroupKind,
        packet: Packet,
        until: u64,
        dispositions: &mut Vec<Disposition>,
    ) -> bool {
        let Some(node) = self.hold(packet, until, dispositions) else { return false };
        let place = kind.place(packet.flags & FLAG_CONTROL != 0);
        let group = &mut self.flows[packet.flow as usize].groups[place];
        self.pool.push_back(&mut group.list, node);
        if group.timer_ns.is_none() {
            group.timer_ns = Some(until);
            self.schedule(until, group_item(packet.flow, place));
        }
        true
    }

    /// Releases the packets at the head of a group for which `leaves` is true of their latest time; each leaves at `t`.
    fn release_group(
        &mut self,
        flow: u32,
        place: usize,
        t: u64,
        leaves: impl Fn(u64) -> bool,
        dispositions: &mut Vec<Disposition>,
    ) {
        loop {
            let of = &mut self.flows[flow as usize];
            let list = &mut of.groups[place].list;
            if list.is_empty() || !leaves(self.pool.get(list.head()).time) {
                return;
            }
            if place < GROUPS / 2 {
                of.places[place].leave_at.pop_front();
            }
            let Some(node) = self.pool.pop_front(list) else { return };
            let packet = self.free(node);
            self.run(packet, t.max(packet.arrived_ns), dispositions);
        }
    }

    /// Releases the packets of a group whose time has come, and sets the timer of the next one.
    pub(super) fn fire_group(&mut self, timer: Timer, dispositions: &mut Vec<Disposition>) {
        let (flow, place) = group_of(timer.item);
        self.release_group(flow, place, timer.time, |until| until <= timer.time, dispositions);
        let group = &mut self.flows[flow as usize].groups[place];
        group.timer_ns = None;
        if !group.list.is_empty() {
            let Waiting { time, number, .. } = *self.pool.get(group.list.head());
            group.timer_ns = Some(time);
            self.wheel.insert(Timer { time, number, item: timer.item });
        }
    }

    /// Drops the packets of a group as unplanned.
    pub(super) fn abandon_group(&mut self, item: u32, dispositions: &mut Vec<Disposition>) {
        let (flow, place) = group_of(item);
        while let Some(node) =
            self.pool.pop_front(&mut self.flows[flow as usize].groups[place].list)
        {
            let packet = self.free(node);
            self.drop(packet, self.clock_ns, Verdict::Unplanned, dispositions);
        }
        let of = &mut self.flows[flow as usize];
        of.groups[place].timer_ns = None;
        if place < GROUPS / 2 {
            of.places[place].leave_at.clear();
        }
    }
}

/// The item of a group's timer.
fn group_item(flow: u32, place: usize) -> u32 {
    FIRES | GROUP | (flow * GROUPS as u32 + place as u32)
}

/// The flow and the place of a group's timer.
fn group_of(item: u32) -> (u32, usize) {
    let item = item & !(FIRES | GROUP);
    (item / GROUPS as u32, item as usize % GROUPS)
}
