//! Decides when the receiving worker lets datagrams accumulate before it reads on: fewer interrupts for the sender's
//! processor, and more datagrams per call.

use std::time::Duration;

/// Sleep after datagrams in quick succession, before the thread waits for more. Woken for each datagram, it would
/// cost the sender's processor an interrupt per message and read one at a time. Arrival times are the kernel's.
pub(super) const GATHER: Duration = Duration::from_micros(50);
/// Messages closer together than this are in quick succession: one in two of them would find this thread awake
/// anyway.
const QUICK_NS: u64 = 100_000;

/// Messages read from the sockets in one round.
#[derive(Default)]
pub(super) struct Round {
    pub(super) messages: u64,
    /// Messages without a kernel receive stamp.
    pub(super) timed_by_reading: u64,
}

/// Whether to let datagrams gather before they are read.
#[derive(Default)]
pub(super) struct Gathering {
    /// Start of the last round that read a message, ns.
    last_ns: u64,
}

impl Gathering {
    /// Whether to wait after a round that started at `now_ns`. A datagram that is timed by reading must not wait.
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
        assert!(!gathering.is_worth(&round(1), 1_000_000_000), "the first has no predecessor");
        assert!(gathering.is_worth(&round(1), 1_000_000_000 + QUICK_NS - 1));
        assert!(!gathering.is_worth(&round(1), 1_000_000_000 + 2 * QUICK_NS));
        let mut now = 2_000_000_000;
        gathering.is_worth(&round(1), now);
        for messages in [3, 1, 64] {
            now += messages * QUICK_NS * 9 / 10;
            assert!(
                gathering.is_worth(&round(messages), now),
                "the interval of messages counts, not of rounds"
            );
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
    fn messages_timed_by_reading_are_read_immediately() {
        let mut gathering = Gathering::default();
        gathering.is_worth(&round(1), 1_000_000_000);
        let unstamped = Round { messages: 8, timed_by_reading: 1 };
        assert!(!gathering.is_worth(&unstamped, 1_000_010_000));
    }
}
