//! Controlled Delay (RFC 8289).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Managed, check_time};
use crate::ModelError;
use crate::law::{Law, refuse};
use crate::units::Span;

/// A queue of up to this many bytes is never too long: one full packet (RFC 8289, section 5).
const PACKET_BYTES: u64 = 1518;

/// Packets are dropped as they leave once the waiting time has been above a target for an interval, more often as long as it stays there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "CoDel")]
pub struct Codel {
    /// Waiting time to keep.
    #[serde(default = "target")]
    #[schemars(example = "5ms")]
    pub target: Span,
    /// Time for which the waiting time may be above the target, more than it: about the longest round-trip time of the flows.
    #[serde(default = "interval")]
    #[schemars(example = "100ms")]
    pub interval: Span,
    /// `true`: ECN-capable packets are marked instead of dropped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(title = "Mark instead of drop (ECN)", example = true)]
    pub ecn: bool,
}

pub(super) fn target() -> Span {
    Span(5_000_000)
}

pub(super) fn interval() -> Span {
    Span(100_000_000)
}

impl Law for Codel {
    type Running = RunningCodel;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_time(at, "target", self.target)?;
        check_time(at, "interval", self.interval)?;
        if self.interval <= self.target {
            return refuse(at, "interval", self.interval, "more than target");
        }
        Ok(())
    }

    fn start(&self) -> RunningCodel {
        RunningCodel {
            target_ns: self.target.0,
            interval_ns: self.interval.0,
            ecn: self.ecn,
            above_ns: None,
            is_dropping: false,
            next_ns: 0,
            count: 0,
            earlier_count: 0,
            after: After::Nothing,
        }
    }
}

/// What the last decision leaves to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Nothing,
    /// A packet was dropped while dropping: if the next one may be dropped, the time of the next drop advances.
    Drop,
    /// The first packet was dropped: the next one leaves.
    FirstDrop,
}

/// The state of CoDel for one queue.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningCodel {
    target_ns: u64,
    interval_ns: u64,
    ecn: bool,
    /// When the waiting time will have been above the target for an interval.
    above_ns: Option<u64>,
    is_dropping: bool,
    /// When the next packet is dropped, while dropping.
    next_ns: u64,
    /// Signals since dropping began.
    count: u64,
    /// Their number when dropping last began.
    earlier_count: u64,
    after: After,
}

impl RunningCodel {
    /// The time of the next signal after one at `t`: the more signals, the sooner.
    fn after(&self, t: u64) -> u64 {
        t.saturating_add((self.interval_ns as f64 / (self.count.max(1) as f64).sqrt()) as u64)
    }

    fn may_drop(&mut self, now_ns: u64, waited_ns: u64, left_bytes: u64) -> bool {
        if waited_ns < self.target_ns || left_bytes <= PACKET_BYTES {
            self.above_ns = None;
            return false;
        }
        let at = *self.above_ns.get_or_insert(now_ns.saturating_add(self.interval_ns));
        now_ns >= at
    }

    /// Decides for the packet at the head of the queue, which has waited for `waited_ns`. After a drop, call it again for the next packet,
    /// or [`RunningCodel::is_empty`]. `left_bytes`: the length of the queue behind the packet.
    pub fn leaves(
        &mut self,
        now_ns: u64,
        waited_ns: u64,
        left_bytes: u64,
        is_capable: bool,
    ) -> Managed {
        let may_drop = self.may_drop(now_ns, waited_ns, left_bytes);
        let after = std::mem::replace(&mut self.after, After::Nothing);
        let can_mark = self.ecn && is_capable;
        if after == After::FirstDrop {
            return Managed::Pass;
        }
        if self.is_dropping {
            if !may_drop {
                self.is_dropping = false;
                return Managed::Pass;
            }
            if after == After::Drop {
                self.next_ns = self.after(self.next_ns);
            }
            if now_ns < self.next_ns {
                return Managed::Pass;
            }
            self.count += 1;
            if can_mark {
                self.next_ns = self.after(self.next_ns);
            } else {
                self.after = After::Drop;
            }
            return Managed::signal(can_mark);
        }
        if !may_drop {
            return Managed::Pass;
        }
        self.is_dropping = true;
        // Soon after dropping ended, it goes on near the last rate (section 5).
        let more = self.count.saturating_sub(self.earlier_count);
        let is_soon = now_ns.saturating_sub(self.next_ns) < 16 * self.interval_ns;
        self.count = if more > 1 && is_soon { more } else { 1 };
        self.earlier_count = self.count;
        self.next_ns = self.after(now_ns);
        if !can_mark {
            self.after = After::FirstDrop;
        }
        Managed::signal(can_mark)
    }

    /// The link was free, and the queue had no packet.
    pub fn is_empty(&mut self) {
        let is_first = std::mem::replace(&mut self.after, After::Nothing) == After::FirstDrop;
        self.above_ns = None;
        self.is_dropping = self.is_dropping && is_first;
    }
}
