//! When the worker that receives lets datagrams gather before it reads on: fewer wake-ups for the sender's processor to
//! pay, and more datagrams to a call.

use std::time::Duration;

/// After datagrams that come in quick succession this thread sleeps so long before it waits for more: woken for each, it
/// would cost the sender's processor an interrupt a message and read one at a time. Their times are the kernel's.
pub(super) const GATHER: Duration = Duration::from_micros(50);
/// Messages that come closer together than this are in quick succession: one in two of them would find this thread
/// awake anyhow.
const QUICK_NS: u64 = 100_000;

/// What one round of reading took from the sockets.
#[derive(Default)]
pub(super) struct Round {
    pub(super) messages: u64,
    /// Messages without a time of the kernel's.
    pub(super) timed_by_reading: u64,
}

/// Whether to let datagrams gather before they are read.
#[derive(Default)]
pub(super) struct Gathering {
    /// When the last round that took something began, ns.
    last_ns: u64,
}

impl Gathering {
    /// After a round that began at `now_ns`. A datagram that is timed by being read must not wait.
    pub(super) fn is_worth(&mut self, round: &Round, now_ns: u64) -> bool {
        if round.messages == 0 {
            return false;
        }
        let since = now_ns.saturating_sub(std::mem::replace(&mut self.last_ns, now_ns));
        round.timed_by_reading == 0 && since / round.messages < QUICK_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(messages: u64) -> Round {
        Round { messages, timed_by_reading: 0 }
    }

    #[test]
    fn datagrams_in_quick_succession_gather() {
        let mut gathering = Gathering::default();
        assert!(!gathering.is_worth(&round(1), 1_000_000_000), "nothing is known of the first");
        assert!(gathering.is_worth(&round(1), 1_000_000_000 + QUICK_NS - 1));
        assert!(!gathering.is_worth(&round(1), 1_000_000_000 + 2 * QUICK_NS));
        let mut now = 2_000_000_000;
        gathering.is_worth(&round(1), now);
        for messages in [3, 1, 64] {
            now += messages * QUICK_NS * 9 / 10;
            assert!(gathering.is_worth(&round(messages), now), "the pace counts, not the round's");
        }
    }

    #[test]
    fn a_round_without_data_neither_gathers_nor_counts() {
        let mut gathering = Gathering::default();
        gathering.is_worth(&round(1), 1_000_000_000);
        assert!(!gathering.is_worth(&round(0), 1_000_010_000));
        assert!(gathering.is_worth(&round(1), 1_000_020_000));
    }

    #[test]
    fn what_is_timed_by_reading_is_read_at_once() {
        let mut gathering = Gathering::default();
        gathering.is_worth(&round(1), 1_000_000_000);
        let unstamped = Round { messages: 8, timed_by_reading: 1 };
        assert!(!gathering.is_worth(&unstamped, 1_000_010_000));
    }
}
