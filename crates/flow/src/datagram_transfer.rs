//! A transfer of datagrams without I/O: when its client opens the path, sends and ends, and what its server counts.
//!
//! The client sends `Open` from a port of its own until the server answers, then the datagrams at the rate of the transfer, then
//! `End` until the server has counted them all. Datagrams that are still missing after a grace period are lost: nothing is retransmitted.

use std::collections::HashMap;

use weir_model::plan::MIN_TRANSFER_DATAGRAM;

/// First interval at which an unanswered message is repeated, ns; it doubles up to the longest.
const RETRY_NS: u64 = 100_000_000;
const MAX_RETRY_NS: u64 = 1_000_000_000;
/// How long missing datagrams may still arrive after the server's first count: at least, ns, and in set-up times.
const MIN_GRACE_NS: u64 = 10_000_000;
const GRACE_SET_UPS: u64 = 4;
/// How long a server keeps the counts of a transfer whose end was announced, ns, and of one that is silent.
const KEEP_NS: u64 = 4_000_000_000;
const KEEP_SILENT_NS: u64 = 60_000_000_000;
/// Shortest time between two searches for counts that need not be kept, ns.
const SWEEP_NS: u64 = 100_000_000;

/// What the client does next about a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferStep {
    /// Nothing before this time.
    At(u64),
    /// It opens the path.
    Open,
    /// It sends a datagram with this number of payload bytes.
    Datagram(usize),
    /// It says how many datagrams it has sent.
    End(u64),
    /// The transfer is over.
    Over(Arrived),
}

/// What has arrived of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Datagrams, without duplicates.
    pub datagrams: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// When the client would have known of the last of them without the loss of messages: its arrival, and the way back, ns.
    pub at_ns: u64,
    /// Whether all that were sent have arrived.
    pub is_whole: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Opening,
    Sending,
    Ending,
}

/// The client's end of a transfer.
#[derive(Debug, Clone)]
pub struct DatagramTransfer {
    volume: u64,
    payload: u64,
    bits_per_second: u64,
    phase: Phase,
    started_ns: u64,
    /// When the first datagram was due.
    sending_ns: u64,
    set_up_ns: u64,
    sent_bytes: u64,
    sent_datagrams: u64,
    /// When the last datagram was sent.
    sent_ns: u64,
    /// When the message of this phase is retransmitted, and the interval after that.
    retry_at_ns: u64,
    retry_ns: u64,
    arrived: Option<Arrived>,
    /// When datagrams that are missing count as lost.
    lost_at_ns: Option<u64>,
    is_over: bool,
}

impl DatagramTransfer {
    /// One of `volume` bytes that starts at `now_ns`, in datagrams of `payload` bytes, 32 at least. The last one is as long as the rest
    /// of the volume, but 32 bytes at least.
    #[must_use]
    pub fn new(volume: u64, payload: usize, bits_per_second: u64, now_ns: u64) -> Self {
        DatagramTransfer {
            volume,
            payload: (payload as u64).max(MIN_TRANSFER_DATAGRAM),
            bits_per_second: bits_per_second.max(1),
            phase: Phase::Opening,
            started_ns: now_ns,
            sending_ns: 0,
            set_up_ns: 0,
            sent_bytes: 0,
            sent_datagrams: 0,
            sent_ns: 0,
            retry_at_ns: now_ns,
            retry_ns: RETRY_NS,
            arrived: None,
            lost_at_ns: None,
            is_over: false,
        }
    }

    /// What to do at `now_ns`. A step other than `At` and `Over` is done immediately, and reported.
    #[must_use]
    pub fn next(&self, now_ns: u64) -> TransferStep {
        if let Some(arrived) = self.arrived.filter(|_| self.is_over) {
            return TransferStep::Over(arrived);
        }
        let (at, step) = match self.phase {
            Phase::Opening => (self.retry_at_ns, TransferStep::Open),
            Phase::Sending => {
                let left = self.volume.saturating_sub(self.sent_bytes);
                let bytes = left.min(self.payload).max(MIN_TRANSFER_DATAGRAM);
                (self.due_ns(), TransferStep::Datagram(bytes as usize))
            }
            Phase::Ending => (self.retry_at_ns, TransferStep::End(self.sent_datagrams)),
        };
        if at > now_ns { TransferStep::At(at) } else { step }
    }

    /// When the next datagram is due.
    #[must_use]
    pub fn due_ns(&self) -> u64 {
        let bits = 8 * u128::from(self.sent_bytes);
        let after = bits * 1_000_000_000 / u128::from(self.bits_per_second);
        self.sending_ns.saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    }

