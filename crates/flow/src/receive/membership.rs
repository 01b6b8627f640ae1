//! Accounting of a receiver that joins a group while the flow is sent, or leaves it before the end.
//!
//! It accounts for the packets from the first one that arrives after joining to the highest that arrived before
//! leaving, numbered from 0. All others were sent while it was no member: they are neither received nor lost.

use super::{Receiving, Tracking};

/// The part of a flow that a member receives.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    /// When it asked to join and to leave.
    joined_ns: Option<u64>,
    left_ns: Option<u64>,
    /// The first arrival after joining, its number, and the number after the last one.
    first_ns: Option<u64>,
    first: Option<u64>,
    end: Option<u64>,
    /// It was a member before the flow started.
    from_start: bool,
    /// Whether packets are observed after leaving, and the time and number of the last one.
    is_watched: bool,
    last: Option<(u64, u64)>,
}

/// What a membership of a part of a flow came to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MembershipReport {
    /// When it asked to join, since the start of the test; absent if before.
    pub joined_seconds: Option<f64>,
    /// When it asked to leave.
    pub left_seconds: Option<f64>,
    /// From joining to the first packet.
    pub join_latency_seconds: Option<f64>,
    /// From leaving to the last packet that still arrived.
    pub leave_latency_seconds: Option<f64>,
    /// Packets arrived until the sender ended.
    pub leave_latency_is_bound: Option<bool>,
    /// Packets sent while it was no member.
    pub unjoined_packets: Option<u64>,
}

impl Receiving {
    /// The receiver will join or leave while the flow is sent. Needs full sequence numbers. `from_start`: it joins
    /// before.
    pub fn expect_membership(&mut self, from_start: bool) {
        let first = from_start.then_some(0);
        self.window = Some(Window { from_start, first, ..Window::default() });
    }

    /// It asks to join now.
    pub fn joined(&mut self, now_ns: u64) {
        if let Some(window) = &mut self.window {
            window.joined_ns.get_or_insert(now_ns);
        }
    }

    /// It asks to leave now: later arrivals are not counted.
    pub fn left(&mut self, now_ns: u64) {
        self.advance(now_ns);
        let next = match &self.tracking {
            Tracking::Full(tracker) => tracker.counts().next,
            _ => 0,
        };
        if let Some(window) = &mut self.window {
            window.left_ns.get_or_insert(now_ns);
            window.end.get_or_insert(window.first.unwrap_or(0).saturating_add(next));
        }
    }

    /// Packets that still arrive after leaving are observed from now on.
    pub fn watched(&mut self) {
        if let Some(window) = &mut self.window {
            window.is_watched = true;
        }
    }

    /// A datagram that arrived at `at_ns` after leaving, or its beginning.
    pub fn arrived_after_leaving(&mut self, datagram: &[u8], at_ns: u64) {
        let Some(window) = &mut self.window else { return };
        let Ok(header) = self.header.decode(&self.key, datagram) else { return };
        if window.left_ns.is_some_and(|left| at_ns >= left)
            && window.last.is_none_or(|(last, _)| at_ns >= last)
        {
            window.last = Some((at_ns, header.sequence));
        }
    }

    /// The number of an arrival among those that count; `None` if it does not.
    #[inline]
    pub(super) fn counted_number(&mut self, sequence: u64, now_ns: u64) -> Option<u64> {
        let Some(window) = &mut self.window else { return Some(sequence) };
        if window.left_ns.is_some() {
            return None;
        }
        window.first_ns.get_or_insert(now_ns);
        sequence.checked_sub(*window.first.get_or_insert(sequence))
    }

    /// How many packets the sender sent of those that count, once its total is known.
    pub(super) fn sent_while_joined(&self) -> Option<u64> {
        let sent = self.sent_total?;
        let Some(window) = &self.window else { return Some(sent) };
        // Without any arrival it is unknown which packets it could have received.
        let Some(first) = window.first else { return Some(0) };
        Some(window.end.map_or(sent, |end| end.min(sent)).saturating_sub(first))
    }

    /// The report of its membership; `None` if it was a member all the time.
    pub fn membership(&self) -> Option<MembershipReport> {
        let (window, zero) = (self.window.as_ref()?, self.log.start_ns()?);
        let since_zero = |at: u64| at.saturating_sub(zero) as f64 / 1e9;
        let joined = window.joined_ns.filter(|_| !window.from_start);
        let latency = || Some(window.first_ns?.saturating_sub(joined?) as f64 / 1e9);
        let (leave_latency_seconds, leave_latency_is_bound) = self.leave_latency(window).unzip();
        Some(MembershipReport {
            leave_latency_seconds,
            leave_latency_is_bound,
            joined_seconds: joined.map(since_zero),
            left_seconds: window.left_ns.map(since_zero),
            join_latency_seconds: latency(),
            unjoined_packets: self
                .sent_total
                .map(|sent| sent.saturating_sub(self.sent_while_joined().unwrap_or(0))),
        })
    }

    /// How long packets still arrived after leaving, and whether that is a lower bound. `None` if they were not observed, or
    /// none was sent then.
    fn leave_latency(&self, window: &Window) -> Option<(f64, bool)> {
        let (left, sent) = (window.left_ns.filter(|_| window.is_watched)?, self.sent_total?);
        match window.last {
            Some((at, number)) => Some((at.saturating_sub(left) as f64 / 1e9, number + 1 >= sent)),
            None => window.end.is_some_and(|end| end < sent).then_some((0.0, false)),
        }
    }
}
