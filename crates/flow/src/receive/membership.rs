//! Accounting of a receiver that joins a group while the flow is sent, or leaves it before the end.
//!
//! It accounts for the packets from the first one that arrives after joining, to the last one before the first that is
//! seen after leaving, numbered from 0. All others were sent while it was no member: they are neither received nor lost.
//! If none is seen after leaving, the sender's schedule gives the last one. Without it the loss is unknown, unless
//! packets arrived right until leaving.

use super::{Receiving, Tracking};

/// A silence before leaving, or until the first packet after it, of at most this or two intervals between packets shows
/// no outage.
const SHORT_NS: u64 = 1_000_000;

/// The part of a flow that a member receives.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    /// When it asked to join and to leave.
    joined_ns: Option<u64>,
    left_ns: Option<u64>,
    /// The first arrival after joining, its number, and the last arrival before leaving.
    first_ns: Option<u64>,
    first: Option<u64>,
    last_ns: Option<u64>,
    /// The lowest number that was seen after leaving, and when.
    beyond: Option<(u64, u64)>,
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
        if let Some(window) = &mut self.window {
            window.left_ns.get_or_insert(now_ns);
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
        let sent = self.sent_total;
        let Some(window) = &mut self.window else { return };
        let Ok(header) = self.header.decode(&self.key, datagram) else { return };
        // The client chooses the key: any number may arrive.
        if window.left_ns.is_none_or(|left| at_ns < left)
            || sent.is_some_and(|sent| header.sequence >= sent)
        {
            return;
        }
        window.seen_after(header.sequence, at_ns);
        if window.last.is_none_or(|(last, _)| at_ns >= last) {
            window.last = Some((at_ns, header.sequence));
        }
    }

    /// The number of an arrival among those that count; `None` if it does not.
    #[inline]
    pub(super) fn counted_number(&mut self, sequence: u64, now_ns: u64) -> Option<u64> {
        let Some(window) = &mut self.window else { return Some(sequence) };
        // What arrived before leaving may be read after it.
        if window.left_ns.is_some_and(|left| now_ns >= left) {
            window.seen_after(sequence, now_ns);
            return None;
        }
        window.first_ns.get_or_insert(now_ns);
        window.last_ns = Some(now_ns);
        sequence.checked_sub(*window.first.get_or_insert(sequence))
    }

    /// The number after the last packet that was sent while it was a member; `None` if that is unknown.
    fn end_of_membership(&self, window: &Window) -> Option<u64> {
        let sent = self.sent_total?;
        let Some(left) = window.left_ns.filter(|left| !self.has_sender_ended(*left)) else {
            return Some(sent);
        };
        let tracked = match &self.tracking {
            Tracking::Full(tracker) => tracker.counts().next,
            _ => 0,
        };
        let next = window.first.unwrap_or(0).saturating_add(tracked).min(sent);
        let begin = self.log.start_ns()?.saturating_add(self.start_after_ns);
        let silence = left.saturating_sub(window.last_ns.unwrap_or(begin));
        let gap = self.gap_ns.unwrap_or(0.0);
        let is_short = |ns: u64| ns <= SHORT_NS.max((2.0 * gap) as u64);
        let scheduled = || {
            // Without any arrival, the first packet is expected at the beginning.
            let expected = (silence as f64 / self.schedule(begin)?) as u64;
            let expected = expected.saturating_add(u64::from(window.last_ns.is_none()));
            Some(next.saturating_add(expected))
        };
        match window.beyond.filter(|(number, _)| *number < sent) {
            Some((number, _)) if number <= next => Some(next),
            Some((number, at)) if is_short(at.saturating_sub(left)) => Some(number),
            Some((number, _)) => scheduled().map(|end| end.min(number)),
            None if window.last_ns.is_some() && is_short(silence) => Some(next),
            None => scheduled().map(|end| end.min(sent)),
        }
    }

    /// The constant interval between packets, ns, if the sender has kept to it from `begin` to its end.
    fn schedule(&self, begin: u64) -> Option<f64> {
        let (gap, sent, end) = (self.gap_ns?, self.sent_total?, self.sender_end_ns?);
        let planned = end.saturating_sub(begin) as f64 / gap;
        ((planned - sent as f64).abs() <= 1.0 + sent as f64 / 1000.0).then_some(gap)
    }

    /// Whether the sender had ended at a time.
    fn has_sender_ended(&self, at_ns: u64) -> bool {
        self.sender_end_ns.is_some_and(|end| at_ns >= end)
    }

    /// How many packets the sender sent of those that count; `None` if that is unknown.
    pub(super) fn sent_while_joined(&self) -> Option<u64> {
        let sent = self.sent_total?;
        let Some(window) = &self.window else { return Some(sent) };
        match window.first {
            Some(first) => Some(self.end_of_membership(window)?.saturating_sub(first)),
            // Without any arrival it is unknown which packets it could have received.
            None => window.joined_ns.is_none().then_some(0),
        }
    }

    /// Whether it is unknown how many packets were sent while it was a member, although the sender's total is known.
    pub(super) fn is_membership_unknown(&self) -> bool {
        self.window.is_some() && self.sent_total.is_some() && self.sent_while_joined().is_none()
    }

    /// When it was a member for a part of the flow: from the first arrival, or from the beginning.
    pub(super) fn time_in_group(&self, begin: Option<u64>) -> Option<(Option<u64>, Option<u64>)> {
        let window = self.window.as_ref()?;
        let first = if window.from_start { begin } else { window.first_ns };
        Some((first, window.left_ns.into_iter().chain(self.sender_end_ns).min()))
    }

    /// When the last packet that counts was sent, at the latest, if the sender ended at `end_ns`.
    pub(super) fn end_in_group(&self, end_ns: u64) -> u64 {
        let left = self.window.as_ref().and_then(|window| window.left_ns);
        left.map_or(end_ns, |left| left.min(end_ns))
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
                .and_then(|sent| Some(sent.saturating_sub(self.sent_while_joined()?))),
        })
    }

    /// How long packets still arrived after leaving, and whether that is a lower bound. `None` if they were not observed, or
    /// none was sent then.
    fn leave_latency(&self, window: &Window) -> Option<(f64, bool)> {
        let (left, sent) = (window.left_ns.filter(|_| window.is_watched)?, self.sent_total?);
        if self.has_sender_ended(left) {
            return None;
        }
        match window.last {
            // A number that was never sent: when the last packet arrived is unknown.
            Some((_, number)) if number >= sent => None,
            Some((at, number)) => {
                Some((at.saturating_sub(left) as f64 / 1e9, number.saturating_add(1) >= sent))
            }
            None => self.end_of_membership(window).filter(|end| *end < sent).map(|_| (0.0, false)),
        }
    }
}

impl Window {
    fn seen_after(&mut self, number: u64, at_ns: u64) {
        if self.beyond.is_none_or(|(lowest, _)| number < lowest) {
            self.beyond = Some((number, at_ns));
        }
    }
}