    /// Time from one datagram to the next, ns.
    #[must_use]
    pub fn interval_ns(&self) -> u64 {
        let ns = 8 * u128::from(self.payload) * 1_000_000_000 / u128::from(self.bits_per_second);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// When the transfer is over even if the server reports no further arrival; `None` until it has reported one.
    #[must_use]
    pub fn lost_at_ns(&self) -> Option<u64> {
        self.lost_at_ns
    }

    /// `Open` or `End` was sent at `now_ns`.
    pub fn asked(&mut self, now_ns: u64) {
        self.retry_at_ns = now_ns.saturating_add(self.retry_ns);
        self.retry_ns = (2 * self.retry_ns).min(MAX_RETRY_NS);
    }

    /// The network accepted a datagram of `bytes` at `now_ns`.
    pub fn sent(&mut self, bytes: usize, now_ns: u64) {
        self.sent_bytes += bytes as u64;
        self.sent_datagrams += 1;
        self.sent_ns = now_ns;
        if self.sent_bytes >= self.volume {
            (self.phase, self.retry_at_ns, self.retry_ns) = (Phase::Ending, now_ns, RETRY_NS);
        }
    }

    /// The server answered `Open` at `now_ns`. Whether that was the first answer.
    pub fn opened(&mut self, now_ns: u64) -> bool {
        if self.phase != Phase::Opening {
            return false;
        }
        self.phase = Phase::Sending;
        self.sending_ns = now_ns;
        self.set_up_ns = now_ns.saturating_sub(self.started_ns);
        true
    }

    /// The server's count arrived at `now_ns`: `datagrams` with `bytes` have arrived, the last of them `age_ns` before it answered.
    /// Whether that is possible.
    pub fn counted(&mut self, age_ns: u64, datagrams: u64, bytes: u64, now_ns: u64) -> bool {
        if self.phase != Phase::Ending || self.is_over {
            return true;
        }
        if datagrams > self.sent_datagrams || bytes > self.sent_bytes {
            return false;
        }
        let is_whole = datagrams == self.sent_datagrams;
        let at_ns = now_ns.saturating_sub(age_ns).max(self.sent_ns);
        if self.arrived.is_none_or(|before| datagrams > before.datagrams) {
            self.arrived = Some(Arrived { datagrams, bytes, at_ns, is_whole });
        }
        let grace_ns = (GRACE_SET_UPS * self.set_up_ns).clamp(MIN_GRACE_NS, MAX_RETRY_NS);
        let lost_at = *self.lost_at_ns.get_or_insert(now_ns.saturating_add(grace_ns));
        self.is_over = is_whole || now_ns >= lost_at;
        // The server is asked once more then.
        self.retry_at_ns = lost_at.max(now_ns);
        self.retry_ns = RETRY_NS;
        true
    }
}

/// What the server has counted of a transfer.
#[derive(Debug, Clone, Copy)]
struct Counts {
    number: u64,
    /// Sequence number of the flow's next datagram when it was opened: earlier ones are those of another transfer from this port.
    first: u64,
    datagrams: u64,
    bytes: u64,
    /// When the last of them arrived.
    arrived_ns: u64,
    last_ns: u64,
    is_ended: bool,
}

/// The server's counts of the transfers of a flow, by the client's ports.
#[derive(Debug, Clone)]
pub struct DatagramTransfers {
    by_port: HashMap<u16, Counts>,
    most: usize,
    sweep_ns: u64,
}

impl DatagramTransfers {
    /// None yet, and `most` at the same time.
    #[must_use]
    pub fn new(most: usize) -> Self {
        DatagramTransfers { by_port: HashMap::new(), most, sweep_ns: 0 }
    }

    /// The client opens transfer `number` from `port`, when the flow's next datagram has the sequence number `first`. `false`: too
    /// many are open.
    pub fn open(&mut self, port: u16, number: u64, first: u64, now_ns: u64) -> bool {
        // A copy of an earlier message opens nothing again.
        if self.by_port.get(&port).is_some_and(|counts| counts.number >= number) {
            return true;
        }
        if self.by_port.len() >= self.most && now_ns >= self.sweep_ns {
            self.sweep_ns = now_ns.saturating_add(SWEEP_NS);
            self.by_port.retain(|_, counts| {
                let keep_ns = if counts.is_ended { KEEP_NS } else { KEEP_SILENT_NS };
                now_ns.saturating_sub(counts.last_ns) < keep_ns
            });
        }
        if self.by_port.len() >= self.most && !self.by_port.contains_key(&port) {
            return false;
        }
        let last_ns = now_ns;
        let new = Counts {
            number,
            first,
            datagrams: 0,
            bytes: 0,
            arrived_ns: now_ns,
            last_ns,
            is_ended: false,
        };
        self.by_port.insert(port, new);
        true
    }

