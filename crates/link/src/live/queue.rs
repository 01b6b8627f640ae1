//! The queue between the two ends of a veth, which drops what it has no room for: how many frames it still accepts.
//!
//! A veth puts frames of XDP into a ring of 256 entries, which a softirq of the receiving end empties. Usually that runs on the
//! sender's processor before the call that sends returns; sometimes another processor runs it, and then a sender is faster.
//! The counters of the sending end show it: `tx_packets` are frames that were taken out of the ring, `tx_dropped` those
//! that it refused.

use weir_net::interface::{CounterReader, interface};

use crate::error::{Error, Result};

/// Entries of the ring (`VETH_RING_SIZE`).
const RING: u32 = 256;
/// Entries that are left to other traffic of the interface.
const SPARE: u32 = 16;
/// Frames that have not left after this many readings without a change never will: the other end was shut down.
const MAX_UNCHANGED: u32 = 1000;

/// The queue of an interface that is a veth.
#[derive(Debug)]
pub(super) struct Queue {
    counters: CounterReader,
    level: Level,
}

impl Queue {
    /// The queue of an interface of the calling thread's network namespace; `None` if it is not a veth.
    pub(super) fn of((name, number): (&str, u32)) -> Result<Option<Queue>> {
        let failed = |error: weir_net::Error| {
            Error::refused("read the counters of", name, error.to_string())
        };
        if interface(name).map_err(failed)?.kind.as_deref() != Some("veth") {
            return Ok(None);
        }
        let counters = CounterReader::open(number).map_err(failed)?;
        let mut queue = Queue { counters, level: Level::default() };
        queue.refresh().map_err(failed)?;
        Ok(Some(queue))
    }

    /// How many of `count` frames may be sent now. A queue that has no room for all of them has to become empty first: the
    /// counters include other traffic, and while it never is empty these errors would add up.
    pub(super) fn room(&mut self, count: u32) -> std::io::Result<u32> {
        if self.level.room() < count {
            self.refresh().map_err(std::io::Error::other)?;
            if self.level.queued > 0 {
                return Ok(0);
            }
        }
        Ok(self.level.room().min(count))
    }

    /// This many frames were sent.
    pub(super) fn sent(&mut self, count: u32) {
        self.level.queued = self.level.queued.saturating_add(count);
    }

    fn refresh(&mut self) -> weir_net::Result<()> {
        let counters = self.counters.read()?;
        self.level.counted(counters.tx_packets.wrapping_add(counters.tx_dropped));
        Ok(())
    }
}

/// How many frames a queue may have.
#[derive(Debug, Default)]
struct Level {
    /// Frames that were sent and that the counters have not shown to be gone.
    queued: u32,
    /// Frames that were gone at the last reading.
    gone: u64,
    /// Readings since then that showed the same.
    unchanged: u32,
}

impl Level {
    fn room(&self) -> u32 {
        (RING - SPARE).saturating_sub(self.queued)
    }

    /// The counters show that this many frames are gone.
    fn counted(&mut self, gone: u64) {
        let new = gone.wrapping_sub(self.gone);
        self.gone = gone;
        self.unchanged = if new == 0 { self.unchanged + 1 } else { 0 };
        let left = u64::from(self.queued).saturating_sub(new) as u32;
        self.queued = if self.unchanged > MAX_UNCHANGED { 0 } else { left };
        if self.queued == 0 {
            self.unchanged = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_take_room_until_they_are_counted() {
        let mut level = Level { gone: 1000, ..Level::default() };
        assert_eq!(level.room(), 240);
        level.queued = 230;
        level.counted(1000);
        assert_eq!(level.room(), 10);
        level.counted(1100);
        assert_eq!(level.room(), 110);
        // Two frames of other traffic.
        level.counted(1232);
        assert_eq!(level.room(), 240);
        // They do not make room for more than the ring has.
        level.counted(1300);
        assert_eq!(level.room(), 240);
        level.queued = 300;
        assert_eq!(level.room(), 0);
    }

    #[test]
    fn frames_that_never_leave_are_given_up() {
        let mut level = Level { queued: 240, ..Level::default() };
        for _ in 0..MAX_UNCHANGED {
            level.counted(0);
            assert_eq!(level.room(), 0);
        }
        level.counted(0);
        assert_eq!(level.room(), 240);
    }
}