    /// A datagram that was not counted before arrived from `port`.
    pub fn arrived(&mut self, port: u16, sequence: u64, bytes: u64, now_ns: u64) {
        if let Some(counts) = self.by_port.get_mut(&port).filter(|c| c.first <= sequence) {
            counts.datagrams += 1;
            counts.bytes += bytes;
            (counts.arrived_ns, counts.last_ns) = (now_ns, now_ns);
        }
    }

    /// The client has sent transfer `number` from `port`: datagrams and bytes that have arrived, and the time since the last of them,
    /// ns. `None`: it is not open.
    pub fn end(&mut self, port: u16, number: u64, now_ns: u64) -> Option<(u64, u64, u64)> {
        let counts = self.by_port.get_mut(&port).filter(|counts| counts.number == number)?;
        (counts.is_ended, counts.last_ns) = (true, now_ns);
        Some((counts.datagrams, counts.bytes, now_ns.saturating_sub(counts.arrived_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    /// Sends everything that is due until `until_ns`, in steps of the transfer itself; times and sizes of the datagrams.
    fn send(transfer: &mut DatagramTransfer, from_ns: u64) -> Vec<(u64, usize)> {
        let (mut now, mut out) = (from_ns, vec![]);
        loop {
            match transfer.next(now) {
                TransferStep::At(at) => now = at,
                TransferStep::Datagram(bytes) => {
                    transfer.sent(bytes, now);
                    out.push((now, bytes));
                }
                _ => return out,
            }
        }
    }

    fn opened(volume: u64, payload: usize, rate: u64) -> DatagramTransfer {
        let mut transfer = DatagramTransfer::new(volume, payload, rate, 0);
        assert_eq!(transfer.next(0), TransferStep::Open);
        transfer.asked(0);
        assert!(transfer.opened(20 * MS));
        transfer
    }

    #[test]
    fn datagrams_are_paced_and_the_last_one_is_the_rest() {
        let mut transfer = opened(2500, 1000, 8_000_000);
        let sent = send(&mut transfer, 20 * MS);
        assert_eq!(sent, [(20 * MS, 1000), (21 * MS, 1000), (22 * MS, 500)]);
        assert_eq!(transfer.next(22 * MS), TransferStep::End(3));
        // A rest that has no room for the header is as long as that.
        let mut transfer = opened(1001, 1000, 8_000_000);
        assert_eq!(send(&mut transfer, 20 * MS), [(20 * MS, 1000), (21 * MS, 32)]);
    }

    #[test]
    fn unanswered_messages_are_repeated_at_longer_intervals() {
        let mut transfer = DatagramTransfer::new(10, 100, 1, 5);
        let mut times = vec![];
        let mut now = 5;
        while times.len() < 7 {
            match transfer.next(now) {
                TransferStep::At(at) => now = at,
                step => {
                    assert_eq!(step, TransferStep::Open);
                    transfer.asked(now);
                    times.push((now - 5) / MS);
                }
            }
        }
        assert_eq!(times, [0, 100, 300, 700, 1500, 2500, 3500]);
    }

    #[test]
    fn a_whole_transfer_is_over_with_the_first_count() {
        let mut transfer = opened(2500, 1000, 8_000_000);
        send(&mut transfer, 20 * MS);
        transfer.asked(22 * MS);
        assert!(transfer.counted(0, 3, 2500, 30 * MS));
        let whole = Arrived { datagrams: 3, bytes: 2500, at_ns: 30 * MS, is_whole: true };
        assert_eq!(transfer.next(30 * MS), TransferStep::Over(whole));
    }

    #[test]
    fn missing_datagrams_are_lost_after_the_grace_period_only() {
        let mut transfer = opened(3000, 1000, 8_000_000);
        send(&mut transfer, 20 * MS);
        transfer.asked(22 * MS);
        assert!(transfer.counted(0, 1, 1000, 40 * MS));
        // 4 × 20 ms for what may be late; then the server is asked again.
        assert_eq!(transfer.next(40 * MS), TransferStep::At(120 * MS));
        assert_eq!(transfer.next(120 * MS), TransferStep::End(3));
        transfer.asked(120 * MS);
        assert!(transfer.counted(0, 2, 2000, 140 * MS));
        let part = Arrived { datagrams: 2, bytes: 2000, at_ns: 140 * MS, is_whole: false };
        assert_eq!(transfer.next(140 * MS), TransferStep::Over(part));
    }

    #[test]
    fn the_end_is_when_the_last_arrival_was_known() {
        let mut transfer = opened(3000, 1000, 8_000_000);
        send(&mut transfer, 20 * MS);
        assert!(transfer.counted(0, 2, 2000, 40 * MS));
        assert!(transfer.counted(90 * MS, 2, 2000, 130 * MS));
        let TransferStep::Over(arrived) = transfer.next(130 * MS) else { panic!() };
        assert_eq!((arrived.at_ns, arrived.is_whole), (40 * MS, false));
    }

    #[test]
    fn lost_messages_do_not_lengthen_a_transfer() {
        let mut transfer = opened(3000, 1000, 8_000_000);
        send(&mut transfer, 20 * MS);
        // The first two counts were lost: the third is 300 ms older.
        assert!(transfer.counted(300 * MS, 3, 3000, 330 * MS));
        let TransferStep::Over(arrived) = transfer.next(330 * MS) else { panic!() };
        assert_eq!(arrived.at_ns, 30 * MS);
        // What a server claims can't be before the last datagram.
        let mut transfer = opened(3000, 1000, 8_000_000);
        send(&mut transfer, 20 * MS);
        assert!(transfer.counted(u64::MAX, 3, 3000, 330 * MS));
        let TransferStep::Over(arrived) = transfer.next(330 * MS) else { panic!() };
        assert_eq!(arrived.at_ns, 22 * MS);
    }

    #[test]
    fn impossible_counts_are_refused_and_early_ones_ignored() {
        let mut transfer = opened(3000, 1000, 8_000_000);
        assert!(transfer.counted(0, 9, 9, 20 * MS));
        send(&mut transfer, 20 * MS);
        for (datagrams, bytes) in [(4, 3000), (3, 3001)] {
            assert!(!transfer.counted(0, datagrams, bytes, 30 * MS));
        }
        assert!(!transfer.opened(30 * MS));
        assert!(matches!(transfer.next(30 * MS), TransferStep::End(3)));
    }

    #[test]
    fn a_server_counts_by_port_and_number() {
        let mut server = DatagramTransfers::new(2);
        assert!(server.open(1000, 5, 70, 0));
        server.arrived(1000, 70, 100, 1);
        server.arrived(2000, 71, 100, 1);
        // A copy of the message that opened it, and a late one of an earlier transfer from the port.
        assert!(server.open(1000, 5, 70, 2) && server.open(1000, 4, 60, 2));
        server.arrived(1000, 72, 50, 2);
        assert_eq!(server.end(1000, 5, 3), Some((2, 150, 1)));
        assert_eq!((server.end(1000, 4, 3), server.end(2000, 5, 3)), (None, None));
        // The next transfer from the same port, after which a datagram of the one before arrives.
        assert!(server.open(1000, 6, 75, 4));
        server.arrived(1000, 74, 100, 4);
        assert_eq!(server.end(1000, 6, 4), Some((0, 0, 0)));
        server.arrived(1000, 75, 100, 5);
        assert_eq!(server.end(1000, 6, 5), Some((1, 100, 0)));
    }

    #[test]
    fn a_server_forgets_what_is_over_when_it_has_no_room() {
        let mut server = DatagramTransfers::new(2);
        let open = |server: &mut DatagramTransfers, n: u16, now| server.open(n, n.into(), 0, now);
        assert!(open(&mut server, 1, 0) && open(&mut server, 2, 0));
        assert!(!open(&mut server, 3, 1));
        server.end(1, 1, 1);
        assert!(!open(&mut server, 3, KEEP_NS));
        assert!(open(&mut server, 3, KEEP_NS + SWEEP_NS));
        assert!(!open(&mut server, 4, KEEP_NS + 2 * SWEEP_NS));
        assert!(open(&mut server, 4, KEEP_SILENT_NS));
    }

    proptest! {
        #[test]
        fn the_volume_is_sent_and_no_more(volume in 1u64..1_000_000, payload in 32usize..65_507, rate in 1u64..1 << 40) {
            let mut transfer = opened(volume, payload, rate);
            let sent = send(&mut transfer, 20 * MS);
            let bytes: usize = sent.iter().map(|(_, bytes)| bytes).sum();
            prop_assert_eq!(sent.len() as u64, volume.div_ceil(payload as u64));
            prop_assert!(bytes as u64 >= volume && (bytes as u64) < volume + 32);
            prop_assert!(sent.iter().all(|(_, bytes)| (32..=payload).contains(bytes)));
        }
    }
}
